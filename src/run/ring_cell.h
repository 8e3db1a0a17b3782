/* ring_cell: the current ring, for readers on any thread.
 *
 * Readers never wait, never allocate and take no lock. One writer swaps a new
 * ring in and gives up the old one as soon as no reader can be between finding
 * it and taking a share of it, which is a window of a few instructions. */
#pragma once

#include <rota/ring.h>
#include <stdatomic.h>

struct rota_ring_cell {
    _Atomic(struct rota_ring *) ring;
    atomic_size_t side;      /* which counter readers that come now should use */
    atomic_size_t inside[2]; /* readers in the window, by the side they came in */
};

/* Start with `ring`, a share of which is taken. */
void rota_ring_cell_init(struct rota_ring_cell *cell, struct rota_ring *ring);

/* Nobody may be inside or come any more. */
void rota_ring_cell_deinit(struct rota_ring_cell *cell);

/* The current ring, a share of it; rota_ring_unref() ends it. Any thread. */
struct rota_ring *rota_ring_cell_get(struct rota_ring_cell *cell);

/* Put `ring`, a share of which is taken, in the place of the old one. One
 * thread at a time. Readers that are inside are waited for; they hold no lock,
 * so it takes as long as a few instructions of theirs. */
void rota_ring_cell_swap(struct rota_ring_cell *cell, struct rota_ring *ring);
