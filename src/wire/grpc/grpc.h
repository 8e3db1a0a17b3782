/* grpc: the thin layer that gRPC puts on HTTP/2, as bytes and text only.
 *
 * A message is preceded by five bytes: a flag that says whether it is compressed, and its size.
 * Everything else is header fields, whose values are read and written here: timeouts, status texts,
 * binary metadata.
 *
 * A decoder does not trust an announced size: it holds the bytes that have arrived, never room
 * for those that were announced. */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>
#include <rota/rpc.h>
#include <rota/time.h>
#include <stdint.h>

enum {
    ROTA_GRPC_PREFIX_SIZE = 5,
    ROTA_GRPC_MESSAGE_MAX = 4 << 20, /* bytes of a message, by default */
    ROTA_GRPC_TIMEOUT_MAX = 12,      /* a timeout as text, with its final NUL */
    ROTA_GRPC_TEXT_MAX = 2048,       /* bytes of a status text that are sent; the rest is cut */
};

/* --- messages --- */

/* How messages may be packed. */
enum rota_grpc_encoding {
    ROTA_GRPC_IDENTITY, /* not at all */
    ROTA_GRPC_GZIP,
    ROTA_GRPC_ENCODING_OTHER, /* by a method that we do not support */
};

/* What we know, as a `grpc-accept-encoding`. */
#define ROTA_GRPC_ENCODINGS "identity,gzip"

enum rota_grpc_encoding rota_grpc_encoding_parse(struct rota_str text);

void rota_grpc_prefix_encode(uint8_t prefix[ROTA_GRPC_PREFIX_SIZE], uint32_t size,
                             bool is_compressed);

enum rota_grpc_found {
    ROTA_GRPC_MORE,       /* all input is used up, no message is complete */
    ROTA_GRPC_MESSAGE,    /* `decoder->message` holds one, until the next call */
    ROTA_GRPC_TOO_LARGE,  /* its size is beyond `max`; nothing of it was kept */
    ROTA_GRPC_COMPRESSED, /* it is compressed, and `takes_compressed` is not set */
    ROTA_GRPC_MALFORMED,  /* its flag is neither 0 nor 1 */
    ROTA_GRPC_NO_MEMORY,
};

/* Starts zeroed except for `max`. After anything but MORE and MESSAGE it can't be used until it
 * is reset. */
struct rota_grpc_decoder {
    size_t max; /* bytes of a message */
    uint8_t prefix[ROTA_GRPC_PREFIX_SIZE];
    uint8_t n_prefix;
    bool is_told; /* `message` was handed out and is to be cleared */
    bool takes_compressed;
    bool is_compressed; /* the message is; unpacking it is left to the caller */
    uint32_t size;
    struct rota_buffer message;
};

/* Forget an incomplete message; keep the memory. */
void rota_grpc_decoder_reset(struct rota_grpc_decoder *decoder);

/* Take bytes from the front of `*input` until a message is whole. */
enum rota_grpc_found rota_grpc_decoder_next(struct rota_grpc_decoder *decoder,
                                            struct rota_str *input);

/* True between two messages: the stream may end here. */
bool rota_grpc_decoder_is_clean(const struct rota_grpc_decoder *decoder);

/* The status for the result of a decoder, given the encoding that the peer named: it says
 * whether a compressed message was announced. */
enum rota_status rota_grpc_found_status(enum rota_grpc_found found,
                                        enum rota_grpc_encoding encoding);

/* --- header fields --- */

/* Write the time left as a `grpc-timeout`; returns its length. It is rounded
 * up to two digits: few different texts, so that header compression can name
 * them by number, and never earlier than the caller's own deadline. */
size_t rota_grpc_timeout_format(rota_time span, char text[ROTA_GRPC_TIMEOUT_MAX]);

/* Parse one: up to eight digits and a unit of H M S m u n. A duration beyond the range is
 * ROTA_TIME_NEVER. */
enum rota_code rota_grpc_timeout_parse(struct rota_str text, rota_time *span);

/* Append `text` as a `grpc-message`: all but printable ASCII becomes %XX. At
 * most ROTA_GRPC_TEXT_MAX bytes of it, cut between two characters. */
void rota_grpc_percent_encode(struct rota_buffer *buffer, struct rota_str text);

/* Append a decoded `grpc-message`; a % that does not begin an escape stays. */
void rota_grpc_percent_decode(struct rota_buffer *buffer, struct rota_str text);

/* Base64 for values of names that end in "-bin": written without padding,
 * read with or without. */
void rota_grpc_base64_encode(struct rota_buffer *buffer, struct rota_str bytes);
enum rota_code rota_grpc_base64_decode(struct rota_buffer *buffer, struct rota_str text);

/* Is this a name, and a value for it, that may be sent as metadata? */
bool rota_grpc_metadata_is_valid(const struct rota_metadata *pair);
bool rota_grpc_name_is_binary(struct rota_str name);

/* --- the status of a call --- */

/* Parse a `grpc-status`; anything but a known code is UNKNOWN. */
enum rota_status rota_grpc_status_parse(struct rota_str text);

/* The status for a reply with no `grpc-status`, from its HTTP status. */
enum rota_status rota_grpc_status_of_http(int http_status);

/* The status that reports an error of ours to a caller, and the error that a status means to us. */
enum rota_status rota_grpc_status_of_code(enum rota_code code);
enum rota_code rota_grpc_code_of_status(enum rota_status status);

/* The status for a stream that was reset with this HTTP/2 error code. */
enum rota_status rota_grpc_status_of_reset(uint32_t error_code);
