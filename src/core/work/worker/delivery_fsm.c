#include "core/work/worker/delivery_fsm.h"

/* Rarely called, so it is kept out of the hot path. */
#define RARELY __attribute__((noinline)) static void

/* Actions that any step may need, whatever memory there is. */
enum { ACTIONS_MIN = 8 };

bool rota_delivery_fsm_init(struct rota_delivery_fsm *fsm,
                            const struct rota_delivery_options *options, rota_time now)
{
    *fsm = (struct rota_delivery_fsm){.options = *options,
                                      .check_at = rota_time_add(now, ROTA_DELIVERY_CHECK)};
    rota_map_init(&fsm->by_session, options->seed);
    rota_list_init(&fsm->workers);
    rota_list_init(&fsm->dirty);
    return rota_vector_reserve(&fsm->actions, ACTIONS_MIN);
}

void rota_delivery_fsm_deinit(struct rota_delivery_fsm *fsm)
{
    rota_map_deinit(&fsm->by_session);
    rota_vector_deinit(&fsm->actions);
}

static struct rota_str key_of(const uint64_t *session)
{
    return rota_str_of(session, sizeof *session);
}

static struct rota_delivery_worker *of_session(const struct rota_delivery_fsm *fsm,
                                               uint64_t session)
{
    return rota_map_get(&fsm->by_session, key_of(&session));
}

/* There is room: it was reserved. */
static struct rota_delivery_action *add_action(struct rota_delivery_fsm *fsm,
                                               struct rota_delivery_worker *worker,
                                               enum rota_delivery_action_type type)
{
    struct rota_delivery_action *action = &fsm->actions.items[fsm->actions.size++];
    action->type = type;
    action->worker = worker;
    return action;
}

static bool has_room(struct rota_delivery_fsm *fsm, size_t n)
{
    return rota_vector_reserve(&fsm->actions, fsm->actions.size + n);
}

static void drop_worker(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker,
                        enum rota_code code, const char *why)
{
    rota_error_set(&fsm->error, code, "%s", why);
    add_action(fsm, worker, ROTA_DELIVERY_DO_DROP);
}

/* --- slots --- */

/* Slots used by other nodes' jobs are not available for ours. */
static void set_slots(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                      const struct rota_delivery_worker *worker)
{
    uint32_t n = worker->slots > worker->n_kept ? worker->slots - worker->n_kept : 0;
    rota_broker_worker_slots(fsm->options.broker, now, worker->session, fsm->is_draining ? 0 : n);
}

RARELY release_slots(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                     struct rota_delivery_worker *worker, uint32_t n)
{
    if (n == 0)
        return;
    worker->n_kept -= n < worker->n_kept ? n : worker->n_kept;
    set_slots(fsm, now, worker);
}

RARELY keep_slots(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                  struct rota_delivery_worker *worker, uint32_t n)
{
    worker->n_kept += n;
    set_slots(fsm, now, worker);
}

RARELY report_slots(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                    struct rota_delivery_worker *worker, uint32_t n)
{
    worker->slots = n;
    set_slots(fsm, now, worker);
}

/* --- batches --- */

static void mark_worker(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    if (!worker->dirty.next)
        rota_list_push(&fsm->dirty, &worker->dirty);
}

static void send_jobs(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    if (worker->n_jobs == 0)
        return;
    add_action(fsm, worker, ROTA_DELIVERY_DO_SEND_JOBS);
    worker->round++;
    worker->n_jobs = worker->n_bytes = 0;
}

static void send_cancels(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    if (worker->n_cancels == 0)
        return;
    add_action(fsm, worker, ROTA_DELIVERY_DO_SEND_CANCELS);
    worker->round++;
    worker->n_cancels = 0;
}

static void send_verdicts(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    if (worker->n_verdicts == 0)
        return;
    add_action(fsm, worker, ROTA_DELIVERY_DO_SEND_VERDICTS);
    worker->n_verdicts = 0;
}

