/* elsewhere: whether workers of other nodes can take a waiting job, in words for people.
 *
 * The caller adds the workers of each node that has answered, and the nodes that have not. A
 * worker that is connected to several nodes counts once (tally.h). */
#pragma once

#include "core/work/cluster/tally.h"

enum { ROTA_ELSEWHERE_NODES_SHOWN = 3 }; /* the rest is counted */

struct rota_elsewhere_nodes {
    size_t n;
    struct rota_str shown[ROTA_ELSEWHERE_NODES_SHOWN];
};

struct rota_elsewhere {
    struct rota_str queue;
    const struct rota_str *can;
    size_t n_can;
    struct rota_tally tally; /* of those that can take it */
    struct rota_elsewhere_nodes able, silent;
    bool is_served;
};

struct rota_elsewhere_worker {
    struct rota_str name;
    uint64_t slots, n_running;
    const struct rota_str *can, *queues;
    size_t n_can, n_queues;
};

/* For a job of `queue` that needs all of `can`. Keeps these, and the addresses that follow. */
void rota_elsewhere_init(struct rota_elsewhere *elsewhere, uint64_t seed, struct rota_str queue,
                         const struct rota_str *can, size_t n_can);
void rota_elsewhere_deinit(struct rota_elsewhere *elsewhere);

/* All workers of node number `node`, with this address; nodes come one after the other. False
 * without memory. */
bool rota_elsewhere_add(struct rota_elsewhere *elsewhere, size_t node, struct rota_str address,
                        const struct rota_elsewhere_worker *workers, size_t n);

/* A node has not reported its workers. */
void rota_elsewhere_add_silent(struct rota_elsewhere *elsewhere, struct rota_str address);

bool rota_elsewhere_is_able(const struct rota_elsewhere *elsewhere);

/* The sentence about the other nodes, to be appended after "here; " or, when some are able,
 * after the receiver of the offer and ": ". Returns `text`, which has a NUL. */
char *rota_elsewhere_explain(const struct rota_elsewhere *elsewhere, char *text, size_t size);
