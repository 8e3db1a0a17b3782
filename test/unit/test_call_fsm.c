#include "core/call/call_fsm.h"
#include "vectors.h"

#include <rota/random.h>
#include <stdio.h>
#include <stdlib.h>

/* The rows E1 to E30 are the behaviours of the system that Rota is compatible
 * with; those about execution on several shards are in test_execute_fsm.c. */

enum { LOG_MAX = 128, NODES_MAX = 8 };

static const struct rota_str CHANNEL = {"channel", 7};

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
    const enum rota_failure *script; /* how the tries end, the last for ever; NULL: not */
    size_t n_script;
    bool is_unsent;
    struct rota_replica claim; /* comes with a stale one when its node is not 0 */

    uint64_t n_cached, n_fresh; /* asks */
    int64_t tried[LOG_MAX];     /* nodes, in order */
    uint64_t numbers[LOG_MAX];
    rota_time tried_at[LOG_MAX];
    bool is_hedge[LOG_MAX];
    size_t n_tried, n_cancelled, n_reports, n_finished;
    enum rota_failure result;
    int64_t result_node;
};

static struct rota_shard_map *map_of(size_t n, const int64_t *nodes, uint32_t unserviceable)
{
    struct rota_replica replicas[NODES_MAX];
    struct rota_shard_map *map;
    for (size_t i = 0; i < n; i++)
        replicas[i] = (struct rota_replica){nodes[i], {"a:1", 3}, 1, !(unserviceable >> i & 1)};
    struct rota_shard_channel channel = {CHANNEL, replicas, n};
    assert_int_equal(rota_shard_map_new(1, &channel, 1, &map, NULL), ROTA_OK);
    return map;
}

#define MAP(...)                                                                                   \
    map_of(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t), (int64_t[]){__VA_ARGS__}, 0)

/* Both the cache and the directory say `map`, which is taken. */
static void setup(struct world *world, struct rota_shard_map *map)
{
    *world = (struct world){.cached = map, .fresh = rota_shard_map_share(map)};
    struct rota_balancer_options options = {.policy = ROTA_BALANCER_ROUND_ROBIN, .seed = 1};
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

static void set_map(struct rota_shard_map **place, struct rota_shard_map *map)
{
    rota_shard_map_drop(*place);
    *place = map;
}

static void teardown(struct world *world)
{
    rota_call_fsm_deinit(&world->fsm, world->now);
    assert_int_equal(rota_balancer_n_tries(world->balancer), 0); /* nothing has leaked */
    rota_balancer_free(world->balancer);
    rota_blacklist_deinit(&world->blacklist);
    rota_shard_map_drop(world->cached);
    rota_shard_map_drop(world->fresh);
}

static void drive(struct world *world, struct rota_call_fsm_event event);

static void answer_leaders(struct world *world, const struct rota_call_fsm_action *action)
{
    struct rota_shard_map *map = action->with_cache ? world->cached : world->fresh;
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

static void end_try(struct world *world, size_t i, enum rota_failure failure)
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
    if (world->script)
        end_try(world, i, world->script[i < world->n_script ? i : world->n_script - 1]);
}

static void drive(struct world *world, struct rota_call_fsm_event event)
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
            break;
        case ROTA_CALL_FINISH:
            assert_int_equal(i, todo.n - 1);
            world->n_finished++;
            world->result = action->failure;
            world->result_node = action->node;
            break;
        }
    }
}

static void start(struct world *world, struct rota_call_fsm_options options)
{
    options.channel = CHANNEL;
    options.collection = 1;
    rota_call_fsm_init(&world->fsm, &world->shared, &options);
    drive(world, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
}

static void tick(struct world *world, rota_time now)
{
    world->now = now;
    drive(world, (struct rota_call_fsm_event){.type = ROTA_CALL_TICK});
}

/* Let time pass from deadline to deadline until it has finished or waits for
 * nothing but answers. */
static enum rota_failure run(struct world *world, struct rota_call_fsm_options options)
{
    start(world, options);
    for (rota_time at;
         !world->n_finished && (at = rota_call_fsm_deadline(&world->fsm)) != ROTA_TIME_NEVER;)
        tick(world, at);
    assert_int_equal(world->n_finished, 1);
    return world->result;
}

static void end_by(struct world *world, size_t n, const enum rota_failure *script)
{
    world->script = script;
    world->n_script = n;
}

#define SCRIPT(world, ...)                                                                         \
    end_by(world, sizeof(enum rota_failure[]){__VA_ARGS__} / sizeof(enum rota_failure),            \
           (enum rota_failure[]){__VA_ARGS__})

static const struct rota_call_fsm_options IDEMPOTENT = {.repeat = ROTA_REPEAT_ANY};

/* --- whom to choose --- */

static void e1_e11_choice_and_run_succeed(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.result_node, world.tried[0]);
    assert_int_equal(world.n_fresh, 0);
    teardown(&world);
}

