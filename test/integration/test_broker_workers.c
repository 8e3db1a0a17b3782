/* A broker whose workers are connected over ZeroMQ, on one loop. */
#include "await.h"
#include "libzmq_races.h"

#include "wire/message/queue_message.h"
#include "wire/message/worker_frame.h"

#include <pthread.h>
#include <rota/experimental/broker.h>
#include <rota/experimental/channel.h>
#include <rota/experimental/connector.h>
#include <rota/server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world {
    uv_loop_t loop;
    struct rota_server *server;
    struct rota_work_broker *broker;
    struct rota_channel *channel;
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_log log;
    pthread_t thread;        /* of the loop */
    size_t n_gone, n_abroad; /* lines of workers that are gone; those by another thread */
};

/* A worker, and what it was told. */
struct worker {
    struct rota_connector *connector;
    uint32_t ready_type, ends_type, slots_type, holds_type, progress_type;
    size_t n_to_drop; /* messages with jobs that do not come to it */
    size_t n_checks;
    uint32_t slots; /* that it tells when it is asked; 0: none */
    bool takes_ended_with_jobs;
    size_t n_connected, n_closed, n_jobs, n_messages, n_cancels, n_verdicts;
    size_t n_along;    /* verdicts that came with jobs */
    size_t n_refusals; /* verdicts that are not ROTA_OK */
    struct rota_worker_job jobs[64];
    char queue[16], payload[64];
    enum rota_code verdict;
    enum rota_job_cause cause;
};

static void note_line(void *data, struct rota_str line)
{
    struct world *world = data;
    if (!memmem(line.data, line.size, "worker disconnected", 19))
        return; /* also of the thread that has the socket */
    world->n_abroad += !pthread_equal(pthread_self(), world->thread);
    world->n_gone++;
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    world->thread = pthread_self();
    world->log = (struct rota_log){ROTA_LOG_INFO, note_line, world};
    struct rota_error error;
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    struct rota_work_broker_options options = {
        .is_memory = true, .workers_address = "127.0.0.1:0", .log = &world->log};
    assert_int_equal(uv_loop_init(&world->loop), 0);
    assert_int_equal(rota_server_open(&world->loop, &with, &world->server, NULL), ROTA_OK);
    if (rota_work_broker_open(&world->loop, world->server, &options, &world->broker, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_server_listen(world->server, "127.0.0.1:0", NULL), ROTA_OK);
    assert_int_equal(rota_channel_open(&world->loop, rota_server_address(world->server, 0), NULL,
                                       &world->channel, NULL),
                     ROTA_OK);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    rota_channel_close(world->channel);
    rota_server_close(world->server);
    rota_work_broker_close(world->broker);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
    free(world);
    return 0;
}

static enum rota_status ask(struct world *world, const char *method,
                            const struct rota_message_type *type, const void *message)
{
    struct rota_buffer buffer = {0};
    struct rota_reply reply;
    char path[64];
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", method);
    rota_message_encode(type, message, &buffer);
    struct rota_call_options call = {.method = rota_str(path), .request = rota_buffer_str(&buffer)};
    assert_int_equal(rota_channel_wait(world->channel, &call, &reply, NULL), ROTA_OK);
    enum rota_status status = reply.status;
    if (status == ROTA_STATUS_OK && type == &ROTA_QUEUE_ADD)
        memcpy(world->id, reply.message + 2, sizeof world->id);
    rota_reply_deinit(&reply);
    rota_buffer_deinit(&buffer);
    return status;
}

static void add(struct world *world, const char *payload, uint64_t max_attempts)
{
    struct rota_queue_job_spec spec = {.queue = rota_str("jobs"),
                                       .payload = rota_str(payload),
                                       .max_attempts = max_attempts,
                                       .backoff_ms = 1};
    struct rota_queue_add request = {.job = &spec};
    assert_int_equal(ask(world, "Add", &ROTA_QUEUE_ADD, &request), ROTA_STATUS_OK);
}

/* --- a worker --- */

static void on_connected(void *data, struct rota_connector_peer *peer)
{
    (void)peer;
    ((struct worker *)data)->n_connected++;
}

static size_t take_verdicts(struct worker *worker, struct rota_worker_batch batch)
{
    struct rota_worker_verdict verdict;
    enum rota_code code;
    while (rota_worker_batch_verdict_next(&batch, &verdict, &code, NULL)) {
        worker->verdict = verdict.code;
        worker->n_verdicts++;
        worker->n_refusals += verdict.code != ROTA_OK;
    }
    assert_int_equal(code, ROTA_OK);
    return batch.n;
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
    worker->n_messages++;
    worker->n_along += take_verdicts(worker, rota_worker_ended_batch(message));
    while (rota_worker_batch_job_next(&batch, &job, &code, NULL)) {
        snprintf(worker->payload, sizeof worker->payload, "%.*s", ROTA_STR_ARGS(job.payload));
        worker->jobs[worker->n_jobs % 64] = job;
        worker->n_jobs++;
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
        assert_true(rota_str_is_equal(cancel.queue, rota_str("jobs")));
        worker->cause = cancel.cause;
        worker->n_cancels++;
    }
}

static void on_ended(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    (void)from;
    take_verdicts(data, rota_worker_batch(message));
}

/* It has all that came to it, and more: jobs that ended are confirmed, and do no harm. */
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
    holds.has_slots = worker->slots > 0;
    holds.slots = worker->slots;
    for (; holds.n_held < worker->n_jobs; holds.n_held++)
        held[holds.n_held] = (struct rota_worker_running){
            rota_str("jobs"), worker->jobs[holds.n_held].id, worker->jobs[holds.n_held].attempt};
    rota_worker_batch_holds_write(&holds, &body);
    rota_connector_send(worker->connector, from, worker->holds_type, rota_buffer_str(&body), NULL);
    rota_buffer_deinit(&body);
    worker->n_checks++;
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
                                      .takes_ended_with_jobs = worker->takes_ended_with_jobs};
    struct rota_buffer body = {0};
    rota_worker_batch_ready_write(&ready, &body);
    assert_int_equal(rota_connector_send(worker->connector,
                                         rota_connector_broker(worker->connector),
                                         worker->ready_type, rota_buffer_str(&body), NULL),
                     ROTA_OK);
    rota_buffer_deinit(&body);
}

