/* directory: the gRPC service rota.v1.Directory, which tells who serves which shard.
 *
 * It is given the whole of what there is to know, as often as it changes, and finds
 * out by itself what has: a collection whose map is another one than before gets a
 * higher version, and whoever watches it hears of it. Versions begin at the wall
 * clock's microseconds, so they also grow from one life of the server to the next.
 *
 * Two sources come along: a file of shards, and a ring of hosts. */
#pragma once

#include "wire/shards_file.h"

#include <rota/members.h>
#include <rota/server.h>

struct rota_directory;
struct rota_directory_source;

enum {
    ROTA_DIRECTORY_COLLECTIONS_MAX = 65536,
    ROTA_DIRECTORY_WATCHERS_MAX = 65536,
};

/* The database that an empty name means. */
#define ROTA_DIRECTORY_DEFAULT "default"

/* Serve it on `server`, kept. It knows nothing yet. Gives `*directory`;
 * rota_directory_close() ends it, after the server. */
enum rota_code rota_directory_open(struct rota_server *server, struct rota_directory **directory,
                                   struct rota_error *error);
void rota_directory_close(struct rota_directory *directory); /* accepts NULL */

/* End all watches, so that who watches asks another directory, and begin none until it is restored.
 * Questions are answered all the same. */
void rota_directory_drain(struct rota_directory *directory);
void rota_directory_restore(struct rota_directory *directory);

/* All there is to know, copied; what was known before and is not among it is gone.
 * Refused, it leaves all as it was. */
enum rota_code rota_directory_set(struct rota_directory *directory,
                                  const struct rota_shards_collection *collections, size_t n,
                                  struct rota_error *error);

size_t rota_directory_n_collections(const struct rota_directory *directory);
size_t rota_directory_n_watchers(const struct rota_directory *directory);

/* The number of a host by its address, the same wherever it is met. */
int64_t rota_directory_node_of(struct rota_str address);

/* --- where it knows it from --- */

struct rota_directory_source_options {
    struct rota_directory *directory; /* kept */

    /* Of what is read later: it can't be read or was refused, and the directory
     * stays what it was. */
    void (*on_error)(void *data, const struct rota_error *error);

    /* Of a ring: the hosts have changed, and the directory with them. May be NULL. */
    void (*on_change)(void *data);
    void *data; /* kept */

    /* Of a ring: one collection, whose shard `i` has the name "NAME-i" and is
     * served by the first `n_replicas` hosts from there on. */
    struct rota_str database, name; /* copied */
    int64_t id;
    uint32_t n_shards, n_replicas;
};

/* Read a file of shards (wire/shards_file.h) and watch it; one that can't be used now is
 * an error. Or follow the hosts of a ring, whose source is taken, also by a failure; as long
 * as it has not told any, as a store has not at first, the directory knows nothing.
 * Gives `*source`; rota_directory_source_close() ends it. */
enum rota_code rota_directory_watch_file(struct uv_loop_s *loop, const char *path,
                                         const struct rota_directory_source_options *options,
                                         struct rota_directory_source **source,
                                         struct rota_error *error);
enum rota_code rota_directory_watch_ring(struct uv_loop_s *loop, struct rota_members_source *hosts,
                                         const struct rota_directory_source_options *options,
                                         struct rota_directory_source **source,
                                         struct rota_error *error);

/* Takes `source`, which may be NULL; the loop frees it. */
void rota_directory_source_close(struct rota_directory_source *source);
