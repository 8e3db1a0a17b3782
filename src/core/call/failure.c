#include "core/call/failure.h"

#include <assert.h>
#include <stddef.h>

struct row {
    const char *name;
    enum rota_cache_effect cache;
    enum rota_replica_effect replica;
    bool is_retried, is_refusal;
    enum rota_outcome outcome;
};

static const struct row rows[ROTA_FAILURES] = {
    [ROTA_FAILURE_NONE] = {"none", ROTA_CACHE_KEEP, ROTA_REPLICA_KEEP, false, false,
                           ROTA_OUTCOME_OK},
    [ROTA_FAILURE_INPUT] = {"input", ROTA_CACHE_KEEP, ROTA_REPLICA_KEEP, false, true,
                            ROTA_OUTCOME_INPUT},
    [ROTA_FAILURE_CANCELLED] = {"cancelled", ROTA_CACHE_KEEP, ROTA_REPLICA_KEEP, false, false,
                                ROTA_OUTCOME_CANCELLED},
    [ROTA_FAILURE_DEADLINE] = {"deadline", ROTA_CACHE_KEEP, ROTA_REPLICA_KEEP, false, false,
                               ROTA_OUTCOME_CANCELLED},
    [ROTA_FAILURE_TIMEOUT] = {"timeout", ROTA_CACHE_REFRESH, ROTA_REPLICA_EXCLUDE, true, false,
                              ROTA_OUTCOME_TIMEOUT},
    [ROTA_FAILURE_UNREACHABLE] = {"unreachable", ROTA_CACHE_REFRESH, ROTA_REPLICA_BLACKLIST, true,
                                  true, ROTA_OUTCOME_UNAVAILABLE},
    [ROTA_FAILURE_BROKEN] = {"broken", ROTA_CACHE_REFRESH, ROTA_REPLICA_BLACKLIST, true, false,
                             ROTA_OUTCOME_UNAVAILABLE},
    [ROTA_FAILURE_STALE] = {"stale", ROTA_CACHE_APPLY, ROTA_REPLICA_EXCLUDE, true, true,
                            ROTA_OUTCOME_INPUT},
    [ROTA_FAILURE_NOT_LOADED] = {"not_loaded", ROTA_CACHE_INVALIDATE, ROTA_REPLICA_EXCLUDE, true,
                                 true, ROTA_OUTCOME_UNAVAILABLE},
    [ROTA_FAILURE_OVERLOAD] = {"overload", ROTA_CACHE_KEEP, ROTA_REPLICA_EXCLUDE, true, true,
                               ROTA_OUTCOME_OVERLOAD},
    [ROTA_FAILURE_RETRIABLE] = {"retriable", ROTA_CACHE_KEEP, ROTA_REPLICA_EXCLUDE, true, false,
                                ROTA_OUTCOME_OTHER},
    [ROTA_FAILURE_INTERNAL] = {"internal", ROTA_CACHE_KEEP, ROTA_REPLICA_BLACKLIST, true, false,
                               ROTA_OUTCOME_OTHER},
    [ROTA_FAILURE_NO_REPLICA] = {"no_replica", ROTA_CACHE_KEEP, ROTA_REPLICA_KEEP, false, true,
                                 ROTA_OUTCOME_CANCELLED},
    [ROTA_FAILURE_LOCAL] = {"local", ROTA_CACHE_KEEP, ROTA_REPLICA_KEEP, false, true,
                            ROTA_OUTCOME_CANCELLED},
};

static const struct row *row_of(enum rota_failure failure)
{
    assert((size_t)failure < ROTA_FAILURES);
    return &rows[failure];
}

const char *rota_failure_name(enum rota_failure failure)
{
    return row_of(failure)->name;
}

enum rota_cache_effect rota_failure_cache_effect(enum rota_failure failure)
{
    return row_of(failure)->cache;
}

enum rota_replica_effect rota_failure_replica_effect(enum rota_failure failure)
{
    return row_of(failure)->replica;
}

enum rota_outcome rota_failure_outcome(enum rota_failure failure)
{
    return row_of(failure)->outcome;
}

bool rota_failure_is_retried(enum rota_failure failure)
{
    return row_of(failure)->is_retried;
}

bool rota_failure_is_refusal(enum rota_failure failure)
{
    return row_of(failure)->is_refusal;
}

/* The class with this name, as a node names it in its trailers; false, without effect, when
 * there is none. */
static bool parse_failure(struct rota_str name, enum rota_failure *failure)
{
    for (size_t i = 0; i < ROTA_FAILURES; i++)
        if (rota_str_is_equal(name, rota_str(rows[i].name))) {
            *failure = (enum rota_failure)i;
            return true;
        }
    return false;
}

