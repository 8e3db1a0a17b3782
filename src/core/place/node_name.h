/* node_name: the name of a node, which people read instead of its address.
 *
 * A node's row among the members of the store has both; everything else keeps addresses and looks
 * names up. A name is text from outside, so every reader checks it. It has no colon:
 * it is never mistaken for an address. A member without a name is called by its address.
 *
 * No two nodes that are alive have the same name. A node that starts looks at the rows of the
 * others before it writes its own. A row that was renewed in the meantime belongs to a live node,
 * and keeps its name; one that was not renewed for its ttl has lost it. A ttl can be long: a node
 * whose name is only a default stops waiting earlier, and runs without a name. The node looks once
 * more after its first heartbeat, in case two nodes with the same name started together. */
#pragma once

#include <rota/experimental/store_ask.h>

enum { ROTA_NODE_NAME_MAX = 100 }; /* bytes */

/* What a name may be, for messages. */
#define ROTA_NODE_NAME_RULE                                                                        \
    "1 to 100 letters, digits, '.', '_' and '-', the first a letter or digit"

bool rota_node_name_is_valid(struct rota_str name);

/* The name of a node that was given none: its host's, and unless it is at the usual port, the port
 * too, since a host may run several nodes. Empty if that is not a valid name. */
void rota_node_name_default(struct rota_str host, unsigned port, char name[ROTA_NODE_NAME_MAX + 1]);

enum { ROTA_NODE_NAME_PORT = 7700 }; /* the usual one */

#define ROTA_NODE_NAME_PATIENCE (15 * ROTA_SEC) /* for a default name */

/* A node that starts, and the name that it wants. Set `name`, `address` and `is_default`, the rest
 * to zero. */
struct rota_node_name_seek {
    char name[ROTA_NODE_NAME_MAX + 1];
    char address[ROTA_STORE_NAME_MAX + 1];
    bool is_default; /* the user did not choose the name */

    char rival[ROTA_STORE_NAME_MAX + 1]; /* the address of a node that has the name; empty: none */
    rota_time heartbeat;                 /* of the rival, when it was first seen */
    rota_time waits_since;               /* for any rival; 0: it does not */
    bool is_written;                     /* our heartbeats have the name */
};

enum rota_node_name_action {
    ROTA_NODE_NAME_WAIT,  /* look again later; the node in `rival`, if any, may be alive */
    ROTA_NODE_NAME_WRITE, /* send heartbeats with the name, and look again */
    ROTA_NODE_NAME_HOLD,  /* the name is ours; send heartbeats with it */
    ROTA_NODE_NAME_YIELD, /* the node in `rival` is alive, or may be, and the wait is over */
};

/* A look at all members of the store, as they were at `db_now`. */
enum rota_node_name_action rota_node_name_step(struct rota_node_name_seek *seek,
                                               const struct rota_store_member *members, size_t n,
                                               rota_time db_now);
