#include "io/http2.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

struct list {
    struct rota_http2_call *first, *last;
};

struct rota_http2 {
    nghttp2_session *h2; /* NULL while being freed */
    struct rota_http2_options options;
    struct rota_http2_handler handler;
    struct list calls;                 /* with a stream */
    struct list queue;                 /* waiting for the peer's limit, oldest first */
    struct rota_http2_call *with_room; /* refused a message, to be told of room */
    size_t n_open, n_queued;
    size_t in_size, out_size;
    size_t n_since_pull, size_since_pull;

    rota_time now, heard_at, pinged_at; /* pinged_at: 0 when no answer is awaited */
    rota_time refilled_at, peer_pinged_at;
    double reset_tokens;
    uint32_t n_strikes;
    bool has_heard_call; /* since the peer's last ping */
    bool is_busy;        /* inside nghttp2: no freeing, no feeding */
    bool is_draining, is_final, is_goaway;
    enum rota_http2_fault fault;
};

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
    case ROTA_HTTP2_FAULT_FLOOD:
        return "flood";
    case ROTA_HTTP2_FAULT_SILENT:
        return "silent";
    case ROTA_HTTP2_FAULT_NO_MEMORY:
        return "no-memory";
    }
    return "unknown";
}

/* --- lists of calls --- */

static void push(struct list *list, struct rota_http2_call *call)
{
    call->next = NULL;
    call->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = call;
    list->last = call;
}

static void unlink_call(struct list *list, struct rota_http2_call *call)
{
    *(call->previous ? &call->previous->next : &list->first) = call->next;
    *(call->next ? &call->next->previous : &list->last) = call->previous;
    call->next = call->previous = NULL;
}

static void forget_room(struct rota_http2_call *call)
{
    struct rota_http2_call **place = &call->session->with_room;
    if (!call->wants_room)
        return;
    while (*place != call)
        place = &(*place)->next_with_room;
    *place = call->next_with_room;
    call->wants_room = false;
}

/* --- ends of calls --- */

static void end(struct rota_http2_call *call, enum rota_status status, struct rota_str text,
                bool is_unsent)
{
    struct rota_http2 *session = call->session;
    struct rota_http2_result result = {status, text, is_unsent};
    if (call->is_ended)
        return;
    call->is_ended = true;
    session->handler.on_end(session->handler.data, call, &result);
}

static void end_text(struct rota_http2_call *call, enum rota_status status, const char *text,
                     bool is_unsent)
{
    end(call, status, rota_str(text), is_unsent);
}

static void release(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (call->is_queued) {
        unlink_call(&session->queue, call);
        session->n_queued--;
    } else {
        unlink_call(&session->calls, call);
    }
    forget_room(call);
    session->in_size -= call->in_size;
    if (session->options.is_server)
        session->out_size -= call->out.size - call->out_at;
    call->in_size = 0;
    call->is_queued = false;
    call->session = NULL;
    session->handler.on_release(session->handler.data, call);
}

/* What the peer's last word, or the lack of it, means to a client's caller. */
static void conclude(struct rota_http2_call *call, bool is_reset, uint32_t code)
{
    const struct rota_grpc_head *head = &call->head;
    char text[80];
    if (call->is_not_sent) {
        end_text(call, ROTA_STATUS_UNAVAILABLE, "the connection takes no more calls", true);
    } else if (head->has_status) {
        bool is_whole =
            call->is_streaming ? rota_grpc_decoder_is_clean(&call->decoder) : call->n_messages == 1;
        if (head->status == ROTA_STATUS_OK && !is_whole)
            end_text(call, ROTA_STATUS_INTERNAL, "the reply ends without a whole message", false);
        else
            end(call, head->status, rota_buffer_str(&head->text), false);
    } else if (head->http_status != 0 && head->http_status != 200) {
        snprintf(text, sizeof text, "the reply is HTTP status %d, not gRPC", head->http_status);
        end_text(call, rota_grpc_status_of_http(head->http_status), text, false);
    } else if (is_reset) {
        snprintf(text, sizeof text, "the peer dropped the call: %s", nghttp2_http2_strerror(code));
        end_text(call, rota_grpc_status_of_reset(code), text, code == NGHTTP2_REFUSED_STREAM);
    } else {
        end_text(call, ROTA_STATUS_UNKNOWN, "the reply has no grpc-status", false);
    }
}

