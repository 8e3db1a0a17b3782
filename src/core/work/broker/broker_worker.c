#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

#include <string.h>

/* --- sessions --- */

/* 16 bits of the broker's life, 32 bits that count, 16 bits of a place. */
static uint64_t make_session(struct rota_broker *broker, uint32_t place)
{
    if (++broker->workers.serial == 0)
        broker->workers.serial = 1;
    return (broker->journal.life & 0xffff) << 48 | (uint64_t)broker->workers.serial << 16 | place;
}

struct rota_work_worker *rota_broker_worker(const struct rota_broker *broker, uint64_t session)
{
    size_t place = session & 0xffff;
    struct rota_work_worker *worker =
        place < broker->workers.all.size ? broker->workers.all.items[place] : NULL;
    return worker && worker->session == session ? worker : NULL;
}

static struct rota_work_worker *live_worker(const struct rota_broker *broker, uint64_t session)
{
    struct rota_work_worker *worker = rota_broker_worker(broker, session);
    return worker && !worker->is_gone ? worker : NULL;
}

/* Add it to the free ones or remove it, according to its slots. */
static void settle_worker(struct rota_broker *broker, struct rota_work_worker *worker)
{
    uint32_t n_free = 0;
    if (!worker->is_gone && worker->slots > worker->n_running)
        n_free = worker->slots - worker->n_running;
    worker->class->n_free += n_free - (size_t)worker->n_free;
    worker->n_free = n_free;
    if (worker->class->n_free == 0)
        rota_yield_end(&worker->class->yield, broker->now.boot);
    if (n_free > 0 && !worker->is_free)
        rota_broker_class_put_free(broker, worker);
    else if (n_free == 0 && worker->is_free)
        rota_broker_class_take_free(worker);
}

static struct rota_job_extra *extra_of(const struct rota_broker *broker, uint32_t job_number)
{
    return rota_job_extra_known(&broker->jobs, rota_job_at(&broker->jobs, job_number));
}

void rota_broker_worker_take(struct rota_broker *broker, struct rota_work_worker *worker,
                             uint32_t job_number)
{
    struct rota_job_extra *extra = extra_of(broker, job_number);
    rota_broker_poller_unlease(broker, extra);
    extra->session = worker->session;
    extra->lease = worker->lease;
    extra->lease_until =
        worker->lease ? rota_time_add(broker->now.boot, worker->lease) : ROTA_TIME_NEVER;
    extra->previous_job = 0;
    extra->next_job = worker->running;
    if (worker->running)
        extra_of(broker, worker->running)->previous_job = job_number;
    worker->running = job_number;
    worker->n_running++;
    rota_broker_timer_set(broker, rota_job_at(&broker->jobs, job_number));
    settle_worker(broker, worker);
}

void rota_broker_worker_release(struct rota_broker *broker, uint32_t job_number)
{
    struct rota_job_extra *extra = extra_of(broker, job_number);
    struct rota_work_worker *worker = rota_broker_worker(broker, extra->session);
    extra->session = 0;
    if (!worker)
        return;
    if (extra->previous_job)
        extra_of(broker, extra->previous_job)->next_job = extra->next_job;
    else
        worker->running = extra->next_job;
    if (extra->next_job)
        extra_of(broker, extra->next_job)->previous_job = extra->previous_job;
    worker->n_running--;
    settle_worker(broker, worker);
}

void rota_broker_worker_free(struct rota_broker *broker, struct rota_work_worker *worker)
{
    struct rota_work_class *class = worker->class;
    uint32_t place = (uint32_t)(worker->session & 0xffff);
    while (worker->running)
        rota_broker_worker_release(broker, worker->running);
    if (worker->epoch &&
        rota_map_get(&broker->workers.by_name,
                     rota_str_of(worker->name->bytes, worker->name->size)) == worker)
        rota_map_remove(&broker->workers.by_name,
                        rota_str_of(worker->name->bytes, worker->name->size));
    rota_heap_remove(&broker->workers.alarms, &worker->alarm);
    broker->workers.n_gone -= worker->is_gone;
    worker->is_gone = true;
    settle_worker(broker, worker);
    rota_broker_poller_end(broker, worker);
    class->n_workers--;
    class->n_slots -= worker->slots;
    rota_broker_drop_name(broker, worker->name);
    broker->workers.all.items[place] = NULL;
    broker->workers.free_numbers.items[broker->workers.free_numbers.size++] = place;
    free(worker);
    rota_broker_class_settle(broker, class);
}

