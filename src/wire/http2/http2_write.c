#include "wire/http2/http2_inside.h"

#include <assert.h>

/* --- which call comes next --- */

void rota_http2_write_wake(struct rota_http2_call *call)
{
    if (!call->writing.next)
        rota_list_push(&call->session->ready, &call->writing);
}

void rota_http2_write_sleep(struct rota_http2_call *call)
{
    rota_list_remove(&call->writing);
}

void rota_http2_write_drop(struct rota_http2_call *call, enum rota_http2_error code)
{
    if (call->is_dropped || call->is_closed)
        return;
    call->is_dropped = true;
    call->close_code = code;
    rota_http2_write_sleep(call);
    rota_http2_write_wake(call);
}

/* --- frames --- */

static char *put32(char *to, uint32_t n)
{
    to[0] = (char)(n >> 24);
    to[1] = (char)(n >> 16);
    to[2] = (char)(n >> 8);
    to[3] = (char)n;
    return to + 4;
}

/* Append the head of a frame and room for its payload, which is returned; NULL when there is no
 * memory. */
static char *put_frame(struct rota_buffer *out, size_t size, uint8_t type, uint8_t flags,
                       int32_t stream)
{
    char *to = rota_buffer_extend(out, ROTA_HTTP2_FRAME_HEAD + size);
    if (!to)
        return NULL;
    put32(to, (uint32_t)size << 8 | type);
    to[4] = (char)flags;
    return put32(to + 5, (uint32_t)stream);
}

static char *put_control(struct rota_http2 *session, size_t size, uint8_t type, uint8_t flags,
                         int32_t stream)
{
    session->n_control++;
    return put_frame(&session->control, size, type, flags, stream);
}

void rota_http2_write_settings(struct rota_http2 *session)
{
    bool is_server = session->options.is_server;
    const struct setting {
        unsigned id;
        uint32_t value;
    } settings[] = {
        {ROTA_SETTING_INITIAL_WINDOW_SIZE, ROTA_HTTP2_STREAM_WINDOW},
        {ROTA_SETTING_MAX_HEADER_LIST_SIZE, ROTA_GRPC_HEAD_SIZE_MAX},
        {ROTA_SETTING_MAX_FRAME_SIZE, ROTA_HTTP2_FRAME_MAX},
        {ROTA_SETTING_NO_RFC7540_PRIORITIES, 1},
        {ROTA_SETTING_MAX_CONCURRENT_STREAMS, is_server ? session->options.streams_max : 0},
        {ROTA_SETTING_ENABLE_PUSH, 0}, /* a client's word, and the last */
    };
    size_t n = sizeof settings / sizeof *settings - is_server;
    if (!is_server)
        rota_buffer_append_text(&session->control, ROTA_HTTP2_MAGIC);
    char *to = put_control(session, 6 * n, ROTA_FRAME_SETTINGS, 0, 0);
    for (size_t i = 0; to && i < n; i++) {
        *to++ = (char)(settings[i].id >> 8);
        *to++ = (char)settings[i].id;
        to = put32(to, settings[i].value);
    }
    rota_http2_write_window(session, 0, ROTA_HTTP2_CONNECTION_WINDOW - ROTA_HTTP2_WINDOW_FIRST);
}

void rota_http2_write_settings_ack(struct rota_http2 *session)
{
    session->n_acks++;
    put_control(session, 0, ROTA_FRAME_SETTINGS, ROTA_FLAG_ACK, 0);
}

void rota_http2_write_ping(struct rota_http2 *session, const char payload[8], bool is_ack)
{
    session->n_acks += is_ack;
    char *to = put_control(session, 8, ROTA_FRAME_PING, is_ack ? ROTA_FLAG_ACK : 0, 0);
    if (to)
        memcpy(to, payload, 8);
}

void rota_http2_write_goaway(struct rota_http2 *session, int32_t last_stream,
                             enum rota_http2_error code, struct rota_str text)
{
    if (last_stream < session->goaway_stream)
        session->goaway_stream = last_stream; /* it never grows */
    char *to = put_control(session, 8 + text.size, ROTA_FRAME_GOAWAY, 0, 0);
    if (!to)
        return;
    to = put32(put32(to, (uint32_t)session->goaway_stream), (uint32_t)code);
    memcpy(to, text.data, text.size);
}

void rota_http2_write_window(struct rota_http2 *session, int32_t stream, uint32_t size)
{
    char *to = put_control(session, 4, ROTA_FRAME_WINDOW_UPDATE, 0, stream);
    if (to)
        put32(to, size);
}

/* A peer can make us reset its calls by breaking a rule in each: the same attack as resetting
 * them itself, in the other direction. */
