#include "core/work/broker/broker_inside.h"

#include "base/hash.h"

#include <string.h>

/* --- bytes --- */

char *rota_broker_job_copy(struct rota_broker *broker, struct rota_str bytes)
{
    char *copy = bytes.size > 0 ? rota_blocks_take(&broker->jobs.blocks, bytes.size) : NULL;
    if (copy)
        memcpy(copy, bytes.data, bytes.size);
    return copy;
}

void rota_broker_job_discard_copy(struct rota_broker *broker, char *copy, size_t size)
{
    if (!copy)
        return;
    struct rota_work_trash trash = {copy, size};
    if (broker->output.effects.size == 0 || !rota_vector_push(&broker->output.trash, trash))
        rota_blocks_give(&broker->jobs.blocks, copy, size);
}

static void drop_payload(struct rota_broker *broker, struct rota_job *job)
{
    broker->bytes -= job->payload_size;
    rota_broker_job_discard_copy(broker, job->payload, job->payload_size);
    job->payload = NULL;
    job->payload_size = 0;
}

uint64_t rota_broker_job_hash_payload(const struct rota_broker *broker, struct rota_str payload)
{
    uint64_t hash = rota_hash_quick64(broker->seed, payload);
    return hash ? hash : 1;
}

/* The job is about to be DONE. One that arrives as DONE has lost its payload before. */
static void hash_payload(struct rota_broker *broker, struct rota_job *job)
{
    struct rota_str payload = rota_job_payload(job);
    bool is_known = job->state == ROTA_JOB_RUNNING;
    uint64_t hash = is_known ? rota_broker_job_hash_payload(broker, payload) : 0;
    drop_payload(broker, job);
    job->payload_hash = hash;
    job->payload_size = is_known ? (uint32_t)payload.size : 0;
}

static void drop_result(struct rota_broker *broker, struct rota_job_extra *extra)
{
    broker->bytes -= extra->result_size;
    rota_broker_job_discard_copy(broker, extra->result, extra->result_size);
    extra->result = NULL;
    extra->result_size = 0;
}

static void drop_progress(struct rota_broker *broker, struct rota_job_extra *extra)
{
    rota_broker_job_discard_copy(broker, extra->progress, extra->progress_size);
    extra->progress = NULL;
    extra->progress_size = 0;
}

/* --- the spec --- */

static struct rota_str unique_of(const struct rota_job_extra *extra)
{
    return rota_str_of(extra->text, sizeof(uint32_t) + extra->unique_size);
}

void rota_broker_job_fill_spec(const struct rota_broker *broker, const struct rota_job *job,
                               struct rota_job_spec *spec)
{
    const struct rota_lane *lane = rota_broker_lane_of(broker, job);
    const struct rota_capability_set *set =
        rota_capabilities_set_at(&broker->capabilities, lane->set);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    *spec = (struct rota_job_spec){
        .id = job->id,
        .queue = rota_broker_queue_name(broker->queues.all.items[lane->queue]),
        .partition = rota_job_partition(&broker->jobs, job),
        .capabilities = set->names,
        .n_capabilities = set->list.size,
        .payload = rota_job_payload(job),
        .priority = job->priority,
    };
    if (!extra)
        return;
    /* A retry may be due after the deadline, which a submitter may not ask for: a spec must
     * always be readable again, and the time of the retry is stored elsewhere. */
    if (!extra->deadline || extra->not_before < extra->deadline)
        spec->not_before = extra->not_before;
    spec->deadline = extra->deadline;
    spec->timeout = extra->timeout;
    spec->max_attempts = extra->max_attempts;
    spec->backoff = extra->backoff;
    spec->backoff_max = extra->backoff_max;
    spec->key = rota_job_extra_key(extra);
    spec->trace = rota_job_extra_trace(extra);
    if (extra->unique_size > 0)
        spec->unique = rota_str_of(extra->text + sizeof(uint32_t), extra->unique_size);
}

static bool wants_extra(const struct rota_job_spec *spec)
{
    return spec->not_before || spec->deadline || spec->timeout || spec->max_attempts ||
           spec->backoff || spec->backoff_max || spec->unique.size || spec->key.size ||
           spec->trace.size;
}

static size_t text_size(const struct rota_job_extra *extra)
{
    return sizeof(uint32_t) + extra->unique_size + extra->key_size + extra->trace_size;
}

static void append_bytes(char **end, struct rota_str bytes)
{
    if (bytes.size > 0)
        memcpy(*end, bytes.data, bytes.size);
    *end += bytes.size;
}

