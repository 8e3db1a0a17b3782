#include <rota/experimental/channel.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/call/backoff.h"
#include "io/clock.h"
#include "io/net/address.h"
#include "io/timer.h"
#include "run/rpc/channel_inside.h"
#include "run/rpc/link.h"

#include <assert.h>
#include <stdlib.h>
#include <uv.h>

/* Where a call is: at rest, waiting for a connection, or in a session. */
struct rota_call {
    struct rota_http2_call h2;  /* first, so that one is the other */
    struct rota_heap_node node; /* waits for its deadline */
    struct rota_channel *channel;
    struct connection *connection; /* while in a session */
    struct rota_list_node link;    /* while it waits, or is at rest */
    void (*on_message)(void *data, struct rota_call *call, struct rota_str message);
    void (*on_end)(void *data, struct rota_call *call, const struct rota_call_result *result);
    void *data;
    rota_time started_at;
    bool wait_for_ready;
    bool is_over;   /* its owner was called back, or has dropped it */
    bool is_again;  /* to be started again when the session releases it */
    bool was_again; /* which is done only once */
    bool is_held;   /* not to be freed just now */
};

/* One attempt to connect, and its state. */
struct connection {
    struct rota_channel *channel;
    struct rota_link *link;
    struct rota_list_node in_channel;
    bool has_heard;  /* the server has spoken */
    bool is_refused; /* by TLS, before that: it has seen none of our calls */
};

struct rota_channel {
    struct rota_channel_options options;
    char *target, *tls_name; /* the latter may be NULL */
    uv_timer_t timer;
    rota_time timer_at; /* ROTA_TIME_NEVER when it is not set */
    struct rota_heap deadlines;
    uint64_t n_started;
    size_t n_calls, n_at_rest;
    struct rota_list_node at_rest, waiting, failing, resuming; /* calls */

    enum rota_channel_state state;
    struct connection *current;        /* takes new calls; CONNECTING or READY */
    struct rota_list_node connections; /* all, draining ones included */
    struct rota_backoff backoff;
    struct rota_random random;
    rota_time retry_at; /* in BACKOFF */
    struct rota_error reason;
    int n_references; /* the owner, the timer, each connection */
    bool has_failed;  /* calls that can't wait have to fail */
    bool is_closed;
};

static void connect_now(struct rota_channel *channel);

/* --- life --- */

static void unref_channel(struct rota_channel *channel)
{
    if (--channel->n_references > 0)
        return;
    ROTA_LIST_EACH (call, &channel->at_rest, struct rota_call, link) {
        rota_http2_call_deinit(&call->h2);
        free(call);
    }
    rota_heap_deinit(&channel->deadlines);
    free(channel->target);
    free(channel->tls_name);
    free(channel);
}

