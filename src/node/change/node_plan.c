#include "node/change/node_plan.h"

#include "io/clock.h"
#include "node/change/node_plan_inside.h"
#include "node/documents/node_queues.h"
#include "node/documents/peers.h"
#include "run/own/space_service.h"
#include "run/work/cluster/work_broker_cluster.h"
#include "wire/message/space_message.h"
#include "wire/text/json_scan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITIONS_MAX = 65536 };

/* --- the request --- */

enum rota_code rota_node_plan_no_memory(struct rota_error *error)
{
    return rota_error_no_memory(error, "for a plan");
}

static size_t find_host(const struct rota_node_plan *plan, struct rota_str name)
{
    uintptr_t place = (uintptr_t)rota_map_get(&plan->places, name);
    return place ? place - 1 : plan->hosts.size;
}

static enum rota_code need_host(struct rota_node_plan *plan, struct rota_str name, size_t *place,
                                struct rota_error *error)
{
    const struct rota_peer *peer = rota_peers_seek(plan->node->peers, name);
    *place = find_host(plan, peer ? rota_str(peer->address) : name);
    if (*place < plan->hosts.size)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_NOT_FOUND, "no node %.*s",
                          (int)(name.size < 200 ? name.size : 200), name.data);
}

/* A weight as people write it, 1.5; in thousandths. */
static enum rota_code read_weight(struct rota_scan *scan, uint32_t *weight,
                                  struct rota_error *error)
{
    struct rota_str text = rota_json_scan_skip(scan);
    char copy[32], *end = copy;
    snprintf(copy, sizeof copy, "%.*s", ROTA_STR_ARGS(text));
    double number = scan->failed ? -1 : strtod(copy, &end);
    if (scan->failed || *end || text.size >= sizeof copy || !(number >= 0) ||
        number > (double)ROTA_VIEW_WEIGHT_MAX / ROTA_WEIGHT_ONE)
        return rota_error_set(error, ROTA_ERR_INVALID, "a weight must be a number from 0 to %d",
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
        return rota_error_set(error, ROTA_ERR_INVALID, "%.*s exists already",
                              ROTA_STR_ARGS(host.name));
    if (plan->hosts.size >= ROTA_NODE_PLAN_HOSTS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a plan has at most %d hosts",
                              ROTA_NODE_PLAN_HOSTS_MAX);
    host.name = rota_arena_copy(&plan->arena, host.name);
    host.zone = rota_arena_copy(&plan->arena, host.zone);
    if (!host.name.data || !host.zone.data || !rota_vector_push(&plan->hosts, host) ||
        !rota_map_put(&plan->places, host.name, (void *)(uintptr_t)plan->hosts.size))
        return rota_node_plan_no_memory(error);
    return ROTA_OK;
}

static enum rota_code read_added(struct rota_node_plan *plan, struct rota_scan *scan,
                                 struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_str key;
    rota_json_scan_array(scan);
    while (!code && rota_json_scan_item(scan)) {
        struct rota_node_plan_host host = {.weight_after = ROTA_WEIGHT_ONE, .has_queues = true};
        rota_json_scan_object(scan);
        while (!code && rota_json_scan_key(scan, &key)) {
            if (rota_str_is_equal(key, rota_str("name")))
                host.name = rota_json_scan_string(scan);
            else if (rota_str_is_equal(key, rota_str("zone")))
                host.zone = rota_json_scan_string(scan);
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
    rota_json_scan_array(scan);
    while (!code && rota_json_scan_item(scan)) {
        struct rota_str name = rota_json_scan_string(scan);
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
    rota_json_scan_object(scan);
    while (!code && rota_json_scan_key(scan, &key)) {
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
    rota_json_scan_object(scan);
    while (rota_json_scan_key(scan, &key)) {
        struct rota_node_plan_queue count = {.queue = rota_arena_copy(&plan->arena, key)};
        count.n = (uint32_t)rota_json_scan_uint(scan, PARTITIONS_MAX);
        if (scan->failed || count.n == 0)
            return rota_error_set(error, ROTA_ERR_INVALID, "a queue has 1 to %d partitions",
                                  PARTITIONS_MAX);
        if (plan->counts.size >= ROTA_NODE_PLAN_COUNTS_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT, "a plan names at most %d queues",
                                  ROTA_NODE_PLAN_COUNTS_MAX);
        if (!count.queue.data || !rota_vector_push(&plan->counts, count))
            return rota_node_plan_no_memory(error);
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
        plan->remove_zone = rota_arena_copy(&plan->arena, rota_json_scan_string(scan));
        return plan->remove_zone.data ? ROTA_OK : rota_node_plan_no_memory(error);
    }
    if (rota_str_is_equal(key, rota_str("batch"))) {
        plan->spread.batch = (uint32_t)rota_json_scan_uint(scan, UINT32_MAX);
        plan->has_batch = true;
        return ROTA_OK;
    }
    if (rota_str_is_equal(key, rota_str("mode"))) {
        plan->has_mode = true;
        struct rota_str mode = rota_json_scan_string(scan);
        return scan->failed ? ROTA_OK
               : rota_spread_mode_parse(mode, &plan->spread.mode)
                   ? rota_error_set(error, ROTA_ERR_INVALID, "mode must be lookup or slots")
                   : ROTA_OK;
    }
    if (rota_str_is_equal(key, rota_str("gradual_ms"))) {
        plan->gradual = (rota_time)rota_json_scan_uint(scan, 86400000) * ROTA_MSEC;
        return ROTA_OK;
    }
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "a plan has the fields add, remove, remove_zone, weights, batch, mode, "
                          "counts and gradual_ms, not %.*s",
                          (int)(key.size < 100 ? key.size : 100), key.data);
}

static enum rota_code read_body(struct rota_node_plan *plan, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_scan scan;
    struct rota_str key;
    char *room = malloc(plan->body.size + 1);
    if (!room)
        return rota_node_plan_no_memory(error);
    rota_json_scan_init(&scan, plan->body, room);
    rota_json_scan_object(&scan);
    while (!code && rota_json_scan_key(&scan, &key))
        code = read_wish(plan, key, &scan, error);
    if (!code)
        rota_json_scan_end(&scan);
    if (!code && scan.failed)
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "the plan must be a JSON object, and each field must have its type: "
                              "lists for remove and add, as in {\"remove\": [\"HOST:PORT\"]}");
    if (!code)
        code = rota_spread_check(plan->spread, error);
    bool has_zone = plan->remove_zone.size == 0;
    for (size_t i = 0; !code && i < plan->hosts.size && plan->remove_zone.size > 0; i++)
        if (rota_str_is_equal(plan->hosts.items[i].zone, plan->remove_zone)) {
            plan->hosts.items[i].weight_after = 0;
            has_zone = true;
        }
    if (!code && !has_zone)
        code = rota_error_set(error, ROTA_ERR_NOT_FOUND, "no node in zone %.*s",
                              (int)(plan->remove_zone.size < 100 ? plan->remove_zone.size : 100),
                              plan->remove_zone.data);
    free(room);
    return code;
}

/* --- the cluster as it is --- */

/* All nodes that may own something now. */
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
                                           .has_queues = rota_peer_has_role(peer, "queue")};
        if (is_in)
            code = add_host(plan, host, error);
    }
    return code;
}

