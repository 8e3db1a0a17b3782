/* How this node's calls to the replicas of each collection go. */
#include "node/documents/document.h"

#include "node/node_inside.h"
#include "node/role/role_cache.h"

#include <math.h>

static double upper_ms(size_t bucket)
{
    return (double)(UINT64_C(2) << bucket) / 1000;
}

/* The latency that a part of the answers did not exceed, as if those of a bucket were
 * distributed evenly over it. */
static double latency_quantile(const uint64_t *counts, uint64_t n, double part)
{
    double rank = part * (double)n, seen = 0;
    for (size_t i = 0; i < ROTA_BALANCER_LATENCIES; i++) {
        double count = (double)counts[i], lower = i ? upper_ms(i - 1) : 0;
        if (count > 0 && seen + count >= rank)
            return lower + (upper_ms(i) - lower) * (rank - seen) / count;
        seen += count;
    }
    return 0;
}

static void add_latency(const struct rota_get_view *calls, struct rota_json *json)
{
    static const struct {
        const char *name;
        double part;
    } QUANTILES[] = {{"p50_ms", 0.5}, {"p90_ms", 0.9}, {"p99_ms", 0.99}};
    uint64_t n = 0;
    for (size_t i = 0; i < ROTA_BALANCER_LATENCIES; i++)
        n += calls->latencies[i];
    rota_json_key(json, "latency");
    rota_json_begin_object(json);
    for (size_t i = 0; i < sizeof QUANTILES / sizeof QUANTILES[0]; i++) {
        rota_json_key(json, QUANTILES[i].name);
        rota_json_double(
            json, round(1000 * latency_quantile(calls->latencies, n, QUANTILES[i].part)) / 1000);
    }
    rota_json_key(json, "buckets");
    rota_json_begin_array(json);
    for (size_t i = 0; i < ROTA_BALANCER_LATENCIES; i++) {
        if (calls->latencies[i] == 0)
            continue;
        rota_json_begin_array(json);
        rota_json_double(json, upper_ms(i));
        rota_json_uint(json, calls->latencies[i]);
        rota_json_end_array(json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}

static void add_counts(const struct rota_get_view *view, struct rota_json *json)
{
    rota_json_add_uint(json, "n_calls", view->n_calls);
    rota_json_add_uint(json, "n_failed", view->n_failed);
    rota_json_add_uint(json, "n_cancelled", view->n_cancelled);
    rota_json_add_uint(json, "n_hedged", view->n_hedges);
    rota_json_add_uint(json, "n_hedges_won", view->n_hedges_won);
    rota_json_add_uint(json, "in_flight", view->n_running);
    rota_json_add_int(json, "score", view->score);
    rota_json_add_text(json, "circuit", rota_circuit_name(view->circuit));
}

static void add_replica(const struct rota_node *node, const char *collection,
                        const struct rota_get_view *view, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_add_text(json, "collection", collection);
    rota_json_add_text(json, "node", node->advertise);
    rota_json_add_string(json, "node_name", rota_str(rota_node_naming_name(node)));
    rota_json_add_string(json, "replica", view->address);
    rota_json_add_string(json, "zone", view->dc);
    rota_json_add_uint(json, "n_shards", view->n_shards);
    rota_json_add_bool(json, "is_connected", view->is_connected);
    add_counts(view, json);
    add_latency(view, json);
    rota_json_end_object(json);
}

void rota_document_calls_write(struct rota_node *node, struct rota_json *json)
{
    const struct rota_node_cache *cache;
    const struct rota_get *get;
    struct rota_get_view view;
    rota_json_begin_object(json);
    rota_json_key(json, "calls");
    rota_json_begin_array(json);
    for (size_t i = 0; (cache = rota_role_cache_at(node, i, &get)); i++)
        for (size_t place = 0; rota_get_next_host(get, &place, &view);)
            if (view.n_shards > 0 || view.n_calls > 0) /* others are on standby */
                add_replica(node, cache->name, &view, json);
    rota_json_end_array(json);
    rota_json_end_object(json);
}