static void e2_cached_leaders_fail_and_fresh_ones_serve(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    set_map(&world.cached, NULL);
    world.cached_failure = ROTA_FAILURE_UNREACHABLE;
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_cached, 1);
    assert_int_equal(world.n_fresh, 1);
    teardown(&world);
}

static void e3_e12_lookup_that_always_fails_ends_in_its_error(void **state)
{
    struct world world;
    (void)state;
    setup(&world, NULL);
    world.cached_failure = world.fresh_failure = ROTA_FAILURE_UNREACHABLE;
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_fresh, ROTA_CALL_LOOKUPS_MAX);
    assert_int_equal(world.n_tried, 0);
    teardown(&world);
}

static void e4_e8_all_excluded_are_tried_again_after_a_refresh(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_tried, 2);
    assert_int_equal(world.n_fresh, 1); /* between the two */
    teardown(&world);
}

static void e5_e6_not_loaded_is_asked_about_once_each(void **state)
{
    struct world world;
    (void)state;
    setup(&world, NULL);
    world.cached_failure = world.fresh_failure = ROTA_FAILURE_NOT_LOADED;
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NOT_LOADED);
    assert_int_equal(world.n_cached, 1);
    assert_int_equal(world.n_fresh, 1);
    teardown(&world);
}

static void e7_no_leaders_after_a_refresh_is_an_error_and_clears_nothing(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    set_map(&world.fresh, map_of(0, NULL, 0));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_RETRIABLE); /* what the try met */
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.fsm.n_excluded, 1);
    teardown(&world);

    setup(&world, map_of(0, NULL, 0));
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NO_REPLICA);
    teardown(&world);
}

static void e9_e10_serviceable_ones_are_preferred_and_others_stay_excluded(void **state)
{
    struct world world;
    (void)state;
    setup(&world, map_of(3, (int64_t[]){1, 2, 3}, 0x4)); /* 3 is not serviceable */
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.tried[2], 3); /* only when there is nobody else */
    assert_int_not_equal(world.tried[0], world.tried[1]);
    assert_int_equal(world.n_fresh, 0);
    assert_int_equal(world.fsm.n_excluded, 2);
    teardown(&world);
}

/* --- retries --- */

static void e13_client_errors_until_no_tries_are_left(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    world.is_unsent = true;
    SCRIPT(&world, ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_tried, 3 + ROTA_CALL_RETRIES);
    teardown(&world);
}

static void e14_e15_one_error_then_another_replica_serves(void **state)
{
    static const enum rota_failure failures[] = {ROTA_FAILURE_UNREACHABLE, ROTA_FAILURE_BROKEN,
                                                 ROTA_FAILURE_RETRIABLE,   ROTA_FAILURE_INTERNAL,
                                                 ROTA_FAILURE_OVERLOAD,    ROTA_FAILURE_STALE,
                                                 ROTA_FAILURE_NOT_LOADED,  ROTA_FAILURE_TIMEOUT};
    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct world world;
        setup(&world, MAP(1, 2));
        SCRIPT(&world, failures[i], ROTA_FAILURE_NONE);
        assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
        assert_int_equal(world.n_tried, 2);
        assert_int_not_equal(world.tried[0], world.tried[1]);
        assert_int_equal(world.tried_at[1], 0); /* at once */
        teardown(&world);
    }
}

static void e16_cancel_and_deadline_can_be_told_apart(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    start(&world, (struct rota_call_fsm_options){.deadline = ROTA_SEC});
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
    assert_int_equal(world.result, ROTA_FAILURE_CANCELLED);
    assert_int_equal(world.n_cancelled, 1);
    end_try(&world, 0, ROTA_FAILURE_NONE); /* too late */
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
    assert_int_equal(world.n_finished, 1);
    teardown(&world);

    setup(&world, MAP(1));
    assert_int_equal(run(&world, (struct rota_call_fsm_options){.deadline = ROTA_SEC}),
                     ROTA_FAILURE_DEADLINE);
    assert_int_equal(world.now, ROTA_SEC);
    assert_int_equal(world.n_cancelled, 1);
    teardown(&world);
}

