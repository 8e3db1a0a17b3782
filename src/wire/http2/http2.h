/* http2: gRPC calls over one HTTP/2 connection, either side of it.
 *
 * It does no I/O: bytes from the peer are fed in, bytes for the peer are pulled out, the time is an
 * argument. Calls are in the owner's memory (which embeds a rota_http2_call), so that a call in
 * steady state allocates nothing; a call belongs to the session from rota_http2_start() or
 * on_accept until on_release.
 *
 * A client's requests are one message; replies are one message or a stream of them. A server also
 * accepts streams of requests.
 *
 * What a peer can make us hold is bounded: streams, header fields, bytes of unanswered requests and
 * of unread replies, and frames that cost us more than the peer (resets, pings, settings). Above a
 * bound of one call, that call is rejected and the connection continues; above a bound of the
 * connection, the connection ends and `rota_http2_fault` says why.
 *
 * A session is never freed from inside one of its callbacks. */
#pragma once

#include "base/list.h"
#include "core/call/get/held.h"
#include "wire/grpc/grpc_head.h"

#include <rota/error.h>

enum {
    ROTA_HTTP2_STREAMS_MAX = 1024,          /* calls of a peer at one time */
    ROTA_HTTP2_QUEUE_MAX = 65536,           /* calls that wait for the peer's limit */
    ROTA_HTTP2_STREAM_WINDOW = 1 << 20,     /* bytes of one call on the way to us */
    ROTA_HTTP2_CONNECTION_WINDOW = 8 << 20, /* the same, of all calls */
    ROTA_HTTP2_IN_MAX = 64 << 20,           /* bytes of messages held for all calls */
    ROTA_HTTP2_OUT_MAX = 64 << 20,          /* bytes of replies not yet taken, all calls */
    ROTA_HTTP2_STREAM_OUT_MAX = 1 << 20,    /* the same, of a call with several replies */
    ROTA_HTTP2_SLICE = 4 << 10,             /* bytes fed in one go */
    ROTA_HTTP2_FLUSH_CALLS = 32,            /* after this many, bytes should be sent */
    ROTA_HTTP2_FLUSH_SIZE = 32 << 10,       /* or after this many bytes */
    ROTA_HTTP2_RESETS_BURST = 10000,        /* calls dropped by the peer at once, */
    ROTA_HTTP2_RESETS_PER_SEC = 1000,       /* and on and on */
    ROTA_HTTP2_TRIFLES_MAX = 10000,         /* frames that change nothing: PRIORITY, unknown, */
    ROTA_HTTP2_TRIFLES_PER_USE = 100,       /* empty DATA, WINDOW_UPDATE; and more of them for
                                             * each call and each DATA frame that we send */
    ROTA_HTTP2_LARGE_HEAD_COST = 300,       /* this many of them are too large a head */
    ROTA_HTTP2_PING_STRIKES_MAX = 16, /* pings that arrived too soon, without a call in between */
    ROTA_HTTP2_SETTINGS_MAX = 32,     /* entries in one SETTINGS frame, */
    ROTA_HTTP2_SETTINGS_BURST = 1000, /* such frames at once, */
    ROTA_HTTP2_SETTINGS_PER_SEC = 10, /* and on and on */
    ROTA_HTTP2_ACKS_MAX = 1000,       /* acknowledgements the peer does not read */
    ROTA_HTTP2_FRAMES_MAX = 16384,    /* frames without data the client does not read */
    ROTA_HTTP2_CONTINUATIONS_MAX = 8, /* frames that continue one header */
    ROTA_HTTP2_CALL_KEPT_MAX = 64 << 10, /* bytes a call at rest keeps in each buffer */
    ROTA_HTTP2_PACK_MIN = 256,           /* the minimum size of a message worth compressing */
    ROTA_HTTP2_PACK_MAX = 256 << 10,     /* larger ones would hold up the loop */
};

#define ROTA_HTTP2_PING_INTERVAL_MIN ROTA_SEC /* sooner than this is a strike */

