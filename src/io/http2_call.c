#include "io/http2_inside.h"

#include <assert.h>

/* --- lists --- */

void rota_http2_list_push(struct rota_http2_list *list, struct rota_http2_call *call)
{
    call->next = NULL;
    call->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = call;
    list->last = call;
}

void rota_http2_list_remove(struct rota_http2_list *list, struct rota_http2_call *call)
{
    *(call->previous ? &call->previous->next : &list->first) = call->next;
    *(call->next ? &call->next->previous : &list->last) = call->previous;
    call->next = call->previous = NULL;
}

void rota_http2_forget_room(struct rota_http2_call *call)
{
    struct rota_http2_call **place = &call->session->with_room;
    if (!call->wants_room)
        return;
    while (*place != call)
        place = &(*place)->next_with_room;
    *place = call->next_with_room;
    call->wants_room = false;
}

/* --- ends --- */

void rota_http2_end(struct rota_http2_call *call, enum rota_status status, struct rota_str text,
                    bool is_unsent)
{
    struct rota_http2 *session = call->session;
    struct rota_http2_result result = {status, text, is_unsent};
    if (call->is_ended)
        return;
    call->is_ended = true;
    session->handler.on_end(session->handler.data, call, &result);
}

void rota_http2_end_text(struct rota_http2_call *call, enum rota_status status, const char *text,
                         bool is_unsent)
{
    rota_http2_end(call, status, rota_str(text), is_unsent);
}

void rota_http2_release(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (call->is_queued) {
        rota_http2_list_remove(&session->queue, call);
        session->n_queued--;
    } else {
        rota_http2_list_remove(&session->calls, call);
    }
    rota_http2_forget_room(call);
    session->in_size -= call->in_size;
    if (session->options.is_server)
        session->out_size -= call->out.size - call->out_at;
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
    rota_grpc_fields_deinit(&call->sent);
    rota_buffer_deinit(&call->decoder.message);
    rota_buffer_deinit(&call->path);
    rota_buffer_deinit(&call->out);
    rota_buffer_deinit(&call->held);
}

void rota_http2_shrink(struct rota_buffer *buffer)
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
    rota_grpc_head_clear(&call->head);
    rota_grpc_fields_clear(&call->sent);
    rota_buffer_clear(&call->path);
    rota_http2_shrink(&call->decoder.message);
    rota_http2_shrink(&call->out);
    rota_http2_shrink(&call->held);
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

void rota_http2_account_in(struct rota_http2_call *call)
{
    size_t size = call->decoder.message.size + call->held.size;
    call->session->in_size += size - call->in_size;
    call->in_size = size;
}

bool rota_http2_frame_out(struct rota_http2_call *call, struct rota_str message)
{
    uint8_t prefix[ROTA_GRPC_PREFIX_SIZE];
    if (message.size > UINT32_MAX)
        return false;
    rota_grpc_prefix_encode(prefix, (uint32_t)message.size);
    rota_buffer_append(&call->out, prefix, sizeof prefix);
    rota_buffer_append_str(&call->out, message);
    return !call->out.failed;
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
    if (!rota_http2_frame_out(call, message) || call->path.failed)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "request of %zu bytes", message.size);
    return ROTA_OK;
}

bool rota_http2_may_be_sent(const struct rota_http2_call *call)
{
    return call->is_started && !call->is_not_sent;
}
