/* rota job add: give a queue work. */
#include "cli/cli.h"
#include "cli/job_wait.h"
#include "cli/lines.h"
#include "cli/queue_plan.h"
#include "cli/terminal.h"

#include <signal.h>
#include <unistd.h>

/* --- add --- */

struct add {
    struct rota_queue_client_options of;
    const char *queue, *unique, *key, *idempotency_key, *trace, *lines;
    struct rota_option_list can;
    int64_t priority, attempts, partition;
    rota_time delay, job_timeout, deadline, backoff;
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
     .value_name = "SPAN",
     .max = 3650 * ROTA_DAY,
     .help = "delay before the job can start"},
    {.name = "deadline",
     ROTA_OPTION_INTO(TIME, struct add, deadline),
     .value_name = "MOMENT",
     .help = "do not start the job after this time; stop it if it is still running"},
    {.name = "job-timeout",
     ROTA_OPTION_INTO(SPAN, struct add, job_timeout),
     .value_name = "SPAN",
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
     .value_name = "SPAN",
     .min = ROTA_MSEC,
     .max = ROTA_DAY,
     .help = "delay after a failure, doubled each time [default: 1s]"},
    {.name = "unique",
     ROTA_OPTION_INTO(TEXT, struct add, unique),
     .value_name = "KEY",
     .min = 1,
     .max = ROTA_JOB_KEY_MAX,
     .help = "reject a second job with this key while one waits or runs"},
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
    ROTA_QUEUE_CLIENT_DRY_RUN(struct add),
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
        .backoff_ms = rota_queue_to_ms(options->backoff),
        .deadline_ms =
            options->deadline == ROTA_TIME_NEVER ? 0 : rota_queue_to_ms(options->deadline),
        .timeout_ms = rota_queue_to_ms(options->job_timeout),
        .max_attempts = (uint64_t)options->attempts,
        .unique = rota_str(options->unique ? options->unique : ""),
        .key = rota_str(options->key ? options->key : ""),
        .trace = rota_str(options->trace ? options->trace : ""),
        .idempotency_key = rota_str(options->idempotency_key ? options->idempotency_key : ""),
    };
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
    struct rota_queue_moves moves = rota_queue_client_moves(client);
    enum rota_code code;
    do {
        if (!options->idempotency_key)
            rota_queue_client_name_job(client, &spec, id);
        spec.is_again = false;
        client->adding = &spec;
        client->n_adding = 1;
        code = rota_queue_client_ask_again(client, "Add", &ROTA_QUEUE_ADD, &request,
                                           &ROTA_QUEUE_ADDED, &added, &error);
    } while (
        code && client->is_undone &&
        rota_queue_client_may_move(client, spec.unique, client->reply.status, &moves, error.text));
    if (code)
        return rota_cli_fail_error(&error);
    if (added.id.size != sizeof kept)
        return rota_cli_fail(ROTA_CLI_NO, "malformed reply: expected a job");
    if (!added.is_new && options->idempotency_key)
        fputs("rota: the job with this idempotency key was added before\n", stderr);
    else if (!added.is_new && memcmp(added.id.data, id, sizeof id) != 0) /* not ours, made again */
        fputs("rota: there is a job with this key already\n", stderr);
    if (!options->wait) {
        append_added(&buffer, options, &added);
        return rota_cli_print(&buffer);
    }
    memcpy(kept, added.id.data, sizeof kept);
    struct rota_queue_about about = {.queue = spec.queue, .id = rota_str_of(kept, sizeof kept)};
    return rota_job_wait(client, &about);
}

enum { BATCH_BYTES = 4 << 20 }; /* of payloads */

struct lines {
    struct rota_queue_client *client;
    const struct add *options;
    struct rota_progress progress;
    struct rota_queue_job_spec jobs[ROTA_LINES_GROUP_MAX];
    char ids[ROTA_LINES_GROUP_MAX][ROTA_QUEUE_ID_SIZE];
    size_t numbers[ROTA_LINES_GROUP_MAX]; /* the lines of `jobs`, counted from 1 */
    size_t n_lines, n_added;
    uint64_t bytes_added, bytes_total; /* with the newlines; the total is 0 when nobody knows */
    int code;                          /* what ended it */
};

static const char *were(size_t n)
{
    return n == 1 ? " was" : "s were";
}

/* The first `n` of the jobs are not added. Mostly they are the last ones; whoever goes on from a
 * line has to know when others behind it were added. */
