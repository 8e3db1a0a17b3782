/* nodes_message: the messages of rota.v1.Nodes, proto/rota/v1/nodes.proto, as structs, and those of
 * rota.peer.v1.NodePeer, proto/rota/peer/v1/node_peer.proto.
 *
 * Each struct has a type, ROTA_NODE_..., for rota_message_encode() and rota_message_decode(). */
#pragma once

#include "wire/message/message.h"

enum {
    ROTA_NODES_TOPICS_MAX = 32,  /* of one request */
    ROTA_NODES_EVENTS_MAX = 500, /* of one reply */
    ROTA_NODES_CALLS_MAX = 1 << 20,
    ROTA_NODES_PLAN_MAX = 1000, /* sentences */
};

/* ShowRequest and ChangeRequest. */
struct rota_nodes_change {
    struct rota_str node;
    bool is_dry_run;
    uint64_t weight, delay_ms;
};

struct rota_nodes_shown {
    struct rota_str json;
};

struct rota_nodes_documents {
    struct rota_message_strs topics;
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

/* ReportRequest. */
struct rota_nodes_ask {
    bool with_calls;
    uint64_t events_after, life;
};

struct rota_nodes_node {
    struct rota_str http;
    uint64_t started_ms, cpu_ms, memory, calls, calls_total, shards, collections, watchers;
};

struct rota_nodes_queue {
    uint64_t jobs, running, polls, jobs_memory;
};

struct rota_nodes_cache {
    uint64_t gets, gets_failed, gets_running, cache_shards;
};

struct rota_nodes_group {
    uint64_t groups;
};

struct rota_nodes_replica {
    struct rota_str collection, replica, zone;
    uint64_t n_shards, n_calls, n_failed, n_cancelled, n_hedged, n_hedges_won, in_flight;
    bool is_connected;
    int64_t score;
    struct rota_str circuit;
};

struct rota_nodes_latency {
    uint64_t bucket, n;
};

struct rota_nodes_calls {
    const void *replica;                /* a struct rota_nodes_replica */
    struct rota_message_list latencies; /* of struct rota_nodes_latency */
};

/* ReportReply. */
struct rota_nodes_report {
    struct rota_str state;
    const void *node; /* these four: the structs of these names; NULL: nothing is known */
    const void *queue, *cache, *group;
    struct rota_message_list calls; /* of struct rota_nodes_calls */
    uint64_t life;
    struct rota_message_list events; /* of struct rota_nodes_event, without names of nodes */
};

extern const struct rota_message_type ROTA_NODES_SHOW, ROTA_NODES_SHOWN, ROTA_NODES_DOCUMENTS,
    ROTA_NODES_DOCUMENTS_REPLY, ROTA_NODES_EVENTS, ROTA_NODES_EVENT, ROTA_NODES_CHANGE,
    ROTA_NODES_WEIGH, ROTA_NODES_CHANGED, ROTA_NODES_ASK, ROTA_NODES_NODE, ROTA_NODES_QUEUE,
    ROTA_NODES_CACHE, ROTA_NODES_GROUP, ROTA_NODES_REPLICA, ROTA_NODES_REPORT;
