/* The parts of a plan: node_plan.c makes and describes it, node_plan_apply.c applies it,
 * node_plan_look.c compares the result. Private to these. */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "core/work/cluster/layout.h"
#include "node/change/node_plan.h"
#include "node/node_inside.h"

#include <rota/space.h>
#include <uv.h>

/* The map of a space as of the request: what the worker thread needs of it. */
struct rota_node_plan_map {
    enum rota_view_engine engine;
    const struct rota_str *nodes;
    size_t n_nodes;
    uint32_t n_shards;
    uint32_t *owners; /* indexes into `nodes`; ROTA_NODE_PLAN_NOBODY: none */
    bool *is_pinned;
};

/* A space or a queue. */
struct rota_node_plan_thing {
    struct rota_str name;
    bool is_queue;
    struct rota_work_layout layout, wished; /* of a queue: before, and after */
    struct rota_work_layout seen;           /* ... and as it was seen last */
    struct rota_node_plan_map map;          /* of a space */
    uint32_t n_before, n_after;
    uint32_t *before, *after; /* indexes into the hosts */
    struct rota_node_plan_count count;
};

struct rota_node_plan_queue {
    struct rota_str queue;
    uint32_t n;
    bool is_known; /* there is such a queue */
};

struct rota_node_plan {
    struct rota_node *node;
    struct rota_arena arena;
    ROTA_VECTOR(struct rota_node_plan_host) hosts;
    ROTA_VECTOR(struct rota_node_plan_thing) things;
    ROTA_VECTOR(struct rota_node_plan_queue) counts;
    struct rota_map places; /* of hosts, by name: one more than their index, as a pointer */
    struct rota_str body, queues;
    struct rota_str remove_zone;
    struct rota_spread spread; /* of queues, then */
    bool has_batch, has_mode;  /* otherwise each keeps its own */
    rota_time gradual;
    struct rota_node_plan_count count;
    uint64_t n_shards;

    /* When it is applied. */
    uint64_t id;
    size_t next_host, next_thing; /* the next to handle */
    rota_time every, n_changed;   /* hosts change this far apart; so many do */
    uint32_t n_under_way;         /* changes that are not answered */
    uint32_t n_looks;             /* comparisons in progress */
    bool is_freed;
    bool is_asking; /* for queues: immediate answers make room in the same loop */
    char failure[ROTA_ERROR_TEXT_MAX]; /* empty: none */
    uint64_t n_moved;                  /* as last reported */
    rota_time moved_at;                /* boot clock: when that changed */
    struct rota_list_node link;
};

enum rota_code rota_node_plan_no_memory(struct rota_error *error);

/* Copy the state of a space; false without memory. An empty map when it is unknown. */
bool rota_node_plan_map_copy(const struct rota_space *space, struct rota_arena *arena,
                             struct rota_node_plan_map *map);

/* The owners of the first `n` shards of a map, as indexes into the hosts. False: no memory. */
bool rota_node_plan_owners(const struct rota_node_plan *plan, const struct rota_node_plan_map *map,
                           uint32_t n, uint32_t *owners);

/* Whether the wanted spread differs: counts that are still changing do not matter. */
bool rota_node_plan_spread_differs(const struct rota_work_layout *a,
                                   const struct rota_work_layout *b);
bool rota_node_plan_differs(const struct rota_work_layout *a, const struct rota_work_layout *b);

/* Whether the plan changes a queue. */
bool rota_node_plan_is_changed(const struct rota_node_plan_thing *thing);

/* --- node_plan_apply.c --- */

/* A comparison with the plan has ended. */
void rota_node_plan_apply_look_ended(struct rota_node_plan *plan);

/* The host is to be drained. */
bool rota_node_plan_apply_is_going(const struct rota_node_plan_host *host);

/* Whether some of the changes are yet to be asked for or answered. */
bool rota_node_plan_apply_is_in_progress(const struct rota_node_plan *plan);

/* --- for both --- */

void rota_node_plan_add_spread(const struct rota_node_plan_host *hosts, size_t n_hosts,
                               const char *key, bool is_after, struct rota_json *json);
