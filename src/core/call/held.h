/* held: bytes that a server holds for all its connections together, and who may add to them.
 *
 * These are requests that are not whole or not answered, and replies that the peer has not read.
 * One half of the bound is for whoever comes; the other half is divided evenly among the
 * connections, so that those that hold little are still served while a greedy one is refused.
 * Together they never hold more than the bound. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rota_held {
    size_t max;
    size_t size; /* of all connections */
    size_t n;    /* connections */
};

/* May a connection hold `own` bytes, which are counted in `size` already? */
bool rota_held_fits(const struct rota_held *held, size_t own);
