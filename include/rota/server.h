/* A server: answers gRPC calls at one or more addresses.
 *
 * A method is a path and a handler. The handler is given a call when its
 * request is whole, and answers now or later: it has the call until it finishes
 * it, which it does exactly once, also after on_cancel. A method may also take
 * a stream of requests.
 *
 * A server that is given claims (<rota/claims.h>) serves what this process owns: a
 * call that was routed by a claim which is not held here, or no longer, is refused
 * before its handler sees it, and told who has it. A client of <rota/shards.h> goes
 * there at once.
 *
 * What clients can take is bounded: connections, calls at one time, bytes of
 * messages and headers, and how often they may drop what they started. Over a
 * bound a call is refused with RESOURCE_EXHAUSTED before its handler sees it,
 * or the connection ends; the metrics say which. With `handlers_max` calls wait for
 * their turn, first come, first served, as long as their deadlines allow; a
 * `connection_calls_max` well below `waiting_max` keeps a greedy client from taking
 * all the places.
 *
 * All of it lives on the loop's thread; callbacks come from the loop. */
#pragma once

#include <rota/error.h>
#include <rota/rpc.h>
#include <rota/time.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_claims;
struct rota_cost; /* in <rota/balancer.h> */
struct rota_log;
struct rota_metrics;
struct rota_server;
struct rota_server_call;
struct rota_tls;
struct uv_loop_s; /* a uv_loop_t */

#define ROTA_SERVER_HELD_MAX     ((size_t)512 << 20)
#define ROTA_SERVER_IDLE_TIMEOUT (5 * ROTA_MIN)

enum {
    ROTA_SERVER_CALLS_MAX = 20000,      /* not finished, at one time */
    ROTA_SERVER_WAITING_MAX = 1000,     /* of those, waiting for a handler */
    ROTA_SERVER_CONNECTIONS_MAX = 4000, /* at one time, of each address that it listens at */
    ROTA_SERVER_METHODS_MAX = 1024,
    ROTA_SERVER_LISTENERS_MAX = 16,
    ROTA_SERVER_CALLS_KEPT_MAX = 4096, /* calls at rest, kept for the next */
    ROTA_SERVER_TRAILERS_MAX = 32,     /* pairs that a cost can still go beside */
    ROTA_SERVER_ACTOR_MAX = 320,       /* bytes that say who calls, with their NUL */
};

/* What a caller may be, as bits. Rota's own services need these two; a program may add others. */
enum {
    ROTA_ROLE_OPERATOR = 1 << 0, /* may change how the cluster works: drain, pin, pause, ... */
    ROTA_ROLE_NODE = 1 << 1,     /* is a node of this cluster */
};

struct rota_server_options {
    struct rota_tls *tls;          /* kept; NULL means plain text */
    bool insecure;                 /* plain text on other addresses than this machine's own */
    size_t message_max;            /* bytes of a request; 0 means 4 MiB */
    uint32_t calls_max;            /* 0 means ROTA_SERVER_CALLS_MAX */
    uint32_t connection_calls_max; /* of one connection; 0 means 1024 */
    uint32_t connections_max;      /* 0 means ROTA_SERVER_CONNECTIONS_MAX */
    uint32_t peer_connections_max; /* of one peer address; 0 means half of connections_max */
    size_t held_max;               /* bytes of requests that are not answered and of replies that
                                    * are not read, of all connections; 0 means
                                    * ROTA_SERVER_HELD_MAX. The connections that hold most are
                                    * refused first. */
    rota_time idle_timeout;        /* a connection without a call ends after this, in order; 0
                                    * means ROTA_SERVER_IDLE_TIMEOUT, ROTA_TIME_NEVER never */
    rota_time open_timeout;        /* for TLS, and then for HTTP/2's begin; 0 means 10 s each */
    rota_time keepalive_interval;  /* of silence before a ping; 0 means 2 h */
    rota_time keepalive_timeout;   /* 0 means 20 s */
    struct rota_metrics *metrics;  /* kept; NULL means none */
    const struct rota_log *log;    /* kept; NULL means none */

    /* Who owns what: a call that names a shard and an epoch is served if that claim is
     * held here. Kept, and outlives the server; NULL means that calls are not checked. */
    struct rota_claims *claims;

    /* Calls that handlers have at one time; more of them wait, and those with a stream
     * of requests are refused. 0 means no bound but calls_max. And how many may wait,
     * one more is refused; 0 means ROTA_SERVER_WAITING_MAX. */
    uint32_t handlers_max, waiting_max;

    /* Who calls, by its metadata, its certificate and its address: returns the caller's roles and,
     * unless `actor` is NULL, writes who is responsible, for events and logs, in up to
     * ROTA_SERVER_ACTOR_MAX bytes. NULL means that every caller has every role. */
    uint32_t (*identify)(void *data, struct rota_server_call *call, char *actor);
    void *data; /* kept */
};

/* Gives `*server`; rota_server_close() ends it. `options` may be NULL. */
enum rota_code rota_server_open(struct uv_loop_s *loop, const struct rota_server_options *options,
                                struct rota_server **server, struct rota_error *error);

/* Answer at `address`, "host:port"; port 0 lets the kernel choose, and
 * rota_server_address() tells what it chose, of the address added as number
 * `index`. */
enum rota_code rota_server_listen(struct rota_server *server, const char *address,
                                  struct rota_error *error);
const char *rota_server_address(const struct rota_server *server, size_t index);

struct rota_server_method {
    const char *path; /* "/package.Service/Method" */
    void (*on_call)(void *data, struct rota_server_call *call);

