/* flips_fsm: reports, once for every partition of a queue, that its routing changes.
 *
 *     WAITING --its instant comes--> SETTLED --a change is replaced--> DUE
 *     DUE --checked--> SETTLED, or WAITING for a later instant
 *
 * Batch and mode of a queue may each change gradually, every partition at an instant of its own. A
 * caller that has asked how a partition is routed receives every later change as a flip: the old
 * owner stops, the new owner takes over. If batch and mode change at the same instant, that is one
 * flip.
 *
 * All future instants are sorted in advance. So a step at the deadline always finds the flip, and a
 * partition that has settled is not checked again. The time of a change never goes back: setting
 * the clock forward skips nothing, and a clock that stops or goes back repeats and undoes nothing.
 *
 * Invariant: there is always room for the instants of all partitions, so only
 * rota_flips_fsm_reserve() can fail. */
#pragma once

#include <rota/experimental/config.h>

enum { ROTA_FLIPS_CHANGES = 2 }; /* the batch's and the mode's */

struct rota_flips_fsm {
    struct rota_partition queue;
    struct rota_gradual changes[ROTA_FLIPS_CHANGES];
    rota_time seen_at[ROTA_FLIPS_CHANGES]; /* when each was last checked */
    int64_t n;                             /* partitions */
    struct rota_spread *told;              /* by partition: the routing last reported */
    struct rota_flips_due *dues;           /* instants, sorted; see flips_fsm.c */
    size_t n_dues, next_due;
    int64_t room; /* partitions for which memory is reserved */
};

struct rota_flip {
    int64_t partition;
    struct rota_spread old_spread, new_spread;
};

/* Start without partitions. The names of `queue`, which is of the normal kind
 * and valid, are kept; its id is ignored. */
void rota_flips_fsm_init(struct rota_flips_fsm *fsm, const struct rota_partition *queue);
void rota_flips_fsm_deinit(struct rota_flips_fsm *fsm);

/* Have room for `n` partitions, at most ROTA_PARTITIONS_MAX. */
enum rota_code rota_flips_fsm_reserve(struct rota_flips_fsm *fsm, int64_t n,
                                      struct rota_error *error);

/* Partitions 0 .. n-1, for which there is room, under the batch and the mode of `config`, which
 * must be valid. If an existing partition is now routed differently than last reported, the next
 * step reports it; a new partition starts without a flip. Changes equal to those in place do
 * nothing. */
void rota_flips_fsm_set(struct rota_flips_fsm *fsm, rota_time now,
                        const struct rota_queue_config *config, int64_t n);

/* The next flip that is due at `now` (wall clock), or false when there is none. Call it until it
 * returns false. */
bool rota_flips_fsm_step(struct rota_flips_fsm *fsm, rota_time now, struct rota_flip *flip);

/* When the next step is needed: the first instant with a flip, ROTA_TIME_MIN when a replaced
 * change is not reported yet, ROTA_TIME_NEVER when nothing is ahead. Wall clock: a driver that
 * sleeps on another clock checks again now and then, in case this one is set forward. */
rota_time rota_flips_fsm_deadline(const struct rota_flips_fsm *fsm);

/* How partition 0 <= `partition` < n is routed, as last reported. */
struct rota_spread rota_flips_fsm_spread(const struct rota_flips_fsm *fsm, int64_t partition);
