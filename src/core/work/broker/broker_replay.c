#include "core/work/broker/broker_inside.h"

/* --- a job as a whole --- */

/* Why it is in its state, and since when: the last entry of its history. */
static const struct rota_job_moment *last_moment(const struct rota_job_extra *extra)
{
    const struct rota_job_story *story = extra->story;
    return story && story->size ? &story->moments[story->size - 1] : NULL;
}

/* Its worker may return with the last attempt. */
static void fill_lost(const struct rota_job *job, const struct rota_job_extra *extra,
                      struct rota_work_record *record)
{
    if (!rota_broker_is_attempt_open(job, extra))
        return;
    const struct rota_work_name *worker = rota_broker_end_resumes_for(extra);
    if (worker)
        record->worker = rota_str_of(worker->bytes, worker->size);
    if (extra->story->was_killed)
        record->lost = ROTA_WORK_LOST_KILLED + extra->story->killed_before;
    else if (extra->story->was_ours)
        record->lost = ROTA_WORK_LOST_OURS;
}

static enum rota_code no_memory(struct rota_error *error)
{
    return rota_error_no_memory(error, "for a job of the journal");
}

/* A JOB record of a waiting job with a worker: that worker's attempt was lost. */
static enum rota_code take_lost(struct rota_broker *broker, struct rota_job_extra *extra,
                                const struct rota_work_record *record, struct rota_error *error)
{
    struct rota_job_story *story = extra->story;
    struct rota_work_name *worker = NULL;
    if (!story || story->size == 0 || record->cause != ROTA_JOB_CAUSE_LOST)
        return ROTA_OK;
    if (record->worker.size > 0 && !(worker = rota_broker_hold_name(broker, record->worker)))
        return no_memory(error);
    story->moments[story->size - 1].worker = worker;
    story->was_ours = record->lost == ROTA_WORK_LOST_OURS;
    story->was_killed = record->lost >= ROTA_WORK_LOST_KILLED && story->n_killed > 0;
    if (story->was_killed)
        story->killed_before = (uint16_t)(record->lost - ROTA_WORK_LOST_KILLED);
    return ROTA_OK;
}

void rota_broker_replay_fill_job(const struct rota_broker *broker, const struct rota_job *job,
                                 struct rota_work_record *record)
{
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    record->id = job->id;
    record->queue = rota_broker_queue_name(rota_broker_queue_of(broker, job));
    record->partition = rota_job_partition(&broker->jobs, job);
    record->at = job->enqueued_at;
    record->state = (enum rota_job_state)job->state;
    record->priority = job->priority;
    record->tag = job->tag;
    if (!extra)
        return;
    record->attempt = extra->attempt;
    record->n_attempts = extra->n_attempts;
    record->cause = (enum rota_job_cause)extra->cause;
    record->not_before = job->state == ROTA_JOB_DELAYED ? extra->not_before : 0;
    record->bytes = rota_str_of(extra->result, extra->result_size);
    record->reason = rota_str_of(extra->reason, extra->reason_size);
    if (extra->worker)
        record->worker = rota_str_of(extra->worker->bytes, extra->worker->size);
    if (extra->story) {
        record->weight = extra->story->n_killed;
        record->key = rota_str_of(extra->story->killed, extra->story->killed_size);
    }
    const struct rota_job_moment *last = last_moment(extra);
    if (rota_job_state_is_ended(job->state)) {
        record->since = extra->since;
    } else if (job->state == ROTA_JOB_RUNNING) {
        record->since = extra->started;
    } else if (last) {
        record->since = last->at;
        record->reason = rota_str_of(last->reason, last->reason_size);
        fill_lost(job, extra, record);
    }
}

static enum rota_code start_job(struct rota_broker *broker, uint32_t number,
                                const struct rota_work_record *record, rota_time at,
                                struct rota_error *error)
{
    struct rota_work_name *worker = NULL;
    if (!rota_broker_timer_need_extra(broker, number) ||
        (record->worker.size > 0 && !(worker = rota_broker_hold_name(broker, record->worker))))
        return no_memory(error);
    rota_broker_job_start(broker, number, record->attempt, record->n_attempts, worker, at);
    return ROTA_OK;
}

