/* node_change: an operator drains or evicts a node, or takes that back.
 *
 * It is a state in the members table of the store, which the node itself and all others act on.
 * What will happen is told before as sentences: what the node has now, and who will have it. */
#pragma once

#include "wire/nodes_message.h"

#include <rota/store.h>

struct rota_node;
struct rota_server_call;

/* With an error nothing was changed, or nobody knows. `changed` is borrowed. */
typedef void rota_node_on_changed(void *data, struct rota_server_call *call,
                                  const struct rota_error *error,
                                  const struct rota_nodes_changed *changed);

/* Tell what setting the state of the node at `address` means and, unless it is a dry run, set
 * it. `on_changed` is called once, later or from inside; `call` is handed through. */
void rota_node_change(struct rota_node *node, struct rota_str address,
                      enum rota_store_member_state state, bool is_dry_run,
                      rota_node_on_changed *on_changed, void *data, struct rota_server_call *call);

/* Answer all that is under way, with an error. */
void rota_node_changes_end(struct rota_node *node);