struct rota_http2;

/* How a call ended. Borrowed during the callback. */
struct rota_http2_result {
    enum rota_status status;
    struct rota_str text;
    bool is_unsent; /* the peer has not and will not act on it: safe to try again */
};

/* One call. Starts zeroed, with rota_http2_call_init(); only `head` and
 * `message` are for others to read. */
struct rota_http2_call {
    struct rota_grpc_head head; /* what the peer sent: request, or reply with trailers */
    struct rota_grpc_decoder decoder;
    struct rota_grpc_fields sent; /* what we send besides the messages */
    struct rota_buffer path;      /* of our request */
    struct rota_buffer out;       /* our messages, framed */
    struct rota_buffer held;      /* bytes that arrived while paused */

    /* Everything from here on is zeroed before each use. */
    struct rota_http2 *session; /* NULL while no session has it */
    struct rota_http2_call *next_with_room, *next_in_bucket;
    struct rota_list_node link;    /* in `calls`, or `queue` */
    struct rota_list_node writing; /* in `ready`, or `blocked` */
    size_t timeout_size;
    size_t out_at; /* how much of `out` is sent */
    size_t in_size, n_messages;
    size_t n_sent_head;           /* of `sent`, for the head; the others are trailers */
    uint64_t room_told;           /* the round in which it was last notified of room */
    int64_t body_size;            /* bytes received, to compare with a content-length */
    int64_t out_window;           /* the peer's window for this call */
    uint32_t in_window, in_taken; /* bytes received, and consumed, since the last window update */
    uint32_t close_code;          /* of its stream, or to close it with */
    int32_t stream;               /* 0: none yet */
    enum rota_status status;      /* of our reply */
    char status_text[2];
    char timeout[ROTA_GRPC_TIMEOUT_MAX];

    bool is_streaming;  /* several messages arrive: replies, or at a server requests */
    bool is_queued;     /* waits for the peer's limit */
    bool is_not_sent;   /* HTTP/2 could no longer send it */
    bool is_replying;   /* the reply's head is given */
    bool is_http;       /* the reply is plain HTTP */
    bool is_head_out;   /* our head is sent, */
    bool is_all_out;    /* and our last word */
    bool is_dropped;    /* its stream is to be reset */
    bool has_reply;     /* a client's: the reply's headers have arrived, trailers may follow */
    bool is_finished;   /* a server's: it is finished */
    bool is_ended;      /* its owner was notified, or does not want to be */
    bool is_heard;      /* the peer has ended its side */
    bool is_paused;     /* its owner takes no message now, */
    bool is_delivering; /* is being given one, */
    bool is_closed;     /* and has some left although the stream is closed */
    bool wants_room;    /* a send was rejected, and it is in the list of those */
};

/* The owner's callbacks. The first three are for a server; on_goaway for a client. None may free
 * the session. */
struct rota_http2_handler {
    /* Memory for a new call; NULL rejects it. */
    struct rota_http2_call *(*on_accept)(void *data);
    /* Its head is there; the owner may finish it at once. */
    void (*on_head)(void *data, struct rota_http2_call *call);
    /* Its message has arrived: `call->decoder.message`. When there are several, on_message was
     * called for each. */
    void (*on_request)(void *data, struct rota_http2_call *call);
    /* A message of several; the reply of a call with one waits for on_end. */
    void (*on_message)(void *data, struct rota_http2_call *call, struct rota_str message);
    /* A client's call has ended, once. A server's call that was not finished can no longer be:
     * the client cancelled it, or has disconnected. */
    void (*on_end)(void *data, struct rota_http2_call *call,
                   const struct rota_http2_result *result);
    /* A send that was refused for lack of room would succeed now. */
    void (*on_room)(void *data, struct rota_http2_call *call);
    /* The session has forgotten the call; its memory is the owner's again. */
    void (*on_release)(void *data, struct rota_http2_call *call);
    /* No further call may be started here; those in progress go on. `is_calm` is false when the
     * peer complains of too much, such as pings. */
    void (*on_goaway)(void *data, bool is_calm);
    void *data; /* kept */
};

