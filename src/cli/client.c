#include "cli/client.h"

#include "core/work/worker/try_fsm.h"
#include "io/clock.h"
#include "io/file.h"

#include <rota/tls.h>
#include <stdio.h>
#include <stdlib.h>

/* Read the token from the given file; empty if no file is given. */
static enum rota_code read_token(const struct rota_client_options *options,
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

/* The token to send to `node`: the given one, or that of a node on this machine. */
static const char *find_token(struct rota_client *client, const char *node, const char *given)
{
    char *token = client->tokens[client->n_channels];
    if (*given)
        snprintf(token, ROTA_LOCAL_TOKEN_MAX + 1, "%s", given);
    else if (!rota_local_token_read(node, token))
        token[0] = '\0';
    return token;
}

static enum rota_code open_channels(struct rota_client *client, const char *nodes,
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
        if (size >= sizeof node || client->n_channels == ROTA_CLIENT_NODES_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "--node takes at most %d addresses, each with at most %d bytes",
                                  ROTA_CLIENT_NODES_MAX, ROTA_CHANNEL_TARGET_MAX);
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

enum rota_code rota_client_open(const struct rota_client_options *options,
                                struct rota_client *client, struct rota_error *error)
{
    const char *node = rota_cli_node(options->node);
    *client = (struct rota_client){.options = options};
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
        rota_client_close(client);
    return code;
}

void rota_client_close(struct rota_client *client)
{
    rota_reply_deinit(&client->reply);
    rota_arena_deinit(&client->arena);
    rota_queue_close(client->queue);
    for (size_t i = 0; i < client->n_channels; i++)
        rota_channel_close(client->channels[i]);
    uv_run(&client->loop, UV_RUN_DEFAULT);
    uv_loop_close(&client->loop);
    rota_tls_free(client->tls);
}

static enum rota_code refused(const struct rota_client *client, struct rota_error *error)
{
    const struct rota_reply *reply = &client->reply;
    enum rota_code code =
        reply->status == ROTA_STATUS_INVALID_ARGUMENT ? ROTA_ERR_INVALID : ROTA_ERR_UNAVAILABLE;
    rota_cli_describe_refusal(error, code, rota_channel_target(client->channel), reply->status,
                              reply->text);
    return code;
}

/* How long to wait for an answer: no longer than the command may take. */
static rota_time time_left(const struct rota_client *client)
{
    rota_time timeout = client->options->timeout;
    if (client->until == 0)
        return timeout;
    rota_time left = client->until - rota_clock_mono();
    return left < ROTA_MSEC ? ROTA_MSEC : rota_time_min(left, timeout);
}

static enum rota_code call_once(struct rota_client *client, struct rota_str method,
                                struct rota_str request, struct rota_error *error)
{
    struct rota_call_options call = {.method = method,
                                     .request = request,
                                     .wait_for_ready =
                                         client->is_patient && client->n_channels == 1,
                                     .timeout = time_left(client)};
    rota_reply_deinit(&client->reply);
    return rota_channel_wait(client->channel, &call, &client->reply, error);
}

/* The node is unreachable and has not received the call, so another node may get it. */
static bool is_unreachable(const struct rota_client *client, enum rota_code code)
{
    return code == ROTA_ERR_UNAVAILABLE ||
           (!code && client->reply.status == ROTA_STATUS_UNAVAILABLE &&
            !client->reply.may_have_run);
}

void rota_client_next(struct rota_client *client)
{
    client->at = (client->at + 1) % client->n_channels;
    client->channel = client->channels[client->at];
}

static enum rota_code call_any(struct rota_client *client, struct rota_str method,
                               struct rota_str request, struct rota_error *error)
{
    enum rota_code code = call_once(client, method, request, error);
    for (size_t i = 1; i < client->n_channels && is_unreachable(client, code); i++) {
        rota_client_next(client);
        code = call_once(client, method, request, error);
    }
    return code;
}

enum rota_code rota_client_ask(struct rota_client *client, const char *method,
                               const struct rota_message_type *request_type, const void *request,
                               const struct rota_message_type *reply_type, void *reply,
                               struct rota_error *error)
{
    char path[64];
    struct rota_buffer buffer = {0};
    snprintf(path, sizeof path, "%s%s", method[0] == '/' ? "" : "/rota.v1.Queue/", method);
    if (request_type)
        rota_message_encode(request_type, request, &buffer);
    rota_arena_clear(&client->arena);
    enum rota_code code = buffer.failed
                              ? rota_error_no_memory(error, "for the request")
                              : call_any(client, rota_str(path), rota_buffer_str(&buffer), error);
    rota_buffer_deinit(&buffer);
    if (code == ROTA_ERR_UNAVAILABLE) {
        const struct rota_error why = *error;
        rota_cli_describe_refusal(error, code, rota_channel_target(client->channel),
                                  ROTA_STATUS_UNAVAILABLE, why.text);
    }
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

/* --- again --- */

static void on_pause_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void rota_client_pause(struct rota_client *client, uint64_t ms)
{
    uv_timer_t timer;
    rota_time left = client->until ? client->until - rota_clock_mono() : ROTA_TIME_NEVER;
    if (left < (rota_time)ms * ROTA_MSEC)
        ms = left > 0 ? (uint64_t)(left / ROTA_MSEC) + 1 : 0;
    uv_timer_init(&client->loop, &timer);
    uv_timer_start(&timer, on_pause_over, ms, 0);
    uv_run(&client->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&client->loop, UV_RUN_NOWAIT);
}

/* Reported once, after about 1.3 s; at once if the command says how long it waits. A node that is
 * awaited is reported each time it becomes unreachable. */
static void tell_waiting(struct rota_client *client, unsigned n_tries, const char *node,
                         const char *why)
{
    enum { TOLD_TRIES = 6 };
    if (n_tries != (client->is_awaited || client->until_text ? 1 : TOLD_TRIES) ||
        (client->has_told_waiting && !client->is_awaited))
        return;
    client->has_told_waiting = true;
    if (client->progress)
        rota_terminal_progress_end(client->progress);
    fprintf(stderr, "rota: %s%s%s; asking again%s\n", node, *node ? ": " : "", why,
            client->until_text ? client->until_text : "");
}

/* Whether repeating the call is pointless: there is an answer, even if it is malformed, or the node
 * rejects us. */
static bool is_settled(const struct rota_client *client, enum rota_code code)
{
    return code == ROTA_OK || client->reply.message ||
           rota_channel_reason(client->channel)->code == ROTA_ERR_INVALID;
}

enum rota_code rota_client_insist(struct rota_client *client, const char *method,
                                  const struct rota_message_type *request_type, const void *request,
                                  const struct rota_message_type *reply_type, void *reply,
                                  struct rota_error *error)
{
    rota_time now = rota_clock_mono();
    struct rota_try_fsm tries;
    struct rota_error last;
    rota_try_fsm_init(&tries, now, client->until ? ROTA_TIME_NEVER : 3 * client->options->timeout,
                      false);
    for (;;) {
        enum rota_code code =
            rota_client_ask(client, method, request_type, request, reply_type, reply, &last);
        if (is_settled(client, code))
            return code ? rota_error_set(error, code, "%s", last.text) : ROTA_OK;
        enum rota_status status =
            client->reply.status != ROTA_STATUS_OK ? client->reply.status : ROTA_STATUS_UNAVAILABLE;
        client->is_patient |= client->reply.may_have_run;
        tries.is_eager = !client->is_patient && !client->is_awaited;
        now = rota_clock_mono();
        bool is_late = client->until && now >= client->until;
        if (rota_try_fsm_step(&tries, now, status, !client->reply.may_have_run) != ROTA_TRY_AGAIN ||
            is_late)
            return rota_error_set(error, code, "%s%s", last.text,
                                  tries.is_unknown ? "; the outcome is unknown" : "");
        tell_waiting(client, tries.n_tries, "", last.text);
        rota_client_pause(client, (uint64_t)((tries.again_at - now) / ROTA_MSEC));
    }
}

/* --- queues --- */

static void on_retry(void *data, const struct rota_queue_result *last, unsigned n)
{
    tell_waiting(data, n, last->node, last->text);
}

enum rota_code rota_client_queue(struct rota_client *client, rota_time patience,
                                 struct rota_queue **queue, struct rota_error *error)
{
    const struct rota_client_options *options = client->options;
    const struct rota_queue_options with = {.nodes = rota_cli_node(options->node),
                                            .tls = client->tls,
                                            .insecure = options->insecure,
                                            .timeout = options->timeout,
                                            .patience = patience,
                                            .fail_fast = true,
                                            .on_retry = on_retry,
                                            .data = client};
    enum rota_code code =
        client->queue ? ROTA_OK : rota_queue_open(&client->loop, &with, &client->queue, error);
    if (!code)
        *queue = client->queue;
    return code;
}

/* A failure that is not a node's answer. */
static void describe_failure(struct rota_error *error, enum rota_code code,
                             const struct rota_queue_result *result)
{
    struct rota_buffer text = {0};
    rota_terminal_append(&text, rota_str(result->text)); /* a sentence, with its own quotes */
    rota_error_set(error, code, "%s%s%.*s", result->node, *result->node ? ": " : "",
                   ROTA_STR_ARGS(rota_buffer_str(&text)));
    rota_buffer_deinit(&text);
}

enum rota_code rota_client_error(const struct rota_queue_result *result, struct rota_error *error)
{
    enum rota_code code =
        result->status == ROTA_STATUS_INVALID_ARGUMENT ? ROTA_ERR_INVALID : ROTA_ERR_UNAVAILABLE;
    const char *name = rota_status_name(result->status), *text = result->text;
    struct rota_error refusal;
    size_t size = strlen(name);
    if (*result->node && strncmp(text, name, size) == 0 && strncmp(text + size, ": ", 2) == 0)
        rota_cli_describe_refusal(&refusal, code, result->node, result->status, text + size + 2);
    else
        describe_failure(&refusal, code, result);
    return rota_error_set(error, code, "%s%s", refusal.text,
                          result->code == ROTA_ERR_UNKNOWN ? "; the outcome is unknown" : "");
}

/* --- a command --- */

int rota_client_run(const struct rota_cli_command *command, const struct rota_client_options *of,
                    rota_client_act *act, const void *options)
{
    struct rota_client client;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    if (rota_client_open(of, &client, &error))
        return rota_cli_fail_error(&error);
    enum rota_code code = act(&client, options, &buffer, &error);
    rota_client_close(&client);
    if (!code)
        return rota_client_answer(command, of, &buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}
