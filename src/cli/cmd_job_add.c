/* rota job add: give a queue work. */
#include "cli/cli.h"
#include "cli/lines.h"
#include "cli/queue_plan.h"
#include "cli/terminal.h"

#include <unistd.h>

/* --- add --- */

struct add {
    struct rota_queue_client_options of;
    const char *queue, *unique, *key, *trace, *lines;
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
     .help = "the queue"},
    {.name = "can",
     ROTA_OPTION_INTO(LIST, struct add, can),
     .value_name = "CAPABILITY",
     .help = "what a worker must be able to do"},
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
    {.name = "backoff",
     ROTA_OPTION_INTO(SPAN, struct add, backoff),
     .value_name = "SPAN",
     .min = ROTA_MSEC,
     .max = ROTA_DAY,
     .help = "the pause after a failure, which doubles with each; 1s if not given"},
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
     .help = "wait for its end, however long that takes, and print the result"},
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
        .deadline_ms = rota_queue_to_ms(options->deadline),
        .timeout_ms = rota_queue_to_ms(options->job_timeout),
        .max_attempts = (uint64_t)options->attempts,
        .unique = rota_str(options->unique ? options->unique : ""),
        .key = rota_str(options->key ? options->key : ""),
        .trace = rota_str(options->trace ? options->trace : ""),
    };
}

struct waiter {
    struct rota_queue_client *client;
    struct rota_buffer last; /* what was heard last */
    enum rota_status status;
    uint64_t pause_ms;
    bool is_over, has_heard, is_told;
};

static void on_news(void *data, struct rota_call *call, struct rota_str message)
{
    struct waiter *waiter = data;
    (void)call;
    waiter->has_heard = true;
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

/* How a job ended that was not done: a sentence, and below it the lines of the log that came along
 * with the reason. */
static int fail_end(const struct rota_queue_job_info *info)
{
    struct rota_str reason = info->reason;
    const char *end = reason.size > 0 ? memchr(reason.data, '\n', reason.size) : NULL;
    size_t size = end ? (size_t)(end - reason.data) : reason.size;
    struct rota_buffer first = {0}, rest = {0};
    rota_terminal_append(&first, rota_str_of(reason.data, size));
    while (end) {
        reason = rota_str_of(end + 1, reason.size - size - 1);
        end = memchr(reason.data, '\n', reason.size);
        size = end ? (size_t)(end - reason.data) : reason.size;
        rota_terminal_append(&rest, rota_str_of(reason.data, size));
        rota_buffer_append_char(&rest, '\n');
    }
    int code = rota_cli_fail(ROTA_CLI_NO, "the job is %s%s%.*s",
                             info->state < ROTA_JOB_STATES
                                 ? rota_job_state_name((enum rota_job_state)info->state)
                                 : "in an unknown state",
                             first.size > 0 ? ": " : "", ROTA_STR_ARGS(rota_buffer_str(&first)));
    if (rest.size > 0)
        fwrite(rest.data, 1, rest.size, stderr);
    rota_buffer_deinit(&first);
    rota_buffer_deinit(&rest);
    return code;
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
        return fail_end(info);
    }
    int code = rota_cli_print(&buffer);
    return info->state == ROTA_JOB_DONE ? code : ROTA_CLI_NO;
}

/* The node is away, or the one that has the job is: the next one is asked after a pause, which
 * grows while nothing is heard. */
static void ask_elsewhere(struct waiter *waiter)
{
    struct rota_queue_client *client = waiter->client;
    if (waiter->has_heard || waiter->pause_ms == 0)
        waiter->pause_ms = 50;
    if (!waiter->is_told)
        fprintf(stderr, "rota: %s: %s; asking again until the job has ended\n",
                rota_channel_target(client->channel), rota_status_name(waiter->status));
    waiter->is_told = true;
    rota_queue_client_next(client);
    rota_queue_client_pause(client, waiter->pause_ms);
    waiter->pause_ms = waiter->pause_ms < 1600 ? 2 * waiter->pause_ms : waiter->pause_ms;
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
                                     .on_message = on_news,
                                     .on_end = on_watch_end,
                                     .data = &waiter};
    int code = ROTA_CLI_NO;
    for (;;) {
        waiter.is_over = waiter.has_heard = false;
        waiter.status = ROTA_STATUS_UNAVAILABLE;
        enum rota_code refused = rota_channel_call(client->channel, &call, NULL, &error);
        if (refused && refused != ROTA_ERR_UNAVAILABLE) {
            code = rota_cli_fail_error(&error);
            goto end;
        }
        while (!refused && !waiter.is_over)
            uv_run(&client->loop, UV_RUN_ONCE);
        if (waiter.status != ROTA_STATUS_UNAVAILABLE)
            break;
        ask_elsewhere(&waiter);
    }
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
    struct rota_queue_moves moves = rota_queue_client_moves(client);
    enum rota_code code;
    do {
        spec.id = rota_queue_client_make_id(client, spec.queue, spec.unique, id);
        spec.is_again = false;
        client->adding = &spec;
        client->n_adding = 1;
        code = rota_queue_client_ask_again(client, "Add", &ROTA_QUEUE_ADD, &request,
                                           &ROTA_QUEUE_ADDED, &added, &error);
    } while (code && client->is_undone &&
             rota_queue_client_may_move(client, spec.unique, client->reply.status, &moves));
    if (code)
        return rota_cli_fail_error(&error);
    if (added.id.size != sizeof kept)
        return rota_cli_fail(ROTA_CLI_NO, "what was answered is no job");
    if (!added.is_new && memcmp(added.id.data, id, sizeof id) != 0) /* and not ours, made again */
        fputs("rota: there is a job with this key already\n", stderr);
    if (!options->wait) {
        append_added(&buffer, options, &added);
        return rota_cli_print(&buffer);
    }
    memcpy(kept, added.id.data, sizeof kept);
    struct rota_queue_about about = {.queue = spec.queue, .id = rota_str_of(kept, sizeof kept)};
    return wait_for(client, &about);
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

