#include "base/heap.h"

#include "base/vector.h"

void rota_heap_deinit(struct rota_heap *heap)
{
    free(heap->nodes);
    *heap = (struct rota_heap){0};
}

static bool is_before(const struct rota_heap_node *a, const struct rota_heap_node *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put(struct rota_heap *heap, size_t index, struct rota_heap_node *node)
{
    heap->nodes[index] = node;
    node->place = index + 1;
}

static void sift_up(struct rota_heap *heap, size_t index, struct rota_heap_node *node)
{
    while (index > 0 && is_before(node, heap->nodes[(index - 1) / 2])) {
        put(heap, index, heap->nodes[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(heap, index, node);
}

static void sift_down(struct rota_heap *heap, size_t index, struct rota_heap_node *node)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->size)
            break;
        if (child + 1 < heap->size && is_before(heap->nodes[child + 1], heap->nodes[child]))
            child++;
        if (!is_before(heap->nodes[child], node))
            break;
        put(heap, index, heap->nodes[child]);
        index = child;
    }
    put(heap, index, node);
}

bool rota_heap_push(struct rota_heap *heap, struct rota_heap_node *node)
{
    if (!rota_vector_grow((void **)&heap->nodes, &heap->capacity, heap->size + 1,
                          sizeof *heap->nodes))
        return false;
    sift_up(heap, heap->size++, node);
    return true;
}

void rota_heap_remove(struct rota_heap *heap, struct rota_heap_node *node)
{
    if (node->place == 0)
        return;
    size_t index = node->place - 1;
    node->place = 0;
    struct rota_heap_node *last = heap->nodes[--heap->size];
    if (last == node)
        return;
    if (index > 0 && is_before(last, heap->nodes[(index - 1) / 2]))
        sift_up(heap, index, last);
    else
        sift_down(heap, index, last);
}
