#include "call_world.h"

/* --- what may be done again --- */

static void call_that_must_not_run_twice_is_not_sent_again(void **state)
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

/* --- when, and how often --- */

static void first_failover_is_immediate_and_later_ones_wait_longer(void **state)
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

static void wait_that_would_outlast_the_deadline_is_not_started(void **state)
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

/* Of one call that is as long as its wait, and of one that is a little longer. */
static void wait_that_ends_with_the_deadline_is_not_started(void **state)
{
    (void)state;
    rota_time waits = ROTA_TIME_NEVER;
    for (int i = 0; i < 3; i++) {
        struct world world;
        setup(&world, MAP(1));
        SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
        start(&world, (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_ANY,
                                                     .deadline = i == 0   ? ROTA_HOUR
                                                                 : i == 1 ? waits
                                                                          : waits + 1});
        assert_int_equal(world.n_finished, i == 1);
        if (i == 0)
            waits = rota_call_fsm_deadline(&world.fsm);
        teardown(&world);
    }
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
    assert_in_range(n_tried, 3150, 3211); /* each replica once, and a fifth more */
    assert_true(world.stats.n_unbudgeted > 0);
    teardown(&world);
}

static void budget_never_keeps_a_call_from_a_replica_that_is_well(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    world.shared.budget = &world.budget;
    rota_budget_init(&world.budget, 0, &(struct rota_budget_options){.ppm = 0, .most = 1});
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_INTERNAL, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.stats.n_unbudgeted, 0);
    teardown(&world);
}

static void call_ended_by_the_budget_names_it(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    world.shared.budget = &world.budget;
    rota_budget_init(&world.budget, 0, &(struct rota_budget_options){.ppm = 0, .most = 1});
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_RETRIABLE);
    assert_int_equal(world.n_tried, 2);
    assert_true(rota_call_fsm_is_unbudgeted(&world.fsm));
    assert_int_equal(world.stats.n_unbudgeted, 1);
    rota_call_fsm_deinit(&world.fsm, world.now);

    rota_budget_init(&world.budget, world.now, &(struct rota_budget_options){.ppm = 1000000});
    world.n_tried = world.n_finished = 0;
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_RETRIABLE); /* one token, one more try */
    assert_int_equal(world.n_tried, 3);
    assert_true(rota_call_fsm_is_unbudgeted(&world.fsm));
    assert_int_equal(world.stats.n_unbudgeted, 2);
    teardown(&world);
}

static void token_of_a_retry_that_did_not_happen_is_returned(void **state)
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

    /* It waits for its third try, with a token, when it ends. */
    for (int i = 0; i < 2; i++) {
        setup(&world, MAP(1));
        world.shared.budget = &world.budget;
        rota_budget_init(&world.budget, 0, &ROTA_BUDGET_RETRIES);
        SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
        start(&world, IDEMPOTENT);
        assert_int_equal(world.n_tried, 2);
        assert_int_equal(world.budget.n_spent, 2);
        if (i == 0)
            drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
        rota_call_fsm_deinit(&world.fsm, world.now);
        rota_call_fsm_deinit(&world.fsm, world.now);
        assert_int_equal(world.budget.n_spent, 1);
        teardown(&world);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_that_must_not_run_twice_is_not_sent_again),
        cmocka_unit_test(try_that_times_out_may_have_been_sent),
        cmocka_unit_test(first_failover_is_immediate_and_later_ones_wait_longer),
        cmocka_unit_test(wait_that_would_outlast_the_deadline_is_not_started),
        cmocka_unit_test(wait_that_ends_with_the_deadline_is_not_started),
        cmocka_unit_test(budget_bounds_the_retries_of_all_calls),
        cmocka_unit_test(budget_never_keeps_a_call_from_a_replica_that_is_well),
        cmocka_unit_test(call_ended_by_the_budget_names_it),
        cmocka_unit_test(token_of_a_retry_that_did_not_happen_is_returned),
        cmocka_unit_test(attempts_have_a_bound_whatever_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
