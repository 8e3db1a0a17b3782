#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

/* --- taking a job in --- */

/* The partition that a job belongs to must be ours. `queue` is that of `name`, if it is known. */
static enum rota_code check_owned(const struct rota_work_queue *queue, struct rota_str name,
                                  uint32_t number, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct rota_work_partition *partition =
        queue ? rota_broker_partition(queue, number) : NULL;
    if (partition && partition->is_open)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_STALE, "this node does not own partition %u of queue %s",
                          number, rota_quote(name, quoted));
}

static enum rota_code check_spec(const struct rota_broker *broker, const struct rota_job_spec *spec,
                                 struct rota_error *error)
{
    const struct rota_work_queue *queue = rota_broker_queue(broker, spec->queue);
    enum rota_code code =
        queue ? rota_job_spec_check_rest(spec, error) : rota_job_spec_check(spec, error);
    if (code)
        return code;
    if (spec->partition >= ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "a queue has at most %d partitions, not %u",
                              ROTA_JOB_PARTITIONS_MAX, spec->partition);
    return check_owned(queue, spec->queue, spec->partition, error);
}

/* --- the same job again --- */

static bool has_name(const struct rota_job_spec *spec, struct rota_str name)
{
    for (size_t i = 0; i < spec->n_capabilities; i++)
        if (rota_str_is_equal(spec->capabilities[i], name))
            return true;
    return false;
}

/* In any order; one may be named twice. */
static bool has_names(const struct rota_job_spec *spec, const struct rota_job_spec *other)
{
    for (size_t i = 0; i < other->n_capabilities; i++)
        if (!has_name(spec, other->capabilities[i]))
            return false;
    return true;
}

static bool is_same_span(rota_time a, rota_time b, rota_time if_none)
{
    return (a ? a : if_none) == (b ? b : if_none);
}

/* Of a freed payload only its size and hash are left, or nothing: then any payload is accepted. */
static bool may_be_payload(const struct rota_broker *broker, const struct rota_job *job,
                           struct rota_str payload)
{
    if (job->state != ROTA_JOB_DONE)
        return rota_str_is_equal(rota_job_payload(job), payload);
    return !job->payload_hash ||
           (job->payload_size == payload.size &&
            job->payload_hash == rota_broker_job_hash_payload(broker, payload));
}

/* The first field in which the two differ, except for the payload; NULL: nothing. */
static const char *find_difference(const struct rota_job_spec *a, const struct rota_job_spec *b)
{
    if (!has_names(a, b) || !has_names(b, a))
        return "set of capabilities";
    if (!rota_str_is_equal(a->unique, b->unique))
        return "unique key";
    if (!rota_str_is_equal(a->key, b->key))
        return "key";
    if (a->deadline != b->deadline)
        return "deadline";
    if (a->timeout != b->timeout)
        return "timeout";
    if (!is_same_span(a->max_attempts, b->max_attempts, ROTA_JOB_ATTEMPTS_DEFAULT))
        return "number of attempts";
    if (!is_same_span(a->backoff, b->backoff, ROTA_JOB_BACKOFF_FIRST) ||
        !is_same_span(a->backoff_max, b->backoff_max, ROTA_JOB_BACKOFF_MAX))
        return "backoff";
    return NULL;
}

enum rota_code rota_broker_check_same(const struct rota_broker *broker,
                                      const struct rota_job_spec *spec, struct rota_error *error)
{
    char text[ROTA_JOB_ID_TEXT];
    struct rota_job_spec there;
    uint32_t number = rota_job_id_is_none(spec->id)
                          ? 0
                          : rota_broker_queue_find_job(broker, spec->queue, spec->id);
    const struct rota_job *job = number ? rota_job_at(&broker->jobs, number) : NULL;
    if (!job || spec->is_keyed)
        return ROTA_OK;
    rota_broker_job_fill_spec(broker, job, &there);
    if (!there.deadline && spec->deadline <= broker->now.wall)
        there.deadline = spec->deadline; /* it has passed, and a retry removed it */
    const char *difference =
        may_be_payload(broker, job, spec->payload) ? find_difference(spec, &there) : "payload";
    if (!difference)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "a job with the id %s exists already, with a different %s",
                          rota_job_id_format(spec->id, text), difference);
}

