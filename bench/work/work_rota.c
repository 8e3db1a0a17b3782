/* Jobs with Rota: the submitter has a channel, and adds what a turn of the loop brings with
 * one AddBatch; the workers are connected over ZeroMQ, or poll over channels of their own, and
 * end jobs with a result, those of a poll with one CompleteBatch. A job's end is on record when its
 * worker has the broker's word.
 *
 *     work_rota live GRPC-ADDRESS ZMQ-ADDRESS|polls ... */
#include "load.h"
#include "wire/message/queue_message.h"
#include "wire/message/worker_frame.h"

#include <rota/experimental/connector.h>
#include <rota/experimental/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static const char QUEUE[] = "bench";

static struct load load;
static uv_loop_t loop;
static uv_check_t turn; /* ends a turn */
static uv_idle_t idle;  /* sees that the loop does not sleep before it */

static void on_turn(uv_check_t *check);

static void on_idle(uv_idle_t *unused)
{
    (void)unused;
}

/* There is something to say. */
static void touch(void)
{
    uv_check_start(&turn, on_turn);
    uv_idle_start(&idle, on_idle);
}

/* --- batches --- */

/* The slots of one request. */
struct batch {
    struct batch *next; /* of those at rest */
    unsigned n, slots[LOAD_SLOTS_MAX];
};

static struct batch *at_rest;

static struct batch *take_batch(void)
{
    struct batch *batch = at_rest ? at_rest : malloc(sizeof *batch);
    if (!batch)
        load_fail("no memory");
    if (batch == at_rest)
        at_rest = batch->next;
    batch->n = 0;
    return batch;
}

static void put_batch(struct batch *batch)
{
    batch->next = at_rest;
    at_rest = batch;
}

/* --- the submitter --- */

static struct rota_channel *channel;
static struct batch *gathering;
static struct rota_buffer request;
static struct rota_arena arena;

static void add(unsigned slot, const char payload[LOAD_PAYLOAD_SIZE])
{
    struct rota_queue_job_spec spec = {.queue = rota_str_of(QUEUE, sizeof QUEUE - 1),
                                       .payload = rota_str_of(payload, LOAD_PAYLOAD_SIZE)};
    if (!gathering)
        gathering = take_batch();
    gathering->slots[gathering->n++] = slot;
    touch();
    rota_message_encode_entry(&ROTA_QUEUE_JOB_SPEC, 1, &spec, &request);
}

static void on_added(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct batch *batch = data;
    struct rota_queue_list reply;
    struct rota_error error;
    (void)call;
    if (result->status)
        load_fail("status %d: %.*s", result->status, (int)result->text.size, result->text.data);
    rota_arena_clear(&arena);
    if (rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY, result->message, &reply, &arena, &error))
        load_fail("%s", error.text);
    const struct rota_queue_added *added = reply.items.items;
    if (reply.items.n != batch->n)
        load_fail("an answer is missing");
    for (unsigned i = 0; i < batch->n; i++) {
        if (added[i].status || !added[i].is_new)
            load_fail("not added: %.*s", (int)added[i].error.size, added[i].error.data);
        load_added(batch->slots[i]);
    }
    put_batch(batch);
}

static void submit(void)
{
    struct rota_error error;
    struct rota_call_options options = {.method = rota_str("/rota.v1.Queue/AddBatch"),
                                        .request = rota_buffer_str(&request),
                                        .on_end = on_added,
                                        .data = gathering,
                                        .wait_for_ready = true};
    if (!gathering)
        return;
    if (request.failed || rota_channel_call(channel, &options, NULL, &error))
        load_fail("can't be added: %s", request.failed ? "no memory" : error.text);
    gathering = NULL;
    rota_buffer_clear(&request);
}

/* --- workers --- */

struct worker {
    struct rota_connector *connector;
    struct rota_connector_peer *broker;
    uint32_t ready, ends, jobs, ended;
    struct rota_buffer out;
    /* The slots of its attempts, in the order in which they were ended. */
    unsigned slots[LOAD_SLOTS_MAX], first, n;
};

static struct worker workers[LOAD_WORKERS];
static unsigned n_connected;