static void e20_policy_name_chooses_the_balancer(void **state)
{
    enum rota_balancer_policy policy;
    (void)state;
    assert_int_equal(rota_balancer_policy_parse(rota_str("look_aside"), &policy, NULL), ROTA_OK);
    assert_int_equal(policy, ROTA_BALANCER_LOOK_ASIDE);
    /* The original takes look_aside for an unknown name; a typing mistake is
     * better told than guessed. */
    assert_int_equal(rota_balancer_policy_parse(rota_str("lookaside"), &policy, NULL),
                     ROTA_ERR_INVALID);
}

static void e21_reports_reach_the_balancer(void **state)
{
    struct world world;
    struct rota_balancer_view view;
    struct rota_cost cost = {5000, 1000, 3};
    (void)state;
    setup(&world, MAP(1));
    start(&world, IDEMPOTENT);
    world.now = ROTA_MSEC;
    drive(&world, (struct rota_call_fsm_event){
                      .type = ROTA_CALL_TRY_ENDED, .number = world.numbers[0], .cost = &cost});
    assert_true(rota_balancer_look(world.balancer, world.now, 1, &view));
    assert_int_equal(view.outcomes[ROTA_OUTCOME_OK], 1);
    assert_int_equal(view.reported_at, ROTA_MSEC);
    teardown(&world);
}

static struct rota_call_fsm_options preferring(int64_t node)
{
    return (struct rota_call_fsm_options){
        .repeat = ROTA_REPEAT_ANY, .has_preferred = true, .preferred = node};
}

static void e22_e25_preferred_replica_bypasses_the_balancer(void **state)
{
    struct world world;
    struct rota_balancer_view view;
    (void)state;
    for (int64_t node = 1; node <= 3; node++) {
        setup(&world, MAP(1, 2, 3));
        SCRIPT(&world, ROTA_FAILURE_NONE);
        run(&world, preferring(node));
        assert_int_equal(world.tried[0], node);
        assert_false(rota_balancer_look(world.balancer, 0, (uint64_t)node, &view));
        assert_int_equal(world.stats.n_preferred_hit, 1);
        teardown(&world);
    }
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_NONE);
    run(&world, preferring(9));
    assert_int_equal(world.stats.n_preferred_miss, 1);
    teardown(&world);
}

static void e23_e25_preferred_replica_that_is_not_serviceable_is_passed_over(void **state)
{
    struct world world;
    (void)state;
    setup(&world, map_of(2, (int64_t[]){1, 2}, 0x1));
    SCRIPT(&world, ROTA_FAILURE_NONE);
    run(&world, preferring(1));
    assert_int_equal(world.tried[0], 2);
    assert_int_equal(world.stats.n_preferred_unavailable, 1);
    teardown(&world);
}

static void e24_preferred_replica_that_fails_is_left_for_another(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, preferring(1)), ROTA_FAILURE_NONE);
    assert_int_equal(world.tried[0], 1);
    assert_int_equal(world.tried[1], 2);
    teardown(&world);
}

static void pinned_call_has_one_try_that_the_balancer_learns_from(void **state)
{
    struct world world;
    struct rota_balancer_view view;
    (void)state;
    setup(&world, map_of(2, (int64_t[]){1, 2}, 0x2));
    SCRIPT(&world, ROTA_FAILURE_UNREACHABLE, ROTA_FAILURE_NONE);
    world.is_unsent = true;
    struct rota_call_fsm_options options = preferring(2); /* although it is not serviceable */
    options.is_pinned = true;
    assert_int_equal(run(&world, options), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.tried[0], 2);
    assert_true(rota_balancer_look(world.balancer, 0, 2, &view));
    assert_int_equal(view.outcomes[ROTA_OUTCOME_UNAVAILABLE], 1);
    assert_false(rota_balancer_look(world.balancer, 0, 1, &view));
    teardown(&world);

    setup(&world, MAP(1)); /* alone it is not tried again either; and 2 is nobody */
    SCRIPT(&world, ROTA_FAILURE_UNREACHABLE, ROTA_FAILURE_NONE);
    options.preferred = 1;
    assert_int_equal(run(&world, options), ROTA_FAILURE_UNREACHABLE);
    teardown(&world);
    setup(&world, MAP(1));
    options.preferred = 2;
    assert_int_equal(run(&world, options), ROTA_FAILURE_NO_REPLICA);
    teardown(&world);
}

