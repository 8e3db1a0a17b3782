/* flips_fsm: tells, once for every key, that its value has changed.
 *
 *     WAITING --its instant comes--> SETTLED --its change is replaced--> DUE
 *     DUE --looked at, new already--> SETTLED
 *     DUE --looked at, old still----> WAITING
 *
 * A key is added with the gradual change that governs it; whoever added it
 * knows its value then, and hears of every other value as a flip: an old owner
 * lets go, a new one takes over.
 *
 * Each key waits in a heap for the very first instant at which its value is
 * new. So a look at the deadline always finds the flip, and a key that has
 * settled is not looked at again, whatever the clock does: going forward it
 * skips nothing, standing still or going back it repeats and undoes nothing.
 *
 * Invariant: every key is in the heap at all times, a settled one at
 * ROTA_TIME_NEVER. Moving it needs no memory, so a step can't fail. */
#pragma once

#include "base/heap.h"
#include "base/map.h"

#include <rota/gradual.h>

enum {
    ROTA_FLIPS_KEYS_MAX = 1 << 20, /* keys in one machine */
    ROTA_FLIPS_KEY_MAX = 4096,     /* bytes of a key */
};

struct rota_flips_fsm {
    struct rota_map keys;
    struct rota_heap queue;
    uint64_t n_added; /* ever: flips of one instant come in the order of adding */
};

struct rota_flip {
    struct rota_str key; /* valid until the machine is next called */
    int64_t old_value, new_value;
};

void rota_flips_fsm_init(struct rota_flips_fsm *fsm, uint64_t seed);
void rota_flips_fsm_deinit(struct rota_flips_fsm *fsm);

/* Watch `key`, which is copied, under `change`; `*value` is what it has now and
 * no flip tells it. Refuses a change that rota_gradual_check() refuses, a key
 * that is there already or too long, and one too many. */
enum rota_code rota_flips_fsm_add(struct rota_flips_fsm *fsm, rota_time now, struct rota_str key,
                                  const struct rota_gradual *change, int64_t *value,
                                  struct rota_error *error);

/* Put another change in place of the key's. If the value that it gives at the
 * next step is not the one last told, that step tells; a change equal to the
 * one in place does nothing. */
enum rota_code rota_flips_fsm_replace(struct rota_flips_fsm *fsm, struct rota_str key,
                                      const struct rota_gradual *change, struct rota_error *error);

/* Stop to watch `key`; false when it was not watched. */
bool rota_flips_fsm_remove(struct rota_flips_fsm *fsm, struct rota_str key);

/* The next flip that is due at `now` (wall clock), or false when there is none:
 * to be called until it returns false. */
bool rota_flips_fsm_step(struct rota_flips_fsm *fsm, rota_time now, struct rota_flip *flip);

/* When the next step is needed: the first instant with a flip, ROTA_TIME_MIN
 * when a replaced change waits to be looked at, ROTA_TIME_NEVER when nothing
 * is ahead. Wall clock: a driver that sleeps on another one looks again now and
 * then, in case this one is set forward. */
rota_time rota_flips_fsm_deadline(const struct rota_flips_fsm *fsm);

/* How many keys are watched; the value of `key` last told, false when it is not
 * watched. */
size_t rota_flips_fsm_size(const struct rota_flips_fsm *fsm);
bool rota_flips_fsm_value(const struct rota_flips_fsm *fsm, struct rota_str key, int64_t *value);
