/* A queue by time: what comes first is at hand, anything can be taken out.
 *
 * Intrusive: the caller's struct holds a rota_heap_node and outlives its stay.
 * Equal times come out by `order`, so that a run can be repeated exactly. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_heap_node {
    rota_time at;
    uint64_t order;
    size_t place; /* the heap's: 1 + index while inside, 0 outside */
};

struct rota_heap {
    struct rota_heap_node **nodes;
    size_t size, capacity;
};

void rota_heap_deinit(struct rota_heap *heap);

/* Put `node`, whose `at` and `order` are set and which is in no heap; kept.
 * False when there is no memory. */
bool rota_heap_push(struct rota_heap *heap, struct rota_heap_node *node);

/* The first node, or NULL. */
static inline struct rota_heap_node *rota_heap_first(const struct rota_heap *heap)
{
    return heap->size ? heap->nodes[0] : NULL;
}

/* Take `node` out; no-op when it is in no heap. */
void rota_heap_remove(struct rota_heap *heap, struct rota_heap_node *node);