static void hear_verdicts(struct worker *worker, struct rota_worker_batch batch)
{
    struct rota_worker_verdict verdict;
    struct rota_error error;
    enum rota_code code;
    while (rota_worker_batch_verdict_next(&batch, &verdict, &code, &error)) {
        if (verdict.code || worker->n == 0)
            load_fail("an end was refused");
        unsigned slot = worker->slots[worker->first];
        worker->first = (worker->first + 1) % LOAD_SLOTS_MAX;
        worker->n--;
        load_ended(slot);
    }
    if (code)
        load_fail("%s", error.text);
}

static void on_jobs(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct worker *worker = data;
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_job job;
    struct rota_error error;
    enum rota_code code;
    (void)from;
    hear_verdicts(worker, rota_worker_ended_batch(message));
    while (rota_worker_batch_job_next(&batch, &job, &code, &error)) {
        struct rota_attempt_end end = {.queue = job.queue,
                                       .id = job.id,
                                       .attempt = job.attempt,
                                       .cause = ROTA_JOB_CAUSE_DONE,
                                       .bytes = rota_str_of(job.payload.data, LOAD_RESULT_SIZE)};
        worker->slots[(worker->first + worker->n++) % LOAD_SLOTS_MAX] = load_take(job.payload);
        rota_worker_batch_end_write(&end, &worker->out);
    }
    if (code)
        load_fail("%s", error.text);
    touch();
}

static void on_ended(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    (void)from;
    hear_verdicts(data, rota_worker_batch(message));
}

static void say(struct worker *worker, uint32_t type)
{
    struct rota_error error;
    if (worker->out.size == 0)
        return;
    if (worker->out.failed || rota_connector_send(worker->connector, worker->broker, type,
                                                  rota_buffer_str(&worker->out), &error))
        load_fail("a worker can't send");
    rota_buffer_clear(&worker->out);
}

static void on_connected(void *data, struct rota_connector_peer *peer)
{
    struct worker *worker = data;
    struct rota_str queue = rota_str_of(QUEUE, sizeof QUEUE - 1);
    struct rota_worker_ready ready = {
        .queues = &queue, .n_queues = 1, .slots = LOAD_SLOTS_MAX, .takes_ended_with_jobs = true};
    worker->broker = peer;
    rota_worker_batch_ready_write(&ready, &worker->out);
    say(worker, worker->ready);
    if (++n_connected == LOAD_WORKERS)
        load_start(&load);
}

static void on_disconnected(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why)
{
    (void)data;
    (void)peer;
    load_fail("a worker is gone: %s", why->text);
}

static void open_worker(struct worker *worker, unsigned number)
{
    struct rota_error error;
    char name[16];
    struct rota_connector_options options = {.address = load.addresses[1],
                                             .name = name,
                                             .loop = &loop,
                                             .on_connected = on_connected,
                                             .on_disconnected = on_disconnected,
                                             .data = worker};
    snprintf(name, sizeof name, "worker-%u", number);
    if (rota_connector_open_worker(&options, &worker->connector, &error) ||
        rota_connector_register(worker->connector, ROTA_WORKER_READY, &worker->ready, &error) ||
        rota_connector_register(worker->connector, ROTA_WORKER_ENDS, &worker->ends, &error) ||
        rota_connector_register(worker->connector, ROTA_WORKER_JOBS, &worker->jobs, &error) ||
        rota_connector_register(worker->connector, ROTA_WORKER_ENDED, &worker->ended, &error) ||
        rota_connector_register_handler_async(worker->connector, worker->jobs, on_jobs, worker,
                                              &error) ||
        rota_connector_register_handler_async(worker->connector, worker->ended, on_ended, worker,
                                              &error) ||
        rota_connector_start(worker->connector, &error))
        load_fail("%s", error.text);
}

/* --- workers that poll --- */

struct poller {
    struct rota_channel *channel;
    struct rota_arena arena;
    struct rota_buffer request;
};

static struct poller pollers[LOAD_WORKERS];

static void call(struct poller *poller, const char *method,
                 void (*on_end)(void *data, struct rota_call *call,
                                const struct rota_call_result *result),
                 void *data)
{
    struct rota_error error;
    struct rota_call_options options = {.method = rota_str(method),
                                        .request = rota_buffer_str(&poller->request),
                                        .on_end = on_end,
                                        .data = data,
                                        .wait_for_ready = true};
    if (poller->request.failed || rota_channel_call(poller->channel, &options, NULL, &error))
        load_fail("a worker can't call");
}

