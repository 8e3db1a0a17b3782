/* This node, the others, and their events. */
#include "node/api/api.h"

#include "core/place/ring_points.h"
#include "io/clock.h"
#include "node/peers.h"
#include "wire/message/message_json.h"
#include "wire/message/nodes_message.h"
#include "wire/text/json_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { POINTS_OF_NODE_MAX = 100, POINTS_MAX = 10000 }; /* of the ring that are shown */

void rota_api_health(struct rota_api_call *call)
{
    rota_api_answer(call, 200, "text/plain", rota_str("ok\n"));
}

void rota_api_ready(struct rota_api_call *call)
{
    enum rota_node_state state = rota_node_state(call->node);
    char text[64];
    snprintf(text, sizeof text, "%s\n", rota_node_state_name(state));
    rota_api_answer(call, state == ROTA_NODE_SERVING ? 200 : 503, "text/plain", rota_str(text));
}

/* --- nodes --- */

static void add_ms(struct rota_json *json, const char *key, rota_time time)
{
    rota_json_key(json, key);
    rota_json_int(json, time / ROTA_MSEC);
}

static void add_usage(struct rota_json *json)
{
    struct rusage usage;
    size_t memory;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        rota_json_key(json, "cpu_ms");
        rota_json_int(json, (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                                (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
    }
    if (uv_resident_set_memory(&memory) == 0) {
        rota_json_key(json, "memory");
        rota_json_uint(json, memory);
    }
}

static void add_self(struct rota_node *node, struct rota_json *json)
{
    struct rota_server_counts counts = rota_server_counts(node->server);
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(node->advertise));
    rota_json_add_string(json, "state", rota_str(rota_node_state_name(node->fsm.state)));
    rota_json_add_string(json, "zone", rota_str(node->settings->zone));
    rota_json_add_string(json, "roles", rota_str(node->settings->roles));
    rota_json_add_string(json, "http", rota_str(rota_http_address(node->http)));
    add_ms(json, "started_ms", node->started_at);
    add_usage(json);
    rota_json_key(json, "calls");
    rota_json_uint(json, counts.calls);
    rota_json_key(json, "calls_total");
    rota_json_uint(json, counts.calls_total);
    rota_json_key(json, "shards");
    rota_json_uint(json, node->n_shards);
    for (size_t i = 0; i < node->n_roles; i++)
        node->roles[i].role->show(node->roles[i].data, json);
    rota_json_end_object(json);
}

void rota_api_node(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    add_self(call->node, &json);
    rota_api_answer_json(call, 200, &buffer);
}

void rota_api_write_node_part(struct rota_node *node, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "nodes");
    rota_json_begin_array(json);
    add_self(node, json);
    rota_json_end_array(json);
    rota_json_end_object(json);
}

/* --- the cluster --- */

/* The fields from the list of members; the node itself reports the rest. */
static const char *const OF_MEMBERS[] = {"name", "zone", "roles", "state"};

static bool is_of_members(struct rota_str key)
{
    for (size_t i = 0; i < sizeof OF_MEMBERS / sizeof OF_MEMBERS[0]; i++)
        if (rota_str_is_equal(key, rota_str(OF_MEMBERS[i])))
            return true;
    return false;
}

/* Append a node's own report, `part`; its state goes to `state`. */
static void add_part(struct rota_str part, char state[32], struct rota_json *json)
{
    char *room = malloc(part.size + 1);
    struct rota_scan scan;
    struct rota_str key;
    if (!room)
        return;
    rota_scan_init(&scan, part, room);
    rota_scan_object(&scan);
    if (!rota_scan_key(&scan, &key) || !rota_str_is_equal(key, rota_str("nodes")))
        scan.failed = true;
    rota_scan_array(&scan);
    if (rota_scan_item(&scan))
        rota_scan_object(&scan);
    while (rota_scan_key(&scan, &key)) {
        if (rota_str_is_equal(key, rota_str("state"))) {
            struct rota_str text = rota_scan_string(&scan);
            snprintf(state, 32, "%.*s", ROTA_STR_ARGS(text));
            continue;
        }
        struct rota_str value = rota_scan_skip(&scan);
        if (scan.failed || is_of_members(key))
            continue;
        rota_json_key_str(json, key);
        rota_json_raw(json, value);
    }
    free(room);
}

