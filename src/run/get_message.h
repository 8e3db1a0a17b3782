/* get_message: what the functions of a service write into and read from, for both
 * sides of <rota/get.h>. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/vector.h"
#include "wire/cache_message.h"

#include <rota/get.h>

#define ROTA_GET_MESSAGE_MAX ((size_t)4 << 20) /* of a response, when nobody says more */

/* A message in the making. The requests are room for the cache's own codec, so that
 * it allocates nothing. */
struct rota_get_writer {
    struct rota_buffer buffer;
    struct rota_cache_request request;
};

void rota_get_writer_deinit(struct rota_get_writer *writer);

/* Values as they are read: appended to `entries`. */
struct rota_get_reader {
    struct rota_str response;
    ROTA_VECTOR(struct rota_get_entry) entries;
    ROTA_VECTOR(struct rota_get_problem) problems;
    struct rota_arena *arena; /* for values that are not of the response */
    struct rota_cache_response scratch;
    bool has_failed; /* no memory, or too many entries */
};

/* Ready for the next response. */
void rota_get_reader_clear(struct rota_get_reader *reader);
void rota_get_reader_deinit(struct rota_get_reader *reader);

/* Of the cache's own service: as its read_request, for get_server.c has the batch. */
enum rota_code rota_get_cache_read_request(void *data, struct rota_str request,
                                           struct rota_get_batch *batch, uint64_t *epoch,
                                           struct rota_error *error);
