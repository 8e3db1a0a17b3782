#include "sim_main.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* A fourth of the seeds is run where each takes several times as long, and no plants, which show
 * what a simulation sees, to save time. Without a sanitizer all are run. */
enum { SIM_FEWER = SIM_IS_SLOW ? 4 : 1 };

/* Seconds of fresh seeds in a run without arguments; the environment can ask for more. */
#define SIM_FRESH_DEFAULT_S 2
#define SIM_FRESH_VARIABLE  "ROTA_SIM_FRESH_S"
/* Fresh seeds start below this, so that a person can still read them. */
#define SIM_FRESH_FIRST_MAX 1000000000000ull

struct rota_sim *sim_case_new(const struct sim_case *run, struct rota_sim_options options)
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

void sim_case_end(struct sim_case *run, struct rota_sim *sim)
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
    const char *program; /* the path that replays a case */
    uint64_t first, n_seeds, n_plant_seeds, n_scenario_seeds;
    double fresh_s;         /* CPU time to spend on fresh seeds */
    uint64_t n_fresh_seeds; /* run this many instead; 0: as many as fit in the time */
    int scenario;           /* the one to run; 0: all, -1: seeds and plants only */
    bool has_first, has_seeds, is_one_seed, is_traced, is_fresh_only;
    int n_results, n_failed;
    uint64_t n_events;
    double virtual_s;
};

static void sim_print_trace(void *data, const struct rota_sim_event *event)
{
    char text[ROTA_SIM_TEXT_MAX];
    (void)data;
    printf("# %s\n", rota_sim_event_format(event, text));
}

typedef char sim_command[512];

/* The command that replays a case, as a line of output. */
static const char *sim_format_replay(const struct sim_runner *runner, const struct sim_case *run,
                                     sim_command command)
{
    const struct sim_suite *suite = runner->suite;
    snprintf(command, sizeof(sim_command), "# replay: %s --seed %llu%s%s%s%s --trace\n",
             runner->program, (unsigned long long)run->seed, run->plant ? " --plant " : "",
             run->plant ? suite->plants[run->plant - 1].name : "",
             run->scenario ? " --scenario " : "",
             run->scenario ? suite->scenarios[run->scenario - 1].name : "");
    return command;
}

/* Replays the case that started last; NULL when all are done. */
static const char *volatile sim_running;

/* Safe in a signal handler. */
static void sim_print_running(void)
{
    static const char before[] = "\n# the program was ended; its last case:\n";
    const char *replay = sim_running;
    sim_running = NULL;
    if (replay) {
        (void)!write(STDOUT_FILENO, before, sizeof before - 1);
        (void)!write(STDOUT_FILENO, replay, strlen(replay));
    }
}

static void sim_on_signal(int number)
{
    sim_print_running();
    raise(number); /* SA_RESETHAND: this time it ends the program */
}

/* A crash, a sanitizer's report, or SIGTERM for a program that hangs. A sanitizer has handlers
 * of its own for bad addresses. */
#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_set_death_callback(void (*callback)(void));
#define SIM_SIGNALS SIGABRT, SIGTERM
#else
#define __sanitizer_set_death_callback(callback)
#define SIM_SIGNALS SIGABRT, SIGTERM, SIGSEGV, SIGBUS, SIGFPE, SIGILL
#endif

static void sim_watch_for_the_end(void)
{
    static const int signals[] = {SIM_SIGNALS};
    __sanitizer_set_death_callback(sim_print_running);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i],
                  &(struct sigaction){.sa_handler = sim_on_signal,
                                      .sa_flags = (int)SA_RESETHAND | SA_NODEFER},
                  NULL);
}

static struct sim_case sim_run_case(struct sim_runner *runner, struct sim_case run)
{
    if (runner->is_traced)
        run.on_trace = sim_print_trace;
    static sim_command replay;
    sim_running = sim_format_replay(runner, &run, replay);
    runner->suite->run(&run);
    runner->n_events += run.n_events;
    runner->virtual_s += (double)run.ended_at / (double)ROTA_SEC;
    return run;
}

static struct sim_case sim_run_one(struct sim_runner *runner, uint64_t seed, int plant)
{
    return sim_run_case(runner, (struct sim_case){.seed = seed, .plant = plant});
}

static void sim_result(struct sim_runner *runner, bool is_fine, const char *what)
{
    runner->n_failed += !is_fine;
    printf("%s %d - %s\n", is_fine ? "ok" : "not ok", ++runner->n_results, what);
    fflush(stdout);
}

