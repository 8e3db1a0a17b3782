#include "cli/queue_client.h"

#include "base/quote.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "core/work/try_fsm.h"
#include "io/clock.h"
#include "io/file.h"

#include <rota/broker.h>
#include <rota/ring.h>
#include <rota/tls.h>
#include <stdio.h>
#include <stdlib.h>

/* The token in the file that was named; empty when none was. */
static enum rota_code read_token(const struct rota_queue_client_options *options,
                                 char token[ROTA_LOCAL_TOKEN_MAX + 1], struct rota_error *error)
{
    const char *path = options->token_file ? options->token_file : getenv("ROTA_TOKEN_FILE");
    struct rota_buffer content = {0};
    token[0] = '\0';
    if (!path || !*path)
        return ROTA_OK;
    enum rota_code code = rota_file_read(path, ROTA_LOCAL_TOKEN_MAX, &content, error);
    struct rota_str text = rota_buffer_str(&content);
    while (text.size > 0 && strchr(" \r\n", text.data[text.size - 1]))
        text.size--;
    if (!code && (text.size == 0 || memchr(text.data, '\n', text.size)))
        code = rota_error_set(error, ROTA_ERR_INVALID, "%.1000s does not contain a token", path);
    if (!code)
        snprintf(token, ROTA_LOCAL_TOKEN_MAX + 1, "%.*s", ROTA_STR_ARGS(text));
    rota_buffer_deinit(&content);
    return code;
}

/* What to send to `node`: the token that was given, or that of a node on this machine. */
static const char *find_token(struct rota_queue_client *client, const char *node, const char *given)
{
    char *token = client->tokens[client->n_channels];
    if (*given)
        snprintf(token, ROTA_LOCAL_TOKEN_MAX + 1, "%s", given);
    else if (!rota_local_token_read(node, token))
        token[0] = '\0';
    return token;
}

static enum rota_code open_channels(struct rota_queue_client *client, const char *nodes,
                                    const char *token, struct rota_error *error)
{
    struct rota_channel_options with = {.tls = client->tls,
                                        .insecure = client->options->insecure,
                                        .connect_timeout = client->options->timeout,
                                        .backoff_max = 2 * ROTA_SEC,
                                        .message_max = 40 << 20};
    char node[ROTA_CHANNEL_TARGET_MAX + 2];
    for (const char *at = nodes; at;) {
        const char *comma = strchr(at, ',');
        size_t size = comma ? (size_t)(comma - at) : strlen(at);
        if (size >= sizeof node || client->n_channels == ROTA_QUEUE_CLIENT_NODES_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "--node names at most %d brokers, each with at most %d bytes",
                                  ROTA_QUEUE_CLIENT_NODES_MAX, ROTA_CHANNEL_TARGET_MAX);
        memcpy(node, at, size);
        node[size] = '\0';
        with.token = find_token(client, node, token);
        enum rota_code code = rota_channel_open(&client->loop, node, &with,
                                                &client->channels[client->n_channels], error);
        if (code)
            return code;
        client->n_channels++;
        at = comma ? comma + 1 : NULL;
    }
    client->channel = client->channels[0];
    return ROTA_OK;
}

enum rota_code rota_queue_client_open(const struct rota_queue_client_options *options,
                                      struct rota_queue_client *client, struct rota_error *error)
{
    const char *node = rota_cli_node(options->node);
    *client = (struct rota_queue_client){.options = options};
    if (!*node)
        return rota_error_set(error, ROTA_ERR_INVALID, "--node must not be empty");
    if (uv_loop_init(&client->loop))
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no event loop");
    char token[ROTA_LOCAL_TOKEN_MAX + 1];
    enum rota_code code = rota_tls_options_open(&options->tls, &client->tls, error);
    if (!code)
        code = read_token(options, token, error);
    if (!code)
        code = open_channels(client, node, token, error);
    if (code)
        rota_queue_client_close(client);
    return code;
}

