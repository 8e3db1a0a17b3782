/* rota plan: what a change would move. */
#include "cli/cli.h"
#include "cli/place/plan_hosts.h"
#include "cli/place/plan_view.h"
#include "cli/terminal.h"
#include "cli/work/queue_options.h"

#include <stdio.h>

enum { QUEUES_MAX = 10000000, BUCKETS = 12, FLUSH_SIZE = 1 << 16 };

struct plan {
    struct rota_queue_options queue;
    int64_t queues;
    struct rota_plan_hosts then;
    int64_t batch_to, partitions_to, points_to; /* -1: as before */
    int mode_to;                                /* -1: as before */
    rota_time start, end;                       /* ROTA_TIME_MIN: not given */
    bool moves, json;
    int output; /* enum rota_table_form */
};

static const struct rota_option OPTIONS[] = {
    {.name = "queue",
     ROTA_OPTION_INTO(TEXT, struct plan, queue.queue),
     .value_name = "NAME",
     .default_text = "queue",
     .help = "name of the queue"},
    {.name = "queues",
     ROTA_OPTION_INTO(INT, struct plan, queues),
     .value_name = "N",
     .default_text = "1",
     .min = 1,
     .max = QUEUES_MAX,
     .help = "plan for N queues; more than one are named NAME-0, NAME-1, ..."},
    ROTA_QUEUE_OPTIONS(struct plan),
    {.name = "then-hosts",
     ROTA_OPTION_INTO(TEXT, struct plan, then.file),
     .value_name = "FILE",
     .help = "file with the hosts after the change"},
    {.name = "add",
     ROTA_OPTION_INTO(LIST, struct plan, then.add),
     .value_name = "HOST",
     .help = "add a host: an address, or a line of a hosts file with weight and zone"},
    {.name = "remove",
     ROTA_OPTION_INTO(LIST, struct plan, then.remove),
     .value_name = "HOST",
     .help = "remove the host with this address"},
    {.name = "remove-zone",
     ROTA_OPTION_INTO(LIST, struct plan, then.remove_zone),
     .value_name = "ZONE",
     .help = "remove all hosts of this zone"},
    {.name = "weight",
     ROTA_OPTION_INTO(LIST, struct plan, then.weight),
     .value_name = "HOST=W",
     .help = "change the weight of a host"},
    {.name = "batch-to",
     ROTA_OPTION_INTO(INT, struct plan, batch_to),
     .value_name = "N",
     .max = ROTA_BATCH_MAX,
     .help = "change --batch"},
    {.name = "mode-to",
     ROTA_OPTION_INTO(CHOICE, struct plan, mode_to),
     .value_name = "MODE",
     .choices = rota_spread_mode_names,
     .help = "change --mode"},
    {.name = "partitions-to",
     ROTA_OPTION_INTO(INT, struct plan, partitions_to),
     .value_name = "N",
     .min = 1,
     .max = ROTA_PARTITIONS_MAX,
     .help = "change --partitions"},
    {.name = "points-to",
     ROTA_OPTION_INTO(INT, struct plan, points_to),
     .value_name = "N",
     .min = 1,
     .max = ROTA_RING_POINTS_MAX,
     .help = "change --points"},
    {.name = "start",
     ROTA_OPTION_INTO(TIME, struct plan, start),
     .value_name = "TIME",
     .help = "roll out --batch-to and --mode-to gradually, starting at this time"},
    {.name = "end",
     ROTA_OPTION_INTO(TIME, struct plan, end),
     .value_name = "TIME",
     .help = "end of the gradual rollout"},
    {.name = "moves",
     ROTA_OPTION_INTO(FLAG, struct plan, moves),
     .help = "list every partition that moves, instead of tables"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct plan, json), .help = "print JSON"},
    ROTA_TABLE_OPTION_HELP(struct plan, output,
                           "output format; auto is text, and for --moves a table on a terminal and "
                           "tsv elsewhere"),
};

/* --- the plan --- */

struct plan_run {
    const struct plan *options;
    struct rota_plan *plan;
    struct rota_buffer buffer;
    struct rota_json json;
    struct rota_terminal terminal;
    enum rota_table_form form;
    bool has_titles; /* of a table of moves: already printed */
};

static const struct rota_table_column COLUMNS[] = {
    {"QUEUE", "queue", ROTA_TABLE_NAME, false},
    {"PARTITION", "partition", ROTA_TABLE_NUMBER, false},
    {"FROM", "from", ROTA_TABLE_NAME, false},
    {"TO", "to", ROTA_TABLE_NAME, false},
};

static void begin_document(struct plan_run *run)
{
    run->json = (struct rota_json){.buffer = &run->buffer};
    rota_json_begin_object(&run->json);
    if (!run->options->moves)
        return;
    rota_json_add_array(&run->json, "moves");
}

