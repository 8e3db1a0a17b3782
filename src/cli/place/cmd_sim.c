/* rota sim: simulate a cluster before you run one. */
#include "base/json.h"
#include "base/quote.h"
#include "base/spell.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "sim/balance.h"

struct sim {
    const char *policy, *scenario;
    int64_t seed, calls;
    bool hedge, retry_budget, json;
};

static const struct rota_option OPTIONS[] = {
    {.name = "policy",
     ROTA_OPTION_INTO(TEXT, struct sim, policy),
     .value_name = "NAME",
     .default_text = "all",
     .help =
         "rota, look_aside, round_robin or random; for comparison least_in_flight, p2c, peak_ewma, "
         "look_aside_original or oracle, which knows the state of the servers; or all"},
    {.name = "scenario",
     ROTA_OPTION_INTO(TEXT, struct sim, scenario),
     .value_name = "NAME",
     .default_text = "all",
     .help = "what happens to the replicas, or all; an unknown name lists them"},
    {.name = "seed",
     ROTA_OPTION_INTO(INT, struct sim, seed),
     .value_name = "N",
     .default_text = "1",
     .max = INT64_MAX,
     .help = "seed of the random numbers"},
    {.name = "calls",
     ROTA_OPTION_INTO(INT, struct sim, calls),
     .value_name = "N",
     .default_text = "60000",
     .min = 1,
     .max = ROTA_BALANCE_CALLS_MAX,
     .help = "number of calls; the first tenth is not measured"},
    {.name = "hedge",
     ROTA_OPTION_INTO(FLAG, struct sim, hedge),
     .help = "hedge slow calls on a second replica"},
    {.name = "retry-budget",
     ROTA_OPTION_INTO(FLAG, struct sim, retry_budget),
     .help = "limit retries to a fifth of the calls and a few per second"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct sim, json), .help = "print JSON"},
};

/* --- what to run --- */

static bool is_wanted(const char *wanted, const char *name)
{
    return strcmp(wanted, "all") == 0 || strcmp(wanted, name) == 0;
}

static const char *scenario_name(size_t index)
{
    return rota_balance_scenario(index)->name;
}

/* Reject a name that is not among `n` names. */
static int check_name(const char *option, const char *wanted, size_t n,
                      const char *(*name_of)(size_t index))
{
    struct rota_spell spell = {.word = rota_str(wanted)};
    struct rota_buffer names = {0};
    char quoted[ROTA_QUOTE_MAX];
    for (size_t i = 0; i < n; i++) {
        if (is_wanted(wanted, name_of(i))) {
            rota_buffer_deinit(&names);
            return ROTA_CLI_OK;
        }
        rota_spell_offer(&spell, name_of(i));
        rota_buffer_print(&names, "%s%s", i ? ", " : "", name_of(i));
    }
    rota_quote(rota_str(wanted), quoted);
    int code = spell.best
                   ? rota_cli_fail(ROTA_CLI_BAD, "--%s: unknown name %s, did you mean `%s`?",
                                   option, quoted, spell.best)
                   : rota_cli_fail(ROTA_CLI_BAD, "--%s: unknown name %s; give all, %.*s", option,
                                   quoted, (int)names.size, names.data ? names.data : "");
    rota_buffer_deinit(&names);
    return code;
}

/* --- what comes out --- */

enum { POLICIES_MAX = 16 };

struct row {
    const char *policy;
    struct rota_balance_result result;
};

static double ms(int64_t us)
{
    return (double)us / 1000;
}

static bool is_real(const struct row *row)
{
    return strcmp(row->policy, "oracle") != 0;
}

/* The lowest p99 that a real client can reach. */
static int64_t best_p99(const struct row *rows, size_t n)
{
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < n; i++)
        if (is_real(&rows[i]) && rows[i].result.p99_us < best)
            best = rows[i].result.p99_us;
    return best;
}

static void print_scenario(const struct rota_balance_scenario *scenario, const struct row *rows,
                           size_t n)
{
    struct rota_terminal terminal = rota_terminal_look();
    const char *bold = rota_terminal_color(&terminal, ROTA_COLOR_BOLD);
    const char *green = rota_terminal_color(&terminal, ROTA_COLOR_GREEN);
    const char *dim = rota_terminal_color(&terminal, ROTA_COLOR_DIM);
    const char *none = rota_terminal_color(&terminal, ROTA_COLOR_NONE);
    int64_t best = best_p99(rows, n);

    printf("%s%s%s: %s\n", bold, scenario->name, none, scenario->what);
    printf("  %-20s %8s %8s %8s %8s %7s %7s %6s %7s\n", "policy", "mean ms", "p50", "p99", "p99.9",
           "wasted", "hedged", "busy", "failed");
    for (size_t i = 0; i < n; i++) {
        const struct rota_balance_result *r = &rows[i].result;
        const char *color = !is_real(&rows[i]) ? dim : r->p99_us == best ? green : none;
        printf("  %s%-20s %8.1f %8.1f %8.1f %8.1f %7.3f %7.3f %6.2f %7llu%s\n", color,
               rows[i].policy, ms(r->mean_us), ms(r->p50_us), ms(r->p99_us), ms(r->p999_us),
               r->wasted, r->hedged, r->imbalance, (unsigned long long)r->n_failed, none);
    }
    printf("\n");
}