static void e26_retriable_errors_blacklist_nobody(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_tried, 3);
    assert_int_equal(rota_blacklist_n_shards(&world.blacklist), 0);
    teardown(&world);
}

static void e27_another_sweep_is_allowed_when_all_have_failed(void **state)
{
    struct world world;
    struct rota_call_fsm_options options = {.repeat = ROTA_REPEAT_ANY, .retries = 2};
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(run(&world, options), ROTA_FAILURE_RETRIABLE);
    assert_int_equal(world.n_tried, 4);
    assert_int_equal(world.tried[0] + world.tried[1], 3);
    assert_int_equal(world.tried[2] + world.tried[3], 3);
    teardown(&world);
}

static void e28_stale_cache_is_refreshed_and_the_new_replica_found(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    set_map(&world.fresh, MAP(2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.result_node, 2);
    teardown(&world);
}

static void e29_broken_replica_is_blacklisted_for_other_calls(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_INTERNAL, ROTA_FAILURE_NONE);
    run(&world, IDEMPOTENT);
    int64_t broken = world.tried[0];
    assert_true(rota_blacklist_has(&world.blacklist, 0, 1, CHANNEL, broken));
    for (int i = 0; i < 10; i++) {
        rota_call_fsm_deinit(&world.fsm, world.now);
        world.n_tried = world.n_finished = 0;
        SCRIPT(&world, ROTA_FAILURE_NONE);
        run(&world, IDEMPOTENT);
        assert_int_not_equal(world.tried[0], broken);
    }
    teardown(&world);
}

static void e30_input_error_is_one_run_and_nobody_is_blamed(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_INPUT);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_INPUT);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(rota_blacklist_n_shards(&world.blacklist), 0);
    assert_int_equal(world.n_reports, 0);
    teardown(&world);
}

/* --- what went wrong elsewhere --- */

static void shard_all_of_whose_replicas_are_blacklisted_is_served(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    rota_blacklist_add(&world.blacklist, 0, 1, CHANNEL, 1);
    rota_blacklist_add(&world.blacklist, 0, 1, CHANNEL, 2);
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_fresh, 0); /* and the directory is not bothered */
    teardown(&world);
}

static void saturated_replicas_are_not_swept_again(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    SCRIPT(&world, ROTA_FAILURE_OVERLOAD);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_OVERLOAD);
    assert_int_equal(world.n_tried, 3);
    assert_int_equal(world.n_fresh, 0);
    assert_int_equal(world.n_reports, 0);
    teardown(&world);
}

static void replica_that_answers_not_loaded_fast_is_not_liked_for_it(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_NOT_LOADED, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_reports, 1); /* the map is dropped */
    struct rota_balancer_view view;
    assert_true(rota_balancer_look(world.balancer, 0, (uint64_t)world.tried[0], &view));
    assert_true(rota_outcome_is_failure(ROTA_OUTCOME_UNAVAILABLE));
    assert_int_equal(view.outcomes[ROTA_OUTCOME_UNAVAILABLE], 1);
    teardown(&world);
}

static void stale_replica_with_a_newer_claim_of_its_own_is_tried_again(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    world.claim = (struct rota_replica){1, {"a:1", 3}, 2, true};
    SCRIPT(&world, ROTA_FAILURE_STALE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_fresh, 0); /* the report has put the claim into the cache */
    assert_int_equal(world.n_reports, 1);
    teardown(&world);
}

