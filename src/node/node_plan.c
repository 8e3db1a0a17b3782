#include "node/node_plan.h"

#include "node/node_change.h"
#include "node/node_inside.h"
#include "node/peers.h"
#include "run/broker_cluster.h"
#include "run/space_service.h"
#include "wire/json_scan.h"
#include "wire/space_message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITIONS_MAX = 65536 };

#define STILL (30 * ROTA_SEC) /* when nothing has moved for so long, nothing will */

/* A space or a queue. */
struct thing {
    struct rota_str name;
    bool is_queue;
    uint32_t n_before, n_after;
    uint32_t *before, *after; /* indexes into the hosts */
    struct rota_node_plan_count count;
};

struct queue_count {
    struct rota_str queue;
    uint32_t n;
};

struct rota_node_plan {
    struct rota_node *node;
    struct rota_arena arena;
    ROTA_VECTOR(struct rota_node_plan_host) hosts;
    ROTA_VECTOR(struct thing) things;
    ROTA_VECTOR(struct queue_count) counts;
    struct rota_str remove_zone;
    struct rota_spread spread; /* of queues, then */
    bool has_spread;
    rota_time gradual;
    struct rota_node_plan_count count;
    uint64_t n_shards;

    /* When it is applied. */
    uint64_t id;
    uv_timer_t timer;
    size_t next;          /* host to look at */
    uint32_t n_under_way; /* drains that are not answered */
    bool is_freed;
    char failure[ROTA_ERROR_TEXT_MAX]; /* empty: none */
    uint64_t n_moved;                  /* as it was last told */
    rota_time moved_at;                /* boot clock: when that changed */
    struct rota_list_node link;
};

/* --- what is wished --- */

static enum rota_code no_memory(struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a plan");
}

static size_t find_host(const struct rota_node_plan *plan, struct rota_str name)
{
    size_t i = 0;
    while (i < plan->hosts.size && !rota_str_is_equal(plan->hosts.items[i].name, name))
        i++;
    return i;
}

static enum rota_code need_host(struct rota_node_plan *plan, struct rota_str name, size_t *place,
                                struct rota_error *error)
{
    *place = find_host(plan, name);
    if (*place < plan->hosts.size)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_NOT_FOUND, "there is no node %.*s",
                          (int)(name.size < 200 ? name.size : 200), name.data);
}

/* A weight as people write it, 1.5; in thousandths. */
static enum rota_code read_weight(struct rota_scan *scan, uint32_t *weight,
                                  struct rota_error *error)
{
    struct rota_str text = rota_scan_skip(scan);
    char copy[32], *end = copy;
    snprintf(copy, sizeof copy, "%.*s", ROTA_STR_ARGS(text));
    double number = scan->failed ? -1 : strtod(copy, &end);
    if (scan->failed || *end || text.size >= sizeof copy || !(number >= 0) ||
        number > (double)ROTA_VIEW_WEIGHT_MAX / ROTA_WEIGHT_ONE)
        return rota_error_set(error, ROTA_ERR_INVALID, "a weight is a number from 0 to %d",
                              ROTA_VIEW_WEIGHT_MAX / ROTA_WEIGHT_ONE);
    *weight = (uint32_t)(number * ROTA_WEIGHT_ONE + 0.5);
    if (*weight > 0 && *weight < ROTA_WEIGHT_MIN)
        *weight = ROTA_WEIGHT_MIN;
    return ROTA_OK;
}

static enum rota_code add_host(struct rota_node_plan *plan, struct rota_node_plan_host host,
                               struct rota_error *error)
{
    if (!rota_view_name_is_valid(host.name))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a host to add needs a name, its address as HOST:PORT");
    if (find_host(plan, host.name) < plan->hosts.size)
        return rota_error_set(error, ROTA_ERR_INVALID, "%.*s is there already",
                              ROTA_STR_ARGS(host.name));
    if (plan->hosts.size >= ROTA_NODE_PLAN_HOSTS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a plan has at most %d hosts",
                              ROTA_NODE_PLAN_HOSTS_MAX);
    host.name = rota_arena_copy(&plan->arena, host.name);
    host.zone = rota_arena_copy(&plan->arena, host.zone);
    if (!host.name.data || !host.zone.data || !rota_vector_push(&plan->hosts, host))
        return no_memory(error);
    return ROTA_OK;
}

