#include "wire/http2/gzip.h"
#include "wire/http2/http2_inside.h"

#include <assert.h>
#include <stdio.h>

/* A call over its bounds: refused by a server, given up by a client. */
static void refuse_call(struct rota_http2_call *call, enum rota_status status, const char *text)
{
    if (call->session->options.is_server) {
        rota_http2_finish(call, status, rota_str(text), NULL, 0);
        if (call->is_streaming) { /* its owner has it already */
            call->is_ended = false;
            rota_http2_call_end_text(call, status, text, false);
        }
        return;
    }
    rota_http2_call_end_text(call, status, text, false);
    rota_http2_write_drop(call, ROTA_HTTP2_CANCEL);
    rota_http2_count_out(call->session, 1, 0);
}

/* --- messages --- */

enum { FOUND_TEXT_MAX = 100 };

static const char *found_text(enum rota_grpc_found found, size_t max, char room[FOUND_TEXT_MAX])
{
    switch (found) {
    case ROTA_GRPC_MORE:
    case ROTA_GRPC_MESSAGE:
        return "";
    case ROTA_GRPC_TOO_LARGE:
        snprintf(room, FOUND_TEXT_MAX,
                 "the message is larger than the %zu bytes that the receiver allows", max);
        return room;
    case ROTA_GRPC_COMPRESSED:
        return "the receiver does not accept this compression; see grpc-accept-encoding";
    case ROTA_GRPC_MALFORMED:
        return "the message has an unknown flag";
    case ROTA_GRPC_NO_MEMORY:
        return "the receiver does not have enough memory for the message";
    }
    return "";
}

/* Put the message in place of the packed one. False: it is refused. */
static bool unpack_message(struct rota_http2_call *call)
{
    struct rota_buffer plain = {0};
    char room[FOUND_TEXT_MAX];
    enum rota_grpc_found found = ROTA_GRPC_NO_MEMORY;
    switch (rota_gzip_unpack(rota_buffer_str(&call->decoder.message), call->decoder.max, &plain)) {
    case ROTA_GZIP_WHOLE:
        rota_buffer_deinit(&call->decoder.message);
        call->decoder.message = plain;
        return true;
    case ROTA_GZIP_DAMAGED:
        rota_buffer_deinit(&plain);
        refuse_call(call, ROTA_STATUS_INTERNAL, "the message is not valid gzip");
        return false;
    case ROTA_GZIP_TOO_LARGE:
        found = ROTA_GRPC_TOO_LARGE;
        break;
    case ROTA_GZIP_NO_MEMORY:
        break;
    }
    rota_buffer_deinit(&plain);
    refuse_call(call, rota_grpc_found_status(found, call->head.encoding),
                found_text(found, call->decoder.max, room));
    return false;
}

/* Decode, and deliver complete messages. What is left when the owner pauses stays in `*bytes`. */
static void take_body(struct rota_http2_call *call, struct rota_str *bytes)
{
    struct rota_http2 *session = call->session;
    while (bytes->size > 0 && !call->is_ended && !call->is_paused) {
        if (!call->is_streaming && call->n_messages > 0) {
            refuse_call(call, ROTA_STATUS_INTERNAL, "more than one message where one is expected");
            return;
        }
        enum rota_grpc_found found = rota_grpc_decoder_next(&call->decoder, bytes);
        if (found == ROTA_GRPC_MORE)
            break;
        if (found != ROTA_GRPC_MESSAGE) {
            char room[FOUND_TEXT_MAX];
            refuse_call(call, rota_grpc_found_status(found, call->head.encoding),
                        found_text(found, call->decoder.max, room));
            return;
        }
        if (call->decoder.is_compressed && !unpack_message(call))
            return;
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

/* The owner took this many bytes of the call: the peer may send more. */
static void consume_bytes(struct rota_http2_call *call, size_t size)
{
    call->in_taken += (uint32_t)size;
    if (call->in_taken < ROTA_HTTP2_STREAM_WINDOW / 2 || call->is_heard || call->is_dropped)
        return;
    rota_http2_write_window(call->session, call->stream, call->in_taken);
    call->in_window -= call->in_taken;
    call->in_taken = 0;
}

/* The connection's window is for all calls, so one that is paused does not hold
 * back the others; its own window does that. */
static void consume_connection(struct rota_http2 *session, uint32_t size)
{
    session->in_window += size;
    if (session->in_window < ROTA_HTTP2_CONNECTION_WINDOW / 2)
        return;
    rota_http2_write_window(session, 0, session->in_window);
    session->in_window = 0;
}

void rota_http2_hear_data(struct rota_http2 *session, const struct rota_http2_frame *frame,
                          uint32_t padding)
{
    struct rota_http2_call *call = rota_http2_call_find(session, frame->stream);
    session->data_call = NULL;
    session->has_heard_call = true;
    consume_connection(session, frame->size);
    if (!call) {
        if (!rota_http2_hear_was_opened(session, frame->stream))
            rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_PROTOCOL_ERROR);
        return; /* closed by now */
    }
    if (call->is_dropped)
        return;
    call->in_window += frame->size;
    call->body_size += frame->size - padding;
    if (call->is_heard)
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_STREAM_CLOSED);
    else if (call->in_window > ROTA_HTTP2_STREAM_WINDOW)
        rota_http2_write_drop(call, ROTA_HTTP2_FLOW_CONTROL_ERROR);
    else if (!session->options.is_server && !call->has_reply && !call->is_ended)
        rota_http2_write_drop(call, ROTA_HTTP2_PROTOCOL_ERROR);
    else
        session->data_call = call;
    if (padding > 0 && session->data_call)
        consume_bytes(call, padding);
}