static enum rota_code end_job(struct rota_broker *broker, uint32_t number,
                              const struct rota_work_record *record, struct rota_error *error)
{
    char *result = NULL;
    if (!rota_broker_timer_need_extra(broker, number) ||
        (record->bytes.size > 0 && !(result = rota_broker_job_copy(broker, record->bytes))))
        return no_memory(error);
    rota_broker_job_end(broker, number, record, result);
    return ROTA_OK;
}

static enum rota_code take_state(struct rota_broker *broker, uint32_t number,
                                 const struct rota_work_record *record, struct rota_error *error)
{
    struct rota_work_record then = *record;
    then.at = record->since;
    if (record->state == ROTA_JOB_RUNNING)
        return start_job(broker, number, record, record->since, error);
    bool is_fresh = !record->attempt && !record->n_attempts && !record->not_before &&
                    record->cause == ROTA_JOB_CAUSE_NONE;
    if (!rota_job_state_is_ended(record->state) && is_fresh)
        return ROTA_OK;
    struct rota_job_extra *extra = rota_broker_timer_need_extra(broker, number);
    if (!extra)
        return no_memory(error);
    extra->attempt = extra->ended = record->attempt;
    extra->n_attempts = record->n_attempts;
    extra->ended_by = record->number;
    extra->ended_cause = (uint8_t)record->cause;
    if (rota_job_state_is_ended(record->state)) {
        if (record->worker.size > 0)
            extra->worker = rota_broker_hold_name(broker, record->worker);
        return end_job(broker, number, &then, error);
    }
    if (record->cause != ROTA_JOB_CAUSE_NONE)
        rota_broker_job_back(broker, number, &then);
    else
        extra->not_before = record->not_before;
    return ROTA_OK;
}

enum rota_code rota_broker_replay_take_job(struct rota_broker *broker,
                                           const struct rota_work_record *record, uint32_t *number,
                                           struct rota_error *error)
{
    uint32_t made;
    enum rota_code code = rota_broker_job_new(broker, record->spec, record->spec->id, record->at,
                                              record->number, &made, error);
    if (code)
        return code;
    struct rota_job *job = rota_job_at(&broker->jobs, made);
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (extra && record->n_attempts > 0) /* the time is that of its next attempt */
        extra->is_put_off = false;
    job->tag = record->tag;
    rota_fair_seen(&rota_broker_queue_of(broker, job)->fair, extra ? extra->key : NULL, job->tag);
    code = take_state(broker, made, record, error);
    if (code) {
        rota_broker_job_erase(broker, made);
        return code;
    }
    extra = rota_job_extra_of(&broker->jobs, job);
    if (extra)
        rota_broker_job_set_killed(broker, extra, record);
    if (extra && !rota_job_state_is_ended(job->state) && job->state != ROTA_JOB_RUNNING)
        code = take_lost(broker, extra, record, error);
    if (code)
        rota_broker_job_erase(broker, made);
    else
        *number = made;
    return code;
}

/* --- reading --- */

static enum rota_code reject_record(const struct rota_work_record *record, const char *why,
                                    struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID, "record %llu (%s) is invalid: %s",
                          (unsigned long long)record->number,
                          rota_job_work_record_name(record->type), why);
}

static enum rota_code read_whole(struct rota_broker *broker, const struct rota_work_record *record,
                                 struct rota_error *error)
{
    uint32_t number;
    const struct rota_job_spec *spec = record->spec;
    if (!spec || rota_job_id_is_none(spec->id) || spec->partition >= ROTA_JOB_PARTITIONS_MAX)
        return reject_record(record, "it has no job, or a job without an id", error);
    enum rota_code code = rota_job_spec_check(spec, error);
    if (code)
        return code;
    if ((unsigned)record->state >= ROTA_JOB_STATES || record->bytes.size > ROTA_JOB_PAYLOAD_MAX)
        return reject_record(record, "unknown state", error);
    uint32_t known = rota_broker_queue_find_job(broker, spec->queue, spec->id);
    if (known && record->type == ROTA_WORK_ADD &&
        !rota_job_state_is_ended(rota_job_at(&broker->jobs, known)->state))
        return reject_record(record, "the job exists already", error);
    if (known)
        rota_broker_job_erase(broker, known);

