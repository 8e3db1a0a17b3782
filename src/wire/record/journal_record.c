#include "wire/record/journal_record.h"

#include <assert.h>
#include <string.h>

/* The masks, in the order in which the fields are written; those that most records have come
 * first, so that the mask is short. Never change them. */
enum {
    HAS_ID = 1 << 0,
    HAS_QUEUE = 1 << 1,
    HAS_AT = 1 << 2,
    HAS_ATTEMPT = 1 << 3,
    HAS_N_ATTEMPTS = 1 << 4,
    HAS_WORKER = 1 << 5,
    HAS_TAG = 1 << 6,
    HAS_STATE = 1 << 7,
    HAS_CAUSE = 1 << 8,
    HAS_BYTES = 1 << 9,
    HAS_REASON = 1 << 10,
    HAS_SINCE = 1 << 11,
    HAS_NOT_BEFORE = 1 << 12,
    HAS_PRIORITY = 1 << 13,
    HAS_PARTITION = 1 << 14, /* only one that is not the id's */
    HAS_PAUSED = 1 << 15,
    HAS_WEIGHT = 1 << 16,
    HAS_EPOCH = 1 << 17,
    HAS_KEY = 1 << 18,
    HAS_LAYOUT = 1 << 19,
    HAS_LOST = 1 << 20,
    HAS_CHANGE = 1 << 21, /* of the layout */
    FIELDS = (1 << 22) - 1,
};

enum {
    SPEC_PAYLOAD = 1 << 0,
    SPEC_CAPABILITIES = 1 << 1,
    SPEC_PRIORITY = 1 << 2,
    SPEC_NOT_BEFORE = 1 << 3,
    SPEC_DEADLINE = 1 << 4,
    SPEC_TIMEOUT = 1 << 5,
    SPEC_MAX_ATTEMPTS = 1 << 6,
    SPEC_BACKOFF = 1 << 7,
    SPEC_BACKOFF_MAX = 1 << 8,
    SPEC_UNIQUE = 1 << 9,
    SPEC_KEY = 1 << 10,
    SPEC_TRACE = 1 << 11,
    SPEC_FIELDS = (1 << 12) - 1,
};

static bool has_spec(enum rota_work_record_type type)
{
    return type == ROTA_WORK_ADD || type == ROTA_WORK_JOB;
}

/* --- writing --- */

struct pen {
    struct rota_journal_batch *batch;
    const char *base;
    char *at;
};

static void put_number(struct pen *pen, uint64_t value)
{
    pen->at = rota_journal_put(pen->at, value);
}

static void put_from(struct pen *pen, uint64_t from, uint64_t value)
{
    put_number(pen, rota_journal_zigzag(from, value));
}

static void put_time(struct pen *pen, rota_time time)
{
    put_from(pen, (uint64_t)pen->batch->at, (uint64_t)time);
}

static void put_raw(struct pen *pen, uint64_t value)
{
    rota_journal_put_fixed(pen->at, value, 8);
    pen->at += 8;
}

static void put_bytes(struct pen *pen, struct rota_str bytes)
{
    put_number(pen, bytes.size);
    if (bytes.size > 0)
        memcpy(pen->at, bytes.data, bytes.size);
    pen->at += bytes.size;
}

/* Where to look for a name first: any place would do, as long as different names have different
 * places. */
static uint32_t place_of_name(struct rota_str name)
{
    uint64_t head = 0, tail = 0;
    if (name.size >= 8) {
        memcpy(&head, name.data, 8);
        memcpy(&tail, name.data + name.size - 8, 8);
    } else if (name.size >= 4) {
        memcpy(&head, name.data, 4);
        memcpy(&tail, name.data + name.size - 4, 4);
    } else if (name.size > 0) {
        head = (unsigned char)name.data[0];
        tail = (uint64_t)(unsigned char)name.data[name.size / 2] << 8 |
               (unsigned char)name.data[name.size - 1];
    }
    return (uint32_t)(((head ^ tail << 1 ^ name.size) * 0x9e3779b97f4a7c15u) >> 32);
}