void rota_queue_client_close(struct rota_queue_client *client)
{
    rota_reply_deinit(&client->reply);
    rota_arena_deinit(&client->arena);
    for (size_t i = 0; i < client->n_channels; i++)
        rota_channel_close(client->channels[i]);
    uv_run(&client->loop, UV_RUN_DEFAULT);
    uv_loop_close(&client->loop);
    rota_tls_free(client->tls);
}

static enum rota_code refused(const struct rota_queue_client *client, struct rota_error *error)
{
    const struct rota_reply *reply = &client->reply;
    struct rota_buffer text = {0};
    enum rota_code code =
        reply->status == ROTA_STATUS_INVALID_ARGUMENT ? ROTA_ERR_INVALID : ROTA_ERR_UNAVAILABLE;
    rota_terminal_append(&text, rota_str(reply->text)); /* a sentence, with its own quotes */
    rota_error_set(error, code, "%s: %s: %.*s", rota_channel_target(client->channel),
                   rota_status_name(reply->status), ROTA_STR_ARGS(rota_buffer_str(&text)));
    rota_buffer_deinit(&text);
    return code;
}

/* --- one call --- */

struct answer {
    struct rota_queue_client *client;
    bool is_over, is_short; /* of memory */
};

static char *copy(struct rota_str bytes)
{
    char *made = malloc(bytes.size + 1);
    if (made && bytes.size > 0)
        memcpy(made, bytes.data, bytes.size);
    if (made)
        made[bytes.size] = '\0';
    return made;
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct answer *answer = data;
    struct rota_reply *reply = &answer->client->reply;
    struct rota_str value;
    (void)call;
    *reply = (struct rota_reply){
        .status = result->status, .may_have_run = result->may_have_run, .text = copy(result->text)};
    if (result->status == ROTA_STATUS_OK) {
        reply->message = copy(result->message);
        reply->size = result->message.size;
    }
    answer->client->is_undone =
        rota_metadata_get(result->metadata, result->n_metadata, "rota-elsewhere", &value);
    answer->is_short = !reply->text || (result->status == ROTA_STATUS_OK && !reply->message);
    answer->is_over = true;
}

/* How long an answer may take: not longer than the command. */
static rota_time time_left(const struct rota_queue_client *client)
{
    rota_time timeout = client->options->timeout;
    if (client->until == 0)
        return timeout;
    rota_time left = client->until - rota_clock_mono();
    return left < ROTA_MSEC ? ROTA_MSEC : rota_time_min(left, timeout);
}

static enum rota_code call_once(struct rota_queue_client *client, struct rota_str method,
                                struct rota_str request, struct rota_error *error)
{
    struct answer answer = {.client = client};
    struct rota_call_options call = {.method = method,
                                     .request = request,
                                     .wait_for_ready =
                                         client->is_patient && client->n_channels == 1,
                                     .timeout = time_left(client),
                                     .on_end = on_end,
                                     .data = &answer};
    rota_reply_deinit(&client->reply);
    client->reply = (struct rota_reply){0};
    client->is_undone = false;
    enum rota_code code = rota_channel_call(client->channel, &call, NULL, error);
    while (!code && !answer.is_over)
        uv_run(&client->loop, UV_RUN_ONCE);
    if (answer.is_short)
        code = rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for the answer");
    return code;
}

/* Nobody is there, and has seen nothing: another one may. */
static bool is_away(const struct rota_queue_client *client, enum rota_code code)
{
    return code == ROTA_ERR_UNAVAILABLE ||
           (!code && client->reply.status == ROTA_STATUS_UNAVAILABLE &&
            !client->reply.may_have_run);
}

void rota_queue_client_next(struct rota_queue_client *client)
{
    client->at = (client->at + 1) % client->n_channels;
    client->channel = client->channels[client->at];
}

static enum rota_code call_any(struct rota_queue_client *client, struct rota_str method,
                               struct rota_str request, struct rota_error *error)
{
    enum rota_code code = call_once(client, method, request, error);
    for (size_t i = 1; i < client->n_channels && is_away(client, code); i++) {
        rota_queue_client_next(client);
        code = call_once(client, method, request, error);
    }
    return code;
}

