/* Policies of the balancer in a cluster: rota against the others, on ratios.
 *
 * Absolute times depend on the model, so each limit here is a ratio to another
 * rule under the same load from the same seed. Hedges and budgets are in it, as
 * is what happens when all replicas fail.
 *
 * A seed judges one claim, so that many seeds are cheap: seeds that follow each other judge
 * them all in turn. Chance alone breaks a limit in one run of some hundred, so a limit that a
 * run breaks is judged by five, from seeds made of the first one: it is broken if most of them
 * break it. */
#include "sim/balance.h"

#include "core/call/balancer_rule.h"
#include "even_world.h"
#include "sim_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CALLS = 30000, N_CALLS_OF_MANY = 15000 };

enum plant {
    PLANT_NONE,
    PLANT_LEAK,
    PLANT_BLIND,
    PLANT_UNKNOWN,
    PLANT_EXPIRED,
    PLANT_NO_PROBE,
    PLANT_FREE_HEDGE,
    PLANT_NO_PANIC,
    PLANT_GRUDGE,
    PLANT_NO_BUDGET,
    PLANT_TOGETHER,
    PLANT_FIRST_SAMPLE,
    PLANT_NO_NOISE,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"leak", "a cancelled try stays counted as in flight"},
    {"blind", "failures are not told to the balancer"},
    {"unknown", "an unknown replica scores 0"},
    {"expired", "a replica not heard of for a second scores 0"},
    {"no-probe", "an ejected replica is never tried again"},
    {"free-hedge", "hedges have no budget"},
    {"no-panic", "when all are ejected there is no choice"},
    {"grudge", "answers do not make up for failures"},
    {"no-budget", "retries have no budget"},
    {"together", "tries in flight together count as so many samples"},
    {"first-sample", "the first sample of a replica is believed at once"},
    {"no-noise", "a difference of some microseconds counts, if the ratio is large enough"},
};

/* --- planted rules: rota with one thing wrong --- */

static size_t choose_unknown(struct rota_balancer *balancer, rota_time now,
                             const struct rota_balancer_field *field)
{
    for (size_t i = 0; i < field->n; i++)
        if (field->replicas[i]->rota.service_us == 0)
            return i;
    return rota_policy_rota.choose(balancer, now, field);
}

static size_t choose_expired(struct rota_balancer *balancer, rota_time now,
                             const struct rota_balancer_field *field)
{
    for (size_t i = 0; i < field->n; i++)
        if (field->replicas[i]->work == 0 && now - field->replicas[i]->rota.service_at > ROTA_SEC)
            return i;
    return rota_policy_rota.choose(balancer, now, field);
}

static size_t choose_no_probe(struct rota_balancer *balancer, rota_time now,
                              const struct rota_balancer_field *field)
{
    for (size_t i = 0; i < field->n; i++)
        field->replicas[i]->rota.open_until = ROTA_TIME_NEVER;
    return rota_policy_rota.choose(balancer, now, field);
}

static size_t choose_no_panic(struct rota_balancer *balancer, rota_time now,
                              const struct rota_balancer_field *field)
{
    size_t n_out = 0;
    for (size_t i = 0; i < field->n; i++)
        n_out += field->replicas[i]->rota.circuit == ROTA_CIRCUIT_OPEN &&
                 now < field->replicas[i]->rota.open_until;
    return n_out == field->n ? ROTA_BALANCER_NONE : rota_policy_rota.choose(balancer, now, field);
}

static void end_with_grudge(struct rota_balancer *balancer, rota_time now,
                            struct rota_balancer_replica *replica,
                            const struct rota_balancer_end *end)
{
    double penalty = replica->rota.penalty;
    bool was_closed = replica->rota.circuit == ROTA_CIRCUIT_CLOSED;
    rota_policy_rota.on_end(balancer, now, replica, end);
    if (end->outcome == ROTA_OUTCOME_OK && was_closed)
        replica->rota.penalty = penalty;
}

static void end_with_first_sample(struct rota_balancer *balancer, rota_time now,
                                  struct rota_balancer_replica *replica,
                                  const struct rota_balancer_end *end)
{
    rota_policy_rota.on_end(balancer, now, replica, end);
    replica->rota.n_samples = 20;
}

