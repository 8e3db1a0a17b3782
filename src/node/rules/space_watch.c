#include "node/rules/space_watch.h"

#include "base/hash.h"

#include <stdlib.h>

void rota_space_watch_deinit(struct rota_space_watch *watch)
{
    free(watch->shards);
    free(watch->stamps);
    *watch = (struct rota_space_watch){0};
}

static uint64_t hash_nodes(const struct rota_space_map *map)
{
    uint64_t hash = map->n_nodes;
    for (size_t i = 0; i < map->n_nodes; i++)
        hash = rota_hash_sip64(hash, map->nodes[i]);
    return hash;
}

/* All is new: the number of shards, or of nodes, is another one. */
static bool start_over(struct rota_space_watch *watch, const struct rota_space_map *map)
{
    if (watch->n != map->n_shards || !watch->shards) {
        size_t n = (size_t)map->n_shards + 1;
        struct rota_space_shard *shards = calloc(n, sizeof *shards);
        uint64_t *stamps = calloc(n, sizeof *stamps);
        if (!shards || !stamps) {
            free(shards);
            free(stamps);
            return false;
        }
        free(watch->shards);
        free(watch->stamps);
        watch->shards = shards;
        watch->stamps = stamps;
        watch->n = map->n_shards;
    }
    watch->stamp++;
    for (uint32_t i = 0; i < watch->n; i++) {
        watch->shards[i] = map->shards[i];
        watch->stamps[i] = watch->stamp;
    }
    return true;
}

static bool is_same_shard(const struct rota_space_shard *a, const struct rota_space_shard *b)
{
    return a->owner == b->owner && a->epoch == b->epoch && a->state == b->state &&
           a->is_pinned == b->is_pinned;
}

bool rota_space_watch_look(struct rota_space_watch *watch, const struct rota_space_map *map)
{
    if (watch->shards && watch->version == map->version)
        return true;
    uint64_t nodes = hash_nodes(map);
    if (!watch->shards || watch->n != map->n_shards || watch->nodes != nodes) {
        if (!start_over(watch, map))
            return false;
    } else {
        uint64_t stamp = watch->stamp + 1;
        for (uint32_t i = 0; i < watch->n; i++) {
            if (is_same_shard(&watch->shards[i], &map->shards[i]))
                continue;
            watch->shards[i] = map->shards[i];
            watch->stamps[i] = watch->stamp = stamp;
        }
    }
    watch->nodes = nodes;
    watch->version = map->version;
    return true;
}

int64_t rota_space_watch_owner(const struct rota_space_shard *shard)
{
    return shard->owner == ROTA_SPACE_NOBODY ? -1 : (int64_t)shard->owner;
}

void rota_space_watch_write(const struct rota_space_watch *watch, const struct rota_space_map *map,
                            uint64_t after, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", map->name);
    rota_json_add_uint(json, "version", map->version);
    rota_json_add_array(json, "nodes");
    for (size_t i = 0; i < map->n_nodes; i++)
        rota_json_string(json, map->nodes[i]);
    rota_json_end_array(json);
    rota_json_add_array(json, "changed");
    for (uint32_t i = 0; i < watch->n; i++) {
        if (watch->stamps[i] <= after)
            continue;
        rota_json_begin_array(json);
        rota_json_uint(json, i);
        rota_json_int(json, rota_space_watch_owner(&watch->shards[i]));
        rota_json_uint(json, watch->shards[i].epoch);
        rota_json_uint(json, watch->shards[i].state);
        rota_json_end_array(json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}