static bool fill_text(struct rota_broker *broker, struct rota_job_extra *extra, uint32_t queue,
                      const struct rota_job_spec *spec)
{
    extra->unique_size = (uint16_t)spec->unique.size;
    extra->key_size = (uint16_t)spec->key.size;
    extra->trace_size = (uint16_t)spec->trace.size;
    size_t size = text_size(extra);
    if (size == sizeof queue)
        return true;
    char *end = extra->text = rota_blocks_take(&broker->jobs.blocks, size);
    if (!end) {
        extra->unique_size = extra->key_size = extra->trace_size = 0;
        return false;
    }
    append_bytes(&end, rota_str_of(&queue, sizeof queue));
    append_bytes(&end, spec->unique);
    append_bytes(&end, spec->key);
    append_bytes(&end, spec->trace);
    return true;
}

static bool fill_extra(struct rota_broker *broker, uint32_t number,
                       const struct rota_job_spec *spec, uint32_t queue, struct rota_fair_key *key)
{
    struct rota_job_extra *extra = rota_broker_timer_need_extra(broker, number);
    if (!extra)
        return false;
    extra->not_before = spec->not_before;
    extra->deadline = spec->deadline;
    extra->timeout = spec->timeout;
    extra->max_attempts = spec->max_attempts;
    extra->backoff = spec->backoff;
    extra->backoff_max = spec->backoff_max;
    if (!fill_text(broker, extra, queue, spec))
        return false;
    /* A job that has ended, and is read or adopted now, does not take the key from another. */
    if (extra->unique_size > 0 && !rota_map_get(&broker->uniques, unique_of(extra)) &&
        !rota_map_put(&broker->uniques, unique_of(extra), rota_job_at(&broker->jobs, number)))
        return false;
    extra->key = key;
    rota_fair_hold(key);
    return true;
}

/* --- coming and going --- */

/* One more or less that has not ended. */
static void count_live(struct rota_broker *broker, struct rota_work_partition *partition,
                       const struct rota_job *job, size_t n)
{
    broker->n_live += n;
    partition->n_live += n;
    if (rota_broker_is_drawn(job))
        partition->n_drawn += n;
}

void rota_broker_job_set_state(struct rota_broker *broker, struct rota_job *job,
                               enum rota_job_state state)
{
    struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    bool was_ended = rota_job_state_is_ended(job->state), is_ended = rota_job_state_is_ended(state);
    if (job->state == ROTA_JOB_RUNNING && job->extra)
        rota_broker_poller_unlease(broker, rota_job_extra_known(&broker->jobs, job));
    queue->counts[job->state]--;
    queue->counts[state]++;
    broker->counts[job->state]--;
    broker->counts[state]++;
    job->state = (uint8_t)state;
    if (was_ended == is_ended)
        return;
    size_t one_less = -(size_t)1;
    broker->ended.n += is_ended ? 1 : one_less;
    count_live(broker, rota_broker_partition(queue, rota_job_partition(&broker->jobs, job)), job,
               is_ended ? one_less : 1);
}

static void free_story(struct rota_broker *broker, struct rota_job_extra *extra)
{
    struct rota_job_story *story = extra->story;
    for (uint32_t i = 0; story && i < story->size; i++) {
        rota_broker_job_discard_copy(broker, story->moments[i].reason,
                                     story->moments[i].reason_size);
        rota_broker_drop_name(broker, story->moments[i].worker);
    }
    if (story) {
        broker->jobs.bytes -=
            rota_job_block(sizeof *story + story->capacity * sizeof story->moments[0]);
        rota_broker_job_discard_copy(broker, story->killed, story->killed_size);
    }
    free(story);
    extra->story = NULL;
}

static void release_unique(struct rota_broker *broker, const struct rota_job *job,
                           struct rota_job_extra *extra)
{
    if (extra->unique_size > 0 && rota_map_get(&broker->uniques, unique_of(extra)) == job)
        rota_map_remove(&broker->uniques, unique_of(extra));
}

static void free_extra(struct rota_broker *broker, uint32_t number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (!extra)
        return;
    assert(!rota_broker_worker(broker, extra->session)); /* its partition was closed before */
    release_unique(broker, job, extra);
    rota_fair_let_go(extra->key);
    drop_progress(broker, extra);
    drop_result(broker, extra);
    rota_broker_job_discard_copy(broker, extra->reason, extra->reason_size);
    rota_broker_job_discard_copy(broker, extra->text, text_size(extra));
    rota_broker_drop_name(broker, extra->worker);
    free_story(broker, extra);
    rota_job_table_drop_extra(&broker->jobs, number);
}

