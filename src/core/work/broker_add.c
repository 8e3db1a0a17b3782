#include "core/work/broker_inside.h"

#include "base/quote.h"

/* --- taking a job in --- */

/* The partition that a job belongs to must be ours. */
static enum rota_code check_owned(const struct rota_broker *broker, struct rota_str name,
                                  uint32_t number, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct rota_work_queue *queue = rota_broker_queue(broker, name);
    const struct rota_work_partition *partition =
        queue ? rota_broker_partition(queue, number) : NULL;
    if (partition && partition->is_open)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_STALE, "partition %u of queue %s is not ours", number,
                          rota_quote(name, quoted));
}

static enum rota_code check_spec(const struct rota_broker *broker, const struct rota_job_spec *spec,
                                 struct rota_error *error)
{
    char text[ROTA_JOB_ID_TEXT];
    enum rota_code code = rota_job_spec_check(spec, error);
    if (code)
        return code;
    if (!rota_job_id_is_none(spec->id) && rota_job_id_partition(spec->id) != spec->partition)
        return rota_error_set(error, ROTA_ERR_INVALID, "job %s belongs to partition %u, not %u",
                              rota_job_id_format(spec->id, text), rota_job_id_partition(spec->id),
                              spec->partition);
    return check_owned(broker, spec->queue, spec->partition, error);
}

/* The job that a spec has asked for before, or whose unique key it has; NULL: none. */
static const struct rota_job *find_same(const struct rota_broker *broker,
                                        const struct rota_job_spec *spec)
{
    char text[sizeof(uint32_t) + ROTA_JOB_KEY_MAX];
    uint32_t number =
        rota_job_id_is_none(spec->id) ? 0 : rota_broker_find_job(broker, spec->queue, spec->id);
    if (number)
        return rota_job_at(&broker->jobs, number);
    if (spec->unique.size == 0)
        return NULL;
    const struct rota_work_queue *queue = rota_broker_queue(broker, spec->queue);
    memcpy(text, &queue->number, sizeof queue->number);
    memcpy(text + sizeof queue->number, spec->unique.data, spec->unique.size);
    return rota_map_get(&broker->uniques,
                        rota_str_of(text, sizeof queue->number + spec->unique.size));
}

static enum rota_code check_room(struct rota_broker *broker, size_t bytes, struct rota_error *error)
{
    if (broker->refusal[0])
        return rota_error_set(error, ROTA_ERR_LIMIT, "no job is taken in: %s", broker->refusal);
    if (broker->n_live >= broker->options.jobs_max)
        return rota_error_set(error, ROTA_ERR_LIMIT, "there are %zu jobs already", broker->n_live);
    rota_broker_forget_ended(broker, bytes);
    if (bytes > broker->options.bytes_max || broker->bytes > broker->options.bytes_max - bytes)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "jobs hold %zu of %zu bytes already, there is no room for %zu more",
                              broker->bytes, broker->options.bytes_max, bytes);
    return ROTA_OK;
}

/* 64 bits of chance within a millisecond: nobody has to look whether it is taken. */
static struct rota_job_id choose_id(struct rota_broker *broker, const struct rota_job_spec *spec)
{
    if (!rota_job_id_is_none(spec->id))
        return spec->id;
    return rota_job_id_make(broker->now.wall, spec->partition, rota_random_next(&broker->random));
}

/* When it may begin and must be done, on our clock. */
static void set_times(struct rota_broker *broker, struct rota_job *job)
{
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (!extra)
        return;
    extra->deadline_at = rota_broker_boot_of(broker, extra->deadline);
    if (extra->not_before > broker->now.wall) {
        extra->wait_until = rota_broker_boot_of(broker, extra->not_before);
        rota_broker_set_state(broker, job, ROTA_JOB_DELAYED);
    }
    rota_broker_set_timer(broker, job);
}

