/* A task of a group that copies files: `copier LOG TASK FILE...`.
 *
 * Each file in the folder `in` is a partition; FILE... are the initial ones. The tasks of the
 * group share the files and copy them line by line, as long as one task is alive. The last line of
 * a file is "=> CHILD...", the files that continue it, or "=>" if there are none. A task appends
 * the lines to the file of the same name in the folder `out`, which rejects a task that was
 * replaced (copier_out.h).
 *
 * Copying is at-least-once: a reader is at most WINDOW lines ahead of the position in the group's
 * log, so at most that many lines are copied twice when its task dies. None is lost. */
#include "copier_out.h"

#include <errno.h>
#include <rota/rota.h>
#include <signal.h>
#include <uv.h>

enum { WINDOW = 20, TICK_MS = 10, SEEDS_MAX = 16, NAME_SIZE = 256 };

struct reader {
    char name[NAME_SIZE]; /* of a file that we copy */
    uint64_t token;
    int64_t line, committed; /* lines copied, and those of them that are in the log */
    FILE *in;
    int out;
    struct reader *next;
};

static struct rota_group *group;
static struct reader *readers;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "copier: %s: %s\n", what, why);
    exit(1);
}

static void say(const char *what, const struct reader *reader)
{
    printf("%s %s token=%" PRIu64 " line=%" PRId64 "\n", what, reader->name, reader->token,
           reader->line);
}

static struct reader *find_reader(struct rota_str name)
{
    struct reader *reader = readers;
    while (reader && !rota_str_is_equal(rota_str(reader->name), name))
        reader = reader->next;
    return reader;
}

static void end_reader(struct reader *reader)
{
    struct reader **at = &readers;
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    fclose(reader->in);
    close(reader->out);
    free(reader);
}

/* If we die, the next task reads this line again and reports the same children. */
static void finish(struct reader *reader, char *children)
{
    struct rota_str name = rota_str(reader->name);
    struct rota_error error;
    bool is_end = children[strspn(children, " ")] == '\0';
    char *rest;
    for (char *word = strtok_r(children, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        struct rota_group_child child = {
            .name = rota_str(word), .parents = &name, .n_parents = 1, .position = rota_str("0")};
        if (rota_group_child(group, name, reader->token, &child, &error))
            fail(word, error.text);
    }
    if (rota_group_finish(group, name, reader->token, is_end, &error))
        fail(reader->name, error.text);
    say("finish", reader);
    end_reader(reader);
}

/* A process may be paused anywhere, for any time, so check ownership right before each effect. If
 * the process is paused after the check, the receiver rejects its old token. */
static bool copy(struct reader *reader, const char *line)
{
    bool is_ours = rota_group_is_current(group, rota_str(reader->name), reader->token) &&
                   out_write(reader->out, reader->token, line);
    reader->line += is_ours;
    return is_ours;
}

static void read_on(struct reader *reader)
{
    char line[LINE_SIZE], position[32];
    long at = ftell(reader->in), before = at;
    while (reader->line < reader->committed + WINDOW && fgets(line, sizeof line, reader->in)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "=>", 2) == 0) {
            finish(reader, line + 2);
            return;
        }
        if (!copy(reader, line))
            break;
        at = ftell(reader->in);
    }
    fseek(reader->in, at, SEEK_SET);
    snprintf(position, sizeof position, "%ld", at);
    if (at > before)
        rota_group_progress(group, rota_str(reader->name), reader->token, reader->line,
                            rota_str(position), NULL);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    for (struct reader *reader = readers, *next; reader; reader = next) {
        next = reader->next;
        read_on(reader);
    }
}

static void on_start(void *data, const struct rota_group_grant *grant)
{
    struct reader *reader = calloc(1, sizeof *reader);
    char text[NAME_SIZE + 16];
    (void)data;
    snprintf(reader->name, NAME_SIZE, "%.*s", ROTA_STR_ARGS(grant->partition));
    reader->token = grant->token;
    reader->line = reader->committed = grant->mark;
    snprintf(text, sizeof text, "in/%s", reader->name);
    reader->in = fopen(text, "re");
    reader->out = out_open("out", reader->name);
    if (!reader->in || reader->out < 0)
        fail(reader->name, strerror(errno));
    snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(grant->position));
    fseek(reader->in, atol(text), SEEK_SET);
    reader->next = readers;
    readers = reader;
    say("start", reader);
}

static void on_stop(void *data, struct rota_str partition, uint64_t token)
{
    (void)data;
    say("stop", find_reader(partition));
    end_reader(find_reader(partition));
    rota_group_stopped(group, partition, token);
}

static void on_news(void *data, const struct rota_group_news *news)
{
    struct reader *reader = find_reader(news->partition);
    (void)data;
    if (news->type == ROTA_GROUP_NEWS_PROGRESS && reader && reader->token == news->token)
        reader->committed = news->mark;
}

static void on_failed(void *data, const struct rota_error *error)
{
    (void)data;
    fail("the group", error->text);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    rota_group_close(group, NULL, NULL);
    uv_close((uv_handle_t *)signal, NULL);
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    uv_timer_t timer;
    uv_signal_t signal;
    struct rota_error error;
    struct rota_group_seed seeds[SEEDS_MAX];
    struct rota_group_options options = {.name = "copier",
                                         .seeds = seeds,
                                         .on_start = on_start,
                                         .on_stop = on_stop,
                                         .on_news = on_news,
                                         .on_failed = on_failed,
                                         .progress_every = 50 * ROTA_MSEC};
    if (argc < 4 || argc - 3 > SEEDS_MAX)
        fail("usage", "copier LOG TASK FILE...");
    options.log_url = argv[1], options.task = argv[2];
    for (int i = 3; i < argc; i++)
        seeds[options.n_seeds++] = (struct rota_group_seed){rota_str(argv[i]), 0, rota_str("0")};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (rota_group_open(loop, &options, &group, &error))
        fail(argv[1], error.text);
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    uv_unref((uv_handle_t *)&timer);
    uv_signal_init(loop, &signal);
    uv_signal_start(&signal, on_signal, SIGTERM);
    return uv_run(loop, UV_RUN_DEFAULT);
}
