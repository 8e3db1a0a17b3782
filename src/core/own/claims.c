#include "core/own/claims.h"

#include "base/map.h"
#include "core/own/shard_note.h"

#include <stdlib.h>

/* A claim as it is stored: its key, the names of its space and shard, and its address follow. */
struct record {
    struct rota_claim claim; /* its strings point to the bytes that follow */
    struct rota_str key;     /* the note of its shard, so that a call's note finds it as it is */
};

/* Until when the claims of a space may be held. */
struct limit {
    rota_time until;
    struct rota_str space; /* its text follows */
};

struct rota_claims {
    struct rota_map records;
    struct rota_map limits; /* by space */

    /* The one that was set last, which saves a look-up where there is one space; or NULL. */
    const struct limit *last_limit;
};

enum rota_code rota_claims_new(uint64_t seed, struct rota_claims **result, struct rota_error *error)
{
    struct rota_claims *claims = calloc(1, sizeof *claims);
    if (!claims)
        return rota_error_no_memory(error, "for claims");
    rota_map_init(&claims->records, seed);
    rota_map_init(&claims->limits, seed);
    *result = claims;
    return ROTA_OK;
}

void rota_claims_free(struct rota_claims *claims)
{
    if (!claims)
        return;
    rota_map_deinit_values(&claims->records);
    rota_map_deinit_values(&claims->limits);
    free(claims);
}

/* NULL also for names that no claim can have. */
static struct record *find_claim(const struct rota_claims *claims, struct rota_str space,
                                 struct rota_str shard)
{
    char room[ROTA_SHARD_NOTE_MAX];
    return rota_map_get(&claims->records, rota_shard_note_format(space, shard, room));
}

/* Copies a text to `*end`, which moves to the end of the copy. */
static struct rota_str put_text(char **end, struct rota_str text)
{
    struct rota_str copy = rota_str_of(*end, text.size);
    if (text.size > 0)
        memcpy(*end, text.data, text.size);
    *end += text.size;
    return copy;
}

static struct record *record_new(const struct rota_claim *claim, struct rota_str key)
{
    struct record *record = malloc(sizeof *record + key.size + claim->space.size +
                                   claim->shard.size + claim->address.size);
    if (!record)
        return NULL;
    char *end = (char *)(record + 1);
    record->claim = *claim;
    record->key = put_text(&end, key);
    record->claim.space = put_text(&end, claim->space);
    record->claim.shard = put_text(&end, claim->shard);
    record->claim.address = put_text(&end, claim->address);
    return record;
}

/* An address becomes part of error messages. */
static bool is_address(struct rota_str address)
{
    for (size_t i = 0; i < address.size; i++)
        if (address.data[i] <= ' ' || address.data[i] > '~')
            return false;
    return address.size <= ROTA_SHARD_NAME_MAX;
}

static enum rota_code check_news(const struct rota_claim *known, const struct rota_claim *claim,
                                 struct rota_error *error)
{
    if (claim->epoch < known->epoch)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "claims: epoch %llu is older than the known epoch %llu",
                              (unsigned long long)claim->epoch, (unsigned long long)known->epoch);
    if (claim->epoch == known->epoch && claim->node != known->node)
        return rota_error_set(
            error, ROTA_ERR_INVALID, "claims: epoch %llu belongs to node %lld, not to node %lld",
            (unsigned long long)claim->epoch, (long long)known->node, (long long)claim->node);
    return ROTA_OK;
}

enum rota_code rota_claims_set(struct rota_claims *claims, const struct rota_claim *claim,
                               struct rota_error *error)
{
    char room[ROTA_SHARD_NOTE_MAX];
    struct rota_str key = rota_shard_note_format(claim->space, claim->shard, room);
    if (key.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "claims: a space and a shard have names of 1 to %d bytes",
                              ROTA_SHARD_NAME_MAX);
    if (claim->node < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "claims: node %lld is negative",
                              (long long)claim->node);
    if (!is_address(claim->address))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "claims: an address has at most %d printable characters and no spaces",
            ROTA_SHARD_NAME_MAX);
    struct record *known = rota_map_get(&claims->records, key);
    enum rota_code code = known ? check_news(&known->claim, claim, error) : ROTA_OK;
    if (code)
        return code;
    if (known && rota_str_is_equal(known->claim.address, claim->address)) { /* as renewed ones do */
        known->claim.node = claim->node;
        known->claim.epoch = claim->epoch;
        known->claim.is_held = claim->is_held;
        known->claim.until = claim->until;
        return ROTA_OK;
    }
    if (!known && claims->records.size >= ROTA_CLAIMS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "claims: more than %d", ROTA_CLAIMS_MAX);
    struct record *record = record_new(claim, key);
    if (!record || !rota_map_put(&claims->records, record->key, record)) {
        free(record);
        return rota_error_no_memory(error, "for claims");
    }
    free(known);
    return ROTA_OK;
}

