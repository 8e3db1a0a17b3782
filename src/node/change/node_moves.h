/* node_moves: what moves when an operator changes a node, as sentences. */
#pragma once

#include "base/arena.h"
#include "node/documents/peers.h"
#include "wire/message/message.h"

/* Append to `plan` what setting the state of `peer` would do, given the first queues.
 * Texts are in the arena. */
struct rota_node_moves {
    const struct rota_node *node;
    const struct rota_peer *peer;
    enum rota_store_member_state state;
    struct rota_str queues; /* a QueuesReply; empty: not known */

    struct rota_arena *arena;
    struct rota_str *plan; /* room for ROTA_NODES_PLAN_MAX */
    size_t n;
};
void rota_node_moves_tell(struct rota_node_moves *moves);
