/* The world of sim_lease.c but for its hosts: how it is built, what can be done wrong
 * in it, its database and its resource. */
#pragma once

#include "core/own/lease_fsm.h"
#include "core/own/lease_share.h"
#include "lease_table.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

enum { DATABASE, RESOURCE, FIRST_HOST, HOSTS_MAX = 7, NODES_MAX = FIRST_HOST + HOSTS_MAX };
enum { SHARDS_MAX = 6, OPEN_MAX = 64 };
enum { TIMER_DEADLINE, TIMER_GIVE_UP, TIMER_EFFECT };

#define TTL          (3 * ROTA_SEC)
#define GRID         (TTL / 12)
#define QUIET_AT     (60 * ROTA_SEC)
#define OWNED_AT     (QUIET_AT + 6 * TTL)
#define END_AT       (OWNED_AT + 4 * TTL)
#define FAILOVER_MAX (TTL * 11 / 10) /* from a holder's death to the next one's start */
#define SHARES_AFTER (TTL * 3 / 2)   /* from a death to the others' larger shares */
#define DRIFT_EVEN   200             /* ppm: clocks that run as evenly as real ones */
#define SKEW         (200 * ROTA_MSEC)

enum kind {
    KIND_STORM,      /* all but stale fail-overs */
    KIND_GRID,       /* nothing takes time, all happens at whole steps; no guard is needed */
    KIND_STALE,      /* stale fail-overs without a hold, by clocks that are about right */
    KIND_STALE_HOLD, /* with one, by clocks that are not; hosts are told what was lost */
    N_KINDS,
};

enum plant {
    PLANT_NONE,
    PLANT_ARRIVAL,
    PLANT_LESS_EQUAL,
    PLANT_PING_NO_EPOCH,
    PLANT_PING_BY_HOST,
    PLANT_PING_ALL,
    PLANT_UNKNOWN,
    PLANT_WALL,
    PLANT_NO_WATCH,
    PLANT_WATCH_FROM_ASK,
    PLANT_NO_FLOOR,
    PLANT_NO_HOLD,
    PLANT_NO_GUARD,
    PLANT_TIMERS,
    PLANT_ALONE,
    PLANT_RELEASE,
    PLANT_NO_FENCE,
    PLANT_NO_STRAYS,
    PLANT_RARE_LOOKS,
    PLANT_SHARE_BLIND,
    PLANT_SHARE_STRICT,
    PLANT_NO_HEIRS,
    N_PLANTS,
};

extern const struct sim_plant plants[N_PLANTS - 1];

enum request_type { REQUEST_CLAIM, REQUEST_LIST, REQUEST_PING, REQUEST_RELEASE };

/* Those that go out together, and what became of each. */
struct ping {
    uint64_t ask;
    uint32_t shard;
    uint64_t epoch;
    enum rota_lease_event_type outcome;
};

struct request {
    enum request_type type;
    uint64_t ask;
    uint32_t database_life, host_life; /* the connection: it ends with either of them */
    uint32_t shard;
    uint64_t epoch;
    struct lease_table_claim claim; /* host and instance are set for all */
    size_t n_pings;
    struct ping pings[SHARDS_MAX];
};

struct answer {
    enum rota_lease_event_type type;
    uint64_t ask;
    uint32_t host_life;
    uint32_t shard;
    uint64_t epoch;
    size_t n_pings;
    struct ping pings[SHARDS_MAX];
    size_t n_rows;
    struct rota_lease_row rows[LEASE_TABLE_SHARDS_MAX];
};

struct effect {
    uint32_t shard, node, life;
    uint64_t epoch;
};

struct open_ask {
    uint64_t ask;
    enum rota_lease_action_type type;
    rota_time give_up_at;
};

struct host {
    bool is_ready, is_over; /* it waits for its end, after DONE or a loss */
    uint32_t name;
    bool is_alone;
    uint32_t n_wanted;
    uint32_t weight; /* among those that divide the shards */
    uint32_t n_told; /* of the fail-overs */
    uint64_t instance;
    struct rota_lease_fsm fsm;
    struct open_ask open[OPEN_MAX];
    size_t n_open;
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    enum kind kind;
    bool aborts;    /* a loss ends the process */
    bool is_shared; /* hosts want all shards, and each is told its share */
    bool is_even;   /* clocks run evenly: fail-overs are in time */
    bool is_ragged; /* who dies in peace has not pinged all of its shards at the same time */
    rota_time give_up_after;
    uint32_t n_hosts, n_shards;
    struct host hosts[NODES_MAX];
    struct rota_sim_chaos host_chaos, database_chaos;

    struct lease_table table, replica;
    bool is_failing_over;
    uint32_t n_failovers;
    rota_time stale_until;        /* without a hold O4 is not promised before */
    uint64_t granted[SHARDS_MAX]; /* the highest epoch of all times */
    uint64_t lost[SHARDS_MAX];    /* the same at the last failover */
    uint32_t victim;              /* the host that dies in peace; 0: none has */
    rota_time died_at;
    bool is_orphan[SHARDS_MAX];        /* what it held */
    struct effect started[SHARDS_MAX]; /* with the highest epoch */
    struct effect applied[SHARDS_MAX]; /* the last */
};

bool chance(struct world *world, double probability);
void database_answer(struct world *world, uint32_t from, struct request request);

/* The replica takes over as it is. */
void database_start(struct world *world);
void replicate(void *data, uint64_t number);
void start_node(void *data, uint64_t node);
void fail_over(void *data, uint64_t number);
void resource_apply(struct world *world, const struct effect *effect);
