#include "node/node_plan.h"

#include "node/node_plan_inside.h"
#include "node/node_queues.h"
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

/* --- what is wished --- */

enum rota_code rota_node_plan_no_memory(struct rota_error *error)
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
        return rota_node_plan_no_memory(error);
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
        struct rota_node_plan_queue count = {.queue = rota_arena_copy(&plan->arena, key)};
        count.n = (uint32_t)rota_scan_uint(scan, PARTITIONS_MAX);
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
        plan->remove_zone = rota_arena_copy(&plan->arena, rota_scan_string(scan));
        return plan->remove_zone.data ? ROTA_OK : rota_node_plan_no_memory(error);
    }
    if (rota_str_is_equal(key, rota_str("batch"))) {
        plan->spread.batch = (uint32_t)rota_scan_uint(scan, UINT32_MAX);
        plan->has_batch = true;
        return ROTA_OK;
    }
    if (rota_str_is_equal(key, rota_str("mode"))) {
        plan->has_mode = true;
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
        return rota_node_plan_no_memory(error);
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
                                           .has_queues = rota_peer_has_role(peer, "queue")};
        if (is_in)
            code = add_host(plan, host, error);
    }
    return code;
}

static bool push_thing(struct rota_node_plan *plan, struct rota_node_plan_thing thing,
                       struct rota_node_plan_thing **made)
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
bool rota_node_plan_owners(const struct rota_node_plan *plan, const struct rota_space_map *map,
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
    struct rota_node_plan_thing *thing;
    if (!map || map->n_shards == 0 || !rota_view_engine_parse(map->engine, &engine))
        return ROTA_OK; /* nothing is known of it */
    bool *is_pinned = calloc(map->n_shards, sizeof *is_pinned);
    enum rota_code code =
        is_pinned &&
                push_thing(plan,
                           (struct rota_node_plan_thing){
                               .name = name, .n_before = map->n_shards, .n_after = map->n_shards},
                           &thing)
            ? ROTA_OK
            : rota_node_plan_no_memory(error);
    if (!code && !rota_node_plan_owners(plan, map, map->n_shards, thing->before))
        code = rota_node_plan_no_memory(error);
    for (uint32_t i = 0; !code && i < map->n_shards; i++)
        is_pinned[i] = map->shards[i].is_pinned;
    if (!code)
        code = rota_node_plan_place(name, engine, plan->hosts.items, plan->hosts.size,
                                    thing->before, is_pinned, map->n_shards, thing->after, error);
    free(is_pinned);
    return code;
}

static enum rota_code add_queue(void *data, const struct rota_node_queue *queue,
                                struct rota_error *error)
{
    struct rota_node_plan *plan = data;
    uint32_t n = queue->layout.wanted;
    struct rota_spread spread = queue->layout.spread;
    struct rota_node_plan_thing *thing;
    for (size_t i = 0; i < plan->counts.size; i++)
        if (rota_str_is_equal(plan->counts.items[i].queue, queue->name)) {
            n = plan->counts.items[i].n;
            plan->counts.items[i].is_known = true;
        }
    if (plan->has_batch)
        spread.batch = plan->spread.batch;
    if (plan->has_mode)
        spread.mode = plan->spread.mode;
    if (!push_thing(plan,
                    (struct rota_node_plan_thing){.name = queue->name,
                                                  .is_queue = true,
                                                  .layout = queue->layout,
                                                  .seen = queue->layout,
                                                  .wished = {n, n, n, spread},
                                                  .n_before = queue->layout.read,
                                                  .n_after = n},
                    &thing))
        return rota_node_plan_no_memory(error);
    enum rota_code code =
        rota_node_plan_route(queue->name, queue->layout.spread, plan->hosts.items, plan->hosts.size,
                             false, queue->layout.read, thing->before, error);
    return code ? code
                : rota_node_plan_route(queue->name, spread, plan->hosts.items, plan->hosts.size,
                                       true, n, thing->after, error);
}

static enum rota_code check_counts(const struct rota_node_plan *plan, struct rota_error *error)
{
    for (size_t i = 0; i < plan->counts.size; i++)
        if (!plan->counts.items[i].is_known)
            return rota_error_set(error, ROTA_ERR_NOT_FOUND, "there is no queue %.*s",
                                  (int)plan->counts.items[i].queue.size,
                                  plan->counts.items[i].queue.data);
    return ROTA_OK;
}

