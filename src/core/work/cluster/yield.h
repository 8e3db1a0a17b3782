/* yield: how busy workers yield to jobs of other nodes (part of work stealing).
 *
 * A node's jobs go to its own workers first; idle workers fetch jobs of other nodes. Where
 * workers are never idle, jobs of other nodes would starve. So a class of workers that was busy
 * for ROTA_YIELD_EVERY yields: one slot that becomes free is left idle for ROTA_YIELD_FOR.
 * To other nodes it is idle, and it fetches the oldest job that they supply; when there is none,
 * it continues with the jobs of its node. That costs one slot at most 2.5 % of its time, and lets
 * a job of another node start at least every two seconds. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>

#define ROTA_YIELD_EVERY (2 * ROTA_SEC)
#define ROTA_YIELD_FOR   (50 * ROTA_MSEC) /* some round trips */

struct rota_yield {
    rota_time since; /* when it was last idle, or last yielded; 0: never */
    rota_time until; /* when this yield is over; 0: it does not yield */
};

/* A job waits for a slot that is free since `free_since`: whether the slot is left idle until
 * `yield->until`. */
bool rota_yield_holds(struct rota_yield *yield, rota_time now, rota_time free_since);

/* The slot is taken, which ends the yield. */
void rota_yield_end(struct rota_yield *yield, rota_time now);
