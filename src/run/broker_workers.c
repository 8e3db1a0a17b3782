/* Workers that are connected over ZeroMQ: each session of theirs is one of the broker's.
 * Per turn a worker gets one message with all its jobs, one with all that it has to stop,
 * and one with what became of its ends. */
#include "run/broker_inside.h"

#include "run/connector_inside.h"

#include <stdlib.h>

enum {
    BATCH_BYTES = 16 << 20, /* of jobs in one message; a first one always goes */
    CHECK_MS = 3000,        /* how often workers are asked what they have, if they were told any */
    READY_CHECKS = 3, /* ... and after so many one that never said what it can do is sent away */
    SURE_CHECKS = 4,  /* ... and after so many without a question one is asked all the same */
};

struct worker {
    struct rota_connector_peer *peer; /* a reference */
    uint64_t connection;              /* the peer's session, the key in `by_peer` */
    uint64_t session;                 /* the broker's, the key in `by_session`; 0: not ready */
    uint32_t slots;                   /* that it says it has */
    uint32_t n_kept;                  /* ... for jobs of other nodes */
    bool takes_ended_with_jobs;
    struct rota_list_node dirty;
    struct rota_buffer jobs, cancels, verdicts;
    size_t n_jobs, n_cancels, n_verdicts;

    /* Each message of jobs or cancels begins a round. What came to the worker of the rounds up
     * to `sure` is known. */
    uint64_t round, sure;
    uint64_t handed;                   /* the last that it was sent, as the broker counts them */
    unsigned n_unready;                /* checks that found it not ready */
    unsigned n_sure;                   /* that found nothing to ask */
    uint64_t asked_round, asked_taken; /* of the last question; attempts of other nodes till then */
};

struct rota_broker_workers {
    struct rota_work_broker *broker;
    struct rota_connector *connector;
    struct rota_map by_peer, by_session;
    struct rota_list_node dirty;
    uint32_t jobs_type, cancel_type, ended_type, check_type;
    uv_timer_t timer; /* of checks */

    /* Room for what one worker offers. */
    struct rota_str capabilities[ROTA_WORKER_CAPABILITIES_MAX], queues[ROTA_WORKER_QUEUES_MAX];
    struct rota_worker_running running[ROTA_WORKER_HELD_MAX];
};

static struct rota_str key_of(const uint64_t *number)
{
    return rota_str_of(number, sizeof *number);
}

static struct worker *of_peer(const struct rota_broker_workers *workers,
                              const struct rota_connector_peer *peer)
{
    uint64_t connection = rota_connector_peer_session(peer);
    return rota_map_get(&workers->by_peer, key_of(&connection));
}

static struct worker *of_session(const struct rota_broker_workers *workers, uint64_t session)
{
    return workers ? rota_map_get(&workers->by_session, key_of(&session)) : NULL;
}

static void mark(struct rota_broker_workers *workers, struct worker *worker)
{
    if (!worker->dirty.next)
        rota_list_push(&workers->dirty, &worker->dirty);
}

static void drop(struct rota_broker_workers *workers, struct worker *worker, const char *why)
{
    rota_connector_drop(workers->connector, worker->peer, why);
}

/* --- sessions --- */

static void leave(struct rota_broker_workers *workers, struct worker *worker,
                  enum rota_session_end how)
{
    struct rota_broker *core = workers->broker->core;
    if (!worker->session)
        return;
    rota_map_remove(&workers->by_session, key_of(&worker->session));
    rota_work_broker_remote_lost(workers->broker, worker->session, how);
    if (how == ROTA_SESSION_LEFT)
        rota_broker_worker_close(core, rota_work_broker_now(), worker->session);
    else
        rota_broker_worker_lost(core, rota_work_broker_now(), worker->session,
                                how == ROTA_SESSION_EXCUSED);
    worker->session = 0;
    rota_work_broker_touch(workers->broker);
}

