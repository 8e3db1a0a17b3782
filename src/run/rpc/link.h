/* link: an HTTP/2 session on a stream, and the timer it needs.
 *
 * It moves bytes between the two: input is fed in slices, with output pulled in between, so that
 * both sides of the connection work at the same time; output from other callers is sent before the
 * loop next sleeps. Writes have ROTA_LINK_WRITE_SIZE and a frame, since each one wakes the peer.
 * When the peer does not read, at most ROTA_LINK_PENDING_MAX is queued.
 *
 * A link may be closed from anywhere, its own callbacks included: it is freed when the last of
 * them has returned. */
#pragma once

#include "io/net/stream.h"
#include "wire/http2/http2.h"

struct rota_link;

enum {
    ROTA_LINK_WRITE_SIZE = 64 << 10,
    ROTA_LINK_PENDING_MAX = 1 << 20,
};

#define ROTA_LINK_FIRST_TIMEOUT (10 * ROTA_SEC) /* for a peer's first message, by default */

struct rota_link_handler {
    void (*on_open)(void *data);        /* a client's: connected. May be NULL. */
    void (*on_first_heard)(void *data); /* the peer speaks HTTP/2. May be NULL. */
    /* It has ended on its own; the calls end after this. */
    void (*on_gone)(void *data, const struct rota_error *reason, enum rota_http2_fault fault);
    /* The last callback, after on_gone or rota_link_close(). */
    void (*on_freed)(void *data);
    void *data; /* kept */
};

/* A link without stream; the options are for its session. */
enum rota_code rota_link_new(struct uv_loop_s *loop, const struct rota_http2_options *options,
                             const struct rota_http2_handler *calls,
                             const struct rota_link_handler *handler, struct rota_link **link,
                             struct rota_error *error);

/* Connect it, or give it an open stream; takes `stream`. When connecting fails at once the link
 * is unchanged. A peer that has not sent its HTTP/2 preface and settings within `open_timeout`
 * is dropped; 0 means ROTA_LINK_FIRST_TIMEOUT. */
enum rota_code rota_link_connect(struct rota_link *link, const char *address,
                                 const struct rota_stream_options *options,
                                 struct rota_error *error);
void rota_link_accept(struct rota_link *link, struct rota_stream *stream, rota_time open_timeout);

/* Drop it. Its calls end; on_gone is not called. NULL is fine. */
void rota_link_close(struct rota_link *link, const char *reason);

/* Something was started or finished in the session: send it soon. */
void rota_link_touch(struct rota_link *link);

/* rota_http2_resume() from outside of the link's callbacks, and its consequences. */
void rota_link_resume(struct rota_link *link, struct rota_http2_call *call);

struct rota_http2 *rota_link_session(struct rota_link *link);
const struct rota_stream *rota_link_stream(const struct rota_link *link);

/* Is this thread inside a callback of any link or of its owner? Owners mark
 * theirs with enter and leave. */
void rota_link_enter(void);
void rota_link_leave(void);
bool rota_link_is_inside(void);
