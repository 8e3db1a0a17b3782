#include "io/net/stream_inside.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SPARE_MAX = 256 << 10, /* a larger empty buffer is freed */
    PLAIN_SIZE = 16 << 10, /* the most that one record of TLS holds */
    FAILED_WRITE_MS = 1000,
};

/* One for all streams of a thread: libuv fills it and hands it to us in one go.
 * A buffer in each stream would cost more than all the rest of it. */
static _Thread_local char read_bytes[ROTA_STREAM_READ_SIZE];
static _Thread_local char plain_bytes[PLAIN_SIZE];

static void end_with(struct rota_stream *stream, enum rota_code code, const char *what)
{
    struct rota_error reason;
    rota_error_set(&reason, code, "%s: %s", stream->peer, what);
    rota_stream_end(stream, &reason);
}

/* --- life and death --- */

void rota_stream_release(struct rota_stream *stream)
{
    if (--stream->n_holds > 0)
        return;
    rota_tls_session_free(stream->tls);
    rota_buffer_deinit(&stream->out);
    rota_buffer_deinit(&stream->wire);
    rota_buffer_deinit(&stream->sending);
    if (stream->on_gone)
        stream->on_gone(stream->gone_data);
    free(stream->dial);
    free(stream);
}

static void on_handle_closed(uv_handle_t *handle)
{
    rota_stream_release(handle->data);
}

/* libuv writes in a way that kills the process when the peer has closed, unless the signal is
 * blocked. Blocking it affects this thread only. */
static void block_sigpipe(void)
{
    static _Thread_local bool is_blocked;
    sigset_t signals;
    if (is_blocked)
        return;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    is_blocked = pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0;
}

struct rota_stream *rota_stream_new(uv_loop_t *loop)
{
    block_sigpipe();
    struct rota_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    uv_tcp_init(loop, &stream->tcp);
    uv_timer_init(loop, &stream->timer);
    stream->tcp.data = stream->timer.data = stream;
    stream->n_holds = 2;
    return stream;
}

void rota_stream_destroy(struct rota_stream *stream)
{
    if (stream->state == ROTA_STREAM_CLOSED)
        return;
    if (stream->state == ROTA_STREAM_RESOLVING)
        uv_cancel((uv_req_t *)&stream->dial->resolve);
    stream->state = ROTA_STREAM_CLOSED;
    stream->handler = (struct rota_stream_handler){0};
    uv_close((uv_handle_t *)&stream->timer, on_handle_closed);
    /* Between two targets it is already closing, and is released then. */
    if (!uv_is_closing((uv_handle_t *)&stream->tcp))
        uv_close((uv_handle_t *)&stream->tcp, on_handle_closed);
}

/* --- sending --- */

static bool is_sending(const struct rota_stream *stream)
{
    return !stream->failure.code && !stream->is_shut && stream->state >= ROTA_STREAM_HANDSHAKE &&
           stream->state <= ROTA_STREAM_LINGERING;
}

size_t rota_stream_pending(const struct rota_stream *stream)
{
    return stream->out.size + stream->wire.size + stream->sending.size - stream->sent;
}

static void empty_buffer(struct rota_buffer *buffer)
{
    if (buffer->capacity > SPARE_MAX)
        rota_buffer_deinit(buffer);
    else
        rota_buffer_clear(buffer);
}

static void swap_buffers(struct rota_buffer *a, struct rota_buffer *b)
{
    struct rota_buffer kept = *a;
    *a = *b;
    *b = kept;
}

/* Nothing more can be sent. The peer may have sent the reason before it closed, so the stream
 * reads on for a short time and usually finds the end. */
static void fail_writing(struct rota_stream *stream, enum rota_code code, const char *what)
{
    if (stream->state == ROTA_STREAM_LINGERING) {
        rota_stream_destroy(stream);
        return;
    }
    rota_error_set(&stream->failure, code, "%s: writing: %s", stream->peer, what);
    empty_buffer(&stream->out);
    empty_buffer(&stream->wire);
    empty_buffer(&stream->sending);
    stream->sent = 0;
    rota_stream_set_timer(stream, FAILED_WRITE_MS);
}

