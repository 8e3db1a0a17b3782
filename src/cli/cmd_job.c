/* rota job: look at jobs and change their fate; adding them is in cmd_job_add.c. */
#include "cli/cli.h"
#include "cli/queue_plan.h"
#include "cli/terminal.h"

/* --- one job --- */

struct about {
    struct rota_queue_client_options of;
    int64_t priority;
};

static const struct rota_option ABOUT_OPTIONS[] = {ROTA_QUEUE_CLIENT_OPTIONS(struct about)};
static const struct rota_option CHANGE_OPTIONS[] = {ROTA_QUEUE_CLIENT_OPTIONS(struct about),
                                                    ROTA_QUEUE_CLIENT_DRY_RUN(struct about)};

static const struct rota_option PRIORITY_OPTIONS[] = {
    ROTA_QUEUE_CLIENT_OPTIONS(struct about),
    ROTA_QUEUE_CLIENT_DRY_RUN(struct about),
    {.name = "priority",
     ROTA_OPTION_INTO(INT, struct about, priority),
     .value_name = "N",
     .is_required = true,
     .min = INT16_MIN,
     .max = INT16_MAX,
     .help = "new priority; higher runs first, the default is 0"},
};

/* What a command does with a job. */
typedef enum rota_code job_act(struct rota_queue_client *client,
                               const struct rota_queue_about *about, struct rota_buffer *buffer,
                               struct rota_error *error);

/* With one job after the other: what one of them refuses does not keep it from the next. */
static int act_on_all(struct rota_queue_client *client, const struct about *options,
                      const struct rota_option_list *names, job_act *act)
{
    int exit_code = 0;
    for (size_t i = 0; i < names->size; i++) {
        struct rota_queue_about about = {.priority = options->priority};
        struct rota_buffer buffer = {0};
        struct rota_error error;
        char id[ROTA_QUEUE_ID_SIZE];
        if (rota_queue_client_parse_name(names->items[i], &about, id, &error) ||
            act(client, &about, &buffer, &error)) {
            rota_buffer_deinit(&buffer);
            exit_code = rota_cli_fail_error(&error);
            continue;
        }
        int printed = rota_cli_print(&buffer);
        if (printed)
            return printed;
    }
    return exit_code;
}

