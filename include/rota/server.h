/* A gRPC server: answers calls at one or more addresses.
 *
 * A method is a path and a handler. The handler gets a call when its request is complete, and
 * answers now or later. It owns the call until it finishes it, which it must do exactly once, even
 * after on_cancel. A method may also take a stream of requests.
 *
 * A server with claims (<rota/experimental/claims.h>) serves only what this process owns. If a call
 * was routed by a claim that this process does not hold, the server rejects the call before its
 * handler sees it and returns the current owner. A client of <rota/experimental/shards.h> then goes
 * there at once.
 *
 * The server limits what clients can use: connections, concurrent calls, bytes of messages and
 * headers, and how often they may reset what they started. Over a limit it rejects the call with
 * RESOURCE_EXHAUSTED before the handler sees it, or closes the connection; the metrics show which.
 * With `handlers_max`, calls wait for a handler in the order of arrival, as long as their deadlines
 * allow; a `connection_calls_max` well below `waiting_max` keeps one client from taking all the
 * places.
 *
 * Use a server only on the loop's thread; callbacks come from the loop. */
#pragma once

#include <rota/error.h>
#include <rota/rpc.h>
#include <rota/time.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_claims;
struct rota_cost; /* in <rota/experimental/balancer.h> */
struct rota_log;
struct rota_metrics;
struct rota_server;
struct rota_server_call;
struct rota_tls;
struct uv_loop_s; /* a uv_loop_t */

/* The defaults of held_max and idle_timeout. */
#define ROTA_SERVER_HELD_MAX     ((size_t)512 << 20)
#define ROTA_SERVER_IDLE_TIMEOUT (5 * ROTA_MIN)

enum {
    ROTA_SERVER_CALLS_MAX = 20000,      /* concurrent, not finished */
    ROTA_SERVER_WAITING_MAX = 1000,     /* of those, waiting for a handler */
    ROTA_SERVER_CONNECTIONS_MAX = 4000, /* concurrent, per listening address */
    ROTA_SERVER_METHODS_MAX = 1024,
    ROTA_SERVER_LISTENERS_MAX = 16,
    ROTA_SERVER_CALLS_KEPT_MAX = 4096, /* finished calls kept for reuse */
    ROTA_SERVER_TRAILERS_MAX = 32, /* most pairs of trailers that a cost can still be added to */
    ROTA_SERVER_ACTOR_MAX = 320,   /* bytes that identify the caller, with their NUL */
};

/* The roles of a caller, as bits. Rota's services use these two; a program may add others. */
enum {
    ROTA_ROLE_OPERATOR = 1 << 0, /* may change the cluster: drain, pin, pause, ... */
    ROTA_ROLE_NODE = 1 << 1,     /* is a node of this cluster */
};

struct rota_server_options {
    struct rota_tls *tls;          /* kept; NULL means plaintext */
    bool insecure;                 /* allow plaintext on addresses other than loopback */
    size_t message_max;            /* bytes of a request; 0 means 4 MiB */
    uint32_t calls_max;            /* 0 means ROTA_SERVER_CALLS_MAX */
    uint32_t connection_calls_max; /* concurrent, per connection; 0 means 1024 */
    uint32_t connections_max;      /* 0 means ROTA_SERVER_CONNECTIONS_MAX */
    uint32_t peer_connections_max; /* per peer address; 0 means half of connections_max */
    /* Bytes of unanswered requests and unread replies, over all connections; 0 means
     * ROTA_SERVER_HELD_MAX. Over it, the server rejects calls of the connections that hold most
     * first. */
    size_t held_max;
    /* A connection without calls is closed gracefully after this; 0 means ROTA_SERVER_IDLE_TIMEOUT,
     * ROTA_TIME_NEVER never. */
    rota_time idle_timeout;
    /* For the TLS handshake, then for the start of HTTP/2; 0 means 10 s each. */
    rota_time open_timeout;
    rota_time keepalive_interval; /* of silence before a ping; 0 means 2 h */
    rota_time keepalive_timeout;  /* for the reply to a ping; 0 means 20 s */
    struct rota_metrics *metrics; /* kept; NULL means none */
    const struct rota_log *log;   /* kept; NULL means none */

