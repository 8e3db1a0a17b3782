/* rota job add: add jobs to a queue. */
#include "cli/cli.h"
#include "cli/lines.h"
#include "cli/place/queue_plan.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/work/job_wait.h"

#include <unistd.h>

/* --- add --- */

struct add {
    struct rota_client_options of;
    const char *queue, *unique, *key, *idempotency_key, *trace, *lines;
    struct rota_option_list can;
    int64_t priority, attempts, partition;
    rota_time delay, job_timeout, deadline, backoff;
    bool wait;
};

static const struct rota_option ADD_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct add),
    {.name = "queue",
     ROTA_OPTION_INTO(TEXT, struct add, queue),
     .value_name = "NAME",
     .is_required = true,
     .min = 1,
     .max = ROTA_JOB_QUEUE_NAME_MAX,
     .help = "name of the queue"},
    {.name = "can",
     ROTA_OPTION_INTO(LIST, struct add, can),
     .value_name = "CAPABILITY",
     .help = "capability a worker must have"},
    {.name = "priority",
     ROTA_OPTION_INTO(INT, struct add, priority),
     .value_name = "N",
     .default_text = "0",
     .min = INT16_MIN,
     .max = INT16_MAX,
     .help = "priority; higher runs first"},
    {.name = "delay",
     ROTA_OPTION_INTO(SPAN, struct add, delay),
     .value_name = "DURATION",
     .max = 3650 * ROTA_DAY,
     .help = "delay before the job can start"},
    {.name = "deadline",
     ROTA_OPTION_INTO(TIME, struct add, deadline),
     .value_name = "TIME",
     .help = "do not start the job after this time; stop it if it is still running"},
    {.name = "job-timeout",
     ROTA_OPTION_INTO(SPAN, struct add, job_timeout),
     .value_name = "DURATION",
     .max = 3650 * ROTA_DAY,
     .help = "maximum duration of one attempt"},
    {.name = "attempts",
     ROTA_OPTION_INTO(INT, struct add, attempts),
     .value_name = "N",
     .min = 1,
     .max = ROTA_JOB_ATTEMPTS_MAX,
     .help = "maximum number of attempts [default: 5]"},
    {.name = "backoff",
     ROTA_OPTION_INTO(SPAN, struct add, backoff),
     .value_name = "DURATION",
     .min = ROTA_MSEC,
     .max = ROTA_DAY,
     .help = "delay after a failure, doubled each time [default: 1s]"},
    {.name = "unique",
     ROTA_OPTION_INTO(TEXT, struct add, unique),
     .value_name = "KEY",
     .min = 1,
     .max = ROTA_JOB_KEY_MAX,
     .help = "if a job with this key waits or runs, use it instead of adding another"},
    {.name = "idempotency-key",
     ROTA_OPTION_INTO(TEXT, struct add, idempotency_key),
     .value_name = "KEY",
     .min = 1,
     .max = ROTA_JOB_KEY_MAX,
     .help = "add the job at most once: repeating an add with the same key prints the first job"},
    {.name = "key",
     ROTA_OPTION_INTO(TEXT, struct add, key),
     .value_name = "KEY",
     .max = ROTA_JOB_KEY_MAX,
     .help = "fairness key; keys share a queue fairly"},
    {.name = "trace",
     ROTA_OPTION_INTO(TEXT, struct add, trace),
     .value_name = "ID",
     .max = ROTA_JOB_KEY_MAX,
     .help = "trace id that travels with the job"},
    {.name = "lines",
     ROTA_OPTION_INTO(TEXT, struct add, lines),
     .value_name = "FILE",
     .help = "add one job per line of FILE, including empty lines; - for standard input"},
    {.name = "wait",
     ROTA_OPTION_INTO(FLAG, struct add, wait),
     .help = "wait until the job ends and print its result"},
    ROTA_CLIENT_DRY_RUN(struct add),
};

static void fill_job(const struct add *options, struct rota_str names[ROTA_OPTION_LIST_MAX],
                     struct rota_str payload, struct rota_queue_job *job)
{
    for (size_t i = 0; i < options->can.size; i++)
        names[i] = rota_str(options->can.items[i]);
    *job = (struct rota_queue_job){
        .queue = rota_str(options->queue),
        .payload = payload,
        .can = names,
        .n_can = options->can.size,
        .priority = (int16_t)options->priority,
        .delay = options->delay,
        .backoff = options->backoff,
        .deadline = options->deadline == ROTA_TIME_NEVER ? 0 : options->deadline,
        .timeout = options->job_timeout,
        .max_attempts = (uint32_t)options->attempts,
        .unique = rota_str(options->unique ? options->unique : ""),
        .key = rota_str(options->key ? options->key : ""),
        .trace = rota_str(options->trace ? options->trace : ""),
        .idempotency_key = rota_str(options->idempotency_key ? options->idempotency_key : ""),
    };
}

