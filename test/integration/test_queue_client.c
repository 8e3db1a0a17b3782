/* <rota/queue.h> with three brokers on one loop, over real gRPC. */
#include "three_brokers.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What was answered last. */
struct told {
    size_t n, n_works;
    enum rota_code code;
    enum rota_queue_state state;
    char job[ROTA_QUEUE_JOB_MAX], text[300], bytes[100];
    uint64_t attempt;
    bool is_new;
};

static void on_result(void *data, const struct rota_queue_result *result)
{
    struct told *told = data;
    told->n++;
    told->code = result->code;
    told->state = result->state;
    told->is_new = result->is_new;
    snprintf(told->job, sizeof told->job, "%s", result->job);
    snprintf(told->text, sizeof told->text, "%s", result->text);
    snprintf(told->bytes, sizeof told->bytes, "%.*s", ROTA_STR_ARGS(result->result));
}

static void on_work(void *data, const struct rota_queue_result *result,
                    const struct rota_queue_work *works, size_t n)
{
    struct told *told = data;
    on_result(told, result);
    told->n_works = n;
    if (n == 0)
        return;
    snprintf(told->job, sizeof told->job, "%s", works[0].job);
    snprintf(told->bytes, sizeof told->bytes, "%.*s", ROTA_STR_ARGS(works[0].payload));
    told->attempt = works[0].attempt;
}

static void add(struct world *world, const char *payload, const char *unique, struct told *told)
{
    struct rota_queue_job job = {
        .queue = rota_str("q"), .payload = rota_str(payload), .unique = rota_str(unique)};
    *told = (struct told){0};
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, told, NULL), ROTA_OK);
    await(&world->loop, &told->n, 1);
}

static bool poll_once(struct world *world, struct told *told)
{
    struct rota_queue_wanted wanted = {.queue = rota_str("q"), .wait = ROTA_MSEC};
    *told = (struct told){0};
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, told, NULL), ROTA_OK);
    await(&world->loop, &told->n, 1);
    assert_int_equal(told->code, ROTA_OK);
    return told->n_works > 0;
}

static void a_job_is_added_worked_on_and_waited_for(void **state)
{
    struct world *world = *state;
    struct told added, work, done, ended = {0}, seen = {0};
    add(world, "hello", "", &added);
    assert_int_equal(added.code, ROTA_OK);
    assert_true(added.is_new);
    assert_int_equal(rota_queue_wait(world->queue, added.job, on_result, &ended, NULL), ROTA_OK);
    while (!poll_once(world, &work)) {
    }
    assert_string_equal(work.job, added.job);
    assert_string_equal(work.bytes, "hello");
    done = (struct told){0};
    assert_int_equal(rota_queue_extend(world->queue, work.job, work.attempt, 0, rota_str("half"),
                                       on_result, &done, NULL),
                     ROTA_OK);
    await(&world->loop, &done.n, 1);
    assert_int_equal(done.code, ROTA_OK);
    assert_int_equal(rota_queue_complete(world->queue, work.job, work.attempt, rota_str("world"),
                                         on_result, &done, NULL),
                     ROTA_OK);
    await(&world->loop, &done.n, 2);
    assert_int_equal(done.code, ROTA_OK);
    await(&world->loop, &ended.n, 1);
    assert_int_equal(ended.state, ROTA_QUEUE_DONE);
    assert_string_equal(ended.bytes, "world");
    assert_int_equal(rota_queue_look(world->queue, added.job, on_result, &seen, NULL), ROTA_OK);
    await(&world->loop, &seen.n, 1);
    assert_int_equal(seen.state, ROTA_QUEUE_DONE);
    assert_int_equal(rota_queue_fail(world->queue, work.job, work.attempt + 1, rota_str("late"),
                                     false, on_result, &done, NULL),
                     ROTA_OK);
    await(&world->loop, &done.n, 3);
    assert_int_equal(done.code, ROTA_ERR_STALE);
}

static void jobs_go_to_all_nodes_and_skip_an_unreachable_one(void **state)
{
    struct world *world = *state;
    struct told told;
    for (int i = 0; i < 60; i++) {
        add(world, "x", "", &told);
        assert_int_equal(told.code, ROTA_OK);
    }
    for (int i = 0; i < NODES; i++)
        assert_true(rota_work_broker_counts(world->brokers[i]).jobs > 0);
    close_node(world, 1);
    size_t n_unknown = 0;
    for (int i = 0; i < 20; i++) {
        add(world, "x", "", &told);
        n_unknown += told.code == ROTA_ERR_UNKNOWN;
        if (told.code != ROTA_ERR_UNKNOWN)
            assert_int_equal(told.code, ROTA_OK);
    }
    assert_true(n_unknown <= 1); /* the one that was in flight when the node went */
}

