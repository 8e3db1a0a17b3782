/* Workers that are connected over ZeroMQ: the driver of delivery_fsm. Per turn a worker gets one
 * message with all its jobs, one with all that it has to stop, and one with the answers to its
 * ends. */
#include "run/work/broker/work_broker_workers.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/store/work_broker_store.h"

#include "core/work/worker/delivery_fsm.h"
#include "run/connector/connector_inside.h"
#include "run/work/cluster/work_broker_forward.h"

#include <stdlib.h>

_Static_assert((int)ROTA_DELIVERY_BATCH_MAX <= (int)ROTA_WORKER_BATCH_MAX, "a batch is readable");

struct worker {
    struct rota_delivery_worker delivery;
    struct rota_connector_peer *peer; /* a reference */
    uint64_t connection;              /* the peer's session, the key in `by_peer` */
    struct rota_buffer jobs, cancels, verdicts;
};

struct rota_broker_workers {
    struct rota_work_broker *broker;
    struct rota_connector *connector;
    struct rota_delivery_fsm fsm;
    struct rota_map by_peer;
    uint32_t jobs_type, cancel_type, ended_type, check_type;
    uv_timer_t timer; /* of checks */

    /* Room for the capabilities of one worker. */
    struct rota_str capabilities[ROTA_WORKER_CAPABILITIES_MAX], queues[ROTA_WORKER_QUEUES_MAX];
    struct rota_worker_running running[ROTA_WORKER_HELD_MAX];
};

static struct rota_str key_of(const uint64_t *number)
{
    return rota_str_of(number, sizeof *number);
}

static struct worker *of_connection(const struct rota_broker_workers *workers, uint64_t connection)
{
    return rota_map_get(&workers->by_peer, key_of(&connection));
}

static struct worker *of_peer(const struct rota_broker_workers *workers,
                              const struct rota_connector_peer *peer)
{
    return of_connection(workers, rota_connector_peer_session(peer));
}

static struct worker *of_delivery(struct rota_delivery_worker *delivery)
{
    return ROTA_LIST_ITEM(delivery, struct worker, delivery);
}

static void drop_worker(struct rota_broker_workers *workers, struct worker *worker, const char *why)
{
    rota_connector_drop(workers->connector, worker->peer, why);
}

static void log_worker(struct rota_broker_workers *workers, const struct worker *worker,
                       enum rota_log_level level, const char *phrase, const char *why)
{
    rota_log(workers->broker->options.log, rota_work_broker_now().wall, level, phrase,
             ROTA_LOG_FACT("worker", rota_connector_peer_name(worker->peer)),
             ROTA_LOG_FACT("why", why));
}

/* A frame that can't be read ends the session: its content would be missing. */
static void refuse_frame(struct rota_broker_workers *workers, struct worker *worker,
                         const struct rota_error *error)
{
    log_worker(workers, worker, ROTA_LOG_WARN, "worker rejected", error->text);
    drop_worker(workers, worker, error->text);
}

/* --- actions --- */

static void send_batch(struct rota_broker_workers *workers, struct worker *worker, uint32_t type,
                       struct rota_buffer *batch)
{
    if (batch->failed ||
        rota_connector_send(workers->connector, worker->peer, type, rota_buffer_str(batch), NULL))
        drop_worker(workers, worker, "the worker does not read its messages");
    rota_buffer_clear(batch);
}

/* One message instead of two. */
static void merge_verdicts(struct worker *worker)
{
    rota_worker_batch_ended_append(rota_buffer_str(&worker->verdicts), &worker->jobs);
    worker->jobs.failed |= worker->verdicts.failed;
    rota_buffer_clear(&worker->verdicts);
}

static void ask_worker(struct rota_broker_workers *workers, struct worker *worker,
                       const struct rota_delivery_action *action)
{
    struct rota_buffer *buffer = &workers->broker->front.buffer;
    struct rota_worker_check check = {.up_to = action->number, .round = action->round};
    rota_buffer_clear(buffer);
    rota_worker_batch_check_write(&check, buffer);
    if (!buffer->failed) /* what does not fit waits for the next check */
        rota_connector_send(workers->connector, worker->peer, workers->check_type,
                            rota_buffer_str(buffer), NULL);
}

