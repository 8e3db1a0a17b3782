/* backoff: how long to wait before trying again what has failed.
 *
 * The wait grows with every failure in a row up to a bound, and is jittered: clients that lost a
 * server together do not return together. A success starts over. */
#pragma once

#include <rota/experimental/random.h>
#include <rota/time.h>

#define ROTA_BACKOFF_FIRST (200 * ROTA_MSEC)
#define ROTA_BACKOFF_MAX   (30 * ROTA_SEC)

/* Zero means the defaults. */
struct rota_backoff {
    rota_time first, max; /* durations; `max` below `first` counts as `first` */
    rota_time next;       /* the next wait, before jitter; 0 after a success */
};

/* An attempt failed: wait this long, between 0.8 and 1.2 times the step and never more than
 * `max`. */
rota_time rota_backoff_failed(struct rota_backoff *backoff, struct rota_random *random);

/* An attempt succeeded. */
void rota_backoff_succeeded(struct rota_backoff *backoff);