static void worker_connect(struct world *world, struct worker *worker, const char *name)
{
    struct rota_connector_options options = {
        .address = rota_work_broker_workers_address(world->broker),
        .name = name,
        .loop = &world->loop,
        .on_connected = on_connected,
        .data = worker,
    };
    *worker = (struct worker){0};
    assert_int_equal(rota_connector_open_worker(&options, &worker->connector, NULL), ROTA_OK);
    hear(worker, ROTA_WORKER_JOBS, on_jobs);
    hear(worker, ROTA_WORKER_CANCEL, on_cancel);
    hear(worker, ROTA_WORKER_ENDED, on_ended);
    hear(worker, ROTA_WORKER_CHECK, on_check);
    rota_connector_register(worker->connector, ROTA_WORKER_HOLDS, &worker->holds_type, NULL);
    rota_connector_register(worker->connector, ROTA_WORKER_READY, &worker->ready_type, NULL);
    rota_connector_register(worker->connector, ROTA_WORKER_ENDS, &worker->ends_type, NULL);
    rota_connector_register(worker->connector, ROTA_WORKER_SLOTS, &worker->slots_type, NULL);
    rota_connector_register(worker->connector, ROTA_WORKER_PROGRESS, &worker->progress_type, NULL);
    assert_int_equal(rota_connector_start(worker->connector, NULL), ROTA_OK);
    await(&world->loop, &worker->n_connected, 1);
}

static void worker_open(struct world *world, struct worker *worker, const char *name,
                        uint32_t slots)
{
    worker_connect(world, worker, name);
    say_ready(worker, slots);
}

static void worker_close(struct world *world, struct worker *worker)
{
    rota_connector_close(worker->connector, on_closed, worker);
    await(&world->loop, &worker->n_closed, 1);
}

static void send_body(struct worker *worker, uint32_t type, struct rota_buffer *body)
{
    assert_int_equal(rota_connector_send(worker->connector,
                                         rota_connector_broker(worker->connector), type,
                                         rota_buffer_str(body), NULL),
                     ROTA_OK);
    rota_buffer_deinit(body);
}

