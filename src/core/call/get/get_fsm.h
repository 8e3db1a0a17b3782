/* get_fsm: one Get (multi-get) of many keys, from the shards that hold them.
 *
 *     start: each key goes to the replicas that the map knows for it
 *     answer: its keys are answered, first come; the map learns from it
 *     all_matched = false: the map learns, the keys go to other hosts, never there again
 *     failure, time: the host is tried once more, the keys go to other replicas
 *     no host holds the key, or all have failed: WAIT and look again
 *     all keys answered, the deadline, cancel, an invalid request: FINISH
 *
 * Waits: failures alone never end a Get before its deadline, since a host may return and a shard
 * may move. Keys whose replicas have all failed wait for a jittered pause that grows, and then for
 * a token; a host of theirs that answers others again, or a map that knows another one, ends the
 * pause.
 *
 * Copies: broadcast sends each key to all live replicas at once and, as far as retries go, to each
 * independently; a replica that the map learns of meanwhile is added. Otherwise one replica is
 * chosen by the balancer, and a second one when the first is slow (hedge.h) or has failed.
 *
 * Keys: an id is the key's own within a Get. A key that is asked for twice is sent once and
 * answered twice. An entry with an id that the try did not ask for, or that is not of a shard that
 * answers, is ignored. A key without an entry in a matching answer is *absent*: that is an
 * answer, too. A key that the answer has no room for is *left*, and requested again. A key that the
 * host can't return is *refused*, which is final unless another host has it in flight.
 *
 * Invariants: exactly one finish, after which no try runs. Each key has at most one result; at the
 * finish it has one or is named with the reason. No try begins at or after the deadline, or without
 * a token when it is extra. An answer under an epoch older than one already seen for its shard is
 * ignored. Every try that the balancer chose is reported once. A late or repeated event answers
 * nothing; a late answer still updates the map.
 *
 * One machine is used for many Gets, one after the other, and keeps its memory. */
#pragma once

#include "base/vector.h"
#include "core/call/backoff.h"
#include "core/call/budget.h"
#include "core/call/failure.h"
#include "core/call/get/get_keys.h"
#include "core/call/get/get_load.h"
#include "core/call/get/interval_map.h"
#include "core/call/hedge.h"

#include <rota/experimental/get.h>

enum {
    ROTA_GET_RETRIES = 1, /* of a host */
    ROTA_GET_RETRIES_MAX = 16,
    ROTA_GET_HOST_TRIES_MAX = 32, /* of one host between two waits */
    ROTA_GET_TRIES_MAX = 65536,   /* of one Get */
    ROTA_GET_ROUNDS_MAX = 256,    /* waits of a Get without a deadline */
};

#define ROTA_GET_PING_TIME    ROTA_SEC         /* how long a key without a shard waits */
#define ROTA_GET_HOST_TIMEOUT ROTA_SEC         /* at most; or a third of the remaining time */
#define ROTA_GET_BACKOFF      (10 * ROTA_MSEC) /* before a host is tried again, growing */
#define ROTA_GET_BACKOFF_MAX  (500 * ROTA_MSEC)

/* For hedges of Gets: one try in 20, and ten per second, so that a client whose Gets are all
 * stuck, and which therefore makes no new ones, can still recover. */
#define ROTA_GET_BUDGET_HEDGES ((struct rota_budget_options){50000, 10, 10})

struct rota_get_stats {
    uint64_t n_gets, n_keys, n_tries, n_retries, n_hedges;
    uint64_t n_copies[3];  /* Gets by what get_load.h or the mode chose */
    uint64_t n_cancelled;  /* tries that lost */
    uint64_t n_mismatched; /* answers with all_matched = false */
    uint64_t n_stale;      /* answers of an older epoch */
    uint64_t n_unbudgeted; /* extra tries that the budget rejected */
    uint64_t n_waits;
    uint64_t n_failed; /* Gets with a missing key */
    size_t n_running;  /* tries in flight, of all Gets */
};