struct rota_http2_options {
    bool is_server;
    bool is_tls;                  /* for the scheme a client names */
    const char *authority;        /* a client's; kept */
    size_t message_max;           /* 0 means ROTA_GRPC_MESSAGE_MAX */
    uint32_t streams_max;         /* a server's; 0 means ROTA_HTTP2_STREAMS_MAX */
    uint32_t queue_max;           /* a client's; 0 means ROTA_HTTP2_QUEUE_MAX */
    rota_time keepalive_interval; /* of silence before a ping; 0 means never */
    rota_time keepalive_timeout;  /* for its answer; 0 means 20 s */
    rota_time keepalive_call;     /* idle time after a call before a ping; 0 means as above */

    /* A server's: a connection is closed after this long without a call whose request is
     * complete, and without a byte of a reply that the peer reads. 0 means never. */
    rota_time idle_timeout;

    /* What all sessions of a server hold, and what to do when that rejects a call; kept, NULL
     * means that only this session's own bounds count. */
    struct rota_held *held;
    void (*on_held_full)(void *data);
    void *held_data;
};

/* Why a session had to end. */
enum rota_http2_fault {
    ROTA_HTTP2_FAULT_NONE,
    ROTA_HTTP2_FAULT_NOT_HTTP2, /* the first bytes are something else */
    ROTA_HTTP2_FAULT_PROTOCOL,  /* the peer broke HTTP/2's rules */
    ROTA_HTTP2_FAULT_RESETS,    /* it opens calls to drop them */
    ROTA_HTTP2_FAULT_PINGS,     /* it pings for no reason */
    ROTA_HTTP2_FAULT_SETTINGS,  /* it changes its settings all the time */
    ROTA_HTTP2_FAULT_FLOOD,     /* it makes us answer more than it reads, or read for nothing */
    ROTA_HTTP2_FAULT_SILENT,    /* it never sent anything, or did not answer a ping in time */
    ROTA_HTTP2_FAULT_NO_MEMORY,
};
enum { ROTA_HTTP2_FAULTS = ROTA_HTTP2_FAULT_NO_MEMORY + 1 };

/* "rapid-reset" for ROTA_HTTP2_FAULT_RESETS, for metrics and logs. */
const char *rota_http2_fault_name(enum rota_http2_fault fault);

/* --- a session --- */

/* Gives `*session`; rota_http2_free() ends it. Options and handler are copied. */
enum rota_code rota_http2_new(const struct rota_http2_options *options,
                              const struct rota_http2_handler *handler, rota_time now,
                              struct rota_http2 **session, struct rota_error *error);

/* Takes `session`, which may be NULL. Calls that have not ended end as
 * UNAVAILABLE (a client's) or CANCELLED, with `reason` as text, and are
 * released. */
void rota_http2_free(struct rota_http2 *session, struct rota_str reason);

/* Feed bytes from the peer: takes a slice from the front of `*bytes`. Call it until they are
 * used up, checking rota_http2_wants_flush() in between. False when the session is over: pull
 * once more, then free. */
bool rota_http2_feed(struct rota_http2 *session, rota_time now, struct rota_str *bytes);

/* Append bytes for the peer to `out` until there are `size_max` or nothing more
 * to send. False when the session is at its end. */
bool rota_http2_pull(struct rota_http2 *session, struct rota_buffer *out, size_t size_max);

bool rota_http2_wants_flush(const struct rota_http2 *session);
bool rota_http2_wants_pull(const struct rota_http2 *session);

/* The peer's settings, its first frame, have arrived: it speaks HTTP/2. */
bool rota_http2_has_begun(const struct rota_http2 *session);

/* Nothing more will be received or sent: the connection can be closed. */
bool rota_http2_is_done(const struct rota_http2 *session);
enum rota_http2_fault rota_http2_fault(const struct rota_http2 *session);

