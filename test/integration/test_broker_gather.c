/* Answers of three brokers together: sums, lists, workers, settings, and missing nodes. */
#include "three_brokers.h"

#include <stdio.h>
#include <string.h>

enum { JOBS = 16 }; /* one in each partition */

#define QUEUE rota_str("jobs")

/* A call that is still open. */
struct open_call {
    struct rota_channel *channel;
    size_t n_messages, n_ends;
    enum rota_status status;
    char text[256];
};

struct handed {
    char id[ROTA_QUEUE_ID_SIZE];
    uint64_t attempt;
};

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    (void)call, (void)message;
    ((struct open_call *)data)->n_messages++;
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct open_call *open = data;
    (void)call;
    open->n_ends++;
    open->status = result->status;
    snprintf(open->text, sizeof open->text, "%.*s", ROTA_STR_ARGS(result->text));
}

static void start(struct world *world, int node, const char *method, bool is_stream,
                  const struct rota_message_type *type, const void *request, struct open_call *open)
{
    struct rota_buffer bytes = {0};
    struct rota_call *call;
    rota_message_encode(type, request, &bytes);
    struct rota_call_options options = {.method = rota_str(method),
                                        .request = rota_buffer_str(&bytes),
                                        .on_message = is_stream ? on_message : NULL,
                                        .on_end = on_end,
                                        .data = open};
    *open = (struct open_call){0};
    assert_int_equal(rota_channel_open(&world->loop, rota_server_address(world->servers[node], 0),
                                       NULL, &open->channel, NULL),
                     ROTA_OK);
    assert_int_equal(rota_channel_call(open->channel, &options, &call, NULL), ROTA_OK);
    rota_buffer_deinit(&bytes);
}

/* Ask a node for what has to go well; what is read is the arena's. */
static void must(struct world *world, int node, const char *method,
                 const struct rota_message_type *type, const void *request,
                 const struct rota_message_type *reply_type, void *read, struct rota_arena *arena)
{
    struct rota_reply reply;
    if (ask(world, node, method, type, request, &reply) != ROTA_STATUS_OK)
        fail_msg("%s: %s", method, reply.text);
    if (reply_type) {
        struct rota_str bytes = rota_arena_copy(arena, rota_str_of(reply.message, reply.size));
        assert_int_equal(rota_message_decode(reply_type, bytes, read, arena, NULL), ROTA_OK);
    }
    rota_reply_deinit(&reply);
}

static void add_jobs(struct world *world, int node)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        char id[ROTA_QUEUE_ID_SIZE];
        const struct rota_queue_job_spec spec = {
            .queue = QUEUE,
            .id = rota_queue_message_id_write(rota_job_id_make(ROTA_SEC, i, 1), id),
            .partition = i};
        must(world, node, "Add", &ROTA_QUEUE_ADD, &(struct rota_queue_add){.job = &spec}, NULL,
             NULL, NULL);
    }
}

/* The sum of a queue as this node tells it; false when it has none. */
static bool queue_info(struct world *world, int node, struct rota_queue_info *info,
                       struct rota_arena *arena)
{
    const struct rota_queue_setting about = {.queue = QUEUE};
    struct rota_queue_list list;
    must(world, node, "Queues", &ROTA_QUEUE_PAUSE, &about, &ROTA_QUEUE_QUEUES_REPLY, &list, arena);
    assert_true(list.items.n <= 1);
    if (list.items.n)
        *info = *(const struct rota_queue_info *)list.items.items;
    return list.items.n;
}

static struct rota_queue_poll a_poll(const struct rota_str *queue, const char *worker,
                                     uint64_t max_jobs, uint64_t wait_ms)
{
    return (struct rota_queue_poll){.queues = {queue, 1},
                                    .max_jobs = max_jobs,
                                    .lease_ms = 600000,
                                    .wait_ms = wait_ms,
                                    .worker = rota_str(worker)};
}

