#include "cli/own/group_join.h"

#include "base/json.h"
#include "base/map.h"
#include "base/vector.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "io/clock.h"
#include "sim/splits.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define TICK (100 * ROTA_MSEC)

/* How long closed handles may take to finish. */
#define GRACE (2 * ROTA_SEC)

struct reader {
    char *name;
    uint64_t token;
    int64_t row;
    bool is_gone;
};

struct join {
    const struct rota_group_join_options *options;
    struct rota_log log;
    uv_loop_t loop;
    struct rota_signals signals;
    uv_timer_t tick;
    struct rota_group *group;
    uint64_t incarnation;

    ROTA_VECTOR(struct reader *) readers; /* ended ones are freed now and then */
    struct rota_map by_name;
    double rows_due;
    uint64_t rows_mean; /* between splits and merges of a partition; 0: none */

    struct rota_buffer line;
    struct rota_json json;
    bool is_leaving, is_closed, is_forced, is_mute;
    int exit_code;
};

/* --- lines --- */

static void on_closed(void *data);

static void leave(struct join *join)
{
    if (join->is_leaving)
        return;
    join->is_leaving = true;
    rota_group_close(join->group, on_closed, join);
}

static void begin_line_of(struct join *join, const char *event, rota_time at, uint64_t incarnation)
{
    rota_buffer_clear(&join->line);
    join->json = (struct rota_json){.buffer = &join->line};
    rota_json_begin_object(&join->json);
    rota_json_add_text(&join->json, "event", event);
    rota_json_add_int(&join->json, "at", at);
    rota_json_add_string(&join->json, "task", rota_str(join->options->task));
    rota_json_add_uint(&join->json, "incarnation", incarnation);
}

static void begin_line(struct join *join, const char *event, rota_time at)
{
    begin_line_of(join, event, at, join->incarnation);
}

/* If standard output is closed, the task leaves. */
static void end_line(struct join *join)
{
    rota_json_end_object(&join->json);
    rota_buffer_append_char(&join->line, '\n');
    if (join->is_mute)
        return;
    if (!join->line.failed) {
        fwrite(join->line.data, 1, join->line.size, stdout);
        fflush(stdout);
    }
    if (join->line.failed || !rota_cli_can_print()) {
        join->is_mute = true;
        join->exit_code = ROTA_CLI_NO;
        leave(join);
    }
}

static void print_of(struct join *join, const char *event, struct rota_str partition,
                     uint64_t token)
{
    begin_line(join, event, rota_clock_boot());
    rota_json_add_string(&join->json, "partition", partition);
    rota_json_add_uint(&join->json, "token", token);
    end_line(join);
}

/* --- readers --- */

static void reader_free(struct reader *reader)
{
    free(reader->name);
    free(reader);
}

static void die_without_memory(struct join *join)
{
    join->exit_code = rota_cli_fail(ROTA_CLI_NO, "not enough memory for a partition");
    leave(join);
}

static void on_start(void *data, const struct rota_group_grant *grant)
{
    struct join *join = data;
    struct reader *reader = calloc(1, sizeof *reader);
    begin_line(join, "start", rota_clock_boot());
    rota_json_add_string(&join->json, "partition", grant->partition);
    rota_json_add_uint(&join->json, "token", grant->token);
    rota_json_add_int(&join->json, "mark", grant->mark);
    rota_json_add_string(&join->json, "position", grant->position);
    rota_json_add_strings(&join->json, "parents", grant->parents, grant->n_parents);
    end_line(join);
    if (reader)
        reader->name = strndup(grant->partition.data, grant->partition.size);
    if (!reader || !reader->name || !rota_vector_push(&join->readers, reader)) {
        free(reader);
        die_without_memory(join);
        return;
    }
    reader->token = grant->token;
    reader->row = grant->mark;
    if (!rota_map_put(&join->by_name, rota_str(reader->name), reader))
        die_without_memory(join);
}

static void reader_end(struct join *join, struct reader *reader)
{
    rota_map_remove(&join->by_name, rota_str(reader->name));
    reader->is_gone = true;
}

static void on_stop(void *data, struct rota_str partition, uint64_t token)
{
    struct join *join = data;
    struct reader *reader = rota_map_get(&join->by_name, partition);
    print_of(join, "stop", partition, token);
    if (reader)
        reader_end(join, reader);
    print_of(join, "stopped", partition, token);
    rota_group_stopped(join->group, partition, token);
}