/* --- one --- */

struct one {
    const struct add *options;
    char job[ROTA_QUEUE_JOB_MAX]; /* to wait for; empty: nothing */
    int code;
};

static int print_added(const struct add *options, const struct rota_queue_result *added)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    if (options->of.json) {
        rota_json_begin_object(&json);
        rota_json_add_text(&json, "job", added->job);
        rota_json_add_bool(&json, "is_new", added->is_new);
        rota_json_end_object(&json);
    } else {
        rota_buffer_append_text(&buffer, added->job);
    }
    rota_buffer_append_char(&buffer, '\n');
    return rota_cli_print(&buffer);
}

static void on_added(void *data, const struct rota_queue_result *added)
{
    struct one *one = data;
    struct rota_error error;
    if (added->code) {
        rota_client_error(added, &error);
        one->code = rota_cli_fail_error(&error);
        return;
    }
    if (!added->is_new && one->options->idempotency_key)
        fputs("rota: the job with this idempotency key was added before\n", stderr);
    else if (!added->is_ours) /* it may have been sent twice, but is one job */
        fputs("rota: a job with this key exists already\n", stderr);
    if (one->options->wait)
        snprintf(one->job, sizeof one->job, "%s", added->job);
    else
        one->code = print_added(one->options, added);
}

static int add_one(struct rota_client *client, struct rota_queue *queue, const struct add *options,
                   struct rota_str payload)
{
    struct rota_str names[ROTA_OPTION_LIST_MAX];
    struct rota_queue_job job;
    struct rota_error error;
    struct one one = {.options = options};
    fill_job(options, names, payload, &job);
    if (rota_queue_add(queue, &job, on_added, &one, &error))
        return rota_cli_fail_error(&error);
    rota_queue_await(queue);
    return one.job[0] ? rota_job_wait(client, queue, one.job) : one.code;
}

/* --- lines --- */

enum { BATCH_BYTES = 4 << 20 }; /* of payloads */

struct lines {
    struct rota_queue *queue;
    const struct add *options;
    struct rota_progress progress;
    struct rota_str names[ROTA_OPTION_LIST_MAX];
    struct rota_queue_job jobs[ROTA_LINES_GROUP_MAX];
    size_t numbers[ROTA_LINES_GROUP_MAX]; /* line numbers of `jobs`, from 1 */
    size_t n_lines, n_added;
    uint64_t bytes_added, bytes_total; /* including newlines; the total is 0 if unknown */
    int code;                          /* the error that ended it */
};

static const char *were(size_t n)
{
    return n == 1 ? " was" : "s were";
}

/* The first `n` of the jobs were not added. Usually these are the last lines; to continue from a
 * line, the user has to know whether later lines were added. */
static void fail_batch(struct lines *lines, size_t n, int code, const char *why)
{
    const size_t *numbers = lines->numbers;
    rota_terminal_progress_end(&lines->progress);
    lines->code = code;
    if (numbers[0] + n - 1 == lines->n_lines) {
        rota_cli_fail(code, "%s; %zu job%s added, continue with line %zu", why, lines->n_added,
                      were(lines->n_added), lines->n_added + 1);
        return;
    }
    rota_cli_fail(code, "%s", why);
    fprintf(stderr, "rota: added %zu job%s: lines 1-%zu, except ", lines->n_added,
            lines->n_added == 1 ? "" : "s", lines->n_lines);
    for (size_t i = 0, last; i < n; i = last + 1) {
        for (last = i; last + 1 < n && numbers[last + 1] == numbers[last] + 1;)
            last++;
        fprintf(stderr, "%s%zu", i > 0 ? ", " : "", numbers[i]);
        if (last > i)
            fprintf(stderr, "-%zu", numbers[last]);
    }
    fputc('\n', stderr);
}

/* Count what the nodes have stored, not what was read: one read may return everything. */
static void step_progress(struct lines *lines)
{
    uint64_t done = lines->bytes_added, total = lines->bytes_total;
    if (total > 0) /* the last line may lack its newline, and the file may have grown */
        rota_terminal_progress_step(&lines->progress, done < total ? done : total, total);
    else
        rota_terminal_progress_count(&lines->progress, lines->n_added);
}