static void forget(struct rota_broker_workers *workers, struct worker *worker,
                   enum rota_session_end how)
{
    leave(workers, worker, how);
    rota_map_remove(&workers->by_peer, key_of(&worker->connection));
    rota_list_remove(&worker->dirty);
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
            return;
        }
    }
    free(worker);
    rota_connector_drop(workers->connector, peer, "the broker has no memory for a worker");
}

static void on_disconnected(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, peer);
    if (!worker)
        return;
    rota_log(workers->broker->options.log, rota_work_broker_now().wall, ROTA_LOG_INFO,
             "worker gone", ROTA_LOG_FACT("worker", rota_connector_peer_name(peer)),
             ROTA_LOG_FACT("why", why->text));
    forget(workers, worker, peer->how);
}

/* What can't be read ends the session: what followed it would be missing. */
static void refuse(struct rota_broker_workers *workers, struct worker *worker,
                   const struct rota_error *error)
{
    rota_log(workers->broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "worker refused", ROTA_LOG_FACT("worker", rota_connector_peer_name(worker->peer)),
             ROTA_LOG_FACT("why", error->text));
    drop(workers, worker, error->text);
}

/* What other nodes' jobs have is not there for ours. */
static void set_slots(struct rota_broker_workers *workers, struct worker *worker)
{
    uint32_t n = worker->slots > worker->n_kept ? worker->slots - worker->n_kept : 0;
    rota_broker_worker_slots(workers->broker->core, rota_work_broker_now(), worker->session,
                             workers->broker->is_draining ? 0 : n);
    rota_work_broker_touch(workers->broker);
}

static void on_ready(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_ready ready = {.capabilities = workers->capabilities,
                                      .queues = workers->queues,
                                      .running = workers->running};
    struct rota_error error;
    uint64_t session = 0;
    if (!worker)
        return;
    enum rota_code code = rota_worker_ready_read(message, &ready, &error);
    if (!code)
        rota_work_broker_remote_holds(workers->broker, worker->session, 0, workers->running,
                                      &ready.n_running);
    struct rota_worker_spec spec = {
        .name = rota_connector_peer_name(from),
        .epoch = rota_connector_peer_epoch(from),
        .capabilities = ready.capabilities,
        .n_capabilities = ready.n_capabilities,
        .queues = ready.queues,
        .n_queues = ready.n_queues,
        .slots = workers->broker->is_draining ? (uint32_t)ready.n_running : ready.slots,
        .running = ready.running,
        .n_running = ready.n_running,
        .older = worker->session, /* what is on its way to the worker stays its */
    };
    if (!code)
        code = rota_broker_worker_open(workers->broker->core, rota_work_broker_now(), &spec,
                                       &session, &error);
    rota_work_broker_touch(workers->broker);
    if (code) {
        refuse(workers, worker, &error);
        return;
    }
    if (worker->session)
        rota_map_remove(&workers->by_session, key_of(&worker->session));
    worker->n_kept = rota_work_broker_remote_move(workers->broker, worker->session, session);
    worker->session = session;
    worker->slots = ready.slots;
    worker->takes_ended_with_jobs = ready.takes_ended_with_jobs;
    if (!rota_map_put(&workers->by_session, key_of(&worker->session), worker)) {
        rota_broker_worker_close(workers->broker->core, rota_work_broker_now(), session);
        worker->session = 0;
        drop(workers, worker, "the broker has no memory for a worker");
    } else if (workers->broker->is_draining || worker->n_kept > 0) {
        set_slots(workers, worker);
    }
}

/* --- what they say --- */

static void add_verdict(struct rota_broker_workers *workers, struct worker *worker,
                        const struct rota_attempt_end *end, enum rota_code code, uint64_t number)
{
    struct rota_buffer *buffer = &workers->broker->buffer;
    struct rota_worker_verdict verdict = {
        .queue = end->queue, .id = end->id, .attempt = end->attempt, .code = code};
    rota_buffer_clear(buffer);
    rota_worker_verdict_write(&verdict, buffer);
    if (buffer->failed || !rota_work_broker_queue_verdict(workers->broker, worker->connection,
                                                          number, rota_buffer_str(buffer)))
        drop(workers, worker, "the broker has no memory for an answer");
}