static void report_end(struct join *join, struct reader *reader)
{
    struct rota_splits_child children[2];
    size_t n = rota_splits_children(rota_str(reader->name), children);
    char position[32];
    struct rota_error error;
    enum rota_code code = ROTA_OK;
    snprintf(position, sizeof position, "%lld", (long long)reader->row);
    for (size_t i = 0; i < n && !code; i++) {
        const struct rota_str parents[2] = {rota_str(children[i].parents[0]),
                                            rota_str(children[i].parents[1])};
        const struct rota_group_child child = {.name = rota_str(children[i].name),
                                               .parents = parents,
                                               .n_parents = children[i].n_parents,
                                               .mark = reader->row,
                                               .position = rota_str(position)};
        code = rota_group_child(join->group, rota_str(reader->name), reader->token, &child, &error);
    }
    if (!reader->is_gone)
        reader_end(join, reader);
    if (!code)
        code = rota_group_finish(join->group, rota_str(reader->name), reader->token, false, &error);
    if (code) {
        join->exit_code = rota_cli_fail_error(&error);
        leave(join);
    }
}

/* Read some more rows. The effect is the printed line; right before it we check the token. The
 * line's timestamp is from before that check: a process that is paused between the two prints
 * later, when it may no longer own the partition. */
static void read_rows(struct join *join, struct reader *reader, int64_t n_rows)
{
    struct rota_str name = rota_str(reader->name);
    rota_time at = rota_clock_boot();
    int64_t from = reader->row, to = from + n_rows;
    int64_t end = rota_splits_end(name, from, to, join->rows_mean);
    char position[32];
    struct rota_error error;
    if (end)
        to = end;
    snprintf(position, sizeof position, "%lld", (long long)to);
    if (!rota_group_is_current(join->group, name, reader->token))
        return;
    begin_line(join, "read", at);
    rota_json_add_string(&join->json, "partition", name);
    rota_json_add_uint(&join->json, "token", reader->token);
    rota_json_add_int(&join->json, "from", from);
    rota_json_add_int(&join->json, "to", to);
    end_line(join);
    reader->row = to;
    if (rota_group_progress(join->group, name, reader->token, to, rota_str(position), &error)) {
        join->exit_code = rota_cli_fail_error(&error);
        leave(join);
    } else if (end && !reader->is_gone) {
        report_end(join, reader);
    }
}

static void sweep(struct join *join)
{
    size_t kept = 0;
    for (size_t i = 0; i < join->readers.size; i++) {
        if (join->readers.items[i]->is_gone)
            reader_free(join->readers.items[i]);
        else
            join->readers.items[kept++] = join->readers.items[i];
    }
    join->readers.size = kept;
}

static void on_tick(uv_timer_t *timer)
{
    struct join *join = timer->data;
    join->rows_due += (double)join->options->rate * TICK / ROTA_SEC;
    int64_t n_rows = (int64_t)join->rows_due;
    join->rows_due -= (double)n_rows;
    for (size_t i = 0, n = join->readers.size; n_rows > 0 && i < n && !join->is_leaving; i++)
        if (!join->readers.items[i]->is_gone)
            read_rows(join, join->readers.items[i], n_rows);
    sweep(join);
}

/* --- news --- */

static void add_offset(struct join *join, const struct rota_group_news *news)
{
    rota_json_add_uint(&join->json, "offset", news->offset);
}

static void add_news(struct join *join, const struct rota_group_news *news)
{
    switch (news->type) {
    case ROTA_GROUP_NEWS_READY:
        add_offset(join, news);
        break;
    case ROTA_GROUP_NEWS_JOINED:
        rota_json_add_uint(&join->json, "generation", news->generation);
        break;
    case ROTA_GROUP_NEWS_EPOCH:
        rota_json_add_uint(&join->json, "epoch", news->epoch);
        add_offset(join, news);
        rota_json_add_bool(&join->json, "is_leader", news->is_leader);
        rota_json_add_strings(&join->json, "tasks", news->tasks, news->n_tasks);
        break;
    case ROTA_GROUP_NEWS_OWN:
    case ROTA_GROUP_NEWS_SHARE:
        rota_json_add_strings(&join->json, "parents", news->parents, news->n_parents);
        if (news->type == ROTA_GROUP_NEWS_SHARE)
            rota_json_add_string(&join->json, "target", news->target);
        add_offset(join, news);
        break;
    case ROTA_GROUP_NEWS_TAKE:
    case ROTA_GROUP_NEWS_REMOVE:
        add_offset(join, news);
        break;
    case ROTA_GROUP_NEWS_MOVE:
        rota_json_add_string(&join->json, "target", news->target);
        add_offset(join, news);
        break;
    case ROTA_GROUP_NEWS_PROGRESS:
    case ROTA_GROUP_NEWS_FINISH:
        rota_json_add_uint(&join->json, "token", news->token);
        if (news->type == ROTA_GROUP_NEWS_PROGRESS)
            rota_json_add_int(&join->json, "mark", news->mark);
        add_offset(join, news);
        break;
    case ROTA_GROUP_NEWS_WATERMARK:
        rota_json_add_int(&join->json, "mark", news->mark);
        break;
    case ROTA_GROUP_NEWS_SKIPPED:
        add_offset(join, news);
        rota_json_add_string(&join->json, "reason", rota_str(news->reason));
        break;
    case ROTA_GROUP_NEWS_REFUSED:
    case ROTA_GROUP_NEWS_LOST:
    case ROTA_GROUP_NEWS_UNREACHABLE:
        rota_json_add_string(&join->json, "reason", rota_str(news->reason));
        break;
    }
}

