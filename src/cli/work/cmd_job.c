/* rota job: show jobs and change them; adding them is in cmd_job_add.c. */
#include "cli/cli.h"
#include "cli/place/queue_plan.h"
#include "cli/terminal.h"
#include "cli/work/queue_view.h"

/* --- one job --- */

struct about {
    struct rota_client_options of;
    int64_t priority;
};

static const struct rota_option ABOUT_OPTIONS[] = {ROTA_CLIENT_OPTIONS(struct about)};
static const struct rota_option SHOW_OPTIONS[] = {ROTA_CLIENT_LIST_OPTIONS(struct about)};
static const struct rota_option CHANGE_OPTIONS[] = {ROTA_CLIENT_OPTIONS(struct about),
                                                    ROTA_CLIENT_DRY_RUN(struct about)};

static const struct rota_option PRIORITY_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct about),
    ROTA_CLIENT_DRY_RUN(struct about),
    {.name = "priority",
     ROTA_OPTION_INTO(INT, struct about, priority),
     .value_name = "N",
     .is_required = true,
     .min = INT16_MIN,
     .max = INT16_MAX,
     .help = "new priority; higher runs first, the default is 0"},
};

enum act { SHOW, EXPLAIN, CANCEL, RETRY, PRIORITY };

/* What a command does with each of its jobs. */
struct turn {
    enum act act;
    const struct about *options;
    struct rota_buffer buffer;
    struct rota_error error;
    enum rota_code code;
};

static void append_explain(struct turn *turn, struct rota_str explain)
{
    struct rota_json json = {.buffer = &turn->buffer};
    if (turn->options->of.json) {
        rota_json_begin_object(&json);
        rota_json_add_string(&json, "explain", explain);
        rota_json_end_object(&json);
    } else {
        rota_terminal_append(&turn->buffer, explain);
    }
    rota_buffer_append_char(&turn->buffer, '\n');
}

static void on_result(void *data, const struct rota_queue_result *result)
{
    static const enum rota_queue_plan PLANS[] = {[CANCEL] = ROTA_QUEUE_PLAN_CANCEL,
                                                 [RETRY] = ROTA_QUEUE_PLAN_RETRY,
                                                 [PRIORITY] = ROTA_QUEUE_PLAN_PRIORITY};
    struct turn *turn = data;
    const struct about *options = turn->options;
    if (result->code)
        turn->code = rota_client_error(result, &turn->error);
    else if (options->of.dry_run)
        turn->code = rota_queue_plan_job(PLANS[turn->act], result, options->priority,
                                         options->of.json, &turn->buffer, &turn->error);
    else if (turn->act == SHOW)
        rota_queue_view_append_job(&turn->buffer, result);
    else if (turn->act == EXPLAIN)
        append_explain(turn, result->details->explain);
    else if (options->of.json)
        rota_buffer_append_text(&turn->buffer, "{}\n");
}

/* Call the node; a dry run only reads. */
static enum rota_code start(struct turn *turn, struct rota_queue *queue, const char *job)
{
    struct rota_error *error = &turn->error;
    switch (turn->options->of.dry_run ? EXPLAIN : turn->act) {
    case CANCEL:
        return rota_queue_cancel(queue, job, on_result, turn, error);
    case RETRY:
        return rota_queue_retry(queue, job, on_result, turn, error);
    case PRIORITY:
        return rota_queue_set_priority(queue, job, (int16_t)turn->options->priority, on_result,
                                       turn, error);
    case SHOW:
    case EXPLAIN:
        break;
    }
    return rota_queue_describe(queue, job, turn->act == SHOW, on_result, turn, error);
}

/* Handle one job after the other; a refusal does not stop the rest. */
static int act_on_all(const struct rota_cli_command *command, struct rota_client *client,
                      struct rota_queue *queue, const struct about *options,
                      const struct rota_option_list *names, enum act act)
{
    int exit_code = 0;
    for (size_t i = 0; i < names->size; i++) {
        struct turn turn = {.act = act, .options = options};
        enum rota_code code = start(&turn, queue, names->items[i]);
        if (!code) {
            rota_queue_await(queue);
            code = turn.code;
        }
        if (code) {
            rota_buffer_deinit(&turn.buffer);
            exit_code = rota_cli_fail_error(&turn.error);
            continue;
        }
        int printed = rota_client_answer(command, client->options, &turn.buffer);
        if (printed)
            return printed;
    }
    return exit_code;
}

/* The frame of commands about jobs. All names are checked before anything is done. */
static int run_about(const struct rota_cli_command *command, int argc, char *const *argv,
                     enum act act)
{
    struct about options = {0};
    static struct rota_option_list arguments;
    struct rota_client client;
    struct rota_queue *queue;
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(command, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    for (size_t i = 0; i < arguments.size; i++)
        if (rota_queue_view_check_job(arguments.items[i], &error))
            return rota_cli_fail_error(&error);
    if (rota_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    exit_code = rota_client_queue(&client, ROTA_CLIENT_ONCE, &queue, &error)
                    ? rota_cli_fail_error(&error)
                    : act_on_all(command, &client, queue, &options, &arguments, act);
    rota_client_close(&client);
    return exit_code;
}

static int run_show(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_show, argc, argv, SHOW);
}

static int run_explain(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_explain, argc, argv, EXPLAIN);
}

