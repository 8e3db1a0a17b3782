#include "core/work/broker/broker_inside.h"

#include "base/hash.h"

#include <string.h>

void rota_broker_match_mark_dirty(struct rota_broker *broker, struct rota_lane *lane)
{
    if (lane->is_dirty)
        return;
    lane->is_dirty = true;
    broker->lanes.dirty.items[broker->lanes.dirty.size++] =
        broker->queues.all.items[lane->queue]->lanes.items[lane->set];
}

void rota_broker_match_offer_all(struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->lanes.all.size; i++)
        if (broker->lanes.all.items[i] && broker->lanes.all.items[i]->size > 0)
            rota_broker_match_mark_dirty(broker, broker->lanes.all.items[i]);
}

void rota_broker_match_offer(struct rota_broker *broker, const struct rota_work_worker *worker)
{
    for (size_t i = 0; i < worker->class->n_queues; i++) {
        const struct rota_choice *choice = &worker->class->choices[i];
        for (size_t k = 0; k < choice->watches.size; k++)
            if (choice->watches.items[k]->lane->size > 0)
                rota_broker_match_mark_dirty(broker, choice->watches.items[k]->lane);
    }
}

/* The job that a worker of this class gets next; 0: none waits. */
static uint32_t choose_job(struct rota_broker *broker, const struct rota_work_class *class)
{
    uint32_t best = 0;
    const struct rota_job *best_job = NULL;
    for (size_t i = 0; i < class->n_queues; i++) {
        if (broker->queues.all.items[class->queues[i]]->is_paused)
            continue;
        uint32_t first =
            rota_choice_first(&class->choices[i], &broker->jobs, &broker->matching.n_looks);
        const struct rota_job *job = first ? rota_job_at(&broker->jobs, first) : NULL;
        if (job && (!best_job || rota_job_is_older(job, best_job))) {
            best = first;
            best_job = job;
        }
    }
    return best;
}

static rota_time time_left(const struct rota_broker *broker, const struct rota_job_extra *extra)
{
    rota_time limit = extra->timeout ? extra->timeout : ROTA_TIME_NEVER;
    if (extra->deadline_at != ROTA_TIME_NEVER)
        limit = rota_time_min(limit, extra->deadline_at - broker->now.boot);
    return limit == ROTA_TIME_NEVER ? 0 : limit;
}

/* Above the attempts that the job had, by an unpredictable step: one of 2^31 at first, then a
 * part of what is left. 0: too little is left in this life. */
static uint64_t next_attempt(struct rota_broker *broker, const struct rota_job_extra *extra)
{
    enum { PARTS = 16, CHANCES_MIN = 1 << 16 };
    bool is_first = extra->attempt >> 32 != broker->journal.life;
    uint64_t from = is_first ? 1 : (uint32_t)extra->attempt + UINT64_C(1);
    uint64_t n_chances = is_first ? UINT64_C(1) << 31 : ((UINT64_C(1) << 32) - from) / PARTS;
    if (n_chances < CHANCES_MIN)
        return 0;
    if (broker->matching.n_attempts++ % 2 == 0) /* one hash is good for two */
        broker->matching.chances = rota_hash_sip64(
            broker->options.secret,
            rota_str_of(&broker->matching.n_attempts, sizeof broker->matching.n_attempts));
    else
        broker->matching.chances >>= 32;
    return broker->journal.life << 32 |
           (from + ((uint32_t)broker->matching.chances * n_chances >> 32));
}

static void send_attempt(struct rota_broker *broker, const struct rota_job *job, uint64_t session,
                         uint64_t handed)
{
    const struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_DO_DISPATCH, job);
    effect->session = session;
    effect->handed = handed;
    effect->timeout = time_left(broker, extra);
    effect->priority = job->priority;
    effect->payload = rota_job_payload(job);
    effect->key = rota_job_extra_key(extra);
    effect->trace = rota_job_extra_trace(extra);
}

/* Its times begin when it is sent. There is room for it. */
static void await_start(struct rota_broker *broker, const struct rota_job *job, uint64_t session)
{
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    extra->is_unsent = true;
    extra->lease_until = extra->attempt_until = ROTA_TIME_NEVER;
    rota_broker_timer_set(broker, job);
    broker->matching.starts.items[broker->matching.starts.size++] =
        (struct rota_work_start){.id = job->id,
                                 .attempt = extra->attempt,
                                 .session = session,
                                 .handed = broker->matching.n_handed,
                                 .number = broker->journal.last_number};
}

