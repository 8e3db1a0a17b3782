#include "core/work/broker/broker_inside.h"

#include "core/work/cluster/tree_fsm.h"

/* What its workers can do: names in order, each followed by a blank. */
static struct rota_str can_of(const struct rota_work_class *class)
{
    const char *bar = memchr(class->text, '|', class->text_size);
    size_t from = (size_t)(bar - class->text) + 1;
    return rota_str_of(class->text + from, class->text_size - from);
}

bool rota_broker_next_idle(const struct rota_broker *broker, size_t *place,
                           struct rota_idle_view *view)
{
    const struct rota_map_entry *entry;
    while ((entry = rota_map_next(&broker->classes.by_key, place))) {
        const struct rota_work_class *class = entry->value;
        if (class->n_free == 0)
            continue;
        view->can = can_of(class);
        view->n_free = class->n_free;
        view->n_queues = class->n_queues;
        for (size_t i = 0; i < class->n_queues; i++)
            view->queues[i] = rota_broker_queue_name(broker->queues.all.items[class->queues[i]]);
        return true;
    }
    return false;
}

bool rota_broker_next_waiting(const struct rota_broker *broker, size_t *place,
                              struct rota_waiting_view *view)
{
    while (*place < broker->lanes.all.size && rota_broker_may_dispatch(broker)) {
        const struct rota_lane *lane = broker->lanes.all.items[(*place)++];
        if (!lane || lane->size == 0 || broker->queues.all.items[lane->queue]->is_paused)
            continue;
        const struct rota_capability_set *set =
            rota_capabilities_set_at(&broker->capabilities, lane->set);
        view->queue = rota_broker_queue_name(broker->queues.all.items[lane->queue]);
        view->can = rota_str_of(set->text, set->text_size);
        view->n_jobs = lane->size;
        view->first_at = rota_job_at(&broker->jobs, rota_lane_first(lane))->enqueued_at;
        return true;
    }
    return false;
}

bool rota_broker_find_idle(const struct rota_broker *broker, struct rota_str queue_name,
                           struct rota_str needed, struct rota_idle_worker *idle)
{
    const struct rota_work_queue *queue = rota_broker_queue(broker, queue_name);
    if (!queue)
        return false;
    ROTA_LIST_EACH (class, &broker->classes.free, const struct rota_work_class, link) {
        bool is_served = false;
        for (size_t i = 0; i < class->n_queues; i++)
            is_served = is_served || class->queues[i] == queue->number;
        if (!is_served || !rota_tree_words_can(can_of(class), needed))
            continue;
        const struct rota_work_worker *worker =
            ROTA_LIST_ITEM(class->free_workers.next, const struct rota_work_worker, link);
        *idle = (struct rota_idle_worker){
            .session = worker->session,
            .name = rota_str_of(worker->name->bytes, worker->name->size),
            .can = can_of(class),
            .slots = worker->slots,
            .n_free = worker->n_free,
            .lease = worker->lease,
            .is_poll = worker->is_poll,
        };
        return true;
    }
    return false;
}

bool rota_broker_waits_for_worker(const struct rota_broker *broker, struct rota_str queue,
                                  struct rota_job_id id)
{
    uint32_t number = rota_broker_queue_find_job(broker, queue, id);
    if (!number || !rota_broker_may_dispatch(broker))
        return false;
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    const struct rota_work_queue *of = rota_broker_queue_of(broker, job);
    const struct rota_work_partition *partition =
        rota_broker_partition(of, rota_job_partition(&broker->jobs, job));
    return job->state == ROTA_JOB_WAITING && !(job->flags & ROTA_JOB_UNSAFE) && !of->is_paused &&
           partition && partition->is_open;
}
