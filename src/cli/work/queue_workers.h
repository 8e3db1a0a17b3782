/* queue_workers: the workers that are connected, each of them once.
 *
 * A worker is connected to several nodes at a time, to each with all its free slots, and each node
 * tells of it. Here a worker is its name, as in core/work/cluster/tally.h: it runs what it runs at
 * all of them, and what is free is what it has told the node that it told most. One without a name
 * is one of its own. */
#pragma once

#include "cli/work/queue_view.h"

struct rota_queue_worker {
    struct rota_queue_worker_info info; /* of all its connections; of the client's arena */
    uint64_t n_connections, n_free;
};

/* Ask for them; they are ordered by name, and the client's until it asks again. */
enum rota_code rota_queue_workers_ask(struct rota_client *client,
                                      const struct rota_queue_worker **workers, size_t *n,
                                      struct rota_error *error);
