/* check_claims: whether a shard ever has two owners.
 *
 * The observer asks nodes what they hold. An answer describes some time after its question was
 * sent; so what one answer says happened before every question that is sent after it has arrived,
 * whatever the nodes' clocks are. Then:
 *
 *     an epoch of a shard has one owner, whichever node reports it;
 *     no node holds a shard under an epoch when a later one was known to be held before it was
 *     asked;
 *     the epoch of a shard, as one node reports it, does not fall from one question to the next.
 *
 * Time is a counter here, which each arrival increments. */
#pragma once

#include "base/vector.h"
#include "demo/check.h"

enum {
    ROTA_CHECK_NODES_MAX = 64,
    ROTA_CHECK_SHARDS_MAX = 131072,
    ROTA_CHECK_CLAIMS_MAX = 1 << 21, /* of all shards; more are UNCHECKED */
};

struct rota_check_claim {
    uint64_t epoch;
    uint64_t held_at;         /* the time from which it is known to have been held; 0: not known */
    uint32_t owner;           /* place among the nodes */
    bool is_disputed, is_old; /* already reported: a fault counts once */
};

struct rota_check_shard {
    ROTA_VECTOR(struct rota_check_claim) claims; /* by epoch */
    bool is_awaited;                             /* to be held, since rota_check_claims_await() */
};

struct rota_check_claims {
    struct rota_check *check;
    const char *name;         /* of what is owned, for sentences */
    const char *const *nodes; /* their names */
    size_t n_nodes;
    struct rota_check_shard *shards;
    uint32_t n_shards;
    struct {
        uint64_t epoch, at;
    } * told; /* by node and shard: the highest epoch, and when it was reported */
    uint64_t now;
    size_t n_claims, n_awaited;
    uint64_t n_answers, n_moves; /* the latter: owners after the first */
};

/* Keeps `check`, `name` and `nodes`. False: there is no memory. */
bool rota_check_claims_init(struct rota_check_claims *claims, struct rota_check *check,
                            const char *name, const char *const *nodes, size_t n_nodes,
                            uint32_t n_shards);
void rota_check_claims_deinit(struct rota_check_claims *claims); /* zeroed ones, too */

/* The time of a question sent now. */
static inline uint64_t rota_check_claims_asked(const struct rota_check_claims *claims)
{
    return claims->now;
}

/* Node `owner` says that it may act for the shard under this epoch, in answer to a question sent
 * at `asked`. */
void rota_check_claims_held(struct rota_check_claims *claims, uint32_t shard, uint32_t owner,
                            uint64_t epoch, uint64_t asked);

/* Node `teller` says that the shard's epoch is this one, and `owner`'s; SIZE_MAX: of no known
 * node. */
void rota_check_claims_reported(struct rota_check_claims *claims, uint32_t shard, uint32_t teller,
                                size_t owner, uint64_t epoch, uint64_t asked);

/* All nodes are well from now on: each shard must be held once more. `n_awaited` are left. */
void rota_check_claims_await(struct rota_check_claims *claims);

/* Report shards that are still awaited as unowned. */
void rota_check_claims_judge(struct rota_check_claims *claims);