enum rota_code rota_queue_client_ask(struct rota_queue_client *client, const char *method,
                                     const struct rota_message_type *request_type,
                                     const void *request,
                                     const struct rota_message_type *reply_type, void *reply,
                                     struct rota_error *error)
{
    char path[64];
    struct rota_buffer buffer = {0};
    snprintf(path, sizeof path, "%s%s", method[0] == '/' ? "" : "/rota.v1.Queue/", method);
    if (request_type)
        rota_message_encode(request_type, request, &buffer);
    rota_arena_clear(&client->arena);
    enum rota_code code =
        buffer.failed ? rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for the request")
                      : call_any(client, rota_str(path), rota_buffer_str(&buffer), error);
    rota_buffer_deinit(&buffer);
    if (code)
        return code;
    if (client->reply.status != ROTA_STATUS_OK)
        return refused(client, error);
    client->is_patient = true;
    if (!reply_type)
        return ROTA_OK;
    return rota_message_decode(reply_type, rota_str_of(client->reply.message, client->reply.size),
                               reply, &client->arena, error);
}

static void note_missing(struct rota_queue_client *client, struct rota_message_strs nodes)
{
    enum { NAMED = 3, NAME_SHOWN = 80 };
    size_t used = 0;
    client->n_missing = nodes.n;
    client->missing[0] = '\0';
    for (size_t i = 0; i < nodes.n && i < NAMED; i++)
        used += (size_t)snprintf(
            client->missing + used, sizeof client->missing - used, "%s%.*s", i > 0 ? ", " : "",
            (int)(nodes.items[i].size < NAME_SHOWN ? nodes.items[i].size : NAME_SHOWN),
            nodes.items[i].data);
    if (nodes.n > NAMED)
        snprintf(client->missing + used, sizeof client->missing - used, " and %zu more",
                 nodes.n - NAMED);
}

size_t rota_queue_client_tell_missing(struct rota_queue_client *client)
{
    struct rota_queue_missing missing;
    client->n_missing = 0;
    if (rota_message_decode(&ROTA_QUEUE_MISSING,
                            rota_str_of(client->reply.message, client->reply.size), &missing,
                            &client->arena, NULL))
        return 0;
    for (size_t i = 0; i < missing.nodes.n && !client->has_told_missing; i++) {
        struct rota_buffer why = {0};
        if (missing.why.n == missing.nodes.n)
            rota_terminal_append(&why, missing.why.items[i]);
        if (why.size > 0 && !why.failed) /* it names the node */
            rota_cli_fail(ROTA_CLI_NO, "what %.*s has is not counted: %.*s",
                          ROTA_STR_ARGS(missing.nodes.items[i]),
                          ROTA_STR_ARGS(rota_buffer_str(&why)));
        else
            rota_cli_fail(ROTA_CLI_NO, "%.*s did not answer: what it has is not counted",
                          ROTA_STR_ARGS(missing.nodes.items[i]));
        rota_buffer_deinit(&why);
    }
    note_missing(client, missing.nodes);
    client->has_told_missing = client->has_told_missing || missing.nodes.n > 0;
    return missing.nodes.n;
}

/* --- again --- */

static void on_pause_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void rota_queue_client_pause(struct rota_queue_client *client, uint64_t ms)
{
    uv_timer_t timer;
    rota_time left = client->until ? client->until - rota_clock_mono() : ROTA_TIME_NEVER;
    if (left < rota_queue_from_ms(ms))
        ms = left > 0 ? (uint64_t)(left / ROTA_MSEC) + 1 : 0;
    uv_timer_init(&client->loop, &timer);
    uv_timer_start(&timer, on_pause_over, ms, 0);
    uv_run(&client->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&client->loop, UV_RUN_NOWAIT);
}

/* Whether asking again would bring nothing else. */
static bool is_settled(const struct rota_queue_client *client, enum rota_code code)
{
    if (code == ROTA_OK || client->reply.message) /* an answer, and be it one that can't be read */
        return true;
    if (client->is_undone && !client->is_awaited)
        return true;
    if (rota_channel_reason(client->channel)->code == ROTA_ERR_INVALID) /* it refuses us */
        return true;
    return client->reply.status != ROTA_STATUS_OK &&
           !rota_try_is_from_anywhere(client->reply.status);
}

