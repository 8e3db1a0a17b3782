/* The main() of a simulation: many seeds, planted bugs, replay, results as TAP.
 *
 *     sim_NAME                    all seeds, one of them twice, then every plant
 *     sim_NAME --seed 17 --trace  one seed again, with all that happened
 *     sim_NAME --first 1000 --seeds 500
 *     sim_NAME --plant all        every plant; --plant NAME: that one
 *     sim_NAME --scenario NAME    a scenario alone
 *
 * A plant is a bug that the simulation puts in on purpose. It passes only when
 * some seed catches it: this is what shows that the checks can fail. A scenario is a
 * world in which something certain happens; each is run with a few seeds. */
#pragma once

#include "sim/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* With a sanitizer a seed takes several times as long: a fourth of them is run, to save time. What
 * only the others would show it misses; without a sanitizer all are run. */
#if defined(__SANITIZE_ADDRESS__)
enum { SIM_FEWER = 4 };
#else
enum { SIM_FEWER = 1 };
#endif

struct sim_plant {
    const char *name; /* the plant's number is its place in the list, from 1 */
    const char *what; /* what is done wrong */
};

struct sim_scenario {
    const char *name; /* numbered like plants */
    const char *what; /* what happens */
};

/* One run: the first part is given, sim_case_end() fills in the second. */
struct sim_case {
    uint64_t seed;
    int plant;    /* 0: none */
    int scenario; /* 0: none, all by chance */
    void (*on_trace)(void *data, const struct rota_sim_event *event);

    char violation[ROTA_SIM_TEXT_MAX]; /* empty: all was well */
    rota_time ended_at;
    uint64_t n_events, hash;
};

struct sim_suite {
    const char *name;
    uint64_t n_seeds;       /* of a run without arguments */
    uint64_t n_plant_seeds; /* a plant must be caught within these; 0: n_seeds */
    const struct sim_plant *plants;
    int n_plants;
    const struct sim_scenario *scenarios;
    int n_scenarios;
    uint64_t n_scenario_seeds;
    void (*run)(struct sim_case *run);
};

