#include "wire/http2/gzip.h"
#include "wire/http2/http2_inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void rota_http2_call_forget_room(struct rota_http2_call *call)
{
    struct rota_http2_call **place = &call->session->with_room;
    if (!call->wants_room)
        return;
    while (*place != call)
        place = &(*place)->next_with_room;
    *place = call->next_with_room;
    call->wants_room = false;
}

/* --- streams --- */

/* A peer's streams have odd numbers that grow, so their halves spread well. */
static struct rota_http2_call **bucket_of(const struct rota_http2 *session, int32_t stream)
{
    return &session->buckets[((uint32_t)stream >> 1) & (session->n_buckets - 1)];
}

struct rota_http2_call *rota_http2_call_find(const struct rota_http2 *session, int32_t stream)
{
    struct rota_http2_call *call = session->n_buckets > 0 ? *bucket_of(session, stream) : NULL;
    while (call && call->stream != stream)
        call = call->next_in_bucket;
    return call;
}

static bool grow_buckets(struct rota_http2 *session)
{
    size_t n = session->n_buckets ? session->n_buckets * 4 : 16;
    struct rota_http2_call **buckets = calloc(n, sizeof(struct rota_http2_call *));
    if (!buckets)
        return session->n_buckets > 0; /* slower, but right */
    free(session->buckets);
    session->buckets = buckets;
    session->n_buckets = n;
    ROTA_LIST_EACH (call, &session->calls, struct rota_http2_call, link) {
        if (call->stream == 0 || call->is_closed)
            continue;
        struct rota_http2_call **bucket = bucket_of(session, call->stream);
        call->next_in_bucket = *bucket;
        *bucket = call;
    }
    return true;
}

bool rota_http2_call_open(struct rota_http2_call *call, int32_t stream)
{
    struct rota_http2 *session = call->session;
    if (session->n_open > session->n_buckets && !grow_buckets(session))
        return false;
    struct rota_http2_call **bucket = bucket_of(session, stream);
    call->stream = stream;
    session->n_uses++;
    call->out_window = session->peer_window;
    call->next_in_bucket = *bucket;
    *bucket = call;
    return true;
}

static void forget_stream(struct rota_http2_call *call)
{
    if (call->stream == 0)
        return;
    struct rota_http2_call **place = bucket_of(call->session, call->stream);
    while (*place != call)
        place = &(*place)->next_in_bucket;
    *place = call->next_in_bucket;
}

void rota_http2_call_close(struct rota_http2_call *call, uint32_t code)
{
    struct rota_http2 *session = call->session;
    forget_stream(call);
    rota_http2_write_sleep(call);
    session->n_open--;
    if (session->data_call == call)
        session->data_call = NULL; /* the rest of its bytes is ignored */
    call->is_closed = true;
    call->close_code = code;
    if (session->options.is_server) {
        if (!call->is_finished)
            rota_http2_call_end_text(call, ROTA_STATUS_CANCELLED, "the client dropped the call",
                                     false);
        rota_http2_call_release(call);
        return;
    }
    bool is_held = call->is_streaming && !call->is_ended && (call->held.size || call->is_paused);
    if (!is_held) {
        rota_http2_call_conclude(call, !call->is_heard, code);
        rota_http2_call_release(call);
    }
    rota_http2_send_start_queued(session);
}

/* --- ends --- */

void rota_http2_call_end(struct rota_http2_call *call, enum rota_status status,
                         struct rota_str text, bool is_unsent)
{
    struct rota_http2 *session = call->session;
    struct rota_http2_result result = {status, text, is_unsent};
    if (call->is_ended)
        return;
    call->is_ended = true;
    session->handler.on_end(session->handler.data, call, &result);
}

void rota_http2_call_end_text(struct rota_http2_call *call, enum rota_status status,
                              const char *text, bool is_unsent)
{
    rota_http2_call_end(call, status, rota_str(text), is_unsent);
}