/* A call over its bounds: refused by a server, given up by a client. */
static void refuse(struct rota_http2_call *call, enum rota_status status, const char *text)
{
    if (call->session->options.is_server) {
        rota_http2_finish(call, status, rota_str(text), NULL, 0);
        return;
    }
    end_text(call, status, text, false);
    rota_http2_cancel(call);
}

/* --- header fields for nghttp2 --- */

enum {
    NV_MAX = ROTA_GRPC_HEAD_FIELDS_MAX + 16,
    KEPT = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE,
};

struct nvs {
    nghttp2_nv items[NV_MAX];
    size_t n;
};

static void nv(struct nvs *nvs, struct rota_str name, struct rota_str value, uint8_t flags)
{
    assert(nvs->n < NV_MAX);
    nvs->items[nvs->n++] = (nghttp2_nv){
        .name = (uint8_t *)name.data,
        .namelen = name.size,
        .value = (uint8_t *)value.data,
        .valuelen = value.size,
        .flags = flags,
    };
}

#define NV_CONST(nvs, name, value)                                                                 \
    nv(nvs, (struct rota_str){"" name, sizeof(name) - 1},                                          \
       (struct rota_str){"" value, sizeof(value) - 1}, KEPT)

/* The pairs of `sent` from number `from` on. They are no-copy only when nothing
 * is added to `sent` before they have gone out. */
static void nv_sent(struct nvs *nvs, struct rota_http2_call *call, size_t from, size_t to,
                    uint8_t flags)
{
    size_t n;
    const struct rota_metadata *pairs = rota_grpc_fields_pairs(&call->sent, &n);
    for (size_t i = from; i < n && i < to; i++) {
        /* Binary values are ids and the like: they would only push others out
         * of the peer's table. */
        bool is_binary = rota_grpc_name_is_binary(pairs[i].name);
        nv(nvs, pairs[i].name, pairs[i].value, flags | (is_binary ? NGHTTP2_NV_FLAG_NO_INDEX : 0));
    }
}

static void nv_status(struct nvs *nvs, struct rota_http2_call *call)
{
    unsigned status = (unsigned)call->status % 100;
    size_t size = 0;
    if (status >= 10)
        call->status_text[size++] = (char)('0' + status / 10);
    call->status_text[size++] = (char)('0' + status % 10);
    nv(nvs, rota_str("grpc-status"), rota_str_of(call->status_text, size), KEPT);
    nv_sent(nvs, call, call->n_sent_head, SIZE_MAX, KEPT);
}

/* --- messages out --- */

static void submit_trailers(struct rota_http2_call *call)
{
    struct nvs nvs;
    nvs.n = 0;
    nv_status(&nvs, call);
    nghttp2_submit_trailer(call->session->h2, call->stream, nvs.items, nvs.n);
}

