/* node_plan: what a change of nodes would move, before you make it.
 *
 * Hosts are those of before and of after, each with its weight on either side. A space or a queue
 * is a row of shards, each with its owner as it is, and as it will be: worked out by the very
 * functions that place shards and route partitions, so a plan does not estimate. With the engines
 * lease and group, where the first to claim a shard gets it, the plan assumes that the remaining
 * shards go to the hosts with the fewest. */
#pragma once

#include "core/own/view.h"
#include "core/work/cluster/layout.h"

#include <rota/error.h>
#include <rota/experimental/route.h>

enum {
    ROTA_NODE_PLAN_HOSTS_MAX = 1024,
    ROTA_NODE_PLAN_COST_MAX = 32 << 20, /* of one plan; see rota_node_plan_rules_cost() */
    ROTA_NODE_PLAN_COST_OPEN = 1 << 20  /* of one plan that a caller without the token asks for */
};

#define ROTA_NODE_PLAN_NOBODY UINT32_MAX

struct rota_node_plan_host {
    struct rota_str name, zone;
    uint32_t weight_before, weight_after; /* in thousandths; 0: it is not there */
    bool has_queues;                      /* partitions of queues are placed on it */
    uint64_t n_before, n_after; /* shards, as rota_node_plan_rules_count() has seen them */
};

struct rota_node_plan_count {
    uint64_t moves;   /* moved from one owner to another */
    uint64_t lost;    /* have an owner now and none after */
    uint64_t minimum; /* the minimum that an even placement moves */
};

/* What a plan has to place. */
struct rota_node_plan_size {
    uint64_t n_ring_spaces; /* spaces that have a ring of their own */
    uint64_t n_queues;      /* all queues share one ring per side */
    uint64_t n_shards;      /* of spaces and queues, before and after together */
};

/* How much work a plan is: a unit is one point of a ring to build or one shard to place. The
 * caller chooses the weights and counts that make it large, so the cost is known, and judged,
 * before any of the work is done. */
uint64_t rota_node_plan_rules_cost(const struct rota_node_plan_host *hosts, size_t n_hosts,
                                   struct rota_node_plan_size size);

enum rota_node_plan_verdict {
    ROTA_NODE_PLAN_FITS,
    ROTA_NODE_PLAN_NEEDS_TOKEN,
    ROTA_NODE_PLAN_TOO_LARGE,
};
enum rota_node_plan_verdict rota_node_plan_rules_judge(uint64_t cost, bool has_token);

/* The owners of a space's shards after the change: `after`, given the owners now (indexes into
 * the hosts, or ROTA_NODE_PLAN_NOBODY). Shards in `is_pinned` stay where they are as long as
 * their host does. */
enum rota_code rota_node_plan_rules_place(struct rota_str space, enum rota_view_engine engine,
                                          const struct rota_node_plan_host *hosts, size_t n_hosts,
                                          const uint32_t *before, const bool *is_pinned, uint32_t n,
                                          uint32_t *after, struct rota_error *error);

/* The hosts of one side that hold queues. A plan builds it once for all its queues. */
struct rota_node_plan_ring {
    struct rota_ring *ring;
    uint32_t *places; /* which host each host of the ring is */
};

enum rota_code rota_node_plan_rules_ring_init(struct rota_node_plan_ring *ring,
                                              const struct rota_node_plan_host *hosts,
                                              size_t n_hosts, bool is_after,
                                              struct rota_error *error);
void rota_node_plan_rules_ring_deinit(struct rota_node_plan_ring *ring);

/* The hosts of the first `n` partitions of a queue at `now` (wall clock). */
void rota_node_plan_rules_route(const struct rota_node_plan_ring *ring, struct rota_str queue,
                                const struct rota_work_layout *layout, rota_time now, uint32_t n,
                                uint32_t *owners);

/* Compare both, with `n_before` and `n_after` shards, and add to the hosts. */
struct rota_node_plan_count rota_node_plan_rules_count(struct rota_node_plan_host *hosts,
                                                       size_t n_hosts, const uint32_t *before,
                                                       uint32_t n_before, const uint32_t *after,
                                                       uint32_t n_after);
