/* get_fsm: one Get of many keys, from the shards that hold them.
 *
 *     start: each key goes to the replicas that the map knows for it
 *     answer: its keys are answered, first come; the map learns from it
 *     all_matched = false: the map learns, the keys go elsewhere, never there again
 *     failure, time: the host is tried once more, the keys go to other replicas
 *     nobody holds the key, or all have failed: WAIT and look again
 *     all keys answered, the deadline, cancel, a request that is wrong: FINISH
 *
 * Waits: failures alone never end a Get before its deadline, for a host may come back
 * and a shard may move. Keys whose replicas have all failed wait for a pause that grows
 * and is never the same for two, and then for a token; a host of theirs that answers
 * others again, or a map that knows another one, ends the pause.
 *
 * Copies: broadcast sends each key to all live replicas at once and, as far as
 * retries go, to each apart from the others; one that the map learns of meanwhile joins
 * in. Otherwise one replica is chosen by the
 * balancer, and a second one when the first is slow (hedge.h) or has failed.
 *
 * Keys: an id is the key's own within a Get. A key that is asked for twice is sent
 * once and answered twice. An entry with an id that the try did not ask for, or
 * that is not of the shard that answers, is ignored. A key that a matching answer
 * has no entry for is *absent*: that is an answer, too. A key that the answer has no
 * room for is *left*, and asked for again. One that can't be given is *refused*, which is
 * the end of it unless another host is being asked for it.
 *
 * Invariants: exactly one finish, after which no try runs. Each key has at most
 * one result; at the finish it has one or is named with the reason. No try begins
 * at or after the deadline, or without a token when it is extra. An answer of an
 * epoch older than what was seen of its shard answers nothing. Every try that the
 * balancer chose is reported once. An event that comes late, or twice, answers
 * nothing; a late answer still teaches the map.
 *
 * One machine is used for many Gets, one after the other, and keeps its memory. */
#pragma once

#include "base/vector.h"
#include "core/call/backoff.h"
#include "core/call/budget.h"
#include "core/call/failure.h"
#include "core/call/get_keys.h"
#include "core/call/get_load.h"
#include "core/call/hedge.h"
#include "core/call/interval_map.h"

#include <rota/get.h>

enum {
    ROTA_GET_RETRIES = 1, /* of a host */
    ROTA_GET_RETRIES_MAX = 16,
    ROTA_GET_HOST_TRIES_MAX = 32, /* of one host between two waits */
    ROTA_GET_TRIES_MAX = 65536,   /* of one Get */
    ROTA_GET_ROUNDS_MAX = 256,    /* waits of a Get without a deadline */
};

#define ROTA_GET_PING_TIME    ROTA_SEC         /* how long a key without a shard waits */
#define ROTA_GET_HOST_TIMEOUT ROTA_SEC         /* at most; or a third of the time there is */
#define ROTA_GET_BACKOFF      (10 * ROTA_MSEC) /* before a host is tried again, growing */
#define ROTA_GET_BACKOFF_MAX  (500 * ROTA_MSEC)

/* For hedges of Gets: one try in 20, and ten per second, so that a client whose Gets are
 * all stuck, and which therefore makes no new ones, still comes loose. */
#define ROTA_GET_BUDGET_HEDGES ((struct rota_budget_options){50000, 10, 10})

struct rota_get_stats {
    uint64_t n_gets, n_keys, n_tries, n_retries, n_hedges;
    uint64_t n_copies[3];  /* Gets by what get_load.h or the mode chose */
    uint64_t n_cancelled;  /* tries that lost */
    uint64_t n_mismatched; /* answers with all_matched = false */
    uint64_t n_stale;      /* answers of an older epoch */
    uint64_t n_unbudgeted; /* extra tries that the budget refused */
    uint64_t n_waits;
    uint64_t n_failed; /* Gets that lack a key */
    size_t n_running;  /* tries that are out now, of all Gets */
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
    ROTA_GET_MAP_CHANGED, /* the version of the map is another; for Gets that want to know */
    ROTA_GET_CANCEL,      /* the caller has given up */
};

struct rota_get_fsm_event {
    enum rota_get_event_type type;

    uint64_t number; /* of the try that this ends */
    uint64_t host;   /* of an answer: who gave it */
    enum rota_failure failure;
    const struct rota_cost *cost; /* or NULL */

    /* Of an answer. */
    bool has_shard, all_matched;
    struct rota_interval shard;
    uint64_t epoch;
    const uint64_t *ids; /* of its entries */
    size_t n_ids;
    const struct rota_get_fsm_problem *problems;
    size_t n_problems;
};

enum rota_get_action_type {
    ROTA_GET_SEND,
    ROTA_GET_KEEP,       /* parts of this try's answer were taken: keep it to the finish */
    ROTA_GET_CANCEL_TRY, /* nobody waits for its answer any more */
    ROTA_GET_FINISH,     /* always the last */
};

struct rota_get_fsm_action {
    enum rota_get_action_type type;
    uint64_t number;
    size_t try; /* its index, for rota_get_fsm_try() */