/* Its attempts live on by their lease. */
void rota_broker_worker_detach(struct rota_broker *broker, struct rota_work_worker *worker)
{
    struct rota_work_poller *poller = worker->poller;
    if (worker->class->n_workers == 1 && broker->classes.n_away >= ROTA_BROKER_AWAY_MAX)
        poller = NULL; /* too many are known already */
    for (uint32_t next; worker->running; worker->running = next) {
        struct rota_job_extra *extra = extra_of(broker, worker->running);
        next = extra->next_job;
        extra->session = 0;
        rota_broker_poller_lease(poller, extra);
    }
    worker->n_running = 0;
    rota_broker_worker_free(broker, worker);
}

/* --- opening --- */

static enum rota_code check_name(struct rota_str name, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    bool is_good = name.size > 0 && name.size <= ROTA_WORKER_NAME_MAX;
    for (size_t i = 0; is_good && i < name.size; i++)
        is_good = name.data[i] > ' ' && name.data[i] < 0x7f;
    if (is_good)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s is not the name of a worker: use 1 to %d printable characters "
                          "without spaces",
                          rota_quote(name, quoted), ROTA_WORKER_NAME_MAX);
}

static enum rota_code check_count(size_t n, size_t min, size_t max, const char *what,
                                  struct rota_error *error)
{
    if (n >= min && n <= max)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "a worker has %zu to %zu %s, not %zu", min, max,
                          what, n);
}