/* Fill `sending`, which is empty, with the next bytes. */
static bool load_sending(struct rota_stream *stream)
{
    struct rota_error error;
    bool is_open = stream->state != ROTA_STREAM_HANDSHAKE;
    if (!stream->tls) {
        if (stream->out.size == 0)
            return false;
        swap_buffers(&stream->out, &stream->sending);
        return true;
    }
    if (is_open && stream->out.size > 0) {
        struct rota_str plain = rota_buffer_str(&stream->out);
        if (rota_tls_session_write(stream->tls, plain, &stream->wire, &error)) {
            fail_writing(stream, error.code, error.text);
            return false;
        }
        empty_buffer(&stream->out);
    }
    if (stream->state == ROTA_STREAM_LINGERING && !stream->has_said_bye) {
        rota_tls_session_finish(stream->tls, &stream->wire);
        stream->has_said_bye = true;
    }
    if (stream->wire.size == 0)
        return false;
    swap_buffers(&stream->wire, &stream->sending);
    return true;
}

/* All of `sending` is sent: return its memory. */
static void unload_sending(struct rota_stream *stream)
{
    empty_buffer(&stream->sending);
    stream->sent = 0;
    swap_buffers(stream->tls ? &stream->wire : &stream->out, &stream->sending);
}

static void on_written(uv_write_t *request, int status);

/* Give the kernel as much as it takes; libuv waits for it with the rest. */
static void send_more(struct rota_stream *stream)
{
    while (is_sending(stream) && !stream->is_writing) {
        if (stream->sending.size == 0 && !load_sending(stream))
            return;
        uv_buf_t rest = uv_buf_init(stream->sending.data + stream->sent,
                                    (unsigned)(stream->sending.size - stream->sent));
        int sent = uv_try_write((uv_stream_t *)&stream->tcp, &rest, 1);
        if (sent == UV_EAGAIN)
            sent = 0;
        if (sent < 0) {
            fail_writing(stream, ROTA_ERR_IO, uv_strerror(sent));
            return;
        }
        stream->sent += (size_t)sent;
        if (stream->sent == stream->sending.size) {
            unload_sending(stream);
            continue;
        }
        rest = uv_buf_init(rest.base + sent, rest.len - (unsigned)sent);
        stream->write.data = stream;
        stream->is_writing = true;
        int status = uv_write(&stream->write, (uv_stream_t *)&stream->tcp, &rest, 1, on_written);
        if (status) {
            stream->is_writing = false;
            fail_writing(stream, ROTA_ERR_IO, uv_strerror(status));
        }
    }
}

static void on_shut(uv_shutdown_t *request, int status)
{
    struct rota_stream *stream = request->data;
    (void)status;
    stream->has_shut = true;
    if (stream->has_peer_ended)
        rota_stream_destroy(stream);
}

/* Once everything is sent, shut down our side. The connection is not closed right then: bytes
 * still in flight to us would make the kernel reset it, and the peer could lose what we sent
 * last. */
static void linger_on(struct rota_stream *stream)
{
    if (stream->state != ROTA_STREAM_LINGERING || stream->is_shut || stream->is_writing ||
        rota_stream_pending(stream) > 0)
        return;
    stream->is_shut = true;
    stream->shutdown.data = stream;
    if (uv_shutdown(&stream->shutdown, (uv_stream_t *)&stream->tcp, on_shut))
        rota_stream_destroy(stream);
}

/* Send from the loop, where the owner may be called back. */
static void send_and_tell(struct rota_stream *stream, bool had_to_wait)
{
    send_more(stream);
    linger_on(stream);
    if (had_to_wait && rota_stream_pending(stream) == 0 && stream->state == ROTA_STREAM_OPEN &&
        !stream->failure.code && stream->handler.on_drained)
        stream->handler.on_drained(stream->handler.data);
}