static void sim_print_violation(const struct sim_runner *runner, const struct sim_case *run)
{
    printf("# %s: seed %llu, at %.9f s, after %llu events\n", run->violation,
           (unsigned long long)run->seed, (double)run->ended_at / (double)ROTA_SEC,
           (unsigned long long)run->n_events);
    sim_command replay;
    fputs(sim_format_replay(runner, run, replay), stdout);
    fflush(stdout);
}

enum { SIM_SHOWN_MAX = 5 }; /* violations; more tell nothing new */

/* Whether the seed passed; prints its violation otherwise. */
static bool sim_run_seed(struct sim_runner *runner, uint64_t seed)
{
    struct sim_case run = sim_run_one(runner, seed, 0);
    if (run.violation[0])
        sim_print_violation(runner, &run);
    return !run.violation[0];
}

static void sim_run_seeds(struct sim_runner *runner)
{
    int n_bad = 0;
    char what[128];
    for (uint64_t i = 0; i < runner->n_seeds && n_bad < SIM_SHOWN_MAX; i++)
        n_bad += !sim_run_seed(runner, runner->first + i);
    snprintf(what, sizeof what, "%llu seeds from %llu", (unsigned long long)runner->n_seeds,
             (unsigned long long)runner->first);
    sim_result(runner, n_bad == 0, what);
}

static void sim_run_kept(struct sim_runner *runner)
{
    int n = 0, n_bad = 0;
    char what[128];
    while (n < SIM_KEPT_MAX && runner->suite->kept[n])
        n_bad += !sim_run_seed(runner, runner->suite->kept[n++]);
    snprintf(what, sizeof what, "%d seeds that failed once", n);
    sim_result(runner, n_bad == 0, what);
}

/* CPU time since `began`. */
static double sim_seconds(clock_t began)
{
    return (double)(clock() - began) / CLOCKS_PER_SEC;
}

static void sim_run_fresh(struct sim_runner *runner)
{
    clock_t began = clock();
    uint64_t first = runner->first, n = 0;
    int n_bad = 0;
    char what[128];
    if (!runner->has_first && getrandom(&first, sizeof first, 0) != (ssize_t)sizeof first) {
        perror("getrandom");
        exit(2);
    }
    if (!runner->has_first)
        first %= SIM_FRESH_FIRST_MAX;
    printf("# fresh seeds from %llu\n", (unsigned long long)first);
    fflush(stdout);
    while (n_bad < SIM_SHOWN_MAX && (runner->n_fresh_seeds ? n < runner->n_fresh_seeds
                                                           : sim_seconds(began) < runner->fresh_s))
        n_bad += !sim_run_seed(runner, first + n++);
    snprintf(what, sizeof what, "%llu fresh seeds, %llu to %llu, %d failed", (unsigned long long)n,
             (unsigned long long)first, (unsigned long long)(n ? first + n - 1 : first), n_bad);
    sim_result(runner, n_bad == 0, what);
}

static void sim_run_twice(struct sim_runner *runner)
{
    struct sim_case a = sim_run_one(runner, runner->first, 0);
    struct sim_case b = sim_run_one(runner, runner->first, 0);
    struct sim_case c = sim_run_one(runner, runner->first + 1, 0);
    sim_result(runner, a.hash == b.hash && a.n_events == b.n_events,
               "a seed run again has the same trace");
    sim_result(runner, a.hash != c.hash, "another seed has another trace");
}

static bool sim_is_caught(struct sim_runner *runner, int plant, uint64_t seed)
{
    const struct sim_plant *bug = &runner->suite->plants[plant - 1];
    char what[512];
    struct sim_case run = sim_run_one(runner, seed, plant);
    if (!run.violation[0])
        return false;
    sim_print_violation(runner, &run);
    snprintf(what, sizeof what, "plant %s (%s) is caught by seed %llu", bug->name, bug->what,
             (unsigned long long)run.seed);
    sim_result(runner, true, what);
    return true;
}

/* The kept seeds come first: they once caught a bug that few others catch. */
static void sim_run_plant(struct sim_runner *runner, int plant)
{
    const struct sim_plant *bug = &runner->suite->plants[plant - 1];
    const uint64_t *kept = runner->suite->kept;
    char what[512];
    for (size_t i = 0; !runner->has_seeds && i < SIM_KEPT_MAX && kept[i]; i++)
        if (sim_is_caught(runner, plant, kept[i]))
            return;
    for (uint64_t i = 0; i < runner->n_plant_seeds; i++)
        if (sim_is_caught(runner, plant, runner->first + i))
            return;
    snprintf(what, sizeof what, "plant %s (%s) is not caught by %llu seeds from %llu", bug->name,
             bug->what, (unsigned long long)runner->n_plant_seeds,
             (unsigned long long)runner->first);
    sim_result(runner, false, what);
}

