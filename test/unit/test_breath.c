#include "core/work/cluster/breath.h"
#include "vectors.h"

static void who_was_busy_for_long_draws_breath_and_goes_on(void **state)
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

static void who_is_idle_now_and_then_need_not(void **state)
{
    (void)state;
    struct rota_breath breath = {0};
    rota_time now = 1000 * ROTA_SEC;
    for (int i = 0; i < 100; i++, now += ROTA_BREATH_EVERY)
        assert_false(rota_breath_holds(&breath, now, now - 1));
}

static void a_breath_ends_with_its_slot(void **state)
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
        cmocka_unit_test(who_was_busy_for_long_draws_breath_and_goes_on),
        cmocka_unit_test(who_is_idle_now_and_then_need_not),
        cmocka_unit_test(a_breath_ends_with_its_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
