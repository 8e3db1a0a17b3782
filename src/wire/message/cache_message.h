/* cache_message: the messages of rota.v1.Cache, proto/rota/v1/cache.proto, as structs.
 *
 * Each has a type, ROTA_CACHE_..., for rota_message_encode() and rota_message_decode(). They are in
 * every call for keys, so entries have a codec of their own, see HOT_TYPE. */
#pragma once

#include "wire/message/message.h"

#include <rota/experimental/get.h>

struct rota_cache_request {
    struct rota_message_strs key; /* at most ROTA_GET_KEYS_MAX, like the lists below */
    uint64_t epoch;
    bool partial;
};

struct rota_cache_response {
    struct rota_message_list entry; /* of struct rota_get_entry */
    struct rota_message_list shard; /* of struct rota_interval_claim, ROTA_GET_SHARDS_MAX */
    bool all_matched;
    struct rota_message_list problem; /* of struct rota_get_problem */
};

extern const struct rota_message_type ROTA_CACHE_REQUEST, ROTA_CACHE_RESPONSE, ROTA_CACHE_ENTRY,
    ROTA_CACHE_SHARD;
