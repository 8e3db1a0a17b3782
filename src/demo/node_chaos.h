/* node_chaos: decides which node to hit next, to show that nothing is lost.
 *
 *     CALM --pause over, all are well--> DOWN --its time is over--> BACK --all are well--> CALM
 *
 * A node is killed and restarted, or paused and resumed; the durations are random, and now and then
 * long enough for the others to declare it dead.
 *
 * Invariants: a node is hit only while all are well, so that we never cause two to be down; every
 * node that was hit comes back; after the end no node is hit. */
#pragma once

#include <rota/experimental/random.h>
#include <rota/time.h>

enum rota_node_chaos_act {
    ROTA_NODE_CHAOS_NOTHING,
    ROTA_NODE_CHAOS_KILL,
    ROTA_NODE_CHAOS_START, /* a node that was killed */
    ROTA_NODE_CHAOS_STOP,
    ROTA_NODE_CHAOS_CONTINUE, /* a node that was paused */
};

struct rota_node_chaos_todo {
    enum rota_node_chaos_act act;
    uint32_t node;
};

enum rota_node_chaos_state { ROTA_NODE_CHAOS_CALM, ROTA_NODE_CHAOS_DOWN, ROTA_NODE_CHAOS_BACK };

struct rota_node_chaos {
    enum rota_node_chaos_state state;
    struct rota_random random;
    uint32_t n_nodes, node; /* the one hit last */
    rota_time at;           /* the end of CALM's pause, or of DOWN */
    bool is_stopped, is_over;
};

#define ROTA_NODE_CHAOS_CALM_MIN (1 * ROTA_SEC)
#define ROTA_NODE_CHAOS_CALM_MAX (6 * ROTA_SEC)
#define ROTA_NODE_CHAOS_DOWN_MIN (200 * ROTA_MSEC)
#define ROTA_NODE_CHAOS_DOWN_MAX (18 * ROTA_SEC)

void rota_node_chaos_init(struct rota_node_chaos *chaos, uint32_t n_nodes, uint64_t seed,
                          rota_time now);

/* What to do now; `n_well` nodes serve. Call it at the deadline, and whenever one more node is
 * well. */
struct rota_node_chaos_todo rota_node_chaos_step(struct rota_node_chaos *chaos, rota_time now,
                                                 uint32_t n_well);

/* Stop hitting nodes; the next step brings back the one that is down. */
void rota_node_chaos_end(struct rota_node_chaos *chaos);

/* When to ask again; ROTA_TIME_NEVER: when a node is well. */
rota_time rota_node_chaos_deadline(const struct rota_node_chaos *chaos);
