#include "wire/worker_fields.h"
#include "wire/worker_frame.h"

/* Entries of all batches begin alike: the queue, the id and the attempt. */

static struct rota_str put_id(uint8_t bytes[16], struct rota_job_id id)
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(id.high >> (56 - 8 * i));
        bytes[8 + i] = (uint8_t)(id.low >> (56 - 8 * i));
    }
    return rota_str_of(bytes, 16);
}

static struct rota_job_id get_id(const uint8_t *bytes)
{
    struct rota_job_id id = {0, 0};
    for (int i = 0; i < 8; i++) {
        id.high = id.high << 8 | bytes[i];
        id.low = id.low << 8 | bytes[8 + i];
    }
    return id;
}

struct head {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
};

/* The first three fields; `room` is for the bytes of the id. */
#define HEAD(entry, room)                                                                          \
    {.number = 1, .bytes = (entry)->queue}, {.number = 2, .bytes = put_id((room), (entry)->id)},   \
    {                                                                                              \
        .number = 3, .value = (entry)->attempt                                                     \
    }

struct entry {
    struct head head;
    struct rota_worker_fields fields;
};

static enum rota_code check_head(struct entry *entry, const char *what, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(entry->fields.bytes[1], error);
    if (code)
        return code;
    if (entry->fields.bytes[2].size != 16 || entry->fields.values[3] == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s names attempt %llu of a job whose id has %zu bytes: an id has "
                              "16, and no attempt is 0",
                              what, (unsigned long long)entry->fields.values[3],
                              entry->fields.bytes[2].size);
    entry->head = (struct head){
        .queue = entry->fields.bytes[1],
        .id = get_id((const uint8_t *)entry->fields.bytes[2].data),
        .attempt = entry->fields.values[3],
    };
    if (rota_job_id_is_none(entry->head.id))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s names a job whose id is 0", what);
    return ROTA_OK;
}

static enum rota_code check_size(const struct entry *entry, int number, size_t max,
                                 const char *what, struct rota_error *error)
{
    if (entry->fields.bytes[number].size <= max)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "the %s has %zu bytes, more than %zu", what,
                          entry->fields.bytes[number].size, max);
}

static enum rota_code read_entry(struct rota_str message, const char *what, unsigned are_bytes,
                                 unsigned are_numbers, struct entry *entry,
                                 struct rota_error *error)
{
    if (!rota_worker_fields_read(message, are_bytes | ROTA_WORKER_BIT(1) | ROTA_WORKER_BIT(2),
                                 are_numbers | ROTA_WORKER_BIT(3), &entry->fields))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s can't be read", what);
    return check_head(entry, what, error);
}

/* Field 1 of all batches is the entries; field 2 of jobs is verdicts. */
static bool next_entry(struct rota_worker_batch *batch, const char *what, unsigned are_bytes,
                       unsigned are_numbers, struct entry *entry, enum rota_code *code,
                       struct rota_error *error)
{
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    do
        found = rota_lean_next(&batch->reader, &field);
    while (found == ROTA_LEAN_FIELD && field.number != batch->number);
    if (found == ROTA_LEAN_END) {
        *code = ROTA_OK;
        return false;
    }
    if (found == ROTA_LEAN_MALFORMED || field.type != ROTA_LEAN_BYTES)
        *code = rota_error_set(error, ROTA_ERR_INVALID,
                               "a batch can't be read behind %zu entries: %s should follow",
                               batch->n, what);
    else if (batch->n == ROTA_WORKER_BATCH_MAX)
        *code = rota_error_set(error, ROTA_ERR_INVALID, "a batch has more than %d entries",
                               ROTA_WORKER_BATCH_MAX);
    else
        *code = read_entry(field.bytes, what, are_bytes, are_numbers, entry, error);
    batch->n++;
    return !*code;
}

/* --- what a broker says --- */

