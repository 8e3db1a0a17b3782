/* Metrics in Prometheus' text format. Numbers that the machines count anyway are carried over
 * when they are read. */
#include "run/call/get_inside.h"

#include "io/clock.h"

#include <stdlib.h>

enum { TRIES = 3, COPIES = 3 };

/* A counter, and the number of the machine's that it has shown so far. */
struct carried {
    struct rota_counter *counter;
    uint64_t shown;
};

struct rota_get_series {
    struct rota_counter *ended[2]; /* ok, failed */
    struct rota_counter *keys[3];  /* by state */
    struct rota_counter *pings[2]; /* answered, failed */
    struct rota_histogram *seconds;
    struct carried tries[TRIES], copies[COPIES];
    struct carried cancelled, mismatched, stale, unbudgeted, waits;
    struct rota_gauge *running, *under_way, *hosts, *holders, *share;
};

static struct rota_counter *labelled_counter(struct rota_metrics *metrics, const char *name,
                                             const char *help, const char *label, const char *value)
{
    struct rota_label pair = {label, rota_str(value ? value : "")};
    return rota_metrics_counter(metrics, name, help, &pair, label != NULL);
}

static void make_counters(struct rota_get_series *s, struct rota_metrics *m)
{
    static const char *const states[] = {"missing", "found", "absent"};
    static const char *const ends[] = {"ok", "failed"}, *const pings[] = {"answered", "failed"};
    static const char *const kinds[] = {"first", "retry", "hedge"};
    static const char *const copies[] = {"all", "hedge", "one"};
    for (size_t i = 0; i < 2; i++) {
        s->ended[i] = labelled_counter(m, "rota_get_total", "Completed multi-gets, by result.",
                                       "result", ends[i]);
        s->pings[i] = labelled_counter(m, "rota_get_pings_total", "Pings of hosts, by result.",
                                       "result", pings[i]);
    }
    for (size_t i = 0; i < 3; i++)
        s->keys[i] = labelled_counter(m, "rota_get_keys_total", "Requested keys, by result.",
                                      "result", states[i]);
    for (size_t i = 0; i < TRIES; i++)
        s->tries[i].counter = labelled_counter(m, "rota_get_tries_total",
                                               "Requests to hosts, by kind.", "kind", kinds[i]);
    for (size_t i = 0; i < COPIES; i++)
        s->copies[i].counter =
            labelled_counter(m, "rota_get_copies_total", "Multi-gets, by number of replicas asked.",
                             "copies", copies[i]);
    s->cancelled.counter =
        labelled_counter(m, "rota_get_cancelled_total",
                         "Requests cancelled because another replica responded first.", NULL, NULL);
    s->mismatched.counter =
        labelled_counter(m, "rota_get_mismatched_total",
                         "Responses of hosts that do not have the shard.", NULL, NULL);
    s->stale.counter = labelled_counter(m, "rota_get_stale_total",
                                        "Responses under a stale claim, discarded.", NULL, NULL);
    s->unbudgeted.counter =
        labelled_counter(m, "rota_get_unbudgeted_total",
                         "Retries and hedges rejected by the retry budget.", NULL, NULL);
    s->waits.counter =
        labelled_counter(m, "rota_get_waits_total",
                         "Times a multi-get waited for the owner of a shard.", NULL, NULL);
}

static void make_gauges(struct rota_get_series *s, struct rota_metrics *m)
{
    s->seconds =
        rota_metrics_histogram(m, "rota_get_seconds", "Duration of multi-gets.", ROTA_SEC, NULL, 0);
    s->running = rota_metrics_gauge(m, "rota_get_requests", "Requests in flight.", NULL, 0);
    s->under_way = rota_metrics_gauge(m, "rota_get_under_way", "Multi-gets in flight.", NULL, 0);
    s->hosts = rota_metrics_gauge(m, "rota_get_hosts", "Known hosts.", NULL, 0);
    s->holders = rota_metrics_gauge(m, "rota_get_holders", "Hosts known to hold a shard.", NULL, 0);
    s->share = rota_metrics_gauge(
        m, "rota_get_broadcast_ppm",
        "Share of adaptive multi-gets that ask all replicas, in millionths.", NULL, 0);
}

bool rota_get_metrics_init(struct rota_get *get)
{
    get->metrics = get->options.metrics;
    if (!get->metrics) {
        get->metrics = rota_metrics_new(rota_random_next(&get->random));
        get->owns_metrics = true;
    }
    get->series = calloc(1, sizeof *get->series);
    if (!get->metrics || !get->series)
        return false;
    make_counters(get->series, get->metrics);
    make_gauges(get->series, get->metrics);
    return true;
}

void rota_get_metrics_deinit(struct rota_get *get)
{
    if (get->owns_metrics)
        rota_metrics_free(get->metrics);
    free(get->series);
}

void rota_get_metrics_measure_run(struct rota_get *get, const struct rota_get_result *result)
{
    struct rota_get_series *s = get->series;
    uint64_t n[3] = {0};
    for (size_t i = 0; i < result->n_items; i++)
        n[result->items[i].state]++;
    for (size_t i = 0; i < 3; i++)
        rota_counter_add(s->keys[i], n[i]);
    rota_counter_add(s->ended[result->code != ROTA_OK], 1);
    rota_histogram_record(s->seconds, result->elapsed);
}

void rota_get_metrics_measure_ping(struct rota_get *get, bool is_answered)
{
    rota_counter_add(get->series->pings[!is_answered], 1);
}

/* Add what a machine has counted since the last time. */
static void carry_count(struct carried *carried, uint64_t count)
{
    rota_counter_add(carried->counter, count - carried->shown);
    carried->shown = count;
}

static size_t count_holders(const struct rota_get *get)
{
    size_t n = 0;
    for (size_t i = 0; i < rota_interval_map_n_hosts(get->map); i++)
        n += rota_interval_map_host(get->map, i)->n_claims > 0;
    return n;
}

char *rota_get_metrics(struct rota_get *get)
{
    const struct rota_get_stats *stats = &get->stats;
    struct rota_get_series *s = get->series;
    struct rota_buffer buffer = {0};
    carry_count(&s->tries[0], stats->n_tries - stats->n_retries - stats->n_hedges);
    carry_count(&s->tries[1], stats->n_retries);
    carry_count(&s->tries[2], stats->n_hedges);
    for (size_t i = 0; i < COPIES; i++)
        carry_count(&s->copies[i], stats->n_copies[i]);
    carry_count(&s->cancelled, stats->n_cancelled);
    carry_count(&s->mismatched, stats->n_mismatched);
    carry_count(&s->stale, stats->n_stale);
    carry_count(&s->unbudgeted, stats->n_unbudgeted);
    carry_count(&s->waits, stats->n_waits);
    rota_gauge_set(s->running, (int64_t)stats->n_running);
    rota_gauge_set(s->under_way, (int64_t)get->n_runs);
    rota_gauge_set(s->hosts, (int64_t)rota_interval_map_n_hosts(get->map));
    rota_gauge_set(s->holders, (int64_t)count_holders(get));
    rota_gauge_set(s->share, rota_get_load_share_ppm(&get->load));
    rota_metrics_format(get->metrics, &buffer);
    if (buffer.failed) {
        rota_buffer_deinit(&buffer);
        return NULL;
    }
    return buffer.data;
}
