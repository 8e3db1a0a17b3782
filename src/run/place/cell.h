/* cell: the current version of an immutable object (a ring, a configuration), for readers on any
 * thread.
 *
 * Readers never wait, never allocate and take no lock. One writer swaps a new object in and
 * releases the old one as soon as no reader can be between finding it and taking a reference,
 * which is a window of a few instructions. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

/* How objects are reference-counted. Any thread. */
struct rota_cell_type {
    void (*ref)(void *object);
    void (*unref)(void *object);
};

struct rota_cell {
    const struct rota_cell_type *type;
    _Atomic(void *) object;
    atomic_size_t side;      /* the counter that new readers should use */
    atomic_size_t inside[2]; /* readers in the window, by the side they entered */
};

/* Start with `object`, to which it takes a reference. `type` is kept. */
void rota_cell_init(struct rota_cell *cell, const struct rota_cell_type *type, void *object);

/* No reader may be inside, or enter from now on. */
void rota_cell_deinit(struct rota_cell *cell);

/* A reference to the current object, which the caller drops. Any thread. */
void *rota_cell_get(struct rota_cell *cell);

/* Replace the old object by `object`, to which it takes a reference. One thread at a time. Waits
 * for readers inside; they hold no lock, so that takes a few of their instructions. */
void rota_cell_swap(struct rota_cell *cell, void *object);