/* 0 and the text; or 2 * place + 1 and the text, which has that place from now on; or
 * 2 * place + 2. A place is given once in a batch: when the frame that gave it is
 * damaged, those that refer to it are not misread. */
static void put_name(struct pen *pen, struct rota_str name)
{
    enum { PROBES = 4 };
    uint32_t hash = place_of_name(name);
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t place = (hash + i) % ROTA_JOURNAL_NAMES;
        struct rota_str known = {pen->base + pen->batch->names[place].offset,
                                 pen->batch->names[place].size};
        if (known.size == 0) {
            put_number(pen, 2 * place + 1);
            put_bytes(pen, name);
            pen->batch->names[place].offset = (size_t)(pen->at - pen->base) - name.size;
            pen->batch->names[place].size = name.size;
            return;
        }
        if (rota_str_is_equal(known, name)) {
            put_number(pen, 2 * place + 2);
            return;
        }
    }
    put_number(pen, 0);
    put_bytes(pen, name);
}

static unsigned spec_mask_of(const struct rota_job_spec *spec)
{
    unsigned mask = (spec->payload.size ? SPEC_PAYLOAD : 0) |
                    (spec->n_capabilities ? SPEC_CAPABILITIES : 0) |
                    (spec->priority ? SPEC_PRIORITY : 0);
    /* Most have none of these. */
    uint64_t others = (uint64_t)spec->not_before | (uint64_t)spec->deadline |
                      (uint64_t)spec->timeout | spec->max_attempts | (uint64_t)spec->backoff |
                      (uint64_t)spec->backoff_max | spec->unique.size | spec->key.size |
                      spec->trace.size;
    if (!others)
        return mask;
    return mask | (spec->not_before ? SPEC_NOT_BEFORE : 0) | (spec->deadline ? SPEC_DEADLINE : 0) |
           (spec->timeout ? SPEC_TIMEOUT : 0) | (spec->max_attempts ? SPEC_MAX_ATTEMPTS : 0) |
           (spec->backoff ? SPEC_BACKOFF : 0) | (spec->backoff_max ? SPEC_BACKOFF_MAX : 0) |
           (spec->unique.size ? SPEC_UNIQUE : 0) | (spec->key.size ? SPEC_KEY : 0) |
           (spec->trace.size ? SPEC_TRACE : 0);
}

static void put_times(struct pen *pen, const struct rota_job_spec *spec, unsigned mask)
{
    if (mask & SPEC_NOT_BEFORE)
        put_time(pen, spec->not_before);
    if (mask & SPEC_DEADLINE)
        put_time(pen, spec->deadline);
    if (mask & SPEC_TIMEOUT)
        put_from(pen, 0, (uint64_t)spec->timeout);
    if (mask & SPEC_MAX_ATTEMPTS)
        put_number(pen, spec->max_attempts);
    if (mask & SPEC_BACKOFF)
        put_from(pen, 0, (uint64_t)spec->backoff);
    if (mask & SPEC_BACKOFF_MAX)
        put_from(pen, 0, (uint64_t)spec->backoff_max);
}

static void put_spec(struct pen *pen, const struct rota_job_spec *spec)
{
    unsigned mask = spec_mask_of(spec);
    put_number(pen, mask);
    if (mask & SPEC_PAYLOAD)
        put_bytes(pen, spec->payload);
    if (mask & SPEC_CAPABILITIES) {
        put_number(pen, spec->n_capabilities);
        for (size_t i = 0; i < spec->n_capabilities; i++)
            put_name(pen, spec->capabilities[i]);
    }
    if (mask & SPEC_PRIORITY)
        put_from(pen, 0, (uint64_t)spec->priority);
    if (mask < SPEC_NOT_BEFORE)
        return;
    put_times(pen, spec, mask);
    if (mask & SPEC_UNIQUE)
        put_bytes(pen, spec->unique);
    if (mask & SPEC_KEY)
        put_name(pen, spec->key);
    if (mask & SPEC_TRACE)
        put_bytes(pen, spec->trace);
}