static int run_cancel(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_cancel, argc, argv, CANCEL);
}

static int run_retry(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_retry, argc, argv, RETRY);
}

static int run_priority(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_priority, argc, argv, PRIORITY);
}

static const struct rota_table_column SHOW_COLUMNS[] = {
    {"JOB", "job", ROTA_TABLE_NAME, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"SUMMARY", "explain", ROTA_TABLE_LINES, false},
    {"ADDED", "enqueued_at", ROTA_TABLE_TIME, false},
    {"NOT BEFORE", "not_before", ROTA_TABLE_TIME, false},
    {"DEADLINE", "deadline", ROTA_TABLE_TIME, false},
    {"ENDED", "ended_at", ROTA_TABLE_TIME, false},
    {"ATTEMPTS", "attempts", ROTA_TABLE_NUMBER, false},
    {"MAX ATTEMPTS", "max_attempts", ROTA_TABLE_NUMBER, false},
    {"PRIORITY", "priority", ROTA_TABLE_NUMBER, false},
    {"TIMEOUT", "timeout_ms", ROTA_TABLE_DURATION, false},
    {"BACKOFF", "backoff_ms", ROTA_TABLE_DURATION, true},
    {"MAX BACKOFF", "backoff_max_ms", ROTA_TABLE_DURATION, true},
    {"CAPABILITIES", "can", ROTA_TABLE_LIST, false},
    {"KEY", "key", ROTA_TABLE_TEXT, false},
    {"UNIQUE KEY", "unique", ROTA_TABLE_TEXT, false},
    {"TRACE", "trace", ROTA_TABLE_TEXT, false},
    {"WORKER", "worker", ROTA_TABLE_NAME, false},
    {"PROGRESS", "progress", ROTA_TABLE_TEXT, false},
    {"MESSAGE", "reason", ROTA_TABLE_LINES, false},
    {"PAYLOAD", "payload", ROTA_TABLE_TEXT, false},
    {"PAYLOAD (BASE64)", "payload_base64", ROTA_TABLE_TEXT, false},
    {"RESULT", "result", ROTA_TABLE_TEXT, false},
    {"RESULT (BASE64)", "result_base64", ROTA_TABLE_TEXT, false},
};
static const struct rota_table_column EVENT_COLUMNS[] = {
    {"TIME", "at", ROTA_TABLE_TIME, false},       {"STATE", "state", ROTA_TABLE_STATE, false},
    {"CAUSE", "cause", ROTA_TABLE_TEXT, false},   {"ATTEMPT", "attempt", ROTA_TABLE_NUMBER, true},
    {"WORKER", "worker", ROTA_TABLE_TEXT, false}, {"REASON", "reason", ROTA_TABLE_TEXT, false},
};
static const struct rota_table EVENTS = ROTA_TABLE_PART("events", "event", EVENT_COLUMNS);
static const struct rota_table SHOW_SHEET = ROTA_TABLE_SHEET(SHOW_COLUMNS, &EVENTS, 1);

#define ABOUT_COMMAND(variable, the_name, the_summary, the_arguments, n_max, text, the_run, words, \
                      sheet)                                                                       \
    const struct rota_cli_command variable = {                                                     \
        .command = {.name = (the_name),                                                            \
                    .summary = (the_summary),                                                      \
                    .arguments = (the_arguments),                                                  \
                    .min_arguments = 1,                                                            \
                    .max_arguments = (n_max),                                                      \
                    .description = (text),                                                         \
                    .options = (words),                                                            \
                    .n_options = sizeof(words) / sizeof *(words)},                                 \
        .run = (the_run),                                                                          \
        .table = (sheet)}

ABOUT_COMMAND(
    rota_cmd_job_show, "job show", "Show a job and its history", "QUEUE/ID", 1,
    "Prints the state of a job, a sentence that explains it, the job's options, the MESSAGE (why "
    "it failed last, or what its worker logged), its RESULT, and its history. A terminal gets a "
    "title and a value per line, and a table of events; -o wide cuts nothing. Elsewhere each line "
    "has the name of a field, a tab and its value; an event has `event`, the time, state, cause, "
    "attempt, worker and reason. Exits 1 if there is no such job.\n\nWith --json: {\"job\", "
    "\"state\", \"explain\", \"priority\", \"can\", \"enqueued_at\", \"not_before\", \"deadline\", "
    "\"ended_at\", \"attempts\", \"max_attempts\", \"timeout_ms\", \"backoff_ms\", "
    "\"backoff_max_ms\", \"worker\", \"key\", \"unique\", \"trace\", \"payload\", \"progress\", "
    "\"reason\", \"result\", \"events\": [{\"at\", \"state\", \"cause\", \"attempt\", \"worker\", "
    "\"reason\"}]}. The attempt of an event is its unique number, as in the log of `rota work`, "
    "not a count. It is a fencing token, so it is shown as 0 until the attempt is over. Bytes that "
    "are not UTF-8 are in \"result_base64\" and \"payload_base64\".",
    run_show, SHOW_OPTIONS, &SHOW_SHEET);
