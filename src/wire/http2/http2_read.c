#include "wire/http2/http2_inside.h"

#include "base/text.h"

#include <assert.h>

static uint32_t get32(const char *bytes)
{
    const unsigned char *p = (const unsigned char *)bytes;
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void rota_http2_read_fail(struct rota_http2 *session, enum rota_http2_fault fault,
                          enum rota_http2_error code)
{
    if (session->fault)
        return;
    if (fault == ROTA_HTTP2_FAULT_PROTOCOL && !session->options.is_server && !session->has_settings)
        fault = ROTA_HTTP2_FAULT_NOT_HTTP2; /* a server's settings are its first frame */
    session->fault = fault;
    rota_http2_write_goaway(session, session->peer_stream, code, rota_str(""));
}

static void fail_protocol(struct rota_http2 *session)
{
    rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_PROTOCOL_ERROR);
}

static void fail_size(struct rota_http2 *session)
{
    rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_FRAME_SIZE_ERROR);
}

/* --- frames of header fields --- */

/* Remove padding and the old priority fields. */
static bool strip_padding(const struct rota_http2_frame *frame, struct rota_str *payload)
{
    size_t front = 0, back = 0;
    if (frame->flags & ROTA_FLAG_PADDED) {
        if (payload->size == 0)
            return false;
        back = (unsigned char)payload->data[0];
        front = 1;
    }
    if (frame->flags & ROTA_FLAG_PRIORITY)
        front += 5;
    if (front + back > payload->size)
        return false;
    payload->data += front;
    payload->size -= front + back;
    return true;
}

static void read_headers(struct rota_http2 *session, const struct rota_http2_frame *frame,
                         struct rota_str payload)
{
    if (frame->stream == 0 || !strip_padding(frame, &payload)) {
        fail_protocol(session);
        return;
    }
    if (frame->flags & ROTA_FLAG_END_HEADERS) {
        rota_http2_hear_fields(session, frame, payload);
        return;
    }
    session->block_frame = *frame;
    session->n_continued = 0;
    rota_buffer_append_str(&session->block, payload);
}

static void read_continuation(struct rota_http2 *session, const struct rota_http2_frame *frame,
                              struct rota_str payload)
{
    if (session->block_frame.stream == 0 || ++session->n_continued > ROTA_HTTP2_CONTINUATIONS_MAX) {
        fail_protocol(session);
        return;
    }
    rota_buffer_append_str(&session->block, payload);
    if (session->block.failed) {
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_NO_MEMORY, ROTA_HTTP2_INTERNAL_ERROR);
        return;
    }
    if (!(frame->flags & ROTA_FLAG_END_HEADERS))
        return;
    struct rota_http2_frame whole = session->block_frame;
    session->block_frame.stream = 0;
    rota_http2_hear_fields(session, &whole, rota_buffer_str(&session->block));
    rota_buffer_deinit(&session->block);
}

/* --- frames of the connection --- */

/* The windows of all calls change with the initial window. */
static bool set_window(struct rota_http2 *session, uint32_t size)
{
    int64_t change = (int64_t)size - session->peer_window;
    session->peer_window = size;
    ROTA_LIST_EACH (call, &session->calls, struct rota_http2_call, link) {
        if (call->stream == 0)
            continue;
        call->out_window += change;
        if (call->out_window > ROTA_HTTP2_WINDOW_MAX)
            return false;
        if (change > 0 && call->is_head_out && !call->is_closed)
            rota_http2_write_wake(call);
    }
    return true;
}