static void what_may_not_happen_twice_is_not_sent_twice(void **state)
{
    static const struct {
        enum rota_call_repeat repeat;
        enum rota_failure failure;
        bool is_unsent, is_retried;
    } rows[] = {
        {ROTA_REPEAT_UNSENT, ROTA_FAILURE_BROKEN, false, false},
        {ROTA_REPEAT_UNSENT, ROTA_FAILURE_STALE, false, false},
        {ROTA_REPEAT_UNSENT, ROTA_FAILURE_UNREACHABLE, true, true},
        {ROTA_REPEAT_UNSENT, ROTA_FAILURE_BROKEN, true, true},
        {ROTA_REPEAT_REFUSED, ROTA_FAILURE_BROKEN, false, false},
        {ROTA_REPEAT_REFUSED, ROTA_FAILURE_RETRIABLE, false, false},
        {ROTA_REPEAT_REFUSED, ROTA_FAILURE_INTERNAL, false, false},
        {ROTA_REPEAT_REFUSED, ROTA_FAILURE_STALE, false, true},
        {ROTA_REPEAT_REFUSED, ROTA_FAILURE_OVERLOAD, false, true},
        {ROTA_REPEAT_ANY, ROTA_FAILURE_BROKEN, false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        setup(&world, MAP(1, 2));
        world.is_unsent = rows[i].is_unsent;
        SCRIPT(&world, rows[i].failure, ROTA_FAILURE_NONE);
        run(&world, (struct rota_call_fsm_options){.repeat = rows[i].repeat});
        assert_int_equal(world.n_tried, 1 + rows[i].is_retried);
        teardown(&world);
    }
}

static void try_that_times_out_may_have_been_sent(void **state)
{
    struct world world;
    struct rota_call_fsm_options options = {.try_timeout = ROTA_SEC};
    (void)state;
    setup(&world, MAP(1, 2));
    assert_int_equal(run(&world, options), ROTA_FAILURE_TIMEOUT);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.n_cancelled, 1);
    teardown(&world);

    setup(&world, MAP(1, 2));
    options.repeat = ROTA_REPEAT_ANY;
    start(&world, options);
    tick(&world, ROTA_SEC);
    assert_int_equal(world.n_tried, 2);
    assert_int_equal(world.n_reports, 1);
    end_try(&world, 0, ROTA_FAILURE_NONE); /* the one that was given up: nobody listens */
    assert_int_equal(world.n_finished, 0);
    end_try(&world, 1, ROTA_FAILURE_NONE);
    assert_int_equal(world.n_finished, 1);
    teardown(&world);
}

static void first_fail_over_is_immediate_and_later_ones_wait_longer(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    run(&world, IDEMPOTENT);
    assert_int_equal(world.n_tried, 6);
    assert_int_equal(world.tried_at[1], 0);
    rota_time step = ROTA_CALL_BACKOFF;
    for (size_t i = 2; i < world.n_tried; i++) {
        assert_in_range(world.tried_at[i] - world.tried_at[i - 1], step / 5 * 4, step / 5 * 6);
        step = step / 5 * 8;
    }
    teardown(&world);
}

static void wait_that_would_outlast_the_deadline_is_not_begun(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(run(&world, (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_ANY,
                                                                .deadline = 50 * ROTA_MSEC}),
                     ROTA_FAILURE_RETRIABLE);
    assert_int_equal(world.now, 0);
    assert_int_equal(world.n_tried, 2);
    teardown(&world);
}

static void budget_bounds_the_retries_of_all_calls(void **state)
{
    struct world world;
    size_t n_tried = 0;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    world.shared.budget = &world.budget;
    rota_budget_init(&world.budget, 0,
                     &(struct rota_budget_options){.ppm = 200000, .per_second = 0, .most = 10});
    SCRIPT(&world, ROTA_FAILURE_INTERNAL);
    for (int i = 0; i < 1000; i++) {
        world.n_tried = world.n_finished = 0;
        run(&world, IDEMPOTENT);
        n_tried += world.n_tried;
        rota_call_fsm_deinit(&world.fsm, world.now);
    }
    assert_in_range(n_tried, 1150, 1211); /* a fifth more, not seven times more */
    assert_true(world.stats.n_unbudgeted > 0);
    teardown(&world);
}

static void token_of_a_retry_that_did_not_happen_is_given_back(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    set_map(&world.fresh, map_of(0, NULL, 0));
    world.shared.budget = &world.budget;
    rota_budget_init(&world.budget, 0, &ROTA_BUDGET_RETRIES);
    uint64_t before = world.budget.parts;
    SCRIPT(&world, ROTA_FAILURE_INTERNAL);
    run(&world, IDEMPOTENT);
    assert_int_equal(world.n_tried, 1);
    assert_true(world.budget.parts >= before);
    teardown(&world);
}

