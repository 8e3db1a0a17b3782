/* shards_inside: the parts of shards.h, which are in files of their own.
 *
 *     run --one for each shard--> call --one or two at a time--> attempt
 *     node --several--> connection; attempts are made on connections
 *
 * A run is an execution that a program asked for (execute_fsm decides), a call is
 * its part on one shard (call_fsm decides), an attempt is one try of a call on one
 * connection (pool_fsm decides which). Machines are stepped from the loop and from
 * the functions of shards.h; whatever follows at once is queued as a *note* and
 * done when the step is over, so no machine is ever stepped from inside itself.
 * What the program is to hear waits in a row until the loop is the caller. */
#pragma once

#include "base/buffer.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/vector.h"
#include "core/call/call_fsm.h"
#include "core/call/execute_fsm.h"
#include "core/call/health_fsm.h"
#include "core/call/list.h"
#include "core/call/pool_fsm.h"
#include "core/call/shard_cache.h"

#include <rota/channel.h>
#include <rota/shards.h>
#include <uv.h>

/* What is told of a try whose time was over. */
#define ROTA_SHARDS_SILENT "no answer in time"

/* Who waits for an answer of the cache or the pools. */
struct rota_shards_waiter {
    uint64_t number; /* 0: does not wait */
    enum { ROTA_WAITS_RUN, ROTA_WAITS_LOOK, ROTA_WAITS_CALL, ROTA_WAITS_ATTEMPT } kind;
};

struct rota_shards_call;

struct rota_shards_attempt {
    struct rota_shards_waiter waiter; /* for a connection */
    struct rota_shards_call *call;
    uint64_t number;                   /* the machine's; 0: none */
    struct rota_shards_connection *on; /* NULL while it waits */
    struct rota_call *rpc;             /* NULL before and after it is under way */
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
    struct rota_list_node told; /* in the row of what the program is to hear */
    enum rota_failure failure;
    enum rota_status status; /* and text: of the last attempt that ended */
    struct rota_buffer text, message;
    int64_t node;
    uint32_t n_tries;
    bool has_status, is_done;
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
    bool is_done, is_dropped; /* dropped: the program is told nothing */
};

/* Somebody who only wants to see the map. */
struct rota_shards_look {
    struct rota_shards_waiter waiter;
    struct rota_list_node link, told;
    struct rota_shards_query query; /* without its strings */
    enum rota_failure failure;
    struct rota_shard_map *map;
};

struct rota_shards_connection {
    uint64_t number;
    struct rota_shards *shards;
    struct rota_shards_node *node;
    struct rota_list_node link; /* of the node's */
    struct rota_channel *channel;
    size_t n_attempts;
    bool is_over; /* closed when the last attempt has left it */
};

struct rota_shards_node {
    int64_t id;
    struct rota_shards *shards;
    char address[ROTA_CHANNEL_TARGET_MAX + 1];
    struct rota_list_node connections;
    struct rota_channel *health; /* a connection for checks alone, NULL: none yet */
    struct rota_call *check;
    uint64_t check_number;
    struct rota_histogram *latency;
    uint64_t n_drops; /* by the health checks */
    char problem[ROTA_ERROR_TEXT_MAX];
    rota_time failed_at; /* ROTA_TIME_MIN: never */
    struct rota_shards_node_series *series;
};

/* Something to be stepped with when the present step is over. */
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

    struct rota_map waiters, nodes, connections;
    struct rota_heap moments;
    ROTA_VECTOR(struct rota_shards_note) notes;
    size_t n_notes_done;
    struct rota_list_node runs, looks, told_calls, told_runs, told_looks;
    size_t n_runs;
    uint64_t n_changes;               /* maps that the directory sent unasked */
    char reason[ROTA_ERROR_TEXT_MAX]; /* the last that the source said */
    struct rota_error told;           /* a text that is put together for the program */

    struct rota_metrics *metrics; /* our own, or the one given */
    struct rota_shards_series *series;
    bool owns_metrics, is_working, is_telling, is_closed;
};

/* --- shards.c --- */

/* Do all that follows from what has happened, and tell the program if the loop is
 * the caller. `shards` may be closed afterwards. */
void rota_shards_settle(struct rota_shards *shards, bool is_from_loop);

/* Wait under a new number; false without memory. And stop to. */
bool rota_shards_wait_begin(struct rota_shards *shards, struct rota_shards_waiter *waiter);
void rota_shards_wait_end(struct rota_shards *shards, struct rota_shards_waiter *waiter);

/* --- shards_calls.c --- */

/* A run gets what it asked for; a call is begun, told something, or freed. */
void rota_shards_step_run(struct rota_shards_run *run, const struct rota_execute_event *event);
void rota_shards_step_call(struct rota_shards_call *call, const struct rota_call_fsm_event *event);
void rota_shards_run_stop(struct rota_shards_run *run); /* its attempts */
void rota_shards_run_free(struct rota_shards_run *run);
void rota_shards_note_run(struct rota_shards_run *run, struct rota_execute_event event);
void rota_shards_note_call(struct rota_shards_call *call, struct rota_call_fsm_event event);

/* --- shards_nodes.c --- */

/* Carry out what the pools want. */
void rota_shards_do_pool(struct rota_shards *shards, const struct rota_pool_action *action);

/* Begin a try, on a connection that may have to be waited for, go on when the wait is over (0: no
 * connection), and cancel one. */
void rota_shards_attempt_start(struct rota_shards_attempt *attempt,
                               const struct rota_replica *replica);
void rota_shards_attempt_opened(struct rota_shards_attempt *attempt, uint64_t connection);
void rota_shards_attempt_cancel(struct rota_shards_attempt *attempt);

/* A map has come: nodes that it has at another address than before are met anew. */
void rota_shards_meet(struct rota_shards *shards, const struct rota_shard_map *map);

/* Let time pass for the health checks; forget nodes that have no pool. */
void rota_shards_check_health(struct rota_shards *shards, rota_time now);
void rota_shards_forget_nodes(struct rota_shards *shards);
void rota_shards_close_nodes(struct rota_shards *shards);
void rota_shards_free_nodes(struct rota_shards *shards);
struct rota_shards_node *rota_shards_find_node(const struct rota_shards *shards, int64_t id);
void rota_shards_heard(struct rota_shards *shards, int64_t node, rota_time now);

/* Connections to the node that stand. */
size_t rota_shards_n_connections(const struct rota_shards_node *node);

/* Remember what a try, or a health check, met that failed on the node. */
void rota_shards_node_failed(struct rota_shards_node *node, struct rota_str problem);

/* --- shards_directory.c --- */

enum rota_code rota_shards_directory_new(struct rota_shards *shards,
                                         struct rota_shards_source *source,
                                         struct rota_error *error);

/* Read what a directory sent, and hand it to `use`. False when it is no map. */
struct Rota__V1__ShardMap;
bool rota_shards_read_map(const struct Rota__V1__ShardMap *from,
                          void (*use)(void *data, const struct rota_shards_map *map), void *data);

/* --- shards_metrics.c --- */

/* Make the series that do not depend on nodes; false without memory. */
bool rota_shards_measure_init(struct rota_shards *shards);
void rota_shards_measure_deinit(struct rota_shards *shards);

/* The series of a node: NULL without memory is fine. */
void rota_shards_measure_node(struct rota_shards_node *node);