/* Classes that only a node can know; the others are determined here. */
static bool is_named_by_nodes(enum rota_failure failure)
{
    return failure == ROTA_FAILURE_INPUT || failure == ROTA_FAILURE_STALE ||
           failure == ROTA_FAILURE_NOT_LOADED || failure == ROTA_FAILURE_OVERLOAD ||
           failure == ROTA_FAILURE_RETRIABLE || failure == ROTA_FAILURE_INTERNAL;
}

enum rota_failure rota_failure_of_reply(enum rota_status status, bool is_sent,
                                        struct rota_str named)
{
    enum rota_failure failure;
    if (status == ROTA_STATUS_OK)
        return ROTA_FAILURE_NONE;
    if (is_sent && parse_failure(named, &failure) && is_named_by_nodes(failure))
        return failure;
    switch (status) {
    case ROTA_STATUS_OK:
        return ROTA_FAILURE_NONE;
    case ROTA_STATUS_INVALID_ARGUMENT:
    case ROTA_STATUS_NOT_FOUND:
    case ROTA_STATUS_ALREADY_EXISTS:
    case ROTA_STATUS_PERMISSION_DENIED:
    case ROTA_STATUS_FAILED_PRECONDITION:
    case ROTA_STATUS_OUT_OF_RANGE:
    case ROTA_STATUS_UNIMPLEMENTED:
    case ROTA_STATUS_UNAUTHENTICATED:
        return ROTA_FAILURE_INPUT;
    case ROTA_STATUS_CANCELLED:
    case ROTA_STATUS_DEADLINE_EXCEEDED:
        return ROTA_FAILURE_TIMEOUT;
    case ROTA_STATUS_RESOURCE_EXHAUSTED:
        return ROTA_FAILURE_OVERLOAD;
    case ROTA_STATUS_ABORTED:
        return ROTA_FAILURE_RETRIABLE;
    case ROTA_STATUS_UNAVAILABLE:
        return is_sent ? ROTA_FAILURE_BROKEN : ROTA_FAILURE_UNREACHABLE;
    case ROTA_STATUS_UNKNOWN:
    case ROTA_STATUS_INTERNAL:
    case ROTA_STATUS_DATA_LOSS:
        return ROTA_FAILURE_INTERNAL;
    }
    return ROTA_FAILURE_INTERNAL; /* a number that gRPC does not have */
}

enum rota_failure rota_failure_of_answer(enum rota_code code)
{
    switch (code) {
    case ROTA_OK:
        return ROTA_FAILURE_NONE;
    case ROTA_ERR_INVALID:
        return ROTA_FAILURE_INPUT;
    case ROTA_ERR_NOT_FOUND:
        return ROTA_FAILURE_NOT_LOADED;
    case ROTA_ERR_STALE:
        return ROTA_FAILURE_STALE;
    case ROTA_ERR_UNAVAILABLE:
    case ROTA_ERR_IO:
        return ROTA_FAILURE_UNREACHABLE;
    case ROTA_ERR_UNKNOWN:
        return ROTA_FAILURE_BROKEN;
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_NO_MEMORY:
        return ROTA_FAILURE_LOCAL;
    }
    return ROTA_FAILURE_INTERNAL;
}

enum rota_status rota_failure_status(enum rota_failure failure)
{
    switch (failure) {
    case ROTA_FAILURE_NONE:
        return ROTA_STATUS_OK;
    case ROTA_FAILURE_INPUT:
        return ROTA_STATUS_INVALID_ARGUMENT;
    case ROTA_FAILURE_CANCELLED:
        return ROTA_STATUS_CANCELLED;
    case ROTA_FAILURE_DEADLINE:
    case ROTA_FAILURE_TIMEOUT:
        return ROTA_STATUS_DEADLINE_EXCEEDED;
    case ROTA_FAILURE_NOT_LOADED:
        return ROTA_STATUS_NOT_FOUND;
    case ROTA_FAILURE_OVERLOAD:
    case ROTA_FAILURE_LOCAL:
        return ROTA_STATUS_RESOURCE_EXHAUSTED;
    case ROTA_FAILURE_STALE:
    case ROTA_FAILURE_RETRIABLE:
        return ROTA_STATUS_ABORTED;
    case ROTA_FAILURE_INTERNAL:
        return ROTA_STATUS_INTERNAL;
    case ROTA_FAILURE_UNREACHABLE:
    case ROTA_FAILURE_BROKEN:
    case ROTA_FAILURE_NO_REPLICA:
        return ROTA_STATUS_UNAVAILABLE;
    }
    return ROTA_STATUS_UNKNOWN;
}

bool rota_failure_is_heard(enum rota_failure failure)
{
    enum rota_outcome outcome = rota_failure_outcome(failure);
    return outcome == ROTA_OUTCOME_OK || outcome == ROTA_OUTCOME_INPUT ||
           outcome == ROTA_OUTCOME_OVERLOAD;
}
