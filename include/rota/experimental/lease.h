/* Leases: shards that this process owns, each for a limited time.
 *
 * The shards of a data center (dc) are rows of a table in a store (<rota/store.h>). A lease claims
 * shards until it holds as many as wanted, keeps them while it can prove that it owns them, and
 * releases them at the end. Processes that find no free shard are standbys. See docs/leases.md for
 * the guarantees under each fault.
 *
 *     standby --on_start--> held --on_stop, and on_lost unless intended--> standby
 *
 * Each grant has an epoch (fencing token), which grows with each new holder. Send the epoch along
 * with everything you do under the lease, so that the receiver can reject an old one, and call
 * rota_lease_check() right before each effect: a process can be paused anywhere, for any time, and
 * no timer fires before it continues. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/claims.h>
#include <rota/log.h>
#include <rota/metrics.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_lease;
struct rota_store;
struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_LEASE_SHARDS_MAX = 65536, /* of a dc */
    ROTA_LEASE_WANTED_MAX = 1024,  /* held by one process at a time */
    ROTA_LEASE_DEAD_MAX = 16,      /* dead holders named in one claim */
};

/* Bounds of a ttl. */
#define ROTA_LEASE_TTL_MIN (100 * ROTA_MSEC)
#define ROTA_LEASE_TTL_MAX ROTA_HOUR

/* Epochs come from other processes, and the next one must fit a signed column. */
#define ROTA_LEASE_EPOCH_MAX ((uint64_t)INT64_MAX / 2)

/* A row whose holder no longer renews it. It may be taken if it still has this epoch and these
 * pings. */
struct rota_lease_dead {
    uint32_t shard;
    uint64_t epoch, pings;
};

/* Why a shard is no longer held. */
enum rota_lease_why {
    ROTA_LEASE_WHY_EXPIRED,   /* no ping was confirmed in time */
    ROTA_LEASE_WHY_TAKEN,     /* according to the table we do not hold it */
    ROTA_LEASE_WHY_WENT_BACK, /* the table has an earlier epoch: it lost data */
    ROTA_LEASE_WHY_BEHIND,    /* a peer knows a later epoch */
    ROTA_LEASE_WHY_SHUTDOWN,  /* released on request */
};

/* "went back" for ROTA_LEASE_WHY_WENT_BACK. Any thread. */
const char *rota_lease_why_text(enum rota_lease_why why);

/* What the process does when it has lost a shard, after `on_lost`. */
enum rota_lease_loss {
    ROTA_LEASE_LOSS_ABORT,   /* abort(): no code that still runs can do harm */
    ROTA_LEASE_LOSS_EXIT,    /* exit(EXIT_FAILURE) */
    ROTA_LEASE_LOSS_STANDBY, /* continue, and claim again */
};

/* The strings are copied. */
struct rota_lease_options {
    const char *space; /* the set of shards */
    const char *dc;    /* data center; each has all shards of the space */
    /* This process's name, stable across restarts: it prefers the shards that it held last. */
    const char *host;
    uint32_t shards; /* in the dc: 1 to ROTA_LEASE_SHARDS_MAX */
    /* Most shards to hold; 0 means 1; at most `shards` and ROTA_LEASE_WANTED_MAX. */
    uint32_t wanted;
    rota_time ttl; /* duration of a grant; 0 means 10 s; ROTA_LEASE_TTL_MIN to ROTA_LEASE_TTL_MAX */

    /* No other process can have our host's name now, because we hold its port or a lock. Then we
     * may take at once what the table still lists as held by this name. */
    bool is_alone;

    /* If the dc has another number of shards, change it to `shards`; otherwise the claim is
     * rejected. */
    bool is_reshard;

    enum rota_lease_loss loss; /* default: ROTA_LEASE_LOSS_ABORT */

    /* Start serving the shard; stop serving it. When `on_stop` is called the lease is already over:
     * do nothing more under it. Each may be NULL, and may call any function of this header. */
    void (*on_start)(void *data, uint32_t shard, uint64_t epoch);
    void (*on_stop)(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why);

    /* A shard was lost. Called after `on_stop` of all shards lost with it and before `loss` is
     * carried out. May be NULL. */
    void (*on_lost)(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why);

    /* The store rejects the claim and will do so until something changes: the dc has another number
     * of shards, or rights on the tables are missing. Called when this begins and when the reason
     * changes; the lease keeps trying. NULL: the error is logged. */
    void (*on_refused)(void *data, const struct rota_error *error);

    /* Kept up to date with what is held. The claims are in `space`; a shard's name is its number in
     * decimal, the owner is `node` at `address` (NULL: unknown), `until` is when the lease expires.
     * Kept; NULL: none. */
    struct rota_claims *claims;
    int64_t node;
    const char *address;

    const struct rota_log *log;   /* kept; NULL: none */
    struct rota_metrics *metrics; /* kept; NULL: none */
    void *data;                   /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Starts to claim. `loop` and `store` are kept until the lease is closed. An unreachable database
 * is not an error: the lease keeps trying. Gives `*lease`; close it with rota_lease_close(). */
enum rota_code rota_lease_open(struct uv_loop_s *loop, struct rota_store *store,
                               const struct rota_lease_options *options, struct rota_lease **lease,
                               struct rota_error *error);

/* Releases everything. Takes `lease`, which may be NULL. `on_stop` of each held shard is called
 * before this returns (inside a callback: soon after). Then the shards are released, which takes at
 * most one ttl, and `on_closed`, which may be NULL, is called from the loop. Keep the store open
 * until then. */
void rota_lease_close(struct rota_lease *lease, void (*on_closed)(void *data), void *data);

/* Holds up to `wanted` shards from now on, at least 1 and at most as many as in the options. Shards
 * above that are stopped and released at once, with ROTA_LEASE_WHY_SHUTDOWN. Processes that know
 * each other can divide the shards this way. */
void rota_lease_set_wanted(struct rota_lease *lease, uint32_t wanted);

/* Whether this process holds the shard under this epoch, now: reads the clock at each call. Call it
 * right before each effect. */
bool rota_lease_check(const struct rota_lease *lease, uint32_t shard, uint64_t epoch);

/* The epoch under which this process holds the shard now; 0: it does not. */
uint64_t rota_lease_epoch(const struct rota_lease *lease, uint32_t shard);

struct rota_lease_shard {
    uint32_t shard;
    uint64_t epoch;
    rota_time left; /* duration until it expires if no further ping is confirmed */
};

/* Copies the shards held now into `shards`, unordered, at most `n_max`; returns how many are held,
 * which may be more. */
size_t rota_lease_shards(const struct rota_lease *lease, struct rota_lease_shard *shards,
                         size_t n_max);

/* Reports that a peer knows `epoch` of the shard; if it is later than ours, our lease ends. Only
 * for trusted callers: this call can end a lease. */
enum rota_code rota_lease_seen(struct rota_lease *lease, uint32_t shard, uint64_t epoch,
                               struct rota_error *error);

#ifdef __cplusplus
}
#endif