static enum rota_code read_added(struct rota_node_plan *plan, struct rota_scan *scan,
                                 struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_str key;
    rota_scan_array(scan);
    while (!code && rota_scan_item(scan)) {
        struct rota_node_plan_host host = {.weight_after = ROTA_WEIGHT_ONE, .has_queues = true};
        rota_scan_object(scan);
        while (!code && rota_scan_key(scan, &key)) {
            if (rota_str_is_equal(key, rota_str("name")))
                host.name = rota_scan_string(scan);
            else if (rota_str_is_equal(key, rota_str("zone")))
                host.zone = rota_scan_string(scan);
            else if (rota_str_is_equal(key, rota_str("weight")))
                code = read_weight(scan, &host.weight_after, error);
            else
                code = rota_error_set(error, ROTA_ERR_INVALID,
                                      "a host to add has name, zone and weight");
        }
        if (!code && !scan->failed)
            code = add_host(plan, host, error);
    }
    return code;
}

static enum rota_code read_removed(struct rota_node_plan *plan, struct rota_scan *scan,
                                   struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    size_t place;
    rota_scan_array(scan);
    while (!code && rota_scan_item(scan)) {
        struct rota_str name = rota_scan_string(scan);
        if (scan->failed)
            break;
        code = need_host(plan, name, &place, error);
        if (!code)
            plan->hosts.items[place].weight_after = 0;
    }
    return code;
}

static enum rota_code read_weights(struct rota_node_plan *plan, struct rota_scan *scan,
                                   struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_str key;
    size_t place;
    rota_scan_object(scan);
    while (!code && rota_scan_key(scan, &key)) {
        uint32_t weight = 0;
        code = need_host(plan, key, &place, error);
        if (!code)
            code = read_weight(scan, &weight, error);
        if (code)
            break;
        if (plan->hosts.items[place].weight_after > 0)
            plan->hosts.items[place].weight_after = weight;
    }
    return code;
}

static enum rota_code read_counts(struct rota_node_plan *plan, struct rota_scan *scan,
                                  struct rota_error *error)
{
    struct rota_str key;
    rota_scan_object(scan);
    while (rota_scan_key(scan, &key)) {
        struct queue_count count = {.queue = rota_arena_copy(&plan->arena, key)};
        count.n = (uint32_t)rota_scan_uint(scan, PARTITIONS_MAX);
        if (scan->failed || count.n == 0)
            return rota_error_set(error, ROTA_ERR_INVALID, "a queue has 1 to %d partitions",
                                  PARTITIONS_MAX);
        if (plan->counts.size >= ROTA_NODE_PLAN_COUNTS_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT, "a plan names at most %d queues",
                                  ROTA_NODE_PLAN_COUNTS_MAX);
        if (!count.queue.data || !rota_vector_push(&plan->counts, count))
            return no_memory(error);
    }
    return ROTA_OK;
}