static void end_with(struct worker *worker, const struct rota_worker_job *job,
                     enum rota_job_cause cause, struct rota_str bytes, struct rota_str reason)
{
    struct rota_buffer body = {0};
    struct rota_attempt_end end = {.queue = rota_str("jobs"),
                                   .id = job->id,
                                   .attempt = job->attempt,
                                   .cause = cause,
                                   .bytes = bytes,
                                   .reason = reason};
    rota_worker_batch_end_write(&end, &body);
    send_body(worker, worker->ends_type, &body);
}

static void end_job(struct worker *worker, const struct rota_worker_job *job,
                    enum rota_job_cause cause)
{
    bool is_done = cause == ROTA_JOB_CAUSE_DONE;
    end_with(worker, job, cause, rota_str(is_done ? "result" : ""),
             rota_str(is_done ? "" : "why not"));
}

/* Messages are heard in their order: end a job that there is not, and wait for the refusal. */
static void await_heard(struct world *world, struct worker *worker)
{
    size_t n = worker->n_refusals;
    end_job(worker, &(struct rota_worker_job){.id = {1, 1}, .attempt = 1}, ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker->n_refusals, n + 1);
}

static void tell_slots(struct worker *worker, uint32_t slots)
{
    struct rota_buffer body = {0};
    rota_worker_batch_slots_write(slots, &body);
    send_body(worker, worker->slots_type, &body);
}

static void tell_progress(struct worker *worker, const struct rota_worker_job *job,
                          struct rota_str text)
{
    struct rota_buffer body = {0};
    struct rota_worker_step step = {rota_str("jobs"), job->id, job->attempt, text};
    rota_worker_batch_step_write(&step, &body);
    send_body(worker, worker->progress_type, &body);
}

/* What the broker shows of the job that was added last. */
static void describe(struct world *world, struct rota_reply *reply, struct rota_arena *arena,
                     const struct rota_queue_job_info **info)
{
    struct rota_buffer buffer = {0};
    static struct rota_queue_description told;
    struct rota_queue_about about = {.queue = rota_str("jobs"),
                                     .id = rota_str_of(world->id, sizeof world->id)};
    rota_message_encode(&ROTA_QUEUE_DESCRIBE, &about, &buffer);
    struct rota_call_options call = {.method = rota_str("/rota.v1.Queue/Describe"),
                                     .request = rota_buffer_str(&buffer)};
    assert_int_equal(rota_channel_wait(world->channel, &call, reply, NULL), ROTA_OK);
    assert_int_equal(reply->status, ROTA_STATUS_OK);
    assert_int_equal(rota_message_decode(&ROTA_QUEUE_DESCRIPTION,
                                         rota_str_of(reply->message, reply->size), &told, arena,
                                         NULL),
                     ROTA_OK);
    *info = told.job;
    rota_buffer_deinit(&buffer);
}

/* The workers that the broker lists: how many, and the slots of the first of this name. */
static size_t list_workers(struct world *world, const char *name, uint64_t *slots)
{
    struct rota_buffer buffer = {0};
    struct rota_reply reply;
    struct rota_arena arena = {0};
    struct rota_queue_setting nothing = {0};
    struct rota_queue_list list;
    rota_message_encode(&ROTA_QUEUE_PAUSE, &nothing, &buffer);
    struct rota_call_options call = {.method = rota_str("/rota.v1.Queue/Workers"),
                                     .request = rota_buffer_str(&buffer)};
    assert_int_equal(rota_channel_wait(world->channel, &call, &reply, NULL), ROTA_OK);
    assert_int_equal(rota_message_decode(&ROTA_QUEUE_WORKERS_REPLY,
                                         rota_str_of(reply.message, reply.size), &list, &arena,
                                         NULL),
                     ROTA_OK);
    const struct rota_queue_worker_info *workers = list.items.items;
    size_t n = list.items.n, at = 0;
    while (at < n && !rota_str_is_equal(workers[at].name, rota_str(name)))
        at++;
    *slots = at < n ? workers[at].slots : 0;
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    rota_buffer_deinit(&buffer);
    return n;
}

