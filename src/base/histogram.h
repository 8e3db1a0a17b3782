/* How a number is spread: counts in buckets that grow with the number.
 *
 * The numbers from one power of two to the next are divided into
 * ROTA_HISTOGRAM_PARTS equal buckets, and small ones are counted exactly; so
 * memory is fixed, recording takes a few instructions, and a quantile is off by
 * less than 1.6 % of its value, whatever the numbers are. A histogram starts
 * zeroed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_HISTOGRAM_BITS = 5,
    ROTA_HISTOGRAM_PARTS = 1 << ROTA_HISTOGRAM_BITS,
    ROTA_HISTOGRAM_BUCKETS = (63 - ROTA_HISTOGRAM_BITS + 1) * ROTA_HISTOGRAM_PARTS,
};

struct rota_histogram {
    uint64_t counts[ROTA_HISTOGRAM_BUCKETS];
    uint64_t count;    /* of all */
    uint64_t min, max; /* exact; without meaning while `count` is 0 */
    double sum;
};

/* Count one number; below 0 counts as 0. */
void rota_histogram_record(struct rota_histogram *histogram, int64_t value);

/* The number that a part `p` (0 to 1) of all numbers do not exceed; 0 when there are none. 0.99
 * gives the p99. */
uint64_t rota_histogram_quantile(const struct rota_histogram *histogram, double p);

/* Add all that `from` has counted. */
void rota_histogram_merge(struct rota_histogram *histogram, const struct rota_histogram *from);
