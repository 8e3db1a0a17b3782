/* node_queues: the queues that a QueuesReply of rota.v1.Queue names. */
#pragma once

#include "core/work/cluster/layout.h"

#include <rota/error.h>
#include <rota/str.h>

struct rota_node_queue {
    struct rota_str name;
    struct rota_work_layout layout;
};

/* Calls `on_queue` for each; a code that it returns ends the loop, and is returned. If the message
 * becomes unreadable, the rest is skipped. */
enum rota_code rota_node_queues_each(struct rota_str message,
                                     enum rota_code (*on_queue)(void *data,
                                                                const struct rota_node_queue *queue,
                                                                struct rota_error *error),
                                     void *data, struct rota_error *error);
