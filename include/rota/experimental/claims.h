/* Claims: which node owns which shard, as far as this process knows, and hence whether it may serve
 * a call.
 *
 * A claim says: this node owns this shard of this space since this epoch (fencing token). The epoch
 * grows with each new owner, so of two claims the later one counts, whichever arrived first. A call
 * names the epoch it was routed by. It is served only where the claim of exactly that epoch is
 * held:
 *
 *     the call's epoch  | claim is held here | is not     | no claim is known
 *     below the claim's | STALE              | STALE      | NOT_HELD
 *     the claim's       | HELD               | NOT_HELD   | NOT_HELD
 *     above it          | AHEAD              | AHEAD      | NOT_HELD
 *
 * AHEAD means that this process is behind: a node, perhaps this one, owns the shard under a later
 * epoch. Until this process knows which, it must not act.
 *
 * A claim that is held for a limited time expires by itself. Each check reads the clock, so a
 * process that was paused never acts on an expired claim. The clock is CLOCK_BOOTTIME, which runs
 * on while the machine is suspended, as leases require.
 *
 * Pass the claims to a server (<rota/server.h>) to have it reject calls by them. Use claims only on
 * the loop's thread. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/shard.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROTA_CLAIMS_MAX = 262144 }; /* more are rejected with ROTA_ERR_LIMIT */

struct rota_claims;

/* Space and shard have 1 to ROTA_SHARD_NAME_MAX bytes, of any value. A collection of
 * <rota/experimental/shards.h> is a space of the name that its map has, or of its id in decimal if
 * that is empty. */
struct rota_claim {
    struct rota_str space, shard;
    int64_t node; /* the owner; not negative */
    uint64_t epoch;
    struct rota_str address; /* "host:port" of the node; empty: unknown */
    bool is_held;            /* this process is the owner */
    rota_time until;         /* on the boot clock: when it expires; 0 means never */
};

/* Gives `*claims`; free them with rota_claims_free(), which accepts NULL. `seed` protects the hash
 * table against chosen names. */
enum rota_code rota_claims_new(uint64_t seed, struct rota_claims **claims,
                               struct rota_error *error);
void rota_claims_free(struct rota_claims *claims);

/* Sets a claim that was made, taken over or renewed, here or elsewhere; it is copied and replaces
 * the known claim. ROTA_ERR_INVALID, without change, if the known claim has a later epoch, or the
 * same epoch and another node: an epoch has one owner. */
enum rota_code rota_claims_set(struct rota_claims *claims, const struct rota_claim *claim,
                               struct rota_error *error);

/* Ends the claim of this epoch while the next owner is unknown; if it is known, set its claim
 * instead. Leaves a later claim alone. Returns false if there was nothing to end. */
bool rota_claims_drop(struct rota_claims *claims, struct rota_str space, struct rota_str shard,
                      uint64_t epoch);

/* Limits all claims of `space` to `until`, on the boot clock, whatever their own limits. One call
 * renews them all where one lease covers many shards. 0 removes the limit. */
enum rota_code rota_claims_limit(struct rota_claims *claims, struct rota_str space, rota_time until,
                                 struct rota_error *error);

/* Returns the known claim of a shard; false if there is none. Borrowed until the next change. */
bool rota_claims_find(const struct rota_claims *claims, struct rota_str space,
                      struct rota_str shard, struct rota_claim *claim);

/* Iterates over all claims, unordered: start with *place = 0; false after the last. The claims must
 * not change meanwhile. */
bool rota_claims_next(const struct rota_claims *claims, size_t *place, struct rota_claim *claim);
size_t rota_claims_size(const struct rota_claims *claims);

enum rota_claims_answer {
    ROTA_CLAIMS_HELD,     /* held here under this epoch: serve it */
    ROTA_CLAIMS_STALE,    /* a later claim exists */
    ROTA_CLAIMS_NOT_HELD, /* not held here, as far as this process knows */
    ROTA_CLAIMS_AHEAD,    /* the caller knows a later claim than this process */
};

/* Whether a call that was routed with `epoch` may be served here at `now`, on the boot clock: only
 * if HELD. */
enum rota_claims_answer rota_claims_check(const struct rota_claims *claims, rota_time now,
                                          struct rota_str space, struct rota_str shard,
                                          uint64_t epoch);

/* "not_held" for ROTA_CLAIMS_NOT_HELD. Any thread. */
const char *rota_claims_answer_name(enum rota_claims_answer answer);

#ifdef __cplusplus
}
#endif