static void write_cancel(struct worker *worker, const struct rota_worker_running *attempt,
                         enum rota_job_cause cause)
{
    struct rota_worker_cancel cancel = {
        .queue = attempt->queue, .id = attempt->id, .attempt = attempt->attempt, .cause = cause};
    rota_worker_batch_cancel_write(&cancel, &worker->cancels);
}

static void queue_verdict(struct rota_broker_workers *workers, struct worker *worker,
                          const struct rota_attempt_end *end,
                          const struct rota_delivery_action *action)
{
    struct rota_buffer *buffer = &workers->broker->front.buffer;
    struct rota_worker_verdict verdict = {
        .queue = end->queue, .id = end->id, .attempt = end->attempt, .code = action->code};
    rota_buffer_clear(buffer);
    rota_worker_batch_verdict_write(&verdict, buffer);
    if (buffer->failed || !rota_work_broker_queue_verdict(workers->broker, worker->connection,
                                                          action->number, rota_buffer_str(buffer)))
        drop_worker(workers, worker, "the node does not have enough memory for a reply");
}

static void write_job(struct worker *worker, const struct rota_work_effect *effect)
{
    struct rota_worker_job job = {
        .queue = effect->queue,
        .id = effect->id,
        .attempt = effect->attempt,
        .n_attempts = effect->n_attempts,
        .priority = effect->priority,
        .timeout = effect->timeout,
        .payload = effect->payload,
        .key = effect->key,
        .trace = effect->trace,
    };
    rota_worker_batch_job_write(&job, &worker->jobs);
}

/* What an event brings: of VERDICT a struct rota_str, of HAND, FETCHED and CANCEL an effect. */
static void write_entry(struct worker *worker, const struct rota_delivery_event *event,
                        const void *entry)
{
    if (event->type == ROTA_DELIVERY_VERDICT)
        rota_buffer_append_str(&worker->verdicts, *(const struct rota_str *)entry);
    else if (event->type == ROTA_DELIVERY_CANCEL)
        write_cancel(worker, event->attempt, ((const struct rota_work_effect *)entry)->cause);
    else
        write_job(worker, entry);
}

__attribute__((noinline)) static void carry_out(struct rota_broker_workers *workers,
                                                const struct rota_delivery_action *action)
{
    struct worker *worker = of_delivery(action->worker);
    switch (action->type) {
    case ROTA_DELIVERY_DO_WRITE:
    case ROTA_DELIVERY_DO_ANSWER:
        break; /* see drive() */
    case ROTA_DELIVERY_DO_CANCEL:
        write_cancel(worker, action->attempt, ROTA_JOB_CAUSE_LOST);
        break;
    case ROTA_DELIVERY_DO_MERGE:
        merge_verdicts(worker);
        break;
    case ROTA_DELIVERY_DO_SEND_VERDICTS:
        send_batch(workers, worker, workers->ended_type, &worker->verdicts);
        break;
    case ROTA_DELIVERY_DO_SEND_JOBS:
        send_batch(workers, worker, workers->jobs_type, &worker->jobs);
        break;
    case ROTA_DELIVERY_DO_SEND_CANCELS:
        send_batch(workers, worker, workers->cancel_type, &worker->cancels);
        break;
    case ROTA_DELIVERY_DO_ASK:
        ask_worker(workers, worker, action);
        break;
    case ROTA_DELIVERY_DO_DROP:
        drop_worker(workers, worker, workers->fsm.error.text);
        break;
    case ROTA_DELIVERY_DO_REFUSE:
        refuse_frame(workers, worker, &workers->fsm.error);
        break;
    case ROTA_DELIVERY_DO_LEARN:
        rota_log(workers->broker->options.log, rota_work_broker_now().wall, ROTA_LOG_INFO,
                 "slots of a worker learned",
                 ROTA_LOG_FACT("worker", rota_connector_peer_name(worker->peer)),
                 ROTA_LOG_FACT("slots", (uint64_t)worker->delivery.slots),
                 ROTA_LOG_FACT("known", action->number));
        break;
    }
}

