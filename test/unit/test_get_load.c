#include "core/call/get_load.h"
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
static void what_was_too_much_is_tried_less_and_less(void **state)
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

static void silence_counts_as_pressure_when_much_is_out(void **state)
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

static void nonsense_from_a_server_is_no_news(void **state)
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
        cmocka_unit_test(what_was_too_much_is_tried_less_and_less),
        cmocka_unit_test(refusals_count_as_pressure),
        cmocka_unit_test(silence_counts_as_pressure_when_much_is_out),
        cmocka_unit_test(nonsense_from_a_server_is_no_news),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
