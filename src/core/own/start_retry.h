/* start_retry: when a node tries again to start a shard that it could not start.
 *
 * A shard that went to another node is served there, and moving it back for another failure
 * disturbs its clients: so the first try is after the time that the user chose, and each further
 * one after twice the time before, up to an hour. A shard that no other node can have waits only
 * for us: it is tried again soon, and less soon with each failure. */
#pragma once

#include <rota/time.h>
#include <stdint.h>

/* After the failure number `n`, from 1. */
static inline rota_time rota_start_retry_doubled(rota_time first, uint32_t n, rota_time most)
{
    rota_time after = first < most ? first : most;
    while (n-- > 1 && after < most)
        after = after > most / 2 ? most : 2 * after;
    return after;
}

static inline rota_time rota_start_retry_after(rota_time first, uint32_t n)
{
    return rota_start_retry_doubled(first, n, ROTA_HOUR);
}

static inline rota_time rota_start_retry_alone(uint32_t n)
{
    return rota_start_retry_doubled(100 * ROTA_MSEC, n, ROTA_MIN);
}
