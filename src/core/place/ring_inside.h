/* ring_inside: the memory layout of a ring, for the two files that implement it: ring_build.c
 * makes it, ring.c answers from it. */
#pragma once

#include "core/place/ring_points.h"

#include <stdatomic.h>

/* A host as the ring keeps it. */
struct rota_ring_entry {
    struct rota_str address, zone, identity; /* in the ring's text */
    uint32_t weight;
    uint32_t zone_number;
};

/* Hashes are spread evenly, so a table over their leading bits, with about as
 * many places as there are points, leads to within a point or two of the right
 * one: `starts[b]` is the first point whose leading bits are b or more. */
struct rota_ring {
    atomic_size_t n_refs;
    uint32_t points_per_host;
    int shift; /* leading bits = hash >> shift */
    uint32_t n_points, n_hosts, n_zones;
    uint32_t max_weight;
    uint32_t *starts;               /* 2^(32 - shift) + 1 places */
    struct rota_ring_point *points; /* n_points + 1, see ring_points.h */
    struct rota_ring_entry *hosts;  /* sorted by address */
    uint32_t *zone_sizes;           /* hosts of each zone */
    char *text;                     /* what the hosts' strings point into */
};

/* How many places the table has. */
static inline size_t rota_ring_n_places(const struct rota_ring *ring)
{
    return (size_t)1 << (32 - ring->shift);
}

/* The index of the first point at or after `hash`; n_points when there is none. */
static inline size_t rota_ring_seek(const struct rota_ring *ring, uint32_t hash)
{
    const struct rota_ring_point *points = ring->points;
    uint32_t place = hash >> ring->shift;
    uint32_t from = ring->starts[place], to = ring->starts[place + 1];

    /* Only hosts chosen to collide make a place hold many points. */
    while (__builtin_expect(to - from > 16, 0)) {
        uint32_t middle = from + (to - from) / 2;
        if (points[middle].hash < hash)
            from = middle + 1;
        else
            to = middle;
    }
    while (points[from].hash < hash)
        from++;
    return from;
}
