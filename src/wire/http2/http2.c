#include "wire/http2/http2_inside.h"

#include <assert.h>
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

enum rota_code rota_http2_new(const struct rota_http2_options *options,
                              const struct rota_http2_handler *handler, rota_time now,
                              struct rota_http2 **result, struct rota_error *error)
{
    struct rota_http2 *session = calloc(1, sizeof *session);
    if (!session)
        return rota_error_no_memory(error, "for an HTTP/2 session");
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
    session->busy_at = now;
    if (session->options.held)
        session->options.held->n++;
    session->settings_refilled_at = now;
    session->reset_tokens = ROTA_HTTP2_RESETS_BURST;
    session->settings_tokens = ROTA_HTTP2_SETTINGS_BURST;
    session->next_stream = 1;
    rota_list_init(&session->calls);
    rota_list_init(&session->queue);
    rota_list_init(&session->ready);
    rota_list_init(&session->blocked);
    session->goaway_stream = ROTA_HTTP2_STREAM_MAX;
    session->out_window = session->peer_window = ROTA_HTTP2_WINDOW_FIRST;
    session->peer_streams_max = ROTA_HTTP2_STREAMS_FIRST;
    rota_hpack_decoder_init(&session->decoder);
    rota_hpack_encoder_init(&session->encoder);
    rota_http2_write_settings(session);
    if (session->control.failed) {
        rota_http2_free(session, rota_str("no memory"));
        return rota_error_no_memory(error, "for an HTTP/2 session");
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
    session->is_freed = true;
    for (;;) {
        struct rota_http2_call *call =
            ROTA_LIST_FIRST(&session->calls, struct rota_http2_call, link);
        if (!call)
            call = ROTA_LIST_FIRST(&session->queue, struct rota_http2_call, link);
        if (!call)
            break;
        if (!is_server)
            rota_http2_call_end(call, ROTA_STATUS_UNAVAILABLE, reason, !call->is_head_out);
        else if (!call->is_finished)
            rota_http2_call_end(call, ROTA_STATUS_CANCELLED, reason, false);
        rota_http2_call_release(call);
    }
    if (session->options.held)
        session->options.held->n--;
    rota_hpack_decoder_deinit(&session->decoder);
    rota_hpack_encoder_deinit(&session->encoder);
    rota_grpc_head_deinit(&session->head);
    rota_buffer_deinit(&session->last_path);
    rota_buffer_deinit(&session->in);
    rota_buffer_deinit(&session->block);
    rota_buffer_deinit(&session->control);
    rota_buffer_deinit(&session->fields);
    free(session->buckets);
    free(session);
}

/* Calls may end between two calls that pass the time. */
static void set_now(struct rota_http2 *session, rota_time now)
{
    session->now = now;
    if (session->was_busy)
        session->busy_at = now;
    session->was_busy = false;
}

bool rota_http2_feed(struct rota_http2 *session, rota_time now, struct rota_str *bytes)
{
    assert(!session->is_busy);
    if (session->fault)
        return false;
    size_t size = bytes->size < ROTA_HTTP2_SLICE ? bytes->size : ROTA_HTTP2_SLICE;
    set_now(session, now);
    session->heard_at = now;
    session->pinged_at = session->called_at = session->doubted_until = 0;
    session->is_busy = true;
    rota_http2_read(session, rota_str_of(bytes->data, size));
    session->is_busy = false;
    bytes->data += size;
    bytes->size -= size;
    if (session->n_acks > ROTA_HTTP2_ACKS_MAX || session->n_control > ROTA_HTTP2_FRAMES_MAX)
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_FLOOD, ROTA_HTTP2_ENHANCE_YOUR_CALM);
    if (session->control.failed)
        rota_http2_read_fail(session, ROTA_HTTP2_FAULT_NO_MEMORY, ROTA_HTTP2_INTERNAL_ERROR);
    return !rota_http2_is_done(session);
}

bool rota_http2_wants_flush(const struct rota_http2 *session)
{
    return session->n_since_pull >= ROTA_HTTP2_FLUSH_CALLS ||
           session->size_since_pull >= ROTA_HTTP2_FLUSH_SIZE;
}

