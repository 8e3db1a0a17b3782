#include "io/clock.h"

#include <assert.h>
#include <time.h>

static rota_time read_clock(clockid_t clock)
{
    struct timespec now;
    int failed = clock_gettime(clock, &now);
    assert(!failed); /* these clocks always exist */
    (void)failed;
    return now.tv_sec * ROTA_SEC + now.tv_nsec;
}

rota_time rota_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

rota_time rota_clock_mono(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

rota_time rota_clock_boot(void)
{
    return read_clock(CLOCK_BOOTTIME);
}
