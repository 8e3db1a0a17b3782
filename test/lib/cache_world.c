#include "cache_world.h"

const struct rota_str DB = {"default", 7}, OTHER_DB = {"other", 5};

void setup(struct world *world)
{
    *world = (struct world){0};
    assert_int_equal(
        rota_shard_cache_new(&(struct rota_shard_cache_options){.seed = 1}, &world->cache, NULL),
        ROTA_OK);
}

void pump(struct world *world)
{
    struct rota_shard_action action;
    while (rota_shard_cache_next(world->cache, &action)) {
        switch (action.type) {
        case ROTA_SHARD_ASK:
            world->asked[world->n_asks++ % 64] = action.flight;
            world->last_ask = action;
            break;
        case ROTA_SHARD_FORGET:
            world->n_forgets++;
            break;
        case ROTA_SHARD_TELL:
            world->told[world->n_tells % 64] = action.waiter;
            world->failures[world->n_tells % 64] = action.failure;
            world->first_nodes[world->n_tells++ % 64] =
                action.map && action.map->n_channels ? action.map->channels[0].replicas[0].node
                                                     : -1;
            assert_true((action.failure == ROTA_FAILURE_NONE) == (action.map != NULL));
            rota_shard_map_drop(action.map);
            break;
        }
    }
}

void teardown(struct world *world)
{
    pump(world);
    rota_shard_cache_free(world->cache);
}

struct rota_shard_map *map_of(int64_t collection, const char *channel, int64_t node)
{
    struct rota_replica replica = {node, {"a:1", 3}, 1, true};
    struct rota_shard_channel row = {rota_str(channel), &replica, 1};
    struct rota_shard_map *map;
    assert_int_equal(rota_shard_map_new(collection, rota_str(""), &row, 1, &map, NULL), ROTA_OK);
    return map;
}

struct rota_shard_query by_id(int64_t collection, uint64_t waiter)
{
    return (struct rota_shard_query){
        .database = DB, .collection = collection, .with_cache = true, .waiter = waiter};
}

struct rota_shard_query by_name(const char *name, uint64_t waiter)
{
    return (struct rota_shard_query){
        .database = DB, .name = rota_str(name), .with_cache = true, .waiter = waiter};
}

struct rota_shard_query forced(struct rota_shard_query query)
{
    query.with_cache = false;
    return query;
}

int64_t get(struct world *world, rota_time now, struct rota_shard_query query)
{
    struct rota_shard_map *map;
    struct rota_error error;
    if (rota_shard_cache_get(world->cache, now, &query, &map, &error))
        fail_msg("%s", error.text);
    int64_t node = map ? map->channels[0].replicas[0].node : 0;
    rota_shard_map_drop(map);
    pump(world);
    return node;
}

void answer(struct world *world, rota_time now, uint64_t flight, struct rota_shard_map *map)
{
    rota_shard_cache_answered(world->cache, now, flight, ROTA_FAILURE_NONE, map);
    pump(world);
}

void step(struct world *world, rota_time now)
{
    rota_shard_cache_step(world->cache, now);
    pump(world);
}

void fill(struct world *world, rota_time now, struct rota_str database, const char *name,
          int64_t collection, int64_t node)
{
    struct rota_shard_query query = {.database = database,
                                     .name = rota_str(name),
                                     .collection = collection,
                                     .waiter = 1000 + (uint64_t)collection};
    assert_int_equal(get(world, now, query), 0);
    answer(world, now, world->asked[(world->n_asks - 1) % 64], map_of(collection, "channel", node));
}

bool has(const struct world *world, int64_t collection)
{
    return rota_shard_cache_peek(world->cache, collection) != NULL;
}
