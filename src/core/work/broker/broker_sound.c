#include "core/work/broker/broker_inside.h"

struct tally {
    size_t n_live, n_ended, n_in_lanes, n_running, n_leased, bytes;
    uint64_t spread, live_spread, drawn_spread; /* sums of the weights of each job's partition */
};

/* No two partitions weigh the same: a job that is counted at another one shows in the sum. */
static uint64_t weigh_partition(const struct rota_work_queue *queue,
                                const struct rota_work_partition *partition)
{
    return (uint64_t)queue->number * ROTA_JOB_PARTITIONS_MAX + partition->number + 1;
}

/* A running job of a connected worker is one that this worker may have. */
static bool is_run_well(const struct rota_broker *broker, const struct rota_job *job,
                        const struct rota_job_extra *extra)
{
    if (!extra || !extra->attempt)
        return false;
    if (!extra->session)
        return extra->lease_until != ROTA_TIME_NEVER || extra->is_unsent; /* a lease begins later */
    const struct rota_work_worker *worker = rota_broker_worker(broker, extra->session);
    const struct rota_capability_set *set =
        rota_capabilities_set_at(&broker->capabilities, rota_broker_lane_of(broker, job)->set);
    return worker && rota_capability_list_has(&worker->class->capabilities, &set->list);
}

static bool is_job_sound(const struct rota_broker *broker, uint32_t number, struct tally *tally)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    const struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    const struct rota_work_partition *partition =
        rota_broker_partition(queue, rota_job_partition(&broker->jobs, job));
    bool is_inside = job->flags & ROTA_JOB_IN_LANE, is_ended = rota_job_state_is_ended(job->state);
    bool should_be =
        job->state == ROTA_JOB_WAITING && !(job->flags & ROTA_JOB_UNSAFE) && partition->is_open;
    tally->n_live += !is_ended;
    tally->n_ended += is_ended;
    tally->n_in_lanes += is_inside;
    tally->bytes += rota_job_payload(job).size + (extra ? extra->result_size : 0);
    tally->spread += weigh_partition(queue, partition);
    tally->live_spread += is_ended ? 0 : weigh_partition(queue, partition);
    tally->drawn_spread +=
        is_ended || !rota_broker_is_drawn(job) ? 0 : weigh_partition(queue, partition);
    if (job->state == ROTA_JOB_DONE && !job->payload_hash && job->payload_size > 0)
        return false;
    if (extra && (extra->key != NULL) != (extra->key_size > 0 && !is_ended))
        return false;
    if (extra && extra->session && job->state != ROTA_JOB_RUNNING)
        return false;
    if (extra && extra->poller) {
        tally->n_leased++;
        if (job->state != ROTA_JOB_RUNNING || extra->session ||
            extra->worker != extra->poller->name)
            return false;
    }
    if (job->state == ROTA_JOB_RUNNING) {
        tally->n_running += extra && extra->session;
        if (!is_run_well(broker, job, extra))
            return false;
    }
    if (job->state == ROTA_JOB_DELAYED && partition->is_open && (!extra || !extra->timer_place))
        return false;
    return is_inside == should_be || (broker->is_starved && !is_inside);
}

/* Each partition counts its own jobs. */
static bool are_partitions_sound(const struct rota_broker *broker, const struct tally *tally)
{
    uint64_t spread = 0, live_spread = 0, drawn_spread = 0;
    for (size_t i = 0; i < broker->queues.all.size; i++) {
        const struct rota_work_queue *queue = broker->queues.all.items[i];
        for (size_t j = 0; queue && j < queue->partitions.size; j++) {
            const struct rota_work_partition *partition = &queue->partitions.items[j];
            if (partition->n_live > partition->n_jobs)
                return false;
            spread += partition->n_jobs * weigh_partition(queue, partition);
            live_spread += partition->n_live * weigh_partition(queue, partition);
            drawn_spread += partition->n_drawn * weigh_partition(queue, partition);
        }
    }
    return spread == tally->spread && live_spread == tally->live_spread &&
           drawn_spread == tally->drawn_spread;
}

static bool are_jobs_sound(const struct rota_broker *broker)
{
    struct tally tally = {0};
    size_t n_in_lanes = 0;
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));)
        if (!is_job_sound(broker, i, &tally))
            return false;
    for (size_t i = 0; i < broker->lanes.all.size; i++) {
        const struct rota_lane *lane = broker->lanes.all.items[i];
        if (lane && (!broker->queues.all.items[lane->queue] || lane->is_dirty ||
                     !rota_lane_is_sound(lane, &broker->jobs)))
            return false;
        n_in_lanes += lane ? lane->size : 0;
    }
    size_t n_running = 0, n_leased = 0, n_polls = 0;
    for (size_t i = 0; i < broker->workers.pollers.size; i++) {
        n_leased += broker->workers.pollers.items[i]->n_leased;
        n_polls += broker->workers.pollers.items[i]->n_polls;
    }
    for (size_t i = 0; i < broker->workers.all.size; i++)
        if (broker->workers.all.items[i]) {
            n_running += broker->workers.all.items[i]->n_running;
            n_polls -= broker->workers.all.items[i]->poller != NULL;
        }
    return tally.n_live == broker->n_live && tally.n_ended == broker->ended.n &&
           tally.n_in_lanes == n_in_lanes && tally.n_running == n_running &&
           tally.n_leased == n_leased && n_polls == 0 && tally.bytes == broker->bytes &&
           are_partitions_sound(broker, &tally);
}