/* Once; of a node that is awaited each time that it is gone. */
static void tell_waiting(struct rota_queue_client *client, const char *why)
{
    if (!client->has_told_waiting || client->is_awaited)
        fprintf(stderr, "rota: %s; asking again\n", why);
    client->has_told_waiting = true;
}

enum rota_code rota_queue_client_ask_again(struct rota_queue_client *client, const char *method,
                                           const struct rota_message_type *request_type,
                                           const void *request,
                                           const struct rota_message_type *reply_type, void *reply,
                                           struct rota_error *error)
{
    rota_time give_up_at =
        client->until ? client->until : rota_clock_mono() + 3 * client->options->timeout;
    enum { FIRST_PAUSE_MS = 50, TOLD_PAUSE_MS = 1600 }; /* told when some 1.5 s have passed */
    bool is_unknown = false;
    struct rota_error last;
    for (uint64_t pause_ms = FIRST_PAUSE_MS;;
         pause_ms = pause_ms < 1600 ? 2 * pause_ms : pause_ms) {
        enum rota_code code =
            rota_queue_client_ask(client, method, request_type, request, reply_type, reply, &last);
        if (code == ROTA_OK)
            return ROTA_OK;
        if (is_settled(client, code))
            return rota_error_set(error, code, "%s", last.text);
        if (client->reply.may_have_run) {
            is_unknown = client->is_patient = true;
            for (size_t i = 0; i < client->n_adding; i++)
                client->adding[i].is_again = true;
        }
        if (!(client->is_patient || client->is_awaited) || rota_clock_mono() >= give_up_at)
            return rota_error_set(error, code, "%s%s", last.text,
                                  is_unknown ? "; the outcome is unknown" : "");
        if (client->is_awaited ? pause_ms == FIRST_PAUSE_MS : pause_ms == TOLD_PAUSE_MS)
            tell_waiting(client, last.text);
        rota_queue_client_pause(client, pause_ms);
    }
}

enum rota_code rota_queue_client_look(struct rota_queue_client *client, struct rota_str queue,
                                      struct rota_queue_list *reply, struct rota_error *error)
{
    struct rota_queue_setting request = {.queue = queue};
    enum rota_code code = rota_queue_client_ask_again(client, "Queues", &ROTA_QUEUE_PAUSE, &request,
                                                      &ROTA_QUEUE_QUEUES_REPLY, reply, error);
    client->n_missing = 0;
    if (code || queue.size == 0 || reply->items.n > 0)
        return code;
    if (rota_queue_client_tell_missing(client) > 0)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "no node that answers knows queue %.*s, but %s may",
                              ROTA_STR_ARGS(queue), client->missing);
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "there is no queue %.*s",
                          ROTA_STR_ARGS(queue));
}

enum rota_code rota_queue_client_check(struct rota_queue_client *client, struct rota_str queue,
                                       struct rota_error *error)
{
    struct rota_queue_list reply;
    return rota_queue_client_look(client, queue, &reply, error);
}

struct rota_queue_moves rota_queue_client_moves(const struct rota_queue_client *client)
{
    return (struct rota_queue_moves){.until = rota_clock_mono() + client->options->timeout};
}

bool rota_queue_client_may_move(struct rota_queue_client *client, struct rota_str unique,
                                enum rota_status status, struct rota_queue_moves *moves,
                                const char *why)
{
    enum { MOVES_MAX = 12, TOLD_MOVES = 6 }; /* told when some 1.3 s have passed */
    rota_time pause = (20 * ROTA_MSEC) << (moves->n < 6 ? moves->n : 6);
    rota_time left = moves->until - rota_clock_mono();
    client->partitions = 0; /* it may have others now, and a key belong to another */
    if (status == ROTA_STATUS_RESOURCE_EXHAUSTED && client->is_alone)
        return false; /* all its partitions share one room */
    if (moves->n >= (unique.size > 0 ? 1 : MOVES_MAX) || left <= 0)
        return false;
    if (moves->n == TOLD_MOVES)
        tell_waiting(client, why);
    pause = pause < left ? pause : left;
    rota_queue_client_pause(client, (uint64_t)((pause + ROTA_MSEC - 1) / ROTA_MSEC));
    moves->n++;
    return true;
}

