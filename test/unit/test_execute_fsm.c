#include "core/call/call_fsm.h"
#include "core/call/shards/execute_fsm.h"
#include "vectors.h"
#include <rota/experimental/random.h>

#include <rota/experimental/random.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHARDS_MAX = 16, LEADERS = 5 };

struct world {
    struct rota_random random;
    struct rota_execute_fsm fsm;
    struct rota_shard_map *map;
    size_t n_asks, n_started, n_cancelled, n_finished;
    bool is_started[SHARDS_MAX], is_cancelled[SHARDS_MAX];
    struct rota_execute_action finish;
};

static struct rota_shard_map *map_of(size_t n_shards)
{
    static const char *const names[SHARDS_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                  "i", "j", "k", "l", "m", "n", "o", "p"};
    struct rota_shard_channel channels[SHARDS_MAX];
    struct rota_replica replicas[LEADERS];
    struct rota_shard_map *map;
    for (int64_t i = 0; i < LEADERS; i++)
        replicas[i] = (struct rota_replica){i + 1, {"a:1", 3}, 1, true};
    for (size_t i = 0; i < n_shards; i++)
        channels[i] = (struct rota_shard_channel){rota_str(names[i]), replicas, LEADERS};
    assert_int_equal(rota_shard_map_new(1, rota_str(""), channels, n_shards, &map, NULL), ROTA_OK);
    return map;
}

static void drive(struct world *world, struct rota_execute_event event)
{
    struct rota_execute_action action;
    rota_execute_fsm_step(&world->fsm, &event);
    while (rota_execute_fsm_next(&world->fsm, &action)) {
        assert_int_equal(world->n_finished, 0); /* nothing comes after it */
        switch (action.type) {
        case ROTA_EXECUTE_ASK_LEADERS:
            world->n_asks++;
            break;
        case ROTA_EXECUTE_START_CALL:
            assert_false(world->is_started[action.shard]);
            assert_true(rota_str_is_equal(action.channel, world->map->channels[action.shard].name));
            world->is_started[action.shard] = true;
            world->n_started++;
            break;
        case ROTA_EXECUTE_CANCEL_CALL:
            assert_true(world->is_started[action.shard] && !world->is_cancelled[action.shard]);
            world->is_cancelled[action.shard] = true;
            world->n_cancelled++;
            break;
        case ROTA_EXECUTE_FINISH:
            world->n_finished++;
            world->finish = action;
            break;
        }
    }
}

static void setup(struct world *world, enum rota_execute_mode mode, bool is_partial,
                  size_t n_shards, uint64_t seed)
{
    *world = (struct world){0};
    rota_random_init(&world->random, seed);
    rota_execute_fsm_init(&world->fsm, mode, is_partial, &world->random);
    world->map = map_of(n_shards);
    drive(world, (struct rota_execute_event){.type = ROTA_EXECUTE_START});
    assert_int_equal(world->n_asks, 1);
    drive(world, (struct rota_execute_event){.type = ROTA_EXECUTE_LEADERS, .map = world->map});
}

static void end_call(struct world *world, size_t shard, enum rota_failure failure)
{
    drive(world, (struct rota_execute_event){
                     .type = ROTA_EXECUTE_CALL_ENDED, .shard = shard, .failure = failure});
}

static void teardown(struct world *world)
{
    rota_execute_fsm_deinit(&world->fsm);
    rota_shard_map_drop(world->map);
}

static void all_shards_run_side_by_side_and_end_together(void **state)
{
    struct world world;
    (void)state;
    setup(&world, ROTA_EXECUTE_ALL, false, 4, 1);
    assert_int_equal(world.n_started, 4);
    for (size_t i = 4; i-- > 0;) {
        assert_int_equal(world.n_finished, 0);
        end_call(&world, i, ROTA_FAILURE_NONE);
        end_call(&world, i, ROTA_FAILURE_INTERNAL); /* repeated: no news */
    }
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.finish.failure, ROTA_FAILURE_NONE);
    assert_int_equal(world.finish.n_ok, 4);
    teardown(&world);
}

