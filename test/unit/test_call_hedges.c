#include "call_world.h"

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

static void only_idempotent_calls_are_hedged(void **state)
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

static void wait_for_a_connection_is_not_the_time_of_a_try(void **state)
{
    struct world world;
    struct rota_balancer_view view;
    (void)state;
    setup(&world, MAP(1));
    world.shared.hedge = &world.hedge;
    rota_hedge_init(&world.hedge, 0, &(struct rota_hedge_options){0});
    start(&world, IDEMPOTENT);
    world.now += 100 * ROTA_MSEC;
    struct rota_call_fsm_event sent = {.type = ROTA_CALL_TRY_SENT, .number = world.numbers[0]};
    drive(&world, sent);
    world.now += ROTA_MSEC;
    end_try(&world, 0, ROTA_FAILURE_NONE);
    assert_true(rota_balancer_look(world.balancer, world.now, 1, &view));
    assert_int_equal(view.latency_us, 1000);
    assert_int_equal(rota_histogram_quantile(&world.hedge.latest, 1), 1000);
    drive(&world, sent); /* late: it changes nothing */
    assert_int_equal(world.n_finished, 1);
    teardown(&world);
}

/* Else those that are a little slow would take all tokens, and the one call that
 * is stuck permanently would have had its only chance. */
static void hedge_without_a_token_is_asked_for_again(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    world.shared.hedge = &world.hedge;
    rota_hedge_init(&world.hedge, 0, &(struct rota_hedge_options){0});
    while (rota_hedge_spend(&world.hedge, 0))
        ;
    start(&world, HEDGED);
    tick(&world, world.now + 10 * ROTA_MSEC);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), world.now + 10 * ROTA_MSEC);
    assert_int_equal(world.stats.n_unbudgeted, 1);

    for (int i = 0; i < 20; i++) /* other calls earn one */
        rota_hedge_begin(&world.hedge, world.now, ROTA_TIME_NEVER);
    tick(&world, world.now + 10 * ROTA_MSEC - 1);
    assert_int_equal(world.n_tried, 1);
    tick(&world, world.now + 1);
    assert_int_equal(world.n_tried, 2);
    assert_true(world.is_hedge[1]);
    end_try(&world, 1, ROTA_FAILURE_NONE);
    assert_int_equal(world.n_finished, 1);
    teardown(&world);
}

static void hedge_without_a_token_is_asked_for_again_after_a_millisecond(void **state)
{
    struct world world;
    (void)state;
    for (int i = -1; i <= 1; i++) {
        rota_time delay = ROTA_HEDGE_DELAY_MIN + i;
        setup(&world, MAP(1, 2));
        world.shared.budget = &world.budget;
        rota_budget_init(&world.budget, 0, &(struct rota_budget_options){.most = 1});
        start(&world,
              (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_ANY, .hedge_after = delay});
        tick(&world, delay);
        assert_int_equal(world.n_tried, 1);
        assert_int_equal(world.stats.n_unbudgeted, 1);
        assert_int_equal(rota_call_fsm_deadline(&world.fsm) - world.now,
                         i > 0 ? delay : ROTA_HEDGE_DELAY_MIN);

        /* The next try of the call has not been hedged, and may be. */
        end_try(&world, 0, ROTA_FAILURE_RETRIABLE);
        assert_int_equal(world.n_tried, 2);
        assert_int_equal(rota_call_fsm_deadline(&world.fsm) - world.now, delay);
        teardown(&world);
    }
}