static void on_timer_closed(uv_handle_t *handle)
{
    unref_channel(handle->data);
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

enum rota_code rota_channel_open(struct uv_loop_s *loop, const char *target,
                                 const struct rota_channel_options *options,
                                 struct rota_channel **result, struct rota_error *error)
{
    if (strlen(target) > ROTA_CHANNEL_TARGET_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "channel: a target of more than %d bytes",
                              ROTA_CHANNEL_TARGET_MAX);
    struct rota_address address;
    enum rota_code code = rota_address_parse(target, &address, error);
    if (code)
        return code;
    struct rota_channel *channel = calloc(1, sizeof *channel);
    bool has_name = options && options->tls_name;
    if (!channel || !(channel->target = copy_text(target)) ||
        (has_name && !(channel->tls_name = copy_text(options->tls_name)))) {
        if (channel)
            free(channel->target);
        free(channel);
        return rota_error_no_memory(error, "for a channel to %s", target);
    }
    rota_list_init(&channel->at_rest);
    rota_list_init(&channel->waiting);
    rota_list_init(&channel->failing);
    rota_list_init(&channel->resuming);
    rota_list_init(&channel->connections);
    if (options)
        channel->options = *options;
    if (channel->options.calls_max == 0)
        channel->options.calls_max = ROTA_CHANNEL_CALLS_MAX;
    if (channel->options.keepalive_interval == 0)
        channel->options.keepalive_interval = 5 * ROTA_MIN;
    if (channel->options.keepalive_interval == ROTA_TIME_NEVER)
        channel->options.keepalive_interval = 0;
    channel->backoff.first = channel->options.backoff_first;
    channel->backoff.max = channel->options.backoff_max;
    channel->timer_at = ROTA_TIME_NEVER;
    rota_random_init(&channel->random, (uint64_t)rota_clock_mono() ^ (uintptr_t)channel);
    uv_timer_init(loop, &channel->timer);
    channel->timer.data = channel;
    channel->n_references = 1;
    *result = channel;
    return ROTA_OK;
}

/* --- the timer: deadlines of calls, and the end of a pause --- */

static void on_timer(uv_timer_t *timer);

static void arm_timer(struct rota_channel *channel, rota_time at)
{
    if (at >= channel->timer_at || channel->is_closed)
        return;
    channel->timer_at = at;
    rota_timer_set(&channel->timer, on_timer, rota_clock_mono(), at);
}

/* --- calls --- */

static struct rota_call *call_new(struct rota_channel *channel)
{
    struct rota_call *call = ROTA_LIST_FIRST(&channel->at_rest, struct rota_call, link);
    if (call) {
        rota_list_remove(&call->link);
        channel->n_at_rest--;
        return call;
    }
    call = calloc(1, sizeof *call);
    if (call) {
        rota_http2_call_init(&call->h2);
        call->channel = channel;
    }
    return call;
}

static void call_free(struct rota_call *call)
{
    struct rota_channel *channel = call->channel;
    assert(!call->link.next && call->node.place == 0);
    if (channel->n_at_rest >= ROTA_CHANNEL_CALLS_KEPT_MAX) {
        rota_http2_call_deinit(&call->h2);
        free(call);
        return;
    }
    rota_http2_call_reset(&call->h2);
    rota_list_push(channel->at_rest.next, &call->link); /* the one whose memory is warm first */
    channel->n_at_rest++;
}

/* The caller's part of the call is over; its memory may still be in use. */
static void call_over(struct rota_call *call)
{
    struct rota_channel *channel = call->channel;
    call->is_over = true;
    rota_list_remove(&call->link);
    rota_heap_remove(&channel->deadlines, &call->node);
    channel->n_calls--;
}

static void call_tell(struct rota_call *call, enum rota_status status, struct rota_str text,
                      bool may_have_run)
{
    struct rota_call_result result = {
        .status = status,
        .text = text,
        .elapsed = rota_clock_mono() - call->started_at,
        .may_have_run = may_have_run,
    };
    result.metadata = rota_grpc_head_fields_pairs(&call->h2.head.metadata, &result.n_metadata);
    if (status == ROTA_STATUS_OK && !call->h2.is_streaming)
        result.message = rota_buffer_str(&call->h2.decoder.message);
    call_over(call);
    if (!call->channel->is_closed)
        call->on_end(call->data, call, &result);
}

/* --- callbacks of a session --- */

static void on_message(void *data, struct rota_http2_call *h2, struct rota_str message)
{
    struct rota_call *call = (struct rota_call *)h2;
    (void)data;
    if (!call->channel->is_closed)
        call->on_message(call->data, call, message);
}

static void on_http2_end(void *data, struct rota_http2_call *h2,
                         const struct rota_http2_result *result)
{
    struct rota_call *call = (struct rota_call *)h2;
    struct connection *connection = data;
    bool is_unsent = result->is_unsent || connection->is_refused;
    /* It was never sent: it is moved to the next connection, once. */
    if (is_unsent && !call->was_again && !call->channel->is_closed) {
        call->is_again = call->was_again = true;
        return;
    }
    call_tell(call, result->status, result->text, !is_unsent);
}

static bool start_call(struct rota_call *call, rota_time now, enum rota_code *code);

static void on_release(void *data, struct rota_http2_call *h2)
{
    struct rota_call *call = (struct rota_call *)h2;
    (void)data;
    call->connection = NULL;
    if (call->is_held)
        return;
    if (call->is_over) {
        call_free(call);
    } else if (call->is_again) {
        call->is_again = false;
        rota_http2_call_rewind(h2);
        rota_list_remove(&call->link);
        rota_list_push(&call->channel->waiting, &call->link);
        arm_timer(call->channel, 0); /* handled after the session's callbacks */
    }
}

static void on_goaway(void *data, bool is_calm)
{
    struct connection *connection = data;
    struct rota_channel *channel = connection->channel;
    if (!is_calm && channel->options.keepalive_interval > 0)
        channel->options.keepalive_interval *= 2; /* we have pinged too often */
    if (channel->current == connection) {
        channel->current = NULL;
        channel->state = ROTA_CHANNEL_IDLE;
    }
}

/* --- connections --- */

/* The calls that can't wait fail with the attempt they waited for. */
static void fail_waiting(struct rota_channel *channel)
{
    ROTA_LIST_EACH (call, &channel->waiting, struct rota_call, link)
        if (!call->wait_for_ready) {
            rota_list_remove(&call->link);
            rota_list_push(&channel->failing, &call->link);
        }
    struct rota_error reason = channel->reason;
    ROTA_LIST_DRAIN (call, &channel->failing, struct rota_call, link) {
        if (channel->is_closed)
            return;
        call_tell(call, ROTA_STATUS_UNAVAILABLE, rota_str(reason.text), false);
        call_free(call);
    }
}

static void back_off(struct rota_channel *channel, const struct rota_error *reason)
{
    channel->reason = *reason;
    channel->current = NULL;
    channel->state = ROTA_CHANNEL_BACKOFF;
    channel->retry_at =
        rota_time_add(rota_clock_mono(), rota_backoff_failed(&channel->backoff, &channel->random));
    channel->has_failed = true;
    arm_timer(channel, 0); /* reported by the loop, not from inside a caller's function */
}

static void start_waiting(struct rota_channel *channel)
{
    ROTA_LIST_DRAIN (call, &channel->waiting, struct rota_call, link) {
        enum rota_code code;
        if (channel->state != ROTA_CHANNEL_READY)
            return;
        rota_list_remove(&call->link);
        if (!start_call(call, rota_clock_mono(), &code)) {
            call_tell(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                      rota_str("too many calls are waiting for the server"), false);
            call_free(call);
        }
        if (channel->is_closed)
            return;
    }
}

static void on_open(void *data)
{
    struct connection *connection = data;
    struct rota_channel *channel = connection->channel;
    if (channel->current != connection)
        return;
    channel->state = ROTA_CHANNEL_READY;
    start_waiting(channel);
}

static void on_first_heard(void *data)
{
    struct connection *connection = data;
    connection->has_heard = true;
    rota_backoff_succeeded(&connection->channel->backoff);
}

static void on_connection_gone(void *data, const struct rota_error *reason,
                               enum rota_http2_fault fault)
{
    struct connection *connection = data;
    struct rota_channel *channel = connection->channel;
    (void)fault;
    connection->link = NULL;
    connection->is_refused = !connection->has_heard && reason->code == ROTA_ERR_INVALID;
    if (channel->current != connection)
        return;
    /* A connection that worked is made again at the next call; a peer that never answered is not
     * contacted again at once. */
    if (connection->has_heard) {
        channel->reason = *reason;
        channel->current = NULL;
        channel->state = ROTA_CHANNEL_IDLE;
        if (!rota_list_is_empty(&channel->waiting))
            arm_timer(channel, 0);
        return;
    }
    back_off(channel, reason);
}

static void on_freed(void *data)
{
    struct connection *connection = data;
    struct rota_channel *channel = connection->channel;
    rota_list_remove(&connection->in_channel);
    free(connection);
    unref_channel(channel);
}

static enum rota_code connection_new(struct rota_channel *channel, struct connection **result,
                                     struct rota_error *error)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return rota_error_no_memory(error, "for a connection to %s", channel->target);
    struct rota_http2_options options = {
        .is_tls = channel->options.tls != NULL,
        .authority = channel->target,
        .message_max = channel->options.message_max,
        .keepalive_interval = channel->options.keepalive_interval,
        .keepalive_timeout = channel->options.keepalive_timeout,
        .keepalive_call = channel->options.keepalive_call,
    };
    struct rota_http2_handler calls = {
        .on_message = on_message,
        .on_end = on_http2_end,
        .on_release = on_release,
        .on_goaway = on_goaway,
        .data = connection,
    };
    struct rota_link_handler handler = {on_open, on_first_heard, on_connection_gone, on_freed,
                                        connection};
    connection->channel = channel;
    enum rota_code code =
        rota_link_new(channel->timer.loop, &options, &calls, &handler, &connection->link, error);
    if (code) {
        free(connection);
        return code;
    }
    rota_list_push(&channel->connections, &connection->in_channel);
    channel->n_references++;
    *result = connection;
    return ROTA_OK;
}