void rota_broker_job_erase(struct rota_broker *broker, uint32_t number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_lane *lane = rota_broker_lane_of(broker, job);
    struct rota_work_queue *queue = broker->queues.all.items[lane->queue];
    rota_broker_job_leave(broker, number);
    if (job->state != ROTA_JOB_DONE)
        drop_payload(broker, job);
    if (rota_job_state_is_ended(job->state))
        rota_broker_ended_list_remove(broker, number);
    else
        rota_broker_job_set_state(broker, job, ROTA_JOB_DONE); /* no longer alive */
    rota_broker_timer_drop(broker, job);
    queue->counts[job->state]--;
    broker->counts[job->state]--;
    broker->ended.n--;
    if (--lane->n_jobs == 0)
        rota_broker_queue_note_empty(broker, queue);
    rota_broker_partition(queue, rota_job_partition(&broker->jobs, job))->n_jobs--;
    free_extra(broker, number);
    if (broker->first_unsafe == number)
        broker->first_unsafe = job->newer;
    if (job->record < broker->journal.rewrite_number && broker->journal.rewrite_left > 0 &&
        job->record > 0)
        broker->journal.rewrite_left--;
    rota_job_table_remove(&broker->jobs, number);
}

enum rota_code rota_broker_job_new(struct rota_broker *broker, const struct rota_job_spec *spec,
                                   struct rota_job_id id, rota_time at, uint64_t order,
                                   uint32_t *number, struct rota_error *error)
{
    struct rota_lane *lane;
    struct rota_work_partition *partition;
    struct rota_fair_key *key = NULL;
    enum rota_code code = rota_broker_queue_need_lane(broker, spec, &lane, error);
    if (code)
        return code;
    struct rota_work_queue *queue = broker->queues.all.items[lane->queue];
    queue->is_deleted = false;
    uint32_t own = rota_job_id_is_none(spec->id) ? rota_job_id_partition(id) : spec->partition;
    code = rota_broker_queue_need_partition(queue, own, &partition, error);
    if (!code && spec->key.size > 0)
        code = rota_fair_key(&queue->fair, spec->key, &key, error);
    if (code)
        return code;

    uint32_t made = rota_job_table_add(&broker->jobs, id);
    if (!made)
        return rota_error_no_memory(error, "for a job");
    struct rota_job *job = rota_job_at(&broker->jobs, made);
    if (own != rota_job_id_partition(id)) {
        struct rota_job_extra *extra = rota_broker_timer_need_extra(broker, made);
        if (!extra) {
            rota_job_table_remove(&broker->jobs, made);
            return rota_error_no_memory(error, "for a job");
        }
        extra->partition = (uint16_t)own;
        job->flags |= ROTA_JOB_PLACED;
    }
    job->enqueued_at = at;
    job->order = order;
    job->priority = spec->priority;
    job->lane = queue->lanes.items[lane->set];
    job->payload_size = (uint32_t)spec->payload.size;
    job->payload = rota_broker_job_copy(broker, spec->payload);
    broker->bytes += spec->payload.size;
    queue->counts[ROTA_JOB_WAITING]++;
    broker->counts[ROTA_JOB_WAITING]++;
    lane->n_jobs++;
    partition->n_jobs++;
    count_live(broker, partition, job, 1);
    if ((spec->payload.size > 0 && !job->payload) ||
        (wants_extra(spec) && !fill_extra(broker, made, spec, queue->number, key))) {
        rota_broker_job_erase(broker, made);
        return rota_error_no_memory(error, "for a job");
    }
    if (spec->not_before > at)
        rota_job_extra_known(&broker->jobs, job)->is_put_off = true;
    *number = made;
    return ROTA_OK;
}

bool rota_broker_job_free(struct rota_broker *broker, uint32_t number)
{
    if (broker->output.effects.size > 0 && !rota_broker_ready(broker, NULL))
        return false;
    rota_broker_job_erase(broker, number);
    return true;
}

void rota_broker_job_whole(struct rota_broker *broker, uint32_t number, uint64_t record)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    if (broker->first_unsafe == number)
        broker->first_unsafe = job->newer;
    rota_job_table_put_newest(&broker->jobs, number, record);
    if (!broker->first_unsafe)
        broker->first_unsafe = number;
}

/* --- lanes --- */

void rota_broker_job_enter(struct rota_broker *broker, uint32_t number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    if (job->state != ROTA_JOB_WAITING || (job->flags & ~ROTA_JOB_PLACED) ||
        !broker->journal.is_begun)
        return; /* it does not wait, is not on disk, or is inside */
    struct rota_lane *lane = rota_broker_lane_of(broker, job);
    const struct rota_work_partition *partition = rota_broker_partition(
        broker->queues.all.items[lane->queue], rota_job_partition(&broker->jobs, job));
    if (!partition->is_open)
        return;
    rota_lane_push(lane, &broker->jobs, number);
    job->flags |= ROTA_JOB_IN_LANE;
    if (rota_lane_first(lane) == number)
        rota_choice_tell(lane);
    rota_broker_match_mark_dirty(broker, lane);
}