static void attempts_have_a_bound_whatever_is_asked_for(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    run(&world, (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_ANY, .retries = INT64_MAX});
    assert_int_equal(world.n_tried, ROTA_CALL_TRIES_MAX);
    teardown(&world);

    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    run(&world, (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_ANY, .retries = -1});
    assert_int_equal(world.n_tried, 3);
    teardown(&world);
}

/* --- hedges --- */

static const struct rota_call_fsm_options HEDGED = {.repeat = ROTA_REPEAT_ANY,
                                                    .hedge_after = 10 * ROTA_MSEC};

static void slow_try_is_hedged_on_another_replica_and_the_loser_cancelled(void **state)
{
    (void)state;
    for (size_t winner = 0; winner < 2; winner++) {
        struct world world;
        setup(&world, MAP(1, 2));
        start(&world, HEDGED);
        assert_int_equal(rota_call_fsm_deadline(&world.fsm), 10 * ROTA_MSEC);
        tick(&world, 10 * ROTA_MSEC - 1);
        assert_int_equal(world.n_tried, 1);
        tick(&world, 10 * ROTA_MSEC);
        assert_int_equal(world.n_tried, 2);
        assert_true(world.is_hedge[1] && !world.is_hedge[0]);
        assert_int_not_equal(world.tried[0], world.tried[1]);
        end_try(&world, winner, ROTA_FAILURE_NONE);
        assert_int_equal(world.result_node, world.tried[winner]);
        assert_int_equal(world.n_cancelled, 1);
        assert_int_equal(rota_balancer_n_tries(world.balancer), 0); /* the loser's, too */
        assert_int_equal(world.stats.n_hedges_won, winner);
        teardown(&world);
    }
}

static void failed_half_of_a_hedged_pair_leaves_it_to_the_other(void **state)
{
    (void)state;
    for (size_t first = 0; first < 2; first++) {
        struct world world;
        setup(&world, MAP(1, 2, 3));
        start(&world, HEDGED);
        tick(&world, 10 * ROTA_MSEC);
        end_try(&world, first, ROTA_FAILURE_INTERNAL);
        assert_int_equal(world.n_tried, 2);
        assert_int_equal(world.n_finished, 0);
        end_try(&world, 1 - first, ROTA_FAILURE_INTERNAL);
        assert_int_equal(world.n_tried, 3); /* now there is nobody else at it */
        end_try(&world, 2, ROTA_FAILURE_NONE);
        assert_int_equal(world.n_finished, 1);
        teardown(&world);
    }
}

static void only_what_is_idempotent_is_hedged(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    start(&world, (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_REFUSED, .hedge_after = 1});
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
    tick(&world, ROTA_SEC);
    assert_int_equal(world.n_tried, 1);
    teardown(&world);
}

static void single_replica_is_not_hedged_on_itself(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    start(&world, HEDGED);
    tick(&world, ROTA_SEC);
    assert_int_equal(world.n_tried, 1);
    teardown(&world);
}

static void hedges_have_a_budget_of_their_own(void **state)
{
    struct world world;
    size_t n_hedged = 0;
    (void)state;
    setup(&world, MAP(1, 2));
    world.shared.hedge = &world.hedge;
    rota_hedge_init(&world.hedge, 0, &(struct rota_hedge_options){0});
    for (int i = 0; i < 1000; i++) {
        world.n_tried = world.n_finished = 0;
        start(&world, IDEMPOTENT);
        rota_time began = world.now, at = rota_call_fsm_deadline(&world.fsm);
        if (at != ROTA_TIME_NEVER && i >= 500) { /* from now on all are slow */
            tick(&world, at);
            n_hedged += world.n_tried == 2;
        }
        world.now = began + 10 * ROTA_MSEC;
        end_try(&world, 0, ROTA_FAILURE_NONE);
        rota_call_fsm_deinit(&world.fsm, world.now);
    }
    assert_in_range(n_hedged, 10, 40); /* one in 20, and what was saved up */
    teardown(&world);
}

/* --- time and disorder --- */

static void call_that_starts_too_late_does_nothing(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    world.now = 5 * ROTA_SEC;
    start(&world, (struct rota_call_fsm_options){.deadline = ROTA_SEC});
    assert_int_equal(world.result, ROTA_FAILURE_DEADLINE);
    assert_int_equal(world.n_cached, 0);
    teardown(&world);
}

