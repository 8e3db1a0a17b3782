/* The main() of a simulation: many seeds, planted bugs, replay, results as TAP.
 *
 *     sim_NAME                    fixed seeds, kept seeds, scenarios, every plant, fresh seeds
 *     sim_NAME --seed 17 --trace  one seed again, with all that happened
 *     sim_NAME --first 1000 --seeds 500
 *     sim_NAME --fresh 60         fresh seeds alone, for 60 s of CPU time
 *     sim_NAME --fresh-seeds 500  exactly 500 fresh seeds; --first 1000: from there on
 *     sim_NAME --plant all        every plant; --plant NAME: that one
 *     sim_NAME --scenario NAME    a scenario alone
 *
 * A plant is a bug that the simulation puts in on purpose. It passes only when
 * some seed catches it: this is what shows that the checks can fail. A scenario is a
 * world in which something certain happens; each is run with a few seeds.
 *
 * A kept seed is one that failed once. Fresh seeds are consecutive from a random first one,
 * so that no two runs look at the same ones; the run prints the first before it starts them.
 * Every failure prints the command that replays it, also when the program crashes, when a
 * sanitizer ends it and when it is stopped because it hangs. */
#pragma once

#include "sim/sim.h"

enum { SIM_KEPT_MAX = 64 };

/* With a sanitizer everything takes several times as long. */
#if defined(__SANITIZE_ADDRESS__)
#define SIM_IS_SLOW 1
#else
#define SIM_IS_SLOW 0
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
    uint64_t n_seeds;            /* of a run without arguments */
    uint64_t n_plant_seeds;      /* a plant must be caught within these; 0: n_seeds */
    uint64_t kept[SIM_KEPT_MAX]; /* failed once, or catch what few others do; 0 ends it */
    const struct sim_plant *plants;
    int n_plants;
    const struct sim_scenario *scenarios;
    int n_scenarios;
    uint64_t n_scenario_seeds;
    void (*run)(struct sim_case *run);
};

/* Make a world, or give up: there is nothing to simulate without one. */
struct rota_sim *sim_case_new(const struct sim_case *run, struct rota_sim_options options);

/* Note how the run went. Takes `sim`. */
void sim_case_end(struct sim_case *run, struct rota_sim *sim);

/* What a simulation returns from its main(). */
int sim_main(int argc, char **argv, const struct sim_suite *suite);