static bool fail_batch(struct lines *lines, size_t n, const char *why)
{
    const size_t *numbers = lines->numbers;
    rota_progress_end(&lines->progress);
    if (n == 0 || numbers[0] + n - 1 == lines->n_lines) {
        lines->code =
            rota_cli_fail(ROTA_CLI_NO, "%s; %zu job%s added, the next is that of line %zu", why,
                          lines->n_added, were(lines->n_added), lines->n_added + 1);
        return false;
    }
    lines->code = rota_cli_fail(ROTA_CLI_NO, "%s", why);
    fprintf(stderr, "rota: %zu job%s added, those of lines 1-%zu without ", lines->n_added,
            were(lines->n_added), lines->n_lines);
    for (size_t i = 0, last; i < n; i = last + 1) {
        for (last = i; last + 1 < n && numbers[last + 1] == numbers[last] + 1;)
            last++;
        fprintf(stderr, "%s%zu", i > 0 ? ", " : "", numbers[i]);
        if (last > i)
            fprintf(stderr, "-%zu", numbers[last]);
    }
    fputc('\n', stderr);
    return false;
}

/* What the brokers have, not what was read: one read may bring all. */
static void step_progress(struct lines *lines)
{
    uint64_t done = lines->bytes_added, total = lines->bytes_total;
    if (total > 0) /* the last line may lack its newline, and the file have grown */
        rota_progress_step(&lines->progress, done < total ? done : total, total);
    else
        rota_progress_count(&lines->progress, lines->n_added);
}

static void make_ids(struct lines *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rota_queue_client_name_job(lines->client, &lines->jobs[i], lines->ids[i]);
}

/* Add some jobs. Those that were not taken in and may go elsewhere are the first `*n` then, with
 * other ids. False when the command is over. */
static bool add_once(struct lines *lines, size_t *n, struct rota_queue_moves *moves)
{
    struct rota_queue_list request = {{lines->jobs, *n}}, reply;
    struct rota_error error;
    char why[ROTA_ERROR_TEXT_MAX];
    size_t n_left = 0;
    bool is_refused = false;
    enum rota_status status = ROTA_STATUS_RESOURCE_EXHAUSTED; /* of all that are left, or another */
    for (size_t i = 0; i < *n; i++)
        lines->jobs[i].is_again = false;
    lines->client->adding = lines->jobs;
    lines->client->n_adding = *n;
    if (rota_queue_client_ask_again(lines->client, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request,
                                    &ROTA_QUEUE_ADD_BATCH_REPLY, &reply, &error)) {
        if (lines->client->is_undone &&
            rota_queue_client_may_move(lines->client, lines->jobs[0].unique,
                                       lines->client->reply.status, moves, error.text)) {
            make_ids(lines, *n);
            return true;
        }
        fail_batch(lines, *n, error.text);
        if (error.code == ROTA_ERR_INVALID)
            lines->code = ROTA_CLI_BAD;
        return false;
    }
    if (reply.items.n != *n)
        return fail_batch(lines, *n, "malformed reply: it has fewer jobs than were added");
    const struct rota_queue_added *added = reply.items.items;
    for (size_t i = 0; i < *n; i++) {
        if (!added[i].status) {
            lines->n_added++;
            lines->bytes_added += lines->jobs[i].payload.size + 1;
            continue;
        }
        if (!is_refused)
            snprintf(why, sizeof why, "%.*s", ROTA_STR_ARGS(added[i].error));
        is_refused = is_refused || !added[i].may_go_elsewhere;
        if (added[i].status != ROTA_STATUS_RESOURCE_EXHAUSTED)
            status = ROTA_STATUS_UNAVAILABLE;
        lines->numbers[n_left] = lines->numbers[i];
        lines->jobs[n_left++] = lines->jobs[i];
    }
    *n = n_left;
    step_progress(lines);
    if (is_refused || (n_left > 0 && !rota_queue_client_may_move(
                                         lines->client, lines->jobs[0].unique, status, moves, why)))
        return fail_batch(lines, n_left, why);
    make_ids(lines, n_left);
    return true;
}

/* --- an interrupt: what is on its way is awaited, so that it is known what was added --- */

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

/* A second one ends the process, as the first does where nobody hears it. */
static void hear_interrupts(void)
{
    struct sigaction before, ours = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &ours, NULL);
}

/* Add a few lines; false when the command is over. */
static bool add_batch(struct lines *lines, size_t n)
{
    struct rota_queue_moves moves = rota_queue_client_moves(lines->client);
    while (n > 0)
        if (!add_once(lines, &n, &moves))
            return false;
    return !is_interrupted;
}

static bool on_lines(void *data, const struct rota_str *texts, size_t n)
{
    struct lines *lines = data;
    struct rota_str names[ROTA_OPTION_LIST_MAX];
    size_t n_jobs = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (n_jobs > 0 && bytes + texts[i].size > BATCH_BYTES) {
            if (!add_batch(lines, n_jobs))
                return false;
            n_jobs = bytes = 0;
        }
        fill_spec(lines->options, names, &lines->jobs[n_jobs]);
        lines->jobs[n_jobs].payload = texts[i];
        lines->numbers[n_jobs] = ++lines->n_lines;
        rota_queue_client_name_job(lines->client, &lines->jobs[n_jobs], lines->ids[n_jobs]);
        n_jobs++;
        bytes += texts[i].size;
    }
    return add_batch(lines, n_jobs);
}

