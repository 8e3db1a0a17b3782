/* reach: which node a client asks, given which of them it can reach.
 *
 * It asks the owner of a partition directly, even if it has not tried to reach it so far: a poll
 * stays for a long time where it first goes. It does not ask an unreachable node again while
 * another one may be reachable: a connection is tried in the background, and the node gets calls
 * again once that is open. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rota_reach {
    ROTA_REACH_UNKNOWN, /* not tried yet */
    ROTA_REACH_READY,
    ROTA_REACH_FAILING, /* the last try failed */
};

/* `is_open`: a connection is open; `is_heard`: the node has sent something on it; `has_failed`: an
 * earlier one ended. The kernel accepts connections for a process that hangs, so an open connection
 * proves nothing: a node that has failed is back once a message from it arrives. */
enum rota_reach rota_reach_of(bool is_open, bool is_heard, bool has_failed);

/* The index of the node to ask, of `n` > 0. `owner` is the node that has the partition, or `n` when
 * it is not among them; `is_retry`: a call to the owner has failed, and others are preferred. */
size_t rota_reach_choose(const enum rota_reach *nodes, size_t n, size_t owner, bool is_retry,
                         uint64_t chance);