static unsigned rare_mask_of(const struct rota_work_record *record)
{
    return (record->since ? HAS_SINCE : 0) | (record->not_before ? HAS_NOT_BEFORE : 0) |
           (record->priority ? HAS_PRIORITY : 0) |
           (record->partition != rota_job_id_partition(record->id) ? HAS_PARTITION : 0) |
           (record->is_paused ? HAS_PAUSED : 0) | (record->weight ? HAS_WEIGHT : 0) |
           (record->epoch ? HAS_EPOCH : 0) | (record->key.size ? HAS_KEY : 0) |
           (record->layout ? HAS_LAYOUT : 0) | (record->lost ? HAS_LOST : 0) |
           (record->layout && record->layout->change.end ? HAS_CHANGE : 0);
}

static unsigned mask_of(const struct rota_work_record *record)
{
    unsigned mask = (rota_job_id_is_none(record->id) ? 0 : HAS_ID) |
                    (record->queue.size ? HAS_QUEUE : 0) | (record->at ? HAS_AT : 0) |
                    (record->attempt ? HAS_ATTEMPT : 0) |
                    (record->n_attempts ? HAS_N_ATTEMPTS : 0) |
                    (record->worker.size ? HAS_WORKER : 0) | (record->tag ? HAS_TAG : 0) |
                    (record->state ? HAS_STATE : 0) | (record->cause ? HAS_CAUSE : 0) |
                    (record->bytes.size ? HAS_BYTES : 0) | (record->reason.size ? HAS_REASON : 0);
    uint64_t rare = (uint64_t)record->since | (uint64_t)record->not_before |
                    (uint64_t)record->priority | record->is_paused | record->weight |
                    record->epoch | record->key.size | (record->layout != NULL) | record->lost |
                    (record->partition ^ rota_job_id_partition(record->id));
    return rare ? mask | rare_mask_of(record) : mask;
}

size_t rota_journal_record_bound(const struct rota_work_record *record)
{
    /* The maximum size of every number, length and place of a name. */
    size_t bound = (32 + ROTA_JOB_CAPABILITIES_MAX) * 2 * ROTA_JOURNAL_VARINT_MAX;
    bound += record->queue.size + record->key.size + record->worker.size + record->reason.size +
             record->bytes.size;
    if (!has_spec(record->type))
        return bound;
    const struct rota_job_spec *spec = record->spec;
    bound += spec->payload.size + spec->unique.size + spec->key.size + spec->trace.size;
    for (size_t i = 0; i < spec->n_capabilities; i++)
        bound += spec->capabilities[i].size;
    return bound;
}

static void put_rare(struct pen *pen, const struct rota_work_record *record, unsigned mask)
{
    if (mask & HAS_SINCE)
        put_time(pen, record->since);
    if (mask & HAS_NOT_BEFORE)
        put_time(pen, record->not_before);
    if (mask & HAS_PRIORITY)
        put_from(pen, 0, (uint64_t)record->priority);
    if (mask & HAS_PARTITION)
        put_number(pen, record->partition);
    if (mask & HAS_WEIGHT)
        put_number(pen, record->weight);
    if (mask & HAS_EPOCH)
        put_number(pen, record->epoch);
    if (mask & HAS_KEY)
        put_name(pen, record->key);
    if (mask & HAS_LAYOUT) {
        put_number(pen, record->layout->wanted);
        put_number(pen, record->layout->write);
        put_number(pen, record->layout->read);
        put_number(pen, record->layout->spread.batch);
        put_number(pen, record->layout->spread.mode);
    }
    if (mask & HAS_LOST)
        put_number(pen, record->lost);
    if (mask & HAS_CHANGE) {
        put_number(pen, record->layout->change.from.batch);
        put_number(pen, record->layout->change.from.mode);
        put_time(pen, record->layout->change.start);
        put_time(pen, record->layout->change.end);
    }
}