    /* Of a send. What is pointed at is good until the next step. */
    const struct rota_interval_host *host;
    const uint32_t *keys; /* indices of the keys, each id once */
    size_t n_keys;
    uint64_t epoch; /* the host's, as the map knows it */
    rota_time deadline;
    bool is_hedge;

    /* Of a finish: none when every key is answered; otherwise the worst reason. */
    enum rota_failure failure;
    size_t n_missing;
};

/* What became of a try. */
struct rota_get_fsm_try {
    uint64_t number; /* 0: it waits to be sent again */
    uint64_t host;   /* its id */
    rota_time started_at, ended_at, deadline;
    enum rota_failure failure;  /* how it ended; cancelled: it lost, or was not needed */
    bool is_running;            /* out, or about to be sent again */
    bool is_hedge, is_hedged;   /* the second try; or the one that was slow */
    bool is_mismatch, is_stale; /* what was wrong with its answer */
    uint32_t n_keys, n_taken;   /* sent with it, answered by it */

    /* The machine's own. */
    uint32_t first;  /* of its keys */
    uint32_t cursor; /* of these, how many are known to be pending no more */
    uint32_t visit;
    uint64_t lesson;            /* of its host, as it was sent */
    struct rota_interval shard; /* likewise */
    uint64_t epoch;             /* likewise */
    rota_time at;               /* when to hedge it, or to send it again */
    struct rota_try chosen;
};

/* A host in this Get. */
struct rota_get_visit {
    uint64_t host;       /* its id */
    uint64_t refused;    /* the lesson under which it has refused keys; 0: none */
    uint64_t lesson;     /* of the last try */
    uint64_t number;     /* of the last try */
    uint32_t n_tries;    /* in this round */
    uint32_t n_failures; /* in this round, under this lesson */

    /* Of the try that is being made. */
    uint32_t n_new, place;
    const struct rota_interval_host *view;
    struct rota_try chosen;
};

/* Keys with the same replicas, while it is decided where they go. */
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
    size_t n_running; /* tries that are out, or wait to be sent again */
    uint32_t n_rounds;
    rota_time look_at; /* when to look again for keys without a replica */
    struct rota_backoff backoff;
    struct rota_get_keys keys;
    ROTA_VECTOR(struct rota_get_fsm_try) tries;
    ROTA_VECTOR(struct rota_get_visit) visits;
    ROTA_VECTOR(uint32_t) visit_table; /* by host: 1 + index, 0: free */
    ROTA_VECTOR(uint32_t) lists;       /* the keys of tries, one after the other */

    /* Of the plan that is being made: the keys, their routes, by route the group
     * (1 + index), where each group goes, and who gets a try. */
    ROTA_VECTOR(uint32_t) planned;
    ROTA_VECTOR(uint64_t) asked;
    ROTA_VECTOR(uint32_t) routes;
    ROTA_VECTOR(uint32_t) group_of;
    ROTA_VECTOR(struct rota_get_group) groups;
    ROTA_VECTOR(uint32_t) targets;
    ROTA_VECTOR(uint32_t) chosen;

    ROTA_VECTOR(struct rota_get_fsm_action) actions; /* with `try` for what is pointed at */
    size_t next_action;
};

/* Ready for Gets; `shared` is kept. */
void rota_get_fsm_init(struct rota_get_fsm *fsm, const struct rota_get_shared *shared);

/* Frees the memory; the balancer hears of tries that still run. */
void rota_get_fsm_deinit(struct rota_get_fsm *fsm, rota_time now);

/* Begin a Get; the one before it is done. A Get of nothing finishes at once and
 * well. ROTA_ERR_LIMIT for too many keys, ROTA_ERR_NO_MEMORY: no Get has begun. */
enum rota_code rota_get_fsm_start(struct rota_get_fsm *fsm, rota_time now,
                                  const struct rota_get_fsm_options *options,
                                  struct rota_error *error);

void rota_get_fsm_step(struct rota_get_fsm *fsm, rota_time now,
                       const struct rota_get_fsm_event *event);

/* The next thing to do, after a start or step; false when there is nothing. */
bool rota_get_fsm_next(struct rota_get_fsm *fsm, struct rota_get_fsm_action *action);

/* When a TICK is next needed; ROTA_TIME_NEVER when only answers are awaited. */
rota_time rota_get_fsm_deadline(const struct rota_get_fsm *fsm);

/* Whether it is to hear of changes of the map: keys wait, or others may join in. */
bool rota_get_fsm_wants_news(const struct rota_get_fsm *fsm);
bool rota_get_fsm_is_done(const struct rota_get_fsm *fsm);

/* --- looking inside; results are good until the next start --- */

struct rota_get_fsm_result rota_get_fsm_result(const struct rota_get_fsm *fsm, size_t key);
size_t rota_get_fsm_n_tries(const struct rota_get_fsm *fsm);
const struct rota_get_fsm_try *rota_get_fsm_try(const struct rota_get_fsm *fsm, size_t index);
