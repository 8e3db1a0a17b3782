#include "base/heap.h"

#include "base/vector.h"

void rota_heap_deinit(struct rota_heap *heap)
{
    free(heap->nodes);
    *heap = (struct rota_heap){0};
}

static bool is_before(const struct rota_heap *heap, const struct rota_heap_node *a,
                      const struct rota_heap_node *b)
{
    (void)heap;
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put_node(struct rota_heap *heap, size_t index, struct rota_heap_node *node)
{
    heap->nodes[index] = node;
    node->place = index + 1;
}

static void sift_node(struct rota_heap *heap, size_t index, struct rota_heap_node *node)
{
    ROTA_HEAP_SIFT(heap, heap->nodes, heap->size, index, node, is_before, put_node);
}

bool rota_heap_push(struct rota_heap *heap, struct rota_heap_node *node)
{
    if (!rota_vector_grow((void **)&heap->nodes, &heap->capacity, heap->size + 1,
                          sizeof *heap->nodes))
        return false;
    sift_node(heap, heap->size++, node);
    return true;
}

void rota_heap_remove(struct rota_heap *heap, struct rota_heap_node *node)
{
    if (node->place == 0)
        return;
    size_t index = node->place - 1;
    node->place = 0;
    struct rota_heap_node *last = heap->nodes[--heap->size];
    if (last != node)
        sift_node(heap, index, last);
}