static void on_start(void *data, uint64_t total)
{
    struct lines *lines = data;
    lines->bytes_total = total;
    step_progress(lines);
}

static int add_lines(struct rota_queue_client *client, const struct add *options)
{
    static struct lines lines;
    lines = (struct lines){.client = client, .options = options};
    lines.progress.what = "adding jobs";
    struct rota_lines_file file = {.path = options->lines,
                                   .size_max = ROTA_JOB_PAYLOAD_MAX,
                                   .on_lines = on_lines,
                                   .on_start = on_start,
                                   .is_over = is_over,
                                   .data = &lines};
    hear_interrupts();
    int code = rota_lines_read_file(&file);
    rota_progress_end(&lines.progress);
    if ((code && lines.n_added > 0) || (is_interrupted && !lines.code))
        fprintf(stderr, "rota: %zu job%s added, the next is that of line %zu\n", lines.n_added,
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

static int plan_add(struct rota_queue_client *client, const struct add *options,
                    struct rota_str payload)
{
    struct rota_str names[ROTA_OPTION_LIST_MAX];
    struct rota_queue_job_spec spec;
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
    fill_spec(options, names, &spec);
    spec.payload = payload;
    if (!rota_queue_plan_add(client, &spec, n_jobs, &buffer, &error))
        return rota_cli_print(&buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}

static int run_add(int argc, char *const *argv)
{
    static struct add options;
    static struct rota_option_list arguments;
    struct rota_queue_client client;
    struct rota_buffer input = {0};
    struct rota_error error;
    int code;
    options.deadline = ROTA_TIME_NEVER;
    if (!rota_cli_parse(&rota_cmd_job_add, argc, argv, &options, &arguments, &code))
        return code;
    const char *payload = arguments.size > 0 ? arguments.items[0] : NULL;
    if (options.lines && (payload || options.wait))
        return rota_cli_fail(ROTA_CLI_BAD, "--lines can't be combined with a payload or --wait");
    if (!options.lines && !payload)
        return rota_cli_fail(ROTA_CLI_BAD,
                             "missing payload: give it, `-` for standard input, or '' for none");
    if (options.lines && options.unique)
        return rota_cli_fail(
            ROTA_CLI_BAD, "--lines with --unique would add one job: the other lines have its key");
    if (options.lines && options.idempotency_key)
        return rota_cli_fail(ROTA_CLI_BAD,
                             "--lines with --idempotency-key would add one job: use one or the "
                             "other");
    if (options.unique && options.idempotency_key)
        return rota_cli_fail(ROTA_CLI_BAD, "give --unique or --idempotency-key, not both");
    if (options.deadline <= 0) /* to a broker that is none */
        return rota_cli_fail(ROTA_CLI_BAD, "--deadline: the deadline of the job has passed");
    if (options.can.size > ROTA_JOB_CAPABILITIES_MAX)
        return rota_cli_fail(ROTA_CLI_BAD, "--can: a job can need at most %d capabilities",
                             ROTA_JOB_CAPABILITIES_MAX);
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
    if (options.of.dry_run)
        code = plan_add(&client, &options, rota_buffer_str(&input));
    else
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
                "Adds a job with the argument as payload, or standard input if that is `-`, and "
                "prints its name, QUEUE/ID, once the node has stored it durably. With --wait it "
                "prints the result instead, and exits 1 if the job was not completed. With --lines "
                "it adds one job per line of a file and prints the count; on Ctrl-C it first waits "
                "for adds in flight. With --unique the job it prints or waits for may be an "
                "existing one; standard error says so. With --idempotency-key a repeated command, "
                "from anywhere and to any node, prints the job the first one added, until an hour "
                "after that job has ended.\n\nExits 1 at once if no node is reachable. If a node "
                "answered before and becomes unreachable, the command waits for it up to three "
                "times --timeout, and repeats an add with unknown outcome under the same id. If "
                "one node has no room for a job, others are tried for --timeout. --wait has no "
                "time limit; it works with any of the nodes. On a terminal, standard error shows "
                "the state of the job and why; Ctrl-C leaves the job alone and says how to look at "
                "it.\n\nWith --json: {\"job\", \"is_new\"}, the job as `job show` prints it, or "
                "{\"added\"}. " ROTA_DRY_RUN_JSON,
            .options = ADD_OPTIONS,
            .n_options = sizeof ADD_OPTIONS / sizeof *ADD_OPTIONS,
            .examples = "rota job add --node 127.0.0.1:7700 --queue mail --delay 5s hello\n"
                        "rota job add --queue matches --can go --lines pairings\n",
        },
    .run = run_add,
};
