#include "core/work/worker/try_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_successful_call_is_done(void **state)
{
    struct rota_try_fsm fsm;
    (void)state;
    rota_try_fsm_init(&fsm, 0, ROTA_SEC, true);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_OK, false), ROTA_TRY_DONE);
}

static void an_invalid_call_fails_at_once(void **state)
{
    struct rota_try_fsm fsm;
    (void)state;
    rota_try_fsm_init(&fsm, 0, ROTA_SEC, true);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_INVALID_ARGUMENT, false),
                     ROTA_TRY_REFUSED);
    rota_try_fsm_init(&fsm, 0, ROTA_SEC, false);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_RESOURCE_EXHAUSTED, true),
                     ROTA_TRY_REFUSED);
}

static void an_add_moves_only_while_it_is_certainly_nowhere(void **state)
{
    struct rota_try_fsm fsm;
    (void)state;
    rota_try_fsm_init(&fsm, 0, ROTA_MIN, true);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_MOVE);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_RESOURCE_EXHAUSTED, true),
                     ROTA_TRY_MOVE);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_DEADLINE_EXCEEDED, false),
                     ROTA_TRY_AGAIN);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_AGAIN);
}

static void an_add_to_one_full_node_is_refused(void **state)
{
    struct rota_try_fsm fsm;
    (void)state;
    rota_try_fsm_init(&fsm, 0, ROTA_MIN, true);
    fsm.is_alone = true;
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_MOVE);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_RESOURCE_EXHAUSTED, true),
                     ROTA_TRY_REFUSED);
}

static void every_node_is_tried_at_once_before_patience_counts(void **state)
{
    struct rota_try_fsm fsm;
    (void)state;
    rota_try_fsm_init(&fsm, 7, 1, false);
    fsm.n_nodes = 3;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rota_try_fsm_step(&fsm, 7, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_AGAIN);
        assert_int_equal(fsm.again_at, 7);
    }
    assert_int_equal(rota_try_fsm_step(&fsm, 7, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_FAILED);
    rota_try_fsm_init(&fsm, 7, 1, false); /* a node has seen this one */
    fsm.n_nodes = 3;
    assert_int_equal(rota_try_fsm_step(&fsm, 7, ROTA_STATUS_UNAVAILABLE, false), ROTA_TRY_UNKNOWN);
}

static void an_eager_call_fails_when_every_node_has(void **state)
{
    struct rota_try_fsm fsm;
    (void)state;
    rota_try_fsm_init(&fsm, 0, ROTA_HOUR, false);
    fsm.n_nodes = 2;
    fsm.is_eager = true;
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_AGAIN);
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_FAILED);
    rota_try_fsm_init(&fsm, 0, ROTA_HOUR, false);
    fsm.is_eager = true;
    assert_int_equal(rota_try_fsm_step(&fsm, 0, ROTA_STATUS_DEADLINE_EXCEEDED, false),
                     ROTA_TRY_UNKNOWN);
}

static void pauses_grow_until_patience_is_over(void **state)
{
    struct rota_try_fsm fsm;
    rota_time now = 0, last = 0;
    (void)state;
    rota_try_fsm_init(&fsm, now, 5 * ROTA_SEC, false);
    for (;;) {
        enum rota_try_action action =
            rota_try_fsm_step(&fsm, now, ROTA_STATUS_UNAVAILABLE, fsm.n_tries != 2);
        if (action != ROTA_TRY_AGAIN) {
            assert_int_equal(action,
                             ROTA_TRY_UNKNOWN); /* for the third may have been carried out */
            break;
        }
        assert_true(fsm.again_at - now >= last && fsm.again_at - now <= 2 * ROTA_SEC);
        last = fsm.again_at - now;
        now = fsm.again_at;
    }
    assert_true(now <= 5 * ROTA_SEC && fsm.n_tries > 5);
    rota_try_fsm_init(&fsm, now, 0, true);
    assert_int_equal(rota_try_fsm_step(&fsm, now, ROTA_STATUS_UNAVAILABLE, true), ROTA_TRY_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_successful_call_is_done),
        cmocka_unit_test(an_invalid_call_fails_at_once),
        cmocka_unit_test(an_add_moves_only_while_it_is_certainly_nowhere),
        cmocka_unit_test(an_add_to_one_full_node_is_refused),
        cmocka_unit_test(every_node_is_tried_at_once_before_patience_counts),
        cmocka_unit_test(an_eager_call_fails_when_every_node_has),
        cmocka_unit_test(pauses_grow_until_patience_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
