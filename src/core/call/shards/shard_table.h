/* shard_table: the cached shard maps, by id and by name.
 *
 * The passive half of the shard cache: it stores and finds maps, and knows nothing about flights. A
 * collection has one entry; names lead to entries and are removed with them. The nodes of all maps
 * are counted, so that "does any map have this node?" is one lookup.
 *
 * Invariant: a put that fails has no visible effect. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "core/call/shards/shard_map.h"

#include <rota/time.h>

struct rota_shard_database;

struct rota_shard_entry {
    struct rota_shard_map *map;
    uint64_t flight;      /* that brought it */
    rota_time fetched_at; /* when that was */
    rota_time asked_at;   /* when a flight last began for it */
    rota_time read_at;
    struct rota_shard_database *database;
    bool is_incomplete;          /* a claim took the place of two replicas: one is not known */
    struct rota_list_node names; /* the oldest first */
    size_t n_names;
    struct rota_list_node link;        /* by read_at */
    struct rota_list_node in_database; /* with the others of its database */
    int64_t collection;                /* the key */
};

/* A name and the collection to which it led according to the last flight. */
struct rota_shard_name {
    struct rota_shard_entry *entry;
    uint64_t flight;
    rota_time fetched_at, asked_at;
    struct rota_list_node link; /* of the entry's */
    size_t size;
    char key[];
};

struct rota_shard_table {
    struct rota_map entries, names, databases, nodes;
    struct rota_list_node by_read;
    size_t entries_max, names_max;
    uint64_t n_evicted;
};

void rota_shard_table_init(struct rota_shard_table *table, uint64_t seed, size_t entries_max,
                           size_t names_max);
void rota_shard_table_deinit(struct rota_shard_table *table);

struct rota_shard_entry *rota_shard_table_find(const struct rota_shard_table *table,
                                               int64_t collection);
struct rota_shard_name *rota_shard_table_find_name(const struct rota_shard_table *table,
                                                   struct rota_str database, struct rota_str name);

/* Make room for an entry of the collection and find or add it; a new one has no map yet and must
 * be given one, or be removed. NULL without memory. */
struct rota_shard_entry *rota_shard_table_add(struct rota_shard_table *table, rota_time now,
                                              struct rota_str database, int64_t collection);

/* Replace the entry's map by `map`. Takes a reference on success; false when there is no memory. */
bool rota_shard_table_set_map(struct rota_shard_table *table, struct rota_shard_entry *entry,
                              struct rota_shard_map *map);

/* Let the name lead to the entry, as the entry's flight has reported, and to no other; unless a
 * younger flight has reported otherwise. Without memory the name stays unknown. */
void rota_shard_table_set_name(struct rota_shard_table *table, struct rota_shard_entry *entry,
                               struct rota_str database, struct rota_str name);

/* The entry was read now. */
void rota_shard_table_touch(struct rota_shard_table *table, struct rota_shard_entry *entry,
                            rota_time now);

/* The least recently read entry, or NULL. */
struct rota_shard_entry *rota_shard_table_oldest(const struct rota_shard_table *table);

void rota_shard_table_remove(struct rota_shard_table *table, struct rota_shard_entry *entry);

/* The first entry of the database, or NULL. */
struct rota_shard_entry *rota_shard_table_find_database(const struct rota_shard_table *table,
                                                        struct rota_str database);

bool rota_shard_table_has_node(const struct rota_shard_table *table, int64_t node);
