/* A hedge: a second try on another replica while the first is still out.
 *
 * Most calls are quick and need none; the few that are slow usually met a bad
 * moment of one replica. So a call that is older than nearly all calls get is
 * worth a second try, and the first answer counts. The delay is what 95 of 100
 * tries stayed below lately; so about one call in 20 comes to the point, and the
 * budget holds it there when everything becomes slow at once.
 *
 * Until there are enough tries to know what is usual there is no hedge. */
#pragma once

#include "base/histogram.h"
#include "core/call/budget.h"

enum {
    ROTA_HEDGE_QUANTILE_PPM = 950000,
    ROTA_HEDGE_SAMPLES_MIN = 50, /* before the first hedge, and before a window ends */
};

/* Numbers older than two windows are forgotten. */
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
    uint32_t n_stale;                       /* samples that `delay` has not seen */
};

void rota_hedge_init(struct rota_hedge *hedge, rota_time now,
                     const struct rota_hedge_options *options);

/* How long a try took. To be told of tries that were answered, and of those that
 * were cancelled because another one was first, with their age: leaving these
 * out would make what is slow disappear from what is usual. Failures are not
 * told, they are quick for the wrong reason. */
void rota_hedge_record(struct rota_hedge *hedge, rota_time now, rota_time latency);

/* A call begins, which earns a part of a hedge. Returns when to hedge it if it
 * is not over by then; ROTA_TIME_NEVER when it is not known what is usual or
 * when the deadline (ROTA_TIME_NEVER: none) comes first. */
rota_time rota_hedge_begin(struct rota_hedge *hedge, rota_time now, rota_time deadline);

/* The moment has come: whether the budget allows it. If not, ask again after as
 * long once more: the calls that are really stuck are then still there. */
bool rota_hedge_spend(struct rota_hedge *hedge, rota_time now);
