/* handover_world: brokers that hand jobs to each other, for simulations: the real machines of
 * core/work/broker/broker.h and core/work/cluster/handover_fsm.h at each node, disks, the nodes
 * that each knows of, and a list of owners that changes and reaches each node at another time. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"
#include "core/work/cluster/handover_fsm.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

#include <rota/rpc.h>

enum { NODES = 3, PARTS = 4, JOBS_MAX = 600, SLOTS = 2 };
enum { TIMER_SYNC, TIMER_CORE, TIMER_HANDOVER, TIMER_WORK, TIMER_CALLS, TIMER_OTHER };

#define QUIET_AT     (40 * ROTA_SEC)
#define END_AT       (70 * ROTA_SEC)
#define CALL_TIMEOUT (400 * ROTA_MSEC)

/* What is done wrong on purpose. */
enum handover_plant {
    HANDOVER_NONE,
    HANDOVER_SEND_EARLY,
    HANDOVER_ANSWER_EARLY,
    HANDOVER_NAMES_LOST,
    HANDOVER_CHUNKS_LOST,
    HANDOVER_HALVES_KEPT,
    HANDOVER_UNSEEN,
    HANDOVER_FORGET_FIRST,
    HANDOVER_NEVER_AGAIN,
    HANDOVER_NODES_LOST,
    HANDOVER_LEAVES_FULL,
    HANDOVER_LISTED_ONLY,
    N_HANDOVER_PLANTS,
};

/* Requests and answers; the jobs of a request follow. */
struct message {
    uint32_t kind; /* 0: of a handover; others are for on_frame */
    uint64_t serial;
    struct rota_job_id name;
    uint32_t partition;
    bool is_answer, is_over;
    rota_time at; /* of an answer: since when the node may hold jobs, by its own clock */

    /* Of other kinds. */
    uint32_t job;
    enum rota_status status;
    bool is_stale, is_undone, is_found, has_nodes;
    uint64_t nodes;
    rota_time sent_at; /* true time */
};

struct kept {
    struct rota_buffer bytes;
    uint64_t number;
    uint32_t job;
    bool is_done; /* the record says that `job` is */
    bool is_new;  /* ... or that it was added */
};

/* What is true once a record is on disk. */
struct held {
    enum { HELD_ADDED, HELD_ANSWER, HELD_OTHER } what;
    uint64_t number;
    uint32_t job, to;
    struct message answer;
};

struct call {
    uint64_t serial;
    struct rota_job_id name;
    rota_time until;
};

struct running {
    struct rota_job_id id;
    uint64_t attempt;
    rota_time until;
};

struct node {
    struct rota_broker *core; /* NULL: down */
    struct rota_handover_fsm fsm;
    ROTA_VECTOR(struct kept) disk;
    size_t n_synced;
    uint64_t durable;
    ROTA_VECTOR(struct held) held;
    ROTA_VECTOR(struct call) calls;
    ROTA_VECTOR(struct running) running;
    uint32_t number;
    uint8_t owners[PARTS]; /* as it knows them */
    bool is_leaving;       /* it says when it holds none */
    bool is_told;          /* it has heard what the others know */
    bool is_behind;        /* its list changed while it was paused */
};

struct job {
    struct rota_job_id id;
    bool is_added;
    bool is_ended; /* as far as any node knows, on disk or not */
    uint32_t n_done;
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    enum handover_plant plant;
    struct rota_sim_chaos chaos;
    struct node nodes[NODES];
    struct job jobs[JOBS_MAX];
    uint32_t n_jobs;
    uint64_t serial;
    bool keeps_ended;       /* jobs that have ended are not forgotten */
    bool is_deaf_to_itself; /* a plant: nodes do not learn what others remember of them */

    /* What else nodes do; NULL: nothing. */
    void (*on_node)(struct world *world, uint32_t number, bool is_up);
    void (*on_frame)(struct world *world, uint32_t number, uint32_t from,
                     const struct message *message);
    void (*on_held)(struct world *world, uint32_t number, const struct held *held);
    void (*on_due)(struct world *world, uint32_t number);
    void (*on_added)(struct world *world, uint32_t number, uint32_t job); /* on disk */
};

extern const char *const ADDRESSES[NODES];

void die(const char *text);
struct rota_work_now now_of(const struct world *world, uint32_t node);
struct rota_str queue(void);
bool by_chance(struct world *world, int percent);
void set_timer(struct world *world, uint32_t node, uint32_t timer, rota_time wait);

/* Whether a node is up and runs; and whether it lists another. */
bool is_well(const struct world *world, uint32_t number);
bool is_listed(const struct node *node, uint32_t other);

/* Execute the effects of a node's broker; and tell what it holds once that is on disk. */
void drive(struct world *world, uint32_t number);
void hold(struct world *world, uint32_t number, struct held held);

/* Go by the list that it has, if it is behind. */
void follow(struct world *world, uint32_t number);

/* A world of the run, with `begin` to start what happens in it and `check` for its end. */
void run_handovers(struct sim_case *run, struct world *world, void (*begin)(struct world *world),
                   void (*check)(struct world *world));
