/* The role "directory": tells clients who serves which shard (rota.v1.Directory).
 *
 * It knows the collections of [[directory]], whose shards stand on the ring of nodes, and those
 * of [[cache]], whose shards are where their leases are: as this node's own Gets know them. */
#include "node/node_inside.h"

#include "base/hash.h"
#include "base/json.h"
#include "node/role_cache.h"
#include "run/directory.h"

#include <rota/ring.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_EVERY ROTA_SEC /* at where the shards of caches are */

enum { NUMBER_MAX = 12, ZONES_MAX = 16 }; /* zones: of one shard of a cache */

struct directory_role {
    struct rota_node *node;
    struct rota_directory *directory;
    uv_timer_t timer;
    char trouble[ROTA_ERROR_TEXT_MAX]; /* of the last look; "": none */
};

/* What is told, while it is being put together. */
struct draft {
    struct rota_arena arena;
    struct rota_shards_collection *collections;
    size_t n;
    bool has_failed;
};

static void *take(struct draft *draft, size_t n, size_t size)
{
    void *memory = rota_arena_take(&draft->arena, n * size + 1);
    draft->has_failed |= !memory;
    if (memory)
        memset(memory, 0, n * size + 1);
    return memory;
}

/* The collection's shards, with room for `n_replicas` of each; NULL without memory. */
static struct rota_shard_channel *add_collection(struct draft *draft, const char *name, int64_t id,
                                                 size_t n_shards, size_t n_replicas)
{
    struct rota_shard_channel *channels = take(draft, n_shards, sizeof *channels);
    size_t size = strlen(name) + NUMBER_MAX;
    char *names = take(draft, n_shards, size);
    struct rota_replica *replicas = take(draft, n_shards * n_replicas, sizeof *replicas);
    if (!channels || !names || !replicas)
        return NULL;
    for (size_t i = 0; i < n_shards; i++) {
        snprintf(names + i * size, size, "%s-%zu", name, i);
        channels[i] = (struct rota_shard_channel){.name = rota_str(names + i * size),
                                                  .replicas = replicas + i * n_replicas};
    }
    draft->collections[draft->n++] = (struct rota_shards_collection){
        rota_str(ROTA_DIRECTORY_DEFAULT), rota_str(name), id, channels, n_shards};
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

static void add_ring(const struct rota_ring *ring, const struct rota_node_directory *settings,
                     struct draft *draft)
{
    size_t n_replicas = (size_t)settings->replicas;
    struct rota_shard_channel *channels =
        add_collection(draft, settings->name, settings->id, (size_t)settings->shards, n_replicas);
    uint32_t *hosts = take(draft, n_replicas, sizeof *hosts);
    for (size_t i = 0; channels && hosts && i < (size_t)settings->shards; i++) {
        size_t n = rota_ring_lookup_n(ring, channels[i].name, n_replicas, hosts);
        for (size_t k = 0; k < n; k++)
            add_replica(&channels[i], n_replicas, rota_ring_host(ring, hosts[k]).address, 1);
    }
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
    struct rota_shard_channel *channels =
        add_collection(draft, cache->name, id_of(cache->name), n_shards, ZONES_MAX);
    for (size_t place = 0; channels && rota_get_next_host(get, &place, &view);) {
        struct rota_str address = rota_arena_copy(&draft->arena, view.address);
        draft->has_failed |= !address.data;
        if (address.data && view.has_shard && view.shard.of == n_shards)
            add_replica(&channels[view.shard.from], ZONES_MAX, address, view.epoch);
    }
}

/* --- all of it --- */

static void write_draft(const struct directory_role *role, const struct rota_ring *ring,
                        struct draft *draft)
{
    const struct rota_settings *all = role->node->options.settings;
    const struct rota_node_cache *cache;
    const struct rota_get *get;
    draft->collections = take(draft, all->n_sections, sizeof *draft->collections);
    if (!draft->collections)
        return;
    for (size_t i = 0; i < all->n_sections; i++)
        if (strcmp(all->sections[i].kind->name, "directory") == 0)
            add_ring(ring, all->sections[i].values, draft);
    for (size_t i = 0; (cache = rota_role_cache_at(role->node, i, &get)); i++)
        if (cache->shards <= ROTA_SHARD_CHANNELS_MAX)
            add_cache(cache, get, draft);
}

/* The directory finds out by itself what has changed. */
static void look(struct directory_role *role)
{
    struct draft draft = {0};
    struct rota_error error = {0};
    struct rota_ring *ring = rota_members_ring(role->node->members);
    write_draft(role, ring, &draft);
    if (!draft.has_failed)
        rota_directory_set(role->directory, draft.collections, draft.n, &error);
    rota_ring_unref(ring);
    rota_arena_deinit(&draft.arena);
    if (strcmp(role->trouble, error.text) != 0 && error.text[0])
        rota_log(role->node->log, rota_clock_wall(), ROTA_LOG_ERROR, "directory stays as it was",
                 ROTA_LOG_FACT("error", error.text));
    snprintf(role->trouble, sizeof role->trouble, "%s", error.text);
}

static void on_timer(uv_timer_t *timer)
{
    look(timer->data);
}

static void on_members(void *data, const struct rota_members_change *change)
{
    (void)change;
    look(data);
}

/* --- life --- */

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_role(void *data)
{
    struct directory_role *role = data;
    rota_members_unsubscribe(role->node->members, "directory");
    rota_directory_close(role->directory);
    uv_close((uv_handle_t *)&role->timer, on_timer_closed);
}

static enum rota_code open_role(struct rota_node *node, void **role_data, struct rota_error *error)
{
    const struct rota_get *get;
    struct directory_role *role = calloc(1, sizeof *role);
    if (!role)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a directory");
    role->node = node;
    uv_timer_init(node->loop, &role->timer);
    role->timer.data = role;
    enum rota_code code = rota_directory_open(node->server, &role->directory, error);
    if (!code)
        code = rota_members_subscribe(node->members, "directory", on_members, role, error);
    if (code) {
        close_role(role);
        return code;
    }
    if (rota_role_cache_at(node, 0, &get))
        uv_timer_start(&role->timer, on_timer, 0, LOOK_EVERY / ROTA_MSEC);
    *role_data = role;
    return ROTA_OK;
}

/* Who watches asks another node from now on; a watch that stays would be waited for. */
static void drain(void *data)
{
    struct directory_role *role = data;
    rota_directory_drain(role->directory);
}

static void restore(void *data)
{
    struct directory_role *role = data;
    rota_directory_restore(role->directory);
}

static bool is_idle(const void *data)
{
    (void)data;
    return true;
}

static void show(const void *data, struct rota_json *json)
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
    .drain = drain,
    .is_idle = is_idle,
    .restore = restore,
    .close = close_role,
    .show = show,
};