/* The first `n` of the jobs are not added. Mostly they are the last ones; whoever goes on from a
 * line has to know when others behind it were added. */
static bool fail_batch(struct lines *lines, size_t n, const char *why)
{
    const size_t *numbers = lines->numbers;
    rota_progress_end(&lines->progress);
    if (n == 0 || numbers[0] + n - 1 == lines->n_lines) {
        lines->code =
            rota_cli_fail(ROTA_CLI_NO, "%s; %zu jobs were added, the next is that of line %zu", why,
                          lines->n_added, lines->n_added + 1);
        return false;
    }
    lines->code = rota_cli_fail(ROTA_CLI_NO, "%s", why);
    fprintf(stderr, "rota: %zu jobs were added, those of lines 1-%zu without ", lines->n_added,
            lines->n_lines);
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
        fail_batch(lines, *n, error.text);
        if (error.code == ROTA_ERR_INVALID)
            lines->code = ROTA_CLI_BAD;
        return false;
    }
    if (reply.items.n != *n)
        return fail_batch(lines, *n, "what was answered is for fewer jobs");
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
                                         lines->client, lines->jobs[0].unique, status, moves)))
        return fail_batch(lines, n_left, why);
    for (size_t i = 0; i < n_left; i++)
        lines->jobs[i].id = rota_queue_client_make_id(lines->client, lines->jobs[i].queue,
                                                      lines->jobs[i].unique, lines->ids[i]);
    return true;
}

/* Add a few lines; false when the command is over. */
static bool add_batch(struct lines *lines, size_t n)
{
    struct rota_queue_moves moves = rota_queue_client_moves(lines->client);
    while (n > 0)
        if (!add_once(lines, &n, &moves))
            return false;
    return true;
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
        lines->jobs[n_jobs].id =
            rota_queue_client_make_id(lines->client, lines->jobs[n_jobs].queue,
                                      lines->jobs[n_jobs].unique, lines->ids[n_jobs]);
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
                                   .data = &lines};
    int code = rota_lines_read_file(&file);
    rota_progress_end(&lines.progress);
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
    if (!rota_cli_parse(&rota_cmd_job_add, argc, argv, &options, &arguments, &code))
        return code;
    const char *payload = arguments.size > 0 ? arguments.items[0] : NULL;
    if (options.lines && (payload || options.wait))
        return rota_cli_fail(ROTA_CLI_BAD, "--lines goes with neither a payload nor --wait");
    if (!options.lines && !payload)
        return rota_cli_fail(ROTA_CLI_BAD,
                             "which payload? Give it, `-` for standard input, or '' for none");
    if (options.lines && options.unique)
        return rota_cli_fail(
            ROTA_CLI_BAD, "--lines with --unique would add one job: the other lines have its key");
    if (options.can.size > ROTA_JOB_CAPABILITIES_MAX)
        return rota_cli_fail(ROTA_CLI_BAD, "--can: a job needs at most %d capabilities",
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
                "Adds a job whose payload is the argument, or standard input when that is `-`, and "
                "prints its name, QUEUE/ID, when the broker has it for good. With --wait the "
                "result is printed instead, and a job that was not done is exit code 1. With "
                "--lines there is a job for each line of a file; how many is printed. With "
                "--unique the job that is printed, or waited for, may be one that was there "
                "already: standard error says so then.\n\n"
                "Nobody to be reached is exit code 1 at once. A broker that has answered and then "
                "goes away is waited for, at most three times as long as --timeout; an add whose "
                "outcome is not known is made again with the same id. A job that one of several "
                "nodes has "
                "no room for is offered to others, for as long as --timeout says. With --wait the "
                "end of a job "
                "is "
                "waited for however long it takes, at whichever of the nodes answers.\n\n"
                "With --json: {\"job\", \"is_new\"}, the job as `job show` prints it, or "
                "{\"added\"}. " ROTA_DRY_RUN_JSON,
            .options = ADD_OPTIONS,
            .n_options = sizeof ADD_OPTIONS / sizeof *ADD_OPTIONS,
            .examples = "rota job add --node 127.0.0.1:7700 --queue mail --delay 5s hello\n"
                        "rota job add --queue matches --can go --lines pairings\n",
        },
    .run = run_add,
};
