#include "core/work/cluster/refresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NOW (100 * ROTA_SEC)

static const struct rota_refresh_refusal by_later = {
    .is_stale = true, .is_undone = true, .number = 9, .has_owner = true};

static void later_view_of_another_node_is_read_at_once(void **state)
{
    (void)state;
    struct rota_refresh refresh = {.number = 5};
    assert_false(rota_refresh_hear(&refresh, NOW, 4));
    assert_false(rota_refresh_hear(&refresh, NOW, 5));
    assert_true(rota_refresh_hear(&refresh, NOW, 6));
    assert_false(rota_refresh_hear(&refresh, NOW + 1, 6));
    assert_true(rota_refresh_hear(&refresh, NOW + 2, 7));
    assert_false(rota_refresh_hear(&refresh, NOW + 3, 6));
    assert_true(rota_refresh_hear(&refresh, NOW + 2 + ROTA_REFRESH_LOOK_EVERY, 7));
    refresh.number = 7;
    assert_false(rota_refresh_hear(&refresh, NOW + ROTA_SEC, 7));
}

static void call_waits_for_its_view_but_not_for_long(void **state)
{
    (void)state;
    struct rota_refresh refresh = {.number = 5};
    struct rota_refresh_call call = {.wanted = 9};
    assert_true(rota_refresh_must_wait(&refresh, NOW, &call));
    assert_true(rota_refresh_must_wait(&refresh, NOW + ROTA_REFRESH_WAIT_MAX - 1, &call));
    assert_false(rota_refresh_must_wait(&refresh, NOW + ROTA_REFRESH_WAIT_MAX, &call));
    refresh.number = 9;
    assert_false(rota_refresh_must_wait(&refresh, NOW, &call));
    call.wanted = 8; /* the sender's view is earlier than ours */
    assert_false(rota_refresh_must_wait(&refresh, NOW, &call));
}

static void refusal_by_no_later_view_is_passed_on(void **state)
{
    (void)state;
    const struct rota_refresh refresh = {.number = 9};
    struct rota_refresh_call call = {.route = 9};
    struct rota_refresh_refusal refusal = by_later;
    assert_int_equal(rota_refresh_refused(&refresh, NOW, &call, &by_later), ROTA_REFRESH_PASS);
    call.route = 5;
    refusal.is_stale = false;
    assert_int_equal(rota_refresh_refused(&refresh, NOW, &call, &refusal), ROTA_REFRESH_PASS);
    refusal = by_later;
    refusal.is_undone = false; /* a second one could be made */
    assert_int_equal(rota_refresh_refused(&refresh, NOW, &call, &refusal), ROTA_REFRESH_PASS);
}

static void call_is_routed_again_once_its_view_is_known(void **state)
{
    (void)state;
    struct rota_refresh refresh = {.number = 9};
    struct rota_refresh_call call = {.route = 5};
    assert_int_equal(rota_refresh_refused(&refresh, NOW, &call, &by_later), ROTA_REFRESH_AGAIN);
    assert_false(rota_refresh_must_wait(&refresh, NOW, &call));
    struct rota_refresh_refusal refusal = by_later;
    refusal.has_owner = false;
    refusal.number = 10;
    assert_int_equal(rota_refresh_refused(&refresh, NOW, &call, &refusal), ROTA_REFRESH_AGAIN);
    assert_true(rota_refresh_must_wait(&refresh, NOW, &call));
    refresh.number = 10;
    assert_false(rota_refresh_must_wait(&refresh, NOW, &call));
}

static void named_owner_is_asked_three_times_in_a_row(void **state)
{
    (void)state;
    const struct rota_refresh refresh = {.number = 5};
    struct rota_refresh_call call = {.route = 5};
    struct rota_refresh_refusal refusal = by_later;
    for (int i = 0; i < ROTA_REFRESH_HOPS_MAX; i++, refusal.number++)
        assert_int_equal(rota_refresh_refused(&refresh, NOW, &call, &refusal), ROTA_REFRESH_ASK);
    assert_int_equal(rota_refresh_refused(&refresh, NOW, &call, &refusal), ROTA_REFRESH_AGAIN);
    assert_true(rota_refresh_must_wait(&refresh, NOW, &call));
    assert_false(rota_refresh_must_wait(&refresh, NOW + ROTA_REFRESH_WAIT_MAX, &call));
    refusal.number++;
    assert_int_equal(rota_refresh_refused(&refresh, NOW + ROTA_REFRESH_WAIT_MAX, &call, &refusal),
                     ROTA_REFRESH_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_view_of_another_node_is_read_at_once),
        cmocka_unit_test(call_waits_for_its_view_but_not_for_long),
        cmocka_unit_test(refusal_by_no_later_view_is_passed_on),
        cmocka_unit_test(call_is_routed_again_once_its_view_is_known),
        cmocka_unit_test(named_owner_is_asked_three_times_in_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