/* The one caller of the machine. Whether there was anything to do. Messages that come with every
 * job are handled here. */
static bool drive(struct rota_broker_workers *workers, struct rota_work_now now,
                  const struct rota_delivery_event *event, const void *entry)
{
    struct rota_delivery_actions todo = rota_delivery_fsm_step(&workers->fsm, now, event);
    for (const struct rota_delivery_action *at = todo.items; at < todo.items + todo.n; at++)
        if (at->type == ROTA_DELIVERY_DO_WRITE)
            write_entry(of_delivery(at->worker), event, entry);
        else if (at->type == ROTA_DELIVERY_DO_ANSWER)
            queue_verdict(workers, of_delivery(at->worker), event->end, at);
        else
            carry_out(workers, at);
    return todo.n > 0;
}

/* An event that changes the broker. */
static void tell_fsm(struct rota_broker_workers *workers, const struct rota_delivery_event *event)
{
    drive(workers, rota_work_broker_now(), event, NULL);
    rota_work_broker_touch(workers->broker);
}

/* --- connections --- */

static void forget_worker(struct rota_broker_workers *workers, struct worker *worker,
                          enum rota_session_end how)
{
    tell_fsm(workers, &(struct rota_delivery_event){.type = ROTA_DELIVERY_DISCONNECTED,
                                                    .worker = &worker->delivery,
                                                    .how = how});
    rota_map_remove(&workers->by_peer, key_of(&worker->connection));
    rota_connector_peer_unref(worker->peer);
    rota_buffer_deinit(&worker->jobs);
    rota_buffer_deinit(&worker->cancels);
    rota_buffer_deinit(&worker->verdicts);
    free(worker);
}

static void on_connected(void *data, struct rota_connector_peer *peer)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = calloc(1, sizeof *worker);
    if (worker) {
        worker->connection = rota_connector_peer_session(peer);
        if (rota_map_put(&workers->by_peer, key_of(&worker->connection), worker)) {
            worker->peer = rota_connector_peer_ref(peer);
            tell_fsm(workers, &(struct rota_delivery_event){.type = ROTA_DELIVERY_CONNECTED,
                                                            .worker = &worker->delivery});
            return;
        }
    }
    free(worker);
    rota_connector_drop(workers->connector, peer,
                        "the node does not have enough memory for a worker");
}

static void on_disconnected(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, peer);
    if (!worker)
        return;
    log_worker(workers, worker, ROTA_LOG_INFO, "worker disconnected", why->text);
    forget_worker(workers, worker, peer->how);
}

/* --- messages from workers --- */

static void on_ready(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_ready ready = {.capabilities = workers->capabilities,
                                      .queues = workers->queues,
                                      .running = workers->running};
    struct rota_error error;
    if (!worker)
        return;
    if (rota_worker_batch_ready_read(message, &ready, &error)) {
        refuse_frame(workers, worker, &error);
        return;
    }
    const struct rota_worker_spec spec = {
        .name = rota_connector_peer_name(from),
        .epoch = rota_connector_peer_epoch(from),
        .capabilities = ready.capabilities,
        .n_capabilities = ready.n_capabilities,
        .queues = ready.queues,
        .n_queues = ready.n_queues,
        .slots = ready.slots,
    };
    tell_fsm(workers, &(struct rota_delivery_event){
                          .type = ROTA_DELIVERY_READY,
                          .worker = &worker->delivery,
                          .spec = &spec,
                          .held = ready.running,
                          .n_held = ready.n_running,
                          .takes_ended_with_jobs = ready.takes_ended_with_jobs,
                      });
}

static void on_ends(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_attempt_end end;
    struct rota_error error;
    enum rota_code code = ROTA_OK;
    if (!worker)
        return;
    const struct rota_delivery_event event = {
        .type = ROTA_DELIVERY_END, .worker = &worker->delivery, .end = &end};
    struct rota_work_now now = rota_work_broker_now();
    while (rota_worker_batch_end_next(&batch, &end, &code, &error))
        drive(workers, now, &event, NULL);
    rota_work_broker_touch(workers->broker);
    if (code)
        refuse_frame(workers, worker, &error);
}

