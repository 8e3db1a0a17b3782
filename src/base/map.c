#include "base/map.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

void rota_map_init(struct rota_map *map, uint64_t seed)
{
    *map = (struct rota_map){.seed = seed};
}

void rota_map_deinit(struct rota_map *map)
{
    free(map->entries);
    *map = (struct rota_map){.seed = map->seed};
}

void rota_map_deinit_values(struct rota_map *map)
{
    for (size_t i = 0; i < map->capacity; i++)
        free(map->entries[i].value);
    rota_map_deinit(map);
}

/* Where `key` is, or the free place where it would go. Linear probing: the
 * run from a key's home to the key has no hole. */
static size_t find_place(const struct rota_map *map, struct rota_str key, uint64_t hash)
{
    size_t mask = map->capacity - 1;
    size_t i = hash & mask;
    while (map->entries[i].value &&
           (map->entries[i].hash != hash || !rota_str_is_equal(map->entries[i].key, key)))
        i = (i + 1) & mask;
    return i;
}

static bool grow_table(struct rota_map *map)
{
    struct rota_map bigger = {.seed = map->seed, .size = map->size};
    bigger.capacity = map->capacity ? map->capacity * 2 : 16;
    bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (size_t i = 0; i < map->capacity; i++) {
        const struct rota_map_entry *entry = &map->entries[i];
        if (entry->value)
            bigger.entries[find_place(&bigger, entry->key, entry->hash)] = *entry;
    }
    free(map->entries);
    *map = bigger;
    return true;
}

void *rota_map_get(const struct rota_map *map, struct rota_str key)
{
    if (map->size == 0)
        return NULL;
    return map->entries[find_place(map, key, rota_hash_sip64(map->seed, key))].value;
}

bool rota_map_put(struct rota_map *map, struct rota_str key, void *value)
{
    assert(value);
    if ((map->size + 1) * 4 > map->capacity * 3 && !grow_table(map))
        return false;

    uint64_t hash = rota_hash_sip64(map->seed, key);
    struct rota_map_entry *entry = &map->entries[find_place(map, key, hash)];
    map->size += !entry->value;
    *entry = (struct rota_map_entry){.key = key, .value = value, .hash = hash};
    return true;
}

void *rota_map_remove(struct rota_map *map, struct rota_str key)
{
    if (map->size == 0)
        return NULL;

    size_t mask = map->capacity - 1;
    size_t hole = find_place(map, key, rota_hash_sip64(map->seed, key));
    void *value = map->entries[hole].value;
    if (!value)
        return NULL;

    /* Close the hole: move back every later entry of the run whose home is not between the hole
     * and itself. */
    for (size_t i = (hole + 1) & mask; map->entries[i].value; i = (i + 1) & mask) {
        size_t home = map->entries[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole].value = NULL;
    map->size--;
    return value;
}

const struct rota_map_entry *rota_map_next(const struct rota_map *map, size_t *place)
{
    while (*place < map->capacity) {
        const struct rota_map_entry *entry = &map->entries[(*place)++];
        if (entry->value)
            return entry;
    }
    return NULL;
}
