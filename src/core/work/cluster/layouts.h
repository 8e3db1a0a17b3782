/* layouts: how the partitions of every queue are routed now, and which one changes next.
 *
 * Most queues have the layout that all start with and are not listed: the usual one, or the one of
 * the file of dynamic settings (layout_file.h). A queue whose spread changes
 * gradually also has the future instants of its partitions (core/place/flips_fsm.h); the driver
 * calls `step` at each `deadline` and re-routes the partition that it is given. Every node that has
 * the same layout changes the same partition at the same instant, as far as clocks agree, and needs
 * no message for it.
 *
 * Invariants: between two steps the route of a queue does not change. Time does not go back for
 * a change: a clock that is set back undoes nothing. */
#pragma once

#include "base/heap.h"
#include "base/map.h"
#include "core/work/cluster/layout.h"

enum {
    ROTA_LAYOUTS_MAX = 1 << 17,         /* listed queues; more than a broker has queues */
    ROTA_LAYOUTS_CHANGING_MAX = 1 << 21 /* partitions of queues whose spread is changing */
};

struct rota_layouts {
    struct rota_work_layout usual; /* of a queue that is not listed, if no file says otherwise */
    struct rota_config *config;    /* the file; NULL: none */
    struct rota_map queues;        /* by name */
    struct rota_heap dues;         /* of queues that are changing */
    size_t n_changing;             /* partitions */
    uint64_t order;
};

void rota_layouts_init(struct rota_layouts *layouts, const struct rota_work_layout *usual,
                       uint64_t seed);
void rota_layouts_deinit(struct rota_layouts *layouts);

/* From now on queues that are not listed have the layouts of this file; NULL: the usual one. Takes
 * `config`. */
void rota_layouts_set_config(struct rota_layouts *layouts, struct rota_config *config);

struct rota_work_layout rota_layouts_get(const struct rota_layouts *layouts, struct rota_str queue);

/* Route `queue` by `layout`, which is valid, from `now` (wall clock) on. False without memory, or
 * when a bound is reached: then nothing has changed. */
bool rota_layouts_set(struct rota_layouts *layouts, rota_time now, struct rota_str queue,
                      const struct rota_work_layout *layout);

/* How a partition that the queue has is routed, as of the last step. */
struct rota_spread rota_layouts_spread(const struct rota_layouts *layouts, struct rota_str queue,
                                       uint32_t partition);

/* The owners of all partitions that the queue reads, as of the last step; as rota_layout_route().
 */
void rota_layouts_route(const struct rota_layouts *layouts, const struct rota_ring *ring,
                        struct rota_str queue, uint32_t *hosts);

struct rota_layouts_flip {
    struct rota_str queue; /* borrowed until the next change */
    uint32_t partition;
    struct rota_spread spread;
};

/* The next partition that changes at `now` or before (wall clock); false when there is none. Call
 * it until it returns false. */
bool rota_layouts_step(struct rota_layouts *layouts, rota_time now, struct rota_layouts_flip *flip);

/* When the next step is due (wall clock); ROTA_TIME_NEVER: no queue is changing. */
rota_time rota_layouts_deadline(const struct rota_layouts *layouts);
