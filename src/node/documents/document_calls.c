/* How the nodes' calls to the replicas of each collection go. */
#include "node/documents/document.h"

#include "node/documents/node_report.h"
#include "node/documents/peers.h"
#include "node/node_inside.h"
#include "wire/message/message_json.h"

#include <math.h>

static double upper_ms(uint64_t bucket)
{
    return (double)(UINT64_C(2) << bucket) / 1000;
}

/* The latency that a part of the answers did not exceed, as if those of a bucket were
 * distributed evenly over it. */
static double latency_quantile(const struct rota_message_list *latencies, uint64_t n, double part)
{
    const struct rota_nodes_latency *items = latencies->items;
    double rank = part * (double)n, seen = 0;
    for (size_t i = 0; i < latencies->n; i++) {
        double count = (double)items[i].n, upper = upper_ms(items[i].bucket);
        double lower = items[i].bucket ? upper_ms(items[i].bucket - 1) : 0;
        if (seen + count >= rank)
            return lower + (upper - lower) * (rank - seen) / count;
        seen += count;
    }
    return 0;
}

static void add_latency(const struct rota_message_list *latencies, struct rota_json *json)
{
    static const struct {
        const char *name;
        double part;
    } QUANTILES[] = {{"p50_ms", 0.5}, {"p90_ms", 0.9}, {"p99_ms", 0.99}};
    const struct rota_nodes_latency *items = latencies->items;
    uint64_t n = 0;
    for (size_t i = 0; i < latencies->n; i++)
        n += items[i].n;
    rota_json_add_object(json, "latency");
    for (size_t i = 0; i < sizeof QUANTILES / sizeof QUANTILES[0]; i++) {
        rota_json_key(json, QUANTILES[i].name);
        rota_json_double(json,
                         round(1000 * latency_quantile(latencies, n, QUANTILES[i].part)) / 1000);
    }
    rota_json_add_array(json, "buckets");
    for (size_t i = 0; i < latencies->n; i++) {
        rota_json_begin_array(json);
        rota_json_double(json, upper_ms(items[i].bucket));
        rota_json_uint(json, items[i].n);
        rota_json_end_array(json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}

static void add_calls(const struct rota_nodes_report *report, const char *address, const char *name,
                      struct rota_json *json)
{
    const struct rota_nodes_calls *calls = report->calls.items;
    for (size_t i = 0; i < report->calls.n; i++) {
        if (!calls[i].replica)
            continue;
        rota_json_begin_object(json);
        rota_json_add_text(json, "node", address);
        rota_json_add_text(json, "node_name", name);
        rota_message_json_write_members(&ROTA_NODES_REPLICA, calls[i].replica, json);
        add_latency(&calls[i].latencies, json);
        rota_json_end_object(json);
    }
}

/* One that did not answer may still be asked by others; what it reported earlier is not shown. */
void rota_document_calls_write(struct rota_node *node, struct rota_json *json)
{
    struct rota_arena arena = {0};
    struct rota_nodes_report own;
    rota_node_report_make(node, true, &arena, &own);
    rota_json_begin_object(json);
    rota_json_add_array(json, "calls");
    add_calls(&own, node->advertise, rota_node_naming_name(node), json);
    for (size_t i = 0; i < rota_peers_n(node->peers); i++) {
        const struct rota_peer *peer = rota_peers_at(node->peers, i);
        if (!peer->is_self && peer->has_answered)
            add_calls(&peer->report, peer->address, rota_peer_name(peer), json);
    }
    rota_json_end_array(json);
    rota_json_add_array(json, "missing");
    for (size_t i = 0; i < rota_peers_n(node->peers); i++) {
        const struct rota_peer *peer = rota_peers_at(node->peers, i);
        if (!peer->is_self && !peer->has_answered && rota_peer_is_alive(peer))
            rota_json_text(json, peer->address);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
    rota_arena_deinit(&arena);
}
