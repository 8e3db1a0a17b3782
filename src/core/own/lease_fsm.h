/* lease_fsm: when to claim shards, when to renew them, when to stop.
 *
 *     SPARE --claimed--> HELD --out of time, taken, behind, shutdown--> SPARE
 *
 * One machine per process and data center of a space. It seeks until it holds as many shards
 * as are wanted: it claims, and when there is nothing to take it reads the table now and then and
 * claims again when a row is free, or was ours while no other process can have our name, or has not
 * changed for too long (core/own/lease_watch.h). It sends heartbeats (pings) for the shards it
 * holds, and serves them for as long as they are provably its own.
 *
 * All times are of the holder's own clock, which also advances while the machine is suspended. A
 * grant is counted from when it was asked for, and a guard less than its length, so that we stop
 * before any process may take it, as long as two clocks differ in speed by less than the guard.
 *
 * The table, which is a database's or a simulated one, grants as follows. A row is (space, dc,
 * shard): host, instance, epoch, pings, last_ping, ttl.
 *  - CLAIM takes one row and answers with its shard and epoch, or with none. It may
 *    take, in this order: one that is free and was this host's, or that this host's
 *    name holds with another instance if the claim says that it is alone; a dead one
 *    that was this host's; any free one; any dead one. A row is dead if the claim names
 *    it with its present epoch and pings, and the database's clock agrees that it is out
 *    of time (last_ping + ttl < now, or last_ping > now + ttl, for a clock may have gone
 *    back). Never one that this instance holds. The new epoch is
 *    max(epoch + 1, floor + 1, unix milliseconds).
 *  - PING: held, when instance and epoch are the row's, or taken. An old row that
 *    no process has taken can be pinged back to life.
 *  - RELEASE: free, host kept, when instance and epoch are the row's.
 *  - Each of them adds one to `pings` of the row that it changes.
 *  - LIST: all rows. Rows that were never there are made by a claim, and stay.
 *
 * A dead holder is replaced one ttl and one read of the table later: a process that could hold more
 * reads it every ttl/20, or less often if it is large, and claims as soon as a row is dead.
 *
 * Processes that divide the shards among themselves each receive a share (SHARE). A process that
 * has its share keeps watching: when one of them dies, the others take its shards without waiting
 * for larger shares, each as much as its share would grow by, and a little later than processes
 * below their share. What is above the share is released after a ttl, unless the share has grown
 * until then.
 *
 * Pings that are due soon go out with one that is due, so that a driver can ask for all of them at
 * once. A ping without an answer is then repeated alone, because one locked row would hold up all
 * others.
 *
 * Every ask has a number and ends with one answer, at the latest when its connection is closed:
 * UNKNOWN is neither success nor failure. A ping is then repeated; after a claim the machine reads
 * the table, and releases rows that are ours but not served.
 *
 * Invariants: an answer to an ask that is not open changes nothing. After each step every shard
 * that is held has time left. STOP comes before anything that lets others have the shard. A
 * shard is started with an epoch above every known epoch of it. */
#pragma once

#include "core/own/lease_watch.h"

#include <rota/error.h>
#include <rota/experimental/random.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The minimum interval between two reads of the table, per shard in it. */
#define ROTA_LEASE_LOOK_PER_SHARD (20 * ROTA_USEC)

struct rota_lease_fsm_options {
    uint32_t n_shards; /* of the data center: 1 .. ROTA_LEASE_SHARDS_MAX */
    uint32_t n_wanted; /* the maximum to hold at a time; 0 means 1; clamped to n_shards */
    rota_time ttl;     /* how long a grant lasts; 0 means 10 s */
    bool is_alone;     /* no other process can have our host's name now */
    uint64_t instance; /* of this incarnation of the process, random; not 0 */
    uint64_t seed;
};

enum rota_lease_event_type {
    ROTA_LEASE_TICK,     /* time has passed */
    ROTA_LEASE_CLAIMED,  /* answers CLAIM: shard, epoch */
    ROTA_LEASE_NONE,     /* answers CLAIM: nothing may be taken, at least not now */
    ROTA_LEASE_LISTED,   /* answers LIST: rows */
    ROTA_LEASE_PINGED,   /* answers PING: held */
    ROTA_LEASE_TAKEN,    /* answers PING: the row is not ours; epoch: the row's, 0: none */
    ROTA_LEASE_RELEASED, /* answers RELEASE, also when there was nothing to release */
    ROTA_LEASE_UNKNOWN,  /* answers any: it may have been done, or not, or may still be done */
    ROTA_LEASE_SEEN,     /* a trusted source reports this epoch of the shard */
    ROTA_LEASE_SHARE,    /* hold up to `n_share` from now on, and release what is above it; after a
                            death up to `n_most` */
    ROTA_LEASE_SHUTDOWN, /* stop and release everything */
};