static enum rota_code read_wish(struct rota_node_plan *plan, struct rota_str key,
                                struct rota_scan *scan, struct rota_error *error)
{
    if (rota_str_is_equal(key, rota_str("add")))
        return read_added(plan, scan, error);
    if (rota_str_is_equal(key, rota_str("remove")))
        return read_removed(plan, scan, error);
    if (rota_str_is_equal(key, rota_str("weights")))
        return read_weights(plan, scan, error);
    if (rota_str_is_equal(key, rota_str("counts")))
        return read_counts(plan, scan, error);
    if (rota_str_is_equal(key, rota_str("remove_zone"))) {
        plan->remove_zone = rota_arena_copy(&plan->arena, rota_scan_string(scan));
        return plan->remove_zone.data ? ROTA_OK : no_memory(error);
    }
    if (rota_str_is_equal(key, rota_str("batch"))) {
        plan->spread.batch = (uint32_t)rota_scan_uint(scan, UINT32_MAX);
        plan->has_spread = true;
        return ROTA_OK;
    }
    if (rota_str_is_equal(key, rota_str("mode"))) {
        plan->has_spread = true;
        struct rota_str mode = rota_scan_string(scan);
        return scan->failed ? ROTA_OK
               : rota_spread_mode_parse(mode, &plan->spread.mode)
                   ? rota_error_set(error, ROTA_ERR_INVALID, "a mode is lookup or slots")
                   : ROTA_OK;
    }
    if (rota_str_is_equal(key, rota_str("gradual_ms"))) {
        plan->gradual = (rota_time)rota_scan_uint(scan, 86400000) * ROTA_MSEC;
        return ROTA_OK;
    }
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "a plan has add, remove, remove_zone, weights, batch, mode, counts and "
                          "gradual_ms, and no %.*s",
                          (int)(key.size < 100 ? key.size : 100), key.data);
}

static enum rota_code read_body(struct rota_node_plan *plan, struct rota_str body,
                                struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_scan scan;
    struct rota_str key;
    char *room = malloc(body.size + 1);
    if (!room)
        return no_memory(error);
    rota_scan_init(&scan, body, room);
    rota_scan_object(&scan);
    while (!code && rota_scan_key(&scan, &key))
        code = read_wish(plan, key, &scan, error);
    if (!code)
        rota_scan_end(&scan);
    if (!code && scan.failed)
        code =
            rota_error_set(error, ROTA_ERR_INVALID, "the plan is no JSON object as it should be");
    if (!code)
        code = rota_spread_check(plan->spread, error);
    bool has_zone = plan->remove_zone.size == 0;
    for (size_t i = 0; !code && i < plan->hosts.size && plan->remove_zone.size > 0; i++)
        if (rota_str_is_equal(plan->hosts.items[i].zone, plan->remove_zone)) {
            plan->hosts.items[i].weight_after = 0;
            has_zone = true;
        }
    if (!code && !has_zone)
        code = rota_error_set(error, ROTA_ERR_NOT_FOUND, "no node is in the zone %.*s",
                              (int)(plan->remove_zone.size < 100 ? plan->remove_zone.size : 100),
                              plan->remove_zone.data);
    free(room);
    return code;
}

/* --- the cluster as it is --- */

/* All that may own something now. */
static enum rota_code read_hosts(struct rota_node_plan *plan, struct rota_error *error)
{
    const struct rota_peers *peers = plan->node->peers;
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < rota_peers_n(peers); i++) {
        const struct rota_peer *peer = rota_peers_at(peers, i);
        bool is_in = peer->state == ROTA_STORE_MEMBER_IN && rota_peer_is_alive(peer);
        uint32_t weight = peer->weight ? peer->weight : ROTA_WEIGHT_ONE;
        struct rota_node_plan_host host = {.name = rota_str(peer->address),
                                           .zone = rota_str(peer->zone),
                                           .weight_before = weight,
                                           .weight_after = weight,
                                           .has_queues = strstr(peer->roles, "queue")};
        if (is_in)
            code = add_host(plan, host, error);
    }
    return code;
}

static bool push_thing(struct rota_node_plan *plan, struct thing thing, struct thing **made)
{
    uint32_t n = thing.n_before > thing.n_after ? thing.n_before : thing.n_after;
    thing.name = rota_arena_copy(&plan->arena, thing.name);
    thing.before = rota_arena_take(&plan->arena, n * sizeof *thing.before);
    thing.after = rota_arena_take(&plan->arena, n * sizeof *thing.after);
    if (!thing.name.data || !thing.before || !thing.after ||
        !rota_vector_push(&plan->things, thing))
        return false;
    *made = &plan->things.items[plan->things.size - 1];
    return true;
}