/* What it has to stop may occupy the slot of the job. */
static void write_job(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker,
                      size_t size)
{
    size += ROTA_DELIVERY_JOB_BYTES;
    send_cancels(fsm, worker);
    if (worker->n_jobs == ROTA_DELIVERY_BATCH_MAX ||
        worker->n_bytes + size > ROTA_DELIVERY_BATCH_BYTES)
        send_jobs(fsm, worker);
    worker->n_jobs++;
    worker->n_bytes += size;
    add_action(fsm, worker, ROTA_DELIVERY_DO_WRITE);
    mark_worker(fsm, worker);
}

/* A job is sent before its cancel. */
static struct rota_delivery_action *write_cancel(struct rota_delivery_fsm *fsm,
                                                 struct rota_delivery_worker *worker,
                                                 enum rota_delivery_action_type type)
{
    send_jobs(fsm, worker);
    if (worker->n_cancels == ROTA_DELIVERY_BATCH_MAX)
        send_cancels(fsm, worker);
    worker->n_cancels++;
    mark_worker(fsm, worker);
    return add_action(fsm, worker, type);
}

static void write_verdict(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    if (worker->n_verdicts == ROTA_DELIVERY_BATCH_MAX)
        send_verdicts(fsm, worker);
    worker->n_verdicts++;
    add_action(fsm, worker, ROTA_DELIVERY_DO_WRITE);
    mark_worker(fsm, worker);
}

RARELY flush(struct rota_delivery_fsm *fsm)
{
    struct rota_list_node *first;
    while ((first = rota_list_first(&fsm->dirty)) && has_room(fsm, ACTIONS_MIN)) {
        struct rota_delivery_worker *worker =
            ROTA_LIST_ITEM(first, struct rota_delivery_worker, dirty);
        rota_list_remove(&worker->dirty);
        if (worker->n_jobs > 0 && worker->n_verdicts > 0 && worker->takes_ended_with_jobs) {
            add_action(fsm, worker, ROTA_DELIVERY_DO_MERGE);
            worker->n_verdicts = 0;
        }
        send_verdicts(fsm, worker);
        send_jobs(fsm, worker);
        send_cancels(fsm, worker);
    }
}

/* --- checks --- */

static void ask_worker(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    struct rota_delivery_action *action = add_action(fsm, worker, ROTA_DELIVERY_DO_ASK);
    action->number = worker->handed;
    action->round = worker->asked_round = worker->round;
    worker->asked_taken = fsm->options.remote ? fsm->options.remote->n_taken : 0;
    worker->n_sure = 0;
}

static void check_worker(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    bool is_waiting = worker->dirty.next != NULL; /* something is about to be sent */
    if (!worker->session) {
        if (++worker->n_unready == ROTA_DELIVERY_READY_CHECKS)
            drop_worker(fsm, worker, ROTA_ERR_INVALID, "it never sent its capabilities");
    } else if (!is_waiting &&
               (worker->round != worker->sure || ++worker->n_sure == ROTA_DELIVERY_SURE_CHECKS)) {
        ask_worker(fsm, worker);
    }
}

RARELY check_workers(struct rota_delivery_fsm *fsm, rota_time now)
{
    if (now < fsm->check_at)
        return;
    fsm->check_at = rota_time_add(now, ROTA_DELIVERY_CHECK);
    for (struct rota_list_node *at = fsm->workers.next; at != &fsm->workers && has_room(fsm, 1);
         at = at->next)
        check_worker(fsm, ROTA_LIST_ITEM(at, struct rota_delivery_worker, link));
}

/* The attempts that reached it, of all that were sent before it was asked. */
RARELY take_holds(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                  const struct rota_delivery_event *event)
{
    struct rota_delivery_worker *worker = event->worker;
    struct rota_remote_fsm *remote = fsm->options.remote;
    size_t n_held = event->n_held;
    if (event->up_to > worker->handed || event->round > worker->round)
        return; /* to a question of another */
    if (remote) {
        bool is_last = event->round == worker->asked_round;
        uint32_t n = rota_remote_fsm_holds(remote, now.boot, worker->session,
                                           is_last ? worker->asked_taken : 0, event->held, &n_held);
        release_slots(fsm, now, worker, n);
    }
    if (rota_broker_worker_holds(fsm->options.broker, now, worker->session, event->up_to,
                                 event->held, n_held, NULL) == ROTA_OK &&
        event->round > worker->sure)
        worker->sure = event->round;
    if (!event->has_slots || fsm->is_draining || worker->slots == event->n)
        return;
    add_action(fsm, worker, ROTA_DELIVERY_DO_LEARN)->number = worker->slots; /* a message is lost */
    worker->slots = event->n;
    set_slots(fsm, now, worker);
}

