/* cache_message: the messages of rota.v1.Cache, which are in every call for
 * keys: proto/rota/v1/cache.proto as structs.
 *
 * Decoding copies nothing: keys and values are borrowed from the bytes. The
 * structs are used again and again, and keep the memory of their arrays.
 *
 * A field that comes with another type than it has is refused. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"

#include <rota/error.h>
#include <rota/get.h>
#include <stdint.h>

enum { ROTA_CACHE_KEYS_MAX = ROTA_GET_KEYS_MAX }; /* keys, entries or problems of a message */

/* Both start zeroed. */
struct rota_cache_request {
    ROTA_VECTOR(struct rota_str) keys;
    uint64_t epoch;
    bool is_partial;
};

struct rota_cache_response {
    ROTA_VECTOR(struct rota_get_entry) entries;
    ROTA_VECTOR(struct rota_get_problem) problems;
    struct rota_interval shard;
    uint64_t epoch;
    bool has_shard, all_matched;
};

void rota_cache_request_deinit(struct rota_cache_request *request);
void rota_cache_response_deinit(struct rota_cache_response *response);

/* Append the message to `buffer`. ROTA_ERR_LIMIT, and nothing is written, for
 * more keys than ROTA_CACHE_KEYS_MAX or more bytes than a message can have;
 * ROTA_ERR_NO_MEMORY turns the buffer failed, too. */
enum rota_code rota_cache_request_encode(const struct rota_cache_request *request,
                                         struct rota_buffer *buffer);
enum rota_code rota_cache_response_encode(const struct rota_cache_response *response,
                                          struct rota_buffer *buffer);

/* Read one; what it held before is forgotten, also when it fails. `bytes` are
 * kept by reference. ROTA_ERR_INVALID for malformed ones, ROTA_ERR_LIMIT for
 * too many keys. */
enum rota_code rota_cache_request_decode(struct rota_cache_request *request, struct rota_str bytes,
                                         struct rota_error *error);
enum rota_code rota_cache_response_decode(struct rota_cache_response *response,
                                          struct rota_str bytes, struct rota_error *error);
