/* A task of Rota's group: `group_rota URL GROUP TASK MEMBERS PARTITIONS SESSION_MS`.
 *
 * It prints "ready" when an epoch has all members, then tallies (tally.h). SIGUSR1 sets a
 * base; SIGUSR2 makes all partitions, which are shared among all members; SIGHUP has it
 * split SPLITS of its own, one after the other. Nothing is read: what is measured is who
 * has what, and when. */
#include "tally.h"

#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

enum { SPLITS = 50, SPLIT_EVERY_MS = 20 };

static struct rota_group *group;
static size_t n_members, n_partitions;
static uint64_t tokens[TALLY_MAX];
static size_t split_at, n_split;
static bool is_ready;

/* Of "p17": 17. Children, "p17.0", have none. */
static bool parse(struct rota_str name, size_t *partition)
{
    char text[32], *end;
    snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(name));
    *partition = strtoul(text + 1, &end, 10);
    return *end == '\0';
}

static void on_start(void *data, const struct rota_group_grant *grant)
{
    size_t partition;
    (void)data;
    if (!parse(grant->partition, &partition))
        return;
    tally_start(partition);
    tokens[partition] = grant->token;
}

static void on_stop(void *data, struct rota_str name, uint64_t token)
{
    size_t partition;
    (void)data;
    if (parse(name, &partition))
        tally_stop(partition);
    rota_group_stopped(group, name, token);
}

static void on_news(void *data, const struct rota_group_news *news)
{
    (void)data;
    if (news->type >= ROTA_GROUP_NEWS_OWN && news->type <= ROTA_GROUP_NEWS_MOVE)
        tally_change();
    if (news->type != ROTA_GROUP_NEWS_EPOCH || news->n_tasks != n_members || is_ready)
        return;
    is_ready = true;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        exit(1);
}

static void on_failed(void *data, const struct rota_error *error)
{
    (void)data;
    tally_fail("%s", error->text);
}

static void make_all(void)
{
    struct rota_error error;
    for (size_t i = 0; i < n_partitions; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%zu", i);
        struct rota_group_seed seed = {.name = rota_str(name), .position = rota_str("0")};
        if (rota_group_add(group, &seed, &error))
            tally_fail("%s", error.text);
    }
}

static void split(size_t partition)
{
    char name[32], child_name[40];
    struct rota_error error;
    snprintf(name, sizeof name, "p%zu", partition);
    struct rota_str parent = rota_str(name);
    for (int i = 0; i < 2; i++) {
        snprintf(child_name, sizeof child_name, "%s.%d", name, i);
        struct rota_group_child child = {.name = rota_str(child_name),
                                         .parents = &parent,
                                         .n_parents = 1,
                                         .position = rota_str("0")};
        if (rota_group_child(group, parent, tokens[partition], &child, &error))
            tally_fail("%s", error.text);
    }
    if (rota_group_finish(group, parent, tokens[partition], false, &error))
        tally_fail("%s", error.text);
}

static void on_split(uv_timer_t *timer)
{
    while (split_at < n_partitions && !tally_has(split_at))
        split_at++;
    if (split_at == n_partitions || n_split++ == SPLITS) {
        uv_timer_stop(timer);
        return;
    }
    split(split_at++);
}

static void on_signal(uv_signal_t *handle, int number)
{
    if (number == SIGUSR1)
        tally_base();
    else if (number == SIGUSR2)
        make_all();
    else
        uv_timer_start(handle->data, on_split, 0, SPLIT_EVERY_MS);
}

static void on_check(uv_check_t *check)
{
    (void)check;
    tally_print();
}

int main(int argc, char **argv)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGHUP};
    uv_loop_t *loop = uv_default_loop();
    uv_signal_t signals[3];
    uv_check_t check;
    uv_timer_t timer;
    struct rota_error error;
    if (argc != 7)
        tally_fail("usage: group_rota URL GROUP TASK MEMBERS PARTITIONS SESSION_MS");
    n_members = strtoul(argv[4], NULL, 10);
    n_partitions = strtoul(argv[5], NULL, 10);
    struct rota_group_options options = {
        .log_url = argv[1],
        .name = argv[2],
        .task = argv[3],
        .session = atol(argv[6]) * ROTA_MSEC,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_news = on_news,
        .on_failed = on_failed,
    };
    uv_timer_init(loop, &timer);
    for (int i = 0; i < 3; i++) {
        uv_signal_init(loop, &signals[i]);
        signals[i].data = &timer;
        uv_signal_start(&signals[i], on_signal, numbers[i]);
    }
    uv_check_init(loop, &check);
    uv_check_start(&check, on_check);
    if (rota_group_open(loop, &options, &group, &error))
        tally_fail("%s", error.text);
    return uv_run(loop, UV_RUN_DEFAULT);
}
