/* balance: how policies of the balancer perform in a simulated cluster.
 *
 * The code under test is the real one: each simulated client has a rota_balancer, a rota_hedge and
 * a rota_budget. Replicas have slots, a queue and random service times; calls arrive at random too,
 * however slow the answers are (open loop), so that a slow policy can't hide behind callers that
 * wait for it. A call that fails moves on to another replica at once.
 *
 * Besides the policies there are rules to compare with: least_in_flight, p2c (the better of two at
 * random by in flight), peak_ewma (the better of two by latency that rises at once and fades
 * slowly, times in flight), look_aside_original, and oracle, which knows the servers' state and
 * takes the earliest end; no real policy can.
 *
 * It has an event loop of its own, since it runs a million calls at a time. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/balancer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_BALANCE_REPLICAS_MAX = 64,
    ROTA_BALANCE_CLIENTS_MAX = 256,
    ROTA_BALANCE_CALLS_MAX = 10000000,
};

struct rota_balancer_rule;

/* What happens to the replicas. Number 0 is the odd one where one is. */
enum rota_balance_trouble {
    ROTA_BALANCE_STEADY,
    ROTA_BALANCE_FLIPS,    /* each becomes slow or fast again at random */
    ROTA_BALANCE_RAMPS,    /* one becomes slow little by little, then is quick again */
    ROTA_BALANCE_FLAKY,    /* one rejects every third try, at random */
    ROTA_BALANCE_FAILS,    /* one refuses at once */
    ROTA_BALANCE_RECOVERS, /* one refuses at once for the first half of the run */
    ROTA_BALANCE_BLACKOUT, /* all refuse at once for 2 s in 10 */
    ROTA_BALANCE_FREEZES,  /* one freezes for 1 s in 10 */
    ROTA_BALANCE_RESTARTS, /* one after the other goes down for 2 s and returns cold */
    ROTA_BALANCE_LEAKS,    /* one loses a slot after the other until it restarts */
    ROTA_BALANCE_BURST,    /* for 10 s there is more load than all can bear */
};

struct rota_balance_scenario {
    const char *name, *what;
    enum rota_balance_trouble trouble;
    uint32_t n_replicas, n_clients;
    uint32_t n_slow;     /* the first ones are; 0 means 1 */
    uint32_t n_slots;    /* of a replica */
    rota_time service;   /* the mean, exponential */
    double slowness;     /* of the slow ones; of all in turn, for flips */
    double load;         /* of the replicas' capacity */
    rota_time timeout;   /* of a try */
    uint32_t n_tries;    /* of a call, hedges apart */
    uint32_t queue_max;  /* then a replica answers that it is full */
    bool is_uncancelled; /* replicas finish work that no client waits for */
};

size_t rota_balance_n_scenarios(void);
const struct rota_balance_scenario *rota_balance_scenario(size_t index);

/* All policies and rules to compare with; the first are the real ones. */
size_t rota_balance_n_policies(void);
const char *rota_balance_policy(size_t index);

/* Mistakes to put in, to see that the tests find them. */
struct rota_balance_plants {
    const struct rota_balancer_rule *rule; /* instead of the policy's; kept */
    bool leaks_cancelled;                  /* a cancelled try is not reported */
    bool hides_failures;                   /* a failed try is reported as cancelled */
    bool hedges_for_free;                  /* the budget of hedges is not asked */
};

struct rota_balance_options {
    const struct rota_balance_scenario *scenario; /* kept */
    const char *policy;                           /* a name from above */
    uint64_t seed;
    uint32_t n_calls; /* 0 means 60,000; the first tenth is not counted */
    bool hedges;
    bool retries_freely; /* without a budget; otherwise 20 % and a few per second */
    struct rota_balance_plants plants;
};

struct rota_balance_result {
    uint64_t n_calls, n_failed; /* counted ones */
    int64_t mean_us, p50_us, p99_us, p999_us;
    double wasted;     /* tries per call that failed */
    double hedged;     /* hedges per call */
    double imbalance;  /* tries of the busiest replica over the mean */
    double n_odd;      /* tries on replica 0, per call */
    double final_part; /* of the calls of the last fifth, those that succeeded */
    double final_odd;  /* of the tries of the last fifth, those on replica 0 */
    uint64_t leaked;   /* tries still counted in flight when all calls are over */
    uint64_t n_ejections;
    uint64_t n_events;
};

/* Run one scenario under one policy. The same options give the same result. */
enum rota_code rota_balance_run(const struct rota_balance_options *options,
                                struct rota_balance_result *result, struct rota_error *error);
