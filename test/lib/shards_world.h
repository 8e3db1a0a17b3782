/* A client of three nodes that serve two shards, in one process: for tests of
 * <rota/experimental/shards.h>. The source of the map is the world itself. */
#pragma once

#include "nodes.h"

enum { REPLIES_MAX = 8, WORLD_CONNECTIONS = 2 };

/* Three nodes; shards "a" on 1 and 2, "b" on 2 and 3; and what a run came to. */
struct world {
    struct node nodes[NODES + 1]; /* by id */
    struct rota_shards *shards;
    struct rota_replica replicas[2][2];
    struct rota_shard_channel channels[2];
    size_t n_asked;
    uint64_t held; /* the question that is not answered */
    bool is_holding, is_unknown;

    size_t n_replies, n_done;
    struct rota_shards_result result;
    enum rota_status statuses[REPLIES_MAX];
    int64_t by[REPLIES_MAX];
    char messages[REPLIES_MAX][64], text[128];
    bool is_inside; /* a function of the header */
    bool closes;    /* in its first callback */
};

void ask(void *data, struct rota_shards *shards, uint64_t question,
         const struct rota_shards_name *name);
void place(struct world *world, size_t shard, int64_t first, int64_t second, uint64_t epoch);

/* With these options, but for the source, the seed and the number of connections. */
void world_open_with(struct world *world, struct rota_shards_options options);

void world_open(struct world *world);
void world_close(struct world *world);
struct rota_shards_request request(struct world *world, enum rota_shards_mode mode);
struct rota_shards_run *start(struct world *world, struct rota_shards_request what);
void execute(struct world *world, struct rota_shards_request what);
