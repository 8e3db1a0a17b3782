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

static void nothing_is_hedged_before_it_is_known_what_is_usual(void **state)
{
    (void)state;
    init();
    for (int i = 1; i < ROTA_HEDGE_SAMPLES_MIN; i++)
        rota_hedge_record(&hedge, 0, ROTA_MSEC);
    assert_int_equal(rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER), ROTA_TIME_NEVER);
    rota_hedge_record(&hedge, 0, ROTA_MSEC);
    assert_true(rota_hedge_begin(&hedge, 0, ROTA_TIME_NEVER) < 2 * ROTA_MSEC);
}

static void the_delay_is_what_95_of_100_stay_below(void **state)
{
    (void)state;
    init();
    for (int i = 0; i < 10; i++)
        record_hundred(0, ROTA_MSEC);
    rota_time at = rota_hedge_begin(&hedge, 7 * ROTA_SEC, ROTA_TIME_NEVER) - 7 * ROTA_SEC;
    assert_in_range(at, 93 * ROTA_MSEC, 97 * ROTA_MSEC);
}

static void the_delay_follows_what_changes(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_hedged_before_it_is_known_what_is_usual),
        cmocka_unit_test(the_delay_is_what_95_of_100_stay_below),
        cmocka_unit_test(the_delay_follows_what_changes),
        cmocka_unit_test(nothing_is_hedged_beyond_its_deadline),
        cmocka_unit_test(a_tiny_delay_is_raised),
        cmocka_unit_test(one_call_in_20_may_be_hedged),
        cmocka_unit_test(absurd_latencies_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
