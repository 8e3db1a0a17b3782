#include "wire/http2/http2_inside.h"

#include <assert.h>

/* --- a client's calls --- */

static void submit_call(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    session->n_open++;
    rota_list_push(&session->calls, &call->link);
    rota_http2_write_wake(call);
    rota_http2_count_out(session, 1, call->out.size);
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
    bool must_wait =
        !rota_list_is_empty(&session->queue) || session->n_open >= session->peer_streams_max;
    if (must_wait && session->n_queued >= session->options.queue_max)
        return ROTA_ERR_LIMIT;
    call->session = session;
    if (must_wait) {
        call->is_queued = true;
        session->n_queued++;
        rota_list_push(&session->queue, &call->link);
        return ROTA_OK;
    }
    submit_call(call);
    return ROTA_OK;
}

/* The peer admits more: start those that wait longest. */
void rota_http2_send_start_queued(struct rota_http2 *session)
{
    ROTA_LIST_DRAIN (call, &session->queue, struct rota_http2_call, link) {
        if (session->n_open >= session->peer_streams_max)
            return;
        rota_list_remove(&call->link);
        session->n_queued--;
        call->is_queued = false;
        if (rota_http2_is_open(session)) {
            submit_call(call);
            continue;
        }
        rota_list_push(&session->calls, &call->link); /* for rota_http2_call_release() */
        rota_http2_call_end_text(call, ROTA_STATUS_UNAVAILABLE,
                                 "the connection accepts no more calls", true);
        rota_http2_call_release(call);
    }
}

void rota_http2_send_fail_queued(struct rota_http2 *session)
{
    ROTA_LIST_DRAIN (call, &session->queue, struct rota_http2_call, link) {
        rota_http2_call_end_text(call, ROTA_STATUS_UNAVAILABLE,
                                 "the connection accepts no more calls", true);
        rota_http2_call_release(call);
    }
}

/* --- either side --- */

void rota_http2_cancel(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (!session || (call->is_ended && !session->options.is_server))
        return; /* the function that ended it releases it */
    call->is_ended = true;
    if (session->options.is_server)
        call->is_finished = true;
    if (call->is_queued) {
        rota_http2_call_release(call);
    } else if (call->is_closed) {
        if (!session->options.is_server && !call->is_delivering)
            rota_http2_call_release(call); /* it was only held for its owner */
    } else if (!session->is_freed) {
        rota_http2_write_drop(call, ROTA_HTTP2_CANCEL);
        rota_http2_count_out(session, 1, 0);
    }
}

/* --- a server's replies --- */

void rota_http2_expect_stream(struct rota_http2_call *call)
{
    assert(call->n_messages == 0);
    call->is_streaming = true;
}

enum rota_code rota_http2_reply_head(struct rota_http2_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error)
{
    if (!call->session || call->is_finished)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the call has ended");
    if (call->is_replying || call->sent.places.size > 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "the reply's headers are already sent");
    enum rota_code code = rota_grpc_head_fields_add_metadata(&call->sent, metadata, n, error);
    if (code)
        rota_grpc_head_fields_clear(&call->sent);
    call->n_sent_head = call->sent.places.size;
    return code;
}

/* Bytes that are sent leave the front before they are most of the buffer. */
static void compact_body(struct rota_http2_call *call)
{
    if (call->out_at < ROTA_HTTP2_CALL_KEPT_MAX || call->out_at < call->out.size / 2)
        return;
    call->out.size -= call->out_at;
    memmove(call->out.data, call->out.data + call->out_at, call->out.size);
    call->out_at = 0;
}