static uint64_t slots_of(struct world *world, const char *name)
{
    uint64_t slots;
    assert_true(list_workers(world, name, &slots) > 0);
    return slots;
}

/* --- tests --- */

static void a_connected_worker_gets_jobs_and_ends_them(void **state)
{
    struct world *world = *state;
    struct worker worker;
    worker_open(world, &worker, "w1", 2);
    add(world, "first", 0);
    await(&world->loop, &worker.n_jobs, 1);
    assert_string_equal(worker.payload, "first");
    end_job(&worker, &worker.jobs[0], ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 1);
    assert_int_equal(worker.verdict, ROTA_OK);
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 0);
    worker.jobs[0].attempt++;
    end_job(&worker, &worker.jobs[0], ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 2);
    assert_int_equal(worker.verdict, ROTA_ERR_STALE);
    worker_close(world, &worker);
}

/* With one slot, the end of a job makes room for the next: its verdict and the job leave in the
 * same turn. */
static void a_verdict_travels_with_the_next_job_if_the_worker_supports_it(void **state)
{
    struct world *world = *state;
    struct worker worker;
    for (int takes = 0; takes < 2; takes++) {
        worker_open(world, &worker, "w1", 0);
        worker.takes_ended_with_jobs = takes;
        say_ready(&worker, 1);
        add(world, "first", 0);
        add(world, "second", 0);
        await(&world->loop, &worker.n_jobs, 1);
        end_job(&worker, &worker.jobs[0], ROTA_JOB_CAUSE_DONE);
        await(&world->loop, &worker.n_jobs, 2);
        await(&world->loop, &worker.n_verdicts, 1);
        assert_int_equal(worker.verdict, ROTA_OK);
        assert_int_equal(worker.n_along, takes);
        end_job(&worker, &worker.jobs[1], ROTA_JOB_CAUSE_DONE);
        await(&world->loop, &worker.n_verdicts, 2);
        assert_int_equal(worker.n_along, takes); /* there was no job to come with */
        assert_int_equal(worker.n_messages, 2);
        worker_close(world, &worker);
    }
}

static void jobs_of_one_turn_are_one_message(void **state)
{
    struct world *world = *state;
    struct worker worker;
    for (int i = 0; i < 20; i++)
        add(world, "x", 0);
    worker_open(world, &worker, "w1", 32);
    await(&world->loop, &worker.n_jobs, 20);
    assert_int_equal(worker.n_messages, 1);
    worker_close(world, &worker);
}

static void a_lost_workers_job_goes_to_another(void **state)
{
    struct world *world = *state;
    struct worker first, second;
    worker_open(world, &first, "w1", 1);
    add(world, "x", 0);
    await(&world->loop, &first.n_jobs, 1);
    worker_open(world, &second, "w2", 1);
    worker_close(world, &first);
    await(&world->loop, &second.n_jobs, 1);
    assert_int_equal(second.jobs[0].n_attempts, 2);
    assert_true(second.jobs[0].attempt > first.jobs[0].attempt);
    worker_close(world, &second);
}

/* The broker has no locks. */
static void a_broker_handles_its_workers_on_its_own_loop(void **state)
{
    struct world *world = *state;
    struct worker worker;
    worker_open(world, &worker, "w1", 1);
    worker_close(world, &worker);
    await(&world->loop, &world->n_gone, 1);
    assert_int_equal(world->n_abroad, 0);
}

static void a_cancelled_job_is_stopped_at_its_worker(void **state)
{
    struct world *world = *state;
    struct worker worker;
    worker_open(world, &worker, "w1", 1);
    add(world, "x", 0);
    await(&world->loop, &worker.n_jobs, 1);
    struct rota_queue_about about = {.queue = rota_str("jobs"),
                                     .id = rota_str_of(world->id, sizeof world->id)};
    assert_int_equal(ask(world, "Cancel", &ROTA_QUEUE_NAME, &about), ROTA_STATUS_OK);
    await(&world->loop, &worker.n_cancels, 1);
    assert_int_equal(worker.cause, ROTA_JOB_CAUSE_CANCELLED);
    worker_close(world, &worker);
}

