/* The role "directory": reports the replicas of each shard to clients (rota.v1.Directory).
 *
 * It has the collections of [[directory]] and those of [[cache]]. A [[directory]] is a ring, of
 * nodes, of members of the store or of the hosts of a file, or it is a file of shards. The shards
 * of a cache are where their leases are, as this node's own Gets know them. */
#include "node/node_inside.h"

#include "base/hash.h"
#include "base/json.h"
#include "node/role/role_cache.h"
#include "run/call/directory.h"
#include "run/place/file_watch.h"

#include <rota/ring.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_EVERY ROTA_SEC /* at where the shards of caches are */

enum { NUMBER_MAX = 12, ZONES_MAX = 16 }; /* zones: of one shard of a cache */

struct directory_role;

/* A [[directory]]. */
struct source {
    struct directory_role *role;
    const struct rota_node_directory *settings;
    struct rota_members *members; /* the node's own, unless `is_own` */
    bool is_own, has_hosts;
    struct rota_file_watch *watch; /* of a file of shards; NULL: a ring */
    struct rota_shards_file file;
};

struct directory_role {
    struct rota_node *node;
    struct rota_directory *directory;
    uv_timer_t timer;
    char trouble[ROTA_ERROR_TEXT_MAX]; /* of the last update; "": none */
    size_t n_handles;                  /* the timer and the watches, until they are closed */
    size_t n_sources;
    struct source sources[];
};

/* The content, while it is being put together. */
struct draft {
    struct rota_arena arena;
    struct rota_shards_collection *collections;
    size_t n;
    bool has_failed;
};

static void *take_zeroed(struct draft *draft, size_t n, size_t size)
{
    void *memory = rota_arena_take(&draft->arena, n * size + 1);
    draft->has_failed |= !memory;
    if (memory)
        memset(memory, 0, n * size + 1);
    return memory;
}

/* The collection's shards, with room for `n_replicas` of each; NULL without memory. */
static struct rota_shard_channel *add_collection(struct draft *draft, const char *database,
                                                 const char *name, int64_t id, size_t n_shards,
                                                 size_t n_replicas)
{
    struct rota_shard_channel *channels = take_zeroed(draft, n_shards, sizeof *channels);
    size_t size = strlen(name) + NUMBER_MAX;
    char *names = take_zeroed(draft, n_shards, size);
    struct rota_replica *replicas = take_zeroed(draft, n_shards * n_replicas, sizeof *replicas);
    if (!channels || !names || !replicas)
        return NULL;
    for (size_t i = 0; i < n_shards; i++) {
        snprintf(names + i * size, size, "%s-%zu", name, i);
        channels[i] = (struct rota_shard_channel){.name = rota_str(names + i * size),
                                                  .replicas = replicas + i * n_replicas};
    }
    draft->collections[draft->n++] =
        (struct rota_shards_collection){rota_str(database), rota_str(name), id, channels, n_shards};
    return channels;
}

static void add_replica(struct rota_shard_channel *channel, size_t n_max, struct rota_str address,
                        uint64_t epoch)
{
    struct rota_replica *replicas = (struct rota_replica *)(uintptr_t)channel->replicas; /* ours */
    if (channel->n_replicas < n_max)
        replicas[channel->n_replicas++] =
            (struct rota_replica){rota_directory_node_of(address), address, epoch, true};
}

/* --- the ring --- */

/* A ring follows from its hosts alone, so there is no claim that could change hands: all epochs
 * are 1. */
static void add_ring(const struct rota_ring *ring, const struct rota_node_directory *settings,
                     struct draft *draft)
{
    size_t n_replicas = (size_t)settings->replicas;
    struct rota_shard_channel *channels =
        add_collection(draft, settings->database, settings->name, settings->id,
                       (size_t)settings->shards, n_replicas);
    uint32_t *hosts = take_zeroed(draft, n_replicas, sizeof *hosts);
    for (size_t i = 0; channels && hosts && i < (size_t)settings->shards; i++) {
        size_t n = rota_ring_lookup_n(ring, channels[i].name, n_replicas, hosts);
        for (size_t k = 0; k < n; k++)
            add_replica(&channels[i], n_replicas,
                        rota_arena_copy(&draft->arena, rota_ring_host(ring, hosts[k]).address), 1);
    }
}

static void add_source(struct source *source, struct draft *draft)
{
    if (source->watch || source->file.n_collections > 0) {
        for (size_t i = 0; i < source->file.n_collections; i++)
            draft->collections[draft->n++] = source->file.collections[i];
        return;
    }
    struct rota_ring *ring = rota_members_ring(source->members);
    source->has_hosts |= !source->is_own || rota_ring_size(ring) > 0;
    if (source->has_hosts)
        add_ring(ring, source->settings, draft);
    rota_ring_unref(ring);
}

