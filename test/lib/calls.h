/* Plain calls to one server, each with its end: for tests of a server. */
#pragma once

#include "nodes.h"

/* How a call ended; of its notes, what they said. */
struct ended {
    size_t n;
    enum rota_status status;
    char text[256], failure[32], claim[128], cost[64];
};

struct rota_channel *channel_to(const struct node *node);

/* A call with these notes, each of which may be NULL; `*ended` starts again. */
struct rota_call *call_start(struct rota_channel *channel, const char *shard, const char *epoch,
                             rota_time timeout, struct ended *ended);

/* The same, to its end. */
void call_wait(struct rota_channel *channel, const char *shard, const char *epoch,
               struct ended *ended);