ABOUT_COMMAND(rota_cmd_job_explain, "job explain", "Explain why a job is where it is", "QUEUE/ID",
              1,
              "Prints one sentence: what the job waits for, which worker runs it, or how it "
              "ended.\n\nWith --json: {\"explain\"}.",
              run_explain, ABOUT_OPTIONS, NULL);
ABOUT_COMMAND(rota_cmd_job_cancel, "job cancel", "Cancel jobs that have not ended", "QUEUE/ID...",
              0,
              "Stops the worker's attempt if the job is running. Exits 1 if a job has already "
              "ended; the others are cancelled anyway.\n\nWith --json: {} on a line for each "
              "cancelled job. " ROTA_DRY_RUN_JSON,
              run_cancel, CHANGE_OPTIONS, NULL);
ABOUT_COMMAND(rota_cmd_job_retry, "job retry", "Run dead or cancelled jobs again", "QUEUE/ID...", 0,
              "The jobs get all their attempts again. Exits 1 if a job is neither dead nor "
              "cancelled; the others are retried anyway.\n\nWith --json: {} on a line for each "
              "retried job. " ROTA_DRY_RUN_JSON,
              run_retry, CHANGE_OPTIONS, NULL);
ABOUT_COMMAND(rota_cmd_job_priority, "job priority", "Change the priority of jobs", "QUEUE/ID...",
              0,
              "A running job keeps running, and has the new priority when it waits again. Exits 1 "
              "if a job has already ended; the others are changed anyway.\n\nWith --json: {} on a "
              "line for each changed job. " ROTA_DRY_RUN_JSON,
              run_priority, PRIORITY_OPTIONS, NULL);

/* --- list --- */

struct list {
    struct rota_client_options of;
    const char *queue;
    int state;
    int64_t limit;
};

static const char *const STATES[] = {"waiting", "delayed",   "running", "done",
                                     "dead",    "cancelled", NULL};

static const struct rota_option LIST_OPTIONS[] = {
    ROTA_CLIENT_LIST_OPTIONS(struct list),
    {.name = "queue",
     ROTA_OPTION_INTO(TEXT, struct list, queue),
     .value_name = "NAME",
     .is_required = true,
     .min = 1,
     .max = ROTA_JOB_QUEUE_NAME_MAX,
     .help = "name of the queue"},
    {.name = "state",
     ROTA_OPTION_INTO(CHOICE, struct list, state),
     .value_name = "STATE",
     .default_text = "waiting",
     .choices = STATES,
     .help = "state of the jobs"},
    {.name = "limit",
     ROTA_OPTION_INTO(INT, struct list, limit),
     .value_name = "N",
     .default_text = "100",
     .min = 1,
     .max = 10000000,
     .help = "maximum number of jobs"},
};

static enum rota_code list_jobs(struct rota_client *client, const void *data,
                                struct rota_buffer *buffer, struct rota_error *error)
{
    const struct list *options = data;
    return rota_queue_view_append_jobs(client, rota_str(options->queue),
                                       (enum rota_queue_state)options->state,
                                       (uint64_t)options->limit, buffer, error);
}

static const struct rota_table_column JOB_COLUMNS[] = {
    {"JOB", "job", ROTA_TABLE_NAME, false},
    {"ADDED", "enqueued_at", ROTA_TABLE_AGE, false},
    {"PRIORITY", "priority", ROTA_TABLE_NUMBER, false},
    {"ATTEMPTS", "attempts", ROTA_TABLE_NUMBER, false},
    {"WORKER", "worker", ROTA_TABLE_TEXT, true},
    {"REASON", "reason", ROTA_TABLE_TEXT, false},
};
static const struct rota_table JOB_TABLE = ROTA_TABLE_OF(NULL, JOB_COLUMNS);

static int run_list(int argc, char *const *argv)
{
    struct list options = {0};
    int code;
    if (!rota_cli_parse(&rota_cmd_job_list, argc, argv, &options, NULL, &code))
        return code;
    return rota_client_run(&rota_cmd_job_list, &options.of, list_jobs, &options);
}

const struct rota_cli_command rota_cmd_job_list = {
    .command =
        {
            .name = "job list",
            .summary = "List jobs of a queue",
            .description =
                "Lists the jobs of a queue in one state, unordered. Exits 1 if there is no such "
                "queue.\n\nColumns: JOB, when it was ADDED, PRIORITY, ATTEMPTS, the WORKER that "
                "has it, and the REASON for the last failure.\n\nWith --json: one object per line, "
                "as `job show` prints it, without events. Nodes that did not answer are listed on "
                "a line {\"missing\": [{\"node\", \"why\"}]}.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples = "rota job list --node 127.0.0.1:7700 --queue mail --state dead\n",
        },
    .table = &JOB_TABLE,
    .run = run_list,
};
