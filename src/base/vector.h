/* A growing array of any type.
 *
 *     ROTA_VECTOR(struct host) hosts = {0};
 *     if (!rota_vector_push(&hosts, host)) ... no memory ...
 *     for (size_t i = 0; i < hosts.size; i++) use(&hosts.items[i]);
 *     rota_vector_deinit(&hosts); */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ROTA_VECTOR(type)                                                                          \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t size, capacity;                                                                     \
    }

/* Make room for `n` items in total; false when there is no memory. */
#define rota_vector_reserve(vector, n)                                                             \
    rota_vector_grow((void **)&(vector)->items, &(vector)->capacity, (n), sizeof *(vector)->items)

/* Append a copy of `item`; false when there is no memory. */
#define rota_vector_push(vector, item)                                                             \
    (rota_vector_reserve((vector), (vector)->size + 1) &&                                          \
     ((vector)->items[(vector)->size++] = (item), true))

/* Free the array; the vector is empty and usable again. */
#define rota_vector_deinit(vector)                                                                 \
    (free((vector)->items), (vector)->items = NULL, (vector)->size = 0, (vector)->capacity = 0)

static inline bool rota_vector_grow(void **items, size_t *capacity, size_t needed, size_t item_size)
{
    if (needed <= *capacity)
        return true;
    size_t grown = *capacity + *capacity / 2;
    if (grown < 8)
        grown = 8;
    if (grown < needed)
        grown = needed;
    if (grown > SIZE_MAX / item_size)
        return false;
    void *moved = realloc(*items, grown * item_size);
    if (!moved)
        return false;
    *items = moved;
    *capacity = grown;
    return true;
}
