/* rota directory show and watch: the health of a collection's replicas, probed by this process,
 * once or until interrupted. */
#include "base/json.h"
#include "cli/call/shards_show.h"
#include "cli/cli.h"
#include "cli/node/probe.h"
#include "cli/terminal.h"
#include "cli/watch.h"

struct options {
    struct rota_collection_options of;
    int64_t rounds;
    rota_time interval;
    bool json;
    int output;
};

#define TIMEOUT_HELP "how long to wait for the directory and for each node"

static const struct rota_option SHOW_OPTIONS[] = {
    ROTA_COLLECTION_OPTIONS(struct options, "2s", TIMEOUT_HELP),
    {.name = "rounds",
     ROTA_OPTION_INTO(INT, struct options, rounds),
     .value_name = "N",
     .default_text = "5",
     .min = 1,
     .max = 1000,
     .help = "how many times to ask each node"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct options, json), .help = "print JSON"},
    ROTA_TABLE_OPTION(struct options, output),
};

static const struct rota_option WATCH_OPTIONS[] = {
    ROTA_COLLECTION_OPTIONS(struct options, "2s", TIMEOUT_HELP),
    {.name = "interval",
     ROTA_OPTION_INTO(SPAN, struct options, interval),
     .value_name = "DURATION",
     .default_text = "1s",
     .min = 50 * ROTA_MSEC,
     .max = ROTA_HOUR,
     .help = "how often to ask each node"},
    {.name = "json",
     ROTA_OPTION_INTO(FLAG, struct options, json),
     .help = "print one JSON object per line"},
};

/* What both commands keep on the loop. */
struct shards {
    struct rota_watch watch; /* first */
    const struct options *options;
    struct rota_collection_nodes directories;
    struct rota_probe probe;

    struct rota_progress progress;
    int64_t n_rounds;

    uv_timer_t timer; /* of `watch` */
    bool has_timer, is_drawn;
    struct rota_error problem; /* why there is no map now; its code is 0 if there is one */
};

static void no_map(const struct shards *shards, struct rota_str text, struct rota_error *error)
{
    rota_error_set(error, ROTA_ERR_UNAVAILABLE, "no map of collection %s: %.*s",
                   shards->options->of.collection, ROTA_STR_ARGS(text));
}

static enum rota_code open_probe(struct shards *shards, const struct rota_probe_handler *handler,
                                 struct rota_error *error)
{
    enum rota_code code = rota_probe_open(shards->watch.loop, &shards->options->of,
                                          &shards->directories, handler, &shards->probe, error);
    if (code == ROTA_OK)
        rota_probe_visit(&shards->probe);
    return code;
}

static void on_timer_closed(uv_handle_t *handle)
{
    (void)handle;
}

static void close_probe(struct rota_watch *watch)
{
    struct shards *shards = (struct shards *)watch;
    if (shards->has_timer)
        uv_close((uv_handle_t *)&shards->timer, on_timer_closed);
    rota_probe_close(&shards->probe);
    rota_terminal_progress_end(&shards->progress);
}

static int run_probe(const struct rota_cli_command *command, int argc, char *const *argv,
                     enum rota_code (*open)(struct rota_watch *watch, struct rota_error *error),
                     int exit_code)
{
    struct options options = {0};
    struct shards shards = {.options = &options,
                            .watch.exit_code = exit_code,
                            .progress = {.what = "asking the nodes"}};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(command, argc, argv, &options, NULL, &code))
        return code;
    if (rota_collection_options_check(&options.of, &shards.directories, &error))
        return rota_cli_fail_error(&error);
    code = rota_watch_command(&shards.watch, options.json, open, close_probe);
    rota_collection_options_nodes_deinit(&shards.directories);
    return code;
}

/* --- show --- */

static void ignore_map(void *data)
{
    (void)data;
}

static void ignore_node(void *data, struct rota_probe_node *node)
{
    (void)data;
    (void)node;
}

static void on_round(void *data)
{
    struct shards *shards = data;
    struct rota_terminal terminal = rota_terminal_look();
    shards->n_rounds++;
    rota_terminal_progress_step(&shards->progress, (uint64_t)shards->n_rounds,
                                (uint64_t)shards->options->rounds);
    if (shards->n_rounds < shards->options->rounds) {
        rota_probe_visit(&shards->probe);
        return;
    }
    rota_terminal_progress_end(&shards->progress);
    enum rota_table_form form =
        shards->options->json ? ROTA_TABLE_JSON : (enum rota_table_form)shards->options->output;
    struct rota_error error;
    if (rota_shards_show_append(&shards->probe, form, &terminal, &shards->watch.line, &error)) {
        rota_watch_stop(&shards->watch, rota_cli_fail_error(&error));
        return;
    }
    rota_watch_print(&shards->watch);
    rota_watch_stop(&shards->watch,
                    rota_probe_is_all_well(&shards->probe) ? ROTA_CLI_OK : ROTA_CLI_NO);
}

