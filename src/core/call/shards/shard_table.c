#include "core/call/shards/shard_table.h"

#include <assert.h>
#include <stdlib.h>

struct rota_shard_database {
    struct rota_list_node entries; /* never empty for long */
    size_t size;
    char text[];
};

struct node {
    int64_t id;
    size_t n_places; /* in all maps */
};

enum { KEY_MAX = sizeof(uint32_t) + 2 * ROTA_SHARD_NAME_MAX };

void rota_shard_table_init(struct rota_shard_table *table, uint64_t seed, size_t entries_max,
                           size_t names_max)
{
    *table = (struct rota_shard_table){.entries_max = entries_max, .names_max = names_max};
    rota_map_init(&table->entries, seed);
    rota_map_init(&table->names, seed);
    rota_map_init(&table->databases, seed);
    rota_map_init(&table->nodes, seed);
    rota_list_init(&table->by_read);
}

void rota_shard_table_deinit(struct rota_shard_table *table)
{
    ROTA_LIST_EACH (entry, &table->by_read, struct rota_shard_entry, link)
        rota_shard_table_remove(table, entry);
    rota_map_deinit(&table->entries);
    rota_map_deinit(&table->names);
    rota_map_deinit(&table->databases);
    rota_map_deinit(&table->nodes);
}

static struct rota_str id_key(const int64_t *id)
{
    return rota_str_of(id, sizeof *id);
}

/* The database's size, the database, the name: no two pairs share a key. */
static struct rota_str name_key(struct rota_str database, struct rota_str name, char bytes[KEY_MAX])
{
    uint32_t size = (uint32_t)database.size;
    assert(database.size <= ROTA_SHARD_NAME_MAX && name.size <= ROTA_SHARD_NAME_MAX);
    memcpy(bytes, &size, sizeof size);
    if (database.size > 0)
        memcpy(bytes + sizeof size, database.data, database.size);
    if (name.size > 0)
        memcpy(bytes + sizeof size + database.size, name.data, name.size);
    return rota_str_of(bytes, sizeof size + database.size + name.size);
}

struct rota_shard_entry *rota_shard_table_find(const struct rota_shard_table *table,
                                               int64_t collection)
{
    return rota_map_get(&table->entries, id_key(&collection));
}

struct rota_shard_name *rota_shard_table_find_name(const struct rota_shard_table *table,
                                                   struct rota_str database, struct rota_str name)
{
    char bytes[KEY_MAX];
    return rota_map_get(&table->names, name_key(database, name, bytes));
}

/* --- nodes and databases, counted --- */

static void uncount_node(struct rota_shard_table *table, int64_t id)
{
    struct node *node = rota_map_get(&table->nodes, id_key(&id));
    assert(node && node->n_places > 0);
    if (--node->n_places > 0)
        return;
    rota_map_remove(&table->nodes, id_key(&id));
    free(node);
}

static bool count_node(struct rota_shard_table *table, int64_t id)
{
    struct node *node = rota_map_get(&table->nodes, id_key(&id));
    if (!node) {
        node = calloc(1, sizeof *node);
        if (!node)
            return false;
        node->id = id;
        if (!rota_map_put(&table->nodes, id_key(&node->id), node)) {
            free(node);
            return false;
        }
    }
    node->n_places++;
    return true;
}

/* Uncount the first `n_places` of the map, SIZE_MAX: all. */
static void uncount_map(struct rota_shard_table *table, const struct rota_shard_map *map,
                        size_t n_places)
{
    for (size_t i = 0; map && i < map->n_channels; i++)
        for (size_t j = 0; j < map->channels[i].n_replicas; j++) {
            if (n_places-- == 0)
                return;
            uncount_node(table, map->channels[i].replicas[j].node);
        }
}

static bool count_map(struct rota_shard_table *table, const struct rota_shard_map *map)
{
    size_t n_counted = 0;
    for (size_t i = 0; i < map->n_channels; i++)
        for (size_t j = 0; j < map->channels[i].n_replicas; j++) {
            if (!count_node(table, map->channels[i].replicas[j].node)) {
                uncount_map(table, map, n_counted);
                return false;
            }
            n_counted++;
        }
    return true;
}

static bool enter_database(struct rota_shard_table *table, struct rota_shard_entry *entry,
                           struct rota_str text)
{
    struct rota_shard_database *database = rota_map_get(&table->databases, text);
    if (!database) {
        database = calloc(1, sizeof *database + text.size);
        if (!database)
            return false;
        rota_list_init(&database->entries);
        database->size = text.size;
        if (text.size > 0)
            memcpy(database->text, text.data, text.size);
        if (!rota_map_put(&table->databases, rota_str_of(database->text, text.size), database)) {
            free(database);
            return false;
        }
    }
    entry->database = database;
    rota_list_push(&database->entries, &entry->in_database);
    return true;
}

