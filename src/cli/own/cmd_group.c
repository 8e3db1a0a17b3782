/* rota group: partitions that tasks own together. */
#include "base/quote.h"
#include "cli/cli.h"
#include "cli/own/group_join.h"
#include "cli/own/group_options.h"
#include "cli/own/group_show.h"
#include "cli/terminal.h"
#include "cli/watch.h"
#include "core/own/group.h"
#include "io/clock.h"

#include <math.h>
#include <stdlib.h>

/* --- join --- */

struct join {
    struct rota_group_join_options of;
    const char *splits;
    int log_level;
};

static const struct rota_option JOIN_OPTIONS[] = {
    ROTA_GROUP_LOG_OPTION(struct join, of.log),
    ROTA_GROUP_NAME_OPTION(struct join, of.name),
    {.name = "task",
     ROTA_OPTION_INTO(TEXT, struct join, of.task),
     .value_name = "NAME",
     .is_required = true,
     .min = 1,
     .max = ROTA_GROUP_TASK_NAME_MAX,
     .help = "name of this task; keep it across restarts"},
    {.name = "partitions",
     ROTA_OPTION_INTO(INT, struct join, of.partitions),
     .value_name = "N",
     .default_text = "4",
     .min = 0,
     .max = ROTA_GROUP_PARTITIONS_MAX,
     .help = "partitions of a new group, named p0 and up; the same for all tasks"},
    {.name = "rate",
     ROTA_OPTION_INTO(INT, struct join, of.rate),
     .value_name = "ROWS",
     .default_text = "100",
     .min = 0,
     .max = 1000000,
     .help = "rows to read from each partition per second; 0: none"},
    {.name = "simulate-splits",
     ROTA_OPTION_INTO(TEXT, struct join, splits),
     .value_name = "RATE",
     .default_text = "0",
     .help = "splits and merges of each partition per second, 0 to 100"},
    {.name = "session",
     ROTA_OPTION_INTO(SPAN, struct join, of.session),
     .value_name = "DURATION",
     .default_text = "6s",
     .min = ROTA_SYNC_SESSION_MIN,
     .max = ROTA_SYNC_SESSION_MAX,
     .help = "declare a task dead after this long without a heartbeat; the same for all tasks"},
    {.name = "stop-within",
     ROTA_OPTION_INTO(SPAN, struct join, of.stop_within),
     .value_name = "DURATION",
     .min = ROTA_MSEC,
     .max = ROTA_SYNC_SESSION_MAX,
     .help = "how long readers may take to stop, at most half of --session [default: 1s, or a "
             "quarter of a shorter session]"},
    {.name = "progress",
     ROTA_OPTION_INTO(SPAN, struct join, of.progress),
     .value_name = "DURATION",
     .default_text = "1s",
     .min = ROTA_MSEC,
     .max = ROTA_HOUR,
     .help = "how often to write positions to the log"},
    {.name = "withdraw",
     ROTA_OPTION_INTO(SPAN, struct join, of.withdraw),
     .value_name = "DURATION",
     .min = ROTA_MSEC,
     .max = ROTA_HOUR,
     .help =
         "offer a partition to another task if it is not taken within this time [default: never]"},
    {.name = "balance",
     ROTA_OPTION_INTO(SPAN, struct join, of.balance),
     .value_name = "DURATION",
     .min = ROTA_MSEC,
     .max = ROTA_HOUR,
     .help = "how often to move one running partition to a task with at least two fewer [default: "
             "never]"},
    {.name = "log-level",
     ROTA_OPTION_INTO(CHOICE, struct join, log_level),
     .value_name = "LEVEL",
     .default_text = "warn",
     .choices = rota_log_level_names,
     .help = "minimum level of log messages on standard error"},
};

static bool parse_rate(const char *text, double *rate)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0 || value > 100)
        return false;
    *rate = value;
    return true;
}

static int run_join(int argc, char *const *argv)
{
    struct join options = {0};
    struct rota_error error;
    char quoted[ROTA_QUOTE_MAX];
    int code;
    if (!rota_cli_parse(&rota_cmd_group_join, argc, argv, &options, NULL, &code))
        return code;
    if (!parse_rate(options.splits, &options.of.splits))
        return rota_cli_fail(ROTA_CLI_BAD, "--simulate-splits %s is not a number from 0 to 100",
                             rota_quote(rota_str(options.splits), quoted));
    options.of.log_level = (enum rota_log_level)options.log_level;
    if (rota_group_options_check(&options.of.log, false, &error))
        return rota_cli_fail_error(&error);
    return rota_group_join_run(&options.of);
}

