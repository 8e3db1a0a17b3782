#include "run/directory.h"

#include "base/buffer.h"
#include "base/map.h"
#include "core/call/list.h"
#include "io/clock.h"

#include "directory.pb-c.h"

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
    bool is_draining; /* nobody may watch */
};

/* --- messages --- */

static bool pack(const ProtobufCMessage *message, struct rota_buffer *buffer)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    if (bytes)
        rota_buffer_append(buffer, bytes, protobuf_c_message_pack(message, bytes));
    free(bytes);
    return bytes && !buffer->failed;
}

/* A message and all that it points to, in one piece. */
struct message {
    Rota__V1__ShardMap map;
    Rota__V1__Collection collection;
    Rota__V1__Shard *shards, **shard_list;
    Rota__V1__Node *nodes, **node_list;
    char *text;
};

static void message_deinit(struct message *message)
{
    free(message->shards);
    free(message->shard_list);
    free(message->nodes);
    free(message->node_list);
    free(message->text);
}

static char *add_text(char **place, struct rota_str text)
{
    char *copy = *place;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *place += text.size + 1;
    return copy;
}

static void count(const struct rota_shards_collection *from, size_t *n_nodes, size_t *n_bytes)
{
    *n_nodes = 0;
    *n_bytes = from->database.size + from->name.size + 2;
    for (size_t i = 0; i < from->n_channels; i++) {
        const struct rota_shard_channel *channel = &from->channels[i];
        *n_nodes += channel->n_replicas;
        *n_bytes += channel->name.size + 1;
        for (size_t j = 0; j < channel->n_replicas; j++)
            *n_bytes += channel->replicas[j].address.size + 1;
    }
}

static bool message_init(struct message *message, const struct rota_shards_collection *from)
{
    size_t n_nodes, n_bytes;
    count(from, &n_nodes, &n_bytes);
    *message = (struct message){
        .shards = calloc(from->n_channels + 1, sizeof *message->shards),
        .shard_list = calloc(from->n_channels + 1, sizeof *message->shard_list),
        .nodes = calloc(n_nodes + 1, sizeof *message->nodes),
        .node_list = calloc(n_nodes + 1, sizeof *message->node_list),
        .text = malloc(n_bytes),
    };
    if (!message->shards || !message->shard_list || !message->nodes || !message->node_list ||
        !message->text) {
        message_deinit(message);
        return false;
    }
    rota__v1__shard_map__init(&message->map);
    rota__v1__collection__init(&message->collection);
    char *place = message->text;
    message->collection.database = add_text(&place, from->database);
    message->collection.name = add_text(&place, from->name);
    message->collection.id = from->id;
    message->map.collection = &message->collection;
    message->map.shards = message->shard_list;
    message->map.n_shards = from->n_channels;
    size_t node = 0;
    for (size_t i = 0; i < from->n_channels; i++) {
        const struct rota_shard_channel *channel = &from->channels[i];
        Rota__V1__Shard *shard = message->shard_list[i] = &message->shards[i];
        rota__v1__shard__init(shard);
        shard->channel = add_text(&place, channel->name);
        shard->nodes = &message->node_list[node];
        shard->n_nodes = channel->n_replicas;
        for (size_t j = 0; j < channel->n_replicas; j++, node++) {
            Rota__V1__Node *replica = message->node_list[node] = &message->nodes[node];
            rota__v1__node__init(replica);
            replica->node_id = channel->replicas[j].node;
            replica->address = add_text(&place, channel->replicas[j].address);
            replica->serviceable = channel->replicas[j].is_serviceable;
            replica->epoch = channel->replicas[j].epoch;
        }
    }
    return true;
}

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

/* The version of what `before`, which may be NULL, has become. */
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

static struct collection *collection_new(struct rota_directory *directory,
                                         const struct rota_shards_collection *from)
{
    const struct collection *before = find_id(&directory->tables, from->id);
    size_t key_size = from->database.size + 1 + from->name.size;
    struct collection *collection = calloc(1, sizeof *collection + key_size + 1);
    Rota__V1__GetShardsReply reply = ROTA__V1__GET_SHARDS_REPLY__INIT;
    struct message message;
    if (!collection)
        return NULL;
    char *place = collection->names;
    add_text(&place, from->database);
    add_text(&place, from->name);
    collection->name_key = rota_str_of(collection->names, key_size);
    collection->id = from->id;
    if (!message_init(&message, from)) {
        free(collection);
        return NULL;
    }
    bool is_packed = pack(&message.map.base, &collection->shards);
    bool is_same =
        is_packed && before &&
        rota_str_is_equal(rota_buffer_str(&before->shards), rota_buffer_str(&collection->shards));
    collection->version = is_same ? before->version : next_version(directory, before);
    message.map.version = collection->version;
    reply.shards = &message.map;
    is_packed = is_packed && pack(&reply.base, &collection->reply);
    message_deinit(&message);
    if (is_packed)
        return collection;
    collection_free(collection);
    return NULL;
}