static enum rota_http2_error apply_setting(struct rota_http2 *session, unsigned id, uint32_t value)
{
    bool is_server = session->options.is_server;
    switch (id) {
    case ROTA_SETTING_HEADER_TABLE_SIZE:
        rota_hpack_encoder_limit(&session->encoder, value);
        break;
    case ROTA_SETTING_ENABLE_PUSH:
        if (value > (is_server ? 1 : 0))
            return ROTA_HTTP2_PROTOCOL_ERROR;
        break;
    case ROTA_SETTING_MAX_CONCURRENT_STREAMS:
        session->peer_streams_max = value;
        break;
    case ROTA_SETTING_INITIAL_WINDOW_SIZE:
        if (value > ROTA_HTTP2_WINDOW_MAX || !set_window(session, value))
            return ROTA_HTTP2_FLOW_CONTROL_ERROR;
        break;
    case ROTA_SETTING_MAX_FRAME_SIZE:
        if (value < ROTA_HTTP2_FRAME_MAX || value > 0xffffff)
            return ROTA_HTTP2_PROTOCOL_ERROR;
        break;
    default: /* settings of later versions, and those without effect here */
        break;
    }
    return ROTA_HTTP2_NO_ERROR;
}

static void read_settings(struct rota_http2 *session, const struct rota_http2_frame *frame,
                          struct rota_str payload)
{
    if (frame->stream != 0) {
        fail_protocol(session);
        return;
    }
    if (frame->flags & ROTA_FLAG_ACK) {
        if (payload.size > 0)
            fail_size(session);
        else if (session->has_settings_ack)
            fail_protocol(session);
        session->has_settings_ack = true;
        return;
    }
    if (payload.size % 6 != 0) {
        fail_size(session);
        return;
    }
    if (payload.size / 6 > ROTA_HTTP2_SETTINGS_MAX) {
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_SETTINGS, ROTA_HTTP2_ENHANCE_YOUR_CALM);
        return;
    }
    if (!session->has_settings)
        session->peer_streams_max = UINT32_MAX; /* unlimited by default */
    session->has_settings = true;
    for (size_t i = 0; i < payload.size; i += 6) {
        const unsigned char *p = (const unsigned char *)payload.data + i;
        enum rota_http2_error code =
            apply_setting(session, (unsigned)p[0] << 8 | p[1], get32(payload.data + i + 2));
        if (code) {
            rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, code);
            return;
        }
    }
    rota_http2_write_settings_ack(session);
    rota_http2_hear_settings(session);
}

static void read_ping(struct rota_http2 *session, const struct rota_http2_frame *frame,
                      struct rota_str payload)
{
    if (frame->stream != 0) {
        fail_protocol(session);
    } else if (payload.size != 8) {
        fail_size(session);
    } else if (frame->flags & ROTA_FLAG_ACK) {
        rota_http2_hear_ping_ack(session);
    } else {
        rota_http2_write_ping(session, payload.data, true);
        rota_http2_hear_ping(session);
    }
}

static void read_goaway(struct rota_http2 *session, const struct rota_http2_frame *frame,
                        struct rota_str payload)
{
    if (frame->stream != 0)
        fail_protocol(session);
    else if (payload.size < 8)
        fail_size(session);
    else
        rota_http2_hear_goaway(session, (int32_t)(get32(payload.data) & ROTA_HTTP2_STREAM_MAX),
                               get32(payload.data + 4));
}

static void read_reset(struct rota_http2 *session, const struct rota_http2_frame *frame,
                       struct rota_str payload)
{
    if (payload.size != 4)
        fail_size(session);
    else if (!rota_http2_hear_was_opened(session, frame->stream))
        fail_protocol(session);
    else
        rota_http2_hear_reset(session, frame->stream, get32(payload.data));
}

static void widen_connection(struct rota_http2 *session, uint32_t size)
{
    session->out_window += size;
    if (size == 0) {
        fail_protocol(session);
    } else if (session->out_window > ROTA_HTTP2_WINDOW_MAX) {
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_PROTOCOL, ROTA_HTTP2_FLOW_CONTROL_ERROR);
    } else {
        ROTA_LIST_DRAIN (call, &session->blocked, struct rota_http2_call, writing) {
            rota_http2_write_sleep(call);
            rota_http2_write_wake(call);
        }
    }
}