/* Make a world, or give up: there is nothing to simulate without one. */
static inline struct rota_sim *sim_case_new(const struct sim_case *run,
                                            struct rota_sim_options options)
{
    struct rota_sim *sim;
    struct rota_error error;
    options.seed = run->seed;
    options.on_trace = run->on_trace;
    if (rota_sim_new(&options, &sim, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
    return sim;
}

/* Note how the run went. Takes `sim`. */
static inline void sim_case_end(struct sim_case *run, struct rota_sim *sim)
{
    const char *violation = rota_sim_violation(sim);
    snprintf(run->violation, sizeof run->violation, "%s", violation ? violation : "");
    run->ended_at = rota_sim_now(sim);
    run->n_events = rota_sim_n_events(sim);
    run->hash = rota_sim_trace_hash(sim);
    rota_sim_free(sim);
}

/* --- the runner --- */

struct sim_runner {
    const struct sim_suite *suite;
    uint64_t first, n_seeds, n_plant_seeds, n_scenario_seeds;
    int scenario; /* the one to run; 0: all, -1: seeds and plants only */
    bool has_seeds, is_one_seed, is_traced;
    int n_results, n_failed;
    uint64_t n_events;
    double virtual_s;
};

static inline void sim_print_trace(void *data, const struct rota_sim_event *event)
{
    char text[ROTA_SIM_TEXT_MAX];
    (void)data;
    printf("# %s\n", rota_sim_event_format(event, text));
}

static inline struct sim_case sim_run_case(struct sim_runner *runner, struct sim_case run)
{
    if (runner->is_traced)
        run.on_trace = sim_print_trace;
    runner->suite->run(&run);
    runner->n_events += run.n_events;
    runner->virtual_s += (double)run.ended_at / (double)ROTA_SEC;
    return run;
}

static inline struct sim_case sim_run_one(struct sim_runner *runner, uint64_t seed, int plant)
{
    return sim_run_case(runner, (struct sim_case){.seed = seed, .plant = plant});
}

static inline void sim_result(struct sim_runner *runner, bool is_fine, const char *what)
{
    runner->n_failed += !is_fine;
    printf("%s %d - %s\n", is_fine ? "ok" : "not ok", ++runner->n_results, what);
    fflush(stdout);
}

static inline void sim_print_violation(const struct sim_runner *runner, const struct sim_case *run)
{
    const struct sim_suite *suite = runner->suite;
    printf("# %s: seed %llu, at %.9f s, after %llu events\n", run->violation,
           (unsigned long long)run->seed, (double)run->ended_at / (double)ROTA_SEC,
           (unsigned long long)run->n_events);
    printf("# replay: %s --seed %llu%s%s%s%s --trace\n", suite->name, (unsigned long long)run->seed,
           run->plant ? " --plant " : "", run->plant ? suite->plants[run->plant - 1].name : "",
           run->scenario ? " --scenario " : "",
           run->scenario ? suite->scenarios[run->scenario - 1].name : "");
}

static inline void sim_run_seeds(struct sim_runner *runner)
{
    enum { SHOWN_MAX = 5 };
    int n_bad = 0;
    char what[128];
    for (uint64_t i = 0; i < runner->n_seeds && n_bad < SHOWN_MAX; i++) {
        struct sim_case run = sim_run_one(runner, runner->first + i, 0);
        if (!run.violation[0])
            continue;
        n_bad++;
        sim_print_violation(runner, &run);
    }
    snprintf(what, sizeof what, "%llu seeds from %llu", (unsigned long long)runner->n_seeds,
             (unsigned long long)runner->first);
    sim_result(runner, n_bad == 0, what);
}

static inline void sim_run_twice(struct sim_runner *runner)
{
    struct sim_case a = sim_run_one(runner, runner->first, 0);
    struct sim_case b = sim_run_one(runner, runner->first, 0);
    struct sim_case c = sim_run_one(runner, runner->first + 1, 0);
    sim_result(runner, a.hash == b.hash && a.n_events == b.n_events,
               "a seed run again has the same trace");
    sim_result(runner, a.hash != c.hash, "another seed has another trace");
}

static inline void sim_run_plant(struct sim_runner *runner, int plant)
{
    const struct sim_plant *bug = &runner->suite->plants[plant - 1];
    char what[512];
    for (uint64_t i = 0; i < runner->n_plant_seeds; i++) {
        struct sim_case run = sim_run_one(runner, runner->first + i, plant);
        if (!run.violation[0])
            continue;
        sim_print_violation(runner, &run);
        snprintf(what, sizeof what, "plant %s (%s) is caught by seed %llu", bug->name, bug->what,
                 (unsigned long long)run.seed);
        sim_result(runner, true, what);
        return;
    }
    snprintf(what, sizeof what, "plant %s (%s) is not caught by %llu seeds from %llu", bug->name,
             bug->what, (unsigned long long)runner->n_plant_seeds,
             (unsigned long long)runner->first);
    sim_result(runner, false, what);
}

static inline void sim_run_scenario(struct sim_runner *runner, int scenario)
{
    const struct sim_scenario *what = &runner->suite->scenarios[scenario - 1];
    char text[512];
    int n_bad = 0;
    for (uint64_t i = 0; i < runner->n_scenario_seeds && n_bad == 0; i++) {
        struct sim_case run = sim_run_case(
            runner, (struct sim_case){.seed = runner->first + i, .scenario = scenario});
        n_bad += run.violation[0] != '\0';
        if (run.violation[0])
            sim_print_violation(runner, &run);
    }
    snprintf(text, sizeof text, "scenario %s (%s)", what->name, what->what);
    sim_result(runner, n_bad == 0, text);
}

static inline _Noreturn void sim_usage(const struct sim_suite *suite, int code)
{
    FILE *out = code ? stderr : stdout;
    fprintf(out,
            "usage: %s [--seed N | --first N --seeds N] [--trace] [--plant NAME|all]\n"
            "  --seed N      run this seed alone\n"
            "  --first N     begin with this seed (1)\n"
            "  --seeds N     run this many (%llu)\n"
            "  --trace       print all that happens\n"
            "  --plant NAME  put a bug in; passes when it is caught:\n",
            suite->name, (unsigned long long)suite->n_seeds);
    for (int i = 0; i < suite->n_plants; i++)
        fprintf(out, "      %-16s %s\n", suite->plants[i].name, suite->plants[i].what);
    if (suite->n_scenarios > 0)
        fprintf(out, "  --scenario NAME|all\n");
    for (int i = 0; i < suite->n_scenarios; i++)
        fprintf(out, "      %-16s %s\n", suite->scenarios[i].name, suite->scenarios[i].what);
    exit(code);
}

static inline uint64_t sim_number(const struct sim_suite *suite, const char *option,
                                  const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = text ? strtoull(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || errno) {
        fprintf(stderr, "%s: %s needs a whole number\n", suite->name, option);
        exit(2);
    }
    return number;
}

/* The plant's number, 0 for all. */
static inline int sim_find_plant(const struct sim_suite *suite, const char *name)
{
    if (name && strcmp(name, "all") == 0)
        return 0;
    for (int i = 0; name && i < suite->n_plants; i++)
        if (strcmp(suite->plants[i].name, name) == 0)
            return i + 1;
    fprintf(stderr, "%s: no plant is called %s\n", suite->name, name ? name : "nothing");
    exit(2);
}

/* The scenario's number, 0 for all. */
static inline int sim_find_scenario(const struct sim_suite *suite, const char *name)
{
    if (name && strcmp(name, "all") == 0)
        return 0;
    for (int i = 0; name && i < suite->n_scenarios; i++)
        if (strcmp(suite->scenarios[i].name, name) == 0)
            return i + 1;
    fprintf(stderr, "%s: no scenario is called %s\n", suite->name, name ? name : "nothing");
    exit(2);
}

/* Fill in the runner from the arguments; returns the plant to run, 0 for all
 * of them, -1 for a run that is not about plants only. */
static inline int sim_parse(struct sim_runner *runner, int argc, char **argv)
{
    const struct sim_suite *suite = runner->suite;
    int plant = -1;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(option, "--help") == 0)
            sim_usage(suite, 0);
        if (strcmp(option, "--trace") == 0) {
            runner->is_traced = true;
            continue;
        }
        if (strcmp(option, "--seed") == 0) {
            runner->first = sim_number(suite, option, value);
            runner->n_seeds = runner->n_plant_seeds = 1;
            runner->has_seeds = runner->is_one_seed = true;
        } else if (strcmp(option, "--first") == 0) {
            runner->first = sim_number(suite, option, value);
        } else if (strcmp(option, "--seeds") == 0) {
            runner->n_seeds = runner->n_plant_seeds = sim_number(suite, option, value);
            runner->has_seeds = true;
        } else if (strcmp(option, "--plant") == 0) {
            plant = sim_find_plant(suite, value);
        } else if (strcmp(option, "--scenario") == 0) {
            runner->scenario = sim_find_scenario(suite, value);
        } else {
            fprintf(stderr, "%s: unknown option %s\n", suite->name, option);
            sim_usage(suite, 2);
        }
        i++;
    }
    if (runner->scenario >= 0 && runner->has_seeds)
        runner->n_scenario_seeds = runner->n_seeds;
    return plant;
}