    /* Ownership: a call that names a shard and an epoch is served only if this process holds
     * that claim. Kept until the server is closed; NULL means that calls are not checked. */
    struct rota_claims *claims;

    /* handlers_max: concurrent calls in handlers; further calls wait, and calls with a stream of
     * requests are rejected. 0 means no limit but calls_max. waiting_max: calls that may wait;
     * further calls are rejected. 0 means ROTA_SERVER_WAITING_MAX. */
    uint32_t handlers_max, waiting_max;

    /* Identifies the caller by its metadata, certificate and address. Returns the caller's roles
     * and, unless `actor` is NULL, writes the caller's identity, for events and logs, in at most
     * ROTA_SERVER_ACTOR_MAX bytes. NULL means that every caller has every role. */
    uint32_t (*identify)(void *data, struct rota_server_call *call, char *actor);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a server. Gives `*server`; close it with rota_server_close(). `options` may be NULL. */
enum rota_code rota_server_open(struct uv_loop_s *loop, const struct rota_server_options *options,
                                struct rota_server **server, struct rota_error *error);

/* Listens at `address`, "host:port". With port 0 the kernel chooses the port; rota_server_address()
 * returns the actual address of listener number `index`, from 0. */
enum rota_code rota_server_listen(struct rota_server *server, const char *address,
                                  struct rota_error *error);
const char *rota_server_address(const struct rota_server *server, size_t index);

struct rota_server_method {
    const char *path; /* "/package.Service/Method" */
    void (*on_call)(void *data, struct rota_server_call *call);

    /* The client no longer wants the answer: it cancelled the call, the deadline passed, or the
     * connection was lost. Called at most once, from the loop; the handler must still finish the
     * call. May be NULL. */
    void (*on_cancel)(void *data, struct rota_server_call *call);

    /* A send that failed for lack of room would succeed now. May be NULL. */
    void (*on_room)(void *data, struct rota_server_call *call);

    /* For a method with a stream of requests; NULL for one with a single request. on_call comes
     * first, without a request, then on_message for each request, then on_requests_end after the
     * last. The handler may finish the call earlier. */
    void (*on_message)(void *data, struct rota_server_call *call, struct rota_str message);
    void (*on_requests_end)(void *data, struct rota_server_call *call);
    void *data; /* kept */

    /* Reject a call that does not name the claim it was routed by, with FAILED_PRECONDITION. Only
     * on a server with claims. */
    bool is_fenced;
    bool is_urgent; /* exempt from handlers_max, never waits: for health checks */