/* --- caches --- */

/* Their numbers are above all that [[directory]] can have. */
static int64_t id_of(const char *name)
{
    return (INT64_C(1) << 32) + rota_hash_farm32(rota_str(name));
}

static void add_cache(const struct rota_node_cache *cache, const struct rota_get *get,
                      struct draft *draft)
{
    size_t n_shards = (size_t)cache->shards;
    struct rota_get_view view;
    struct rota_shard_channel *channels = add_collection(draft, ROTA_DIRECTORY_DEFAULT, cache->name,
                                                         id_of(cache->name), n_shards, ZONES_MAX);
    for (size_t place = 0; channels && rota_get_next_host(get, &place, &view);) {
        struct rota_str address = rota_arena_copy(&draft->arena, view.address);
        draft->has_failed |= !address.data;
        for (size_t i = 0; address.data && i < view.n_shards; i++)
            if (view.shards[i].interval.of == n_shards)
                add_replica(&channels[view.shards[i].interval.from], ZONES_MAX, address,
                            view.shards[i].epoch);
    }
}

/* --- all of it --- */

static void write_draft(struct directory_role *role, struct draft *draft)
{
    const struct rota_node_cache *cache;
    const struct rota_get *get;
    size_t n_max = role->node->options.settings->n_sections;
    for (size_t i = 0; i < role->n_sources; i++)
        n_max += role->sources[i].file.n_collections;
    draft->collections = take_zeroed(draft, n_max, sizeof *draft->collections);
    if (!draft->collections)
        return;
    for (size_t i = 0; i < role->n_sources; i++)
        add_source(&role->sources[i], draft);
    for (size_t i = 0; (cache = rota_role_cache_at(role->node, i, &get)); i++)
        if (cache->shards <= ROTA_SHARD_CHANNELS_MAX)
            add_cache(cache, get, draft);
}

/* The directory finds the changes by itself. */
static enum rota_code refresh_directory(struct directory_role *role, struct rota_error *why)
{
    struct draft draft = {0};
    struct rota_error error = {0};
    write_draft(role, &draft);
    enum rota_code code =
        draft.has_failed ? rota_error_no_memory(&error, "for the directory")
                         : rota_directory_set(role->directory, draft.collections, draft.n, &error);
    rota_arena_deinit(&draft.arena);
    if (why) {
        *why = error;
        return code;
    }
    if (strcmp(role->trouble, error.text) != 0 && error.text[0])
        rota_log(role->node->log, rota_clock_wall(), ROTA_LOG_ERROR, "directory not updated",
                 ROTA_LOG_FACT("error", error.text));
    snprintf(role->trouble, sizeof role->trouble, "%s", error.text);
    return code;
}

static void on_timer(uv_timer_t *timer)
{
    refresh_directory(timer->data, NULL);
}

static void on_members(void *data, const struct rota_members_change *change)
{
    struct directory_role *role = data;
    (void)change;
    refresh_directory(role, NULL);
    rota_node_open_look_ready(role->node);
}

/* --- sources --- */

static enum rota_code on_content(void *data, struct rota_str content, struct rota_error *error)
{
    struct source *source = data;
    struct rota_shards_file before = source->file;
    enum rota_code code =
        rota_shards_file_parse(content, source->settings->map, &source->file, error);
    if (code) {
        source->file = before;
        return code;
    }
    if (source->file.n_collections == 0) /* more likely a writer's first half than the truth */
        code = rota_error_set(error, ROTA_ERR_INVALID, "%.1000s: contains no collection",
                              source->settings->map);
    else
        code = refresh_directory(source->role, error);
    struct rota_shards_file *old = code ? &source->file : &before;
    rota_shards_file_deinit(old);
    if (code)
        source->file = before;
    return code;
}

static void on_source_error(void *data, const struct rota_error *error)
{
    struct source *source = data;
    rota_log(source->role->node->log, rota_clock_wall(), ROTA_LOG_ERROR,
             "directory keeps its previous map", ROTA_LOG_FACT("directory", source->settings->name),
             ROTA_LOG_FACT("error", error->text));
}

static void end_handle(struct directory_role *role)
{
    if (--role->n_handles > 0)
        return;
    for (size_t i = 0; i < role->n_sources; i++)
        rota_shards_file_deinit(&role->sources[i].file);
    free(role);
}

static void on_watch_closed(void *data)
{
    end_handle(((struct source *)data)->role);
}