void rota_worker_job_write(const struct rota_worker_job *job, struct rota_buffer *body)
{
    uint8_t room[16];
    const struct rota_worker_field fields[] = {
        HEAD(job, room),
        {.number = 4, .bytes = job->payload},
        {.number = 5, .value = job->n_attempts},
        {.number = 6, .value = rota_worker_to_ms(job->timeout)},
        {.number = 7, .value = (uint64_t)(int64_t)job->priority},
        {.number = 8, .bytes = job->key},
        {.number = 9, .bytes = job->trace},
    };
    rota_worker_entry_write(body, 1, fields, ROTA_WORKER_N(fields));
}

bool rota_worker_job_next(struct rota_worker_batch *batch, struct rota_worker_job *job,
                          enum rota_code *code, struct rota_error *error)
{
    struct entry entry;
    if (!next_entry(batch, "a job", ROTA_WORKER_BIT(4) | ROTA_WORKER_BIT(8) | ROTA_WORKER_BIT(9),
                    ROTA_WORKER_BIT(5) | ROTA_WORKER_BIT(6) | ROTA_WORKER_BIT(7), &entry, code,
                    error))
        return false;
    int64_t priority = (int64_t)entry.fields.values[7];
    if (entry.fields.values[5] > UINT32_MAX || priority < INT16_MIN || priority > INT16_MAX)
        *code = rota_error_set(error, ROTA_ERR_INVALID,
                               "a job of priority %lld in attempt %llu: that can't be",
                               (long long)priority, (unsigned long long)entry.fields.values[5]);
    if (!*code)
        *code = check_size(&entry, 4, ROTA_JOB_PAYLOAD_MAX, "payload", error);
    if (!*code)
        *code = check_size(&entry, 8, ROTA_JOB_KEY_MAX, "key", error);
    if (!*code)
        *code = check_size(&entry, 9, ROTA_JOB_KEY_MAX, "trace id", error);
    if (*code)
        return false;
    *job = (struct rota_worker_job){
        .queue = entry.head.queue,
        .id = entry.head.id,
        .attempt = entry.head.attempt,
        .n_attempts = (uint32_t)entry.fields.values[5],
        .priority = (int16_t)priority,
        .timeout = rota_worker_from_ms(entry.fields.values[6]),
        .payload = entry.fields.bytes[4],
        .key = entry.fields.bytes[8],
        .trace = entry.fields.bytes[9],
    };
    return true;
}

void rota_worker_cancel_write(const struct rota_worker_cancel *cancel, struct rota_buffer *body)
{
    uint8_t room[16];
    const struct rota_worker_field fields[] = {
        HEAD(cancel, room),
        {.number = 4, .value = cancel->cause},
    };
    rota_worker_entry_write(body, 1, fields, ROTA_WORKER_N(fields));
}

bool rota_worker_cancel_next(struct rota_worker_batch *batch, struct rota_worker_cancel *cancel,
                             enum rota_code *code, struct rota_error *error)
{
    struct entry entry;
    if (!next_entry(batch, "a cancel", 0, ROTA_WORKER_BIT(4), &entry, code, error))
        return false;
    bool is_known = entry.fields.values[4] <= ROTA_JOB_CAUSE_HANDED_OVER;
    *cancel = (struct rota_worker_cancel){
        .queue = entry.head.queue,
        .id = entry.head.id,
        .attempt = entry.head.attempt,
        .cause = is_known ? (enum rota_job_cause)entry.fields.values[4] : ROTA_JOB_CAUSE_NONE,
    };
    return true;
}

void rota_worker_verdict_write(const struct rota_worker_verdict *verdict, struct rota_buffer *body)
{
    uint8_t room[16];
    const struct rota_worker_field fields[] = {
        HEAD(verdict, room),
        {.number = 4, .value = verdict->code},
    };
    rota_worker_entry_write(body, 1, fields, ROTA_WORKER_N(fields));
}

/* Each entry is a field of its own, of which the number changes. */
void rota_worker_ended_append(struct rota_str verdicts, struct rota_buffer *jobs)
{
    struct rota_lean_reader reader = rota_lean_reader(verdicts);
    struct rota_lean_field field = {0};
    while (rota_lean_next(&reader, &field) == ROTA_LEAN_FIELD) {
        char *to = rota_buffer_extend(jobs, rota_lean_bytes_size(2, field.bytes.size));
        if (to)
            rota_lean_put_bytes((uint8_t *)to, 2, field.bytes);
    }
}

