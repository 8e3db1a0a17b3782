/* call_fsm: one call on one shard, with as many tries as it needs and may have.
 *
 *     ASKING --leaders--> TRYING --ended well--> DONE
 *     TRYING --failed, may be tried again--> ASKING, at once or after a WAIT
 *     any --out of time, tries or budget; input error; cancel--> DONE
 *
 * A replica that failed is *excluded*: this call does not try it again before it has asked the
 * directory again, past the cache, and even then only if the answer shows no other replica. The
 * first failover is immediate, later ones wait a jittered time that grows. When a try takes long,
 * a *hedge* is started on another replica, the first good answer wins and the other try is
 * cancelled.
 *
 * The first *sweep* tries each replica once and is free: a healthy replica serves the call
 * regardless of other calls. Each try of a later sweep costs a token of the budget; a hedge costs
 * one of the hedge's own, or of the budget where there is none.
 *
 * Invariants: exactly one finish; at the finish no try runs. No try starts at or after the
 * deadline, beyond the attempts, or without a token. Every try that the balancer chose is
 * reported to it exactly once. A late or repeated event changes nothing. */
#pragma once

#include "core/call/backoff.h"
#include "core/call/blacklist.h"
#include "core/call/failure.h"
#include "core/call/hedge.h"
#include "core/call/shards/shard_map.h"

#include <rota/time.h>

enum {
    ROTA_CALL_RETRIES = 5,      /* retries besides one try for each leader */
    ROTA_CALL_TRIES_MAX = 64,   /* of one call, whatever was asked for */
    ROTA_CALL_LOOKUPS_MAX = 10, /* failed lookups of the leaders in a row */
    ROTA_CALL_RUNNING_MAX = 2,  /* a try and its hedge */
    ROTA_CALL_ACTIONS_MAX = 6,  /* of one step */
};

#define ROTA_CALL_BACKOFF     (200 * ROTA_MSEC)
#define ROTA_CALL_BACKOFF_MAX (3 * ROTA_SEC)

struct rota_call_stats {
    uint64_t n_calls, n_tries, n_retries, n_hedges, n_hedges_won;
    uint64_t n_refreshes;  /* leaders looked up past the cache */
    uint64_t n_unbudgeted; /* further sweeps and hedges that the budget rejected */
    uint64_t n_preferred_hit, n_preferred_miss, n_preferred_unavailable;
    uint64_t n_ended[ROTA_FAILURES];
};

/* What the calls of a client share; kept by each call. The blacklist, the budget
 * and the hedge may be NULL: none. */
struct rota_call_shared {
    struct rota_balancer *balancer; /* which identifies replicas by node */
    struct rota_random *random;
    struct rota_blacklist *blacklist;
    struct rota_budget *budget; /* of retries */
    struct rota_hedge *hedge;   /* when to hedge, and how often */
    struct rota_call_stats *stats;
};

struct rota_call_fsm_options {
    int64_t collection;
    struct rota_str channel; /* kept */
    rota_time deadline;      /* 0 means none */
    rota_time try_timeout;   /* 0 means only the deadline */
    rota_time hedge_after;   /* 0 means as the shared hedge says; negative: never */
    int64_t work;            /* its size, for the balancer; `nq` in the original */
    int64_t retries;         /* 0 means ROTA_CALL_RETRIES; negative means 1 */
    enum rota_call_repeat repeat;
    bool has_preferred; /* prefer `preferred` when it is a serviceable candidate */
    bool is_pinned;     /* one try, on `preferred` only, whatever its state */
    int64_t preferred;

    /* The replicas come from follow.h, which waits for the right owner: a try that no server acted
     * on, because its owner is another one or is unreachable, is repeated while there is time. It
     * costs no token, does not count as an attempt, and excludes no replica. */
    bool is_followed;
};

enum rota_call_event_type {
    ROTA_CALL_START,
    ROTA_CALL_LEADERS,
    ROTA_CALL_TRY_SENT, /* after waiting for a connection, which does not count as the replica's
                           time */
    ROTA_CALL_TRY_ENDED,
    ROTA_CALL_CANCEL,
    ROTA_CALL_TICK,
};

