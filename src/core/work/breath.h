/* breath: how workers that never run out of jobs get to those of other nodes.
 *
 * Jobs of a node go to its workers before those of others, which are fetched by who is idle. Where
 * workers are never idle, jobs of other nodes would wait for ever. So a kind of workers that was
 * busy for ROTA_BREATH_EVERY draws breath: one slot that becomes free is left alone for
 * ROTA_BREATH_FOR. To other nodes it is idle, and it goes for the oldest job that they offer; when
 * there is none, it goes on with the jobs of its node. That costs one slot 2.5 % of its time at
 * most, and gives jobs of other nodes a start every two seconds at least. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>

#define ROTA_BREATH_EVERY (2 * ROTA_SEC)
#define ROTA_BREATH_FOR   (50 * ROTA_MSEC) /* some round trips */

struct rota_breath {
    rota_time since; /* when it was last idle, or drew breath; 0: never */
    rota_time until; /* when this breath is over; 0: it draws none */
};

/* A job waits for a slot that is free since `free_since`: whether it is left alone until
 * `breath->until`. */
bool rota_breath_holds(struct rota_breath *breath, rota_time now, rota_time free_since);

/* The slot is gone, and with it the breath. */
void rota_breath_end(struct rota_breath *breath, rota_time now);