bool rota_http2_wants_pull(const struct rota_http2 *session)
{
    return session->control.size > 0 || !rota_list_is_empty(&session->ready);
}

bool rota_http2_has_begun(const struct rota_http2 *session)
{
    return session->has_settings;
}

bool rota_http2_is_done(const struct rota_http2 *session)
{
    bool is_last = session->is_final || session->is_goaway;
    return session->fault ||
           (is_last && rota_http2_n_calls(session) == 0 && !rota_http2_wants_pull(session));
}

enum rota_http2_fault rota_http2_fault(const struct rota_http2 *session)
{
    return session->fault;
}

static rota_time idle_deadline(const struct rota_http2 *session)
{
    if (session->end_by)
        return session->end_by;
    if (session->options.idle_timeout == 0 || session->is_draining)
        return ROTA_TIME_NEVER;
    return rota_time_add(session->busy_at, session->options.idle_timeout);
}

static rota_time ping_deadline(const struct rota_http2 *session)
{
    if (session->options.keepalive_interval == 0)
        return ROTA_TIME_NEVER;
    if (session->doubted_until)
        return session->doubted_until;
    if (session->pinged_at)
        return rota_time_add(session->pinged_at, session->options.keepalive_timeout);
    rota_time at = rota_time_add(session->heard_at, session->options.keepalive_interval);
    if (session->called_at && session->options.keepalive_call)
        at = rota_time_min(at, rota_time_add(session->called_at, session->options.keepalive_call));
    return at;
}

void rota_http2_called(struct rota_http2 *session, rota_time now)
{
    if (!session->called_at)
        session->called_at = now;
}

rota_time rota_http2_deadline(const struct rota_http2 *session)
{
    return rota_time_min(idle_deadline(session), ping_deadline(session));
}

/* An incomplete request does not count, nor does a reply that the peer does not read. */
static bool is_serving(const struct rota_http2 *session)
{
    ROTA_LIST_EACH (call, &session->calls, const struct rota_http2_call, link)
        if ((call->is_heard || call->is_streaming) && !call->is_finished)
            return true;
    return false;
}

/* First the peer is asked to start no more calls; one that does not answer is dropped. */
static void tick_idle(struct rota_http2 *session)
{
    if (is_serving(session)) {
        session->busy_at = session->now;
        if (session->end_by)
            session->end_by = rota_time_add(session->now, session->options.keepalive_timeout);
    } else if (session->end_by) {
        session->fault = ROTA_HTTP2_FAULT_SILENT;
    } else {
        rota_http2_drain(session);
        session->end_by = rota_time_add(session->now, session->options.keepalive_timeout);
    }
}

bool rota_http2_tick(struct rota_http2 *session, rota_time now)
{
    set_now(session, now);
    if (now >= idle_deadline(session))
        tick_idle(session);
    if (session->fault || now < ping_deadline(session))
        return !rota_http2_is_done(session);
    if (session->doubted_until) {
        session->fault = ROTA_HTTP2_FAULT_SILENT;
        return false;
    }
    /* The answer may have arrived while this process was busy or stopped: read first. */
    if (session->pinged_at) {
        session->doubted_until = now + ROTA_MSEC;
        return true;
    }
    session->pinged_at = now;
    rota_http2_write_ping(session, "\0\0\0\0\0\0\0", false);
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
    /* Two steps: calls in flight to us arrive before the answer to the ping, and are still
     * served. */
    rota_http2_write_goaway(session, ROTA_HTTP2_STREAM_MAX, ROTA_HTTP2_NO_ERROR, rota_str(""));
    rota_http2_write_ping(session, "\0\0\0\0\0\0\0", false);
}

size_t rota_http2_n_calls(const struct rota_http2 *session)
{
    return session->n_open + session->n_queued;
}

bool rota_http2_is_open(const struct rota_http2 *session)
{
    return !session->is_freed && !session->fault && !session->is_goaway && session->next_stream > 0;
}
