/* A hedge: a second try on another replica while the first is still in flight.
 *
 * Most calls are quick and need none; the few slow ones usually hit a replica at a bad time. So a
 * call that is older than nearly all calls get deserves a second try, and the first answer counts.
 * The delay is the recent 95th percentile of tries; so about one call in 20 gets a hedge, and the
 * budget enforces that when everything becomes slow at once.
 *
 * Without enough tries to know the usual latency there is no hedge. */
#pragma once

#include "base/histogram.h"
#include "core/call/budget.h"

enum {
    ROTA_HEDGE_QUANTILE_PPM = 950000,
    ROTA_HEDGE_SAMPLES_MIN = 50, /* before the first hedge, and before a window ends */
};

/* Samples older than two windows are forgotten. */
#define ROTA_HEDGE_WINDOW (5 * ROTA_SEC)

/* A delay below this is not worth the second try. */
#define ROTA_HEDGE_DELAY_MIN ROTA_MSEC

struct rota_hedge_options {
    struct rota_budget_options budget; /* all 0 means ROTA_BUDGET_HEDGES */
    uint32_t quantile_ppm;             /* 0 means ROTA_HEDGE_QUANTILE_PPM */
    rota_time delay_min;               /* 0 means ROTA_HEDGE_DELAY_MIN */
};

struct rota_hedge {
    struct rota_hedge_options options; /* defaults filled in */
    struct rota_budget budget;
    struct rota_histogram latest, previous; /* microseconds */
    rota_time window_at;                    /* when `latest` began */
    rota_time delay;                        /* ROTA_TIME_NEVER: not known yet */
    uint32_t n_stale;                       /* samples since `delay` was computed */
};

void rota_hedge_init(struct rota_hedge *hedge, rota_time now,
                     const struct rota_hedge_options *options);

/* How long a try took. Report tries that were answered, and tries that were cancelled because
 * another one was first, with their age: without these, slow tries would disappear from the
 * distribution. Do not report failures: they are fast for the wrong reason. */
void rota_hedge_record(struct rota_hedge *hedge, rota_time now, rota_time latency);

/* A call begins, which earns a part of a hedge. Returns when to hedge it if it is not over by
 * then; ROTA_TIME_NEVER when the usual latency is unknown or when the deadline (ROTA_TIME_NEVER:
 * none) comes first. */
rota_time rota_hedge_begin(struct rota_hedge *hedge, rota_time now, rota_time deadline);

/* The time has come: whether the budget allows it. If not, ask again after the same delay: the
 * calls that are really stuck are then still there. */
bool rota_hedge_spend(struct rota_hedge *hedge, rota_time now);