size_t rota_journal_record_encode(struct rota_journal_batch *batch,
                                  const struct rota_work_record *record, const char *base,
                                  char *body)
{
    struct pen pen = {batch, base, body};
    unsigned mask = mask_of(record);
    assert(!has_spec(record->type) || record->spec->n_capabilities <= ROTA_JOB_CAPABILITIES_MAX);
    *pen.at++ = (char)record->type;
    put_number(&pen, mask);
    if (mask & HAS_ID) {
        put_raw(&pen, record->id.high);
        put_raw(&pen, record->id.low);
    }
    if (mask & HAS_QUEUE)
        put_name(&pen, record->queue);
    if (mask & HAS_AT)
        put_time(&pen, record->at);
    if (mask & HAS_ATTEMPT)
        put_from(&pen, batch->attempt, record->attempt);
    if (mask & HAS_N_ATTEMPTS)
        put_number(&pen, record->n_attempts);
    if (mask & HAS_WORKER)
        put_name(&pen, record->worker);
    if (mask & HAS_TAG)
        put_from(&pen, batch->tag, record->tag);
    if (mask & HAS_STATE)
        put_number(&pen, record->state);
    if (mask & HAS_CAUSE)
        put_number(&pen, record->cause);
    if (mask & HAS_BYTES)
        put_bytes(&pen, record->bytes);
    if (mask & HAS_REASON)
        put_bytes(&pen, record->reason);
    if (mask >= HAS_SINCE)
        put_rare(&pen, record, mask);
    if (has_spec(record->type))
        put_spec(&pen, record->spec);
    return (size_t)(pen.at - body);
}

/* --- reading --- */

/* After the first error, everything that follows is zero. */
struct eye {
    struct rota_journal_batch *batch;
    const char *base, *at, *end;
    bool failed;
};

static uint64_t get_number(struct eye *eye, uint64_t max)
{
    uint64_t value = 0;
    const char *after = eye->failed ? NULL : rota_journal_get(eye->at, eye->end, &value);
    if (!after || value > max) {
        eye->failed = true;
        return 0;
    }
    eye->at = after;
    return value;
}

static uint64_t get_from(struct eye *eye, uint64_t from)
{
    uint64_t zigzag = get_number(eye, UINT64_MAX);
    return eye->failed ? 0 : rota_journal_unzigzag(from, zigzag);
}

static rota_time get_time(struct eye *eye)
{
    return (rota_time)get_from(eye, (uint64_t)eye->batch->at);
}

static rota_time get_span(struct eye *eye)
{
    return (rota_time)get_from(eye, 0);
}

static int16_t get_priority(struct eye *eye)
{
    int64_t priority = (int64_t)get_from(eye, 0);
    if (priority < INT16_MIN || priority > INT16_MAX)
        eye->failed = true;
    return eye->failed ? 0 : (int16_t)priority;
}

static uint64_t get_raw(struct eye *eye)
{
    uint64_t value = 0;
    if (eye->failed || eye->end - eye->at < 8) {
        eye->failed = true;
        return 0;
    }
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)(unsigned char)eye->at[i] << 8 * i;
    eye->at += 8;
    return value;
}

static struct rota_str get_bytes(struct eye *eye, size_t max)
{
    size_t size = (size_t)get_number(eye, max);
    if (eye->failed || size > (size_t)(eye->end - eye->at)) {
        eye->failed = true;
        return rota_str_of("", 0);
    }
    eye->at += size;
    return rota_str_of(eye->at - size, size);
}

static struct rota_str get_name(struct eye *eye, size_t max)
{
    uint64_t word = get_number(eye, 2 * ROTA_JOURNAL_NAMES);
    size_t place = word > 0 ? (size_t)(word - 1) / 2 : 0;
    if (word == 0 || word % 2 == 1) {
        struct rota_str name = get_bytes(eye, max);
        bool is_given = word != 0 && eye->batch->names[place].size > 0;
        if (eye->failed || name.size == 0 || is_given) {
            eye->failed = true;
        } else if (word != 0) {
            eye->batch->names[place].offset = (size_t)(name.data - eye->base);
            eye->batch->names[place].size = name.size;
        }
        return name;
    }
    size_t size = eye->batch->names[place].size;
    if (size == 0 || size > max)
        eye->failed = true;
    return eye->failed ? rota_str_of("", 0)
                       : rota_str_of(eye->base + eye->batch->names[place].offset, size);
}

