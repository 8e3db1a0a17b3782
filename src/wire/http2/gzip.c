#include "wire/http2/gzip.h"

#include <limits.h>
#define ZLIB_CONST /* it only reads what it is given */
#include <zlib.h>

enum {
    GZIP_WINDOW = 15 + 16, /* the largest, and gzip's frame around it */
    MEMORY_LEVEL = 8,      /* zlib's default */
    PART_MIN = 4096,       /* bytes to make room for at a time */
};

static enum rota_gzip_found unpack_all(z_stream *stream, size_t max, struct rota_buffer *plain)
{
    size_t before = plain->size;
    for (size_t part = PART_MIN;; part *= 2) {
        size_t left = max - (plain->size - before);
        /* One byte more than allowed, to see whether there is one. */
        size_t room = part < left ? part : left + 1;
        char *to = rota_buffer_extend(plain, room);
        if (!to)
            return ROTA_GZIP_NO_MEMORY;
        stream->next_out = (Bytef *)to;
        stream->avail_out = (uInt)room;
        int code = inflate(stream, Z_NO_FLUSH);
        plain->size -= stream->avail_out;
        if (plain->size - before > max)
            return ROTA_GZIP_TOO_LARGE;
        if (code == Z_STREAM_END)
            return stream->avail_in == 0 ? ROTA_GZIP_WHOLE : ROTA_GZIP_DAMAGED;
        if (code == Z_MEM_ERROR)
            return ROTA_GZIP_NO_MEMORY;
        if (code != Z_OK || stream->avail_out > 0)
            return ROTA_GZIP_DAMAGED; /* broken, or it ends too early */
    }
}

enum rota_gzip_found rota_gzip_unpack(struct rota_str bytes, size_t max, struct rota_buffer *plain)
{
    z_stream stream = {.next_in = (const Bytef *)bytes.data, .avail_in = (uInt)bytes.size};
    size_t before = plain->size;
    if (bytes.size > UINT_MAX || max >= UINT_MAX)
        return ROTA_GZIP_TOO_LARGE;
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return ROTA_GZIP_NO_MEMORY;
    enum rota_gzip_found found = unpack_all(&stream, max, plain);
    inflateEnd(&stream);
    if (found != ROTA_GZIP_WHOLE && !plain->failed)
        plain->size = before;
    return found;
}

bool rota_gzip_pack(struct rota_str bytes, struct rota_buffer *packed)
{
    z_stream stream = {.next_in = (const Bytef *)bytes.data, .avail_in = (uInt)bytes.size};
    size_t before = packed->size;
    if (bytes.size == 0 || bytes.size > UINT_MAX ||
        deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    stream.next_out = (Bytef *)rota_buffer_extend(packed, bytes.size);
    stream.avail_out = (uInt)bytes.size;
    bool is_whole = stream.next_out && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    if (stream.next_out)
        packed->size = before + (is_whole ? bytes.size - stream.avail_out : 0);
    deflateEnd(&stream);
    return is_whole;
}
