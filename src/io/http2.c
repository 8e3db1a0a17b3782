#include "io/http2_inside.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

const char *rota_http2_fault_name(enum rota_http2_fault fault)
{
    switch (fault) {
    case ROTA_HTTP2_FAULT_NONE:
        return "none";
    case ROTA_HTTP2_FAULT_NOT_HTTP2:
        return "not-http2";
    case ROTA_HTTP2_FAULT_PROTOCOL:
        return "protocol";
    case ROTA_HTTP2_FAULT_RESETS:
        return "rapid-reset";
    case ROTA_HTTP2_FAULT_PINGS:
        return "pings";
    case ROTA_HTTP2_FAULT_SETTINGS:
        return "settings";
    case ROTA_HTTP2_FAULT_FLOOD:
        return "flood";
    case ROTA_HTTP2_FAULT_SILENT:
        return "silent";
    case ROTA_HTTP2_FAULT_NO_MEMORY:
        return "no-memory";
    }
    return "unknown";
}

static enum rota_code make_h2(struct rota_http2 *session)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    if (nghttp2_session_callbacks_new(&callbacks) || nghttp2_option_new(&option))
        goto done;
    rota_http2_listen(callbacks);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_settings(option, ROTA_HTTP2_SETTINGS_MAX);
    nghttp2_option_set_max_outbound_ack(option, ROTA_HTTP2_ACKS_MAX);
    nghttp2_option_set_max_continuations(option, ROTA_HTTP2_CONTINUATIONS_MAX);
    /* Twice ours, so that ours speaks first and can say why. */
    nghttp2_option_set_stream_reset_rate_limit(option, 2 * ROTA_HTTP2_RESETS_BURST,
                                               2 * ROTA_HTTP2_RESETS_PER_SEC);
    nghttp2_mem memory = rota_http2_pool_memory(&session->pool);
    int failed =
        session->options.is_server
            ? nghttp2_session_server_new3(&session->h2, callbacks, session, option, &memory)
            : nghttp2_session_client_new3(&session->h2, callbacks, session, option, &memory);
    if (!failed)
        code = ROTA_OK;
done:
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return code;
}

static bool submit_settings(struct rota_http2 *session)
{
    bool is_server = session->options.is_server;
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, ROTA_HTTP2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, ROTA_GRPC_HEAD_SIZE_MAX},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16384},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, is_server ? session->options.streams_max : 0},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, /* a client's word, and the last */
    };
    size_t n = sizeof entries / sizeof *entries - is_server;
    return nghttp2_submit_settings(session->h2, NGHTTP2_FLAG_NONE, entries, n) == 0 &&
           nghttp2_session_set_local_window_size(session->h2, NGHTTP2_FLAG_NONE, 0,
                                                 ROTA_HTTP2_CONNECTION_WINDOW) == 0;
}

enum rota_code rota_http2_new(const struct rota_http2_options *options,
                              const struct rota_http2_handler *handler, rota_time now,
                              struct rota_http2 **result, struct rota_error *error)
{
    struct rota_http2 *session = calloc(1, sizeof *session);
    if (!session)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "http2: session");
    session->options = *options;
    session->handler = *handler;
    if (session->options.message_max == 0)
        session->options.message_max = ROTA_GRPC_MESSAGE_MAX;
    if (session->options.streams_max == 0)
        session->options.streams_max = ROTA_HTTP2_STREAMS_MAX;
    if (session->options.queue_max == 0)
        session->options.queue_max = ROTA_HTTP2_QUEUE_MAX;
    if (session->options.keepalive_timeout == 0)
        session->options.keepalive_timeout = 20 * ROTA_SEC;
    session->now = session->heard_at = session->refilled_at = session->peer_pinged_at = now;
    session->settings_refilled_at = now;
    session->reset_tokens = ROTA_HTTP2_RESETS_BURST;
    session->settings_tokens = ROTA_HTTP2_SETTINGS_BURST;

    if (make_h2(session) || !submit_settings(session)) {
        rota_http2_free(session, rota_str("no memory"));
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "http2: session");
    }
    *result = session;
    return ROTA_OK;
}

void rota_http2_free(struct rota_http2 *session, struct rota_str reason)
{
    if (!session)
        return;
    assert(!session->is_busy);
    bool is_server = session->options.is_server;
    struct rota_http2_call *call;
    nghttp2_session_del(session->h2);
    session->h2 = NULL;
    while ((call = session->calls.first ? session->calls.first : session->queue.first)) {
        if (!is_server)
            rota_http2_end(call, ROTA_STATUS_UNAVAILABLE, reason, !call->is_started);
        else if (!call->is_finished)
            rota_http2_end(call, ROTA_STATUS_CANCELLED, reason, false);
        rota_http2_release(call);
    }
    rota_http2_pool_deinit(&session->pool);
    free(session);
}

static enum rota_http2_fault fault_of(ssize_t code)
{
    switch (code) {
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        return ROTA_HTTP2_FAULT_NOT_HTTP2;
    case NGHTTP2_ERR_FLOODED:
    case NGHTTP2_ERR_TOO_MANY_SETTINGS:
        return ROTA_HTTP2_FAULT_FLOOD;
    case NGHTTP2_ERR_NOMEM:
        return ROTA_HTTP2_FAULT_NO_MEMORY;
    default:
        return ROTA_HTTP2_FAULT_PROTOCOL;
    }
}

