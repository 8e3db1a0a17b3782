/* queue_workers: the connected workers, each listed once.
 *
 * A worker connects to several nodes at a time, offers all its free slots to each, and each node
 * reports it. Here, as in core/work/cluster/tally.h, a worker is identified by its name: its
 * running jobs are the sum over all nodes, its free slots the maximum that any node reports. Every
 * worker without a name is listed separately. */
#pragma once

#include "cli/work/queue_view.h"

struct rota_queue_worker {
    struct rota_queue_worker_info info; /* of all its connections; in the client's arena */
    uint64_t n_connections, n_free;
};

/* Get the workers, ordered by name; borrowed until the client's next call. */
enum rota_code rota_queue_workers_ask(struct rota_client *client,
                                      const struct rota_queue_worker **workers, size_t *n,
                                      struct rota_error *error);