bool rota_worker_verdict_next(struct rota_worker_batch *batch, struct rota_worker_verdict *verdict,
                              enum rota_code *code, struct rota_error *error)
{
    struct entry entry;
    if (!next_entry(batch, "a verdict", 0, ROTA_WORKER_BIT(4), &entry, code, error))
        return false;
    bool is_known = entry.fields.values[4] <= ROTA_ERR_STALE;
    *verdict = (struct rota_worker_verdict){
        .queue = entry.head.queue,
        .id = entry.head.id,
        .attempt = entry.head.attempt,
        .code = is_known ? (enum rota_code)entry.fields.values[4] : ROTA_ERR_INVALID,
    };
    return true;
}

/* --- what a worker says --- */

void rota_worker_end_write(const struct rota_attempt_end *end, struct rota_buffer *body)
{
    uint8_t room[16];
    const struct rota_worker_field fields[] = {
        HEAD(end, room),
        {.number = 4, .value = end->cause},
        {.number = 5, .bytes = end->bytes},
        {.number = 6, .bytes = end->reason},
        {.number = 7, .value = rota_worker_to_ms(end->retry_after)},
    };
    rota_worker_entry_write(body, 1, fields, ROTA_WORKER_N(fields));
}

bool rota_worker_end_next(struct rota_worker_batch *batch, struct rota_attempt_end *end,
                          enum rota_code *code, struct rota_error *error)
{
    struct entry entry;
    if (!next_entry(batch, "an end", ROTA_WORKER_BIT(5) | ROTA_WORKER_BIT(6),
                    ROTA_WORKER_BIT(4) | ROTA_WORKER_BIT(7), &entry, code, error))
        return false;
    bool is_known = entry.fields.values[4] <= ROTA_JOB_CAUSE_HANDED_OVER;
    *end = (struct rota_attempt_end){
        .queue = entry.head.queue,
        .id = entry.head.id,
        .attempt = entry.head.attempt,
        .cause = is_known ? (enum rota_job_cause)entry.fields.values[4] : ROTA_JOB_CAUSE_NONE,
        .bytes = entry.fields.bytes[5],
        .reason = entry.fields.bytes[6],
        .retry_after = rota_worker_from_ms(entry.fields.values[7]),
    };
    return true;
}

void rota_worker_step_write(const struct rota_worker_step *step, struct rota_buffer *body)
{
    uint8_t room[16];
    const struct rota_worker_field fields[] = {
        HEAD(step, room),
        {.number = 4, .bytes = step->text},
    };
    rota_worker_entry_write(body, 1, fields, ROTA_WORKER_N(fields));
}

bool rota_worker_step_next(struct rota_worker_batch *batch, struct rota_worker_step *step,
                           enum rota_code *code, struct rota_error *error)
{
    struct entry entry;
    if (!next_entry(batch, "a step", ROTA_WORKER_BIT(4), 0, &entry, code, error))
        return false;
    *step = (struct rota_worker_step){
        .queue = entry.head.queue,
        .id = entry.head.id,
        .attempt = entry.head.attempt,
        .text = entry.fields.bytes[4],
    };
    return true;
}

void rota_worker_slots_write(uint32_t slots, struct rota_buffer *body)
{
    char *to = slots ? rota_buffer_extend(body, rota_lean_number_size(1, slots)) : NULL;
    if (to)
        rota_lean_put_number((uint8_t *)to, 1, slots);
}

static enum rota_code check_slots(uint64_t slots, struct rota_error *error)
{
    if (slots <= ROTA_WORKER_SLOTS_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "%llu slots are more than %d",
                          (unsigned long long)slots, ROTA_WORKER_SLOTS_MAX);
}

enum rota_code rota_worker_slots_read(struct rota_str body, uint32_t *slots,
                                      struct rota_error *error)
{
    struct rota_worker_fields fields;
    if (!rota_worker_fields_read(body, 0, ROTA_WORKER_BIT(1), &fields))
        return rota_error_set(error, ROTA_ERR_INVALID, "the slots can't be read");
    enum rota_code code = check_slots(fields.values[1], error);
    if (!code)
        *slots = (uint32_t)fields.values[1];
    return code;
}

