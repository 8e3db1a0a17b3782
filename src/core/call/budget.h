/* A budget: how much extra work may be done for the work that was asked for.
 *
 * Retries and hedges help as long as they are few. When everything fails each
 * call that is tried again makes it worse, and the load of the retries alone can
 * keep a cluster down after what began it has gone. So each call puts a part of
 * a token in, some come with time so that a quiet client may retry at all, and
 * each extra try takes one out. Whole-number arithmetic: a part per million of
 * a token is the unit. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>

struct rota_budget_options {
    uint32_t ppm;        /* of a token per call */
    uint32_t per_second; /* tokens that come with time; 0: none */
    uint32_t most;       /* tokens that are kept; 0 means 10 */
};

/* For further sweeps: a fifth of the calls and 3 per second, up to 100 at once. */
#define ROTA_BUDGET_RETRIES ((struct rota_budget_options){200000, 3, 100})

/* For hedges: one call in 20. */
#define ROTA_BUDGET_HEDGES ((struct rota_budget_options){50000, 0, 10})

struct rota_budget {
    struct rota_budget_options options;
    uint64_t parts; /* millionths of a token */
    rota_time filled_at;
    uint64_t n_calls, n_spent, n_refused;
};

/* Starts with what a second brings; so the first call can be tried again. */
void rota_budget_init(struct rota_budget *budget, rota_time now,
                      const struct rota_budget_options *options);

/* A call is made. */
void rota_budget_earn(struct rota_budget *budget, rota_time now);

/* Take a token for an extra try; false when there is none, so don't. */
bool rota_budget_spend(struct rota_budget *budget, rota_time now);

/* Give back a token for an extra try that was not made after all. */
void rota_budget_refund(struct rota_budget *budget);