static void a_unique_key_is_unique_across_nodes(void **state)
{
    struct world *world = *state;
    struct told first, second, cancelled = {0};
    add(world, "x", "once", &first);
    add(world, "y", "once", &second);
    assert_true(first.is_new);
    assert_false(second.is_new);
    assert_string_equal(first.job, second.job);
    assert_int_equal(rota_queue_cancel(world->queue, first.job, on_result, &cancelled, NULL),
                     ROTA_OK);
    await(&world->loop, &cancelled.n, 1);
    assert_int_equal(cancelled.code, ROTA_OK);
    add(world, "z", "once", &second);
    assert_true(second.is_new);
}

static void a_client_follows_a_queue_that_gets_fewer_partitions(void **state)
{
    struct world *world = *state;
    char key[8];
    struct told told;
    lay_out(world, "q", 2);
    for (int i = 0; i < 40; i++) {
        struct rota_job_id id;
        snprintf(key, sizeof key, "%s%d", i % 2 ? "k" : "", i);
        add(world, "x", i % 2 ? key : "", &told);
        assert_int_equal(told.code, ROTA_OK);
        assert_true(told.is_new);
        assert_int_equal(rota_job_id_parse(rota_str(told.job + 2), &id, NULL), ROTA_OK);
        assert_true(rota_job_id_partition(id) < 2);
        if (i % 2) {
            add(world, "x", key, &told);
            assert_false(told.is_new);
        }
    }
}

/* In place of the client that there is. */
static void open_client(struct world *world, struct rota_queue_options options)
{
    rota_queue_close(world->queue);
    options.nodes = world->nodes;
    assert_int_equal(rota_queue_open(&world->loop, &options, &world->queue, NULL), ROTA_OK);
}

/* What is not done at the first try has failed. */
#define IMPATIENT ((struct rota_queue_options){.patience = ROTA_MSEC})

static void a_node_that_is_down_is_skipped_until_it_is_back(void **state)
{
    struct world *world = *state;
    struct told told;
    char address[64];
    open_client(world, IMPATIENT);
    for (int i = 0; i < 30; i++)
        add(world, "x", "", &told);
    snprintf(address, sizeof address, "%s", rota_server_address(world->servers[1], 0));
    close_node(world, 1);
    for (int i = 0; i < 20; i++) /* until it is noticed */
        add(world, "x", "", &told);
    for (int i = 0; i < 100; i++) {
        poll_once(world, &told); /* each is well at the first try */
        add(world, "x", "", &told);
        assert_int_equal(told.code, ROTA_OK);
    }
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    assert_int_equal(rota_server_open(&world->loop, &with, &world->servers[1], NULL), ROTA_OK);
    assert_int_equal(rota_server_listen(world->servers[1], address, NULL), ROTA_OK);
    open_broker(world, 1);
    while (rota_work_broker_counts(world->brokers[1]).jobs == 0) {
        add(world, "x", "", &told);
        assert_int_equal(told.code, ROTA_OK);
    }
}

static void never_answer(void *data, struct rota_server_call *call)
{
    (void)call;
    ++*(size_t *)data;
}

static void finish_cancelled(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, "", NULL, 0);
}

static void a_poll_leaves_a_node_that_hangs(void **state)
{
    struct world *world = *state;
    struct rota_server *hung;
    size_t n_polls = 0;
    struct told told = {0};
    struct rota_queue_wanted wanted = {.queue = rota_str("q"), .wait = ROTA_MSEC};
    const struct rota_server_method poll = {.path = "/rota.v1.Queue/Poll",
                                            .on_call = never_answer,
                                            .on_cancel = finish_cancelled,
                                            .data = &n_polls};
    assert_int_equal(rota_server_open(&world->loop, NULL, &hung, NULL), ROTA_OK);
    assert_int_equal(rota_server_listen(hung, "127.0.0.1:0", NULL), ROTA_OK);
    assert_int_equal(rota_server_add(hung, &poll, NULL), ROTA_OK);
    snprintf(world->nodes, sizeof world->nodes, "%s", rota_server_address(hung, 0));
    open_client(
        world, (struct rota_queue_options){.timeout = 100 * ROTA_MSEC, .patience = 10 * ROTA_MSEC});
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, &told, NULL), ROTA_OK);
    await(&world->loop, &told.n, 1);
    assert_int_equal(told.n_works, 0);
    assert_int_not_equal(told.code, ROTA_OK);
    assert_true(n_polls > 0);
    rota_server_close(hung);
}