static void call_is_hedged_once(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    start(&world, HEDGED);
    tick(&world, 10 * ROTA_MSEC);
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
    end_try(&world, 0, ROTA_FAILURE_RETRIABLE);
    end_try(&world, 1, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(world.n_tried, 3);
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
    teardown(&world);

    setup(&world, MAP(1)); /* without a second replica, too */
    start(&world, HEDGED);
    tick(&world, 10 * ROTA_MSEC);
    end_try(&world, 0, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(world.n_tried, 2);
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
    teardown(&world);
}

static void token_of_a_hedge_comes_from_the_hedges_or_the_retries(void **state)
{
    struct world world;
    (void)state;
    for (int has_hedge = 0; has_hedge < 2; has_hedge++) {
        setup(&world, MAP(1, 2));
        world.shared.budget = &world.budget;
        rota_budget_init(&world.budget, 0, &(struct rota_budget_options){.per_second = 5});
        rota_hedge_init(&world.hedge, 0,
                        &(struct rota_hedge_options){.budget = {.per_second = 5, .most = 10}});
        if (has_hedge)
            world.shared.hedge = &world.hedge;
        start(&world, HEDGED);
        assert_int_equal(world.hedge.budget.n_calls, has_hedge);
        tick(&world, 10 * ROTA_MSEC);
        assert_int_equal(world.n_tried, 2);
        assert_int_equal(world.hedge.budget.n_spent, has_hedge);
        assert_int_equal(world.budget.n_spent, !has_hedge);
        assert_int_equal(world.stats.n_unbudgeted, 0);
        teardown(&world);
    }
}

static void hedges_learn_from_both_tries_of_a_successful_call(void **state)
{
    struct world world;
    (void)state;
    for (int i = 0; i < 3; i++) {
        setup(&world, MAP(1, 2));
        world.shared.hedge = &world.hedge;
        rota_hedge_init(&world.hedge, 0,
                        &(struct rota_hedge_options){.budget = {.per_second = 5, .most = 10}});
        start(&world, HEDGED);
        tick(&world, 10 * ROTA_MSEC);
        world.now += 5 * ROTA_MSEC;
        if (i < 2)
            end_try(&world, 1, i == 0 ? ROTA_FAILURE_NONE : ROTA_FAILURE_INPUT);
        else
            drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
        assert_int_equal(world.hedge.latest.count, i == 0 ? 2 : 0);
        if (i == 0)
            assert_in_range(rota_histogram_quantile(&world.hedge.latest, 1), 14500, 15500);
        teardown(&world);
    }
}

static void hedge_that_is_switched_off_earns_and_does_nothing(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    world.shared.hedge = &world.hedge;
    rota_hedge_init(&world.hedge, 0, &(struct rota_hedge_options){0});
    for (int i = 0; i < 100; i++)
        rota_hedge_record(&world.hedge, 0, ROTA_MSEC);
    struct rota_call_fsm_options options = IDEMPOTENT;
    world.now = ROTA_SEC;
    start(&world, options);
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), ROTA_SEC + world.hedge.delay);
    rota_call_fsm_deinit(&world.fsm, world.now);
    options.hedge_after = -1;
    start(&world, options);
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
    assert_int_equal(world.hedge.budget.n_calls, 1);
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
        cmocka_unit_test(slow_try_is_hedged_on_another_replica_and_the_loser_cancelled),
        cmocka_unit_test(failed_half_of_a_hedged_pair_leaves_it_to_the_other),
        cmocka_unit_test(only_idempotent_calls_are_hedged),
        cmocka_unit_test(single_replica_is_not_hedged_on_itself),
        cmocka_unit_test(hedges_have_a_budget_of_their_own),
        cmocka_unit_test(wait_for_a_connection_is_not_the_time_of_a_try),
        cmocka_unit_test(hedge_without_a_token_is_asked_for_again),
        cmocka_unit_test(hedge_without_a_token_is_asked_for_again_after_a_millisecond),
        cmocka_unit_test(call_is_hedged_once),
        cmocka_unit_test(token_of_a_hedge_comes_from_the_hedges_or_the_retries),
        cmocka_unit_test(hedges_learn_from_both_tries_of_a_successful_call),
        cmocka_unit_test(hedge_that_is_switched_off_earns_and_does_nothing),
        cmocka_unit_test(call_that_is_dropped_leaks_no_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
