#include "core/own/migrate_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct rota_migrate stable(enum rota_view_engine engine)
{
    return (struct rota_migrate){.engine = engine, .to = engine, .phase = ROTA_VIEW_STABLE};
}

#define WISH(migrate, wish, to) rota_migrate_fsm_wish((migrate), (wish), (to), NULL)

static void ring_becomes_lease_by_stopping_and_starting(void **state)
{
    (void)state;
    struct rota_migrate m = stable(ROTA_VIEW_RING);
    assert_int_equal(WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_LEASE), ROTA_OK);
    assert_int_equal(m.phase, ROTA_VIEW_SHADOW);
    assert_true(rota_migrate_fsm_owns(&m, ROTA_VIEW_RING));
    assert_false(rota_migrate_fsm_owns(&m, ROTA_VIEW_LEASE));

    assert_int_equal(WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_LEASE), ROTA_OK);
    assert_int_equal(m.phase, ROTA_VIEW_STOPPING);
    assert_false(rota_migrate_fsm_owns(&m, ROTA_VIEW_RING));
    assert_false(rota_migrate_fsm_owns(&m, ROTA_VIEW_LEASE));

    rota_migrate_fsm_acked(&m);
    assert_int_equal(m.phase, ROTA_VIEW_STARTING);
    assert_true(rota_migrate_fsm_owns(&m, ROTA_VIEW_LEASE));
    rota_migrate_fsm_acked(&m);
    assert_int_equal(m.phase, ROTA_VIEW_STABLE);
    assert_int_equal(m.engine, ROTA_VIEW_LEASE);
    assert_int_equal(m.to, ROTA_VIEW_LEASE);
}

static void only_a_commit_ends_a_shadow(void **state)
{
    (void)state;
    struct rota_migrate m = stable(ROTA_VIEW_LEASE);
    WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_RING);
    rota_migrate_fsm_acked(&m);
    assert_int_equal(m.phase, ROTA_VIEW_SHADOW);
    assert_true(rota_migrate_fsm_owns(&m, ROTA_VIEW_LEASE));
}

static void ring_becomes_static_in_one_view(void **state)
{
    (void)state;
    struct rota_migrate m = stable(ROTA_VIEW_RING), before;
    WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_STATIC);
    before = m;
    assert_int_equal(WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_STATIC), ROTA_OK);
    assert_int_equal(m.phase, ROTA_VIEW_STABLE);
    assert_int_equal(m.engine, ROTA_VIEW_STATIC);
    assert_true(rota_migrate_fsm_is_break(&before, &m));
}

static void shadow_can_be_cancelled_and_later_phases_cannot(void **state)
{
    (void)state;
    struct rota_error error;
    struct rota_migrate m = stable(ROTA_VIEW_RING), before;
    WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_GROUP);
    before = m;
    assert_int_equal(WISH(&m, ROTA_MIGRATE_CANCEL, ROTA_VIEW_RING), ROTA_OK);
    assert_int_equal(m.phase, ROTA_VIEW_STABLE);
    assert_int_equal(m.to, ROTA_VIEW_RING);
    assert_false(rota_migrate_fsm_is_break(&before, &m));

    WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_GROUP);
    WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_GROUP);
    assert_int_equal(rota_migrate_fsm_wish(&m, ROTA_MIGRATE_CANCEL, ROTA_VIEW_RING, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "stopping"));
    assert_int_equal(m.phase, ROTA_VIEW_STOPPING);
    rota_migrate_fsm_acked(&m);
    assert_int_equal(WISH(&m, ROTA_MIGRATE_CANCEL, ROTA_VIEW_RING), ROTA_ERR_INVALID);
}

static void fulfilled_request_changes_nothing(void **state)
{
    (void)state;
    struct rota_migrate m = stable(ROTA_VIEW_RING);
    assert_int_equal(WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_RING), ROTA_OK);
    assert_int_equal(WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_RING), ROTA_OK);
    assert_int_equal(WISH(&m, ROTA_MIGRATE_CANCEL, ROTA_VIEW_RING), ROTA_OK);
    assert_int_equal(m.phase, ROTA_VIEW_STABLE);

    WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_LEASE);
    WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_LEASE);
    assert_int_equal(WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_LEASE), ROTA_OK);
    assert_int_equal(m.phase, ROTA_VIEW_STOPPING);
}

static void second_move_waits_for_the_end_of_the_first(void **state)
{
    (void)state;
    struct rota_error error;
    struct rota_migrate m = stable(ROTA_VIEW_RING);
    assert_int_equal(WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_LEASE), ROTA_ERR_INVALID);
    WISH(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_LEASE);
    assert_int_equal(rota_migrate_fsm_wish(&m, ROTA_MIGRATE_BEGIN, ROTA_VIEW_STATIC, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "from ring to lease"));
    assert_int_equal(WISH(&m, ROTA_MIGRATE_COMMIT, ROTA_VIEW_STATIC), ROTA_ERR_INVALID);
    assert_int_equal(m.phase, ROTA_VIEW_SHADOW);
}

static void all_shards_get_a_new_epoch_when_owners_change(void **state)
{
    (void)state;
    struct rota_migrate ring = stable(ROTA_VIEW_RING), shadow = ring, stopping, starting, end;
    WISH(&shadow, ROTA_MIGRATE_BEGIN, ROTA_VIEW_LEASE);
    stopping = shadow;
    WISH(&stopping, ROTA_MIGRATE_COMMIT, ROTA_VIEW_LEASE);
    starting = stopping;
    rota_migrate_fsm_acked(&starting);
    end = starting;
    rota_migrate_fsm_acked(&end);
    assert_false(rota_migrate_fsm_is_break(&ring, &shadow));
    assert_true(rota_migrate_fsm_is_break(&shadow, &stopping));
    assert_true(rota_migrate_fsm_is_break(&stopping, &starting));
    assert_false(rota_migrate_fsm_is_break(&starting, &end));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_becomes_lease_by_stopping_and_starting),
        cmocka_unit_test(only_a_commit_ends_a_shadow),
        cmocka_unit_test(ring_becomes_static_in_one_view),
        cmocka_unit_test(shadow_can_be_cancelled_and_later_phases_cannot),
        cmocka_unit_test(fulfilled_request_changes_nothing),
        cmocka_unit_test(second_move_waits_for_the_end_of_the_first),
        cmocka_unit_test(all_shards_get_a_new_epoch_when_owners_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
