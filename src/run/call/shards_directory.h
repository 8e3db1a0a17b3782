/* shards_directory: the maps of shards are those of spaces, watched at directories.
 *
 *     collection NAME of the default database    space NAME
 *     collection NAME of the database DATABASE   space DATABASE/NAME, as cache/NAME
 *     channel                                    the number of a shard
 *     replica                                    the owner of the shard, in each zone */
#pragma once

#include "base/arena.h"
#include "core/call/service/space_table.h"

#include <rota/experimental/shards.h>

/* The database that an empty name means. */
#define ROTA_SHARDS_DIRECTORY_DEFAULT "default"

enum { ROTA_SHARDS_DIRECTORY_NAME_MAX = 200 }; /* bytes of the name of a space */

enum rota_code rota_shards_directory_new(struct rota_shards *shards,
                                         struct rota_shards_source *source,
                                         struct rota_error *error);

/* The name of a collection's space. Fills `text`; ROTA_ERR_INVALID for one that can't be. */
enum rota_code rota_shards_directory_space(struct rota_str database, struct rota_str collection,
                                           char text[ROTA_SHARDS_DIRECTORY_NAME_MAX + 1],
                                           struct rota_error *error);

/* The map in a table, in the arena, without its name and id. */
enum rota_code rota_shards_directory_map(const struct rota_space_table *table,
                                         struct rota_arena *arena, struct rota_shards_map *map,
                                         struct rota_error *error);
