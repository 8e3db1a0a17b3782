/* engine: how the shards of a space find their owners.
 *
 * Engines without `open` follow from views alone; the others, in engine_*.c, find owners by their
 * own means, while the machine of views lets them. */
#pragma once

#include "core/own/view.h"

#include <rota/space.h>

/* An engine: how the shards of a space find their owners. `state` is its own. One without `open`
 * follows from views alone. */
struct rota_engine {
    const char *name;
    enum rota_view_engine kind;
    uint32_t n_shards_max;
    bool keeps_claims; /* of the shards it holds: it sets and drops them itself */

    /* Whether this node could own shards with it: a sentence if not. May be NULL. */
    enum rota_code (*check)(const struct rota_space *space, struct rota_error *error);

    /* Begin to observe the owners, and report them. Gives `*state`. */
    enum rota_code (*open)(struct rota_space *space, void **state, struct rota_error *error);

    /* Stop observing. Takes `state`, which does not run. */
    void (*close)(void *state);

    /* Own shards, with epochs above `floor`. */
    enum rota_code (*run)(void *state, uint64_t floor, struct rota_error *error);

    /* Stop owning: rota_space_engine_stop() was called for every shard. When all stops are answered
     * and others may own the shards, call rota_space_engine_halted(), from the loop. */
    void (*halt)(void *state);

    /* The claim of a shard that was started may be held now; for one that keeps claims. */
    void (*claim)(void *state, uint32_t shard, uint64_t epoch);

    /* The user's answer to a stop. May be NULL. */
    void (*stopped)(void *state, uint32_t shard, uint64_t epoch);

    /* By the clock, for a shard that was started and not stopped. */
    bool (*is_current)(const void *state, uint32_t shard, uint64_t epoch);

    /* On the boot clock: nothing is owned from then on. May be NULL. */
    rota_time (*until)(const void *state);

    /* One sentence. */
    void (*explain)(const void *state, uint32_t shard, char *text, size_t size);
};

extern const struct rota_engine rota_engine_static, rota_engine_ring, rota_engine_lease,
    rota_engine_group;

/* NULL: there is none of this name. */
const struct rota_engine *rota_space_engine_find(struct rota_str name);

/* --- what engines call --- */

/* The shard is ours from now on; or no longer, and work in progress may be finished before
 * `until`, 0: at once. */
void rota_space_engine_start(struct rota_space *space, uint32_t shard, uint64_t epoch);
void rota_space_engine_stop(struct rota_space *space, uint32_t shard, uint64_t epoch,
                            rota_time until);
void rota_space_engine_halted(struct rota_space *space);

/* Whether its start is complete, so that servers may hold its claim. */
bool rota_space_start_is_served(const struct rota_space *space, uint32_t shard, uint64_t epoch);

/* Why nothing can be owned now, because of the engine; NULL: no trouble. */
void rota_space_engine_trouble(struct rota_space *space, const char *text);

/* The current state of a shard. An epoch below the known one is ignored. */
void rota_space_map_see(struct rota_space *space, uint32_t shard, struct rota_space_shard seen);