static void on_ends(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_attempt_end end;
    struct rota_error error;
    enum rota_code code = ROTA_OK;
    if (!worker || !worker->session)
        return; /* it first says what it has, and says this again */
    struct rota_work_now now = rota_work_broker_now();
    while (rota_worker_end_next(&batch, &end, &code, &error)) {
        uint64_t number = 0;
        end.session = worker->session;
        if (rota_work_broker_remote_end(workers->broker, worker->session, &end))
            continue; /* the verdict comes from its node */
        enum rota_code how = rota_broker_end(workers->broker->core, now, &end, &number, NULL);
        add_verdict(workers, worker, &end, how, number);
    }
    rota_work_broker_touch(workers->broker);
    if (code)
        refuse(workers, worker, &error);
}

static void on_progress(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_step step;
    struct rota_error error;
    enum rota_code code = ROTA_OK;
    if (!worker || !worker->session)
        return;
    while (rota_worker_step_next(&batch, &step, &code, &error)) /* an old attempt's is dropped */
        if (!rota_work_broker_remote_progress(workers->broker, worker->session, &step))
            rota_broker_extend(workers->broker->core, rota_work_broker_now(), step.queue, step.id,
                               step.attempt, worker->session, 0, step.text, NULL);
    rota_work_broker_touch(workers->broker);
    if (code)
        refuse(workers, worker, &error);
}

static void on_slots(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_error error;
    uint32_t slots;
    if (!worker || !worker->session)
        return;
    if (rota_worker_slots_read(message, &slots, &error)) {
        refuse(workers, worker, &error);
        return;
    }
    worker->slots = slots;
    set_slots(workers, worker);
}

/* It has another number of slots than we know: that it said so was lost. */
static void take_slots(struct rota_broker_workers *workers, struct worker *worker, uint32_t slots)
{
    if (worker->slots == slots)
        return;
    rota_log(workers->broker->options.log, rota_work_broker_now().wall, ROTA_LOG_INFO,
             "slots of a worker found out",
             ROTA_LOG_FACT("worker", rota_connector_peer_name(worker->peer)),
             ROTA_LOG_FACT("slots", (uint64_t)slots),
             ROTA_LOG_FACT("known", (uint64_t)worker->slots));
    worker->slots = slots;
    set_slots(workers, worker);
}

/* What it has got, of all that it was sent before it was asked. */
static void on_holds(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_broker_workers *workers = data;
    struct worker *worker = of_peer(workers, from);
    struct rota_worker_holds holds = {.held = workers->running};
    struct rota_error error;
    if (!worker || !worker->session)
        return;
    if (rota_worker_holds_read(message, &holds, &error)) {
        refuse(workers, worker, &error);
        return;
    }
    if (holds.up_to > worker->handed || holds.round > worker->round)
        return; /* to a question of another */
    if (holds.round == worker->asked_round) {
        uint32_t n = rota_work_broker_remote_holds(
            workers->broker, worker->session, worker->asked_taken, workers->running, &holds.n_held);
        rota_work_broker_workers_release(workers, worker->session, n);
    } else {
        rota_work_broker_remote_holds(workers->broker, worker->session, 0, workers->running,
                                      &holds.n_held);
    }
    if (rota_broker_worker_holds(workers->broker->core, rota_work_broker_now(), worker->session,
                                 holds.up_to, holds.held, holds.n_held, NULL) == ROTA_OK &&
        holds.round > worker->sure)
        worker->sure = holds.round;
    if (holds.has_slots && !workers->broker->is_draining)
        take_slots(workers, worker, holds.slots);
    rota_work_broker_touch(workers->broker);
}

/* --- what they are told --- */

static void send_batch(struct rota_broker_workers *workers, struct worker *worker, uint32_t type,
                       struct rota_buffer *batch, size_t *n)
{
    struct rota_error error;
    if (*n == 0)
        return;
    if (batch->failed ||
        rota_connector_send(workers->connector, worker->peer, type, rota_buffer_str(batch), &error))
        drop(workers, worker, "the worker does not take what it is sent");
    if (type != workers->ended_type)
        worker->round++;
    rota_buffer_clear(batch);
    *n = 0;
}