static void answer_to_an_older_question_is_no_news(void **state)
{
    struct world world;
    (void)state;
    setup(&world, NULL); /* the directory stays silent */
    start(&world, IDEMPOTENT);
    struct rota_shard_map *map = MAP(1);
    drive(&world,
          (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .number = 77, .map = map});
    assert_int_equal(world.n_tried, 0);
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .number = 1, .map = map});
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .number = 1, .map = map});
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
    assert_int_equal(world.n_tried, 1);
    end_try(&world, 0, ROTA_FAILURE_NONE);
    end_try(&world, 0, ROTA_FAILURE_NONE);
    assert_int_equal(world.n_finished, 1);
    rota_shard_map_drop(map);
    teardown(&world);
}

static void call_that_is_dropped_leaks_no_try(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    start(&world, HEDGED);
    tick(&world, 10 * ROTA_MSEC);
    assert_int_equal(rota_balancer_n_tries(world.balancer), 2);
    teardown(&world); /* which looks at the balancer */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e1_e11_choice_and_run_succeed),
        cmocka_unit_test(e2_cached_leaders_fail_and_fresh_ones_serve),
        cmocka_unit_test(e3_e12_lookup_that_always_fails_ends_in_its_error),
        cmocka_unit_test(e4_e8_all_excluded_are_tried_again_after_a_refresh),
        cmocka_unit_test(e5_e6_not_loaded_is_asked_about_once_each),
        cmocka_unit_test(e7_no_leaders_after_a_refresh_is_an_error_and_clears_nothing),
        cmocka_unit_test(e9_e10_serviceable_ones_are_preferred_and_others_stay_excluded),
        cmocka_unit_test(e13_client_errors_until_no_tries_are_left),
        cmocka_unit_test(e14_e15_one_error_then_another_replica_serves),
        cmocka_unit_test(e16_cancel_and_deadline_can_be_told_apart),
        cmocka_unit_test(e20_policy_name_chooses_the_balancer),
        cmocka_unit_test(e21_reports_reach_the_balancer),
        cmocka_unit_test(e22_e25_preferred_replica_bypasses_the_balancer),
        cmocka_unit_test(e23_e25_preferred_replica_that_is_not_serviceable_is_passed_over),
        cmocka_unit_test(e24_preferred_replica_that_fails_is_left_for_another),
        cmocka_unit_test(pinned_call_has_one_try_that_the_balancer_learns_from),
        cmocka_unit_test(e26_retriable_errors_blacklist_nobody),
        cmocka_unit_test(e27_another_sweep_is_allowed_when_all_have_failed),
        cmocka_unit_test(e28_stale_cache_is_refreshed_and_the_new_replica_found),
        cmocka_unit_test(e29_broken_replica_is_blacklisted_for_other_calls),
        cmocka_unit_test(e30_input_error_is_one_run_and_nobody_is_blamed),
        cmocka_unit_test(shard_all_of_whose_replicas_are_blacklisted_is_served),
        cmocka_unit_test(saturated_replicas_are_not_swept_again),
        cmocka_unit_test(replica_that_answers_not_loaded_fast_is_not_liked_for_it),
        cmocka_unit_test(stale_replica_with_a_newer_claim_of_its_own_is_tried_again),
        cmocka_unit_test(what_may_not_happen_twice_is_not_sent_twice),
        cmocka_unit_test(try_that_times_out_may_have_been_sent),
        cmocka_unit_test(first_fail_over_is_immediate_and_later_ones_wait_longer),
        cmocka_unit_test(wait_that_would_outlast_the_deadline_is_not_begun),
        cmocka_unit_test(budget_bounds_the_retries_of_all_calls),
        cmocka_unit_test(token_of_a_retry_that_did_not_happen_is_given_back),
        cmocka_unit_test(attempts_have_a_bound_whatever_is_asked_for),
        cmocka_unit_test(slow_try_is_hedged_on_another_replica_and_the_loser_cancelled),
        cmocka_unit_test(failed_half_of_a_hedged_pair_leaves_it_to_the_other),
        cmocka_unit_test(only_what_is_idempotent_is_hedged),
        cmocka_unit_test(single_replica_is_not_hedged_on_itself),
        cmocka_unit_test(hedges_have_a_budget_of_their_own),
        cmocka_unit_test(call_that_starts_too_late_does_nothing),
        cmocka_unit_test(answer_to_an_older_question_is_no_news),
        cmocka_unit_test(call_that_is_dropped_leaks_no_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