static void on_written(uv_write_t *request, int status)
{
    struct rota_stream *stream = request->data;
    stream->is_writing = false;
    if (stream->state == ROTA_STREAM_CLOSED)
        return;
    empty_buffer(&stream->sending);
    stream->sent = 0;
    if (status < 0)
        fail_writing(stream, ROTA_ERR_IO, uv_strerror(status));
    else
        send_and_tell(stream, true);
}

/* --- ending --- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)handle, (void)suggested;
    *buffer = uv_buf_init(read_bytes, sizeof read_bytes);
}

static void on_read(uv_stream_t *tcp, ssize_t size, const uv_buf_t *buffer);

static void start_lingering(struct rota_stream *stream)
{
    stream->state = ROTA_STREAM_LINGERING;
    stream->handler = (struct rota_stream_handler){0};
    rota_stream_set_timer(stream, ROTA_STREAM_LINGER / ROTA_MSEC);
    send_more(stream);
    linger_on(stream);
}

void rota_stream_end(struct rota_stream *stream, const struct rota_error *reason)
{
    struct rota_stream_handler handler = stream->handler;
    struct rota_error kept = *reason; /* it may be a part of the stream */

    /* An alert with the reason should reach the peer. */
    if (stream->wire.size > 0 && is_sending(stream)) {
        stream->has_said_bye = true;
        empty_buffer(&stream->out);
        start_lingering(stream);
    } else {
        rota_stream_destroy(stream);
    }
    if (handler.on_close)
        handler.on_close(handler.data, &kept);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_stream *stream = timer->data;
    switch (stream->state) {
    case ROTA_STREAM_CONNECTING:
    case ROTA_STREAM_RESOLVING:
        rota_stream_connect_dial_timeout(stream);
        break;
    case ROTA_STREAM_HANDSHAKE:
        if (stream->failure.code)
            rota_stream_end(stream, &stream->failure);
        else
            end_with(stream, ROTA_ERR_UNAVAILABLE, "the TLS handshake timed out");
        break;
    case ROTA_STREAM_OPEN: /* set by fail_writing() alone */
        rota_stream_end(stream, &stream->failure);
        break;
    case ROTA_STREAM_LINGERING:
        rota_stream_destroy(stream);
        break;
    case ROTA_STREAM_CLOSED:
        break;
    }
}

void rota_stream_set_timer(struct rota_stream *stream, uint64_t ms)
{
    uv_timer_start(&stream->timer, on_timer, ms, 0);
}

/* --- reading --- */

static void be_open(struct rota_stream *stream)
{
    stream->state = ROTA_STREAM_OPEN;
    if (!stream->failure.code)
        uv_timer_stop(&stream->timer);
    if (stream->handler.on_open)
        stream->handler.on_open(stream->handler.data);
}

static void fail_tls(struct rota_stream *stream, const struct rota_error *error)
{
    struct rota_error reason;
    rota_error_set(&reason, error->code, "%s: %s", stream->peer, error->text);
    rota_stream_end(stream, &reason);
}

static void shake_hands(struct rota_stream *stream)
{
    struct rota_error error;
    bool done = false;
    if (rota_tls_session_handshake(stream->tls, &stream->wire, &done, &error)) {
        fail_tls(stream, &error);
        return;
    }
    send_more(stream);
    if (!done)
        return;
    rota_tls_session_identity(stream->tls, stream->identity);
    be_open(stream);
}

static void read_plain(struct rota_stream *stream, struct rota_str bytes)
{
    /* A TLS record begins like this; no other protocol that we expect does. */
    bool is_tls = !stream->has_read && bytes.size >= 2 && bytes.data[1] == 3 &&
                  (bytes.data[0] == 0x15 || bytes.data[0] == 0x16);
    stream->has_read = true;
    if (is_tls)
        end_with(stream, ROTA_ERR_INVALID, "the peer speaks TLS, but this side uses plaintext");
    else if (stream->handler.on_data)
        stream->handler.on_data(stream->handler.data, bytes);
}

