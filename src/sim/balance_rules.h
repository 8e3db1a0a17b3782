/* The rules that policies are compared with; see balance.h. */
#pragma once

#include "core/call/balancer_rule.h"

/* What the oracle sees; the simulator keeps it up to date. */
struct rota_balance_truth {
    double (*expected_us)(const void *world, uint64_t replica);
    const void *world;
};

extern const struct rota_balancer_rule rota_balance_least_in_flight;
extern const struct rota_balancer_rule rota_balance_p2c;
extern const struct rota_balancer_rule rota_balance_peak_ewma;
extern const struct rota_balancer_rule rota_balance_oracle; /* its data is the truth */
