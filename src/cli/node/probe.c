#include "cli/node/probe.h"

#include "io/clock.h"

#include "wire/message/standard_message.h"

#include <stdio.h>

/* A probe that first has to get the map may take this much longer. */
#define MAP_TIMEOUT (10 * ROTA_SEC)

const char *rota_probe_health_name(enum rota_probe_health health)
{
    switch (health) {
    case ROTA_PROBE_UNKNOWN:
        return "unknown";
    case ROTA_PROBE_SERVING:
        return "serving";
    case ROTA_PROBE_UNCHECKED:
        return "unchecked";
    case ROTA_PROBE_NOT_SERVING:
        return "not serving";
    case ROTA_PROBE_FAILING:
        return "failing";
    }
    return "unknown";
}

/* --- nodes --- */

static struct rota_str key_of(const int64_t *node)
{
    return rota_str_of(node, sizeof *node);
}

struct rota_probe_node *rota_probe_find(const struct rota_probe *probe, int64_t node)
{
    return rota_map_get(&probe->by_id, key_of(&node));
}

enum rota_circuit rota_probe_circuit(const struct rota_probe_node *node)
{
    return node->view.has_balance ? node->view.balance.circuit : ROTA_CIRCUIT_CLOSED;
}

bool rota_probe_is_well(const struct rota_probe_node *node, const struct rota_replica *replica)
{
    if (!node)
        return false; /* out of memory */
    bool is_serving = node->health == ROTA_PROBE_SERVING || node->health == ROTA_PROBE_UNCHECKED;
    return is_serving && replica->is_serviceable && rota_probe_circuit(node) == ROTA_CIRCUIT_CLOSED;
}

bool rota_probe_is_all_well(const struct rota_probe *probe)
{
    for (size_t i = 0; i < probe->map->n_channels; i++) {
        const struct rota_shard_channel *channel = &probe->map->channels[i];
        if (channel->n_replicas == 0)
            return false;
        for (size_t j = 0; j < channel->n_replicas; j++)
            if (!rota_probe_is_well(rota_probe_find(probe, channel->replicas[j].node),
                                    &channel->replicas[j]))
                return false;
    }
    return true;
}

/* Its strings are about to become invalid. */
static void look_at(struct rota_probe_node *node)
{
    struct rota_shards_view view = {0};
    rota_shards_look_at(node->probe->shards, node->node, &view);
    view.address = view.problem = NULL;
    node->view = view;
}

static struct rota_probe_node *node_new(struct rota_probe *probe, int64_t id)
{
    struct rota_probe_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->node = id;
    node->probe = probe;
    if (!rota_map_put(&probe->by_id, key_of(&node->node), node)) {
        free(node);
        return NULL;
    }
    return node;
}

/* --- the map --- */

static bool is_same_channel(const struct rota_shard_channel *a, const struct rota_shard_channel *b)
{
    if (!rota_str_is_equal(a->name, b->name) || a->n_replicas != b->n_replicas)
        return false;
    for (size_t i = 0; i < a->n_replicas; i++) {
        const struct rota_replica *x = &a->replicas[i], *y = &b->replicas[i];
        if (x->node != y->node || x->epoch != y->epoch || x->is_serviceable != y->is_serviceable ||
            !rota_str_is_equal(x->address, y->address))
            return false;
    }
    return true;
}

static bool is_same_map(const struct rota_shard_map *a, const struct rota_shards_map *b)
{
    if (!a || a->collection != b->id || a->n_channels != b->n_channels)
        return false;
    for (size_t i = 0; i < a->n_channels; i++)
        if (!is_same_channel(&a->channels[i], &b->channels[i]))
            return false;
    return true;
}

/* The node is in a shard of the new map. With a new address it is a different process. */
static bool list(struct rota_probe *probe, const struct rota_shard_channel *channel,
                 const struct rota_replica *replica)
{
    struct rota_probe_node *node = rota_probe_find(probe, replica->node);
    if (!node)
        node = node_new(probe, replica->node);
    if (!node)
        return false;
    if (node->n_shards++ > 0)
        return true;
    if (!rota_str_is_equal(node->address, replica->address)) {
        node->health = ROTA_PROBE_UNKNOWN;
        node->latency = (struct rota_histogram){0};
        node->n_probes = node->n_errors = 0;
        node->problem[0] = '\0';
    }
    node->address = replica->address;
    node->channel = channel->name;
    return rota_vector_push(&probe->nodes, node);
}

static bool list_all(struct rota_probe *probe, const struct rota_shard_map *map)
{
    for (size_t i = 0; i < map->n_channels; i++)
        for (size_t j = 0; j < map->channels[i].n_replicas; j++)
            if (!list(probe, &map->channels[i], &map->channels[i].replicas[j]))
                return false;
    return true;
}

/* The map no longer has the node. If a probe is in flight, forget the node when the probe ends. */
static void forget(struct rota_probe_node *node)
{
    node->address = node->channel = rota_str("");
    if (node->is_probing)
        return;
    rota_map_remove(&node->probe->by_id, key_of(&node->node));
    free(node);
}

