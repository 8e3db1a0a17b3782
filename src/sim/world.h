/* The inside of the world: private to the files of this folder. */
#pragma once

#include "base/heap.h"
#include "base/vector.h"
#include "sim/sim.h"

#include <assert.h>

enum rota_sim_what { ROTA_SIM_WAIT_TIMER, ROTA_SIM_WAIT_MESSAGE, ROTA_SIM_WAIT_CALL };

/* Events are not freed before the end: each goes to the free list of its size class, so that a
 * run soon allocates nothing. */
enum { ROTA_SIM_SMALLEST = 64, ROTA_SIM_CLASSES = 8 };
static_assert(ROTA_SIM_SMALLEST << 2 * (ROTA_SIM_CLASSES - 1) == ROTA_SIM_MESSAGE_MAX,
              "the last class fits all");

struct rota_sim_pending {
    struct rota_heap_node heap; /* first, so that the heap's pointer is ours */
    struct rota_sim_pending *next_free;
    enum rota_sim_what what;
    uint32_t size_class;
    uint32_t node, from;
    uint64_t number; /* of a timer or a call */
    union {
        struct {
            enum rota_sim_clock_kind clock;
            bool is_late; /* was due while the node was paused: in its backlog */
            rota_time at; /* on that clock */
        };
        struct {
            void (*call)(void *data, uint64_t number);
            void *data;
        };
    };
    size_t size;
    char bytes[];
};

struct rota_sim_node {
    struct rota_sim_clock clock;
    rota_time skew; /* of the wall clock at the start */
    uint32_t life;
    uint8_t group;
    bool is_up, is_paused;
    struct rota_heap backlog;                      /* what was due while it was paused */
    ROTA_VECTOR(struct rota_sim_pending *) timers; /* by number; NULL: not set */
    bool *blocked;                                 /* by receiver; NULL: none is */
    struct rota_sim_link *links;                   /* by receiver; NULL: all have the common one */
};

struct rota_sim_check {
    const char *(*ask)(void *data);
    void *data;
};

struct rota_sim {
    struct rota_sim_options options;
    rota_time now;
    uint64_t order;   /* of the next event among those at the same time */
    uint64_t instant; /* how many events happened at `now` */
    uint64_t n_events, hash;
    struct rota_random own, users;
    struct rota_heap queue;
    struct rota_sim_pending *free[ROTA_SIM_CLASSES];
    size_t n_late; /* in the backlogs of paused nodes */
    struct rota_sim_check checks[ROTA_SIM_CHECKS_MAX];
    size_t n_checks;
    bool is_failed;
    char violation[ROTA_SIM_TEXT_MAX];
    struct rota_sim_node nodes[];
};

/* The node with this number. */
static inline struct rota_sim_node *rota_sim_get(const struct rota_sim *sim, uint32_t node)
{
    assert(node < sim->options.n_nodes);
    return (struct rota_sim_node *)&sim->nodes[node];
}

/* Gives an event with room for `size` bytes, or NULL when the run has failed. */
struct rota_sim_pending *rota_sim_pending_new(struct rota_sim *sim, enum rota_sim_what what,
                                              uint32_t node, size_t size);
void rota_sim_pending_free(struct rota_sim *sim, struct rota_sim_pending *event);

/* Queue `event` for true time `at`. Takes it; false when there is no memory, which fails the
 * run. */
bool rota_sim_pending_put(struct rota_sim *sim, struct rota_heap *heap,
                          struct rota_sim_pending *event, rota_time at);

/* Free all that waits in `heap`. */
void rota_sim_pending_empty(struct rota_sim *sim, struct rota_heap *heap);

/* Add to the trace; `at` is filled in. */
void rota_sim_trace_record(struct rota_sim *sim, struct rota_sim_event event);
void rota_sim_trace_record_number(struct rota_sim *sim, enum rota_sim_kind kind, uint32_t node,
                                  uint32_t peer, uint64_t number);

/* With its defaults: a link in use never has a `delay_max` of 0. */
struct rota_sim_link rota_sim_net_link_normal(struct rota_sim_link link);
bool rota_sim_net_link_is_valid(const struct rota_sim_link *link);
