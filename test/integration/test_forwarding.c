/* Two brokers on one loop; the worker is connected over ZeroMQ to the first, and does the jobs
 * of both. */
#include "await.h"

#include "wire/message/queue_message.h"
#include "wire/message/worker_frame.h"

#include <rota/experimental/broker.h>
#include <rota/experimental/channel.h>
#include <rota/experimental/connector.h>
#include <rota/experimental/members.h>
#include <rota/server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_NODES = 2, N_PARTITIONS = 16 };

struct node {
    struct rota_server *server;
    struct rota_work_broker *broker;
    struct rota_channel *channel;
};

struct world {
    uv_loop_t loop;
    struct node nodes[N_NODES];
    char id[ROTA_QUEUE_ID_SIZE]; /* of the last job */
};

static void open_node(struct world *world, struct node *node, const char *list, bool has_workers)
{
    struct rota_error error;
    struct rota_work_broker_options options = {.is_memory = true,
                                               .workers_address =
                                                   has_workers ? "127.0.0.1:0" : NULL,
                                               .advertise = rota_server_address(node->server, 0)};
    assert_int_equal(rota_hosts_list_new(list, &options.members, NULL), ROTA_OK);
    if (rota_work_broker_open(&world->loop, node->server, &options, &node->broker, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_channel_open(&world->loop, rota_server_address(node->server, 0), NULL,
                                       &node->channel, NULL),
                     ROTA_OK);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    char list[256] = "";
    assert_int_equal(uv_loop_init(&world->loop), 0);
    for (size_t i = 0; i < N_NODES; i++) {
        struct node *node = &world->nodes[i];
        assert_int_equal(rota_server_open(&world->loop, &with, &node->server, NULL), ROTA_OK);
        assert_int_equal(rota_server_listen(node->server, "127.0.0.1:0", NULL), ROTA_OK);
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? "," : "",
                 rota_server_address(node->server, 0));
    }
    for (size_t i = 0; i < N_NODES; i++)
        open_node(world, &world->nodes[i], list, i == 0);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < N_NODES; i++)
        rota_channel_close(world->nodes[i].channel);
    for (size_t i = 0; i < N_NODES; i++)
        rota_server_close(world->nodes[i].server);
    for (size_t i = 0; i < N_NODES; i++)
        rota_work_broker_close(world->nodes[i].broker);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
    free(world);
    return 0;
}

static enum rota_status ask(struct world *world, size_t node, const char *method,
                            const struct rota_message_type *type, const void *message)
{
    struct rota_buffer buffer = {0};
    struct rota_reply reply;
    char path[64];
    snprintf(path, sizeof path, "%s%s", method[0] == '/' ? "" : "/rota.v1.Queue/", method);
    rota_message_encode(type, message, &buffer);
    struct rota_call_options call = {.method = rota_str(path), .request = rota_buffer_str(&buffer)};
    assert_int_equal(rota_channel_wait(world->nodes[node].channel, &call, &reply, NULL), ROTA_OK);
    enum rota_status status = reply.status;
    if (status == ROTA_STATUS_OK && type == &ROTA_QUEUE_ADD)
        memcpy(world->id, reply.message + 2, sizeof world->id);
    rota_reply_deinit(&reply);
    rota_buffer_deinit(&buffer);
    return status;
}

/* Partition 0: of the node that is asked. */
static void add(struct world *world, size_t node, uint64_t partition)
{
    struct rota_queue_job_spec spec = {.queue = rota_str("jobs"),
                                       .partition = partition,
                                       .payload = rota_str("payload"),
                                       .max_attempts = 3,
                                       .backoff_ms = 1};
    struct rota_queue_add request = {.job = &spec};
    assert_int_equal(ask(world, node, "Add", &ROTA_QUEUE_ADD, &request), ROTA_STATUS_OK);
}

static struct rota_work_broker_counts counts(const struct world *world, size_t node)
{
    return rota_work_broker_counts(world->nodes[node].broker);
}

