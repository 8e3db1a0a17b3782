/* hpack: header compression of HTTP/2 (RFC 7541).
 *
 * Both ends of a connection keep the same table of fields that were sent, and refer to a repeated
 * field by its number there; 61 common ones have fixed numbers. So the fields of a call that is
 * like the one before cost one byte each, and little time.
 *
 * Each table is bounded by ROTA_HPACK_TABLE_MAX, as HPACK counts: bytes of names and values, and
 * 32 for each field. The encoder writes no Huffman codes, which would save some bytes of new
 * fields; the decoder reads them. */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>
#include <stdint.h>

enum {
    ROTA_HPACK_TABLE_MAX = 4096,
    ROTA_HPACK_STATICS = 61,
    ROTA_HPACK_BUCKETS = 64,
};

/* Those of the fixed numbers that gRPC has use for. */
enum rota_hpack_static {
    ROTA_HPACK_NONE = 0,
    ROTA_HPACK_AUTHORITY = 1, /* the name alone, where no value is given */
    ROTA_HPACK_METHOD_POST = 3,
    ROTA_HPACK_PATH = 4,
    ROTA_HPACK_SCHEME_HTTP = 6,
    ROTA_HPACK_SCHEME_HTTPS = 7,
    ROTA_HPACK_STATUS_200 = 8,
    ROTA_HPACK_CONTENT_LENGTH = 28,
    ROTA_HPACK_CONTENT_TYPE = 31,
    ROTA_HPACK_USER_AGENT = 58,
};

struct rota_hpack_entry {
    uint32_t at; /* its name in the text, followed by its value */
    uint16_t name_size, value_size;
    uint32_t hash, below; /* encoder: the next older one in its bucket, by its count */
    uint8_t note;         /* decoder: the reader's note about it, 0 at first */
};

/* The newest entries, each known by its count since the beginning. */
struct rota_hpack_table {
    struct rota_buffer text;
    struct rota_hpack_entry *entries; /* a ring of `capacity`, a power of two */
    uint32_t capacity, n, n_added;
    uint32_t size, size_max; /* as HPACK counts */
};

/* --- reading --- */

struct rota_hpack_decoder {
    struct rota_hpack_table table;
    struct rota_buffer name, value; /* unpacked ones that are in no table */
    uint8_t static_notes[ROTA_HPACK_STATICS + 1];
};

/* One field, borrowed during the call. `note` is a byte that stays with the
 * field for as long as the table has it; NULL when no table has it. */
typedef void rota_hpack_on_field(void *data, struct rota_str name, struct rota_str value,
                                 uint8_t *note);

void rota_hpack_decoder_init(struct rota_hpack_decoder *decoder);
void rota_hpack_decoder_deinit(struct rota_hpack_decoder *decoder);

/* Read a whole block of fields. ROTA_ERR_INVALID when it is malformed; the decoder can't be used
 * after that. */
enum rota_code rota_hpack_decode(struct rota_hpack_decoder *decoder, struct rota_str block,
                                 rota_hpack_on_field *on_field, void *data);

/* Append the decoded Huffman codes of `bytes`. */
enum rota_code rota_hpack_huffman_decode(struct rota_buffer *out, struct rota_str bytes);

/* --- writing --- */

struct rota_hpack_encoder {
    struct rota_hpack_table table;
    uint32_t buckets[ROTA_HPACK_BUCKETS];
    uint32_t told_max, lowest_max; /* as the peer knows it, and the minimum since */
};

void rota_hpack_encoder_init(struct rota_hpack_encoder *encoder);
void rota_hpack_encoder_deinit(struct rota_hpack_encoder *encoder);

/* The peer allows our table this many bytes. */
void rota_hpack_encoder_limit(struct rota_hpack_encoder *encoder, uint32_t size_max);

/* Begin a block; then append fields to it. When memory runs out `out` fails. */
void rota_hpack_begin(struct rota_hpack_encoder *encoder, struct rota_buffer *out);

/* A field that has a fixed number, name and value. */
void rota_hpack_put_static(struct rota_buffer *out, enum rota_hpack_static field);

/* Any field; `known` has the same name, or is NONE. It is added to the table when it `is_kept`,
 * which helps for repeated fields. */
void rota_hpack_put(struct rota_hpack_encoder *encoder, struct rota_buffer *out,
                    enum rota_hpack_static known, struct rota_str name, struct rota_str value,
                    bool is_kept);
