/* node_report: what a node reports about itself; to the others as a message (peers.h), to people in
 * its documents. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "wire/message/nodes_message.h"

struct rota_node;
struct rota_peer;

/* What `node` reports now, in `arena`; what memory did not suffice for is missing. */
void rota_node_report_make(const struct rota_node *node, bool with_calls, struct rota_arena *arena,
                           struct rota_nodes_report *report);

/* ... and the node's own events after the known ones: all, if those are of an earlier run. */
void rota_node_report_add_events(const struct rota_node *node, const struct rota_nodes_ask *known,
                                 struct rota_arena *arena, struct rota_nodes_report *report);

/* What `peer` reported last; what this node reports now, made in `own` and `arena`. */
const struct rota_nodes_report *rota_node_report_of(const struct rota_node *node,
                                                    const struct rota_peer *peer,
                                                    struct rota_arena *arena,
                                                    struct rota_nodes_report *own);

/* Append what is in it, except for the state and the calls, to an open object. */
void rota_node_report_write(const struct rota_nodes_report *report, struct rota_json *json);
