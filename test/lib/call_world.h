/* One call, with a directory and nodes that follow a script. */
#pragma once

#include "core/call/call_fsm.h"
#include "vectors.h"

#include <rota/experimental/random.h>

enum { LOG_MAX = 128, NODES_MAX = 8 };

extern const struct rota_str CHANNEL;

/* A directory and nodes that follow a script. */
struct world {
    struct rota_balancer *balancer;
    struct rota_random random;
    struct rota_blacklist blacklist;
    struct rota_budget budget;
    struct rota_hedge hedge;
    struct rota_call_stats stats;
    struct rota_call_shared shared;
    struct rota_call_fsm fsm;
    rota_time now;

    struct rota_shard_map *cached, *fresh; /* what the directory says; NULL: the failure */
    enum rota_failure cached_failure, fresh_failure;
    const enum rota_failure *script; /* how the tries end, the last forever; NULL: not */
    size_t n_script;
    bool is_unsent;
    struct rota_replica claim; /* comes with a stale one when its node is not 0 */

    uint64_t n_cached, n_fresh; /* asks */
    int64_t tried[LOG_MAX];     /* nodes, in order */
    uint64_t numbers[LOG_MAX];
    rota_time tried_at[LOG_MAX];
    bool is_hedge[LOG_MAX];
    size_t n_tried, n_cancelled, n_reports, n_finished;
    struct rota_call_fsm_action report; /* the last one */
    enum rota_failure result;
    int64_t result_node;

    struct rota_call_stats counted; /* by the actions, to compare with `stats` */
    bool has_tried;
};

struct rota_shard_map *map_of(size_t n, const int64_t *nodes, uint32_t unserviceable);

#define MAP(...)                                                                                   \
    map_of(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t), (int64_t[]){__VA_ARGS__}, 0)

/* Both the cache and the directory say `map`, which is taken. */
void setup_with(struct world *world, struct rota_shard_map *map, enum rota_balancer_policy policy);

void setup(struct world *world, struct rota_shard_map *map);
void set_map(struct rota_shard_map **place, struct rota_shard_map *map);
void teardown(struct world *world);
void end_try(struct world *world, size_t i, enum rota_failure failure);
void drive(struct world *world, struct rota_call_fsm_event event);
void start(struct world *world, struct rota_call_fsm_options options);
void tick(struct world *world, rota_time now);

/* Let time pass from deadline to deadline until it has finished or waits for
 * nothing but answers. */
enum rota_failure run(struct world *world, struct rota_call_fsm_options options);

void end_by(struct world *world, size_t n, const enum rota_failure *script);

#define SCRIPT(world, ...)                                                                         \
    end_by(world, sizeof(enum rota_failure[]){__VA_ARGS__} / sizeof(enum rota_failure),            \
           (enum rota_failure[]){__VA_ARGS__})

extern const struct rota_call_fsm_options IDEMPOTENT;