/* The frame of commands about jobs. A name that can't be is found out before anything is done. */
static int run_about(const struct rota_cli_command *command, int argc, char *const *argv,
                     job_act *act)
{
    struct about options = {0};
    static struct rota_option_list arguments;
    struct rota_queue_client client;
    struct rota_queue_about about;
    struct rota_error error;
    char id[ROTA_QUEUE_ID_SIZE];
    int exit_code;
    if (!rota_cli_parse(command, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    for (size_t i = 0; i < arguments.size; i++)
        if (rota_queue_client_parse_name(arguments.items[i], &about, id, &error))
            return rota_cli_fail_error(&error);
    if (rota_queue_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    exit_code = act_on_all(&client, &options, &arguments, act);
    rota_queue_client_close(&client);
    return exit_code;
}

static void append_line(struct rota_buffer *buffer, const char *name, struct rota_str value)
{
    if (value.size == 0)
        return;
    rota_buffer_print(buffer, "%-10s ", name);
    rota_terminal_append(buffer, value);
    rota_buffer_append_char(buffer, '\n');
}

/* The same for a text of several lines. */
static void append_lines(struct rota_buffer *buffer, const char *name, struct rota_str value)
{
    for (bool is_first = true; value.size > 0; is_first = false) {
        const char *end = memchr(value.data, '\n', value.size);
        size_t size = end ? (size_t)(end - value.data) : value.size;
        append_line(buffer, is_first ? name : "", rota_str_of(value.data, size));
        size += end != NULL;
        value = rota_str_of(value.data + size, value.size - size);
    }
}

static struct rota_str first_line(struct rota_str text)
{
    const char *end = text.size > 0 ? memchr(text.data, '\n', text.size) : NULL;
    return rota_str_of(text.data, end ? (size_t)(end - text.data) : text.size);
}

/* "done (done)" says nothing. */
static bool is_told_by_state(const struct rota_queue_event *event)
{
    return (event->state == ROTA_JOB_DONE && event->cause == ROTA_JOB_CAUSE_DONE) ||
           (event->state == ROTA_JOB_CANCELLED && event->cause == ROTA_JOB_CAUSE_CANCELLED);
}

static void append_story(struct rota_buffer *buffer, const struct rota_queue_job_info *info)
{
    const struct rota_queue_event *events = info->events.items;
    char at[ROTA_TIME_TEXT_MAX];
    for (size_t i = 0; i < info->events.n; i++) {
        rota_buffer_print(buffer, "%s  %s", rota_queue_client_format_moment(events[i].at_ms, at),
                          events[i].state < ROTA_JOB_STATES
                              ? rota_job_state_name((enum rota_job_state)events[i].state)
                              : "unknown");
        if (events[i].cause && events[i].cause <= ROTA_JOB_CAUSE_HANDED_OVER &&
            !is_told_by_state(&events[i]))
            rota_buffer_print(buffer, " (%s)",
                              rota_job_cause_text((enum rota_job_cause)events[i].cause));
        if (events[i].worker.size) {
            rota_buffer_append_text(buffer, " at ");
            rota_terminal_append(buffer, events[i].worker);
        }
        if (events[i].reason.size) {
            rota_buffer_append_text(buffer, ": ");
            rota_terminal_append(buffer, first_line(events[i].reason));
        }
        rota_buffer_append_char(buffer, '\n');
    }
}

static void append_span(struct rota_buffer *buffer, const char *name, uint64_t ms)
{
    char text[ROTA_TIME_TEXT_MAX];
    if (ms > 0)
        rota_buffer_print(buffer, "%-10s %s\n", name,
                          rota_span_format(rota_queue_from_ms(ms), text));
}

/* What was asked for, as far as it is not the usual. */
static void append_spec(struct rota_buffer *buffer, const struct rota_queue_job_spec *spec)
{
    enum { PAYLOAD_SHOWN = 200 };
    struct rota_buffer can = {0};
    if (!spec)
        return;
    for (size_t i = 0; i < spec->can.n; i++) {
        rota_buffer_append_text(&can, i ? ", " : "");
        rota_buffer_append_str(&can, spec->can.items[i]);
    }
    append_line(buffer, "can", rota_buffer_str(&can));
    append_line(buffer, "key", spec->key);
    append_line(buffer, "unique", spec->unique);
    append_line(buffer, "trace", spec->trace);
    append_span(buffer, "timeout", spec->timeout_ms);
    append_span(buffer, "backoff", spec->backoff_ms);
    if (spec->max_attempts != 0)
        rota_buffer_print(buffer, "%-10s %llu at most\n", "attempts",
                          (unsigned long long)spec->max_attempts);
    if (spec->priority != 0)
        rota_buffer_print(buffer, "%-10s %lld\n", "priority", (long long)spec->priority);
    struct rota_str payload = first_line(spec->payload);
    if (payload.size > PAYLOAD_SHOWN)
        payload.size = PAYLOAD_SHOWN;
    append_line(buffer, "payload", payload);
    if (payload.size < spec->payload.size)
        rota_buffer_print(buffer, "%-10s ... %zu bytes in all\n", "", spec->payload.size);
    rota_buffer_deinit(&can);
}

static enum rota_code describe(struct rota_queue_client *client,
                               const struct rota_queue_about *about,
                               struct rota_queue_description *description, struct rota_error *error)
{
    struct rota_queue_about with = *about;
    with.asks_nodes = true;
    enum rota_code code = rota_queue_client_ask(client, "Describe", &ROTA_QUEUE_DESCRIBE, &with,
                                                &ROTA_QUEUE_DESCRIPTION, description, error);
    if (!code && !description->job)
        code = rota_error_set(error, ROTA_ERR_UNAVAILABLE, "malformed reply: expected a job");
    return code;
}

static enum rota_code show(struct rota_queue_client *client, const struct rota_queue_about *about,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_queue_description description;
    struct rota_queue_about with = *about;
    with.with_payload = true;
    enum rota_code code = describe(client, &with, &description, error);
    if (code)
        return code;
    const struct rota_queue_job_info *info = description.job;
    if (client->options->json) {
        struct rota_json json = {.buffer = buffer};
        rota_queue_client_add_job(&json, info);
        rota_buffer_append_char(buffer, '\n');
        return ROTA_OK;
    }
    append_line(buffer, "now", description.explain);
    append_spec(buffer, info->spec);
    append_line(buffer, "worker", info->worker);
    append_line(buffer, "progress", info->progress);
    append_lines(buffer, info->state == ROTA_JOB_DONE ? "log" : "reason", info->reason);
    append_line(buffer, "result", info->result);
    append_story(buffer, info);
    return ROTA_OK;
}

static enum rota_code explain(struct rota_queue_client *client,
                              const struct rota_queue_about *about, struct rota_buffer *buffer,
                              struct rota_error *error)
{
    struct rota_queue_description description;
    enum rota_code code = describe(client, about, &description, error);
    if (code)
        return code;
    if (client->options->json) {
        struct rota_json json = {.buffer = buffer};
        rota_json_begin_object(&json);
        rota_json_key(&json, "explain");
        rota_json_string(&json, description.explain);
        rota_json_end_object(&json);
    } else {
        rota_terminal_append(buffer, description.explain);
    }
    rota_buffer_append_char(buffer, '\n');
    return ROTA_OK;
}

static void append_done(struct rota_queue_client *client, struct rota_buffer *buffer)
{
    if (client->options->json)
        rota_buffer_append_text(buffer, "{}\n");
}

static enum rota_code cancel(struct rota_queue_client *client, const struct rota_queue_about *about,
                             struct rota_buffer *buffer, struct rota_error *error)
{
    if (client->options->dry_run)
        return rota_queue_plan_cancel(client, about, buffer, error);
    append_done(client, buffer);
    return rota_queue_client_ask(client, "Cancel", &ROTA_QUEUE_NAME, about, NULL, NULL, error);
}

static enum rota_code retry(struct rota_queue_client *client, const struct rota_queue_about *about,
                            struct rota_buffer *buffer, struct rota_error *error)
{
    if (client->options->dry_run)
        return rota_queue_plan_retry(client, about, buffer, error);
    append_done(client, buffer);
    return rota_queue_client_ask(client, "Retry", &ROTA_QUEUE_NAME, about, NULL, NULL, error);
}

static enum rota_code set_priority(struct rota_queue_client *client,
                                   const struct rota_queue_about *about, struct rota_buffer *buffer,
                                   struct rota_error *error)
{
    if (client->options->dry_run)
        return rota_queue_plan_priority(client, about, buffer, error);
    append_done(client, buffer);
    return rota_queue_client_ask(client, "SetPriority", &ROTA_QUEUE_PRIORITY, about, NULL, NULL,
                                 error);
}

static int run_show(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_show, argc, argv, show);
}

static int run_explain(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_explain, argc, argv, explain);
}

static int run_cancel(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_cancel, argc, argv, cancel);
}