static void write_row(struct rota_json *json, const struct row *row)
{
    const struct rota_balance_result *r = &row->result;
    rota_json_begin_object(json);
    rota_json_add_text(json, "policy", row->policy);
    rota_json_add_int(json, "n_calls", (int64_t)r->n_calls);
    rota_json_add_int(json, "n_failed", (int64_t)r->n_failed);
    rota_json_add_int(json, "mean_us", r->mean_us);
    rota_json_add_int(json, "p50_us", r->p50_us);
    rota_json_add_int(json, "p99_us", r->p99_us);
    rota_json_add_int(json, "p999_us", r->p999_us);
    rota_json_add_double(json, "wasted", r->wasted);
    rota_json_add_double(json, "hedged", r->hedged);
    rota_json_add_double(json, "imbalance", r->imbalance);
    rota_json_add_double(json, "final_ok", r->final_part);
    rota_json_add_int(json, "n_ejections", (int64_t)r->n_ejections);
    rota_json_end_object(json);
}

static void write_scenario(struct rota_json *json, const struct rota_balance_scenario *scenario,
                           const struct row *rows, size_t n)
{
    rota_json_begin_object(json);
    rota_json_add_text(json, "name", scenario->name);
    rota_json_add_text(json, "what", scenario->what);
    rota_json_add_array(json, "results");
    for (size_t i = 0; i < n; i++)
        write_row(json, &rows[i]);
    rota_json_end_array(json);
    rota_json_end_object(json);
}

static void write_begin(struct rota_json *json, const struct sim *options)
{
    rota_json_begin_object(json);
    rota_json_add_int(json, "seed", options->seed);
    rota_json_add_int(json, "calls", options->calls);
    rota_json_add_bool(json, "hedge", options->hedge);
    rota_json_add_bool(json, "retry_budget", options->retry_budget);
    rota_json_add_array(json, "scenarios");
}

/* --- running --- */

static enum rota_code run_scenario(const struct sim *options,
                                   const struct rota_balance_scenario *scenario,
                                   struct row rows[POLICIES_MAX], size_t *n,
                                   struct rota_error *error)
{
    *n = 0;
    for (size_t i = 0; i < rota_balance_n_policies() && *n < POLICIES_MAX; i++) {
        struct row *row = &rows[*n];
        row->policy = rota_balance_policy(i);
        if (!is_wanted(options->policy, row->policy))
            continue;
        struct rota_balance_options balance = {.scenario = scenario,
                                               .policy = row->policy,
                                               .seed = (uint64_t)options->seed,
                                               .n_calls = (uint32_t)options->calls,
                                               .hedges = options->hedge,
                                               .retries_freely = !options->retry_budget};
        enum rota_code code = rota_balance_run(&balance, &row->result, error);
        if (code)
            return code;
        (*n)++;
    }
    return ROTA_OK;
}

static int run_all(const struct sim *options)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    struct rota_progress progress = {.what = "simulating"};
    struct row rows[POLICIES_MAX];
    struct rota_error error;
    size_t n;
    if (options->json)
        write_begin(&json, options);
    for (size_t i = 0; i < rota_balance_n_scenarios(); i++) {
        const struct rota_balance_scenario *scenario = rota_balance_scenario(i);
        if (!is_wanted(options->scenario, scenario->name))
            continue;
        if (run_scenario(options, scenario, rows, &n, &error)) {
            rota_terminal_progress_end(&progress);
            rota_buffer_deinit(&buffer);
            return rota_cli_fail_error(&error);
        }
        rota_terminal_progress_step(&progress, i + 1, rota_balance_n_scenarios());
        if (options->json) {
            write_scenario(&json, scenario, rows, n);
        } else {
            rota_terminal_progress_end(&progress);
            print_scenario(scenario, rows, n);
        }
    }
    rota_terminal_progress_end(&progress);
    if (!options->json)
        return ROTA_CLI_OK;
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(&buffer, '\n');
    return rota_cli_print(&buffer);
}

static int run_sim(int argc, char *const *argv)
{
    struct sim options = {0};
    int code;
    if (!rota_cli_parse(&rota_cmd_sim_balance, argc, argv, &options, NULL, &code))
        return code;
    code = check_name("policy", options.policy, rota_balance_n_policies(), rota_balance_policy);
    if (!code)
        code = check_name("scenario", options.scenario, rota_balance_n_scenarios(), scenario_name);
    return code ? code : run_all(&options);
}

const struct rota_cli_command rota_cmd_sim_balance = {
    .command =
        {
            .name = "sim balance",
            .summary = "Compare balancing policies in a simulated cluster",
            .description =
                "Runs the balancer that clients use against simulated replicas with slots, queues "
                "and faults, in virtual time. Calls arrive at random, however slow the answers "
                "are, and fail over at once. The same seed gives the same result.\n\nPrints one "
                "table per scenario: latencies in milliseconds, wasted and hedged tries per call, "
                "the tries of the busiest replica as a multiple of the mean, and failed "
                "calls. Green is the best p99 that a client can reach.\n\nWith --json: {\"seed\", "
                "\"calls\", \"hedge\", \"retry_budget\", \"scenarios\": [{\"name\", \"what\", "
                "\"results\": [{\"policy\", \"n_calls\", \"n_failed\", \"mean_us\", \"p50_us\", "
                "\"p99_us\", \"p999_us\", \"wasted\", \"hedged\", \"imbalance\", \"final_ok\", "
                "\"n_ejections\"}]}]}.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota sim balance --scenario slow_32\n"
                        "rota sim balance --scenario freezes --hedge --seed 7 --json\n"
                        "rota sim balance --scenario burst --policy rota --calls 4000 "
                        "--retry-budget\n",
        },
    .run = run_sim,
};
