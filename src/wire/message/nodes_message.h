/* nodes_message: the messages of rota.v1.Nodes, proto/rota/v1/nodes.proto, as structs.
 *
 * Each struct has a type, ROTA_NODE_..., for rota_message_encode() and rota_message_decode(). */
#pragma once

#include "wire/message/message.h"

enum {
    ROTA_NODES_TOPICS_MAX = 32,  /* of one request */
    ROTA_NODES_EVENTS_MAX = 500, /* of one reply */
    ROTA_NODES_PLAN_MAX = 1000,  /* sentences */
};

/* ShowRequest and ChangeRequest. */
struct rota_nodes_change {
    struct rota_str node;
    bool is_dry_run;
    uint64_t weight;
};

struct rota_nodes_shown {
    struct rota_str json;
};

struct rota_nodes_documents {
    struct rota_message_strs topics;
    bool is_whole, with_events;
    uint64_t events_after, life;
};

struct rota_nodes_document {
    struct rota_str topic, json;
};

struct rota_nodes_event {
    uint64_t number, at_ms;
    struct rota_str kind, subject, text, node;
    struct rota_str node_name, subject_name; /* of nodes, when they are known */
};

struct rota_nodes_documents_reply {
    struct rota_message_list documents; /* of struct rota_nodes_document */
    uint64_t life;
    struct rota_message_list events; /* of struct rota_nodes_event */
};

struct rota_nodes_events {
    uint64_t after;
    struct rota_message_strs kinds;
    bool is_followed;
};

struct rota_nodes_changed {
    struct rota_message_strs plan;
    bool is_done;
    struct rota_str node;
};

extern const struct rota_message_type ROTA_NODES_SHOW, ROTA_NODES_SHOWN, ROTA_NODES_DOCUMENTS,
    ROTA_NODES_DOCUMENTS_REPLY, ROTA_NODES_EVENTS, ROTA_NODES_EVENT, ROTA_NODES_CHANGE,
    ROTA_NODES_WEIGH, ROTA_NODES_CHANGED;
