/* The inside of http2, shared by its five files and nobody else: the session
 * itself (http2.c), what it hears (http2_hear.c), what it sends (http2_send.c),
 * calls as memory (http2_call.c), and memory for nghttp2 (http2_pool.c). Only these
 * know nghttp2. */
#pragma once

#include "io/http2.h"

#include <nghttp2/nghttp2.h>

struct nghttp2_session;
struct nghttp2_session_callbacks;

struct rota_http2_list {
    struct rota_http2_call *first, *last;
};

enum {
    ROTA_HTTP2_POOL_SIZES = 16,      /* kinds of pieces that are kept */
    ROTA_HTTP2_POOL_MAX = 512 << 10, /* bytes kept by one session */
};

/* Memory that nghttp2 gave back. Starts zeroed. */
struct rota_http2_pool {
    void *free[ROTA_HTTP2_POOL_SIZES];
    size_t size;
};

struct rota_http2 {
    struct nghttp2_session *h2; /* NULL while being freed */
    struct rota_http2_pool pool;
    struct rota_http2_options options;
    struct rota_http2_handler handler;
    struct rota_http2_list calls;      /* with a stream */
    struct rota_http2_list queue;      /* waiting for the peer's limit, oldest first */
    struct rota_http2_call *with_room; /* refused a message, to be told of room */
    size_t n_open, n_queued;
    size_t in_size, out_size;
    size_t n_since_pull, size_since_pull;
    struct rota_http2_call *heading; /* whose header fields come just now, in stream */
    int32_t heading_stream;          /* number so and so; NULL when it is nobody's */

    rota_time now, heard_at, pinged_at; /* pinged_at: 0 when no answer is awaited */
    rota_time refilled_at, settings_refilled_at, peer_pinged_at;
    double reset_tokens, settings_tokens;
    uint32_t n_strikes;
    bool has_heard_call; /* since the peer's last ping */
    bool is_busy;        /* inside nghttp2: no freeing, no feeding */
    bool has_said_who;   /* a client's first call names its program */
    bool has_settings;   /* of the server, so that it does speak HTTP/2 */
    bool is_draining, is_final, is_goaway;
    enum rota_http2_fault fault;
};

/* --- http2_call.c --- */

void rota_http2_list_push(struct rota_http2_list *list, struct rota_http2_call *call);
void rota_http2_list_remove(struct rota_http2_list *list, struct rota_http2_call *call);

/* It need not be told of room any more. */
void rota_http2_forget_room(struct rota_http2_call *call);

/* Tell the owner, once, that the call has ended. */
void rota_http2_end(struct rota_http2_call *call, enum rota_status status, struct rota_str text,
                    bool is_unsent);
void rota_http2_end_text(struct rota_http2_call *call, enum rota_status status, const char *text,
                         bool is_unsent);

/* Give the call's memory back to its owner. */
void rota_http2_release(struct rota_http2_call *call);

/* Empty a buffer; keep its memory if it is not much. */
void rota_http2_shrink(struct rota_buffer *buffer);

/* Bring the session's sum of bytes held up to date with the call's. */
void rota_http2_account_in(struct rota_http2_call *call);

/* Append a message to what the call is to send. */
bool rota_http2_frame_out(struct rota_http2_call *call, struct rota_str message);

/* --- http2_send.c --- */

/* The peer lets in more: those that wait longest go. */
void rota_http2_start_queued(struct rota_http2 *session);

/* It lets in none: those that wait end, unsent. */
void rota_http2_fail_queued(struct rota_http2 *session);

/* Refuse what is no gRPC at all, in plain HTTP: status 415. */
void rota_http2_answer_http(struct rota_http2_call *call);

static inline void rota_http2_count_out(struct rota_http2 *session, size_t n_calls, size_t size)
{
    session->n_since_pull += n_calls;
    session->size_since_pull += size;
}

/* --- http2_pool.c --- */

/* How nghttp2 gets its memory; `pool` is kept. */
nghttp2_mem rota_http2_pool_memory(struct rota_http2_pool *pool);
void rota_http2_pool_deinit(struct rota_http2_pool *pool);

/* --- http2_hear.c --- */

/* Have nghttp2 tell us what it hears and does. */
void rota_http2_listen(struct nghttp2_session_callbacks *callbacks);