static void on_progress(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_step step;
    struct rota_error error;
    enum rota_code code = ROTA_OK;
    if (!worker)
        return;
    while (rota_worker_batch_step_next(&batch, &step, &code, &error)) {
        struct rota_attempt_end said = {
            .queue = step.queue, .id = step.id, .attempt = step.attempt, .reason = step.text};
        tell_fsm(workers, &(struct rota_delivery_event){.type = ROTA_DELIVERY_PROGRESS,
                                                        .worker = &worker->delivery,
                                                        .end = &said});
    }
    if (code)
        refuse_frame(workers, worker, &error);
}

static void on_slots(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_error error;
    uint32_t slots;
    if (!worker)
        return;
    if (rota_worker_batch_slots_read(message, &slots, &error))
        refuse_frame(workers, worker, &error);
    else
        tell_fsm(workers, &(struct rota_delivery_event){.type = ROTA_DELIVERY_SLOTS,
                                                        .worker = &worker->delivery,
                                                        .n = slots});
}

static void on_holds(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_holds holds = {.held = workers->running};
    struct rota_error error;
    if (!worker)
        return;
    if (rota_worker_batch_holds_read(message, &holds, &error)) {
        refuse_frame(workers, worker, &error);
        return;
    }
    tell_fsm(workers, &(struct rota_delivery_event){
                          .type = ROTA_DELIVERY_HOLDS,
                          .worker = &worker->delivery,
                          .held = holds.held,
                          .n_held = holds.n_held,
                          .up_to = holds.up_to,
                          .round = holds.round,
                          .has_slots = holds.has_slots,
                          .n = holds.slots,
                      });
}

/* --- messages to workers --- */

static void start_timer(struct rota_broker_workers *workers);

static void on_timer(uv_timer_t *timer)
{
    struct rota_broker_workers *workers = timer->data;
    drive(workers, rota_work_broker_now(),
          &(struct rota_delivery_event){.type = ROTA_DELIVERY_TICK}, NULL);
    start_timer(workers);
}

static void start_timer(struct rota_broker_workers *workers)
{
    rota_time wait =
        rota_delivery_fsm_deadline(&workers->fsm) - rota_work_broker_now().boot + ROTA_MSEC;
    uv_timer_start(&workers->timer, on_timer, wait > 0 ? rota_queue_to_ms(wait) : 0, 0);
}

static size_t size_of(const struct rota_work_effect *effect)
{
    return effect->queue.size + effect->payload.size + effect->key.size + effect->trace.size;
}

bool rota_work_broker_workers_hand(struct rota_broker_workers *workers,
                                   const struct rota_work_effect *effect)
{
    if (!workers)
        return false;
    const struct rota_delivery_event event = {.type = ROTA_DELIVERY_HAND,
                                              .session = effect->session,
                                              .handed = effect->handed,
                                              .size = size_of(effect)};
    return drive(workers, (struct rota_work_now){0}, &event, effect);
}

bool rota_work_broker_workers_hand_other(struct rota_broker_workers *workers, struct rota_str node,
                                         rota_time lease, const struct rota_work_effect *effect)
{
    if (!workers)
        return false;
    const struct rota_worker_running attempt = {
        .queue = effect->queue, .id = effect->id, .attempt = effect->attempt};
    const struct rota_delivery_event event = {.type = ROTA_DELIVERY_FETCHED,
                                              .session = effect->session,
                                              .attempt = &attempt,
                                              .node = node,
                                              .lease = lease,
                                              .size = size_of(effect)};
    return drive(workers, rota_work_broker_now(), &event, effect);
}

