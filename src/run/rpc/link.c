#include "run/rpc/link.h"

#include "io/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <uv.h>

struct rota_link {
    struct rota_http2 *session; /* NULL once it has ended */
    struct rota_stream *stream; /* NULL before, and after it has ended */
    struct rota_link_handler handler;
    struct rota_buffer out;
    uv_prepare_t prepare; /* runs before the loop sleeps, while `is_dirty` */
    uv_timer_t timer;
    rota_time timer_at; /* ROTA_TIME_NEVER when it is not needed */
    int depth;          /* how many of our functions are at work on this link */
    int n_handles;
    rota_time open_timeout; /* for the peer's first word, */
    rota_time first_by;     /* which must exist by then */
    bool is_dirty, is_open, has_heard, is_closing;
    const char *close_reason;
};

static _Thread_local int n_inside;

void rota_link_enter(void)
{
    n_inside++;
}

void rota_link_leave(void)
{
    n_inside--;
}

bool rota_link_is_inside(void)
{
    return n_inside > 0;
}

/* --- the end --- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct rota_link *link = handle->data;
    if (--link->n_handles > 0)
        return;
    struct rota_link_handler handler = link->handler;
    rota_buffer_deinit(&link->out);
    free(link);
    rota_link_enter();
    if (handler.on_freed)
        handler.on_freed(handler.data);
    rota_link_leave();
}

static void drop_session(struct rota_link *link, const char *reason, bool is_polite)
{
    struct rota_http2 *session = link->session;
    if (!session)
        return;
    link->session = NULL;
    rota_link_enter();
    rota_http2_free(session, rota_str(reason));
    rota_link_leave();
    if (link->stream) {
        if (is_polite)
            rota_stream_finish(link->stream);
        else
            rota_stream_close(link->stream);
        link->stream = NULL;
    }
    uv_close((uv_handle_t *)&link->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&link->timer, on_handle_closed);
}

static void report_gone(struct rota_link *link, const struct rota_error *reason,
                        enum rota_http2_fault fault)
{
    rota_link_enter();
    if (!link->is_closing)
        link->handler.on_gone(link->handler.data, reason, fault);
    rota_link_leave();
    drop_session(link, reason->text, true);
}

static bool is_mute(const struct rota_link *link)
{
    return link->is_open && !link->has_heard && rota_clock_mono() >= link->first_by;
}

static const char *describe_fault(enum rota_http2_fault fault)
{
    switch (fault) {
    case ROTA_HTTP2_FAULT_NONE:
        break;
    case ROTA_HTTP2_FAULT_NOT_HTTP2:
        return "the peer does not speak HTTP/2; gRPC is at a node's listen address, not at http or "
               "workers";
    case ROTA_HTTP2_FAULT_PROTOCOL:
        return "HTTP/2 protocol error";
    case ROTA_HTTP2_FAULT_RESETS:
        return "the peer resets too many calls";
    case ROTA_HTTP2_FAULT_PINGS:
        return "the peer sends too many pings";
    case ROTA_HTTP2_FAULT_SETTINGS:
        return "the peer changes its settings too often";
    case ROTA_HTTP2_FAULT_FLOOD:
        return "the peer does not read our control frames";
    case ROTA_HTTP2_FAULT_SILENT:
        return "the peer did not answer a ping in time";
    case ROTA_HTTP2_FAULT_NO_MEMORY:
        return "not enough memory";
    }
    return "cleanly";
}

static void gone_by_fault(struct rota_link *link)
{
    struct rota_error reason;
    const char *peer = link->stream ? rota_stream_peer(link->stream) : "?";
    enum rota_http2_fault fault = rota_http2_fault(link->session);
    const char *why = describe_fault(fault);
    if (!fault && is_mute(link)) {
        fault = ROTA_HTTP2_FAULT_SILENT;
        why = "the peer did not start HTTP/2 in time";
    }
    enum rota_code code = fault == ROTA_HTTP2_FAULT_NOT_HTTP2 ? ROTA_ERR_INVALID
                          : fault                             ? ROTA_ERR_IO
                                                              : ROTA_OK;
    rota_error_set(&reason, code, "connection to %s ended: %s", peer, why);
    report_gone(link, &reason, fault);
}

/* Leave a function that worked on the link; carry out what was deferred. */
static void leave_link(struct rota_link *link, bool is_alive)
{
    rota_link_leave();
    if (--link->depth > 0 || !link->session)
        return;
    if (link->is_closing)
        drop_session(link, link->close_reason, true);
    else if (!is_alive)
        gone_by_fault(link);
}

static void enter_link(struct rota_link *link)
{
    rota_link_enter();
    link->depth++;
}

/* --- bytes --- */

/* Move output to the stream, as long as the peer reads. */
static bool pump_output(struct rota_link *link)
{
    bool is_alive = true;
    if (!link->stream)
        return true;
    while (is_alive && rota_stream_pending(link->stream) < ROTA_LINK_PENDING_MAX) {
        is_alive = rota_http2_pull(link->session, &link->out, ROTA_LINK_WRITE_SIZE);
        if (link->out.size == 0)
            break;
        if (rota_stream_send_buffer(link->stream, &link->out)) {
            rota_buffer_clear(&link->out);
            break; /* its on_close is on the way */
        }
    }
    return is_alive;
}

static void set_timer(struct rota_link *link);

static void on_timer(uv_timer_t *timer)
{
    struct rota_link *link = timer->data;
    rota_time now = rota_clock_mono();
    enter_link(link);
    bool is_alive = rota_http2_tick(link->session, now);
    if (is_alive && is_mute(link))
        is_alive = false;
    else if (is_alive)
        is_alive = pump_output(link);
    if (is_alive)
        set_timer(link);
    leave_link(link, is_alive);
}