/* As the kernel answers for a node that is stopped: a connection, and nothing on it. */
static int listen_silently(char *address, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    snprintf(address, size, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

static void look_at_a_silent_node(struct world *world, rota_time timeout, struct told *told)
{
    *told = (struct told){0};
    open_client(world, (struct rota_queue_options){.timeout = timeout, .patience = 1});
    assert_int_equal(
        rota_queue_look(world->queue, "q/000000000001000100000000000000aa", on_result, told, NULL),
        ROTA_OK);
    await(&world->loop, &told->n, 1);
    assert_int_equal(told->code, ROTA_ERR_UNAVAILABLE); /* to look has no outcome to be known */
}

static void a_hanging_node_gets_its_timeout_if_there_is_no_other(void **state)
{
    struct world *world = *state;
    struct told told;
    char address[32];
    int fd = listen_silently(address, sizeof address);
    snprintf(world->nodes, sizeof world->nodes, "%s", address);
    look_at_a_silent_node(world, 2 * ROTA_SEC, &told);
    assert_non_null(strstr(told.text, "DEADLINE_EXCEEDED"));
    snprintf(world->nodes, sizeof world->nodes, "%s,127.0.0.2:%s", address, address + 10);
    look_at_a_silent_node(world, ROTA_HOUR, &told); /* with two, each has much less */
    assert_non_null(strstr(told.text, "UNAVAILABLE"));
    close(fd);
}

static void polls_follow_the_owners_of_partitions(void **state)
{
    enum { POLLS = 12 };
    struct world *world = *state;
    struct rota_queue_wanted wanted = {.queue = rota_str("elsewhere")};
    struct told told, polls[POLLS] = {{0}};
    size_t n = 0;
    open_client(world, (struct rota_queue_options){.partitions = 1});
    struct rota_queue_job job = {.queue = wanted.queue};
    told = (struct told){0};
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, &told, NULL), ROTA_OK);
    await(&world->loop, &told.n, 1); /* the layout was asked for before */
    wanted.can = (const struct rota_str[]){rota_str("nothing-here")};
    wanted.n_can = 1;
    for (int i = 0; i < POLLS; i++) /* jobs that need nothing fit, too: one poll gets it */
        assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, &polls[i], NULL), ROTA_OK);
    while (n < POLLS - 1) {
        uv_run(&world->loop, UV_RUN_ONCE);
        n = 0;
        for (int i = 0; i < NODES; i++)
            n += rota_work_broker_counts(world->brokers[i]).polls;
    }
    for (int i = 0; i < NODES; i++)
        assert_true(rota_work_broker_counts(world->brokers[i]).polls > 0);
}

static void a_probe_ignores_patience(void **state)
{
    struct world *world = *state;
    struct told told = {0};
    assert_int_equal(rota_queue_probe(world->queue, on_result, &told, NULL), ROTA_OK);
    await(&world->loop, &told.n, 1);
    assert_int_equal(told.code, ROTA_OK);
    for (int i = 0; i < NODES - 1; i++)
        close_node(world, i);
    assert_int_equal(rota_queue_probe(world->queue, on_result, &told, NULL), ROTA_OK);
    await(&world->loop, &told.n, 2);
    assert_int_equal(told.code, ROTA_OK);
    close_node(world, NODES - 1);
    open_client(world, (struct rota_queue_options){.patience = ROTA_HOUR});
    assert_int_equal(rota_queue_probe(world->queue, on_result, &told, NULL), ROTA_OK);
    await(&world->loop, &told.n, 3);
    assert_int_equal(told.code, ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(told.text, "refused"));
}

