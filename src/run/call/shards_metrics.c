/* Metrics in Prometheus' text format. The machines count most of it anyway; it is carried over
 * when read. */
#include "run/call/shards_inside.h"

#include "io/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A counter, and the number of a machine's that it has shown so far. */
struct carried {
    struct rota_counter *counter;
    uint64_t shown;
};

struct rota_shards_series {
    struct carried reads[ROTA_SHARD_METHODS][ROTA_SHARD_SERVED];
    struct carried flights, fenced, evicted, claims, changes;
    struct rota_histogram *update;
    struct rota_gauge *maps, *runs, *connections;
    struct carried first, retries, hedges, hedges_won, refreshes, unbudgeted;
    struct carried preferred[3];
    struct carried ended[ROTA_FAILURES];
};

struct rota_shards_node_series {
    struct rota_gauge *in_flight, *work, *score, *circuit, *available, *connections;
    struct carried ejections, drops;
    struct carried outcomes[ROTA_OUTCOMES];
};

static struct rota_counter *labelled_counter(struct rota_metrics *metrics, const char *name,
                                             const char *help, const char *label, const char *value)
{
    struct rota_label pair = {label, rota_str(value ? value : "")};
    return rota_metrics_counter(metrics, name, help, &pair, label != NULL);
}

static void make_reads(struct rota_shards_series *series, struct rota_metrics *metrics)
{
    static const char *const methods[] = {"get_shard", "get_leaders"};
    static const char *const served[] = {"hit", "miss", "forced"};
    for (size_t i = 0; i < ROTA_SHARD_METHODS; i++)
        for (size_t j = 0; j < ROTA_SHARD_SERVED; j++) {
            struct rota_label labels[] = {{"method", rota_str(methods[i])},
                                          {"served", rota_str(served[j])}};
            series->reads[i][j].counter =
                rota_metrics_counter(metrics, "rota_shard_cache_reads_total",
                                     "Reads of shard maps, by how they were served.", labels, 2);
        }
}

static void make_cache(struct rota_shards_series *s, struct rota_metrics *m)
{
    make_reads(s, m);
    s->flights.counter = labelled_counter(m, "rota_shard_cache_questions_total",
                                          "Requests to the directory.", NULL, NULL);
    s->fenced.counter = labelled_counter(m, "rota_shard_cache_fenced_total",
                                         "Replies that arrived too late to be used.", NULL, NULL);
    s->evicted.counter = labelled_counter(
        m, "rota_shard_cache_evicted_total",
        "Maps evicted because they were not read or for lack of room.", NULL, NULL);
    s->claims.counter = labelled_counter(m, "rota_shard_cache_claims_total",
                                         "Claims learned from a node's rejection.", NULL, NULL);
    s->changes.counter = labelled_counter(m, "rota_shard_cache_changes_total",
                                          "Changed maps pushed by the directory.", NULL, NULL);
    s->update =
        rota_metrics_histogram(m, "rota_shard_cache_update_seconds",
                               "Time from a request to the directory until its map is in use.",
                               ROTA_SEC / ROTA_USEC, NULL, 0);
    s->maps =
        rota_metrics_gauge(m, "rota_shard_cache_maps", "Collections with a cached map.", NULL, 0);
}

static void make_calls(struct rota_shards_series *s, struct rota_metrics *m)
{
    static const char *const preferred[] = {"hit", "miss", "unavailable"};
    static const char tries[] = "rota_call_tries_total", tries_help[] = "Tries, by kind.";
    s->first.counter = labelled_counter(m, tries, tries_help, "kind", "first");
    s->retries.counter = labelled_counter(m, tries, tries_help, "kind", "retry");
    s->hedges.counter = labelled_counter(m, tries, tries_help, "kind", "hedge");
    s->hedges_won.counter = labelled_counter(m, "rota_call_hedges_won_total",
                                             "Hedges that responded first.", NULL, NULL);
    s->refreshes.counter =
        labelled_counter(m, "rota_call_refreshes_total",
                         "Times a call looked up its leaders bypassing the cache.", NULL, NULL);
    s->unbudgeted.counter =
        labelled_counter(m, "rota_call_unbudgeted_total",
                         "Retries and hedges rejected by the retry budget.", NULL, NULL);
    for (size_t i = 0; i < 3; i++)
        s->preferred[i].counter = labelled_counter(
            m, "rota_call_preferred_total", "Calls with a preferred node, by whether it was used.",
            "status", preferred[i]);
    for (size_t i = 0; i < ROTA_FAILURES; i++)
        s->ended[i].counter =
            labelled_counter(m, "rota_call_ended_total", "Completed calls, by failure.", "failure",
                             rota_failure_name((enum rota_failure)i));
    s->runs = rota_metrics_gauge(m, "rota_shards_runs", "Executions in progress.", NULL, 0);
    s->connections =
        rota_metrics_gauge(m, "rota_pool_connections_all", "Connections in all pools.", NULL, 0);
}

bool rota_shards_metrics_init(struct rota_shards *shards)
{
    shards->metrics = shards->options.metrics;
    if (!shards->metrics) {
        shards->metrics = rota_metrics_new(rota_random_next(&shards->random));
        shards->owns_metrics = true;
    }
    shards->series = calloc(1, sizeof *shards->series);
    if (!shards->metrics || !shards->series)
        return false;
    make_cache(shards->series, shards->metrics);
    make_calls(shards->series, shards->metrics);
    return true;
}

void rota_shards_metrics_deinit(struct rota_shards *shards)
{
    if (shards->owns_metrics)
        rota_metrics_free(shards->metrics);
    free(shards->series);
}

/* --- nodes --- */