/* Messages arrive in their order: who answers this has got all that was sent before it, or never
 * will. */
static void ask(struct rota_broker_workers *workers, struct worker *worker)
{
    struct rota_buffer *buffer = &workers->broker->buffer;
    struct rota_worker_check check = {.up_to = worker->handed, .round = worker->round};
    rota_buffer_clear(buffer);
    rota_worker_check_write(&check, buffer);
    worker->asked_round = worker->round;
    worker->n_sure = 0;
    worker->asked_taken = rota_work_broker_remote_n_taken(workers->broker);
    if (!buffer->failed) /* what does not fit waits for the next time */
        rota_connector_send(workers->connector, worker->peer, workers->check_type,
                            rota_buffer_str(buffer), NULL);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_broker_workers *workers = timer->data;
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&workers->by_peer, &place));) {
        struct worker *worker = entry->value;
        bool is_waiting = worker->dirty.next != NULL; /* something is about to leave */
        if (!worker->session && ++worker->n_unready == READY_CHECKS)
            drop(workers, worker, "it never said what it can do");
        else if (worker->session && !is_waiting &&
                 (worker->round != worker->sure || ++worker->n_sure == SURE_CHECKS))
            ask(workers, worker);
    }
}

static void add_job(struct rota_broker_workers *workers, struct worker *worker,
                    const struct rota_work_effect *effect)
{
    if (worker->n_jobs == ROTA_WORKER_BATCH_MAX ||
        (worker->n_jobs > 0 && worker->jobs.size + effect->payload.size > BATCH_BYTES))
        send_batch(workers, worker, workers->jobs_type, &worker->jobs, &worker->n_jobs);
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
    rota_worker_job_write(&job, &worker->jobs);
    worker->n_jobs++;
    mark(workers, worker);
}

bool rota_work_broker_workers_hand(struct rota_broker_workers *workers,
                                   const struct rota_work_effect *effect)
{
    struct worker *worker = of_session(workers, effect->session);
    if (!worker)
        return false;
    add_job(workers, worker, effect);
    worker->handed = effect->handed;
    return true;
}

/* Not handed out by us, so that nothing is to be concluded from when it was. */
void rota_work_broker_workers_hand_other(struct rota_broker_workers *workers,
                                         const struct rota_work_effect *effect)
{
    struct worker *worker = of_session(workers, effect->session);
    if (worker)
        add_job(workers, worker, effect);
}

void rota_work_broker_workers_cancel(struct rota_broker_workers *workers,
                                     const struct rota_work_effect *effect)
{
    struct worker *worker = of_session(workers, effect->session);
    if (!worker)
        return;
    struct rota_worker_cancel cancel = {.queue = effect->queue,
                                        .id = effect->id,
                                        .attempt = effect->attempt,
                                        .cause = effect->cause};
    /* A job goes before what ends it. */
    send_batch(workers, worker, workers->jobs_type, &worker->jobs, &worker->n_jobs);
    if (worker->n_cancels == ROTA_WORKER_BATCH_MAX)
        send_batch(workers, worker, workers->cancel_type, &worker->cancels, &worker->n_cancels);
    rota_worker_cancel_write(&cancel, &worker->cancels);
    worker->n_cancels++;
    mark(workers, worker);
}

void rota_work_broker_workers_verdict(struct rota_broker_workers *workers, uint64_t connection,
                                      struct rota_str verdict)
{
    struct worker *worker = workers ? rota_map_get(&workers->by_peer, key_of(&connection)) : NULL;
    if (!worker)
        return;
    if (worker->n_verdicts == ROTA_WORKER_BATCH_MAX)
        send_batch(workers, worker, workers->ended_type, &worker->verdicts, &worker->n_verdicts);
    rota_buffer_append_str(&worker->verdicts, verdict);
    worker->n_verdicts++;
    mark(workers, worker);
}

