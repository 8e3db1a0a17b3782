#include "io/http2_inside.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>

/* --- how a call ended --- */

/* Has the peer sent what it had to, and nothing in part? */
static bool is_whole(const struct rota_http2_call *call)
{
    return call->is_streaming ? rota_grpc_decoder_is_clean(&call->decoder) : call->n_messages == 1;
}

/* What the peer's last word, or the lack of it, means to a client's caller. */
static void conclude(struct rota_http2_call *call, bool is_reset, uint32_t code)
{
    const struct rota_grpc_head *head = &call->head;
    char text[80];
    if (call->is_not_sent) {
        rota_http2_end_text(call, ROTA_STATUS_UNAVAILABLE, "the connection takes no more calls",
                            true);
    } else if (head->has_status) {
        if (head->status == ROTA_STATUS_OK && !is_whole(call))
            rota_http2_end_text(call, ROTA_STATUS_INTERNAL,
                                "the reply ends without a whole message", false);
        else
            rota_http2_end(call, head->status, rota_buffer_str(&head->text), false);
    } else if (head->http_status != 0 && head->http_status != 200) {
        snprintf(text, sizeof text, "the reply is HTTP status %d, not gRPC", head->http_status);
        rota_http2_end_text(call, rota_grpc_status_of_http(head->http_status), text, false);
    } else if (is_reset) {
        snprintf(text, sizeof text, "the peer dropped the call: %s", nghttp2_http2_strerror(code));
        rota_http2_end_text(call, rota_grpc_status_of_reset(code), text,
                            code == NGHTTP2_REFUSED_STREAM);
    } else {
        rota_http2_end_text(call, ROTA_STATUS_UNKNOWN, "the reply has no grpc-status", false);
    }
}

/* A call over its bounds: refused by a server, given up by a client. */
static void refuse(struct rota_http2_call *call, enum rota_status status, const char *text)
{
    if (call->session->options.is_server) {
        rota_http2_finish(call, status, rota_str(text), NULL, 0);
        if (call->is_streaming) { /* its owner has it already */
            call->is_ended = false;
            rota_http2_end_text(call, status, text, false);
        }
        return;
    }
    rota_http2_end_text(call, status, text, false);
    rota_http2_cancel(call);
}

/* --- messages --- */

static const char *found_text(enum rota_grpc_found found)
{
    switch (found) {
    case ROTA_GRPC_MORE:
    case ROTA_GRPC_MESSAGE:
        return "";
    case ROTA_GRPC_TOO_LARGE:
        return "the message is larger than the receiver allows";
    case ROTA_GRPC_COMPRESSED:
        return "the message is compressed, which the receiver did not offer to accept";
    case ROTA_GRPC_MALFORMED:
        return "the message has an unknown flag";
    case ROTA_GRPC_NO_MEMORY:
        return "the receiver has no memory for the message";
    }
    return "";
}

/* Decode, and deliver what is whole. What is left when the owner pauses stays
 * in `*bytes`. */
static void take(struct rota_http2_call *call, struct rota_str *bytes)
{
    struct rota_http2 *session = call->session;
    while (bytes->size > 0 && !call->is_ended && !call->is_paused) {
        if (!call->is_streaming && call->n_messages > 0) {
            refuse(call, ROTA_STATUS_INTERNAL, "more than one message where one is due");
            return;
        }
        enum rota_grpc_found found = rota_grpc_decoder_next(&call->decoder, bytes);
        if (found == ROTA_GRPC_MORE)
            break;
        if (found != ROTA_GRPC_MESSAGE) {
            refuse(call, rota_grpc_found_status(found, call->head.has_encoding), found_text(found));
            return;
        }
        call->n_messages++;
        if (call->is_streaming) {
            call->is_delivering = true;
            session->handler.on_message(session->handler.data, call,
                                        rota_buffer_str(&call->decoder.message));
            call->is_delivering = false;
        }
    }
    if (call->is_ended)
        bytes->size = 0;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *data,
                         size_t size, void *user)
{
    struct rota_http2 *session = user;
    struct rota_http2_call *call = nghttp2_session_get_stream_user_data(h2, stream);
    struct rota_str bytes = rota_str_of(data, size);
    (void)flags;
    /* The connection's window is for all calls, so one that is paused does not
     * hold back the others; its own window does that. */
    nghttp2_session_consume_connection(h2, size);
    session->has_heard_call = true;
    if (call && !call->is_ended && !call->is_finished) {
        if (!call->is_paused)
            take(call, &bytes);
        if (bytes.size > 0) {
            rota_buffer_append_str(&call->held, bytes);
            size -= bytes.size; /* consumed when it is delivered */
        }
        rota_http2_account_in(call);
        if (call->held.failed || session->in_size > ROTA_HTTP2_IN_MAX)
            refuse(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                   "too many bytes of messages are held for this connection");
    }
    nghttp2_session_consume_stream(h2, stream, size);
    return 0;
}