/* Indexes of the map's nodes become those of the hosts. */
static bool map_owners(const struct rota_node_plan *plan, const struct rota_space_map *map,
                       uint32_t n, uint32_t *owners)
{
    uint32_t *places = calloc(map->n_nodes + 1, sizeof *places);
    if (!places)
        return false;
    for (size_t i = 0; i < map->n_nodes; i++)
        places[i] = (uint32_t)find_host(plan, map->nodes[i]);
    for (uint32_t i = 0; i < n; i++) {
        const struct rota_space_shard *shard = &map->shards[i];
        uint32_t place =
            i < map->n_shards && shard->owner < map->n_nodes && shard->state != ROTA_SPACE_UNOWNED
                ? places[shard->owner]
                : ROTA_NODE_PLAN_NOBODY;
        owners[i] = place < plan->hosts.size ? place : ROTA_NODE_PLAN_NOBODY;
    }
    free(places);
    return true;
}

static enum rota_code add_space(struct rota_node_plan *plan, struct rota_str name,
                                struct rota_error *error)
{
    const struct rota_space *space = rota_space_service_find(plan->node->space_service, name);
    const struct rota_space_map *map = space ? rota_space_map(space) : NULL;
    enum rota_view_engine engine;
    struct thing *thing;
    if (!map || map->n_shards == 0 || !rota_view_engine_parse(map->engine, &engine))
        return ROTA_OK; /* nothing is known of it */
    bool *is_pinned = calloc(map->n_shards, sizeof *is_pinned);
    enum rota_code code = is_pinned && push_thing(plan,
                                                  (struct thing){.name = name,
                                                                 .n_before = map->n_shards,
                                                                 .n_after = map->n_shards},
                                                  &thing)
                              ? ROTA_OK
                              : no_memory(error);
    if (!code && !map_owners(plan, map, map->n_shards, thing->before))
        code = no_memory(error);
    for (uint32_t i = 0; !code && i < map->n_shards; i++)
        is_pinned[i] = map->shards[i].is_pinned;
    if (!code)
        code = rota_node_plan_place(name, engine, plan->hosts.items, plan->hosts.size,
                                    thing->before, is_pinned, map->n_shards, thing->after, error);
    free(is_pinned);
    return code;
}

static const struct rota_spread NOW = {.mode = ROTA_SPREAD_SLOTS,
                                       .batch = ROTA_BROKER_CLUSTER_BATCH};

static enum rota_code add_queue(struct rota_node_plan *plan, struct rota_str name,
                                struct rota_error *error)
{
    uint32_t n = (uint32_t)plan->node->settings->partitions, n_after = n;
    struct thing *thing;
    for (size_t i = 0; i < plan->counts.size; i++)
        if (rota_str_is_equal(plan->counts.items[i].queue, name))
            n_after = plan->counts.items[i].n;
    if (!push_thing(
            plan, (struct thing){.name = name, .is_queue = true, .n_before = n, .n_after = n_after},
            &thing))
        return no_memory(error);
    enum rota_code code = rota_node_plan_route(name, NOW, plan->hosts.items, plan->hosts.size,
                                               false, n, thing->before, error);
    return code ? code
                : rota_node_plan_route(name, plan->spread, plan->hosts.items, plan->hosts.size,
                                       true, n_after, thing->after, error);
}

/* {"items": [{"name", ...}]} */
static enum rota_code add_queues(struct rota_node_plan *plan, struct rota_str queues,
                                 struct rota_error *error)
{
    char *room = malloc(queues.size + 1);
    struct rota_scan scan;
    struct rota_str key;
    enum rota_code code = room ? ROTA_OK : no_memory(error);
    rota_scan_init(&scan, queues, room);
    rota_scan_object(&scan);
    while (!code && rota_scan_key(&scan, &key)) {
        if (!rota_str_is_equal(key, rota_str("items"))) {
            rota_scan_skip(&scan);
            continue;
        }
        rota_scan_array(&scan);
        while (!code && rota_scan_item(&scan)) {
            rota_scan_object(&scan);
            while (!code && rota_scan_key(&scan, &key)) {
                if (rota_str_is_equal(key, rota_str("name")))
                    code = add_queue(plan, rota_scan_string(&scan), error);
                else
                    rota_scan_skip(&scan);
            }
        }
    }
    free(room);
    return code;
}

