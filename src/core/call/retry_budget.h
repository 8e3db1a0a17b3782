/* retry_budget: how many retries and hedges a client may add to its calls.
 *
 * Every call pays a part of a token in, a fixed rate trickles in besides so that
 * a quiet client can retry at all, and every extra try costs a whole one. So
 * when everything fails the load grows by the part, not by the number of
 * attempts. The store is bounded by ten seconds' worth of saving.
 *
 * Counted in thousandths of a token, whole numbers only. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    ROTA_RETRY_TOKEN = 1000,
    ROTA_RETRY_PART = 200,         /* of a token that a call pays in: 20 % */
    ROTA_RETRY_RATE = 10,          /* tokens per second besides */
    ROTA_RETRY_STORE_MAX = 100000, /* tokens that can be saved up */
};

struct rota_retry_budget {
    int64_t part, rate, store; /* thousandths per call; tokens per second; thousandths */
    int64_t tokens;            /* thousandths at hand */
    rota_time at;              /* when the trickle was last counted */
    uint64_t n_taken, n_refused;
};

/* Starts full. `part` in thousandths per call, `rate` in tokens per second;
 * `store` in tokens, between 1 and ROTA_RETRY_STORE_MAX, is held to that. */
void rota_retry_budget_init(struct rota_retry_budget *budget, rota_time now, int64_t part,
                            int64_t rate, int64_t store);

/* A call begins. */
void rota_retry_budget_pay(struct rota_retry_budget *budget);

/* Take a token for an extra try; false when there is none. */
bool rota_retry_budget_take(struct rota_retry_budget *budget, rota_time now);
