#include "core/call/hedge.h"

#include <string.h>

/* Finding the quantile reads the whole histogram, so it is done now and then. */
enum { REFRESH_SAMPLES = 64 };

void rota_hedge_init(struct rota_hedge *hedge, rota_time now,
                     const struct rota_hedge_options *options)
{
    struct rota_hedge_options chosen = *options;
    if (chosen.budget.ppm == 0 && chosen.budget.per_second == 0 && chosen.budget.most == 0)
        chosen.budget = ROTA_BUDGET_HEDGES;
    if (chosen.quantile_ppm == 0)
        chosen.quantile_ppm = ROTA_HEDGE_QUANTILE_PPM;
    if (chosen.delay_min == 0)
        chosen.delay_min = ROTA_HEDGE_DELAY_MIN;
    memset(hedge, 0, sizeof *hedge);
    hedge->options = chosen;
    hedge->window_at = now;
    hedge->delay = ROTA_TIME_NEVER;
    rota_budget_init(&hedge->budget, now, &hedge->options.budget);
}

/* Over the current window and the one before it. */
static void refresh_delay(struct rota_hedge *hedge)
{
    struct rota_histogram both = hedge->previous;
    rota_histogram_merge(&both, &hedge->latest);
    hedge->n_stale = 0;
    if (both.count < ROTA_HEDGE_SAMPLES_MIN)
        return;
    uint64_t us = rota_histogram_quantile(&both, hedge->options.quantile_ppm / 1e6);
    rota_time delay = us < ROTA_DAY / ROTA_USEC ? (rota_time)us * ROTA_USEC : ROTA_DAY;
    hedge->delay = delay > hedge->options.delay_min ? delay : hedge->options.delay_min;
}

void rota_hedge_record(struct rota_hedge *hedge, rota_time now, rota_time latency)
{
    if (hedge->latest.count >= ROTA_HEDGE_SAMPLES_MIN &&
        now - hedge->window_at >= ROTA_HEDGE_WINDOW) {
        hedge->previous = hedge->latest;
        memset(&hedge->latest, 0, sizeof hedge->latest);
        hedge->window_at = now;
    }
    rota_histogram_record(&hedge->latest, latency / ROTA_USEC);
    if (++hedge->n_stale >= REFRESH_SAMPLES ||
        (hedge->delay == ROTA_TIME_NEVER && hedge->latest.count >= ROTA_HEDGE_SAMPLES_MIN))
        refresh_delay(hedge);
}

rota_time rota_hedge_begin(struct rota_hedge *hedge, rota_time now, rota_time deadline)
{
    rota_budget_earn(&hedge->budget);
    rota_time at = rota_time_add(now, hedge->delay);
    return at < deadline ? at : ROTA_TIME_NEVER;
}

bool rota_hedge_spend(struct rota_hedge *hedge, rota_time now)
{
    return rota_budget_spend(&hedge->budget, now);
}
