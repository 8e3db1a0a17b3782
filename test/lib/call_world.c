#include "call_world.h"

const struct rota_str CHANNEL = {"channel", 7};

struct rota_shard_map *map_of(size_t n, const int64_t *nodes, uint32_t unserviceable)
{
    struct rota_replica replicas[NODES_MAX];
    struct rota_shard_map *map;
    for (size_t i = 0; i < n; i++)
        replicas[i] = (struct rota_replica){nodes[i], {"a:1", 3}, 1, !(unserviceable >> i & 1)};
    struct rota_shard_channel channel = {CHANNEL, replicas, n};
    assert_int_equal(rota_shard_map_new(1, rota_str(""), &channel, 1, &map, NULL), ROTA_OK);
    return map;
}

void setup_with(struct world *world, struct rota_shard_map *map, enum rota_balancer_policy policy)
{
    *world = (struct world){.cached = map, .fresh = rota_shard_map_share(map)};
    struct rota_balancer_options options = {.policy = policy, .seed = 1};
    assert_int_equal(rota_balancer_new(&options, &world->balancer, NULL), ROTA_OK);
    rota_random_init(&world->random, 7);
    rota_blacklist_init(&world->blacklist, 1, ROTA_BLACKLIST_FOR, 0);
    world->shared = (struct rota_call_shared){
        .balancer = world->balancer,
        .random = &world->random,
        .blacklist = &world->blacklist,
        .stats = &world->stats,
    };
}

void setup(struct world *world, struct rota_shard_map *map)
{
    setup_with(world, map, ROTA_BALANCER_ROUND_ROBIN);
}

void set_map(struct rota_shard_map **place, struct rota_shard_map *map)
{
    rota_shard_map_drop(*place);
    *place = map;
}

void teardown(struct world *world)
{
    rota_call_fsm_deinit(&world->fsm, world->now);
    assert_int_equal(rota_balancer_n_tries(world->balancer), 0); /* nothing has leaked */
    for (struct rota_shard_map *map = world->cached; map;
         map = map == world->fresh ? NULL : world->fresh)
        assert_int_equal(map->n_shares, 1 + (world->cached == world->fresh));
    rota_balancer_free(world->balancer);
    rota_blacklist_deinit(&world->blacklist);
    rota_shard_map_drop(world->cached);
    rota_shard_map_drop(world->fresh);
}

static void answer_leaders(struct world *world, const struct rota_call_fsm_action *action)
{
    struct rota_shard_map *map = action->with_cache ? world->cached : world->fresh;
    assert_int_equal(action->deadline, world->fsm.options.deadline);
    world->counted.n_refreshes += !action->with_cache;
    *(action->with_cache ? &world->n_cached : &world->n_fresh) += 1;
    if (!map && !(action->with_cache ? world->cached_failure : world->fresh_failure))
        return; /* stays silent */
    drive(world,
          (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS,
                                       .number = action->number,
                                       .failure = map                  ? ROTA_FAILURE_NONE
                                                  : action->with_cache ? world->cached_failure
                                                                       : world->fresh_failure,
                                       .map = map});
}

void end_try(struct world *world, size_t i, enum rota_failure failure)
{
    drive(world, (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                              .number = world->numbers[i],
                                              .failure = failure,
                                              .is_sent = !world->is_unsent,
                                              .claim = world->claim.node ? &world->claim : NULL});
}

static void start_try(struct world *world, const struct rota_call_fsm_action *action)
{
    size_t i = world->n_tried++;
    assert_true(i < LOG_MAX);
    world->tried[i] = action->replica->node;
    world->numbers[i] = action->number;
    world->tried_at[i] = world->now;
    world->is_hedge[i] = action->is_hedge;
    const struct rota_call_fsm_options *options = &world->fsm.options;
    assert_int_equal(action->deadline,
                     options->try_timeout
                         ? rota_time_min(options->deadline, world->now + options->try_timeout)
                         : options->deadline);
    world->counted.n_tries++;
    world->counted.n_hedges += action->is_hedge;
    world->counted.n_retries += world->has_tried && !action->is_hedge;
    world->has_tried = true;
    if (world->script)
        end_try(world, i, world->script[i < world->n_script ? i : world->n_script - 1]);
}

/* Nothing runs and nothing comes any more, and all that was done is counted. */
static void finish(struct world *world, const struct rota_call_fsm_action *action)
{
    const struct rota_call_stats *stats = &world->stats;
    world->n_finished++;
    world->result = action->failure;
    world->result_node = action->node;
    if (action->failure)
        assert_int_equal(action->node, 0);
    assert_int_equal(rota_call_fsm_n_running(&world->fsm), 0);
    assert_int_equal(rota_call_fsm_deadline(&world->fsm), ROTA_TIME_NEVER);
    assert_int_equal(rota_balancer_n_tries(world->balancer), 0);

    world->counted.n_ended[action->failure]++;
    assert_int_equal(stats->n_tries, world->counted.n_tries);
    assert_int_equal(stats->n_hedges, world->counted.n_hedges);
    assert_int_equal(stats->n_retries, world->counted.n_retries);
    assert_int_equal(stats->n_refreshes, world->counted.n_refreshes);
    assert_memory_equal(stats->n_ended, world->counted.n_ended, sizeof stats->n_ended);
}

void drive(struct world *world, struct rota_call_fsm_event event)
{
    struct rota_call_fsm_actions todo = rota_call_fsm_step(&world->fsm, world->now, &event);
    for (size_t i = 0; i < todo.n; i++) {
        const struct rota_call_fsm_action *action = &todo.items[i];
        switch (action->type) {
        case ROTA_CALL_ASK_LEADERS:
            answer_leaders(world, action);
            break;
        case ROTA_CALL_START_TRY:
            start_try(world, action);
            break;
        case ROTA_CALL_CANCEL_TRY:
            world->n_cancelled++;
            break;
        case ROTA_CALL_REPORT:
            world->n_reports++;
            world->report = *action;
            break;
        case ROTA_CALL_FINISH:
            assert_int_equal(i, todo.n - 1);
            finish(world, action);
            break;
        }
    }
}

void start(struct world *world, struct rota_call_fsm_options options)
{
    options.channel = CHANNEL;
    options.collection = 1;
    rota_call_fsm_init(&world->fsm, &world->shared, &options);
    world->has_tried = false;
    drive(world, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
}

void tick(struct world *world, rota_time now)
{
    world->now = now;
    drive(world, (struct rota_call_fsm_event){.type = ROTA_CALL_TICK});
}

enum rota_failure run(struct world *world, struct rota_call_fsm_options options)
{
    start(world, options);
    for (rota_time at;
         !world->n_finished && (at = rota_call_fsm_deadline(&world->fsm)) != ROTA_TIME_NEVER;)
        tick(world, at);
    assert_int_equal(world->n_finished, 1);
    return world->result;
}

void end_by(struct world *world, size_t n, const enum rota_failure *script)
{
    world->script = script;
    world->n_script = n;
}

const struct rota_call_fsm_options IDEMPOTENT = {.repeat = ROTA_REPEAT_ANY};
