#include "wire/message/message_table.h"
#include "wire/message/queue_message.h"
#include "wire/message/worker_frame.h"

/* An entry of a batch as it is sent: all begin with the queue, the id and the attempt. */
struct entry {
    struct rota_str queue, id;
    uint64_t attempt;
    struct rota_str payload, key, trace; /* of a job */
    uint64_t n_attempts, timeout_ms;
    int64_t priority;
    uint64_t cause; /* of a cancel and an end */
    struct rota_str result, reason;
    uint64_t retry_after_ms;
    uint64_t code;        /* of a verdict */
    struct rota_str text; /* of a step */
};

#define THIS struct entry
#define HEAD F(1, STR, queue), F_ID(2, id), F(3, UINT, attempt)
static const struct rota_message_field ATTEMPT[] = {HEAD};
static const struct rota_message_field JOB[] = {
    HEAD,
    F_BYTES(4, payload),
    F_MAX(5, UINT, n_attempts, UINT32_MAX),
    F(6, UINT, timeout_ms),
    F(7, INT, priority),
    F(8, STR, key),
    F(9, STR, trace),
};
static const struct rota_message_field CANCEL[] = {HEAD, F(4, UINT, cause)};
static const struct rota_message_field END[] = {
    HEAD, F(4, UINT, cause), F_BYTES(5, result), F_BYTES(6, reason), F(7, UINT, retry_after_ms),
};
static const struct rota_message_field VERDICT[] = {HEAD, F(4, UINT, code)};
static const struct rota_message_field STEP[] = {HEAD, F_BYTES(4, text)};
#undef THIS
TYPE(ROTA_WORKER_ATTEMPT_TYPE, "attempt", struct entry, ATTEMPT);
HOT_ENTRY(ROTA_WORKER_JOB_TYPE, "job", struct entry, JOB);
TYPE(ROTA_WORKER_CANCEL_TYPE, "cancel", struct entry, CANCEL);
HOT_ENTRY(ROTA_WORKER_END_TYPE, "end", struct entry, END);
HOT_ENTRY(ROTA_WORKER_VERDICT_TYPE, "verdict", struct entry, VERDICT);
TYPE(ROTA_WORKER_STEP_TYPE, "step", struct entry, STEP);

/* Its first three fields; `room` is for the bytes of the id. */
#define HEAD_OF(from, room)                                                                        \
    .queue = (from)->queue, .id = rota_queue_message_id_write((from)->id, (room)),                 \
    .attempt = (from)->attempt

static enum rota_code check_head(const struct entry *entry, const struct rota_message_type *type,
                                 struct rota_job_id *id, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(entry->queue, error);
    if (code)
        return code;
    if (rota_queue_message_id_read(entry->id, id, NULL) || rota_job_id_is_none(*id) ||
        entry->attempt == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the %s names attempt %llu of a job with an id of %zu bytes: an id "
                              "has 16 bytes, and neither it nor the attempt is 0",
                              type->name, (unsigned long long)entry->attempt, entry->id.size);
    return ROTA_OK;
}

/* Field 1 of all batches is the entries; field 2 of jobs is verdicts. */
static bool next_entry(struct rota_worker_batch *batch, const struct rota_message_type *type,
                       struct entry *entry, struct rota_job_id *id, enum rota_code *code,
                       struct rota_error *error)
{
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    do
        found = rota_lean_next(&batch->reader, &field);
    while (found == ROTA_LEAN_FIELD && field.number != batch->number);
    *code = ROTA_OK;
    if (found == ROTA_LEAN_END)
        return false;
    if (found == ROTA_LEAN_MALFORMED || field.type != ROTA_LEAN_BYTES)
        *code = rota_error_set(error, ROTA_ERR_INVALID,
                               "malformed batch: after %zu entries a %s was expected", batch->n,
                               type->name);
    else if (batch->n == ROTA_WORKER_BATCH_MAX)
        *code = rota_error_set(error, ROTA_ERR_INVALID, "a batch has more than %d entries",
                               ROTA_WORKER_BATCH_MAX);
    else
        *code = rota_message_decode(type, field.bytes, entry, NULL, error);
    if (!*code)
        *code = check_head(entry, type, id, error);
    batch->n++;
    return !*code;
}

static enum rota_job_cause to_cause(uint64_t value)
{
    return value <= ROTA_JOB_CAUSE_HANDED_OVER ? (enum rota_job_cause)value : ROTA_JOB_CAUSE_NONE;
}

/* --- messages of a broker --- */

