/* rota job: add jobs to a queue, look at them and change their fate. */
#include "cli/cli.h"
#include "cli/queue_client.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <unistd.h>

/* --- add --- */

struct add {
    struct rota_queue_client_options of;
    const char *queue, *unique, *key, *trace, *lines;
    struct rota_option_list can;
    int64_t priority, attempts, partition;
    rota_time delay, job_timeout, deadline;
    bool wait;
};

static const struct rota_option ADD_OPTIONS[] = {
    ROTA_QUEUE_CLIENT_OPTIONS(struct add),
    {.name = "queue",
     ROTA_OPTION_INTO(TEXT, struct add, queue),
     .value_name = "NAME",
     .is_required = true,
     .min = 1,
     .max = ROTA_JOB_QUEUE_NAME_MAX,
     .help = "the queue"},
    {.name = "can",
     ROTA_OPTION_INTO(LIST, struct add, can),
     .value_name = "CAPABILITY",
     .help = "what a worker must be able to do; may be repeated"},
    {.name = "priority",
     ROTA_OPTION_INTO(INT, struct add, priority),
     .value_name = "N",
     .default_text = "0",
     .min = INT16_MIN,
     .max = INT16_MAX,
     .help = "the highest goes first"},
    {.name = "delay",
     ROTA_OPTION_INTO(SPAN, struct add, delay),
     .value_name = "SPAN",
     .max = 3650 * ROTA_DAY,
     .help = "how long it waits before anybody gets it"},
    {.name = "deadline",
     ROTA_OPTION_INTO(TIME, struct add, deadline),
     .value_name = "MOMENT",
     .help = "it is not begun any more after, and stopped"},
    {.name = "job-timeout",
     ROTA_OPTION_INTO(SPAN, struct add, job_timeout),
     .value_name = "SPAN",
     .max = 3650 * ROTA_DAY,
     .help = "how long one attempt may take"},
    {.name = "attempts",
     ROTA_OPTION_INTO(INT, struct add, attempts),
     .value_name = "N",
     .min = 1,
     .max = ROTA_JOB_ATTEMPTS_MAX,
     .help = "how often it is tried; 5 if not given"},
    {.name = "unique",
     ROTA_OPTION_INTO(TEXT, struct add, unique),
     .value_name = "KEY",
     .max = ROTA_JOB_KEY_MAX,
     .help = "no second job with this key while one waits or runs"},
    {.name = "key",
     ROTA_OPTION_INTO(TEXT, struct add, key),
     .value_name = "KEY",
     .max = ROTA_JOB_KEY_MAX,
     .help = "whose job it is: keys share a queue fairly"},
    {.name = "trace",
     ROTA_OPTION_INTO(TEXT, struct add, trace),
     .value_name = "ID",
     .max = ROTA_JOB_KEY_MAX,
     .help = "a name that goes along with it"},
    {.name = "lines",
     ROTA_OPTION_INTO(TEXT, struct add, lines),
     .value_name = "FILE",
     .help = "a job for each line of a file, - for standard input"},
    {.name = "wait",
     ROTA_OPTION_INTO(FLAG, struct add, wait),
     .help = "wait for its end and print the result"},
};

static void fill_spec(const struct add *options, struct rota_str names[ROTA_OPTION_LIST_MAX],
                      struct rota_queue_job_spec *spec)
{
    for (size_t i = 0; i < options->can.size; i++)
        names[i] = rota_str(options->can.items[i]);
    *spec = (struct rota_queue_job_spec){
        .queue = rota_str(options->queue),
        .can = {names, options->can.size},
        .priority = options->priority,
        .delay_ms = rota_queue_to_ms(options->delay),
        .deadline_ms = rota_queue_to_ms(options->deadline),
        .timeout_ms = rota_queue_to_ms(options->job_timeout),
        .max_attempts = (uint64_t)options->attempts,
        .unique = rota_str(options->unique ? options->unique : ""),
        .key = rota_str(options->key ? options->key : ""),
        .trace = rota_str(options->trace ? options->trace : ""),
    };
}

/* An id of our own: an add whose outcome is not known can be made again. */
static struct rota_str make_id(char id[ROTA_QUEUE_ID_SIZE])
{
    uint64_t chance = uv_hrtime();
    uv_random(NULL, NULL, &chance, sizeof chance, 0, NULL);
    return rota_queue_id_write(rota_job_id_make(rota_cli_now(ROTA_TIME_MIN), 0, chance), id);
}

