/* node_caches: the caches of the store as spaces cache/NAME of the directory, at every node.
 *
 * A cache has an owner of each shard in each zone, by leases, whose rows in the store are read
 * here: often, and at once when this node has gained or lost a shard. While the zones have
 * different numbers of shards, those with fewer have no owners in the map: their shards are other
 * ones. */
#pragma once

#include <rota/experimental/store_ask.h>

struct rota_node;
struct rota_node_caches;

enum { ROTA_NODE_CACHES_MAX = 256 }; /* that a node serves the maps of */

/* Gives `*caches`; rota_node_caches_close() ends it, before the store is closed. */
enum rota_code rota_node_caches_open(struct rota_node *node, struct rota_node_caches **caches,
                                     struct rota_error *error);
void rota_node_caches_close(struct rota_node_caches *caches); /* accepts NULL */

/* The answer to ROTA_STORE_DCS without a space: which caches there are. */
void rota_node_caches_list(struct rota_node_caches *caches, const struct rota_store_answer *answer);

/* This node holds other shards than before; accepts NULL. */
void rota_node_caches_changed(struct rota_node_caches *caches);