static enum rota_code check_spec(const struct rota_worker_spec *spec, struct rota_error *error)
{
    enum rota_code code = check_name(spec->name, error);
    if (!code)
        code = check_count(spec->n_queues, 1, ROTA_WORKER_QUEUES_MAX, "queues", error);
    if (!code)
        code = check_count(spec->n_capabilities, 0, ROTA_WORKER_CAPABILITIES_MAX, "capabilities",
                           error);
    if (!code)
        code = check_count(spec->slots, 0, ROTA_WORKER_SLOTS_MAX, "slots", error);
    if (!code)
        code = check_count(spec->n_running, 0, ROTA_WORKER_SLOTS_MAX, "running attempts", error);
    for (size_t i = 0; !code && i < spec->n_queues; i++)
        code = rota_job_queue_check(spec->queues[i], error);
    for (size_t i = 0; !code && i < spec->n_capabilities; i++)
        code = rota_job_check_capability(spec->capabilities[i], error);
    if (code)
        return code;
    if (spec->liveness < 0 || spec->lease < 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a worker's liveness and lease must not be negative");
    if (spec->is_poll && spec->lease == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "a poll needs a lease for its jobs");
    return ROTA_OK;
}

/* A place for a worker, not used yet; its number can be freed without memory. */
static bool find_place(struct rota_broker *broker, uint32_t *place)
{
    if (broker->workers.free_numbers.size > 0) {
        *place = broker->workers.free_numbers.items[broker->workers.free_numbers.size - 1];
        return true;
    }
    *place = (uint32_t)broker->workers.all.size;
    return rota_vector_reserve(&broker->workers.free_numbers, broker->workers.all.size + 1) &&
           rota_vector_reserve(&broker->workers.all, broker->workers.all.size + 1);
}

/* Everything that can fail comes first. */
static enum rota_code make_worker(struct rota_broker *broker, const struct rota_worker_spec *spec,
                                  struct rota_work_class *class, struct rota_work_worker **worker,
                                  struct rota_error *error)
{
    uint32_t place;
    struct rota_work_worker *made = calloc(1, sizeof *made);
    if (made)
        made->name = rota_broker_hold_name(broker, spec->name);
    if (!made || !made->name || !find_place(broker, &place))
        goto no_memory;
    made->class = class;
    made->is_poll = spec->is_poll;
    made->is_hasty = spec->is_hasty;
    if (!rota_broker_poller_begin(broker, made))
        goto no_memory;
    made->session = make_session(broker, place);
    made->alarm.at = spec->liveness ? rota_time_add(broker->now.boot, spec->liveness) : 0;
    made->alarm.order = made->session;
    if (spec->liveness && !rota_heap_push(&broker->workers.alarms, &made->alarm))
        goto no_memory;
    if (spec->epoch && !rota_map_put(&broker->workers.by_name,
                                     rota_str_of(made->name->bytes, made->name->size), made)) {
        rota_heap_remove(&broker->workers.alarms, &made->alarm);
        goto no_memory;
    }
    made->epoch = spec->epoch;
    made->slots = spec->slots;
    made->liveness = spec->liveness;
    made->lease = spec->lease;
    made->heard_at = broker->now.boot;
    class->n_workers++;
    class->n_slots += spec->slots;
    rota_broker_class_settle(broker, class);
    if (place < broker->workers.all.size)
        broker->workers.free_numbers.size--;
    else
        broker->workers.all.size++;
    broker->workers.all.items[place] = made;
    *worker = made;
    return ROTA_OK;

no_memory:
    if (made) {
        rota_broker_poller_end(broker, made);
        rota_broker_drop_name(broker, made->name);
    }
    free(made);
    return rota_error_no_memory(error, "for a worker");
}

/* --- attempts that it reports as running --- */

static bool may_hold(const struct rota_broker *broker, const struct rota_work_worker *worker,
                     const struct rota_job *job)
{
    const struct rota_capability_set *set =
        rota_capabilities_set_at(&broker->capabilities, rota_broker_lane_of(broker, job)->set);
    const struct rota_work_partition *partition = rota_broker_partition(
        rota_broker_queue_of(broker, job), rota_job_partition(&broker->jobs, job));
    return partition->is_open && rota_capability_list_has(&worker->class->capabilities, &set->list);
}

/* The running attempt: from the previous session, or from none. */
static bool take_over_attempt(struct rota_broker *broker, struct rota_work_worker *worker,
                              const struct rota_work_worker *older, uint32_t job_number)
{
    struct rota_job_extra *extra = extra_of(broker, job_number);
    const struct rota_work_worker *holder = rota_broker_worker(broker, extra->session);
    if ((holder && holder != older) || (extra->worker && extra->worker != worker->name))
        return false;
    if (holder)
        rota_broker_worker_release(broker, job_number);
    else
        extra->handed = (uint32_t)broker->matching.n_handed;
    worker->name->n_refs++;
    rota_broker_drop_name(broker, extra->worker);
    extra->worker = worker->name;
    rota_broker_worker_take(broker, worker, job_number);
    return true;
}

/* An attempt of an earlier life whose START was lost with it. */
static bool take_up(struct rota_broker *broker, struct rota_work_worker *worker,
                    uint32_t job_number, uint64_t attempt)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    const struct rota_job_extra *known = rota_job_extra_of(&broker->jobs, job);
    uint64_t life = attempt >> 32;
    if (!(job->flags & ROTA_JOB_IN_LANE) || life == 0 || life >= broker->journal.life ||
        (known && attempt <= known->attempt) || !rota_broker_may_dispatch(broker))
        return false;
    struct rota_job_extra *extra = rota_broker_timer_need_extra(broker, job_number);
    if (!extra)
        return false;
    rota_broker_job_leave(broker, job_number);
    extra->handed = (uint32_t)broker->matching.n_handed;
    rota_broker_match_start(broker, worker, job_number, attempt);
    rota_broker_tell(broker, job, 0);
    return true;
}

/* An attempt that was lost, by its own worker. */
static bool take_back(struct rota_broker *broker, struct rota_work_worker *worker,
                      uint32_t job_number)
{
    const struct rota_work_name *name = rota_broker_end_resumes_for(extra_of(broker, job_number));
    if ((name && name != worker->name) || !rota_broker_ready(broker, NULL))
        return false;
    rota_broker_end_resume(broker, job_number);
    return take_over_attempt(broker, worker, NULL, job_number);
}

