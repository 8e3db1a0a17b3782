#include "core/call/get/get_trial.h"
#include "vectors.h"

#include <rota/experimental/random.h>

struct world {
    struct rota_get_trial trial;
    struct rota_random random;
    rota_time now;
    uint64_t n_all, n; /* Gets that were broadcast, and all */
};

static void init(struct world *world)
{
    *world = (struct world){0};
    rota_random_init(&world->random, 1);
    rota_get_trial_init(&world->trial);
}

/* One after the other; a Get takes from half to one and a half of the time of its kind,
 * and once in 100 times 20 times that. */
static void run(struct world *world, unsigned n_gets, rota_time one, rota_time all)
{
    for (unsigned i = 0; i < n_gets; i++) {
        bool is_all = rota_get_trial_choose(&world->trial, world->now, 1);
        rota_time usual = is_all ? all : one, began_at = world->now;
        rota_time took = usual / 2 + (rota_time)rota_random_below(&world->random, (uint64_t)usual);
        if (rota_random_chance(&world->random, 0.01))
            took *= 20;
        world->now += took;
        world->n++;
        world->n_all += is_all;
        rota_get_trial_ended(&world->trial, world->now, began_at, is_all);
    }
}

static void copies_are_worth_it_until_it_was_tried(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, ROTA_GET_TRIAL_FIRST, ROTA_MSEC, ROTA_MSEC);
    assert_int_equal(world.n_all, ROTA_GET_TRIAL_FIRST);
}

static void copies_that_save_half_the_time_are_made(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, 20000, 2 * ROTA_MSEC, ROTA_MSEC);
    assert_true(world.trial.is_worth);
    assert_in_range(world.n - world.n_all, ROTA_GET_TRIAL_ENOUGH, world.n / 20);
}

static void copies_that_save_nothing_are_not_made(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, 2000, ROTA_MSEC, ROTA_MSEC);
    assert_false(world.trial.is_worth);
    world.n_all = world.n = 0;
    run(&world, 100000, ROTA_MSEC, ROTA_MSEC);
    assert_in_range(world.n_all, 1, world.n / 50);
}

static void copies_that_save_a_tenth_are_not_made(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, 2000, 1000 * ROTA_USEC, 900 * ROTA_USEC);
    assert_false(world.trial.is_worth);
}

static void copies_that_cost_time_are_not_made(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, 500, ROTA_MSEC, 2 * ROTA_MSEC);
    assert_false(world.trial.is_worth);
}

static void the_finding_follows_the_replicas(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, 100000, ROTA_MSEC, ROTA_MSEC);
    assert_false(world.trial.is_worth);
    run(&world, 300000, 3 * ROTA_MSEC, ROTA_MSEC);
    assert_true(world.trial.is_worth);
    run(&world, 300000, ROTA_MSEC, ROTA_MSEC);
    assert_false(world.trial.is_worth);
}

static void the_same_finding_holds_longer_each_time(void **state)
{
    struct world world;
    uint32_t last = 0;
    (void)state;
    init(&world);
    for (int i = 0; i < 8; i++) {
        while (!world.trial.is_running)
            run(&world, 1, ROTA_MSEC, 2 * ROTA_MSEC);
        while (world.trial.is_running)
            run(&world, 1, ROTA_MSEC, 2 * ROTA_MSEC);
        uint32_t stands = (world.trial.n_left + 1) / world.trial.n_begun;
        assert_in_range(stands, last, ROTA_GET_TRIAL_REST_MAX);
        last = stands;
    }
    assert_int_equal(last, ROTA_GET_TRIAL_REST_MAX);
}

/* What was begun before, with connections still to be made, says nothing. */
static void only_gets_of_the_trial_count(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, ROTA_GET_TRIAL_FIRST + 1, ROTA_MSEC, ROTA_MSEC);
    assert_true(world.trial.is_running);
    for (int i = 0; i < 1000; i++) {
        rota_get_trial_ended(&world.trial, world.now + ROTA_SEC, 0, false);
        rota_get_trial_ended(&world.trial, world.now, world.now + ROTA_SEC, false);
    }
    run(&world, 2000, ROTA_MSEC, ROTA_MSEC);
    assert_false(world.trial.is_worth);
}

/* Blocks are longer when much is out, so that they do not blur. */
static void blocks_are_as_long_as_the_requests_in_flight(void **state)
{
    static const size_t out[] = {0, 100, 100000};
    static const unsigned sizes[] = {ROTA_GET_TRIAL_BLOCK, 100, ROTA_GET_TRIAL_BLOCK_MAX};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct rota_get_trial trial;
        unsigned n = 0;
        rota_get_trial_init(&trial);
        while (rota_get_trial_choose(&trial, 0, out[i]))
            ;
        for (n = 1; !rota_get_trial_choose(&trial, 0, out[i]); n++)
            ;
        assert_int_equal(n, sizes[i]);
    }
}

static void a_trial_in_which_nothing_ends_is_over_some_time(void **state)
{
    struct rota_get_trial trial;
    (void)state;
    rota_get_trial_init(&trial);
    for (int i = 0; i < 2 * ROTA_GET_TRIAL_MAX; i++)
        rota_get_trial_choose(&trial, 0, 1);
    assert_false(trial.is_running);
    assert_false(trial.is_worth);
}

