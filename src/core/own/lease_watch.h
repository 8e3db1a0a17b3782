/* lease_watch: which rows of the lease table have not changed for too long.
 *
 * A live holder changes its row with every ping: the row's `pings` counts them. So a process that
 * sees the same row, with the same epoch and the same count, for as long as the holder's grant
 * lasts, by its own clock, knows that the holder has stopped. It may then take the row if that
 * still has this very version, which the table compares as it grants.
 *
 * The database's clock is not involved, so no jump of it can make a live holder look dead.
 *
 * Invariants: a version is counted from when it was first read, which is after its last ping was
 * sent, so it is dead no earlier than the holder's own grant ends. A row whose version is lower
 * than one seen before means that the database went back to an earlier state: counting starts
 * over. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/lease.h>
#include <rota/experimental/random.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of the table, as a LIST shows it. */
struct rota_lease_row {
    uint32_t shard;
    bool is_ours;      /* the last holder had our host's name */
    uint64_t instance; /* of the process that holds it; 0: free */
    uint64_t epoch;
    uint64_t pings; /* grows with every change of the row */
    rota_time ttl;  /* of the holder; clamped to the bounds of <rota/experimental/lease.h> */
};

struct rota_lease_sight {
    uint64_t epoch, pings; /* as last seen */
    uint64_t newest;       /* the highest epoch known of the shard, from any source */
    uint64_t instance;     /* of the holder as last seen; 0: free */
    rota_time since;       /* when this version was first read */
    rota_time ttl;
    rota_time inherited_until; /* a ttl after it was taken from a dead holder; 0: it was not */
    bool is_seen, is_counted, is_held, is_ours;
};

struct rota_lease_watch {
    struct rota_lease_sight *sights; /* by shard */
    uint32_t n_shards;
    uint64_t floor; /* the highest epoch known of any shard */
};

/* Nothing has been seen. `n_shards` is at most ROTA_LEASE_SHARDS_MAX. */
enum rota_code rota_lease_watch_init(struct rota_lease_watch *watch, uint32_t n_shards,
                                     struct rota_error *error);
void rota_lease_watch_deinit(struct rota_lease_watch *watch);

/* A row was read at `now`; `instance` is our own. False when the database went back: see above.
 * A row beyond the shards, or with an epoch out of bounds, is ignored. */
bool rota_lease_watch_see_row(struct rota_lease_watch *watch, rota_time now, uint64_t instance,
                              const struct rota_lease_row *row);

/* An epoch of the shard is known from another source: a grant, a ping, a caller. */
void rota_lease_watch_learn(struct rota_lease_watch *watch, uint32_t shard, uint64_t epoch);

/* A claim of ours was granted: the shard is ours under this epoch, whatever the rows showed. */
void rota_lease_watch_note_grant(struct rota_lease_watch *watch, rota_time now, uint32_t shard,
                                 uint64_t epoch, uint64_t instance);

/* The highest epoch known of a shard; 0: none is. */
uint64_t rota_lease_watch_newest(const struct rota_lease_watch *watch, uint32_t shard);

/* Start counting again; what was seen stays known. */
void rota_lease_watch_forget(struct rota_lease_watch *watch);

/* The longest grant that any process may have, as far as is known; at least `ttl`. */
rota_time rota_lease_watch_ttl_max(const struct rota_lease_watch *watch, rota_time ttl);

/* When the first row that another process holds is dead, if it does not change. */
rota_time rota_lease_watch_dead_at(const struct rota_lease_watch *watch);

/* How many shards have lost their holder at `now`: they are dead, or were taken from a dead
 * holder within the last ttl. All rows of one holder die within a ttl, since it had pinged each
 * of them in that time; so until the last one is dead the first still counts. */
uint32_t rota_lease_watch_orphans(const struct rota_lease_watch *watch, rota_time now);

/* Rows that are dead at `now`: those that were ours first, then others in random order, so that
 * processes that read the same table do not all claim the same row. Returns how many. */
size_t rota_lease_watch_dead(const struct rota_lease_watch *watch, rota_time now,
                             struct rota_random *random,
                             struct rota_lease_dead dead[ROTA_LEASE_DEAD_MAX]);