/* Tell a worker that an attempt it reports is not its own. */
static void disown_attempt(struct rota_broker *broker, const struct rota_work_worker *worker,
                           const struct rota_worker_running *running)
{
    uint32_t number = rota_broker_queue_find_job(broker, running->queue, running->id);
    const struct rota_job *job = number ? rota_job_at(&broker->jobs, number) : NULL;
    const struct rota_job_extra *extra = job ? rota_job_extra_of(&broker->jobs, job) : NULL;
    struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_DO_CANCEL, NULL);
    effect->id = running->id;
    effect->queue = rota_arena_copy(&broker->output.arena, running->queue);
    if (!effect->queue.data)
        effect->queue = rota_str_of("", 0);
    effect->attempt = running->attempt;
    effect->session = worker->session;
    effect->cause = extra && rota_job_state_is_ended(job->state) ? (enum rota_job_cause)extra->cause
                                                                 : ROTA_JOB_CAUSE_LOST;
}

static void claim_attempt(struct rota_broker *broker, struct rota_work_worker *worker,
                          const struct rota_work_worker *older,
                          const struct rota_worker_running *running)
{
    uint32_t number = rota_broker_queue_find_job(broker, running->queue, running->id);
    const struct rota_job *job = number ? rota_job_at(&broker->jobs, number) : NULL;
    const struct rota_job_extra *extra = job ? rota_job_extra_of(&broker->jobs, job) : NULL;
    if (job && worker->n_running < worker->slots && may_hold(broker, worker, job)) {
        if (job->state == ROTA_JOB_RUNNING && extra->attempt == running->attempt) {
            if (take_over_attempt(broker, worker, older, number))
                return;
        } else if (rota_broker_end_may_resume(broker, job, running->attempt)) {
            if (take_back(broker, worker, number))
                return;
        } else if (job->state == ROTA_JOB_WAITING &&
                   take_up(broker, worker, number, running->attempt)) {
            return;
        }
    }
    disown_attempt(broker, worker, running);
}

/* Attempts of another session of the same worker that it has not named: they may be in flight to
 * it. */
static void carry_over(struct rota_broker *broker, struct rota_work_worker *worker,
                       const struct rota_work_worker *older)
{
    for (uint32_t number = older->running, next; number; number = next) {
        const struct rota_job *job = rota_job_at(&broker->jobs, number);
        struct rota_job_extra *extra = extra_of(broker, number);
        struct rota_worker_running running = {
            .queue = rota_broker_queue_name(rota_broker_queue_of(broker, job)),
            .id = job->id,
            .attempt = extra->attempt};
        next = extra->next_job;
        if (may_hold(broker, worker, job))
            take_over_attempt(broker, worker, older, number);
        else
            disown_attempt(broker, worker, &running);
    }
}

/* --- loss --- */

/* False when there is no memory for all of it: it stays, but gets no more jobs. */
static bool shed_attempts(struct rota_broker *broker, struct rota_work_worker *worker)
{
    while (worker->running) {
        uint32_t number = worker->running;
        struct rota_lane *lane = rota_broker_lane_of(broker, rota_job_at(&broker->jobs, number));
        if (!rota_broker_ready(broker, lane))
            return false;
        rota_broker_end_attempt_lost(broker, number, worker->loss, "its worker was lost");
    }
    if (!rota_broker_ready(broker, NULL))
        return false;
    if (worker->is_told) {
        struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_TELL_LOST, NULL);
        effect->session = worker->session;
        effect->cause = ROTA_JOB_CAUSE_LOST;
    }
    rota_broker_worker_free(broker, worker);
    return true;
}

static void lose_worker(struct rota_broker *broker, struct rota_work_worker *worker,
                        enum rota_work_loss loss, bool is_told)
{
    worker->loss = loss;
    worker->is_gone = true;
    worker->is_told = is_told;
    broker->workers.n_gone++;
    rota_heap_remove(&broker->workers.alarms, &worker->alarm);
    settle_worker(broker, worker);
    shed_attempts(broker, worker);
}

void rota_broker_worker_lose_all(struct rota_broker *broker)
{
    for (struct rota_heap_node *first;
         (first = rota_heap_first(&broker->workers.alarms)) && first->at <= broker->now.boot;) {
        struct rota_work_worker *worker = (struct rota_work_worker *)(void *)first;
        rota_time until = rota_time_add(worker->heard_at, worker->liveness);
        if (until < broker->workers.spare_until)
            until = broker->workers.spare_until;
        if (until <= broker->now.boot) {
            lose_worker(broker, worker, ROTA_LOSS_DIED, true);
            continue;
        }
        rota_heap_remove(&broker->workers.alarms, first);
        first->at = until;
        rota_heap_push(&broker->workers.alarms, first); /* one has just left: there is room */
    }
    for (size_t i = 0; broker->workers.n_gone > 0 && i < broker->workers.all.size; i++)
        if (broker->workers.all.items[i] && broker->workers.all.items[i]->is_gone &&
            !shed_attempts(broker, broker->workers.all.items[i]))
            break;
}