static void count_all(struct rota_node_plan *plan)
{
    for (size_t i = 0; i < plan->things.size; i++) {
        struct thing *thing = &plan->things.items[i];
        thing->count = rota_node_plan_count(plan->hosts.items, plan->hosts.size, thing->before,
                                            thing->n_before, thing->after, thing->n_after);
        plan->count.moves += thing->count.moves;
        plan->count.lost += thing->count.lost;
        plan->count.minimum += thing->count.minimum;
        plan->n_shards += thing->n_before;
    }
}

enum rota_code rota_node_plan_new(struct rota_node *node, struct rota_str body,
                                  struct rota_str queues, struct rota_node_plan **plan,
                                  struct rota_error *error)
{
    struct rota_space_list list = {0};
    struct rota_node_plan *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory(error);
    made->node = node;
    made->spread = NOW;
    enum rota_code code = read_hosts(made, error);
    if (!code)
        code = read_body(made, body, error);
    if (!code && !rota_space_service_list(node->space_service, &made->arena, &list))
        code = no_memory(error);
    const struct rota_space_info *infos = list.spaces.items;
    for (size_t i = 0; !code && i < list.spaces.n; i++)
        code = add_space(made, infos[i].name, error);
    if (!code)
        code = add_queues(made, queues, error);
    if (code) {
        rota_node_plan_free(made);
        return code;
    }
    count_all(made);
    *plan = made;
    return ROTA_OK;
}

void rota_node_plan_free(struct rota_node_plan *plan)
{
    if (!plan)
        return;
    rota_vector_deinit(&plan->hosts);
    rota_vector_deinit(&plan->things);
    rota_vector_deinit(&plan->counts);
    rota_arena_deinit(&plan->arena);
    free(plan);
}

/* --- telling --- */

static void add_count(struct rota_json *json, const char *key, uint64_t n)
{
    rota_json_key(json, key);
    rota_json_uint(json, n);
}

static void add_spread(const struct rota_node_plan *plan, const char *key, bool is_after,
                       struct rota_json *json)
{
    rota_json_key(json, key);
    rota_json_begin_array(json);
    for (size_t i = 0; i < plan->hosts.size; i++) {
        const struct rota_node_plan_host *host = &plan->hosts.items[i];
        rota_json_begin_array(json);
        rota_json_string(json, host->name);
        rota_json_uint(json, is_after ? host->n_after : host->n_before);
        rota_json_end_array(json);
    }
    rota_json_end_array(json);
}