bool rota_node_plan_map_copy(const struct rota_space *space, struct rota_arena *arena,
                             struct rota_node_plan_map *map)
{
    const struct rota_space_map *seen = rota_space_map(space);
    *map = (struct rota_node_plan_map){0};
    if (seen->n_shards == 0 || !rota_view_engine_parse(seen->engine, &map->engine))
        return true;
    struct rota_str *nodes = rota_arena_take(arena, (seen->n_nodes + 1) * sizeof *nodes);
    map->owners = rota_arena_take(arena, seen->n_shards * sizeof *map->owners);
    map->is_pinned = rota_arena_take(arena, seen->n_shards * sizeof *map->is_pinned);
    bool is_well = nodes && map->owners && map->is_pinned;
    for (size_t i = 0; is_well && i < seen->n_nodes; i++) {
        nodes[i] = rota_arena_copy(arena, seen->nodes[i]);
        is_well = nodes[i].data != NULL;
    }
    for (uint32_t i = 0; is_well && i < seen->n_shards; i++) {
        const struct rota_space_shard *shard = &seen->shards[i];
        bool is_owned = shard->owner < seen->n_nodes && shard->state != ROTA_SPACE_UNOWNED;
        map->owners[i] = is_owned ? shard->owner : ROTA_NODE_PLAN_NOBODY;
        map->is_pinned[i] = shard->is_pinned;
    }
    map->nodes = nodes;
    map->n_nodes = seen->n_nodes;
    map->n_shards = seen->n_shards;
    return is_well;
}