void rota_worker_batch_job_write(const struct rota_worker_job *job, struct rota_buffer *body)
{
    char room[ROTA_QUEUE_ID_SIZE];
    const struct entry entry = {
        HEAD_OF(job, room),
        .payload = job->payload,
        .n_attempts = job->n_attempts,
        .timeout_ms = rota_queue_to_ms(job->timeout),
        .priority = job->priority,
        .key = job->key,
        .trace = job->trace,
    };
    rota_message_encode_entry(&ROTA_WORKER_JOB_TYPE, 1, &entry, body);
}

bool rota_worker_batch_job_next(struct rota_worker_batch *batch, struct rota_worker_job *job,
                                enum rota_code *code, struct rota_error *error)
{
    struct rota_job_id id;
    struct entry entry;
    if (!next_entry(batch, &ROTA_WORKER_JOB_TYPE, &entry, &id, code, error))
        return false;
    *code = rota_queue_message_priority_check(entry.priority, error);
    if (!*code)
        *code = rota_job_check_size(entry.payload, ROTA_JOB_PAYLOAD_MAX, "payload", error);
    if (!*code)
        *code = rota_job_check_size(entry.key, ROTA_JOB_KEY_MAX, "key", error);
    if (!*code)
        *code = rota_job_check_size(entry.trace, ROTA_JOB_KEY_MAX, "trace id", error);
    if (*code)
        return false;
    *job = (struct rota_worker_job){
        .queue = entry.queue,
        .id = id,
        .attempt = entry.attempt,
        .n_attempts = (uint32_t)entry.n_attempts,
        .priority = (int16_t)entry.priority,
        .timeout = rota_queue_from_ms(entry.timeout_ms),
        .payload = entry.payload,
        .key = entry.key,
        .trace = entry.trace,
    };
    return true;
}

void rota_worker_batch_cancel_write(const struct rota_worker_cancel *cancel,
                                    struct rota_buffer *body)
{
    char room[ROTA_QUEUE_ID_SIZE];
    const struct entry entry = {HEAD_OF(cancel, room), .cause = cancel->cause};
    rota_message_encode_entry(&ROTA_WORKER_CANCEL_TYPE, 1, &entry, body);
}

bool rota_worker_batch_cancel_next(struct rota_worker_batch *batch,
                                   struct rota_worker_cancel *cancel, enum rota_code *code,
                                   struct rota_error *error)
{
    struct rota_job_id id;
    struct entry entry;
    if (!next_entry(batch, &ROTA_WORKER_CANCEL_TYPE, &entry, &id, code, error))
        return false;
    *cancel = (struct rota_worker_cancel){entry.queue, id, entry.attempt, to_cause(entry.cause)};
    return true;
}

void rota_worker_batch_verdict_write(const struct rota_worker_verdict *verdict,
                                     struct rota_buffer *body)
{
    char room[ROTA_QUEUE_ID_SIZE];
    const struct entry entry = {HEAD_OF(verdict, room), .code = verdict->code};
    rota_message_encode_entry(&ROTA_WORKER_VERDICT_TYPE, 1, &entry, body);
}

/* Each entry is a separate field, copied with another field number. */
void rota_worker_batch_ended_append(struct rota_str verdicts, struct rota_buffer *jobs)
{
    struct rota_lean_reader reader = rota_lean_reader(verdicts);
    struct rota_lean_field field = {0};
    while (rota_lean_next(&reader, &field) == ROTA_LEAN_FIELD) {
        char *to = rota_buffer_extend(jobs, rota_lean_bytes_size(2, field.bytes.size));
        if (to)
            rota_lean_put_bytes((uint8_t *)to, 2, field.bytes);
    }
}

bool rota_worker_batch_verdict_next(struct rota_worker_batch *batch,
                                    struct rota_worker_verdict *verdict, enum rota_code *code,
                                    struct rota_error *error)
{
    struct rota_job_id id;
    struct entry entry;
    if (!next_entry(batch, &ROTA_WORKER_VERDICT_TYPE, &entry, &id, code, error))
        return false;
    bool is_known = entry.code <= ROTA_ERR_STALE;
    *verdict = (struct rota_worker_verdict){
        entry.queue, id, entry.attempt, is_known ? (enum rota_code)entry.code : ROTA_ERR_INVALID};
    return true;
}

/* --- messages of a worker --- */

