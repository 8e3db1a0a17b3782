/* Sorting, and a check for duplicates. */
#pragma once

#include <stdlib.h>

/* Sort `n` items; returns the index of the first that compares equal to the one
 * before it, `n` when all are distinct. */
static inline size_t rota_sort_distinct(void *items, size_t n, size_t item_size,
                                        int (*compare)(const void *a, const void *b))
{
    const char *bytes = (const char *)items;
    if (n > 1)
        qsort(items, n, item_size, compare);
    for (size_t i = 1; i < n; i++)
        if (compare(bytes + (i - 1) * item_size, bytes + i * item_size) == 0)
            return i;
    return n;
}