static void leave_database(struct rota_shard_table *table, struct rota_shard_entry *entry)
{
    struct rota_shard_database *database = entry->database;
    rota_list_remove(&entry->in_database);
    if (!rota_list_is_empty(&database->entries))
        return;
    rota_map_remove(&table->databases, rota_str_of(database->text, database->size));
    free(database);
}

/* --- entries --- */

struct rota_shard_entry *rota_shard_table_add(struct rota_shard_table *table, rota_time now,
                                              struct rota_str database, int64_t collection)
{
    struct rota_shard_entry *entry = rota_shard_table_find(table, collection);
    if (entry)
        return entry;
    if (table->entries.size == table->entries_max) {
        struct rota_shard_entry *oldest = rota_shard_table_oldest(table);
        assert(oldest);
        rota_shard_table_remove(table, oldest);
        table->n_evicted++;
    }

    entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->collection = collection;
    entry->read_at = now;
    rota_list_init(&entry->names);
    if (!enter_database(table, entry, database))
        goto fail;
    if (!rota_map_put(&table->entries, id_key(&entry->collection), entry))
        goto fail;
    rota_list_push(&table->by_read, &entry->link);
    return entry;

fail:
    if (entry->database)
        leave_database(table, entry);
    free(entry);
    return NULL;
}

bool rota_shard_table_set_map(struct rota_shard_table *table, struct rota_shard_entry *entry,
                              struct rota_shard_map *map)
{
    if (!count_map(table, map))
        return false;
    uncount_map(table, entry->map, SIZE_MAX);
    rota_shard_map_drop(entry->map);
    entry->map = map;
    return true;
}

static void remove_name(struct rota_shard_table *table, struct rota_shard_name *name)
{
    rota_map_remove(&table->names, rota_str_of(name->key, name->size));
    rota_list_remove(&name->link);
    name->entry->n_names--;
    free(name);
}

static struct rota_shard_name *add_name(struct rota_shard_table *table,
                                        struct rota_shard_entry *entry, struct rota_str key)
{
    struct rota_shard_name *name = calloc(1, sizeof *name + key.size);
    if (!name)
        return NULL;
    name->entry = entry;
    name->size = key.size;
    memcpy(name->key, key.data, key.size);
    if (!rota_map_put(&table->names, rota_str_of(name->key, name->size), name)) {
        free(name);
        return NULL;
    }
    if (entry->n_names == table->names_max)
        remove_name(table, ROTA_LIST_ITEM(entry->names.next, struct rota_shard_name, link));
    rota_list_push(&entry->names, &name->link);
    entry->n_names++;
    return name;
}

void rota_shard_table_set_name(struct rota_shard_table *table, struct rota_shard_entry *entry,
                               struct rota_str database, struct rota_str text)
{
    char bytes[KEY_MAX];
    struct rota_shard_name *name = rota_shard_table_find_name(table, database, text);
    if (name && name->flight > entry->flight)
        return;
    if (name && name->entry != entry) {
        remove_name(table, name); /* the alias has moved */
        name = NULL;
    }
    if (!name)
        name = add_name(table, entry, name_key(database, text, bytes));
    if (!name)
        return;
    name->flight = entry->flight;
    name->fetched_at = name->asked_at = entry->fetched_at;
}

void rota_shard_table_touch(struct rota_shard_table *table, struct rota_shard_entry *entry,
                            rota_time now)
{
    entry->read_at = now;
    rota_list_remove(&entry->link);
    rota_list_push(&table->by_read, &entry->link);
}

struct rota_shard_entry *rota_shard_table_oldest(const struct rota_shard_table *table)
{
    return ROTA_LIST_FIRST(&table->by_read, struct rota_shard_entry, link);
}

void rota_shard_table_remove(struct rota_shard_table *table, struct rota_shard_entry *entry)
{
    ROTA_LIST_EACH (name, &entry->names, struct rota_shard_name, link)
        remove_name(table, name);
    uncount_map(table, entry->map, SIZE_MAX);
    rota_shard_map_drop(entry->map);
    leave_database(table, entry);
    rota_list_remove(&entry->link);
    rota_map_remove(&table->entries, id_key(&entry->collection));
    free(entry);
}

struct rota_shard_entry *rota_shard_table_find_database(const struct rota_shard_table *table,
                                                        struct rota_str text)
{
    const struct rota_shard_database *database = rota_map_get(&table->databases, text);
    return database ? ROTA_LIST_ITEM(database->entries.next, struct rota_shard_entry, in_database)
                    : NULL;
}

bool rota_shard_table_has_node(const struct rota_shard_table *table, int64_t node)
{
    return rota_map_get(&table->nodes, id_key(&node)) != NULL;
}