bool rota_http2_feed(struct rota_http2 *session, rota_time now, struct rota_str *bytes)
{
    assert(!session->is_busy);
    if (session->fault)
        return false;
    size_t size = bytes->size < ROTA_HTTP2_SLICE ? bytes->size : ROTA_HTTP2_SLICE;
    session->now = session->heard_at = now;
    session->pinged_at = 0;
    session->is_busy = true;
    ssize_t n = nghttp2_session_mem_recv(session->h2, (const uint8_t *)bytes->data, size);
    session->is_busy = false;
    if (n < 0) {
        if (!session->fault)
            session->fault = fault_of(n);
        return false;
    }
    bytes->data += n;
    bytes->size -= (size_t)n;
    if (session->options.is_server && !session->fault &&
        nghttp2_session_get_outbound_queue_size(session->h2) > ROTA_HTTP2_FRAMES_MAX)
        session->fault = ROTA_HTTP2_FAULT_FLOOD;
    return !rota_http2_is_done(session);
}

static bool has_room(const struct rota_http2_call *call)
{
    return call->out.size - call->out_at <= ROTA_HTTP2_STREAM_OUT_MAX / 2 &&
           call->session->out_size <= ROTA_HTTP2_OUT_MAX / 2;
}

/* A callback may send, finish or drop any call: start over after each one. */
static void tell_room(struct rota_http2 *session)
{
    struct rota_http2_call *call = session->with_room;
    while (call) {
        if (!has_room(call)) {
            call = call->next_with_room;
            continue;
        }
        rota_http2_forget_room(call);
        session->handler.on_room(session->handler.data, call);
        call = session->with_room;
    }
}

bool rota_http2_pull(struct rota_http2 *session, struct rota_buffer *out, size_t size_max)
{
    assert(!session->is_busy);
    session->is_busy = true;
    while (out->size < size_max && session->fault != ROTA_HTTP2_FAULT_NOT_HTTP2) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(session->h2, &data);
        if (n < 0 && !session->fault)
            session->fault = ROTA_HTTP2_FAULT_NO_MEMORY;
        if (n <= 0)
            break;
        rota_buffer_append(out, data, (size_t)n);
    }
    session->is_busy = false;
    session->n_since_pull = session->size_since_pull = 0;
    if (out->failed && !session->fault)
        session->fault = ROTA_HTTP2_FAULT_NO_MEMORY;
    if (session->with_room && !session->fault)
        tell_room(session);
    return !rota_http2_is_done(session);
}

bool rota_http2_wants_flush(const struct rota_http2 *session)
{
    return session->n_since_pull >= ROTA_HTTP2_FLUSH_CALLS ||
           session->size_since_pull >= ROTA_HTTP2_FLUSH_SIZE;
}

bool rota_http2_wants_pull(const struct rota_http2 *session)
{
    return nghttp2_session_want_write(session->h2);
}

bool rota_http2_is_done(const struct rota_http2 *session)
{
    bool wants_write = nghttp2_session_want_write(session->h2);
    if (session->fault || (!wants_write && !nghttp2_session_want_read(session->h2)))
        return true;
    bool is_last = session->options.is_server ? session->is_final : session->is_goaway;
    return is_last && rota_http2_n_calls(session) == 0 && !wants_write;
}

enum rota_http2_fault rota_http2_fault(const struct rota_http2 *session)
{
    return session->fault;
}

rota_time rota_http2_deadline(const struct rota_http2 *session)
{
    if (session->options.keepalive_interval == 0)
        return ROTA_TIME_NEVER;
    if (session->pinged_at)
        return rota_time_add(session->pinged_at, session->options.keepalive_timeout);
    return rota_time_add(session->heard_at, session->options.keepalive_interval);
}

bool rota_http2_tick(struct rota_http2 *session, rota_time now)
{
    session->now = now;
    if (now < rota_http2_deadline(session))
        return !rota_http2_is_done(session);
    if (session->pinged_at) {
        session->fault = ROTA_HTTP2_FAULT_SILENT;
        return false;
    }
    session->pinged_at = now;
    nghttp2_submit_ping(session->h2, NGHTTP2_FLAG_NONE, NULL);
    return true;
}

void rota_http2_drain(struct rota_http2 *session)
{
    if (session->is_draining)
        return;
    session->is_draining = true;
    if (!session->options.is_server) {
        session->is_goaway = true;
        return;
    }
    /* Two steps: what is already on its way to us arrives before the answer to
     * the ping, and is still served. */
    nghttp2_submit_shutdown_notice(session->h2);
    nghttp2_submit_ping(session->h2, NGHTTP2_FLAG_NONE, NULL);
}

size_t rota_http2_n_calls(const struct rota_http2 *session)
{
    return session->n_open + session->n_queued;
}

bool rota_http2_is_open(const struct rota_http2 *session)
{
    return session->h2 && !session->fault && !session->is_goaway &&
           nghttp2_session_check_request_allowed(session->h2);
}
