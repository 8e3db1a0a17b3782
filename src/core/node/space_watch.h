/* space_watch: which shards of a space have changed, for those who follow it.
 *
 * Each look at a map compares it with the one before and gives what is different a stamp that
 * grows. Who follows remembers the stamp that it has seen and gets the shards above it; who has
 * seen nothing, stamp 0, gets all. A map whose nodes are numbered anew has changed in whole. */
#pragma once

#include "base/json.h"

#include <rota/space.h>

struct rota_space_watch {
    struct rota_space_shard *shards; /* as they were at the last look */
    uint64_t *stamps;                /* of each */
    uint32_t n;
    uint64_t stamp;   /* the highest given */
    uint64_t version; /* of the map at the last look */
    uint64_t nodes;   /* a hash of their names */
};

/* A watch starts zeroed. */
void rota_space_watch_deinit(struct rota_space_watch *watch);

/* Compare; false when there is no memory for it. */
bool rota_space_watch_look(struct rota_space_watch *watch, const struct rota_space_map *map);

/* Write {name, version, nodes, changed: [[shard, owner, epoch, state]...]} with what is above
 * the stamp `after`, of the map that was looked at. */
void rota_space_watch_write(const struct rota_space_watch *watch, const struct rota_space_map *map,
                            uint64_t after, struct rota_json *json);

/* The place of a shard's owner among the nodes, -1: nobody. */
int64_t rota_space_watch_owner(const struct rota_space_shard *shard);
