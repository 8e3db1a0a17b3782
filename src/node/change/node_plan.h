/* node_plan: a change of nodes or queues that is planned, applied and compared with its result.
 *
 * A plan is made from a request and the cluster as this node sees it now: the owners of all shards
 * of all spaces and of the partitions of all queues, before and after
 * (node/rules/node_plan_rules.h). Applied, it drains the nodes to be removed, one after the other
 * if it is gradual, sets weights of others and partitions, batch and mode of queues, waits for new
 * nodes, and reports how many shards have changed their owner.
 *
 * A gradual change continues even if the node that received the request fails: of a queue it is
 * part of the layout, which all nodes keep, a drain that is due is in the store, and a weight that
 * is due is known to its host. Only that node remembers the prediction. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/list.h"
#include "node/rules/node_plan_rules.h"

#include <rota/error.h>

enum {
    ROTA_NODE_PLANS_MAX = 32,    /* that are remembered */
    ROTA_NODE_PLANNINGS_MAX = 8, /* requests that are worked out or wait for it; more are refused */
    ROTA_NODE_PLAN_COUNTS_MAX = 64, /* queues that may get another number of partitions */
    ROTA_NODE_PLAN_ASKS_MAX = 16    /* changes of queues that are asked for at a time */
};

struct rota_node;
struct rota_node_plan;

/* A plan for the request `body`, in JSON, for the current cluster, whose reports have to be
 * fresh. `queues` is a QueuesReply with all of them. This only copies what the plan needs. Gives
 * `*plan`; rota_node_plan_free() ends it. */
enum rota_code rota_node_plan_new(struct rota_node *node, struct rota_str body,
                                  struct rota_str queues, struct rota_node_plan **plan,
                                  struct rota_error *error);
void rota_node_plan_free(struct rota_node_plan *plan);

/* Read the request and compute the plan, once. It may take seconds; `verdict` says whether that
 * was started: only with ROTA_NODE_PLAN_FITS is there a plan. Worker thread. */
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

/* --- node_plan_look.c: the result of a plan that was applied --- */

struct rota_node_plan_look;

/* Compare plan `id` with the current state, given a QueuesReply with all queues. This only
 * copies what is needed, and keeps the plan. Gives `*look`, NULL when there is no such plan. */
enum rota_code rota_node_plan_look_new(struct rota_node *node, uint64_t id, struct rota_str queues,
                                       struct rota_node_plan_look **look, struct rota_error *error);
void rota_node_plan_look_free(struct rota_node_plan_look *look);

/* Compare. One at a time. Worker thread. */
enum rota_code rota_node_plan_look_work_out(struct rota_node_plan_look *look,
                                            struct rota_error *error);

/* The prediction and the result, as an object. */
void rota_node_plan_look_write(struct rota_node_plan_look *look, struct rota_json *json);
