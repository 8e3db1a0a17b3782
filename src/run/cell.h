/* cell: the current one of something that never changes once made (a ring, a
 * configuration), for readers on any thread.
 *
 * Readers never wait, never allocate and take no lock. One writer swaps a new
 * object in and gives up the old one as soon as no reader can be between finding
 * it and taking a share of it, which is a window of a few instructions. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

/* How objects are shared. Any thread. */
struct rota_cell_type {
    void (*ref)(void *object);
    void (*unref)(void *object);
};

struct rota_cell {
    const struct rota_cell_type *type;
    _Atomic(void *) object;
    atomic_size_t side;      /* which counter readers that come now should use */
    atomic_size_t inside[2]; /* readers in the window, by the side they came in */
};

/* Start with `object`, a share of which is taken. `type` is kept. */
void rota_cell_init(struct rota_cell *cell, const struct rota_cell_type *type, void *object);

/* Nobody may be inside or come any more. */
void rota_cell_deinit(struct rota_cell *cell);

/* The current object, a share of it, which the caller ends. Any thread. */
void *rota_cell_get(struct rota_cell *cell);

/* Put `object`, a share of which is taken, in the place of the old one. One
 * thread at a time. Readers that are inside are waited for; they hold no lock,
 * so it takes as long as a few instructions of theirs. */
void rota_cell_swap(struct rota_cell *cell, void *object);