static const char *error_name(uint32_t code)
{
    static const char *const names[] = {
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    };
    return code < sizeof names / sizeof *names ? names[code] : "unknown";
}

bool rota_http2_call_is_whole(const struct rota_http2_call *call)
{
    return call->is_streaming ? rota_grpc_decoder_is_clean(&call->decoder) : call->n_messages == 1;
}

void rota_http2_call_conclude(struct rota_http2_call *call, bool is_reset, uint32_t code)
{
    const struct rota_grpc_head *head = &call->head;
    char text[80];
    if (call->is_not_sent) {
        rota_http2_call_end_text(call, ROTA_STATUS_UNAVAILABLE,
                                 "the connection accepts no more calls", true);
    } else if (head->has_status) {
        if (head->status == ROTA_STATUS_OK && !rota_http2_call_is_whole(call))
            rota_http2_call_end_text(call, ROTA_STATUS_INTERNAL,
                                     "the reply ended before its message was complete", false);
        else
            rota_http2_call_end(call, head->status, rota_buffer_str(&head->text), false);
    } else if (head->http_status != 0 && head->http_status != 200) {
        snprintf(text, sizeof text, "the reply is HTTP status %d, not gRPC", head->http_status);
        rota_http2_call_end_text(call, rota_grpc_status_of_http(head->http_status), text, false);
    } else if (is_reset) {
        snprintf(text, sizeof text, "the peer dropped the call: %s", error_name(code));
        rota_http2_call_end_text(call, rota_grpc_status_of_reset(code), text,
                                 code == ROTA_HTTP2_REFUSED_STREAM);
    } else {
        rota_http2_call_end_text(call, ROTA_STATUS_UNKNOWN, "the reply has no grpc-status", false);
    }
}

void rota_http2_call_release(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    rota_list_remove(&call->link);
    session->n_queued -= call->is_queued;
    rota_http2_call_forget_room(call);
    rota_http2_write_sleep(call);
    session->was_busy = true;
    rota_http2_call_hold(session, &session->in_size, -(ptrdiff_t)call->in_size);
    if (session->options.is_server)
        rota_http2_call_hold(session, &session->out_size,
                             -(ptrdiff_t)(call->out.size - call->out_at));
    call->in_size = 0;
    call->is_queued = false;
    call->session = NULL;
    session->handler.on_release(session->handler.data, call);
}

/* --- memory --- */

void rota_http2_call_init(struct rota_http2_call *call)
{
    memset(call, 0, sizeof *call);
    rota_http2_call_reset(call);
}

void rota_http2_call_deinit(struct rota_http2_call *call)
{
    assert(!call->session);
    rota_grpc_head_deinit(&call->head);
    rota_grpc_head_fields_deinit(&call->sent);
    rota_buffer_deinit(&call->decoder.message);
    rota_buffer_deinit(&call->path);
    rota_buffer_deinit(&call->out);
    rota_buffer_deinit(&call->held);
}

void rota_http2_call_shrink(struct rota_buffer *buffer)
{
    if (buffer->capacity > ROTA_HTTP2_CALL_KEPT_MAX)
        rota_buffer_deinit(buffer);
    else
        rota_buffer_clear(buffer);
}

void rota_http2_call_reset(struct rota_http2_call *call)
{
    assert(!call->session);
    memset(&call->session, 0, sizeof *call - offsetof(struct rota_http2_call, session));
    rota_grpc_decoder_reset(&call->decoder);
    call->decoder.max = ROTA_GRPC_MESSAGE_MAX;
    call->decoder.takes_compressed = false;
    rota_grpc_head_clear(&call->head);
    rota_grpc_head_fields_clear(&call->sent);
    rota_buffer_clear(&call->path);
    rota_http2_call_shrink(&call->decoder.message);
    rota_http2_call_shrink(&call->out);
    rota_http2_call_shrink(&call->held);
}

