/* space_watch: which shards of a space have changed, for clients that follow it.
 *
 * Each update compares the map with the previous one and gives the differences a stamp that grows.
 * A follower remembers the stamp that it has seen and gets the shards above it; a new one, with
 * stamp 0, gets all. A map whose nodes are renumbered has changed completely. */
#pragma once

#include "base/json.h"

#include <rota/space.h>

struct rota_space_watch {
    struct rota_space_shard *shards; /* as of the last update */
    uint64_t *stamps;                /* of each */
    uint32_t n;
    uint64_t stamp;   /* the highest given */
    uint64_t version; /* of the map at the last update */
    uint64_t nodes;   /* a hash of their names */
};

/* A watch starts zeroed. */
void rota_space_watch_deinit(struct rota_space_watch *watch);

/* Compare; false when there is no memory for it. */
bool rota_space_watch_look(struct rota_space_watch *watch, const struct rota_space_map *map);

/* Write {name, version, nodes, changed: [[shard, owner, epoch, state]...]} with what is above
 * the stamp `after`, of the last map. */
void rota_space_watch_write(const struct rota_space_watch *watch, const struct rota_space_map *map,
                            uint64_t after, struct rota_json *json);

/* The place of a shard's owner among the nodes, -1: none. */
int64_t rota_space_watch_owner(const struct rota_space_shard *shard);