static void add_step(struct rota_json *json, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_step(struct rota_json *json, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rota_json_text(json, text);
}

static void add_steps(const struct rota_node_plan *plan, struct rota_json *json)
{
    rota_json_key(json, "steps");
    rota_json_begin_array(json);
    for (size_t i = 0; i < plan->hosts.size; i++) {
        const struct rota_node_plan_host *host = &plan->hosts.items[i];
        if (host->weight_before == 0)
            add_step(json, "start rotad at %.*s, with the same store; it is waited for",
                     ROTA_STR_ARGS(host->name));
        else if (host->weight_after == 0)
            add_step(json, "drain %.*s: its %llu shards go to others", ROTA_STR_ARGS(host->name),
                     (unsigned long long)host->n_before);
        else if (host->weight_after != host->weight_before)
            add_step(json,
                     "give %.*s the weight %g, until it is restarted or reads its settings again",
                     ROTA_STR_ARGS(host->name), host->weight_after / (double)ROTA_WEIGHT_ONE);
    }
    if (plan->has_spread || plan->counts.size > 0)
        add_step(json,
                 "batch, mode and partitions of queues are the same at all nodes of a release "
                 "or in all settings: they can be tried here, and not be applied");
    if (plan->count.lost > 0)
        add_step(json, "%llu shards of static spaces or without any node are left to nobody",
                 (unsigned long long)plan->count.lost);
    rota_json_end_array(json);
}

void rota_node_plan_write(const struct rota_node_plan *plan, struct rota_json *json)
{
    rota_json_begin_object(json);
    add_count(json, "moves", plan->count.moves);
    add_count(json, "lost", plan->count.lost);
    add_count(json, "minimum", plan->count.minimum);
    add_count(json, "n_shards", plan->n_shards);
    add_spread(plan, "spread_before", false, json);
    add_spread(plan, "spread_after", true, json);
    rota_json_key(json, "per_space");
    rota_json_begin_array(json);
    for (size_t i = 0; i < plan->things.size; i++) {
        const struct thing *thing = &plan->things.items[i];
        rota_json_begin_object(json);
        rota_json_key(json, "name");
        rota_json_string(json, thing->name);
        rota_json_key(json, "kind");
        rota_json_text(json, thing->is_queue ? "queue" : "space");
        add_count(json, "n_shards", thing->n_before);
        add_count(json, "moves", thing->count.moves);
        add_count(json, "minimum", thing->count.minimum);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
    add_steps(plan, json);
    rota_json_end_object(json);
}

/* --- applying --- */

static void on_freed(uv_handle_t *handle)
{
    rota_node_plan_free(handle->data);
}

/* A drain that is under way still tells us. */
static void let_go(struct rota_node_plan *plan)
{
    rota_list_remove(&plan->link);
    plan->is_freed = true;
    uv_timer_stop(&plan->timer);
    if (plan->n_under_way == 0)
        uv_close((uv_handle_t *)&plan->timer, on_freed);
}

static void settle(struct rota_node_plan *plan, const char *failure)
{
    plan->n_under_way--;
    if (failure)
        snprintf(plan->failure, sizeof plan->failure, "%s", failure);
    if (plan->is_freed && plan->n_under_way == 0)
        uv_close((uv_handle_t *)&plan->timer, on_freed);
}

static void on_drained(void *data, struct rota_server_call *call, const struct rota_error *error,
                       const struct rota_nodes_changed *changed)
{
    struct rota_node_plan *plan = data;
    (void)call;
    (void)changed;
    settle(plan, error ? error->text : NULL);
}

static bool is_going(const struct rota_node_plan_host *host)
{
    return host->weight_before > 0 && host->weight_after == 0;
}

/* Something is to be done at it; what is to come, comes by itself. */
static bool is_changed(const struct rota_node_plan_host *host)
{
    return host->weight_before > 0 && host->weight_after != host->weight_before;
}

/* A call to a node for its weight. */
struct weighing {
    struct rota_node_plan *plan;
    struct rota_channel *channel;
};

static void on_weighed(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct weighing *weighing = data;
    struct rota_node_plan *plan = weighing->plan;
    char text[ROTA_ERROR_TEXT_MAX];
    (void)call;
    snprintf(text, sizeof text, "%s: %s: %.*s", rota_channel_target(weighing->channel),
             rota_status_name(result->status),
             (int)(result->text.size < 300 ? result->text.size : 300), result->text.data);
    bool has_failed = result->status != ROTA_STATUS_OK;
    rota_channel_close(weighing->channel);
    free(weighing);
    settle(plan, has_failed ? text : NULL);
}

static void weigh(struct rota_node_plan *plan, const struct rota_node_plan_host *host)
{
    const struct rota_nodes_change request = {.node = host->name, .weight = host->weight_after};
    struct rota_buffer bytes = {0};
    struct rota_error error;
    struct weighing *weighing = calloc(1, sizeof *weighing);
    rota_message_encode(&ROTA_NODES_WEIGH, &request, &bytes);
    struct rota_call_options options = {.method = rota_str("/rota.v1.Nodes/Weigh"),
                                        .request = rota_buffer_str(&bytes),
                                        .timeout = 10 * ROTA_SEC,
                                        .wait_for_ready = true,
                                        .on_end = on_weighed,
                                        .data = weighing};
    enum rota_code code = weighing && !bytes.failed ? ROTA_OK : no_memory(&error);
    if (!code) {
        weighing->plan = plan;
        code = rota_node_open_channel(plan->node, host->name.data, 0, &weighing->channel, &error);
    }
    if (!code)
        code = rota_channel_call(weighing->channel, &options, NULL, &error);
    rota_buffer_deinit(&bytes);
    if (code) {
        rota_channel_close(weighing ? weighing->channel : NULL);
        free(weighing);
        settle(plan, error.text);
    }
}

/* Change the next one; all at once when it is not to be gradual. */
static void on_turn(uv_timer_t *timer)
{
    struct rota_node_plan *plan = timer->data;
    size_t n = plan->hosts.size;
    while (plan->next < n) {
        const struct rota_node_plan_host *host = &plan->hosts.items[plan->next++];
        if (!is_changed(host))
            continue;
        plan->n_under_way++;
        if (is_going(host))
            rota_node_change(plan->node, host->name, ROTA_STORE_MEMBER_DRAINING, false, on_drained,
                             plan, NULL);
        else
            weigh(plan, host);
        if (plan->gradual > 0)
            break;
    }
    while (plan->next < n && !is_changed(&plan->hosts.items[plan->next]))
        plan->next++;
    if (plan->next >= n)
        uv_timer_stop(timer);
}

static void forget_oldest(struct rota_node *node)
{
    struct rota_list_node *link = rota_list_first(&node->plans);
    size_t n = 0;
    for (struct rota_list_node *at = link; at && at != &node->plans; at = at->next)
        n++;
    if (n >= ROTA_NODE_PLANS_MAX)
        let_go(ROTA_LIST_ITEM(link, struct rota_node_plan, link));
}

enum rota_code rota_node_plan_apply(struct rota_node_plan *plan, uint64_t *id,
                                    struct rota_error *error)
{
    struct rota_node *node = plan->node;
    size_t n_changed = 0, n_left = 0;
    if (plan->has_spread || plan->counts.size > 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "batch, mode and partitions of queues can't be changed while nodes "
                              "run: all of them have to agree");
    for (size_t i = 0; i < plan->hosts.size; i++) {
        n_changed += is_changed(&plan->hosts.items[i]);
        n_left += plan->hosts.items[i].weight_after > 0 && plan->hosts.items[i].weight_before > 0;
    }
    if (n_left == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "no node would be left");
    forget_oldest(node);
    plan->id = *id = ++node->n_plans;
    plan->moved_at = rota_clock_boot() + plan->gradual;
    rota_node_note(node, ROTA_EVENT_OPERATOR, rota_str("plan"),
                   "%llu is applied: %zu nodes to change", (unsigned long long)plan->id, n_changed);
    uint64_t every = n_changed > 1 ? (uint64_t)(plan->gradual / ROTA_MSEC) / (n_changed - 1) : 0;
    uv_timer_init(node->loop, &plan->timer);
    plan->timer.data = plan;
    rota_list_push(&node->plans, &plan->link);
    uv_timer_start(&plan->timer, on_turn, 0, every ? every : 1);
    return ROTA_OK;
}

/* --- what has come of it --- */

static bool owners_now(struct rota_node_plan *plan, const struct thing *thing, uint32_t *owners,
                       bool *is_moving)
{
    if (thing->is_queue) {
        ROTA_VECTOR(struct rota_node_plan_host) hosts = {0};
        bool is_well = rota_vector_reserve(&hosts, plan->hosts.size + 1);
        for (size_t i = 0; is_well && i < plan->hosts.size; i++) {
            struct rota_node_plan_host host = plan->hosts.items[i];
            const struct rota_peer *peer = rota_peers_find(plan->node->peers, host.name);
            host.weight_before = 0;
            if (peer && peer->state == ROTA_STORE_MEMBER_IN && rota_peer_is_alive(peer))
                host.weight_before = peer->weight ? peer->weight : ROTA_WEIGHT_ONE;
            hosts.items[hosts.size++] = host;
        }
        is_well = is_well && !rota_node_plan_route(thing->name, NOW, hosts.items, hosts.size, false,
                                                   thing->n_before, owners, NULL);
        rota_vector_deinit(&hosts);
        return is_well;
    }
    const struct rota_space *space =
        rota_space_service_find(plan->node->space_service, thing->name);
    if (!space)
        return false;
    const struct rota_space_map *map = rota_space_map(space);
    *is_moving |= map->n_moving > 0;
    return map_owners(plan, map, thing->n_before, owners);
}

/* Nodes that are to come and are not there. */
static size_t n_awaited(const struct rota_node_plan *plan)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->hosts.size; i++) {
        const struct rota_peer *peer =
            rota_peers_find(plan->node->peers, plan->hosts.items[i].name);
        n += plan->hosts.items[i].weight_before == 0 &&
             !(peer && rota_peer_is_alive(peer) && peer->state == ROTA_STORE_MEMBER_IN);
    }
    return n;
}

