#include "sim/sim_clock.h"

#include <assert.h>

enum { MILLION = 1000000 };

/* elapsed * (1 + drift), rounded down. By parts, so that nothing overflows and
 * no rounding of floating point can differ between machines. */
static rota_time stretch_by_drift(rota_time elapsed, int32_t drift_ppm)
{
    rota_time whole = elapsed / MILLION * drift_ppm;
    rota_time rest = elapsed % MILLION * drift_ppm;
    rota_time rounded = rest >= 0 ? rest / MILLION : -((-rest + MILLION - 1) / MILLION);
    return elapsed + whole + rounded;
}

rota_time rota_sim_clock_ticks(const struct rota_sim_clock *clock, rota_time now)
{
    assert(now >= clock->since);
    return clock->base + stretch_by_drift(now - clock->since, clock->drift_ppm);
}

rota_time rota_sim_clock_when(const struct rota_sim_clock *clock, rota_time ticks)
{
    rota_time rate = MILLION + clock->drift_ppm;
    rota_time wanted = rota_time_add(ticks, -clock->base);
    if (wanted <= 0)
        return clock->since;
    if (wanted > INT64_MAX / 2)
        return ROTA_TIME_NEVER;

    rota_time elapsed = wanted / rate * MILLION + wanted % rate * MILLION / rate;
    while (elapsed > 0 && stretch_by_drift(elapsed - 1, clock->drift_ppm) >= wanted)
        elapsed--;
    while (stretch_by_drift(elapsed, clock->drift_ppm) < wanted)
        elapsed++;
    return rota_time_add(clock->since, elapsed);
}

void rota_sim_clock_set_drift(struct rota_sim_clock *clock, rota_time now, int32_t drift_ppm)
{
    assert(drift_ppm >= -ROTA_SIM_DRIFT_MAX && drift_ppm <= ROTA_SIM_DRIFT_MAX);
    clock->base = rota_sim_clock_ticks(clock, now);
    clock->since = now;
    clock->drift_ppm = drift_ppm;
}
