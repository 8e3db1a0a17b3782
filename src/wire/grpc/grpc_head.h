/* grpc_head: the headers and trailers of a call, field by field.
 *
 * A request has a path, a timeout and metadata; a reply has a status, a text and metadata. Fields
 * arrive one at a time from the peer and are sorted here: those that gRPC defines into their
 * places, all others into the metadata.
 *
 * A head comes in one or two parts: a request, or a reply and later its trailers. Each part is
 * checked against the rules of HTTP/2: what it must have, what it may have once, and that the
 * pseudo fields come first.
 *
 * Invariant: however many fields arrive, no more than ROTA_GRPC_HEAD_SIZE_MAX bytes and
 * ROTA_GRPC_HEAD_FIELDS_MAX fields are kept; then `is_too_large`. */
#pragma once

#include "base/vector.h"
#include "wire/grpc/grpc.h"
#include "wire/grpc/grpc_field.h"

enum {
    ROTA_GRPC_HEAD_SIZE_MAX =
        16 << 10, /* names and values, and 32 for each pair, as HTTP/2 counts */
    ROTA_GRPC_HEAD_FIELDS_MAX = 128,
};

/* Pairs of text, kept together and used again and again. Starts zeroed. */
struct rota_grpc_fields {
    struct rota_buffer text;
    ROTA_VECTOR(struct rota_grpc_field) places;
    ROTA_VECTOR(struct rota_metadata) pairs; /* made when they are asked for */
};

struct rota_grpc_field {
    size_t at, name_size, value_size;
};

void rota_grpc_head_fields_deinit(struct rota_grpc_fields *fields);
void rota_grpc_head_fields_clear(struct rota_grpc_fields *fields);

/* Append a pair as it is. False when there is no memory. */
bool rota_grpc_head_fields_add(struct rota_grpc_fields *fields, struct rota_str name,
                               struct rota_str value);

/* Append metadata for the wire, "-bin" values in base64. ROTA_ERR_INVALID for
 * what may not be sent, ROTA_ERR_LIMIT for too much of it. */
enum rota_code rota_grpc_head_fields_add_metadata(struct rota_grpc_fields *fields,
                                                  const struct rota_metadata *pairs, size_t n,
                                                  struct rota_error *error);

/* All pairs, borrowed until the next change. NULL when there is no memory, or
 * no pair. */
const struct rota_metadata *rota_grpc_head_fields_pairs(struct rota_grpc_fields *fields, size_t *n);

enum rota_grpc_part { ROTA_GRPC_REQUEST, ROTA_GRPC_REPLY, ROTA_GRPC_TRAILERS };

/* Starts zeroed. */
struct rota_grpc_head {
    struct rota_grpc_fields metadata;
    struct rota_buffer path; /* of a request */
    struct rota_buffer text; /* of a reply: the decoded text of the status */

    /* A clear resets everything from here on. */
    rota_time timeout;       /* of a request; ROTA_TIME_NEVER without one, once cleared */
    enum rota_status status; /* of a reply, when has_status */
    int http_status;         /* of a reply; 0 without one */
    int64_t content_length;  /* -1 without one */
    uint32_t n_fields, size; /* everything received, also what was not kept */
    uint32_t seen;           /* a bit for each kind of field that may come once */
    enum rota_grpc_part part;
    bool has_plain;                   /* this part has a field that is not a pseudo field */
    bool is_malformed;                /* the peer broke HTTP/2's rules */
    enum rota_grpc_encoding encoding; /* of its messages */
    bool has_status, has_te, is_post, is_grpc, is_bad_timeout, is_too_large;
};

void rota_grpc_head_deinit(struct rota_grpc_head *head);
void rota_grpc_head_clear(struct rota_grpc_head *head);

/* Make `head`, which is clear, the same as another. False when there is no memory. */
bool rota_grpc_head_copy(struct rota_grpc_head *head, const struct rota_grpc_head *from);

/* The fields of this part follow. A cleared head expects a request. */
void rota_grpc_head_begin(struct rota_grpc_head *head, enum rota_grpc_part part);

/* Add one field from the peer, of this rota_grpc_field_kind(). */
void rota_grpc_head_add(struct rota_grpc_head *head, enum rota_grpc_kind kind, struct rota_str name,
                        struct rota_str value);

/* All fields of the part have arrived. False when it is malformed. */
bool rota_grpc_head_end(struct rota_grpc_head *head);