bool rota_node_plan_owners(const struct rota_node_plan *plan, const struct rota_node_plan_map *map,
                           uint32_t n, uint32_t *owners)
{
    uint32_t *places = calloc(map->n_nodes + 1, sizeof *places);
    if (!places)
        return false;
    for (size_t i = 0; i < map->n_nodes; i++)
        places[i] = (uint32_t)find_host(plan, map->nodes[i]);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t place = i < map->n_shards && map->owners[i] < map->n_nodes ? places[map->owners[i]]
                                                                            : ROTA_NODE_PLAN_NOBODY;
        owners[i] = place < plan->hosts.size ? place : ROTA_NODE_PLAN_NOBODY;
    }
    free(places);
    return true;
}

static enum rota_code copy_spaces(struct rota_node_plan *plan, struct rota_error *error)
{
    struct rota_space_list list = {0};
    if (!rota_space_service_list(plan->node->space_service, &plan->arena, &list))
        return rota_node_plan_no_memory(error);
    const struct rota_space_info *infos = list.spaces.items;
    for (size_t i = 0; i < list.spaces.n; i++) {
        const struct rota_space *space =
            rota_space_service_find(plan->node->space_service, infos[i].name);
        struct rota_node_plan_thing thing = {.name = rota_arena_copy(&plan->arena, infos[i].name)};
        if (!thing.name.data ||
            (space && !rota_node_plan_map_copy(space, &plan->arena, &thing.map)))
            return rota_node_plan_no_memory(error);
        thing.n_before = thing.n_after = thing.map.n_shards;
        if (thing.n_before > 0 && !rota_vector_push(&plan->things, thing))
            return rota_node_plan_no_memory(error);
    }
    return ROTA_OK;
}

enum rota_code rota_node_plan_new(struct rota_node *node, struct rota_str body,
                                  struct rota_str queues, struct rota_node_plan **plan,
                                  struct rota_error *error)
{
    struct rota_node_plan *made = calloc(1, sizeof *made);
    if (!made)
        return rota_node_plan_no_memory(error);
    made->node = node;
    made->spread = ROTA_BROKER_CLUSTER_SPREAD;
    rota_map_init(&made->places, (uint64_t)rota_clock_mono() ^ (uintptr_t)made);
    made->body = rota_arena_copy(&made->arena, body);
    made->queues = rota_arena_copy(&made->arena, queues);
    enum rota_code code =
        made->body.data && made->queues.data ? ROTA_OK : rota_node_plan_no_memory(error);
    if (!code)
        code = read_hosts(made, error);
    if (!code)
        code = copy_spaces(made, error);
    if (code) {
        rota_node_plan_free(made);
        return code;
    }
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
    rota_map_deinit(&plan->places);
    rota_arena_deinit(&plan->arena);
    free(plan);
}

/* --- on the worker thread --- */

static enum rota_code add_queue(void *data, const struct rota_node_queue *queue,
                                struct rota_error *error)
{
    struct rota_node_plan *plan = data;
    uint32_t n = queue->layout.wanted;
    struct rota_spread spread = queue->layout.spread;
    for (size_t i = 0; i < plan->counts.size; i++)
        if (rota_str_is_equal(plan->counts.items[i].queue, queue->name)) {
            n = plan->counts.items[i].n;
            plan->counts.items[i].is_known = true;
        }
    if (plan->has_batch)
        spread.batch = plan->spread.batch;
    if (plan->has_mode)
        spread.mode = plan->spread.mode;
    struct rota_node_plan_thing thing = {
        .name = rota_arena_copy(&plan->arena, queue->name),
        .is_queue = true,
        .layout = queue->layout,
        .seen = queue->layout,
        .wished = {.wanted = n, .write = n, .read = n, .spread = spread},
        .n_before = queue->layout.read,
        .n_after = n};
    return thing.name.data && rota_vector_push(&plan->things, thing)
               ? ROTA_OK
               : rota_node_plan_no_memory(error);
}

static enum rota_code check_counts(const struct rota_node_plan *plan, struct rota_error *error)
{
    for (size_t i = 0; i < plan->counts.size; i++)
        if (!plan->counts.items[i].is_known)
            return rota_error_set(error, ROTA_ERR_NOT_FOUND, "no queue %.*s",
                                  (int)plan->counts.items[i].queue.size,
                                  plan->counts.items[i].queue.data);
    return ROTA_OK;
}

