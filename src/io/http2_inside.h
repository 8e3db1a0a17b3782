/* The inside of http2, shared by its four files and nobody else: the session
 * itself (http2.c), what it hears (http2_hear.c), what it sends (http2_send.c),
 * and calls as memory (http2_call.c). Only these know nghttp2. */
#pragma once

#include "io/http2.h"

struct nghttp2_session;
struct nghttp2_session_callbacks;

struct rota_http2_list {
    struct rota_http2_call *first, *last;
};

struct rota_http2 {
    struct nghttp2_session *h2; /* NULL while being freed */
    struct rota_http2_options options;
    struct rota_http2_handler handler;
    struct rota_http2_list calls;      /* with a stream */
    struct rota_http2_list queue;      /* waiting for the peer's limit, oldest first */
    struct rota_http2_call *with_room; /* refused a message, to be told of room */
    size_t n_open, n_queued;
    size_t in_size, out_size;
    size_t n_since_pull, size_since_pull;

    rota_time now, heard_at, pinged_at; /* pinged_at: 0 when no answer is awaited */
    rota_time refilled_at, peer_pinged_at;
    double reset_tokens;
    uint32_t n_strikes;
    bool has_heard_call; /* since the peer's last ping */
    bool is_busy;        /* inside nghttp2: no freeing, no feeding */
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

/* --- http2_hear.c --- */

/* Have nghttp2 tell us what it hears and does. */
void rota_http2_listen(struct nghttp2_session_callbacks *callbacks);