void rota_http2_hear_bytes(struct rota_http2 *session, struct rota_str bytes)
{
    struct rota_http2_call *call = session->data_call;
    size_t size = bytes.size;
    if (!call || call->is_dropped)
        return;
    if (!call->is_ended && !call->is_finished) {
        if (!call->is_paused)
            take_body(call, &bytes);
        if (bytes.size > 0) {
            rota_buffer_append_str(&call->held, bytes);
            size -= bytes.size; /* consumed when it is delivered */
        }
        rota_http2_call_account_in(call);
        if (call->held.failed || session->in_size > ROTA_HTTP2_IN_MAX)
            refuse_call(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                        "too many bytes of messages are held for this connection");
        else if (!rota_http2_call_may_hold(session, 0))
            refuse_call(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                        "too many bytes of messages are held for all connections; try again later");
    }
    consume_bytes(call, size);
}

/* The whole reply is delivered. A server need not read the whole request. */
static void conclude_call(struct rota_http2_call *call, bool is_reset, uint32_t code)
{
    rota_http2_call_conclude(call, is_reset, code);
    if (call->out_at < call->out.size)
        rota_http2_write_drop(call, ROTA_HTTP2_NO_ERROR);
}

void rota_http2_pause(struct rota_http2_call *call)
{
    if (call->is_streaming && !call->is_ended)
        call->is_paused = true;
}

void rota_http2_resume(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (!call->is_paused)
        return;
    call->is_paused = false;
    if (!session || call->is_delivering || call->is_ended)
        return; /* nothing has arrived yet, or the delivering function continues */
    struct rota_str bytes = rota_buffer_str(&call->held);
    size_t size = bytes.size;
    take_body(call, &bytes);
    size -= bytes.size;
    if (bytes.size > 0)
        memmove(call->held.data, bytes.data, bytes.size);
    call->held.size = bytes.size;
    rota_http2_call_account_in(call);
    if (!session->is_freed && !call->is_closed) {
        consume_bytes(call, size);
        rota_http2_count_out(session, 1, 0);
    }
    if (call->is_paused && !call->is_ended)
        return;
    if (call->is_heard || call->is_closed)
        conclude_call(call, !call->is_heard, call->close_code);
    if (call->is_closed)
        rota_http2_call_release(call);
}

/* --- too much of something --- */

/* Take one from a bucket of `burst`, filled again at a steady rate. False when
 * none was left. */
static bool spend_token(double *tokens, rota_time *refilled_at, rota_time now, double burst,
                        double per_sec)
{
    *tokens += (double)(now - *refilled_at) / (double)ROTA_SEC * per_sec;
    *refilled_at = now;
    if (*tokens > burst)
        *tokens = burst;
    *tokens -= 1;
    return *tokens >= 0;
}