static const char *state_of(const struct rota_node_plan *plan, bool is_moving)
{
    if (plan->failure[0])
        return "failed";
    if (plan->next < plan->hosts.size || plan->n_under_way > 0)
        return "applying";
    if (n_awaited(plan) > 0)
        return "waiting";
    return is_moving ? "moving" : "done";
}

static void write_outcome(struct rota_node_plan *plan, struct rota_json *json)
{
    struct rota_node_plan_count total = {0};
    bool is_moving = false;
    for (size_t i = 0; i < plan->hosts.size; i++)
        plan->hosts.items[i].n_after = plan->hosts.items[i].n_before = 0;
    for (size_t i = 0; i < plan->things.size; i++) {
        const struct thing *thing = &plan->things.items[i];
        uint32_t *owners = calloc(thing->n_before, sizeof *owners);
        if (owners && owners_now(plan, thing, owners, &is_moving)) {
            struct rota_node_plan_count count =
                rota_node_plan_count(plan->hosts.items, plan->hosts.size, thing->before,
                                     thing->n_before, owners, thing->n_before);
            total.moves += count.moves;
            total.lost += count.lost;
        }
        free(owners);
    }
    for (size_t i = 0; i < plan->hosts.size; i++)
        is_moving |= is_going(&plan->hosts.items[i]) && plan->hosts.items[i].n_after > 0;
    if (total.moves != plan->n_moved)
        plan->moved_at = rota_clock_boot();
    plan->n_moved = total.moves;
    is_moving |= total.lost > plan->count.lost;
    is_moving |= total.moves != plan->count.moves && rota_clock_boot() - plan->moved_at < STILL;
    rota_json_key(json, "outcome");
    rota_json_begin_object(json);
    add_count(json, "moves", total.moves);
    add_count(json, "lost", total.lost);
    add_spread(plan, "spread_after", true, json);
    rota_json_end_object(json);
    rota_json_key(json, "state");
    rota_json_text(json, state_of(plan, is_moving));
    rota_json_key(json, "why");
    rota_json_text(json, plan->failure);
}