static int run_retry(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_retry, argc, argv, retry);
}

static int run_priority(int argc, char *const *argv)
{
    return run_about(&rota_cmd_job_priority, argc, argv, set_priority);
}

#define ABOUT_COMMAND(variable, the_name, the_summary, the_arguments, n_max, text, the_run, table) \
    const struct rota_cli_command variable = {                                                     \
        .command = {.name = (the_name),                                                            \
                    .summary = (the_summary),                                                      \
                    .arguments = (the_arguments),                                                  \
                    .min_arguments = 1,                                                            \
                    .max_arguments = (n_max),                                                      \
                    .description = (text),                                                         \
                    .options = (table),                                                            \
                    .n_options = sizeof(table) / sizeof *(table)},                                 \
        .run = (the_run)}

ABOUT_COMMAND(
    rota_cmd_job_show, "job show", "Show a job and its history", "QUEUE/ID", 1,
    "Prints the state of a job and its history: why it failed last, or what its worker logged, and "
    "its result. Exits 1 if there is no such job.\n\nWith --json: {\"job\", \"state\", "
    "\"priority\", \"can\", \"enqueued_at\", \"not_before\", \"deadline\", \"ended_at\", "
    "\"attempts\", \"max_attempts\", \"timeout_ms\", \"backoff_ms\", \"backoff_max_ms\", "
    "\"worker\", \"key\", \"unique\", \"trace\", \"payload\", \"progress\", \"reason\", "
    "\"result\", \"events\": [{\"at\", \"state\", \"cause\", \"attempt\", \"worker\", "
    "\"reason\"}]}. The attempt of an event is its unique number, as in the log of `rota work`, "
    "not a count; it is 0 while the worker can still end the attempt. Bytes that are not UTF-8 are "
    "in \"result_base64\" and \"payload_base64\".",
    run_show, ABOUT_OPTIONS);
ABOUT_COMMAND(rota_cmd_job_explain, "job explain", "Explain why a job is where it is", "QUEUE/ID",
              1,
              "Prints one sentence: what the job waits for, which worker runs it, or how it "
              "ended.\n\nWith --json: {\"explain\"}.",
              run_explain, ABOUT_OPTIONS);