static void sim_run_scenario(struct sim_runner *runner, int scenario)
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

static _Noreturn void sim_usage(const struct sim_suite *suite, int code)
{
    FILE *out = code ? stderr : stdout;
    fprintf(out,
            "usage: %s [--seed N | --first N --seeds N | --fresh SECONDS | --fresh-seeds N]\n"
            "       [--trace] [--plant NAME|all]\n"
            "  --seed N         run this seed alone\n"
            "  --first N        begin with this seed (1)\n"
            "  --seeds N        run this many (%llu)\n"
            "  --fresh SECONDS  run only fresh seeds, from a random first one, for this much\n"
            "                   processor time; a run without arguments ends with %d s of them,\n"
            "                   or with as many as " SIM_FRESH_VARIABLE " in the environment says\n"
            "  --fresh-seeds N  run exactly this many fresh seeds and nothing else\n"
            "  --trace          print all that happens\n"
            "  --plant NAME     put a bug in; passes when it is caught:\n",
            suite->name, (unsigned long long)suite->n_seeds, SIM_FRESH_DEFAULT_S);
    for (int i = 0; i < suite->n_plants; i++)
        fprintf(out, "      %-16s %s\n", suite->plants[i].name, suite->plants[i].what);
    if (suite->n_scenarios > 0)
        fprintf(out, "  --scenario NAME|all\n");
    for (int i = 0; i < suite->n_scenarios; i++)
        fprintf(out, "      %-16s %s\n", suite->scenarios[i].name, suite->scenarios[i].what);
    exit(code);
}

static uint64_t sim_number(const struct sim_suite *suite, const char *option, const char *text)
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
static int sim_find_plant(const struct sim_suite *suite, const char *name)
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
static int sim_find_scenario(const struct sim_suite *suite, const char *name)
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
static int sim_parse(struct sim_runner *runner, int argc, char **argv)
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
            runner->has_first = true;
        } else if (strcmp(option, "--seeds") == 0) {
            runner->n_seeds = runner->n_plant_seeds = sim_number(suite, option, value);
            runner->has_seeds = true;
        } else if (strcmp(option, "--fresh") == 0) {
            runner->fresh_s = (double)sim_number(suite, option, value);
            runner->is_fresh_only = true;
        } else if (strcmp(option, "--fresh-seeds") == 0) {
            runner->n_fresh_seeds = sim_number(suite, option, value);
            runner->is_fresh_only = true;
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

int sim_main(int argc, char **argv, const struct sim_suite *suite)
{
    const char *fresh = getenv(SIM_FRESH_VARIABLE);
    struct sim_runner runner = {
        .suite = suite,
        .program = argv[0],
        .first = 1,
        .fresh_s =
            fresh ? (double)sim_number(suite, SIM_FRESH_VARIABLE, fresh) : SIM_FRESH_DEFAULT_S,
        .n_seeds = suite->n_seeds > SIM_FEWER ? suite->n_seeds / SIM_FEWER : suite->n_seeds,
        .n_plant_seeds = suite->n_plant_seeds ? suite->n_plant_seeds : suite->n_seeds,
        .n_scenario_seeds = suite->n_scenario_seeds,
        .scenario = -1,
    };
    int plant = sim_parse(&runner, argc, argv);
    clock_t began = clock();
    sim_watch_for_the_end();

    bool is_seeds = plant < 0 && runner.scenario < 0 && !runner.is_fresh_only;
    bool is_all = is_seeds && !runner.is_one_seed;
    if (is_seeds)
        sim_run_seeds(&runner);
    if (is_all && !runner.has_seeds && suite->kept[0])
        sim_run_kept(&runner);
    if (is_all)
        sim_run_twice(&runner);
    if (runner.scenario > 0)
        sim_run_scenario(&runner, runner.scenario);
    else if (runner.scenario == 0 || is_all)
        for (int i = 1; i <= suite->n_scenarios; i++)
            sim_run_scenario(&runner, i);
    if (plant > 0)
        sim_run_plant(&runner, plant);
    else if (plant == 0 || (is_all && !SIM_IS_SLOW))
        for (int i = 1; i <= suite->n_plants; i++)
            sim_run_plant(&runner, i);
    if (runner.is_fresh_only || (is_all && !runner.has_seeds))
        sim_run_fresh(&runner);

    sim_running = NULL;
    double seconds = sim_seconds(began);
    printf("# %llu events over %.0f s of virtual time in %.2f s of processor time\n",
           (unsigned long long)runner.n_events, runner.virtual_s, seconds);
    printf("1..%d\n", runner.n_results);
    return runner.n_failed > 0;
}
