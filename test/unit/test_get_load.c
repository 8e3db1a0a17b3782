#include "core/call/get/get_load.h"
#include "vectors.h"

struct world {
    struct rota_get_load load;
    struct rota_random random;
    rota_time now;
    rota_time all_time; /* of a Get that is broadcast; others take 1 ms */
};

static void init(struct world *world)
{
    *world = (struct world){.all_time = ROTA_MSEC / 2};
    rota_random_init(&world->random, 1);
    rota_get_load_init(&world->load, 0);
}

/* For `span`: a Get every millisecond whose answers have waited `wait_us` of 1 ms.
 * Returns how many of 1000 were broadcast in the end. */
static uint32_t run(struct world *world, rota_time span, int64_t wait_us)
{
    struct rota_cost cost = {1000 + wait_us, 1000, 0};
    for (rota_time end = world->now + span; world->now < end; world->now += ROTA_MSEC) {
        enum rota_get_copies copies =
            rota_get_load_choose(&world->load, world->now, 1, &world->random);
        rota_get_load_answered(&world->load, world->now, (1000 + wait_us) * ROTA_USEC, &cost);
        rota_get_load_ended(&world->load,
                            world->now + (copies == ROTA_GET_ALL ? world->all_time : ROTA_MSEC),
                            world->now, copies);
    }
    return rota_get_load_share_ppm(&world->load) / 1000;
}

static void all_is_broadcast_while_nothing_waits(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    assert_int_equal(run(&world, 10 * ROTA_SEC, 0), 1000);
    assert_int_equal(rota_get_load_choose(&world.load, world.now, 1, &world.random), ROTA_GET_ALL);
}

static void copies_that_save_no_time_are_not_made(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    world.all_time = ROTA_MSEC;
    assert_int_equal(run(&world, 2 * ROTA_SEC, 0), 0);
    world.all_time = ROTA_MSEC / 2;
    assert_int_equal(run(&world, 60 * ROTA_SEC, 0), 1000);
}

/* A trial would be copies, too. */
static void nothing_is_tried_under_pressure(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, 100 * ROTA_MSEC, 0);
    assert_true(world.load.trial.is_running);
    run(&world, 3 * ROTA_SEC, 2000);
    assert_false(world.load.trial.is_running);
    uint64_t n_all = 0;
    for (int i = 0; i < 10000; i++)
        n_all += rota_get_load_choose(&world.load, world.now, 1, &world.random) == ROTA_GET_ALL;
    assert_int_equal(n_all, 0);
}

static void queues_cut_the_copies_step_by_step(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    uint32_t first = run(&world, 700 * ROTA_MSEC, 2000);
    assert_in_range(first, 1, 999);
    assert_int_equal(run(&world, 3 * ROTA_SEC, 2000), 0);
    assert_int_equal(rota_get_load_choose(&world.load, world.now, 1, &world.random),
                     ROTA_GET_HEDGE);
}

static void at_the_top_there_is_one_copy_only(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    assert_int_equal(run(&world, 300 * ROTA_MSEC, 10000), 0); /* at once */
    assert_int_equal(rota_get_load_choose(&world.load, world.now, 1, &world.random), ROTA_GET_ONE);
    run(&world, 2 * ROTA_SEC, 2000); /* between: it stays */
    assert_int_equal(rota_get_load_choose(&world.load, world.now, 1, &world.random), ROTA_GET_ONE);
    run(&world, ROTA_SEC, 500);
    assert_int_equal(rota_get_load_choose(&world.load, world.now, 1, &world.random),
                     ROTA_GET_HEDGE);
}

static void between_low_and_high_the_share_stays(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    assert_int_equal(run(&world, 20 * ROTA_SEC, 400), 1000);
    run(&world, 3 * ROTA_SEC, 2000);
    assert_int_equal(run(&world, 20 * ROTA_SEC, 400), 0);
}

static void copies_come_back_when_the_queues_are_gone(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, 2 * ROTA_SEC, 5000);
    assert_int_equal(run(&world, 60 * ROTA_SEC, 0), 1000);
}