/* --- the worker --- */

struct worker {
    struct rota_connector *connector;
    struct rota_worker_running claimed; /* that it names when it is ready */
    uint32_t ready_type, ends_type, holds_type;
    size_t n_to_drop; /* messages with jobs that do not come to it */
    size_t n_connected, n_closed, n_jobs, n_cancels, n_verdicts, n_refused;
    enum rota_job_cause cause; /* of the last cancel */
    struct rota_worker_job jobs[64];
};

static void on_connected(void *data, struct rota_connector_peer *peer)
{
    (void)peer;
    ((struct worker *)data)->n_connected++;
}

static void on_jobs(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct worker *worker = data;
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_job job;
    enum rota_code code;
    (void)from;
    if (worker->n_to_drop > 0) {
        worker->n_to_drop--;
        return;
    }
    while (rota_worker_batch_job_next(&batch, &job, &code, NULL)) {
        assert_true(rota_str_is_equal(job.payload, rota_str("payload")));
        worker->jobs[worker->n_jobs++ % 64] = job;
    }
    assert_int_equal(code, ROTA_OK);
}

static void on_cancel(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct worker *worker = data;
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_cancel cancel;
    enum rota_code code;
    (void)from;
    while (rota_worker_batch_cancel_next(&batch, &cancel, &code, NULL)) {
        worker->cause = cancel.cause;
        worker->n_cancels++;
    }
}

static void on_ended(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct worker *worker = data;
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_verdict verdict;
    enum rota_code code;
    (void)from;
    while (rota_worker_batch_verdict_next(&batch, &verdict, &code, NULL)) {
        worker->n_refused += verdict.code != ROTA_OK;
        worker->n_verdicts++;
    }
}

/* It has all that came to it. */
static void on_check(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct worker *worker = data;
    struct rota_worker_running held[64];
    struct rota_worker_holds holds = {.held = held};
    struct rota_worker_check check;
    struct rota_buffer body = {0};
    assert_int_equal(rota_worker_batch_check_read(message, &check, NULL), ROTA_OK);
    holds.up_to = check.up_to;
    holds.round = check.round;
    for (; holds.n_held < worker->n_jobs; holds.n_held++)
        held[holds.n_held] = (struct rota_worker_running){
            rota_str("jobs"), worker->jobs[holds.n_held].id, worker->jobs[holds.n_held].attempt};
    rota_worker_batch_holds_write(&holds, &body);
    rota_connector_send(worker->connector, from, worker->holds_type, rota_buffer_str(&body), NULL);
    rota_buffer_deinit(&body);
}

static void on_closed(void *data)
{
    ((struct worker *)data)->n_closed++;
}

static void hear(struct worker *worker, const char *name, rota_connector_on_message *on_message)
{
    uint32_t type;
    assert_int_equal(rota_connector_register(worker->connector, name, &type, NULL), ROTA_OK);
    assert_int_equal(
        rota_connector_register_handler_async(worker->connector, type, on_message, worker, NULL),
        ROTA_OK);
}

static void say_ready(struct worker *worker, uint32_t slots)
{
    struct rota_str queue = rota_str("jobs");
    struct rota_worker_ready ready = {.queues = &queue,
                                      .n_queues = 1,
                                      .slots = slots,
                                      .running = &worker->claimed,
                                      .n_running = worker->claimed.attempt > 0};
    struct rota_buffer body = {0};
    rota_worker_batch_ready_write(&ready, &body);
    assert_int_equal(rota_connector_send(worker->connector,
                                         rota_connector_broker(worker->connector),
                                         worker->ready_type, rota_buffer_str(&body), NULL),
                     ROTA_OK);
    rota_buffer_deinit(&body);
}

