/* timer: a libuv timer for a time on one of our clocks. */
#pragma once

#include <rota/time.h>
#include <uv.h>

/* Call `on_time` when the clock that shows `now` has reached `at`, never before; not at all for
 * ROTA_TIME_NEVER. */
static inline void rota_timer_set(uv_timer_t *timer, uv_timer_cb on_time, rota_time now,
                                  rota_time at)
{
    if (at == ROTA_TIME_NEVER)
        uv_timer_stop(timer);
    else
        uv_timer_start(timer, on_time, at > now ? (uint64_t)((at - now) / ROTA_MSEC + 1) : 0, 0);
}