/* What the Gets of a client share; kept by each. The budget and the hedge may be
 * NULL: none; the load may be NULL if no mode is adaptive. */
struct rota_get_shared {
    struct rota_interval_map *map;
    struct rota_balancer *balancer; /* knows hosts by their id */
    struct rota_random *random;
    struct rota_budget *budget; /* of retries */
    struct rota_hedge *hedge;
    struct rota_get_load *load;
    struct rota_get_stats *stats;
};

struct rota_get_fsm_options {
    const uint64_t *ids;  /* one for each key; copied */
    const uint64_t *keys; /* their sharding keys; copied */
    size_t n_keys;
    rota_time deadline;     /* 0 means none */
    rota_time host_timeout; /* of one try; 0 means the default */
    rota_time ping_time;    /* 0 means the default */
    int32_t retries;        /* of one host; 0 means the default, negative: none */
    enum rota_get_mode mode;
};

enum rota_get_event_type {
    ROTA_GET_ANSWER,
    ROTA_GET_FAILED,
    ROTA_GET_TICK,
    ROTA_GET_MAP_CHANGED, /* the version of the map has changed; for Gets that need to know */
    ROTA_GET_CANCEL,      /* the caller gave up */
};

struct rota_get_fsm_event {
    enum rota_get_event_type type;

    uint64_t number; /* of the try that this ends */
    uint64_t host;   /* of an answer: its sender */
    enum rota_failure failure;
    const struct rota_cost *cost; /* or NULL */

    /* Of an answer. */
    bool all_matched;
    const struct rota_interval_claim *claims; /* that the host has */
    size_t n_claims;
    const uint64_t *ids; /* of its entries */
    size_t n_ids;
    const struct rota_get_fsm_problem *problems;
    size_t n_problems;
};

enum rota_get_action_type {
    ROTA_GET_SEND,
    ROTA_GET_KEEP,       /* parts of this try's answer were used: keep it until the finish */
    ROTA_GET_CANCEL_TRY, /* its answer is no longer needed */
    ROTA_GET_FINISH,     /* always the last */
};

struct rota_get_fsm_action {
    enum rota_get_action_type type;
    uint64_t number;
    size_t try; /* its index, for rota_get_fsm_try() */

    /* Of a send. Pointers are valid until the next step. */
    const struct rota_interval_host *host;
    const uint32_t *keys; /* indices of the keys, each id once */
    size_t n_keys;
    uint64_t epoch; /* the highest of the host's claims, as the map knows them */
    rota_time deadline;
    bool is_hedge;

    /* Of a finish: none when every key is answered; otherwise the worst reason. */
    enum rota_failure failure;
    size_t n_missing;
};

/* The state of a try. */
struct rota_get_fsm_try {
    uint64_t number; /* 0: it waits to be sent again */
    uint64_t host;   /* its id */
    rota_time started_at, ended_at, deadline;
    enum rota_failure
        failure;     /* how it ended; cancelled: another try was first, or it was not needed */
    bool is_running; /* in flight, or about to be sent again */
    bool is_hedge, is_hedged;   /* the second try; or the slow one */
    bool is_mismatch, is_stale; /* what was wrong with its answer */
    uint32_t n_keys, n_taken;   /* sent with it, answered by it */

    /* Private to the machine. */
    uint32_t first;  /* of its keys */
    uint32_t cursor; /* how many of these are known to be settled */
    uint32_t visit;
    uint64_t lesson; /* of its host, as it was sent */
    uint64_t epoch;  /* likewise */
    rota_time at;    /* when to hedge it, or to send it again */
    struct rota_try chosen;
};

/* A host in this Get. */
struct rota_get_visit {
    uint64_t host;       /* its id */
    uint64_t refused;    /* the lesson under which it refused keys; 0: none */
    uint64_t lesson;     /* of the last try */
    uint64_t number;     /* of the last try */
    uint32_t n_tries;    /* in this round */
    uint32_t n_failures; /* in this round, under this lesson */

