#include "node/role/role_cache.h"

#include "base/arena.h"
#include "io/clock.h"
#include "node/node_caches.h"
#include "node/node_inside.h"
#include "run/call/cache_service.h"
#include "run/call/get_server_inside.h"
#include "wire/message/nodes_message.h"

#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE_MAX = 64 << 20 }; /* bytes of an answer */

#define TIMEOUT (10 * ROTA_SEC) /* of a Get without its own */

static const char NO_ZONE[] = "default"; /* the data center of nodes without a zone */

/* Who relays has all keys, always. */
static const struct rota_interval WHOLE = {0, 1, 1};
enum { WHOLE_EPOCH = 1 };

struct cache_role;

struct collection {
    struct cache_role *role;
    const struct rota_node_cache *settings;
    struct rota_cache_service *service; /* NULL: it can't be opened again after a drain */
    bool is_ready;                      /* it serves: clients should find it */
    bool is_left, is_draining, is_restoring;
    bool is_settled;              /* it serves, or can't */
    struct rota_members *members; /* that serve it */
    struct rota_get *get;
};

/* A Get that this node relays. */
struct visit {
    struct rota_list_node link;
    struct collection *collection;
    struct rota_get_batch *batch;
    struct rota_get_run *run;
    rota_time timeout;
};

struct cache_role {
    struct rota_node *node;
    struct rota_get_server *relay;
    struct rota_list_node visits;
    char store[4200];
    char roles[ROTA_STORE_ROLES_MAX]; /* of the collections that are ready */
    char dc[ROTA_STORE_NAME_MAX + 1]; /* the zone, as it was: shards do not move with a setting */
    uint64_t n_gets, n_failed;
    size_t n_visits, n_collections;
    struct collection collections[];
};

/* --- Gets that are relayed --- */

static void end_visit(struct visit *visit)
{
    visit->collection->role->n_visits--;
    rota_list_remove(&visit->link);
    free(visit);
}

/* A key that is missing before the deadline can't be returned, and is rejected alone. One
 * without an answer in time fails the whole Get: the client may ask another node. */
static void on_done(void *data, const struct rota_get_result *result)
{
    struct visit *visit = data;
    struct cache_role *role = visit->collection->role;
    struct rota_get_batch *batch = visit->batch;
    bool is_late = result->elapsed >= visit->timeout;
    end_visit(visit);
    if (result->code == ROTA_ERR_NO_MEMORY || (result->n_missing > 0 && is_late)) {
        role->n_failed++;
        rota_get_batch_fail(batch, ROTA_STATUS_UNAVAILABLE, result->text);
        return;
    }
    for (size_t i = 0; i < result->n_items; i++) {
        const struct rota_get_item *item = &result->items[i];
        if (item->state == ROTA_GET_KEY_FOUND)
            rota_get_batch_put(batch, i, item->value);
        else if (item->state == ROTA_GET_KEY_MISSING)
            rota_get_batch_refuse(batch, i, item->reason);
    }
    rota_get_batch_finish(batch);
}

static struct collection *find_collection(struct cache_role *role, struct rota_server_call *call)
{
    struct rota_str name;
    size_t n;
    const struct rota_metadata *pairs = rota_server_call_metadata(call, &n);
    if (!rota_metadata_get(pairs, n, ROTA_GET_COLLECTION, &name))
        return &role->collections[0];
    for (size_t i = 0; i < role->n_collections; i++)
        if (rota_str_is_equal(name, rota_str(role->collections[i].settings->name)))
            return &role->collections[i];
    return NULL;
}

static const char NO_COLLECTION[] = "no such collection on this node";

static void on_batch(void *data, struct rota_get_batch *batch)
{
    struct cache_role *role = data;
    struct collection *collection = find_collection(role, batch->call);
    struct rota_error error;
    rota_time left = rota_get_batch_time_left(batch);
    role->n_gets++;
    if (!collection) {
        rota_get_batch_fail(batch, ROTA_STATUS_NOT_FOUND, NO_COLLECTION);
        return;
    }
    struct visit *visit = calloc(1, sizeof *visit);
    if (!visit) {
        rota_get_batch_fail(batch, ROTA_STATUS_RESOURCE_EXHAUSTED,
                            "not enough memory for a multi-get");
        return;
    }
    *visit = (struct visit){
        .collection = collection, .batch = batch, .timeout = rota_time_min(left, TIMEOUT)};
    rota_list_push(&role->visits, &visit->link);
    role->n_visits++;
    rota_get_batch_set_data(batch, visit);
    const struct rota_get_request request = {.keys = rota_get_batch_key(batch, 0),
                                             .n_keys = rota_get_batch_n_keys(batch),
                                             .timeout = visit->timeout,
                                             .on_done = on_done,
                                             .data = visit};
    if (rota_get_start(collection->get, &request, &visit->run, &error)) {
        end_visit(visit);
        rota_get_batch_fail(batch, ROTA_STATUS_RESOURCE_EXHAUSTED, error.text);
    }
}