void rota_work_broker_workers_cancel(struct rota_broker_workers *workers,
                                     const struct rota_work_effect *effect, uint32_t n_released)
{
    if (!workers)
        return;
    const struct rota_worker_running attempt = {
        .queue = effect->queue, .id = effect->id, .attempt = effect->attempt};
    const struct rota_delivery_event event = {.type = ROTA_DELIVERY_CANCEL,
                                              .session = effect->session,
                                              .attempt = &attempt,
                                              .n = n_released};
    drive(workers, rota_work_broker_now(), &event, effect);
    if (n_released > 0)
        rota_work_broker_touch(workers->broker);
}

void rota_work_broker_workers_verdict(struct rota_broker_workers *workers, uint64_t connection,
                                      struct rota_str verdict)
{
    struct worker *worker = workers ? of_connection(workers, connection) : NULL;
    if (!worker)
        return;
    const struct rota_delivery_event event = {.type = ROTA_DELIVERY_VERDICT,
                                              .worker = &worker->delivery};
    drive(workers, (struct rota_work_now){0}, &event, &verdict);
}

void rota_work_broker_workers_tell(struct rota_broker_workers *workers, uint64_t session,
                                   struct rota_str verdict)
{
    const struct rota_delivery_event event = {.type = ROTA_DELIVERY_VERDICT, .session = session};
    if (workers)
        drive(workers, (struct rota_work_now){0}, &event, &verdict);
}

bool rota_work_broker_workers_keep(struct rota_broker_workers *workers, uint64_t session,
                                   uint32_t n)
{
    if (!workers || !rota_delivery_fsm_has(&workers->fsm, session))
        return false;
    tell_fsm(workers,
             &(struct rota_delivery_event){.type = ROTA_DELIVERY_KEEP, .session = session, .n = n});
    return true;
}

void rota_work_broker_workers_release(struct rota_broker_workers *workers, uint64_t session,
                                      uint32_t n)
{
    if (workers)
        tell_fsm(workers, &(struct rota_delivery_event){
                              .type = ROTA_DELIVERY_RELEASE, .session = session, .n = n});
}

void rota_work_broker_workers_lost(struct rota_broker_workers *workers, uint64_t session)
{
    if (workers)
        tell_fsm(workers,
                 &(struct rota_delivery_event){.type = ROTA_DELIVERY_LOST, .session = session});
}

void rota_work_broker_workers_flush(struct rota_broker_workers *workers)
{
    if (!workers || rota_list_is_empty(&workers->fsm.dirty))
        return;
    rota_connector_hold(workers->connector);
    drive(workers, (struct rota_work_now){0},
          &(struct rota_delivery_event){.type = ROTA_DELIVERY_FLUSH}, NULL);
    rota_connector_let_go(workers->connector);
}

void rota_work_broker_workers_drain(struct rota_broker_workers *workers)
{
    if (workers)
        tell_fsm(workers, &(struct rota_delivery_event){
                              .type = ROTA_DELIVERY_DRAIN,
                              .is_draining = workers->broker->front.fsm.is_draining});
}

/* --- life --- */

static enum rota_code register_all(struct rota_broker_workers *workers, struct rota_error *error)
{
    static const struct {
        const char *name;
        rota_connector_on_message *on_message;
    } HEARD[] = {{ROTA_WORKER_READY, on_ready},
                 {ROTA_WORKER_ENDS, on_ends},
                 {ROTA_WORKER_HOLDS, on_holds},
                 {ROTA_WORKER_PROGRESS, on_progress},
                 {ROTA_WORKER_SLOTS, on_slots}};
    struct rota_connector *connector = workers->connector;
    enum rota_code code =
        rota_connector_register(connector, ROTA_WORKER_JOBS, &workers->jobs_type, error);
    if (!code)
        code = rota_connector_register(connector, ROTA_WORKER_CANCEL, &workers->cancel_type, error);
    if (!code)
        code = rota_connector_register(connector, ROTA_WORKER_ENDED, &workers->ended_type, error);
    if (!code)
        code = rota_connector_register(connector, ROTA_WORKER_CHECK, &workers->check_type, error);
    for (size_t i = 0; !code && i < sizeof HEARD / sizeof *HEARD; i++) {
        uint32_t type;
        code = rota_connector_register(connector, HEARD[i].name, &type, error);
        if (!code)
            code = rota_connector_register_handler_async(connector, type, HEARD[i].on_message,
                                                         workers, error);
    }
    return code;
}