/* A call was cancelled, which costs the peer less than us. Calls are counted over time, not
 * those open at once, which cancelling keeps low. */
void rota_http2_hear_spend_reset(struct rota_http2 *session)
{
    if (!spend_token(&session->reset_tokens, &session->refilled_at, session->now,
                     ROTA_HTTP2_RESETS_BURST, ROTA_HTTP2_RESETS_PER_SEC))
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_RESETS, ROTA_HTTP2_ENHANCE_YOUR_CALM);
}

/* By their purpose and not by time: an honest peer sends a few of them for each call, and widens
 * windows for what it received. */
void rota_http2_hear_spend_trifles(struct rota_http2 *session, unsigned n)
{
    session->n_trifles += n;
    if (session->n_trifles > ROTA_HTTP2_TRIFLES_MAX + session->n_uses * ROTA_HTTP2_TRIFLES_PER_USE)
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_FLOOD, ROTA_HTTP2_ENHANCE_YOUR_CALM);
}

/* New settings have to be acknowledged, and may concern every call. */
void rota_http2_hear_settings(struct rota_http2 *session)
{
    if (!session->options.is_server)
        rota_http2_send_start_queued(session);
    else if (!spend_token(&session->settings_tokens, &session->settings_refilled_at, session->now,
                          ROTA_HTTP2_SETTINGS_BURST, ROTA_HTTP2_SETTINGS_PER_SEC))
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_SETTINGS, ROTA_HTTP2_ENHANCE_YOUR_CALM);
}

void rota_http2_hear_ping(struct rota_http2 *session)
{
    if (!session->options.is_server)
        return;
    bool is_soon = session->now - session->peer_pinged_at < ROTA_HTTP2_PING_INTERVAL_MIN;
    if (session->has_heard_call || !is_soon)
        session->n_strikes = 0;
    else
        session->n_strikes++;
    session->peer_pinged_at = session->now;
    session->has_heard_call = false;
    if (session->n_strikes > ROTA_HTTP2_PING_STRIKES_MAX) {
        session->fault = ROTA_HTTP2_FAULT_PINGS;
        rota_http2_write_goaway(session, session->peer_stream, ROTA_HTTP2_ENHANCE_YOUR_CALM,
                                rota_str("too_many_pings"));
    }
}

void rota_http2_hear_ping_ack(struct rota_http2 *session)
{
    if (!session->is_draining || session->is_final || !session->options.is_server)
        return;
    session->is_final = true;
    rota_http2_write_goaway(session, session->peer_stream, ROTA_HTTP2_NO_ERROR, rota_str(""));
}

/* --- header fields --- */

static void on_field(void *data, struct rota_str name, struct rota_str value, uint8_t *note)
{
    struct rota_http2_call *call = data;
    if (!call)
        return; /* without a call: only the table must know it */
    /* What a field is does not change while the table has it. */
    uint8_t kind = note ? *note : 0;
    if (kind == 0)
        kind = (uint8_t)rota_grpc_field_kind(name, value);
    if (note)
        *note = kind;
    rota_grpc_head_add(&call->head, (enum rota_grpc_kind)kind, name, value);
}

static bool read_fields(struct rota_http2 *session, struct rota_http2_call *call,
                        struct rota_str block)
{
    switch (rota_hpack_decode(&session->decoder, block, on_field, call)) {
    case ROTA_OK:
        return true;
    case ROTA_ERR_NO_MEMORY:
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_NO_MEMORY, ROTA_HTTP2_INTERNAL_ERROR);
        return false;
    case ROTA_ERR_INVALID:
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_NOT_FOUND:
    case ROTA_ERR_UNAVAILABLE:
    case ROTA_ERR_IO:
    case ROTA_ERR_UNKNOWN:
    case ROTA_ERR_STALE:
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_COMPRESSION_ERROR);
        return false;
    }
    return false;
}