const struct rota_cli_command rota_cmd_group_join = {
    .command =
        {
            .name = "group join",
            .summary = "Join a group with simulated partitions",
            .description =
                "Reads the group's log, joins the group and reads the partitions it is granted. "
                "Each is an endless sequence of rows, and with --simulate-splits it sometimes "
                "splits in two or merges with its sibling. Use it to see how a group behaves when "
                "tasks come, go, hang and die. SIGTERM and SIGINT end it gracefully: readers stop, "
                "their positions go to the log, the task leaves the group. A second signal ends it "
                "at once, with exit code 1.\n\nPrints a JSON object per line as things happen, "
                "each with \"event\", \"at\" (nanoseconds since the machine booted, the same clock "
                "for all its processes), \"task\" and \"incarnation\". The events: ready {offset}; "
                "joined {generation}; epoch {epoch, offset, is_leader, tasks}; start {partition, "
                "token, mark, position, parents}; read {partition, token, from, to}; stop and "
                "stopped {partition, token}; records that took effect in the log: own {partition, "
                "parents, offset}, share {partition, parents, target, offset}, take {partition, "
                "offset}, progress {partition, token, mark, offset}, finish {partition, token, "
                "offset}, remove {partition, offset}, move {partition, target, offset}, also of "
                "records that it wrote before it lost the group; refused {partition, reason}; "
                "watermark {mark}; lost {reason}; skipped {offset, reason}; unreachable {reason}: "
                "the log does not answer, and the task retries; failed {reason}; left. A mark is a "
                "number that says how far a partition has been read. The epoch counts changes of "
                "the group's members; the fencing token is \"token\".",
            .options = JOIN_OPTIONS,
            .n_options = sizeof JOIN_OPTIONS / sizeof *JOIN_OPTIONS,
            .examples = "rota group join --log sqlite:/tmp/group.db --name demo --task a\n"
                        "rota group join --log sqlite:/tmp/group.db --name demo --task b "
                        "--simulate-splits 0.2\n",
        },
    .run = run_join,
};

/* --- status --- */

struct status_options {
    const char *log, *name, *explain;
    rota_time timeout;
    bool json, is_watch;
    int output;
};

static const struct rota_option STATUS_OPTIONS[] = {
    ROTA_GROUP_LOG_OPTION(struct status_options, log),
    ROTA_GROUP_NAME_OPTION(struct status_options, name),
    {.name = "explain",
     ROTA_OPTION_INTO(TEXT, struct status_options, explain),
     .value_name = "PARTITION",
     .min = 1,
     .max = ROTA_GROUP_NAME_MAX,
     .help = "explain where this partition is, and why"},
    {.name = "watch",
     ROTA_OPTION_INTO(FLAG, struct status_options, is_watch),
     .help = "print again whenever something changes, until interrupted"},
    {.name = "timeout",
     ROTA_OPTION_INTO(SPAN, struct status_options, timeout),
     .value_name = "DURATION",
     .default_text = "10s",
     .min = ROTA_MSEC,
     .max = ROTA_DAY,
     .help = "how long reading the log may take"},
    {.name = "json",
     ROTA_OPTION_INTO(FLAG, struct status_options, json),
     .help = "print JSON; with --watch one object per line"},
    ROTA_TABLE_OPTION(struct status_options, output),
};

#define LOOK_EVERY (500 * ROTA_MSEC)

struct status {
    struct rota_watch watch; /* first */
    const struct status_options *options;
    struct rota_group *group;
    struct rota_terminal terminal;
    uv_timer_t timer;
    bool has_timer, is_ready, is_closed;
    struct rota_buffer last;
};

static void append_view(struct status *status, enum rota_table_form form)
{
    const struct status_options *o = status->options;
    struct rota_buffer *line = &status->watch.line, document = {0};
    if (o->explain && form != ROTA_TABLE_JSON) {
        rota_group_show_explain(line, status->group, o->explain);
        return;
    }
    rota_group_show_json(&document, status->group, o->name, o->explain);
    if (document.failed || rota_table_append(line, &rota_group_show_sheet, form, &status->terminal,
                                             rota_buffer_str(&document), rota_clock_wall(), NULL))
        line->failed = true;
    rota_buffer_deinit(&document);
}

static void show(struct status *status)
{
    struct rota_buffer *line = &status->watch.line;
    const struct status_options *o = status->options;
    enum rota_table_form form =
        o->json ? ROTA_TABLE_JSON
                : rota_table_choose((enum rota_table_form)o->output, &status->terminal);
    bool is_drawn = o->is_watch && form != ROTA_TABLE_JSON && status->terminal.is_redrawn;
    append_view(status, form);
    if (rota_str_is_equal(rota_buffer_str(line), rota_buffer_str(&status->last))) {
        rota_buffer_clear(line);
        return;
    }
    bool is_first = status->last.size == 0;
    rota_buffer_clear(&status->last);
    rota_buffer_append_str(&status->last, rota_buffer_str(line));
    rota_buffer_clear(line);
    if (is_drawn)
        rota_buffer_append_text(line, "\033[H\033[2J");
    else if (form != ROTA_TABLE_JSON && !is_first)
        rota_buffer_append_char(line, '\n');
    rota_buffer_append_str(line, rota_buffer_str(&status->last));
    rota_watch_print(&status->watch);
}