static void invalid_arguments_are_reported(void **state)
{
    struct world *world = *state;
    struct rota_queue_job job = {.queue = rota_str("no queue")};
    struct rota_queue_options bad = {.nodes = "nowhere"};
    struct rota_queue *queue;
    struct told told = {0};
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, &told, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_wait(world->queue, "q", on_result, &told, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_wait(world->queue, "q/zz", on_result, &told, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_open(&world->loop, &bad, &queue, NULL), ROTA_ERR_INVALID);
    assert_int_equal(
        rota_queue_wait(world->queue, "q/000000000001000100000000000000aa", on_result, &told, NULL),
        ROTA_OK);
    await(&world->loop, &told.n, 1);
    assert_int_equal(told.code, ROTA_ERR_NOT_FOUND);
}

/* What came of several jobs. */
struct many {
    size_t n, n_new, n_failed, n_missing;
    enum rota_code code;
    char jobs[40][ROTA_QUEUE_JOB_MAX];
    uint64_t next;
};

static void on_results(void *data, const struct rota_queue_result *result,
                       const struct rota_queue_result *items, size_t n)
{
    struct many *many = data;
    many->code = result->code;
    many->next = result->next;
    many->n_missing = result->n_missing;
    for (size_t i = 0; i < n; i++) {
        many->n_new += items[i].is_new;
        many->n_failed += items[i].code != ROTA_OK;
        snprintf(many->jobs[many->n++], ROTA_QUEUE_JOB_MAX, "%s", items[i].job);
    }
}

static void on_counted(void *data, const struct rota_queue_result *result)
{
    assert_int_equal(result->code, ROTA_OK);
    assert_int_equal(result->n_missing, 0);
    *(struct rota_queue_counts *)data = result->counts;
}

static struct rota_queue_counts count(struct world *world)
{
    struct rota_queue_counts counts = {0};
    assert_int_equal(rota_queue_count(world->queue, rota_str("q"), on_counted, &counts, NULL),
                     ROTA_OK);
    rota_queue_await(world->queue);
    return counts;
}

static void add_many(struct world *world, struct many *many)
{
    enum { JOBS = 30 };
    struct rota_queue_job jobs[JOBS];
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (struct rota_queue_job){.queue = rota_str("q"), .payload = rota_str("x")};
    *many = (struct many){0};
    assert_int_equal(rota_queue_add_all(world->queue, jobs, JOBS, on_results, many, NULL), ROTA_OK);
    rota_queue_await(world->queue);
    assert_int_equal(many->n, JOBS);
}

static void many_jobs_are_added_listed_and_counted(void **state)
{
    struct world *world = *state;
    struct many added, listed = {0};
    add_many(world, &added);
    assert_int_equal(added.code, ROTA_OK);
    assert_int_equal(added.n_new, 30);
    assert_int_equal(count(world).waiting, 30);
    for (int i = 0; i < NODES; i++)
        assert_true(rota_work_broker_counts(world->brokers[i]).jobs > 0);
    do {
        assert_int_equal(rota_queue_list(world->queue, rota_str("q"), ROTA_QUEUE_WAITING, 7,
                                         listed.next, on_results, &listed, NULL),
                         ROTA_OK);
        rota_queue_await(world->queue);
        assert_int_equal(listed.code, ROTA_OK);
    } while (listed.next);
    assert_int_equal(listed.n, 30);
    for (size_t i = 0; i < added.n; i++) {
        size_t n = 0;
        for (size_t j = 0; j < listed.n; j++)
            n += strcmp(added.jobs[i], listed.jobs[j]) == 0;
        assert_int_equal(n, 1);
    }
}

static void many_jobs_go_to_the_partitions_that_the_queue_has(void **state)
{
    struct world *world = *state;
    struct many many;
    lay_out(world, "q", 2);
    add_many(world, &many); /* the first adds of this client */
    assert_int_equal(many.n_failed, 0);
    for (size_t i = 0; i < many.n; i++) {
        struct rota_job_id id;
        assert_int_equal(rota_job_id_parse(rota_str(many.jobs[i] + 2), &id, NULL), ROTA_OK);
        assert_true(rota_job_id_partition(id) < 2);
    }
}

static void many_jobs_skip_an_unreachable_node(void **state)
{
    struct world *world = *state;
    struct many many;
    add_many(world, &many);
    close_node(world, 1);
    add_many(world, &many); /* those of the node that is gone move, or their outcome is unknown */
    open_client(world, (struct rota_queue_options){.patience = 30 * ROTA_SEC});
    add_many(world, &many);
    assert_int_equal(many.n_failed, 0);
    assert_int_equal(many.n_new, 30);
}

static void on_described(void *data, const struct rota_queue_result *result)
{
    const struct rota_queue_details *details = result->details;
    on_result(data, result);
    assert_true(details->explain.size > 0 && details->added_at > 0);
    assert_true(rota_str_is_equal(details->job.payload, rota_str("payload")));
    assert_true(rota_str_is_equal(details->job.queue, rota_str("q")));
    assert_int_equal(details->n_attempts, 1);
    assert_int_equal(details->job.priority, 7);
    assert_int_equal(details->job.backoff, 3 * ROTA_SEC);
    assert_true(rota_str_is_equal(result->reason, rota_str("no\nthe log")));
    assert_true(details->n_entries >= 3);
    assert_int_equal(details->entries[0].state, ROTA_QUEUE_WAITING);
    assert_int_equal(details->entries[details->n_entries - 1].state, ROTA_QUEUE_DEAD);
}

static void a_job_that_died_is_described_and_runs_again(void **state)
{
    struct world *world = *state;
    struct rota_queue_job job = {
        .queue = rota_str("q"), .payload = rota_str("payload"), .backoff = 3 * ROTA_SEC};
    struct rota_queue_outcome outcome = {.how = ROTA_QUEUE_END_FINAL,
                                         .result = rota_str("no\nthe log")};
    struct told added = {0}, work, done = {0}, seen = {0};
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, &added, NULL), ROTA_OK);
    rota_queue_await(world->queue);
    assert_int_equal(rota_queue_set_priority(world->queue, added.job, 7, on_result, &done, NULL),
                     ROTA_OK);
    rota_queue_await(world->queue);
    assert_int_equal(done.code, ROTA_OK);
    while (!poll_once(world, &work)) {
    }
    assert_int_equal(
        rota_queue_finish(world->queue, work.job, work.attempt, &outcome, on_result, &done, NULL),
        ROTA_OK);
    rota_queue_await(world->queue);
    assert_int_equal(done.code, ROTA_OK);
    assert_int_equal(rota_queue_describe(world->queue, added.job, true, on_described, &seen, NULL),
                     ROTA_OK);
    rota_queue_await(world->queue);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.state, ROTA_QUEUE_DEAD);
    assert_int_equal(rota_queue_retry(world->queue, added.job, on_result, &done, NULL), ROTA_OK);
    rota_queue_await(world->queue);
    assert_int_equal(done.code, ROTA_OK);
    while (!poll_once(world, &work)) {
    }
    assert_string_equal(work.job, added.job);
    outcome = (struct rota_queue_outcome){.how = ROTA_QUEUE_END_RETURNED};
    assert_int_equal(
        rota_queue_finish(world->queue, work.job, work.attempt, &outcome, on_result, &done, NULL),
        ROTA_OK);
    rota_queue_await(world->queue);
    struct rota_queue_counts counts = count(world);
    assert_int_equal(counts.waiting + counts.delayed, 1); /* it was returned */
}