static void failing_shard_has_its_siblings_cancelled_and_awaited(void **state)
{
    struct world world;
    (void)state;
    setup(&world, ROTA_EXECUTE_ALL, false, 4, 1);
    end_call(&world, 0, ROTA_FAILURE_NONE);
    end_call(&world, 1, ROTA_FAILURE_NO_REPLICA);
    assert_true(world.is_cancelled[2] && world.is_cancelled[3]);
    assert_int_equal(world.n_cancelled, 2);
    assert_int_equal(world.n_finished, 0);
    end_call(&world, 2, ROTA_FAILURE_CANCELLED);
    end_call(&world, 3, ROTA_FAILURE_NONE);                          /* had just made it */
    assert_int_equal(world.finish.failure, ROTA_FAILURE_NO_REPLICA); /* the first, not a cancel */
    assert_int_equal(world.finish.n_ok, 2);
    assert_int_equal(world.finish.n_failed, 2);
    teardown(&world);
}

static void partial_execution_leaves_the_siblings_alone(void **state)
{
    struct world world;
    (void)state;
    setup(&world, ROTA_EXECUTE_ALL, true, 2, 1);
    end_call(&world, 0, ROTA_FAILURE_NO_REPLICA); /* one of two shards has no leader */
    assert_int_equal(world.n_cancelled, 0);
    end_call(&world, 1, ROTA_FAILURE_NONE);
    assert_int_equal(world.finish.n_ok, 1);
    assert_int_equal(world.finish.n_failed, 1);
    assert_int_equal(world.finish.failure, ROTA_FAILURE_NO_REPLICA);
    assert_int_equal(world.fsm.shards[0].failure, ROTA_FAILURE_NO_REPLICA);
    assert_int_equal(world.fsm.shards[1].failure, ROTA_FAILURE_NONE);
    teardown(&world);
}

static void e18_error_of_the_leader_list_passes_through(void **state)
{
    struct world world = {0};
    (void)state;
    rota_execute_fsm_init(&world.fsm, ROTA_EXECUTE_ALL, false, &world.random);
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_START});
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_LEADERS,
                                              .failure = ROTA_FAILURE_UNREACHABLE});
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.finish.failure, ROTA_FAILURE_UNREACHABLE);
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    assert_int_equal(world.n_finished, 1);
    teardown(&world);
}

static void collection_without_shards_is_not_loaded(void **state)
{
    struct world world;
    (void)state;
    setup(&world, ROTA_EXECUTE_ALL, false, 0, 1);
    assert_int_equal(world.finish.failure, ROTA_FAILURE_NOT_LOADED);
    teardown(&world);
}

static void e19_one_runs_on_one_shard_and_on_any(void **state)
{
    bool is_used[SHARDS_MAX] = {false};
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct world world;
        setup(&world, ROTA_EXECUTE_ONE, false, 4, seed);
        assert_int_equal(world.n_started, 1);
        for (size_t i = 0; i < 4; i++) {
            is_used[i] |= world.is_started[i];
            end_call(&world, i, ROTA_FAILURE_NONE); /* others have nothing to say */
        }
        assert_int_equal(world.n_finished, 1);
        assert_int_equal(world.finish.n_ok, 1);
        assert_int_equal(world.finish.n_failed, 0);
        teardown(&world);
    }
    for (size_t i = 0; i < 4; i++)
        assert_true(is_used[i]);
}

static void named_shard_runs_alone_and_must_be_on_the_map(void **state)
{
    struct world world = {.map = map_of(3)};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rota_execute_fsm_init_shard(&world.fsm, rota_str(i ? "z" : "b"));
        world.n_asks = world.n_started = world.n_finished = 0;
        memset(world.is_started, 0, sizeof world.is_started);
        drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_START});
        drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_LEADERS, .map = world.map});
        assert_int_equal(world.n_started, i ? 0 : 1);
        if (i == 0) {
            assert_true(world.is_started[1]);
            end_call(&world, 1, ROTA_FAILURE_NONE);
        }
        assert_int_equal(world.n_finished, 1);
        assert_int_equal(world.finish.failure, i ? ROTA_FAILURE_NO_REPLICA : ROTA_FAILURE_NONE);
        assert_int_equal(world.finish.n_ok, i ? 0 : 1);
        rota_execute_fsm_deinit(&world.fsm);
    }
    rota_shard_map_drop(world.map);
}