void rota_worker_batch_end_write(const struct rota_attempt_end *end, struct rota_buffer *body)
{
    char room[ROTA_QUEUE_ID_SIZE];
    const struct entry entry = {
        HEAD_OF(end, room),
        .cause = end->cause,
        .result = end->bytes,
        .reason = end->reason,
        .retry_after_ms = rota_queue_to_ms(end->retry_after),
    };
    rota_message_encode_entry(&ROTA_WORKER_END_TYPE, 1, &entry, body);
}

bool rota_worker_batch_end_next(struct rota_worker_batch *batch, struct rota_attempt_end *end,
                                enum rota_code *code, struct rota_error *error)
{
    struct rota_job_id id;
    struct entry entry;
    if (!next_entry(batch, &ROTA_WORKER_END_TYPE, &entry, &id, code, error))
        return false;
    *end = (struct rota_attempt_end){
        .queue = entry.queue,
        .id = id,
        .attempt = entry.attempt,
        .cause = to_cause(entry.cause),
        .bytes = entry.result,
        .reason = entry.reason,
        .retry_after = rota_queue_from_ms(entry.retry_after_ms),
    };
    return true;
}

void rota_worker_batch_step_write(const struct rota_worker_step *step, struct rota_buffer *body)
{
    char room[ROTA_QUEUE_ID_SIZE];
    const struct entry entry = {HEAD_OF(step, room), .text = step->text};
    rota_message_encode_entry(&ROTA_WORKER_STEP_TYPE, 1, &entry, body);
}

bool rota_worker_batch_step_next(struct rota_worker_batch *batch, struct rota_worker_step *step,
                                 enum rota_code *code, struct rota_error *error)
{
    struct rota_job_id id;
    struct entry entry;
    if (!next_entry(batch, &ROTA_WORKER_STEP_TYPE, &entry, &id, code, error))
        return false;
    *step = (struct rota_worker_step){entry.queue, id, entry.attempt, entry.text};
    return true;
}

/* --- a worker's slots, capabilities and attempts --- */

/* Slots, Ready and Holds as they are sent. */
struct state {
    struct rota_message_strs capabilities, queues;
    uint64_t slots;                         /* in Holds plus one; omitted when they are not given */
    struct rota_message_list running, held; /* of struct entry */
    bool takes_ended_with_jobs;
    uint64_t up_to, round;
};

#define THIS struct state
static const struct rota_message_field SLOTS[] = {F_MAX(1, UINT, slots, ROTA_WORKER_SLOTS_MAX)};
static const struct rota_message_field READY[] = {
    F_MAX(1, STRS, capabilities, ROTA_WORKER_CAPABILITIES_MAX),
    F_MAX(2, STRS, queues, ROTA_WORKER_QUEUES_MAX),
    F_MAX(3, UINT, slots, ROTA_WORKER_SLOTS_MAX),
    F_LIST(4, running, ROTA_WORKER_ATTEMPT_TYPE, ROTA_WORKER_SLOTS_MAX),
    F(5, BOOL, takes_ended_with_jobs),
};
static const struct rota_message_field HOLDS[] = {
    F_LIST(1, held, ROTA_WORKER_ATTEMPT_TYPE, ROTA_WORKER_HELD_MAX),
    F(2, UINT, up_to),
    F(3, UINT, round),
    F_MAX(4, UINT, slots, ROTA_WORKER_SLOTS_MAX + 1),
};
#undef THIS
TYPE(ROTA_WORKER_SLOTS_TYPE, "message", struct state, SLOTS);
TYPE(ROTA_WORKER_READY_TYPE, "worker", struct state, READY);
TYPE(ROTA_WORKER_HOLDS_TYPE, "worker", struct state, HOLDS);

#define THIS struct rota_worker_check
static const struct rota_message_field CHECK[] = {F(2, UINT, up_to), F(3, UINT, round)};
#undef THIS
TYPE(ROTA_WORKER_CHECK_TYPE, "check", struct rota_worker_check, CHECK);

void rota_worker_batch_slots_write(uint32_t slots, struct rota_buffer *body)
{
    rota_message_encode(&ROTA_WORKER_SLOTS_TYPE, &(struct state){.slots = slots}, body);
}

enum rota_code rota_worker_batch_slots_read(struct rota_str body, uint32_t *slots,
                                            struct rota_error *error)
{
    struct state message;
    enum rota_code code = rota_message_decode(&ROTA_WORKER_SLOTS_TYPE, body, &message, NULL, error);
    if (!code)
        *slots = (uint32_t)message.slots;
    return code;
}

