/* directory_message: the messages of rota.v1.Directory, proto/rota/v1/directory.proto, as structs.
 *
 * Each struct has a type, ROTA_DIRECTORY_..., for rota_message_encode() and rota_message_decode().
 */
#pragma once

#include "wire/message/message.h"

/* GetSpaceRequest and WatchSpaceRequest. */
struct rota_directory_space_request {
    struct rota_str space;
    uint64_t history, version;
};

struct rota_directory_space_node {
    struct rota_str address, name, zone;
};

/* Lists of numbers are varints, one after the other; see rota_directory_message_claims_next(). */
struct rota_directory_claims {
    struct rota_str zone;
    uint64_t first_shard, base_epoch;
    struct rota_str shards, owners, epochs, moving;
};

struct rota_directory_update {
    uint64_t history, version;
    bool is_snapshot, is_whole;
    struct rota_str engine;
    uint64_t n_shards, first_node;
    struct rota_message_list nodes;  /* of struct rota_directory_space_node */
    struct rota_message_list claims; /* of struct rota_directory_claims */
};

/* GetSpaceReply and WatchSpaceReply. */
struct rota_directory_space_reply {
    const void *update; /* a struct rota_directory_update */
};

/* One of the claims. */
struct rota_directory_claim {
    uint32_t shard, owner; /* the owner's number plus one; 0: none */
    uint64_t epoch;
    bool is_moving;
};

/* Write claims. Zeroed, with a zone and a first shard if you like, and `base_epoch` at most every
 * epoch; add each claim, with is_listed if its shard is not the one after the one before; then
 * append them as an entry of a SpaceUpdate, which empties them. Whether memory sufficed is asked
 * of the buffer. */
struct rota_directory_claims_writer {
    struct rota_directory_claims claims; /* without its lists */
    uint32_t n;
    struct rota_buffer shards, owners, epochs, moving;
};
void rota_directory_message_claims_add(struct rota_directory_claims_writer *writer,
                                       const struct rota_directory_claim *claim, bool is_listed);
void rota_directory_message_claims_end(struct rota_directory_claims_writer *writer,
                                       struct rota_buffer *buffer);
void rota_directory_message_claims_deinit(struct rota_directory_claims_writer *writer);

/* Read claims: a claim; ROTA_ERR_NOT_FOUND after the last; ROTA_ERR_INVALID when the lists are
 * malformed or of different lengths. */
struct rota_directory_claims_reader {
    const struct rota_directory_claims *claims;
    struct rota_str shards, owners, epochs, moving; /* the rest of each */
    uint32_t n, next_moving;                        /* UINT32_MAX: none is left */
    bool has_begun;
};
enum rota_code rota_directory_message_claims_next(struct rota_directory_claims_reader *reader,
                                                  struct rota_directory_claim *claim);

/* Append a reply around an update that is encoded in two parts. */
void rota_directory_message_write_reply(struct rota_str head, struct rota_str claims,
                                        struct rota_buffer *reply);

extern const struct rota_message_type ROTA_DIRECTORY_SPACE_REQUEST, ROTA_DIRECTORY_UPDATE,
    ROTA_DIRECTORY_SPACE_REPLY;
