/* The inside of a stream, for stream.c, which moves bytes once the connection is open,
 * stream_connect.c, which opens it, and listener.c.
 *
 * Three buffers are between the owner and the kernel. `out` collects what the owner writes. Under
 * TLS it is encrypted into `wire`, where alerts and other bytes of TLS itself also go. libuv uses
 * `sending`, which must not move while `is_writing`; it is swapped with `out` or `wire` when it is
 * empty, and back when the kernel took everything at once: so cached memory is reused.
 *
 * Invariant: the memory lives until all handles are closed and the name lookup is done
 * (`n_holds` is 0); a callback that finds CLOSED does nothing. */
#pragma once

#include "io/net/address.h"
#include "io/net/stream.h"
#include "io/net/tls_session.h"

#include <uv.h>

enum rota_stream_state {
    ROTA_STREAM_CONNECTING, /* or about to */
    ROTA_STREAM_RESOLVING,
    ROTA_STREAM_HANDSHAKE,
    ROTA_STREAM_OPEN,
    ROTA_STREAM_LINGERING, /* without owner: sends the rest, waits for the peer's end */
    ROTA_STREAM_CLOSED,    /* waits for its memory to be freed */
};

/* The state of connecting. */
struct rota_stream_dial {
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    char address[ROTA_ADDRESS_TEXT_MAX]; /* as asked for */
    uint64_t deadline_ms;                /* by uv_now() */
    bool insecure;
    struct sockaddr_storage targets[ROTA_STREAM_ADDRESSES_MAX];
    size_t n_targets, next;
    struct rota_error error; /* of the last target that was tried or skipped */
};

struct rota_stream {
    uv_tcp_t tcp;
    uv_timer_t timer; /* for whatever the state waits for */
    uv_write_t write;
    uv_shutdown_t shutdown;
    int n_holds;

    enum rota_stream_state state;
    struct rota_stream_handler handler;
    struct rota_stream_dial *dial; /* NULL once connected */
    struct rota_tls_session *tls;  /* NULL: plain text */

    struct rota_buffer out, wire, sending;
    size_t sent; /* of `sending` */
    bool is_writing;
    bool has_read;             /* at least one byte was received */
    bool has_said_bye;         /* TLS was closed, or can no longer be */
    bool is_shut, has_shut;    /* nothing more will be sent; and the kernel knows */
    bool has_peer_ended;       /* while lingering */
    struct rota_error failure; /* of writing; ROTA_OK: none */

    char peer[ROTA_ADDRESS_TEXT_MAX];
    char identity[ROTA_TLS_IDENTITY_MAX];

    void (*on_gone)(void *data); /* the file descriptor and the memory are free; may be NULL */
    void *gone_data;
};

/* A stream without a connection; NULL without memory. */
struct rota_stream *rota_stream_new(uv_loop_t *loop);

/* The TCP connection is open: continue with the handshake, or be open. */
void rota_stream_start(struct rota_stream *stream);

/* End the stream and report the reason to its owner. From the loop only. */
void rota_stream_end(struct rota_stream *stream, const struct rota_error *reason);

/* End the stream without notifying anyone. */
void rota_stream_destroy(struct rota_stream *stream);

/* Drop one of the references that keep the memory. */
void rota_stream_release(struct rota_stream *stream);

/* Set the one timer, in milliseconds: its meaning depends on the state. */
void rota_stream_set_timer(struct rota_stream *stream, uint64_t ms);

/* In stream_connect.c: time is up while resolving or connecting. */
void rota_stream_connect_dial_timeout(struct rota_stream *stream);

/* Make a stream of an accepted socket. Takes `fd`; `*stream` is set before the
 * first callback, which may come at once. */
enum rota_code rota_stream_accept(uv_loop_t *loop, int fd, const struct rota_tls *tls,
                                  rota_time open_timeout, const struct rota_stream_handler *handler,
                                  void (*on_gone)(void *data), struct rota_stream **stream,
                                  struct rota_error *error);