void rota_shards_metrics_measure_node(struct rota_shards_node *node)
{
    struct rota_metrics *m = node->shards->metrics;
    struct rota_shards_node_series *s = calloc(1, sizeof *s);
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, node->id);
    struct rota_label labels[2] = {{"node", rota_str(text)}};
    node->latency = rota_metrics_histogram(m, "rota_node_latency_seconds",
                                           "Latency of successful tries.", ROTA_SEC, labels, 1);
    node->series = s;
    if (!s)
        return;
    s->in_flight = rota_metrics_gauge(m, "rota_balancer_in_flight", "Tries in flight.", labels, 1);
    s->work = rota_metrics_gauge(m, "rota_balancer_work", "Work in flight.", labels, 1);
    s->score = rota_metrics_gauge(m, "rota_balancer_score",
                                  "Score of the node; the policy picks the lowest.", labels, 1);
    s->circuit = rota_metrics_gauge(
        m, "rota_balancer_circuit",
        "0: closed (in use), 1: open (ejected), 2: half-open (on trial).", labels, 1);
    s->available = rota_metrics_gauge(m, "rota_balancer_available",
                                      "1: healthy, 0: health checks failed.", labels, 1);
    s->connections =
        rota_metrics_gauge(m, "rota_pool_connections", "Connections in its pool.", labels, 1);
    s->ejections.counter = rota_metrics_counter(m, "rota_balancer_ejections_total",
                                                "Times its circuit opened.", labels, 1);
    s->drops.counter = rota_metrics_counter(
        m, "rota_health_dropped_total", "Times health checks marked it as unhealthy.", labels, 1);
    for (size_t i = 0; i < ROTA_OUTCOMES; i++) {
        labels[1] =
            (struct rota_label){"outcome", rota_str(rota_outcome_name((enum rota_outcome)i))};
        s->outcomes[i].counter = rota_metrics_counter(m, "rota_node_tries_total",
                                                      "Completed tries, by outcome.", labels, 2);
    }
}

/* Add what a machine has counted since the last time; one that was reset counts from 0 again. */
static void carry_count(struct carried *carried, uint64_t count)
{
    if (count < carried->shown)
        carried->shown = 0;
    rota_counter_add(carried->counter, count - carried->shown);
    carried->shown = count;
}

static void look_at_node(const struct rota_shards_node *node, rota_time now)
{
    struct rota_shards_node_series *s = node->series;
    struct rota_balancer_view view;
    if (!s)
        return;
    rota_gauge_set(s->connections, (int64_t)rota_shards_nodes_n_connections(node));
    carry_count(&s->drops, node->n_drops);
    if (!rota_balancer_look(node->shards->balancer, now, (uint64_t)node->id, &view))
        return;
    rota_gauge_set(s->in_flight, (int64_t)view.n_tries);
    rota_gauge_set(s->work, view.work);
    rota_gauge_set(s->score, view.score);
    rota_gauge_set(s->circuit, (int64_t)view.circuit);
    rota_gauge_set(s->available, view.is_available);
    carry_count(&s->ejections, view.n_ejections);
    for (size_t i = 0; i < ROTA_OUTCOMES; i++)
        carry_count(&s->outcomes[i], view.outcomes[i]);
}

/* --- all of it --- */

static void look_at_cache(struct rota_shards *shards)
{
    const struct rota_shard_stats *stats = rota_shard_cache_stats(shards->cache);
    struct rota_shards_series *s = shards->series;
    for (size_t i = 0; i < ROTA_SHARD_METHODS; i++)
        for (size_t j = 0; j < ROTA_SHARD_SERVED; j++)
            carry_count(&s->reads[i][j], stats->reads[i][j]);
    carry_count(&s->flights, stats->n_flights);
    carry_count(&s->fenced, stats->n_fenced);
    carry_count(&s->evicted, stats->n_evicted);
    carry_count(&s->claims, stats->n_claims);
    carry_count(&s->changes, shards->n_changes);
    *s->update = stats->update_us;
    rota_gauge_set(s->maps, (int64_t)rota_shard_cache_size(shards->cache));
}

static void look_at_calls(struct rota_shards *shards)
{
    const struct rota_call_stats *stats = &shards->stats;
    struct rota_shards_series *s = shards->series;
    carry_count(&s->first, stats->n_tries - stats->n_retries - stats->n_hedges);
    carry_count(&s->retries, stats->n_retries);
    carry_count(&s->hedges, stats->n_hedges);
    carry_count(&s->hedges_won, stats->n_hedges_won);
    carry_count(&s->refreshes, stats->n_refreshes);
    carry_count(&s->unbudgeted, stats->n_unbudgeted);
    carry_count(&s->preferred[0], stats->n_preferred_hit);
    carry_count(&s->preferred[1], stats->n_preferred_miss);
    carry_count(&s->preferred[2], stats->n_preferred_unavailable);
    for (size_t i = 0; i < ROTA_FAILURES; i++)
        carry_count(&s->ended[i], stats->n_ended[i]);
    rota_gauge_set(s->runs, (int64_t)shards->n_runs);
}

char *rota_shards_metrics(struct rota_shards *shards)
{
    const struct rota_map_entry *entry;
    struct rota_buffer buffer = {0};
    rota_time now = rota_clock_mono();
    size_t place = 0, n_connections = 0;
    look_at_cache(shards);
    look_at_calls(shards);
    while ((entry = rota_map_next(&shards->nodes, &place))) {
        look_at_node(entry->value, now);
        n_connections += rota_shards_nodes_n_connections(entry->value);
    }
    rota_gauge_set(shards->series->connections, (int64_t)n_connections);
    rota_metrics_format(shards->metrics, &buffer);
    if (buffer.failed) {
        rota_buffer_deinit(&buffer);
        return NULL;
    }
    return buffer.data;
}
