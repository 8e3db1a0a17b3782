/* node_directory: the spaces and caches of the cluster as collections of rota.v1.Directory, for
 * clients of <rota/experimental/shards.h>.
 *
 * A space is a collection of its name, a cache is cache/NAME. A shard's channel is its number, so
 * that the client names a claim as the owner does: the replica of a space's shard is its owner, a
 * cache has one in each zone; with the epochs of their claims. Spaces with more shards than a
 * collection can have are left out: WatchSpace has them. */
#pragma once

#include <rota/error.h>
#include <stddef.h>

struct rota_node;
struct rota_node_directory;

/* Serve it on the node's server, empty at first. Gives `*directory`; rota_node_directory_close()
 * ends it, after the server. */
enum rota_code rota_node_directory_open(struct rota_node *node,
                                        struct rota_node_directory **directory,
                                        struct rota_error *error);
void rota_node_directory_close(struct rota_node_directory *directory); /* accepts NULL */

/* A space has changed: watchers are notified when the loop continues. */
void rota_node_directory_changed(struct rota_node_directory *directory);

/* End all watches, so that clients watch another node; or accept them again. */
void rota_node_directory_drain(struct rota_node_directory *directory);
void rota_node_directory_restore(struct rota_node_directory *directory);

size_t rota_node_directory_n_collections(const struct rota_node_directory *directory);
size_t rota_node_directory_n_watchers(const struct rota_node_directory *directory);