static uint64_t cost_of(const struct rota_node_plan *plan)
{
    struct rota_node_plan_size size = {0};
    for (size_t i = 0; i < plan->things.size; i++) {
        const struct rota_node_plan_thing *thing = &plan->things.items[i];
        size.n_queues += thing->is_queue;
        size.n_ring_spaces += !thing->is_queue && thing->map.engine == ROTA_VIEW_RING;
        size.n_shards += (uint64_t)thing->n_before + thing->n_after;
    }
    return rota_node_plan_rules_cost(plan->hosts.items, plan->hosts.size, size);
}

static enum rota_code place_thing(struct rota_node_plan *plan, struct rota_node_plan_thing *thing,
                                  const struct rota_node_plan_ring rings[2],
                                  struct rota_error *error)
{
    uint32_t n = thing->n_before > thing->n_after ? thing->n_before : thing->n_after;
    thing->before = rota_arena_take(&plan->arena, n * sizeof *thing->before);
    thing->after = rota_arena_take(&plan->arena, n * sizeof *thing->after);
    if (!thing->before || !thing->after)
        return rota_node_plan_no_memory(error);
    if (thing->is_queue) {
        rota_node_plan_rules_route(&rings[0], thing->name, &thing->layout, rota_clock_wall(),
                                   thing->n_before, thing->before);
        rota_node_plan_rules_route(&rings[1], thing->name, &thing->wished, ROTA_TIME_NEVER,
                                   thing->n_after, thing->after);
        return ROTA_OK;
    }
    if (!rota_node_plan_owners(plan, &thing->map, thing->n_before, thing->before))
        return rota_node_plan_no_memory(error);
    return rota_node_plan_rules_place(thing->name, thing->map.engine, plan->hosts.items,
                                      plan->hosts.size, thing->before, thing->map.is_pinned,
                                      thing->n_before, thing->after, error);
}

static void count_thing(struct rota_node_plan *plan, struct rota_node_plan_thing *thing)
{
    thing->count = rota_node_plan_rules_count(plan->hosts.items, plan->hosts.size, thing->before,
                                              thing->n_before, thing->after, thing->n_after);
    plan->count.moves += thing->count.moves;
    plan->count.lost += thing->count.lost;
    plan->count.minimum += thing->count.minimum;
    plan->n_shards += thing->n_before;
}

static enum rota_code place_all(struct rota_node_plan *plan, struct rota_error *error)
{
    struct rota_node_plan_ring rings[2] = {0};
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < plan->things.size; i++) {
        struct rota_node_plan_thing *thing = &plan->things.items[i];
        for (int side = 0; !code && thing->is_queue && side < 2; side++)
            if (!rings[side].ring)
                code = rota_node_plan_rules_ring_init(&rings[side], plan->hosts.items,
                                                      plan->hosts.size, side == 1, error);
        if (!code)
            code = place_thing(plan, thing, rings, error);
        if (!code)
            count_thing(plan, thing);
    }
    rota_node_plan_rules_ring_deinit(&rings[0]);
    rota_node_plan_rules_ring_deinit(&rings[1]);
    return code;
}

enum rota_code rota_node_plan_work_out(struct rota_node_plan *plan, bool has_token,
                                       enum rota_node_plan_verdict *verdict,
                                       struct rota_error *error)
{
    *verdict = ROTA_NODE_PLAN_FITS;
    enum rota_code code = read_body(plan, error);
    if (!code)
        code = rota_node_queues_each(plan->queues, add_queue, plan, error);
    if (!code)
        code = check_counts(plan, error);
    if (code)
        return code;
    uint64_t cost = cost_of(plan);
    *verdict = rota_node_plan_rules_judge(cost, has_token);
    switch (*verdict) {
    case ROTA_NODE_PLAN_FITS:
        return place_all(plan, error);
    case ROTA_NODE_PLAN_NEEDS_TOKEN:
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the plan costs %" PRIu64 " points and shards; more than %d need the "
                              "node's token: Authorization: Bearer TOKEN",
                              cost, ROTA_NODE_PLAN_COST_OPEN);
    case ROTA_NODE_PLAN_TOO_LARGE:
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the plan costs %" PRIu64 " points and shards; a node computes at "
                              "most %d: plan for fewer hosts or lower weights",
                              cost, ROTA_NODE_PLAN_COST_MAX);
    }
    return ROTA_OK;
}

/* --- telling --- */

