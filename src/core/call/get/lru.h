/* lru: values by key within a number of bytes; the least recently used entry makes room.
 *
 * An entry is a value, or the knowledge that there is none: an absent key that is requested again
 * and again must not reach the source each time. Each entry has its own expiry.
 *
 * Everything is counted: keys, values, the entries themselves, the allocator's overhead, and the
 * table. All operations are O(1), except growing the table. Time is monotonic.
 *
 * Invariants: bytes <= bytes_max and entries <= entries_max after each call, except for the
 * table, which also exists when it is empty; a value that is returned is the last one put. */
#pragma once

#include "base/list.h"
#include "base/map.h"

#include <rota/time.h>

enum {
    ROTA_LRU_BYTES_MIN = 64 << 10, /* the minimum sensible bound */
    ROTA_LRU_ENTRIES_MAX = 1 << 28,
};

enum rota_lru_found {
    ROTA_LRU_MISS,
    ROTA_LRU_VALUE,
    ROTA_LRU_ABSENT, /* it is known that there is no value */
};

struct rota_lru_stats {
    uint64_t n_hits, n_misses; /* absent ones are hits */
    uint64_t n_expired;        /* of the misses: it was there, but expired */
    uint64_t n_evicted;        /* made room for another one */
    uint64_t n_refused;        /* puts that could not be kept: too large, or no memory */
};

struct rota_lru {
    struct rota_map entries;
    struct rota_list_node order; /* the next to be evicted is first */
    size_t bytes_max, entries_max;
    size_t entry_bytes; /* of all entries, without the table */
    uint32_t generation;
    struct rota_lru_stats stats;
};

/* `entries_max` of 0 means ROTA_LRU_ENTRIES_MAX; `seed` guards the table against
 * chosen keys. */
void rota_lru_init(struct rota_lru *lru, size_t bytes_max, size_t entries_max, uint64_t seed);
void rota_lru_deinit(struct rota_lru *lru);

/* Look a key up and mark it as used now. A value is borrowed until the next put or remove, or a
 * get at a later time. */
enum rota_lru_found rota_lru_get(struct rota_lru *lru, rota_time now, struct rota_str key,
                                 struct rota_str *value);

/* Store a value, or with NULL that there is none, until `expires_at`; both are copied. Replaces the
 * previous entry. False when it could not be stored; then nothing is known about the key. */
bool rota_lru_put(struct rota_lru *lru, struct rota_str key, const struct rota_str *value,
                  rota_time expires_at);

/* Forget a key; false when it was not there. */
bool rota_lru_remove(struct rota_lru *lru, struct rota_str key);

/* Expire all entries. O(1): each is removed when it is next found. */
void rota_lru_outdate(struct rota_lru *lru);

/* How many there are, expired ones included, and how much memory they take. */
size_t rota_lru_n_entries(const struct rota_lru *lru);
size_t rota_lru_n_bytes(const struct rota_lru *lru);