/* An operator's decision holds for a dead node, too: it may return. */
static const char *state_of(const struct rota_peer *peer, const char *own)
{
    if (peer->state == ROTA_STORE_MEMBER_EVICTED)
        return "evicted";
    if (!rota_peer_is_alive(peer))
        return "dead";
    if (!peer->is_self && !peer->has_answered)
        return "silent";
    return own;
}

static const struct rota_member *find_member(const struct rota_member *members, size_t n,
                                             const char *address)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(members[i].host.address, rota_str(address)))
            return &members[i];
    return NULL;
}

static void add_peer(struct rota_node *node, const struct rota_peer *peer, struct rota_json *json)
{
    size_t n;
    const struct rota_member *members = rota_members_list(node->members, &n);
    const struct rota_member *member = find_member(members, n, peer->address);
    struct rota_buffer own = {0};
    struct rota_json own_json = {.buffer = &own};
    char state[32] = "serving";
    if (peer->is_self)
        rota_api_write_node_part(node, &own_json);
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(peer->address));
    rota_json_add_string(json, "zone", rota_str(peer->zone));
    rota_json_add_string(json, "roles", rota_str(peer->roles));
    rota_json_key(json, "weight");
    rota_json_double(json, (double)peer->weight / ROTA_WEIGHT_ONE);
    rota_json_key(json, "is_alive");
    rota_json_bool(json, rota_peer_is_alive(peer));
    rota_json_key(json, "is_draining");
    rota_json_bool(json, peer->state == ROTA_STORE_MEMBER_DRAINING ||
                             (member && member->host.is_draining));
    rota_json_key(json, "is_placed");
    rota_json_bool(json, member && member->is_placed);
    add_ms(json, "heard_ms", rota_clock_wall() - (rota_clock_boot() - peer->beat_at));
    add_part(rota_buffer_str(peer->is_self ? &own : &peer->parts[ROTA_TOPIC_CLUSTER]), state, json);
    rota_json_add_string(json, "state", rota_str(state_of(peer, state)));
    rota_json_end_object(json);
    rota_buffer_deinit(&own);
}

/* Points of the ring with places in the list of nodes; when there are many, every so many-th. */
static void add_ring(struct rota_node *node, struct rota_json *json)
{
    struct rota_ring *ring = rota_members_ring(node->members);
    const struct rota_ring_point *points = rota_ring_points(ring);
    size_t n = rota_ring_n_points(ring), n_nodes = rota_ring_size(ring);
    size_t most =
        n_nodes * POINTS_OF_NODE_MAX < POINTS_MAX ? n_nodes * POINTS_OF_NODE_MAX : POINTS_MAX;
    size_t step = n > most ? (n + most - 1) / most : 1;
    rota_json_key(json, "ring");
    rota_json_begin_object(json);
    rota_json_key(json, "points");
    rota_json_begin_array(json);
    for (size_t i = 0; i < n; i += step) {
        size_t place = rota_peers_place(node->peers, rota_ring_host(ring, points[i].host).address);
        if (place == SIZE_MAX)
            continue;
        rota_json_begin_array(json);
        rota_json_uint(json, points[i].hash);
        rota_json_uint(json, place);
        rota_json_end_array(json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
    rota_ring_unref(ring);
}

void rota_api_write_cluster(struct rota_node *node, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "node");
    add_self(node, json);
    add_ms(json, "now_ms", rota_clock_wall());
    rota_json_key(json, "nodes");
    rota_json_begin_array(json);
    for (size_t i = 0; i < rota_peers_n(node->peers); i++)
        add_peer(node, rota_peers_at(node->peers, i), json);
    rota_json_end_array(json);
    add_ring(node, json);
    rota_json_end_object(json);
}

void rota_api_cluster(struct rota_api_call *call)
{
    rota_api_document(call, "cluster");
}

/* --- changes by operators --- */

/* {"is_dry_run": true}, or nothing. */
static void change_node(struct rota_api_call *call, const char *method)
{
    struct rota_nodes_change request = {0};
    struct rota_error error;
    struct rota_str body = rota_http_body(call->request);
    if (body.size > 0 &&
        rota_message_read_json(&ROTA_NODES_CHANGE, body, &request, &call->arena, &error)) {
        rota_api_refuse(call, 400, error.text);
        return;
    }
    if (request.node.size > 0 && !rota_str_is_equal(request.node, call->names[0])) {
        rota_api_refuse(call, 400, "the body names a different node than the path");
        return;
    }
    request.node = call->names[0];
    rota_api_ask(call, method, &ROTA_NODES_CHANGE, &request, &ROTA_NODES_CHANGED);
}

void rota_api_node_drain(struct rota_api_call *call)
{
    change_node(call, "/rota.v1.Nodes/Drain");
}

void rota_api_node_undrain(struct rota_api_call *call)
{
    change_node(call, "/rota.v1.Nodes/Undrain");
}

void rota_api_node_evict(struct rota_api_call *call)
{
    change_node(call, "/rota.v1.Nodes/Evict");
}

/* --- events --- */

void rota_api_write_event(const struct rota_node *node, const struct rota_event *event,
                          struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "number");
    rota_json_uint(json, event->number);
    add_ms(json, "at_ms", event->at);
    rota_json_key(json, "kind");
    rota_json_text(json, rota_event_kind_name(event->kind));
    rota_json_key(json, "subject");
    rota_json_text(json, event->subject);
    rota_json_key(json, "text");
    rota_json_text(json, event->text);
    rota_json_key(json, "node");
    rota_json_text(json, event->node[0] ? event->node : node->advertise);
    rota_json_end_object(json);
}