/* Called again, with the same ids, when nobody knows what became of it. */
static enum rota_code ask_again(struct rota_queue_client *client, const char *method,
                                const struct rota_message_type *request_type, const void *request,
                                const struct rota_message_type *reply_type, void *reply,
                                struct rota_error *error)
{
    enum rota_code code = ROTA_ERR_UNAVAILABLE;
    for (int i = 0; i < 3 && code == ROTA_ERR_UNAVAILABLE; i++) {
        code =
            rota_queue_client_ask(client, method, request_type, request, reply_type, reply, error);
        if (client->reply.status != ROTA_STATUS_UNAVAILABLE)
            break;
    }
    return code;
}

struct waiter {
    struct rota_queue_client *client;
    struct rota_buffer last; /* what was heard last */
    enum rota_status status;
    bool is_over;
};

static void on_news(void *data, struct rota_call *call, struct rota_str message)
{
    struct waiter *waiter = data;
    (void)call;
    rota_buffer_clear(&waiter->last);
    rota_buffer_append_str(&waiter->last, message);
}

static void on_watch_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct waiter *waiter = data;
    (void)call;
    waiter->status = result->status;
    waiter->is_over = true;
}

static int print_end(struct rota_queue_client *client, const struct rota_queue_job_info *info)
{
    struct rota_buffer buffer = {0};
    if (client->options->json) {
        struct rota_json json = {.buffer = &buffer};
        rota_queue_client_add_job(&json, info);
        rota_buffer_append_char(&buffer, '\n');
    } else if (info->state == ROTA_JOB_DONE) {
        rota_buffer_append_str(&buffer, info->result);
    } else {
        struct rota_buffer reason = {0};
        rota_terminal_append(&reason, info->reason);
        int code = rota_cli_fail(ROTA_CLI_NO, "the job is %s: %s",
                                 info->state < ROTA_JOB_STATES
                                     ? rota_job_state_name((enum rota_job_state)info->state)
                                     : "in an unknown state",
                                 rota_buffer_str(&reason).data);
        rota_buffer_deinit(&reason);
        return code;
    }
    int code = rota_cli_print(&buffer);
    return info->state == ROTA_JOB_DONE ? code : ROTA_CLI_NO;
}

/* Watch a job to its end; the exit code. */
static int wait_for(struct rota_queue_client *client, const struct rota_queue_about *about)
{
    struct waiter waiter = {.client = client};
    struct rota_buffer request = {0};
    struct rota_error error;
    struct rota_queue_news news;
    rota_message_encode(&ROTA_QUEUE_NAME, about, &request);
    struct rota_call_options call = {.method = rota_str("/rota.v1.Queue/Watch"),
                                     .request = rota_buffer_str(&request),
                                     .wait_for_ready = true,
                                     .on_message = on_news,
                                     .on_end = on_watch_end,
                                     .data = &waiter};
    int code = ROTA_CLI_NO;
    do { /* a broker that is restarted is asked again */
        waiter.is_over = false;
        if (rota_channel_call(client->channel, &call, NULL, &error)) {
            code = rota_cli_fail_error(&error);
            goto end;
        }
        while (!waiter.is_over)
            uv_run(&client->loop, UV_RUN_ONCE);
    } while (waiter.status == ROTA_STATUS_UNAVAILABLE);
    rota_arena_clear(&client->arena);
    if (waiter.status != ROTA_STATUS_OK || waiter.last.failed)
        code = rota_cli_fail(ROTA_CLI_NO, "the job's end was not heard of: %s",
                             rota_status_name(waiter.status));
    else if (rota_message_decode(&ROTA_QUEUE_NEWS, rota_buffer_str(&waiter.last), &news,
                                 &client->arena, &error) ||
             !news.job)
        code = rota_cli_fail(ROTA_CLI_NO, "what was answered is no job");
    else
        code = print_end(client, news.job);
end:
    rota_buffer_deinit(&request);
    rota_buffer_deinit(&waiter.last);
    return code;
}

static void append_added(struct rota_buffer *buffer, const struct add *options,
                         const struct rota_queue_added *added)
{
    struct rota_str queue = rota_str(options->queue);
    if (!options->of.json) {
        rota_queue_client_append_name(buffer, queue, added->id);
        rota_buffer_append_char(buffer, '\n');
        return;
    }
    struct rota_json json = {.buffer = buffer};
    struct rota_buffer name = {0};
    rota_queue_client_append_name(&name, queue, added->id);
    rota_json_begin_object(&json);
    rota_json_key(&json, "job");
    rota_json_string(&json, rota_buffer_str(&name));
    rota_json_key(&json, "is_new");
    rota_json_bool(&json, added->is_new);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
    rota_buffer_deinit(&name);
}

