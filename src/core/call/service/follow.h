/* follow: to which owner a call of a space goes, and when it waits instead.
 *
 *     no map, no owner, shard moving         wait for the directory
 *     the claim that was just rejected,      wait for another one, or for a growing pause: the
 *       or whose owner is unreachable          server may be the one that is behind
 *     another claim                          go
 *
 * A rejection may name the current claim, which is followed at once, at most ROTA_FOLLOW_HOPS_MAX
 * times in a row; then only the directory's next claim counts, or the end of a pause: two servers
 * that name each other are not called in a circle. */
#pragma once

#include "core/call/backoff.h"
#include "core/call/failure.h"
#include "core/call/service/space_table.h"

enum { ROTA_FOLLOW_HOPS_MAX = 3 };

#define ROTA_FOLLOW_PAUSE     (20 * ROTA_MSEC)
#define ROTA_FOLLOW_PAUSE_MAX ROTA_SEC

enum rota_follow_reason {
    ROTA_FOLLOW_NONE,        /* it does not wait */
    ROTA_FOLLOW_NO_MAP,      /* no directory has sent the space yet */
    ROTA_FOLLOW_NO_SHARD,    /* the space has no such shard: it never will */
    ROTA_FOLLOW_NO_OWNER,    /* the shard has none */
    ROTA_FOLLOW_MOVING,      /* its next owner waits for the former one */
    ROTA_FOLLOW_REJECTED,    /* by the only owner that is known */
    ROTA_FOLLOW_UNREACHABLE, /* the only owner that is known */
    ROTA_FOLLOW_CIRCLE,      /* too many hops */
};

struct rota_follow {
    struct rota_backoff backoff;
    uint32_t n_hops;          /* to learned claims, in a row */
    uint64_t directory_epoch; /* the claim of the directory that was last gone by */
    int64_t refused_node;     /* the last claim that failed; epoch 0: none */
    uint64_t refused_epoch;
    enum rota_follow_reason refused_why;
    rota_time retry_at;    /* the same claim, not before */
    uint64_t circle_epoch; /* the directory's claim when there were too many hops */
    rota_time waits_since; /* ROTA_TIME_NEVER: it does not wait */
    enum rota_follow_reason reason;
};

void rota_follow_init(struct rota_follow *follow);

/* Where to go now: the replicas in `*result`; none: wait until `*until`, or the map changes.
 * ROTA_TIME_NEVER: only for the map. `node_of` numbers addresses. True when it has waited, and has
 * another claim to go by now. */
bool rota_follow_look(struct rota_follow *follow, struct rota_space_table *table, rota_time now,
                      uint32_t shard, int64_t (*node_of)(struct rota_str address),
                      struct rota_space_table_shard *result, rota_time *until);

/* A try on this claim has failed. If the rejection named another one, it is in the table now. */
void rota_follow_failed(struct rota_follow *follow, rota_time now, int64_t node, uint64_t epoch,
                        enum rota_failure failure, struct rota_random *random);

/* Whether a failure says that the owner is another one, or can't be reached: the call waits and
 * continues, whatever its number of tries, since no server has acted on it. */
bool rota_follow_is_followed(enum rota_failure failure);