static ssize_t read_out(nghttp2_session *h2, int32_t stream, uint8_t *to, size_t size,
                        uint32_t *flags, nghttp2_data_source *source, void *data)
{
    struct rota_http2_call *call = source->ptr;
    struct rota_http2 *session = data;
    size_t n = call->out.size - call->out_at;
    (void)h2;
    (void)stream;
    if (n > size)
        n = size;
    if (n > 0)
        memcpy(to, call->out.data + call->out_at, n);
    call->out_at += n;
    call->is_started = true;
    if (!session->options.is_server) {
        if (call->out_at == call->out.size)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)n;
    }
    session->out_size -= n;
    if (call->out_at < call->out.size)
        return (ssize_t)n;
    rota_buffer_clear(&call->out);
    call->out_at = 0;
    if (call->is_finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(call);
    } else if (n == 0) {
        call->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

static bool frame_out(struct rota_http2_call *call, struct rota_str message)
{
    uint8_t prefix[ROTA_GRPC_PREFIX_SIZE];
    if (message.size > UINT32_MAX)
        return false;
    rota_grpc_prefix_encode(prefix, (uint32_t)message.size);
    rota_buffer_append(&call->out, prefix, sizeof prefix);
    rota_buffer_append_str(&call->out, message);
    return !call->out.failed;
}

static void count_out(struct rota_http2 *session, size_t n_calls, size_t size)
{
    session->n_since_pull += n_calls;
    session->size_since_pull += size;
}

/* --- starting calls --- */

static bool submit(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_out};
    struct nvs nvs;
    nvs.n = 0;
    NV_CONST(&nvs, ":method", "POST");
    if (session->options.is_tls)
        NV_CONST(&nvs, ":scheme", "https");
    else
        NV_CONST(&nvs, ":scheme", "http");
    nv(&nvs, rota_str(":path"), rota_buffer_str(&call->path), KEPT);
    nv(&nvs, rota_str(":authority"), rota_str(session->options.authority), KEPT);
    NV_CONST(&nvs, "te", "trailers");
    NV_CONST(&nvs, "content-type", "application/grpc");
    NV_CONST(&nvs, "user-agent", "rota");
    if (call->timeout_size > 0)
        nv(&nvs, rota_str("grpc-timeout"), rota_str_of(call->timeout, call->timeout_size), KEPT);
    nv_sent(&nvs, call, 0, SIZE_MAX, KEPT);

    int32_t stream = nghttp2_submit_request(session->h2, NULL, nvs.items, nvs.n, &provider, call);
    if (stream < 0)
        return false;
    call->stream = stream;
    session->n_open++;
    push(&session->calls, call);
    count_out(session, 1, call->out.size);
    return true;
}

static size_t peer_limit(const struct rota_http2 *session)
{
    return nghttp2_session_get_remote_settings(session->h2,
                                               NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

/* The peer lets in more: those that wait longest go. */
static void start_queued(struct rota_http2 *session)
{
    struct rota_http2_call *call;
    while ((call = session->queue.first) && session->n_open < peer_limit(session)) {
        unlink_call(&session->queue, call);
        session->n_queued--;
        call->is_queued = false;
        if (rota_http2_is_open(session) && submit(call))
            continue;
        push(&session->calls, call); /* for release() */
        end_text(call, ROTA_STATUS_UNAVAILABLE, "the connection takes no more calls", true);
        release(call);
    }
}

static void fail_queued(struct rota_http2 *session)
{
    struct rota_http2_call *call;
    while ((call = session->queue.first)) {
        end_text(call, ROTA_STATUS_UNAVAILABLE, "the connection takes no more calls", true);
        release(call);
    }
}

/* --- messages in --- */

static void shrink(struct rota_buffer *buffer)
{
    if (buffer->capacity > ROTA_HTTP2_CALL_KEPT_MAX)
        rota_buffer_deinit(buffer);
    else
        rota_buffer_clear(buffer);
}

static void account_in(struct rota_http2_call *call)
{
    size_t size = call->decoder.message.size + call->held.size;
    call->session->in_size += size - call->in_size;
    call->in_size = size;
}

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
        account_in(call);
        if (call->held.failed || session->in_size > ROTA_HTTP2_IN_MAX)
            refuse(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                   "too many bytes of messages are held for this connection");
    }
    nghttp2_session_consume_stream(h2, stream, size);
    return 0;
}

/* --- what the peer says --- */

static void fault_end(struct rota_http2 *session, enum rota_http2_fault fault, uint32_t code)
{
    if (session->fault)
        return;
    session->fault = fault;
    nghttp2_session_terminate_session(session->h2, code);
}

/* A call was dropped, which costs the peer less than us: a bucket of so many,
 * filled again at a steady rate. It counts calls over time, not those open at
 * once, which dropping keeps low. */