void rota_http2_call_rewind(struct rota_http2_call *call)
{
    assert(!call->session);
    struct rota_grpc_fields sent = call->sent;
    struct rota_buffer path = call->path, out = call->out;
    bool is_streaming = call->is_streaming, is_paused = call->is_paused;
    call->sent = (struct rota_grpc_fields){0};
    call->path = call->out = (struct rota_buffer){0};
    rota_http2_call_reset(call);
    call->sent = sent;
    call->path = path;
    call->out = out;
    call->is_streaming = is_streaming;
    call->is_paused = is_paused;
}

void rota_http2_call_hold(struct rota_http2 *session, size_t *size, ptrdiff_t change)
{
    *size += (size_t)change;
    if (session->options.held)
        session->options.held->size += (size_t)change;
}

bool rota_http2_call_may_hold(struct rota_http2 *session, size_t more)
{
    if (!session->options.held)
        return true;
    struct rota_held held = *session->options.held;
    held.size += more;
    if (rota_held_fits(&held, session->in_size + session->out_size + more))
        return true;
    if (session->options.on_held_full)
        session->options.on_held_full(session->options.held_data);
    return false;
}

void rota_http2_call_account_in(struct rota_http2_call *call)
{
    size_t size = call->decoder.message.size + call->held.size;
    rota_http2_call_hold(call->session, &call->session->in_size, (ptrdiff_t)(size - call->in_size));
    call->in_size = size;
}

/* A message that is packed, if that makes it smaller; false when it does not. */
static bool frame_out_packed(struct rota_http2_call *call, struct rota_str message)
{
    size_t at = call->out.size;
    char *prefix = rota_buffer_extend(&call->out, ROTA_GRPC_PREFIX_SIZE);
    if (!prefix || !rota_gzip_pack(message, &call->out)) {
        call->out.size = at;
        return false;
    }
    size_t size = call->out.size - at - ROTA_GRPC_PREFIX_SIZE;
    rota_grpc_prefix_encode((uint8_t *)call->out.data + at, (uint32_t)size, true);
    return true;
}

bool rota_http2_call_frame_out(struct rota_http2_call *call, struct rota_str message)
{
    uint8_t prefix[ROTA_GRPC_PREFIX_SIZE];
    if (message.size > UINT32_MAX)
        return false;
    if (rota_http2_packs(call) && message.size >= ROTA_HTTP2_PACK_MIN &&
        message.size <= ROTA_HTTP2_PACK_MAX && frame_out_packed(call, message))
        return true;
    rota_grpc_prefix_encode(prefix, (uint32_t)message.size, false);
    rota_buffer_append(&call->out, prefix, sizeof prefix);
    rota_buffer_append_str(&call->out, message);
    return !call->out.failed;
}

enum rota_code rota_http2_call_prepare(struct rota_http2_call *call, struct rota_str path,
                                       struct rota_str message,
                                       const struct rota_metadata *metadata, size_t n_metadata,
                                       bool is_streaming, struct rota_error *error)
{
    enum rota_code code =
        rota_grpc_head_fields_add_metadata(&call->sent, metadata, n_metadata, error);
    if (code)
        return code;
    if (path.size < 2 || path.size > 1024 || path.data[0] != '/')
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a method must look like \"/package.Service/Method\"");
    for (size_t i = 0; i < path.size; i++)
        if (path.data[i] <= 0x20 || path.data[i] > 0x7e)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "a method's name must be printable ASCII");
    rota_buffer_append_str(&call->path, path);
    call->is_streaming = is_streaming;
    if (!rota_http2_call_frame_out(call, message) || call->path.failed)
        return rota_error_no_memory(error, "for a request of %zu bytes", message.size);
    return ROTA_OK;
}

enum rota_code rota_http2_call_add(struct rota_http2_call *call,
                                   const struct rota_metadata *metadata, size_t n_metadata,
                                   struct rota_error *error)
{
    return rota_grpc_head_fields_add_metadata(&call->sent, metadata, n_metadata, error);
}

bool rota_http2_may_be_sent(const struct rota_http2_call *call)
{
    return call->is_head_out && !call->is_not_sent;
}
