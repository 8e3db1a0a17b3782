/* A channel: calls to one gRPC server, over one connection that is kept up.
 *
 * The channel connects at the first call, or earlier on request, and reconnects after a loss with
 * growing pauses:
 *
 *     IDLE --call or connect--> CONNECTING --connected--> READY --lost--> IDLE
 *     CONNECTING --failed--> BACKOFF --pause over--> CONNECTING, or IDLE
 *
 * A call without a connection waits for the attempt in progress; in BACKOFF it fails at once,
 * unless it sets wait_for_ready.
 *
 * Use a channel only on the loop's thread. Callbacks come from the loop, never from inside a
 * function of this header; they may call any function here except rota_channel_wait(). */
#pragma once

#include <rota/error.h>
#include <rota/rpc.h>
#include <rota/time.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_call;
struct rota_channel;
struct rota_tls;
struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_CHANNEL_CALLS_MAX = 100000,    /* not ended, including those that wait */
    ROTA_CHANNEL_TARGET_MAX = 270,      /* bytes of "host:port" */
    ROTA_CHANNEL_CALLS_KEPT_MAX = 4096, /* finished calls kept for reuse */
    ROTA_CHANNEL_TOKEN_MAX = 256,       /* bytes of a token */
};

enum rota_channel_state {
    ROTA_CHANNEL_IDLE,
    ROTA_CHANNEL_CONNECTING,
    ROTA_CHANNEL_READY,
    ROTA_CHANNEL_BACKOFF,
};

struct rota_channel_options {
    struct rota_tls *tls;      /* kept; NULL means plaintext */
    const char *tls_name;      /* the name in the server's certificate; NULL: the target's */
    bool insecure;             /* allow plaintext to remote hosts */
    rota_time connect_timeout; /* to connect, then to start HTTP/2; 0 means 10 s each */
    rota_time backoff_first;   /* the first pause; 0 means 200 ms */
    rota_time backoff_max;     /* the longest pause; 0 means 30 s */
    /* Of silence before a ping; 0 means 5 min, ROTA_TIME_NEVER none. */
    rota_time keepalive_interval;
    rota_time keepalive_timeout; /* for the reply to a ping; 0 means 20 s */
    rota_time keepalive_call;    /* of silence after a call before a ping; 0: the interval */
    size_t message_max;          /* bytes of a reply; 0 means 4 MiB */
    uint32_t calls_max;          /* 0 means ROTA_CHANNEL_CALLS_MAX */

    /* Sent with every call as "authorization: Bearer TOKEN". Kept, and read at each call, so the
     * text may change. NULL or empty means none. */
    const char *token;

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a channel to `target`, "host:port"; ROTA_ERR_INVALID for any other form. Nothing is
 * resolved or connected yet. Gives `*channel`; close it with rota_channel_close(). `options`, which
 * may be NULL, are copied. */
enum rota_code rota_channel_open(struct uv_loop_s *loop, const char *target,
                                 const struct rota_channel_options *options,
                                 struct rota_channel **channel, struct rota_error *error);

/* Takes `channel`, which may be NULL. Its calls are dropped, and no callback is called afterwards.
 * Run the loop once more to free everything. */
void rota_channel_close(struct rota_channel *channel);

/* Connects now, so that the first call does not have to wait. */
void rota_channel_connect(struct rota_channel *channel);

enum rota_channel_state rota_channel_state(const struct rota_channel *channel);
const char *rota_channel_target(const struct rota_channel *channel);

/* Calls that have not ended. */
size_t rota_channel_n_calls(const struct rota_channel *channel);

/* Why the last attempt to connect failed or the last connection ended. */
const struct rota_error *rota_channel_reason(const struct rota_channel *channel);

/* --- calls --- */

/* The result of a call. Borrowed during on_end. */
struct rota_call_result {
    enum rota_status status;
    struct rota_str text;                 /* the status message; may be empty */
    struct rota_str message;              /* the reply, if the status is OK and there is one */
    const struct rota_metadata *metadata; /* of the reply: headers and trailers */
    size_t n_metadata;
    rota_time elapsed;
    bool may_have_run; /* false: the server has not seen the call; it is safe to repeat */
};

struct rota_call_options {
    struct rota_str method; /* "/package.Service/Method" */
    struct rota_str request;
    const struct rota_metadata *metadata;
    size_t n_metadata;
    rota_time timeout;   /* from now on; sent to the server; 0 means none */
    bool wait_for_ready; /* wait for a connection, through any number of attempts */

    /* For a method with a stream of replies, called for each; NULL for one with a single reply,
     * which comes with on_end. */
    void (*on_message)(void *data, struct rota_call *call, struct rota_str message);

    /* The last callback, required; `call` is gone when it returns. */
    void (*on_end)(void *data, struct rota_call *call, const struct rota_call_result *result);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Starts a call; all of `options` is copied. Gives `*call`, unless `call` is NULL; it is valid
 * until on_end or rota_call_cancel(). If this returns an error, nothing was started and no callback
 * is called: ROTA_ERR_UNAVAILABLE in BACKOFF, ROTA_ERR_LIMIT for too many calls, ROTA_ERR_INVALID
 * for a bad method or metadata. */
enum rota_code rota_channel_call(struct rota_channel *channel,
                                 const struct rota_call_options *options, struct rota_call **call,
                                 struct rota_error *error);

/* Cancels a call, on the server too. Takes `call`; no callback is called afterwards. */
void rota_call_cancel(struct rota_call *call);

/* Pauses a stream of replies: the call gets nothing until rota_call_resume(). Flow control stops
 * the server when about 1 MiB is in flight. */
void rota_call_pause(struct rota_call *call);
void rota_call_resume(struct rota_call *call);

/* --- for simple programs --- */

struct rota_reply {
    enum rota_status status;
    char *text;    /* the status message, with a final NUL */
    char *message; /* with a final NUL; NULL if the status is not OK */
    size_t size;   /* of the message */
    bool may_have_run;
    struct rota_metadata *metadata; /* of the reply: headers and trailers */
    size_t n_metadata;
};

/* Makes a call with one reply and runs the loop until it has ended; the callbacks of `options` are
 * not used. Gives `reply`, even if the status is not OK; free it with rota_reply_deinit().
 * ROTA_ERR_INVALID from inside a callback, where the loop is already running. */
enum rota_code rota_channel_wait(struct rota_channel *channel,
                                 const struct rota_call_options *options, struct rota_reply *reply,
                                 struct rota_error *error);
void rota_reply_deinit(struct rota_reply *reply);

#ifdef __cplusplus
}
#endif
