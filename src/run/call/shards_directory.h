/* shards_directory: the maps of shards, asked of a directory. */
#pragma once

#include "wire/message/directory_message.h"

#include <rota/experimental/shards.h>

enum rota_code rota_shards_directory_new(struct rota_shards *shards,
                                         struct rota_shards_source *source,
                                         struct rota_error *error);

/* The map in a directory's reply, in the arena; NULL when it is not one. */
const struct rota_directory_map *rota_shards_directory_decode_map(struct rota_str reply,
                                                                  struct rota_arena *arena);

/* Pass the map, which may be NULL, to `use`. False when it is not one that can be used. */
bool rota_shards_directory_read_map(const struct rota_directory_map *from, struct rota_arena *arena,
                                    void (*use)(void *data, const struct rota_shards_map *map),
                                    void *data);