/* The first part of the headers, which is most often the same as the last one. */
static bool read_first(struct rota_http2_call *call, struct rota_str block)
{
    enum { KEPT_MAX = 1024 };
    struct rota_http2 *session = call->session;
    struct rota_http2_memo *memo = &session->head_memo;
    const struct rota_hpack_table *table = &session->decoder.table;
    uint32_t before = table->n_added;
    if (rota_http2_memo_is_good(memo, table) &&
        rota_str_is_equal(block, rota_str_of(memo->bytes, memo->size))) {
        if (!rota_grpc_head_copy(&call->head, &session->head))
            rota_http2_read_fail(session, ROTA_HTTP2_FAULT_NO_MEMORY, ROTA_HTTP2_INTERNAL_ERROR);
        return !session->fault;
    }
    if (!read_fields(session, call, block))
        return false;
    /* A block that also sets the table's size does more than name fields. */
    bool is_plain = block.size > 0 && ((unsigned char)block.data[0] & 0xe0) != 0x20;
    memo->size = 0;
    if (is_plain)
        rota_http2_memo_set(memo, table, before, block);
    if (memo->size > 0) {
        rota_grpc_head_clear(&session->head);
        if (call->head.size > KEPT_MAX || !rota_grpc_head_copy(&session->head, &call->head))
            memo->size = 0;
    }
    return true;
}

static void heard_request_head(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    const struct rota_grpc_head *head = &call->head;
    if (head->is_too_large) {
        rota_http2_hear_spend_trifles(session, ROTA_HTTP2_LARGE_HEAD_COST);
        refuse_call(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "the request has too many header fields");
    } else if (!head->is_post || !head->is_grpc)
        rota_http2_send_answer_http(call);
    else if (!head->has_te)
        refuse_call(call, ROTA_STATUS_INTERNAL,
                    "the request lacks te: trailers; did a proxy remove it?");
    else if (head->is_bad_timeout)
        refuse_call(call, ROTA_STATUS_INTERNAL, "the request's grpc-timeout is malformed");
    else {
        call->decoder.takes_compressed = head->encoding == ROTA_GRPC_GZIP;
        session->handler.on_head(session->handler.data, call);
    }
}

/* The peer has ended its side of the call. */
static void heard_all(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    const struct rota_grpc_head *head = &call->head;
    bool has_no_body = head->http_status == 204 || head->http_status == 304;
    if (!call->is_ended && head->content_length >= 0 && head->content_length != call->body_size &&
        !has_no_body) {
        rota_http2_write_drop(call, ROTA_HTTP2_PROTOCOL_ERROR);
        return;
    }
    call->is_heard = true;
    if (session->options.is_server) {
        if (call->is_finished)
            return;
        if (!rota_http2_call_is_whole(call)) {
            refuse_call(call, ROTA_STATUS_INTERNAL, "the request has no complete message");
            return;
        }
        session->handler.on_request(session->handler.data, call);
        return;
    }
    if (!call->is_ended && call->held.size == 0 && !call->is_paused)
        conclude_call(call, false,
                      ROTA_HTTP2_NO_ERROR); /* else its owner receives the rest first */
    if (call->is_all_out && !call->is_dropped)
        rota_http2_call_close(call, ROTA_HTTP2_NO_ERROR);
}

void rota_http2_hear_data_end(struct rota_http2 *session)
{
    struct rota_http2_call *call = session->data_call;
    session->data_call = NULL;
    if (call && session->data_ends && !call->is_dropped)
        heard_all(call);
}

bool rota_http2_hear_was_opened(const struct rota_http2 *session, int32_t stream)
{
    if (stream % 2 == 0)
        return false; /* a server's, and ours opens none */
    return session->options.is_server ? stream <= session->peer_stream
                                      : stream < session->next_stream || session->next_stream < 0;
}

/* A client begins a call. NULL: it is rejected, or too late. */
static struct rota_http2_call *accept_call(struct rota_http2 *session, int32_t stream)
{
    session->peer_stream = stream;
    if (session->is_final)
        return NULL; /* it was notified */
    struct rota_http2_call *call = NULL;
    if (session->n_open < session->options.streams_max)
        call = session->handler.on_accept(session->handler.data);
    if (!call) {
        rota_http2_write_reset(session, stream, ROTA_HTTP2_REFUSED_STREAM);
        return NULL;
    }
    call->session = session;
    call->decoder.max = session->options.message_max;
    rota_list_push(&session->calls, &call->link);
    session->n_open++;
    if (!rota_http2_call_open(call, stream)) {
        rota_http2_write_reset(session, stream, ROTA_HTTP2_REFUSED_STREAM);
        rota_http2_call_close(call, ROTA_HTTP2_REFUSED_STREAM);
        return NULL;
    }
    return call;
}