static void connect_worker(struct world *world, struct worker *worker, const char *name)
{
    struct rota_connector_options options = {
        .address = rota_work_broker_workers_address(world->nodes[0].broker),
        .name = name,
        .loop = &world->loop,
        .on_connected = on_connected,
        .reconnect_first = ROTA_HOUR, /* one that was replaced stays away */
        .reconnect_max = ROTA_HOUR,
        .data = worker,
    };
    assert_int_equal(rota_connector_open_worker(&options, &worker->connector, NULL), ROTA_OK);
    hear(worker, ROTA_WORKER_JOBS, on_jobs);
    hear(worker, ROTA_WORKER_CANCEL, on_cancel);
    hear(worker, ROTA_WORKER_ENDED, on_ended);
    hear(worker, ROTA_WORKER_CHECK, on_check);
    rota_connector_register(worker->connector, ROTA_WORKER_HOLDS, &worker->holds_type, NULL);
    rota_connector_register(worker->connector, ROTA_WORKER_READY, &worker->ready_type, NULL);
    rota_connector_register(worker->connector, ROTA_WORKER_ENDS, &worker->ends_type, NULL);
    assert_int_equal(rota_connector_start(worker->connector, NULL), ROTA_OK);
    await(&world->loop, &worker->n_connected, 1);
}

static void open_worker(struct world *world, struct worker *worker, const char *name,
                        uint32_t slots, size_t n_to_drop)
{
    *worker = (struct worker){.n_to_drop = n_to_drop};
    connect_worker(world, worker, name);
    say_ready(worker, slots);
}

static void close_worker(struct world *world, struct worker *worker)
{
    rota_connector_close(worker->connector, on_closed, worker);
    await(&world->loop, &worker->n_closed, 1);
}

static void end_job(struct worker *worker, size_t index, enum rota_job_cause cause)
{
    struct rota_buffer body = {0};
    struct rota_attempt_end end = {.queue = rota_str("jobs"),
                                   .id = worker->jobs[index].id,
                                   .attempt = worker->jobs[index].attempt,
                                   .cause = cause};
    if (cause == ROTA_JOB_CAUSE_DONE)
        end.bytes = rota_str("result");
    else
        end.reason = rota_str("why not");
    rota_worker_batch_end_write(&end, &body);
    assert_int_equal(rota_connector_send(worker->connector,
                                         rota_connector_broker(worker->connector),
                                         worker->ends_type, rota_buffer_str(&body), NULL),
                     ROTA_OK);
    rota_buffer_deinit(&body);
}

/* --- the rules --- */

static void a_worker_does_the_jobs_of_both_nodes(void **state)
{
    struct world *world = *state;
    struct worker worker;
    for (uint64_t p = 1; p < N_PARTITIONS; p++)
        add(world, 0, p);
    size_t n_there = counts(world, 1).jobs;
    assert_true(n_there > 0);
    open_worker(world, &worker, "w", 4, 0);
    for (size_t i = 0; i + 1 < N_PARTITIONS; i++) {
        await(&world->loop, &worker.n_jobs, i + 1);
        end_job(&worker, i, ROTA_JOB_CAUSE_DONE);
    }
    await(&world->loop, &worker.n_verdicts, N_PARTITIONS - 1);
    assert_int_equal(worker.n_refused, 0);
    assert_int_equal(counts(world, 0).jobs + counts(world, 1).jobs, 0);
    assert_int_equal(counts(world, 0).fetched_total, n_there);
    assert_int_equal(counts(world, 1).lent_total, n_there);
    assert_int_equal(counts(world, 0).remote, 0);
    close_worker(world, &worker);
}

static void one_slot_has_one_job_of_any_node(void **state)
{
    struct world *world = *state;
    struct worker worker;
    open_worker(world, &worker, "w", 1, 0);
    for (size_t i = 0; i < 12; i++)
        add(world, i % 2, 0);
    for (size_t i = 0; i < 12; i++) {
        await(&world->loop, &worker.n_jobs, i + 1);
        for (int k = 0; k < 20; k++)
            uv_run(&world->loop, UV_RUN_NOWAIT);
        assert_int_equal(worker.n_jobs, i + 1);
        end_job(&worker, i, ROTA_JOB_CAUSE_DONE);
    }
    await(&world->loop, &worker.n_verdicts, 12);
    assert_int_equal(worker.n_refused, 0);
    close_worker(world, &worker);
}