/* The request, while the other nodes are asked. */
struct events_wait {
    struct rota_api_call *call;
    uint64_t after;
    enum rota_event_kind kind;
    bool is_of_kind;
};

static int compare_events(const void *a, const void *b)
{
    const struct rota_event *one = *(const struct rota_event *const *)a;
    const struct rota_event *other = *(const struct rota_event *const *)b;
    if (one->at != other->at)
        return one->at < other->at ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* A page has events in the order in which they became known, sorted by when they happened. */
static void on_events_seen(void *data, const struct rota_error *error, struct rota_str document)
{
    enum { AT_ONCE = 1000 };
    const struct rota_event *page[AT_ONCE], *event;
    struct events_wait *wait = data;
    struct rota_api_call *call = wait->call;
    const struct rota_events *events = &call->node->events;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    uint64_t after = wait->after;
    size_t n = 0;
    (void)error;
    (void)document;
    for (size_t i = 0; n < AT_ONCE && i < ROTA_EVENTS_KEPT; i++) {
        if (!(event = rota_events_next(events, after)))
            break;
        after = event->number;
        if (!wait->is_of_kind || event->kind == wait->kind)
            page[n++] = event;
    }
    qsort(page, n, sizeof page[0], compare_events);
    rota_json_begin_object(&json);
    rota_json_key(&json, "events");
    rota_json_begin_array(&json);
    for (size_t i = 0; i < n; i++)
        rota_api_write_event(call->node, page[i], &json);
    rota_json_end_array(&json);
    rota_json_key(&json, "after");
    rota_json_uint(&json, after);
    rota_json_end_object(&json);
    rota_api_answer_json(call, 200, &buffer);
}

void rota_api_events(struct rota_api_call *call)
{
    struct rota_str kind;
    struct events_wait *wait = rota_arena_take(&call->arena, sizeof *wait);
    if (!wait) {
        rota_api_refuse(call, 503, "not enough memory for the response");
        return;
    }
    *wait = (struct events_wait){.call = call};
    if (!rota_api_number(call, "after", UINT64_MAX, 0, &wait->after))
        return;
    if (rota_http_target_find(call->target, "kind", &kind)) {
        wait->is_of_kind = true;
        if (!rota_event_kind_parse(kind, &wait->kind)) {
            rota_api_refuse(call, 400, "kind must be one of " ROTA_EVENT_KIND_NAMES);
            return;
        }
    }
    rota_topic_ask(call->node, &rota_topics[ROTA_TOPIC_CLUSTER], on_events_seen, wait);
}
