#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

static enum rota_code check_loaded(const struct rota_broker *broker,
                                   const struct rota_work_record *job, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct rota_job_spec *spec = job->spec;
    if (job->type != ROTA_WORK_JOB || !spec || rota_job_id_is_none(spec->id) ||
        spec->partition >= ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a job to load must be complete, with its id");
    if ((unsigned)job->state >= ROTA_JOB_STATES ||
        (unsigned)job->cause > ROTA_JOB_CAUSE_HANDED_OVER ||
        job->bytes.size > ROTA_JOB_PAYLOAD_MAX || job->reason.size > ROTA_JOB_REASON_MAX ||
        job->worker.size > ROTA_WORKER_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "unknown state, cause or reason");
    enum rota_code code = rota_job_spec_check(spec, error);
    if (code)
        return code;
    const struct rota_work_queue *queue = rota_broker_queue(broker, spec->queue);
    const struct rota_work_partition *own =
        queue ? rota_broker_partition(queue, spec->partition) : NULL;
    if (own && own->is_open)
        return rota_error_set(error, ROTA_ERR_STALE, "partition %u of queue %s is open",
                              spec->partition, rota_quote(spec->queue, quoted));
    return ROTA_OK;
}

enum rota_code rota_broker_load(struct rota_broker *broker, struct rota_work_now now,
                                const struct rota_work_record *job, struct rota_error *error)
{
    uint32_t made;
    rota_broker_at(broker, now);
    enum rota_code code = check_loaded(broker, job, error);
    if (code)
        return code;
    if (!rota_broker_ready(broker, NULL))
        return rota_error_no_memory(error, "for a job");
    uint32_t known = rota_broker_queue_find_job(broker, job->spec->queue, job->spec->id);
    if (known)
        rota_broker_job_erase(broker, known);
    struct rota_work_record here = *job;
    here.number = broker->journal.last_number;
    here.tag = 0; /* it means nothing here yet */
    code = rota_broker_replay_take_job(broker, &here, &made, error);
    if (code)
        return code;
    struct rota_job *own = rota_job_at(&broker->jobs, made);
    own->tag = job->tag;
    rota_broker_job_whole(broker, made, broker->journal.last_number);
    rota_broker_replay_start_clocks(broker, made);
    rota_broker_partition(rota_broker_queue_of(broker, own), job->spec->partition)->is_loaded =
        true;
    return ROTA_OK;
}

/* The minimum tag of those that have not ended is the queue's virtual time. */
void rota_broker_load_begin(struct rota_broker *broker, struct rota_work_queue *queue,
                            struct rota_work_partition *partition)
{
    uint64_t least = UINT64_MAX;
    partition->is_loaded = false;
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (rota_broker_is_of(broker, job, queue, partition->number) &&
            !rota_job_state_is_ended(job->state) && job->tag < least)
            least = job->tag;
    }
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));) {
        struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (!rota_broker_is_of(broker, job, queue, partition->number) ||
            rota_job_state_is_ended(job->state))
            continue;
        const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
        if (__builtin_add_overflow(queue->fair.present, job->tag - least, &job->tag))
            job->tag = UINT64_MAX;
        rota_fair_seen(&queue->fair, extra ? extra->key : NULL, job->tag);
        rota_broker_replay_start_clocks(broker, i);
    }
}

enum rota_code rota_broker_raise_life(struct rota_broker *broker, struct rota_work_now now,
                                      uint64_t life, struct rota_error *error)
{
    rota_broker_at(broker, now);
    if (life > UINT32_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "no restart numbers are left (2^32)");
    if (life <= broker->journal.life)
        return ROTA_OK;
    if (!rota_broker_ready(broker, NULL))
        return rota_error_no_memory(error, "for a restart");
    broker->journal.life = life - 1;
    rota_broker_replay_next_life(broker);
    return ROTA_OK;
}

bool rota_broker_job_record(const struct rota_broker *broker, struct rota_str queue,
                            struct rota_job_id id, struct rota_work_record *record)
{
    uint32_t number = rota_broker_queue_find_job(broker, queue, id);
    if (!number)
        return false;
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_job_spec *spec = (struct rota_job_spec *)&broker->shown.spec; /* scratch */
    rota_broker_job_fill_spec(broker, job, spec);
    *record = (struct rota_work_record){.type = ROTA_WORK_JOB, .spec = spec};
    rota_broker_replay_fill_job(broker, job, record);
    return true;
}

enum rota_code rota_broker_partition_drop(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str queue, uint32_t partition,
                                          struct rota_error *error)
{
    rota_broker_at(broker, now);
    const struct rota_work_queue *found = rota_broker_queue(broker, queue);
    struct rota_work_partition *own = found ? rota_broker_partition(found, partition) : NULL;
    if (!own)
        return ROTA_OK;
    if (own->is_open) {
        enum rota_code code = rota_broker_partition_close(broker, now, queue, partition, error);
        if (code)
            return code;
    }
    own->is_loaded = false;
    for (uint32_t i = 0; own->n_jobs > 0 && (i = rota_job_table_next(&broker->jobs, i));) {
        if (!rota_broker_is_of(broker, rota_job_at(&broker->jobs, i), found, partition))
            continue;
        if (!rota_broker_ready(broker, NULL))
            return rota_error_no_memory(error, "to forget a partition");
        rota_broker_job_erase(broker, i);
    }
    return ROTA_OK;
}

void rota_broker_hold(struct rota_broker *broker, struct rota_work_now now, bool is_on_hold)
{
    rota_broker_at(broker, now);
    if (broker->matching.is_on_hold == is_on_hold)
        return;
    broker->matching.is_on_hold = is_on_hold;
    if (!is_on_hold)
        rota_broker_match_offer_all(broker);
    rota_broker_match(broker);
}