static void a_job_that_is_cancelled_there_is_cancelled_here(void **state)
{
    struct world *world = *state;
    struct worker worker;
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    struct rota_queue_about about = {.queue = rota_str("jobs"),
                                     .id = rota_str_of(world->id, sizeof world->id)};
    assert_int_equal(ask(world, 1, "Cancel", &ROTA_QUEUE_NAME, &about), ROTA_STATUS_OK);
    await(&world->loop, &worker.n_cancels, 1);
    assert_int_equal(worker.cause, ROTA_JOB_CAUSE_CANCELLED);
    add(world, 1, 0); /* its slot is free again */
    await(&world->loop, &worker.n_jobs, 2);
    close_worker(world, &worker);
}

static void a_job_that_ends_there_is_not_called_cancelled_here(void **state)
{
    struct world *world = *state;
    struct worker worker;
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    struct rota_queue_about about = {.queue = rota_str("jobs"),
                                     .id = rota_str_of(world->id, sizeof world->id),
                                     .attempt = worker.jobs[0].attempt};
    assert_int_equal(ask(world, 1, "Complete", &ROTA_QUEUE_COMPLETE, &about), ROTA_STATUS_OK);
    await(&world->loop, &worker.n_cancels, 1);
    assert_int_equal(worker.cause, ROTA_JOB_CAUSE_LOST);
    close_worker(world, &worker);
}

static void a_failure_is_carried_back(void **state)
{
    struct world *world = *state;
    struct worker worker;
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        await(&world->loop, &worker.n_jobs, i + 1);
        assert_int_equal(worker.jobs[i].n_attempts, i + 1);
        end_job(&worker, i, ROTA_JOB_CAUSE_FAILED);
    }
    await(&world->loop, &worker.n_verdicts, 3);
    assert_int_equal(worker.n_refused, 0);
    assert_int_equal(counts(world, 1).jobs, 0); /* dead */
    end_job(&worker, 0, ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_refused, 1);
    close_worker(world, &worker);
}

static void the_job_of_a_lost_worker_goes_to_another_at_once(void **state)
{
    struct world *world = *state;
    struct worker worker, other;
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    close_worker(world, &worker);
    open_worker(world, &other, "other", 1, 0);
    await(&world->loop, &other.n_jobs, 1);
    assert_int_equal(other.jobs[0].n_attempts, 2);
    end_job(&other, 0, ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &other.n_verdicts, 1);
    assert_int_equal(other.n_refused, 0);
    close_worker(world, &other);
}

static void a_job_that_did_not_come_to_its_worker_is_fetched_again(void **state)
{
    struct world *world = *state;
    struct worker worker;
    open_worker(world, &worker, "w", 1, 1);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    assert_int_equal(worker.n_to_drop, 0);
    assert_int_equal(worker.jobs[0].n_attempts, 1);
    end_job(&worker, 0, ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 1);
    assert_int_equal(worker.n_refused, 0);
    close_worker(world, &worker);
}

static void a_worker_that_sends_ready_again_keeps_its_jobs(void **state)
{
    struct world *world = *state;
    struct worker worker;
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    say_ready(&worker, 2);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 2);
    end_job(&worker, 0, ROTA_JOB_CAUSE_DONE);
    end_job(&worker, 1, ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 2);
    assert_int_equal(worker.n_refused + worker.n_cancels, 0);
    close_worker(world, &worker);
}