/* --- doors --- */

static enum rota_code reserve_open(struct rota_broker *broker, const struct rota_worker_spec *spec,
                                   size_t n_carried, struct rota_error *error)
{
    size_t n = spec->n_running + n_carried;
    if (broker->workers.all.size - broker->workers.free_numbers.size >= ROTA_BROKER_WORKERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%d workers are already connected, the maximum",
                              ROTA_BROKER_WORKERS_MAX);
    if (!rota_broker_ready(broker, NULL) ||
        !rota_vector_reserve(&broker->output.effects, broker->output.effects.size + 2 * n) ||
        !rota_vector_reserve(&broker->output.trash, broker->output.trash.size + n + 1))
        return rota_error_no_memory(error, "for a worker");
    return ROTA_OK;
}

enum rota_code rota_broker_worker_open(struct rota_broker *broker, struct rota_work_now now,
                                       const struct rota_worker_spec *spec, uint64_t *session,
                                       struct rota_error *error)
{
    struct rota_work_class *class = NULL;
    struct rota_work_worker *worker;
    rota_broker_at(broker, now);
    enum rota_code code = check_spec(spec, error);
    if (code)
        return code;
    struct rota_work_worker *older =
        spec->epoch ? rota_map_get(&broker->workers.by_name, spec->name) : NULL;
    struct rota_work_worker *same = spec->older ? live_worker(broker, spec->older) : NULL;
    if (same)
        older = same;
    if (older && older->epoch > spec->epoch)
        return rota_error_set(
            error, ROTA_ERR_STALE,
            "worker %.*s has a session with epoch %llu, which is higher than %llu",
            ROTA_STR_ARGS(spec->name), (unsigned long long)older->epoch,
            (unsigned long long)spec->epoch);
    code = reserve_open(broker, spec, same ? same->n_running : 0, error);
    if (!code)
        code = rota_broker_class_need(broker, spec, &class, error);
    if (!code)
        code = make_worker(broker, spec, class, &worker, error);
    if (code) {
        if (class)
            rota_broker_class_settle(broker, class);
        return code;
    }
    *session = worker->session;
    for (size_t i = 0; i < spec->n_running; i++)
        claim_attempt(broker, worker, older, &spec->running[i]);
    if (same)
        carry_over(broker, worker, same);
    if (spec->gets_none) {
        worker->class->n_slots -= worker->slots;
        worker->slots = 0;
    }
    settle_worker(broker, worker);
    if (older && !older->is_gone)
        lose_worker(broker, older, same ? ROTA_LOSS_LEFT : ROTA_LOSS_DIED, true);
    rota_broker_match(broker);
    worker = rota_broker_worker(broker, *session);
    if (worker) /* a poll may have been served, and freed */
        rota_broker_match_serve(broker, worker);
    return ROTA_OK;
}

void rota_broker_worker_close(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session)
{
    rota_broker_at(broker, now);
    struct rota_work_worker *worker = live_worker(broker, session);
    if (!worker)
        return;
    lose_worker(broker, worker, ROTA_LOSS_LEFT, false);
    rota_broker_match(broker);
}

/* Its attempts keep running without a session, for a while. */
static void set_adrift(struct rota_broker *broker, struct rota_work_worker *worker)
{
    while (worker->running) {
        uint32_t number = worker->running;
        struct rota_job_extra *extra = extra_of(broker, number);
        rota_broker_worker_release(broker, number);
        extra->lease = 0;
        extra->lease_until = rota_time_add(broker->now.boot, broker->options.grace);
        rota_broker_timer_set(broker, rota_job_at(&broker->jobs, number));
    }
}

void rota_broker_worker_lost(struct rota_broker *broker, struct rota_work_now now, uint64_t session,
                             bool is_excused)
{
    rota_broker_at(broker, now);
    struct rota_work_worker *worker = live_worker(broker, session);
    if (!worker)
        return;
    if (is_excused)
        set_adrift(broker, worker);
    lose_worker(broker, worker, ROTA_LOSS_DIED, false);
    rota_broker_match(broker);
}