/* There may be millions of moves: print those computed so far. */
static void flush_moves(struct plan_run *run, size_t size_min)
{
    struct rota_table table = ROTA_TABLE_OF("moves", COLUMNS);
    struct rota_buffer shown = {0};
    struct rota_error error;
    if (run->buffer.size < size_min || run->buffer.failed)
        return;
    if (run->form == ROTA_TABLE_JSON) {
        fwrite(run->buffer.data, 1, run->buffer.size, stdout);
        rota_buffer_clear(&run->buffer);
        return;
    }
    rota_json_end_array(&run->json);
    rota_json_end_object(&run->json);
    table.is_continued = run->has_titles;
    enum rota_code code = rota_table_append(&shown, &table, run->form, &run->terminal,
                                            rota_buffer_str(&run->buffer), 0, &error);
    run->has_titles = true;
    rota_buffer_clear(&run->buffer);
    begin_document(run);
    run->buffer.failed |= code || shown.failed;
    fwrite(rota_buffer_str(&shown).data, 1, shown.size, stdout);
    rota_buffer_deinit(&shown);
}

static void add_json_host(struct plan_run *run, const char *key, bool is_there, uint32_t host)
{
    size_t n;
    rota_json_key(&run->json, key);
    if (is_there && host != ROTA_RING_NONE)
        rota_json_string(&run->json, rota_plan_hosts(run->plan, &n)[host].address);
    else
        rota_json_null(&run->json);
}

static void on_move(void *data, const struct rota_plan_move *move)
{
    static const char *const KINDS[] = {[ROTA_PLAN_MOVED] = "moved",
                                        [ROTA_PLAN_NEW] = "new",
                                        [ROTA_PLAN_GONE] = "gone",
                                        [ROTA_PLAN_LOST] = "lost"};
    struct plan_run *run = data;
    struct rota_json *json = &run->json;

    rota_json_begin_object(json);
    rota_json_add_string(json, "queue", move->space->queue);
    rota_json_add_uint(json, "partition", move->partition);
    rota_json_add_text(json, "kind", KINDS[move->kind]);
    add_json_host(run, "from", move->kind != ROTA_PLAN_NEW, move->from);
    add_json_host(run, "to", move->kind != ROTA_PLAN_GONE, move->to);
    if (move->at != 0)
        rota_json_add_int(json, "at_ns", move->at);
    rota_json_end_object(json);
    flush_moves(run, FLUSH_SIZE);
}

static void name_queue(const struct plan *options, int64_t number, char *name, size_t size)
{
    if (options->queues == 1)
        snprintf(name, size, "%s", options->queue.queue);
    else
        snprintf(name, size, "%s-%lld", options->queue.queue, (long long)number);
}

/* The last queue has the longest name: if it is valid, all are. */
static enum rota_code check_names(const struct plan *options, struct rota_error *error)
{
    char name[ROTA_QUEUE_NAME_MAX + 32];
    enum rota_code code =
        rota_queue_options_check("plan", options->queue.namespace_id, options->queue.queue, error);
    if (code)
        return code;
    name_queue(options, options->queues - 1, name, sizeof name);
    return rota_queue_options_check("plan", options->queue.namespace_id, name, error);
}

static struct rota_plan_side side_before(const struct plan *options)
{
    return (struct rota_plan_side){.n_partitions = (uint32_t)options->queue.partitions,
                                   .spread = rota_queue_options_spread(&options->queue)};
}

static struct rota_plan_side side_after(const struct plan *options)
{
    struct rota_plan_side side = side_before(options);
    if (options->partitions_to >= 0)
        side.n_partitions = (uint32_t)options->partitions_to;
    if (options->batch_to >= 0)
        side.spread.batch = (uint32_t)options->batch_to;
    if (options->mode_to >= 0)
        side.spread.mode = (enum rota_spread_mode)options->mode_to;
    return side;
}

static enum rota_code add_queues(struct plan_run *run, struct rota_error *error)
{
    const struct plan *options = run->options;
    struct rota_progress progress = {.what = "planning"};
    struct rota_plan_space space = {
        .namespace_id = rota_str(options->queue.namespace_id),
        .type = rota_queue_options_type(&options->queue),
        .before = side_before(options),
        .after = side_after(options),
    };
    enum rota_code code = ROTA_OK;

    for (int64_t i = 0; i < options->queues && !code && rota_cli_can_print(); i++) {
        char name[ROTA_QUEUE_NAME_MAX + 32];
        name_queue(options, i, name, sizeof name);
        space.queue = rota_str(name);
        code = rota_plan_add(run->plan, &space, error);
        rota_terminal_progress_step(&progress, (uint64_t)i + 1, (uint64_t)options->queues);
    }
    rota_terminal_progress_end(&progress);
    return code;
}

