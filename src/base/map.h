/* A hash table from bytes to pointers.
 *
 * The map keeps keys and values but owns neither: the usual value is a struct
 * that holds its own key. Give it a seed that outsiders can't guess when they
 * choose the keys. A map starts with rota_map_init(). */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_map_entry {
    struct rota_str key;
    void *value; /* NULL: a free place */
    uint64_t hash;
};

struct rota_map {
    struct rota_map_entry *entries;
    size_t size;     /* how many keys there are */
    size_t capacity; /* 0 or a power of two */
    uint64_t seed;
};

void rota_map_init(struct rota_map *map, uint64_t seed);
void rota_map_deinit(struct rota_map *map);

/* Free the values, too, which are from malloc(). */
void rota_map_deinit_values(struct rota_map *map);

/* The value under `key`, or NULL. */
void *rota_map_get(const struct rota_map *map, struct rota_str key);

/* Put `value`, which is not NULL, under `key`; both are kept. Replaces the previous entry, key
 * included. False when there is no memory. */
bool rota_map_put(struct rota_map *map, struct rota_str key, void *value);

/* Take `key` out and return its value, or NULL when it was not there. */
void *rota_map_remove(struct rota_map *map, struct rota_str key);

/* Visit every entry, unordered: start with *place = 0; NULL ends it. The map must not change
 * meanwhile. */
const struct rota_map_entry *rota_map_next(const struct rota_map *map, size_t *place);
