#include "cli/work/queue_view.h"

#include "base/quote.h"
#include "cli/cli.h"

#include <stdio.h>

/* --- nodes that are missing --- */

static void write_names(struct rota_client_missing *missing)
{
    enum { NAMED = 3, NAME_SHOWN = 80 };
    size_t used = 0;
    missing->names[0] = '\0';
    for (size_t i = 0; i < missing->n && i < NAMED; i++)
        used += (size_t)snprintf(
            missing->names + used, sizeof missing->names - used, "%s%.*s", i > 0 ? ", " : "",
            (int)(missing->nodes[i].size < NAME_SHOWN ? missing->nodes[i].size : NAME_SHOWN),
            missing->nodes[i].data);
    if (missing->n > NAMED)
        snprintf(missing->names + used, sizeof missing->names - used, " and %zu more",
                 missing->n - NAMED);
}

/* Remember the nodes missing from a reply, and report them once. */
static void note_missing(struct rota_client *client, const struct rota_str *nodes,
                         const struct rota_str *why, size_t n)
{
    struct rota_client_missing *missing = &client->missing;
    *missing = (struct rota_client_missing){.nodes = nodes, .why = why, .n = n};
    write_names(missing);
    for (size_t i = 0; i < n && !client->has_told_missing; i++) {
        struct rota_buffer text = {0};
        if (why)
            rota_terminal_append(&text, why[i]);
        if (text.size > 0 && !text.failed) /* a reason is known */
            rota_cli_fail(ROTA_CLI_NO, "jobs on %.*s are not counted: %.*s",
                          ROTA_STR_ARGS(nodes[i]), ROTA_STR_ARGS(rota_buffer_str(&text)));
        else
            rota_cli_fail(ROTA_CLI_NO, "%.*s did not answer: its jobs are not counted",
                          ROTA_STR_ARGS(nodes[i]));
        rota_buffer_deinit(&text);
    }
    client->has_told_missing |= n > 0;
}

size_t rota_queue_view_read_missing(struct rota_client *client)
{
    struct rota_queue_missing missing = {0};
    if (rota_message_decode(&ROTA_QUEUE_MISSING,
                            rota_str_of(client->reply.message, client->reply.size), &missing,
                            &client->arena, NULL))
        missing = (struct rota_queue_missing){0};
    note_missing(client, missing.nodes.items,
                 missing.why.n == missing.nodes.n ? missing.why.items : NULL, missing.nodes.n);
    return missing.nodes.n;
}