static void end_with_all_together(struct rota_balancer *balancer, rota_time now,
                                  struct rota_balancer_replica *replica,
                                  const struct rota_balancer_end *end)
{
    if (replica->rota.n_samples < 3)
        replica->rota.service_at = now - end->latency; /* as if it had been sent after that */
    rota_policy_rota.on_end(balancer, now, replica, end);
}

/* As if times were in nanoseconds: then what is noise in microseconds is none. */
static size_t choose_without_noise(struct rota_balancer *balancer, rota_time now,
                                   const struct rota_balancer_field *field)
{
    for (size_t i = 0; i < field->n; i++)
        field->replicas[i]->rota.service_us *= 1000;
    size_t chosen = rota_policy_rota.choose(balancer, now, field);
    for (size_t i = 0; i < field->n; i++)
        field->replicas[i]->rota.service_us /= 1000;
    return chosen;
}

static struct rota_balancer_rule rule_of(int plant)
{
    struct rota_balancer_rule rule = rota_policy_rota;
    if (plant == PLANT_UNKNOWN)
        rule.choose = choose_unknown;
    if (plant == PLANT_EXPIRED)
        rule.choose = choose_expired;
    if (plant == PLANT_NO_PROBE)
        rule.choose = choose_no_probe;
    if (plant == PLANT_NO_PANIC)
        rule.choose = choose_no_panic;
    if (plant == PLANT_GRUDGE)
        rule.on_end = end_with_grudge;
    if (plant == PLANT_TOGETHER)
        rule.on_end = end_with_all_together;
    if (plant == PLANT_FIRST_SAMPLE)
        rule.on_end = end_with_first_sample;
    return rule;
}

/* --- running --- */

struct trial {
    struct sim_case *run;
    uint64_t seed;
    uint32_t n_calls;
    uint64_t part;                  /* of several runs from one seed */
    struct rota_balancer_rule rule; /* with the plant in it */
};

static const struct rota_balance_scenario *find(const char *name)
{
    for (size_t i = 0; i < rota_balance_n_scenarios(); i++)
        if (strcmp(rota_balance_scenario(i)->name, name) == 0)
            return rota_balance_scenario(i);
    fprintf(stderr, "no scenario is called %s\n", name);
    exit(2);
}

