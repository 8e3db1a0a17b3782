#include "core/work/broker_inside.h"

void rota_broker_mark_dirty(struct rota_broker *broker, struct rota_lane *lane)
{
    if (lane->is_dirty)
        return;
    lane->is_dirty = true;
    broker->dirty.items[broker->dirty.size++] =
        broker->queues.items[lane->queue]->lanes.items[lane->set];
}

void rota_broker_offer(struct rota_broker *broker, const struct rota_work_worker *worker)
{
    for (size_t i = 0; i < worker->class->n_queues; i++) {
        const struct rota_choice *choice = &worker->class->choices[i];
        for (size_t k = 0; k < choice->watches.size; k++)
            if (choice->watches.items[k]->lane->size > 0)
                rota_broker_mark_dirty(broker, choice->watches.items[k]->lane);
    }
}

/* The job that a worker of this class gets next; 0: none waits. */
static uint32_t choose(struct rota_broker *broker, const struct rota_work_class *class)
{
    uint32_t best = 0;
    const struct rota_job *best_job = NULL;
    for (size_t i = 0; i < class->n_queues; i++) {
        if (broker->queues.items[class->queues[i]]->is_paused)
            continue;
        uint32_t first = rota_choice_first(&class->choices[i], &broker->jobs, &broker->n_looks);
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
    rota_time until = rota_time_min(extra->attempt_until, extra->deadline_at);
    return until == ROTA_TIME_NEVER ? 0 : until - broker->now.boot;
}

static void hand_out(struct rota_broker *broker, struct rota_work_worker *worker, uint32_t number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    uint64_t attempt = broker->life << 32 | ++broker->n_attempts;
    worker->name->n_refs++;
    rota_broker_job_start(broker, number, attempt, extra->n_attempts + 1, worker->name,
                          broker->stamp);
    if (extra->timeout)
        extra->attempt_until = rota_time_add(broker->now.boot, extra->timeout);
    rota_broker_worker_take(broker, worker, number);

    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_START, job);
    record->attempt = attempt;
    record->n_attempts = extra->n_attempts;
    record->worker = rota_str_of(worker->name->bytes, worker->name->size);
    struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_DO_DISPATCH, job);
    effect->session = worker->session;
    effect->timeout = time_left(broker, extra);
    rota_broker_attach_spec(broker, job);
    rota_broker_tell(broker, job, 0);
}

/* Hand a job to a worker, or end it when it is too late for that. False when there is no
 * memory. */
static bool dispatch(struct rota_broker *broker, struct rota_work_worker *worker, uint32_t number)
{
    if (!rota_broker_ready(broker, NULL))
        return false;
    struct rota_job_extra *extra = rota_broker_need_extra(broker, number);
    if (!extra) {
        broker->is_starved = true;
        return false;
    }
    if (extra->deadline_at <= broker->now.boot) {
        rota_broker_finish(broker, number, ROTA_JOB_DEAD, ROTA_JOB_CAUSE_DEADLINE,
                           rota_str("not begun before its deadline"), NULL, 0);
        return true;
    }
    if (broker->n_attempts == UINT32_MAX) /* nothing goes out before that is on disk */
        rota_broker_next_life(broker);
    if (!rota_broker_may_dispatch(broker))
        return false;
    rota_broker_job_leave(broker, number);
    hand_out(broker, worker, number);
    return true;
}

static void fill(struct rota_broker *broker, struct rota_work_worker *worker)
{
    while (worker->is_free && rota_broker_may_dispatch(broker)) {
        uint32_t number = choose(broker, worker->class);
        if (!number || !dispatch(broker, worker, number))
            break;
    }
}

void rota_broker_serve(struct rota_broker *broker, struct rota_work_worker *worker)
{
    fill(broker, worker);
    if (worker->is_poll && worker->n_running > 0)
        rota_broker_worker_detach(broker, worker);
}

/* A free worker that can take jobs of a lane; NULL: none. */
static struct rota_work_worker *find_free(const struct rota_broker *broker, uint32_t lane)
{
    for (const struct rota_work_class *class = broker->first_free; class; class = class->next)
        if (rota_broker_class_has(class, lane))
            return class->first_free;
    return NULL;
}

/* One job to the worker that is free for longest; one that polls takes what it can get. */
static bool match_one(struct rota_broker *broker, uint32_t lane)
{
    struct rota_work_worker *worker = find_free(broker, lane);
    uint32_t number = worker ? choose(broker, worker->class) : 0;
    if (!number || !dispatch(broker, worker, number))
        return false;
    if (worker->is_poll) {
        rota_broker_serve(broker, worker);
    } else {
        rota_broker_turn(broker, worker);
    }
    return true;
}

void rota_broker_match(struct rota_broker *broker)
{
    while (broker->dirty.size > 0) {
        uint32_t number = broker->dirty.items[--broker->dirty.size];
        struct rota_lane *lane = broker->lanes.items[number];
        lane->is_dirty = false;
        while (lane->size > 0 && !broker->queues.items[lane->queue]->is_paused &&
               rota_broker_may_dispatch(broker) && match_one(broker, number))
            ;
    }
}
