/* A shard cache whose directory is the test: its questions and answers are recorded, and the
 * test replies. */
#pragma once

#include "core/call/shards/shard_cache.h"
#include "vectors.h"

extern const struct rota_str DB, OTHER_DB;

struct world {
    struct rota_shard_cache *cache;
    uint64_t n_asks, n_tells, n_forgets;
    uint64_t asked[64];                /* flights, in order */
    struct rota_shard_action last_ask; /* without its texts */
    uint64_t told[64];                 /* waiters, in order */
    enum rota_failure failures[64];
    int64_t first_nodes[64]; /* of their maps; -1: none */
};

void setup(struct world *world);

/* Carry out what is to be done. */
void pump(struct world *world);

void teardown(struct world *world);

/* A map of one channel with one replica. */
struct rota_shard_map *map_of(int64_t collection, const char *channel, int64_t node);

struct rota_shard_query by_id(int64_t collection, uint64_t waiter);
struct rota_shard_query by_name(const char *name, uint64_t waiter);
struct rota_shard_query forced(struct rota_shard_query query);

/* The node of the map at hand, 0 when the caller waits. */
int64_t get(struct world *world, rota_time now, struct rota_shard_query query);

void answer(struct world *world, rota_time now, uint64_t flight, struct rota_shard_map *map);
void step(struct world *world, rota_time now);

/* Have the map of `collection` at hand, with this node. */
void fill(struct world *world, rota_time now, struct rota_str database, const char *name,
          int64_t collection, int64_t node);

bool has(const struct world *world, int64_t collection);