static void on_news(void *data, const struct rota_group_news *news)
{
    struct join *join = data;
    if (join->incarnation < news->incarnation) /* else it is from an earlier run, and they grow */
        join->incarnation = news->incarnation;
    begin_line_of(join, rota_group_news_name(news->type), news->at, news->incarnation);
    if (news->partition.size > 0)
        rota_json_add_string(&join->json, "partition", news->partition);
    add_news(join, news);
    end_line(join);
}

static void on_failed(void *data, const struct rota_error *error)
{
    struct join *join = data;
    begin_line(join, "failed", rota_clock_boot());
    rota_json_add_string(&join->json, "reason", rota_str(error->text));
    end_line(join);
    join->exit_code = ROTA_CLI_NO; /* the log on standard error says why */
    leave(join);
}

/* --- its life --- */

static void on_closed(void *data)
{
    struct join *join = data;
    join->is_closed = true;
    begin_line(join, "left", rota_clock_boot());
    end_line(join);
    uv_stop(&join->loop);
}

static void on_signal(void *data)
{
    struct join *join = data;
    if (join->is_leaving) {
        join->is_forced = true;
        join->exit_code = ROTA_CLI_NO;
        uv_stop(&join->loop);
    }
    leave(join);
}

/* Gives `*seeds` and their names in `*text`. */
static bool make_seeds(size_t n, struct rota_group_seed **seeds, char **text)
{
    enum { NAME_SIZE = 24 };
    *seeds = calloc(n + 1, sizeof **seeds);
    *text = calloc(n + 1, NAME_SIZE);
    for (size_t i = 0; *seeds && *text && i < n; i++) {
        char *name = *text + i * NAME_SIZE;
        snprintf(name, NAME_SIZE, "p%zu", i);
        (*seeds)[i] = (struct rota_group_seed){.name = rota_str(name), .position = rota_str("0")};
    }
    return *seeds && *text;
}

static enum rota_code open_group(struct join *join, struct rota_error *error)
{
    const struct rota_group_join_options *o = join->options;
    struct rota_group_seed *seeds = NULL;
    char *text = NULL;
    enum rota_code code = ROTA_OK;
    if (!make_seeds((size_t)o->partitions, &seeds, &text))
        code = rota_error_no_memory(error, "for %lld partitions", (long long)o->partitions);
    const struct rota_group_options options = {
        .log_url = o->log,
        .name = o->name,
        .task = o->task,
        .session = o->session,
        .stop_within = o->stop_within,
        .progress_every = o->progress,
        .withdraw_after = o->withdraw,
        .move_every = o->balance,
        .seeds = seeds,
        .n_seeds = (size_t)o->partitions,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_news = on_news,
        .on_failed = on_failed,
        .log = &join->log,
        .data = join,
    };
    if (!code)
        code = rota_group_open(&join->loop, &options, &join->group, error);
    free(seeds);
    free(text);
    return code;
}

static void open_handles(struct join *join)
{
    rota_signals_open(&join->signals, &join->loop, rota_signals_end, on_signal, join);
    uv_timer_init(&join->loop, &join->tick);
    join->tick.data = join;
    signal(SIGPIPE, SIG_IGN); /* a closed output ends the task gracefully, too */
    if (join->options->rate > 0)
        uv_timer_start(&join->tick, on_tick, TICK / ROTA_MSEC, TICK / ROTA_MSEC);
}

static void end(struct join *join)
{
    rota_signals_close(&join->signals);
    uv_close((uv_handle_t *)&join->tick, NULL);
    rota_cli_end_loop(&join->loop, GRACE);
    for (size_t i = 0; i < join->readers.size; i++)
        reader_free(join->readers.items[i]);
    rota_vector_deinit(&join->readers);
    rota_map_deinit(&join->by_name);
    rota_buffer_deinit(&join->line);
}

int rota_group_join_run(const struct rota_group_join_options *options)
{
    static struct join join; /* static: it stays if the loop can't be ended in time */
    struct rota_error error;
    double mean = options->splits > 0 ? (double)options->rate / options->splits : 0;
    join.options = options;
    join.log = (struct rota_log){.level = options->log_level, .write = rota_cli_write_log};
    join.rows_mean = options->splits > 0 ? (uint64_t)(mean > 1 ? mean : 1) : 0;
    rota_map_init(&join.by_name, 0);
    if (uv_loop_init(&join.loop))
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    open_handles(&join);
    if (open_group(&join, &error))
        join.exit_code = rota_cli_fail_error(&error);
    else
        uv_run(&join.loop, UV_RUN_DEFAULT);
    if (!join.is_forced)
        end(&join);
    return join.exit_code;
}
