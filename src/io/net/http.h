/* http: a server for browsers and scripts: HTTP/1.1, by libmicrohttpd, on the loop.
 *
 * The handler gets each complete request, and answers it with bytes, now or later, or with a
 * stream: every request is answered exactly once, even if its client has disconnected meanwhile. A
 * stream ends when its owner closes it, or when the client disconnects or reads too slowly; then
 * the owner is notified.
 *
 * Connections are bounded, in all and for each peer address (core/call/get/places.h). A connection
 * beyond that gets a place in reserve: it may request what the handler calls urgent, gets 503 for
 * anything else, and ends with the answer. The memory of incomplete requests is bounded, too. A
 * connection that has not sent a complete request in time is closed, even if it keeps sending
 * bytes.
 *
 * Nothing is decided here: paths, tokens and access belong to the handler. Everything runs on
 * the loop's thread. */
#pragma once

#include "io/net/address.h"
#include "wire/grpc/http_target.h"

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_http;
struct rota_http_request;
struct rota_http_stream;
struct uv_loop_s;

enum {
    ROTA_HTTP_TARGET_MAX = ROTA_HTTP_TARGET_SIZE_MAX, /* bytes of a path with its query */
    ROTA_HTTP_BODY_MAX = 1 << 20,                     /* the default; see the options */
    ROTA_HTTP_CONNECTIONS_MAX = 1024,                 /* the default; see the options */
    ROTA_HTTP_RESERVE = 32,                           /* connections beyond these */
    ROTA_HTTP_BODIES_MAX = 64 << 20,                  /* the default; see the options */
    ROTA_HTTP_MEMORY = 32 << 10,    /* of one connection: its header fields must fit */
    ROTA_HTTP_STREAM_MAX = 4 << 20, /* bytes that wait for a slow client; then it is cut off */
};

#define ROTA_HTTP_SILENCE      (60 * ROTA_SEC)  /* a connection that sends nothing ends */
#define ROTA_HTTP_IDLE         (300 * ROTA_SEC) /* one without a whole request; see the options */
#define ROTA_HTTP_RESERVE_TIME (5 * ROTA_SEC)   /* the same of one in reserve */

enum rota_http_method {
    ROTA_HTTP_GET, /* HEAD too: the server omits the body of the answer */
    ROTA_HTTP_POST,
    ROTA_HTTP_PUT,
    ROTA_HTTP_DELETE,
    ROTA_HTTP_OTHER, /* any other: the handler chooses the error */
};

struct rota_http_options {
    size_t body_max;               /* bytes of a request; 0 means ROTA_HTTP_BODY_MAX */
    uint32_t connections_max;      /* at one time; 0 means ROTA_HTTP_CONNECTIONS_MAX */
    uint32_t peer_connections_max; /* of one peer address; 0 means half of them */
    size_t bodies_max;             /* bytes of all requests; 0 means ROTA_HTTP_BODIES_MAX */
    rota_time idle_timeout;        /* for a whole request; 0 means ROTA_HTTP_IDLE */
    bool insecure;                 /* on other addresses than loopback too: it is plain text */
};

enum rota_http_bound {
    ROTA_HTTP_BOUND_PEER,        /* a peer address has its share of the connections */
    ROTA_HTTP_BOUND_CONNECTIONS, /* all are in use */
    ROTA_HTTP_BOUND_BODIES,      /* all requests together hold too many bytes */
};
enum { ROTA_HTTP_BOUNDS = ROTA_HTTP_BOUND_BODIES + 1 };

struct rota_http_handler {
    /* Gives `request`: answer it once. */
    void (*on_request)(void *data, struct rota_http_request *request);

    /* Whether a request for `target` is answered on a connection in reserve, too. NULL: none. */
    bool (*is_urgent)(void *data, struct rota_str target);

    /* A bound was reached, and a connection is in reserve for it (or a request rejected, for
     * BODIES). May be NULL. */
    void (*on_full)(void *data, enum rota_http_bound bound, const char *peer);
    void *data; /* kept */
};

/* Listen at `address`, "host:port"; port 0 lets the kernel choose. Gives `*http`;
 * rota_http_close() ends it. `options` may be NULL; `handler` is copied. */
enum rota_code rota_http_open(struct uv_loop_s *loop, const char *address,
                              const struct rota_http_options *options,
                              const struct rota_http_handler *handler, struct rota_http **http,
                              struct rota_error *error);

/* Takes `http`, which may be NULL, after all its requests were answered. Streams are ended, and
 * their owners notified. The loop has to run once more to free it. */
void rota_http_close(struct rota_http *http);

/* Where it listens, with the port that was chosen: "127.0.0.1:40123". */
const char *rota_http_address(const struct rota_http *http);

/* --- a request; what is borrowed is valid until it is answered --- */

enum rota_http_method rota_http_method(const struct rota_http_request *request);

/* The path and the query as received, not decoded: "/api/v1/jobs?queue=mail". */
struct rota_str rota_http_target(const struct rota_http_request *request);
struct rota_str rota_http_body(const struct rota_http_request *request);

/* The first field of this name, in any case; empty when there is none. */
struct rota_str rota_http_field(const struct rota_http_request *request, const char *name);

/* The peer of the request, "10.0.0.2:41230"; "unknown" when its connection is closed. Returns
 * `text`. */
char *rota_http_peer(const struct rota_http_request *request, char text[ROTA_ADDRESS_TEXT_MAX]);

/* A field of an answer; everything is copied. */
struct rota_http_field {
    const char *name, *value;
};

/* Answer with `status` and `body`, copied. Takes `request`. */
void rota_http_answer(struct rota_http_request *request, unsigned status,
                      const struct rota_http_field *fields, size_t n_fields, struct rota_str body);

/* The same with static bytes, such as a page embedded in the program. */
void rota_http_answer_static(struct rota_http_request *request, unsigned status,
                             const struct rota_http_field *fields, size_t n_fields,
                             struct rota_str body);

/* --- a stream --- */

/* Answer with a stream. Takes `request`; gives the stream, which rota_http_stream_close() ends,
 * or `on_gone` when the client has disconnected or is too slow. NULL without memory: the request
 * was answered with that error. */
struct rota_http_stream *rota_http_answer_stream(struct rota_http_request *request, unsigned status,
                                                 const struct rota_http_field *fields,
                                                 size_t n_fields, void (*on_gone)(void *data),
                                                 void *data);

/* Send `bytes`, copied. Only this detects a client that has disconnected, so send something now
 * and then. `on_gone` is never called from within. */
void rota_http_stream_send(struct rota_http_stream *stream, struct rota_str bytes);

/* What was sent is still delivered. Takes `stream`; `on_gone` is not called after this. */
void rota_http_stream_close(struct rota_http_stream *stream);
