/* Two brokers on one loop, each with a list of nodes of its own: the first knows of itself alone,
 * the second has a file. */
#pragma once

#include "await.h"

#include "run/work/broker/work_broker_inside.h"
#include "run/work/cluster/work_broker_settings.h"
#include "wire/message/queue_message.h"

#include <rota/experimental/broker.h>
#include <rota/experimental/channel.h>
#include <rota/experimental/members.h>
#include <rota/server.h>
#include <rota/store.h>

enum { N_PARTITIONS = 16, FIRST = 0, SECOND = 1, N_NODES = 2 };

struct node {
    struct rota_server *server;
    struct rota_work_broker *broker;
    struct rota_channel *channel;
    const char *address;
};

struct world {
    uv_loop_t loop;
    struct node nodes[N_NODES];
    struct rota_store *store; /* of the settings of queues */
    char hosts[64];           /* the list that the second has */
    char file[64];
};

void write_hosts(const struct world *world, bool has_first);

/* The servers listen; no broker is open yet. */
struct world *world_new(void);

void open_first(struct world *world);
void open_second(struct world *world);

/* The brokers that are open have the settings of queues. */
void await_read(struct world *world);

/* ... and both know which other nodes may have jobs. */
void await_told(struct world *world);

void close_node(struct node *node);
void world_free(struct world *world);
enum rota_status ask(struct world *world, size_t node, const char *method,
                     const struct rota_message_type *type, const void *message,
                     struct rota_reply *reply);

/* Ask a node for what it has itself, as another node would. */
enum rota_status ask_alone(struct world *world, size_t node, const char *method,
                           const struct rota_message_type *type, const void *message,
                           struct rota_reply *reply);

/* How many jobs a poll gets, here, that waits for so long. */
size_t poll_jobs(struct world *world, size_t node, uint64_t wait_ms);