/* A client has started a call: from now on the peer must answer pings. */
void rota_http2_called(struct rota_http2 *session, rota_time now);

/* When a tick is needed next, and the tick: pings, and the lack of an answer. */
rota_time rota_http2_deadline(const struct rota_http2 *session);
bool rota_http2_tick(struct rota_http2 *session, rota_time now);

/* Server: ask the peer to start no more calls, then let those in progress finish; the session is
 * done when they have. Client: the same, without a message. */
void rota_http2_drain(struct rota_http2 *session);

/* Calls that the session has, waiting ones included. */
size_t rota_http2_n_calls(const struct rota_http2 *session);

/* May a call be started here? Not after the peer's GOAWAY. */
bool rota_http2_is_open(const struct rota_http2 *session);

/* --- a call --- */

void rota_http2_call_init(struct rota_http2_call *call);
void rota_http2_call_deinit(struct rota_http2_call *call);

/* Make a call that no session has ready for its next use; keep its memory as
 * far as it is not much. */
void rota_http2_call_reset(struct rota_http2_call *call);

/* Client: write the request into `call`, which was reset, all of it copied. */
enum rota_code rota_http2_call_prepare(struct rota_http2_call *call, struct rota_str path,
                                       struct rota_str message,
                                       const struct rota_metadata *metadata, size_t n_metadata,
                                       bool is_streaming, struct rota_error *error);

/* Client: add metadata to a call that was prepared and is not started. */
enum rota_code rota_http2_call_add(struct rota_http2_call *call,
                                   const struct rota_metadata *metadata, size_t n_metadata,
                                   struct rota_error *error);

/* Client: make a call that was released ready to be started again as it is. */
void rota_http2_call_rewind(struct rota_http2_call *call);

/* Client: start a prepared call; `timeout` is sent to the server, or ROTA_TIME_NEVER.
 * ROTA_ERR_UNAVAILABLE when the session accepts no more calls and ROTA_ERR_LIMIT when too many
 * wait; then the call is unchanged, and can be started on another session. */
enum rota_code rota_http2_start(struct rota_http2 *session, struct rota_http2_call *call,
                                rota_time timeout);

/* Either side: drop the call, and reset it at the peer. Only on_release is called after this,
 * perhaps at once. */
void rota_http2_cancel(struct rota_http2_call *call);

/* Was anything of it sent, so that the peer may act on it? */
bool rota_http2_may_be_sent(const struct rota_http2_call *call);

/* Client, several replies: hold back on_message and on_end, and so eventually the sender; and
 * resume, which may deliver at once what was held back. */
void rota_http2_pause(struct rota_http2_call *call);
void rota_http2_resume(struct rota_http2_call *call);

/* Server, from on_head: the call has a stream of requests. Each is delivered with on_message,
 * and on_request follows the last. */
void rota_http2_expect_stream(struct rota_http2_call *call);

/* Server: pairs for the reply's head, before anything is sent. */
enum rota_code rota_http2_reply_head(struct rota_http2_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error);

/* Server: send a message; it is copied. ROTA_ERR_LIMIT when too much is unsent (on_room comes
 * later), ROTA_ERR_UNAVAILABLE when the client has disconnected. */
enum rota_code rota_http2_send(struct rota_http2_call *call, struct rota_str message);

/* Server: the same without a copy. `message`, which is empty, gets the call's memory for
 * messages, if none waits there, and ROTA_GRPC_PREFIX_SIZE bytes of room in front; write the
 * message after them. Its owner frees it if it is not sent. */
void rota_http2_begin_message(struct rota_http2_call *call, struct rota_buffer *message);

/* Send a message that was begun like that: takes the content of `message`, which is unchanged on
 * failure. */
enum rota_code rota_http2_send_begun(struct rota_http2_call *call, struct rota_buffer *message);

/* Server: end the call. Invalid metadata is left out. No-op when the client has disconnected. */
void rota_http2_finish(struct rota_http2_call *call, enum rota_status status, struct rota_str text,
                       const struct rota_metadata *metadata, size_t n_metadata);
