/* The world of sim_get, and what must hold in it. */
#pragma once

#include "core/call/get/get_fsm.h"
#include "get_servers.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

enum { N_GETS = 4, TIMER_PING = N_GETS, TIMER_START = TIMER_PING + 1, RUNNING_MAX = 256 };

#define WINDOW      (1500 * ROTA_MSEC) /* of trouble in one dc, and of rest after it */
#define N_WINDOWS   4
#define CHAOS_AT    (N_WINDOWS * WINDOW)
#define FREEZE      (600 * ROTA_MSEC) /* of a busy host, while the other dc is unreachable */
#define QUIET_AT    (CHAOS_AT + FREEZE + 1200 * ROTA_MSEC)
#define WELL_AT     (QUIET_AT + 1000 * ROTA_MSEC)
#define END_AT      (WELL_AT + 1000 * ROTA_MSEC)
#define PING_PERIOD (100 * ROTA_MSEC)

enum plant {
    PLANT_NONE,
    PLANT_OLDER_TEACHES,
    PLANT_MISMATCH_AGAIN,
    PLANT_MISMATCH_TAKEN,
    PLANT_CALLS_TWICE,
    PLANT_LOSES_DUPLICATE,
    PLANT_NO_DEADLINE,
    PLANT_WAITS_ON,
    PLANT_STALE_TAKEN,
    PLANT_LEAVES_LOSER,
    PLANT_FORGETS_KEY,
    PLANT_BY_PLACE,
    PLANT_GIVES_UP,
    PLANT_JOINS_NOT,
    PLANT_LEFT_ABSENT,
    N_PLANTS,

    PLANT_NEVER_HEDGES = N_PLANTS, /* makes no Get wrong, but slow: freeze() finds it */
};

extern const struct sim_plant plants[N_PLANTS - 1];

/* A try that is out, and to whom. */
struct out {
    uint64_t number;
    uint32_t node;
};

struct get {
    struct rota_get_fsm fsm;
    bool is_active;
    uint64_t serial;
    rota_time started_at, deadline;
    rota_time true_start; /* true time */
    size_t n_keys, n_finished;
    uint64_t ids[REQUEST_KEYS_MAX], keys[REQUEST_KEYS_MAX];
    bool is_answered[REQUEST_KEYS_MAX];
    struct out running[RUNNING_MAX];
    size_t n_running;
    uint64_t refused[N_NODES]; /* the lesson under which the host did not match */
    uint64_t asked[N_NODES];   /* the lesson under which it was asked last */
};

/* What the client has been told by a host, by the newest of its requests. */
struct told {
    uint64_t number;
    struct rota_interval_claim claims[SHARDS_MAX];
    size_t n_claims;
};

/* How a run is meant to be: faults and checks, or load. */
struct setting {
    enum rota_get_mode mode;
    double load; /* of one copy; 0: none to speak of */
    rota_time service;
    rota_time record_at;   /* latencies from then on */
    rota_time ping_period; /* 0 means PING_PERIOD */
    uint32_t n_slots;
    bool is_steady; /* the service takes as long each time */
    bool is_frozen; /* one host is, from when latencies are recorded */
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    struct setting setting;
    struct cluster cluster;
    struct rota_sim_chaos chaos;
    const char *violation;
    bool is_resharded;

    struct rota_interval_map *map;
    struct rota_balancer *balancer;
    struct rota_random random;
    struct rota_budget budget;
    struct rota_hedge hedge;
    struct rota_get_load load;
    struct rota_get_stats stats;
    struct rota_get_shared shared;
    struct get *gets;
    size_t n_gets; /* at a time */
    uint64_t serial;
    rota_time next_start;
    uint64_t version; /* of the map, that Gets were told of */
    struct told told[N_NODES];
    uint64_t seen[N_DCS][SHARDS_MAX + 1][SHARDS_MAX]; /* epochs, by number of shards */
    uint64_t pings[N_NODES];                          /* the one that is out, 0: none */
    uint64_t n_ended, n_failed, n_skipped;
    uint64_t n_good; /* whole, of those that are recorded */
    struct rota_histogram latency;
};

rota_time clock_of(const struct world *world);
void violate(struct world *world, const char *what);
void list_hosts(struct world *world);
uint64_t id_of(const struct world *world, uint32_t node);
uint32_t node_of(const struct world *world, uint64_t id);
uint64_t *seen_of(struct world *world, uint32_t node, const struct rota_interval *shard);

/* An answer has come: what the client can know from now on. */
void note_told(struct world *world, uint32_t node, const struct message *message);
void check_map(struct world *world, uint32_t node);
void note_end(struct get *get, uint64_t number);

/* The answer was given to the machine: what it took, it was allowed to take. */
void check_taken(struct world *world, struct get *get, uint32_t node,
                 const struct message *message);
void check_finish(struct world *world, struct get *get, const struct rota_get_fsm_action *action);