static void read_tls(struct rota_stream *stream)
{
    while (stream->state == ROTA_STREAM_OPEN) {
        struct rota_error error;
        bool ended = false;
        size_t size = 0;
        if (rota_tls_session_read(stream->tls, plain_bytes, sizeof plain_bytes, &size, &ended,
                                  &stream->wire, &error))
            fail_tls(stream, &error);
        else if (ended)
            end_with(stream, ROTA_OK, "the peer closed the connection");
        else if (stream->wire.size > ROTA_STREAM_PENDING_MAX)
            end_with(stream, ROTA_ERR_LIMIT, "the peer does not read our TLS replies");
        else if (size == 0)
            return;
        else if (stream->handler.on_data)
            stream->handler.on_data(stream->handler.data, rota_str_of(plain_bytes, size));
    }
}

static void read_end(struct rota_stream *stream, int status)
{
    if (stream->state == ROTA_STREAM_LINGERING) {
        stream->has_peer_ended = true;
        if (status != UV_EOF || stream->has_shut)
            rota_stream_destroy(stream);
    } else if (stream->failure.code) {
        rota_stream_end(stream, &stream->failure);
    } else if (stream->state == ROTA_STREAM_HANDSHAKE) {
        end_with(stream, ROTA_ERR_UNAVAILABLE,
                 "the peer closed the connection during the TLS handshake; does it speak TLS?");
    } else if (status == UV_EOF && stream->tls) {
        end_with(stream, ROTA_ERR_IO, "the peer closed the connection without a TLS close_notify");
    } else if (status == UV_EOF) {
        end_with(stream, ROTA_OK, "the peer closed the connection");
    } else {
        end_with(stream, ROTA_ERR_IO, uv_strerror(status));
    }
}

static void on_read(uv_stream_t *tcp, ssize_t size, const uv_buf_t *buffer)
{
    struct rota_stream *stream = tcp->data;
    if (size < 0) {
        read_end(stream, (int)size);
        return;
    }
    if (size == 0 || stream->state == ROTA_STREAM_LINGERING)
        return;
    struct rota_str bytes = rota_str_of(buffer->base, (size_t)size);
    if (!stream->tls) {
        read_plain(stream, bytes);
    } else {
        rota_tls_session_feed(stream->tls, bytes);
        if (stream->state == ROTA_STREAM_HANDSHAKE)
            shake_hands(stream);
        read_tls(stream);
    }
    if (stream->state == ROTA_STREAM_OPEN)
        send_and_tell(stream, rota_stream_pending(stream) > 0);
}

/* --- beginning --- */

void rota_stream_start(struct rota_stream *stream)
{
    struct sockaddr_storage address;
    int size = sizeof address;
    uv_tcp_nodelay(&stream->tcp, 1);
    if (!uv_tcp_getpeername(&stream->tcp, (struct sockaddr *)&address, &size))
        rota_address_format((struct sockaddr *)&address, stream->peer);

    int status = uv_read_start((uv_stream_t *)&stream->tcp, on_alloc, on_read);
    if (status) {
        end_with(stream, ROTA_ERR_IO, uv_strerror(status));
        return;
    }
    if (stream->tls) {
        stream->state = ROTA_STREAM_HANDSHAKE;
        shake_hands(stream);
        return;
    }
    be_open(stream);
    if (stream->state == ROTA_STREAM_OPEN)
        send_and_tell(stream, rota_stream_pending(stream) > 0);
}