/* --- sessions --- */

static void end_remotes(struct rota_delivery_fsm *fsm, rota_time now, uint64_t session,
                        enum rota_session_end how)
{
    struct rota_remote_fsm *remote = fsm->options.remote;
    if (!remote)
        return;
    switch (how) {
    case ROTA_SESSION_LEFT:
        rota_remote_fsm_lost(remote, now, session, ROTA_JOB_CAUSE_FAILED);
        break;
    case ROTA_SESSION_DIED:
        rota_remote_fsm_lost(remote, now, session, ROTA_JOB_CAUSE_LOST);
        break;
    case ROTA_SESSION_EXCUSED:
        rota_remote_fsm_adrift(remote, session, rota_time_add(now, ROTA_BROKER_GRACE));
        break;
    }
}

static void end_session(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                        struct rota_delivery_worker *worker, enum rota_session_end how)
{
    struct rota_broker *broker = fsm->options.broker;
    if (!worker->session)
        return;
    rota_map_remove(&fsm->by_session, key_of(&worker->session));
    end_remotes(fsm, now.boot, worker->session, how);
    if (how == ROTA_SESSION_LEFT)
        rota_broker_worker_close(broker, now, worker->session);
    else
        rota_broker_worker_lost(broker, now, worker->session, how == ROTA_SESSION_EXCUSED);
    worker->session = 0;
}

RARELY disconnect_worker(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                         struct rota_delivery_worker *worker, enum rota_session_end how)
{
    end_session(fsm, now, worker, how);
    rota_list_remove(&worker->dirty);
    rota_list_remove(&worker->link);
}

/* Another session took its place, or its heartbeats stopped. */
RARELY lose_session(struct rota_delivery_fsm *fsm, rota_time now,
                    struct rota_delivery_worker *worker)
{
    rota_map_remove(&fsm->by_session, key_of(&worker->session));
    end_remotes(fsm, now, worker->session, ROTA_SESSION_DIED);
    worker->session = 0;
    drop_worker(fsm, worker, ROTA_ERR_STALE, "its session has ended");
}

/* --- what a worker that is ready runs --- */

/* Attempts at jobs of other nodes go after the others, whose number it returns. */
static size_t split_claims(const struct rota_delivery_fsm *fsm, struct rota_worker_running *held,
                           size_t n)
{
    const struct rota_delivery_options *options = &fsm->options;
    struct rota_job_view view;
    struct rota_str node;
    size_t n_own = 0;
    if (!options->remote)
        return n;
    for (size_t i = 0; i < n; i++) {
        struct rota_worker_running one = held[i];
        if (options->is_others(options->data, one.queue, one.id, &node) &&
            rota_broker_find(options->broker, one.queue, one.id, &view, NULL))
            continue;
        held[i] = held[n_own];
        held[n_own++] = one;
    }
    return n_own;
}

static void claim_remotes(struct rota_delivery_fsm *fsm, rota_time now,
                          struct rota_delivery_worker *worker,
                          const struct rota_worker_running *held, size_t n)
{
    const struct rota_delivery_options *options = &fsm->options;
    for (size_t i = 0; i < n; i++) {
        struct rota_str node = rota_str("");
        bool is_running = false;
        options->is_others(options->data, held[i].queue, held[i].id, &node);
        if (rota_remote_fsm_claim(options->remote, now, worker->session, node, &held[i],
                                  &is_running, NULL))
            write_cancel(fsm, worker, ROTA_DELIVERY_DO_CANCEL)->attempt = &held[i];
        else
            worker->n_kept += is_running;
    }
}

static void refuse_worker(struct rota_delivery_fsm *fsm, struct rota_delivery_worker *worker)
{
    add_action(fsm, worker, ROTA_DELIVERY_DO_REFUSE);
}