bool rota_claims_drop(struct rota_claims *claims, struct rota_str space, struct rota_str shard,
                      uint64_t epoch)
{
    struct record *record = find_claim(claims, space, shard);
    if (!record || record->claim.epoch > epoch)
        return false;
    rota_map_remove(&claims->records, record->key);
    free(record);
    return true;
}

/* At most as many as there are claims, since callers choose the names of spaces. */
enum rota_code rota_claims_limit(struct rota_claims *claims, struct rota_str space, rota_time until,
                                 struct rota_error *error)
{
    struct limit *limit = rota_map_get(&claims->limits, space);
    if (space.size == 0 || space.size > ROTA_SHARD_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "claims: a space has a name of 1 to %d bytes", ROTA_SHARD_NAME_MAX);
    if (limit && until == 0) {
        rota_map_remove(&claims->limits, space);
        claims->last_limit = NULL;
        free(limit);
    } else if (limit) {
        limit->until = until;
        claims->last_limit = limit;
    } else if (until != 0) {
        if (claims->limits.size >= ROTA_CLAIMS_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT, "claims: more than %d", ROTA_CLAIMS_MAX);
        limit = malloc(sizeof *limit + space.size);
        if (!limit)
            return rota_error_no_memory(error, "for claims");
        memcpy(limit + 1, space.data, space.size);
        *limit = (struct limit){until, rota_str_of((char *)(limit + 1), space.size)};
        if (!rota_map_put(&claims->limits, limit->space, limit)) {
            free(limit);
            return rota_error_no_memory(error, "for claims");
        }
    }
    return ROTA_OK;
}

/* When the claim ends by itself, with the limit of its space; 0: it does not. */
static rota_time until_of(const struct rota_claims *claims, const struct rota_claim *claim)
{
    const struct limit *limit = claims->last_limit;
    if (!limit || !rota_str_is_equal(limit->space, claim->space))
        limit = rota_map_get(&claims->limits, claim->space);
    if (!limit || (claim->until != 0 && claim->until < limit->until))
        return claim->until;
    return limit->until;
}

bool rota_claims_find(const struct rota_claims *claims, struct rota_str space,
                      struct rota_str shard, struct rota_claim *claim)
{
    const struct record *record = find_claim(claims, space, shard);
    if (!record)
        return false;
    *claim = record->claim;
    if (claim->is_held)
        claim->until = until_of(claims, &record->claim);
    return true;
}

bool rota_claims_next(const struct rota_claims *claims, size_t *place, struct rota_claim *claim)
{
    const struct rota_map_entry *entry = rota_map_next(&claims->records, place);
    if (entry)
        *claim = ((const struct record *)entry->value)->claim;
    return entry != NULL;
}

size_t rota_claims_size(const struct rota_claims *claims)
{
    return claims->records.size;
}

static enum rota_claims_answer check_record(const struct rota_claims *claims,
                                            const struct record *record, rota_time now,
                                            uint64_t epoch)
{
    if (!record)
        return ROTA_CLAIMS_NOT_HELD;
    if (epoch != record->claim.epoch)
        return epoch < record->claim.epoch ? ROTA_CLAIMS_STALE : ROTA_CLAIMS_AHEAD;
    if (!record->claim.is_held)
        return ROTA_CLAIMS_NOT_HELD;
    rota_time until = until_of(claims, &record->claim);
    return until == 0 || now < until ? ROTA_CLAIMS_HELD : ROTA_CLAIMS_NOT_HELD;
}

enum rota_claims_answer rota_claims_check(const struct rota_claims *claims, rota_time now,
                                          struct rota_str space, struct rota_str shard,
                                          uint64_t epoch)
{
    return check_record(claims, find_claim(claims, space, shard), now, epoch);
}

enum rota_claims_answer rota_claims_check_note(const struct rota_claims *claims, rota_time now,
                                               struct rota_str note, uint64_t epoch)
{
    return check_record(claims, rota_map_get(&claims->records, note), now, epoch);
}

const char *rota_claims_answer_name(enum rota_claims_answer answer)
{
    switch (answer) {
    case ROTA_CLAIMS_HELD:
        return "held";
    case ROTA_CLAIMS_STALE:
        return "stale";
    case ROTA_CLAIMS_NOT_HELD:
        return "not_held";
    case ROTA_CLAIMS_AHEAD:
        return "ahead";
    }
    return "unknown";
}
