#include "node/node_caches.h"

#include "base/text.h"
#include "base/vector.h"
#include "node/node_inside.h"
#include "node/node_settings.h"
#include "node/node_spaces.h"
#include "run/call/cache_service.h"
#include "run/call/space_directory.h"

#include <stdlib.h>

struct cache {
    struct rota_node_caches *caches;
    uint32_t n_shards; /* the most that a zone has */
    struct rota_space_zones zones;
    struct rota_str zone_names[ROTA_SPACE_FEED_ZONES_MAX]; /* texts of their own */
    struct rota_space_shard *shards;                       /* of the first zone, then the second */
    ROTA_VECTOR(struct rota_str) nodes;                    /* texts of their own */
    rota_time ttl; /* of a lease, the shortest; 0: not known */
    bool is_listed, is_asking, is_asked_again;
    bool is_other; /* it has another zone or number of shards than it was listed with */
    size_t name_size;
    char name[];
};

struct rota_node_caches {
    struct rota_node *node;
    struct cache *items[ROTA_NODE_CACHES_MAX];
    size_t n;
    uv_timer_t timer;
};

static void forget_nodes(struct cache *cache)
{
    for (size_t i = 0; i < cache->nodes.size; i++)
        free((char *)cache->nodes.items[i].data);
    cache->nodes.size = 0;
}

static void forget_zones(struct cache *cache)
{
    for (size_t i = 0; i < cache->zones.n; i++)
        free((char *)cache->zone_names[i].data);
    cache->zones.n = 0;
}

static void cache_free(struct cache *cache)
{
    rota_store_forget(cache->caches->node->store, cache);
    forget_nodes(cache);
    forget_zones(cache);
    rota_vector_deinit(&cache->nodes);
    free(cache->shards);
    free(cache);
}

/* --- owners --- */

static void serve_map(struct cache *cache, bool is_known)
{
    const struct rota_space_map map = {
        .name = rota_str_of(cache->name, cache->name_size),
        .engine = rota_str(is_known ? "lease" : ""),
        .nodes = cache->nodes.items,
        .n_nodes = cache->nodes.size,
        .shards = cache->shards,
        .n_shards = cache->n_shards,
    };
    rota_space_directory_set(cache->caches->node->space_directory, &map, &cache->zones, NULL);
}

/* The number of a node, added if needed; ROTA_SPACE_NOBODY without memory. */
static uint32_t node_index(struct cache *cache, struct rota_str address)
{
    for (size_t i = 0; i < cache->nodes.size; i++)
        if (rota_str_is_equal(cache->nodes.items[i], address))
            return (uint32_t)i;
    char *copy = rota_text_copy(address);
    if (!copy || !rota_vector_push(&cache->nodes, rota_str_of(copy, address.size))) {
        free(copy);
        return ROTA_SPACE_NOBODY;
    }
    return (uint32_t)cache->nodes.size - 1;
}

static void see_row(struct cache *cache, const struct rota_store_lease *row, rota_time db_now)
{
    struct rota_space_shard seen = {
        .epoch = row->epoch, .owner = ROTA_SPACE_NOBODY, .state = ROTA_SPACE_UNOWNED};
    size_t zone = 0;
    while (zone < cache->zones.n && !rota_str_is_equal(cache->zone_names[zone], row->dc))
        zone++;
    cache->is_other |= zone == cache->zones.n || row->shards > cache->n_shards;
    if (zone == cache->zones.n || row->shard >= cache->n_shards || row->shards != cache->n_shards)
        return;
    if (cache->ttl == 0 || row->ttl < cache->ttl)
        cache->ttl = row->ttl;
    if (row->instance != 0 && rota_time_add(row->last_ping, row->ttl) >= db_now) {
        seen.owner = node_index(cache, row->host);
        seen.state = seen.owner == ROTA_SPACE_NOBODY ? ROTA_SPACE_UNOWNED : ROTA_SPACE_OWNED;
    }
    cache->shards[zone * cache->n_shards + row->shard] = seen;
}

static void ask_leases(struct cache *cache);

static void on_leases(void *data, const struct rota_store_answer *answer)
{
    struct cache *cache = data;
    size_t n = cache->zones.n * cache->n_shards;
    cache->is_asking = cache->is_other = false;
    if (!answer->code) {
        /* Addresses of nodes that have left are forgotten before they are many. */
        if (cache->nodes.size > 2 * n + ROTA_NODE_CACHES_MAX)
            forget_nodes(cache);
        for (size_t i = 0; i < n; i++)
            cache->shards[i] = (struct rota_space_shard){.epoch = cache->shards[i].epoch,
                                                         .owner = ROTA_SPACE_NOBODY,
                                                         .state = ROTA_SPACE_UNOWNED};
        for (size_t i = 0; i < answer->n_leases; i++)
            see_row(cache, &answer->leases[i], answer->db_now);
        serve_map(cache, true);
    }
    if (cache->is_other)
        rota_node_spaces_refresh(cache->caches->node->spaces);
    if (cache->is_asked_again)
        ask_leases(cache);
}

static void ask_leases(struct cache *cache)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_LEASES,
                                               .space = rota_str_of(cache->name, cache->name_size)};
    cache->is_asked_again = cache->is_asking;
    if (!cache->is_asking)
        cache->is_asking =
            !rota_store_ask(cache->caches->node->store, &request, on_leases, cache, NULL);
}

