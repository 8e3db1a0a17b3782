/* Measuring: repeat a piece of work in rounds and report the median round and
 * how far rounds lie apart. The machine is shared, so compare ratios of one run. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct measure {
    double median;    /* ns per operation */
    double low, high; /* the 10th and the 90th percentile of the rounds */
};

/* Run `work(data)`, which does `n` operations, for `rounds` rounds after one
 * that does not count. */
struct measure measure_run(void (*work)(void *data), void *data, size_t n, int rounds);

/* Bytes in use on the heap now. */
size_t measure_heap(void);
