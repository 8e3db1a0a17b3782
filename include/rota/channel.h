/* A channel: calls to one gRPC server, over one connection that is kept up.
 *
 * The connection is made at the first call, or before when asked to, and made
 * again after it was lost, with growing pauses:
 *
 *     IDLE --call or connect--> CONNECTING --connected--> READY --lost--> IDLE
 *     CONNECTING --failed--> BACKOFF --pause over--> CONNECTING, or IDLE
 *
 * A call that comes while there is no connection waits for the attempt under
 * way; in BACKOFF it fails at once, unless it says that it can wait.
 *
 * All of it lives on the loop's thread. Callbacks come from the loop, never
 * from inside a function of this header; each may use any function here, save
 * the one that waits. */
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
    ROTA_CHANNEL_CALLS_MAX = 100000,    /* not ended, those that wait included */
    ROTA_CHANNEL_TARGET_MAX = 270,      /* bytes of "host:port" */
    ROTA_CHANNEL_CALLS_KEPT_MAX = 4096, /* calls at rest, kept for the next */
    ROTA_CHANNEL_TOKEN_MAX = 256,       /* bytes of a token */
};

enum rota_channel_state {
    ROTA_CHANNEL_IDLE,
    ROTA_CHANNEL_CONNECTING,
    ROTA_CHANNEL_READY,
    ROTA_CHANNEL_BACKOFF,
};

struct rota_channel_options {
    struct rota_tls *tls;         /* kept; NULL means plain text */
    const char *tls_name;         /* the server's name in its certificate; NULL: the target's */
    bool insecure;                /* plain text to other machines too, not only to this one */
    rota_time connect_timeout;    /* then for HTTP/2's begin; 0 means 10 s each */
    rota_time backoff_first;      /* the first pause; 0 means 200 ms */
    rota_time backoff_max;        /* the longest pause; 0 means 30 s */
    rota_time keepalive_interval; /* of silence; 0 means 5 min, ROTA_TIME_NEVER none */
    rota_time keepalive_timeout;  /* 0 means 20 s */
    size_t message_max;           /* bytes of a reply; 0 means 4 MiB */
    uint32_t calls_max;           /* 0 means ROTA_CHANNEL_CALLS_MAX */

    /* Sent with every call as "authorization: Bearer TOKEN". Kept, and read at each call, so that
     * the text may change; NULL or empty means none. */
    const char *token;
};

/* A channel to `target`, "host:port"; ROTA_ERR_INVALID when it is written in any
 * other way. Nothing is connected or looked up yet. Gives `*channel`;
 * rota_channel_close() ends it. `options`, which may be NULL, are copied. */
enum rota_code rota_channel_open(struct uv_loop_s *loop, const char *target,
                                 const struct rota_channel_options *options,
                                 struct rota_channel **channel, struct rota_error *error);

/* Takes `channel`, which may be NULL. Its calls are dropped; no callback comes
 * after. The loop has to run once more to free everything. */
void rota_channel_close(struct rota_channel *channel);

/* Connect now, so that the first call need not wait. */
void rota_channel_connect(struct rota_channel *channel);

enum rota_channel_state rota_channel_state(const struct rota_channel *channel);
const char *rota_channel_target(const struct rota_channel *channel);

/* Calls that have not ended. */
size_t rota_channel_n_calls(const struct rota_channel *channel);

/* Why the last attempt to connect failed or the last connection ended. */
const struct rota_error *rota_channel_reason(const struct rota_channel *channel);

/* --- calls --- */

/* How a call ended. Borrowed during on_end. */
struct rota_call_result {
    enum rota_status status;
    struct rota_str text;                 /* what the status says; may be empty */
    struct rota_str message;              /* the reply, when status is OK and there is one */
    const struct rota_metadata *metadata; /* of the reply, from its head and its end */
    size_t n_metadata;
    rota_time elapsed;
    bool may_have_run; /* false: the server has not seen it; it is safe to call again */
};

struct rota_call_options {
    struct rota_str method; /* "/package.Service/Method" */
    struct rota_str request;
    const struct rota_metadata *metadata;
    size_t n_metadata;
    rota_time timeout;   /* from now on; the server is told; 0 means none */
    bool wait_for_ready; /* wait for a connection, however many attempts it takes */

    /* Given for a method with a stream of replies, once for each; NULL for one
     * with a single reply, which comes with on_end. */
    void (*on_message)(void *data, struct rota_call *call, struct rota_str message);

    /* The last callback, and needed; `call` is gone when it returns. */
    void (*on_end)(void *data, struct rota_call *call, const struct rota_call_result *result);
    void *data; /* kept */
};

/* Start a call; all of `options` is copied. Gives `*call`, which may be NULL if
 * it is not wanted; it is gone after on_end or rota_call_cancel(). On an error
 * nothing was started and no callback comes: ROTA_ERR_UNAVAILABLE in BACKOFF,
 * ROTA_ERR_LIMIT for one too many, ROTA_ERR_INVALID for a bad method or
 * metadata. */
enum rota_code rota_channel_call(struct rota_channel *channel,
                                 const struct rota_call_options *options, struct rota_call **call,
                                 struct rota_error *error);

/* Drop a call and tell the server. Takes `call`; no callback comes after. */
void rota_call_cancel(struct rota_call *call);

/* Take no more replies for a while; the server is held back when about 1 MiB of
 * them is on the way. Nothing of this call comes until rota_call_resume(). */
void rota_call_pause(struct rota_call *call);
void rota_call_resume(struct rota_call *call);

/* --- for simple programs --- */

struct rota_reply {
    enum rota_status status;
    char *text;    /* what the status says, with a final NUL */
    char *message; /* with a NUL behind it; NULL when status is not OK */
    size_t size;   /* of the message */
    bool may_have_run;
};

/* Make a call with one reply and run the loop until it has ended; the callbacks
 * of `options` are not used. Gives `reply`, also when the status is not OK;
 * rota_reply_deinit() ends it. ROTA_ERR_INVALID from inside a callback, where
 * the loop is running already. */
enum rota_code rota_channel_wait(struct rota_channel *channel,
                                 const struct rota_call_options *options, struct rota_reply *reply,
                                 struct rota_error *error);
void rota_reply_deinit(struct rota_reply *reply);

#ifdef __cplusplus
}
#endif