/* Take all jobs, each from its node. */
static void poll_all(struct world *world, struct handed jobs[JOBS])
{
    struct rota_arena arena = {0};
    const struct rota_str queue = QUEUE;
    const struct rota_queue_poll request = a_poll(&queue, "w", JOBS, 1);
    for (size_t n = 0, node = 0; n < JOBS; node = (node + 1) % NODES) {
        struct rota_queue_list list;
        must(world, (int)node, "Poll", &ROTA_QUEUE_POLL, &request, &ROTA_QUEUE_POLL_REPLY, &list,
             &arena);
        const struct rota_queue_handed *handed = list.items.items;
        for (size_t i = 0; i < list.items.n; i++, n++) {
            assert_true(n < JOBS);
            assert_int_equal(handed[i].id.size, ROTA_QUEUE_ID_SIZE);
            memcpy(jobs[n].id, handed[i].id.data, ROTA_QUEUE_ID_SIZE);
            jobs[n].attempt = handed[i].attempt;
        }
    }
    rota_arena_deinit(&arena);
}

static void end_job(struct world *world, int node, const char *method,
                    const struct rota_message_type *type, struct rota_queue_about about,
                    const struct handed *job)
{
    about.queue = QUEUE;
    about.id = rota_str_of(job->id, sizeof job->id);
    about.attempt = job->attempt;
    must(world, node, method, type, &about, NULL, NULL, NULL);
}

static void set_paused(struct world *world, int node, bool is_paused)
{
    const struct rota_queue_setting pause = {.queue = QUEUE, .is_paused = is_paused};
    must(world, node, "Pause", &ROTA_QUEUE_PAUSE, &pause, NULL, NULL, NULL);
}

/* --- sums --- */

static void queue_is_the_sum_over_all_nodes(void **state)
{
    struct world *world = *state;
    struct handed jobs[JOBS];
    struct rota_arena arena = {0};
    struct rota_queue_info info;
    struct rota_queue_list_reply list;
    const struct rota_queue_list_request all = {.queue = QUEUE};
    const struct rota_queue_setting deaths = {.queue = QUEUE, .weight = 7};
    assert_false(queue_info(world, 0, &info, &arena));
    add_jobs(world, 0);
    must(world, 1, "List", &ROTA_QUEUE_LIST, &all, &ROTA_QUEUE_LIST_REPLY, &list, &arena);
    const struct rota_queue_job_info *listed = list.jobs.items;
    uint64_t oldest_ms = UINT64_MAX;
    for (size_t i = 0; i < list.jobs.n; i++)
        if (listed[i].enqueued_ms < oldest_ms)
            oldest_ms = listed[i].enqueued_ms;
    for (int node = 0; node < NODES; node++) {
        assert_true(queue_info(world, node, &info, &arena));
        assert_int_equal(info.n_waiting, JOBS);
        assert_int_equal(info.added_total, JOBS);
        assert_int_equal(info.n_partitions, JOBS);
        assert_int_equal(info.oldest_ms, oldest_ms);
        assert_int_equal(info.write, JOBS);
        assert_false(info.is_paused);
        assert_int_equal(info.n_running + info.n_done + info.n_dead + info.n_delayed, 0);
    }
    poll_all(world, jobs);
    for (int i = 0; i < 5; i++)
        end_job(world, i % NODES, "Complete", &ROTA_QUEUE_COMPLETE, (struct rota_queue_about){0},
                &jobs[i]);
    for (int i = 5; i < 8; i++)
        end_job(world, i % NODES, "Fail", &ROTA_QUEUE_FAIL,
                (struct rota_queue_about){.is_final = true}, &jobs[i]);
    for (int i = 8; i < 10; i++)
        end_job(world, i % NODES, "Fail", &ROTA_QUEUE_FAIL,
                (struct rota_queue_about){.retry_after_ms = 600000}, &jobs[i]);
    end_job(world, 0, "Cancel", &ROTA_QUEUE_NAME, (struct rota_queue_about){0}, &jobs[10]);
    must(world, 2, "SetQuarantine", &ROTA_QUEUE_QUARANTINE, &deaths, NULL, NULL, NULL);
    for (int node = 0; node < NODES; node++) {
        assert_true(queue_info(world, node, &info, &arena));
        assert_int_equal(info.n_waiting, 0);
        assert_int_equal(info.n_running, 5);
        assert_int_equal(info.n_done, 5);
        assert_int_equal(info.n_dead, 3);
        assert_int_equal(info.n_delayed, 2);
        assert_int_equal(info.n_cancelled, 1);
        assert_int_equal(info.added_total, JOBS);
        assert_int_equal(info.done_total, 5);
        assert_int_equal(info.dead_total, 3);
        assert_int_equal(info.retries_total, 2);
        assert_int_equal(info.quarantined_total, 0);
        assert_int_equal(info.worker_deaths, 7);
    }
    rota_arena_deinit(&arena);
}