static void cancel_visit(struct visit *visit)
{
    struct rota_get_batch *batch = visit->batch;
    rota_get_cancel(visit->run);
    end_visit(visit);
    rota_get_batch_fail(batch, ROTA_STATUS_CANCELLED, "");
}

static void on_cancel(void *data, struct rota_get_batch *batch)
{
    (void)data;
    cancel_visit(rota_get_batch_data(batch));
}

/* --- Gets for our own shards --- */

static void on_get(void *data, struct rota_server_call *call)
{
    struct collection *collection = find_collection(data, call);
    if (!collection)
        rota_server_call_finish(call, ROTA_STATUS_NOT_FOUND, NO_COLLECTION, NULL, 0);
    else if (!collection->service)
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE,
                                "the collection cannot be served here", NULL, 0);
    else
        rota_cache_service_take(collection->service, call);
}

static enum rota_code open_methods(struct cache_role *role, struct rota_error *error)
{
    const struct rota_server_method get = {.path = rota_get_cache()->method,
                                           .on_call = on_get,
                                           .on_cancel = rota_get_server_cancel,
                                           .data = role};
    struct rota_get_server_options options = {.service = rota_get_cache_relay(),
                                              .on_batch = on_batch,
                                              .on_cancel = on_cancel,
                                              .message_max = MESSAGE_MAX,
                                              .metrics = role->node->metrics,
                                              .data = role};
    enum rota_code code = rota_server_add(role->node->server, &get, error);
    if (!code)
        code = rota_get_server_open(role->node->server, &options, &role->relay, error);
    return code ? code : rota_get_server_hold(role->relay, &WHOLE, WHOLE_EPOCH, error);
}

/* --- our share of the shards --- */

/* The shards of the zone divided by its nodes; a new node counts itself. */
static uint32_t share_of(const struct collection *collection)
{
    size_t n_members, n = 0;
    uint32_t n_shards = (uint32_t)collection->settings->shards;
    if (collection->settings->wanted > 0)
        return (uint32_t)collection->settings->wanted;
    const struct rota_member *members = rota_members_list(collection->members, &n_members);
    for (size_t i = 0; i < n_members; i++) {
        struct rota_str zone = members[i].host.zone;
        n += rota_str_is_equal(zone.size > 0 ? zone : rota_str(NO_ZONE),
                               rota_str(collection->role->dc));
    }
    return n == 0 ? 1 : (n_shards + (uint32_t)n - 1) / (uint32_t)n;
}

static void on_members(void *data, const struct rota_members_change *change)
{
    struct collection *collection = data;
    (void)change;
    if (collection->service)
        rota_cache_service_set_wanted(collection->service, share_of(collection));
}

/* Tell the members of the cluster which collections this node serves now. */
static void announce_collections(const struct cache_role *role)
{
    struct rota_node *node = role->node;
    struct rota_error error;
    if (node->heartbeat && rota_node_open_heartbeat(node, false, &error))
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_ERROR, "cache not announced",
                 ROTA_LOG_FACT("error", error.text));
}

static void on_ready(void *data)
{
    struct collection *collection = data;
    rota_log(collection->role->node->log, rota_clock_wall(), ROTA_LOG_INFO, "cache ready",
             ROTA_LOG_FACT("collection", collection->settings->name));
    collection->is_settled = collection->is_ready = true;
    announce_collections(collection->role);
    rota_node_open_look_ready(collection->role->node);
}

static size_t count_shards(const struct cache_role *role)
{
    size_t n = 0;
    for (size_t i = 0; i < role->n_collections; i++)
        if (role->collections[i].service)
            n += rota_cache_service_n_shards(role->collections[i].service);
    return n;
}

static void on_shards(void *data)
{
    const struct cache_role *role = ((struct collection *)data)->role;
    rota_node_caches_changed(role->node->caches);
    rota_health_set(role->node->health, "rota.v1.Cache", count_shards(role) > 0, NULL);
}

/* Unless its settings say otherwise, the node continues with its other roles; operators see why
 * this one failed. */