/* Counts of hosts are worked out anew for what is told: first as predicted, then as it is. */
static void recount(struct rota_node_plan *plan)
{
    for (size_t i = 0; i < plan->hosts.size; i++)
        plan->hosts.items[i].n_after = plan->hosts.items[i].n_before = 0;
    plan->count = (struct rota_node_plan_count){0};
    plan->n_shards = 0;
    count_all(plan);
}

bool rota_node_plan_write_outcome(struct rota_node *node, uint64_t id, struct rota_json *json)
{
    for (struct rota_list_node *at = rota_list_first(&node->plans); at && at != &node->plans;
         at = at->next) {
        struct rota_node_plan *plan = ROTA_LIST_ITEM(at, struct rota_node_plan, link);
        if (plan->id != id)
            continue;
        recount(plan);
        rota_json_begin_object(json);
        add_count(json, "id", id);
        rota_json_key(json, "predicted");
        rota_node_plan_write(plan, json);
        write_outcome(plan, json);
        rota_json_end_object(json);
        return true;
    }
    return false;
}

void rota_node_plans_end(struct rota_node *node)
{
    struct rota_list_node *link;
    while ((link = rota_list_first(&node->plans)))
        let_go(ROTA_LIST_ITEM(link, struct rota_node_plan, link));
}
