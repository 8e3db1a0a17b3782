/* wall_wait: how long to sleep until a time on the wall clock.
 *
 * The wall clock may be set, which no timer notices: while that matters, check it every
 * ROTA_WALL_LOOK. */
#pragma once

#include <rota/time.h>

#define ROTA_WALL_LOOK ROTA_SEC

/* Milliseconds from `now` until `deadline`, or until the next check if that is sooner. Never too
 * early for the deadline, so that one check is enough. */
static inline uint64_t rota_wall_wait_ms(rota_time now, rota_time deadline)
{
    rota_time look_at = rota_time_add(now, ROTA_WALL_LOOK);
    rota_time wait = deadline < look_at ? deadline - now : ROTA_WALL_LOOK;
    if (deadline <= now)
        return 0;
    return (uint64_t)((wait + ROTA_MSEC - 1) / ROTA_MSEC);
}