static bool take_map(struct rota_probe *probe, const struct rota_shards_map *from)
{
    struct rota_shard_map *map, *old = probe->map;
    ROTA_VECTOR(struct rota_probe_node *) before = {0};
    if (is_same_map(old, from))
        return true;
    if (rota_shard_map_new(from->id, from->name, from->channels, from->n_channels, &map, NULL))
        return false;
    before.items = probe->nodes.items;
    before.size = probe->nodes.size;
    before.capacity = probe->nodes.capacity;
    probe->nodes.items = NULL;
    probe->nodes.size = probe->nodes.capacity = 0;
    for (size_t i = 0; i < before.size; i++)
        before.items[i]->n_shards = 0;
    bool is_whole = list_all(probe, map);
    probe->map = map;
    for (size_t i = 0; i < before.size; i++)
        if (before.items[i]->n_shards == 0) {
            probe->handler.on_gone(probe->handler.data, before.items[i]);
            forget(before.items[i]);
        }
    rota_vector_deinit(&before);
    rota_shard_map_drop(old);
    probe->handler.on_map(probe->handler.data);
    return is_whole;
}

/* --- one node's probe --- */

static void looked(struct rota_probe_node *node)
{
    look_at(node);
    node->probe->handler.on_node(node->probe->handler.data, node);
}

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    struct rota_probe_node *node = data;
    if (reply->status != ROTA_STATUS_OK)
        return;
    node->health = rota_standard_message_is_serving(reply->message) ? ROTA_PROBE_SERVING
                                                                    : ROTA_PROBE_NOT_SERVING;
}

/* The node's own description of the problem is shorter, if there is one. */
static void fail(struct rota_probe_node *node, struct rota_str text)
{
    struct rota_shards_view view;
    node->n_errors++;
    node->health = ROTA_PROBE_FAILING;
    if (rota_shards_look_at(node->probe->shards, node->node, &view) && view.problem[0])
        text = rota_str(view.problem);
    snprintf(node->problem, sizeof node->problem, "%.*s", ROTA_STR_ARGS(text));
}

static void end(struct rota_probe_node *node)
{
    struct rota_probe *probe = node->probe;
    node->is_probing = false;
    if (node->n_shards > 0)
        looked(node);
    else
        forget(node);
    if (--probe->n_probing == 0)
        probe->handler.on_visited(probe->handler.data);
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct rota_probe_node *node = data;
    node->n_probes++;
    if (result->status == ROTA_STATUS_OK || result->status == ROTA_STATUS_UNIMPLEMENTED) {
        rota_histogram_record(&node->latency, rota_clock_mono() - node->started_at);
        node->problem[0] = '\0';
        if (result->status == ROTA_STATUS_UNIMPLEMENTED)
            node->health = ROTA_PROBE_UNCHECKED;
    } else {
        fail(node, result->text);
    }
    end(node);
}

static void ask(struct rota_probe_node *node)
{
    struct rota_probe *probe = node->probe;
    struct rota_error error;
    rota_time timeout = probe->options->timeout;
    struct rota_shards_request request = {
        .name = {.id = probe->map->collection},
        .mode = ROTA_SHARDS_NAMED,
        .channel = node->channel,
        .method = rota_str("/grpc.health.v1.Health/Check"),
        .timeout = rota_time_add(timeout, MAP_TIMEOUT),
        .try_timeout = timeout,
        .hedge_after = -1,
        .is_pinned = true,
        .preferred = node->node,
        .on_reply = on_reply,
        .on_done = on_done,
        .data = node,
    };
    node->is_probing = true;
    node->started_at = rota_clock_mono();
    probe->n_probing++;
    if (rota_shards_execute(probe->shards, &request, NULL, &error)) {
        node->n_probes++;
        fail(node, rota_str(error.text));
        end(node);
    }
}

/* --- visits --- */

static void on_map(void *data, const struct rota_shards_map *map, struct rota_str text)
{
    struct rota_probe *probe = data;
    if (!map || !take_map(probe, map)) {
        probe->handler.on_failed(probe->handler.data,
                                 map ? rota_str("not enough memory for the map") : text);
        return;
    }
    probe->n_probing++; /* until all are asked, so that the round ends only once */
    for (size_t i = 0; i < probe->nodes.size; i++) {
        struct rota_probe_node *node = probe->nodes.items[i];
        if (node->is_probing)
            continue;
        looked(node);
        if (rota_probe_circuit(node) != ROTA_CIRCUIT_OPEN)
            ask(node);
    }
    if (--probe->n_probing == 0)
        probe->handler.on_visited(probe->handler.data);
}

void rota_probe_visit(struct rota_probe *probe)
{
    struct rota_error error;
    struct rota_shards_query query = {
        .name = {.collection = rota_str(probe->options->collection)},
        .timeout = probe->options->timeout,
        .on_map = on_map,
        .data = probe,
    };
    if (rota_shards_look(probe->shards, &query, &error))
        probe->handler.on_failed(probe->handler.data, rota_str(error.text));
}

/* --- life --- */

enum rota_code rota_probe_open(struct uv_loop_s *loop,
                               const struct rota_collection_options *options,
                               const struct rota_collection_nodes *directories,
                               const struct rota_probe_handler *handler, struct rota_probe *probe,
                               struct rota_error *error)
{
    struct rota_shards_options with = {
        .directories = directories->items,
        .n_directories = directories->size,
        .tls = directories->tls,
        .insecure = options->insecure,
        .has_no_hedges = true,
        .connections = 1,
        .health_timeout = options->timeout,
        .blacklist = -1, /* a pinned try uses no other node */
    };
    probe->options = options;
    probe->handler = *handler;
    rota_map_init(&probe->by_id, (uint64_t)rota_clock_mono());
    return rota_shards_open(loop, &with, &probe->shards, error);
}

void rota_probe_close(struct rota_probe *probe)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    rota_shards_close(probe->shards);
    while ((entry = rota_map_next(&probe->by_id, &place)))
        free(entry->value);
    rota_map_deinit(&probe->by_id);
    rota_vector_deinit(&probe->nodes);
    rota_shard_map_drop(probe->map);
}