static enum rota_code open_map(struct source *source, struct rota_error *error)
{
    const struct rota_file_watch_options options = {.path = source->settings->map,
                                                    .size_max = ROTA_SHARDS_TEXT_MAX,
                                                    .on_content = on_content,
                                                    .on_error = on_source_error,
                                                    .on_closed = on_watch_closed,
                                                    .data = source};
    enum rota_code code =
        rota_file_watch_open(source->role->node->loop, &options, &source->watch, error);
    source->role->n_handles += code == ROTA_OK;
    return code;
}

static enum rota_code open_source(struct source *source, struct rota_error *error)
{
    struct rota_node *node = source->role->node;
    const struct rota_node_directory *settings = source->settings;
    const struct rota_members_options options = {.on_error = on_source_error, .data = source};
    struct rota_members_source *hosts;
    enum rota_code code = ROTA_OK;
    if (settings->map)
        return open_map(source, error);
    source->members = node->members;
    if (!settings->hosts && !settings->members)
        return ROTA_OK;
    if (settings->hosts)
        code = rota_hosts_watch_new(settings->hosts, &hosts, error);
    else
        code = rota_store_members_new(node->store, settings->members, node->settings->ttl / 10,
                                      &hosts, error);
    if (!code)
        code = rota_members_open(node->loop, hosts, &options, &source->members, error);
    source->is_own = code == ROTA_OK;
    return code ? code
                : rota_members_subscribe(source->members, "directory", on_members, source->role,
                                         error);
}

/* Clients would take a collection that is not known yet for one that does not exist. */
static bool is_ready(const void *data)
{
    const struct directory_role *role = data;
    for (size_t i = 0; i < role->n_sources; i++)
        if (role->sources[i].is_own && !role->sources[i].has_hosts)
            return false;
    return true;
}

/* --- life --- */

static void on_timer_closed(uv_handle_t *handle)
{
    end_handle(handle->data);
}

static void close_role(void *data)
{
    struct directory_role *role = data;
    rota_members_unsubscribe(role->node->members, "directory");
    for (size_t i = 0; i < role->n_sources; i++) {
        rota_file_watch_close(role->sources[i].watch);
        if (role->sources[i].is_own)
            rota_members_close(role->sources[i].members);
    }
    rota_directory_close(role->directory);
    uv_close((uv_handle_t *)&role->timer, on_timer_closed);
}

static enum rota_code open_parts(struct directory_role *role, struct rota_error *error)
{
    struct rota_node *node = role->node;
    const struct rota_settings *all = node->options.settings;
    enum rota_code code = rota_directory_open(node->server, &role->directory, error);
    for (size_t i = 0; !code && i < all->n_sections; i++) {
        if (strcmp(all->sections[i].kind->name, "directory") != 0)
            continue;
        struct source *source = &role->sources[role->n_sources++];
        *source = (struct source){.role = role, .settings = all->sections[i].values};
        code = open_source(source, error);
    }
    return code ? code
                : rota_members_subscribe(node->members, "directory", on_members, role, error);
}

static enum rota_code open_role(struct rota_node *node, void **role_data, struct rota_error *error)
{
    const struct rota_get *get;
    struct directory_role *role =
        calloc(1, sizeof *role + node->options.settings->n_sections * sizeof role->sources[0]);
    if (!role)
        return rota_error_no_memory(error, "for a directory");
    role->node = node;
    role->n_handles = 1;
    uv_timer_init(node->loop, &role->timer);
    role->timer.data = role;
    enum rota_code code = open_parts(role, error);
    if (code) {
        close_role(role);
        return code;
    }
    refresh_directory(role, NULL);
    if (rota_role_cache_at(node, 0, &get))
        uv_timer_start(&role->timer, on_timer, 0, LOOK_EVERY / ROTA_MSEC);
    *role_data = role;
    return ROTA_OK;
}

/* Who watches asks another node from now on; a watch that stays would be waited for. */
static void drain_directory(void *data)
{
    struct directory_role *role = data;
    rota_directory_drain(role->directory);
}

static void restore_directory(void *data)
{
    struct directory_role *role = data;
    rota_directory_restore(role->directory);
}

static bool is_idle(const void *data)
{
    (void)data;
    return true;
}

static void show_directory(const void *data, struct rota_json *json)
{
    const struct directory_role *role = data;
    rota_json_key(json, "collections");
    rota_json_uint(json, rota_directory_n_collections(role->directory));
    rota_json_key(json, "watchers");
    rota_json_uint(json, rota_directory_n_watchers(role->directory));
}

const struct rota_role rota_role_directory = {
    .name = "directory",
    .open = open_role,
    .is_ready = is_ready,
    .drain = drain_directory,
    .is_idle = is_idle,
    .restore = restore_directory,
    .close = close_role,
    .show = show_directory,
};