static void read_window(struct rota_http2 *session, const struct rota_http2_frame *frame,
                        struct rota_str payload)
{
    if (payload.size != 4) {
        fail_size(session);
        return;
    }
    uint32_t size = get32(payload.data) & ROTA_HTTP2_WINDOW_MAX;
    rota_http2_hear_spend_trifles(session, 1);
    if (frame->stream == 0) {
        widen_connection(session, size);
        return;
    }
    if (!rota_http2_hear_was_opened(session, frame->stream)) {
        fail_protocol(session);
        return;
    }
    struct rota_http2_call *call = rota_http2_call_find(session, frame->stream);
    if (!call || call->is_dropped)
        return;
    call->out_window += size;
    if (size == 0)
        rota_http2_write_drop(call, ROTA_HTTP2_PROTOCOL_ERROR);
    else if (call->out_window > ROTA_HTTP2_WINDOW_MAX)
        rota_http2_write_drop(call, ROTA_HTTP2_FLOW_CONTROL_ERROR);
    else if (call->is_head_out)
        rota_http2_write_wake(call);
}

/* --- frames --- */

static void read_whole(struct rota_http2 *session, const struct rota_http2_frame *frame,
                       struct rota_str payload)
{
    switch (frame->type) {
    case ROTA_FRAME_HEADERS:
        read_headers(session, frame, payload);
        break;
    case ROTA_FRAME_CONTINUATION:
        read_continuation(session, frame, payload);
        break;
    case ROTA_FRAME_SETTINGS:
        read_settings(session, frame, payload);
        break;
    case ROTA_FRAME_PING:
        read_ping(session, frame, payload);
        break;
    case ROTA_FRAME_GOAWAY:
        read_goaway(session, frame, payload);
        break;
    case ROTA_FRAME_RST_STREAM:
        read_reset(session, frame, payload);
        break;
    case ROTA_FRAME_WINDOW_UPDATE:
        read_window(session, frame, payload);
        break;
    case ROTA_FRAME_PRIORITY: /* we ignore it, but check its form */
        if (payload.size != 5)
            fail_size(session);
        else if (frame->stream == 0)
            fail_protocol(session);
        else
            rota_http2_hear_spend_trifles(session, 1);
        break;
    default: /* PUSH_PROMISE, which is not allowed */
        fail_protocol(session);
        break;
    }
}

/* Is this frame allowed here at all? */
static bool check_head(struct rota_http2 *session, const struct rota_http2_frame *frame)
{
    bool is_continuation = frame->type == ROTA_FRAME_CONTINUATION;
    bool is_in_block = session->block_frame.stream != 0;
    if (frame->size > ROTA_HTTP2_FRAME_MAX)
        fail_size(session);
    else if (!session->has_settings &&
             (frame->type != ROTA_FRAME_SETTINGS || (frame->flags & ROTA_FLAG_ACK)))
        fail_protocol(session);
    else if (is_in_block && (!is_continuation || frame->stream != session->block_frame.stream))
        fail_protocol(session);
    return !session->fault;
}

static struct rota_http2_frame parse_head(const char *bytes)
{
    const unsigned char *p = (const unsigned char *)bytes;
    return (struct rota_http2_frame){
        .size = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2],
        .type = p[3],
        .flags = p[4],
        .stream = (int32_t)(get32(bytes + 5) & ROTA_HTTP2_STREAM_MAX),
    };
}

/* How much of a frame must be there before it can be read. */
static size_t bytes_needed(const struct rota_http2_frame *frame)
{
    if (frame->type == ROTA_FRAME_DATA)
        return ROTA_HTTP2_FRAME_HEAD + (frame->flags & ROTA_FLAG_PADDED && frame->size > 0);
    if (frame->type > ROTA_FRAME_CONTINUATION)
        return ROTA_HTTP2_FRAME_HEAD;
    return ROTA_HTTP2_FRAME_HEAD + frame->size;
}

static void begin_data(struct rota_http2 *session, const struct rota_http2_frame *frame,
                       const char *payload)
{
    uint32_t padding = 0;
    if (frame->flags & ROTA_FLAG_PADDED) {
        padding = frame->size > 0 ? 1U + (unsigned char)payload[0] : 1;
        session->pad_left = padding - 1;
    }
    if (padding > frame->size || frame->stream == 0) {
        fail_protocol(session);
        return;
    }
    session->data_left = frame->size - padding;
    if (session->data_left == 0 && !(frame->flags & ROTA_FLAG_END_STREAM))
        rota_http2_hear_spend_trifles(session, 1);
    session->data_ends = frame->flags & ROTA_FLAG_END_STREAM;
    rota_http2_hear_data(session, frame, padding);
    if (frame->size == padding && session->pad_left == 0)
        rota_http2_hear_data_end(session);
}

