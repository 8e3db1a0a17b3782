#include "node/node_directory.h"

#include "base/arena.h"
#include "base/hash.h"
#include "io/clock.h"
#include "node/node_inside.h"
#include "node/node_settings.h"
#include "node/node_spaces.h"
#include "run/call/directory.h"

#include <rota/experimental/get.h>
#include <rota/space.h>
#include <stdio.h>
#include <stdlib.h>

/* How often it is compared with what the clients of caches know. */
#define LOOK_EVERY (200 * ROTA_MSEC)

enum { ZONES_MAX = ROTA_SHARD_REPLICAS_MAX, NUMBER_MAX = 11 };

struct rota_node_directory {
    struct rota_node *node;
    struct rota_directory *directory;
    uv_timer_t timer;
    char trouble[ROTA_ERROR_TEXT_MAX]; /* of the last update; "": none */
};

/* The content, while it is being put together. */
struct draft {
    struct rota_arena arena;
    struct rota_shards_collection *collections;
    size_t n;
    bool has_failed;
    bool is_partial; /* a map is not known yet */
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
static struct rota_shard_channel *add_collection(struct draft *draft, struct rota_str name,
                                                 size_t n_shards, size_t n_replicas)
{
    struct rota_shard_channel *channels = take_zeroed(draft, n_shards, sizeof *channels);
    char *names = take_zeroed(draft, n_shards, NUMBER_MAX);
    struct rota_replica *replicas = take_zeroed(draft, n_shards * n_replicas, sizeof *replicas);
    int64_t id = (INT64_C(1) << 32) + rota_hash_farm32(name);
    if (!channels || !names || !replicas)
        return NULL;
    for (size_t i = 0; i < n_shards; i++) {
        snprintf(names + i * NUMBER_MAX, NUMBER_MAX, "%u", (unsigned)i);
        channels[i] = (struct rota_shard_channel){.name = rota_str(names + i * NUMBER_MAX),
                                                  .replicas = replicas + i * n_replicas};
    }
    draft->collections[draft->n++] = (struct rota_shards_collection){
        rota_str(ROTA_DIRECTORY_DEFAULT), name, id, channels, n_shards};
    return channels;
}

static void add_replica(struct rota_shard_channel *channel, size_t n_max, struct rota_str address,
                        uint64_t epoch, bool is_serviceable)
{
    struct rota_replica *replicas = (struct rota_replica *)(uintptr_t)channel->replicas; /* ours */
    if (channel->n_replicas < n_max)
        replicas[channel->n_replicas++] =
            (struct rota_replica){rota_space_node(address), address, epoch, is_serviceable};
}

static void add_space(const struct rota_space_map *map, struct draft *draft)
{
    struct rota_shard_channel *channels = add_collection(draft, map->name, map->n_shards, 1);
    for (uint32_t i = 0; channels && i < map->n_shards; i++) {
        const struct rota_space_shard *shard = &map->shards[i];
        if (shard->owner != ROTA_SPACE_NOBODY && shard->state != ROTA_SPACE_UNOWNED)
            add_replica(&channels[i], 1, map->nodes[shard->owner], shard->epoch,
                        shard->state != ROTA_SPACE_MOVING);
    }
}

static void add_cache(const struct rota_node_cache *cache, const struct rota_get *get,
                      struct draft *draft)
{
    size_t n_shards = (size_t)cache->shards, size = strlen(cache->name) + sizeof "cache/";
    char *name = take_zeroed(draft, size, 1);
    struct rota_get_view view;
    if (!name)
        return;
    snprintf(name, size, "cache/%s", cache->name);
    struct rota_shard_channel *channels =
        add_collection(draft, rota_str(name), n_shards, ZONES_MAX);
    for (size_t place = 0; channels && rota_get_next_host(get, &place, &view);) {
        struct rota_str address = rota_arena_copy(&draft->arena, view.address);
        draft->has_failed |= !address.data;
        for (size_t i = 0; address.data && i < view.n_shards; i++)
            if (view.shards[i].interval.of == n_shards)
                add_replica(&channels[view.shards[i].interval.from], ZONES_MAX, address,
                            view.shards[i].epoch, true);
    }
}

static void write_draft(const struct rota_node *node, struct draft *draft)
{
    const struct rota_space_map *map;
    const struct rota_node_cache *cache;
    const struct rota_get *get;
    size_t n_max = node->options.settings->n_sections;
    for (size_t i = 0; rota_node_spaces_map(node->spaces, i); i++)
        n_max++;
    draft->collections = take_zeroed(draft, n_max, sizeof *draft->collections);
    if (!draft->collections)
        return;
    draft->is_partial = !rota_node_spaces_is_listed(node->spaces);
    for (size_t i = 0; (map = rota_node_spaces_map(node->spaces, i)); i++) {
        draft->is_partial |= map->engine.size == 0;
        if (map->engine.size > 0 && map->n_shards <= ROTA_SHARD_CHANNELS_MAX)
            add_space(map, draft);
    }
    for (size_t i = 0; (cache = rota_role_cache_at(node, i, &get)); i++)
        if (cache->shards <= ROTA_SHARD_CHANNELS_MAX)
            add_cache(cache, get, draft);
}

/* The directory finds the changes by itself. */
static void on_timer(uv_timer_t *timer)
{
    struct rota_node_directory *directory = timer->data;
    struct draft draft = {0};
    struct rota_error error = {0};
    if (!directory->node->spaces)
        return; /* it opens, or closes */
    write_draft(directory->node, &draft);
    if (draft.has_failed)
        rota_error_no_memory(&error, "for the directory");
    else
        rota_directory_set(directory->directory, draft.collections, draft.n, &error);
    rota_directory_set_partial(directory->directory, draft.is_partial || error.code);
    rota_arena_deinit(&draft.arena);
    if (strcmp(directory->trouble, error.text) != 0 && error.text[0])
        rota_log(directory->node->log, rota_clock_wall(), ROTA_LOG_ERROR, "directory not updated",
                 ROTA_LOG_FACT("error", error.text));
    snprintf(directory->trouble, sizeof directory->trouble, "%s", error.text);
}

void rota_node_directory_changed(struct rota_node_directory *directory)
{
    const struct rota_get *get;
    bool has_caches = rota_role_cache_at(directory->node, 0, &get) != NULL;
    uv_timer_start(&directory->timer, on_timer, 0, has_caches ? LOOK_EVERY / ROTA_MSEC : 0);
}

void rota_node_directory_drain(struct rota_node_directory *directory)
{
    rota_directory_drain(directory->directory);
}

void rota_node_directory_restore(struct rota_node_directory *directory)
{
    rota_directory_restore(directory->directory);
}

enum rota_code rota_node_directory_open(struct rota_node *node, struct rota_node_directory **result,
                                        struct rota_error *error)
{
    struct rota_node_directory *directory = calloc(1, sizeof *directory);
    if (!directory)
        return rota_error_no_memory(error, "for a directory");
    directory->node = node;
    uv_timer_init(node->loop, &directory->timer);
    directory->timer.data = directory;
    *result = directory;
    enum rota_code code = rota_directory_open(node->server, &directory->directory, error);
    if (!code)
        rota_directory_set_partial(directory->directory, true);
    return code;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_node_directory_close(struct rota_node_directory *directory)
{
    if (!directory)
        return;
    rota_directory_close(directory->directory);
    uv_close((uv_handle_t *)&directory->timer, on_closed);
}

size_t rota_node_directory_n_collections(const struct rota_node_directory *directory)
{
    return rota_directory_n_collections(directory->directory);
}

size_t rota_node_directory_n_watchers(const struct rota_node_directory *directory)
{
    return rota_directory_n_watchers(directory->directory);
}
