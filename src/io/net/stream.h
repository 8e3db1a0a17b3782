/* A stream: bytes to and from one peer over TCP, plain or under TLS.
 *
 *     resolving -> connecting -> handshake -> open -> ended
 *
 * It belongs to its loop's thread. Callbacks are called from the loop only, never from inside a
 * function of this header, and in this order: on_open, then on_data and on_drained, then on_close.
 * Every stream ends in exactly one of two ways:
 *
 *   - it ends on its own: on_close is called, once, as the last callback, and the
 *     stream is freed when it returns;
 *   - its owner ends it with rota_stream_close() or rota_stream_finish(): the
 *     stream is gone at once and no callback is called after that, not even on_close.
 *
 * Both may be called from any callback of the same or of another stream, and from on_close they do
 * nothing.
 *
 * Writing never waits and never fails halfway: what the kernel does not take at once is kept, and
 * sent when it does. An owner with much to write checks rota_stream_pending(), pauses, and
 * continues in on_drained: while bytes are pending, either on_drained or on_close is still to come.
 *
 * SIGPIPE is blocked on a thread that has created a stream.
 *
 * Plain text is for this machine alone: see rota_stream_check_plain(). */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>

struct rota_stream;
struct rota_tls;
struct sockaddr;
struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_STREAM_READ_SIZE = 64 << 10,   /* on_data gets at most this many bytes */
    ROTA_STREAM_PENDING_MAX = 16 << 20, /* bytes written and not yet with the kernel */
    ROTA_STREAM_ADDRESSES_MAX = 16,     /* addresses of a name that are tried */
};

#define ROTA_STREAM_OPEN_TIMEOUT (10 * ROTA_SEC)
#define ROTA_STREAM_LINGER       (5 * ROTA_SEC) /* how long a finished stream may take to end */

/* The owner's callbacks. Any of them may be NULL. */
struct rota_stream_handler {
    /* Connected and, under TLS, the peer verified. A client that showed a
     * certificate learns later, by on_close, that the server refused it. */
    void (*on_open)(void *data);

    /* At most ROTA_STREAM_READ_SIZE bytes, never none. */
    void (*on_data)(void *data, struct rota_str bytes);

    /* All bytes written so far are with the kernel, after some had to wait. */
    void (*on_drained)(void *data);

    /* The stream has ended on its own; bytes still pending are lost. The code is ROTA_OK when the
     * peer closed it cleanly, ROTA_ERR_NOT_FOUND for a name without address, ROTA_ERR_UNAVAILABLE
     * when connecting failed, ROTA_ERR_INVALID for a name whose addresses do not allow plain text,
     * ROTA_ERR_IO for all else. There always is a sentence, and it names the peer. */
    void (*on_close)(void *data, const struct rota_error *reason);

    void *data; /* kept */
};

struct rota_stream_options {
    const struct rota_tls *tls; /* used during the call; NULL means plain text */
    const char *tls_name;       /* verified instead of the address's host; NULL means that */
    rota_time open_timeout;     /* until on_open; 0 means ROTA_STREAM_OPEN_TIMEOUT */
    bool insecure;              /* plain text to other machines too */
};

/* Connect to `address`, "host:port" with a name, an IPv4 address or an IPv6 address in brackets;
 * all addresses of a name are tried. Gives `*stream`, which can be written to at once, and ends
 * as described above. `options` may be NULL; `handler` is copied. Fails only on a bad address,
 * on one that does not allow plain text, or without memory. */
enum rota_code rota_stream_connect(struct uv_loop_s *loop, const char *address,
                                   const struct rota_stream_options *options,
                                   const struct rota_stream_handler *handler,
                                   struct rota_stream **stream, struct rota_error *error);

/* Notify `handler` (copied) from now on. An accepted stream has no handler at first. */
void rota_stream_set_handler(struct rota_stream *stream, const struct rota_stream_handler *handler);

/* Write `bytes`, without a copy where that is possible: takes their content; the buffer is empty
 * afterwards and holds its old memory again if the kernel took all, other memory if not. On failure
 * it is left alone and nothing was written: ROTA_ERR_LIMIT when ROTA_STREAM_PENDING_MAX would be
 * exceeded, ROTA_ERR_UNAVAILABLE when the stream can no longer send (its on_close follows). */
enum rota_code rota_stream_send_buffer(struct rota_stream *stream, struct rota_buffer *bytes);

/* How many bytes are written and not yet with the kernel. */
size_t rota_stream_pending(const struct rota_stream *stream);

/* Drop the stream and pending bytes. Takes `stream`; no callback is called after this. */
void rota_stream_close(struct rota_stream *stream);

/* Send pending bytes, say goodbye and wait for the peer's end, in the background and for at most
 * ROTA_STREAM_LINGER. Takes `stream`; no callback is called after this. A stream that is not
 * open yet is closed. */
void rota_stream_finish(struct rota_stream *stream);

/* The peer's address, "127.0.0.1:4711"; before the connection is open, the one that was
 * requested. Borrowed until the stream has ended. */
const char *rota_stream_peer(const struct rota_stream *stream);

/* The subject and the names of the peer's certificate, for logs: "CN=worker-1
 * DNS:worker-1 IP:10.0.0.7"; "" without one. Borrowed until the stream has
 * ended. */
const char *rota_stream_identity(const struct rota_stream *stream);

/* Did the peer show a certificate with this name, as its common name or as an alternative DNS
 * name? */
bool rota_stream_is_named(const struct rota_stream *stream, const char *name);

/* May plain text be spoken at this (resolved) address? Inside this machine,
 * 127.0.0.0/8 and ::1, always; elsewhere only when `insecure` was asked for.
 * ROTA_ERR_INVALID otherwise. Any thread. */
enum rota_code rota_stream_check_plain(const struct sockaddr *address, bool insecure,
                                       struct rota_error *error);