struct rota_lease_event {
    enum rota_lease_event_type type;
    uint64_t ask; /* of an answer: the number that the action had */
    uint32_t shard;
    uint64_t epoch;
    uint32_t n_share, n_most;          /* at least 1, and n_share; clamped to n_wanted */
    const struct rota_lease_row *rows; /* borrowed */
    size_t n_rows;
};

enum rota_lease_action_type {
    ROTA_LEASE_CLAIM,     /* ask, floor, dead */
    ROTA_LEASE_LIST,      /* ask */
    ROTA_LEASE_PING,      /* ask, shard, epoch, is_single */
    ROTA_LEASE_RELEASE,   /* ask, shard, epoch */
    ROTA_LEASE_START,     /* serve: shard, epoch, until */
    ROTA_LEASE_EXTEND,    /* continue to serve: shard, epoch, until */
    ROTA_LEASE_STOP,      /* stop serving: shard, epoch, why; before the next action */
    ROTA_LEASE_WENT_BACK, /* for the log: the database shows `epoch` of the shard after a later one
                           */
    ROTA_LEASE_DONE,      /* the shutdown is complete, or timed out; nothing follows */
};

struct rota_lease_action {
    enum rota_lease_action_type type;
    uint64_t ask;
    uint32_t shard;
    uint64_t epoch;
    rota_time until; /* on the holder's clock: not to be served after that without an EXTEND */
    enum rota_lease_why why;

    /* Pings of one step may be combined into one query, with an answer for each; not this one,
     * since the last query that contained it had no answer. */
    bool is_single;

    uint64_t floor; /* the new epoch is to be above it */
    const struct rota_lease_dead *dead;
    size_t n_dead;
};

/* To be done in this order; borrowed until the next step. */
struct rota_lease_actions {
    const struct rota_lease_action *list;
    size_t n;
};

/* A shard that is held, or is being released in a shutdown. */
struct rota_lease_slot {
    uint32_t shard;
    uint64_t epoch;
    rota_time expires_at;
    rota_time ping_at; /* the next ping, or release in a shutdown, unless one is in flight */
    rota_time sent_at; /* of the one in flight */
    uint64_t ask;      /* its number; 0: none is in flight */
    bool is_single;    /* the last ping had no answer, perhaps because of another row */
};

struct rota_lease_fsm {
    struct rota_lease_fsm_options options; /* defaults filled in */
    rota_time guard;
    struct rota_random random;
    struct rota_lease_watch watch;

    struct rota_lease_slot *slots; /* n_held of them are in use, the first ones */
    uint32_t n_held, n_share, n_most;
    uint32_t *slot_of; /* by shard; ROTA_LEASE_SHARDS_MAX: none */
    uint64_t n_asks;

    /* Of seeking: at most one ask is in flight, a claim or a list. */
    uint64_t seek_ask; /* 0: none is in flight */
    rota_time seek_sent_at;
    bool is_extra;         /* the claim in flight is for a dead row above our share */
    bool has_hope;         /* there may be something to claim */
    bool has_answer;       /* to a claim: the table exists, with as many shards as we expect */
    size_t n_listed;       /* rows in range that the table had */
    rota_time list_at;     /* when to read the table again */
    rota_time dead_at;     /* when the first row seen in it is dead */
    rota_time claim_after; /* no claim before this: the database went back */
    rota_time excess_at;   /* when to release what is still above the share */
    bool is_closing, is_done;
    rota_time give_up_at; /* when a shutdown ends without its answers */

    struct rota_lease_dead dead[ROTA_LEASE_DEAD_MAX];
    struct rota_lease_action *actions; /* room for all actions of one step */
    size_t n_actions;
};

/* Refuses a number of shards, a ttl or an instance out of bounds. */
enum rota_code rota_lease_fsm_init(struct rota_lease_fsm *fsm, rota_time now,
                                   const struct rota_lease_fsm_options *options,
                                   struct rota_error *error);
void rota_lease_fsm_deinit(struct rota_lease_fsm *fsm);

struct rota_lease_actions rota_lease_fsm_step(struct rota_lease_fsm *fsm, rota_time now,
                                              const struct rota_lease_event *event);

/* When the next tick is due. */
rota_time rota_lease_fsm_deadline(const struct rota_lease_fsm *fsm);

/* Whether the shard may be served at `now` under this epoch. Ask right before each effect: a
 * timer does not help a process that was paused. */
bool rota_lease_fsm_check(const struct rota_lease_fsm *fsm, rota_time now, uint32_t shard,
                          uint64_t epoch);

/* The epoch under which the shard is held, if it has time left at `now`; 0: not held. */
uint64_t rota_lease_fsm_epoch(const struct rota_lease_fsm *fsm, rota_time now, uint32_t shard);

/* The shards that are held, unordered; borrowed until the next step. */
const struct rota_lease_slot *rota_lease_fsm_held(const struct rota_lease_fsm *fsm, size_t *n);
