#include "core/call/hedge.h"
#include "vectors.h"

static struct rota_hedge hedge; /* large */

static void init(void)
{
    rota_hedge_init(&hedge, 0, &(struct rota_hedge_options){0});
}

/* Tries of 1 .. 100 ms. */
static void record_hundred(rota_time now, rota_time unit)
{
    for (int i = 1; i <= 100; i++)
        rota_hedge_record(&hedge, now, i * unit);
}

static void nothing_is_hedged_before_the_usual_latency_is_known(void **state)
{
    (void)state;
    init();
    for (int i = 1; i < ROTA_HEDGE_SAMPLES_MIN; i++)
        rota_hedge_record(&hedge, 0, ROTA_MSEC);
    assert_int_equal(rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER), ROTA_TIME_NEVER);
    rota_hedge_record(&hedge, 0, ROTA_MSEC);
    assert_true(rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER) < 2 * ROTA_MSEC);
}

static void the_delay_is_the_95th_percentile(void **state)
{
    (void)state;
    init();
    for (int i = 0; i < 10; i++)
        record_hundred(0, ROTA_MSEC);
    rota_time at = rota_hedge_begin(&hedge, 7 * ROTA_SEC, ROTA_TIME_NEVER) - 7 * ROTA_SEC;
    assert_in_range(at, 93 * ROTA_MSEC, 97 * ROTA_MSEC);
}

static void the_delay_follows_changes(void **state)
{
    (void)state;
    init();
    for (int i = 0; i < 10; i++)
        record_hundred(0, ROTA_MSEC);
    for (int second = 5; second <= 12; second++)
        record_hundred(second * ROTA_SEC, 3 * ROTA_MSEC);
    rota_time at = rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER);
    assert_in_range(at, 279 * ROTA_MSEC, 291 * ROTA_MSEC);
}

static void nothing_is_hedged_beyond_its_deadline(void **state)
{
    (void)state;
    init();
    for (int i = 0; i < 10; i++)
        record_hundred(0, ROTA_MSEC);
    assert_int_equal(rota_hedge_begin(&hedge, 0, 90 * ROTA_MSEC), ROTA_TIME_NEVER);
    assert_true(rota_hedge_begin(&hedge, 0, 110 * ROTA_MSEC) < 110 * ROTA_MSEC);
}

static void a_tiny_delay_is_raised(void **state)
{
    (void)state;
    init();
    record_hundred(0, ROTA_USEC);
    assert_int_equal(rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER), ROTA_HEDGE_DELAY_MIN);
}

static void one_call_in_20_may_be_hedged(void **state)
{
    int n = 0;
    (void)state;
    init();
    for (int i = 0; i < 1000; i++) {
        rota_hedge_begin(&hedge, i * ROTA_MSEC, ROTA_TIME_NEVER);
        n += rota_hedge_spend(&hedge, i * ROTA_MSEC);
    }
    assert_int_equal(n, 50);
}

static void absurd_latencies_do_no_harm(void **state)
{
    (void)state;
    init();
    for (int i = 0; i < 200; i++)
        rota_hedge_record(&hedge, ROTA_TIME_NEVER, i % 2 ? INT64_MAX : INT64_MIN);
    assert_int_equal(rota_hedge_begin(&hedge, ROTA_TIME_NEVER, ROTA_TIME_NEVER), ROTA_TIME_NEVER);
    assert_true(rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER) <= ROTA_DAY);
}

static void options_replace_the_defaults(void **state)
{
    (void)state;
    rota_hedge_init(&hedge, 0,
                    &(struct rota_hedge_options){.quantile_ppm = 500000, .delay_min = 1});
    assert_int_equal(hedge.budget.options.ppm, ROTA_BUDGET_HEDGES.ppm);
    for (int i = 0; i < 10; i++)
        record_hundred(0, ROTA_MSEC);
    assert_in_range(rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER), 46 * ROTA_MSEC, 52 * ROTA_MSEC);
    const struct rota_budget_options budgets[] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (int i = 0; i < 3; i++) {
        rota_hedge_init(&hedge, 0, &(struct rota_hedge_options){.budget = budgets[i]});
        assert_int_equal(hedge.budget.options.ppm, budgets[i].ppm);
        assert_int_equal(hedge.budget.options.per_second, budgets[i].per_second);
    }
    rota_hedge_init(&hedge, 0, &(struct rota_hedge_options){.delay_min = ROTA_SEC});
    record_hundred(0, ROTA_MSEC);
    assert_int_equal(rota_hedge_begin(&hedge, 0, ROTA_SEC + 1), ROTA_SEC);
    assert_int_equal(rota_hedge_begin(&hedge, 0, ROTA_SEC), ROTA_TIME_NEVER);
}

static void a_window_ends_with_enough_time_and_samples(void **state)
{
    const struct {
        rota_time at;
        int n;
        uint64_t previous, latest;
    } rows[] = {
        {0, 49, 0, 49},
        {10 * ROTA_SEC, 1, 0, 50},
        {10 * ROTA_SEC, 1, 50, 1},
        {15 * ROTA_SEC - 1, 50, 50, 51},
        {15 * ROTA_SEC, 1, 51, 1},
    };
    (void)state;
    init();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < rows[i].n; k++)
            rota_hedge_record(&hedge, rows[i].at, ROTA_MSEC);
        assert_int_equal(hedge.previous.count, rows[i].previous);
        assert_int_equal(hedge.latest.count, rows[i].latest);
    }
}

static void the_delay_is_found_again_after_64_samples(void **state)
{
    (void)state;
    init();
    for (int i = 0; i < ROTA_HEDGE_SAMPLES_MIN; i++)
        rota_hedge_record(&hedge, 0, 2 * ROTA_MSEC);
    rota_time before = hedge.delay;
    for (int i = 0; i < 63; i++)
        rota_hedge_record(&hedge, 0, 100 * ROTA_MSEC);
    assert_int_equal(hedge.delay, before);
    rota_hedge_record(&hedge, 0, 100 * ROTA_MSEC);
    assert_in_range(hedge.delay, 98 * ROTA_MSEC, 102 * ROTA_MSEC);
}

static void a_delay_is_at_most_a_day(void **state)
{
    (void)state;
    init();
    for (int i = 0; i < ROTA_HEDGE_SAMPLES_MIN; i++)
        rota_hedge_record(&hedge, 0, 3 * ROTA_DAY);
    assert_int_equal(hedge.delay, ROTA_DAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_hedged_before_the_usual_latency_is_known),
        cmocka_unit_test(the_delay_is_the_95th_percentile),
        cmocka_unit_test(the_delay_follows_changes),
        cmocka_unit_test(nothing_is_hedged_beyond_its_deadline),
        cmocka_unit_test(a_tiny_delay_is_raised),
        cmocka_unit_test(one_call_in_20_may_be_hedged),
        cmocka_unit_test(absurd_latencies_do_no_harm),
        cmocka_unit_test(options_replace_the_defaults),
        cmocka_unit_test(a_window_ends_with_enough_time_and_samples),
        cmocka_unit_test(the_delay_is_found_again_after_64_samples),
        cmocka_unit_test(a_delay_is_at_most_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