/* The job that the spec has added before, or that has its unique key; NULL: none. */
static const struct rota_job *find_same(const struct rota_broker *broker,
                                        const struct rota_job_spec *spec)
{
    char text[sizeof(uint32_t) + ROTA_JOB_KEY_MAX];
    uint32_t number = rota_job_id_is_none(spec->id)
                          ? 0
                          : rota_broker_queue_find_job(broker, spec->queue, spec->id);
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

static bool has_room(const struct rota_broker *broker, size_t bytes)
{
    size_t max = broker->options.bytes_max;
    return bytes <= max && broker->bytes <= max - bytes;
}

size_t rota_broker_add_spec_size(const struct rota_job_spec *spec)
{
    enum { FIXED = 96, TIME = 10 };
    size_t size = FIXED + spec->queue.size + spec->payload.size + spec->unique.size +
                  spec->key.size + spec->trace.size;
    const rota_time times[] = {spec->not_before, spec->deadline, spec->timeout, spec->backoff,
                               spec->backoff_max};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        size += times[i] ? TIME : 0;
    for (size_t i = 0; i < spec->n_capabilities; i++)
        size += 4 + spec->capabilities[i].size;
    return size;
}

enum rota_code rota_broker_add_check_disk(struct rota_broker *broker,
                                          const struct rota_job_spec *spec, size_t more,
                                          struct rota_error *error)
{
    if (broker->adding.refusal[0])
        return rota_error_set(error, ROTA_ERR_LIMIT, "the node accepts no new jobs: %s",
                              broker->adding.refusal);
    if (!broker->adding.is_bounded)
        return ROTA_OK;
    if (rota_broker_add_spec_size(spec) + more > broker->adding.room)
        broker->adding.is_short = true;
    if (broker->adding.is_short)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the node accepts no new jobs: the disk is full, except for the "
                              "reserve for running jobs");
    return ROTA_OK;
}

void rota_broker_add_take_room(struct rota_broker *broker, const struct rota_job_spec *spec,
                               size_t more)
{
    if (broker->adding.is_bounded)
        broker->adding.room -= rota_broker_add_spec_size(spec) + more;
}

static enum rota_code check_add_room(struct rota_broker *broker, const struct rota_job_spec *spec,
                                     struct rota_error *error)
{
    size_t bytes = spec->payload.size;
    enum rota_code code = rota_broker_add_check_disk(broker, spec, 0, error);
    if (code)
        return code;
    if (broker->n_live >= broker->options.jobs_max)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the node is full: it already has %zu jobs, the maximum",
                              broker->n_live);
    if (bytes > broker->options.bytes_max)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a payload of %zu bytes exceeds this node's memory for all payloads, %zu bytes", bytes,
            broker->options.bytes_max);
    if (!has_room(broker, bytes))
        rota_broker_ended_forget(broker, bytes);
    if (!has_room(broker, bytes))
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "jobs use %zu of %zu bytes already; there is no room for %zu more",
                              broker->bytes, broker->options.bytes_max, bytes);
    return ROTA_OK;
}

/* 52 random bits within a millisecond and a partition: no check for duplicates is needed. The
 * index entry of the next id is prefetched meanwhile. */