ABOUT_COMMAND(rota_cmd_job_cancel, "job cancel", "Cancel jobs in any state", "QUEUE/ID...", 0,
              "Stops the worker's attempt if the job is running. Exits 1 if a job has already "
              "ended; the others are cancelled anyway.\n\nWith --json: {} on a line for each "
              "cancelled job. " ROTA_DRY_RUN_JSON,
              run_cancel, CHANGE_OPTIONS);
ABOUT_COMMAND(rota_cmd_job_retry, "job retry", "Run dead or cancelled jobs again", "QUEUE/ID...", 0,
              "The jobs get all their attempts again. Exits 1 if a job is neither dead nor "
              "cancelled; the others are retried anyway.\n\nWith --json: {} on a line for each "
              "retried job. " ROTA_DRY_RUN_JSON,
              run_retry, CHANGE_OPTIONS);
ABOUT_COMMAND(rota_cmd_job_priority, "job priority", "Change the priority of jobs", "QUEUE/ID...",
              0,
              "A running job keeps running, and has the new priority when it waits again. Exits 1 "
              "if a job has already ended; the others are changed anyway.\n\nWith --json: {} on a "
              "line for each changed job. " ROTA_DRY_RUN_JSON,
              run_priority, PRIORITY_OPTIONS);

/* --- list --- */

struct list {
    struct rota_queue_client_options of;
    const char *queue;
    int state;
    int64_t limit;
};

static const char *const STATES[] = {"waiting", "delayed",   "running", "done",
                                     "dead",    "cancelled", NULL};

static const struct rota_option LIST_OPTIONS[] = {
    ROTA_QUEUE_CLIENT_LIST_OPTIONS(struct list),
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

static enum rota_code list_all(struct rota_queue_client *client, const struct list *options,
                               struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_queue_list_request request = {.queue = rota_str(options->queue),
                                              .state = (uint64_t)options->state};
    struct rota_queue_list_reply reply;
    uint64_t left = (uint64_t)options->limit;
    do {
        request.max_jobs = left < ROTA_QUEUE_LIST_MAX ? left : ROTA_QUEUE_LIST_MAX;
        enum rota_code code = rota_queue_client_ask(client, "List", &ROTA_QUEUE_LIST, &request,
                                                    &ROTA_QUEUE_LIST_REPLY, &reply, error);
        if (code)
            return code;
        const struct rota_queue_job_info *jobs = reply.jobs.items;
        rota_queue_client_tell_missing(client);
        for (size_t i = 0; i < reply.jobs.n; i++) {
            struct rota_json json = {.buffer = buffer};
            rota_queue_client_add_job(&json, &jobs[i]);
            rota_buffer_append_char(buffer, '\n');
        }
        left -= reply.jobs.n < left ? reply.jobs.n : left;
        request.after = reply.next;
    } while (reply.next && left > 0);
    return buffer->size > 0 ? ROTA_OK : rota_queue_client_check(client, request.queue, error);
}

static const struct rota_table_column JOB_COLUMNS[] = {
    {"JOB", "job", ROTA_TABLE_NAME, false},
    {"ADDED", "enqueued_at", ROTA_TABLE_TIME, false},
    {"PRIORITY", "priority", ROTA_TABLE_NUMBER, false},
    {"ATTEMPTS", "attempts", ROTA_TABLE_NUMBER, false},
    {"WORKER", "worker", ROTA_TABLE_TEXT, true},
    {"REASON", "reason", ROTA_TABLE_TEXT, false},
};
static const struct rota_table JOB_TABLE = {NULL, JOB_COLUMNS,
                                            sizeof JOB_COLUMNS / sizeof *JOB_COLUMNS};

static int run_list(int argc, char *const *argv)
{
    struct list options = {0};
    struct rota_queue_client client;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_job_list, argc, argv, &options, NULL, &code))
        return code;
    if (rota_queue_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    enum rota_code how = list_all(&client, &options, &buffer, &error);
    rota_queue_client_close(&client);
    if (!how)
        return rota_queue_client_answer(&rota_cmd_job_list, &options.of, &buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}

const struct rota_cli_command rota_cmd_job_list = {
    .command =
        {
            .name = "job list",
            .summary = "List jobs of a queue",
            .description = "Lists the jobs of a queue in one state, unordered. Exits 1 if there is "
                           "no such queue.\n\nColumns: JOB, when it was ADDED, PRIORITY, ATTEMPTS, "
                           "the WORKER that has it, and the REASON of the last failure.\n\nWith "
                           "--json: one object per line, as `job show` prints it, without events.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples = "rota job list --node 127.0.0.1:7700 --queue mail --state dead\n",
        },
    .table = &JOB_TABLE,
    .run = run_list,
};
