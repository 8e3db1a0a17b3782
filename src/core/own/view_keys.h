/* view_keys: who owns the keys of a keyed space, since when, and who did before.
 *
 * The members of a view are on a ring, with their weights and zones, and a function of the caller
 * finds the host of a key there: the same function at every node, such as rota_ring_lookup() or
 * rota_route(). The epoch of a key is the number of the view in which its owner last changed, as
 * of a shard; one that has not changed since the base of the view has the base as its epoch.
 *
 * A view tells of all views back to its base, so all of this follows from it alone, and is the
 * same at every node. Rings of earlier views are built when they are first needed. A key costs one
 * lookup for its owner, and one more for each view since its epoch: keep what you asked for until
 * there is another view.
 *
 * Invariants: as of shards, see core/own/view.h. */
#pragma once

#include "core/own/view.h"

/* As of one of the views that are kept. */
struct rota_view_keys_state {
    uint64_t number;
    struct rota_ring *ring; /* NULL: not built yet */
    uint32_t *members;      /* by host: into the view's members */
};

struct rota_view_keys {
    struct rota_view view;
    size_t n_states; /* in order */
    struct rota_view_keys_state states[ROTA_VIEW_STATES_MAX + 1];
};

/* The host of a key, as a number of `ring`, which may be empty; ROTA_RING_NONE if it is. */
typedef uint32_t rota_view_keys_place(const void *key, const struct rota_ring *ring);

/* Of the keyed space with this view, which is copied. */
enum rota_code rota_view_keys_init(struct rota_view_keys *keys, const struct rota_view *view,
                                   struct rota_error *error);
void rota_view_keys_deinit(struct rota_view_keys *keys);

/* The ring of the present members, borrowed. */
struct rota_ring *rota_view_keys_ring(const struct rota_view_keys *keys);

/* The strings are borrowed. */
struct rota_view_key {
    struct rota_str owner; /* empty: the view has no members */
    uint64_t instance;
    uint64_t epoch;

    /* The last node other than the owner that had the key, and in which view it lost it; empty:
     * none since the base. */
    struct rota_str former;
    uint64_t lost_at;
};
enum rota_code rota_view_keys_find(struct rota_view_keys *keys, rota_view_keys_place *place,
                                   const void *key, struct rota_view_key *found,
                                   struct rota_error *error);

/* A function for keys that are a struct rota_str: the lookup of the key itself. */
uint32_t rota_view_keys_lookup(const void *key, const struct rota_ring *ring);