enum rota_code rota_broker_add(struct rota_broker *broker, struct rota_work_now now,
                               const struct rota_job_spec *spec, struct rota_job_id *id,
                               bool *is_new, uint64_t *number, struct rota_error *error)
{
    uint32_t job_number;
    rota_broker_at(broker, now);
    enum rota_code code = check_spec(broker, spec, error);
    if (code)
        return code;
    const struct rota_job *same = find_same(broker, spec);
    if (same) {
        *id = same->id;
        *is_new = false;
        *number = same->record;
        return ROTA_OK;
    }
    if (spec->deadline && spec->deadline <= now.wall)
        return rota_error_set(error, ROTA_ERR_INVALID, "the deadline of the job has passed");
    code = check_room(broker, spec->payload.size, error);
    if (!code && !rota_broker_ready(broker, NULL))
        code = rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a job");
    if (!code)
        code = rota_broker_job_new(broker, spec, choose_id(broker, spec), broker->stamp,
                                   broker->last_number + 1, &job_number, error);
    if (code)
        return code;

    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    job->tag = rota_fair_tag(&queue->fair, extra ? extra->key : NULL);
    job->flags = ROTA_JOB_UNSAFE;
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_ADD, job);
    record->tag = job->tag;
    record->priority = job->priority;
    rota_broker_attach_spec(broker, job);
    rota_broker_job_whole(broker, job_number, record->number);
    set_times(broker, job);
    queue->n_added++;
    *id = job->id;
    *is_new = true;
    *number = record->number;
    return ROTA_OK;
}

/* --- what may be asked of a job --- */

/* The job, if it is ours and there is the memory to change it. */
static enum rota_code want(struct rota_broker *broker, struct rota_str queue, struct rota_job_id id,
                           uint32_t *number, struct rota_error *error)
{
    enum rota_code code = rota_broker_want_job(broker, queue, id, number, error);
    if (!code)
        code = check_owned(broker, queue, rota_job_id_partition(id), error);
    if (code)
        return code;
    struct rota_lane *lane = rota_broker_lane_of(broker, rota_job_at(&broker->jobs, *number));
    if (!rota_broker_ready(broker, lane) || !rota_broker_need_extra(broker, *number))
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory to change a job");
    return ROTA_OK;
}

static enum rota_code refuse_state(const struct rota_job *job, struct rota_error *error)
{
    char text[ROTA_JOB_ID_TEXT];
    return rota_error_set(error, ROTA_ERR_INVALID, "job %s is %s already",
                          rota_job_id_format(job->id, text),
                          rota_job_state_name((enum rota_job_state)job->state));
}

enum rota_code rota_broker_cancel(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error)
{
    uint32_t job_number;
    rota_broker_at(broker, now);
    enum rota_code code = want(broker, queue, id, &job_number, error);
    if (code)
        return code;
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    if (rota_job_state_is_ended(job->state))
        return refuse_state(job, error);
    const struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    struct rota_work_worker *worker = rota_broker_worker(broker, extra->session);
    *number = rota_broker_finish(broker, job_number, ROTA_JOB_CANCELLED, ROTA_JOB_CAUSE_CANCELLED,
                                 rota_str_of("", 0), NULL, 0);
    if (worker)
        rota_broker_offer(broker, worker);
    rota_broker_forget_ended(broker, 0);
    rota_broker_match(broker);
    return ROTA_OK;
}

enum rota_code rota_broker_revive(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error)
{
    uint32_t job_number;
    rota_broker_at(broker, now);
    enum rota_code code = want(broker, queue, id, &job_number, error);
    if (code)
        return code;
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    if (job->state != ROTA_JOB_DEAD && job->state != ROTA_JOB_CANCELLED)
        return refuse_state(job, error);
    if (broker->n_live >= broker->options.jobs_max)
        return rota_error_set(error, ROTA_ERR_LIMIT, "there are %zu jobs already", broker->n_live);
    code = rota_broker_job_revive(broker, job_number, broker->stamp, error);
    if (code)
        return code;
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_REVIVE, job);
    record->cause = ROTA_JOB_CAUSE_RETRIED;
    *number = record->number;
    rota_broker_set_timer(broker, job);
    rota_broker_job_enter(broker, job_number);
    rota_broker_tell(broker, job, *number);
    rota_broker_match(broker);
    return ROTA_OK;
}

enum rota_code rota_broker_set_priority(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str queue, struct rota_job_id id,
                                        int16_t priority, uint64_t *number,
                                        struct rota_error *error)
{
    uint32_t job_number;
    rota_broker_at(broker, now);
    enum rota_code code = want(broker, queue, id, &job_number, error);
    if (code)
        return code;
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    if (rota_job_state_is_ended(job->state))
        return refuse_state(job, error);
    rota_broker_job_leave(broker, job_number);
    job->priority = priority;
    rota_broker_job_enter(broker, job_number);
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_PRIORITY, job);
    record->priority = priority;
    *number = record->number;
    rota_broker_tell(broker, job, *number);
    rota_broker_match(broker);
    return ROTA_OK;
}