static void setting_is_of_all_nodes(void **state)
{
    struct world *world = *state;
    struct rota_arena arena = {0};
    struct rota_queue_info info;
    struct handed jobs[JOBS];
    add_jobs(world, 2);
    set_paused(world, 1, true);
    const struct rota_str queue = QUEUE;
    const struct rota_queue_poll request = a_poll(&queue, "w", JOBS, 1);
    for (int node = 0; node < NODES; node++) {
        struct rota_queue_list list;
        assert_true(queue_info(world, node, &info, &arena));
        assert_true(info.is_paused);
        must(world, node, "Poll", &ROTA_QUEUE_POLL, &request, &ROTA_QUEUE_POLL_REPLY, &list,
             &arena);
        assert_int_equal(list.items.n, 0);
    }
    set_paused(world, 2, false);
    poll_all(world, jobs);
    rota_arena_deinit(&arena);
}

static void workers_of_all_nodes_are_listed_and_counted(void **state)
{
    struct world *world = *state;
    struct open_call polls[2];
    struct rota_arena arena = {0};
    struct rota_queue_info info;
    struct rota_queue_list list;
    const struct rota_queue_setting nothing = {0};
    const struct rota_str queue = QUEUE;
    const char *names[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        const struct rota_queue_poll request = a_poll(&queue, names[i], i ? 3 : 7, 600000);
        start(world, i, "/rota.v1.Queue/Poll", false, &ROTA_QUEUE_POLL, &request, &polls[i]);
        while (rota_work_broker_counts(world->brokers[i]).polls == 0)
            uv_run(&world->loop, UV_RUN_ONCE);
    }
    for (int node = 0; node < NODES; node++) {
        must(world, node, "Workers", &ROTA_QUEUE_PAUSE, &nothing, &ROTA_QUEUE_WORKERS_REPLY, &list,
             &arena);
        const struct rota_queue_worker_info *workers = list.items.items;
        uint64_t slots[2] = {0};
        assert_int_equal(list.items.n, 2);
        for (size_t i = 0; i < 2; i++)
            slots[rota_str_is_equal(workers[i].name, rota_str("second"))] = workers[i].slots;
        assert_int_equal(slots[0], 7);
        assert_int_equal(slots[1], 3);
        assert_true(queue_info(world, node, &info, &arena));
        assert_int_equal(info.n_workers, 2);
        assert_int_equal(info.n_slots, 10);
        assert_int_equal(info.n_free, 10);
    }
    for (int i = 0; i < 2; i++)
        rota_channel_close(polls[i].channel);
    rota_arena_deinit(&arena);
}

/* --- lists --- */

static void list_pages_through_all_nodes(void **state)
{
    struct world *world = *state;
    struct rota_arena arena = {0};
    char seen[JOBS][ROTA_QUEUE_ID_SIZE];
    add_jobs(world, 0);
    for (uint64_t max = 1; max <= JOBS + 1; max += 3) {
        struct rota_queue_list_request request = {.queue = QUEUE, .max_jobs = max};
        size_t n = 0;
        do {
            struct rota_queue_list_reply list;
            must(world, 1, "List", &ROTA_QUEUE_LIST, &request, &ROTA_QUEUE_LIST_REPLY, &list,
                 &arena);
            const struct rota_queue_job_info *jobs = list.jobs.items;
            assert_true(list.jobs.n <= max);
            assert_true(list.next == 0 || list.jobs.n == max); /* a page is full, or the last */
            for (size_t i = 0; i < list.jobs.n; i++, n++) {
                const struct rota_queue_job_spec *spec = jobs[i].spec;
                assert_true(n < JOBS);
                for (size_t j = 0; j < n; j++)
                    assert_memory_not_equal(seen[j], spec->id.data, ROTA_QUEUE_ID_SIZE);
                memcpy(seen[n], spec->id.data, ROTA_QUEUE_ID_SIZE);
            }
            request.after = list.next;
        } while (request.after);
        assert_int_equal(n, JOBS);
    }
    struct rota_queue_list_reply list;
    struct rota_queue_list_request beyond = {.queue = QUEUE, .after = (uint64_t)NODES << 40};
    must(world, 1, "List", &ROTA_QUEUE_LIST, &beyond, &ROTA_QUEUE_LIST_REPLY, &list, &arena);
    assert_int_equal(list.jobs.n, 0);
    assert_int_equal(list.next, 0);
    rota_arena_deinit(&arena);
}