static void on_completed(void *data, struct rota_call *unused,
                         const struct rota_call_result *result)
{
    struct batch *batch = data;
    struct rota_queue_list reply;
    struct rota_error error;
    (void)unused;
    rota_arena_clear(&arena);
    if (result->status || rota_message_decode(&ROTA_QUEUE_COMPLETE_BATCH_REPLY, result->message,
                                              &reply, &arena, &error))
        load_fail("not completed: %.*s", (int)result->text.size, result->text.data);
    const struct rota_queue_added *ended = reply.items.items;
    if (reply.items.n != batch->n)
        load_fail("an answer is missing");
    for (unsigned i = 0; i < batch->n; i++) {
        if (ended[i].status)
            load_fail("not completed: %.*s", (int)ended[i].error.size, ended[i].error.data);
        load_ended(batch->slots[i]);
    }
    put_batch(batch);
}

static void complete(struct poller *poller, const struct rota_queue_handed *jobs, size_t n)
{
    struct batch *batch = take_batch();
    rota_buffer_clear(&poller->request);
    for (size_t i = 0; i < n; i++) {
        struct rota_queue_about about = {.queue = jobs[i].queue,
                                         .id = jobs[i].id,
                                         .attempt = jobs[i].attempt,
                                         .bytes =
                                             rota_str_of(jobs[i].payload.data, LOAD_RESULT_SIZE)};
        rota_message_encode_entry(&ROTA_QUEUE_COMPLETE, 1, &about, &poller->request);
        batch->slots[batch->n++] = load_take(jobs[i].payload);
    }
    call(poller, "/rota.v1.Queue/CompleteBatch", on_completed, batch);
}

static void poll(struct poller *poller);

static void on_polled(void *data, struct rota_call *unused, const struct rota_call_result *result)
{
    struct poller *poller = data;
    struct rota_queue_list reply;
    struct rota_error error;
    (void)unused;
    rota_arena_clear(&poller->arena);
    if (result->status || rota_message_decode(&ROTA_QUEUE_POLL_REPLY, result->message, &reply,
                                              &poller->arena, &error))
        load_fail("a poll failed");
    if (reply.items.n > 0)
        complete(poller, reply.items.items, reply.items.n);
    poll(poller);
}

static void poll(struct poller *poller)
{
    struct rota_str queue = rota_str_of(QUEUE, sizeof QUEUE - 1);
    struct rota_queue_poll wish = {.queues = {&queue, 1},
                                   .max_jobs = load_share(),
                                   .lease_ms = 120000,
                                   .wait_ms = 120000,
                                   .worker = rota_str("poller")};
    rota_buffer_clear(&poller->request);
    rota_message_encode(&ROTA_QUEUE_POLL, &wish, &poller->request);
    call(poller, "/rota.v1.Queue/Poll", on_polled, poller);
}

static void open_pollers(void)
{
    struct rota_error error;
    for (unsigned i = 0; i < LOAD_WORKERS; i++) {
        if (rota_channel_open(&loop, load.addresses[0], NULL, &pollers[i].channel, &error))
            load_fail("%s", error.text);
        poll(&pollers[i]);
    }
}

/* --- a turn --- */

static void on_turn(uv_check_t *check)
{
    uv_check_stop(check);
    uv_idle_stop(&idle);
    for (unsigned i = 0; i < LOAD_WORKERS && !load.is_fill; i++)
        if (workers[i].broker)
            say(&workers[i], workers[i].ends);
    submit();
}

int main(int argc, char **argv)
{
    struct rota_error error;
    load_parse(argc, argv, 2, &load);
    load.add = add;
    uv_loop_init(&loop);
    uv_check_init(&loop, &turn);
    uv_idle_init(&loop, &idle);
    if (rota_channel_open(&loop, load.addresses[0], NULL, &channel, &error))
        load_fail("%s", error.text);
    bool is_polling = strcmp(load.addresses[1], "polls") == 0;
    if (is_polling && !load.is_fill)
        open_pollers();
    for (unsigned i = 0; i < LOAD_WORKERS && !load.is_fill && !is_polling; i++)
        open_worker(&workers[i], i);
    if (load.is_fill || is_polling)
        load_start(&load);
    uv_run(&loop, UV_RUN_DEFAULT);
    return 1;
}
