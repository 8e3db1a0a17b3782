/* A budget: how much extra work may be done for the work that was asked for.
 *
 * Retries and hedges help as long as they are few. When everything fails, each retry makes it
 * worse, and the load of the retries alone can keep a cluster down after the cause is gone. So
 * each call adds a part of a token, some are added over time so that a client with few calls may
 * retry at all, and each extra try takes one. Integer arithmetic: the unit is a millionth of a
 * token. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>

struct rota_budget_options {
    uint32_t ppm;        /* of a token per call */
    uint32_t per_second; /* tokens added per second; 0: none */
    uint32_t most;       /* maximum number of tokens; 0 means 10 */
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

/* Starts with the tokens of one second, so that the first call can be retried. */
void rota_budget_init(struct rota_budget *budget, rota_time now,
                      const struct rota_budget_options *options);

/* A call is made. */
void rota_budget_earn(struct rota_budget *budget);

/* Take a token for an extra try; false when there is none: do not try. */
bool rota_budget_spend(struct rota_budget *budget, rota_time now);

/* Return the token of an extra try that was not made. */
void rota_budget_refund(struct rota_budget *budget);