void rota_node_plan_add_spread(const struct rota_node_plan_host *hosts, size_t n_hosts,
                               const char *key, bool is_after, struct rota_json *json)
{
    rota_json_add_array(json, key);
    for (size_t i = 0; i < n_hosts; i++) {
        const struct rota_node_plan_host *host = &hosts[i];
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

bool rota_node_plan_spread_differs(const struct rota_work_layout *a,
                                   const struct rota_work_layout *b)
{
    return a->spread.batch != b->spread.batch || a->spread.mode != b->spread.mode;
}

bool rota_node_plan_differs(const struct rota_work_layout *a, const struct rota_work_layout *b)
{
    return a->wanted != b->wanted || rota_node_plan_spread_differs(a, b);
}

bool rota_node_plan_is_changed(const struct rota_node_plan_thing *thing)
{
    return thing->is_queue && rota_node_plan_differs(&thing->layout, &thing->wished);
}

static void add_queue_steps(const struct rota_node_plan_thing *thing, rota_time gradual,
                            struct rota_json *json)
{
    const struct rota_work_layout *layout = &thing->layout, *wished = &thing->wished;
    if (wished->wanted > layout->wanted)
        add_step(json,
                 "give queue %.*s %u partitions: first all nodes read them, then new jobs go there",
                 ROTA_STR_ARGS(thing->name), wished->wanted);
    if (wished->wanted < layout->wanted)
        add_step(json,
                 "leave queue %.*s %u partitions: new jobs go to these; nodes read the others "
                 "until they are empty",
                 ROTA_STR_ARGS(thing->name), wished->wanted);
    if (!rota_node_plan_spread_differs(layout, wished))
        return;
    char over[64] = "";
    if (gradual > 0)
        snprintf(over, sizeof over, ", partition by partition over %g s",
                 (double)gradual / (double)ROTA_SEC);
    add_step(json, "spread the partitions of queue %.*s by batch %u and mode %s%s",
             ROTA_STR_ARGS(thing->name), wished->spread.batch,
             rota_spread_mode_name(wished->spread.mode), over);
}

static void add_steps(const struct rota_node_plan *plan, struct rota_json *json)
{
    rota_json_add_array(json, "steps");
    for (size_t i = 0; i < plan->hosts.size; i++) {
        const struct rota_node_plan_host *host = &plan->hosts.items[i];
        if (host->weight_before == 0)
            add_step(json, "start rotad at %.*s, with the same store; the plan waits for it",
                     ROTA_STR_ARGS(host->name));
        else if (host->weight_after == 0)
            add_step(json, "drain %.*s: its %llu shards and partitions move to other nodes",
                     ROTA_STR_ARGS(host->name), (unsigned long long)host->n_before);
        else if (host->weight_after != host->weight_before)
            add_step(json, "give %.*s the weight %g, until it restarts or reloads its settings",
                     ROTA_STR_ARGS(host->name), host->weight_after / (double)ROTA_WEIGHT_ONE);
    }
    for (size_t i = 0; i < plan->things.size; i++)
        if (rota_node_plan_is_changed(&plan->things.items[i]))
            add_queue_steps(&plan->things.items[i], plan->gradual, json);
    if (plan->count.lost > 0)
        add_step(json, "%llu shards of static spaces or without any node would have no owner",
                 (unsigned long long)plan->count.lost);
    rota_json_end_array(json);
}

void rota_node_plan_write(const struct rota_node_plan *plan, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_add_uint(json, "moves", plan->count.moves);
    rota_json_add_uint(json, "lost", plan->count.lost);
    rota_json_add_uint(json, "minimum", plan->count.minimum);
    rota_json_add_uint(json, "n_shards", plan->n_shards);
    rota_node_plan_add_spread(plan->hosts.items, plan->hosts.size, "spread_before", false, json);
    rota_node_plan_add_spread(plan->hosts.items, plan->hosts.size, "spread_after", true, json);
    rota_json_add_array(json, "per_space");
    for (size_t i = 0; i < plan->things.size; i++) {
        const struct rota_node_plan_thing *thing = &plan->things.items[i];
        rota_json_begin_object(json);
        rota_json_add_string(json, "name", thing->name);
        rota_json_add_text(json, "kind", thing->is_queue ? "queue" : "space");
        rota_json_add_uint(json, "n_shards", thing->n_before);
        rota_json_add_uint(json, "moves", thing->count.moves);
        rota_json_add_uint(json, "minimum", thing->count.minimum);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
    add_steps(plan, json);
    rota_json_end_object(json);
}
