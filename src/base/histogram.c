#include "base/histogram.h"

/* The leading bit of a number gives its row, the bits after it the place in the row. The first
 * row, and what is below it, have a bucket per number. */
static size_t bucket_of(uint64_t value)
{
    if (value < ROTA_HISTOGRAM_PARTS)
        return value;
    int row = 63 - __builtin_clzll(value) - ROTA_HISTOGRAM_BITS;
    return (size_t)row * ROTA_HISTOGRAM_PARTS + (value >> row);
}

/* The number in the middle of a bucket. */
static uint64_t middle_of(size_t bucket)
{
    if (bucket < 2 * ROTA_HISTOGRAM_PARTS)
        return bucket;
    size_t row = bucket / ROTA_HISTOGRAM_PARTS - 1;
    uint64_t first = (uint64_t)(bucket - row * ROTA_HISTOGRAM_PARTS) << row;
    return first + ((uint64_t)1 << row) / 2;
}

void rota_histogram_record(struct rota_histogram *histogram, int64_t signed_value)
{
    uint64_t value = signed_value < 0 ? 0 : (uint64_t)signed_value;
    if (histogram->count == 0 || value < histogram->min)
        histogram->min = value;
    if (histogram->count == 0 || value > histogram->max)
        histogram->max = value;
    histogram->counts[bucket_of(value)]++;
    histogram->count++;
    histogram->sum += (double)value;
}

uint64_t rota_histogram_quantile(const struct rota_histogram *histogram, double p)
{
    double rank = p * (double)histogram->count;
    uint64_t left = 1;
    size_t bucket = 0;

    if (histogram->count == 0)
        return 0;
    if (rank >= (double)histogram->count)
        return histogram->max;
    if (rank > 1)
        left = (uint64_t)rank + ((double)(uint64_t)rank < rank); /* rounded up */
    while (left > histogram->counts[bucket])
        left -= histogram->counts[bucket++];
    uint64_t value = middle_of(bucket);
    return value < histogram->min   ? histogram->min
           : value > histogram->max ? histogram->max
                                    : value;
}

void rota_histogram_merge(struct rota_histogram *histogram, const struct rota_histogram *from)
{
    if (from->count == 0)
        return;
    if (histogram->count == 0 || from->min < histogram->min)
        histogram->min = from->min;
    if (histogram->count == 0 || from->max > histogram->max)
        histogram->max = from->max;
    for (size_t i = 0; i < ROTA_HISTOGRAM_BUCKETS; i++)
        histogram->counts[i] += from->counts[i];
    histogram->count += from->count;
    histogram->sum += from->sum;
}
