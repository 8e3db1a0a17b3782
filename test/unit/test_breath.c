#include "core/work/cluster/breath.h"
#include "vectors.h"

static void a_class_busy_for_long_yields_and_continues(void **state)
{
    (void)state;
    struct rota_breath breath = {0};
    rota_time now = 1000 * ROTA_SEC, end = now + ROTA_BREATH_EVERY;
    for (; now < end; now += ROTA_BREATH_EVERY / 8)
        assert_false(rota_breath_holds(&breath, now, now));
    assert_true(rota_breath_holds(&breath, now, now));
    assert_int_equal(breath.until, now + ROTA_BREATH_FOR);
    assert_true(rota_breath_holds(&breath, now + ROTA_BREATH_FOR - 1, now));
    assert_false(rota_breath_holds(&breath, now + ROTA_BREATH_FOR, now));
    assert_int_equal(breath.until, 0);
    now += ROTA_BREATH_FOR;
    assert_false(rota_breath_holds(&breath, now + ROTA_BREATH_EVERY - 1, now + ROTA_BREATH_EVERY));
    assert_true(rota_breath_holds(&breath, now + ROTA_BREATH_EVERY, now + ROTA_BREATH_EVERY));
}

static void a_class_that_is_sometimes_idle_need_not_yield(void **state)
{
    (void)state;
    struct rota_breath breath = {0};
    rota_time now = 1000 * ROTA_SEC;
    for (int i = 0; i < 100; i++, now += ROTA_BREATH_EVERY)
        assert_false(rota_breath_holds(&breath, now, now - 1));
}

static void a_yield_ends_with_its_slot(void **state)
{
    (void)state;
    struct rota_breath breath = {.since = 1};
    rota_time now = 1000 * ROTA_SEC;
    assert_true(rota_breath_holds(&breath, now, now));
    rota_breath_end(&breath, now + 1);
    assert_false(rota_breath_holds(&breath, now + 2, now + 2));
    assert_false(rota_breath_holds(&breath, now + ROTA_BREATH_EVERY, now + ROTA_BREATH_EVERY));
    assert_true(
        rota_breath_holds(&breath, now + 1 + ROTA_BREATH_EVERY, now + 1 + ROTA_BREATH_EVERY));
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
