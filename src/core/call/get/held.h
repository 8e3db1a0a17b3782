/* held: bytes that a server holds for all its connections together, and which of them may hold
 * more.
 *
 * These are requests that are incomplete or not answered, and replies that the peer has not
 * read. One half of the bound is open to all connections; the other half is divided evenly among
 * them, so that the server still serves connections that hold little while it refuses greedy
 * ones. Together they never hold more than the bound. */
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