void rota_http2_pause(struct rota_http2_call *call)
{
    if (call->is_streaming && !call->is_ended)
        call->is_paused = true;
}

void rota_http2_resume(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (!session || !call->is_paused)
        return;
    call->is_paused = false;
    if (call->is_delivering || call->is_ended)
        return; /* the one who delivers goes on */
    struct rota_str bytes = rota_buffer_str(&call->held);
    size_t size = bytes.size;
    take(call, &bytes);
    size -= bytes.size;
    if (bytes.size > 0)
        memmove(call->held.data, bytes.data, bytes.size);
    call->held.size = bytes.size;
    rota_http2_account_in(call);
    if (session->h2 && !call->is_closed) {
        nghttp2_session_consume_stream(session->h2, call->stream, size);
        rota_http2_count_out(session, 1, 0);
    }
    if (call->is_paused)
        return;
    if (call->is_heard || call->is_closed)
        conclude(call, !call->is_heard, call->close_code);
    if (call->is_closed)
        rota_http2_release(call);
}

/* --- too much of something --- */

static void fault_end(struct rota_http2 *session, enum rota_http2_fault fault, uint32_t code)
{
    if (session->fault)
        return;
    session->fault = fault;
    nghttp2_session_terminate_session(session->h2, code);
}

/* Take one from a bucket of `burst`, filled again at a steady rate. False when
 * none was left. */
static bool spend(double *tokens, rota_time *refilled_at, rota_time now, double burst,
                  double per_sec)
{
    *tokens += (double)(now - *refilled_at) / (double)ROTA_SEC * per_sec;
    *refilled_at = now;
    if (*tokens > burst)
        *tokens = burst;
    *tokens -= 1;
    return *tokens >= 0;
}

/* A call was dropped, which costs the peer less than us. Calls are counted over
 * time, not those open at once, which dropping keeps low. */
