#include "core/work/job/job.h"

#include "base/hex.h"
#include "base/quote.h"
#include "base/sha256.h"

#include <string.h>

/* --- ids --- */

enum { CHANCE_BITS = 52 };

/* The low half of an id with its check, which depends on all other bits. */
static uint64_t check_low(struct rota_job_id id)
{
    uint64_t chance = id.low & (((uint64_t)1 << CHANCE_BITS) - 1);
    uint64_t mix = (id.high ^ chance << (64 - CHANCE_BITS)) * 0x9e3779b97f4a7c15u;
    mix = (mix ^ mix >> 32) * 0xd6e8feb86659fd93u;
    return mix >> CHANCE_BITS << CHANCE_BITS | chance;
}

struct rota_job_id rota_job_id_make(rota_time wall, uint32_t partition, uint64_t chance)
{
    uint64_t milliseconds = wall > 0 ? (uint64_t)(wall / ROTA_MSEC) : 0;
    struct rota_job_id id = {milliseconds << 16 | (partition & 0xffff), chance};
    id.low = check_low(id);
    if (rota_job_id_is_none(id)) {
        id.low = 1;
        id.low = check_low(id);
    }
    return id;
}

static uint64_t read_half(const uint8_t *bytes)
{
    uint64_t half = 0;
    for (int i = 0; i < 8; i++)
        half = half << 8 | bytes[i];
    return half;
}

struct rota_job_id rota_job_id_of_key(struct rota_str queue, struct rota_str key,
                                      uint32_t partitions)
{
    uint8_t digest[ROTA_SHA256_SIZE];
    const struct rota_str parts[] = {rota_str("rota job"), rota_str_of("", 1), queue,
                                     rota_str_of("", 1), key};
    rota_sha256(parts, sizeof parts / sizeof *parts, digest);
    struct rota_job_id id = {read_half(digest), read_half(digest + 8)};
    id.high = (id.high & ~(uint64_t)0xffff) | read_half(digest + 16) % partitions;
    if (rota_job_id_is_none(id))
        id.low = 1;
    if (rota_job_id_is_made(id))
        id.low ^= (uint64_t)1 << 63; /* a wrong check */
    return id;
}

bool rota_job_id_is_made(struct rota_job_id id)
{
    return id.low == check_low(id);
}

uint32_t rota_job_id_place(struct rota_job_id id, uint32_t partitions)
{
    uint32_t own = rota_job_id_partition(id);
    return own < partitions || rota_job_id_is_made(id) ? own : own % partitions;
}

char *rota_job_id_format(struct rota_job_id id, char text[ROTA_JOB_ID_TEXT])
{
    for (int i = 0; i < 32; i++) {
        uint64_t half = i < 16 ? id.high : id.low;
        text[i] = "0123456789abcdef"[half >> (60 - i % 16 * 4) & 15];
    }
    text[32] = '\0';
    return text;
}

enum rota_code rota_job_id_parse(struct rota_str text, struct rota_job_id *id,
                                 struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    enum { DIGITS = ROTA_JOB_ID_TEXT - 1, UUID = DIGITS + 4 };
    uint64_t halves[2] = {0};
    bool is_good = text.size == DIGITS || text.size == UUID;
    for (size_t i = 0, n = 0; is_good && i < text.size; i++) {
        if (text.size == UUID && (i == 8 || i == 13 || i == 18 || i == 23)) {
            is_good = text.data[i] == '-';
            continue;
        }
        int digit = rota_hex_digit(text.data[i]);
        is_good = digit >= 0;
        halves[n / 16] = halves[n / 16] << 4 | (uint64_t)(digit & 15);
        n++;
    }
    if (!is_good || (halves[0] == 0 && halves[1] == 0))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "%s is not a job id: an id is a UUID, or 32 hexadecimal digits that are not all 0",
            rota_quote(text, quoted));
    *id = (struct rota_job_id){halves[0], halves[1]};
    return ROTA_OK;
}

/* --- names --- */