static void on_retry(void *data, const struct rota_queue_result *last, unsigned n)
{
    struct told *told = data;
    told->n++;
    assert_int_equal(told->n, n);
    assert_true(last->code != ROTA_OK && last->node[0]);
}

static void a_client_that_fails_fast_is_patient_once_a_node_has_answered(void **state)
{
    struct world *world = *state;
    struct told told = {0}, retries = {0};
    struct rota_queue_options fast = {
        .patience = 100 * ROTA_MSEC, .fail_fast = true, .on_retry = on_retry, .data = &retries};
    struct rota_queue_options slow = fast;
    slow.patience = ROTA_HOUR;
    for (int i = 1; i < NODES; i++)
        close_node(world, i);
    open_client(world, fast); /* it goes past the two that are unreachable */
    assert_int_equal(
        rota_queue_look(world->queue, "q/000000000001000100000000000000aa", on_result, &told, NULL),
        ROTA_OK);
    rota_queue_await(world->queue);
    retries.n = 0;
    close_node(world, 0);
    add(world, "x", "", &told);
    assert_int_not_equal(told.code, ROTA_OK);
    assert_true(retries.n > 2); /* more than every node once */
    retries.n = 0;
    open_client(world, slow); /* none has answered: an hour does not pass */
    add(world, "x", "", &told);
    assert_int_equal(told.code, ROTA_ERR_UNAVAILABLE);
    assert_int_equal(retries.n, NODES - 1);
}