static struct rota_connector_options connector_options(
    const struct rota_work_broker_options *options)
{
    return (struct rota_connector_options){
        .address = options->workers_address,
        .key_file = options->workers_key_file,
        .workers_file = options->workers_file,
        .log = options->log,
    };
}

enum rota_code rota_work_broker_workers_check(const struct rota_work_broker_options *options,
                                              struct rota_error *error)
{
    struct rota_connector_options with = connector_options(options);
    return options->workers_address ? rota_connector_check_broker(&with, error) : ROTA_OK;
}

static bool is_others(void *data, struct rota_str queue, struct rota_job_id id,
                      struct rota_str *node)
{
    const struct rota_work_broker *broker = data;
    uint32_t partition = rota_work_broker_cluster_place(broker->cluster, id);
    *node = rota_work_broker_cluster_owner(broker->cluster, queue, partition);
    return !rota_work_broker_cluster_is_ours(broker->cluster, queue, partition);
}

enum rota_code rota_work_broker_workers_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                             struct rota_error *error)
{
    struct rota_broker_workers *workers = calloc(1, sizeof *workers);
    if (!workers)
        return rota_error_no_memory(error, "for workers");
    struct rota_connector_options with = connector_options(&broker->options);
    with.loop = loop;
    with.on_connected = on_connected;
    with.on_disconnected = on_disconnected;
    with.data = workers;
    workers->broker = broker;
    rota_map_init(&workers->by_peer, broker->seed);
    const struct rota_delivery_options machine = {
        .broker = broker->core,
        .remote = broker->forward ? &broker->forward->remote : NULL,
        .is_others = is_others,
        .data = broker,
        .seed = broker->seed,
    };
    bool is_made = rota_delivery_fsm_init(&workers->fsm, &machine, rota_work_broker_now().boot);
    broker->workers = workers;
    broker->n_handles++;
    uv_timer_init(loop, &workers->timer);
    workers->timer.data = workers;
    if (!is_made)
        return rota_error_no_memory(error, "for workers");
    start_timer(workers);
    enum rota_code code = rota_connector_open_broker(&with, &workers->connector, error);
    if (!code)
        code = register_all(workers, error);
    return code ? code : rota_connector_start(workers->connector, error);
}

const char *rota_work_broker_workers_address(const struct rota_work_broker *broker)
{
    return broker->workers ? rota_connector_address(broker->workers->connector) : NULL;
}

void rota_work_broker_workers_counts(const struct rota_broker_workers *workers,
                                     struct rota_work_broker_counts *counts)
{
    struct rota_connector_stats stats;
    if (!workers || !workers->connector)
        return;
    rota_connector_stats(workers->connector, &stats);
    counts->sends_refused_total = stats.n_refused;
    counts->dropped_total = stats.n_dropped;
    counts->malformed_total = stats.n_malformed;
    counts->turned_away_total = stats.n_turned_away;
    counts->keys_refused_total = stats.n_keys_refused;
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct rota_broker_workers *workers = timer->data;
    struct rota_work_broker *broker = workers->broker;
    rota_map_deinit(&workers->by_peer);
    rota_delivery_fsm_deinit(&workers->fsm);
    free(workers);
    rota_work_broker_let_go(broker);
}

static void on_closed(void *data)
{
    struct rota_broker_workers *workers = data;
    uv_close((uv_handle_t *)&workers->timer, on_timer_closed);
}

void rota_work_broker_workers_close(struct rota_broker_workers *workers)
{
    const struct rota_map_entry *entry;
    if (!workers)
        return;
    workers->fsm.options.remote = NULL; /* it is closed */
    for (size_t place = 0; (entry = rota_map_next(&workers->by_peer, &place)); place = 0)
        forget_worker(workers, entry->value,
                      ROTA_SESSION_EXCUSED); /* we are the side that closes */
    if (workers->connector)
        rota_connector_close(workers->connector, on_closed, workers);
    else
        on_closed(workers);
}