static void count_reset(struct rota_http2 *session, enum rota_http2_error code)
{
    if (session->options.is_server && code != ROTA_HTTP2_NO_ERROR && code != ROTA_HTTP2_CANCEL)
        rota_http2_hear_spend_reset(session);
}

static void put_reset(struct rota_buffer *out, int32_t stream, enum rota_http2_error code)
{
    char *to = put_frame(out, 4, ROTA_FRAME_RST_STREAM, 0, stream);
    if (to)
        put32(to, (uint32_t)code);
}

void rota_http2_write_reset(struct rota_http2 *session, int32_t stream, enum rota_http2_error code)
{
    session->n_control++;
    put_reset(&session->control, stream, code);
    count_reset(session, code);
}

/* --- header fields --- */

#define STR(text) ((struct rota_str){"" text, sizeof(text) - 1})

static void put_field(struct rota_http2 *session, enum rota_hpack_static known,
                      struct rota_str name, struct rota_str value)
{
    rota_hpack_put(&session->encoder, &session->fields, known, name, value, true);
}

/* The pairs of `sent` from one number to another. */
static void put_sent(struct rota_http2_call *call, size_t from, size_t to)
{
    struct rota_http2 *session = call->session;
    if (call->sent.places.size == 0)
        return;
    size_t n;
    const struct rota_metadata *pairs = rota_grpc_head_fields_pairs(&call->sent, &n);
    for (size_t i = from; i < n && i < to; i++) {
        /* Binary values are ids and the like: they would only push others out
         * of the peer's table. */
        rota_hpack_put(&session->encoder, &session->fields, ROTA_HPACK_NONE, pairs[i].name,
                       pairs[i].value, !rota_grpc_name_is_binary(pairs[i].name));
    }
}

static void put_request(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    struct rota_buffer *fields = &session->fields;
    rota_hpack_put_static(fields, ROTA_HPACK_METHOD_POST);
    rota_hpack_put_static(fields, session->options.is_tls ? ROTA_HPACK_SCHEME_HTTPS
                                                          : ROTA_HPACK_SCHEME_HTTP);
    put_field(session, ROTA_HPACK_PATH, STR(":path"), rota_buffer_str(&call->path));
    put_field(session, ROTA_HPACK_AUTHORITY, STR(":authority"),
              rota_str(session->options.authority));
    put_field(session, ROTA_HPACK_NONE, STR("te"), STR("trailers"));
    put_field(session, ROTA_HPACK_CONTENT_TYPE, STR("content-type"), STR("application/grpc"));
    put_field(session, ROTA_HPACK_USER_AGENT, STR("user-agent"), STR("rota"));
    if (call->timeout_size > 0)
        put_field(session, ROTA_HPACK_NONE, STR("grpc-timeout"),
                  rota_str_of(call->timeout, call->timeout_size));
    put_sent(call, 0, SIZE_MAX);
}

static void put_status(struct rota_http2_call *call)
{
    unsigned status = (unsigned)call->status % 100;
    char text[2];
    size_t size = 0;
    if (status >= 10)
        text[size++] = (char)('0' + status / 10);
    text[size++] = (char)('0' + status % 10);
    put_field(call->session, ROTA_HPACK_NONE, STR("grpc-status"), rota_str_of(text, size));
    put_sent(call, call->n_sent_head, SIZE_MAX);
}

static void put_reply(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (call->is_http) {
        put_field(session, ROTA_HPACK_STATUS_200, STR(":status"), STR("415"));
        put_field(session, ROTA_HPACK_CONTENT_LENGTH, STR("content-length"), STR("0"));
        return;
    }
    rota_hpack_put_static(&session->fields, ROTA_HPACK_STATUS_200);
    put_field(session, ROTA_HPACK_CONTENT_TYPE, STR("content-type"), STR("application/grpc"));
    put_field(session, ROTA_HPACK_NONE, STR("grpc-accept-encoding"), STR(ROTA_GRPC_ENCODINGS));
    if (rota_http2_packs(call))
        put_field(session, ROTA_HPACK_NONE, STR("grpc-encoding"), STR("gzip"));
    put_sent(call, 0, call->n_sent_head);
}

static void begin_fields(struct rota_http2 *session)
{
    rota_buffer_clear(&session->fields);
    rota_hpack_begin(&session->encoder, &session->fields);
}

/* Put the fields of the memo, if they are still valid, or those of `put`, and store them. */
static void put_or_recall(struct rota_http2_call *call, struct rota_http2_memo *memo,
                          void (*put)(struct rota_http2_call *call))
{
    struct rota_http2 *session = call->session;
    const struct rota_hpack_table *table = &session->encoder.table;
    struct rota_buffer *fields = &session->fields;
    uint32_t before = table->n_added;
    size_t at = fields->size;
    if (rota_http2_memo_is_good(memo, table)) {
        rota_buffer_append(fields, memo->bytes, memo->size);
        return;
    }
    put(call);
    if (!fields->failed)
        rota_http2_memo_set(memo, table, before, rota_str_of(fields->data + at, fields->size - at));
}

