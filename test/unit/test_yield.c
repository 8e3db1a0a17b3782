#include "core/work/cluster/yield.h"
#include "vectors.h"

static void a_class_busy_for_long_yields_and_continues(void **state)
{
    (void)state;
    struct rota_yield yield = {0};
    rota_time now = 1000 * ROTA_SEC, end = now + ROTA_YIELD_EVERY;
    for (; now < end; now += ROTA_YIELD_EVERY / 8)
        assert_false(rota_yield_holds(&yield, now, now));
    assert_true(rota_yield_holds(&yield, now, now));
    assert_int_equal(yield.until, now + ROTA_YIELD_FOR);
    assert_true(rota_yield_holds(&yield, now + ROTA_YIELD_FOR - 1, now));
    assert_false(rota_yield_holds(&yield, now + ROTA_YIELD_FOR, now));
    assert_int_equal(yield.until, 0);
    now += ROTA_YIELD_FOR;
    assert_false(rota_yield_holds(&yield, now + ROTA_YIELD_EVERY - 1, now + ROTA_YIELD_EVERY));
    assert_true(rota_yield_holds(&yield, now + ROTA_YIELD_EVERY, now + ROTA_YIELD_EVERY));
}

static void a_class_that_is_sometimes_idle_need_not_yield(void **state)
{
    (void)state;
    struct rota_yield yield = {0};
    rota_time now = 1000 * ROTA_SEC;
    for (int i = 0; i < 100; i++, now += ROTA_YIELD_EVERY)
        assert_false(rota_yield_holds(&yield, now, now - 1));
}

static void a_yield_ends_with_its_slot(void **state)
{
    (void)state;
    struct rota_yield yield = {.since = 1};
    rota_time now = 1000 * ROTA_SEC;
    assert_true(rota_yield_holds(&yield, now, now));
    rota_yield_end(&yield, now + 1);
    assert_false(rota_yield_holds(&yield, now + 2, now + 2));
    assert_false(rota_yield_holds(&yield, now + ROTA_YIELD_EVERY, now + ROTA_YIELD_EVERY));
    assert_true(rota_yield_holds(&yield, now + 1 + ROTA_YIELD_EVERY, now + 1 + ROTA_YIELD_EVERY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_busy_for_long_yields_and_continues),
        cmocka_unit_test(a_class_that_is_sometimes_idle_need_not_yield),
        cmocka_unit_test(a_yield_ends_with_its_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