static void spend_reset(struct rota_http2 *session)
{
    double passed = (double)(session->now - session->refilled_at) / (double)ROTA_SEC;
    session->refilled_at = session->now;
    session->reset_tokens += passed * ROTA_HTTP2_RESETS_PER_SEC;
    if (session->reset_tokens > ROTA_HTTP2_RESETS_BURST)
        session->reset_tokens = ROTA_HTTP2_RESETS_BURST;
    session->reset_tokens -= 1;
    if (session->reset_tokens < 0)
        fault_end(session, ROTA_HTTP2_FAULT_RESETS, NGHTTP2_ENHANCE_YOUR_CALM);
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

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
    struct rota_http2 *session = user;
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
    push(&session->calls, call);
    session->n_open++;
    nghttp2_session_set_stream_user_data(h2, call->stream, call);
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    struct rota_http2_call *call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    (void)flags;
    (void)user;
    if (call && !call->is_ended)
        rota_grpc_head_add(&call->head, rota_str_of(name, name_size),
                           rota_str_of(value, value_size));
    return 0;
}

static void answer_http(struct rota_http2_call *call)
{
    struct nvs nvs;
    nvs.n = 0;
    NV_CONST(&nvs, ":status", "415");
    NV_CONST(&nvs, "content-length", "0");
    call->is_finished = call->is_ended = true;
    nghttp2_submit_response(call->session->h2, call->stream, nvs.items, nvs.n, NULL);
    count_out(call->session, 1, 0);
}

static void heard_request_head(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    const struct rota_grpc_head *head = &call->head;
    if (head->is_too_large)
        refuse(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "the request has too many header fields");
    else if (!head->is_post || !head->is_grpc)
        answer_http(call);
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
        if (call->n_messages != 1) {
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
    fail_queued(session);
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
        if (!is_ack && !session->options.is_server)
            start_queued(session);
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
            session->fault = ROTA_HTTP2_FAULT_PROTOCOL;
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
            end_text(call, ROTA_STATUS_CANCELLED, "the client dropped the call", false);
        release(call);
        return 0;
    }
    bool is_held = call->is_streaming && !call->is_ended && (call->held.size || call->is_paused);
    if (!is_held) {
        conclude(call, !call->is_heard, code);
        release(call);
    }
    start_queued(session);
    return 0;
}

/* --- a session --- */

static enum rota_code make_h2(struct rota_http2 *session)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    if (nghttp2_session_callbacks_new(&callbacks) || nghttp2_option_new(&option))
        goto done;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);

    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_settings(option, ROTA_HTTP2_SETTINGS_MAX);
    nghttp2_option_set_max_outbound_ack(option, ROTA_HTTP2_ACKS_MAX);
    nghttp2_option_set_max_continuations(option, ROTA_HTTP2_CONTINUATIONS_MAX);
    /* Twice ours, so that ours speaks first and can say why. */
    nghttp2_option_set_stream_reset_rate_limit(option, 2 * ROTA_HTTP2_RESETS_BURST,
                                               2 * ROTA_HTTP2_RESETS_PER_SEC);
    int failed = session->options.is_server
                     ? nghttp2_session_server_new2(&session->h2, callbacks, session, option)
                     : nghttp2_session_client_new2(&session->h2, callbacks, session, option);
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
    session->reset_tokens = ROTA_HTTP2_RESETS_BURST;

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
            end(call, ROTA_STATUS_UNAVAILABLE, reason, !call->is_started);
        else if (!call->is_finished)
            end(call, ROTA_STATUS_CANCELLED, reason, false);
        release(call);
    }
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
        forget_room(call);
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

/* --- a call --- */

void rota_http2_call_init(struct rota_http2_call *call)
{
    memset(call, 0, sizeof *call);
    rota_http2_call_reset(call);
}

void rota_http2_call_deinit(struct rota_http2_call *call)
{
    assert(!call->session);
    rota_grpc_head_deinit(&call->head);
    rota_grpc_fields_deinit(&call->sent);
    rota_buffer_deinit(&call->decoder.message);
    rota_buffer_deinit(&call->path);
    rota_buffer_deinit(&call->out);
    rota_buffer_deinit(&call->held);
}