    struct rota_work_record job = *record;
    if (record->type == ROTA_WORK_ADD) { /* nothing has happened to it yet */
        job.state = ROTA_JOB_WAITING;
        job.attempt = job.n_attempts = 0;
        job.cause = ROTA_JOB_CAUSE_NONE;
        job.not_before = 0;
    }
    code = rota_broker_replay_take_job(broker, &job, &number, error);
    if (code)
        return code;
    rota_broker_job_whole(broker, number, record->number);
    if (record->type == ROTA_WORK_JOB &&
        !rota_broker_chunk_note_coming(broker, rota_job_at(&broker->jobs, number)))
        return no_memory(error);
    return ROTA_OK;
}

static enum rota_code read_end(struct rota_broker *broker, uint32_t number,
                               const struct rota_work_record *record, struct rota_error *error)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    bool is_running = job->state == ROTA_JOB_RUNNING;
    if (rota_job_state_is_ended(job->state))
        return reject_record(record, "the job has already ended", error);
    if ((unsigned)record->state >= ROTA_JOB_STATES || !rota_job_state_is_ended(record->state) ||
        record->bytes.size > ROTA_JOB_PAYLOAD_MAX)
        return reject_record(record, "not a final state", error);
    if (is_running ? !extra || record->attempt != extra->attempt : record->state == ROTA_JOB_DONE)
        return reject_record(record, "this attempt is not running", error);
    enum rota_code code = end_job(broker, number, record, error);
    if (!code && record->state == ROTA_JOB_DEAD)
        rota_broker_job_set_killed(broker, rota_job_extra_known(&broker->jobs, job), record);
    return code;
}

static enum rota_code read_start(struct rota_broker *broker, uint32_t number,
                                 const struct rota_work_record *record, struct rota_error *error)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    bool is_resumed =
        extra && rota_broker_is_attempt_open(job, extra) && extra->attempt == record->attempt;
    if (rota_job_state_is_ended(job->state) || job->state == ROTA_JOB_RUNNING ||
        (!is_resumed && record->attempt <= (extra ? extra->attempt : 0)))
        return reject_record(record, "the job cannot start", error);
    if (is_resumed)
        rota_broker_job_set_killed(broker, extra, record);
    return start_job(broker, number, record, record->at, error);
}

/* A change of a job. A job that had ended and was forgotten before the journal was cut is
 * unknown: remaining records about it are ignored, and are not a contradiction. */
static enum rota_code read_change(struct rota_broker *broker, const struct rota_work_record *record,
                                  struct rota_error *error)
{
    uint32_t number = rota_broker_queue_find_job(broker, record->queue, record->id);
    if (!number)
        return ROTA_OK;
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    switch (record->type) {
    case ROTA_WORK_START:
        return read_start(broker, number, record, error);
    case ROTA_WORK_RETRY:
        if (job->state != ROTA_JOB_RUNNING || !extra || extra->attempt != record->attempt)
            return reject_record(record, "the attempt is not running", error);
        rota_broker_job_back(broker, number, record);
        return ROTA_OK;
    case ROTA_WORK_END:
        return read_end(broker, number, record, error);
    case ROTA_WORK_REVIVE:
        if (job->state != ROTA_JOB_DEAD && job->state != ROTA_JOB_CANCELLED)
            return reject_record(record, "the job is not dead", error);
        return rota_broker_job_revive(broker, number, record->at, error);
    case ROTA_WORK_PRIORITY:
        job->priority = record->priority;
        return ROTA_OK;
    case ROTA_WORK_FORGET:
        rota_broker_job_erase(broker, number);
        return ROTA_OK;
    case ROTA_WORK_ADD:
    case ROTA_WORK_JOB:
    case ROTA_WORK_PAUSE:
    case ROTA_WORK_WEIGHT:
    case ROTA_WORK_LAYOUT:
    case ROTA_WORK_LIFE:
    case ROTA_WORK_OWN:
    case ROTA_WORK_CHUNK:
    case ROTA_WORK_TAKEN:
    case ROTA_WORK_NODE:
        break;
    }
    return ROTA_OK;
}

/* When a setting was made; the fact that it was made must not be forgotten. */
static rota_time time_of(const struct rota_work_record *record)
{
    return record->at > 0 ? record->at : 1;
}

