/* gzip: compression of gRPC messages, by zlib.
 *
 * A few bytes may decompress to very many: the caller sets the limit, and no more than that is
 * ever held. */
#pragma once

#include "base/buffer.h"

enum rota_gzip_found {
    ROTA_GZIP_WHOLE,
    ROTA_GZIP_TOO_LARGE, /* there is more than `max` in it */
    ROTA_GZIP_DAMAGED,   /* it is not one whole member of gzip */
    ROTA_GZIP_NO_MEMORY,
};

/* Decompress `bytes`, to at most `max` bytes, and append them to `plain`. */
enum rota_gzip_found rota_gzip_unpack(struct rota_str bytes, size_t max, struct rota_buffer *plain);

/* Compress `bytes` and append them to `packed`. False when that saves nothing, or there is no
 * memory: `packed` is unchanged. */
bool rota_gzip_pack(struct rota_str bytes, struct rota_buffer *packed);
