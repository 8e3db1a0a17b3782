/* shards_inside: the parts of shards.h, which are in files of their own.
 *
 *     run --one for each shard--> call --one or two at a time--> attempt
 *     node --several--> connection; attempts are made on connections
 *
 * A run is an execution that the program started (execute_fsm decides), a call is its part on
 * one shard (call_fsm decides), an attempt is one try of a call on one connection (pool_fsm
 * decides which). Machines are stepped from the loop and from the functions of shards.h;
 * immediate consequences are queued as a *note* and handled when the step is over, so no machine
 * is ever stepped from inside itself. Results for the program wait in a list until the loop is
 * the caller. */
#pragma once

#include "base/buffer.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/vector.h"
#include "core/call/call_fsm.h"
#include "core/call/shards/execute_fsm.h"
#include "core/call/shards/health_fsm.h"
#include "core/call/shards/shard_cache.h"
#include "run/call/shards_directory.h"
#include "run/call/shards_metrics.h"
#include "run/call/shards_nodes.h"

#include <rota/experimental/channel.h>
#include <rota/experimental/shards.h>
#include <uv.h>

enum { ROTA_SHARDS_METADATA_MAX = 32 }; /* pairs of a call's own */

/* The text for a try that timed out. */
#define ROTA_SHARDS_SILENT "no reply in time"

/* A waiter for an answer of the cache or the pools. */
struct rota_shards_waiter {
    uint64_t number; /* 0: does not wait */
    enum { ROTA_WAITS_RUN, ROTA_WAITS_LOOK, ROTA_WAITS_CALL, ROTA_WAITS_ATTEMPT } kind;
};

struct rota_shards_call;
struct rota_shards_hooks;

struct rota_shards_attempt {
    struct rota_shards_waiter waiter; /* for a connection */
    struct rota_shards_call *call;
    uint64_t number;                   /* the machine's; 0: none */
    struct rota_shards_connection *on; /* NULL while it waits */
    struct rota_call *rpc;             /* NULL before it starts and after it has ended */
    int64_t node;
    uint64_t epoch;
    rota_time deadline, started_at;
};

struct rota_shards_call {
    struct rota_heap_node moment;     /* first: when the machine wants a tick */
    struct rota_shards_waiter waiter; /* for the map */
    struct rota_shards_run *run;
    size_t shard;
    struct rota_str channel; /* of the run's map */
    struct rota_call_fsm fsm;
    uint64_t asked; /* the machine's number of its question */
    struct rota_shards_attempt attempts[ROTA_CALL_RUNNING_MAX];
    struct rota_list_node told; /* in the list of results for the program */
    enum rota_failure failure;
    enum rota_status status; /* and text: of the last attempt that ended */
    struct rota_buffer text, message;
    int64_t node;
    uint32_t n_tries;
    bool has_status, is_done;
    bool may_have_run; /* a try of it, at a server that has not said that it did nothing */
};

struct rota_shards_run {
    struct rota_shards_waiter waiter; /* for the map */
    struct rota_shards *shards;
    struct rota_list_node link; /* of all runs */
    struct rota_list_node told;
    struct rota_shards_request request; /* its strings are in `strings` */
    char *strings;
    rota_time deadline; /* ROTA_TIME_NEVER: none */
    struct rota_execute_fsm fsm;
    struct rota_shards_call **calls; /* by shard; NULL: not used */
    size_t n_calls;
    enum rota_failure failure;
    size_t n_ok, n_failed;
    bool is_done, is_dropped; /* dropped: no result for the program */

    void *user; /* of the hooks; NULL: not a call of a service client */
    const struct rota_metadata *metadata;
    size_t n_metadata;
};

/* A caller that only wants to read the map. */
struct rota_shards_look {
    struct rota_shards_waiter waiter;
    struct rota_list_node link, told;
    struct rota_shards_query query; /* without its strings */
    enum rota_failure failure;
    struct rota_shard_map *map;
};

/* An event for a machine, handled when the current step is over. */
struct rota_shards_note {
    struct rota_shards_call *call; /* or */
    struct rota_shards_run *run;
    union {
        struct rota_call_fsm_event of_call;
        struct rota_execute_event of_run;
    };
};

struct rota_shards {
    struct rota_shards_options options;
    struct rota_shards_source source;
    struct uv_loop_s *loop;
    uv_timer_t timer;
    rota_time timer_at;
    struct rota_random random;
    uint64_t n_numbers;  /* given to waiters */
    uint64_t n_shuffled; /* looks */

    struct rota_shard_cache *cache;
    struct rota_pool_fsm *pools;
    struct rota_health_fsm health;
    struct rota_balancer *balancer;
    struct rota_blacklist blacklist;
    struct rota_budget budget;
    struct rota_hedge hedge;
    struct rota_call_stats stats;
    struct rota_call_shared shared;

    const struct rota_shards_hooks *hooks; /* NULL: none */
    struct rota_map waiters, nodes, connections;
    struct rota_heap moments;
    ROTA_VECTOR(struct rota_shards_note) notes;
    size_t n_notes_done;
    struct rota_list_node runs, looks, told_calls, told_runs, told_looks;
    size_t n_runs;
    uint64_t n_changes;               /* maps that the directory sent unasked */
    char reason[ROTA_ERROR_TEXT_MAX]; /* the last error of the source */
    struct rota_error told;           /* a text that is built for the program */

    struct rota_metrics *metrics; /* our own, or the one given */
    struct rota_shards_series *series;
    bool owns_metrics, is_working, is_telling, is_closed;
};

/* --- shards.c --- */

/* Handle all consequences of an event, and report to the program if the loop is the caller.
 * `shards` may be closed afterwards. */
void rota_shards_settle(struct rota_shards *shards, bool is_from_loop);

/* Start to wait under a new number; false without memory. And stop. */
bool rota_shards_wait_begin(struct rota_shards *shards, struct rota_shards_waiter *waiter);
void rota_shards_wait_end(struct rota_shards *shards, struct rota_shards_waiter *waiter);

/* --- shards_calls.c --- */

/* Step a run with an event; begin a call, step it with an event, or free it. */
void rota_shards_calls_step_run(struct rota_shards_run *run,
                                const struct rota_execute_event *event);
void rota_shards_calls_step(struct rota_shards_call *call, const struct rota_call_fsm_event *event);
void rota_shards_calls_run_stop(struct rota_shards_run *run); /* its attempts */
void rota_shards_calls_run_free(struct rota_shards_run *run);
void rota_shards_calls_note(struct rota_shards_call *call, struct rota_call_fsm_event event);