/* Then the first of `numbers` were not added. */
static void on_batch_added(void *data, const struct rota_queue_result *result,
                           const struct rota_queue_result *added, size_t n)
{
    struct lines *lines = data;
    struct rota_error error = {.code = ROTA_ERR_UNAVAILABLE};
    size_t n_left = 0;
    if (result->code)
        rota_client_error(result, &error);
    for (size_t i = 0; i < n; i++) {
        if (!added[i].code) {
            lines->n_added++;
            lines->bytes_added += lines->jobs[i].payload.size + 1;
            continue;
        }
        if (n_left == 0 && !result->code)
            rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "%s", added[i].text);
        lines->numbers[n_left++] = lines->numbers[i];
    }
    step_progress(lines);
    if (n_left > 0 || n == 0)
        fail_batch(lines, n_left, error.code == ROTA_ERR_INVALID ? ROTA_CLI_BAD : ROTA_CLI_NO,
                   error.text);
}

/* --- an interrupt: wait for adds in flight, so that the count is exact --- */

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

static bool is_over(void *data)
{
    (void)data;
    return is_interrupted;
}

/* A second signal ends the process, as the first one does elsewhere. */
static void hear_interrupts(void)
{
    struct sigaction ours = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&ours.sa_mask);
    if (!rota_signals_is_ignored(SIGINT))
        sigaction(SIGINT, &ours, NULL);
}

/* Add a few lines; false if the command is over. */
static bool add_batch(struct lines *lines, size_t n)
{
    struct rota_error error;
    if (rota_queue_add_all(lines->queue, lines->jobs, n, on_batch_added, lines, &error)) {
        fail_batch(lines, n, ROTA_CLI_BAD, error.text);
        return false;
    }
    rota_queue_await(lines->queue);
    return !lines->code && !is_interrupted;
}

static bool on_lines(void *data, const struct rota_str *texts, size_t n)
{
    struct lines *lines = data;
    size_t n_jobs = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (n_jobs > 0 && bytes + texts[i].size > BATCH_BYTES) {
            if (!add_batch(lines, n_jobs))
                return false;
            n_jobs = bytes = 0;
        }
        fill_job(lines->options, lines->names, texts[i], &lines->jobs[n_jobs]);
        lines->numbers[n_jobs++] = ++lines->n_lines;
        bytes += texts[i].size;
    }
    return n_jobs == 0 || add_batch(lines, n_jobs);
}

static void on_start(void *data, uint64_t total)
{
    struct lines *lines = data;
    lines->bytes_total = total;
    step_progress(lines);
}

static int add_lines(struct rota_queue *queue, const struct add *options)
{
    static struct lines lines;
    lines = (struct lines){.queue = queue, .options = options};
    lines.progress.what = "adding jobs";
    struct rota_lines_file file = {.path = options->lines,
                                   .size_max = ROTA_JOB_PAYLOAD_MAX,
                                   .on_lines = on_lines,
                                   .on_start = on_start,
                                   .is_over = is_over,
                                   .data = &lines};
    hear_interrupts();
    int code = rota_lines_read_file(&file);
    rota_terminal_progress_end(&lines.progress);
    if ((code && lines.n_added > 0) || (is_interrupted && !lines.code))
        fprintf(stderr, "rota: %zu job%s added, continue with line %zu\n", lines.n_added,
                were(lines.n_added), lines.n_added + 1);
    if (is_interrupted)
        return rota_cli_end_interrupted();
    if (code || lines.code)
        return code ? code : lines.code;
    if (options->of.json)
        printf("{\"added\":%zu}\n", lines.n_added);
    else
        printf("%zu job%s added\n", lines.n_added, lines.n_added == 1 ? "" : "s");
    return ROTA_CLI_OK;
}

/* --- without adding --- */

static bool on_counted(void *data, const struct rota_str *texts, size_t n)
{
    size_t *n_jobs = data;
    (void)texts;
    *n_jobs += n;
    return true;
}

