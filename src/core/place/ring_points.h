/* ring_points: the inside of a ring, for the modules that walk it: points in order of (hash,
 * host), with one more at the end that leads back to the first. */
#pragma once

#include <rota/ring.h>

struct rota_ring_point {
    uint32_t hash;
    uint32_t host;
};

/* All points, rota_ring_n_points() of them. After the last there is a copy of the first with a
 * hash above every other, so that a search ends there. */
const struct rota_ring_point *rota_ring_points(const struct rota_ring *ring);

/* For each hash the index of the first point at or after it; the number of
 * points when there is none (which is the copy of the first). */
void rota_ring_seek_many(const struct rota_ring *ring, const uint32_t *hashes, size_t n,
                         uint32_t *at);

/* The largest weight of a host, in thousandths; 0 on an empty ring. */
uint32_t rota_ring_max_weight(const struct rota_ring *ring);
