#include "run/call/directory.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/quote.h"
#include "io/clock.h"
#include "wire/message/directory_message.h"

#include <rota/experimental/host.h>
#include <stdio.h>
#include <stdlib.h>

/* A collection as it is sent: the replies of both methods are the same bytes. */
struct collection {
    int64_t id;
    uint64_t version;
    struct rota_str name_key;  /* database, NUL, name */
    struct rota_buffer shards; /* the map without a version, to compare */
    struct rota_buffer reply;
    char names[];
};

struct watcher {
    struct rota_server_call *call;
    struct rota_list_node link;
    int64_t collection;
    uint64_t told; /* the version that the client has */
};

struct tables {
    struct rota_map by_id, by_name;
};

struct rota_directory {
    struct tables tables;
    struct rota_list_node watchers;
    size_t n_watchers;
    uint64_t version;
    bool is_draining; /* watches are rejected */
    bool is_partial;  /* there may be more collections */
};

/* --- collections --- */

static void collection_free(struct collection *collection)
{
    if (!collection)
        return;
    rota_buffer_deinit(&collection->shards);
    rota_buffer_deinit(&collection->reply);
    free(collection);
}

static void tables_deinit(struct tables *tables)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&tables->by_id, &place)))
        collection_free(entry->value);
    rota_map_deinit(&tables->by_id);
    rota_map_deinit(&tables->by_name);
}

static struct collection *find_id(const struct tables *tables, int64_t id)
{
    return rota_map_get(&tables->by_id, rota_str_of(&id, sizeof id));
}

/* The version of the successor of `before`, which may be NULL. */
static uint64_t next_version(struct rota_directory *directory, const struct collection *before)
{
    uint64_t wall = (uint64_t)(rota_clock_wall() / ROTA_USEC);
    if (wall > directory->version)
        directory->version = wall;
    else
        directory->version++;
    if (before && directory->version <= before->version)
        directory->version = before->version + 1;
    return directory->version;
}

/* "database", NUL, "name", in `key`. */
static struct rota_str make_key(struct rota_str database, struct rota_str name, char *key)
{
    if (database.size > 0)
        memcpy(key, database.data, database.size);
    key[database.size] = '\0';
    if (name.size > 0)
        memcpy(key + database.size + 1, name.data, name.size);
    return rota_str_of(key, database.size + 1 + name.size);
}

/* Fill in what is sent: the bytes and, if they differ from those of `before`, a new version. */
static bool pack_collection(struct rota_directory *directory, struct collection *collection,
                            const struct rota_shards_collection *from)
{
    const struct collection *before = find_id(&directory->tables, from->id);
    const struct rota_directory_collection name = {from->database, from->name, from->id};
    struct rota_directory_shard *shards = calloc(from->n_channels + 1, sizeof *shards);
    struct rota_directory_map map = {.collection = &name, .shards = {shards, from->n_channels}};
    if (!shards)
        return false;
    for (size_t i = 0; i < from->n_channels; i++)
        shards[i] = (struct rota_directory_shard){
            from->channels[i].name, {from->channels[i].replicas, from->channels[i].n_replicas}};
    rota_message_encode(&ROTA_DIRECTORY_MAP, &map, &collection->shards);
    bool is_same = before && rota_str_is_equal(rota_buffer_str(&before->shards),
                                               rota_buffer_str(&collection->shards));
    map.version = collection->version = is_same ? before->version : next_version(directory, before);
    rota_message_encode(&ROTA_DIRECTORY_REPLY, &(struct rota_directory_reply){&map},
                        &collection->reply);
    free(shards);
    return !collection->shards.failed && !collection->reply.failed;
}

static struct collection *collection_new(struct rota_directory *directory,
                                         const struct rota_shards_collection *from)
{
    struct collection *collection =
        calloc(1, sizeof *collection + from->database.size + 1 + from->name.size);
    if (!collection)
        return NULL;
    collection->name_key = make_key(from->database, from->name, collection->names);
    collection->id = from->id;
    if (pack_collection(directory, collection, from))
        return collection;
    collection_free(collection);
    return NULL;
}

static bool add_collection(struct tables *tables, struct collection *collection)
{
    if (!rota_map_put(&tables->by_id, rota_str_of(&collection->id, sizeof collection->id),
                      collection))
        return false;
    return rota_map_put(&tables->by_name, collection->name_key, collection);
}

