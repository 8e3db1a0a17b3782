/* Three brokers on one loop that hold queues together, and a client of theirs, over real gRPC. */
#pragma once

#include "await.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/cluster/work_broker_settings.h"
#include "wire/message/queue_message.h"

#include <rota/experimental/broker.h>
#include <rota/experimental/channel.h>
#include <rota/experimental/members.h>
#include <rota/queue.h>
#include <rota/server.h>
#include <rota/store.h>

enum { NODES = 3 };

struct world {
    uv_loop_t loop;
    struct rota_server *servers[NODES];
    struct rota_work_broker *brokers[NODES];
    struct rota_queue *queue;
    struct rota_store *store; /* of the settings of queues */
    char nodes[200], file[64];
};

void open_broker(struct world *world, int i);
int set_up(void **state);
void close_node(struct world *world, int i);
int tear_down(void **state);

/* Ask a node. The reply is the caller's, for rota_reply_deinit(). */
enum rota_status ask(struct world *world, int node, const char *method,
                     const struct rota_message_type *type, const void *request,
                     struct rota_reply *reply);

/* The queue gets `n` partitions, and all nodes know. */
void lay_out(struct world *world, const char *queue, uint32_t n);
