/* get_inside: the parts of the client of get.h, which are in files of their own.
 *
 *     run --one for each host that is asked--> call --on--> peer, a host's connection
 *
 * A run is a Get of the program (get_fsm decides), a call is one try of it in flight, a peer is our
 * state of a host besides what the map knows. get.c opens and closes it all, get_run.c has runs and
 * their calls, get_hosts.c the peers and their pings, get_result.c the results for the program,
 * get_metrics.c the metrics.
 *
 * Machines are stepped from the loop and from the functions of get.h. A try that can't be sent
 * is recorded and reported to the machine when its step is over; results for the program wait in
 * a list until the loop is the caller. */
#pragma once

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/metrics.h"
#include "core/call/get/get_fsm.h"
#include "run/call/get_message.h"

#include <rota/experimental/channel.h>
#include <rota/experimental/get.h>
#include <uv.h>

enum {
    ROTA_GET_AT_REST_MAX = 1024, /* runs and calls kept for reuse */
    ROTA_GET_PROBLEM_MAX = 200,  /* bytes kept of the error of a ping */
};

struct rota_get_peer {
    uint64_t id; /* the map's */
    struct rota_get *get;
    char address[ROTA_CHANNEL_TARGET_MAX + 1];
    struct rota_channel *channel;
    struct rota_call *ping; /* NULL: none is in flight */
    uint64_t ping_number;
    struct rota_list_node calls;
    uint64_t n_calls, n_failed, n_cancelled, n_hedges, n_hedges_won;
    size_t n_running;
    uint64_t latencies[ROTA_BALANCER_LATENCIES];
    bool is_listed, is_asked;           /* asked: what it holds, at least once */
    char problem[ROTA_GET_PROBLEM_MAX]; /* why the last ping failed; "": it succeeded */
};

/* One try in flight. */
struct rota_get_call {
    struct rota_list_node of_run, of_peer;
    struct rota_get_call *next; /* at rest */
    struct rota_get_run *run;
    struct rota_get_peer *peer;
    struct rota_call *rpc;
    uint64_t number;
    size_t try;
    rota_time started_at;
};

/* Our state of a try, by the machine's index of it. */
struct rota_get_sent {
    struct rota_str host, dc;
    struct rota_str text; /* why it failed; without data: it has not */
    const uint32_t *keys; /* that it requested, in growing order */
    size_t n_keys;
    const struct rota_interval_claim *shards; /* of its answer */
    size_t n_shards;
    const struct rota_get_entry *entries;    /* of its answer, when some were used */
    const struct rota_get_problem *problems; /* likewise */
    const char *reason;                      /* for keys that it left missing, once needed */
};

/* A try that ended before its step was over. */
struct rota_get_refused {
    uint64_t number, host;
    enum rota_failure failure;
};

struct rota_get_run {
    struct rota_heap_node moment; /* first: when the machine wants a tick */
    struct rota_list_node link;   /* of all runs */
    struct rota_list_node told;   /* in the list of results for the program */
    struct rota_list_node calls;
    struct rota_get_run *next; /* at rest */
    struct rota_get *get;
    struct rota_get_request request;
    struct rota_get_fsm fsm;
    struct rota_arena arena; /* all that a result points to */
    ROTA_VECTOR(struct rota_get_sent) sent;
    ROTA_VECTOR(struct rota_get_refused) refused;
    rota_time started_at, ended_at;
    const char *unheld; /* why no host is known to hold a key, once needed */
    bool has_no_memory;
};

struct rota_get_series;

struct rota_get {
    struct rota_get_options options;
    struct rota_get_service service;
    struct uv_loop_s *loop;
    uv_timer_t timer;
    rota_time timer_at, ping_at;
    struct rota_random random;

    struct rota_interval_map *map;
    struct rota_balancer *balancer;
    struct rota_budget budget;
    struct rota_hedge hedge;
    struct rota_get_load load;
    struct rota_get_stats stats;
    struct rota_get_shared shared;
    uint64_t version; /* of the map, as last reported to the runs */

    struct rota_members *members; /* our own, from the hosts file */
    struct rota_map peers;        /* by id */
    struct rota_heap moments;
    struct rota_list_node runs, told;
    struct rota_get_run *runs_at_rest;
    struct rota_get_call *calls_at_rest;
    size_t n_runs, n_runs_at_rest, n_calls_at_rest;
    uint64_t n_started;

    /* Buffers that every request and answer reuses. */
    struct rota_get_writer writer;
    struct rota_get_reader reader;
    struct rota_arena arena;
    ROTA_VECTOR(uint64_t) ids;
    ROTA_VECTOR(struct rota_get_fsm_problem) problems;
    ROTA_VECTOR(uint64_t) sharding_keys;
    ROTA_VECTOR(const void *) key_list;
    struct rota_buffer ping; /* the empty request */

    struct rota_metrics *metrics;
    bool owns_metrics;
    struct rota_get_series *series;
    bool is_telling, is_closed;
};

/* --- get.c --- */

/* Name the collection of a call. `pair` lives as long as `options`. */
void rota_get_name_collection(const struct rota_get *get, struct rota_metadata *pair,
                              struct rota_call_options *options);

/* Report a changed map to runs, results to the program (when the loop is the caller), and set
 * the timer. */
void rota_get_finish_event(struct rota_get *get, bool is_from_loop);

/* --- get_run.c --- */

/* The one caller of the machine. */
void rota_get_run_step(struct rota_get_run *run, const struct rota_get_fsm_event *event);

/* Free it, reported or not. */
void rota_get_run_end(struct rota_get_run *run);

/* Free all runs and calls, at the end. */
void rota_get_run_free_all(struct rota_get *get);

/* Drop the calls on a peer that was removed. */
void rota_get_run_drop_calls(struct rota_get_peer *peer);

/* --- get_hosts.c --- */

/* Open the source of hosts. */
enum rota_code rota_get_hosts_open(struct rota_get *get, struct rota_error *error);
void rota_get_hosts_close(struct rota_get *get);
void rota_get_hosts_free(struct rota_get *get);

struct rota_get_peer *rota_get_hosts_find_peer(const struct rota_get *get, uint64_t id);

/* Describe the state of the hosts, for keys that none of them is known to hold. */
void rota_get_hosts_describe(const struct rota_get *get, char *text, size_t size);

/* Update the hosts, and ask all of them what they hold. */
void rota_get_hosts_ping_all(struct rota_get *get, rota_time now);

/* --- get_result.c --- */

/* Call the program back. */
void rota_get_result_report(struct rota_get_run *run);

/* --- get_metrics.c --- */

bool rota_get_metrics_init(struct rota_get *get);
void rota_get_metrics_deinit(struct rota_get *get);
void rota_get_metrics_measure_run(struct rota_get *get, const struct rota_get_result *result);
void rota_get_metrics_measure_ping(struct rota_get *get, bool is_answered);
