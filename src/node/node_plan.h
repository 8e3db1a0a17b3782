/* node_plan: a change of nodes or queues that is planned, applied and compared with what came.
 *
 * A plan is made of what is wished and of the cluster as this node sees it now: the owners of
 * all shards of all spaces and of the partitions of all queues, each as it is and as it will
 * be (core/node/node_plan.h). Applied, it drains the nodes that are to go, one after the other
 * when it is to be gradual, gives weights to others and partitions, batch and mode to queues,
 * waits for those that are to come, and tells how many shards have another owner than before.
 *
 * A gradual change of a queue is part of its layout, which all nodes keep: it goes on when the
 * node that was asked is gone. That node alone drains and weighs the hosts one after the other,
 * and remembers what was predicted. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "core/call/list.h"
#include "core/node/node_plan.h"

#include <rota/error.h>

enum {
    ROTA_NODE_PLANS_MAX = 32,    /* that are remembered */
    ROTA_NODE_PLANNINGS_MAX = 8, /* requests that are worked out or wait for it; more are refused */
    ROTA_NODE_PLAN_COUNTS_MAX = 64, /* queues that may get another number of partitions */
    ROTA_NODE_PLAN_ASKS_MAX = 16    /* changes of queues that are asked for at a time */
};

struct rota_node;
struct rota_node_plan;

/* A plan for what `body` wishes, in JSON, at the cluster as it is: the documents of cluster and
 * queues have to be fresh, `queues` is the latter. This only copies what the plan needs. Gives
 * `*plan`; rota_node_plan_free() ends it. */
enum rota_code rota_node_plan_new(struct rota_node *node, struct rota_str body,
                                  struct rota_str queues, struct rota_node_plan **plan,
                                  struct rota_error *error);
void rota_node_plan_free(struct rota_node_plan *plan);

/* Read the wishes and work the plan out, once. It may take seconds; `verdict` says whether that
 * was begun: only with ROTA_NODE_PLAN_FITS is there a plan. Worker thread. */
enum rota_code rota_node_plan_work_out(struct rota_node_plan *plan, bool has_token,
                                       enum rota_node_plan_verdict *verdict,
                                       struct rota_error *error);

/* What it would do, as an object. Any thread. */
void rota_node_plan_write(const struct rota_node_plan *plan, struct rota_json *json);

/* Do it. The node takes the plan, and remembers it under `*id`. ROTA_ERR_INVALID: something in
 * it can't be done from here, and nothing is; the plan is still the caller's. */
enum rota_code rota_node_plan_apply(struct rota_node_plan *plan, uint64_t *id,
                                    struct rota_error *error);

/* Free all of them; the loop runs on until their timers are closed. */
void rota_node_plans_end(struct rota_node *node);

/* --- node_plan_look.c: what has come of a plan that was applied --- */

struct rota_node_plan_look;

/* Look at plan `id`, given the document of queues. This only copies what the look needs, and
 * keeps the plan. Gives `*look`, NULL when there is no such plan. */
enum rota_code rota_node_plan_look_new(struct rota_node *node, uint64_t id, struct rota_str queues,
                                       struct rota_node_plan_look **look, struct rota_error *error);
void rota_node_plan_look_free(struct rota_node_plan_look *look);

/* Compare. One look at a time. Worker thread. */
enum rota_code rota_node_plan_look_work_out(struct rota_node_plan_look *look,
                                            struct rota_error *error);

/* The prediction and what has come of it, as an object. */
void rota_node_plan_look_write(struct rota_node_plan_look *look, struct rota_json *json);
