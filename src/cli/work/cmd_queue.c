/* rota queue: show queues and change their settings. */
#include "cli/cli.h"
#include "cli/place/queue_plan.h"
#include "cli/terminal.h"
#include "cli/work/queue_workers.h"
#include "core/work/job/fair.h"
#include "io/clock.h"

#include <stdlib.h>

struct queue {
    struct rota_client_options of;
    struct rota_str name; /* empty if none is given */
    const char *key;
    int64_t weight;
    rota_time limit; /* for the whole command; 0: none */
    bool create;
};

static const struct rota_option CHANGE_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct queue),
    ROTA_CLIENT_DRY_RUN(struct queue),
};

static const struct rota_option WAIT_OPTIONS[] = {
    ROTA_CLIENT_NODE(struct queue),
    {.name = "timeout",
     ROTA_OPTION_INTO(SPAN, struct queue, limit),
     .value_name = "DURATION",
     .min = ROTA_MSEC,
     .max = 365 * ROTA_DAY,
     .help = "how long to wait [default: no limit]"},
    ROTA_CLIENT_MANNER(struct queue),
};

#define CREATE                                                                                     \
    {                                                                                              \
        .name = "create", ROTA_OPTION_INTO(FLAG, struct queue, create),                            \
        .help = "create the queue if it does not exist"                                            \
    }

static const struct rota_option PAUSE_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct queue),
    ROTA_CLIENT_DRY_RUN(struct queue),
    CREATE,
};

enum { WEIGHT_PERCENT = ROTA_FAIR_WEIGHT / 100 };

static const struct rota_option WEIGHT_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct queue),
    ROTA_CLIENT_DRY_RUN(struct queue),
    CREATE,
    {.name = "key",
     ROTA_OPTION_INTO(TEXT, struct queue, key),
     .value_name = "KEY",
     .is_required = true,
     .max = ROTA_JOB_KEY_MAX,
     .help = "fairness key, as in `rota job add --key`"},
    {.name = "weight",
     ROTA_OPTION_INTO(INT, struct queue, weight),
     .value_name = "PERCENT",
     .is_required = true,
     .min = 1,
     .max = ROTA_FAIR_WEIGHT_MAX / WEIGHT_PERCENT,
     .help = "share of the key; keys without a weight have 100"},
};

static const struct rota_option QUARANTINE_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct queue),
    ROTA_CLIENT_DRY_RUN(struct queue),
    CREATE,
    {.name = "deaths",
     ROTA_OPTION_INTO(INT, struct queue, weight),
     .value_name = "N",
     .is_required = true,
     .min = 1,
     .max = ROTA_JOB_ATTEMPTS_MAX,
     .help = "number of worker deaths; 3 for queues without this setting"},
};

static rota_client_act forget_node; /* the argument is not a queue */