/* Attempts, each as an entry of field `number`. */
static void write_attempts(const struct rota_worker_running *attempts, size_t n, uint32_t number,
                           struct rota_buffer *body)
{
    for (size_t i = 0; i < n; i++) {
        char room[ROTA_QUEUE_ID_SIZE];
        const struct entry entry = {HEAD_OF(&attempts[i], room)};
        rota_message_encode_entry(&ROTA_WORKER_ATTEMPT_TYPE, number, &entry, body);
    }
}

static enum rota_code read_attempts(const struct rota_message_list *list,
                                    struct rota_worker_running *attempts, struct rota_error *error)
{
    const struct entry *entries = list->items;
    for (size_t i = 0; i < list->n; i++) {
        enum rota_code code =
            check_head(&entries[i], &ROTA_WORKER_ATTEMPT_TYPE, &attempts[i].id, error);
        if (code)
            return code;
        attempts[i].queue = entries[i].queue;
        attempts[i].attempt = entries[i].attempt;
    }
    return ROTA_OK;
}

static enum rota_code read_names(const struct rota_message_strs *strs, struct rota_str *names,
                                 enum rota_code (*check)(struct rota_str, struct rota_error *),
                                 struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < strs->n; i++) {
        names[i] = strs->items[i];
        code = check(names[i], error);
    }
    return code;
}

void rota_worker_batch_ready_write(const struct rota_worker_ready *ready, struct rota_buffer *body)
{
    const struct state message = {
        .capabilities = {ready->capabilities, ready->n_capabilities},
        .queues = {ready->queues, ready->n_queues},
        .slots = ready->slots,
        .takes_ended_with_jobs = ready->takes_ended_with_jobs,
    };
    rota_message_encode(&ROTA_WORKER_READY_TYPE, &message, body);
    write_attempts(ready->running, ready->n_running, 4, body);
}

enum rota_code rota_worker_batch_ready_read(struct rota_str body, struct rota_worker_ready *ready,
                                            struct rota_error *error)
{
    struct rota_arena arena = {0};
    struct state message;
    enum rota_code code =
        rota_message_decode(&ROTA_WORKER_READY_TYPE, body, &message, &arena, error);
    if (!code)
        code = read_names(&message.capabilities, ready->capabilities, rota_job_check_capability,
                          error);
    if (!code)
        code = read_names(&message.queues, ready->queues, rota_job_queue_check, error);
    if (!code)
        code = read_attempts(&message.running, ready->running, error);
    if (!code && message.queues.n == 0)
        code = rota_error_set(error, ROTA_ERR_INVALID, "the worker serves no queue");
    ready->n_capabilities = code ? 0 : message.capabilities.n;
    ready->n_queues = code ? 0 : message.queues.n;
    ready->n_running = code ? 0 : message.running.n;
    ready->slots = code ? 0 : (uint32_t)message.slots;
    ready->takes_ended_with_jobs = !code && message.takes_ended_with_jobs;
    rota_arena_deinit(&arena);
    return code;
}

void rota_worker_batch_check_write(const struct rota_worker_check *check, struct rota_buffer *body)
{
    rota_message_encode(&ROTA_WORKER_CHECK_TYPE, check, body);
}

enum rota_code rota_worker_batch_check_read(struct rota_str body, struct rota_worker_check *check,
                                            struct rota_error *error)
{
    return rota_message_decode(&ROTA_WORKER_CHECK_TYPE, body, check, NULL, error);
}

void rota_worker_batch_holds_write(const struct rota_worker_holds *holds, struct rota_buffer *body)
{
    const struct state message = {
        .up_to = holds->up_to,
        .round = holds->round,
        .slots = holds->has_slots ? (uint64_t)holds->slots + 1 : 0,
    };
    write_attempts(holds->held, holds->n_held, 1, body);
    rota_message_encode(&ROTA_WORKER_HOLDS_TYPE, &message, body);
}

enum rota_code rota_worker_batch_holds_read(struct rota_str body, struct rota_worker_holds *holds,
                                            struct rota_error *error)
{
    struct rota_arena arena = {0};
    struct state message;
    enum rota_code code =
        rota_message_decode(&ROTA_WORKER_HOLDS_TYPE, body, &message, &arena, error);
    if (!code)
        code = read_attempts(&message.held, holds->held, error);
    if (code)
        message = (struct state){0};
    holds->n_held = message.held.n;
    holds->up_to = message.up_to;
    holds->round = message.round;
    holds->has_slots = message.slots > 0;
    holds->slots = message.slots > 0 ? (uint32_t)(message.slots - 1) : 0;
    rota_arena_deinit(&arena);
    return code;
}
