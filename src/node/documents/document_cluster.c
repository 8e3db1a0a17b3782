/* This node, the others, and their events. */
#include "node/documents/document.h"
#include "node/node_directory.h"

#include "core/place/ring_points.h"
#include "io/clock.h"
#include "node/documents/peers.h"
#include "node/node_inside.h"
#include "wire/text/json_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { POINTS_OF_NODE_MAX = 100, POINTS_MAX = 10000 }; /* of the ring that are shown */

/* --- nodes --- */

static void add_ms(struct rota_json *json, const char *key, rota_time time)
{
    rota_json_add_int(json, key, time / ROTA_MSEC);
}

static void add_usage(struct rota_json *json)
{
    struct rusage usage;
    size_t memory;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        rota_json_add_int(json, "cpu_ms",
                          (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                              (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
    }
    if (uv_resident_set_memory(&memory) == 0) {
        rota_json_add_uint(json, "memory", memory);
    }
}

void rota_document_cluster_write_self(struct rota_node *node, struct rota_json *json)
{
    struct rota_server_counts counts = rota_server_counts(node->server);
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(rota_node_naming_name(node)));
    rota_json_add_string(json, "address", rota_str(node->advertise));
    rota_json_add_string(json, "state", rota_str(rota_node_fsm_state_name(node->fsm.state)));
    rota_json_add_string(json, "zone", rota_str(node->settings->zone));
    rota_json_add_string(json, "roles", rota_str(node->settings->roles));
    rota_json_add_string(json, "http", rota_str(rota_http_address(node->http)));
    add_ms(json, "started_ms", node->started_at);
    add_usage(json);
    rota_json_add_uint(json, "calls", counts.calls);
    rota_json_add_uint(json, "calls_total", counts.calls_total);
    rota_json_add_uint(json, "shards", node->n_shards);
    rota_json_add_uint(json, "collections", rota_node_directory_n_collections(node->directory));
    rota_json_add_uint(json, "watchers", rota_node_directory_n_watchers(node->directory));
    for (size_t i = 0; i < node->n_roles; i++)
        node->roles[i].role->show(node->roles[i].data, json);
    rota_json_end_object(json);
}

void rota_document_cluster_write_part(struct rota_node *node, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "nodes");
    rota_json_begin_array(json);
    rota_document_cluster_write_self(node, json);
    rota_json_end_array(json);
    rota_json_end_object(json);
}

/* --- the cluster --- */

/* The fields from the list of members; the node itself reports the rest. */
static const char *const OF_MEMBERS[] = {"name", "address", "zone", "roles", "state"};

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
    rota_json_scan_init(&scan, part, room);
    rota_json_scan_object(&scan);
    if (!rota_json_scan_key(&scan, &key) || !rota_str_is_equal(key, rota_str("nodes")))
        scan.failed = true;
    rota_json_scan_array(&scan);
    if (rota_json_scan_item(&scan))
        rota_json_scan_object(&scan);
    while (rota_json_scan_key(&scan, &key)) {
        if (rota_str_is_equal(key, rota_str("state"))) {
            struct rota_str text = rota_json_scan_string(&scan);
            snprintf(state, 32, "%.*s", ROTA_STR_ARGS(text));
            continue;
        }
        struct rota_str value = rota_json_scan_skip(&scan);
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
        return "unresponsive";
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
        rota_document_cluster_write_part(node, &own_json);
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(rota_peer_name(peer)));
    rota_json_add_string(json, "address", rota_str(peer->address));
    rota_json_add_string(json, "zone", rota_str(peer->zone));
    rota_json_add_string(json, "roles", rota_str(peer->roles));
    rota_json_add_double(json, "weight", (double)peer->weight / ROTA_WEIGHT_ONE);
    rota_json_add_bool(json, "is_alive", rota_peer_is_alive(peer));
    rota_json_add_bool(json, "is_draining",
                       peer->state == ROTA_STORE_MEMBER_DRAINING ||
                           (member && member->host.is_draining));
    rota_json_add_bool(json, "is_placed", member && member->is_placed);
    add_ms(json, "heard_ms", rota_clock_wall() - (rota_clock_boot() - peer->beat_at));
    add_part(rota_buffer_str(peer->is_self ? &own : &peer->parts[ROTA_TOPIC_CLUSTER]), state, json);
    rota_json_add_string(json, "state", rota_str(state_of(peer, state)));
    rota_json_end_object(json);
    rota_buffer_deinit(&own);
}

/* Points of the ring, with indexes into the list of nodes; if there are many, only every n-th. */
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

void rota_document_cluster_write(struct rota_node *node, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "node");
    rota_document_cluster_write_self(node, json);
    add_ms(json, "now_ms", rota_clock_wall());
    rota_json_key(json, "nodes");
    rota_json_begin_array(json);
    for (size_t i = 0; i < rota_peers_n(node->peers); i++)
        add_peer(node, rota_peers_at(node->peers, i), json);
    rota_json_end_array(json);
    add_ring(node, json);
    rota_json_end_object(json);
}

/* --- events --- */

void rota_document_cluster_write_event(const struct rota_node *node, const struct rota_event *event,
                                       struct rota_json *json)
{
    const char *by = event->node[0] ? event->node : node->advertise;
    struct rota_str subject = rota_str(event->subject);
    struct rota_str name = rota_node_book_name(&node->book, subject);
    rota_json_begin_object(json);
    rota_json_add_uint(json, "number", event->number);
    add_ms(json, "at_ms", event->at);
    rota_json_add_text(json, "kind", rota_event_kind_name(event->kind));
    rota_json_add_string(json, "subject", subject);
    if (!rota_str_is_equal(name, subject))
        rota_json_add_string(json, "subject_name", name);
    rota_json_add_text(json, "text", event->text);
    rota_json_add_text(json, "node", by);
    rota_json_add_string(json, "node_name", rota_node_book_name(&node->book, rota_str(by)));
    rota_json_end_object(json);
}