/* NULL: it has ended meanwhile, or its partition is another's. */
static struct rota_job *unsent_job(const struct rota_broker *broker,
                                   const struct rota_work_start *start)
{
    for (uint32_t number = rota_job_table_find(&broker->jobs, start->id); number;
         number = rota_job_table_find_next(&broker->jobs, number)) {
        struct rota_job *job = rota_job_at(&broker->jobs, number);
        const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
        if (job->state == ROTA_JOB_RUNNING && extra->attempt == start->attempt && extra->is_unsent)
            return job;
    }
    return NULL;
}

static void send_start(struct rota_broker *broker, const struct rota_work_start *start)
{
    struct rota_job *job = unsent_job(broker, start);
    if (!job) {
        if (!rota_broker_worker(broker, start->session)) /* a poll, which may get nothing now */
            rota_broker_emit(broker, ROTA_WORK_TELL_LOST, NULL)->session = start->session;
        return;
    }
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    extra->is_unsent = false;
    if (extra->lease)
        extra->lease_until = rota_time_add(broker->now.boot, extra->lease);
    rota_broker_timer_limit_attempt(broker, extra);
    rota_broker_timer_set(broker, job);
    send_attempt(broker, job, extra->session ? extra->session : start->session, start->handed);
}

void rota_broker_match_send_starts(struct rota_broker *broker)
{
    size_t n = 0;
    while (n < broker->matching.starts.size &&
           broker->matching.starts.items[n].number <= broker->journal.durable &&
           rota_broker_ready(broker, NULL))
        send_start(broker, &broker->matching.starts.items[n++]);
    broker->matching.starts.size -= n;
    if (n > 0 && broker->matching.starts.size > 0)
        memmove(broker->matching.starts.items, broker->matching.starts.items + n,
                broker->matching.starts.size * sizeof *broker->matching.starts.items);
}

void rota_broker_match_start(struct rota_broker *broker, struct rota_work_worker *worker,
                             uint32_t job_number, uint64_t attempt)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    worker->name->n_refs++;
    rota_broker_job_start(broker, job_number, attempt, extra->n_attempts + 1, worker->name,
                          broker->stamp);
    rota_broker_timer_limit_attempt(broker, extra);
    rota_broker_worker_take(broker, worker, job_number);

    struct rota_work_record *record = rota_broker_note(broker, ROTA_WORK_START, job);
    record->attempt = attempt;
    record->n_attempts = extra->n_attempts;
    record->worker = rota_str_of(worker->name->bytes, worker->name->size);
}

static void hand_out(struct rota_broker *broker, struct rota_work_worker *worker, uint32_t number,
                     uint64_t attempt)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    extra->handed = (uint32_t)++broker->matching.n_handed;
    rota_broker_match_start(broker, worker, number, attempt);
    if (broker->options.has_rows)
        await_start(broker, job, worker->session);
    else
        send_attempt(broker, job, worker->session, broker->matching.n_handed);
    rota_broker_tell(broker, job, 0);
}

/* Hand a job to a worker, or end it if its deadline has passed. False when there is no memory. */
static bool dispatch_job(struct rota_broker *broker, struct rota_work_worker *worker,
                         uint32_t number)
{
    if (!rota_broker_ready(broker, NULL))
        return false;
    struct rota_job_extra *extra = rota_broker_timer_need_extra(broker, number);
    if (!extra ||
        (broker->options.has_rows &&
         !rota_vector_reserve(&broker->matching.starts, broker->matching.starts.size + 1))) {
        broker->is_starved = true;
        return false;
    }
    if (extra->deadline_at <= broker->now.boot) {
        rota_broker_end_finish(broker, number, ROTA_JOB_DEAD, ROTA_JOB_CAUSE_DEADLINE,
                               rota_str("not started before its deadline"), NULL, 0);
        return true;
    }
    uint64_t attempt = next_attempt(broker, extra);
    if (!attempt) /* nothing is handed out before that is on disk */
        rota_broker_replay_next_life(broker);
    if (!rota_broker_may_dispatch(broker))
        return false;
    rota_broker_job_leave(broker, number);
    hand_out(broker, worker, number, attempt ? attempt : next_attempt(broker, extra));
    return true;
}

