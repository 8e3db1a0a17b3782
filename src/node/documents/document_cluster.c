/* This node, the others, and their events. */
#include "node/documents/document.h"

#include "core/place/ring_points.h"
#include "io/clock.h"
#include "node/documents/node_report.h"
#include "node/documents/peers.h"
#include "node/node_inside.h"

enum { POINTS_OF_NODE_MAX = 100, POINTS_MAX = 10000 }; /* of the ring that are shown */

/* --- nodes --- */

static void add_ms(struct rota_json *json, const char *key, rota_time time)
{
    rota_json_add_int(json, key, time / ROTA_MSEC);
}

void rota_document_cluster_write_self(struct rota_node *node, struct rota_json *json)
{
    struct rota_arena arena = {0};
    struct rota_nodes_report report;
    rota_node_report_make(node, false, &arena, &report);
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(rota_node_naming_name(node)));
    rota_json_add_string(json, "address", rota_str(node->advertise));
    rota_json_add_string(json, "state", report.state);
    rota_json_add_string(json, "zone", rota_str(node->settings->zone));
    rota_json_add_string(json, "roles", rota_str(node->settings->roles));
    rota_node_report_write(&report, json);
    rota_json_end_object(json);
    rota_arena_deinit(&arena);
}

/* --- the cluster --- */

/* An operator's decision holds for a dead node, too: it may return. */
static struct rota_str state_of(const struct rota_peer *peer, struct rota_str own)
{
    if (peer->state == ROTA_STORE_MEMBER_EVICTED)
        return rota_str("evicted");
    if (!rota_peer_is_alive(peer))
        return rota_str("dead");
    if (!peer->is_self && !peer->has_answered)
        return rota_str("unresponsive");
    return own.size > 0 ? own : rota_str("serving");
}

static const struct rota_member *find_member(const struct rota_member *members, size_t n,
                                             const char *address)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(members[i].host.address, rota_str(address)))
            return &members[i];
    return NULL;
}

void rota_document_cluster_write_node(struct rota_node *node, const struct rota_peer *peer,
                                      struct rota_json *json)
{
    size_t n;
    const struct rota_member *members = rota_members_list(node->members, &n);
    const struct rota_member *member = find_member(members, n, peer->address);
    struct rota_arena arena = {0};
    struct rota_nodes_report own;
    const struct rota_nodes_report *report = rota_node_report_of(node, peer, &arena, &own);
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
    rota_node_report_write(report, json);
    rota_json_add_string(json, "state", state_of(peer, report->state));
    rota_json_end_object(json);
    rota_arena_deinit(&arena);
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
    rota_json_add_object(json, "ring");
    rota_json_add_array(json, "points");
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
    rota_json_add_array(json, "nodes");
    for (size_t i = 0; i < rota_peers_n(node->peers); i++)
        rota_document_cluster_write_node(node, rota_peers_at(node->peers, i), json);
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
