#include "measure.h"

#include <malloc.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MAX = 200 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct measure measure_run(void (*work)(void *data), void *data, size_t n, int rounds)
{
    double times[ROUNDS_MAX];
    if (rounds > ROUNDS_MAX)
        rounds = ROUNDS_MAX;
    work(data);
    for (int i = 0; i < rounds; i++) {
        double start = now_ns();
        work(data);
        times[i] = (now_ns() - start) / (double)n;
    }
    qsort(times, (size_t)rounds, sizeof *times, compare);
    return (struct measure){times[rounds / 2], times[rounds / 10], times[rounds - 1 - rounds / 10]};
}

size_t measure_heap(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