static void page_has_a_hundred_jobs_by_default(void **state)
{
    struct world *world = *state;
    struct rota_arena arena = {0};
    struct rota_queue_job_spec specs[110];
    struct rota_queue_list batch = {.items = {specs, 110}};
    struct rota_queue_list_request request = {.queue = QUEUE};
    struct rota_queue_list_reply list;
    for (size_t i = 0; i < 110; i++)
        specs[i] = (struct rota_queue_job_spec){.queue = QUEUE};
    must(world, 0, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &batch, NULL, NULL, NULL);
    must(world, 2, "List", &ROTA_QUEUE_LIST, &request, &ROTA_QUEUE_LIST_REPLY, &list, &arena);
    assert_int_equal(list.jobs.n, 100);
    request.after = list.next;
    must(world, 2, "List", &ROTA_QUEUE_LIST, &request, &ROTA_QUEUE_LIST_REPLY, &list, &arena);
    assert_int_equal(list.jobs.n, 10);
    assert_int_equal(list.next, 0);
    rota_arena_deinit(&arena);
}

static void nodes_are_listed_in_order_with_their_jobs(void **state)
{
    struct world *world = *state;
    struct rota_arena arena = {0};
    const struct rota_queue_setting nothing = {0}, about = {.queue = QUEUE};
    struct rota_queue_nodes nodes;
    uint64_t n_jobs = 0;
    add_jobs(world, 0);
    for (int node = 0; node < NODES; node++) {
        must(world, node, "Nodes", &ROTA_QUEUE_PAUSE, &nothing, &ROTA_QUEUE_NODES, &nodes, &arena);
        assert_int_equal(nodes.partitions, JOBS);
        assert_true(
            rota_str_is_equal(nodes.node, rota_str(rota_server_address(world->servers[node], 0))));
        assert_int_equal(nodes.nodes.n, NODES);
        for (size_t i = 0; i < NODES; i++) {
            if (i > 0)
                assert_true(rota_str_compare(nodes.nodes.items[i - 1], nodes.nodes.items[i]) < 0);
            assert_non_null(memmem(world->nodes, strlen(world->nodes), nodes.nodes.items[i].data,
                                   nodes.nodes.items[i].size));
        }
        assert_int_equal(nodes.absent.n, 0);
        assert_int_equal(nodes.n_leaving, 0);
        assert_int_equal(nodes.n_jobs, rota_work_broker_counts(world->brokers[node]).jobs);
        n_jobs += nodes.n_jobs;
        must(world, node, "Nodes", &ROTA_QUEUE_PAUSE, &about, &ROTA_QUEUE_NODES, &nodes, &arena);
        assert_int_equal(nodes.n_jobs, 0); /* who asks for a layout does not want that */
        assert_int_equal(nodes.write, JOBS);
    }
    assert_int_equal(n_jobs, JOBS);
    rota_arena_deinit(&arena);
}

/* --- deleting --- */

static void queue_is_deleted_everywhere_when_all_its_jobs_have_ended(void **state)
{
    struct world *world = *state;
    struct rota_arena arena = {0};
    struct handed jobs[JOBS];
    struct rota_queue_deleted deleted;
    struct rota_queue_info info;
    struct rota_reply reply;
    struct rota_queue_delete request = {.queue = QUEUE};
    add_jobs(world, 0);
    poll_all(world, jobs);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(ask(world, i % NODES, "DeleteQueue", &ROTA_QUEUE_DELETE, &request, &reply),
                         ROTA_STATUS_FAILED_PRECONDITION);
        rota_reply_deinit(&reply);
        end_job(world, 0, "Complete", &ROTA_QUEUE_COMPLETE, (struct rota_queue_about){0}, &jobs[i]);
    }
    for (int node = 0; node < NODES; node++) {
        request.is_dry_run = true;
        must(world, node, "DeleteQueue", &ROTA_QUEUE_DELETE, &request, &ROTA_QUEUE_DELETED,
             &deleted, &arena);
        assert_int_equal(deleted.n_jobs, JOBS);
        assert_true(queue_info(world, node, &info, &arena));
        assert_int_equal(info.n_done, JOBS);
    }
    request.is_dry_run = false;
    must(world, 1, "DeleteQueue", &ROTA_QUEUE_DELETE, &request, &ROTA_QUEUE_DELETED, &deleted,
         &arena);
    assert_int_equal(deleted.n_jobs, JOBS);
    for (int node = 0; node < NODES; node++)
        assert_false(queue_info(world, node, &info, &arena));
    rota_arena_deinit(&arena);
}