bool rota_broker_worker_heard(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session)
{
    rota_broker_at(broker, now);
    struct rota_work_worker *worker = live_worker(broker, session);
    if (worker)
        worker->heard_at = broker->now.boot;
    return worker != NULL;
}

bool rota_broker_worker_is_open(const struct rota_broker *broker, uint64_t session)
{
    return live_worker(broker, session) != NULL;
}

bool rota_broker_worker_slots(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session, uint32_t slots)
{
    rota_broker_at(broker, now);
    struct rota_work_worker *worker = live_worker(broker, session);
    if (!worker)
        return false;
    if (slots > ROTA_WORKER_SLOTS_MAX)
        slots = ROTA_WORKER_SLOTS_MAX;
    worker->class->n_slots += slots - (size_t)worker->slots;
    worker->slots = slots;
    settle_worker(broker, worker);
    rota_broker_match_serve(broker, worker);
    return true;
}

/* --- attempts that it has --- */

static int compare_numbers(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* False if there is no memory to continue. */
static bool miss_results(struct rota_broker *broker, const struct rota_work_worker *worker,
                         uint64_t up_to, const uint64_t *named, size_t n_named)
{
    if (up_to == 0)
        return true; /* nothing was handed out to this session */
    if (up_to > broker->matching.n_handed)
        up_to = broker->matching.n_handed;
    /* Sequence numbers wrap around: an attempt from half the range ago arrived long ago. */
    for (uint32_t number = worker->running, next; number; number = next) {
        const struct rota_job_extra *extra = extra_of(broker, number);
        next = extra->next_job;
        if ((int32_t)((uint32_t)up_to - extra->handed) < 0 ||
            (n_named && bsearch(&extra->attempt, named, n_named, sizeof *named, compare_numbers)))
            continue;
        if (!rota_broker_ready(broker,
                               rota_broker_lane_of(broker, rota_job_at(&broker->jobs, number))))
            return false;
        rota_broker_end_attempt_lost(broker, number, ROTA_LOSS_LEFT, "it did not reach its worker");
    }
    return true;
}

/* Whether the worker need not be notified about an attempt that it names: it runs here, or it has
 * ended, and the answer is in flight. */
static bool is_settled(const struct rota_broker *broker, const struct rota_work_worker *worker,
                       const struct rota_worker_running *held)
{
    uint32_t number = rota_broker_queue_find_job(broker, held->queue, held->id);
    const struct rota_job *job = number ? rota_job_at(&broker->jobs, number) : NULL;
    const struct rota_job_extra *extra = job ? rota_job_extra_of(&broker->jobs, job) : NULL;
    if (!extra)
        return false;
    return extra->ended == held->attempt ||
           (job->state == ROTA_JOB_RUNNING && extra->attempt == held->attempt &&
            extra->session == worker->session);
}

enum rota_code rota_broker_worker_holds(struct rota_broker *broker, struct rota_work_now now,
                                        uint64_t session, uint64_t up_to,
                                        const struct rota_worker_running *held, size_t n_held,
                                        struct rota_error *error)
{
    rota_broker_at(broker, now);
    struct rota_work_worker *worker = live_worker(broker, session);
    if (!worker)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "no such session");
    uint64_t *named = n_held ? malloc(n_held * sizeof *named) : NULL;
    bool is_well = n_held == 0 || named;
    for (size_t i = 0; is_well && i < n_held; i++)
        named[i] = held[i].attempt;
    if (is_well && n_held)
        qsort(named, n_held, sizeof *named, compare_numbers);
    is_well = is_well && miss_results(broker, worker, up_to, named, n_held);
    for (size_t i = 0; is_well && i < n_held; i++)
        if (!is_settled(broker, worker, &held[i]) && (is_well = rota_broker_ready(broker, NULL)))
            disown_attempt(broker, worker, &held[i]);
    free(named);
    rota_broker_match(broker);
    worker = live_worker(broker, session);
    if (worker)
        rota_broker_match_serve(broker, worker);
    if (is_well)
        return ROTA_OK;
    return rota_error_no_memory(error, "for a worker's jobs");
}