static bool add(struct tables *tables, struct collection *collection)
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
            return rota_error_set(error, ROTA_ERR_NO_MEMORY, "directory: collection %lld",
                                  (long long)collections[i].id);
        if (find_id(tables, collection->id) ||
            rota_map_get(&tables->by_name, collection->name_key)) {
            collection_free(collection);
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "directory: collection %lld is there twice",
                                  (long long)collections[i].id);
        }
        if (!add(tables, collection)) {
            if (!find_id(tables, collection->id))
                collection_free(collection);
            return rota_error_set(error, ROTA_ERR_NO_MEMORY, "directory: %zu collections", n);
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

/* Send what the client does not have; without room it is sent when there is some.
 * What is gone ends the watch. */
static void tell(struct rota_directory *directory, struct watcher *watcher)
{
    const struct collection *collection = find_id(&directory->tables, watcher->collection);
    if (!collection) {
        watcher_end(directory, watcher, ROTA_STATUS_NOT_FOUND, "the collection is gone");
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
    for (struct rota_list_node *node = directory->watchers.next, *next;
         node != &directory->watchers; node = next) {
        next = node->next;
        tell(directory, ROTA_LIST_ITEM(node, struct watcher, link));
    }
    return ROTA_OK;
}

/* --- methods --- */

static const struct collection *find(const struct rota_directory *directory,
                                     const Rota__V1__Collection *which)
{
    char key[2 * ROTA_SHARD_NAME_MAX + 2];
    if (!which)
        return NULL;
    const struct collection *by_id = which->id ? find_id(&directory->tables, which->id) : NULL;
    if (which->name[0] == '\0')
        return by_id;
    struct rota_str database =
        rota_str(which->database[0] ? which->database : ROTA_DIRECTORY_DEFAULT);
    struct rota_str name = rota_str(which->name);
    if (database.size > ROTA_SHARD_NAME_MAX || name.size > ROTA_SHARD_NAME_MAX)
        return NULL;
    char *place = key;
    add_text(&place, database);
    add_text(&place, name);
    const struct collection *by_name =
        rota_map_get(&directory->tables.by_name, rota_str_of(key, database.size + 1 + name.size));
    return which->id && by_name != by_id ? NULL : by_name;
}

static void on_get(void *data, struct rota_server_call *call)
{
    const struct rota_directory *directory = data;
    struct rota_str request = rota_server_call_request(call);
    Rota__V1__GetShardsRequest *message =
        rota__v1__get_shards_request__unpack(NULL, request.size, (const uint8_t *)request.data);
    if (!message) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT,
                                "the request is not a GetShardsRequest", NULL, 0);
        return;
    }
    const struct collection *collection = find(directory, message->collection);
    if (collection)
        rota_server_call_reply(call, rota_buffer_str(&collection->reply));
    else
        rota_server_call_finish(call, ROTA_STATUS_NOT_FOUND, "no such collection", NULL, 0);
    rota__v1__get_shards_request__free_unpacked(message, NULL);
}

static void begin_watch(struct rota_directory *directory, struct rota_server_call *call,
                        const struct collection *collection, uint64_t version)
{
    struct watcher *watcher = NULL;
    if (directory->is_draining) {
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, "the directory is drained", NULL, 0);
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
    tell(directory, watcher);
}

static void on_watch(void *data, struct rota_server_call *call)
{
    struct rota_directory *directory = data;
    struct rota_str request = rota_server_call_request(call);
    Rota__V1__WatchShardsRequest *message =
        rota__v1__watch_shards_request__unpack(NULL, request.size, (const uint8_t *)request.data);
    if (!message) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT,
                                "the request is not a WatchShardsRequest", NULL, 0);
        return;
    }
    const struct collection *collection = find(directory, message->collection);
    if (collection)
        begin_watch(directory, call, collection, message->version);
    else
        rota_server_call_finish(call, ROTA_STATUS_NOT_FOUND, "no such collection", NULL, 0);
    rota__v1__watch_shards_request__free_unpacked(message, NULL);
}

static void on_watch_room(void *data, struct rota_server_call *call)
{
    tell(data, rota_server_call_data(call));
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
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "directory");
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
    struct rota_list_node *first;
    while ((first = rota_list_first(&directory->watchers)))
        watcher_end(directory, ROTA_LIST_ITEM(first, struct watcher, link), ROTA_STATUS_UNAVAILABLE,
                    why);
}

void rota_directory_close(struct rota_directory *directory)
{
    if (!directory)
        return;
    end_watches(directory, "the directory closes");
    tables_deinit(&directory->tables);
    free(directory);
}

void rota_directory_drain(struct rota_directory *directory)
{
    directory->is_draining = true;
    end_watches(directory, "the directory is drained");
}

void rota_directory_restore(struct rota_directory *directory)
{
    directory->is_draining = false;
}

size_t rota_directory_n_collections(const struct rota_directory *directory)
{
    return directory->tables.by_id.size;
}

size_t rota_directory_n_watchers(const struct rota_directory *directory)
{
    return directory->n_watchers;
}