/* Attempts in flight to a worker that is ready again stay its own. */
RARELY take_ready(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                  const struct rota_delivery_event *event)
{
    const struct rota_delivery_options *options = &fsm->options;
    struct rota_delivery_worker *worker = event->worker;
    struct rota_worker_spec spec = *event->spec;
    uint64_t session, older = worker->session;
    size_t n_held = event->n_held;
    if (!has_room(fsm, 2 * n_held + ACTIONS_MIN)) {
        drop_worker(fsm, worker, ROTA_ERR_NO_MEMORY,
                    "the node does not have enough memory for a worker");
        return;
    }
    if (options->remote)
        rota_remote_fsm_holds(options->remote, now.boot, older, 0, event->held, &n_held);
    size_t n_own = split_claims(fsm, event->held, n_held);
    if (fsm->is_draining)
        spec.slots = (uint32_t)n_own;
    spec.running = event->held;
    spec.n_running = n_own;
    spec.older = older;
    spec.gets_none = true; /* before it is known how many slots other nodes' jobs have */
    if (rota_broker_worker_open(options->broker, now, &spec, &session, &fsm->error)) {
        refuse_worker(fsm, worker);
        return;
    }
    if (older)
        rota_map_remove(&fsm->by_session, key_of(&worker->session));
    worker->n_kept =
        options->remote && older ? rota_remote_fsm_move(options->remote, older, session) : 0;
    worker->session = session;
    worker->slots = event->spec->slots;
    worker->takes_ended_with_jobs = event->takes_ended_with_jobs;
    if (!rota_map_put(&fsm->by_session, key_of(&worker->session), worker)) {
        end_session(fsm, now, worker, ROTA_SESSION_LEFT);
        drop_worker(fsm, worker, ROTA_ERR_NO_MEMORY,
                    "the node does not have enough memory for a worker");
        return;
    }
    claim_remotes(fsm, now.boot, worker, event->held + n_own, n_held - n_own);
    set_slots(fsm, now, worker);
}

/* --- ends --- */

/* Whether the session has the attempt, at a job of another node. */
static bool is_remote(const struct rota_delivery_fsm *fsm, uint64_t session,
                      const struct rota_attempt_end *end)
{
    uint64_t of;
    return fsm->options.remote &&
           rota_remote_fsm_has(fsm->options.remote, end->id, end->attempt, &of) && of == session;
}

/* The other node gives the verdict. An invalid end fails its attempt, as rota_broker_end() has
 * it. */
static bool end_remote(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                       struct rota_delivery_worker *worker, const struct rota_attempt_end *end)
{
    struct rota_attempt_end said = *end;
    struct rota_error why;
    enum rota_code code;
    if (rota_broker_end_attempt_check(end, &why)) {
        said.cause = ROTA_JOB_CAUSE_FAILED;
        said.bytes = rota_str("");
        said.reason = rota_str(why.text);
        said.retry_after = 0;
    }
    if (!rota_remote_fsm_end(fsm->options.remote, now.boot, &said, &code))
        return false;
    if (!code)
        release_slots(fsm, now, worker, 1);
    return true;
}

static void take_end(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                     struct rota_delivery_worker *worker, struct rota_attempt_end *end)
{
    uint64_t number = 0;
    end->session = worker->session;
    if (is_remote(fsm, worker->session, end) && end_remote(fsm, now, worker, end))
        return;
    enum rota_code code = rota_broker_end(fsm->options.broker, now, end, &number, NULL);
    struct rota_delivery_action *action = add_action(fsm, worker, ROTA_DELIVERY_DO_ANSWER);
    action->code = code;
    action->number = number;
}

/* That of an old attempt is dropped. */
RARELY take_progress(struct rota_delivery_fsm *fsm, struct rota_work_now now,
                     const struct rota_delivery_worker *worker, const struct rota_attempt_end *said)
{
    if (!is_remote(fsm, worker->session, said) ||
        !rota_remote_fsm_progress(fsm->options.remote, now.boot, said->id, said->attempt,
                                  said->reason))
        rota_broker_extend(fsm->options.broker, now, said->queue, said->id, said->attempt,
                           worker->session, 0, said->reason, NULL);
}