/* A broker that does not say has one that every broker has. */
static void need_partitions(struct rota_queue_client *client, struct rota_str queue)
{
    struct rota_queue_nodes nodes = {0};
    struct rota_queue_setting request = {.queue = queue};
    if (client->partitions > 0)
        return;
    enum rota_code code = rota_queue_client_ask(client, "Nodes", &ROTA_QUEUE_PAUSE, &request,
                                                &ROTA_QUEUE_NODES, &nodes, NULL);
    client->is_alone = !code && nodes.nodes.n <= 1;
    if (code || nodes.partitions == 0)
        nodes = (struct rota_queue_nodes){.partitions = 1};
    client->partitions = (uint32_t)nodes.partitions;
    client->write = (uint32_t)(nodes.write ? nodes.write : nodes.partitions);
}

void rota_queue_client_name_job(struct rota_queue_client *client, struct rota_queue_job_spec *job,
                                char id[ROTA_QUEUE_ID_SIZE])
{
    uint64_t chance[2] = {uv_hrtime(), uv_hrtime()};
    uv_random(NULL, NULL, chance, sizeof chance, 0, NULL);
    need_partitions(client, job->queue);
    const struct rota_work_layout layout = {.write = client->write};
    uint32_t partition =
        job->unique.size > 0
            ? rota_layout_write(&layout, rota_ring_hash(job->unique) % client->partitions)
            : (uint32_t)chance[1] % client->write;
    job->partition = partition;
    job->id = rota_queue_id_write(
        rota_job_id_make(rota_cli_now(ROTA_TIME_MIN), partition, chance[0]), id);
}

enum rota_code rota_queue_client_parse_name(const char *text, struct rota_queue_about *about,
                                            char id[ROTA_QUEUE_ID_SIZE], struct rota_error *error)
{
    const char *slash = strchr(text, '/');
    struct rota_job_id number;
    char quoted[ROTA_QUOTE_MAX];
    if (!slash)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is not a job: jobs are named QUEUE/ID",
                              rota_quote(rota_str(text), quoted));
    about->queue = rota_str_of(text, (size_t)(slash - text));
    enum rota_code code = rota_job_queue_check(about->queue, error);
    if (!code)
        code = rota_job_id_parse(rota_str(slash + 1), &number, error);
    if (!code)
        about->id = rota_queue_id_write(number, id);
    return code;
}

void rota_queue_client_append_name(struct rota_buffer *buffer, struct rota_str queue,
                                   struct rota_str id)
{
    struct rota_job_id number = {0, 0};
    char text[ROTA_JOB_ID_TEXT];
    rota_queue_id_read(id, &number, NULL);
    rota_buffer_append_str(buffer, queue);
    rota_buffer_print(buffer, "/%s", rota_job_id_format(number, text));
}

char *rota_queue_client_format_moment(uint64_t ms, char text[ROTA_TIME_TEXT_MAX])
{
    rota_time_format(rota_queue_from_ms(ms - ms % 1000), text); /* "...:53Z" */
    size_t size = strlen(text) - 1;
    snprintf(text + size, ROTA_TIME_TEXT_MAX - size, ".%03uZ", (unsigned)(ms % 1000));
    return text;
}

void rota_queue_client_add_change(struct rota_json *json, uint64_t from_batch, bool from_slots,
                                  uint64_t start_ms, uint64_t end_ms)
{
    rota_json_key(json, "change");
    if (!end_ms) {
        rota_json_null(json);
        return;
    }
    rota_json_begin_object(json);
    rota_json_key(json, "from_batch");
    rota_json_uint(json, from_batch);
    rota_json_key(json, "from_mode");
    rota_json_text(json, from_slots ? "slots" : "lookup");
    rota_queue_client_add_moment(json, "start", start_ms);
    rota_queue_client_add_moment(json, "end", end_ms);
    rota_json_end_object(json);
}

void rota_queue_client_add_moment(struct rota_json *json, const char *key, uint64_t ms)
{
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_key(json, key);
    rota_json_text(json, ms ? rota_time_format(rota_queue_from_ms(ms), text) : NULL);
}

