/* Nodes that serve shards, on a loop of the test's: for tests of <rota/experimental/shards.h> in
 * one process. */
#pragma once

#include "loop.h"

#include <rota/experimental/health.h>

#include <rota/experimental/channel.h>
#include <rota/experimental/claims.h>
#include <rota/experimental/shards.h>
#include <rota/server.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <uv.h>

#include <cmocka.h>

void loop_open(void);
void loop_close(void);

#define METHOD_WORK "/test.Node/Work"

enum { NODES = 3, KEPT_MAX = 64 };

struct node {
    int64_t id;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_claims *claims;           /* NULL: it serves whatever comes */
    enum rota_status status;              /* what it answers with */
    const struct rota_metadata *metadata; /* and beside that */
    size_t n_metadata;
    const struct rota_cost *costs; /* what it tells of its parts */
    size_t n_costs;
    bool is_keeping; /* calls, without an answer */
    struct rota_server_call *kept[KEPT_MAX];
    size_t n_kept, n_cancelled, n_calls;
    char request[64], epoch[32]; /* of the last call */
};

void copy_str(char *to, size_t size, struct rota_str from);
void node_on_call(void *data, struct rota_server_call *call);

/* With claims of its own when it is fenced, of which it has none at first. */
void node_open_with(struct node *node, int64_t id, struct rota_server_options options,
                    bool is_fenced);

void node_open(struct node *node, int64_t id);
void node_close(struct node *node);
struct rota_str node_address(const struct node *node);
struct rota_replica node_replica(const struct node *node, uint64_t epoch);

/* `node` knows that `owner`, itself perhaps, has a shard of collection 1. */
void node_claim(const struct node *node, const char *shard, const struct node *owner,
                uint64_t epoch);
