/* space_directory: the maps of spaces for clients, that is rota.v1.Directory.
 *
 * It serves the spaces that this process knows. A space that it does not know is looked up in
 * the store first: only the store can say that there is none. Updates are encoded once for all
 * watchers (core/own/space_feed.h). */
#pragma once

#include "core/own/space_feed.h"

#include <rota/experimental/store_ask.h>
#include <rota/server.h>
#include <rota/space.h>

struct rota_space_directory;
struct uv_loop_s;

enum {
    ROTA_SPACE_DIRECTORY_WATCHERS_MAX = 65536, /* and calls that wait */
    ROTA_SPACE_DIRECTORY_DELTAS = 4,           /* encoded changes that are kept per space */
    ROTA_SPACE_DIRECTORY_NAME_MAX = 200,       /* bytes of the name of a space */
};

/* How long a call waits for the store, or for a space that was just opened. */
#define ROTA_SPACE_DIRECTORY_PATIENCE (2 * ROTA_SEC)

/* Serve; `server` is kept. `look_up` is called when a client asks for a space that is not known:
 * ask the store, set the spaces that are new, then call rota_space_directory_looked_up(). Gives
 * `*directory`; rota_space_directory_close() ends it. */
enum rota_code rota_space_directory_open(struct uv_loop_s *loop, struct rota_server *server,
                                         void (*look_up)(void *data), void *data,
                                         struct rota_space_directory **directory,
                                         struct rota_error *error);

/* Takes `directory`, which may be NULL, after the server was closed. */
void rota_space_directory_close(struct rota_space_directory *directory);

/* A space is as in this map now, copied: its watchers are sent what has changed. `zones`: NULL if a
 * shard has one owner. Without memory the next one has the changes. */
enum rota_code rota_space_directory_set(struct rota_space_directory *directory,
                                        const struct rota_space_map *map,
                                        const struct rota_space_zones *zones,
                                        struct rota_error *error);

/* The store no longer has the space: watches of it end with NOT_FOUND. */
void rota_space_directory_remove(struct rota_space_directory *directory, struct rota_str name);

/* The store has listed its spaces, and those that are new were added. NULL: it could not be
 * asked. */
void rota_space_directory_looked_up(struct rota_space_directory *directory,
                                    const struct rota_store_answer *answer);

/* Forget all spaces, before they are closed. Watches end, and later calls are rejected. */
void rota_space_directory_end(struct rota_space_directory *directory);

size_t rota_space_directory_n_spaces(const struct rota_space_directory *directory);
size_t rota_space_directory_n_watchers(const struct rota_space_directory *directory);