/* --- news --- */

static void await_watchers(struct world *world, size_t n)
{
    for (int i = 0; i < NODES; i++)
        while (world->brokers[i] && rota_work_broker_counts(world->brokers[i]).watchers != n)
            uv_run(&world->loop, UV_RUN_ONCE);
}

static void watch_of_a_queue_ends_when_a_node_leaves(void **state)
{
    struct world *world = *state;
    struct open_call watch, second;
    struct handed jobs[JOBS];
    const struct rota_queue_about about = {.queue = QUEUE};
    start(world, 1, "/rota.v1.Queue/Watch", true, &ROTA_QUEUE_NAME, &about, &watch);
    start(world, 0, "/rota.v1.Queue/Watch", true, &ROTA_QUEUE_NAME, &about, &second);
    await_watchers(world, 2);
    add_jobs(world, 0);
    await(&world->loop, &watch.n_messages, JOBS);
    await(&world->loop, &second.n_messages, JOBS);
    poll_all(world, jobs);
    await(&world->loop, &watch.n_messages, (size_t)2 * JOBS);

    rota_channel_close(second.channel); /* nodes that it asked through another hear of it */
    await_watchers(world, 1);
    assert_int_equal(watch.n_ends, 0);
    close_node(world, 2);
    await(&world->loop, &watch.n_ends, 1);
    assert_int_equal(watch.status, ROTA_STATUS_UNAVAILABLE);
    await_watchers(world, 0);
    rota_channel_close(watch.channel);
}

/* --- nodes that do not answer --- */

static void check_missing(const struct rota_reply *reply, const char *address)
{
    struct rota_arena arena = {0};
    struct rota_queue_missing missing;
    assert_int_equal(rota_message_decode(&ROTA_QUEUE_MISSING,
                                         rota_str_of(reply->message, reply->size), &missing, &arena,
                                         NULL),
                     ROTA_OK);
    assert_int_equal(missing.nodes.n, 1);
    assert_true(rota_str_is_equal(missing.nodes.items[0], rota_str(address)));
    assert_int_equal(missing.why.n, 1);
    assert_true(missing.why.items[0].size > 0);
    rota_arena_deinit(&arena);
}

static void node_that_does_not_answer_is_named_and_the_others_are_counted(void **state)
{
    struct world *world = *state;
    struct rota_reply reply;
    struct rota_arena arena = {0};
    struct rota_queue_info info;
    char gone[64];
    const struct rota_queue_setting about = {.queue = QUEUE};
    const struct rota_queue_list_request list = {.queue = QUEUE};
    const struct rota_queue_delete delete = {.queue = QUEUE};
    const struct rota_queue_forget lost = {.node = rota_str("127.0.0.1:1"), .is_dry_run = true};
    add_jobs(world, 0);
    snprintf(gone, sizeof gone, "%s", rota_server_address(world->servers[2], 0));
    close_node(world, 2);
    size_t n = rota_work_broker_counts(world->brokers[0]).jobs +
               rota_work_broker_counts(world->brokers[1]).jobs;
    for (int node = 0; node < 2; node++) {
        const struct {
            const char *method;
            const struct rota_message_type *type;
            const void *request;
        } told[] = {{"Queues", &ROTA_QUEUE_PAUSE, &about},
                    {"Workers", &ROTA_QUEUE_PAUSE, &about},
                    {"List", &ROTA_QUEUE_LIST, &list},
                    {"Forget", &ROTA_QUEUE_FORGET, &lost}};
        for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
            if (ask(world, node, told[i].method, told[i].type, told[i].request, &reply))
                fail_msg("%s: %s", told[i].method, reply.text);
            check_missing(&reply, gone);
            rota_reply_deinit(&reply);
        }
        assert_true(queue_info(world, node, &info, &arena));
        assert_int_equal(info.n_waiting, n);

        /* A setting is in the store, where the other one finds it. */
        assert_int_equal(ask(world, node, "Pause", &ROTA_QUEUE_PAUSE, &about, &reply),
                         ROTA_STATUS_OK);
        rota_reply_deinit(&reply);
        assert_true(ask(world, node, "DeleteQueue", &ROTA_QUEUE_DELETE, &delete, &reply) !=
                    ROTA_STATUS_OK);
        rota_reply_deinit(&reply);
    }
    rota_arena_deinit(&arena);
}