static void a_malformed_frame_ends_the_session_and_not_the_broker(void **state)
{
    struct world *world = *state;
    struct worker worker;
    uint64_t slots;
    worker_open(world, &worker, "w1", 1);
    const uint32_t types[] = {worker.ends_type, worker.slots_type, worker.holds_type,
                              worker.progress_type, worker.ready_type};
    add(world, "x", 100);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (i > 0)
            say_ready(&worker, 1);
        await(&world->loop, &worker.n_jobs, i + 1);
        assert_int_equal(rota_connector_send(worker.connector,
                                             rota_connector_broker(worker.connector), types[i],
                                             rota_str("\xff\xff\xff"), NULL),
                         ROTA_OK);
        await(&world->loop, &worker.n_connected, i + 2); /* it comes back in another session */
        await(&world->loop, &world->n_gone, i + 1);
        assert_int_equal(list_workers(world, "w1", &slots), 0);
    }
    worker_close(world, &worker);
    worker_open(world, &worker, "w2", 1);
    await(&world->loop, &worker.n_jobs, 1);
    worker_close(world, &worker);
}

static void a_worker_cannot_end_another_workers_attempt(void **state)
{
    struct world *world = *state;
    struct worker victim, thief;
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_reply reply;
    struct rota_arena arena = {0};
    const struct rota_queue_job_info *info;
    worker_open(world, &victim, "victim", 1);
    add(world, "x", 0);
    await(&world->loop, &victim.n_jobs, 1);
    worker_open(world, &thief, "thief", 1);
    tell_progress(&thief, &victim.jobs[0], rota_str("mine"));
    end_with(&thief, &victim.jobs[0], ROTA_JOB_CAUSE_DONE, rota_str("stolen"), rota_str(""));
    await(&world->loop, &thief.n_verdicts, 1);
    assert_int_equal(thief.verdict, ROTA_ERR_STALE);
    struct rota_queue_about about = {.queue = rota_str("jobs"),
                                     .id = rota_queue_message_id_write(victim.jobs[0].id, id),
                                     .attempt = victim.jobs[0].attempt,
                                     .bytes = rota_str("stolen")};
    assert_int_equal(ask(world, "Complete", &ROTA_QUEUE_COMPLETE, &about), ROTA_STATUS_ABORTED);
    assert_int_equal(ask(world, "Fail", &ROTA_QUEUE_FAIL, &about), ROTA_STATUS_ABORTED);

    /* No other process learns the number of an attempt that can be ended by it. */
    describe(world, &reply, &arena, &info);
    assert_int_equal(info->state, ROTA_JOB_RUNNING);
    assert_int_equal(info->progress.size, 0);
    assert_int_equal(info->attempt, 0);
    const struct rota_queue_event *events = info->events.items;
    for (size_t i = 0; i < info->events.n; i++)
        assert_int_equal(events[i].attempt, 0);
    rota_reply_deinit(&reply);

    end_with(&victim, &victim.jobs[0], ROTA_JOB_CAUSE_DONE, rota_str("real"), rota_str(""));
    await(&world->loop, &victim.n_verdicts, 1);
    assert_int_equal(victim.verdict, ROTA_OK);
    end_with(&thief, &victim.jobs[0], ROTA_JOB_CAUSE_DONE, rota_str("stolen"), rota_str(""));
    await(&world->loop, &thief.n_verdicts, 2);
    assert_int_equal(thief.verdict, ROTA_ERR_STALE);
    describe(world, &reply, &arena, &info);
    assert_true(rota_str_is_equal(info->result, rota_str("real")));
    assert_true(rota_str_is_equal(info->worker, rota_str("victim")));
    assert_true(info->attempt == victim.jobs[0].attempt);
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    worker_close(world, &victim);
    worker_close(world, &thief);
}

