#include "core/work/broker/broker_inside.h"

/* The lists are of extras, each with the number of the next one: prefetching along them waits
 * for one memory access at a time. */

static struct rota_job_extra *extra_at(const struct rota_broker *broker, uint32_t number)
{
    return rota_job_extra_at(&broker->jobs, number);
}

static struct rota_ended_list *list_of(struct rota_broker *broker, const struct rota_job *job)
{
    return job->state == ROTA_JOB_DEAD ? &broker->ended.dead : &broker->ended.others;
}

/* The extra of the last one that ended no later; 0: none. */
static uint32_t last_ended_by(const struct rota_broker *broker, const struct rota_ended_list *list,
                              rota_time since)
{
    uint32_t at = list->last, next;
    if (!at || extra_at(broker, at)->since <= since)
        return at;
    if (list->hint)
        at = list->hint;
    while (at && extra_at(broker, at)->since > since)
        at = extra_at(broker, at)->previous_ended;
    while (at && (next = extra_at(broker, at)->next_ended) &&
           extra_at(broker, next)->since <= since)
        at = next;
    return at;
}

/* Sorted by when they ended: mostly appended, except for those that a journal repeats, or that come
 * from another broker. These come many at a time, in the order of a table whose neighbors have
 * ended at about the same time. */
void rota_broker_ended_list_push(struct rota_broker *broker, uint32_t number)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_ended_list *list = list_of(broker, job);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    uint32_t before = last_ended_by(broker, list, extra->since);
    if (before != list->last)
        list->hint = job->extra;
    extra->previous_ended = before;
    extra->next_ended = before ? extra_at(broker, before)->next_ended : list->first;
    if (before)
        extra_at(broker, before)->next_ended = job->extra;
    else
        list->first = job->extra;
    if (extra->next_ended)
        extra_at(broker, extra->next_ended)->previous_ended = job->extra;
    else
        list->last = job->extra;
}

void rota_broker_ended_list_remove(struct rota_broker *broker, uint32_t number)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_ended_list *list = list_of(broker, job);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    if (list->hint == job->extra)
        list->hint = extra->previous_ended;
    if (extra->previous_ended)
        extra_at(broker, extra->previous_ended)->next_ended = extra->next_ended;
    else
        list->first = extra->next_ended;
    if (extra->next_ended)
        extra_at(broker, extra->next_ended)->previous_ended = extra->previous_ended;
    else
        list->last = extra->previous_ended;
}

/* The number of its extra; 0: none. */
static uint32_t oldest_extra(const struct rota_broker *broker)
{
    uint32_t ended = broker->ended.others.first, dead = broker->ended.dead.first;
    if (!ended || !dead)
        return ended ? ended : dead;
    return extra_at(broker, dead)->since < extra_at(broker, ended)->since ? dead : ended;
}

rota_time rota_broker_ended_forgets_at(const struct rota_broker *broker)
{
    uint32_t first = broker->ended.others.first;
    return first ? extra_at(broker, first)->wait_until : ROTA_TIME_NEVER;
}

/* --- prefetching --- */

enum { CACHE_LINE = 64 };

__attribute__((always_inline)) static inline void prefetch(const void *at, size_t size)
{
    for (size_t i = 0; i < size; i += CACHE_LINE)
        __builtin_prefetch((const char *)at + i, 1);
}

/* One step for each of the next four to be removed; each step uses what the one before has
 * prefetched when another job ended. */
void rota_broker_ended_fetch_oldest(const struct rota_broker *broker)
{
    const struct rota_job_table *jobs = &broker->jobs;
    const struct rota_job_extra *extra;
    uint32_t number = broker->ended.others.first;
    if (broker->ended.n < broker->options.ended_max || !number)
        return;
    extra = extra_at(broker, number);
    rota_job_table_fetch_others(jobs, rota_job_at(jobs, extra->job)->hash);
    if (!(number = extra->next_ended))
        return;
    extra = extra_at(broker, number);
    rota_job_table_fetch_place(jobs, rota_job_at(jobs, extra->job)->hash);
    if (!(number = extra->next_ended))
        return;
    extra = extra_at(broker, number);
    prefetch(rota_job_at(jobs, extra->job), sizeof(struct rota_job));
    if (extra->result)
        prefetch(extra->result - sizeof(uint32_t), 1);
    if (extra->next_ended)
        prefetch(extra_at(broker, extra->next_ended), sizeof *extra);
}

/* --- forgetting --- */

/* Forget the job whose extra has this number; false when there is no memory for it. */
static bool forget_extra(struct rota_broker *broker, uint32_t extra_number)
{
    uint32_t number = extra_at(broker, extra_number)->job;
    if (broker->options.has_rows && broker->journal.is_begun) {
        if (!rota_broker_ready(broker, NULL))
            return false;
        rota_broker_write(broker, ROTA_WORK_FORGET, rota_job_at(&broker->jobs, number));
    }
    return rota_broker_job_free(broker, number);
}

void rota_broker_ended_forget(struct rota_broker *broker, size_t bytes)
{
    while (broker->ended.n > broker->options.ended_max)
        if (!forget_extra(broker, oldest_extra(broker)))
            return;
    while (broker->ended.others.first) {
        bool is_too_old =
            broker->journal.is_begun && rota_broker_ended_forgets_at(broker) <= broker->now.boot;
        bool is_too_much =
            bytes > broker->options.bytes_max || broker->bytes > broker->options.bytes_max - bytes;
        if ((!is_too_old && !is_too_much) || !forget_extra(broker, broker->ended.others.first))
            return;
    }
}

bool rota_broker_ended_forget_read(struct rota_broker *broker, rota_time wall)
{
    size_t before = broker->ended.n;
    for (uint32_t first; (first = broker->ended.others.first);)
        if (rota_time_add(extra_at(broker, first)->since, broker->options.keep) > wall ||
            !forget_extra(broker, first))
            break;
    return broker->ended.n < before;
}