static void spend_reset(struct rota_http2 *session)
{
    if (!spend(&session->reset_tokens, &session->refilled_at, session->now, ROTA_HTTP2_RESETS_BURST,
               ROTA_HTTP2_RESETS_PER_SEC))
        fault_end(session, ROTA_HTTP2_FAULT_RESETS, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* New settings have to be acknowledged, and may concern every call. */
static void heard_settings(struct rota_http2 *session)
{
    session->has_settings = true;
    if (!session->options.is_server)
        rota_http2_start_queued(session);
    else if (!spend(&session->settings_tokens, &session->settings_refilled_at, session->now,
                    ROTA_HTTP2_SETTINGS_BURST, ROTA_HTTP2_SETTINGS_PER_SEC))
        fault_end(session, ROTA_HTTP2_FAULT_SETTINGS, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void heard_ping(struct rota_http2 *session)
{
    bool is_soon = session->now - session->peer_pinged_at < ROTA_HTTP2_PING_INTERVAL_MIN;
    if (session->has_heard_call || !is_soon)
        session->n_strikes = 0;
    else
        session->n_strikes++;
    session->peer_pinged_at = session->now;
    session->has_heard_call = false;
    if (session->n_strikes > ROTA_HTTP2_PING_STRIKES_MAX) {
        session->fault = ROTA_HTTP2_FAULT_PINGS;
        nghttp2_submit_goaway(session->h2, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(session->h2),
                              NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)"too_many_pings", 14);
    }
}

/* --- frames --- */

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
    struct rota_http2 *session = user;
    session->heading_stream = frame->hd.stream_id;
    session->heading = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (!session->options.is_server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct rota_http2_call *call =
        session->fault ? NULL : session->handler.on_accept(session->handler.data);
    if (!call) {
        nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_REFUSED_STREAM);
        return 0;
    }
    call->session = session;
    call->stream = frame->hd.stream_id;
    call->decoder.max = session->options.message_max;
    rota_http2_list_push(&session->calls, call);
    session->n_open++;
    nghttp2_session_set_stream_user_data(h2, call->stream, call);
    session->heading = call;
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    struct rota_http2 *session = user;
    struct rota_http2_call *call =
        frame->hd.stream_id == session->heading_stream ? session->heading : NULL;
    (void)h2;
    (void)flags;
    if (call && !call->is_ended)
        rota_grpc_head_add(&call->head, rota_str_of(name, name_size),
                           rota_str_of(value, value_size));
    return 0;
}

static void heard_request_head(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    const struct rota_grpc_head *head = &call->head;
    if (head->is_too_large)
        refuse(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "the request has too many header fields");
    else if (!head->is_post || !head->is_grpc)
        rota_http2_answer_http(call);
    else if (!head->has_te)
        refuse(call, ROTA_STATUS_INTERNAL, "the request lacks te: trailers; a proxy took it away?");
    else if (head->is_bad_timeout)
        refuse(call, ROTA_STATUS_INTERNAL, "the request's grpc-timeout is malformed");
    else
        session->handler.on_head(session->handler.data, call);
}

/* The peer has said its last word in this call. */
static void heard_all(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    call->is_heard = true;
    if (session->options.is_server) {
        if (call->is_finished)
            return;
        if (!is_whole(call)) {
            refuse(call, ROTA_STATUS_INTERNAL, "the request has no whole message");
            return;
        }
        session->handler.on_request(session->handler.data, call);
        return;
    }
    if (call->is_ended || call->held.size > 0 || call->is_paused)
        return; /* its owner wants to hear the rest first */
    conclude(call, false, 0);
    if (call->out_at < call->out.size) /* it did not want all of the request */
        nghttp2_submit_rst_stream(session->h2, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_NO_ERROR);
}

static void heard_goaway(struct rota_http2 *session, const nghttp2_goaway *frame)
{
    if (session->options.is_server)
        return;
    bool was_open = !session->is_goaway;
    session->is_goaway = true;
    if (was_open && session->handler.on_goaway)
        session->handler.on_goaway(session->handler.data,
                                   frame->error_code != NGHTTP2_ENHANCE_YOUR_CALM);
    rota_http2_fail_queued(session);
}

static void heard_call_frame(struct rota_http2 *session, const nghttp2_frame *frame)
{
    struct rota_http2_call *call =
        nghttp2_session_get_stream_user_data(session->h2, frame->hd.stream_id);
    session->has_heard_call = true;
    if (!call)
        return;
    if (frame->hd.type == NGHTTP2_HEADERS && !call->is_ended) {
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            heard_request_head(call);
        else if (call->head.is_too_large)
            refuse(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "the peer sends too many header fields");
    }
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        heard_all(call);
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
    struct rota_http2 *session = user;
    bool is_ack = frame->hd.flags & NGHTTP2_FLAG_ACK;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        heard_call_frame(session, frame);
        break;
    case NGHTTP2_RST_STREAM:
        if (session->options.is_server)
            spend_reset(session);
        break;
    case NGHTTP2_SETTINGS:
        if (!is_ack)
            heard_settings(session);
        break;
    case NGHTTP2_PING:
        if (!is_ack && session->options.is_server && !session->fault)
            heard_ping(session);
        if (is_ack && session->is_draining && !session->is_final) {
            session->is_final = true;
            nghttp2_submit_goaway(h2, NGHTTP2_FLAG_NONE,
                                  nghttp2_session_get_last_proc_stream_id(h2), NGHTTP2_NO_ERROR,
                                  NULL, 0);
        }
        break;
    case NGHTTP2_GOAWAY:
        heard_goaway(session, &frame->goaway);
        break;
    default: /* frames of later times are of no interest */
        break;
    }
    return 0;
}

static int on_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
    struct rota_http2 *session = user;
    uint32_t code;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS: {
        if (!session->options.is_server || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            break;
        /* All is said before the client has: it need not go on. */
        struct rota_http2_call *call =
            nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
        if (call && !call->is_heard)
            nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_NO_ERROR);
        break;
    }
    case NGHTTP2_RST_STREAM:
        /* A peer can make us reset its calls by breaking rules in each: that
         * is the same trick the other way round. */
        code = frame->rst_stream.error_code;
        if (session->options.is_server && code != NGHTTP2_NO_ERROR && code != NGHTTP2_CANCEL)
            spend_reset(session);
        break;
    case NGHTTP2_GOAWAY:
        if (frame->goaway.error_code != NGHTTP2_NO_ERROR && !session->fault)
            session->fault = session->has_settings || session->options.is_server
                                 ? ROTA_HTTP2_FAULT_PROTOCOL
                                 : ROTA_HTTP2_FAULT_NOT_HTTP2;
        break;
    default:
        break;
    }
    return 0;
}

static int on_frame_not_send(nghttp2_session *h2, const nghttp2_frame *frame, int why, void *user)
{
    struct rota_http2 *session = user;
    (void)why;
    if (frame->hd.type != NGHTTP2_HEADERS || session->options.is_server)
        return 0;
    struct rota_http2_call *call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (call)
        call->is_not_sent = true; /* its end follows in on_stream_close */
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t stream, uint32_t code, void *user)
{
    struct rota_http2 *session = user;
    struct rota_http2_call *call = nghttp2_session_get_stream_user_data(h2, stream);
    if (!call)
        return 0;
    session->n_open--;
    call->is_closed = true;
    call->close_code = code;
    if (session->options.is_server) {
        if (!call->is_finished)
            rota_http2_end_text(call, ROTA_STATUS_CANCELLED, "the client dropped the call", false);
        rota_http2_release(call);
        return 0;
    }
    bool is_held = call->is_streaming && !call->is_ended && (call->held.size || call->is_paused);
    if (!is_held) {
        conclude(call, !call->is_heard, code);
        rota_http2_release(call);
    }
    rota_http2_start_queued(session);
    return 0;
}

void rota_http2_listen(struct nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