struct rota_call_fsm_event {
    enum rota_call_event_type type;

    uint64_t number; /* of the ask or try that this answers */
    enum rota_failure failure;
    struct rota_shard_map *map; /* of leaders; the machine takes a reference of its own */

    bool is_sent;                     /* bytes of the try were sent, or may have been */
    const struct rota_cost *cost;     /* the load that the replica reported, or NULL */
    const struct rota_replica *claim; /* of a stale one: the current claim, or NULL */
};

enum rota_call_action_type {
    ROTA_CALL_ASK_LEADERS,
    ROTA_CALL_START_TRY,
    ROTA_CALL_CANCEL_TRY,
    ROTA_CALL_REPORT, /* to the shard cache, before the actions that follow */
    ROTA_CALL_FINISH, /* always the last */
};

struct rota_call_fsm_action {
    enum rota_call_action_type type;
    uint64_t number; /* of the ask or try */
    bool with_cache; /* of an ask */

    const struct rota_replica *replica; /* of a start; valid until the try ends */
    rota_time deadline;                 /* of an ask, a start */
    bool is_hedge;

    uint64_t version;                 /* of a report: of the map the try was routed by */
    int64_t node;                     /* of a report, and of a finish that went well */
    uint64_t epoch;                   /* of a report: of the replica that was tried */
    enum rota_failure failure;        /* of a report, a finish */
    const struct rota_replica *claim; /* of a report: the event's */
};

struct rota_call_fsm_actions {
    size_t n;
    struct rota_call_fsm_action items[ROTA_CALL_ACTIONS_MAX];
};

enum rota_call_state {
    ROTA_CALL_NEW,
    ROTA_CALL_ASKING,
    ROTA_CALL_TRYING,
    ROTA_CALL_WAITING, /* to ask again: for a replica, or after a failed lookup */
    ROTA_CALL_DONE,
};

struct rota_call_try {
    uint64_t number; /* 0: none */
    struct rota_shard_map *map;
    const struct rota_replica *replica;
    rota_time started_at, deadline;
    bool is_hedge;
    struct rota_try chosen; /* zeroed: the balancer was not asked */
};

struct rota_call_fsm {
    const struct rota_call_shared *shared;
    struct rota_call_fsm_options options;
    enum rota_call_state state;
    uint64_t number; /* of the last ask or try */
    uint64_t asked;  /* the ask in flight; 0: none */
    bool is_asked_with_cache;
    struct rota_shard_map *map; /* the last leaders */
    struct rota_call_try running[ROTA_CALL_RUNNING_MAX];
    int64_t excluded[ROTA_CALL_TRIES_MAX]; /* those excluded for overload first */
    size_t n_excluded, n_excluded_by_overload;
    uint32_t n_tries, n_tries_max, n_failed_lookups;
    uint32_t n_followed; /* tries that do not count as attempts */
    struct rota_backoff retry_backoff, lookup_backoff;
    bool is_hedged, has_token, has_failed_over, asks_past_cache;
    bool sweeps_again, is_unbudgeted;
    rota_time wait_until, hedge_delay, hedge_at;
    enum rota_failure last; /* why the last try failed, none: there was none */
};

/* `shared` is kept. The call begins with a START event. */
void rota_call_fsm_init(struct rota_call_fsm *fsm, const struct rota_call_shared *shared,
                        const struct rota_call_fsm_options *options);

/* Ends a call in any state; tries still running are reported to the balancer. */
void rota_call_fsm_deinit(struct rota_call_fsm *fsm, rota_time now);

struct rota_call_fsm_actions rota_call_fsm_step(struct rota_call_fsm *fsm, rota_time now,
                                                const struct rota_call_fsm_event *event);

/* When a TICK is next needed; ROTA_TIME_NEVER when only answers are outstanding. */
rota_time rota_call_fsm_deadline(const struct rota_call_fsm *fsm);

/* Whether it ended because the budget rejected another try. */
bool rota_call_fsm_is_unbudgeted(const struct rota_call_fsm *fsm);
size_t rota_call_fsm_n_running(const struct rota_call_fsm *fsm);