static void put_request_like_last(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    struct rota_str path = rota_buffer_str(&call->path);
    struct rota_str timeout = rota_str_of(call->timeout, call->timeout_size);
    if (call->sent.places.size > 0) {
        put_request(call);
        return;
    }
    if (!rota_str_is_equal(path, rota_buffer_str(&session->last_path)) ||
        !rota_str_is_equal(timeout,
                           rota_str_of(session->last_timeout, session->last_timeout_size))) {
        session->request_memo.size = 0;
        rota_buffer_clear(&session->last_path);
        rota_buffer_append_str(&session->last_path, path);
        session->last_timeout_size = timeout.size;
        memcpy(session->last_timeout, timeout.data, timeout.size);
    }
    put_or_recall(call, &session->request_memo, put_request);
}

static void put_reply_like_last(struct rota_http2_call *call)
{
    if (call->is_http || call->n_sent_head > 0 || rota_http2_packs(call))
        put_reply(call);
    else
        put_or_recall(call, &call->session->reply_memo, put_reply);
}

static void put_status_like_last(struct rota_http2_call *call)
{
    if (call->status != ROTA_STATUS_OK || call->sent.places.size > call->n_sent_head)
        put_status(call);
    else
        put_or_recall(call, &call->session->trailers_memo, put_status);
}

/* Write the fields that were put, in as many frames as it takes. */
static void write_fields(struct rota_http2_call *call, struct rota_buffer *out, uint8_t flags)
{
    struct rota_http2 *session = call->session;
    struct rota_str left = rota_buffer_str(&session->fields);
    uint8_t type = ROTA_FRAME_HEADERS;
    if (session->fields.failed)
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_NO_MEMORY, ROTA_HTTP2_INTERNAL_ERROR);
    do {
        size_t size = left.size < ROTA_HTTP2_FRAME_MAX ? left.size : ROTA_HTTP2_FRAME_MAX;
        if (size == left.size)
            flags |= ROTA_FLAG_END_HEADERS;
        char *to = put_frame(out, size, type, flags, call->stream);
        if (to)
            memcpy(to, left.data, size);
        left.data += size;
        left.size -= size;
        type = ROTA_FRAME_CONTINUATION;
        flags = 0;
    } while (left.size > 0);
}

/* --- frames of a call --- */

/* Its stream is reset, and closed. One that was never opened need not be. */
static void write_drop(struct rota_http2_call *call, struct rota_buffer *out)
{
    struct rota_http2 *session = call->session;
    enum rota_http2_error code = (enum rota_http2_error)call->close_code;
    if (call->stream != 0) {
        put_reset(out, call->stream, code);
        count_reset(session, code);
    }
    rota_http2_call_close(call, code);
}

/* One frame of its messages. False when none can be sent now; it is asleep then. */
static bool write_data(struct rota_http2_call *call, struct rota_buffer *out)
{
    struct rota_http2 *session = call->session;
    size_t n = call->out.size - call->out_at;
    int64_t window = call->out_window;
    if (window > session->out_window)
        window = session->out_window;
    if (window <= 0) {
        rota_http2_write_sleep(call);
        if (call->out_window > 0)
            rota_list_push(&session->blocked, &call->writing);
        return false;
    }
    if (n > ROTA_HTTP2_FRAME_MAX)
        n = ROTA_HTTP2_FRAME_MAX;
    if (n > (size_t)window)
        n = (size_t)window;
    bool is_client = !session->options.is_server;
    bool is_last = is_client && call->out_at + n == call->out.size;
    char *to = put_frame(out, n, ROTA_FRAME_DATA, is_last ? ROTA_FLAG_END_STREAM : 0, call->stream);
    if (!to)
        return false;
    memcpy(to, call->out.data + call->out_at, n);
    call->out_at += n;
    session->n_uses++;
    call->out_window -= (int64_t)n;
    session->out_window -= (int64_t)n;
    if (is_client) {
        call->is_all_out = is_last;
        return true;
    }
    rota_http2_call_hold(session, &session->out_size, -(ptrdiff_t)n);
    session->was_busy = true;
    if (call->out_at == call->out.size) {
        rota_buffer_clear(&call->out);
        call->out_at = 0;
    }
    return true;
}

