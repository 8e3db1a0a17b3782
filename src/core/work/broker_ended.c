#include "core/work/broker_inside.h"

static struct rota_job_extra *extra_of(const struct rota_broker *broker, uint32_t number)
{
    return rota_job_extra_known(&broker->jobs, rota_job_at(&broker->jobs, number));
}

static struct rota_ended_list *list_of(struct rota_broker *broker, uint32_t number)
{
    bool is_dead = rota_job_at(&broker->jobs, number)->state == ROTA_JOB_DEAD;
    return is_dead ? &broker->dead : &broker->ended;
}

/* The last one that ended no later; 0: none. */
static uint32_t place_of(const struct rota_broker *broker, const struct rota_ended_list *list,
                         rota_time since)
{
    uint32_t at = list->last, next;
    if (!at || extra_of(broker, at)->since <= since)
        return at;
    if (list->hint)
        at = list->hint;
    while (at && extra_of(broker, at)->since > since)
        at = extra_of(broker, at)->previous;
    while (at && (next = extra_of(broker, at)->next) && extra_of(broker, next)->since <= since)
        at = next;
    return at;
}

/* By when they ended: that is at the end, but for those that a journal tells of anew, or that
 * come from another broker. Such come many at a time, in the order of a table whose neighbours
 * have ended at about the same time. */
void rota_ended_list_push(struct rota_broker *broker, uint32_t number)
{
    struct rota_ended_list *list = list_of(broker, number);
    struct rota_job_extra *extra = extra_of(broker, number);
    uint32_t before = place_of(broker, list, extra->since);
    if (before != list->last)
        list->hint = number;
    extra->previous = before;
    extra->next = before ? extra_of(broker, before)->next : list->first;
    if (before)
        extra_of(broker, before)->next = number;
    else
        list->first = number;
    if (extra->next)
        extra_of(broker, extra->next)->previous = number;
    else
        list->last = number;
}

void rota_ended_list_remove(struct rota_broker *broker, uint32_t number)
{
    struct rota_ended_list *list = list_of(broker, number);
    struct rota_job_extra *extra = extra_of(broker, number);
    if (list->hint == number)
        list->hint = extra->previous;
    if (extra->previous)
        extra_of(broker, extra->previous)->next = extra->next;
    else
        list->first = extra->next;
    if (extra->next)
        extra_of(broker, extra->next)->previous = extra->previous;
    else
        list->last = extra->previous;
    extra->next = extra->previous = 0;
}

static uint32_t oldest_ended(const struct rota_broker *broker)
{
    uint32_t ended = broker->ended.first, dead = broker->dead.first;
    if (!ended || !dead)
        return ended ? ended : dead;
    return extra_of(broker, dead)->since < extra_of(broker, ended)->since ? dead : ended;
}

enum { CACHE_LINE = 64 };

__attribute__((always_inline)) static inline void fetch(const void *at, size_t size)
{
    for (size_t i = 0; i < size; i += CACHE_LINE)
        __builtin_prefetch((const char *)at + i, 1);
}

/* The extra of the one that will go next; NULL: none will. */
static const struct rota_job_extra *leaving(const struct rota_broker *broker)
{
    bool is_full = broker->n_ended >= broker->options.ended_max;
    return is_full && broker->ended.first ? extra_of(broker, broker->ended.first) : NULL;
}

void rota_broker_fetch_oldest(const struct rota_broker *broker)
{
    const struct rota_job_extra *extra = leaving(broker);
    if (!extra)
        return;
    fetch(extra, sizeof *extra);
    rota_job_table_fetch_place(&broker->jobs, rota_job_at(&broker->jobs, extra->job)->id);
    if (extra->next)
        fetch(rota_job_at(&broker->jobs, extra->next), sizeof(struct rota_job));
}

void rota_broker_fetch_oldest_more(const struct rota_broker *broker)
{
    const struct rota_job_extra *extra = leaving(broker);
    if (!extra)
        return;
    if (extra->result)
        fetch(extra->result - sizeof(uint32_t), 1);
    if (extra->next)
        fetch(&extra_of(broker, extra->next)->previous, 1);
}

/* False when there is no memory for it. */
static bool forget(struct rota_broker *broker, uint32_t number)
{
    if (broker->options.tells_forgotten && broker->is_begun) {
        if (!rota_broker_ready(broker, NULL))
            return false;
        rota_broker_write(broker, ROTA_WORK_FORGET, rota_job_at(&broker->jobs, number));
    }
    return rota_broker_job_free(broker, number);
}

void rota_broker_forget_ended(struct rota_broker *broker, size_t bytes)
{
    while (broker->n_ended > broker->options.ended_max)
        if (!forget(broker, oldest_ended(broker)))
            return;
    while (broker->ended.first) {
        bool is_too_old = broker->is_begun &&
                          extra_of(broker, broker->ended.first)->wait_until <= broker->now.boot;
        bool is_too_much =
            bytes > broker->options.bytes_max || broker->bytes > broker->options.bytes_max - bytes;
        if ((!is_too_old && !is_too_much) || !forget(broker, broker->ended.first))
            return;
    }
}
