/* A node's clocks: one oscillator that drifts, and two readings of it.
 *
 * The oscillator counts ticks of about a nanosecond; the monotonic clock is the ticks plus an
 * offset that only a restart changes, the wall clock the ticks plus an offset that a jump changes.
 * So both drift together, as on a real machine, and a jump never shows on the monotonic one.
 *
 * Invariant: ticks never go back, and `when` is the exact inverse of `ticks`: the first true
 * time at which they reach a value. */
#pragma once

#include <rota/time.h>

#define ROTA_SIM_DRIFT_MAX 100000 /* parts per million: a clock is at most 10 % off */

struct rota_sim_clock {
    rota_time since; /* true time of the last change of drift */
    rota_time base;  /* the ticks at that time */
    rota_time mono_offset, wall_offset;
    int32_t drift_ppm; /* above 0: the clock is fast */
};

/* The ticks at true time `now`, which is not before `since`. */
rota_time rota_sim_clock_ticks(const struct rota_sim_clock *clock, rota_time now);

/* The first true time, from `since` on, at which there are `ticks`;
 * ROTA_TIME_NEVER when that is beyond all reach. */
rota_time rota_sim_clock_when(const struct rota_sim_clock *clock, rota_time ticks);

/* Run at another rate from `now` on. */
void rota_sim_clock_set_drift(struct rota_sim_clock *clock, rota_time now, int32_t drift_ppm);