/* May a message of this size be queued? If not, its owner is notified when one may. */
static enum rota_code check_message_room(struct rota_http2_call *call, size_t size)
{
    struct rota_http2 *session = call->session;
    if (!session || session->is_freed || call->is_finished)
        return ROTA_ERR_UNAVAILABLE;
    size_t waiting = call->out.size - call->out_at;
    if (session->out_size + size <= ROTA_HTTP2_OUT_MAX &&
        (session->out_size == 0 || rota_http2_call_may_hold(session, size)) &&
        (waiting == 0 || waiting + size <= ROTA_HTTP2_STREAM_OUT_MAX))
        return ROTA_OK;
    if (!call->wants_room) {
        call->wants_room = true;
        call->next_with_room = session->with_room;
        session->with_room = call;
    }
    return ROTA_ERR_LIMIT;
}

/* This many bytes were added to its output. */
static void count_added(struct rota_http2_call *call, size_t size)
{
    rota_http2_call_hold(call->session, &call->session->out_size, (ptrdiff_t)size);
    rota_http2_count_out(call->session, 1, size);
    call->is_replying = true;
    rota_http2_write_wake(call);
}

enum rota_code rota_http2_send(struct rota_http2_call *call, struct rota_str message)
{
    enum rota_code code = check_message_room(call, message.size);
    size_t before = call->out.size;
    if (code)
        return code;
    if (!rota_http2_call_frame_out(call, message)) {
        call->out.size = before;
        call->out.failed = false;
        return ROTA_ERR_NO_MEMORY;
    }
    count_added(call, call->out.size - before);
    compact_body(call);
    return ROTA_OK;
}

void rota_http2_begin_message(struct rota_http2_call *call, struct rota_buffer *message)
{
    if (call->out.size == 0 && !message->data) {
        *message = call->out;
        call->out = (struct rota_buffer){0};
    }
    rota_buffer_extend(message, ROTA_GRPC_PREFIX_SIZE);
}

enum rota_code rota_http2_send_begun(struct rota_http2_call *call, struct rota_buffer *message)
{
    if (message->failed || message->size - ROTA_GRPC_PREFIX_SIZE > UINT32_MAX)
        return ROTA_ERR_NO_MEMORY;
    struct rota_str content = {message->data + ROTA_GRPC_PREFIX_SIZE,
                               message->size - ROTA_GRPC_PREFIX_SIZE};
    enum rota_code code = check_message_room(call, content.size);
    if (code)
        return code;
    if (call->out.size > 0 || rota_http2_packs(call)) { /* after another, or to be compressed */
        code = rota_http2_send(call, content);
        if (!code)
            rota_buffer_clear(message);
        return code;
    }
    struct rota_buffer kept = call->out;
    rota_grpc_prefix_encode((uint8_t *)message->data, (uint32_t)content.size, false);
    call->out = *message;
    *message = kept;
    count_added(call, call->out.size);
    return ROTA_OK;
}

void rota_http2_finish(struct rota_http2_call *call, enum rota_status status, struct rota_str text,
                       const struct rota_metadata *metadata, size_t n_metadata)
{
    struct rota_http2 *session = call->session;
    if (!session || session->is_freed || call->is_finished)
        return;
    call->is_finished = call->is_ended = true;
    call->status = status;
    rota_http2_count_out(session, 1, 0);
    if (text.size > 0) {
        struct rota_buffer escaped = {0};
        rota_grpc_percent_encode(&escaped, text);
        rota_grpc_head_fields_add(&call->sent, rota_str("grpc-message"), rota_buffer_str(&escaped));
        rota_buffer_deinit(&escaped);
    }
    if (n_metadata > 0)
        rota_grpc_head_fields_add_metadata(&call->sent, metadata, n_metadata, NULL);
    rota_http2_call_shrink(
        &call->decoder.message); /* a slow client holds its reply, not its request too */
    rota_http2_call_account_in(call);
    call->is_replying = true;
    rota_http2_write_wake(call);
}

void rota_http2_send_answer_http(struct rota_http2_call *call)
{
    call->is_finished = call->is_ended = call->is_http = true;
    rota_http2_write_wake(call);
    rota_http2_count_out(call->session, 1, 0);
}