static void polls_can_be_stopped(void **state)
{
    struct world *world = *state;
    struct rota_queue_wanted wanted = {
        .queue = rota_str("q"), .more = (struct rota_str[]){rota_str("other")}, .n_more = 1};
    struct rota_queue_job job = {.queue = rota_str("other")};
    struct told polled = {0}, added = {0};
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, &polled, NULL), ROTA_OK);
    for (int i = 0; i < NODES; i++) /* wherever the poll is, and wherever the job goes */
        assert_int_equal(rota_queue_add(world->queue, &job, on_result, &added, NULL), ROTA_OK);
    await(&world->loop, &polled.n, 1);
    assert_int_equal(polled.n_works, 1);
    polled = (struct told){0};
    wanted = (struct rota_queue_wanted){.queue = rota_str("nothing")};
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, &polled, NULL), ROTA_OK);
    uv_run(&world->loop, UV_RUN_ONCE);
    rota_queue_stop_polls(world->queue);
    rota_queue_await(world->queue); /* nothing is left of it */
    assert_int_equal(polled.n, 0);
}

static void a_client_can_be_closed_with_calls_in_flight(void **state)
{
    struct world *world = *state;
    struct rota_queue_wanted wanted = {.queue = rota_str("q")};
    struct rota_queue_job job = {.queue = rota_str("q")};
    struct told told = {0};
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, &told, NULL), ROTA_OK);
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, &told, NULL), ROTA_OK);
    uv_run(&world->loop, UV_RUN_ONCE);
    rota_queue_close(world->queue);
    world->queue = NULL;
    assert_int_equal(told.n, 0);
}

/* Jobs that no node would take are refused before one is asked, with the reason. */
static void a_job_that_no_node_would_take_is_refused(void **state)
{
    struct world *world = *state;
    static const char long_key[257];
    static const struct {
        const char *reason;
        struct rota_queue_job job;
    } bad[] = {
        {"idempotency_key has 1 to 256 bytes, not 257", {.idempotency_key = {long_key, 257}}},
        {"an idempotency_key or a unique key", {.idempotency_key = {"a", 1}, .unique = {"b", 1}}},
        {"the deadline of the job has passed", {.deadline = 1}},
        {"attempts", {.max_attempts = 1001}},
    };
    struct told told = {0};
    struct rota_error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rota_queue_job job = bad[i].job;
        job.queue = rota_str("q");
        assert_int_equal(rota_queue_add(world->queue, &job, on_result, &told, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, bad[i].reason));
    }
    struct rota_queue_job longest = {.queue = rota_str("q"), .idempotency_key = {long_key, 256}};
    assert_int_equal(rota_queue_check(&longest, &error), ROTA_OK);
    assert_int_equal(rota_queue_list(world->queue, rota_str("no queue"), ROTA_QUEUE_WAITING, 1, 0,
                                     NULL, NULL, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_count(world->queue, rota_str("no queue"), on_result, &told, &error),
                     ROTA_ERR_INVALID);
    struct rota_queue_wanted wanted = {.queue = rota_str("no queue")};
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, &told, &error),
                     ROTA_ERR_INVALID);
    rota_queue_await(world->queue);
    assert_int_equal(told.n, 0);
}

static void a_batch_is_bounded_and_for_one_queue(void **state)
{
    struct world *world = *state;
    struct rota_error error;
    struct rota_queue_job *jobs = calloc(ROTA_QUEUE_ADDS_MAX + 1, sizeof *jobs);
    struct rota_queue_options options = {.nodes = world->nodes, .partitions = 65537};
    struct rota_queue *queue;
    assert_non_null(jobs);
    for (size_t i = 0; i <= ROTA_QUEUE_ADDS_MAX; i++)
        jobs[i].queue = rota_str("q");
    for (size_t n = 0; n <= ROTA_QUEUE_ADDS_MAX + 1; n += ROTA_QUEUE_ADDS_MAX + 1) {
        assert_int_equal(rota_queue_add_all(world->queue, jobs, n, NULL, NULL, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "add 1 to 4096 jobs at a time"));
    }
    jobs[1].queue = rota_str("other");
    assert_int_equal(rota_queue_add_all(world->queue, jobs, 2, NULL, NULL, &error),
                     ROTA_ERR_INVALID);
    assert_string_equal(error.text, "add jobs of one queue at a time");
    assert_int_equal(rota_queue_open(&world->loop, &options, &queue, &error), ROTA_ERR_INVALID);
    assert_string_equal(error.text, "a queue has at most 65536 partitions");
    options.partitions = 65536;
    assert_int_equal(rota_queue_open(&world->loop, &options, &queue, &error), ROTA_OK);
    rota_queue_close(queue);
    free(jobs);
}