static void add_str(struct rota_json *json, const char *key, struct rota_str value)
{
    rota_json_key(json, key);
    rota_json_string(json, value);
}

static void add_uint(struct rota_json *json, const char *key, uint64_t value)
{
    rota_json_key(json, key);
    rota_json_uint(json, value);
}

/* What holds where nothing was asked for, which is 0, is told as what it is. */
static void add_uint_or(struct rota_json *json, const char *key, uint64_t value, uint64_t usual)
{
    add_uint(json, key, value ? value : usual);
}

static const char *state_name(uint64_t state)
{
    return state < ROTA_JOB_STATES ? rota_job_state_name((enum rota_job_state)state) : "unknown";
}

static const char *cause_text(uint64_t cause)
{
    if (cause == ROTA_JOB_CAUSE_NONE)
        return NULL;
    return cause <= ROTA_JOB_CAUSE_HANDED_OVER ? rota_job_cause_text((enum rota_job_cause)cause)
                                               : "unknown";
}

static void add_events(struct rota_json *json, const struct rota_queue_job_info *info)
{
    const struct rota_queue_event *events = info->events.items;
    rota_json_key(json, "events");
    rota_json_begin_array(json);
    for (size_t i = 0; i < info->events.n; i++) {
        rota_json_begin_object(json);
        rota_queue_client_add_moment(json, "at", events[i].at_ms);
        rota_json_key(json, "state");
        rota_json_text(json, state_name(events[i].state));
        rota_json_key(json, "cause");
        rota_json_text(json, cause_text(events[i].cause));
        add_uint(json, "attempt", events[i].attempt);
        add_str(json, "worker", events[i].worker);
        add_str(json, "reason", events[i].reason);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

void rota_queue_client_add_job(struct rota_json *json, const struct rota_queue_job_info *info)
{
    static const struct rota_queue_job_spec NONE;
    const struct rota_queue_job_spec *spec = info->spec ? info->spec : &NONE;
    struct rota_buffer name = {0};
    rota_queue_client_append_name(&name, spec->queue, spec->id);
    rota_json_begin_object(json);
    add_str(json, "job", rota_buffer_str(&name));
    rota_buffer_deinit(&name);
    rota_json_key(json, "state");
    rota_json_text(json, state_name(info->state));
    rota_json_key(json, "priority");
    rota_json_int(json, spec->priority);
    rota_json_key(json, "can");
    rota_json_begin_array(json);
    for (size_t i = 0; i < spec->can.n; i++)
        rota_json_string(json, spec->can.items[i]);
    rota_json_end_array(json);
    rota_queue_client_add_moment(json, "enqueued_at", info->enqueued_ms);
    rota_queue_client_add_moment(json, "not_before", info->not_before_ms);
    rota_queue_client_add_moment(json, "deadline", spec->deadline_ms);
    rota_queue_client_add_moment(json, "ended_at", info->ended_ms);
    add_uint(json, "attempts", info->n_attempts);
    add_uint_or(json, "max_attempts", spec->max_attempts, ROTA_JOB_ATTEMPTS_DEFAULT);
    add_uint(json, "timeout_ms", spec->timeout_ms);
    add_uint_or(json, "backoff_ms", spec->backoff_ms, ROTA_JOB_BACKOFF_FIRST / ROTA_MSEC);
    add_uint_or(json, "backoff_max_ms", spec->backoff_max_ms, ROTA_JOB_BACKOFF_MAX / ROTA_MSEC);
    add_str(json, "worker", info->worker);
    add_str(json, "key", spec->key);
    add_str(json, "unique", spec->unique);
    add_str(json, "trace", spec->trace);
    if (spec->payload.size > 0)
        rota_cli_add_bytes(json, "payload", "payload_base64", spec->payload);
    add_str(json, "progress", info->progress);
    add_str(json, "reason", info->reason);
    rota_cli_add_bytes(json, "result", "result_base64", info->result);
    if (info->events.n > 0)
        add_events(json, info);
    rota_json_end_object(json);
}