static struct rota_job_id choose_id(struct rota_broker *broker, const struct rota_job_spec *spec)
{
    if (!rota_job_id_is_none(spec->id))
        return spec->id;
    uint64_t chance = broker->adding.chance;
    broker->adding.chance = rota_random_next(&broker->random);
    struct rota_job_id id = rota_job_id_make(broker->now.wall, spec->partition, chance);
    struct rota_job_id next =
        rota_job_id_make(broker->now.wall, spec->partition, broker->adding.chance);
    rota_job_table_fetch_place(&broker->jobs, rota_job_table_hash(&broker->jobs, next));
    return id;
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
        rota_broker_job_set_state(broker, job, ROTA_JOB_DELAYED);
    }
    rota_broker_timer_set(broker, job);
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
        code = rota_broker_check_same(broker, spec, error);
        if (code)
            return code;
        *id = same->id;
        *is_new = false;
        *number = same->record;
        return ROTA_OK;
    }
    if (spec->deadline && spec->deadline <= now.wall)
        return rota_error_set(error, ROTA_ERR_INVALID, "the deadline of the job has passed");
    code = check_add_room(broker, spec, error);
    if (!code && !rota_broker_ready(broker, NULL))
        code = rota_error_no_memory(error, "for a job");
    if (!code)
        code = rota_broker_job_new(broker, spec, choose_id(broker, spec), broker->stamp,
                                   broker->journal.last_number + 1, &job_number, error);
    if (code)
        return code;

    rota_broker_add_take_room(broker, spec, 0);
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    job->tag = rota_fair_tag(&queue->fair, extra ? extra->key : NULL);
    job->flags |= ROTA_JOB_UNSAFE;
    struct rota_work_record *record = broker->output.is_unwatched
                                          ? rota_broker_note(broker, ROTA_WORK_ADD, job)
                                          : rota_broker_write(broker, ROTA_WORK_ADD, job);
    record->tag = job->tag;
    record->priority = job->priority;
    if (record != &broker->output.noted)
        rota_broker_attach_spec(broker, job);
    rota_broker_job_whole(broker, job_number, record->number);
    set_times(broker, job);
    queue->n_added++;
    *id = job->id;
    *is_new = true;
    *number = record->number;
    return ROTA_OK;
}

/* --- changes of a job --- */

/* The job, if it is ours and there is the memory to change it. */
static enum rota_code find_changeable_job(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str queue, struct rota_job_id id,
                                          uint32_t *number, struct rota_error *error)
{
    rota_broker_at(broker, now);
    enum rota_code code = rota_broker_queue_want_job(broker, queue, id, number, error);
    if (!code)
        code = check_owned(rota_broker_queue(broker, queue), queue,
                           rota_job_partition(&broker->jobs, rota_job_at(&broker->jobs, *number)),
                           error);
    if (code)
        return code;
    struct rota_lane *lane = rota_broker_lane_of(broker, rota_job_at(&broker->jobs, *number));
    if (!rota_broker_ready(broker, lane) || !rota_broker_timer_need_extra(broker, *number))
        return rota_error_no_memory(error, "to change a job");
    return ROTA_OK;
}

static enum rota_code refuse_state(const struct rota_job *job, struct rota_error *error)
{
    char text[ROTA_JOB_ID_TEXT];
    return rota_error_set(error, ROTA_ERR_INVALID, "job %s is already %s",
                          rota_job_id_format(job->id, text),
                          rota_job_state_name((enum rota_job_state)job->state));
}

enum rota_code rota_broker_cancel(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error)
{
    uint32_t job_number;
    enum rota_code code = find_changeable_job(broker, now, queue, id, &job_number, error);
    if (code)
        return code;
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    if (rota_job_state_is_ended(job->state))
        return refuse_state(job, error);
    const struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    struct rota_work_worker *worker = rota_broker_worker(broker, extra->session);
    *number = rota_broker_end_finish(broker, job_number, ROTA_JOB_CANCELLED,
                                     ROTA_JOB_CAUSE_CANCELLED, rota_str_of("", 0), NULL, 0);
    if (worker)
        rota_broker_match_offer(broker, worker);
    rota_broker_ended_forget(broker, 0);
    rota_broker_match(broker);
    return ROTA_OK;
}

enum rota_code rota_broker_revive(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error)
{
    uint32_t job_number;
    enum rota_code code = find_changeable_job(broker, now, queue, id, &job_number, error);
    if (code)
        return code;
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    if (job->state != ROTA_JOB_DEAD && job->state != ROTA_JOB_CANCELLED)
        return refuse_state(job, error);
    if (broker->n_live >= broker->options.jobs_max)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the node is full: it already has %zu jobs, the maximum",
                              broker->n_live);
    code = rota_broker_job_revive(broker, job_number, broker->stamp, error);
    if (code)
        return code;
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_REVIVE, job);
    record->cause = ROTA_JOB_CAUSE_RETRIED;
    *number = record->number;
    rota_broker_timer_set(broker, job);
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
    enum rota_code code = find_changeable_job(broker, now, queue, id, &job_number, error);
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
