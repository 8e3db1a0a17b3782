#include "core/work/broker_inside.h"

static struct rota_job_extra *extra_at(const struct rota_broker *broker, size_t index)
{
    return rota_job_extra_at(&broker->jobs, broker->timers.items[index]);
}

static void put(struct rota_broker *broker, size_t index, uint32_t number)
{
    broker->timers.items[index] = number;
    rota_job_extra_at(&broker->jobs, number)->timer_place = (uint32_t)index + 1;
}

static void sift_up(struct rota_broker *broker, size_t index, uint32_t number)
{
    rota_time at = rota_job_extra_at(&broker->jobs, number)->timer_at;
    while (index > 0 && at < extra_at(broker, (index - 1) / 2)->timer_at) {
        put(broker, index, broker->timers.items[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(broker, index, number);
}

static void sift_down(struct rota_broker *broker, size_t index, uint32_t number)
{
    rota_time at = rota_job_extra_at(&broker->jobs, number)->timer_at;
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= broker->timers.size)
            break;
        if (child + 1 < broker->timers.size &&
            extra_at(broker, child + 1)->timer_at < extra_at(broker, child)->timer_at)
            child++;
        if (extra_at(broker, child)->timer_at >= at)
            break;
        put(broker, index, broker->timers.items[child]);
        index = child;
    }
    put(broker, index, number);
}

static void take_out(struct rota_broker *broker, struct rota_job_extra *extra)
{
    size_t index = extra->timer_place - 1;
    uint32_t last = broker->timers.items[--broker->timers.size];
    extra->timer_place = 0;
    if (index == broker->timers.size)
        return;
    rota_time at = rota_job_extra_at(&broker->jobs, last)->timer_at;
    if (index > 0 && at < extra_at(broker, (index - 1) / 2)->timer_at)
        sift_up(broker, index, last);
    else
        sift_down(broker, index, last);
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

void rota_broker_limit_attempt(const struct rota_broker *broker, struct rota_job_extra *extra)
{
    if (extra->timeout)
        extra->attempt_until =
            rota_time_add(broker->now.boot, rota_time_add(extra->timeout, ROTA_JOB_TIMEOUT_GRACE));
}

void rota_broker_set_timer(struct rota_broker *broker, const struct rota_job *job)
{
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (!extra)
        return;
    rota_time at = broker->is_begun ? wanted_at(job, extra) : ROTA_TIME_NEVER;
    if (extra->timer_place && extra->timer_at == at)
        return;
    if (extra->timer_place)
        take_out(broker, extra);
    extra->timer_at = at;
    if (at == ROTA_TIME_NEVER)
        return;
    assert(broker->timers.size < broker->timers.capacity);
    sift_up(broker, broker->timers.size++, job->extra);
}

void rota_broker_drop_timer(struct rota_broker *broker, const struct rota_job *job)
{
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (extra && extra->timer_place)
        take_out(broker, extra);
}

struct rota_job_extra *rota_broker_need_extra(struct rota_broker *broker, uint32_t job_number)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    if (!job->extra && !rota_vector_reserve(&broker->timers, broker->jobs.extras.n_used + 1))
        return NULL;
    return rota_job_table_need_extra(&broker->jobs, job_number);
}

rota_time rota_broker_first_timer(const struct rota_broker *broker)
{
    return broker->timers.size ? extra_at(broker, 0)->timer_at : ROTA_TIME_NEVER;
}

uint32_t rota_broker_due(const struct rota_broker *broker)
{
    return rota_broker_first_timer(broker) <= broker->now.boot ? broker->timers.items[0] : 0;
}
