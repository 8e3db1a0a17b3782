/* What becomes of a call when memory runs out: it finishes once, reports each try once, leaks
 * nothing, and the next call on the same balancer and blacklist goes well. */
#include "no_memory.h"

#include "core/call/call_fsm.h"

#define rota_call_fsm_step(...) NO_MEMORY_IN(rota_call_fsm_step(__VA_ARGS__))
#include "call_world.h"

static void call_with(enum rota_balancer_policy policy)
{
    struct world world;
    setup_with(&world, MAP(1, 2, 3), policy);
    SCRIPT(&world, ROTA_FAILURE_BROKEN, ROTA_FAILURE_NONE);
    if (run(&world, IDEMPOTENT)) {
        assert_true(no_memory_has_failed());
        assert_true(world.n_tried <= 3);
    } else {
        assert_true(world.n_tried >= 2);
    }
    rota_call_fsm_deinit(&world.fsm, world.now);
    assert_int_equal(rota_balancer_n_tries(world.balancer), 0);

    no_memory_end();
    world.n_finished = 0;
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    teardown(&world);
}

static void call_by_round_robin(void)
{
    call_with(ROTA_BALANCER_ROUND_ROBIN);
}

static void call_by_rota(void)
{
    call_with(ROTA_BALANCER_ROTA);
}

static void call_by_look_aside(void)
{
    call_with(ROTA_BALANCER_LOOK_ASIDE);
}

static void a_call_finishes_and_the_next_goes_well(void **state)
{
    (void)state;
    no_memory_everywhere(call_by_round_robin);
    no_memory_everywhere(call_by_rota);
    no_memory_everywhere(call_by_look_aside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_finishes_and_the_next_goes_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