void rota_broker_job_pull(struct rota_broker *broker, uint32_t number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    rota_lane_remove(rota_broker_lane_of(broker, job), &broker->jobs, number);
    job->flags &= (uint8_t)~ROTA_JOB_IN_LANE;
}

/* --- history --- */

/* Its history, with room for one more entry or as large as it may be; NULL: no memory. */
static struct rota_job_story *need_story(struct rota_broker *broker, struct rota_job_extra *extra)
{
    struct rota_job_story *story = extra->story;
    uint32_t capacity = story ? story->capacity : 0, size = story ? story->size : 0;
    if (size < capacity || capacity == ROTA_JOB_STORY_MAX)
        return story;
    uint32_t grown = capacity ? 2 * capacity : 2;
    struct rota_job_story *made = realloc(story, sizeof *made + grown * sizeof made->moments[0]);
    if (!made)
        return NULL;
    if (capacity)
        broker->jobs.bytes -= rota_job_block(sizeof *made + capacity * sizeof made->moments[0]);
    else
        *made = (struct rota_job_story){0};
    broker->jobs.bytes += rota_job_block(sizeof *made + grown * sizeof made->moments[0]);
    made->capacity = grown;
    extra->story = made;
    return made;
}

/* Takes the contents of `moment`. Without memory the entry is dropped. */
static void remember_moment(struct rota_broker *broker, struct rota_job_extra *extra,
                            struct rota_job_moment moment)
{
    struct rota_job_story *story = need_story(broker, extra);
    if (story && story->size == ROTA_JOB_STORY_MAX) {
        rota_broker_job_discard_copy(broker, story->moments[0].reason,
                                     story->moments[0].reason_size);
        rota_broker_drop_name(broker, story->moments[0].worker);
        memmove(story->moments, story->moments + 1, --story->size * sizeof story->moments[0]);
    }
    if (story) {
        story->moments[story->size++] = moment;
        return;
    }
    rota_broker_job_discard_copy(broker, moment.reason, moment.reason_size);
    rota_broker_drop_name(broker, moment.worker);
}

static void remember_start(struct rota_broker *broker, struct rota_job_extra *extra)
{
    if (extra->started)
        remember_moment(broker, extra,
                        (struct rota_job_moment){.at = extra->started,
                                                 .attempt = extra->attempt,
                                                 .worker = extra->worker,
                                                 .state = ROTA_JOB_RUNNING});
    else
        rota_broker_drop_name(broker, extra->worker);
    extra->started = 0;
    extra->worker = NULL;
}

void rota_broker_job_set_killed(struct rota_broker *broker, struct rota_job_extra *extra,
                                const struct rota_work_record *record)
{
    if (!extra->story && record->weight == 0)
        return;
    struct rota_job_story *story = extra->story ? extra->story : need_story(broker, extra);
    char *copy = story && record->key.size ? rota_broker_job_copy(broker, record->key) : NULL;
    if (!story)
        return; /* as if no worker had died */
    story->was_killed = record->weight == story->n_killed + 1U;
    story->was_ours = false;
    story->killed_before = story->killed_size;
    rota_broker_job_discard_copy(broker, story->killed, story->killed_size);
    story->killed = copy;
    story->killed_size = copy ? (uint16_t)record->key.size : 0;
    story->n_killed = record->weight < UINT16_MAX ? (uint16_t)record->weight : UINT16_MAX;
}

/* --- attempts --- */