static int add_one(struct rota_queue_client *client, const struct add *options,
                   struct rota_str payload)
{
    struct rota_str names[ROTA_OPTION_LIST_MAX];
    struct rota_queue_job_spec spec;
    struct rota_queue_add request = {.job = &spec};
    struct rota_queue_added added;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    char id[ROTA_QUEUE_ID_SIZE], kept[ROTA_QUEUE_ID_SIZE];
    fill_spec(options, names, &spec);
    spec.payload = payload;
    spec.id = make_id(id);
    if (ask_again(client, "Add", &ROTA_QUEUE_ADD, &request, &ROTA_QUEUE_ADDED, &added, &error))
        return rota_cli_fail_error(&error);
    if (added.id.size != sizeof kept)
        return rota_cli_fail(ROTA_CLI_NO, "what was answered is no job");
    if (!options->wait) {
        append_added(&buffer, options, &added);
        return rota_cli_print(&buffer);
    }
    memcpy(kept, added.id.data, sizeof kept);
    struct rota_queue_about about = {.queue = spec.queue, .id = rota_str_of(kept, sizeof kept)};
    return wait_for(client, &about);
}

enum { LINES_MAX = 1000, LINES_BYTES = 4 << 20 }; /* of one batch */

/* Add what is gathered; false when the command is over. */
static bool add_batch(struct rota_queue_client *client, const struct rota_queue_job_spec *jobs,
                      size_t n, size_t first_line, int *exit_code)
{
    struct rota_queue_list request = {{jobs, n}}, reply;
    struct rota_error error;
    if (n == 0)
        return true;
    if (ask_again(client, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &ROTA_QUEUE_ADD_BATCH_REPLY,
                  &reply, &error)) {
        *exit_code = rota_cli_fail_error(&error);
        return false;
    }
    const struct rota_queue_added *added = reply.items.items;
    for (size_t i = 0; i < reply.items.n; i++)
        if (added[i].status) {
            *exit_code = rota_cli_fail(ROTA_CLI_NO, "line %zu: %.*s", first_line + i,
                                       ROTA_STR_ARGS(added[i].error));
            return false;
        }
    return true;
}

static int add_lines(struct rota_queue_client *client, const struct add *options)
{
    struct rota_str names[ROTA_OPTION_LIST_MAX];
    static struct rota_queue_job_spec jobs[LINES_MAX];
    static char ids[LINES_MAX][ROTA_QUEUE_ID_SIZE];
    struct rota_progress progress = {.what = "adding jobs"};
    struct rota_buffer content = {0};
    struct rota_error error;
    size_t n = 0, bytes = 0, n_lines = 0;
    int code = ROTA_CLI_OK;
    if (rota_cli_read_file(options->lines, (size_t)1 << 30, &content, &error))
        return rota_cli_fail_error(&error);
    bool is_well = true;
    for (size_t at = 0; is_well && at < content.size;) {
        const char *line = content.data + at, *end = memchr(line, '\n', content.size - at);
        size_t size = end ? (size_t)(end - line) : content.size - at;
        if (n == LINES_MAX || (n > 0 && bytes + size > LINES_BYTES)) {
            is_well = add_batch(client, jobs, n, n_lines - n + 1, &code);
            n = bytes = 0;
            rota_progress_step(&progress, at, content.size);
        }
        fill_spec(options, names, &jobs[n]);
        jobs[n].payload = rota_str_of(line, size);
        jobs[n].id = make_id(ids[n]);
        n++;
        n_lines++;
        bytes += size;
        at += size + 1;
    }
    is_well = is_well && add_batch(client, jobs, n, n_lines - n + 1, &code);
    rota_progress_end(&progress);
    rota_buffer_deinit(&content);
    if (!is_well)
        return code;
    printf(options->of.json ? "{\"added\":%zu}\n" : "%zu jobs added\n", n_lines);
    return ROTA_CLI_OK;
}

static int run_add(int argc, char *const *argv)
{
    static struct add options;
    static struct rota_option_list arguments;
    struct rota_queue_client client;
    struct rota_buffer input = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_job_add, argc, argv, &options, &arguments, &code))
        return code;
    const char *payload = arguments.size > 0 ? arguments.items[0] : NULL;
    if (options.lines && (payload || options.wait))
        return rota_cli_fail(ROTA_CLI_BAD, "--lines goes with neither a payload nor --wait");
    if (payload && strcmp(payload, "-") == 0) {
        if (rota_cli_read_file("-", ROTA_JOB_PAYLOAD_MAX, &input, &error))
            return rota_cli_fail_error(&error);
    } else if (payload) {
        rota_buffer_append_text(&input, payload);
    }
    code = rota_queue_client_open(&options.of, &client, &error);
    if (code) {
        rota_buffer_deinit(&input);
        return rota_cli_fail_error(&error);
    }
    code = options.lines ? add_lines(&client, &options)
                         : add_one(&client, &options, rota_buffer_str(&input));
    rota_queue_client_close(&client);
    rota_buffer_deinit(&input);
    return code;
}

