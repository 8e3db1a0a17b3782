/* Metrics: counters, gauges and histograms with labels, in Prometheus' text.
 *
 * A series is a name and its labels. It is created on the first request, is the same one for every
 * later request, and lives as long as the registry, or until it is forgotten. A request never fails
 * for the caller, because no work should fail over a metric: a rejected series (the bound is
 * reached, a name is malformed or already has another type, a label is too long, no memory) is
 * counted in rota_metrics_refused_total, and the caller gets a spare one that is never shown. */
#pragma once

#include "base/buffer.h"
#include "base/histogram.h"

#include <rota/metrics.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    ROTA_METRICS_SERIES_MAX = 4096,
    ROTA_METRICS_LABELS_MAX = 8,  /* of one series */
    ROTA_METRICS_VALUE_MAX = 256, /* bytes of a label's value */
};

struct rota_counter {
    _Atomic uint64_t value;
};

struct rota_gauge {
    _Atomic int64_t value;
};

struct rota_label {
    const char *name;
    struct rota_str value; /* any bytes */
};

/* The series of this name and these labels, whose order does not matter. Name
 * and help are kept; the labels are copied. */
struct rota_counter *rota_metrics_counter(struct rota_metrics *metrics, const char *name,
                                          const char *help, const struct rota_label *labels,
                                          size_t n_labels);
struct rota_gauge *rota_metrics_gauge(struct rota_metrics *metrics, const char *name,
                                      const char *help, const struct rota_label *labels,
                                      size_t n_labels);

/* Numbers are recorded as integers and shown divided by `per_unit`: ROTA_SEC for durations that
 * are shown in seconds. */
struct rota_histogram *rota_metrics_histogram(struct rota_metrics *metrics, const char *name,
                                              const char *help, int64_t per_unit,
                                              const struct rota_label *labels, size_t n_labels);

/* Remove all series that have this label. */
void rota_metrics_forget(struct rota_metrics *metrics, const struct rota_label *label);

/* Append all series in the text format 0.0.4; a histogram is a summary with
 * the quantiles 0.5, 0.99 and 0.999. */
void rota_metrics_format(const struct rota_metrics *metrics, struct rota_buffer *buffer);

/* Any thread, as are the other changes of counters and gauges. */
static inline void rota_counter_add(struct rota_counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}

static inline uint64_t rota_counter_get(const struct rota_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

static inline void rota_gauge_set(struct rota_gauge *gauge, int64_t value)
{
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

static inline void rota_gauge_add(struct rota_gauge *gauge, int64_t change)
{
    atomic_fetch_add_explicit(&gauge->value, change, memory_order_relaxed);
}

static inline int64_t rota_gauge_get(const struct rota_gauge *gauge)
{
    return atomic_load_explicit(&gauge->value, memory_order_relaxed);
}
