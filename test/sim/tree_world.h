/* Forwarding in a world on virtual time: what its files share.
 *
 *     tree_world.h  the words, the plants, the route, calls between nodes (this file)
 *     tree_jobs.h   what a broker does with jobs, and which nodes steal some
 *     tree_drive.h  carries out actions, and passes events to the machines
 *
 * Lives, what must hold, and the runs are in sim_tree.c. */
#pragma once

#include "core/work/cluster/remote_fsm.h"
#include "core/work/cluster/tree_fsm.h"
#include "core/work/cluster/yield.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

enum {
    NODES_MAX = 8,
    WORKERS_MAX = 4, /* of a node; each has one slot */
    JOBS_MAX = 400,
    N_QUEUES = 3,
    N_NAMES = 5,
    CALLS_MAX = 2048, /* one of 10,000 seeds had 795 */
    SEEN_MAX = 4096,
    TRIPS_MAX = 256,
};

#define QUIET_AT     (20 * ROTA_SEC)
#define END_AT       (40 * ROTA_SEC)
#define CALM         ROTA_MSEC /* what a message takes in a calm world */
#define CALL_TIMEOUT ROTA_SEC
#define LEASE        (3 * ROTA_SEC)
#define WORK_MAX     (8 * ROTA_SEC)
#define SHARE_BOUND  (2 * (ROTA_YIELD_EVERY + ROTA_YIELD_FOR + WORK_MAX))
#define NO_WORKER    UINT32_MAX

enum plant {
    PLANT_NONE,
    PLANT_REFUSAL_UNTOLD,
    PLANT_WANT_SAID_ONCE,
    PLANT_OFFER_SAID_ONCE,
    PLANT_DEAD_PARENT_KEPT,
    PLANT_SLOT_NOT_KEPT,
    PLANT_SLOT_NOT_FREED,
    PLANT_ROUTE_UNTOLD,
    PLANT_NEVER_EXTENDED,
    PLANT_NEVER_REFRESHED,
    PLANT_END_ONCE,
    PLANT_CAN_IGNORED,
    PLANT_LEASE_FORGOTTEN,
    PLANT_NEVER_YIELDS,
};

enum type { TELL, TOLD, VISIT, WENT, POLL, HANDED, EXTEND, END, ANSWER };

/* Without holes, for its bytes are part of the trace. */
struct message {
    enum type type;
    enum rota_tree_kind kind;
    enum rota_code code;
    uint32_t is_lost, queue, can, node, n, hops, job;
    uint64_t call; /* of the sender; answers carry it back */
    uint64_t stamp, visit, attempt;
    rota_time age, until; /* `until`: true time, when the caller gives up */
};

struct call {
    uint64_t number; /* 0: free */
    uint32_t to, worker, trip;
    rota_time until; /* on the clock of the caller */
    struct message message;
};

enum slot { IDLE, KEPT, BUSY };

struct worker {
    uint32_t node, can, queues; /* masks */
    enum slot slot;
    uint32_t job; /* when it is busy, or has ended and was not answered */
    uint64_t attempt;
    rota_time idle_since, busy_since; /* true time */
    rota_time done_at;                /* on the clock of its node; 0: it has said so */
    rota_time free_since;             /* the same */
    struct rota_yield yield;
    bool is_up;
};

struct job {
    uint32_t node, queue, can;
    enum { WAITING, RUNNING, DONE } state;
    uint64_t attempt;
    rota_time since;       /* true time */
    rota_time lease_until; /* on the clock of its node; NEVER: with a worker there */
    uint32_t holder;       /* the worker it was handed to, in truth */
    rota_time handed_at;   /* true time */

    /* The last end that a worker of another node has said: where, of which attempt, when. */
    uint32_t end_node;
    uint64_t end_attempt;
    rota_time end_at;
};

/* A visit that we are on. */
struct trip {
    bool is_used, is_lost;
    uint32_t from, n, n_left;
    uint64_t call, visit; /* of whoever has sent us; `visit` when that is ourselves */
};

struct node {
    struct rota_tree_fsm *fsm;
    struct trip trips[TRIPS_MAX];
    struct rota_remote_fsm remote;
    struct call calls[CALLS_MAX];
    uint64_t n_calls;
    size_t calls_end;        /* the places of calls that were ever used */
    uint32_t view;           /* of the route */
    rota_time troubled_at;   /* true time: when it was last in trouble */
    uint64_t seen[SEEN_MAX]; /* polls that came, by sender and number */
    size_t n_seen;
};

struct world {
    struct rota_sim *sim;
    struct rota_sim_chaos chaos;
    enum plant plant;
    bool is_calm, is_stream;
    uint32_t n_nodes, n_partitions, degree, n_views;
    struct node nodes[NODES_MAX];
    struct worker workers[NODES_MAX * WORKERS_MAX];
    uint32_t n_workers;
    struct job jobs[JOBS_MAX];
    uint32_t n_jobs, n_done, n_remote;
    uint64_t n_attempts;
    char names[NODES_MAX][8];
    rota_time worst; /* wait of a job while a worker was idle */
};

extern const char *const QUEUES[N_QUEUES];

/* Of all seeds, for whoever reads the output. */
extern struct totals {
    uint64_t n_jobs, n_remote, n_visits, n_vain, n_said;
    rota_time worst_calm, worst;
} totals;

rota_time mono(const struct world *world, uint32_t node);
struct rota_str can_text(uint32_t can, char text[2 * N_NAMES]);
uint32_t can_mask(struct rota_str text);
uint32_t queue_of(struct rota_str name);
uint32_t node_of(const struct world *world, struct rota_str name);
bool can_do(const struct worker *worker, const struct job *job);

struct viewer {
    struct world *world;
    uint32_t node;
};
extern struct viewer viewers[NODES_MAX];

/* By chance, but the same for all with one view. Some nodes may have no partition. */
struct rota_str owner(void *data, struct rota_str queue, uint32_t partition);
struct rota_str node_at(void *data, size_t index);
void post(struct world *world, uint32_t from, uint32_t to, const struct message *message);
void call(struct world *world, uint32_t from, uint32_t to, struct message message, uint32_t worker,
          uint32_t trip);
void answer(struct world *world, uint32_t from, uint32_t to, const struct message *to_what,
            struct message message);
