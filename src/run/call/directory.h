/* directory: the gRPC service rota.v1.Directory, which reports the replicas of each shard.
 *
 * Its source sets the complete content whenever it changes, and the directory finds the difference
 * itself: a collection whose map has changed gets a higher version, and its watchers are notified.
 * Versions begin at the wall clock's microseconds, so they also grow from one run of the server to
 * the next. */
#pragma once

#include <rota/experimental/shard.h>
#include <rota/server.h>

struct rota_directory;

/* One collection and its shards. */
struct rota_shards_collection {
    struct rota_str database, name;
    int64_t id;
    const struct rota_shard_channel *channels; /* by their names */
    size_t n_channels;
};

enum {
    ROTA_DIRECTORY_COLLECTIONS_MAX = 65536,
    ROTA_DIRECTORY_WATCHERS_MAX = 65536,
};

/* The database that an empty name means. */
#define ROTA_DIRECTORY_DEFAULT "default"

/* Serve it on `server`, kept. It is empty at first. Gives `*directory`; rota_directory_close()
 * ends it, after the server. */
enum rota_code rota_directory_open(struct rota_server *server, struct rota_directory **directory,
                                   struct rota_error *error);
void rota_directory_close(struct rota_directory *directory); /* accepts NULL */

/* End all watches, so that clients ask another directory, and accept none until it is restored.
 * Questions are still answered. */
void rota_directory_drain(struct rota_directory *directory);
void rota_directory_restore(struct rota_directory *directory);

/* Set the complete content, copied; anything not in it is removed. On an error nothing changes. */
enum rota_code rota_directory_set(struct rota_directory *directory,
                                  const struct rota_shards_collection *collections, size_t n,
                                  struct rota_error *error);

/* Whether there may be more collections than are set: then a client that asks for another one is to
 * ask again. At first there are none. */
void rota_directory_set_partial(struct rota_directory *directory, bool is_partial);

size_t rota_directory_n_collections(const struct rota_directory *directory);
size_t rota_directory_n_watchers(const struct rota_directory *directory);