static const char *advice_on(const struct plan *options)
{
    if (options->partitions_to < 0 || options->partitions_to >= options->queue.partitions)
        return NULL;
    return "Fewer partitions: lower the number of write partitions first, wait until "
           "those that go are empty, and only then lower the number of read partitions: jobs in a "
           "partition that no client reads never run.";
}

static int print_result(struct plan_run *run, const struct rota_plan_view *view)
{
    const struct rota_plan_result *result = rota_plan_result(run->plan);
    if (run->form == ROTA_TABLE_JSON) {
        if (run->options->moves)
            rota_json_end_array(&run->json);
        rota_plan_view_format_json(view, result, &run->json);
        rota_json_end_object(&run->json);
        rota_buffer_append_char(&run->buffer, '\n');
    } else {
        if (run->options->moves)
            flush_moves(run, 0);
        else
            rota_plan_view_print(view, result);
        run->buffer.size = 0; /* keep `failed` */
    }
    int code = rota_cli_print(&run->buffer);
    if (code == ROTA_CLI_OK && result->hosts_after.n == 0 && rota_cli_can_print())
        code = rota_cli_fail(ROTA_CLI_NO,
                             "plan: no host would be left: nothing owns the %llu partitions",
                             (unsigned long long)result->after);
    return code;
}

/* Route, count and print. */
static int make_plan(const struct plan *options, struct rota_ring *before, struct rota_ring *after)
{
    struct plan_run run = {.options = options, .terminal = rota_terminal_look()};
    struct rota_error error;
    bool has_window = options->start != ROTA_TIME_MIN;
    struct rota_plan_view view = {
        .queues = options->queues,
        .before = side_before(options),
        .after = side_after(options),
        .points_before = rota_ring_points_per_host(before),
        .points_after = rota_ring_points_per_host(after),
        .start = has_window ? options->start : 0,
        .end = has_window ? options->end : 0,
        .advice = advice_on(options),
    };
    struct rota_plan_options plan_options = {
        .before = before,
        .after = after,
        .start = view.start,
        .end = view.end,
        .n_buckets = BUCKETS,
        .on_move = options->moves ? on_move : NULL,
        .data = &run,
    };
    if (rota_plan_new(&plan_options, &run.plan, &error))
        return rota_cli_fail_error(&error);

    run.form = options->json ? ROTA_TABLE_JSON : rota_table_choose(options->output, &run.terminal);
    begin_document(&run);
    int code;
    if (add_queues(&run, &error)) {
        rota_buffer_deinit(&run.buffer);
        code = rota_cli_fail_error(&error);
    } else {
        code = print_result(&run, &view);
    }
    rota_plan_free(run.plan);
    return code;
}

/* The name of the first immediate change, or NULL. */
static const char *sudden_change(const struct plan *options)
{
    const char *name = rota_plan_hosts_change(&options->then);
    if (!name && options->partitions_to >= 0)
        name = "partitions-to";
    if (!name && options->points_to >= 0)
        name = "points-to";
    return name;
}

static enum rota_code check_window(const struct plan *options, struct rota_error *error)
{
    bool has_start = options->start != ROTA_TIME_MIN, has_end = options->end != ROTA_TIME_MIN;
    const char *sudden = sudden_change(options);
    if (!has_start && !has_end)
        return ROTA_OK;
    if (sudden)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "plan: --%s takes effect immediately; only --batch-to and --mode-to "
                              "can be gradual, with --start and --end",
                              sudden);
    if (has_start != has_end)
        return rota_error_set(error, ROTA_ERR_INVALID, "plan: --%s is given without --%s",
                              has_start ? "start" : "end", has_start ? "end" : "start");
    if (options->start <= 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "plan: --start is before 1970");
    if (options->end < options->start)
        return rota_error_set(error, ROTA_ERR_INVALID, "plan: --end is before --start");
    return ROTA_OK;
}

static enum rota_code check_options(const struct plan *options, struct rota_error *error)
{
    int64_t partitions = options->queue.partitions > options->partitions_to
                             ? options->queue.partitions
                             : options->partitions_to;
    enum rota_code code;
    if (!sudden_change(options) && options->batch_to < 0 && options->mode_to < 0)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "plan: nothing to change; give --add, --remove, --then-hosts, --batch-to or another "
            "change, see `rota plan --help`");
    if ((uint64_t)options->queues > ROTA_PLAN_PARTITIONS_MAX / (uint64_t)partitions)
        return rota_error_set(
            error, ROTA_ERR_LIMIT,
            "plan: --queues %lld with %lld partitions each: a plan can have at most %llu "
            "partitions",
            (long long)options->queues, (long long)partitions,
            (unsigned long long)ROTA_PLAN_PARTITIONS_MAX);
    if (options->output == ROTA_TABLE_TSV && !options->moves)
        return rota_error_set(error, ROTA_ERR_INVALID, "plan: --output tsv needs --moves");
    if ((code = check_window(options, error)))
        return code;
    return check_names(options, error);
}

