/* The engines that follow from views: explanations for people. */
#include "run/own/space_inside.h"

#include <stdio.h>

/* A former owner that may still hold it; empty: none. */
static struct rota_str former_of(const struct rota_view_fsm *fsm, uint32_t shard)
{
    for (size_t i = 0; i < fsm->moves.size; i++)
        if (fsm->moves.items[i].shard == shard)
            return fsm->lives.items[fsm->moves.items[i].who].name;
    return rota_str("");
}

/* The rule of the engine. */
static void write_reason(const struct rota_space *space, uint32_t shard,
                         const struct rota_view_owner *owner, char *text, size_t size)
{
    const struct rota_view *view = rota_view_fsm_view(&space->view.fsm);
    if (owner->is_pinned)
        snprintf(text, size, "it is pinned there");
    else if (view->engine == ROTA_VIEW_STATIC)
        snprintf(text, size, "it is assigned to entry %zu of the %zu in the node list",
                 view->seats.size ? shard % view->seats.size : 0, view->seats.size);
    else
        snprintf(text, size, "it is the next node clockwise from hash(\"%s/%u\") on the ring",
                 space->options.name, (unsigned)shard);
}

static void explain_nobody(const struct rota_space *space, uint32_t shard, char *text, size_t size)
{
    const struct rota_view *view = rota_view_fsm_view(&space->view.fsm);
    if (view->engine == ROTA_VIEW_STATIC && view->seats.size > 0) {
        size_t seat = shard % view->seats.size;
        struct rota_str name = view->seats.items[seat];
        snprintf(text, size,
                 "shard %u has no owner: entry %zu of the %zu in the node list is %.*s, which is "
                 "down or has not opened "
                 "the space",
                 (unsigned)shard, seat, view->seats.size, (int)name.size, name.data);
    } else {
        snprintf(text, size, "shard %u has no owner: space %s has no live node", (unsigned)shard,
                 space->options.name);
    }
}

static void explain_shard(const void *state, uint32_t shard, char *text, size_t size)
{
    const struct rota_space *space = state;
    struct rota_view_owner owner;
    char reason[ROTA_SPACE_TEXT_MAX / 2];
    if (!rota_view_fsm_owner(&space->view.fsm, shard, &owner)) {
        explain_nobody(space, shard, text, size);
        return;
    }
    write_reason(space, shard, &owner, reason, sizeof reason);
    struct rota_str former = owner.is_moving ? former_of(&space->view.fsm, shard) : rota_str("");
    if (former.size > 0)
        snprintf(text, size,
                 "shard %u moves to %.*s with epoch %llu because %s; it waits for %.*s to stop",
                 (unsigned)shard, (int)owner.name.size, owner.name.data,
                 (unsigned long long)owner.epoch, reason, (int)former.size, former.data);
    else
        snprintf(text, size, "shard %u is on %.*s (epoch %llu) because %s", (unsigned)shard,
                 (int)owner.name.size, owner.name.data, (unsigned long long)owner.epoch, reason);
}

const struct rota_engine rota_engine_static = {
    .name = "static",
    .kind = ROTA_VIEW_STATIC,
    .n_shards_max = ROTA_SPACE_SHARDS_MAX,
    .explain = explain_shard,
};

const struct rota_engine rota_engine_ring = {
    .name = "ring",
    .kind = ROTA_VIEW_RING,
    .n_shards_max = ROTA_SPACE_SHARDS_MAX,
    .explain = explain_shard,
};