static int plan_add(struct rota_client *client, const struct add *options, struct rota_str payload)
{
    struct rota_str names[ROTA_OPTION_LIST_MAX];
    struct rota_queue_job job;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    size_t n_jobs = options->lines ? 0 : 1;
    struct rota_lines_file file = {.path = options->lines,
                                   .size_max = ROTA_JOB_PAYLOAD_MAX,
                                   .on_lines = on_counted,
                                   .data = &n_jobs};
    int code = options->lines ? rota_lines_read_file(&file) : ROTA_CLI_OK;
    if (code)
        return code;
    fill_job(options, names, payload, &job);
    if (!rota_queue_plan_add(client, &job, n_jobs, &buffer, &error))
        return rota_cli_print(&buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}

static int run_add(int argc, char *const *argv)
{
    static struct add options;
    static struct rota_option_list arguments;
    struct rota_client client;
    struct rota_queue *queue;
    struct rota_buffer input = {0};
    struct rota_error error;
    int code;
    options.deadline = ROTA_TIME_NEVER;
    if (!rota_cli_parse(&rota_cmd_job_add, argc, argv, &options, &arguments, &code))
        return code;
    const char *payload = arguments.size > 0 ? arguments.items[0] : NULL;
    if (options.lines && (payload || options.wait))
        return rota_cli_fail(ROTA_CLI_BAD, "--lines cannot be combined with a payload or --wait");
    if (!options.lines && !payload)
        return rota_cli_fail(ROTA_CLI_BAD,
                             "missing payload: give it, `-` for standard input, or '' for none");
    if (options.lines && options.unique)
        return rota_cli_fail(ROTA_CLI_BAD, "--lines cannot be combined with --unique: all lines "
                                           "would share the key, and one job would be added");
    if (options.lines && options.idempotency_key)
        return rota_cli_fail(ROTA_CLI_BAD, "--lines cannot be combined with --idempotency-key: all "
                                           "lines would share the key, and one job would be added");
    if (options.unique && options.idempotency_key)
        return rota_cli_fail(ROTA_CLI_BAD, "give --unique or --idempotency-key, not both");
    if (options.deadline <= 0) /* 0 would mean none */
        return rota_cli_fail(ROTA_CLI_BAD, "--deadline: the deadline of the job has passed");
    if (options.can.size > ROTA_JOB_CAPABILITIES_MAX)
        return rota_cli_fail(ROTA_CLI_BAD, "--can: a job can require at most %d capabilities",
                             ROTA_JOB_CAPABILITIES_MAX);
    if (payload && strcmp(payload, "-") == 0) {
        if (rota_cli_read_file("-", ROTA_JOB_PAYLOAD_MAX, &input, &error))
            return rota_cli_fail_error(&error);
    } else if (payload) {
        rota_buffer_append_text(&input, payload);
    }
    struct rota_str bytes = rota_buffer_str(&input);
    if (rota_client_open(&options.of, &client, &error)) {
        rota_buffer_deinit(&input);
        return rota_cli_fail_error(&error);
    }
    if (options.of.dry_run)
        code = plan_add(&client, &options, bytes);
    else if (rota_client_queue(&client, 3 * options.of.timeout, &queue, &error))
        code = rota_cli_fail_error(&error);
    else
        code =
            options.lines ? add_lines(queue, &options) : add_one(&client, queue, &options, bytes);
    rota_client_close(&client);
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
                "Adds a job with the argument as payload, or standard input if the argument is "
                "`-`, and prints its name, QUEUE/ID, once the node has stored it durably. With "
                "--wait it prints the result instead, and exits 1 if the job was not completed. "
                "With --lines it adds one job per line of a file and prints the count; on Ctrl-C "
                "it first waits for adds in flight. With --unique the job it prints or waits for "
                "may be an existing one; standard error says so. With --idempotency-key a repeated "
                "command, from anywhere and to any node, prints the job the first one added, until "
                "an hour after that job has ended.\n\nExits 1 at once if no node is reachable. If "
                "a node answered before and becomes unreachable, the command waits for it up to "
                "three times --timeout, and repeats an add with unknown outcome under the same id. "
                "If one node has no room for a job, it tries others for as long. --wait has no "
                "time limit; it works with any of the nodes. On a terminal, standard error shows "
                "the state of the job and why; Ctrl-C leaves the job alone and says how to look at "
                "it.\n\nWith --json: {\"job\", \"is_new\"}; with --wait, the job as `job show` "
                "prints it; with --lines, {\"added\"}. " ROTA_DRY_RUN_JSON,
            .options = ADD_OPTIONS,
            .n_options = sizeof ADD_OPTIONS / sizeof *ADD_OPTIONS,
            .examples = "rota job add --node 127.0.0.1:7700 --queue mail --delay 5s hello\n"
                        "rota job add --queue matches --can go --lines pairings\n",
        },
    .run = run_add,
};