static bool begin_request(struct rota_http2_call *call, struct rota_buffer *out)
{
    struct rota_http2 *session = call->session;
    int32_t stream = session->next_stream;
    if (stream < 0 || !rota_http2_call_open(call, stream)) {
        call->is_not_sent = true;
        rota_http2_call_close(call, ROTA_HTTP2_REFUSED_STREAM);
        return false;
    }
    session->next_stream = stream > ROTA_HTTP2_STREAM_MAX - 2 ? -1 : stream + 2;
    begin_fields(session);
    put_request_like_last(call);
    write_fields(call, out, 0);
    call->is_head_out = true;
    return true;
}

static void write_request(struct rota_http2_call *call, struct rota_buffer *out)
{
    struct rota_http2 *session = call->session;
    if (!call->is_head_out && !begin_request(call, out))
        return;
    if (call->out_at < call->out.size && !write_data(call, out))
        return;
    rota_http2_write_sleep(call);
    if (!call->is_all_out)
        rota_list_push(&session->ready, &call->writing); /* after the others */
    else if (call->is_heard)
        rota_http2_call_close(call, ROTA_HTTP2_NO_ERROR);
}

/* The last frame of a reply; the rest of the request is not needed. */
static void end_reply(struct rota_http2_call *call, struct rota_buffer *out)
{
    write_fields(call, out, ROTA_FLAG_END_STREAM);
    call->is_head_out = call->is_all_out = true;
    if (!call->is_heard)
        put_reset(out, call->stream, ROTA_HTTP2_NO_ERROR);
    rota_http2_call_close(call, ROTA_HTTP2_NO_ERROR);
}

static void write_reply(struct rota_http2_call *call, struct rota_buffer *out)
{
    struct rota_http2 *session = call->session;
    bool has_data = call->out_at < call->out.size;
    if (!call->is_head_out) {
        begin_fields(session);
        put_reply_like_last(call);
        if (call->is_finished && !has_data) {
            if (!call->is_http)
                put_status_like_last(call);
            end_reply(call, out);
            return;
        }
        write_fields(call, out, 0);
        call->is_head_out = true;
    }
    if (has_data && !write_data(call, out))
        return;
    if (call->out_at < call->out.size) {
        rota_http2_write_sleep(call);
        rota_list_push(&session->ready, &call->writing); /* after the others */
    } else if (call->is_finished) {
        begin_fields(session);
        put_status_like_last(call);
        end_reply(call, out);
    } else {
        rota_http2_write_sleep(call);
    }
}

static void write_calls(struct rota_http2 *session, struct rota_buffer *out, size_t size_max)
{
    ROTA_LIST_DRAIN (call, &session->ready, struct rota_http2_call, writing) {
        if (out->size >= size_max || out->failed || session->fault)
            return;
        if (call->is_dropped)
            write_drop(call, out);
        else if (session->options.is_server)
            write_reply(call, out);
        else
            write_request(call, out);
    }
}

static void write_control(struct rota_http2 *session, struct rota_buffer *out)
{
    enum { KEPT_MAX = 1024 };
    rota_buffer_append_str(out, rota_buffer_str(&session->control));
    rota_buffer_clear(&session->control);
    if (session->control.capacity > KEPT_MAX)
        rota_buffer_deinit(&session->control);
    session->n_control = session->n_acks = 0;
}

/* --- pulling --- */

static bool has_room(const struct rota_http2_call *call)
{
    return call->out.size - call->out_at <= ROTA_HTTP2_STREAM_OUT_MAX / 2 &&
           call->session->out_size <= ROTA_HTTP2_OUT_MAX / 2;
}

/* A callback may send, finish or drop any call: start over after each one. Each call is notified
 * once in a round: it may be rejected again, for a message that is still too large or because of
 * other connections. */
static void tell_room(struct rota_http2 *session)
{
    struct rota_http2_call *call = session->with_room;
    session->n_room_rounds++;
    while (call) {
        if (call->room_told == session->n_room_rounds || !has_room(call)) {
            call = call->next_with_room;
            continue;
        }
        call->room_told = session->n_room_rounds;
        rota_http2_call_forget_room(call);
        session->handler.on_room(session->handler.data, call);
        call = session->with_room;
    }
}

bool rota_http2_pull(struct rota_http2 *session, struct rota_buffer *out, size_t size_max)
{
    assert(!session->is_busy);
    if (session->fault != ROTA_HTTP2_FAULT_NOT_HTTP2 && out->size < size_max) {
        session->is_busy = true;
        write_control(session, out);
        write_calls(session, out, size_max);
        if (session->fault)
            write_control(session, out); /* frames about that */
        session->is_busy = false;
    }
    session->n_since_pull = session->size_since_pull = 0;
    if (out->failed && !session->fault)
        session->fault = ROTA_HTTP2_FAULT_NO_MEMORY;
    if (session->with_room && !session->fault)
        tell_room(session);
    return !rota_http2_is_done(session);
}