static void connect_now(struct rota_channel *channel)
{
    struct rota_stream_options options = {
        .tls = channel->options.tls,
        .tls_name = channel->tls_name,
        .open_timeout = channel->options.connect_timeout,
        .insecure = channel->options.insecure,
    };
    struct connection *connection = NULL;
    struct rota_error error;
    if (connection_new(channel, &connection, &error)) {
        back_off(channel, &error);
        return;
    }
    channel->current = connection;
    channel->state = ROTA_CHANNEL_CONNECTING;
    if (rota_link_connect(connection->link, channel->target, &options, &error)) {
        rota_link_close(connection->link, "not connected");
        connection->link = NULL;
        back_off(channel, &error);
    }
}

static void expire_call(struct rota_call *call)
{
    struct connection *connection = call->connection;
    bool may_have_run = rota_http2_may_be_sent(&call->h2);
    struct rota_error why;
    rota_error_set(&why, ROTA_ERR_UNAVAILABLE, "the deadline has passed");
    if (!connection && call->channel->state == ROTA_CHANNEL_BACKOFF) /* it has waited for one */
        rota_error_set(&why, ROTA_ERR_UNAVAILABLE, "the deadline has passed; %s",
                       call->channel->reason.text);
    call->is_held = true;
    if (connection) {
        rota_http2_cancel(&call->h2);
        if (connection->link)
            rota_link_touch(connection->link);
    }
    call_tell(call, ROTA_STATUS_DEADLINE_EXCEEDED, rota_str(why.text), may_have_run);
    call->is_held = false;
    if (!call->connection)
        call_free(call);
}

