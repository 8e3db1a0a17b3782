/* handover_world: brokers that hand jobs to each other, for simulations: the real machines of
 * core/work/broker/broker.h and core/work/cluster/handover_fsm.h at each node, and disks.
 * handover_lists.h has the nodes that each knows of, and a list of owners that changes and reaches
 * each node at another time. */
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
#define CALL_TIMEOUT (800 * ROTA_MSEC)

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
    HANDOVER_SURE,
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
    uint8_t owners[PARTS]; /* by the list that it follows */
    uint8_t news[PARTS];   /* by the one that it is to follow next */
    bool has_news;
    bool has_left; /* it is not on its list, and has said that it holds no jobs */
    bool is_told;  /* it has heard what the others know */
};

struct job {
    struct rota_job_id id;
    bool is_added;
    bool is_ended; /* as far as any node knows, on disk or not */
    uint32_t n_done;
};

/* How fast things happen in a world: some states are met only where lists change all the time,
 * others only where they rarely do. */
struct pace {
    rota_time delay;  /* of a message, on average */
    rota_time sync;   /* of a disk, at most */
    rota_time crash;  /* between two crashes, on average */
    rota_time route;  /* between two lists, on average */
    rota_time learn;  /* until a node has a list, at most */
    rota_time ask;    /* between two times that a node asks what another one knows */
    rota_time start;  /* until a node that starts has asked, at most */
    int heard;        /* percent: a node hears what another one says to all */
    int content;      /* percent: a client does not repeat an add that was acknowledged */
    bool has_returns; /* lists name all nodes and some of them in turn */
};

/* For a while after a node has come back, clients go to it, and to one that has not heard that. */
struct crowd {
    uint32_t back, unaware;
    rota_time until;
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    struct pace pace;
    enum handover_plant plant;
    struct rota_sim_chaos chaos;
    struct node nodes[NODES];
    struct job jobs[JOBS_MAX];
    uint32_t n_jobs;
    uint64_t list;      /* the owners that were announced last, as learn_call() has them */
    bool is_off[NODES]; /* the nodes that are not on it */
    struct crowd crowd;
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

/* Execute the effects of a node's broker; tell what it holds once that is on disk; an event of its
 * handovers; `n` more records are on disk, whether anyone is told or not. */
void drive(struct world *world, uint32_t number);
void hold(struct world *world, uint32_t number, struct held held);
void step(struct world *world, uint32_t number, struct rota_handover_event event);
void harden(struct world *world, struct node *node, size_t n);

/* A world of the run, with `begin` to start what happens in it and `check` for its end. */
void run_handovers(struct sim_case *run, struct world *world, void (*begin)(struct world *world),
                   void (*check)(struct world *world));