static void one_bad_end_costs_its_job_an_attempt_and_nothing_else(void **state)
{
    struct world *world = *state;
    struct worker worker;
    char *large = calloc(1, ROTA_JOB_PAYLOAD_MAX + 1);
    struct rota_str none = rota_str("");
    worker_open(world, &worker, "w1", 4);
    for (int i = 0; i < 4; i++)
        add(world, "x", 1);
    await(&world->loop, &worker.n_jobs, 4);
    end_with(&worker, &worker.jobs[0], ROTA_JOB_CAUSE_DONE,
             rota_str_of(large, ROTA_JOB_PAYLOAD_MAX + 1), none);
    await(&world->loop, &worker.n_verdicts, 1);
    assert_int_equal(worker.verdict, ROTA_ERR_INVALID);
    end_with(&worker, &worker.jobs[1], (enum rota_job_cause)99, none, none);
    await(&world->loop, &worker.n_verdicts, 2);
    assert_int_equal(worker.verdict, ROTA_ERR_INVALID);
    tell_progress(&worker, &worker.jobs[3], rota_str_of(large, 5000));
    end_with(&worker, &worker.jobs[2], ROTA_JOB_CAUSE_FAILED, none, rota_str_of(large, 5000));
    await(&world->loop, &worker.n_verdicts, 3);
    assert_int_equal(worker.verdict, ROTA_OK);
    end_job(&worker, &worker.jobs[3], ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 4);
    assert_int_equal(worker.verdict, ROTA_OK);
    assert_int_equal(worker.n_connected, 1);
    assert_int_equal(worker.n_cancels, 0);
    free(large);
    worker_close(world, &worker);
}

static void the_progress_of_a_worker_is_shown(void **state)
{
    struct world *world = *state;
    struct worker worker;
    struct rota_reply reply;
    struct rota_arena arena = {0};
    const struct rota_queue_job_info *info;
    worker_open(world, &worker, "w1", 1);
    add(world, "x", 0);
    await(&world->loop, &worker.n_jobs, 1);
    tell_progress(&worker, &worker.jobs[0], rota_str("half"));
    /* What follows in the session is heard after it. */
    worker.jobs[1] = worker.jobs[0];
    worker.jobs[1].attempt++;
    end_job(&worker, &worker.jobs[1], ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 1);
    assert_int_equal(worker.verdict, ROTA_ERR_STALE);
    describe(world, &reply, &arena, &info);
    assert_true(rota_str_is_equal(info->progress, rota_str("half")));
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    worker_close(world, &worker);
}

static void worker_gets_as_many_jobs_as_it_reports_slots(void **state)
{
    struct world *world = *state;
    struct worker worker;
    worker_open(world, &worker, "w1", 0);
    for (int i = 0; i < 4; i++)
        add(world, "x", 0);
    await_heard(world, &worker);
    assert_int_equal(worker.n_jobs, 0);
    tell_slots(&worker, 2);
    await(&world->loop, &worker.n_jobs, 2);
    await_heard(world, &worker);
    assert_int_equal(worker.n_jobs, 2);
    assert_int_equal(slots_of(world, "w1"), 2);
    tell_slots(&worker, 0); /* it takes no more, and ends what it has */
    end_job(&worker, &worker.jobs[0], ROTA_JOB_CAUSE_DONE);
    await_heard(world, &worker);
    assert_int_equal(worker.n_jobs, 2);
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 3);
    tell_slots(&worker, 3);
    await(&world->loop, &worker.n_jobs, 4);
    worker_close(world, &worker);
}

