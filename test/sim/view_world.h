/* The world of sim_view.c and sim_migrate.c: nodes that own shards by views in one
 * database, the database, and a resource that refuses epochs lower than one it has seen.
 *
 * A node is the machine of core/own/view_fsm.h and a driver; the database is that of
 * test/lib/view_table.h, asked by messages. Beside it there is another engine, for spaces
 * that are in flight to it or from it: a slot per shard in the database, which a node
 * may claim if it is free or its holder has no row. */
#pragma once

#include "core/own/migrate_fsm.h"
#include "core/own/view_fsm.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"
#include "view_table.h"
#include "wire/text/view_text.h"

enum { DATABASE, RESOURCE, FIRST_HOST, HOSTS_MAX = 6, NODES_MAX = FIRST_HOST + HOSTS_MAX };
enum { SHARDS_MAX = 16, OPEN_MAX = 64, CLAIMS_MAX = 1 << 14, NUMBERS_MAX = 4096 };
enum { TIMER_DEADLINE, TIMER_GIVE_UP, TIMER_EFFECT, TIMER_LATE_STOP };

#define TTL      (3 * ROTA_SEC)
#define QUIET_AT (60 * ROTA_SEC)
#define OWNED_AT (QUIET_AT + 8 * TTL)
#define END_AT   (OWNED_AT + 3 * TTL)
#define HOLD     (TTL * 5 / 4)
#define SKEW     (200 * ROTA_MSEC)

/* --- what goes over the wire --- */

enum request_type {
    REQUEST_JOIN,
    REQUEST_BEAT,
    REQUEST_LEAVE,
    REQUEST_EVICT,
    REQUEST_READ,
    REQUEST_PROPOSE,
    REQUEST_CLAIM, /* of the other engine */
    REQUEST_RELEASE,
};

struct request {
    enum request_type type;
    uint64_t ask;
    uint32_t database_life, host_life; /* the connection: it ends with either of them */
    struct view_table_row row;
    uint64_t former, known, known_hash, number; /* the hash is that of the known view's text */
    uint32_t shard;
    uint64_t epoch; /* of a claim: the floor */
    uint64_t run, ask_of_life;
    size_t text_size;
    char text[VIEW_TABLE_TEXT_MAX];
};

struct answer {
    enum request_type to;
    enum rota_view_event_type type;
    uint64_t ask;
    uint32_t host_life;
    uint64_t number, hash; /* of the view, and of its text */
    uint64_t unix_ms, highest;
    uint32_t shard;
    uint64_t epoch, run;
    size_t n_rows;
    struct view_table_row rows[VIEW_TABLE_ROWS_MAX];
    size_t text_size;
    char text[VIEW_TABLE_TEXT_MAX];
};

struct effect {
    uint32_t shard, node, life;
    uint64_t epoch;
};

/* --- who there is --- */

struct open_ask {
    uint64_t ask;
    enum rota_view_ask_type type;
    rota_time give_up_at;
};

struct host {
    bool is_ready, is_over;
    bool is_draining; /* an operator's word, which is kept over restarts */
    struct rota_view_fsm fsm;
    uint64_t seed;
    struct open_ask open[OPEN_MAX];
    size_t n_open;

    uint64_t serving[SHARDS_MAX]; /* the epoch; 0: not */
    uint64_t late[SHARDS_MAX];    /* a plant: what should have been stopped */
    uint64_t former[SHARDS_MAX];  /* a plant: the first epoch of this life */
    bool failing[SHARDS_MAX];     /* it is ours, but its start has failed */
    bool told[SHARDS_MAX];        /* and the machine knows */
    rota_time until;
    uint64_t run; /* of the other engine: its number, 0: it does not run */
    uint64_t n_runs, run_floor, n_claims;
    rota_time claim_at;
};

/* A slot of the other engine. */
struct slot {
    uint32_t node; /* 0: free */
    uint64_t instance, epoch;
};

struct claim {
    uint32_t shard, node, life;
    uint64_t epoch;
};

struct known_view {
    uint64_t number, hash;
};

struct world {
    struct rota_sim *sim;
    int plant;
    uint32_t n_hosts, n_shards; /* no shards: the space is keyed */
    bool is_alone, are_twins;
    uint32_t observer; /* a node that takes no part; 0: there is none */
    rota_time give_up_after;
    enum rota_view_engine engine; /* of the first view */
    struct host hosts[NODES_MAX];
    struct rota_sim_chaos host_chaos, database_chaos;

    struct view_table table, replica, earlier;
    struct slot slots[SHARDS_MAX];
    uint64_t last_claim[NODES_MAX];
    bool is_failing_over;
    bool is_set_back; /* the database's clock is behind all numbers */
    uint32_t n_failovers;
    rota_time away_until; /* true time: the database answers nothing before */
    uint64_t number_max;  /* of all views that there were */
    uint64_t lost_max;    /* the same at the last fall back */
    uint64_t n_wishes, n_outcomes;
    bool cannot[NODES_MAX][SHARDS_MAX]; /* a start of this shard fails on this node, now */
    bool broken[NODES_MAX][SHARDS_MAX]; /* and always will */

    struct claim claims[CLAIMS_MAX]; /* all that were ever started */
    size_t n_claims;
    uint64_t started[SHARDS_MAX]; /* the highest epoch that was */
    struct effect applied[SHARDS_MAX];
    struct known_view views[NUMBERS_MAX];
    size_t n_views;

    /* What a simulation does wrong, or besides; NULL: nothing. */
    void (*on_request)(struct world *world, uint32_t node, struct request *request);
    void (*on_answer)(struct world *world, uint32_t node, struct answer *answer);
    void (*on_event)(struct world *world, uint32_t node, struct rota_view_event *event);
    void (*on_made)(struct world *world, uint32_t node);
    void (*on_step)(struct world *world, uint32_t node, const struct rota_view_actions *todo);
    void (*on_view)(struct world *world, uint32_t node);
    bool keeps_stops, stops_late, has_no_end, skips_fence, has_no_clock, changes_views; /* plants */
};

bool chance(struct world *world, double probability);
rota_time clock_of(const struct world *world, uint32_t node);

/* Twins are two processes with one name, of which one has to stand by. */
void name_of(const struct world *world, uint32_t node, char name[VIEW_TABLE_NAME_MAX]);

/* Those who know nothing of the views that were lost count from a number of before, and no clock
 * tells them better. */
bool has_lost_numbers(const struct world *world);
void resource_apply(struct world *world, const struct effect *effect);
void database_answer(struct world *world, uint32_t from, struct request *request);