static int run_with(const struct rota_cli_command *command, int argc, char *const *argv,
                    rota_client_act *act)
{
    struct queue options = {.of.timeout = 10 * ROTA_SEC}; /* without the option */
    static struct rota_option_list arguments;
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(command, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    options.name = rota_str(arguments.size > 0 ? arguments.items[0] : "");
    if (arguments.size > 0 && act != forget_node && rota_job_queue_check(options.name, &error))
        return rota_cli_fail_error(&error);
    return rota_client_run(command, &options.of, act, &options);
}

/* --- looking --- */

static void append_json(const struct rota_client *client, struct rota_buffer *buffer,
                        const struct rota_queue_info *info)
{
    struct rota_json json = {.buffer = buffer};
    const struct {
        const char *name;
        uint64_t value;
    } NUMBERS[] = {
        {"partitions", info->n_partitions},
        {"waiting", info->n_waiting},
        {"delayed", info->n_delayed},
        {"running", info->n_running},
        {"done", info->n_done},
        {"dead", info->n_dead},
        {"cancelled", info->n_cancelled},
        {"added_total", info->added_total},
        {"done_total", info->done_total},
        {"dead_total", info->dead_total},
        {"retries_total", info->retries_total},
        {"quarantined_total", info->quarantined_total},
        {"worker_deaths", info->worker_deaths},
        {"fetched_total", info->fetched_total},
        {"lent_total", info->lent_total},
        {"workers", info->n_workers},
        {"slots", info->n_slots},
        {"free", info->n_free},
        {"wanted", info->wanted},
        {"write", info->write},
        {"read", info->read},
        {"batch", info->batch},
    };
    rota_json_begin_object(&json);
    rota_json_add_string(&json, "queue", info->name);
    rota_json_add_text(&json, "state", info->is_paused ? "paused" : "open");
    rota_json_add_bool(&json, "is_paused", info->is_paused);
    rota_cli_add_time(&json, "oldest_at", rota_queue_from_ms(info->oldest_ms));
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        rota_json_add_uint(&json, NUMBERS[i].name, NUMBERS[i].value);
    rota_json_add_text(&json, "mode", info->is_slots ? "slots" : "lookup");
    rota_json_add_string(&json, "partitions_from", info->partitions_from);
    rota_json_add_string(&json, "spread_from", info->spread_from);
    rota_queue_view_add_change(&json, info->change_from_batch, info->change_from_slots,
                               info->change_start_ms, info->change_end_ms);
    rota_queue_view_add_missing(client, &json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code list(struct rota_client *client, const void *data, struct rota_buffer *buffer,
                           struct rota_error *error)
{
    const struct queue *options = data;
    struct rota_queue_page page = {.queue = options->name};
    char after[ROTA_JOB_QUEUE_NAME_MAX + 1] = "";
    struct rota_queue_list reply;
    do {
        page.after = rota_str(after);
        enum rota_code code = rota_queue_view_queues(client, &page, &reply, error);
        if (code)
            return code;
        const struct rota_queue_info *infos = reply.items.items;
        rota_queue_view_read_missing(client);
        for (size_t i = 0; i < reply.items.n; i++)
            append_json(client, buffer, &infos[i]);
        if (reply.items.n == 0)
            rota_queue_view_append_missing(client, buffer);
        snprintf(after, sizeof after, "%.*s", ROTA_STR_ARGS(reply.next));
    } while (reply.next.size > 0);
    return ROTA_OK;
}

/* --- changing --- */

/* A typo must not create a queue. */
static enum rota_code want_queue(struct rota_client *client, const struct queue *options,
                                 struct rota_error *error)
{
    struct rota_queue_list reply;
    return options->create ? ROTA_OK : rota_queue_view_look(client, options->name, &reply, error);
}

static enum rota_code set_paused(struct rota_client *client, const struct queue *options,
                                 bool is_paused, struct rota_buffer *buffer,
                                 struct rota_error *error)
{
    struct rota_queue_setting setting = {.queue = options->name, .is_paused = is_paused};
    enum rota_code code = want_queue(client, options, error);
    if (code)
        return code;
    if (client->options->dry_run)
        return rota_queue_plan_pause(client, options->name, is_paused, buffer, error);
    if (client->options->json)
        rota_buffer_append_text(buffer, "{}\n");
    return rota_client_ask(client, "Pause", &ROTA_QUEUE_PAUSE, &setting, NULL, NULL, error);
}

static enum rota_code pause_queue(struct rota_client *client, const void *data,
                                  struct rota_buffer *buffer, struct rota_error *error)
{
    const struct queue *options = data;
    return set_paused(client, options, true, buffer, error);
}

static enum rota_code resume(struct rota_client *client, const void *data,
                             struct rota_buffer *buffer, struct rota_error *error)
{
    const struct queue *options = data;
    return set_paused(client, options, false, buffer, error);
}

/* First ask every node whether the queue can be deleted: if one refuses, nothing changes. */
static enum rota_code delete_queue(struct rota_client *client, const void *data,
                                   struct rota_buffer *buffer, struct rota_error *error)
{
    const struct queue *options = data;
    struct rota_queue_delete request = {.queue = options->name, .is_dry_run = true};
    struct rota_queue_deleted deleted;
    enum rota_code code = want_queue(client, options, error);
    if (!code)
        code = rota_client_ask(client, "DeleteQueue", &ROTA_QUEUE_DELETE, &request,
                               &ROTA_QUEUE_DELETED, &deleted, error);
    if (!code && client->options->dry_run)
        return rota_queue_plan_delete(client, options->name, deleted.n_jobs, buffer, error);
    request.is_dry_run = false;
    if (!code)
        code = rota_client_ask(client, "DeleteQueue", &ROTA_QUEUE_DELETE, &request,
                               &ROTA_QUEUE_DELETED, &deleted, error);
    if (!code && client->options->json)
        rota_buffer_print(buffer, "{\"jobs\":%llu}\n", (unsigned long long)deleted.n_jobs);
    return code;
}

static enum rota_code set_weight(struct rota_client *client, const void *data,
                                 struct rota_buffer *buffer, struct rota_error *error)
{
    const struct queue *options = data;
    struct rota_queue_setting setting = {.queue = options->name,
                                         .key = rota_str(options->key),
                                         .weight = (uint64_t)options->weight * WEIGHT_PERCENT};
    enum rota_code code = want_queue(client, options, error);
    if (code)
        return code;
    if (client->options->dry_run)
        return rota_queue_plan_weight(client, setting.queue, setting.key, (uint64_t)options->weight,
                                      buffer, error);
    if (client->options->json)
        rota_buffer_append_text(buffer, "{}\n");
    return rota_client_ask(client, "SetWeight", &ROTA_QUEUE_WEIGHT, &setting, NULL, NULL, error);
}

static enum rota_code set_quarantine(struct rota_client *client, const void *data,
                                     struct rota_buffer *buffer, struct rota_error *error)
{
    const struct queue *options = data;
    struct rota_queue_setting setting = {.queue = options->name,
                                         .weight = (uint64_t)options->weight};
    enum rota_code code = want_queue(client, options, error);
    if (code)
        return code;
    if (client->options->dry_run)
        return rota_queue_plan_quarantine(client, setting.queue, setting.weight, buffer, error);
    if (client->options->json)
        rota_buffer_append_text(buffer, "{}\n");
    return rota_client_ask(client, "SetQuarantine", &ROTA_QUEUE_QUARANTINE, &setting, NULL, NULL,
                           error);
}

static enum rota_code dead(struct rota_client *client, const void *data, struct rota_buffer *buffer,
                           struct rota_error *error)
{
    const struct queue *options = data;
    return rota_queue_view_append_jobs(client, options->name, ROTA_QUEUE_DEAD, UINT64_MAX, buffer,
                                       error);
}

/* --- wait-empty --- */

struct wait {
    struct rota_client *client;
    const struct queue *options;
    struct rota_progress progress;
    uint64_t left;
    rota_time tell_at;
    bool is_told;
    char text[600]; /* what is left */
};

static void note_left(struct wait *wait, const struct rota_queue_info *info)
{
    const struct rota_client *client = wait->client;

    wait->left = info->n_waiting + info->n_delayed + info->n_running;
    snprintf(wait->text, sizeof wait->text, "%llu waiting, %llu delayed, %llu running%s%s%s%s",
             (unsigned long long)info->n_waiting, (unsigned long long)info->n_delayed,
             (unsigned long long)info->n_running,
             info->n_workers == 0 ? "; no worker serves it" : "",
             info->is_paused ? "; it is paused" : "",
             client->missing.n > 0 ? "; there may be more on nodes that do not answer: " : "",
             client->missing.n > 0 ? client->missing.names : "");
}

/* After one second, and then every ten. */
static void tell_left(struct wait *wait)
{
    if (rota_clock_mono() < wait->tell_at)
        return;
    wait->is_told = true;
    if (wait->progress.is_drawn) /* the terminal shows it */
        return;
    fprintf(stderr, "rota: queue %.*s: %s\n", ROTA_STR_ARGS(wait->options->name), wait->text);
    wait->tell_at = rota_clock_mono() + 10 * ROTA_SEC;
}

static enum rota_code fail_late(const struct wait *wait, const char *why, struct rota_error *error)
{
    char limit[ROTA_TIME_TEXT_MAX];
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "queue %.*s was not empty within %s: %s",
                          ROTA_STR_ARGS(wait->options->name),
                          rota_span_format(wait->options->limit, limit), why);
}

/* The time ran out during the last question, which says nothing about the queue; the answer before
 * it does. */
static enum rota_code fail_unanswered(const struct wait *wait, const char *why,
                                      struct rota_error *error)
{
    char limit[ROTA_TIME_TEXT_MAX];
    if (!wait->text[0])
        return fail_late(wait, why, error);
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                          "queue %.*s was not empty within %s: the last answer was %s; then %s",
                          ROTA_STR_ARGS(wait->options->name),
                          rota_span_format(wait->options->limit, limit), wait->text, why);
}

/* Wait until nothing is left, or until the timeout. */
static enum rota_code await_empty(struct wait *wait, struct rota_error *error)
{
    struct rota_client *client = wait->client;
    for (;;) {
        struct rota_queue_list reply;
        struct rota_error why;
        enum rota_code code = rota_queue_view_look(client, wait->options->name, &reply, &why);
        bool is_late = client->until && rota_clock_mono() >= client->until;
        if (code && is_late)
            return fail_unanswered(wait, why.text, error);
        if (code && client->missing.n == 0)
            return rota_error_set(error, code, "%s", why.text);
        struct rota_queue_info info = {0}; /* only unreachable nodes know the queue */
        if (!code) {
            info = *(const struct rota_queue_info *)reply.items.items;
            rota_queue_view_read_missing(client);
        }
        note_left(wait, &info);
        if (wait->left == 0 && client->missing.n == 0)
            return ROTA_OK;
        if (is_late)
            return fail_late(wait, wait->text, error);
        rota_terminal_progress_print(&wait->progress, "waiting until queue %.*s is empty: %s",
                                     ROTA_STR_ARGS(wait->options->name), wait->text);
        tell_left(wait);
        rota_client_pause(client, 200);
    }
}

static enum rota_code wait_empty(struct rota_client *client, const void *data,
                                 struct rota_buffer *buffer, struct rota_error *error)
{
    const struct queue *options = data;
    rota_time now = rota_clock_mono();
    struct wait with = {.client = client, .options = options, .tell_at = now + ROTA_SEC};
    client->is_awaited = true;
    client->until = options->limit ? now + options->limit : 0;
    enum rota_code code = await_empty(&with, error);
    rota_terminal_progress_end(&with.progress);
    if (!code && with.is_told)
        fprintf(stderr, "rota: queue %.*s is empty\n", ROTA_STR_ARGS(options->name));
    if (!code && client->options->json)
        rota_buffer_append_text(buffer, "{}\n");
    return code;
}

/* --- workers --- */

static void append_worker(struct rota_buffer *buffer, const struct rota_queue_worker *of)
{
    const struct rota_queue_worker_info *worker = &of->info;
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_string(&json, "worker", worker->name);
    rota_json_add_uint(&json, "running", worker->n_running);
    rota_json_add_uint(&json, "slots", worker->slots);
    rota_json_add_uint(&json, "connections", of->n_connections);
    rota_json_add_uint(&json, "epoch", worker->epoch);
    rota_json_add_uint(&json, "silent_ms", worker->silent_ms);
    rota_json_add_strings(&json, "queues", worker->queues.items, worker->queues.n);
    rota_json_add_strings(&json, "can", worker->can.items, worker->can.n);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code list_workers(struct rota_client *client, const void *data,
                                   struct rota_buffer *buffer, struct rota_error *error)
{
    const struct rota_queue_worker *workers;
    size_t n;
    (void)data;
    enum rota_code code = rota_queue_workers_ask(client, &workers, &n, error);
    if (code)
        return code;
    rota_queue_view_read_missing(client);
    for (size_t i = 0; i < n; i++)
        append_worker(buffer, &workers[i]);
    rota_queue_view_append_missing(client, buffer);
    return ROTA_OK;
}

/* --- nodes --- */

static void append_node(struct rota_buffer *buffer, const struct rota_queue_nodes *nodes)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_key(&json, "node");
    if (nodes->node.size > 0)
        rota_json_string(&json, nodes->node);
    else
        rota_json_text(&json, NULL);
    rota_json_add_uint(&json, "partitions", nodes->partitions);
    rota_json_add_uint(&json, "jobs", nodes->n_jobs);
    rota_json_add_uint(&json, "leaving", nodes->n_leaving);
    rota_json_add_strings(&json, "nodes", nodes->nodes.items, nodes->nodes.n);
    rota_json_add_strings(&json, "absent", nodes->absent.items, nodes->absent.n);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code show_nodes(struct rota_client *client, const void *data,
                                 struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_queue_nodes nodes;
    (void)data;
    enum rota_code code =
        rota_client_ask(client, "Nodes", NULL, NULL, &ROTA_QUEUE_NODES, &nodes, error);
    if (!code)
        append_node(buffer, &nodes);
    return code;
}

static enum rota_code forget_node(struct rota_client *client, const void *data,
                                  struct rota_buffer *buffer, struct rota_error *error)
{
    const struct queue *options = data;
    struct rota_queue_forget request = {.node = options->name, .is_dry_run = options->of.dry_run};
    struct rota_queue_forgotten reply;
    enum rota_code code = rota_client_ask(client, "Forget", &ROTA_QUEUE_FORGET, &request,
                                          &ROTA_QUEUE_FORGOTTEN, &reply, error);
    if (code)
        return code;
    rota_queue_view_read_missing(client);
    if (client->options->json)
        rota_buffer_print(buffer, "{\"chunks\":%llu,\"jobs\":%llu}\n",
                          (unsigned long long)reply.n_chunks, (unsigned long long)reply.n_jobs);
    else
        rota_buffer_print(buffer, "%s: %llu (chunks: %llu)\n",
                          options->of.dry_run ? "jobs to reclaim" : "jobs reclaimed",
                          (unsigned long long)reply.n_jobs, (unsigned long long)reply.n_chunks);
    return ROTA_OK;
}

/* --- the commands --- */

#define COMMAND_WITH(words, noun, the_name, the_summary, the_argument, n, text, the_act)           \
    COMMAND_OF(words, NULL, noun, the_name, the_summary, the_argument, n, text, the_act)
#define LIST_COMMAND(columns, noun, the_name, the_summary, the_argument, n, text, the_act)         \
    static const struct rota_table TABLE_##noun = ROTA_TABLE_OF(NULL, columns);                    \
    COMMAND_OF(LIST_OPTIONS, &TABLE_##noun, noun, the_name, the_summary, the_argument, n, text,    \
               the_act)
#define SHOW_COMMAND(columns, noun, the_name, the_summary, the_argument, n, text, the_act)         \
    static const struct rota_table TABLE_##noun = ROTA_TABLE_SHEET(columns, NULL, 0);              \
    COMMAND_OF(LIST_OPTIONS, &TABLE_##noun, noun, the_name, the_summary, the_argument, n, text,    \
               the_act)
#define COMMAND_OF(words, the_table, noun, the_name, the_summary, the_argument, n, text, the_act)  \
    static int run_##noun(int argc, char *const *argv)                                             \
    {                                                                                              \
        return run_with(&rota_cmd_queue_##noun, argc, argv, the_act);                              \
    }                                                                                              \
    const struct rota_cli_command rota_cmd_queue_##noun = {                                        \
        .command = {.name = (the_name),                                                            \
                    .summary = (the_summary),                                                      \
                    .arguments = (the_argument),                                                   \
                    .min_arguments = (n),                                                          \
                    .max_arguments = (n),                                                          \
                    .description = (text),                                                         \
                    .options = (words),                                                            \
                    .n_options = sizeof(words) / sizeof *(words)},                                 \
        .run = run_##noun,                                                                         \
        .table = (the_table)}

static const struct rota_option LIST_OPTIONS[] = {ROTA_CLIENT_LIST_OPTIONS(struct queue)};

static const struct rota_table_column QUEUE_COLUMNS[] = {
    {"QUEUE", "queue", ROTA_TABLE_TEXT, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"WAITING", "waiting", ROTA_TABLE_NUMBER, false},
    {"DELAYED", "delayed", ROTA_TABLE_NUMBER, false},
    {"RUNNING", "running", ROTA_TABLE_NUMBER, false},
    {"DEAD", "dead", ROTA_TABLE_NUMBER, false},
    {"DONE", "done", ROTA_TABLE_NUMBER, true},
    {"WORKERS", "workers", ROTA_TABLE_NUMBER, false},
    {"FREE", "free", ROTA_TABLE_NUMBER, false},
    {"OLDEST", "oldest_at", ROTA_TABLE_AGE, false},
    {"CHANGING UNTIL", "change.end", ROTA_TABLE_TIME, true},
    {"WRITE", "write", ROTA_TABLE_NUMBER, true},
    {"READ", "read", ROTA_TABLE_NUMBER, true},
};

static const struct rota_table_column SHOW_COLUMNS[] = {
    {"QUEUE", "queue", ROTA_TABLE_NAME, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"WAITING", "waiting", ROTA_TABLE_NUMBER, false},
    {"DELAYED", "delayed", ROTA_TABLE_NUMBER, false},
    {"RUNNING", "running", ROTA_TABLE_NUMBER, false},
    {"DEAD", "dead", ROTA_TABLE_NUMBER, false},
    {"DONE", "done", ROTA_TABLE_NUMBER, false},
    {"CANCELLED", "cancelled", ROTA_TABLE_NUMBER, false},
    {"OLDEST ADDED", "oldest_at", ROTA_TABLE_AGE, false},
    {"WORKERS", "workers", ROTA_TABLE_NUMBER, false},
    {"SLOTS", "slots", ROTA_TABLE_NUMBER, false},
    {"FREE SLOTS", "free", ROTA_TABLE_NUMBER, false},
    {"TOTAL ADDED", "added_total", ROTA_TABLE_NUMBER, true},
    {"TOTAL DONE", "done_total", ROTA_TABLE_NUMBER, true},
    {"TOTAL DEAD", "dead_total", ROTA_TABLE_NUMBER, true},
    {"TOTAL RETRIES", "retries_total", ROTA_TABLE_NUMBER, true},
    {"TOTAL QUARANTINED", "quarantined_total", ROTA_TABLE_NUMBER, true},
    {"TOTAL FETCHED", "fetched_total", ROTA_TABLE_NUMBER, true},
    {"TOTAL LENT", "lent_total", ROTA_TABLE_NUMBER, true},
    {"BATCH", "batch", ROTA_TABLE_NUMBER, false},
    {"MODE", "mode", ROTA_TABLE_TEXT, false},
    {"CHANGING UNTIL", "change.end", ROTA_TABLE_TIME, false},
    {"PARTITIONS FROM", "partitions_from", ROTA_TABLE_TEXT, false},
    {"SPREAD FROM", "spread_from", ROTA_TABLE_TEXT, false},
    {"PARTITIONS", "partitions", ROTA_TABLE_NUMBER, false},
    {"WRITE PARTITIONS", "write", ROTA_TABLE_NUMBER, false},
    {"READ PARTITIONS", "read", ROTA_TABLE_NUMBER, false},
};

static const struct rota_table_column AT_NODE_COLUMNS[] = {
    {"NODE", "node", ROTA_TABLE_NAME, false},
    {"JOBS", "jobs", ROTA_TABLE_NUMBER, false},
    {"LEAVING", "leaving", ROTA_TABLE_NUMBER, false},
    {"PARTITIONS", "partitions", ROTA_TABLE_NUMBER, false},
    {"NODES", "nodes", ROTA_TABLE_LIST, false},
    {"ABSENT", "absent", ROTA_TABLE_LIST, false},
};

static const struct rota_table_column WORKER_COLUMNS[] = {
    {"WORKER", "worker", ROTA_TABLE_TEXT, false},
    {"RUNNING", "running", ROTA_TABLE_NUMBER, false},
    {"SLOTS", "slots", ROTA_TABLE_NUMBER, false},
    {"CONNECTIONS", "connections", ROTA_TABLE_NUMBER, true},
    {"SEEN", "silent_ms", ROTA_TABLE_DURATION, false},
    {"QUEUES", "queues", ROTA_TABLE_LIST, false},
    {"CAPABILITIES", "can", ROTA_TABLE_LIST, false},
};

static const struct rota_table_column DEAD_COLUMNS[] = {
    {"JOB", "job", ROTA_TABLE_NAME, false},
    {"ATTEMPTS", "attempts", ROTA_TABLE_NUMBER, false},
    {"ENDED", "ended_at", ROTA_TABLE_AGE, false},
    {"REASON", "reason", ROTA_TABLE_TEXT, false},
};

LIST_COMMAND(
    QUEUE_COLUMNS, list, "queue list", "List queues", NULL, 0,
    "Lists every queue that has had a job, summed over all nodes.\n\nColumns: QUEUE; STATE: `open` "
    "or `paused`; jobs WAITING, DELAYED, RUNNING, DEAD and DONE (as long as they are kept); "
    "WORKERS that serve it and their FREE slots; when the OLDEST waiting job was added; "
    "until when a gradual change is CHANGING the spread; "
    "partitions to WRITE to and to READ from (see `rota queue partitions`).\n\nWith --json: one "
    "object per line, {\"queue\", \"state\", \"is_paused\", \"oldest_at\", \"partitions\", "
    "\"waiting\", \"delayed\", \"running\", \"done\", \"dead\", \"cancelled\", \"added_total\", "
    "\"done_total\", \"dead_total\", \"retries_total\", \"quarantined_total\" (since each node "
    "started), \"fetched_total\" (jobs of other nodes given to workers of this one), "
    "\"lent_total\" (jobs given to workers of other nodes), \"workers\", \"slots\", \"free\", "
    "\"wanted\", \"write\" and \"read\" (partitions), \"batch\", \"mode\", \"change\" (as in "
    "`queue spread`; null without one), \"partitions_from\" and \"spread_from\" (`default`, "
    "`set` by a command, or FILE:LINE of the dynamic settings of the nodes), \"worker_deaths\" "
    "(set by "
    "`queue quarantine`; 0 means 3), "
    "\"missing\" (nodes that did not answer and are not counted, as {\"node\", \"why\"})}. If "
    "there are no queues, such nodes are on a line of their own, {\"missing\"}.",
    list);
SHOW_COMMAND(
    SHOW_COLUMNS, show, "queue show", "Show one queue", "QUEUE", 1,
    "Prints one number per line: the columns of `queue list`, and more. On a terminal -o wide adds "
    "the sums since each node started; elsewhere each line has the name of a field as in --json, a "
    "tab and its value. Exits 1 if there is no such queue.\n\nWith --json: the object of `queue "
    "list`.",
    list);
COMMAND_WITH(
    PAUSE_OPTIONS, pause, "queue pause", "Pause a queue: start no more of its jobs", "QUEUE", 1,
    "You can still add jobs, and running ones continue. The pause survives restarts. Exits 1 if "
    "there is no such queue, unless you give --create.\n\nWith --json: {}. " ROTA_DRY_RUN_JSON,
    pause_queue);
COMMAND_WITH(CHANGE_OPTIONS, resume, "queue resume", "Resume a paused queue", "QUEUE", 1,
             "Exits 1 if there is no such queue.\n\nWith --json: {}. " ROTA_DRY_RUN_JSON, resume);
COMMAND_WITH(
    CHANGE_OPTIONS, delete, "queue delete", "Delete a queue that has no unfinished jobs", "QUEUE",
    1,
    "Deletes the settings of the queue (pause, weights, partitions) and its ended jobs, with their "
    "idempotency keys, on all nodes. Exits 1 if the queue has waiting, delayed or running jobs, if "
    "there is no such queue, or if a node does not answer: repeat the command when the node is "
    "back. You need not delete queues without jobs and settings; they disappear by "
    "themselves.\n\nWith --json: {\"jobs\"}, the number of ended jobs deleted. " ROTA_DRY_RUN_JSON,
    delete_queue);
COMMAND_WITH(WAIT_OPTIONS, wait_empty, "queue wait-empty", "Wait until a queue is empty", "QUEUE",
             1,
             "Waits until no job of the queue is waiting, delayed or running, and reports what is "
             "left on standard error, after a second and then every 10 s. Exits 1 after --timeout, "
             "with a sentence that says what was left. If no node answers, it waits as long as "
             "--timeout, or 30 s without it. Dead jobs do not count.\n\nWith --json: {}.",
             wait_empty);
COMMAND_WITH(
    WEIGHT_OPTIONS, weight, "queue weight", "Set the share of a key in a queue", "QUEUE", 1,
    "Jobs with different keys (`rota job add --key`) share a queue. Of two keys that always have "
    "jobs waiting, one with weight 300 gets three times as many done as one with weight 100, the "
    "default. A weight applies to jobs added from now on: waiting jobs keep their places, and "
    "later jobs of their key come after them. The setting survives restarts. Exits 1 if there is "
    "no such queue, unless you give --create.\n\nWith --json: {}. " ROTA_DRY_RUN_JSON,
    set_weight);
COMMAND_WITH(QUARANTINE_OPTIONS, quarantine, "queue quarantine",
             "Set after how many worker deaths a job is quarantined", "QUEUE", 1,
             "A job that has killed this many workers becomes dead, with a reason that names them: "
             "`killed 3 workers: a, b, c`. `rota job retry` runs it again and resets the count. "
             "The setting survives restarts. Exits 1 if there is no such queue, unless you give "
             "--create.\n\nWith --json: {}. " ROTA_DRY_RUN_JSON,
             set_quarantine);
LIST_COMMAND(WORKER_COLUMNS, workers, "queue workers", "List connected workers", NULL, 0,
             "Columns: WORKER; jobs RUNNING; SLOTS; CONNECTIONS (over ZeroMQ, waiting gRPC polls, "
             "and nodes that gave it jobs); how long ago it was last SEEN; the QUEUES it serves; "
             "its CAPABILITIES. A worker that several nodes know is listed once. Workers without a "
             "name are listed one by one.\n\nWith --json: one object per line, {\"worker\", "
             "\"running\", \"slots\", \"connections\", \"epoch\", \"silent_ms\", \"queues\", "
             "\"can\"}. Nodes that did not answer are listed on a line {\"missing\"}.",
             list_workers);
LIST_COMMAND(DEAD_COLUMNS, dead, "queue dead", "List the dead jobs of a queue", "QUEUE", 1,
             "Lists jobs that ran out of attempts or time, were refused by a worker, or are "
             "quarantined because they killed workers, with the reason. `rota job retry` lets one "
             "run again. Exits 1 if there is no such queue.\n\nWith --json: one object per line, "
             "as `job list` prints it.",
             dead);
SHOW_COMMAND(AT_NODE_COLUMNS, nodes, "queue nodes",
             "Show the jobs at a node and the nodes it knows", NULL, 0,
             "Prints one field per line: the NODE you asked (- if it runs alone), the JOBS there, "
             "ended ones included, how many of them are LEAVING for other nodes, the PARTITIONS of "
             "a queue, the listed NODES, and ABSENT nodes, which are not listed, but whose "
             "journals may hold jobs the others wait for. You can stop a node that was taken off "
             "the list when it has no jobs left.\n\nWith --json: {\"node\", \"partitions\", "
             "\"jobs\", \"leaving\", \"nodes\", \"absent\"}.",
             show_nodes);
COMMAND_WITH(
    CHANGE_OPTIONS, forget, "queue forget",
    "Give up on a lost node and reclaim jobs in handover to it", "NODE", 1,
    "For a node that was taken off the list and is lost with its disk. NODE is its address, since "
    "its name may belong to another node by now; an address that no node ever had is refused. Jobs "
    "in handover to it "
    "would wait forever; the other nodes reclaim them. The jobs on its disk are lost: from now on "
    "they are NOT_FOUND.\n\nThe node must never come back with its data: jobs it still has would "
    "run twice. If it may come back, wait for it instead; if its disk can be saved, start it once "
    "more and let it hand over its jobs.\n\nPrints how many chunks (groups of jobs) were in "
    "handover, and how many jobs were in them. A node that did not answer is named on standard "
    "error: repeat the command when it is back.\n\nWith --json: {\"chunks\", \"jobs\"}.",
    forget_node);