/* Counts of hosts are worked out anew for what is told: first as predicted, then as it is. */
void rota_node_plan_recount(struct rota_node_plan *plan)
{
    for (size_t i = 0; i < plan->hosts.size; i++)
        plan->hosts.items[i].n_after = plan->hosts.items[i].n_before = 0;
    plan->count = (struct rota_node_plan_count){0};
    plan->n_shards = 0;
    for (size_t i = 0; i < plan->things.size; i++) {
        struct rota_node_plan_thing *thing = &plan->things.items[i];
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
        return rota_node_plan_no_memory(error);
    made->node = node;
    made->spread = ROTA_BROKER_CLUSTER_SPREAD;
    enum rota_code code = read_hosts(made, error);
    if (!code)
        code = read_body(made, body, error);
    if (!code && !rota_space_service_list(node->space_service, &made->arena, &list))
        code = rota_node_plan_no_memory(error);
    const struct rota_space_info *infos = list.spaces.items;
    for (size_t i = 0; !code && i < list.spaces.n; i++)
        code = add_space(made, infos[i].name, error);
    if (!code)
        code = rota_node_queues_each(queues, add_queue, made, error);
    if (!code)
        code = check_counts(made, error);
    if (code) {
        rota_node_plan_free(made);
        return code;
    }
    rota_node_plan_recount(made);
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

void rota_node_plan_add_count(struct rota_json *json, const char *key, uint64_t n)
{
    rota_json_key(json, key);
    rota_json_uint(json, n);
}

void rota_node_plan_add_spread(const struct rota_node_plan *plan, const char *key, bool is_after,
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

bool rota_node_plan_is_changed(const struct rota_node_plan_thing *thing)
{
    const struct rota_work_layout *layout = &thing->layout, *wished = &thing->wished;
    return thing->is_queue &&
           (layout->wanted != wished->wanted || layout->spread.batch != wished->spread.batch ||
            layout->spread.mode != wished->spread.mode);
}

static void add_queue_steps(const struct rota_node_plan_thing *thing, struct rota_json *json)
{
    const struct rota_work_layout *layout = &thing->layout, *wished = &thing->wished;
    if (wished->wanted > layout->wanted)
        add_step(json,
                 "give queue %.*s %u partitions: all nodes look at them first, then new jobs go "
                 "there",
                 ROTA_STR_ARGS(thing->name), wished->wanted);
    if (wished->wanted < layout->wanted)
        add_step(json,
                 "leave queue %.*s %u partitions: new jobs go to these, the others are read until "
                 "they are empty",
                 ROTA_STR_ARGS(thing->name), wished->wanted);
    if (layout->spread.batch != wished->spread.batch || layout->spread.mode != wished->spread.mode)
        add_step(json, "spread the partitions of queue %.*s by batch %u and mode %s",
                 ROTA_STR_ARGS(thing->name), wished->spread.batch,
                 rota_spread_mode_name(wished->spread.mode));
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
    for (size_t i = 0; i < plan->things.size; i++)
        if (rota_node_plan_is_changed(&plan->things.items[i]))
            add_queue_steps(&plan->things.items[i], json);
    if (plan->count.lost > 0)
        add_step(json, "%llu shards of static spaces or without any node are left to nobody",
                 (unsigned long long)plan->count.lost);
    rota_json_end_array(json);
}

void rota_node_plan_write(const struct rota_node_plan *plan, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_node_plan_add_count(json, "moves", plan->count.moves);
    rota_node_plan_add_count(json, "lost", plan->count.lost);
    rota_node_plan_add_count(json, "minimum", plan->count.minimum);
    rota_node_plan_add_count(json, "n_shards", plan->n_shards);
    rota_node_plan_add_spread(plan, "spread_before", false, json);
    rota_node_plan_add_spread(plan, "spread_after", true, json);
    rota_json_key(json, "per_space");
    rota_json_begin_array(json);
    for (size_t i = 0; i < plan->things.size; i++) {
        const struct rota_node_plan_thing *thing = &plan->things.items[i];
        rota_json_begin_object(json);
        rota_json_key(json, "name");
        rota_json_string(json, thing->name);
        rota_json_key(json, "kind");
        rota_json_text(json, thing->is_queue ? "queue" : "space");
        rota_node_plan_add_count(json, "n_shards", thing->n_before);
        rota_node_plan_add_count(json, "moves", thing->count.moves);
        rota_node_plan_add_count(json, "minimum", thing->count.minimum);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
    add_steps(plan, json);
    rota_json_end_object(json);
}