/* One timer for a connection, never for a call, set rarely: when it fires too early it is set
 * again. */
static void set_timer(struct rota_link *link)
{
    rota_time now = rota_clock_mono();
    rota_time at = rota_http2_deadline(link->session);
    if (link->is_open && !link->has_heard)
        at = rota_time_min(at, link->first_by);
    link->timer_at = at;
    if (at == ROTA_TIME_NEVER)
        return;
    rota_time wait = at > now ? (at - now) / ROTA_MSEC + 1 : 0;
    uv_timer_start(&link->timer, on_timer, (uint64_t)wait, 0);
}

static void set_open(struct rota_link *link)
{
    rota_time wait = link->open_timeout > 0 ? link->open_timeout : ROTA_LINK_FIRST_TIMEOUT;
    link->is_open = true;
    link->first_by = rota_time_add(rota_clock_mono(), wait);
}

static void on_stream_open(void *data)
{
    struct rota_link *link = data;
    enter_link(link);
    set_open(link);
    if (link->handler.on_open)
        link->handler.on_open(link->handler.data);
    bool is_alive = link->is_closing || pump_output(link);
    if (is_alive)
        set_timer(link);
    leave_link(link, is_alive);
}

static void first_heard(struct rota_link *link)
{
    link->has_heard = true;
    uv_timer_stop(&link->timer);
    set_timer(link);
    if (link->handler.on_first_heard)
        link->handler.on_first_heard(link->handler.data);
}

static void on_stream_data(void *data, struct rota_str bytes)
{
    struct rota_link *link = data;
    rota_time now = rota_clock_mono();
    bool is_alive = true;
    enter_link(link);
    while (is_alive && bytes.size > 0 && !link->is_closing) {
        is_alive = rota_http2_feed(link->session, now, &bytes);
        if (!link->has_heard && rota_http2_has_begun(link->session))
            first_heard(link);
        if (is_alive && bytes.size > 0 && rota_http2_wants_flush(link->session))
            is_alive = pump_output(link);
    }
    /* Once a ping is answered the next is due before its answer was. */
    if (is_alive && rota_http2_deadline(link->session) < link->timer_at)
        set_timer(link);
    bool can_send = pump_output(link); /* also for a last message */
    leave_link(link, is_alive && can_send);
}

static void on_stream_drained(void *data)
{
    struct rota_link *link = data;
    enter_link(link);
    leave_link(link, pump_output(link));
}

static void on_stream_close(void *data, const struct rota_error *reason)
{
    struct rota_link *link = data;
    link->stream = NULL;
    if (link->session)
        report_gone(link, reason, rota_http2_fault(link->session));
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct rota_link *link = prepare->data;
    uv_prepare_stop(prepare);
    link->is_dirty = false;
    enter_link(link);
    bool is_alive = pump_output(link);
    if (is_alive && link->is_open && rota_http2_deadline(link->session) < link->timer_at)
        set_timer(link);
    leave_link(link, is_alive);
}

void rota_link_touch(struct rota_link *link)
{
    if (!link->session || link->depth > 0)
        return; /* closed, or pumped when the current function returns */
    if (!link->is_dirty) {
        link->is_dirty = true;
        uv_prepare_start(&link->prepare, on_prepare);
    }
}

void rota_link_resume(struct rota_link *link, struct rota_http2_call *call)
{
    enter_link(link); /* a callback may close the link */
    rota_http2_resume(call);
    leave_link(link, pump_output(link));
}

/* --- from birth --- */

enum rota_code rota_link_new(struct uv_loop_s *loop, const struct rota_http2_options *options,
                             const struct rota_http2_handler *calls,
                             const struct rota_link_handler *handler, struct rota_link **result,
                             struct rota_error *error)
{
    struct rota_link *link = calloc(1, sizeof *link);
    if (!link)
        return rota_error_no_memory(error, "for a connection");
    enum rota_code code = rota_http2_new(options, calls, rota_clock_mono(), &link->session, error);
    if (code) {
        free(link);
        return code;
    }
    link->handler = *handler;
    link->prepare.data = link->timer.data = link;
    uv_prepare_init(loop, &link->prepare);
    uv_timer_init(loop, &link->timer);
    /* An idle link keeps no program alive; its stream does. */
    uv_unref((uv_handle_t *)&link->timer);
    link->n_handles = 2;
    *result = link;
    return ROTA_OK;
}

static struct rota_stream_handler stream_handler(struct rota_link *link)
{
    return (struct rota_stream_handler){
        .on_open = on_stream_open,
        .on_data = on_stream_data,
        .on_drained = on_stream_drained,
        .on_close = on_stream_close,
        .data = link,
    };
}

enum rota_code rota_link_connect(struct rota_link *link, const char *address,
                                 const struct rota_stream_options *options,
                                 struct rota_error *error)
{
    struct rota_stream_handler handler = stream_handler(link);
    link->open_timeout = options->open_timeout;
    return rota_stream_connect(link->prepare.loop, address, options, &handler, &link->stream,
                               error);
}

void rota_link_accept(struct rota_link *link, struct rota_stream *stream, rota_time open_timeout)
{
    struct rota_stream_handler handler = stream_handler(link);
    link->stream = stream;
    link->open_timeout = open_timeout;
    set_open(link);
    rota_stream_set_handler(stream, &handler);
    set_timer(link);
    rota_link_touch(link);
}

void rota_link_close(struct rota_link *link, const char *reason)
{
    if (!link || !link->session)
        return;
    link->is_closing = true;
    link->close_reason = reason;
    if (link->depth == 0)
        drop_session(link, reason, true);
}

struct rota_http2 *rota_link_session(struct rota_link *link)
{
    return link->session;
}

const struct rota_stream *rota_link_stream(const struct rota_link *link)
{
    return link->stream;
}
