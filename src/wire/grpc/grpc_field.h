/* grpc_field: what one header field is, and whether HTTP/2 allows it at all.
 *
 * The answer depends on the field alone, not on its call, so it may be cached for the same field: a
 * kind fits in a byte, and 0 means no field.
 *
 * What RFC 9113 calls malformed ends the call: an unknown or ill-formed pseudo field, an
 * upper-case letter in a name, fields that speak of a connection. A plain field with bytes that
 * may not be in its name or value is ignored. */
#pragma once

#include <rota/str.h>
#include <stdint.h>

enum rota_grpc_kind {
    ROTA_GRPC_FIELD_METHOD = 1,
    ROTA_GRPC_FIELD_SCHEME,
    ROTA_GRPC_FIELD_PATH,
    ROTA_GRPC_FIELD_AUTHORITY,
    ROTA_GRPC_FIELD_STATUS, /* the last of the pseudo fields */
    ROTA_GRPC_FIELD_HOST,
    ROTA_GRPC_FIELD_TE,
    ROTA_GRPC_FIELD_CONTENT_TYPE,
    ROTA_GRPC_FIELD_CONTENT_LENGTH,
    ROTA_GRPC_FIELD_TIMEOUT,
    ROTA_GRPC_FIELD_ENCODING,
    ROTA_GRPC_FIELD_GRPC_STATUS,
    ROTA_GRPC_FIELD_GRPC_MESSAGE,
    ROTA_GRPC_FIELD_IGNORED, /* gRPC's own, of no use to us */
    ROTA_GRPC_FIELD_METADATA,
    ROTA_GRPC_FIELD_BINARY,  /* metadata in base64 */
    ROTA_GRPC_FIELD_DROPPED, /* not allowed, and left out */
    ROTA_GRPC_FIELD_MALFORMED,
};

enum rota_grpc_kind rota_grpc_field_kind(struct rota_str name, struct rota_str value);
