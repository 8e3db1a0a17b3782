/* Claims: what this process knows of who owns which shard, and so whether a call
 * may be served here.
 *
 * A claim says: this shard, of this space, is this node's, since this epoch. The
 * epoch grows with each new owner, so of two claims the later one counts,
 * whichever came first. A call names the epoch that it was routed by; it is
 * served where the claim of just that epoch is held, and nowhere else:
 *
 *     the call's epoch  | claim is held here | is not     | no claim is known
 *     below the claim's | STALE              | STALE      | NOT_HELD
 *     the claim's       | HELD               | NOT_HELD   | NOT_HELD
 *     above it          | AHEAD              | AHEAD      | NOT_HELD
 *
 * AHEAD means that we are the ones who have not heard: somebody owns the shard
 * with a later epoch, perhaps we ourselves, and until we know who we must not act.
 *
 * A claim that is held for a bounded time ends by itself, checked by the clock of
 * each call: a process that was stopped and wakes up does not believe for one
 * moment longer that what it held is still its own. The clock is the one that goes
 * on while the machine is suspended (CLOCK_BOOTTIME), as leases need it.
 *
 * Give the claims to a server (<rota/server.h>) and it refuses by them. They
 * belong to one thread, the loop's. */
#pragma once

#include <rota/error.h>
#include <rota/shard.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROTA_CLAIMS_MAX = 262144 }; /* one more is refused with ROTA_ERR_LIMIT */

struct rota_claims;

/* Space and shard are of 1 to ROTA_SHARD_NAME_MAX bytes, any bytes. A collection
 * of <rota/shards.h> is a space, named by its id in decimal: its other names may be
 * aliases. */
struct rota_claim {
    struct rota_str space, shard;
    int64_t node; /* who owns it; not negative */
    uint64_t epoch;
    struct rota_str address; /* "host:port" of the node; empty: not known */
    bool is_held;            /* the node is this one */
    rota_time until;         /* on the boot clock: held no longer; 0 means until told */
};

/* Gives `*claims`; rota_claims_free() ends them, and accepts NULL. `seed` guards
 * the table against chosen names. */
enum rota_code rota_claims_new(uint64_t seed, struct rota_claims **claims,
                               struct rota_error *error);
void rota_claims_free(struct rota_claims *claims);

/* A claim was made, taken over or renewed, here or elsewhere; it is copied, in
 * place of the one that is known. ROTA_ERR_INVALID, and nothing changes, when that
 * one has a later epoch, or the same epoch and another node: an epoch has one
 * owner. */
enum rota_code rota_claims_set(struct rota_claims *claims, const struct rota_claim *claim,
                               struct rota_error *error);

/* The claim of this epoch is over, and who has the shard now is not known; whoever
 * knows it sets that instead. A later claim is left alone: false, as when there is
 * none. */
bool rota_claims_drop(struct rota_claims *claims, struct rota_str space, struct rota_str shard,
                      uint64_t epoch);

/* No claim of `space` is held beyond `until`, on the boot clock, whatever it says itself:
 * one word renews them all, where one lease stands for many shards. 0 ends that. */
enum rota_code rota_claims_limit(struct rota_claims *claims, struct rota_str space, rota_time until,
                                 struct rota_error *error);

/* What is known of a shard; false when nothing is. Borrowed until the next
 * change. */
bool rota_claims_find(const struct rota_claims *claims, struct rota_str space,
                      struct rota_str shard, struct rota_claim *claim);

/* All claims, in no useful order: start with *place = 0; false ends it. They must
 * not change meanwhile. */
bool rota_claims_next(const struct rota_claims *claims, size_t *place, struct rota_claim *claim);
size_t rota_claims_size(const struct rota_claims *claims);

enum rota_claims_answer {
    ROTA_CLAIMS_HELD,     /* here, at this epoch: go on */
    ROTA_CLAIMS_STALE,    /* there is a later claim */
    ROTA_CLAIMS_NOT_HELD, /* by us, as far as we know */
    ROTA_CLAIMS_AHEAD,    /* the caller knows a later claim than we do */
};

/* May a call that was routed with `epoch` be served here, at `now` on the
 * boot clock? Only if it is HELD. */
enum rota_claims_answer rota_claims_check(const struct rota_claims *claims, rota_time now,
                                          struct rota_str space, struct rota_str shard,
                                          uint64_t epoch);

/* "not_held" for ROTA_CLAIMS_NOT_HELD. Any thread. */
const char *rota_claims_answer_name(enum rota_claims_answer answer);

#ifdef __cplusplus
}
#endif
