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

enum rota_cache_effect rota_shard_cache_effect(enum rota_failure failure)
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
