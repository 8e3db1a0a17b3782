/* node_change: an operator drains or evicts a node, or undoes that.
 *
 * It is a state in the members table of the store, which the node itself and all others act on.
 * Before that, sentences describe the effect: what the node has now, and which nodes will have
 * it. */
#pragma once

#include "wire/message/nodes_message.h"

#include <rota/experimental/store_ask.h>

struct rota_node;
struct rota_server_call;

/* With an error nothing was changed, or the outcome is unknown. `changed` is borrowed. */
typedef void rota_node_on_changed(void *data, struct rota_server_call *call,
                                  const struct rota_error *error,
                                  const struct rota_nodes_changed *changed);

/* Describe the effect of setting the state of the node with this name or address and, unless it is
 * a dry run, set it. `on_changed` is called once, later or from inside; `call` is passed to it. */
void rota_node_change(struct rota_node *node, struct rota_str name,
                      enum rota_store_member_state state, bool is_dry_run,
                      rota_node_on_changed *on_changed, void *data, struct rota_server_call *call);

/* Drain the node with this address after `after`, whether or not this node still runs then; the
 * node of this address gets no call. */
void rota_node_change_drain(struct rota_node *node, struct rota_str address, rota_time after,
                            rota_node_on_changed *on_changed, void *data);

/* Answer all that are in progress, with an error. */
void rota_node_changes_end(struct rota_node *node);
