#include "core/work/broker/broker_inside.h"

static rota_time at_of(const struct rota_broker *broker, uint32_t number)
{
    return rota_job_extra_at(&broker->jobs, number)->timer_at;
}

static bool is_before(const struct rota_broker *broker, uint32_t a, uint32_t b)
{
    return at_of(broker, a) < at_of(broker, b);
}

static void put_timer(struct rota_broker *broker, size_t index, uint32_t number)
{
    broker->timers.items[index] = number;
    rota_job_extra_at(&broker->jobs, number)->timer_place = (uint32_t)index + 1;
}

static void sift_timer(struct rota_broker *broker, size_t index, uint32_t number)
{
    ROTA_HEAP_SIFT(broker, broker->timers.items, broker->timers.size, index, number, is_before,
                   put_timer);
}

static void remove_timer(struct rota_broker *broker, struct rota_job_extra *extra)
{
    size_t index = extra->timer_place - 1;
    uint32_t last = broker->timers.items[--broker->timers.size];
    extra->timer_place = 0;
    if (index != broker->timers.size)
        sift_timer(broker, index, last);
}

static rota_time wanted_at(const struct rota_job *job, const struct rota_job_extra *extra)
{
    switch ((enum rota_job_state)job->state) {
    case ROTA_JOB_WAITING:
        return extra->deadline_at;
    case ROTA_JOB_DELAYED:
        return rota_time_min(extra->wait_until, extra->deadline_at);
    case ROTA_JOB_RUNNING:
        return rota_time_min(extra->deadline_at,
                             rota_time_min(extra->attempt_until, extra->lease_until));
    case ROTA_JOB_DONE:
    case ROTA_JOB_DEAD:
    case ROTA_JOB_CANCELLED:
        break;
    }
    return ROTA_TIME_NEVER;
}

void rota_broker_timer_limit_attempt(const struct rota_broker *broker, struct rota_job_extra *extra)
{
    if (extra->timeout)
        extra->attempt_until =
            rota_time_add(broker->now.boot, rota_time_add(extra->timeout, ROTA_JOB_TIMEOUT_GRACE));
}

void rota_broker_timer_set(struct rota_broker *broker, const struct rota_job *job)
{
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (!extra)
        return;
    rota_time at = broker->journal.is_begun ? wanted_at(job, extra) : ROTA_TIME_NEVER;
    if (extra->timer_place && extra->timer_at == at)
        return;
    if (extra->timer_place)
        remove_timer(broker, extra);
    extra->timer_at = at;
    if (at == ROTA_TIME_NEVER)
        return;
    assert(broker->timers.size < broker->timers.capacity);
    sift_timer(broker, broker->timers.size++, job->extra);
}

void rota_broker_timer_drop(struct rota_broker *broker, const struct rota_job *job)
{
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (extra && extra->timer_place)
        remove_timer(broker, extra);
}

struct rota_job_extra *rota_broker_timer_need_extra(struct rota_broker *broker, uint32_t job_number)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    if (!job->extra && !rota_vector_reserve(&broker->timers, broker->jobs.extras.n_used + 1))
        return NULL;
    return rota_job_table_need_extra(&broker->jobs, job_number);
}

rota_time rota_broker_timer_first(const struct rota_broker *broker)
{
    return broker->timers.size ? at_of(broker, broker->timers.items[0]) : ROTA_TIME_NEVER;
}

uint32_t rota_broker_timer_due(const struct rota_broker *broker)
{
    return rota_broker_timer_first(broker) <= broker->now.boot ? broker->timers.items[0] : 0;
}