/* Read a frame from the front of `*bytes`, of DATA only its head. False when too
 * little of it is there, or it may not be. */
static bool read_frame(struct rota_http2 *session, struct rota_str *bytes)
{
    if (bytes->size < ROTA_HTTP2_FRAME_HEAD)
        return false;
    struct rota_http2_frame frame = parse_head(bytes->data);
    if (!check_head(session, &frame))
        return false;
    size_t size = bytes_needed(&frame);
    if (bytes->size < size)
        return false;
    const char *payload = bytes->data + ROTA_HTTP2_FRAME_HEAD;
    bytes->data += size;
    bytes->size -= size;
    if (frame.type == ROTA_FRAME_DATA) {
        begin_data(session, &frame, payload);
    } else if (frame.type > ROTA_FRAME_CONTINUATION) {
        session->skip_left = frame.size;
        rota_http2_hear_spend_trifles(session, 1);
    } else {
        read_whole(session, &frame, rota_str_of(payload, frame.size));
    }
    return true;
}

/* Continue a frame of which only the beginning had arrived. */
static void read_rest(struct rota_http2 *session, struct rota_str *bytes)
{
    enum { KEPT_MAX = 1024 };
    struct rota_buffer *in = &session->in;
    size_t size = ROTA_HTTP2_FRAME_HEAD;
    if (in->size >= ROTA_HTTP2_FRAME_HEAD) {
        struct rota_http2_frame frame = parse_head(in->data);
        size = bytes_needed(&frame);
    }
    rota_buffer_append_str(in, rota_text_cut(bytes, size - in->size));
    if (in->failed) {
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_NO_MEMORY, ROTA_HTTP2_INTERNAL_ERROR);
        return;
    }
    struct rota_str whole = rota_buffer_str(in);
    if (!read_frame(session, &whole))
        return;
    assert(whole.size == 0);
    rota_buffer_clear(in);
    if (in->capacity > KEPT_MAX)
        rota_buffer_deinit(in);
}

static void read_data(struct rota_http2 *session, struct rota_str *bytes)
{
    struct rota_str part = rota_text_cut(bytes, session->data_left);
    session->data_left -= (uint32_t)part.size;
    if (part.size > 0)
        rota_http2_hear_bytes(session, part);
    if (session->data_left > 0)
        return;
    session->pad_left -= (uint32_t)rota_text_cut(bytes, session->pad_left).size;
    if (session->pad_left == 0)
        rota_http2_hear_data_end(session);
}

static void read_magic(struct rota_http2 *session, struct rota_str *bytes)
{
    struct rota_str part = rota_text_cut(bytes, sizeof ROTA_HTTP2_MAGIC - 1 - session->magic_at);
    if (memcmp(part.data, &ROTA_HTTP2_MAGIC[session->magic_at], part.size) != 0)
        session->fault = ROTA_HTTP2_FAULT_NOT_HTTP2;
    session->magic_at += (uint32_t)part.size;
}

void rota_http2_read(struct rota_http2 *session, struct rota_str bytes)
{
    while (bytes.size > 0 && !session->fault) {
        if (session->options.is_server && session->magic_at < sizeof ROTA_HTTP2_MAGIC - 1)
            read_magic(session, &bytes);
        else if (session->data_left > 0 || session->pad_left > 0)
            read_data(session, &bytes);
        else if (session->skip_left > 0)
            session->skip_left -= (uint32_t)rota_text_cut(&bytes, session->skip_left).size;
        else if (session->in.size > 0)
            read_rest(session, &bytes);
        else if (!read_frame(session, &bytes) && !session->fault)
            rota_buffer_append_str(&session->in, rota_text_cut(&bytes, bytes.size));
    }
    if (session->in.failed)
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_NO_MEMORY, ROTA_HTTP2_INTERNAL_ERROR);
}