/* --- what a worker offers --- */

void rota_worker_ready_write(const struct rota_worker_ready *ready, struct rota_buffer *body)
{
    const struct {
        const struct rota_str *names;
        size_t n;
    } lists[] = {{ready->capabilities, ready->n_capabilities}, {ready->queues, ready->n_queues}};
    for (uint32_t k = 0; k < ROTA_WORKER_N(lists); k++)
        for (size_t i = 0; i < lists[k].n; i++) {
            struct rota_str name = lists[k].names[i];
            char *to = rota_buffer_extend(body, rota_lean_bytes_size(k + 1, name.size));
            if (to)
                rota_lean_put_bytes((uint8_t *)to, k + 1, name);
        }
    char *to =
        ready->slots ? rota_buffer_extend(body, rota_lean_number_size(3, ready->slots)) : NULL;
    if (to)
        rota_lean_put_number((uint8_t *)to, 3, ready->slots);
    to =
        ready->takes_ended_with_jobs ? rota_buffer_extend(body, rota_lean_number_size(5, 1)) : NULL;
    if (to)
        rota_lean_put_number((uint8_t *)to, 5, 1);
    for (size_t i = 0; i < ready->n_running; i++) {
        const struct rota_worker_running *running = &ready->running[i];
        uint8_t room[16];
        const struct rota_worker_field fields[] = {HEAD(running, room)};
        rota_worker_entry_write(body, 4, fields, ROTA_WORKER_N(fields));
    }
}

static enum rota_code too_many(const char *what, int max, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID, "a worker with more than %d %s", max, what);
}

static enum rota_code read_running(struct rota_str message, struct rota_worker_ready *ready,
                                   struct rota_error *error)
{
    struct entry entry;
    if (ready->n_running == ROTA_WORKER_SLOTS_MAX)
        return too_many("attempts that run", ROTA_WORKER_SLOTS_MAX, error);
    enum rota_code code = read_entry(message, "an attempt that runs", 0, 0, &entry, error);
    if (!code)
        ready->running[ready->n_running++] =
            (struct rota_worker_running){entry.head.queue, entry.head.id, entry.head.attempt};
    return code;
}

static enum rota_code read_ready_field(const struct rota_lean_field *field,
                                       struct rota_worker_ready *ready, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    bool is_number = field->number == 3 || field->number == 5;
    enum rota_lean_type wanted = is_number ? ROTA_LEAN_VARINT : ROTA_LEAN_BYTES;
    if (field->number > 5)
        return ROTA_OK;
    if (field->type != wanted)
        return rota_error_set(error, ROTA_ERR_INVALID, "field %u of ready is of another type",
                              field->number);
    switch (field->number) {
    case 1:
        if (ready->n_capabilities == ROTA_WORKER_CAPABILITIES_MAX)
            return too_many("capabilities", ROTA_WORKER_CAPABILITIES_MAX, error);
        code = rota_capability_check(field->bytes, error);
        ready->capabilities[ready->n_capabilities++] = field->bytes;
        return code;
    case 2:
        if (ready->n_queues == ROTA_WORKER_QUEUES_MAX)
            return too_many("queues", ROTA_WORKER_QUEUES_MAX, error);
        code = rota_job_queue_check(field->bytes, error);
        ready->queues[ready->n_queues++] = field->bytes;
        return code;
    case 3:
        code = check_slots(field->value, error);
        ready->slots = code ? 0 : (uint32_t)field->value;
        return code;
    case 5:
        ready->takes_ended_with_jobs = field->value != 0;
        return ROTA_OK;
    default:
        return read_running(field->bytes, ready, error);
    }
}