static void on_show_failed(void *data, struct rota_str text)
{
    struct shards *shards = data;
    struct rota_error error;
    no_map(shards, text, &error);
    rota_terminal_progress_end(&shards->progress);
    rota_watch_stop(&shards->watch, rota_cli_fail_error(&error));
}

static enum rota_code open_show(struct rota_watch *watch, struct rota_error *error)
{
    struct rota_probe_handler handler = {.on_map = ignore_map,
                                         .on_node = ignore_node,
                                         .on_gone = ignore_node,
                                         .on_visited = on_round,
                                         .on_failed = on_show_failed,
                                         .data = watch};
    return open_probe((struct shards *)watch, &handler, error);
}

/* Exits 1 if interrupted, because there is no answer then. */
static int run_show(int argc, char *const *argv)
{
    return run_probe(&rota_cmd_directory_show, argc, argv, open_show, ROTA_CLI_NO);
}

#define STATES                                                                                     \
    "The health is what the node reports: `serving`, `not serving`, `unchecked` (it answers, but " \
    "has no health service), `failing` (no answer), `unknown` (not probed yet). The circuit is "   \
    "`closed` (in use), `open` (ejected after three failures in a row) or `half-open` (one trial " \
    "call is allowed)."

const struct rota_cli_command rota_cmd_directory_show = {
    .command =
        {
            .name = "directory show",
            .summary = "Show the health of a collection's replicas",
            .description =
                "Gets the map of a collection from a directory and probes each node several times "
                "with the standard health service, as an otherwise idle client would: the circuits "
                "and scores it shows are its own, not those of other clients.\n\nColumns, for each "
                "replica: SHARD (its channel); NODE (with -o wide) and ADDRESS; EPOCH of its "
                "claim; HEALTH; CIRCUIT; P50 and P99 of its response times; ERRORS and probes; "
                "SCORE (with -o wide; the lowest is chosen); PROBLEM. A shard without replicas has "
                "- as its node.\n\n" STATES
                " A node with an open circuit is not probed until it is half-open.\n\nExits 0 if "
                "every shard has replicas, and every replica serves, is serviceable according to "
                "the map and has a closed circuit. Exits 1 otherwise, or if there is no such "
                "collection or no directory is reachable.\n\nWith --json: {"
                "\"collection\", \"well\", \"shards\": [{\"channel\", \"replicas\": "
                "[{\"node\", \"address\", \"epoch\", \"serviceable\", \"well\", \"health\", "
                "\"circuit\", \"available\", \"in_flight\", \"score\", \"probes\", \"errors\", "
                "\"p50_us\", \"p99_us\", \"problem\"}]}]}. Quantiles are null if there was no "
                "answer, the problem is null if there is none; available is false after failed "
                "health checks.",
            .options = SHOW_OPTIONS,
            .n_options = sizeof SHOW_OPTIONS / sizeof *SHOW_OPTIONS,
            .examples = "rota directory show --collection books\n"
                        "ROTA_NODE=a:7700,b:7700 rota directory show --collection books --rounds "
                        "20 --json\n",
        },
    .run = run_show,
};

/* --- watch --- */

/* What a line says about a node. If this number changes, there is something new to print. */
static uint64_t state_of(const struct rota_probe_node *node)
{
    return 1 + (uint64_t)rota_probe_circuit(node) + 4 * (uint64_t)node->health +
           32 * (uint64_t)node->n_shards;
}

static void tell_node(struct shards *shards, const struct rota_probe_node *node, const char *event)
{
    struct rota_watch *watch = &shards->watch;
    rota_watch_begin(watch, event);
    if (watch->is_json)
        rota_shards_show_add_node(node, &watch->json);
    else
        rota_shards_show_append_node(node, &watch->line);
    rota_watch_end(watch);
}

static void draw(struct shards *shards)
{
    struct rota_terminal terminal = rota_terminal_look();
    struct rota_buffer *line = &shards->watch.line;
    rota_buffer_append_text(line, shards->is_drawn ? "\033[H" : "\033[H\033[2J");
    shards->is_drawn = true;
    rota_shards_show_redraw(&shards->probe, &terminal, (size_t)terminal.height - 2, line);
    if (shards->problem.code) {
        rota_terminal_append(line, rota_str(shards->problem.text));
        rota_buffer_append_text(line, "\033[K\n");
    }
    rota_buffer_append_text(line, "\033[J");
    rota_watch_print(&shards->watch);
}

static bool draws(const struct shards *shards)
{
    return !shards->options->json && rota_terminal_look().is_redrawn;
}

