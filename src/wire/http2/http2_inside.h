/* The inside of http2, private to its files: the session itself (http2.c), bytes to frames
 * (http2_read.c), the effect of frames on calls (http2_hear.c), calls to frames (http2_write.c),
 * the functions for owners of calls (http2_send.c), and the memory of calls (http2_call.c).
 *
 * A call with something to send is in `ready`, until it is sent or a window is full: then it
 * waits in `blocked` for the connection's window, or in no list for its own. Frames that belong
 * to no call are collected in `control`, and go first. Fields are packed only when their frame
 * is written, so that a call dropped before that leaves no trace. */
#pragma once

#include "wire/http2/http2.h"
#include "wire/http2/http2_frame.h"
#include "wire/http2/http2_memo.h"

struct rota_http2 {
    struct rota_http2_options options;
    struct rota_http2_handler handler;
    struct rota_list_node calls;       /* with a stream, or soon */
    struct rota_list_node queue;       /* waiting for the peer's limit, oldest first */
    struct rota_http2_call *with_room; /* with a rejected message, to be notified of room */
    uint64_t n_room_rounds;            /* how often calls were notified */
    struct rota_http2_call **buckets;  /* those with a stream, by its number */
    size_t n_buckets, n_open, n_queued;
    size_t in_size, out_size;
    size_t n_since_pull, size_since_pull;

    /* Input. */
    struct rota_hpack_decoder decoder;
    struct rota_http2_memo head_memo;    /* most calls begin like the one before, */
    struct rota_grpc_head head;          /* which was this */
    struct rota_buffer in;               /* the begin of a frame that is not DATA */
    struct rota_buffer block;            /* of header fields, while more of it arrives */
    struct rota_http2_frame block_frame; /* which began it; stream 0: none */
    uint32_t n_continued;
    uint32_t magic_at;                 /* how much of it has arrived at a server */
    uint32_t data_left, pad_left;      /* of a DATA frame */
    uint32_t skip_left;                /* of a frame that we do not know */
    struct rota_http2_call *data_call; /* the call of the current DATA; NULL: none */
    bool data_ends;
    int32_t peer_stream; /* the last that the peer began */
    uint32_t in_window;  /* bytes received since the last window update */

    /* Output. */
    struct rota_hpack_encoder encoder;
    struct rota_http2_memo request_memo; /* for this path and timeout */
    struct rota_buffer last_path;
    char last_timeout[ROTA_GRPC_TIMEOUT_MAX];
    size_t last_timeout_size;
    struct rota_http2_memo reply_memo, trailers_memo; /* without metadata, and OK */
    struct rota_buffer control, fields;
    struct rota_list_node ready, blocked; /* to write */
    size_t n_control, n_acks;             /* frames in `control` */
    uint64_t n_trifles, n_uses;
    int32_t next_stream;   /* a client's; negative when there is none left */
    int32_t goaway_stream; /* the last stream that we announced to serve */
    int64_t out_window;
    uint32_t peer_window, peer_streams_max;

    rota_time now, heard_at, pinged_at; /* pinged_at: 0 when no answer is awaited */
    rota_time called_at;                /* the first call since `heard_at`; 0: none */
    rota_time doubted_until;            /* the answer is overdue; 0: it is not */
    rota_time busy_at;                  /* when there was last work for a call */
    bool was_busy;                      /* there was, since the time was last known */
    rota_time end_by; /* of a session that was idle; 0: it is not ended for that */
    rota_time refilled_at, settings_refilled_at, peer_pinged_at;
    double reset_tokens, settings_tokens;
    uint32_t n_strikes;
    bool has_heard_call;   /* since the peer's last ping */
    bool has_settings;     /* the peer's, which come first */
    bool has_settings_ack; /* and it has ours */
    bool is_busy;          /* inside: no freeing, no feeding */
    bool is_freed;         /* being freed: nothing is sent */
    bool is_draining, is_final, is_goaway;
    enum rota_http2_fault fault;
};

/* --- http2_call.c --- */

/* The call with this stream, or NULL. */
struct rota_http2_call *rota_http2_call_find(const struct rota_http2 *session, int32_t stream);

/* Give the call its stream. False when there is no memory. */
bool rota_http2_call_open(struct rota_http2_call *call, int32_t stream);

/* Its stream is closed: notify its owner of the result, and release it, unless the owner has to
 * receive more first. */
void rota_http2_call_close(struct rota_http2_call *call, uint32_t code);

/* It no longer needs to be notified of room. */
void rota_http2_call_forget_room(struct rota_http2_call *call);

/* Notify the owner, once, that the call has ended. */
void rota_http2_call_end(struct rota_http2_call *call, enum rota_status status,
                         struct rota_str text, bool is_unsent);