void rota_http2_call_reset(struct rota_http2_call *call)
{
    assert(!call->session);
    memset(&call->session, 0, sizeof *call - offsetof(struct rota_http2_call, session));
    rota_grpc_decoder_reset(&call->decoder);
    call->decoder.max = ROTA_GRPC_MESSAGE_MAX;
    rota_grpc_head_clear(&call->head);
    rota_grpc_fields_clear(&call->sent);
    rota_buffer_clear(&call->path);
    shrink(&call->decoder.message);
    shrink(&call->out);
    shrink(&call->held);
}

void rota_http2_call_rewind(struct rota_http2_call *call)
{
    assert(!call->session);
    struct rota_grpc_fields sent = call->sent;
    struct rota_buffer path = call->path, out = call->out;
    bool is_streaming = call->is_streaming;
    call->sent = (struct rota_grpc_fields){0};
    call->path = call->out = (struct rota_buffer){0};
    rota_http2_call_reset(call);
    call->sent = sent;
    call->path = path;
    call->out = out;
    call->is_streaming = is_streaming;
}

enum rota_code rota_http2_call_prepare(struct rota_http2_call *call, struct rota_str path,
                                       struct rota_str message,
                                       const struct rota_metadata *metadata, size_t n_metadata,
                                       bool is_streaming, struct rota_error *error)
{
    enum rota_code code = rota_grpc_fields_add_metadata(&call->sent, metadata, n_metadata, error);
    if (code)
        return code;
    if (path.size < 2 || path.size > 1024 || path.data[0] != '/')
        return rota_error_set(error, ROTA_ERR_INVALID, "a method is \"/package.Service/Method\"");
    for (size_t i = 0; i < path.size; i++)
        if (path.data[i] <= 0x20 || path.data[i] > 0x7e)
            return rota_error_set(error, ROTA_ERR_INVALID, "a method's name is printable ASCII");
    rota_buffer_append_str(&call->path, path);
    call->is_streaming = is_streaming;
    if (!frame_out(call, message) || call->path.failed)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "request of %zu bytes", message.size);
    return ROTA_OK;
}

enum rota_code rota_http2_start(struct rota_http2 *session, struct rota_http2_call *call,
                                rota_time timeout)
{
    assert(!call->session && !session->options.is_server);
    if (!rota_http2_is_open(session))
        return ROTA_ERR_UNAVAILABLE;
    call->timeout_size = 0;
    if (timeout != ROTA_TIME_NEVER)
        call->timeout_size = rota_grpc_timeout_format(timeout, call->timeout);
    call->out_at = 0;
    call->decoder.max = session->options.message_max;
    bool must_wait = session->queue.first || session->n_open >= peer_limit(session);
    if (must_wait && session->n_queued >= session->options.queue_max)
        return ROTA_ERR_LIMIT;
    call->session = session;
    if (must_wait) {
        call->is_queued = true;
        session->n_queued++;
        push(&session->queue, call);
        return ROTA_OK;
    }
    if (submit(call))
        return ROTA_OK;
    call->session = NULL;
    return ROTA_ERR_UNAVAILABLE;
}