    /* The call's answer is not wanted any more: dropped by the client, too
     * late, or its connection is gone. Comes at most once, from the loop; the
     * handler still has to finish the call. May be NULL. */
    void (*on_cancel)(void *data, struct rota_server_call *call);

    /* A send that was refused for lack of room would succeed now. May be NULL. */
    void (*on_room)(void *data, struct rota_server_call *call);

    /* Given for a method with a stream of requests, NULL for one with a single
     * request: on_call comes first, with no request yet, then this for each of
     * them, then on_requests_end when the client has no more. The call may be
     * finished before that. */
    void (*on_message)(void *data, struct rota_server_call *call, struct rota_str message);
    void (*on_requests_end)(void *data, struct rota_server_call *call);
    void *data; /* kept */

    bool is_fenced; /* a call that does not say by which claim it was routed is refused with
                     * FAILED_PRECONDITION; only on a server that has claims */
    bool is_urgent; /* is not counted by handlers_max and never waits: for health checks */

    /* The caller needs one of these roles, else the call is refused with UNAUTHENTICATED before
     * its handler sees it. 0 means that anyone may call. */
    uint32_t roles;
};

/* Serve a method; it is copied. ROTA_ERR_INVALID when the path is served, and for a
 * fenced method on a server without claims. */
enum rota_code rota_server_add(struct rota_server *server, const struct rota_server_method *method,
                               struct rota_error *error);

/* Is a method of this service served, "package.Service"? */
bool rota_server_has_service(const struct rota_server *server, struct rota_str service);

/* Take no more connections and calls, let those under way finish, and end what
 * is left after `timeout`. Then on_drained comes, with how many calls were cut
 * off; the server is still to be closed. */
void rota_server_drain(struct rota_server *server, rota_time timeout,
                       void (*on_drained)(void *data, size_t n_cut), void *data);

/* End everything now. Takes `server`, which may be NULL. Handlers that have a
 * call are told by on_cancel, from inside this function or, when that was called
 * in a callback of the loop, right after it; they still finish their calls. */
void rota_server_close(struct rota_server *server);

struct rota_server_counts {
    size_t connections; /* now */
    size_t calls;       /* not finished, now */
    size_t waiting;     /* of those, for a handler */
    uint64_t calls_total, refused_total, cancelled_total;
    uint64_t faults_total;            /* connections ended because of what the peer did */
    uint64_t handshakes_failed_total; /* peers that did not get past TLS */
    uint64_t turned_away_total;       /* connections that a bound refused */
    size_t held;                      /* bytes, see held_max */
};
struct rota_server_counts rota_server_counts(const struct rota_server *server);

/* --- a call, for its handler --- */

/* Valid until the call is finished. */
struct rota_str rota_server_call_request(const struct rota_server_call *call);
const struct rota_metadata *rota_server_call_metadata(struct rota_server_call *call, size_t *n);

/* The roles of the caller, and who is responsible for the call (`identify` in the options).
 * Without that option it has every role, and its address is all that is known. The second returns
 * `actor`. */
uint32_t rota_server_call_roles(struct rota_server_call *call);
char *rota_server_call_actor(struct rota_server_call *call, char actor[ROTA_SERVER_ACTOR_MAX]);

/* The caller's address, "127.0.0.1:4711"; "" once its connection is gone. */
const char *rota_server_call_peer(const struct rota_server_call *call);

/* Did the caller show a certificate with this name, as its common name or as an alternative DNS
 * name? */
bool rota_server_call_is_named(const struct rota_server_call *call, const char *name);

/* How long the client still waits; ROTA_TIME_NEVER when it does not say. */
rota_time rota_server_call_time_left(const struct rota_server_call *call);
bool rota_server_call_is_cancelled(const struct rota_server_call *call);

/* Is the claim that the call was routed by still held here? It was when the handler got
 * the call; who takes long asks again before an effect that only an owner may have.
 * Always true for a call that names no claim, and on a server without claims. */
bool rota_server_call_is_current(struct rota_server_call *call);

/* A place for a pointer of the handler's. */
void rota_server_call_set_data(struct rota_server_call *call, void *data);
void *rota_server_call_data(const struct rota_server_call *call);

/* Metadata ahead of the first message. */
enum rota_code rota_server_call_head(struct rota_server_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error);

/* Send one of several replies; it is copied. ROTA_ERR_LIMIT when the client does
 * not take them fast enough: on_room tells when to go on. ROTA_ERR_UNAVAILABLE
 * when the call is cancelled. */
enum rota_code rota_server_call_send(struct rota_server_call *call, struct rota_str message);

/* Tell the client what the call cost here, so that it can choose well among
 * replicas: it goes out with the end of the call, however that is. A handler that
 * has others work for it tells the cost of each part; the one that took longest
 * counts, for the client had to wait for it. It is left out beside more than
 * ROTA_SERVER_TRAILERS_MAX pairs of the handler's.
 *
 * Without it the server tells what it has seen itself, to clients that route by claims
 * and, when it has `handlers_max`, to all: the time since the request was there, the
 * time the handler had it, and how many calls wait. */
void rota_server_call_cost(struct rota_server_call *call, const struct rota_cost *cost);

/* Answer with one message and status OK. Takes `call`. */
void rota_server_call_reply(struct rota_server_call *call, struct rota_str message);

/* End the call. Takes `call`. */
void rota_server_call_finish(struct rota_server_call *call, enum rota_status status,
                             const char *text, const struct rota_metadata *metadata,
                             size_t n_metadata);

/* End a call whose claim was lost before it had an effect, as the server does itself: the
 * client is told who has the shard now, and may try again there. Takes `call`. */
void rota_server_call_refuse(struct rota_server_call *call);

#ifdef __cplusplus
}
#endif