static void request_that_every_node_rejects_is_refused(void **state)
{
    struct world *world = *state;
    struct rota_reply reply;
    const struct rota_queue_setting about = {.queue = rota_str("not a queue!")};
    const struct rota_queue_list_request list = {.queue = rota_str("not a queue!")};
    assert_int_equal(ask(world, 0, "Pause", &ROTA_QUEUE_PAUSE, &about, &reply),
                     ROTA_STATUS_INVALID_ARGUMENT);
    rota_reply_deinit(&reply);
    assert_int_equal(ask(world, 0, "List", &ROTA_QUEUE_LIST, &list, &reply),
                     ROTA_STATUS_INVALID_ARGUMENT);
    rota_reply_deinit(&reply);
}

/* --- one job --- */

static void explain(struct world *world, int node, struct rota_str id, bool asks_nodes, char *text,
                    size_t size)
{
    struct rota_arena arena = {0};
    struct rota_queue_description told;
    const struct rota_queue_about about = {.queue = QUEUE, .id = id, .asks_nodes = asks_nodes};
    must(world, node, "Describe", &ROTA_QUEUE_DESCRIBE, &about, &ROTA_QUEUE_DESCRIPTION, &told,
         &arena);
    snprintf(text, size, "%.*s", ROTA_STR_ARGS(told.explain));
    rota_arena_deinit(&arena);
}

static void explanation_of_a_waiting_job_counts_the_workers_of_all_nodes(void **state)
{
    struct world *world = *state;
    struct open_call poll;
    struct rota_arena arena = {0};
    struct rota_queue_added added;
    char text[1024];
    struct rota_str can = rota_str("gpu");
    const struct rota_queue_job_spec spec = {.queue = QUEUE, .can = {&can, 1}};
    const struct rota_str queue = QUEUE;
    const struct rota_queue_poll request = a_poll(&queue, "w", 1, 600000);
    int owner = 0;
    must(world, 0, "Add", &ROTA_QUEUE_ADD, &(struct rota_queue_add){.job = &spec},
         &ROTA_QUEUE_ADDED, &added, &arena);
    while (rota_work_broker_counts(world->brokers[owner]).jobs == 0)
        owner++;
    int other = (owner + 1) % NODES, gone = (owner + 2) % NODES;
    explain(world, other, added.id, true, text, sizeof text);
    assert_non_null(strstr(text, "on this node; no worker on any other node serves it"));
    explain(world, other, added.id, false, text, sizeof text);
    assert_non_null(strstr(text, "workers of other nodes can take it"));

    /* One that serves the queue, and can't do that. */
    start(world, other, "/rota.v1.Queue/Poll", false, &ROTA_QUEUE_POLL, &request, &poll);
    while (rota_work_broker_counts(world->brokers[other]).polls == 0)
        uv_run(&world->loop, UV_RUN_ONCE);
    explain(world, other, added.id, true, text, sizeof text);
    assert_non_null(strstr(text, "; no worker on any other node has gpu"));

    char address[64];
    snprintf(address, sizeof address, "%s", rota_server_address(world->servers[gone], 0));
    close_node(world, gone);
    explain(world, owner, added.id, true, text, sizeof text);
    assert_non_null(strstr(text, "no worker on any other node has gpu"));
    assert_non_null(strstr(text, address));
    rota_channel_close(poll.channel);
    rota_arena_deinit(&arena);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(queue_is_the_sum_over_all_nodes),
        TEST(setting_is_of_all_nodes),
        TEST(workers_of_all_nodes_are_listed_and_counted),
        TEST(list_pages_through_all_nodes),
        TEST(page_has_a_hundred_jobs_by_default),
        TEST(nodes_are_listed_in_order_with_their_jobs),
        TEST(queue_is_deleted_everywhere_when_all_its_jobs_have_ended),
        TEST(watch_of_a_queue_ends_when_a_node_leaves),
        TEST(node_that_does_not_answer_is_named_and_the_others_are_counted),
        TEST(request_that_every_node_rejects_is_refused),
        TEST(explanation_of_a_waiting_job_counts_the_workers_of_all_nodes),
    };
    return cmocka_run_group_tests_name("broker_gather", tests, NULL, NULL);
}
