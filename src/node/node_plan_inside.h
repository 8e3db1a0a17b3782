/* The parts of a plan: node_plan.c makes it and tells of it, node_plan_apply.c does it and looks
 * what has come. For these alone. */
#pragma once

#include "base/vector.h"
#include "core/work/layout.h"
#include "node/node_inside.h"
#include "node/node_plan.h"

#include <rota/space.h>
#include <uv.h>

/* A space or a queue. */
struct rota_node_plan_thing {
    struct rota_str name;
    bool is_queue;
    struct rota_work_layout layout, wished; /* of a queue: as it was, and is to be */
    struct rota_work_layout seen;           /* ... and as it was seen last */
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
    struct rota_str remove_zone;
    struct rota_spread spread; /* of queues, then */
    bool has_batch, has_mode;  /* otherwise each keeps its own */
    rota_time gradual;
    struct rota_node_plan_count count;
    uint64_t n_shards;

    /* When it is applied. */
    uint64_t id;
    uv_timer_t timer;
    size_t next;          /* host to look at; then things */
    uint32_t n_under_way; /* changes that are not answered */
    bool is_freed;
    char failure[ROTA_ERROR_TEXT_MAX]; /* empty: none */
    uint64_t n_moved;                  /* as it was last told */
    rota_time moved_at;                /* boot clock: when that changed */
    struct rota_list_node link;
};

enum rota_code rota_node_plan_no_memory(struct rota_error *error);

/* Indexes of the map's nodes become those of the hosts. False: no memory. */
bool rota_node_plan_owners(const struct rota_node_plan *plan, const struct rota_space_map *map,
                           uint32_t n, uint32_t *owners);

/* Whether something is to be done about a queue. */
bool rota_node_plan_is_changed(const struct rota_node_plan_thing *thing);

/* Count all things anew: as predicted. */
void rota_node_plan_recount(struct rota_node_plan *plan);

void rota_node_plan_add_count(struct rota_json *json, const char *key, uint64_t n);
void rota_node_plan_add_spread(const struct rota_node_plan *plan, const char *key, bool is_after,
                               struct rota_json *json);