    /* Of the try that is being prepared. */
    uint32_t n_new, place;
    const struct rota_interval_host *view;
    struct rota_try chosen;
};

/* Keys with the same replicas, while the plan is made. */
struct rota_get_group {
    uint32_t route, n;
    uint32_t first_target, n_targets; /* visits */
};

struct rota_get_fsm {
    const struct rota_get_shared *shared;
    struct rota_get_fsm_options options; /* defaults filled in */
    enum rota_get_copies copies;
    bool is_done, wants_plan, has_no_memory, tells_balancer;
    bool is_backing_off; /* keys whose replicas have failed wait, too */
    rota_time started_at;
    size_t n_running; /* tries in flight, or waiting to be sent again */
    uint32_t n_rounds;
    rota_time look_at; /* when to look again for keys without a replica */
    struct rota_backoff backoff;
    struct rota_get_keys keys;
    ROTA_VECTOR(struct rota_get_fsm_try) tries;
    ROTA_VECTOR(struct rota_get_visit) visits;
    ROTA_VECTOR(uint32_t) visit_table; /* by host: 1 + index, 0: free */
    ROTA_VECTOR(uint32_t) lists;       /* the keys of tries, one after the other */

    /* Of the plan that is being made: the keys, their routes, by route the group (1 + index),
     * the targets of each group, and the hosts that get a try. */
    ROTA_VECTOR(uint32_t) planned;
    ROTA_VECTOR(uint64_t) asked;
    ROTA_VECTOR(uint32_t) routes;
    ROTA_VECTOR(uint32_t) group_of;
    ROTA_VECTOR(struct rota_get_group) groups;
    ROTA_VECTOR(uint32_t) targets;
    ROTA_VECTOR(uint32_t) chosen;

    ROTA_VECTOR(struct rota_interval_claim) fresh; /* of a stale answer: what is not */

    ROTA_VECTOR(struct rota_get_fsm_action) actions; /* with `try` for what it points to */
    size_t next_action;
};

/* Ready for Gets; `shared` is kept. */
void rota_get_fsm_init(struct rota_get_fsm *fsm, const struct rota_get_shared *shared);

/* Frees the memory; tries still running are reported to the balancer. */
void rota_get_fsm_deinit(struct rota_get_fsm *fsm, rota_time now);

/* Begin a Get; the previous one is done. A Get without keys succeeds at once. ROTA_ERR_LIMIT for
 * too many keys, ROTA_ERR_NO_MEMORY: no Get has begun. */
enum rota_code rota_get_fsm_start(struct rota_get_fsm *fsm, rota_time now,
                                  const struct rota_get_fsm_options *options,
                                  struct rota_error *error);

void rota_get_fsm_step(struct rota_get_fsm *fsm, rota_time now,
                       const struct rota_get_fsm_event *event);

/* The next action, after a start or step; false when there is none. */
bool rota_get_fsm_next(struct rota_get_fsm *fsm, struct rota_get_fsm_action *action);

/* When a TICK is next needed; ROTA_TIME_NEVER when only answers are outstanding. */
rota_time rota_get_fsm_deadline(const struct rota_get_fsm *fsm);

/* Whether it needs changes of the map: keys wait, or replicas may be added. */
bool rota_get_fsm_wants_news(const struct rota_get_fsm *fsm);
bool rota_get_fsm_is_done(const struct rota_get_fsm *fsm);

/* --- inspection; results are valid until the next start --- */

struct rota_get_fsm_result rota_get_fsm_result(const struct rota_get_fsm *fsm, size_t key);
size_t rota_get_fsm_n_tries(const struct rota_get_fsm *fsm);
const struct rota_get_fsm_try *rota_get_fsm_try(const struct rota_get_fsm *fsm, size_t index);