static void on_refused(void *data, const struct rota_error *error)
{
    struct collection *collection = data;
    struct rota_node *node = collection->role->node;
    rota_log(node->log, rota_clock_wall(), ROTA_LOG_ERROR, "cache rejected",
             ROTA_LOG_FACT("collection", collection->settings->name),
             ROTA_LOG_FACT("error", error->text));
    rota_node_note(node, ROTA_EVENT_NODE, rota_str(node->advertise),
                   "does not serve %.100s: %.300s", collection->settings->name, error->text);
    collection->is_settled = true;
    if (collection->settings->loss == ROTA_LEASE_LOSS_STANDBY)
        rota_node_open_look_ready(node);
    else
        rota_node_fail(node);
}

static enum rota_code open_service(struct collection *collection, struct rota_error *error);

static void reopen_service(struct collection *collection)
{
    struct rota_error error;
    rota_cache_service_close(collection->service, NULL, NULL);
    collection->service = NULL;
    collection->is_restoring = false;
    if (open_service(collection, &error))
        on_refused(collection, &error);
    else
        rota_cache_service_set_wanted(collection->service, share_of(collection));
}

static void on_left(void *data)
{
    struct collection *collection = data;
    collection->is_left = true;
    if (collection->is_restoring)
        reopen_service(collection);
}

static enum rota_code open_service(struct collection *collection, struct rota_error *error)
{
    const struct rota_node_cache *settings = collection->settings;
    const struct rota_node *node = collection->role->node;
    int64_t most = settings->wanted > 0                       ? settings->wanted
                   : settings->shards < ROTA_LEASE_WANTED_MAX ? settings->shards
                                                              : ROTA_LEASE_WANTED_MAX;
    struct rota_cache_service_options options = {
        .store = collection->role->store,
        .name = settings->name,
        .dc = collection->role->dc,
        .source = settings->source,
        .host = node->advertise, /* whose lock of the data directory we hold */
        .shards = settings->shards,
        .memory = settings->memory,
        .wanted = settings->wanted > 0 ? settings->wanted : 1,
        .wanted_max = most,
        .ttl = node->settings->ttl,
        .keep = settings->keep,
        .loss = (enum rota_lease_loss)settings->loss,
        .is_alone = !node->settings->is_temporary,
        .is_reshard = settings->reshard,
        .log = node->log,
        .metrics = node->metrics,
        .on_ready = on_ready,
        .on_shards = on_shards,
        .on_refused = on_refused,
        .on_left = on_left,
        .data = collection,
    };
    collection->is_left = collection->is_draining = false;
    return rota_cache_service_open(node->loop, &options, &collection->service, error);
}

/* --- asking --- */

static enum rota_code open_members(struct collection *collection, struct rota_error *error)
{
    struct rota_node *node = collection->role->node;
    struct rota_members_source *source;
    char role[ROTA_STORE_ROLES_MAX];
    enum rota_code code = rota_cache_service_role(collection->settings->name, role, error);
    if (!code)
        code = rota_store_members_new(node->store, role, node->settings->ttl / 10, &source, error);
    if (!code)
        code = rota_members_open(node->loop, source, NULL, &collection->members, error);
    return code ? code
                : rota_members_subscribe(collection->members, "cache", on_members, collection,
                                         error);
}

static enum rota_code open_collection(struct collection *collection, struct rota_error *error)
{
    const struct rota_node *node = collection->role->node;
    enum rota_code code = open_members(collection, error);
    struct rota_get_options options = {.members = collection->members,
                                       .collection = collection->settings->name,
                                       .timeout = TIMEOUT,
                                       .message_max = MESSAGE_MAX,
                                       .tls = node->peers_tls,
                                       .insecure = node->settings->insecure,
                                       .metrics = node->metrics};
    if (!code)
        code = rota_get_open(node->loop, &options, &collection->get, error);
    return code ? code : open_service(collection, error);
}

/* --- life --- */

static void close_role(void *data)
{
    struct cache_role *role = data;
    struct rota_list_node *link;
    while ((link = rota_list_first(&role->visits)))
        cancel_visit(ROTA_LIST_ITEM(link, struct visit, link));
    for (size_t i = 0; i < role->n_collections; i++) {
        struct collection *collection = &role->collections[i];
        rota_get_close(collection->get);
        rota_members_close(collection->members);
        rota_cache_service_close(collection->service, NULL, NULL);
    }
    rota_get_server_close(role->relay);
    free(role);
}

