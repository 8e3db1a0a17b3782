/* flips_fsm: tells, once for every partition of a queue, that it is routed
 * otherwise from now on.
 *
 *     WAITING --its instant comes--> SETTLED --a change is replaced--> DUE
 *     DUE --looked at--> SETTLED, or WAITING for an instant to come
 *
 * Batch and mode of a queue may each change gradually, every partition at an
 * instant of its own. Whoever asked how a partition is routed hears of every
 * other way as a flip: an old owner lets go, a new one takes over. Batch and
 * mode that flip at one instant are one flip.
 *
 * All instants to come are sorted beforehand. So a look at the deadline always
 * finds the flip, and a partition that has settled is not looked at again. Time
 * does not go back for a change once it was looked at: a clock that is set
 * forward skips nothing, one that stands or goes back repeats and undoes
 * nothing.
 *
 * Invariant: there is room for the instants of all partitions at all times, so
 * only rota_flips_fsm_reserve() can fail. */
#pragma once

#include <rota/config.h>

enum { ROTA_FLIPS_CHANGES = 2 }; /* the batch's and the mode's */

struct rota_flips_fsm {
    struct rota_partition queue;
    struct rota_gradual changes[ROTA_FLIPS_CHANGES];
    rota_time seen_at[ROTA_FLIPS_CHANGES]; /* the latest look at each */
    int64_t n;                             /* partitions */
    struct rota_spread *told;              /* of each partition */
    struct rota_flips_due *dues;           /* instants, sorted; see flips_fsm.c */
    size_t n_dues, next_due;
    int64_t room; /* partitions that there is memory for */
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

/* Partitions 0 .. n-1, for which there is room, under the batch and the mode of
 * `config`, which must be valid. What a partition that was there is told to be
 * and now is not, the next step tells; of a new one no flip tells how it is
 * routed now. Changes equal to those in place do nothing. */
void rota_flips_fsm_set(struct rota_flips_fsm *fsm, rota_time now,
                        const struct rota_queue_config *config, int64_t n);

/* The next flip that is due at `now` (wall clock), or false when there is none:
 * to be called until it returns false. */
bool rota_flips_fsm_step(struct rota_flips_fsm *fsm, rota_time now, struct rota_flip *flip);

/* When the next step is needed: the first instant with a flip, ROTA_TIME_MIN
 * when a replaced change waits to be told, ROTA_TIME_NEVER when nothing is
 * ahead. Wall clock: a driver that sleeps on another one looks again now and
 * then, in case this one is set forward. */
rota_time rota_flips_fsm_deadline(const struct rota_flips_fsm *fsm);

/* How partition 0 <= `partition` < n is routed, as last told. */
struct rota_spread rota_flips_fsm_spread(const struct rota_flips_fsm *fsm, int64_t partition);