bool rota_work_broker_workers_keep(struct rota_broker_workers *workers, uint64_t session,
                                   uint32_t n)
{
    struct worker *worker = of_session(workers, session);
    if (!worker)
        return false;
    worker->n_kept += n;
    set_slots(workers, worker);
    return true;
}

void rota_work_broker_workers_release(struct rota_broker_workers *workers, uint64_t session,
                                      uint32_t n)
{
    struct worker *worker = of_session(workers, session);
    if (!worker || n == 0)
        return;
    worker->n_kept -= n < worker->n_kept ? n : worker->n_kept;
    set_slots(workers, worker);
}

bool rota_work_broker_workers_has(const struct rota_broker_workers *workers, uint64_t session)
{
    return of_session(workers, session) != NULL;
}

void rota_work_broker_workers_tell(struct rota_broker_workers *workers, uint64_t session,
                                   struct rota_str verdict)
{
    const struct worker *worker = of_session(workers, session);
    if (worker)
        rota_work_broker_workers_verdict(workers, worker->connection, verdict);
}

/* Another session took its place, or it was not heard. */
void rota_work_broker_workers_lost(struct rota_broker_workers *workers, uint64_t session)
{
    struct worker *worker = of_session(workers, session);
    if (!worker)
        return;
    rota_map_remove(&workers->by_session, key_of(&worker->session));
    rota_work_broker_remote_lost(workers->broker, session, ROTA_SESSION_DIED);
    worker->session = 0;
    drop(workers, worker, "its session is over");
}

/* One message instead of two. */
static void add_verdicts(struct worker *worker)
{
    if (worker->n_jobs == 0 || worker->n_verdicts == 0 || !worker->takes_ended_with_jobs)
        return;
    rota_worker_ended_append(rota_buffer_str(&worker->verdicts), &worker->jobs);
    worker->jobs.failed |= worker->verdicts.failed;
    rota_buffer_clear(&worker->verdicts);
    worker->n_verdicts = 0;
}

void rota_work_broker_workers_flush(struct rota_broker_workers *workers)
{
    struct rota_list_node *first;
    if (!workers || rota_list_is_empty(&workers->dirty))
        return;
    rota_connector_hold(workers->connector);
    while ((first = rota_list_first(&workers->dirty))) {
        struct worker *worker = ROTA_LIST_ITEM(first, struct worker, dirty);
        rota_list_remove(&worker->dirty);
        add_verdicts(worker);
        send_batch(workers, worker, workers->ended_type, &worker->verdicts, &worker->n_verdicts);
        send_batch(workers, worker, workers->jobs_type, &worker->jobs, &worker->n_jobs);
        send_batch(workers, worker, workers->cancel_type, &worker->cancels, &worker->n_cancels);
    }
    rota_connector_let_go(workers->connector);
}

void rota_work_broker_workers_drain(struct rota_broker_workers *workers)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; workers && (entry = rota_map_next(&workers->by_session, &place));)
        set_slots(workers, entry->value);
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

enum rota_code rota_work_broker_workers_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                             struct rota_error *error)
{
    struct rota_broker_workers *workers = calloc(1, sizeof *workers);
    if (!workers)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for workers");
    struct rota_connector_options with = connector_options(&broker->options);
    with.loop = loop;
    with.on_connected = on_connected;
    with.on_disconnected = on_disconnected;
    with.data = workers;
    workers->broker = broker;
    rota_list_init(&workers->dirty);
    rota_map_init(&workers->by_peer, broker->seed);
    rota_map_init(&workers->by_session, broker->seed);
    broker->workers = workers;
    broker->n_handles++;
    uv_timer_init(loop, &workers->timer);
    workers->timer.data = workers;
    uv_timer_start(&workers->timer, on_timer, CHECK_MS, CHECK_MS);
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
    rota_map_deinit(&workers->by_session);
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
    for (size_t place = 0; (entry = rota_map_next(&workers->by_peer, &place)); place = 0)
        forget(workers, entry->value, ROTA_SESSION_EXCUSED); /* it is we who go */
    if (workers->connector)
        rota_connector_close(workers->connector, on_closed, workers);
    else
        on_closed(workers);
}