static void get_capabilities(struct eye *eye, struct rota_journal_room *room)
{
    size_t n = (size_t)get_number(eye, ROTA_JOB_CAPABILITIES_MAX);
    for (size_t i = 0; i < n && !eye->failed; i++)
        room->capabilities[i] = get_name(eye, ROTA_CAPABILITY_NAME_MAX);
    room->spec.capabilities = room->capabilities;
    room->spec.n_capabilities = n;
}

static void get_spec(struct eye *eye, struct rota_work_record *record,
                     struct rota_journal_room *room)
{
    struct rota_job_spec *spec = &room->spec;
    unsigned mask = (unsigned)get_number(eye, SPEC_FIELDS);
    *spec = (struct rota_job_spec){.id = record->id, .queue = record->queue};
    spec->partition = record->partition;
    spec->payload = spec->unique = spec->key = spec->trace = rota_str_of("", 0);
    record->spec = spec;
    if (mask & SPEC_PAYLOAD)
        spec->payload = get_bytes(eye, ROTA_JOB_PAYLOAD_MAX);
    if (mask & SPEC_CAPABILITIES)
        get_capabilities(eye, room);
    if (mask & SPEC_PRIORITY)
        spec->priority = get_priority(eye);
    if (mask & SPEC_NOT_BEFORE)
        spec->not_before = get_time(eye);
    if (mask & SPEC_DEADLINE)
        spec->deadline = get_time(eye);
    if (mask & SPEC_TIMEOUT)
        spec->timeout = get_span(eye);
    if (mask & SPEC_MAX_ATTEMPTS)
        spec->max_attempts = (uint32_t)get_number(eye, UINT32_MAX);
    if (mask & SPEC_BACKOFF)
        spec->backoff = get_span(eye);
    if (mask & SPEC_BACKOFF_MAX)
        spec->backoff_max = get_span(eye);
    if (mask & SPEC_UNIQUE)
        spec->unique = get_bytes(eye, ROTA_JOB_KEY_MAX);
    if (mask & SPEC_KEY)
        spec->key = get_name(eye, ROTA_JOB_KEY_MAX);
    if (mask & SPEC_TRACE)
        spec->trace = get_bytes(eye, ROTA_JOB_KEY_MAX);
}

static void get_layout(struct eye *eye, struct rota_work_layout *layout)
{
    *layout = (struct rota_work_layout){0};
    layout->wanted = (uint32_t)get_number(eye, UINT32_MAX);
    layout->write = (uint32_t)get_number(eye, UINT32_MAX);
    layout->read = (uint32_t)get_number(eye, UINT32_MAX);
    layout->spread.batch = (uint32_t)get_number(eye, UINT32_MAX);
    layout->spread.mode = (enum rota_spread_mode)get_number(eye, ROTA_SPREAD_SLOTS);
}

