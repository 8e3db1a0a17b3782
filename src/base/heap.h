/* heap: a binary heap of anything, and on top of it a priority queue by time: finding the first is
 * O(1), and any item can be removed.
 *
 * Intrusive: the caller's struct holds a rota_heap_node and must outlive its time in the heap.
 * Equal times come out by `order`, so that a run can be repeated exactly. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Put `item` where it belongs in a heap of `n` items whose place `index` is free: at `index` or
 * below it. `is_before(heap, a, b)` orders two items, `put(heap, index, item)` stores one. */
#define ROTA_HEAP_SIFT_DOWN(heap, items, n, index, item, is_before, put)                           \
    do {                                                                                           \
        size_t at_ = (index);                                                                      \
        for (size_t child_; (child_ = 2 * at_ + 1) < (n); at_ = child_) {                          \
            if (child_ + 1 < (n) && is_before(heap, (items)[child_ + 1], (items)[child_]))         \
                child_++;                                                                          \
            if (!is_before(heap, (items)[child_], item))                                           \
                break;                                                                             \
            put(heap, at_, (items)[child_]);                                                       \
        }                                                                                          \
        put(heap, at_, item);                                                                      \
    } while (0)

/* ... or above it. All others are in order. */
#define ROTA_HEAP_SIFT(heap, items, n, index, item, is_before, put)                                \
    do {                                                                                           \
        size_t up_ = (index);                                                                      \
        for (; up_ > 0 && is_before(heap, item, (items)[(up_ - 1) / 2]); up_ = (up_ - 1) / 2)      \
            put(heap, up_, (items)[(up_ - 1) / 2]);                                                \
        if (up_ == (index))                                                                        \
            ROTA_HEAP_SIFT_DOWN(heap, items, n, up_, item, is_before, put);                        \
        else                                                                                       \
            put(heap, up_, item);                                                                  \
    } while (0)

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