/* A job of another node continues with its worker, as one of this node does. */
static void a_worker_that_returns_keeps_its_job(void **state)
{
    struct world *world = *state;
    struct worker worker, again;
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    again =
        (struct worker){.claimed = {rota_str("jobs"), worker.jobs[0].id, worker.jobs[0].attempt}};
    again.jobs[again.n_jobs++] = worker.jobs[0];
    connect_worker(world, &again, "w"); /* it takes the place of its former session */
    close_worker(world, &worker);
    say_ready(&again, 1);
    end_job(&again, 0, ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &again.n_verdicts, 1);
    assert_int_equal(again.n_refused + again.n_cancels, 0);
    assert_int_equal(again.n_jobs, 1);
    close_worker(world, &again);
}

static void an_attempt_that_another_worker_has_is_cancelled(void **state)
{
    struct world *world = *state;
    struct worker worker, thief;
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    thief =
        (struct worker){.claimed = {rota_str("jobs"), worker.jobs[0].id, worker.jobs[0].attempt}};
    connect_worker(world, &thief, "thief");
    say_ready(&thief, 1);
    await(&world->loop, &thief.n_cancels, 1);
    end_job(&worker, 0, ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 1);
    assert_int_equal(worker.n_refused + worker.n_cancels, 0);
    close_worker(world, &worker);
    close_worker(world, &thief);
}

static void malformed_words_do_no_harm(void **state)
{
    struct world *world = *state;
    struct worker worker;
    struct rota_queue_word words[] = {
        {.is_offer = true, .node = rota_str("nowhere"), .queue = rota_str("jobs"), .n = 1000000},
        {.node = rota_str("nowhere"), .queue = rota_str("jobs"), .n = UINT32_MAX, .hops = 8},
        {.node = rota_str("a\nb"), .queue = rota_str("jobs"), .n = 1},
        {.node = rota_str("x"), .queue = rota_str("no such queue\n"), .n = 1},
        {.node = rota_str(""), .queue = rota_str("jobs"), .n = 1, .age_ms = UINT64_MAX},
        {.node = rota_str("x"), .queue = rota_str("jobs"), .can = rota_str("  z a"), .n = 1},
    };
    struct rota_queue_list list = {.items = {words, sizeof words / sizeof *words}};
    struct rota_queue_word visit = {.node = rota_str("nowhere"), .queue = rota_str("jobs"), .n = 1};
    for (size_t i = 0; i < N_NODES; i++) {
        assert_int_equal(ask(world, i, "/rota.peer.v1.QueuePeer/Tell", &ROTA_QUEUE_TELL, &list),
                         ROTA_STATUS_OK);
        assert_int_equal(ask(world, i, "/rota.peer.v1.QueuePeer/Visit", &ROTA_QUEUE_VISIT, &visit),
                         ROTA_STATUS_NOT_FOUND);
    }
    visit.queue = rota_str("");
    assert_int_equal(ask(world, 0, "/rota.peer.v1.QueuePeer/Visit", &ROTA_QUEUE_VISIT, &visit),
                     ROTA_STATUS_INVALID_ARGUMENT);
    open_worker(world, &worker, "w", 1, 0);
    add(world, 1, 0);
    await(&world->loop, &worker.n_jobs, 1);
    close_worker(world, &worker);
}

#define RULE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_worker_does_the_jobs_of_both_nodes),
        RULE(one_slot_has_one_job_of_any_node),
        RULE(a_job_that_is_cancelled_there_is_cancelled_here),
        RULE(a_job_that_ends_there_is_not_called_cancelled_here),
        RULE(a_failure_is_carried_back),
        RULE(the_job_of_a_lost_worker_goes_to_another_at_once),
        RULE(a_job_that_did_not_come_to_its_worker_is_fetched_again),
        RULE(a_worker_that_sends_ready_again_keeps_its_jobs),
        RULE(a_worker_that_returns_keeps_its_job),
        RULE(an_attempt_that_another_worker_has_is_cancelled),
        RULE(malformed_words_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