/* The plant is in rota's runs only; what it is compared with stays sound. */
static struct rota_balance_result run_one(struct trial *trial,
                                          const struct rota_balance_scenario *scenario,
                                          const char *policy, bool hedges)
{
    struct rota_balance_options options = {.scenario = scenario,
                                           .policy = policy,
                                           .seed = trial->seed ^ trial->part << 60,
                                           .n_calls = trial->n_calls,
                                           .hedges = hedges,
                                           .retries_freely = true};
    struct rota_balance_result result;
    struct rota_error error;
    bool is_burst = scenario->trouble == ROTA_BALANCE_BURST;
    if (is_burst) {
        options.n_calls = 4000;
        options.retries_freely = trial->run->plant == PLANT_NO_BUDGET;
    }
    if (strcmp(policy, "rota") == 0)
        options.plants =
            (struct rota_balance_plants){.rule = &trial->rule,
                                         .leaks_cancelled = trial->run->plant == PLANT_LEAK,
                                         .hides_failures = trial->run->plant == PLANT_BLIND,
                                         .hedges_for_free = trial->run->plant == PLANT_FREE_HEDGE};
    if (rota_balance_run(&options, &result, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
    trial->run->n_events += result.n_events;
    trial->run->hash = trial->run->hash * 31 + (uint64_t)result.mean_us;
    return result;
}

/* The first sentence is kept. */
static void demand(struct trial *trial, bool is_so, const char *scenario, const char *what,
                   double is, double limit)
{
    if (!is_so && !trial->run->violation[0])
        snprintf(trial->run->violation, sizeof trial->run->violation,
                 "%s: %s is %.4g, the limit %.4g", scenario, what, is, limit);
}

static void at_most(struct trial *trial, const char *scenario, const char *what, double is,
                    double limit)
{
    demand(trial, is <= limit, scenario, what, is, limit);
}

static void at_least(struct trial *trial, const char *scenario, const char *what, double is,
                     double limit)
{
    demand(trial, is >= limit, scenario, what, is, limit);
}

/* --- what must hold --- */

static void one_slow_replica(struct trial *trial)
{
    const char *const names[] = {"slow_4", "slow_32"};
    for (int i = 0; i < 2; i++) {
        const struct rota_balance_scenario *scenario = find(names[i]);
        enum { N_RUNS = 4 };
        double over_oracle = 0, over_rota = 0;
        for (uint64_t part = 0; part < N_RUNS; part++) {
            trial->part = part;
            double rota = (double)run_one(trial, scenario, "rota", false).p99_us;
            double oracle = (double)run_one(trial, scenario, "oracle", false).p99_us;
            double look_aside = (double)run_one(trial, scenario, "look_aside", false).p99_us;
            over_oracle += rota / oracle / N_RUNS;
            over_rota += look_aside / rota / N_RUNS;
        }
        trial->part = 0;
        at_most(trial, names[i], "p99 over the oracle's", over_oracle, i ? 1.3 : 1.2);
        at_least(trial, names[i], "look_aside's p99 over rota's", over_rota, i ? 3 : 1.8);
    }
}

static void one_fails_and_comes_back(struct trial *trial)
{
    struct rota_balance_result fails = run_one(trial, find("fails"), "rota", false);
    at_most(trial, "fails", "wasted tries per call", fails.wasted, 0.02);
    at_most(trial, "fails", "failed calls", (double)fails.n_failed, 0);
    struct rota_balance_result back = run_one(trial, find("recovers"), "rota", false);
    at_least(trial, "recovers", "its share at the end", back.final_odd, 0.08);
}

/* All are used again soon after they are back; least_in_flight never stops. */
static void each_restarts_in_turn(struct trial *trial)
{
    const struct rota_balance_scenario *scenario = find("restarts");
    struct rota_balance_result rota = run_one(trial, scenario, "rota", false);
    struct rota_balance_result least = run_one(trial, scenario, "least_in_flight", false);
    at_most(trial, "restarts", "p50 over least_in_flight's",
            (double)rota.p50_us / (double)least.p50_us, 1.17);
    at_most(trial, "restarts", "mean over least_in_flight's",
            (double)rota.mean_us / (double)least.mean_us, 1);
    at_most(trial, "restarts", "wasted tries per call", rota.wasted, 0.02);
    struct rota_balance_result flaky = run_one(trial, find("flaky"), "rota", false);
    at_most(trial, "flaky", "wasted tries per call", flaky.wasted, 0.02);
}

static void all_fail_for_a_while(struct trial *trial)
{
    struct rota_balance_result result = run_one(trial, find("blackout"), "rota", false);
    at_most(trial, "blackout", "failed part of calls",
            (double)result.n_failed / (double)result.n_calls, 0.22);
}

static void one_freezes(struct trial *trial)
{
    struct rota_balance_result bare = run_one(trial, find("freezes"), "rota", false);
    struct rota_balance_result hedged = run_one(trial, find("freezes"), "rota", true);
    at_most(trial, "freezes", "p99.9 with hedges over that without",
            (double)hedged.p999_us / (double)bare.p999_us, 0.15);
    at_most(trial, "freezes", "hedges per call", hedged.hedged, 0.055);
    at_most(trial, "freezes", "tries that stay counted", (double)hedged.leaked, 0);
    struct rota_balance_result flips = run_one(trial, find("flips"), "rota", true);
    at_most(trial, "flips", "hedges per call", flips.hedged, 0.055);
}

/* Three tries of each call would keep the one replica busy forever. In one run of thirty a queue
 * that grew by chance costs some calls at the end; in the mean of several that hardly shows, and
 * what never recovers does. */
static void a_burst_ends(struct trial *trial)
{
    enum { N_RUNS = 4 };
    double part = 0;
    for (trial->part = 0; trial->part < N_RUNS; trial->part++)
        part += run_one(trial, find("burst"), "rota", false).final_part / N_RUNS;
    trial->part = 0;
    at_least(trial, "burst", "succeeding part of calls long after it", part, 0.75);
}

/* Whatever few calls at a time, and the pauses of busy machines, make of the first samples. One
 * run of ten thousand is a little more than a tenth off, because one replica met most of the
 * pauses: so one of the twelve may be, but not by a fifth. */
static void equal_replicas_get_equal_shares(struct trial *trial)
{
    const int n_callers[] = {1, 2, 16};
    struct rota_balancer_rule rule = trial->rule;
    if (trial->run->plant == PLANT_NO_NOISE)
        rule.choose = choose_without_noise;
    int n_off = 0;
    for (int i = 0; i < 12; i++) {
        struct even_options options = {.seed = trial->seed,
                                       .n_callers = n_callers[i / 4],
                                       .is_warm = i % 2,
                                       .is_paced = i % 4 / 2,
                                       .rule = &rule};
        char name[64];
        snprintf(name, sizeof name, "%d at a time, %s, %s", options.n_callers,
                 options.is_warm ? "warm" : "cold", options.is_paced ? "paced" : "unpaced");
        double off = even_run(&options);
        n_off += off > 0.1;
        at_most(trial, name, "largest difference from an even share", off, n_off > 1 ? 0.1 : 0.2);
    }
}

/* Left out to save time: random and look_aside_original, which others outdo. */
static const char *const RULES[] = {"look_aside", "round_robin", "least_in_flight", "p2c",
                                    "peak_ewma"};

/* Against the best rule that needs no more than a client has. Which one that is
 * differs from scenario to scenario; rota is to be near it in all of them.
 *
 * Not so at p99.9 where a replica is paused and nobody hedges: peak_ewma then
 * wins by hardly using that replica any more, well or not. Hedges are for that.
 * Not so at p50 with slow replicas, where the price is p99, nor with a replica that
 * is flaky, where it is tries that fail. docs/calls.md has the figures. */
struct ratios {
    double mean, p50, p99, p999;
};

/* Of rota's times to the best of the other rules'. */
static struct ratios compare_rules(struct trial *trial,
                                   const struct rota_balance_scenario *scenario, bool hedges)
{
    struct ratios best = {0};
    for (size_t p = 0; p < sizeof RULES / sizeof *RULES; p++) {
        struct rota_balance_result result = run_one(trial, scenario, RULES[p], hedges);
        best.mean = p == 0 || result.mean_us < best.mean ? (double)result.mean_us : best.mean;
        best.p50 = p == 0 || result.p50_us < best.p50 ? (double)result.p50_us : best.p50;
        best.p99 = p == 0 || result.p99_us < best.p99 ? (double)result.p99_us : best.p99;
        best.p999 = p == 0 || result.p999_us < best.p999 ? (double)result.p999_us : best.p999;
    }
    struct rota_balance_result rota = run_one(trial, scenario, "rota", hedges);
    return (struct ratios){(double)rota.mean_us / best.mean, (double)rota.p50_us / best.p50,
                           (double)rota.p99_us / best.p99, (double)rota.p999_us / best.p999};
}

static void never_far_from_the_best_simple_rule(struct trial *trial,
                                                const struct rota_balance_scenario *scenario,
                                                bool hedges)
{
    bool is_slow_of_2 = strcmp(scenario->name, "slow_of_2") == 0;
    bool is_slow = scenario->trouble == ROTA_BALANCE_STEADY && scenario->slowness > 1;
    bool is_noisy = scenario->trouble == ROTA_BALANCE_FLIPS || scenario->n_replicas == 20;
    bool is_hedged_tail = hedges && (scenario->trouble == ROTA_BALANCE_FREEZES ||
                                     scenario->trouble == ROTA_BALANCE_LEAKS);
    uint64_t n_runs = is_hedged_tail ? 4 : 1; /* p99.9 of one run is that of 15 calls */
    struct ratios sum = {0};
    for (trial->part = 0; trial->part < n_runs; trial->part++) {
        struct ratios one = compare_rules(trial, scenario, hedges);
        sum = (struct ratios){sum.mean + one.mean, sum.p50 + one.p50, sum.p99 + one.p99,
                              sum.p999 + one.p999};
    }
    trial->part = 0;
    double n = (double)n_runs;
    at_most(trial, scenario->name, "mean over the best rule's", sum.mean / n, 1.25);
    at_most(trial, scenario->name, "p50 over the best rule's", sum.p50 / n,
            is_slow_of_2 ? 1.55
            : is_slow    ? 1.4
                         : 1.25);
    at_most(trial, scenario->name, "p99 over the best rule's", sum.p99 / n, is_noisy ? 1.45 : 1.3);
    if (is_hedged_tail)
        at_most(trial, scenario->name, "p99.9 with hedges over the best rule's", sum.p999 / n,
                scenario->trouble == ROTA_BALANCE_LEAKS ? 2 : 1.5);
}

static void (*const CLAIMS[])(struct trial *trial) = {
    equal_replicas_get_equal_shares, /* the first one: see run() */
    one_slow_replica,
    one_fails_and_comes_back,
    each_restarts_in_turn,
    one_freezes,
    all_fail_for_a_while,
    a_burst_ends,
};
enum { N_CLAIMS = sizeof CLAIMS / sizeof *CLAIMS };

/* In the others there is nothing to choose, or see above. */
static size_t find_comparable(const struct rota_balance_scenario **found, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < rota_balance_n_scenarios() && n < max; i++) {
        const struct rota_balance_scenario *scenario = rota_balance_scenario(i);
        if (scenario->trouble != ROTA_BALANCE_FLAKY && scenario->trouble != ROTA_BALANCE_BLACKOUT &&
            scenario->trouble != ROTA_BALANCE_BURST)
            found[n++] = scenario;
    }
    return n;
}

enum { SCENARIOS_MAX = 64 };

/* Plants that only shares show are judged by them alone. */
static size_t claim_of(const struct sim_case *run)
{
    if (run->plant == PLANT_TOGETHER || run->plant == PLANT_NO_NOISE)
        return 0;
    const struct rota_balance_scenario *scenarios[SCENARIOS_MAX];
    size_t n_compared = run->plant ? 0 : 2 * find_comparable(scenarios, SCENARIOS_MAX);
    return run->seed % (N_CLAIMS + n_compared);
}

static void judge_claim(struct trial *trial)
{
    const struct rota_balance_scenario *scenarios[SCENARIOS_MAX];
    size_t n_scenarios = find_comparable(scenarios, SCENARIOS_MAX);
    size_t claim = claim_of(trial->run);
    if (claim < N_CLAIMS) {
        trial->n_calls = N_CALLS;
        CLAIMS[claim](trial);
        return;
    }
    trial->n_calls = N_CALLS_OF_MANY;
    claim -= N_CLAIMS;
    never_far_from_the_best_simple_rule(trial, scenarios[claim % n_scenarios],
                                        claim >= n_scenarios);
}

/* What the first run broke is reported, if most of five runs break the claim. Shares are judged by
 * one run: a replica that starves by chance starves. */
static void run(struct sim_case *run)
{
    enum { N_RUNS = 5 };
    struct trial trial = {.run = run, .seed = run->seed, .rule = rule_of(run->plant)};
    judge_claim(&trial);
    if (!run->violation[0] || claim_of(run) == 0)
        return;

    char first[sizeof run->violation];
    memcpy(first, run->violation, sizeof first);
    struct rota_random random;
    rota_random_init(&random, run->seed);
    int n_broken = 1;
    for (int i = 1; i < N_RUNS; i++) {
        run->violation[0] = '\0';
        trial.seed = rota_random_next(&random);
        judge_claim(&trial);
        n_broken += run->violation[0] != '\0';
    }
    snprintf(run->violation, sizeof run->violation, "%s", n_broken > N_RUNS / 2 ? first : "");
}

int main(int argc, char **argv)
{
    const struct sim_suite suite = {
        .name = "sim_balance",
        .n_seeds = 80,
        .n_plant_seeds = 140,
        .kept = {264833424, 877820223443, 877820242790, 802307108722},
        .plants = plants,
        .n_plants = N_PLANTS - 1,
        .run = run,
    };
    return sim_main(argc, argv, &suite);
}