/* The queues are back each time that all is broadcast: it is tried less and less. */
static void too_large_a_step_is_tried_less_and_less(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    for (int i = 0; i < 1200; i++)
        run(&world, 100 * ROTA_MSEC, world.load.step == ROTA_GET_LOAD_STEPS ? 2000 : 0);
    uint64_t early = world.load.n_cuts;
    for (int i = 0; i < 1200; i++)
        run(&world, 100 * ROTA_MSEC, world.load.step == ROTA_GET_LOAD_STEPS ? 2000 : 0);
    assert_in_range(early, 4, 12);
    assert_in_range(world.load.n_cuts - early, 1, 5);
    assert_in_range(rota_get_load_share_ppm(&world.load), 500000, 1000000);
}

static void refusals_count_as_pressure(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, ROTA_SEC, 0);
    for (int i = 0; i < 200; i++, world.now += ROTA_MSEC) {
        rota_get_load_refused(&world.load, world.now);
        rota_get_load_choose(&world.load, world.now, 1, &world.random);
    }
    assert_int_equal(rota_get_load_share_ppm(&world.load), 0);
}

static void missing_answers_count_as_pressure_when_many_requests_are_in_flight(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, ROTA_SEC, 0);
    for (int i = 0; i < 100; i++, world.now += ROTA_SEC)
        rota_get_load_choose(&world.load, world.now, 2, &world.random);
    assert_int_equal(rota_get_load_share_ppm(&world.load), 1000000); /* it is only quiet */
    for (int i = 0; i < 100; i++, world.now += ROTA_SEC)
        rota_get_load_choose(&world.load, world.now, 500, &world.random);
    assert_int_equal(rota_get_load_share_ppm(&world.load), 0);
}

static void implausible_costs_are_ignored(void **state)
{
    struct world world;
    static const struct rota_cost costs[] = {
        {-1, -1, -1}, {INT64_MIN, INT64_MAX, 0}, {5, 10, 0}, {INT64_MAX, -1, 0}};
    (void)state;
    init(&world);
    for (int i = 0; i < 1000; i++, world.now += ROTA_MSEC) {
        rota_get_load_answered(&world.load, world.now, ROTA_MSEC, &costs[i % 4]);
        rota_get_load_answered(&world.load, world.now, ROTA_MSEC, NULL);
        rota_get_load_choose(&world.load, world.now, 1, &world.random);
    }
    assert_int_equal(rota_get_load_share_ppm(&world.load), 1000000);
    struct rota_cost huge = {INT64_MAX, 0, 0};
    rota_get_load_answered(&world.load, world.now, 0, &huge);
    assert_true(world.load.pressure >= 0);
}

/* --- windows --- */

static void answer_adds_its_wait_and_all_else_to_the_window(void **state)
{
    static const struct {
        rota_time latency_us;
        struct rota_cost cost;
        double wait_us, busy_us;
    } rows[] = {
        {5000, {3000, 1000, 0}, 2000, 3000},
        {5000, {1000, 1000, 0}, 0, 5000},
        {100, {3000, 1000, 0}, 2000, 1000}, /* no less than the service */
        {0, {7, 0, 0}, 7, 1},
        {3000, {7000, 7000, 0}, 0, 7000},
    };
    struct world world;
    double wait_us = 0, busy_us = 0;
    (void)state;
    init(&world);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wait_us += rows[i].wait_us;
        busy_us += rows[i].busy_us;
        rota_get_load_answered(&world.load, (rota_time)i, rows[i].latency_us * ROTA_USEC,
                               &rows[i].cost);
        assert_true(world.load.wait_us == wait_us && world.load.busy_us == busy_us);
        assert_int_equal(world.load.n_samples, i + 1);
        assert_int_equal(world.load.heard_at, i);
    }
    rota_get_load_refused(&world.load, 9); /* as if it had waited far too long */
    assert_true(world.load.wait_us == wait_us + 6 * (busy_us / 5));
    assert_true(world.load.busy_us == busy_us + busy_us / 5);
    assert_int_equal(world.load.n_samples, 6);
    assert_int_equal(world.load.heard_at, 9);
    init(&world);
    rota_get_load_refused(&world.load, 9);
    assert_true(world.load.wait_us == 6 && world.load.busy_us == 1);
}

