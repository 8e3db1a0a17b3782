/* shards_nodes: the nodes that attempts are made on: their connections, health checks and series.
 */
#pragma once

#include "base/list.h"
#include "core/call/shards/pool_fsm.h"

#include <rota/experimental/channel.h>

struct rota_histogram;
struct rota_replica;
struct rota_shard_map;
struct rota_shards;
struct rota_shards_attempt;

struct rota_shards_connection {
    uint64_t number;
    struct rota_shards *shards;
    struct rota_shards_node *node;
    struct rota_list_node link; /* of the node's */
    struct rota_channel *channel;
    size_t n_attempts;
    bool is_over; /* closed when the last attempt has left it */
};

struct rota_shards_node {
    int64_t id;
    struct rota_shards *shards;
    char address[ROTA_CHANNEL_TARGET_MAX + 1];
    struct rota_list_node connections;
    struct rota_channel *health; /* a connection for checks alone, NULL: none yet */
    struct rota_call *check;
    uint64_t check_number;
    struct rota_histogram *latency;
    uint64_t n_drops; /* by the health checks */
    char problem[ROTA_ERROR_TEXT_MAX];
    rota_time failed_at; /* ROTA_TIME_MIN: never */
    struct rota_shards_node_series *series;
};

/* Carry out the actions of the pools. */
void rota_shards_nodes_do_pool(struct rota_shards *shards, const struct rota_pool_action *action);

/* Begin a try, perhaps waiting for a connection, continue when the wait is over (0: no
 * connection), and cancel one. */
void rota_shards_nodes_attempt_start(struct rota_shards_attempt *attempt,
                                     const struct rota_replica *replica);
void rota_shards_nodes_attempt_opened(struct rota_shards_attempt *attempt, uint64_t connection);
void rota_shards_nodes_attempt_cancel(struct rota_shards_attempt *attempt);

/* A map has arrived: reconnect to nodes whose address has changed. */
void rota_shards_nodes_meet(struct rota_shards *shards, const struct rota_shard_map *map);

/* Let time pass for the health checks; forget nodes that have no pool. */
void rota_shards_nodes_check_health(struct rota_shards *shards, rota_time now);
void rota_shards_nodes_forget(struct rota_shards *shards);
void rota_shards_nodes_close(struct rota_shards *shards);
void rota_shards_nodes_free(struct rota_shards *shards);
struct rota_shards_node *rota_shards_nodes_find(const struct rota_shards *shards, int64_t id);

/* Open connections to the node. */
size_t rota_shards_nodes_n_connections(const struct rota_shards_node *node);

/* Record the failure of a try, or a health check, on the node. */
void rota_shards_node_failed(struct rota_shards_node *node, struct rota_str problem);
