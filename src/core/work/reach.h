/* reach: which node a client asks, given which of them it can reach.
 *
 * The owner of a partition is asked directly, also when nobody has tried to reach it so far: polls
 * stay for long where they go first. A node that could not be reached is not asked again while
 * another one may be reachable: its connection is tried in the background, and it gets calls again
 * once that stands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rota_reach {
    ROTA_REACH_UNKNOWN, /* nobody has tried */
    ROTA_REACH_READY,
    ROTA_REACH_FAILING, /* the last try failed */
};

/* The index of the node to ask, of `n` > 0. `owner` is the node that has the partition, or `n` when
 * it is not among them; `is_retry`: a call to the owner has failed, and others are preferred. */
size_t rota_reach_choose(const enum rota_reach *nodes, size_t n, size_t owner, bool is_retry,
                         uint64_t chance);