void rota_http2_call_end_text(struct rota_http2_call *call, enum rota_status status,
                              const char *text, bool is_unsent);

/* What the peer's GOAWAY, or the lack of one, means to a client's caller. */
void rota_http2_call_conclude(struct rota_http2_call *call, bool is_reset, uint32_t code);

/* Has the peer sent everything it had to, and nothing incomplete? */
bool rota_http2_call_is_whole(const struct rota_http2_call *call);

/* Give the call's memory back to its owner. */
void rota_http2_call_release(struct rota_http2_call *call);

/* Empty a buffer; keep its memory if it is not much. */
void rota_http2_call_shrink(struct rota_buffer *buffer);

/* The peer has sent a frame that costs us time and changes nothing. */
void rota_http2_hear_spend_trifles(struct rota_http2 *session, unsigned n);

/* Change a sum of bytes held, and with it that of all sessions. */
void rota_http2_call_hold(struct rota_http2 *session, size_t *size, ptrdiff_t change);

/* May the session hold this many more bytes, within the limit of all sessions together? */
bool rota_http2_call_may_hold(struct rota_http2 *session, size_t more);

/* Bring the session's sum of bytes held up to date with the call's. */
void rota_http2_call_account_in(struct rota_http2_call *call);

/* Append a message to the call's output. */
bool rota_http2_call_frame_out(struct rota_http2_call *call, struct rota_str message);

/* Whether a server packs its replies: as the client has packed its request. */
static inline bool rota_http2_packs(const struct rota_http2_call *call)
{
    return call->session && call->session->options.is_server &&
           call->head.encoding == ROTA_GRPC_GZIP;
}

/* --- http2_write.c --- */

/* The call has something to send. */
void rota_http2_write_wake(struct rota_http2_call *call);
void rota_http2_write_sleep(struct rota_http2_call *call);

/* Reset its stream, with the next output; its owner is no longer called. */
void rota_http2_write_drop(struct rota_http2_call *call, enum rota_http2_error code);

/* Frames of the connection. */
void rota_http2_write_settings(struct rota_http2 *session);
void rota_http2_write_settings_ack(struct rota_http2 *session);
void rota_http2_write_ping(struct rota_http2 *session, const char payload[8], bool is_ack);
void rota_http2_write_goaway(struct rota_http2 *session, int32_t last_stream,
                             enum rota_http2_error code, struct rota_str text);
void rota_http2_write_window(struct rota_http2 *session, int32_t stream, uint32_t size);
void rota_http2_write_reset(struct rota_http2 *session, int32_t stream, enum rota_http2_error code);

/* --- http2_send.c --- */

/* The peer admits more: start those that wait longest. */
void rota_http2_send_start_queued(struct rota_http2 *session);

/* It admits none: waiting calls end, unsent. */
void rota_http2_send_fail_queued(struct rota_http2 *session);

/* Reject what is not gRPC at all, in plain HTTP: status 415. */
void rota_http2_send_answer_http(struct rota_http2_call *call);

static inline void rota_http2_count_out(struct rota_http2 *session, size_t n_calls, size_t size)
{
    session->n_since_pull += n_calls;
    session->size_since_pull += size;
}

/* --- http2_read.c --- */

/* Bytes from the peer; all of them are used up, or there is a fault. */
void rota_http2_read(struct rota_http2 *session, struct rota_str bytes);

/* End the connection, with a reason for the peer. */
void rota_http2_read_fail(struct rota_http2 *session, enum rota_http2_fault fault,
                          enum rota_http2_error code);

/* --- http2_hear.c --- */

void rota_http2_hear_fields(struct rota_http2 *session, const struct rota_http2_frame *frame,
                            struct rota_str block);
/* DATA: the frame begins, brings bytes, ends. */
void rota_http2_hear_data(struct rota_http2 *session, const struct rota_http2_frame *frame,
                          uint32_t padding);
void rota_http2_hear_bytes(struct rota_http2 *session, struct rota_str bytes);
void rota_http2_hear_data_end(struct rota_http2 *session);
void rota_http2_hear_reset(struct rota_http2 *session, int32_t stream, uint32_t code);
void rota_http2_hear_settings(struct rota_http2 *session);
void rota_http2_hear_ping(struct rota_http2 *session);
void rota_http2_hear_ping_ack(struct rota_http2 *session);
void rota_http2_hear_goaway(struct rota_http2 *session, int32_t last_stream, uint32_t code);

/* A call was dropped, by the peer or because of it. */
void rota_http2_hear_spend_reset(struct rota_http2 *session);

/* The stream was opened once, be it closed by now or not. */
bool rota_http2_hear_was_opened(const struct rota_http2 *session, int32_t stream);