const struct rota_cli_command rota_cmd_job_add = {
    .command =
        {
            .name = "job add",
            .summary = "Add a job to a queue",
            .arguments = "[PAYLOAD]",
            .max_arguments = 1,
            .description =
                "Adds a job whose payload is the argument, or standard input when that is `-`, and "
                "prints its name, QUEUE/ID, when the broker has it for good. With --wait the "
                "result is printed instead, and a job that was not done is exit code 1. With "
                "--lines there is a job for each line of a file; how many is printed.\n\n"
                "With --json: {\"job\", \"is_new\"}, the job as `job show` prints it, or "
                "{\"added\"}.",
            .options = ADD_OPTIONS,
            .n_options = sizeof ADD_OPTIONS / sizeof *ADD_OPTIONS,
            .examples = "rota job add --node 127.0.0.1:7700 --queue mail --delay 5s hello\n"
                        "rota job add --queue matches --can go --lines pairings\n",
        },
    .run = run_add,
};

/* --- one job --- */

struct about {
    struct rota_queue_client_options of;
};

static const struct rota_option ABOUT_OPTIONS[] = {ROTA_QUEUE_CLIENT_OPTIONS(struct about)};

/* The frame of commands about one job. */
static int run_about(const struct rota_cli_command *command, int argc, char *const *argv,
                     enum rota_code (*act)(struct rota_queue_client *client,
                                           const struct rota_queue_about *about,
                                           struct rota_buffer *buffer, struct rota_error *error))
{
    struct about options = {0};
    static struct rota_option_list arguments;
    struct rota_queue_client client;
    struct rota_queue_about about = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    char id[ROTA_QUEUE_ID_SIZE];
    int exit_code;
    if (!rota_cli_parse(command, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    if (rota_queue_client_parse_name(arguments.items[0], &about, id, &error) ||
        rota_queue_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    enum rota_code code = act(&client, &about, &buffer, &error);
    rota_queue_client_close(&client);
    if (!code)
        return rota_cli_print(&buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
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
    const char *end = memchr(text.data, '\n', text.size);
    return rota_str_of(text.data, end ? (size_t)(end - text.data) : text.size);
}

static void append_story(struct rota_buffer *buffer, const struct rota_queue_job_info *info)
{
    const struct rota_queue_event *events = info->events.items;
    char at[ROTA_TIME_TEXT_MAX];
    for (size_t i = 0; i < info->events.n; i++) {
        rota_buffer_print(buffer, "%s  %s",
                          rota_time_format(rota_queue_from_ms(events[i].at_ms), at),
                          events[i].state < ROTA_JOB_STATES
                              ? rota_job_state_name((enum rota_job_state)events[i].state)
                              : "unknown");
        if (events[i].cause && events[i].cause <= ROTA_JOB_CAUSE_HANDED_OVER)
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

static enum rota_code describe(struct rota_queue_client *client,
                               const struct rota_queue_about *about,
                               struct rota_queue_description *description, struct rota_error *error)
{
    enum rota_code code = rota_queue_client_ask(client, "Describe", &ROTA_QUEUE_DESCRIBE, about,
                                                &ROTA_QUEUE_DESCRIPTION, description, error);
    if (!code && !description->job)
        code = rota_error_set(error, ROTA_ERR_UNAVAILABLE, "what was answered is no job");
    return code;
}

static enum rota_code show(struct rota_queue_client *client, const struct rota_queue_about *about,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_queue_description description;
    enum rota_code code = describe(client, about, &description, error);
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
    append_done(client, buffer);
    return rota_queue_client_ask(client, "Cancel", &ROTA_QUEUE_NAME, about, NULL, NULL, error);
}

static enum rota_code retry(struct rota_queue_client *client, const struct rota_queue_about *about,
                            struct rota_buffer *buffer, struct rota_error *error)
{
    append_done(client, buffer);
    return rota_queue_client_ask(client, "Retry", &ROTA_QUEUE_NAME, about, NULL, NULL, error);
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

#define ABOUT_COMMAND(variable, the_name, the_summary, text, the_run)                              \
    const struct rota_cli_command variable = {                                                     \
        .command = {.name = (the_name),                                                            \
                    .summary = (the_summary),                                                      \
                    .arguments = "QUEUE/ID",                                                       \
                    .min_arguments = 1,                                                            \
                    .max_arguments = 1,                                                            \
                    .description = (text),                                                         \
                    .options = ABOUT_OPTIONS,                                                      \
                    .n_options = sizeof ABOUT_OPTIONS / sizeof *ABOUT_OPTIONS},                    \
        .run = (the_run)}

ABOUT_COMMAND(rota_cmd_job_show, "job show", "Show a job and its story",
              "Prints what a job does now and all that is remembered of its life: why it failed "
              "last, or what its worker has logged, and its result. No such job is exit code "
              "1.\n\n"
              "With --json: {\"job\", \"state\", \"priority\", \"can\", \"enqueued_at\", "
              "\"not_before\", \"deadline\", \"ended_at\", \"attempts\", \"worker\", \"key\", "
              "\"unique\", \"progress\", \"reason\", \"result\", \"events\": [{\"at\", "
              "\"state\", \"cause\", \"attempt\", \"worker\", \"reason\"}]}.",
              run_show);
ABOUT_COMMAND(rota_cmd_job_explain, "job explain", "Tell why a job is where it is",
              "Prints one sentence: what the job waits for, who runs it, or how it ended.\n\n"
              "With --json: {\"explain\"}.",
              run_explain);
ABOUT_COMMAND(rota_cmd_job_cancel, "job cancel", "Cancel a job, whatever it does",
              "Its worker, if it has one, is told to stop. A job that has ended is exit code 1.\n\n"
              "With --json: {}.",
              run_cancel);
ABOUT_COMMAND(rota_cmd_job_retry, "job retry", "Let a dead or cancelled job wait again",
              "It gets all its attempts anew. A job that is neither dead nor cancelled is exit "
              "code 1.\n\n"
              "With --json: {}.",
              run_retry);

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
    ROTA_QUEUE_CLIENT_OPTIONS(struct list),
    {.name = "queue",
     ROTA_OPTION_INTO(TEXT, struct list, queue),
     .value_name = "NAME",
     .is_required = true,
     .min = 1,
     .max = ROTA_JOB_QUEUE_NAME_MAX,
     .help = "the queue"},
    {.name = "state",
     ROTA_OPTION_INTO(CHOICE, struct list, state),
     .value_name = "STATE",
     .default_text = "waiting",
     .choices = STATES,
     .help = "which jobs"},
    {.name = "limit",
     ROTA_OPTION_INTO(INT, struct list, limit),
     .value_name = "N",
     .default_text = "100",
     .min = 1,
     .max = 10000000,
     .help = "how many at most"},
};

static void append_job(struct rota_buffer *buffer, const struct rota_queue_job_info *info)
{
    const struct rota_queue_job_spec *spec = info->spec;
    char at[ROTA_TIME_TEXT_MAX];
    rota_queue_client_append_name(buffer, spec->queue, spec->id);
    rota_buffer_print(buffer, "\t%s\tpriority=%lld\tattempts=%llu",
                      rota_time_format(rota_queue_from_ms(info->enqueued_ms), at),
                      (long long)spec->priority, (unsigned long long)info->n_attempts);
    if (info->reason.size) {
        rota_buffer_append_char(buffer, '\t');
        rota_terminal_append(buffer, first_line(info->reason));
    }
    rota_buffer_append_char(buffer, '\n');
}

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
        for (size_t i = 0; i < reply.jobs.n; i++) {
            if (options->of.json) {
                struct rota_json json = {.buffer = buffer};
                rota_queue_client_add_job(&json, &jobs[i]);
                rota_buffer_append_char(buffer, '\n');
            } else if (jobs[i].spec) {
                append_job(buffer, &jobs[i]);
            }
        }
        left -= reply.jobs.n < left ? reply.jobs.n : left;
        request.after = reply.next;
    } while (reply.next && left > 0);
    return ROTA_OK;
}

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
        return rota_cli_print(&buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}

const struct rota_cli_command rota_cmd_job_list = {
    .command =
        {
            .name = "job list",
            .summary = "List jobs of a queue",
            .description =
                "Prints a line for each job in a state, in no useful order, with tabs between its "
                "parts: its name, when it was added, priority, attempts, and why it failed "
                "last.\n\n"
                "With --json: one object per line, as `job show` prints it, without result and "
                "events.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples = "rota job list --node 127.0.0.1:7700 --queue mail --state dead\n",
        },
    .run = run_list,
};