enum rota_code rota_stream_accept(uv_loop_t *loop, int fd, const struct rota_tls *tls,
                                  rota_time open_timeout, const struct rota_stream_handler *handler,
                                  void (*on_gone)(void *data), struct rota_stream **stream,
                                  struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_stream *made = rota_stream_new(loop);
    if (!made) {
        close(fd);
        return rota_error_no_memory(error, "for a connection");
    }
    int status = uv_tcp_open(&made->tcp, fd);
    if (status) {
        close(fd);
        code = rota_error_set(error, ROTA_ERR_IO, "a connection: %s", uv_strerror(status));
    } else if (tls) {
        code = rota_tls_session_new(tls, NULL, &made->tls, error);
    }
    if (code) {
        rota_stream_destroy(made);
        return code;
    }
    made->handler = *handler;
    made->on_gone = on_gone;
    made->gone_data = handler->data;
    *stream = made;
    rota_stream_set_timer(made, (uint64_t)(open_timeout / ROTA_MSEC));
    rota_stream_start(made);
    return ROTA_OK;
}

/* --- the owner's side --- */

void rota_stream_set_handler(struct rota_stream *stream, const struct rota_stream_handler *handler)
{
    if (stream->state < ROTA_STREAM_LINGERING)
        stream->handler = *handler;
}

static enum rota_code check_send_room(const struct rota_stream *stream, size_t size)
{
    if (stream->state >= ROTA_STREAM_LINGERING || stream->failure.code)
        return ROTA_ERR_UNAVAILABLE;
    size_t pending = rota_stream_pending(stream);
    if (pending > ROTA_STREAM_PENDING_MAX || size > ROTA_STREAM_PENDING_MAX - pending)
        return ROTA_ERR_LIMIT;
    return ROTA_OK;
}

static enum rota_code gather_bytes(struct rota_stream *stream, struct rota_str bytes)
{
    rota_buffer_append_str(&stream->out, bytes);
    if (stream->out.failed) {
        stream->out.failed = false; /* what was collected before is complete */
        return ROTA_ERR_NO_MEMORY;
    }
    return ROTA_OK;
}

enum rota_code rota_stream_send_buffer(struct rota_stream *stream, struct rota_buffer *bytes)
{
    enum rota_code code = bytes->failed ? ROTA_ERR_NO_MEMORY : check_send_room(stream, bytes->size);
    bool is_first = stream->out.size == 0;
    if (code || (!is_first && (code = gather_bytes(stream, rota_buffer_str(bytes)))))
        return code;
    if (is_first)
        swap_buffers(&stream->out, bytes);
    else
        rota_buffer_clear(bytes);
    if (stream->state == ROTA_STREAM_OPEN)
        send_more(stream);
    if (is_first && stream->out.size == 0)
        swap_buffers(&stream->out, bytes);
    return ROTA_OK;
}

void rota_stream_close(struct rota_stream *stream)
{
    if (stream->state < ROTA_STREAM_LINGERING)
        rota_stream_destroy(stream);
}

void rota_stream_finish(struct rota_stream *stream)
{
    if (stream->state == ROTA_STREAM_OPEN && !stream->failure.code)
        start_lingering(stream);
    else
        rota_stream_close(stream);
}

const char *rota_stream_peer(const struct rota_stream *stream)
{
    return stream->peer;
}

const char *rota_stream_identity(const struct rota_stream *stream)
{
    return stream->identity;
}

bool rota_stream_is_named(const struct rota_stream *stream, const char *name)
{
    return stream->tls && rota_tls_session_is_named(stream->tls, name);
}

enum rota_code rota_stream_check_plain(const struct sockaddr *address, bool insecure,
                                       struct rota_error *error)
{
    char text[ROTA_ADDRESS_TEXT_MAX];
    if (insecure || rota_address_is_loopback(address))
        return ROTA_OK;
    return rota_error_set(
        error, ROTA_ERR_INVALID,
        "%s is not a loopback address, and plaintext is allowed only on loopback: use TLS "
        "(--tls-ca for commands), or allow plaintext (--insecure for commands)",
        rota_address_format(address, text));
}