static void window_has_no_samples_from_before_it_or_long_after(void **state)
{
    const struct rota_cost cost = {2000, 1000, 0};
    struct world world;
    (void)state;
    init(&world);
    world.load.window_at = 100;
    rota_get_load_answered(&world.load, 99, 0, &cost);
    assert_int_equal(world.load.n_samples, 0);
    rota_get_load_answered(&world.load, 100, 0, &cost);
    rota_get_load_answered(&world.load, 100 + 10 * ROTA_SEC, 0, &cost);
    assert_int_equal(world.load.n_samples, 2);
    rota_get_load_answered(&world.load, 101 + 10 * ROTA_SEC, 0, &cost);
    assert_int_equal(world.load.n_samples, 1);
    assert_int_equal(world.load.window_at, 101 + 10 * ROTA_SEC);
    assert_true(world.load.wait_us == 1000 && world.load.busy_us == 1000);
}

/* A window of this age, with so many samples, and this pressure. */
static enum rota_get_copies choose_after(struct world *world, rota_time age, uint32_t n,
                                         double pressure)
{
    world->now += ROTA_MIN;
    world->load.window_at = world->now - age;
    world->load.heard_at = world->now;
    world->load.n_samples = n;
    world->load.busy_us = 1000;
    world->load.wait_us = pressure * 1000;
    return rota_get_load_choose(&world->load, world->now, 1, &world->random);
}

static void window_ends_with_enough_samples_and_time_or_at_the_top(void **state)
{
    static const struct {
        rota_time age;
        uint32_t n;
        double pressure;
        bool has_ended;
    } rows[] = {
        {500 * ROTA_MSEC, 64, 1, true},      {500 * ROTA_MSEC - 1, 64, 1, false},
        {500 * ROTA_MSEC, 63, 1, false},     {100 * ROTA_MSEC, 64, 3, true},
        {100 * ROTA_MSEC - 1, 64, 3, false}, {100 * ROTA_MSEC, 64, 2.99, false},
        {100 * ROTA_MSEC, 63, 9, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        init(&world);
        choose_after(&world, rows[i].age, rows[i].n, rows[i].pressure);
        assert_true(world.load.pressure == (rows[i].has_ended ? rows[i].pressure : 0));
        assert_int_equal(world.load.n_samples, rows[i].has_ended ? 0 : rows[i].n);
    }
}

static void pressure_moves_the_share_by_a_step(void **state)
{
    static const struct {
        uint32_t before;
        double pressure;
        uint32_t after;
    } rows[] = {
        {4, 0.61, 3}, {4, 0.6, 4}, {4, 0.1, 4}, {3, 0.2, 3},  {3, 0.19, 4},
        {2, 0.5, 2},  {1, 2.9, 0}, {4, 3, 0},   {4, 2.99, 3}, {0, 9, 0},
    };
    static const uint32_t shares[] = {0, 125000, 250000, 500000, 1000000};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        init(&world);
        world.load.step = rows[i].before;
        choose_after(&world, ROTA_SEC, 100, rows[i].pressure);
        assert_int_equal(world.load.step, rows[i].after);
        assert_int_equal(world.load.n_cuts, rows[i].after < rows[i].before);
        assert_int_equal(world.load.n_raises, rows[i].after > rows[i].before);
        assert_int_equal(rota_get_load_share_ppm(&world.load), shares[rows[i].after]);
        /* What follows a change counts only when it can show. */
        assert_int_equal(world.load.window_at - world.now,
                         rows[i].after != rows[i].before ? 100 * ROTA_MSEC : 0);
    }
}

static void each_cut_holds_for_twice_as_long_up_to_a_bound(void **state)
{
    struct world world;
    rota_time hold = ROTA_SEC;
    (void)state;
    init(&world);
    for (int i = 0; i < 8; i++) {
        world.load.step = 4;
        choose_after(&world, ROTA_SEC, 100, 1);
        assert_int_equal(world.load.ceiling, 4);
        assert_in_range(world.load.ceiling_until - world.now, hold, hold + hold / 4);
        hold = rota_time_min(2 * hold, 32 * ROTA_SEC);
        assert_int_equal(world.load.hold, hold);

        world.load.ceiling_until = world.now + ROTA_MIN + 1; /* what was too much is not tried */
        choose_after(&world, ROTA_SEC, 100, 0);
        assert_int_equal(world.load.step, 3);
        choose_after(&world, ROTA_SEC, 100, 0);
        assert_int_equal(world.load.step, 4);
    }
    /* It went well for long: the next cut is short again. */
    world.load.ceiling_until = world.now + ROTA_MIN - 32 * ROTA_SEC;
    choose_after(&world, ROTA_SEC, 100, 0.6);
    assert_int_equal(world.load.hold, 32 * ROTA_SEC);
    world.load.ceiling_until = world.now + ROTA_MIN - 32 * ROTA_SEC - 1;
    world.load.step = 3;
    choose_after(&world, ROTA_SEC, 100, 0.6); /* below the ceiling says nothing */
    assert_int_equal(world.load.hold, 32 * ROTA_SEC);
    world.load.ceiling_until = world.now + ROTA_MIN - 32 * ROTA_SEC - 1;
    world.load.step = 4;
    choose_after(&world, ROTA_SEC, 100, 0.6);
    assert_int_equal(world.load.hold, ROTA_SEC);
}

