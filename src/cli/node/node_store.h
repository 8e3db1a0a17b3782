/* node_store: changes of the members' list in a store, without a node. */
#pragma once

#include <rota/store.h>
#include <stdbool.h>

/* Put a member into a state, or say what that would do; an exit code. */
int rota_cmd_node_store_change(const char *store, const char *address,
                               enum rota_store_member_state state, bool is_dry_run);