static enum rota_code make_tables(struct rota_directory *directory, struct tables *tables,
                                  const struct rota_shards_collection *collections, size_t n,
                                  struct rota_error *error)
{
    for (size_t i = 0; i < n; i++) {
        struct collection *collection = collection_new(directory, &collections[i]);
        if (!collection)
            return rota_error_no_memory(error, "for collection %lld of the directory",
                                        (long long)collections[i].id);
        if (find_id(tables, collection->id) ||
            rota_map_get(&tables->by_name, collection->name_key)) {
            collection_free(collection);
            return rota_error_set(error, ROTA_ERR_INVALID, "directory: duplicate collection %lld",
                                  (long long)collections[i].id);
        }
        if (!add_collection(tables, collection)) {
            if (!find_id(tables, collection->id))
                collection_free(collection);
            return rota_error_no_memory(error, "for a directory of %zu collections", n);
        }
    }
    return ROTA_OK;
}

/* --- watchers --- */

static void watcher_end(struct rota_directory *directory, struct watcher *watcher,
                        enum rota_status status, const char *text)
{
    rota_list_remove(&watcher->link);
    directory->n_watchers--;
    rota_server_call_finish(watcher->call, status, text, NULL, 0);
    free(watcher);
}

/* Send what the client does not have; without room it is sent later. A removed collection ends
 * the watch. */
static void send_update(struct rota_directory *directory, struct watcher *watcher)
{
    const struct collection *collection = find_id(&directory->tables, watcher->collection);
    if (!collection) {
        watcher_end(directory, watcher, ROTA_STATUS_NOT_FOUND, "the collection was removed");
        return;
    }
    if (collection->version == watcher->told)
        return;
    if (rota_server_call_send(watcher->call, rota_buffer_str(&collection->reply)) == ROTA_OK)
        watcher->told = collection->version;
}

enum rota_code rota_directory_set(struct rota_directory *directory,
                                  const struct rota_shards_collection *collections, size_t n,
                                  struct rota_error *error)
{
    struct tables tables;
    if (n > ROTA_DIRECTORY_COLLECTIONS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "directory: %zu collections, at most %d are "
                              "allowed",
                              n, ROTA_DIRECTORY_COLLECTIONS_MAX);
    rota_map_init(&tables.by_id, directory->tables.by_id.seed);
    rota_map_init(&tables.by_name, directory->tables.by_name.seed);
    enum rota_code code = make_tables(directory, &tables, collections, n, error);
    if (code) {
        tables_deinit(&tables);
        return code;
    }
    tables_deinit(&directory->tables);
    directory->tables = tables;
    ROTA_LIST_EACH (watcher, &directory->watchers, struct watcher, link)
        send_update(directory, watcher);
    return ROTA_OK;
}

/* --- methods --- */

static const struct collection *find_collection(const struct rota_directory *directory,
                                                const struct rota_directory_collection *which)
{
    char key[2 * ROTA_SHARD_NAME_MAX + 1];
    if (!which)
        return NULL;
    const struct collection *by_id = which->id ? find_id(&directory->tables, which->id) : NULL;
    if (which->name.size == 0)
        return by_id;
    struct rota_str database =
        which->database.size ? which->database : rota_str(ROTA_DIRECTORY_DEFAULT);
    if (database.size > ROTA_SHARD_NAME_MAX || which->name.size > ROTA_SHARD_NAME_MAX)
        return NULL;
    const struct collection *by_name =
        rota_map_get(&directory->tables.by_name, make_key(database, which->name, key));
    return which->id && by_name != by_id ? NULL : by_name;
}

static void refuse_unknown(const struct rota_directory *directory, struct rota_server_call *call,
                           const struct rota_directory_collection *which)
{
    char text[256], name[ROTA_QUOTE_MAX];
    if (directory->is_partial) {
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE,
                                "this directory does not know all its collections yet", NULL, 0);
        return;
    }
    if (which && which->name.size > 0)
        snprintf(text, sizeof text, "this directory has no collection %s",
                 rota_quote(which->name, name));
    else
        snprintf(text, sizeof text, "this directory has no such collection");
    rota_server_call_finish(call, ROTA_STATUS_NOT_FOUND, text, NULL, 0);
}