static void missing_answers_means_half_a_second_with_64_in_flight(void **state)
{
    static const struct {
        size_t in_flight;
        rota_time silent;
        bool is_pressed;
    } rows[] = {{64, 500 * ROTA_MSEC + 1, true},
                {63, ROTA_HOUR, false},
                {64, 500 * ROTA_MSEC, false},
                {1000, 500 * ROTA_MSEC + 1, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        init(&world);
        rota_get_load_choose(&world.load, rows[i].silent, rows[i].in_flight, &world.random);
        assert_int_equal(world.load.n_cuts, rows[i].is_pressed);
        assert_int_equal(world.load.step, rows[i].is_pressed ? 0 : 4);
        assert_int_equal(world.load.is_top, rows[i].is_pressed);
        if (rows[i].is_pressed) /* and is counted from now on again */
            assert_int_equal(world.load.heard_at, rows[i].silent);
    }
}

static void top_begins_above_3_and_ends_at_0_6(void **state)
{
    static const struct {
        uint32_t step;
        bool was_top;
        double pressure;
        bool is_top;
    } rows[] = {{0, false, 3, false},  {0, false, 3.1, true}, {0, true, 0.6, false},
                {0, true, 0.61, true}, {1, false, 2, false},  {4, false, 3.5, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        init(&world);
        world.load.step = rows[i].step;
        world.load.is_top = rows[i].was_top;
        enum rota_get_copies copies = choose_after(&world, ROTA_SEC, 100, rows[i].pressure);
        assert_int_equal(world.load.is_top, rows[i].is_top);
        assert_int_equal(copies == ROTA_GET_ONE, rows[i].is_top);
    }
}

static void share_is_spread_evenly(void **state)
{
    static const int every[] = {0, 8, 4, 2};
    (void)state;
    for (uint32_t step = 0; step < 4; step++) {
        struct world world;
        init(&world);
        world.load.step = step;
        for (int i = 0; i < 64; i++) {
            enum rota_get_copies copies = rota_get_load_choose(&world.load, 0, 1, &world.random);
            if (step == 0)
                assert_int_equal(copies, ROTA_GET_HEDGE);
            else if (i >= every[step])
                assert_int_equal(copies == ROTA_GET_ALL, i % every[step] == 0);
        }
        world.load.trial.is_worth = false;
        assert_int_equal(rota_get_load_share_ppm(&world.load), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_broadcast_while_nothing_waits),
        cmocka_unit_test(copies_that_save_no_time_are_not_made),
        cmocka_unit_test(nothing_is_tried_under_pressure),
        cmocka_unit_test(queues_cut_the_copies_step_by_step),
        cmocka_unit_test(at_the_top_there_is_one_copy_only),
        cmocka_unit_test(between_low_and_high_the_share_stays),
        cmocka_unit_test(copies_come_back_when_the_queues_are_gone),
        cmocka_unit_test(too_large_a_step_is_tried_less_and_less),
        cmocka_unit_test(refusals_count_as_pressure),
        cmocka_unit_test(missing_answers_count_as_pressure_when_many_requests_are_in_flight),
        cmocka_unit_test(implausible_costs_are_ignored),
        cmocka_unit_test(answer_adds_its_wait_and_all_else_to_the_window),
        cmocka_unit_test(window_has_no_samples_from_before_it_or_long_after),
        cmocka_unit_test(window_ends_with_enough_samples_and_time_or_at_the_top),
        cmocka_unit_test(pressure_moves_the_share_by_a_step),
        cmocka_unit_test(each_cut_holds_for_twice_as_long_up_to_a_bound),
        cmocka_unit_test(missing_answers_means_half_a_second_with_64_in_flight),
        cmocka_unit_test(top_begins_above_3_and_ends_at_0_6),
        cmocka_unit_test(share_is_spread_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