void rota_queue_view_add_missing(const struct rota_client *client, struct rota_json *json)
{
    const struct rota_client_missing *missing = &client->missing;
    rota_json_add_array(json, "missing");
    for (size_t i = 0; i < missing->n; i++) {
        rota_json_begin_object(json);
        rota_json_add_string(json, "node", missing->nodes[i]);
        rota_json_add_string(json, "why", missing->why ? missing->why[i] : rota_str(""));
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

void rota_queue_view_append_missing(const struct rota_client *client, struct rota_buffer *buffer)
{
    struct rota_json json = {.buffer = buffer};
    bool is_json = client->options->json || client->options->output == ROTA_TABLE_JSON;
    if (!is_json || client->missing.n == 0)
        return;
    rota_json_begin_object(&json);
    rota_queue_view_add_missing(client, &json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* --- queues --- */

enum rota_code rota_queue_view_look(struct rota_client *client, struct rota_str queue,
                                    struct rota_queue_list *reply, struct rota_error *error)
{
    const struct rota_queue_page page = {.queue = queue};
    return rota_queue_view_queues(client, &page, reply, error);
}

enum rota_code rota_queue_view_queues(struct rota_client *client,
                                      const struct rota_queue_page *page,
                                      struct rota_queue_list *reply, struct rota_error *error)
{
    struct rota_str queue = page->queue;
    enum rota_code code = rota_client_insist(client, "Queues", &ROTA_QUEUE_PAGE, page,
                                             &ROTA_QUEUE_QUEUES_REPLY, reply, error);
    client->missing.n = 0;
    if (code || queue.size == 0 || reply->items.n > 0)
        return code;
    if (rota_queue_view_read_missing(client) > 0)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "no node that answers knows queue \"%.*s\", but %s may",
                              ROTA_STR_ARGS(queue), client->missing.names);
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "there is no queue \"%.*s\"",
                          ROTA_STR_ARGS(queue));
}

void rota_queue_view_add_change(struct rota_json *json, uint64_t from_batch, bool from_slots,
                                uint64_t start_ms, uint64_t end_ms)
{
    rota_json_key(json, "change");
    if (!end_ms) {
        rota_json_null(json);
        return;
    }
    rota_json_begin_object(json);
    rota_json_add_uint(json, "from_batch", from_batch);
    rota_json_add_text(json, "from_mode", from_slots ? "slots" : "lookup");
    rota_cli_add_time(json, "start", rota_queue_from_ms(start_ms));
    rota_cli_add_time(json, "end", rota_queue_from_ms(end_ms));
    rota_json_end_object(json);
}

/* --- jobs --- */

enum rota_code rota_queue_view_check_job(const char *name, struct rota_error *error)
{
    const char *slash = strchr(name, '/');
    struct rota_job_id id;
    char quoted[ROTA_QUOTE_MAX];
    if (!slash)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is not a job: jobs are named QUEUE/ID",
                              rota_quote(rota_str(name), quoted));
    enum rota_code code = rota_job_queue_check(rota_str_of(name, (size_t)(slash - name)), error);
    return code ? code : rota_job_id_parse(rota_str(slash + 1), &id, error);
}

static void add_entries(struct rota_json *json, const struct rota_queue_details *details)
{
    rota_json_add_array(json, "events");
    for (size_t i = 0; i < details->n_entries; i++) {
        const struct rota_queue_entry *entry = &details->entries[i];
        rota_json_begin_object(json);
        rota_cli_add_time(json, "at", entry->at);
        rota_json_add_text(json, "state", rota_queue_view_state(entry->state));
        rota_json_add_text(json, "cause", entry->cause);
        rota_json_add_uint(json, "attempt", entry->attempt);
        rota_json_add_string(json, "worker", entry->worker);
        rota_json_add_string(json, "reason", entry->reason);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

const char *rota_queue_view_state(enum rota_queue_state state)
{
    return (unsigned)state < ROTA_JOB_STATES ? rota_job_state_name((enum rota_job_state)state)
                                             : "unknown";
}

/* Show the default instead of 0, which means that nothing was set. */
static void add_span(struct rota_json *json, const char *key, rota_time span, rota_time usual)
{
    rota_json_add_uint(json, key, rota_queue_to_ms(span ? span : usual));
}

void rota_queue_view_append_job(struct rota_buffer *buffer, const struct rota_queue_result *result)
{
    const struct rota_queue_details *details = result->details;
    const struct rota_queue_job *job = &details->job;
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "job", result->job);
    rota_json_add_text(&json, "state", rota_queue_view_state(result->state));
    if (details->explain.size > 0)
        rota_json_add_string(&json, "explain", details->explain);
    rota_json_add_int(&json, "priority", job->priority);
    rota_json_add_strings(&json, "can", job->can, job->n_can);
    rota_cli_add_time(&json, "enqueued_at", details->added_at);
    rota_cli_add_time(&json, "not_before", details->not_before);
    rota_cli_add_time(&json, "deadline", job->deadline);
    rota_cli_add_time(&json, "ended_at", details->ended_at);
    rota_json_add_uint(&json, "attempts", details->n_attempts);
    rota_json_add_uint(&json, "max_attempts",
                       job->max_attempts ? job->max_attempts : ROTA_JOB_ATTEMPTS_DEFAULT);
    rota_json_add_uint(&json, "timeout_ms", rota_queue_to_ms(job->timeout));
    add_span(&json, "backoff_ms", job->backoff, ROTA_JOB_BACKOFF_FIRST);
    add_span(&json, "backoff_max_ms", job->backoff_max, ROTA_JOB_BACKOFF_MAX);
    rota_json_add_string(&json, "worker", details->worker);
    rota_json_add_string(&json, "key", job->key);
    rota_json_add_string(&json, "unique", job->unique);
    rota_json_add_string(&json, "trace", job->trace);
    if (job->payload.size > 0)
        rota_cli_add_bytes(&json, "payload", "payload_base64", job->payload);
    rota_json_add_string(&json, "progress", result->progress);
    rota_json_add_string(&json, "reason", result->reason);
    rota_cli_add_bytes(&json, "result", "result_base64", result->result);
    if (details->n_entries > 0)
        add_entries(&json, details);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

struct list {
    struct rota_client *client;
    struct rota_buffer *buffer;
    enum rota_code code;
    struct rota_error *error;
    uint64_t next, n;
};

static void on_listed(void *data, const struct rota_queue_result *result,
                      const struct rota_queue_result *jobs, size_t n)
{
    struct list *list = data;
    if (result->code) {
        list->code = rota_client_error(result, list->error);
        return;
    }
    note_missing(list->client, result->missing, result->missing_why, result->n_missing);
    for (size_t i = 0; i < n; i++)
        rota_queue_view_append_job(list->buffer, &jobs[i]);
    rota_queue_view_append_missing(list->client, list->buffer);
    list->n += n;
    list->next = result->next;
}

enum rota_code rota_queue_view_append_jobs(struct rota_client *client, struct rota_str name,
                                           enum rota_queue_state state, uint64_t max,
                                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct list list = {.client = client, .buffer = buffer, .error = error};
    struct rota_queue *queue;
    enum rota_code code = rota_client_queue(client, ROTA_CLIENT_ONCE, &queue, error);
    do {
        uint64_t left = max - list.n;
        if (!code)
            code =
                rota_queue_list(queue, name, state,
                                (uint32_t)(left < ROTA_QUEUE_LIST_MAX ? left : ROTA_QUEUE_LIST_MAX),
                                list.next, on_listed, &list, error);
        if (!code) {
            rota_queue_await(queue);
            code = list.code;
        }
        if (code)
            return code;
    } while (list.next && list.n < max);
    struct rota_queue_list reply; /* no job: whether that is because no node knows the queue */
    return list.n > 0 ? ROTA_OK : rota_queue_view_look(client, name, &reply, error);
}
