/* A listener: accepts connections at an address and makes a stream of each.
 *
 * A stream is delivered when it is open, so a peer that connects and sends nothing in the TLS
 * handshake takes a place for `open_timeout` and the owner never sees it. A peer address has a
 * share of the places, and further connections from it are closed at once (core/call/get/places.h).
 * When all places are taken further peers wait in the kernel's queue; when the process has no file
 * descriptors left accepting pauses for ROTA_LISTENER_PAUSE. Both end by themselves. */
#pragma once

#include "io/net/address.h"
#include "io/net/stream.h"

#include <stdint.h>

struct rota_listener;

enum {
    ROTA_LISTENER_CONNECTIONS_MAX = 10000, /* the default; see the options */
    ROTA_LISTENER_BACKLOG = 1024,
};

#define ROTA_LISTENER_PAUSE (100 * ROTA_MSEC)

struct rota_listener_options {
    struct rota_tls *tls;          /* kept; NULL means plain text */
    rota_time open_timeout;        /* for the handshake; 0 means ROTA_STREAM_OPEN_TIMEOUT */
    uint32_t connections_max;      /* at one time; 0 means ROTA_LISTENER_CONNECTIONS_MAX */
    uint32_t peer_connections_max; /* of one peer address; 0 means half of them */
    bool insecure;                 /* plain text on other addresses than loopback too */
    const char *instead;           /* the alternative to plain text; NULL means TLS */
};

struct rota_listener_handler {
    /* A stream that is open. Gives `stream`: call rota_stream_set_handler() now
     * or soon; without, data is read and dropped until the peer ends it. */
    void (*on_accept)(void *data, struct rota_stream *stream);

    /* A peer that did not get so far: no TLS, no certificate, too slow. May be
     * NULL. */
    void (*on_refused)(void *data, const char *peer, const struct rota_error *reason);

    /* A peer was closed at once because its address has its share of the connections
     * (`is_peer`), or all are in use and more peers may wait. May be NULL. */
    void (*on_full)(void *data, const char *peer, bool is_peer);

    void *data; /* kept */
};

struct rota_listener_counts {
    uint32_t connections;   /* now, including those in the handshake */
    uint64_t accepted;      /* handed out, ever */
    uint64_t refused;       /* failed in the handshake, ever */
    uint64_t accept_errors; /* accept(2) failed, as without file descriptors, ever */
};

/* Listen at `address`, "host:port"; port 0 lets the kernel choose. Gives
 * `*listener`; rota_listener_close() ends it. `options` may be NULL; `handler`
 * is copied. Looks up a name at once, so give it one of this machine. */
enum rota_code rota_listener_open(struct uv_loop_s *loop, const char *address,
                                  const struct rota_listener_options *options,
                                  const struct rota_listener_handler *handler,
                                  struct rota_listener **listener, struct rota_error *error);

/* Only a socket that listens at `address`, for callers that accept themselves. Gives `*fd`, and
 * the bound address. */
enum rota_code rota_listener_bind(struct uv_loop_s *loop, const char *address,
                                  const struct rota_listener_options *options, int *fd,
                                  char bound[ROTA_ADDRESS_TEXT_MAX], struct rota_error *error);

/* Stop listening. Takes `listener`, which may be NULL; no callback of it is called after this.
 * Streams that were delivered live on, those in the handshake do not. */
void rota_listener_close(struct rota_listener *listener);

/* Where it listens, with the port that was chosen: "127.0.0.1:40123". */
const char *rota_listener_address(const struct rota_listener *listener);

struct rota_listener_counts rota_listener_counts(const struct rota_listener *listener);
