#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

/* --- partitions --- */

static enum rota_code check_partition(uint32_t partition, struct rota_error *error)
{
    if (partition < ROTA_JOB_PARTITIONS_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "partition %u is above %d", partition,
                          ROTA_JOB_PARTITIONS_MAX - 1);
}

static uint64_t write_own(struct rota_broker *broker, const struct rota_work_queue *queue,
                          uint32_t partition, uint64_t epoch)
{
    struct rota_work_record *record = rota_broker_setting_write(broker, ROTA_WORK_OWN, queue);
    record->partition = partition;
    record->epoch = epoch;
    return record->number;
}

/* Let its jobs wait, and their timers run. Without memory the rest follows with a tick. */
static void enter_partition(struct rota_broker *broker, const struct rota_work_queue *queue,
                            uint32_t partition)
{
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));)
        if (rota_broker_is_of(broker, rota_job_at(&broker->jobs, i), queue, partition))
            rota_broker_timer_set(broker, rota_job_at(&broker->jobs, i));
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (!rota_broker_is_of(broker, job, queue, partition))
            continue;
        if (!rota_broker_ready(broker, rota_broker_lane_of(broker, job)))
            return;
        rota_broker_job_enter(broker, i);
    }
}

enum rota_code rota_broker_partition_open(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str queue, uint32_t partition, uint64_t epoch,
                                          struct rota_error *error)
{
    struct rota_work_queue *found;
    struct rota_work_partition *own;
    char quoted[ROTA_QUOTE_MAX];
    enum rota_code code = check_partition(partition, error);
    if (!code && epoch == 0)
        code = rota_error_set(error, ROTA_ERR_INVALID, "epochs of a partition start at 1");
    if (!code)
        code = rota_broker_setting_begin(broker, now, queue, &found, error);
    if (!code)
        code = rota_broker_queue_need_partition(found, partition, &own, error);
    if (code)
        return code;
    if (own->epoch > epoch)
        return rota_error_set(
            error, ROTA_ERR_STALE,
            "partition %u of queue %s already had epoch %llu, which is higher than %llu", partition,
            rota_quote(queue, quoted), (unsigned long long)own->epoch, (unsigned long long)epoch);
    if (own->is_open && own->epoch == epoch)
        return ROTA_OK;
    if (!own->is_open && rota_broker_chunk_n_jobs(broker, found, partition) > 0)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "jobs of partition %u of queue %s are in handover to another node",
                              partition, rota_quote(queue, quoted));
    bool was_open = own->is_open;
    own->is_open = true;
    own->epoch = epoch;
    write_own(broker, found, partition, epoch);
    if (own->is_loaded)
        rota_broker_load_begin(broker, found, own);
    if (!was_open && own->n_jobs > 0)
        enter_partition(broker, found, partition);
    rota_broker_match(broker);
    return ROTA_OK;
}

/* Stop its jobs from running and waiting; false when there is no memory for the records. */
static bool empty_partition(struct rota_broker *broker, const struct rota_work_queue *queue,
                            uint32_t partition)
{
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (!rota_broker_is_of(broker, job, queue, partition))
            continue;
        if (!rota_broker_ready(broker, rota_broker_lane_of(broker, job)))
            return false;
        rota_broker_job_leave(broker, i);
        if (job->state != ROTA_JOB_RUNNING)
            continue;
        const struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
        struct rota_work_worker *worker = rota_broker_worker(broker, extra->session);
        if (broker->options.has_rows && !extra->session && !extra->is_unsent)
            continue; /* the next owner finds it running */
        rota_broker_end_attempt_over(broker, i, ROTA_JOB_CAUSE_HANDED_OVER,
                                     rota_str("its partition has another owner"), 0);
        if (worker)
            rota_broker_match_offer(broker, worker);
    }
    return true;
}