static void cancel_reaches_every_call_and_ends_with_the_last(void **state)
{
    struct world world;
    (void)state;
    setup(&world, ROTA_EXECUTE_ALL, true, 3, 1);
    end_call(&world, 1, ROTA_FAILURE_NONE);
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    assert_int_equal(world.n_cancelled, 2);
    end_call(&world, 0, ROTA_FAILURE_CANCELLED);
    assert_int_equal(world.n_finished, 0);
    end_call(&world, 2, ROTA_FAILURE_CANCELLED);
    assert_int_equal(world.finish.failure, ROTA_FAILURE_CANCELLED);
    teardown(&world);
}

static void cancel_before_the_shards_are_known_ends_at_once(void **state)
{
    struct world world = {0};
    (void)state;
    rota_execute_fsm_init(&world.fsm, ROTA_EXECUTE_ALL, false, &world.random);
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_START});
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    assert_int_equal(world.n_finished, 1);
    world.map = map_of(2);
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_LEADERS, .map = world.map});
    assert_int_equal(world.n_started, 0);
    teardown(&world);
}

static void actions_not_taken_yet_are_not_started(void **state)
{
    struct rota_random random;
    struct rota_execute_fsm fsm;
    struct rota_execute_action action;
    struct rota_shard_map *map = map_of(3);
    (void)state;
    rota_random_init(&random, 1);
    rota_execute_fsm_init(&fsm, ROTA_EXECUTE_ALL, false, &random);
    rota_execute_fsm_step(&fsm, &(struct rota_execute_event){.type = ROTA_EXECUTE_START});
    rota_execute_fsm_step(&fsm,
                          &(struct rota_execute_event){.type = ROTA_EXECUTE_LEADERS, .map = map});
    assert_true(rota_execute_fsm_next(&fsm, &action));
    assert_int_equal(action.type, ROTA_EXECUTE_ASK_LEADERS);
    assert_true(rota_execute_fsm_next(&fsm, &action));
    assert_int_equal(action.type, ROTA_EXECUTE_START_CALL);
    rota_execute_fsm_step(&fsm, &(struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    assert_true(rota_execute_fsm_next(&fsm, &action));
    assert_int_equal(action.type, ROTA_EXECUTE_CANCEL_CALL);
    assert_false(rota_execute_fsm_next(&fsm, &action));
    rota_execute_fsm_step(&fsm, &(struct rota_execute_event){.type = ROTA_EXECUTE_CALL_ENDED,
                                                             .shard = 0,
                                                             .failure = ROTA_FAILURE_CANCELLED});
    assert_true(rota_execute_fsm_next(&fsm, &action));
    assert_int_equal(action.type, ROTA_EXECUTE_FINISH);
    rota_execute_fsm_deinit(&fsm);
    rota_shard_map_drop(map);
}

/* One call of the map's shard, all of whose runs end in `failure`; returns how
 * many there were. */
static size_t runs_of(struct world *world, struct rota_balancer *balancer, struct rota_str channel,
                      enum rota_failure failure, int64_t retries)
{
    struct rota_call_stats stats = {0};
    struct rota_call_shared shared = {
        .balancer = balancer, .random = &world->random, .stats = &stats};
    struct rota_call_fsm_options options = {
        .channel = channel, .collection = 1, .retries = retries, .repeat = ROTA_REPEAT_ANY};
    struct rota_call_fsm call;
    struct rota_call_fsm_event event = {.type = ROTA_CALL_START};
    rota_time now = 0;
    rota_call_fsm_init(&call, &shared, &options);
    for (;;) {
        struct rota_call_fsm_actions todo = rota_call_fsm_step(&call, now, &event);
        if (todo.n == 0) {
            now = rota_call_fsm_deadline(&call);
            event = (struct rota_call_fsm_event){.type = ROTA_CALL_TICK};
            continue;
        }
        const struct rota_call_fsm_action *action = &todo.items[todo.n - 1];
        if (action->type == ROTA_CALL_FINISH)
            break;
        event = action->type == ROTA_CALL_ASK_LEADERS
                    ? (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .map = world->map}
                    : (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED, .failure = failure};
        event.number = action->number;
    }
    rota_call_fsm_deinit(&call, now);
    return stats.n_tries;
}

static void e17_two_shards_of_five_leaders_and_one_retry_are_seven_runs(void **state)
{
    struct world world;
    struct rota_balancer *balancer;
    struct rota_balancer_options options = {.policy = ROTA_BALANCER_LOOK_ASIDE};
    (void)state;
    assert_int_equal(rota_balancer_new(&options, &balancer, NULL), ROTA_OK);
    setup(&world, ROTA_EXECUTE_ALL, false, 2, 1);
    size_t n = runs_of(&world, balancer, world.map->channels[0].name, ROTA_FAILURE_NONE, 1);
    n += runs_of(&world, balancer, world.map->channels[1].name, ROTA_FAILURE_RETRIABLE, 1);
    assert_int_equal(n, 7);
    end_call(&world, 0, ROTA_FAILURE_NONE);
    end_call(&world, 1, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(world.finish.failure, ROTA_FAILURE_RETRIABLE);
    rota_balancer_free(balancer);
    teardown(&world);
}

static void answer_of_the_directory_is_a_failure_or_a_map(void **state)
{
    struct rota_shard_map *map = map_of(2);
    const struct {
        enum rota_failure failure;
        struct rota_shard_map *map;
        enum rota_failure finish;
    } cases[] = {{ROTA_FAILURE_UNREACHABLE, map, ROTA_FAILURE_UNREACHABLE},
                 {ROTA_FAILURE_UNREACHABLE, NULL, ROTA_FAILURE_UNREACHABLE},
                 {ROTA_FAILURE_NONE, NULL, ROTA_FAILURE_NO_REPLICA}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct world world = {0};
        rota_random_init(&world.random, 5);
        rota_execute_fsm_init(&world.fsm, ROTA_EXECUTE_ALL, false, &world.random);
        drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_START});
        drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_LEADERS,
                                                  .map = cases[i].map,
                                                  .failure = cases[i].failure});
        assert_int_equal(world.n_finished, 1);
        assert_int_equal(world.finish.failure, cases[i].finish);
        assert_int_equal(world.n_started, 0);
        rota_execute_fsm_deinit(&world.fsm);
    }
    rota_shard_map_drop(map);
}