void rota_broker_job_start(struct rota_broker *broker, uint32_t number, uint64_t attempt,
                           uint32_t n_attempts, struct rota_work_name *worker, rota_time at)
{
    struct rota_job *job = rota_job_at(&broker->jobs, number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    extra->attempt = attempt;
    if (extra->ended == attempt)
        extra->ended = 0; /* it was lost, and is resumed */
    extra->n_attempts = n_attempts;
    extra->worker = worker;
    extra->started = at;
    extra->cause = ROTA_JOB_CAUSE_NONE;
    extra->is_unsent = false;
    extra->attempt_until = extra->lease_until = ROTA_TIME_NEVER;
    rota_broker_job_set_state(broker, job, ROTA_JOB_RUNNING);
    rota_fair_hand_out(&rota_broker_queue_of(broker, job)->fair, job->tag);
}

void rota_broker_job_back(struct rota_broker *broker, uint32_t job_number,
                          const struct rota_work_record *record)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    struct rota_str reason = record->reason;
    bool was_ours = record->cause == ROTA_JOB_CAUSE_LOST && record->n_attempts < extra->n_attempts;
    extra->ended = record->attempt;
    extra->ended_by = record->number;
    extra->ended_cause = extra->cause = (uint8_t)record->cause;
    extra->n_attempts = record->n_attempts;
    extra->not_before = record->not_before;
    rota_broker_job_set_state(broker, job,
                              record->not_before ? ROTA_JOB_DELAYED : ROTA_JOB_WAITING);
    remember_start(broker, extra);
    drop_progress(broker, extra);
    char *copy = rota_broker_job_copy(broker, reason);
    remember_moment(broker, extra,
                    (struct rota_job_moment){.at = record->at,
                                             .attempt = record->attempt,
                                             .reason = copy,
                                             .reason_size = copy ? (uint16_t)reason.size : 0,
                                             .state = job->state,
                                             .cause = (uint8_t)record->cause});
    rota_broker_job_set_killed(broker, extra, record);
    if (extra->story)
        extra->story->was_ours = was_ours;
}

void rota_broker_job_end(struct rota_broker *broker, uint32_t job_number,
                         const struct rota_work_record *record, char *result)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    if (job->state == ROTA_JOB_RUNNING) {
        extra->ended = record->attempt;
        extra->ended_by = record->number;
        extra->ended_cause = (uint8_t)record->cause;
    }
    extra->cause = (uint8_t)record->cause;
    extra->since = record->at;
    extra->session = 0;
    extra->reason = rota_broker_job_copy(broker, record->reason);
    extra->reason_size = extra->reason ? (uint16_t)record->reason.size : 0;
    extra->result = result;
    extra->result_size = result ? (uint32_t)record->bytes.size : 0;
    broker->bytes += extra->result_size;
    drop_progress(broker, extra);
    if (record->state == ROTA_JOB_DONE)
        hash_payload(broker, job);
    release_unique(broker, job, extra);
    rota_fair_let_go(extra->key);
    extra->key = NULL;
    rota_broker_job_set_state(broker, job, record->state);
    rota_broker_timer_drop(broker, job);
    extra->wait_until = record->state == ROTA_JOB_DEAD
                            ? ROTA_TIME_NEVER
                            : rota_time_add(broker->now.boot, broker->options.keep);
    rota_broker_ended_list_push(broker, job_number);
}

enum rota_code rota_broker_job_revive(struct rota_broker *broker, uint32_t job_number, rota_time at,
                                      struct rota_error *error)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    struct rota_fair_key *key = NULL;
    if (extra->unique_size > 0 && rota_map_get(&broker->uniques, unique_of(extra)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "another job with the same unique key is waiting or running");
    if (extra->key_size > 0) {
        enum rota_code code = rota_fair_key(&queue->fair, rota_job_extra_key(extra), &key, error);
        if (code)
            return code;
    }
    if (extra->unique_size > 0 && !rota_map_put(&broker->uniques, unique_of(extra), job))
        return rota_error_no_memory(error, "to revive a job");
    rota_fair_hold(key);
    extra->key = key;
    rota_broker_ended_list_remove(broker, job_number);
    struct rota_work_name *worker = extra->worker; /* of the begin and of the end */
    if (worker)
        worker->n_refs++;
    remember_start(broker, extra);
    remember_moment(broker, extra,
                    (struct rota_job_moment){.at = extra->since,
                                             .attempt = extra->ended,
                                             .worker = worker,
                                             .reason = extra->reason,
                                             .reason_size = extra->reason_size,
                                             .state = job->state,
                                             .cause = extra->cause});
    remember_moment(broker, extra,
                    (struct rota_job_moment){
                        .at = at, .state = ROTA_JOB_WAITING, .cause = ROTA_JOB_CAUSE_RETRIED});
    rota_broker_job_set_killed(broker, extra, &(struct rota_work_record){0});
    extra->reason = NULL;
    extra->reason_size = 0;
    extra->since = extra->not_before = 0;
    extra->cause = ROTA_JOB_CAUSE_RETRIED;
    extra->n_attempts = 0;
    extra->wait_until = ROTA_TIME_NEVER;
    if (extra->deadline <= at) {
        extra->deadline = 0;
        extra->deadline_at = ROTA_TIME_NEVER;
    }
    rota_broker_job_set_state(broker, job, ROTA_JOB_WAITING);
    return ROTA_OK;
}
