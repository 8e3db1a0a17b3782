/* A shard and the replicas that can answer for it: what a map source tells, what
 * a client routes by. */
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

/* One node that can answer for a shard. */
struct rota_replica {
    int64_t node;
    struct rota_str address; /* "host:port" */
    uint64_t epoch;          /* of its claim: sent along with every try */
    bool is_serviceable;
};

/* A shard and its replicas; its name is what the original calls a channel. */
struct rota_shard_channel {
    struct rota_str name;
    const struct rota_replica *replicas;
    size_t n_replicas;
};

/* What health checks have found out about a node. */
enum rota_health_state {
    ROTA_HEALTH_WELL,        /* or not asked yet */
    ROTA_HEALTH_UNAVAILABLE, /* taken only when nobody else is left */
    ROTA_HEALTH_DROPPED,     /* and asked less and less often */
};

/* "well", "unavailable", "dropped". Any thread. */
const char *rota_health_state_name(enum rota_health_state state);

/* What of a call may be done again once bytes of it were sent. */
enum rota_call_repeat {
    ROTA_REPEAT_UNSENT,  /* nothing: for what must not happen twice */
    ROTA_REPEAT_REFUSED, /* what a node said it did not act on */
    ROTA_REPEAT_ANY,     /* all: it is idempotent. Only this is hedged */
};

#ifdef __cplusplus
}
#endif