static void call_that_is_started_twice_asks_once(void **state)
{
    struct world world = {0};
    (void)state;
    rota_random_init(&world.random, 5);
    rota_execute_fsm_init(&world.fsm, ROTA_EXECUTE_ALL, false, &world.random);
    for (int i = 0; i < 2; i++)
        drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_START});
    assert_int_equal(world.n_asks, 1);
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    assert_int_equal(world.finish.failure, ROTA_FAILURE_CANCELLED);
    rota_execute_fsm_deinit(&world.fsm);
}

static void cancelled_call_has_failed_whatever_its_parts_report(void **state)
{
    struct world world;
    (void)state;
    setup(&world, ROTA_EXECUTE_ALL, false, 3, 5);
    drive(&world, (struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    assert_int_equal(world.n_cancelled, 3);
    for (size_t i = 0; i < 3; i++)
        end_call(&world, i, ROTA_FAILURE_NONE); /* too late to be stopped */
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.finish.failure, ROTA_FAILURE_CANCELLED);
    teardown(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shards_run_side_by_side_and_end_together),
        cmocka_unit_test(failing_shard_has_its_siblings_cancelled_and_awaited),
        cmocka_unit_test(partial_execution_leaves_the_siblings_alone),
        cmocka_unit_test(e17_two_shards_of_five_leaders_and_one_retry_are_seven_runs),
        cmocka_unit_test(e18_error_of_the_leader_list_passes_through),
        cmocka_unit_test(collection_without_shards_is_not_loaded),
        cmocka_unit_test(e19_one_runs_on_one_shard_and_on_any),
        cmocka_unit_test(named_shard_runs_alone_and_must_be_on_the_map),
        cmocka_unit_test(cancel_reaches_every_call_and_ends_with_the_last),
        cmocka_unit_test(cancel_before_the_shards_are_known_ends_at_once),
        cmocka_unit_test(actions_not_taken_yet_are_not_started),
        cmocka_unit_test(answer_of_the_directory_is_a_failure_or_a_map),
        cmocka_unit_test(call_that_is_started_twice_asks_once),
        cmocka_unit_test(cancelled_call_has_failed_whatever_its_parts_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