void rota_http2_cancel(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (!session)
        return;
    call->is_ended = true;
    if (session->options.is_server)
        call->is_finished = true;
    if (call->is_queued) {
        release(call);
    } else if (call->is_closed) {
        if (!call->is_delivering)
            release(call);
    } else if (session->h2) {
        nghttp2_submit_rst_stream(session->h2, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
        count_out(session, 1, 0);
    }
}

bool rota_http2_may_be_sent(const struct rota_http2_call *call)
{
    return call->is_started && !call->is_not_sent;
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
    account_in(call);
    if (session->h2 && !call->is_closed) {
        nghttp2_session_consume_stream(session->h2, call->stream, size);
        count_out(session, 1, 0);
    }
    if (call->is_paused)
        return;
    if (call->is_heard || call->is_closed)
        conclude(call, !call->is_heard, call->close_code);
    if (call->is_closed)
        release(call);
}

enum rota_code rota_http2_reply_head(struct rota_http2_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error)
{
    if (!call->session || call->is_finished)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the call has ended");
    if (call->is_replying || call->sent.places.size > 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "the reply's head is there already");
    enum rota_code code = rota_grpc_fields_add_metadata(&call->sent, metadata, n, error);
    if (code)
        rota_grpc_fields_clear(&call->sent);
    call->n_sent_head = call->sent.places.size;
    return code;
}

static void begin_reply(struct nvs *nvs, struct rota_http2_call *call)
{
    nvs->n = 0;
    NV_CONST(nvs, ":status", "200");
    NV_CONST(nvs, "content-type", "application/grpc");
    nv_sent(nvs, call, 0, call->n_sent_head, 0);
}

/* Bytes that are sent leave the front before they are most of the buffer. */
static void compact(struct rota_http2_call *call)
{
    if (call->out_at < ROTA_HTTP2_CALL_KEPT_MAX || call->out_at < call->out.size / 2)
        return;
    call->out.size -= call->out_at;
    memmove(call->out.data, call->out.data + call->out_at, call->out.size);
    call->out_at = 0;
}

enum rota_code rota_http2_send(struct rota_http2_call *call, struct rota_str message)
{
    struct rota_http2 *session = call->session;
    if (!session || !session->h2 || call->is_finished)
        return ROTA_ERR_UNAVAILABLE;
    size_t waiting = call->out.size - call->out_at, before = call->out.size;
    if (session->out_size + message.size > ROTA_HTTP2_OUT_MAX ||
        (waiting > 0 && waiting + message.size > ROTA_HTTP2_STREAM_OUT_MAX)) {
        if (!call->wants_room) {
            call->wants_room = true;
            call->next_with_room = session->with_room;
            session->with_room = call;
        }
        return ROTA_ERR_LIMIT;
    }
    if (!frame_out(call, message)) {
        call->out.size = before;
        call->out.failed = false;
        return ROTA_ERR_NO_MEMORY;
    }
    session->out_size += call->out.size - before;
    count_out(session, 1, call->out.size - before);
    compact(call);
    if (!call->is_replying) {
        nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_out};
        struct nvs nvs;
        begin_reply(&nvs, call);
        call->is_replying = true;
        nghttp2_submit_response(session->h2, call->stream, nvs.items, nvs.n, &provider);
    } else if (call->is_deferred) {
        call->is_deferred = false;
        nghttp2_session_resume_data(session->h2, call->stream);
    }
    return ROTA_OK;
}

void rota_http2_finish(struct rota_http2_call *call, enum rota_status status, struct rota_str text,
                       const struct rota_metadata *metadata, size_t n_metadata)
{
    struct rota_http2 *session = call->session;
    if (!session || !session->h2 || call->is_finished)
        return;
    call->is_finished = call->is_ended = true;
    call->status = status;
    count_out(session, 1, 0);
    if (text.size > 0) {
        struct rota_buffer escaped = {0};
        rota_grpc_percent_encode(&escaped, text);
        rota_grpc_fields_add(&call->sent, rota_str("grpc-message"), rota_buffer_str(&escaped));
        rota_buffer_deinit(&escaped);
    }
    if (n_metadata > 0)
        rota_grpc_fields_add_metadata(&call->sent, metadata, n_metadata, NULL);
    shrink(&call->decoder.message); /* a slow client holds its reply, not its request too */
    account_in(call);
    if (call->is_replying) {
        if (call->is_deferred) {
            call->is_deferred = false;
            nghttp2_session_resume_data(session->h2, call->stream);
        }
        return;
    }
    struct nvs nvs;
    begin_reply(&nvs, call);
    nv_status(&nvs, call);
    call->is_replying = true;
    nghttp2_submit_response(session->h2, call->stream, nvs.items, nvs.n, NULL);
}