/* A part of the headers has arrived, and is valid. */
static void heard_head(struct rota_http2_call *call)
{
    if (call->head.part == ROTA_GRPC_REQUEST)
        heard_request_head(call);
    else if (call->head.is_too_large)
        refuse_call(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "the peer sends too many header fields");
}

static void hear_part(struct rota_http2_call *call, enum rota_grpc_part part, bool is_last,
                      struct rota_str block)
{
    struct rota_http2 *session = call->session;
    struct rota_grpc_head *head = &call->head;
    rota_grpc_head_begin(head, part);
    bool is_read =
        part == ROTA_GRPC_TRAILERS ? read_fields(session, call, block) : read_first(call, block);
    if (!is_read)
        return;
    bool is_interim = part == ROTA_GRPC_REPLY && head->http_status < 200 && !head->is_too_large;
    if (!rota_grpc_head_end(head) || (is_last ? is_interim : part == ROTA_GRPC_TRAILERS)) {
        rota_http2_write_drop(call, ROTA_HTTP2_PROTOCOL_ERROR);
        if (!session->options.is_server)
            rota_grpc_head_clear(head); /* nothing of it is used */
        return;
    }
    if (is_interim) {
        rota_grpc_head_clear(head); /* the reply itself is still to come */
        return;
    }
    call->has_reply = true;
    heard_head(call);
}

void rota_http2_hear_fields(struct rota_http2 *session, const struct rota_http2_frame *frame,
                            struct rota_str block)
{
    struct rota_http2_call *call = rota_http2_call_find(session, frame->stream);
    bool is_server = session->options.is_server, is_last = frame->flags & ROTA_FLAG_END_STREAM;
    enum rota_grpc_part part = is_server ? ROTA_GRPC_REQUEST : ROTA_GRPC_REPLY;
    session->has_heard_call = true;
    if (call) {
        if (call->is_heard && !call->is_dropped) {
            rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_STREAM_CLOSED);
            return;
        }
        if (is_server || call->has_reply)
            part = ROTA_GRPC_TRAILERS;
    } else if (!rota_http2_hear_was_opened(session, frame->stream)) {
        if (!is_server || frame->stream % 2 == 0) {
            rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_PROTOCOL_ERROR);
            return;
        }
        call = accept_call(session, frame->stream);
    }
    if (!call || call->is_dropped || call->is_ended)
        read_fields(session, NULL, block);
    else
        hear_part(call, part, is_last, block);
    if (call && is_last && !call->is_dropped && !session->fault)
        heard_all(call);
}

/* --- the end of calls --- */

void rota_http2_hear_reset(struct rota_http2 *session, int32_t stream, uint32_t code)
{
    struct rota_http2_call *call = rota_http2_call_find(session, stream);
    if (session->options.is_server)
        rota_http2_hear_spend_reset(session);
    if (call)
        rota_http2_call_close(call, code);
}

/* Calls that the server has not seen end, unsent. An owner may do anything to other calls
 * meanwhile: start over after each one. */
static void close_unseen(struct rota_http2 *session, int32_t last_stream)
{
    struct rota_list_node *link = session->calls.next;
    while (link != &session->calls) {
        struct rota_http2_call *call = ROTA_LIST_ITEM(link, struct rota_http2_call, link);
        bool is_unseen = call->stream == 0 || call->stream > last_stream;
        if (!is_unseen || call->is_closed) {
            link = link->next;
            continue;
        }
        call->is_not_sent = call->stream == 0;
        rota_http2_call_close(call, ROTA_HTTP2_REFUSED_STREAM);
        link = session->calls.next;
    }
}

void rota_http2_hear_goaway(struct rota_http2 *session, int32_t last_stream, uint32_t code)
{
    bool was_open = !session->is_goaway;
    session->is_goaway = true;
    if (session->options.is_server)
        return;
    if (was_open && session->handler.on_goaway)
        session->handler.on_goaway(session->handler.data, code != ROTA_HTTP2_ENHANCE_YOUR_CALM);
    rota_http2_send_fail_queued(session);
    close_unseen(session, last_stream);
}