static void an_abandoned_trial_finds_nothing(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    run(&world, ROTA_GET_TRIAL_FIRST + 100, ROTA_MSEC, 4 * ROTA_MSEC);
    rota_get_trial_abandon(&world.trial);
    assert_false(world.trial.is_running);
    assert_true(world.trial.is_worth);
    run(&world, 1000, ROTA_MSEC, 4 * ROTA_MSEC);
    assert_false(world.trial.is_worth);
}

/* `n` Gets, half of them `low` and half `high` microseconds long. */
static struct rota_get_trial_kind kind_of(uint32_t n, double low, double high)
{
    return (struct rota_get_trial_kind){
        .sum_us = n * (low + high) / 2, .squares = n * (low * low + high * high) / 2, .n = n};
}

enum found { UNCLEAR, WORTH, WORTHLESS };

/* A broadcast has to save a fifth, by three standard errors. */
static void finding_is_clear_by_three_standard_errors(void **state)
{
    static const struct {
        uint32_t n_one, n_all;
        double low, high, all_low, all_high;
        uint32_t n_begun;
        enum found found;
    } rows[] = {
        {100, 100, 1000, 1000, 799, 799, 200, WORTH},
        {100, 100, 1000, 1000, 799.5, 799.5, 200, WORTH},
        {100, 100, 1000, 1000, 801, 801, 200, WORTHLESS},
        {64, 64, 1000, 1000, 799, 799, 200, WORTH},
        {63, 100, 1000, 1000, 799, 799, 200, UNCLEAR},
        {100, 63, 1000, 1000, 799, 799, 200, UNCLEAR},
        {100, 100, 500, 1500, 679, 679, 200, WORTH},
        {100, 100, 500, 1500, 681, 681, 200, UNCLEAR},
        {100, 100, 500, 1500, 921, 921, 200, WORTHLESS},
        {100, 100, 500, 1500, 919, 919, 200, UNCLEAR},
        {100, 100, 1000, 1000, 549, 749, 200, WORTH},
        {100, 100, 1000, 1000, 671, 871, 200, UNCLEAR},
        {511, 512, 500, 1500, 300, 1300, 200, UNCLEAR},
        {512, 511, 500, 1500, 300, 1300, 200, UNCLEAR},
        {512, 512, 500, 1500, 300, 1300, 200, WORTHLESS},
        {10, 10, 500, 1500, 300, 1300, ROTA_GET_TRIAL_MAX - 1, UNCLEAR},
        {10, 10, 500, 1500, 300, 1300, ROTA_GET_TRIAL_MAX, WORTHLESS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        init(&world);
        world.trial.is_running = true;
        world.trial.n_left = 0;
        world.trial.n_begun = rows[i].n_begun;
        world.trial.one = kind_of(rows[i].n_one, rows[i].low, rows[i].high);
        world.trial.all = kind_of(rows[i].n_all, rows[i].all_low, rows[i].all_high);
        bool is_all = rota_get_trial_choose(&world.trial, 0, 1);
        assert_int_equal(world.trial.is_running, rows[i].found == UNCLEAR);
        if (rows[i].found == UNCLEAR)
            continue;
        assert_int_equal(world.trial.is_worth, rows[i].found == WORTH);
        assert_int_equal(is_all, rows[i].found == WORTH);
        assert_int_equal(world.trial.n_left, ROTA_GET_TRIAL_REST * rows[i].n_begun - 1);
        assert_int_equal(world.trial.rest, 2 * ROTA_GET_TRIAL_REST);
    }
}

static void trial_begins_with_nothing(void **state)
{
    struct world world;
    (void)state;
    init(&world);
    world.trial.n_left = 0;
    world.trial.n_begun = 77;
    world.trial.one = world.trial.all = kind_of(9, 1, 1);
    assert_false(rota_get_trial_choose(&world.trial, 5, 1)); /* the other kind first */
    assert_true(world.trial.is_running);
    assert_int_equal(world.trial.n_begun, 1);
    assert_int_equal(world.trial.began_at, 5);
    assert_int_equal(world.trial.one.n + world.trial.all.n, 0);
    assert_int_equal(world.trial.n_left, ROTA_GET_TRIAL_BLOCK - 1);
    rota_get_trial_ended(&world.trial, 5 + 3 * ROTA_USEC, 5, true);
    rota_get_trial_ended(&world.trial, 5, 5, false);
    rota_get_trial_ended(&world.trial, 9, 4, true); /* begun before */
    rota_get_trial_ended(&world.trial, 7, 8, true); /* ended before it began */
    assert_int_equal(world.trial.all.n, 1);
    assert_int_equal(world.trial.one.n, 1);
    assert_true(world.trial.all.sum_us == 3 && world.trial.all.squares == 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_worth_it_until_it_was_tried),
        cmocka_unit_test(copies_that_save_half_the_time_are_made),
        cmocka_unit_test(copies_that_save_nothing_are_not_made),
        cmocka_unit_test(copies_that_save_a_tenth_are_not_made),
        cmocka_unit_test(copies_that_cost_time_are_not_made),
        cmocka_unit_test(the_finding_follows_the_replicas),
        cmocka_unit_test(the_same_finding_holds_longer_each_time),
        cmocka_unit_test(only_gets_of_the_trial_count),
        cmocka_unit_test(blocks_are_as_long_as_the_requests_in_flight),
        cmocka_unit_test(a_trial_in_which_nothing_ends_is_over_some_time),
        cmocka_unit_test(an_abandoned_trial_finds_nothing),
        cmocka_unit_test(finding_is_clear_by_three_standard_errors),
        cmocka_unit_test(trial_begins_with_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
