/* Leases: shards that this process owns, each for a bounded time.
 *
 * The shards of a data centre (dc) are rows of a table in a store (<rota/store.h>).
 * A lease seeks until it holds as many of them as it is to hold, keeps them while it
 * can be shown that they are its own, and gives them back at the end. Processes that
 * find nothing to hold stand by. docs/leases.md says what is promised under which
 * faults.
 *
 *     spare --on_start--> held --on_stop, and on_lost unless we wanted it--> spare
 *
 * Each grant has an epoch, which grows with each new holder. What is done under a
 * lease carries its epoch, so that whoever receives it can refuse one that is over;
 * and right before each effect rota_lease_check() is asked, for a process may be
 * stopped anywhere, for any time, and no timer fires before it goes on. */
#pragma once

#include <rota/claims.h>
#include <rota/error.h>
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
    ROTA_LEASE_DEAD_MAX = 16,      /* offered with one claim */
};

/* Bounds of a ttl. */
#define ROTA_LEASE_TTL_MIN (100 * ROTA_MSEC)
#define ROTA_LEASE_TTL_MAX ROTA_HOUR

/* Epochs come from others, and one more has to fit a signed column. */
#define ROTA_LEASE_EPOCH_MAX ((uint64_t)INT64_MAX / 2)

/* A row of the table that nobody keeps up any more: it may be taken if it still is like
 * this. */
struct rota_lease_dead {
    uint32_t shard;
    uint64_t epoch, pings;
};

/* Why a shard is no longer served. */
enum rota_lease_why {
    ROTA_LEASE_WHY_EXPIRED,   /* no ping was confirmed in time */
    ROTA_LEASE_WHY_TAKEN,     /* the table says that it is not ours */
    ROTA_LEASE_WHY_WENT_BACK, /* the table says so with an earlier epoch: it lost its memory */
    ROTA_LEASE_WHY_BEHIND,    /* somebody knows a later epoch */
    ROTA_LEASE_WHY_SHUTDOWN,  /* we were told to */
};

/* "went back" for ROTA_LEASE_WHY_WENT_BACK. Any thread. */
const char *rota_lease_why_text(enum rota_lease_why why);

/* What becomes of the process when it has lost a shard, after `on_lost`. */
enum rota_lease_loss {
    ROTA_LEASE_LOSS_ABORT,   /* abort(): nothing that still runs can do harm */
    ROTA_LEASE_LOSS_EXIT,    /* exit(EXIT_FAILURE) */
    ROTA_LEASE_LOSS_STANDBY, /* it goes on, and seeks anew */
};

/* The texts are copied. */
struct rota_lease_options {
    const char *space; /* the set of shards */
    const char *dc;    /* data centre: each has all shards of the space */
    const char *host;  /* this process' name, the same after a restart: what the host of this
                        * name held last is its first choice */
    uint32_t shards;   /* of the dc: 1 .. ROTA_LEASE_SHARDS_MAX */
    uint32_t wanted;   /* to hold at a time, at most; 0 means 1; held within `shards` */
    rota_time ttl;     /* how long one grant lasts; 0 means 10 s */

    /* No other process can have our host's name now, because we hold its port or a
     * lock: then what it still holds in the table is ours to take at once. */
    bool is_alone;

    /* Make `shards` the number of the dc's shards if it has another; otherwise that is
     * refused. */
    bool is_reshard;

    enum rota_lease_loss loss;

    /* Serve this shard from now on, and no more. In `on_stop` the lease is not held any
     * longer: nothing may be done under it. Each may be NULL, and may call any function
     * of this header. */
    void (*on_start)(void *data, uint32_t shard, uint64_t epoch);
    void (*on_stop)(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why);

    /* A shard was lost: after the `on_stop` of all that were lost with it, before
     * `loss` is done. May be NULL. */
    void (*on_lost)(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why);

    /* The store refuses the claim, and will again until something is changed: the dc has
     * another number of shards, the tables are missing rights. Told when it begins or the
     * reason becomes another; it is asked on. NULL: the log is told. */
    void (*on_refused)(void *data, const struct rota_error *error);

    /* Kept up to date with what is held: of `space`, the shard's name is its number in
     * decimal, the owner is `node` at `address` (NULL: not known), `until` is when it
     * ends by itself. Kept; NULL: none. */
    struct rota_claims *claims;
    int64_t node;
    const char *address;

    const struct rota_log *log;   /* kept; NULL: none */
    struct rota_metrics *metrics; /* kept; NULL: nothing is counted for others */
    void *data;                   /* kept */
};

/* Start to seek. `loop` and `store` are kept until the lease is closed. A database that
 * is away is no error: the lease seeks until it is back. Gives `*lease`;
 * rota_lease_close() ends it. */
enum rota_code rota_lease_open(struct uv_loop_s *loop, struct rota_store *store,
                               const struct rota_lease_options *options, struct rota_lease **lease,
                               struct rota_error *error);

/* Give back what is held. Takes `lease`, which may be NULL. `on_stop` of what is held is
 * called before this returns (in a callback: soon after it returns); then the shards are
 * released, which takes at most one ttl, and `on_closed`, which may be NULL, is called
 * from the loop. Until then the store has to stay open. */
void rota_lease_close(struct rota_lease *lease, void (*on_closed)(void *data), void *data);

/* Hold up to `wanted` shards from now on, 1 at least and never more than the options said.
 * Those above it are stopped and given back at once; `on_stop` says shutdown. So processes
 * that know of each other can divide the shards among themselves. */
void rota_lease_set_wanted(struct rota_lease *lease, uint32_t wanted);

/* Whether the shard is ours under this epoch, now: reads the clock at each call. Ask it
 * right before each effect. */
bool rota_lease_check(const struct rota_lease *lease, uint32_t shard, uint64_t epoch);

/* The epoch under which the shard is ours now; 0: it is not. */
uint64_t rota_lease_epoch(const struct rota_lease *lease, uint32_t shard);

struct rota_lease_shard {
    uint32_t shard;
    uint64_t epoch;
    rota_time left; /* span: until it ends, if no ping is confirmed any more */
};

/* Write what is held now into `shards`, `n_max` at most, in no useful order; returns how
 * many are held, which may be more. */
size_t rota_lease_shards(const struct rota_lease *lease, struct rota_lease_shard *shards,
                         size_t n_max);

/* Somebody knows `epoch` of the shard; if that is later than ours, ours is over. For
 * callers that are trusted: whoever may call this can end a lease. */
enum rota_code rota_lease_seen(struct rota_lease *lease, uint32_t shard, uint64_t epoch,
                               struct rota_error *error);

#ifdef __cplusplus
}
#endif
