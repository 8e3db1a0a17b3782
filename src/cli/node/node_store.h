/* node_store: change the member list in a store, without a node. */
#pragma once

#include <rota/experimental/store_ask.h>
#include <stdbool.h>

/* Set the state of a member, or say what that would do. Returns an exit code. */
int rota_cmd_node_store_change(const char *store, const char *address,
                               enum rota_store_member_state state, bool is_dry_run);