/* --- a node that talks nonsense --- */

static struct rota_str nonsense;

static void answer_nonsense(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, nonsense);
}

static void on_items(void *data, const struct rota_queue_result *result,
                     const struct rota_queue_result *items, size_t n)
{
    on_result(data, result);
    for (size_t i = 0; i < n; i++) /* each item has failed as the whole */
        assert_int_equal(items[i].code, result->code);
}

/* What the node sends is neither taken for a job nor waited for: each call says so. */
static void assert_malformed(struct world *world, bool is_empty)
{
    static const char job[] = "q/000000000001000100000000000000aa";
    struct rota_queue_job spec = {.queue = rota_str("q")};
    struct rota_queue_wanted wanted = {.queue = rota_str("q"), .wait = ROTA_MSEC};
    struct told told = {0};
    size_t n = 0;
#define IS_MALFORMED(call)                                                                         \
    do {                                                                                           \
        assert_int_equal(call, ROTA_OK);                                                           \
        await(&world->loop, &told.n, ++n);                                                         \
        assert_int_equal(told.code, ROTA_ERR_UNKNOWN);                                             \
        assert_non_null(strstr(told.text, "malformed reply"));                                     \
    } while (0)
    IS_MALFORMED(rota_queue_add(world->queue, &spec, on_result, &told, NULL));
    IS_MALFORMED(rota_queue_look(world->queue, job, on_result, &told, NULL));
    if (is_empty)
        return; /* an empty list, or nothing */
    IS_MALFORMED(rota_queue_poll(world->queue, &wanted, on_work, &told, NULL));
    IS_MALFORMED(rota_queue_list(world->queue, rota_str("q"), ROTA_QUEUE_WAITING, 1, 0, on_items,
                                 &told, NULL));
    IS_MALFORMED(rota_queue_count(world->queue, rota_str("q"), on_result, &told, NULL));
}

static void a_malformed_reply_is_not_an_answer(void **state)
{
    static const char *const methods[] = {"Add", "Describe", "Poll", "List", "Queues"};
    struct world *world = *state;
    struct rota_server *server;
    assert_int_equal(rota_server_open(&world->loop, NULL, &server, NULL), ROTA_OK);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char path[64];
        snprintf(path, sizeof path, "/rota.v1.Queue/%s", methods[i]);
        const struct rota_server_method method = {.path = path, .on_call = answer_nonsense};
        assert_int_equal(rota_server_add(server, &method, NULL), ROTA_OK);
    }
    assert_int_equal(rota_server_listen(server, "127.0.0.1:0", NULL), ROTA_OK);
    snprintf(world->nodes, sizeof world->nodes, "%s", rota_server_address(server, 0));
    open_client(world, IMPATIENT);
    nonsense = rota_str("\xff\xff\xff");
    assert_malformed(world, false);
    nonsense = rota_str("");
    assert_malformed(world, true);
    rota_server_close(server);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_added_worked_on_and_waited_for),
        TEST(jobs_go_to_all_nodes_and_skip_an_unreachable_one),
        TEST(a_unique_key_is_unique_across_nodes),
        TEST(a_client_follows_a_queue_that_gets_fewer_partitions),
        TEST(a_node_that_is_down_is_skipped_until_it_is_back),
        TEST(a_poll_leaves_a_node_that_hangs),
        TEST(a_hanging_node_gets_its_timeout_if_there_is_no_other),
        TEST(polls_follow_the_owners_of_partitions),
        TEST(a_probe_ignores_patience),
        TEST(invalid_arguments_are_reported),
        TEST(many_jobs_are_added_listed_and_counted),
        TEST(many_jobs_go_to_the_partitions_that_the_queue_has),
        TEST(many_jobs_skip_an_unreachable_node),
        TEST(a_job_that_died_is_described_and_runs_again),
        TEST(a_client_that_fails_fast_is_patient_once_a_node_has_answered),
        TEST(polls_can_be_stopped),
        TEST(a_client_can_be_closed_with_calls_in_flight),
        TEST(a_job_that_no_node_would_take_is_refused),
        TEST(a_batch_is_bounded_and_for_one_queue),
        TEST(a_malformed_reply_is_not_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