/* Its session counts from when it says what it can do. */
static void worker_that_is_not_ready_is_ignored_and_then_disconnected(void **state)
{
    struct world *world = *state;
    struct worker worker, idle;
    uint64_t slots;
    worker_open(world, &worker, "w1", 1);
    add(world, "x", 0);
    await(&world->loop, &worker.n_jobs, 1);
    assert_int_equal(rota_connector_send(worker.connector, rota_connector_broker(worker.connector),
                                         worker.ends_type, rota_str("\xff"), NULL),
                     ROTA_OK);
    await(&world->loop, &worker.n_connected, 2);
    end_job(&worker, &worker.jobs[0], ROTA_JOB_CAUSE_DONE);
    tell_progress(&worker, &worker.jobs[0], rota_str("half"));
    tell_slots(&worker, 5);
    say_ready(&worker, 1);
    await(&world->loop, &worker.n_jobs, 2); /* the job, again */
    await_heard(world, &worker);
    assert_int_equal(worker.n_verdicts, 1);
    assert_int_equal(slots_of(world, "w1"), 1);
    worker_close(world, &worker);
    await(&world->loop, &world->n_gone, 2);

    /* It hears questions when nothing was sent to it, too: what it said may have been lost. */
    worker_open(world, &idle, "idle", 0);
    idle.slots = 7;
    worker_connect(world, &worker, "w1");
    await(&world->loop, &worker.n_connected, 2);
    await(&world->loop, &world->n_gone, 3);
    assert_int_equal(worker.n_checks, 0);
    assert_int_equal(list_workers(world, "idle", &slots), 1);
    await(&world->loop, &idle.n_checks, 1);
    await(&world->loop, &idle.n_jobs, 1);
    assert_int_equal(slots_of(world, "idle"), 7);
    worker_close(world, &worker);
    worker_close(world, &idle);
}

static void broker_that_drains_hands_out_nothing_until_it_is_restored(void **state)
{
    struct world *world = *state;
    struct worker first, second;
    worker_open(world, &first, "first", 1);
    for (int i = 0; i < 6; i++)
        add(world, "x", 0);
    await(&world->loop, &first.n_jobs, 1);
    rota_work_broker_drain(world->broker);
    assert_false(rota_work_broker_is_drained(world->broker));
    tell_slots(&first, 2);
    worker_open(world, &second, "second", 3); /* which comes while it drains */
    await_heard(world, &first);
    await_heard(world, &second);
    say_ready(&first, 2); /* and one that says again what it can do */
    await_heard(world, &first);
    assert_int_equal(slots_of(world, "first"), 0);
    assert_int_equal(slots_of(world, "second"), 0);
    assert_int_equal(first.n_jobs + second.n_jobs, 1);
    end_job(&first, &first.jobs[0], ROTA_JOB_CAUSE_DONE);
    await_heard(world, &first);
    assert_int_equal(rota_work_broker_counts(world->broker).running, 0);
    assert_int_equal(first.n_jobs + second.n_jobs, 1);

    rota_work_broker_restore(world->broker);
    await(&world->loop, &first.n_jobs, 3);
    await(&world->loop, &second.n_jobs, 3);
    assert_int_equal(slots_of(world, "first"), 2);
    assert_int_equal(slots_of(world, "second"), 3);
    worker_close(world, &first);
    worker_close(world, &second);
}

/* A worker takes 17 MiB in one message. */
static void large_jobs_of_one_turn_are_several_messages(void **state)
{
    struct world *world = *state;
    struct worker worker;
    char *large = malloc(ROTA_JOB_PAYLOAD_MAX);
    memset(large, 'x', ROTA_JOB_PAYLOAD_MAX);
    for (size_t i = 0; i < 4; i++) { /* two fit into one message */
        large[i < 3 ? 7 << 20 : ROTA_JOB_PAYLOAD_MAX - 1] = '\0';
        add(world, large, 0);
        large[7 << 20] = 'x';
    }
    worker_open(world, &worker, "w1", 8);
    await(&world->loop, &worker.n_jobs, 4);
    assert_int_equal(worker.n_messages, 3);
    assert_int_equal(worker.n_connected, 1);
    free(large);
    worker_close(world, &worker);
}

/* A job that a worker died of is dead at once here; one whose worker leaves is not. */
static void worker_whose_place_a_newer_session_takes_has_died(void **state)
{
    struct world *world = *state;
    struct worker first, former, newer;
    struct rota_reply reply;
    struct rota_arena arena = {0};
    const struct rota_queue_job_info *info;
    struct rota_queue_setting quarantine = {.queue = rota_str("jobs"), .weight = 1};
    assert_int_equal(ask(world, "SetQuarantine", &ROTA_QUEUE_QUARANTINE, &quarantine),
                     ROTA_STATUS_OK);
    worker_open(world, &first, "w1", 1);
    add(world, "x", 0);
    await(&world->loop, &first.n_jobs, 1);
    worker_close(world, &first);
    worker_open(world, &former, "w2", 1);
    await(&world->loop, &former.n_jobs, 1);
    describe(world, &reply, &arena, &info);
    assert_int_equal(info->state, ROTA_JOB_RUNNING);
    rota_reply_deinit(&reply);

    worker_open(world, &newer, "w2", 1);
    await_heard(world, &newer);
    assert_int_equal(world->n_gone, 2);
    assert_int_equal(newer.n_jobs, 0);
    describe(world, &reply, &arena, &info);
    assert_int_equal(info->state, ROTA_JOB_DEAD);
    assert_int_equal(info->cause, ROTA_JOB_CAUSE_LOST);
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    worker_close(world, &former);
    worker_close(world, &newer);
}

