#include "core/call/get/lru.h"

#include <assert.h>
#include <stdlib.h>

/* What an allocator adds to a block: its header, and the rest of a unit. */
enum { BLOCK_HEAD = 16, BLOCK_UNIT = 16 };

/* One block: the struct, the key, the value. */
struct entry {
    struct rota_list_node link;
    rota_time expires_at;
    size_t key_size, value_size;
    uint32_t generation;
    bool is_absent;
    char bytes[];
};

static struct rota_str key_of(const struct entry *entry)
{
    return rota_str_of(entry->bytes, entry->key_size);
}

/* How much memory an entry takes; SIZE_MAX on overflow. */
static size_t weigh_entry(size_t key_size, size_t value_size)
{
    size_t size = sizeof(struct entry) + BLOCK_HEAD + BLOCK_UNIT;
    if (__builtin_add_overflow(size, key_size, &size) ||
        __builtin_add_overflow(size, value_size, &size))
        return SIZE_MAX;
    return size / BLOCK_UNIT * BLOCK_UNIT;
}

static size_t table_bytes(const struct rota_lru *lru)
{
    return lru->entries.capacity * sizeof *lru->entries.entries;
}

void rota_lru_init(struct rota_lru *lru, size_t bytes_max, size_t entries_max, uint64_t seed)
{
    *lru = (struct rota_lru){.bytes_max = bytes_max, .entries_max = entries_max};
    if (entries_max == 0 || entries_max > ROTA_LRU_ENTRIES_MAX)
        lru->entries_max = ROTA_LRU_ENTRIES_MAX;
    rota_map_init(&lru->entries, seed);
    rota_list_init(&lru->order);
}

static void drop_entry(struct rota_lru *lru, struct entry *entry)
{
    rota_map_remove(&lru->entries, key_of(entry));
    rota_list_remove(&entry->link);
    lru->entry_bytes -= weigh_entry(entry->key_size, entry->value_size);
    free(entry);
}

static struct entry *oldest_entry(const struct rota_lru *lru)
{
    return ROTA_LIST_FIRST(&lru->order, struct entry, link);
}

void rota_lru_deinit(struct rota_lru *lru)
{
    for (struct entry *entry; (entry = oldest_entry(lru));)
        drop_entry(lru, entry);
    assert(lru->entry_bytes == 0);
    rota_map_deinit(&lru->entries);
}

enum rota_lru_found rota_lru_get(struct rota_lru *lru, rota_time now, struct rota_str key,
                                 struct rota_str *value)
{
    struct entry *entry = rota_map_get(&lru->entries, key);
    if (entry && (now >= entry->expires_at || entry->generation != lru->generation)) {
        lru->stats.n_expired++;
        drop_entry(lru, entry);
        entry = NULL;
    }
    if (!entry) {
        lru->stats.n_misses++;
        return ROTA_LRU_MISS;
    }
    lru->stats.n_hits++;
    rota_list_remove(&entry->link);
    rota_list_push(&lru->order, &entry->link);
    if (entry->is_absent)
        return ROTA_LRU_ABSENT;
    *value = rota_str_of(entry->bytes + entry->key_size, entry->value_size);
    return ROTA_LRU_VALUE;
}

/* The caller's bytes may be those of the entry that is replaced, so the new one is made before
 * the old one is freed. */
static struct entry *make_entry(const struct rota_lru *lru, struct rota_str key,
                                const struct rota_str *value, rota_time expires_at)
{
    size_t value_size = value ? value->size : 0;
    struct entry *entry = malloc(sizeof *entry + key.size + value_size);
    if (!entry)
        return NULL;
    *entry = (struct entry){.expires_at = expires_at,
                            .key_size = key.size,
                            .value_size = value_size,
                            .generation = lru->generation,
                            .is_absent = !value};
    if (key.size > 0)
        memcpy(entry->bytes, key.data, key.size);
    if (value_size > 0)
        memcpy(entry->bytes + key.size, value->data, value_size);
    return entry;
}

/* Make room until the bounds hold; the newest one is last, and so the last to go. */
static void evict_to_bounds(struct rota_lru *lru)
{
    while (!rota_list_is_empty(&lru->order) &&
           (rota_lru_n_bytes(lru) > lru->bytes_max || lru->entries.size > lru->entries_max)) {
        lru->stats.n_evicted++;
        drop_entry(lru, oldest_entry(lru));
    }
}

/* Nothing is pushed out for one that could not stay. */
static bool fits_alone(const struct rota_lru *lru, size_t weight)
{
    return weight <= lru->bytes_max && table_bytes(lru) <= lru->bytes_max - weight;
}

bool rota_lru_put(struct rota_lru *lru, struct rota_str key, const struct rota_str *value,
                  rota_time expires_at)
{
    size_t weight = weigh_entry(key.size, value ? value->size : 0);
    struct entry *entry = fits_alone(lru, weight) ? make_entry(lru, key, value, expires_at) : NULL;
    rota_lru_remove(lru, entry ? key_of(entry) : key);
    if (!entry || !rota_map_put(&lru->entries, key_of(entry), entry)) {
        lru->stats.n_refused++;
        free(entry);
        return false;
    }
    rota_list_push(&lru->order, &entry->link);
    lru->entry_bytes += weight;
    evict_to_bounds(lru);

    /* Only a table that has just grown can push out the newest itself. */
    if (rota_list_is_empty(&lru->order)) {
        lru->stats.n_refused++;
        return false;
    }
    return true;
}

bool rota_lru_remove(struct rota_lru *lru, struct rota_str key)
{
    struct entry *entry = rota_map_get(&lru->entries, key);
    if (!entry)
        return false;
    drop_entry(lru, entry);
    return true;
}

void rota_lru_outdate(struct rota_lru *lru)
{
    lru->generation++;
}

size_t rota_lru_n_entries(const struct rota_lru *lru)
{
    return lru->entries.size;
}

size_t rota_lru_n_bytes(const struct rota_lru *lru)
{
    return lru->entry_bytes + table_bytes(lru);
}