static enum rota_code read_weight(struct rota_work_queue *queue,
                                  const struct rota_work_record *record, struct rota_error *error)
{
    struct rota_fair_key *key = NULL;
    if (record->weight == 0 || record->weight > ROTA_FAIR_WEIGHT_MAX ||
        record->key.size > ROTA_JOB_KEY_MAX)
        return reject_record(record, "invalid weight of a key", error);
    enum rota_code code =
        record->key.size > 0 ? rota_fair_key(&queue->fair, record->key, &key, error) : ROTA_OK;
    if (!code)
        rota_fair_set_weight(&queue->fair, key, record->weight, time_of(record));
    return code;
}

static enum rota_code read_setting(struct rota_broker *broker,
                                   const struct rota_work_record *record, struct rota_error *error)
{
    struct rota_work_queue *queue;
    struct rota_work_partition *own;
    enum rota_code code = rota_broker_queue_need(broker, record->queue, &queue, error);
    if (code)
        return code;
    if (record->type == ROTA_WORK_PAUSE) {
        queue->is_paused = record->is_paused;
        queue->kills_max = record->weight <= ROTA_JOB_ATTEMPTS_MAX ? record->weight : 0;
        queue->paused_at = time_of(record);
        return ROTA_OK;
    }
    if (record->type == ROTA_WORK_WEIGHT)
        return read_weight(queue, record, error);
    if (record->type == ROTA_WORK_LAYOUT) {
        if (!record->layout || rota_layout_check(record->layout, NULL))
            return reject_record(record, "invalid layout of a queue", error);
        queue->layout = *record->layout;
        queue->laid_at = time_of(record);
        broker->queues.n_layouts++;
        return ROTA_OK;
    }
    if (record->partition >= ROTA_JOB_PARTITIONS_MAX)
        return reject_record(record, "unknown partition", error);
    code = rota_broker_queue_need_partition(queue, record->partition, &own, error);
    if (code)
        return code;
    if (record->epoch > 0 && record->epoch < own->epoch)
        return reject_record(record, "the epoch went backwards", error);
    own->is_open = record->epoch > 0;
    if (record->epoch > 0)
        own->epoch = record->epoch;
    return ROTA_OK;
}

static enum rota_code read_record(struct rota_broker *broker, const struct rota_work_record *record,
                                  struct rota_error *error)
{
    switch (record->type) {
    case ROTA_WORK_ADD:
    case ROTA_WORK_JOB:
        return read_whole(broker, record, error);
    case ROTA_WORK_START:
    case ROTA_WORK_RETRY:
    case ROTA_WORK_END:
    case ROTA_WORK_REVIVE:
    case ROTA_WORK_PRIORITY:
    case ROTA_WORK_FORGET:
        return read_change(broker, record, error);
    case ROTA_WORK_PAUSE:
    case ROTA_WORK_WEIGHT:
    case ROTA_WORK_LAYOUT:
    case ROTA_WORK_OWN:
        return read_setting(broker, record, error);
    case ROTA_WORK_CHUNK:
        return rota_broker_chunk_read(broker, record, error);
    case ROTA_WORK_TAKEN:
        return rota_broker_chunk_read_taken(broker, record, error);
    case ROTA_WORK_NODE:
        return rota_broker_node_read(broker, record, error);
    case ROTA_WORK_LIFE:
        if (record->attempt < broker->journal.life || record->attempt > UINT32_MAX)
            return reject_record(record, "the restart number went backwards", error);
        broker->journal.life = record->attempt;
        return ROTA_OK;
    }
    return reject_record(record, "unknown type", error);
}

/* There was room for it at the time, as some that ended before were forgotten by then. Except
 * for one that is revived, since that may be among these. */
static enum rota_code read_in_bounds(struct rota_broker *broker,
                                     const struct rota_work_record *record,
                                     struct rota_error *error)
{
    enum rota_code code = read_record(broker, record, error);
    rota_time at = record->at > broker->stamp ? record->at : broker->stamp;
    if (code == ROTA_ERR_LIMIT && record->type != ROTA_WORK_REVIVE &&
        rota_broker_ended_forget_read(broker, at))
        code = read_record(broker, record, error);
    return code;
}

/* Settings and statements about nodes have the time of the node that made them, which may be
 * ahead of ours. */
static bool has_foreign_time(enum rota_work_record_type type)
{
    return type == ROTA_WORK_NODE || type == ROTA_WORK_PAUSE || type == ROTA_WORK_WEIGHT ||
           type == ROTA_WORK_LAYOUT;
}