static void unreported_slots_are_learned(void **state)
{
    struct world *world = *state;
    struct worker worker;
    worker_open(world, &worker, "w1", 1);
    for (int i = 0; i < 3; i++)
        add(world, "x", 0);
    await(&world->loop, &worker.n_jobs, 1);
    worker.slots = 3; /* what it said of it was lost */
    await(&world->loop, &worker.n_jobs, 3);
    worker_close(world, &worker);
}

static void jobs_that_did_not_arrive_are_handed_out_again(void **state)
{
    struct world *world = *state;
    struct worker worker;
    worker_open(world, &worker, "w1", 4);
    add(world, "first", 0);
    await(&world->loop, &worker.n_jobs, 1);
    worker.n_to_drop = 1;
    add(world, "lost", 0);
    await(&world->loop, &worker.n_jobs, 2);
    assert_string_equal(worker.payload, "lost");
    assert_int_equal(worker.jobs[1].n_attempts, 2);
    for (int i = 0; i < 2; i++)
        end_job(&worker, &worker.jobs[i], ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 2);
    assert_int_equal(worker.verdict, ROTA_OK);
    worker_close(world, &worker);
}

static void a_worker_that_is_ready_again_loses_neither_jobs_nor_answers(void **state)
{
    struct world *world = *state;
    struct worker worker;
    worker_open(world, &worker, "w1", 4);
    add(world, "first", 0);
    await(&world->loop, &worker.n_jobs, 1);
    end_job(&worker, &worker.jobs[0], ROTA_JOB_CAUSE_DONE);
    say_ready(&worker, 4); /* before the answer can be there */
    await(&world->loop, &worker.n_verdicts, 1);
    assert_int_equal(worker.verdict, ROTA_OK);
    add(world, "second", 0);
    await(&world->loop, &worker.n_jobs, 2);
    say_ready(&worker, 4); /* as it would before the job came */
    await(&world->loop, &worker.n_checks, 1);
    end_job(&worker, &worker.jobs[1], ROTA_JOB_CAUSE_DONE);
    await(&world->loop, &worker.n_verdicts, 2);
    assert_int_equal(worker.verdict, ROTA_OK);
    assert_int_equal(worker.n_jobs, 2);
    worker_close(world, &worker);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_connected_worker_gets_jobs_and_ends_them),
        TEST(a_verdict_travels_with_the_next_job_if_the_worker_supports_it),
        TEST(jobs_of_one_turn_are_one_message),
        TEST(a_lost_workers_job_goes_to_another),
        TEST(a_broker_handles_its_workers_on_its_own_loop),
        TEST(a_cancelled_job_is_stopped_at_its_worker),
        TEST(a_malformed_frame_ends_the_session_and_not_the_broker),
        TEST(a_worker_cannot_end_another_workers_attempt),
        TEST(one_bad_end_costs_its_job_an_attempt_and_nothing_else),
        TEST(the_progress_of_a_worker_is_shown),
        TEST(worker_gets_as_many_jobs_as_it_reports_slots),
        TEST(worker_that_is_not_ready_is_ignored_and_then_disconnected),
        TEST(broker_that_drains_hands_out_nothing_until_it_is_restored),
        TEST(large_jobs_of_one_turn_are_several_messages),
        TEST(worker_whose_place_a_newer_session_takes_has_died),
        TEST(unreported_slots_are_learned),
        TEST(jobs_that_did_not_arrive_are_handed_out_again),
        TEST(a_worker_that_is_ready_again_loses_neither_jobs_nor_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