enum rota_code rota_broker_partition_close(struct rota_broker *broker, struct rota_work_now now,
                                           struct rota_str queue, uint32_t partition,
                                           struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    rota_broker_at(broker, now);
    struct rota_work_queue *found = rota_broker_queue(broker, queue);
    struct rota_work_partition *own = found ? rota_broker_partition(found, partition) : NULL;
    if (!own || own->epoch == 0)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND,
                              "this node never owned partition %u of queue %s", partition,
                              rota_quote(queue, quoted));
    if (!own->is_open)
        return ROTA_OK;
    own->is_open = false; /* from here on nothing of it is handed out */
    if ((own->n_jobs > 0 && !empty_partition(broker, found, partition)) ||
        !rota_broker_ready(broker, NULL)) {
        own->is_open = true;
        enter_partition(broker, found, partition);
        rota_broker_match(broker);
        return rota_error_no_memory(error, "to close a partition");
    }
    write_own(broker, found, partition, 0);
    rota_broker_match(broker);
    return ROTA_OK;
}

bool rota_broker_hand_rewrite_queue(struct rota_broker *broker, const struct rota_work_queue *queue)
{
    if (!rota_broker_setting_rewrite_all(broker, queue))
        return false;
    for (size_t i = 0; i < queue->partitions.size; i++) {
        const struct rota_work_partition *own = &queue->partitions.items[i];
        if (own->epoch == 0)
            continue;
        if (!rota_broker_ready(broker, NULL))
            return false;
        write_own(broker, queue, own->number, own->epoch);
        if (!own->is_open)
            write_own(broker, queue, own->number, 0);
    }
    return true;
}

/* --- handing over --- */

bool rota_broker_partition_next(const struct rota_broker *broker, struct rota_str queue,
                                uint32_t partition, size_t *place, struct rota_work_record *record)
{
    const struct rota_work_queue *found = rota_broker_queue(broker, queue);
    const struct rota_work_partition *own = found ? rota_broker_partition(found, partition) : NULL;
    if (!own || own->is_open || *place > UINT32_MAX)
        return false;
    uint32_t i = (uint32_t)*place;
    while ((i = rota_job_table_next(&broker->jobs, i)))
        if (rota_broker_is_of(broker, rota_job_at(&broker->jobs, i), found, partition))
            break;
    if (!i)
        return false;
    const struct rota_job *job = rota_job_at(&broker->jobs, i);
    struct rota_job_spec *spec = (struct rota_job_spec *)&broker->shown.spec; /* scratch */
    rota_broker_job_fill_spec(broker, job, spec);
    *record = (struct rota_work_record){.type = ROTA_WORK_JOB, .spec = spec};
    rota_broker_replay_fill_job(broker, job, record);
    record->tag = job->tag > found->fair.present ? job->tag - found->fair.present : 0;
    record->epoch = broker->journal.life;
    *place = i;
    return true;
}

enum rota_code rota_broker_forget(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error)
{
    uint32_t job_number;
    char text[ROTA_JOB_ID_TEXT];
    rota_broker_at(broker, now);
    enum rota_code code = rota_broker_queue_want_job(broker, queue, id, &job_number, error);
    if (code)
        return code;
    const struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    const struct rota_work_partition *own = rota_broker_partition(
        rota_broker_queue_of(broker, job), rota_job_partition(&broker->jobs, job));
    if (own->is_open && !rota_job_state_is_ended(job->state))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "job %s is %s in a partition of this node and cannot be forgotten",
                              rota_job_id_format(id, text),
                              rota_job_state_name((enum rota_job_state)job->state));
    if (!rota_broker_ready(broker, NULL))
        return rota_error_no_memory(error, "to delete a job");
    *number = rota_broker_write(broker, ROTA_WORK_FORGET, job)->number;
    rota_broker_job_erase(broker, job_number);
    return ROTA_OK;
}

/* The life up to which its former owners made all their attempts, including forgotten ones. */
static uint64_t life_of(const struct rota_work_record *job)
{
    uint64_t known = job->attempt >> 32;
    return job->epoch > known ? job->epoch : known;
}

/* What a job has besides its spec. */
static size_t more_of(const struct rota_work_record *job)
{
    return job->bytes.size + job->reason.size + job->worker.size;
}

/* Jobs that have not ended, of partitions that are closed. */
static size_t n_leaving(const struct rota_broker *broker)
{
    size_t n = 0;
    for (size_t i = 0; i < broker->queues.all.size; i++) {
        const struct rota_work_queue *queue = broker->queues.all.items[i];
        for (size_t k = 0; queue && k < queue->partitions.size; k++)
            n += queue->partitions.items[k].is_open ? 0 : queue->partitions.items[k].n_live;
    }
    return n;
}