static void resume_all(struct rota_channel *channel)
{
    ROTA_LIST_DRAIN (call, &channel->resuming, struct rota_call, link) {
        if (channel->is_closed)
            return;
        rota_list_remove(&call->link);
        rota_link_resume(call->connection->link, &call->h2);
    }
}

/* Move waiting calls to where the state allows. */
static void look_at_waiting(struct rota_channel *channel)
{
    if (channel->has_failed) {
        channel->has_failed = false;
        fail_waiting(channel);
    }
    if (channel->is_closed || rota_list_is_empty(&channel->waiting))
        return;
    if (channel->state == ROTA_CHANNEL_IDLE)
        connect_now(channel);
    else if (channel->state == ROTA_CHANNEL_READY)
        start_waiting(channel);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_channel *channel = timer->data;
    struct rota_heap_node *node;
    rota_time now = rota_clock_mono();
    rota_link_enter();
    channel->timer_at = ROTA_TIME_NEVER;
    while (!channel->is_closed && (node = rota_heap_first(&channel->deadlines)) && node->at <= now)
        expire_call(ROTA_CONTAINER(node, struct rota_call, node));
    resume_all(channel);
    if (channel->state == ROTA_CHANNEL_BACKOFF && now >= channel->retry_at)
        channel->state = ROTA_CHANNEL_IDLE;
    if (!channel->is_closed)
        look_at_waiting(channel);
    if ((node = rota_heap_first(&channel->deadlines)))
        arm_timer(channel, node->at);
    if (channel->state == ROTA_CHANNEL_BACKOFF)
        arm_timer(channel, channel->retry_at);
    rota_link_leave();
}

void rota_channel_close(struct rota_channel *channel)
{
    if (!channel)
        return;
    channel->is_closed = true;
    channel->current = NULL;
    struct rota_list_node *lists[] = {&channel->waiting, &channel->failing};
    for (size_t i = 0; i < 2; i++)
        ROTA_LIST_DRAIN (call, lists[i], struct rota_call, link) {
            call_over(call);
            call_free(call);
        }
    ROTA_LIST_EACH (c, &channel->connections, struct connection, in_channel) {
        rota_link_close(c->link, "the channel is closed");
        c->link = NULL;
    }
    uv_close((uv_handle_t *)&channel->timer, on_timer_closed);
}

void rota_channel_connect(struct rota_channel *channel)
{
    if (channel->state == ROTA_CHANNEL_IDLE)
        connect_now(channel);
}

enum rota_channel_state rota_channel_state(const struct rota_channel *channel)
{
    return channel->state;
}

bool rota_channel_is_heard(const struct rota_channel *channel)
{
    return channel->current && channel->current->has_heard;
}

const char *rota_channel_target(const struct rota_channel *channel)
{
    return channel->target;
}

size_t rota_channel_n_calls(const struct rota_channel *channel)
{
    return channel->n_calls;
}

const struct rota_error *rota_channel_reason(const struct rota_channel *channel)
{
    return &channel->reason;
}

/* --- calls --- */

/* Put a call into the session of the current connection. When that accepts no more calls, the
 * call waits for the next one. */