/* A large table is read less often. */
static void on_timer(uv_timer_t *timer)
{
    struct rota_node_caches *caches = timer->data;
    rota_time ttl = caches->node->settings->ttl;
    uint64_t more = 0;
    for (size_t i = 0; i < caches->n; i++) {
        struct cache *cache = caches->items[i];
        ask_leases(cache);
        more += cache->zones.n * cache->n_shards / 16;
        if (cache->ttl > 0 && cache->ttl < ttl)
            ttl = cache->ttl;
    }
    uv_timer_start(timer, on_timer, (uint64_t)(ttl / 4 / ROTA_MSEC) + more, 0);
}

void rota_node_caches_changed(struct rota_node_caches *caches)
{
    if (caches)
        uv_timer_start(&caches->timer, on_timer, 0, 0);
}

/* --- which there are --- */

static struct cache *find_cache(struct rota_node_caches *caches, struct rota_str name)
{
    for (size_t i = 0; i < caches->n; i++)
        if (rota_str_is_equal(rota_str_of(caches->items[i]->name, caches->items[i]->name_size),
                              name))
            return caches->items[i];
    if (caches->n == ROTA_NODE_CACHES_MAX)
        return NULL;
    struct cache *cache = calloc(1, sizeof *cache + name.size);
    if (!cache)
        return NULL;
    cache->caches = caches;
    cache->zones.names = cache->zone_names;
    cache->name_size = name.size;
    memcpy(cache->name, name.data, name.size);
    return caches->items[caches->n++] = cache;
}

static uint32_t most_shards(const struct rota_store_dc *dcs, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = dcs[i].shards > most ? dcs[i].shards : most;
    return most;
}

static bool is_same_shape(const struct cache *cache, const struct rota_store_dc *dcs, size_t n)
{
    if (cache->zones.n != n || cache->n_shards != most_shards(dcs, n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!rota_str_is_equal(cache->zone_names[i], dcs[i].name))
            return false;
    return true;
}

/* Its zones and its number of shards; the owners are asked for. Without memory it is served with
 * fewer zones, or not, until the next time. */
static void set_shape(struct cache *cache, const struct rota_store_dc *dcs, size_t n)
{
    forget_zones(cache);
    forget_nodes(cache);
    free(cache->shards);
    cache->n_shards = most_shards(dcs, n);
    for (size_t i = 0; i < n; i++) {
        char *copy = rota_text_copy(dcs[i].name);
        if (copy)
            cache->zone_names[cache->zones.n++] = rota_str_of(copy, dcs[i].name.size);
    }
    cache->shards = calloc(cache->zones.n * cache->n_shards + 1, sizeof *cache->shards);
    if (!cache->shards)
        forget_zones(cache);
    serve_map(cache, false);
    ask_leases(cache);
}

static void drop_unlisted(struct rota_node_caches *caches)
{
    size_t n = 0;
    for (size_t i = 0; i < caches->n; i++) {
        struct cache *cache = caches->items[i];
        if (cache->is_listed) {
            caches->items[n++] = cache;
            continue;
        }
        rota_space_directory_remove(caches->node->space_directory,
                                    rota_str_of(cache->name, cache->name_size));
        cache_free(cache);
    }
    caches->n = n;
}

void rota_node_caches_list(struct rota_node_caches *caches, const struct rota_store_answer *answer)
{
    bool was_empty = caches->n == 0;
    for (size_t i = 0; i < caches->n; i++)
        caches->items[i]->is_listed = false;
    for (size_t i = 0, end; i < answer->n_dcs; i = end) {
        const struct rota_store_dc *dcs = answer->dcs;
        struct cache *cache = NULL;
        for (end = i + 1; end < answer->n_dcs; end++)
            if (!rota_str_is_equal(dcs[end].space, dcs[i].space))
                break;
        size_t n = end - i < ROTA_SPACE_FEED_ZONES_MAX ? end - i : ROTA_SPACE_FEED_ZONES_MAX;
        if (rota_str_has_prefix(dcs[i].space, rota_str(ROTA_CACHE_SERVICE_PREFIX)))
            cache = find_cache(caches, dcs[i].space);
        if (!cache)
            continue;
        cache->is_listed = true;
        if (!is_same_shape(cache, dcs + i, n))
            set_shape(cache, dcs + i, n);
    }
    drop_unlisted(caches);
    if (caches->n == 0)
        uv_timer_stop(&caches->timer);
    else if (was_empty)
        rota_node_caches_changed(caches);
}

/* --- life --- */

enum rota_code rota_node_caches_open(struct rota_node *node, struct rota_node_caches **caches,
                                     struct rota_error *error)
{
    struct rota_node_caches *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the maps of caches");
    made->node = node;
    uv_timer_init(node->loop, &made->timer);
    made->timer.data = made;
    *caches = made;
    return ROTA_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_node_caches_close(struct rota_node_caches *caches)
{
    if (!caches)
        return;
    for (size_t i = 0; i < caches->n; i++)
        cache_free(caches->items[i]);
    uv_close((uv_handle_t *)&caches->timer, on_closed);
}