const char *rota_job_state_name(enum rota_job_state state)
{
    switch (state) {
    case ROTA_JOB_WAITING:
        return "waiting";
    case ROTA_JOB_DELAYED:
        return "delayed";
    case ROTA_JOB_RUNNING:
        return "running";
    case ROTA_JOB_DONE:
        return "done";
    case ROTA_JOB_DEAD:
        return "dead";
    case ROTA_JOB_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

const char *rota_job_cause_text(enum rota_job_cause cause)
{
    switch (cause) {
    case ROTA_JOB_CAUSE_NONE:
        return "none";
    case ROTA_JOB_CAUSE_DONE:
        return "done";
    case ROTA_JOB_CAUSE_FAILED:
        return "failed";
    case ROTA_JOB_CAUSE_REFUSED:
        return "refused";
    case ROTA_JOB_CAUSE_LOST:
        return "lost";
    case ROTA_JOB_CAUSE_TIMED_OUT:
        return "timed out";
    case ROTA_JOB_CAUSE_GIVEN_BACK:
        return "given back";
    case ROTA_JOB_CAUSE_DEADLINE:
        return "deadline";
    case ROTA_JOB_CAUSE_CANCELLED:
        return "cancelled";
    case ROTA_JOB_CAUSE_RETRIED:
        return "retried";
    case ROTA_JOB_CAUSE_HANDED_OVER:
        return "handed over";
    }
    return "unknown";
}

const char *rota_job_work_record_name(enum rota_work_record_type type)
{
    static const char *const names[ROTA_WORK_RECORDS] = {
        "add",    "job",    "start", "retry", "end",   "revive", "priority", "pause",
        "weight", "forget", "life",  "own",   "chunk", "taken",  "layout",   "node",
    };
    return (unsigned)type < ROTA_WORK_RECORDS ? names[type] : "unknown";
}

/* --- checks --- */

/* Characters allowed in names, and those in capabilities only. */
enum { IN_NAMES = 1, IN_CAPABILITIES = 2, IN_BOTH = 3 };

__extension__ static const unsigned char allowed[256] = {
    ['a' ... 'z'] = IN_BOTH, ['A' ... 'Z'] = IN_BOTH, ['0' ... '9'] = IN_BOTH,
    ['.'] = IN_BOTH,         ['_'] = IN_BOTH,         ['-'] = IN_BOTH,
    [':'] = IN_CAPABILITIES, ['/'] = IN_CAPABILITIES, ['='] = IN_CAPABILITIES,
};

static bool is_made_of(struct rota_str text, unsigned char what)
{
    unsigned char all = what;
    for (size_t i = 0; i < text.size; i++)
        all &= allowed[(unsigned char)text.data[i]];
    return all == what;
}

struct rota_str rota_job_reason_cut(struct rota_str text, char room[ROTA_JOB_REASON_MAX])
{
    static const char MARK[] = "... (cut)";
    if (text.size <= ROTA_JOB_REASON_MAX)
        return text;
    size_t size = ROTA_JOB_REASON_MAX - (sizeof MARK - 1);
    for (int i = 0; i < 3 && ((unsigned char)text.data[size] & 0xc0) == 0x80; i++)
        size--; /* the rest of a character of UTF-8 */
    memcpy(room, text.data, size);
    memcpy(room + size, MARK, sizeof MARK - 1);
    return rota_str_of(room, size + sizeof MARK - 1);
}

enum rota_code rota_job_check_capability(struct rota_str name, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (name.size > 0 && name.size <= ROTA_CAPABILITY_NAME_MAX && is_made_of(name, IN_CAPABILITIES))
        return ROTA_OK;
    return rota_error_set(
        error, ROTA_ERR_INVALID,
        "%s is not a capability: use 1 to %d letters, digits, '.', '_', '-', ':', '/' "
        "or '='",
        rota_quote(name, quoted), ROTA_CAPABILITY_NAME_MAX);
}

enum rota_code rota_job_queue_check(struct rota_str name, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (name.size > 0 && name.size <= ROTA_JOB_QUEUE_NAME_MAX && is_made_of(name, IN_NAMES))
        return ROTA_OK;
    return rota_error_set(
        error, ROTA_ERR_INVALID,
        "%s is not the name of a queue: use 1 to %d letters, digits, '.', '_' or '-'",
        rota_quote(name, quoted), ROTA_JOB_QUEUE_NAME_MAX);
}

enum rota_code rota_job_check_size(struct rota_str bytes, size_t max, const char *what,
                                   struct rota_error *error)
{
    if (bytes.size <= max)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "the %s has %zu bytes, more than %zu", what,
                          bytes.size, max);
}

/* The time that is negative; NULL: none. */
static const char *find_negative(const struct rota_job_spec *spec)
{
    if (spec->not_before < 0)
        return "not-before";
    if (spec->deadline < 0)
        return "deadline";
    if (spec->timeout < 0)
        return "timeout";
    if (spec->backoff < 0)
        return "backoff";
    return spec->backoff_max < 0 ? "maximum backoff" : NULL;
}

static enum rota_code check_numbers(const struct rota_job_spec *spec, struct rota_error *error)
{
    if (spec->partition >= ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "partition %u is above %d", spec->partition,
                              ROTA_JOB_PARTITIONS_MAX - 1);
    if (spec->max_attempts > ROTA_JOB_ATTEMPTS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%u attempts are too many; at most %d are allowed",
                              spec->max_attempts, ROTA_JOB_ATTEMPTS_MAX);
    const char *negative = find_negative(spec);
    if (negative)
        return rota_error_set(error, ROTA_ERR_INVALID, "the %s is negative", negative);
    if (spec->deadline && spec->not_before >= spec->deadline)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the deadline is not after the not-before time");
    return ROTA_OK;
}

enum rota_code rota_job_spec_check(const struct rota_job_spec *spec, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(spec->queue, error);
    return code ? code : rota_job_spec_check_rest(spec, error);
}

enum rota_code rota_job_spec_check_rest(const struct rota_job_spec *spec, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    if (spec->n_capabilities > ROTA_JOB_CAPABILITIES_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the job needs %zu capabilities, more than %d", spec->n_capabilities,
                              ROTA_JOB_CAPABILITIES_MAX);
    for (size_t i = 0; !code && i < spec->n_capabilities; i++)
        code = rota_job_check_capability(spec->capabilities[i], error);
    if (!code)
        code = rota_job_check_size(spec->payload, ROTA_JOB_PAYLOAD_MAX, "payload", error);
    if (!code)
        code = rota_job_check_size(spec->unique, ROTA_JOB_KEY_MAX, "unique key", error);
    if (!code)
        code = rota_job_check_size(spec->key, ROTA_JOB_KEY_MAX, "fair key", error);
    if (!code)
        code = rota_job_check_size(spec->trace, ROTA_JOB_KEY_MAX, "trace id", error);
    return code ? code : check_numbers(spec, error);
}
