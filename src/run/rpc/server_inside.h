/* server_inside: the parts of server.h, which are in files of their own.
 *
 *     session --head, request--> arrives --fence, admission--> handler --finish--> session
 *
 * server.c has open and close, the connections and the timer; server_arrive.c moves calls from
 * their session to their handler; server_fence.c checks the claims; server_call.c has the
 * functions for handlers. */
#pragma once

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/metrics.h"
#include "core/call/admission.h"
#include "core/call/get/held.h"
#include "core/call/get/places.h"
#include "io/net/listener.h"
#include "run/rpc/link.h"
#include "run/rpc/server_call.h"
#include "wire/http2/http2.h"

#include <rota/server.h>
#include <uv.h>

/* Which claim a call was routed by: its notes, and the names in them once they are asked for. */
struct rota_server_route {
    struct rota_str note; /* of the shard, as received */
    struct rota_str space, shard;
    uint64_t epoch;
    char *room; /* for names that were escaped; NULL: there were none yet */
    bool is_read;
    bool is_there;  /* the client routes by claims */
    bool has_epoch; /* and its epoch can be read */
    bool is_parsed; /* the names were read, if they can be: */
    bool is_valid;
};

/* A call has two users: the session, until its stream is gone, and the handler, until it has
 * finished it. */
struct rota_server_call {
    struct rota_http2_call h2;  /* first, so that one can be cast to the other */
    struct rota_heap_node node; /* for its deadline */
    struct rota_admission_ticket ticket;
    struct rota_server *server;
    struct rota_server_connection *connection;
    const struct rota_server_method *method;
    struct rota_server_call *next; /* at rest */
    void *data;
    struct rota_cost cost;
    struct rota_server_route route;
    uint32_t tally_number;
    bool is_tallied;
    bool is_in_session, is_with_handler, is_counted, is_cancelled;
    bool has_cost;    /* its handler has set it */
    bool is_measured; /* otherwise we do */
};

struct rota_server_connection {
    struct rota_server *server;
    struct rota_link *link; /* NULL once it is gone */
    struct rota_list_node in_server;
    size_t n_calls; /* that refer to it */
    bool is_freed;
};

/* Why a call is rejected before its handler is called. */
enum rota_server_refusal {
    ROTA_SERVER_NO_METHOD,
    ROTA_SERVER_CALLS_FULL,
    ROTA_SERVER_QUEUE_FULL,
    ROTA_SERVER_TOO_LATE, /* its deadline passed in the queue */
    ROTA_SERVER_STALE,
    ROTA_SERVER_UNFENCED,
    ROTA_SERVER_NO_ROLE,
};
enum { ROTA_SERVER_REFUSALS = ROTA_SERVER_NO_ROLE + 1 };

/* What a bound of all connections rejects. */
enum rota_server_full {
    ROTA_SERVER_PEER_FULL, /* a connection: its peer address has its share */
    ROTA_SERVER_ALL_FULL,  /* connections: they wait for a place */
    ROTA_SERVER_HELD_FULL, /* a call: too many bytes are held */
};
enum { ROTA_SERVER_FULLS = ROTA_SERVER_HELD_FULL + 1 };

struct rota_server_series {
    struct rota_counter *calls, *cancelled, *handshakes;
    struct rota_counter *full[ROTA_SERVER_FULLS];
    struct rota_counter *refused[ROTA_SERVER_REFUSALS];
    struct rota_counter *faults[ROTA_HTTP2_FAULTS];
    struct rota_gauge *connections, *under_way, *waiting;
    struct rota_histogram *wait; /* NULL: nothing ever waits */
};

struct rota_server {
    struct rota_server_options options;
    struct rota_metrics *metrics; /* our own, when none was given */
    struct rota_server_series series;
    struct uv_loop_s *loop;
    struct rota_listener *listeners[ROTA_SERVER_LISTENERS_MAX];
    size_t n_listeners;
    struct rota_map methods;
    const struct rota_server_method *last_method; /* most calls are like the one before */
    struct rota_str last_path;
    uv_timer_t timer;
    rota_time timer_at;
    struct rota_heap deadlines;
    struct rota_admission admission;
    struct rota_held held;
    struct rota_server_tally tally;
    struct rota_refusals refusals[ROTA_SERVER_FULLS], failed_handshakes;
    uint64_t n_started;
    struct rota_list_node connections;
    size_t n_connections, n_calls, n_at_rest;
    struct rota_server_call *at_rest;
    struct rota_server_counts counts;
    size_t n_references; /* the timer, connections, calls that are in use */

    void (*on_drained)(void *data, size_t n_cut);
    void *drain_data;
    rota_time drain_until;
    size_t n_cut;
    bool is_draining, is_closed;
};

/* --- server.c --- */

/* Drop a reference to the server's memory. */
void rota_server_unref(struct rota_server *server);

/* Free a connection that has neither a link nor a call. */
void rota_server_connection_free(struct rota_server_connection *connection);

/* Let the timer fire at `at` at the latest; 0: in the next turn of the loop. */
void rota_server_arm(struct rota_server *server, rota_time at);

/* --- server_arrive.c --- */

/* The callbacks of a session for its calls. */
struct rota_http2_handler rota_server_arrive_handler(struct rota_server_connection *connection);

/* Free a call that neither the session nor a handler uses. */
void rota_server_arrive_call_free(struct rota_server_call *call);

/* The call's deadline has passed. */
void rota_server_arrive_call_expire(struct rota_server_call *call);

/* Send what was written to the call. */
void rota_server_arrive_call_touch(struct rota_server_call *call);

/* Its handler has finished, or will never be called. */
void rota_server_arrive_call_uncount(struct rota_server_call *call);

/* It no longer takes a place among the handlers, or in the queue. */
void rota_server_arrive_call_leave(struct rota_server_call *call);

/* Start waiting calls while there are free places. */
void rota_server_arrive_start_waiting(struct rota_server *server);

/* End a call that has no handler. */
void rota_server_arrive_refuse(struct rota_server_call *call, enum rota_server_refusal refusal,
                               enum rota_status status, const char *text,
                               const struct rota_metadata *metadata, size_t n_metadata);

/* --- server_fence.c --- */

/* Does the client route by claims? */
bool rota_server_fence_call_is_routed(struct rota_server_call *call);

/* Check a call against the claims; false when it was rejected. */
bool rota_server_fence(struct rota_server_call *call);