bool rota_broker_has_room(const struct rota_broker *broker, size_t n)
{
    size_t max = broker->options.jobs_max, n_live = broker->n_live;
    if (n > max || n_live > 2 * max - n)
        return false;
    return n_live <= max - n || n_live - n_leaving(broker) <= max - n;
}

static enum rota_code check_adopted(struct rota_broker *broker, const struct rota_work_record *job,
                                    struct rota_error *error)
{
    if (job->type != ROTA_WORK_JOB || !job->spec || rota_job_id_is_none(job->spec->id) ||
        job->spec->partition >= ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a job to adopt must be complete, with its id");
    if (life_of(job) >= UINT32_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "the job has no attempt numbers left");
    enum rota_code code = rota_job_spec_check(job->spec, error);
    if (!code)
        code = rota_broker_add_check_disk(broker, job->spec, more_of(job), error);
    if (code)
        return code;
    if (!rota_job_state_is_ended(job->state) && !rota_broker_has_room(broker, 1))
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the node is full: it already has %zu jobs, the maximum",
                              broker->n_live);
    return ROTA_OK;
}

enum rota_code rota_broker_adopt(struct rota_broker *broker, struct rota_work_now now,
                                 const struct rota_work_record *job, uint64_t *number,
                                 struct rota_error *error)
{
    uint32_t made;
    struct rota_work_queue *queue;
    struct rota_work_partition *partition;
    rota_broker_at(broker, now);
    enum rota_code code = check_adopted(broker, job, error);
    if (!code)
        code = rota_broker_queue_need(broker, job->spec->queue, &queue, error);
    if (!code)
        code = rota_broker_queue_need_partition(queue, job->spec->partition, &partition, error);
    if (code)
        return code;
    uint32_t known = rota_broker_queue_find_job(broker, job->spec->queue, job->spec->id);
    bool is_chunked = rota_broker_chunk_has(broker, queue, job->spec->id);
    if (known && !is_chunked) {
        *number = rota_job_at(&broker->jobs, known)->record;
        return ROTA_OK;
    }
    if (!rota_broker_ready(broker, NULL))
        return rota_error_no_memory(error, "for a job");
    if (life_of(job) >=
        broker->journal.life) { /* our attempts get higher numbers than any before */
        broker->journal.life = life_of(job);
        rota_broker_replay_next_life(broker);
    }
    struct rota_work_record here = *job;
    here.number = broker->journal.last_number + 1;
    if (here.state == ROTA_JOB_RUNNING)
        here.state = ROTA_JOB_WAITING; /* its attempt was cancelled */
    here.tag = queue->fair.present;
    if (__builtin_add_overflow(here.tag, job->tag, &here.tag))
        here.tag = UINT64_MAX;
    if (!rota_broker_ready(broker, NULL))
        return rota_error_no_memory(error, "for a job");
    if (known)
        rota_broker_job_erase(broker, known);
    if (!rota_broker_ready(broker, NULL))
        return rota_error_no_memory(error, "for a job");
    code = rota_broker_replay_take_job(broker, &here, &made, error);
    if (code)
        return code;
    struct rota_job *own = rota_job_at(&broker->jobs, made);
    if (!rota_broker_chunk_note_coming(broker, own)) {
        rota_broker_job_erase(broker, made);
        return rota_error_no_memory(error, "for a job");
    }
    own->flags |= ROTA_JOB_UNSAFE;
    rota_broker_add_take_room(broker, job->spec, more_of(job));
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_JOB, own);
    rota_broker_attach_spec(broker, own);
    rota_broker_replay_fill_job(broker, own, record);
    rota_broker_job_whole(broker, made, record->number);
    rota_broker_replay_start_clocks(broker, made);
    *number = record->number;
    /* The chunk has the same job as it was before it returned. If the journal ends here the
     * chunk still has it: so does its sender now, since it was not answered. */
    if (is_chunked && !rota_broker_chunk_undo(broker, queue, own->id))
        return rota_error_no_memory(error, "for a job");
    return ROTA_OK;
}