static void get_rare(struct eye *eye, struct rota_work_record *record, unsigned mask,
                     struct rota_journal_room *room)
{
    if (mask & HAS_SINCE)
        record->since = get_time(eye);
    if (mask & HAS_NOT_BEFORE)
        record->not_before = get_time(eye);
    if (mask & HAS_PRIORITY)
        record->priority = get_priority(eye);
    if (mask & HAS_PARTITION)
        record->partition = (uint32_t)get_number(eye, UINT32_MAX);
    record->is_paused = mask & HAS_PAUSED;
    if (mask & HAS_WEIGHT)
        record->weight = (uint32_t)get_number(eye, UINT32_MAX);
    if (mask & HAS_EPOCH)
        record->epoch = get_number(eye, UINT64_MAX);
    if (mask & HAS_KEY)
        record->key = get_name(eye, ROTA_JOB_KEY_MAX);
    if (mask & HAS_LAYOUT) {
        get_layout(eye, &room->layout);
        record->layout = &room->layout;
    }
    if (mask & HAS_LOST)
        record->lost = (uint32_t)get_number(eye, ROTA_WORK_LOST_KILLED + ROTA_JOB_KEY_MAX);
    if (mask & HAS_CHANGE) {
        struct rota_layout_change *change = &room->layout.change;
        change->from.batch = (uint32_t)get_number(eye, UINT32_MAX);
        change->from.mode = (enum rota_spread_mode)get_number(eye, ROTA_SPREAD_SLOTS);
        change->start = get_time(eye);
        change->end = get_time(eye);
    }
}

static void get_fields(struct eye *eye, struct rota_work_record *record,
                       struct rota_journal_room *room)
{
    unsigned mask = (unsigned)get_number(eye, FIELDS);
    if (mask & HAS_ID) {
        record->id.high = get_raw(eye);
        record->id.low = get_raw(eye);
    }
    record->partition = rota_job_id_partition(record->id);
    if (mask & HAS_QUEUE)
        record->queue = get_name(eye, ROTA_JOB_QUEUE_NAME_MAX);
    if (mask & HAS_AT)
        record->at = get_time(eye);
    if (mask & HAS_ATTEMPT)
        record->attempt = get_from(eye, eye->batch->attempt);
    if (mask & HAS_N_ATTEMPTS)
        record->n_attempts = (uint32_t)get_number(eye, UINT32_MAX);
    if (mask & HAS_WORKER)
        record->worker = get_name(eye, ROTA_WORKER_NAME_MAX);
    if (mask & HAS_TAG)
        record->tag = get_from(eye, eye->batch->tag);
    if (mask & HAS_STATE)
        record->state = (enum rota_job_state)get_number(eye, ROTA_JOB_STATES - 1);
    if (mask & HAS_CAUSE)
        record->cause = (enum rota_job_cause)get_number(eye, ROTA_JOB_CAUSE_HANDED_OVER);
    if (mask & HAS_BYTES)
        record->bytes = get_bytes(eye, ROTA_JOB_PAYLOAD_MAX);
    if (mask & HAS_REASON)
        record->reason = get_bytes(eye, ROTA_JOB_REASON_MAX);
    get_rare(eye, record, mask, room);
}

bool rota_journal_record_is_known(struct rota_str body)
{
    struct eye eye = {.at = body.data, .end = body.data + body.size};
    return get_number(&eye, UINT64_MAX) < ROTA_WORK_RECORDS || eye.failed;
}

bool rota_journal_record_decode(struct rota_journal_batch *batch, const char *base,
                                struct rota_str body, struct rota_work_record *record,
                                struct rota_journal_room *room)
{
    struct eye eye = {batch, base, body.data, body.data + body.size, false};
    struct rota_str none = rota_str_of("", 0);
    struct rota_work_record read = {
        .queue = none, .key = none, .worker = none, .reason = none, .bytes = none};
    read.type = (enum rota_work_record_type)get_number(&eye, ROTA_WORK_RECORDS - 1);
    get_fields(&eye, &read, room);
    if (has_spec(read.type))
        get_spec(&eye, &read, room);
    if (eye.failed || eye.at != eye.end)
        return false;
    *record = read;
    return true;
}

bool rota_journal_record_peek(struct rota_str body, struct rota_job_id *id)
{
    struct eye eye = {.at = body.data, .end = body.data + body.size};
    get_number(&eye, ROTA_WORK_RECORDS - 1);
    uint64_t mask = get_number(&eye, FIELDS);
    struct rota_job_id found = {.high = get_raw(&eye)};
    found.low = get_raw(&eye);
    if (eye.failed || !(mask & HAS_ID))
        return false;
    *id = found;
    return true;
}