static bool is_ready(const void *data)
{
    const struct cache_role *role = data;
    for (size_t i = 0; i < role->n_collections; i++)
        if (!role->collections[i].is_settled)
            return false;
    return true;
}

/* The collections that clients should find here. */
static const char *roles_of_cache(void *data)
{
    struct cache_role *role = data;
    size_t n = 0;
    role->roles[0] = '\0';
    for (size_t i = 0; i < role->n_collections; i++) {
        const struct collection *collection = &role->collections[i];
        if (collection->is_ready && n < sizeof role->roles)
            n += (size_t)snprintf(role->roles + n, sizeof role->roles - n,
                                  "," ROTA_CACHE_SERVICE_PREFIX "%s", collection->settings->name);
    }
    return role->roles;
}

static enum rota_code open_parts(struct cache_role *role, struct rota_error *error)
{
    struct rota_error why;
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < role->n_collections; i++) {
        code = open_collection(&role->collections[i], &why);
        if (code)
            rota_error_set(error, code, "[[cache]] %.100s: %s", role->collections[i].settings->name,
                           why.text);
    }
    if (!code && role->n_collections > 0)
        code = open_methods(role, error);
    return code;
}

static enum rota_code open_role(struct rota_node *node, void **role_data, struct rota_error *error)
{
    const struct rota_settings *all = node->options.settings;
    struct cache_role *role =
        calloc(1, sizeof *role + all->n_sections * sizeof role->collections[0]);
    if (!role)
        return rota_error_no_memory(error, "for caches");
    role->node = node;
    rota_list_init(&role->visits);
    snprintf(role->dc, sizeof role->dc, "%s",
             node->settings->zone[0] ? node->settings->zone : NO_ZONE);
    snprintf(role->store, sizeof role->store, "%s%s%s",
             node->settings->store ? node->settings->store : "sqlite:",
             node->settings->store ? "" : node->settings->data,
             node->settings->store ? "" : "/store.db");
    for (size_t i = 0; i < all->n_sections; i++)
        if (strcmp(all->sections[i].kind->name, "cache") == 0)
            role->collections[role->n_collections++] =
                (struct collection){.role = role, .settings = all->sections[i].values};
    enum rota_code code = open_parts(role, error);
    if (code) {
        close_role(role);
        return code;
    }
    *role_data = role;
    return ROTA_OK;
}

/* After a drain the shards are claimed again; those that are being released are released first. */
static void restore_cache(void *data)
{
    struct cache_role *role = data;
    for (size_t i = 0; i < role->n_collections; i++) {
        struct collection *collection = &role->collections[i];
        collection->is_restoring = collection->is_draining;
        if (collection->is_draining && (collection->is_left || !collection->service))
            reopen_service(collection);
    }
}

static void drain_cache(void *data)
{
    struct cache_role *role = data;
    for (size_t i = 0; i < role->n_collections; i++) {
        struct collection *collection = &role->collections[i];
        if (!collection->service || collection->is_draining)
            continue;
        collection->is_draining = true;
        collection->is_ready = false;
        rota_cache_service_leave(collection->service);
    }
}

static bool is_idle(const void *data)
{
    const struct cache_role *role = data;
    for (size_t i = 0; i < role->n_collections; i++)
        if (role->collections[i].service && !role->collections[i].is_left)
            return false;
    return role->n_visits == 0;
}

static void report_cache(const void *data, struct rota_arena *arena,
                         struct rota_nodes_report *report)
{
    const struct cache_role *role = data;
    struct rota_nodes_cache *cache = rota_arena_take(arena, sizeof *cache);
    if (cache)
        *cache = (struct rota_nodes_cache){.gets = role->n_gets,
                                           .gets_failed = role->n_failed,
                                           .gets_running = role->n_visits,
                                           .cache_shards = count_shards(role)};
    report->cache = cache;
}

const struct rota_node_cache *rota_role_cache_at(const struct rota_node *node, size_t i,
                                                 const struct rota_get **get)
{
    for (size_t k = 0; k < node->n_roles; k++) {
        const struct cache_role *role = node->roles[k].data;
        if (node->roles[k].role != &rota_role_cache || i >= role->n_collections)
            continue;
        *get = role->collections[i].get;
        return role->collections[i].settings;
    }
    return NULL;
}

const struct rota_role rota_role_cache = {
    .name = "cache",
    .open = open_role,
    .is_ready = is_ready,
    .drain = drain_cache,
    .is_idle = is_idle,
    .restore = restore_cache,
    .close = close_role,
    .report = report_cache,
    .member_roles = roles_of_cache,
};
