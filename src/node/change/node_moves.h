/* node_moves: what moves when an operator changes a node, as sentences.
 *
 * Queues and partitions may be many, so what moves is computed on a worker thread; the loop only
 * copies what that needs. */
#pragma once

#include "base/arena.h"
#include "node/documents/peers.h"

/* Partitions of queues that are compared; those of further queues are left out. */
enum { ROTA_NODE_MOVES_PARTITIONS_MAX = 1 << 18 };

struct rota_node_moves {
    struct rota_arena arena; /* has the sentences, too */
    struct rota_str *plan;
    size_t n;

    struct rota_node_moves_host *hosts;
    size_t n_hosts;
    struct rota_str queues; /* a QueuesReply; empty: not known */
    bool is_needed;         /* something may move: there is work for the thread */
};

/* What setting the state of `peer` would do to the node itself; `queues` is a QueuesReply with the
 * first queues. False: there is no memory. rota_node_moves_deinit() ends it either way. */
bool rota_node_moves_init(struct rota_node_moves *moves, const struct rota_node *node,
                          const struct rota_peer *peer, enum rota_store_member_state state,
                          struct rota_str queues);
void rota_node_moves_deinit(struct rota_node_moves *moves);

/* Add the sentences about what moves, if it is needed. Worker thread. */
void rota_node_moves_work_out(struct rota_node_moves *moves);
