/* space_message: the messages of rota.v1.Space, proto/rota/v1/space.proto, as structs.
 *
 * Each struct has a type, ROTA_SPACE_..., for rota_message_encode() and rota_message_decode(). As
 * JSON they are the documents of the HTTP API, except for ROTA_SPACE_SHOW_REPLY, whose shards are
 * written as short arrays there. */
#pragma once

#include "wire/message/message.h"

#include <rota/space.h>

enum { ROTA_SPACE_LIST_MAX = 1024 }; /* spaces of one answer */

/* "moving" for ROTA_SPACE_MOVING; NULL for an unknown state. */
const char *rota_space_message_state_name(uint64_t state);

struct rota_space_migration_info {
    struct rota_str to, phase;
    uint64_t differences;
    bool is_counted;
};

struct rota_space_info {
    struct rota_str name, engine;
    uint64_t n_shards, version, n_owned, n_moving;
    const void *migration; /* a struct rota_space_migration_info; NULL: none in progress */
    struct rota_str trouble;
};

struct rota_space_list {
    struct rota_message_list spaces; /* of struct rota_space_info */
};

struct rota_space_claim_info {
    uint64_t owner; /* its place in `nodes`, counted from 1; 0: none */
    uint64_t epoch, state;
    bool is_pinned;
    uint64_t held; /* the epoch under which the node that answers may act; 0: it may not */
};

struct rota_space_show {
    const void *space; /* a struct rota_space_info */
    struct rota_message_strs nodes;
    struct rota_message_list shards; /* of struct rota_space_claim_info */
    struct rota_message_strs node_names;
};

struct rota_space_change {
    uint64_t at_ms;
    struct rota_str owner;
    uint64_t epoch;
    struct rota_str what;
    struct rota_str owner_name;
};

struct rota_space_explanation {
    uint64_t shard;
    struct rota_str owner;
    uint64_t epoch, state;
    struct rota_str why;
    struct rota_message_list history; /* of struct rota_space_change */
    bool is_pinned;
    struct rota_str owner_name;
};

/* All requests. */
struct rota_space_request {
    struct rota_str space;
    uint64_t shard;
    struct rota_str node, engine, seats;
    uint64_t shadow_ms, n_shards;
    bool is_dry_run;
};

struct rota_space_plan {
    struct rota_message_strs plan;
    bool is_done;
};

extern const struct rota_message_type ROTA_SPACE_INFO, ROTA_SPACE_LIST_REPLY, ROTA_SPACE_SHOW,
    ROTA_SPACE_SHOW_REPLY, ROTA_SPACE_EXPLAIN, ROTA_SPACE_EXPLAIN_REPLY, ROTA_SPACE_PIN,
    ROTA_SPACE_MIGRATE, ROTA_SPACE_CREATE, ROTA_SPACE_DELETE, ROTA_SPACE_RESEAT,
    ROTA_SPACE_PLAN_REPLY;

/* What POST .../pin and .../migrate have as their bodies. */
extern const struct rota_message_type ROTA_SPACE_PIN_BODY, ROTA_SPACE_MIGRATE_BODY;