static void on_look(uv_timer_t *timer)
{
    struct status *status = timer->data;
    if (status->is_ready)
        show(status);
}

static void on_timeout(uv_timer_t *timer)
{
    struct status *status = timer->data;
    struct rota_group_status now;
    char text[ROTA_TIME_TEXT_MAX];
    rota_group_status(status->group, &now);
    rota_watch_stop(
        &status->watch,
        rota_cli_fail(ROTA_CLI_NO, "the log of group %s could not be read within %s: %s",
                      status->options->name, rota_span_format(status->options->timeout, text),
                      now.trouble ? now.trouble : "the log in --log has not answered yet"));
}

static void on_news(void *data, const struct rota_group_news *news)
{
    struct status *status = data;
    struct rota_group_status now;
    if (news->type != ROTA_GROUP_NEWS_READY)
        return;
    status->is_ready = true;
    rota_group_status(status->group, &now);
    if (now.epoch == 0 && !status->options->is_watch) {
        rota_watch_stop(&status->watch,
                        rota_cli_fail(ROTA_CLI_NO,
                                      "there is no group %s in the log: no task has started it",
                                      status->options->name));
        return;
    }
    show(status);
    if (status->options->is_watch)
        uv_timer_start(&status->timer, on_look, LOOK_EVERY / ROTA_MSEC, LOOK_EVERY / ROTA_MSEC);
    else
        rota_watch_stop(&status->watch, status->watch.exit_code);
}

static void on_failed(void *data, const struct rota_error *error)
{
    struct status *status = data;
    rota_watch_stop(&status->watch, rota_cli_fail(ROTA_CLI_NO, "%s", error->text));
}

static enum rota_code open_status(struct rota_watch *watch, struct rota_error *error)
{
    struct status *status = (struct status *)watch;
    const struct rota_group_options options = {
        .log_url = status->options->log,
        .name = status->options->name,
        .on_news = on_news,
        .on_failed = on_failed,
        .data = status,
    };
    enum rota_code code = rota_group_open(watch->loop, &options, &status->group, error);
    if (code)
        return code;
    uv_timer_init(watch->loop, &status->timer);
    status->timer.data = status;
    status->has_timer = true;
    uv_timer_start(&status->timer, on_timeout, (uint64_t)(status->options->timeout / ROTA_MSEC), 0);
    return ROTA_OK;
}

static void close_status(struct rota_watch *watch)
{
    struct status *status = (struct status *)watch;
    if (status->has_timer)
        uv_close((uv_handle_t *)&status->timer, NULL);
    rota_group_close(status->group, NULL, NULL);
    rota_buffer_deinit(&status->last);
}

static int run_status(int argc, char *const *argv)
{
    static struct status status; /* stays if the loop can't be ended in time */
    struct status_options options = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_group_status, argc, argv, &options, NULL, &code))
        return code;
    if (rota_group_options_check(&options.log, true, &error))
        return rota_cli_fail_error(&error);
    status.options = &options;
    status.terminal = rota_terminal_look();
    return rota_watch_command(&status.watch, options.json, open_status, close_status);
}

const struct rota_cli_command rota_cmd_group_status = {
    .command =
        {
            .name = "group status",
            .summary = "Show the tasks of a group and their partitions",
            .description =
                "Reads the group's log as its tasks do, without joining, and prints the epoch, the "
                "leader, the partitions, the watermark (the lowest mark, or progress, of all "
                "unfinished partitions), the end of the log, and a table of tasks: PARTITIONS a "
                "task owns, including finished ones; LOAD, its unfinished partitions and those "
                "offered to it; LAG, the number of records it had not read when it last wrote one, "
                "or - if it has not written since the last snapshot of the log. Partitions that "
                "are offered but not taken follow. Where the output is not a terminal, each line "
                "has the name of a field, a tab and its value; a task has `task` and its columns, "
                "an offer `offer` and its columns. Exits 1 if the group does not exist.\n\nWith "
                "--json: {\"group\", \"epoch\", \"sync_epoch\", \"generation\", \"leader\", "
                "\"partitions\", \"unfinished\", \"watermark\", \"log\": {\"first\", \"next\", "
                "\"end\", \"skipped\"}, \"tasks\": [{\"task\", \"incarnation\", \"is_leader\", "
                "\"partitions\", \"load\", \"lag\"}], \"offers\": [{\"partition\", \"target\", "
                "\"sharer\"}]}, and with --explain \"partition\" and \"explanation\". Unknown "
                "values are null. A sharer is the task that offers a partition. The epoch counts "
                "changes of the group's members; the fencing token, which --explain shows, is "
                "another number.",
            .options = STATUS_OPTIONS,
            .n_options = sizeof STATUS_OPTIONS / sizeof *STATUS_OPTIONS,
            .examples = "rota group status --log sqlite:/tmp/group.db --name demo\n"
                        "rota group status --log sqlite:/tmp/group.db --name demo --explain p3\n",
        },
    .run = run_status,
};