static bool has_two_free(const struct rota_work_class *class)
{
    return class->free_workers.next != class->free_workers.previous;
}

/* Of a class that has any. */
static struct rota_work_worker *first_free(const struct rota_work_class *class)
{
    return ROTA_LIST_ITEM(class->free_workers.next, struct rota_work_worker, link);
}

/* Whether a worker gets nothing although a job waits for it: its class yields (yield.h), and
 * this is the only free slot, or the only poll, which is used as a whole. */
static bool holds_back(struct rota_broker *broker, const struct rota_work_worker *worker)
{
    struct rota_work_class *class = worker->class;
    if (!broker->matching.is_shared || worker->is_hasty ||
        !rota_yield_holds(&class->yield, broker->now.boot, class->free_since))
        return false;
    if (!broker->matching.yield_at || class->yield.until < broker->matching.yield_at)
        broker->matching.yield_at = class->yield.until;
    return worker->is_poll ? !has_two_free(class) && worker->n_running == 0 : class->n_free == 1;
}

void rota_broker_match_end_yields(struct rota_broker *broker)
{
    size_t place = 0;
    if (!broker->matching.yield_at || broker->now.boot < broker->matching.yield_at)
        return;
    broker->matching.yield_at = 0;
    for (const struct rota_map_entry *entry;
         (entry = rota_map_next(&broker->classes.by_key, &place));) {
        const struct rota_work_class *class = entry->value;
        rota_time until = class->yield.until;
        if (until > broker->now.boot &&
            (!broker->matching.yield_at || until < broker->matching.yield_at))
            broker->matching.yield_at = until;
        else if (until && until <= broker->now.boot && !rota_list_is_empty(&class->free_workers))
            rota_broker_match_offer(broker, first_free(class));
    }
}

void rota_broker_share(struct rota_broker *broker, struct rota_work_now now, bool is_shared)
{
    if (broker->matching.is_shared == is_shared)
        return;
    rota_broker_at(broker, now);
    broker->matching.is_shared = is_shared;
    rota_broker_match_offer_all(broker);
    rota_broker_match(broker);
}

static void fill_worker(struct rota_broker *broker, struct rota_work_worker *worker)
{
    while (worker->is_free && rota_broker_may_dispatch(broker)) {
        uint32_t number = choose_job(broker, worker->class);
        if (!number || holds_back(broker, worker) || !dispatch_job(broker, worker, number))
            break;
    }
}

void rota_broker_match_serve(struct rota_broker *broker, struct rota_work_worker *worker)
{
    fill_worker(broker, worker);
    if (!worker->is_poll || worker->n_running == 0)
        return;
    for (size_t i = broker->matching.starts.size;
         i-- > 0 && /* it gets all its jobs in one answer */
         broker->matching.starts.items[i].session == worker->session;)
        broker->matching.starts.items[i].number = broker->journal.last_number;
    rota_broker_worker_detach(broker, worker);
}

/* A free worker that can take jobs of a lane; NULL: none. */
static struct rota_work_worker *find_free(struct rota_broker *broker, uint32_t lane)
{
    ROTA_LIST_EACH (class, &broker->classes.free, const struct rota_work_class, link)
        if (rota_broker_class_has(class, lane) && !holds_back(broker, first_free(class)))
            return first_free(class);
    return NULL;
}

/* One job to the worker that has been free longest; one that polls takes as many as it can. */
static bool match_one(struct rota_broker *broker, uint32_t lane)
{
    struct rota_work_worker *worker = find_free(broker, lane);
    uint32_t number = worker ? choose_job(broker, worker->class) : 0;
    if (!number || !dispatch_job(broker, worker, number))
        return false;
    if (worker->is_poll) {
        rota_broker_match_serve(broker, worker);
    } else {
        rota_broker_class_turn(broker, worker);
    }
    return true;
}

void rota_broker_match(struct rota_broker *broker)
{
    while (broker->lanes.dirty.size > 0) {
        uint32_t number = broker->lanes.dirty.items[--broker->lanes.dirty.size];
        struct rota_lane *lane = broker->lanes.all.items[number];
        lane->is_dirty = false;
        while (lane->size > 0 && !broker->queues.all.items[lane->queue]->is_paused &&
               rota_broker_may_dispatch(broker) && match_one(broker, number))
            ;
    }
}