enum rota_code rota_worker_ready_read(struct rota_str body, struct rota_worker_ready *ready,
                                      struct rota_error *error)
{
    struct rota_lean_reader reader = rota_lean_reader(body);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    ready->n_capabilities = ready->n_queues = ready->n_running = 0;
    ready->slots = 0;
    ready->takes_ended_with_jobs = false;
    while ((found = rota_lean_next(&reader, &field)) == ROTA_LEAN_FIELD) {
        enum rota_code code = read_ready_field(&field, ready, error);
        if (code)
            return code;
    }
    if (found == ROTA_LEAN_MALFORMED)
        return rota_error_set(error, ROTA_ERR_INVALID, "what the worker offers can't be read");
    if (ready->n_queues == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "the worker serves no queue");
    return ROTA_OK;
}

/* --- what it has --- */

void rota_worker_check_write(const struct rota_worker_check *check, struct rota_buffer *body)
{
    const struct rota_worker_field fields[] = {
        {.number = 2, .value = check->up_to},
        {.number = 3, .value = check->round},
    };
    rota_worker_fields_write(body, fields, ROTA_WORKER_N(fields));
}

enum rota_code rota_worker_check_read(struct rota_str body, struct rota_worker_check *check,
                                      struct rota_error *error)
{
    struct rota_worker_fields fields;
    if (!rota_worker_fields_read(body, 0, ROTA_WORKER_BIT(2) | ROTA_WORKER_BIT(3), &fields))
        return rota_error_set(error, ROTA_ERR_INVALID, "what the broker asks can't be read");
    *check = (struct rota_worker_check){.up_to = fields.values[2], .round = fields.values[3]};
    return ROTA_OK;
}

void rota_worker_holds_write(const struct rota_worker_holds *holds, struct rota_buffer *body)
{
    const struct rota_worker_check check = {holds->up_to, holds->round};
    for (size_t i = 0; i < holds->n_held; i++) {
        uint8_t room[16];
        const struct rota_worker_field fields[] = {HEAD(&holds->held[i], room)};
        rota_worker_entry_write(body, 1, fields, ROTA_WORKER_N(fields));
    }
    rota_worker_check_write(&check, body);
    const struct rota_worker_field slots[] = {
        {.number = 4, .value = holds->has_slots ? (uint64_t)holds->slots + 1 : 0}};
    rota_worker_fields_write(body, slots, ROTA_WORKER_N(slots));
}

/* One more than they are; nothing when it does not say. */
static enum rota_code take_slots(const struct rota_lean_field *field,
                                 struct rota_worker_holds *holds, struct rota_error *error)
{
    if (field->type != ROTA_LEAN_VARINT)
        return rota_error_set(error, ROTA_ERR_INVALID, "the slots of the worker can't be read");
    holds->has_slots = field->value > 0;
    enum rota_code code = holds->has_slots ? check_slots(field->value - 1, error) : ROTA_OK;
    holds->slots = holds->has_slots && !code ? (uint32_t)(field->value - 1) : 0;
    return code;
}

enum rota_code rota_worker_holds_read(struct rota_str body, struct rota_worker_holds *holds,
                                      struct rota_error *error)
{
    struct rota_lean_reader reader = rota_lean_reader(body);
    struct rota_lean_field field = {0};
    struct rota_worker_check check = {0, 0};
    struct entry entry;
    enum rota_code code = rota_worker_check_read(body, &check, error);
    holds->n_held = holds->slots = 0;
    holds->has_slots = false;
    while (!code && rota_lean_next(&reader, &field) == ROTA_LEAN_FIELD) {
        if (field.number == 4)
            code = take_slots(&field, holds, error);
        if (field.number != 1)
            continue;
        if (holds->n_held == ROTA_WORKER_HELD_MAX)
            return too_many("attempts", ROTA_WORKER_HELD_MAX, error);
        if (field.type != ROTA_LEAN_BYTES)
            return rota_error_set(error, ROTA_ERR_INVALID, "what the worker has can't be read");
        code = read_entry(field.bytes, "an attempt that is held", 0, 0, &entry, error);
        if (!code)
            holds->held[holds->n_held++] =
                (struct rota_worker_running){entry.head.queue, entry.head.id, entry.head.attempt};
    }
    holds->up_to = code ? 0 : check.up_to;
    holds->round = code ? 0 : check.round;
    return code;
}
