/* get_message: buffers that the functions of a service write to and read from, for both sides of
 * <rota/experimental/get.h>. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/vector.h"

#include <rota/experimental/get.h>

#define ROTA_GET_MESSAGE_MAX ((size_t)4 << 20) /* of a response, by default */

/* A message being written. The keys are room for the cache's own requests. */
struct rota_get_writer {
    struct rota_buffer buffer;
    ROTA_VECTOR(struct rota_str) keys;
};

void rota_get_cache_writer_deinit(struct rota_get_writer *writer);

/* Values as they are read: appended to `entries`. */
struct rota_get_reader {
    struct rota_str response;
    ROTA_VECTOR(struct rota_get_entry) entries;
    ROTA_VECTOR(struct rota_get_problem) problems;
    ROTA_VECTOR(struct rota_interval_claim) shards;
    struct rota_arena *arena; /* for what is not part of the response */
    bool has_failed;          /* no memory, or too many entries */
};

/* Ready for the next response. */
void rota_get_cache_reader_clear(struct rota_get_reader *reader);
void rota_get_cache_reader_deinit(struct rota_get_reader *reader);

/* rota.v1.Cache/Relay: otherwise like rota_get_cache(). */
const struct rota_get_service *rota_get_cache_relay(void);

/* Of the cache's own service: its read_request, since get_server.c has the batch. */
enum rota_code rota_get_server_read_request(void *data, struct rota_str request,
                                            struct rota_get_batch *batch, uint64_t *epoch,
                                            struct rota_error *error);
