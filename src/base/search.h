/* search: binary search in anything that is in order. */
#pragma once

#include <stddef.h>

/* What this declares cannot be in parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */

/* Set `first` to the smallest place from 0 to `n` for which `is_before`, an expression over
 * `place`, is false; it has to be true for all before it. */
#define ROTA_SEARCH(first, n, place, is_before)                                                    \
    do {                                                                                           \
        size_t end_ = (n);                                                                         \
        for ((first) = 0; (first) < end_;) {                                                       \
            size_t place = (first) + (end_ - (first)) / 2;                                         \
            if (is_before)                                                                         \
                (first) = place + 1;                                                               \
            else                                                                                   \
                end_ = place;                                                                      \
        }                                                                                          \
    } while (0)

/* NOLINTEND(bugprone-macro-parentheses) */