/* It has as many jobs as it counts, and is among the free ones when it has a slot. */
static bool is_worker_sound(const struct rota_broker *broker, const struct rota_work_worker *worker)
{
    uint32_t n = 0;
    for (uint32_t i = worker->running; i;) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        const struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
        if (job->state != ROTA_JOB_RUNNING || extra->session != worker->session)
            return false;
        n++;
        i = extra->next_job;
    }
    bool should_be_free = !worker->is_gone && worker->n_running < worker->slots;
    return n == worker->n_running && worker->is_free == should_be_free;
}

/* All that ended are in their lists, linked both ways and by when they ended. */
static bool are_ended_sound(const struct rota_broker *broker)
{
    const struct rota_ended_list *lists[] = {&broker->ended.others, &broker->ended.dead};
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        uint32_t last = 0;
        for (uint32_t at = lists[i]->first; at; n++) {
            const struct rota_job_extra *extra = rota_job_extra_at(&broker->jobs, at);
            const struct rota_job *job = rota_job_at(&broker->jobs, extra->job);
            if (job->extra != at || !rota_job_state_is_ended(job->state) ||
                (job->state == ROTA_JOB_DEAD) != (lists[i] == &broker->ended.dead) ||
                extra->previous_ended != last || n == broker->ended.n ||
                (last && rota_job_extra_at(&broker->jobs, last)->since > extra->since))
                return false;
            last = at;
            at = extra->next_ended;
        }
        if (lists[i]->last != last)
            return false;
    }
    return n == broker->ended.n;
}

/* No job waits that a free worker could take, and classes know their lanes. */
static bool is_nobody_idle(const struct rota_broker *broker)
{
    if (!rota_broker_may_dispatch(broker) || broker->is_starved)
        return true;
    size_t place = 0;
    for (const struct rota_map_entry *entry;
         (entry = rota_map_next(&broker->classes.by_key, &place));) {
        const struct rota_work_class *class = entry->value;
        for (size_t i = 0; i < class->n_queues; i++)
            if (!rota_choice_is_sound(&class->choices[i], &broker->jobs))
                return false;
        for (uint32_t i = 0; i < broker->lanes.all.size; i++) {
            const struct rota_lane *lane = broker->lanes.all.items[i];
            if (!lane)
                continue;
            bool fits = rota_broker_class_fits(broker, class, lane);
            if (fits != rota_broker_class_has(class, i))
                return false;
            const struct rota_list_node *free_workers = &class->free_workers;
            bool is_yielding = broker->matching.is_shared && class->yield.until &&
                               free_workers->next == free_workers->previous;
            if (fits && !rota_list_is_empty(free_workers) && lane->size > 0 && !is_yielding &&
                !broker->queues.all.items[lane->queue]->is_paused)
                return false;
        }
    }
    return true;
}

static bool are_timers_sound(const struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->timers.size; i++) {
        const struct rota_job_extra *extra =
            rota_job_extra_at(&broker->jobs, broker->timers.items[i]);
        const struct rota_job_extra *above =
            rota_job_extra_at(&broker->jobs, broker->timers.items[i > 0 ? (i - 1) / 2 : 0]);
        if (extra->timer_place != i + 1 || above->timer_at > extra->timer_at)
            return false;
    }
    return true;
}

/* All queues are in order, and the sums are theirs. */
static bool are_queues_sound(const struct rota_broker *broker)
{
    size_t n = 0, counts[ROTA_JOB_STATES] = {0};
    const struct rota_work_queue *queue = NULL;
    while ((queue = rota_broker_queue_after(broker, queue ? rota_broker_queue_name(queue)
                                                          : rota_str("")))) {
        n++;
        for (int i = 0; i < ROTA_JOB_STATES; i++)
            counts[i] += queue->counts[i];
    }
    for (int i = 0; i < ROTA_JOB_STATES; i++)
        if (counts[i] != broker->counts[i])
            return false;
    return n == broker->queues.by_name.size;
}

bool rota_broker_is_sound(const struct rota_broker *broker)
{
    if (!broker->journal.is_begun)
        return true;
    for (size_t i = 0; i < broker->workers.all.size; i++)
        if (broker->workers.all.items[i] && !is_worker_sound(broker, broker->workers.all.items[i]))
            return false;
    return are_queues_sound(broker) && are_jobs_sound(broker) && are_ended_sound(broker) &&
           are_timers_sound(broker) && is_nobody_idle(broker) &&
           broker->ended.n <= broker->options.ended_max + (broker->is_starved ? 1000000 : 0);
}
