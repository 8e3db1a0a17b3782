/* A shard and its replicas: what sources of maps return, and clients route by. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_SHARD_CHANNELS_MAX = 4096, /* shards of a collection */
    ROTA_SHARD_REPLICAS_MAX = 64,   /* replicas of a shard */
    ROTA_SHARD_NAME_MAX = 1024,     /* bytes of a channel, address, database or collection */
};

/* A node that can answer for a shard. */
struct rota_replica {
    int64_t node;
    struct rota_str address; /* "host:port" */
    uint64_t epoch;          /* of its claim (fencing token): sent with every try */
    bool is_serviceable;
};

/* A shard and its replicas; Milvus calls its name a channel. */
struct rota_shard_channel {
    struct rota_str name;
    const struct rota_replica *replicas;
    size_t n_replicas;
};

/* The health of a node, as found by health checks. */
enum rota_health_state {
    ROTA_HEALTH_WELL,        /* or not checked yet */
    ROTA_HEALTH_UNAVAILABLE, /* used only if no other is left */
    ROTA_HEALTH_DROPPED,     /* likewise, and checked less and less often */
};

/* "well", "unavailable", "dropped". Any thread. */
const char *rota_health_state_name(enum rota_health_state state);

#ifdef __cplusplus
}
#endif