    /* The caller needs one of these roles, or the server rejects the call with UNAUTHENTICATED
     * before its handler sees it. 0 means that anyone may call. */
    uint32_t roles;
};

/* Adds a method, which is copied. ROTA_ERR_INVALID if the path is already served, or for a fenced
 * method on a server without claims. */
enum rota_code rota_server_add(struct rota_server *server, const struct rota_server_method *method,
                               struct rota_error *error);

/* Whether any method of this service, "package.Service", is served. */
bool rota_server_has_service(const struct rota_server *server, struct rota_str service);

/* Stops accepting connections and calls, lets calls in progress finish, and aborts the rest after
 * `timeout`. Then calls on_drained with the number of aborted calls. You must still close the
 * server. */
void rota_server_drain(struct rota_server *server, rota_time timeout,
                       void (*on_drained)(void *data, size_t n_cut), void *data);

/* Ends everything now. Takes `server`, which may be NULL. Handlers with an open call get on_cancel,
 * inside this function or, if it was called from a callback of the loop, right after that callback;
 * they must still finish their calls. */
void rota_server_close(struct rota_server *server);

struct rota_server_counts {
    size_t connections; /* now */
    size_t calls;       /* not finished, now */
    size_t waiting;     /* of those, waiting for a handler */
    uint64_t calls_total, refused_total, cancelled_total;
    uint64_t faults_total; /* connections closed because of a protocol error of the peer */
    uint64_t handshakes_failed_total; /* failed TLS handshakes */
    uint64_t turned_away_total;       /* connections rejected over a limit */
    size_t held;                      /* bytes, see held_max */
};
struct rota_server_counts rota_server_counts(const struct rota_server *server);

/* --- a call, for its handler --- */

/* The request and its metadata, valid until the call is finished. */
struct rota_str rota_server_call_request(const struct rota_server_call *call);
const struct rota_metadata *rota_server_call_metadata(struct rota_server_call *call, size_t *n);

/* The caller's roles and identity (see `identify`). Without `identify` the caller has every role
 * and is known only by its address. rota_server_call_actor() returns `actor`. */
uint32_t rota_server_call_roles(struct rota_server_call *call);
char *rota_server_call_actor(struct rota_server_call *call, char actor[ROTA_SERVER_ACTOR_MAX]);

/* The caller's address, "127.0.0.1:4711"; "" after its connection was lost. */
const char *rota_server_call_peer(const struct rota_server_call *call);

/* Whether the caller presented a certificate with this name, as common name or alternative DNS
 * name. */
bool rota_server_call_is_named(const struct rota_server_call *call, const char *name);

/* How long the client still waits; ROTA_TIME_NEVER if the call has no deadline. */
rota_time rota_server_call_time_left(const struct rota_server_call *call);
bool rota_server_call_is_cancelled(const struct rota_server_call *call);

/* The claim that the call was routed by: the space, the shard and the epoch. A shard of
 * <rota/space.h> has its number in decimal as its name. False if the call names none, or none that
 * can be read. The strings are valid until the call is finished. */
bool rota_server_call_shard(struct rota_server_call *call, struct rota_str *space,
                            struct rota_str *shard, uint64_t *epoch);

/* Whether this process still holds the claim that the call was routed by. It did when the handler
 * got the call; a slow handler should check again before an effect that only the owner may have.
 * Always true for a call without a claim, and on a server without claims; false once the server is
 * closed. */
bool rota_server_call_is_current(struct rota_server_call *call);

/* A pointer of the handler's own. */
void rota_server_call_set_data(struct rota_server_call *call, void *data);
void *rota_server_call_data(const struct rota_server_call *call);

/* Sends metadata before the first message. */
enum rota_code rota_server_call_head(struct rota_server_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error);

/* Sends one of several replies, which is copied. ROTA_ERR_LIMIT if the client reads too slowly:
 * continue after on_room. ROTA_ERR_UNAVAILABLE if the call is cancelled. */
enum rota_code rota_server_call_send(struct rota_server_call *call, struct rota_str message);

/* Reports to the client what the call cost here, so that it can choose among replicas. The cost is
 * sent when the call ends, whatever its status. If a handler delegates parts of the call, report
 * the cost of each; the longest counts, because the client waited for it. The cost is omitted if
 * the handler sends more than ROTA_SERVER_TRAILERS_MAX pairs of its own.
 *
 * Without this call the server reports what it measured itself, to clients that route by claims
 * (except for a fenced method, which has one owner and hence no choice) and, with `handlers_max`,
 * to all: the time since the request was complete, the time in the
 * handler, and the number of waiting calls. */
void rota_server_call_cost(struct rota_server_call *call, const struct rota_cost *cost);

/* Replies with one message and status OK. Takes `call`. */
void rota_server_call_reply(struct rota_server_call *call, struct rota_str message);

/* Ends the call with a status. Takes `call`. */
void rota_server_call_finish(struct rota_server_call *call, enum rota_status status,
                             const char *text, const struct rota_metadata *metadata,
                             size_t n_metadata);

/* Ends a call whose claim was lost before the call had an effect, like the server does itself: the
 * client gets the current owner and may retry there. Takes `call`. */
void rota_server_call_refuse(struct rota_server_call *call);

#ifdef __cplusplus
}
#endif
