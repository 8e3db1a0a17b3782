/* directory_message: the messages of rota.v1.Directory, proto/rota/v1/directory.proto, as structs.
 *
 * Each struct has a type, ROTA_DIRECTORY_..., for rota_message_encode() and rota_message_decode().
 * A node is a struct rota_replica. */
#pragma once

#include "wire/message/message.h"

#include <rota/shard.h>

struct rota_directory_collection {
    struct rota_str database, name;
    int64_t id;
};

/* GetShardsRequest and WatchShardsRequest. */
struct rota_directory_request {
    const void *collection; /* a struct rota_directory_collection */
    uint64_t version;
};

struct rota_directory_shard {
    struct rota_str channel;
    struct rota_message_list nodes; /* of struct rota_replica */
};

struct rota_directory_map {
    const void *collection; /* a struct rota_directory_collection */
    uint64_t version;
    struct rota_message_list shards; /* of struct rota_directory_shard */
};

/* GetShardsReply and WatchShardsReply. */
struct rota_directory_reply {
    const void *shards; /* a struct rota_directory_map */
};

extern const struct rota_message_type ROTA_DIRECTORY_GET, ROTA_DIRECTORY_WATCH, ROTA_DIRECTORY_MAP,
    ROTA_DIRECTORY_REPLY;