static enum rota_code build_rings(struct plan *options, struct rota_ring **before,
                                  struct rota_ring **after, struct rota_error *error)
{
    int64_t points = options->queue.points;
    return rota_plan_hosts_build(
        &options->queue.hosts, &options->then, rota_cli_now(options->queue.at), points,
        options->points_to >= 0 ? options->points_to : points, before, after, error);
}

static int run_plan(int argc, char *const *argv)
{
    struct plan options = {.queue.at = ROTA_TIME_MIN,
                           .batch_to = -1,
                           .partitions_to = -1,
                           .points_to = -1,
                           .mode_to = -1,
                           .start = ROTA_TIME_MIN,
                           .end = ROTA_TIME_MIN};
    struct rota_ring *before = NULL, *after = NULL;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_plan, argc, argv, &options, NULL, &code))
        return code;
    if (check_options(&options, &error) || build_rings(&options, &before, &after, &error))
        return rota_cli_fail_error(&error);
    code = make_plan(&options, before, after);
    rota_ring_unref(before);
    rota_ring_unref(after);
    return code;
}

const struct rota_cli_command rota_cmd_plan = {
    .command =
        {
            .name = "plan",
            .summary = "Compute what a change of hosts, weights or settings moves",
            .description =
                "Routes every partition twice, before and after the change, and compares. The "
                "result is exact, and nothing is changed. Shows how many partitions move, the "
                "minimum that an even placement would move, how evenly hosts and zones are loaded "
                "before and after, and which hosts gain and lose.\n\nThe minimum is the number of "
                "partitions on removed hosts, plus the amount by which the fair shares by weight "
                "of the other hosts grow beyond that. Loads are never perfectly fair, so a new "
                "host may take less than its share and the ratio may be slightly below 1. In the "
                "load table max, mean and stddev count partitions; max/fair is the largest load "
                "relative to its fair share by weight, and 1.00 is even.\n\nYou can combine "
                "changes. The hosts after the change are those of --then-hosts (or --hosts), to "
                "which --remove, --remove-zone, --weight and --add are applied in this order. If "
                "no host is left, the partitions have no owner: they are counted as lost, and the "
                "exit code is 1.\n\nWith --start and --end the moves are also counted over time. "
                "Only --batch-to and --mode-to can be gradual; all other changes are immediate and "
                "cannot be combined with a gradual one.\n\nWith --moves: one line per partition "
                "that moves, with the columns QUEUE, PARTITION, FROM (host before) and TO (host "
                "after); - means none.\n\nWith --json: one document with \"moves\" (only with "
                "--moves; "
                "[{\"queue\", \"partition\", \"kind\": \"moved\" | \"new\" | \"gone\" | \"lost\", "
                "\"from\", \"to\", \"at_ns\"}]), \"queues\", \"partitions\": {\"before\", "
                "\"after\"}, \"moved\", \"stays\", \"new\", \"gone\", \"lost\", \"minimum\" (the "
                "fewest moves of an even placement), \"ratio\" (moved to minimum; null when "
                "nothing has to move), \"spread\": {\"hosts_before\", \"hosts_after\", "
                "\"zones_before\", \"zones_after\"}, each {\"count\", \"max\", \"mean\", "
                "\"stddev\", \"max_to_fair\"}, \"per_host\": [{\"host\", \"zone\", "
                "\"on_ring_before\", \"on_ring_after\", \"before\", \"after\", \"arriving\", "
                "\"leaving\"}], \"per_zone\": [{\"zone\", \"hosts_before\", \"hosts_after\", "
                "\"before\", \"after\"}], \"timeline\": [{\"start\", \"end\", \"moves\"}], "
                "\"advice\" (a sentence or null).",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples =
                "# A heavy host joins zone b: which hosts give up what?\nrota plan --hosts hosts "
                "--queues 100 --partitions 16 \\\n    --add '10.0.0.9:7000 weight=2 zone=b'\n\n# "
                "Zone a fails: can the rest absorb it, with batches of 8 in slots?\nrota plan "
                "--hosts hosts --queues 100 --partitions 16 \\\n    --batch 8 --mode slots "
                "--remove-zone a\n\n# Go to batches of 8 within an hour: what moves when?\nrota "
                "plan --hosts hosts --queue orders --partitions 64 --batch-to 8 \\\n    --start "
                "2026-01-31T12:00:00Z --end 2026-01-31T13:00:00Z\n",
        },
    .run = run_plan,
};
