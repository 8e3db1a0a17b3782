/* splits: simulated partitions, for trying a group out.
 *
 * A partition is a long sequence of rows that ends at random: then it has split in two, or its
 * sibling and it have become one. Where it ends and what comes then follows from its name and the
 * row alone, so that a task that reads a part again, after another has died, finds the same end and
 * reports the same children.
 *
 *     p0 --> p0.0@1, p0.1@1 --> p0.00@2, p0.01@2, p0.10@2, p0.11@2 --> p0.0+3, ...
 *
 * A name has the partition's place, digit by digit, and how many ends came before it, behind a +
 * if it was two; an initial one becomes at most 2^ROTA_SPLITS_DEPTH at one time. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROTA_SPLITS_DEPTH = 3, ROTA_SPLITS_NAME_MAX = 96 };

/* The first row after which the partition ends, above `from` and at most `to`; 0: there is none.
 * On average every `rows_mean`th is one; 0: never. */
int64_t rota_splits_end(struct rota_str name, int64_t from, int64_t to, uint64_t rows_mean);

struct rota_splits_child {
    char name[ROTA_SPLITS_NAME_MAX];
    char parents[2][ROTA_SPLITS_NAME_MAX];
    size_t n_parents;
};

/* The partitions after its end; returns how many. A name that is not of this kind is an initial
 * one. */
size_t rota_splits_children(struct rota_str name, struct rota_splits_child children[2]);