/* The collection that a request names; NULL when it was answered. */
static const struct collection *read_request(const struct rota_directory *directory,
                                             struct rota_server_call *call,
                                             const struct rota_message_type *type,
                                             const char *malformed, uint64_t *version)
{
    struct rota_directory_request message;
    struct rota_arena arena = {0};
    const struct collection *collection = NULL;
    if (rota_message_decode(type, rota_server_call_request(call), &message, &arena, NULL))
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, malformed, NULL, 0);
    else if (!(collection = find_collection(directory, message.collection)))
        refuse_unknown(directory, call, message.collection);
    *version = message.version;
    rota_arena_deinit(&arena);
    return collection;
}

static void on_get(void *data, struct rota_server_call *call)
{
    uint64_t version;
    const struct collection *collection = read_request(
        data, call, &ROTA_DIRECTORY_GET, "the request is not a GetShardsRequest", &version);
    if (collection)
        rota_server_call_reply(call, rota_buffer_str(&collection->reply));
}

static void begin_watch(struct rota_directory *directory, struct rota_server_call *call,
                        const struct collection *collection, uint64_t version)
{
    struct watcher *watcher = NULL;
    if (directory->is_draining) {
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, "the directory is draining", NULL,
                                0);
        return;
    }
    if (directory->n_watchers < ROTA_DIRECTORY_WATCHERS_MAX)
        watcher = calloc(1, sizeof *watcher);
    if (!watcher) {
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "too many watchers", NULL, 0);
        return;
    }
    watcher->call = call;
    watcher->collection = collection->id;
    watcher->told = version;
    rota_list_push(&directory->watchers, &watcher->link);
    directory->n_watchers++;
    rota_server_call_set_data(call, watcher);
    send_update(directory, watcher);
}

static void on_watch(void *data, struct rota_server_call *call)
{
    uint64_t version;
    const struct collection *collection = read_request(
        data, call, &ROTA_DIRECTORY_WATCH, "the request is not a WatchShardsRequest", &version);
    if (collection)
        begin_watch(data, call, collection, version);
}

static void on_watch_room(void *data, struct rota_server_call *call)
{
    send_update(data, rota_server_call_data(call));
}

static void on_watch_cancel(void *data, struct rota_server_call *call)
{
    watcher_end(data, rota_server_call_data(call), ROTA_STATUS_CANCELLED, NULL);
}

/* --- life --- */

enum rota_code rota_directory_open(struct rota_server *server, struct rota_directory **result,
                                   struct rota_error *error)
{
    struct rota_directory *directory = calloc(1, sizeof *directory);
    if (!directory)
        return rota_error_no_memory(error, "for a directory");
    uint64_t seed = (uint64_t)rota_clock_mono() ^ (uintptr_t)directory;
    rota_map_init(&directory->tables.by_id, seed);
    rota_map_init(&directory->tables.by_name, seed);
    rota_list_init(&directory->watchers);
    const struct rota_server_method get = {
        .path = "/rota.v1.Directory/GetShards", .on_call = on_get, .data = directory};
    const struct rota_server_method watch = {.path = "/rota.v1.Directory/WatchShards",
                                             .on_call = on_watch,
                                             .on_cancel = on_watch_cancel,
                                             .on_room = on_watch_room,
                                             .data = directory};
    enum rota_code code = rota_server_add(server, &get, error);
    if (code == ROTA_OK)
        code = rota_server_add(server, &watch, error);
    if (code) {
        rota_directory_close(directory);
        return code;
    }
    *result = directory;
    return ROTA_OK;
}

static void end_watches(struct rota_directory *directory, const char *why)
{
    ROTA_LIST_DRAIN (watcher, &directory->watchers, struct watcher, link)
        watcher_end(directory, watcher, ROTA_STATUS_UNAVAILABLE, why);
}

void rota_directory_close(struct rota_directory *directory)
{
    if (!directory)
        return;
    end_watches(directory, "the directory is closing");
    tables_deinit(&directory->tables);
    free(directory);
}

void rota_directory_drain(struct rota_directory *directory)
{
    directory->is_draining = true;
    end_watches(directory, "the directory is draining");
}

void rota_directory_restore(struct rota_directory *directory)
{
    directory->is_draining = false;
}

void rota_directory_set_partial(struct rota_directory *directory, bool is_partial)
{
    directory->is_partial = is_partial;
}

size_t rota_directory_n_collections(const struct rota_directory *directory)
{
    return directory->tables.by_id.size;
}

size_t rota_directory_n_watchers(const struct rota_directory *directory)
{
    return directory->n_watchers;
}

/* Two hashes of its address. */