static bool start_call(struct rota_call *call, rota_time now, enum rota_code *code)
{
    struct rota_channel *channel = call->channel;
    struct connection *connection = channel->current;
    rota_time timeout = ROTA_TIME_NEVER;
    if (call->node.place != 0)
        timeout = call->node.at - now;
    *code = rota_http2_start(rota_link_session(connection->link), &call->h2, timeout);
    if (*code == ROTA_OK) {
        call->connection = connection;
        rota_http2_called(rota_link_session(connection->link), now);
        rota_link_touch(connection->link);
        return true;
    }
    if (*code != ROTA_ERR_UNAVAILABLE)
        return false;
    channel->current = NULL;
    channel->state = ROTA_CHANNEL_IDLE;
    rota_list_push(&channel->waiting, &call->link);
    connect_now(channel);
    return true;
}

static enum rota_code check_call(const struct rota_channel *channel,
                                 const struct rota_call_options *options, struct rota_error *error)
{
    if (channel->n_calls >= channel->options.calls_max)
        return rota_error_set(error, ROTA_ERR_LIMIT, "channel to %s: more than %u calls",
                              channel->target, channel->options.calls_max);
    if (channel->state == ROTA_CHANNEL_BACKOFF && !options->wait_for_ready)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%s", channel->reason.text);
    if (options->timeout < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "a timeout must not be negative");
    if (!options->on_end)
        return rota_error_set(error, ROTA_ERR_INVALID, "a call needs on_end");
    return ROTA_OK;
}

static enum rota_code add_token(struct rota_call *call, const char *token, struct rota_error *error)
{
    char text[ROTA_CHANNEL_TOKEN_MAX + sizeof "Bearer "];
    if (strlen(token) > ROTA_CHANNEL_TOKEN_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "a token has at most %d bytes",
                              ROTA_CHANNEL_TOKEN_MAX);
    snprintf(text, sizeof text, "Bearer %s", token);
    const struct rota_metadata field = {rota_str("authorization"), rota_str(text)};
    return rota_http2_call_add(&call->h2, &field, 1, error);
}

enum rota_code rota_channel_call(struct rota_channel *channel,
                                 const struct rota_call_options *options, struct rota_call **result,
                                 struct rota_error *error)
{
    enum rota_code code = check_call(channel, options, error);
    if (code)
        return code;
    struct rota_call *call = call_new(channel);
    if (!call)
        return rota_error_no_memory(error, "for a call to %s", channel->target);
    code = rota_http2_call_prepare(&call->h2, options->method, options->request, options->metadata,
                                   options->n_metadata, options->on_message != NULL, error);
    if (!code && channel->options.token && channel->options.token[0])
        code = add_token(call, channel->options.token, error);
    if (code)
        goto fail;
    call->on_message = options->on_message;
    call->on_end = options->on_end;
    call->data = options->data;
    call->wait_for_ready = options->wait_for_ready;
    call->is_over = call->is_again = call->was_again = false;
    call->connection = NULL;
    call->started_at = rota_clock_mono();
    if (options->timeout > 0) {
        call->node.at = rota_time_add(call->started_at, options->timeout);
        call->node.order = channel->n_started++;
        if (!rota_heap_push(&channel->deadlines, &call->node)) {
            code = rota_error_no_memory(error, "for a call to %s", channel->target);
            goto fail;
        }
        arm_timer(channel, call->node.at);
    }
    if (channel->state != ROTA_CHANNEL_READY) {
        rota_list_push(&channel->waiting, &call->link);
        rota_channel_connect(channel);
    } else if (!start_call(call, call->started_at, &code)) {
        rota_error_set(error, code, "channel to %s: too many calls are waiting for the server",
                       channel->target);
        goto fail;
    }
    channel->n_calls++;
    if (result)
        *result = call;
    return ROTA_OK;

fail:
    rota_heap_remove(&channel->deadlines, &call->node);
    call_free(call);
    return code;
}

void rota_call_cancel(struct rota_call *call)
{
    struct connection *connection = call->connection;
    if (call->is_over)
        return;
    call_over(call);
    if (!connection) {
        call_free(call);
        return;
    }
    rota_http2_cancel(&call->h2);
    if (connection->link)
        rota_link_touch(connection->link);
}

void rota_call_pause(struct rota_call *call)
{
    rota_http2_pause(&call->h2);
}

void rota_call_resume(struct rota_call *call)
{
    if (call->is_over)
        return;
    if (!call->connection || call->h2.is_delivering) {
        rota_http2_resume(
            &call->h2); /* nothing has arrived yet, or the delivering function continues */
    } else if (!call->link.next) {
        rota_list_push(&call->channel->resuming, &call->link);
        arm_timer(call->channel, 0);
    }
}

struct uv_loop_s *rota_channel_loop(const struct rota_channel *channel)
{
    return channel->timer.loop;
}