static inline int sim_main(int argc, char **argv, const struct sim_suite *suite)
{
    struct sim_runner runner = {
        .suite = suite,
        .first = 1,
        .n_seeds = suite->n_seeds > SIM_FEWER ? suite->n_seeds / SIM_FEWER : suite->n_seeds,
        .n_plant_seeds = suite->n_plant_seeds ? suite->n_plant_seeds : suite->n_seeds,
        .n_scenario_seeds = suite->n_scenario_seeds,
        .scenario = -1,
    };
    int plant = sim_parse(&runner, argc, argv);
    clock_t began = clock();

    bool is_all = plant < 0 && runner.scenario < 0;
    if (is_all)
        sim_run_seeds(&runner);
    if (is_all && !runner.is_one_seed)
        sim_run_twice(&runner);
    if (runner.scenario > 0)
        sim_run_scenario(&runner, runner.scenario);
    else if (runner.scenario == 0 || (is_all && !runner.is_one_seed))
        for (int i = 1; i <= suite->n_scenarios; i++)
            sim_run_scenario(&runner, i);
    if (plant > 0)
        sim_run_plant(&runner, plant);
    else if (plant == 0 || (is_all && !runner.is_one_seed))
        for (int i = 1; i <= suite->n_plants; i++)
            sim_run_plant(&runner, i);

    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("# %llu events over %.0f s of virtual time in %.2f s of processor time\n",
           (unsigned long long)runner.n_events, runner.virtual_s, seconds);
    printf("1..%d\n", runner.n_results);
    return runner.n_failed > 0;
}