enum rota_code rota_broker_replay(struct rota_broker *broker, const struct rota_work_record *record,
                                  struct rota_error *error)
{
    assert(!broker->journal.is_begun);
    enum rota_code code = ROTA_OK;
    if (record->number <= broker->journal.last_number)
        code = reject_record(record, "the number went backwards", error);
    else if ((unsigned)record->cause > ROTA_JOB_CAUSE_HANDED_OVER ||
             record->reason.size > ROTA_JOB_REASON_MAX ||
             record->worker.size > ROTA_WORKER_NAME_MAX)
        code = reject_record(record, "unknown cause, reason or worker", error);
    else
        code = read_in_bounds(broker, record, error);
    if (!code) {
        rota_time at = record->at > record->since ? record->at : record->since;
        if (at > broker->stamp && !has_foreign_time(record->type))
            broker->stamp = at;
        rota_broker_ended_forget(broker, 0);
    }
    if (record->number > broker->journal.last_number)
        broker->journal.last_number = record->number;
    return code;
}

void rota_broker_foresee(struct rota_broker *broker, struct rota_job_id id)
{
    rota_job_table_foresee(&broker->jobs, id);
}

/* --- the next life --- */

void rota_broker_replay_next_life(struct rota_broker *broker)
{
    broker->journal.life++;
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_LIFE, NULL);
    record->attempt = broker->journal.life;
    broker->journal.life_number = record->number;
}

void rota_broker_replay_start_clocks(struct rota_broker *broker, uint32_t job_number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (!extra)
        return;
    extra->deadline_at = rota_broker_boot_of(broker, extra->deadline);
    extra->wait_until = ROTA_TIME_NEVER;
    if (job->state == ROTA_JOB_RUNNING) {
        extra->lease_until = rota_time_add(broker->now.boot, broker->options.grace);
        rota_broker_timer_limit_attempt(broker, extra); /* again: its worker may return */
    } else if (!rota_job_state_is_ended(job->state)) {
        bool is_early = extra->not_before > broker->now.wall;
        if (is_early)
            extra->wait_until = rota_broker_boot_of(broker, extra->not_before);
        rota_broker_job_set_state(broker, job, is_early ? ROTA_JOB_DELAYED : ROTA_JOB_WAITING);
    } else if (job->state != ROTA_JOB_DEAD) {
        rota_time latest = rota_time_add(broker->now.boot, broker->options.keep);
        rota_time since = rota_broker_boot_of(broker, extra->since);
        extra->wait_until = rota_time_min(rota_time_add(since, broker->options.keep), latest);
    }
    rota_broker_timer_set(broker, job);
}

/* A queue's virtual time continues at the first of its jobs. */
static void set_presents(struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->queues.all.size; i++)
        if (broker->queues.all.items[i])
            broker->queues.all.items[i]->least_tag = UINT64_MAX;
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
        if (!rota_job_state_is_ended(job->state) && job->tag < queue->least_tag)
            queue->least_tag = job->tag;
    }
    for (size_t i = 0; i < broker->queues.all.size; i++)
        if (broker->queues.all.items[i] && broker->queues.all.items[i]->least_tag != UINT64_MAX)
            rota_fair_hand_out(&broker->queues.all.items[i]->fair,
                               broker->queues.all.items[i]->least_tag);
}

void rota_broker_begin(struct rota_broker *broker, struct rota_work_now now)
{
    assert(!broker->journal.is_begun);
    rota_broker_at(broker, now);
    broker->journal.is_begun = true;
    broker->journal.durable = broker->journal.last_number;
    broker->first_unsafe = 0;
    rota_broker_chunk_drop_coming(broker);
    set_presents(broker);
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));) {
        rota_broker_replay_start_clocks(broker, i);
        if (rota_broker_ready(broker, rota_broker_lane_of(broker, rota_job_at(&broker->jobs, i))))
            rota_broker_job_enter(broker, i);
    }
    rota_broker_ended_forget(broker, 0);
    for (size_t i = 0; i < broker->queues.all.size; i++)
        if (broker->queues.all.items[i] && broker->queues.all.items[i]->n_lanes == 0)
            rota_broker_queue_note_empty(broker, broker->queues.all.items[i]);
    if (rota_broker_ready(broker, NULL))
        rota_broker_replay_next_life(broker);
    else
        broker->journal.life_number = UINT64_MAX; /* the first tick begins it */
    rota_broker_match(broker);
}

/* --- rewriting --- */