static void on_map(void *data)
{
    struct shards *shards = data;
    struct rota_watch *watch = &shards->watch;
    size_t n_replicas = 0;
    if (draws(shards))
        return;
    const struct rota_shard_map *map = shards->probe.map;
    for (size_t i = 0; i < map->n_channels; i++)
        n_replicas += map->channels[i].n_replicas;
    rota_watch_begin(watch, "map");
    if (watch->is_json) {
        rota_json_add_uint(&watch->json, "shards", map->n_channels);
        rota_json_add_uint(&watch->json, "replicas", n_replicas);
    } else {
        rota_buffer_print(&watch->line, "\tshards=%zu\treplicas=%zu", map->n_channels, n_replicas);
    }
    rota_watch_end(watch);
}

/* Don't report a node that was not probed yet: its first answer will be reported. */
static void on_node(void *data, struct rota_probe_node *node)
{
    struct shards *shards = data;
    uint64_t state = state_of(node);
    if (node->told == state || (node->health == ROTA_PROBE_UNKNOWN && node->told == 0))
        return;
    node->told = state;
    if (draws(shards))
        draw(shards);
    else
        tell_node(shards, node, rota_circuit_name(rota_probe_circuit(node)));
}

static void on_gone(void *data, struct rota_probe_node *node)
{
    struct shards *shards = data;
    if (!draws(shards))
        tell_node(shards, node, "gone");
}

static void on_visited(void *data)
{
    struct shards *shards = data;
    shards->problem.code = ROTA_OK;
    if (draws(shards))
        draw(shards);
}

/* Without a first map there is nothing to watch. Later failures keep the last map. */
static void on_watch_failed(void *data, struct rota_str text)
{
    struct shards *shards = data;
    struct rota_error error;
    no_map(shards, text, &error);
    if (!shards->probe.map) {
        rota_watch_stop(&shards->watch, rota_cli_fail_error(&error));
        return;
    }
    bool is_news = !shards->problem.code || strcmp(error.text, shards->problem.text) != 0;
    shards->problem = error;
    if (draws(shards))
        draw(shards);
    else if (is_news)
        rota_watch_refuse(&shards->watch, &error);
}

static void on_timer(uv_timer_t *timer)
{
    struct shards *shards = timer->data;
    rota_probe_visit(&shards->probe);
}

static enum rota_code open_watch(struct rota_watch *watch, struct rota_error *error)
{
    struct shards *shards = (struct shards *)watch;
    struct rota_probe_handler handler = {.on_map = on_map,
                                         .on_node = on_node,
                                         .on_gone = on_gone,
                                         .on_visited = on_visited,
                                         .on_failed = on_watch_failed,
                                         .data = shards};
    uint64_t interval_ms = (uint64_t)(shards->options->interval / ROTA_MSEC);
    uv_timer_init(watch->loop, &shards->timer);
    shards->has_timer = true;
    shards->timer.data = shards;
    uv_timer_start(&shards->timer, on_timer, interval_ms, interval_ms);
    return open_probe(shards, &handler, error);
}

static int run_watch(int argc, char *const *argv)
{
    return run_probe(&rota_cmd_directory_watch, argc, argv, open_watch, ROTA_CLI_OK);
}

const struct rota_cli_command rota_cmd_directory_watch = {
    .command =
        {
            .name = "directory watch",
            .summary = "Report changes in the health of a collection's replicas",
            .description =
                "Probes the nodes as `directory show` does until interrupted. On a terminal it "
                "keeps "
                "the table up to date. Elsewhere it prints one line per change, with tab-separated "
                "values: the time; the circuit of a node, or `gone` if the map no longer has it; "
                "the node, its address, its health, the number of shards it has a replica of; and "
                "the problem, if there is one. A new map is printed as `map`, with its shards and "
                "replicas. A collection that is no longer available is printed as `refused` with "
                "the reason, and its nodes are not probed until it is back.\n\n" STATES
                "\n\nExits 0 when interrupted, 1 if there is no map to start with.\n\nWith --json, "
                "per line: {\"time\", \"event\", \"node\", \"address\", \"health\", \"shards\", "
                "\"available\", \"in_flight\", \"score\", \"probes\", \"errors\", \"p50_us\", "
                "\"p99_us\", \"problem\"}, where the event is the same word as in the text; "
                "{\"time\", \"event\": \"map\", \"shards\", \"replicas\"}; or {\"time\", "
                "\"event\": \"refused\", \"error\"}.",
            .options = WATCH_OPTIONS,
            .n_options = sizeof WATCH_OPTIONS / sizeof *WATCH_OPTIONS,
            .examples = "rota directory watch --collection books\n",
        },
    .run = run_watch,
};