/* --- doors --- */

RARELY drain_workers(struct rota_delivery_fsm *fsm, struct rota_work_now now, bool is_draining)
{
    const struct rota_map_entry *entry;
    fsm->is_draining = is_draining;
    for (size_t place = 0; (entry = rota_map_next(&fsm->by_session, &place));)
        set_slots(fsm, now, entry->value);
}

RARELY take_fetched(struct rota_delivery_fsm *fsm, rota_time now,
                    struct rota_delivery_worker *worker, const struct rota_delivery_event *event)
{
    if (!fsm->is_draining && !rota_remote_fsm_take(fsm->options.remote, now, event->session,
                                                   event->node, event->attempt, event->lease, NULL))
        write_job(fsm, worker, event->size);
}

/* A worker that is not ready first reports what it runs, and then repeats what it says. */
struct rota_delivery_actions rota_delivery_fsm_step(struct rota_delivery_fsm *fsm,
                                                    struct rota_work_now now,
                                                    const struct rota_delivery_event *event)
{
    struct rota_delivery_worker *worker = event->worker;
    if (event->session)
        worker = of_session(fsm, event->session);
    bool is_ready = worker && worker->session;
    fsm->actions.size = 0;
    switch (event->type) {
    case ROTA_DELIVERY_TICK:
        check_workers(fsm, now.boot);
        break;
    case ROTA_DELIVERY_CONNECTED:
        rota_list_push(&fsm->workers, &worker->link);
        break;
    case ROTA_DELIVERY_DISCONNECTED:
        disconnect_worker(fsm, now, worker, event->how);
        break;
    case ROTA_DELIVERY_READY:
        take_ready(fsm, now, event);
        break;
    case ROTA_DELIVERY_END:
        if (is_ready)
            take_end(fsm, now, worker, event->end);
        break;
    case ROTA_DELIVERY_PROGRESS:
        if (is_ready)
            take_progress(fsm, now, worker, event->end);
        break;
    case ROTA_DELIVERY_SLOTS:
        if (is_ready)
            report_slots(fsm, now, worker, event->n);
        break;
    case ROTA_DELIVERY_HOLDS:
        if (!is_ready)
            break;
        rota_broker_worker_heard(fsm->options.broker, now, worker->session);
        take_holds(fsm, now, event);
        break;
    case ROTA_DELIVERY_HAND:
        if (!is_ready)
            break;
        write_job(fsm, worker, event->size);
        worker->handed = event->handed;
        break;
    case ROTA_DELIVERY_FETCHED:
        if (is_ready)
            take_fetched(fsm, now.boot, worker, event);
        break;
    case ROTA_DELIVERY_CANCEL:
        if (!is_ready)
            break;
        write_cancel(fsm, worker, ROTA_DELIVERY_DO_WRITE);
        release_slots(fsm, now, worker, event->n);
        break;
    case ROTA_DELIVERY_VERDICT:
        if (worker)
            write_verdict(fsm, worker);
        break;
    case ROTA_DELIVERY_LOST:
        if (is_ready)
            lose_session(fsm, now.boot, worker);
        break;
    case ROTA_DELIVERY_KEEP:
        if (is_ready)
            keep_slots(fsm, now, worker, event->n);
        break;
    case ROTA_DELIVERY_RELEASE:
        if (is_ready)
            release_slots(fsm, now, worker, event->n);
        break;
    case ROTA_DELIVERY_FLUSH:
        flush(fsm);
        break;
    case ROTA_DELIVERY_DRAIN:
        drain_workers(fsm, now, event->is_draining);
        break;
    }
    return (struct rota_delivery_actions){fsm->actions.items, fsm->actions.size};
}

rota_time rota_delivery_fsm_deadline(const struct rota_delivery_fsm *fsm)
{
    return fsm->check_at;
}

bool rota_delivery_fsm_has(const struct rota_delivery_fsm *fsm, uint64_t session)
{
    return of_session(fsm, session) != NULL;
}