/* Life, pauses, weights and owners; false when there is no memory for all of them. */
static bool rewrite_settings(struct rota_broker *broker)
{
    uint64_t number = broker->journal.last_number + 1;
    if (!rota_broker_ready(broker, NULL))
        return false;
    rota_broker_write(broker, ROTA_WORK_LIFE, NULL)->attempt = broker->journal.life;
    for (size_t i = 0; i < broker->queues.all.size; i++)
        if (broker->queues.all.items[i] &&
            !rota_broker_hand_rewrite_queue(broker, broker->queues.all.items[i]))
            return false;
    if (!rota_broker_chunk_rewrite_all(broker) || !rota_broker_node_rewrite_all(broker))
        return false;
    broker->journal.settings_number = number;
    return true;
}

static bool rewrite_job(struct rota_broker *broker, uint32_t number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    if (!rota_broker_ready(broker, NULL))
        return false;
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_JOB, job);
    rota_broker_attach_spec(broker, job);
    rota_broker_replay_fill_job(broker, job, record);
    rota_broker_job_whole(broker, number, record->number);
    return true;
}

static size_t job_size(const struct rota_broker *broker, const struct rota_job *job)
{
    struct rota_job_spec spec;
    struct rota_work_record record = {.type = ROTA_WORK_JOB};
    rota_broker_job_fill_spec(broker, job, &spec);
    rota_broker_replay_fill_job(broker, job, &record);
    return rota_broker_add_spec_size(&spec) + record.bytes.size + record.reason.size +
           record.worker.size + record.key.size;
}

static size_t settings_size(const struct rota_broker *broker)
{
    enum { RECORD = 96 };
    struct rota_setting_place place = {0};
    struct rota_work_record record;
    size_t size = RECORD + broker->chunks.taken.size * RECORD;
    while (rota_broker_next_setting(broker, &place, &record))
        size += RECORD + record.queue.size + record.key.size;
    for (size_t i = 0; i < broker->queues.all.size; i++)
        if (broker->queues.all.items[i])
            size +=
                ROTA_JOB_QUEUE_NAME_MAX + broker->queues.all.items[i]->partitions.size * 2 * RECORD;
    for (size_t i = 0; i < broker->chunks.sent.size; i++)
        size += 2 * RECORD + ROTA_JOB_QUEUE_NAME_MAX + strlen(broker->chunks.sent.items[i]->to) +
                broker->chunks.sent.items[i]->n_ids * sizeof(struct rota_job_id);
    for (size_t i = 0; i < broker->nodes.size; i++)
        size += RECORD + broker->nodes.items[i]->size;
    return size;
}

size_t rota_broker_rewrite(struct rota_broker *broker, uint64_t number, size_t n_max,
                           size_t bytes_max)
{
    struct rota_job_table *jobs = &broker->jobs;
    if (broker->journal.rewrite_number != number) {
        broker->journal.rewrite_number = number;
        broker->journal.rewrite_left = 0;
        for (uint32_t i = jobs->oldest; i && rota_job_at(jobs, i)->record < number;
             i = rota_job_at(jobs, i)->newer)
            broker->journal.rewrite_left++;
    }
    for (; n_max > 0 && broker->journal.rewrite_left > 0; n_max--) {
        size_t size = job_size(broker, rota_job_at(jobs, jobs->oldest));
        if (size > bytes_max || !rewrite_job(broker, jobs->oldest))
            return broker->journal.rewrite_left;
        bytes_max -= size;
        broker->journal.rewrite_left--;
    }
    if (broker->journal.rewrite_left == 0 && broker->journal.settings_number < number &&
        (settings_size(broker) > bytes_max || !rewrite_settings(broker)))
        return 1; /* not yet */
    return broker->journal.rewrite_left;
}

uint64_t rota_broker_rewrite_size(const struct rota_broker *broker, uint64_t number, size_t n_max,
                                  uint64_t enough)
{
    const struct rota_job_table *jobs = &broker->jobs;
    uint64_t size = 0;
    for (uint32_t i = jobs->oldest; i; i = rota_job_at(jobs, i)->newer) {
        const struct rota_job *job = rota_job_at(jobs, i);
        if (job->record >= number)
            break;
        if (n_max-- == 0 || size > enough)
            return size;
        size += job_size(broker, job);
    }
    return broker->journal.settings_number < number ? size + settings_size(broker) : size;
}
