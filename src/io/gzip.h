/* gzip: messages of gRPC in fewer bytes, by zlib.
 *
 * Few bytes may stand for very many: whoever unpacks says how many he takes, and no more than that
 * is ever held. */
#pragma once

#include "base/buffer.h"

enum rota_gzip_found {
    ROTA_GZIP_WHOLE,
    ROTA_GZIP_TOO_LARGE, /* there is more than `max` in it */
    ROTA_GZIP_DAMAGED,   /* it is not one whole member of gzip */
    ROTA_GZIP_NO_MEMORY,
};

/* Append what is packed in `bytes`, at most `max` bytes of it, to `plain`. */
enum rota_gzip_found rota_gzip_unpack(struct rota_str bytes, size_t max, struct rota_buffer *plain);

/* Append `bytes`, packed, to `packed`. False when they would not become fewer, or there is no
 * memory: `packed` is as before. */
bool rota_gzip_pack(struct rota_str bytes, struct rota_buffer *packed);
