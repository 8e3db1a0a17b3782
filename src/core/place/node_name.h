/* node_name: the name of a node, which people read instead of its address.
 *
 * A node's row among the members of the store has both; everything else keeps addresses and looks
 * names up. A name is text from outside, so it is checked wherever it comes in. It has no colon:
 * it is never mistaken for an address. A member without a name is called by its address.
 *
 * No two nodes that are alive have the same name. A node that starts looks at the rows of the
 * others before it writes its own. A row that was renewed while the node looked is of a node that
 * is alive, and keeps its name; one that was not renewed for its ttl has lost it. The node looks
 * once more after its first heartbeat, in case that two of one name started together. */
#pragma once

#include <rota/store.h>

enum { ROTA_NODE_NAME_MAX = 100 }; /* bytes */

/* What a name may be, for messages. */
#define ROTA_NODE_NAME_RULE                                                                        \
    "1 to 100 letters, digits, '.', '_' and '-', the first a letter or digit"

bool rota_node_name_is_valid(struct rota_str name);

/* The name of a node that was given none: its host's, and unless it is at the usual port, the port
 * too, since a host may run several nodes. Empty if that is not a valid name. */
void rota_node_name_default(struct rota_str host, unsigned port, char name[ROTA_NODE_NAME_MAX + 1]);

enum { ROTA_NODE_NAME_PORT = 7700 }; /* the usual one */

/* Another node that has the name. All zero before the first look. */
struct rota_node_name_rival {
    char address[ROTA_STORE_NAME_MAX + 1];
    rota_time heartbeat; /* when it was first seen */
};

enum rota_node_name_verdict {
    ROTA_NODE_NAME_FREE,
    ROTA_NODE_NAME_UNSURE, /* the node in `rival` may be alive: look again */
    ROTA_NODE_NAME_TAKEN,  /* ... and is */
};

/* Whether the node at `address` may have `name`, by all members of the store as they are at
 * `db_now`. `rival` is kept from look to look. */
enum rota_node_name_verdict rota_node_name_judge(struct rota_node_name_rival *rival,
                                                 struct rota_str name, struct rota_str address,
                                                 const struct rota_store_member *members, size_t n,
                                                 rota_time db_now);
