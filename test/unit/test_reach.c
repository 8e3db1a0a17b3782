#include "core/work/cluster/reach.h"
#include "vectors.h"

#define U ROTA_REACH_UNKNOWN
#define R ROTA_REACH_READY
#define F ROTA_REACH_FAILING

static void the_owner_is_asked_when_it_can_be_reached(void **state)
{
    (void)state;
    for (uint64_t chance = 0; chance < 6; chance++) {
        assert_int_equal(rota_reach_choose((enum rota_reach[]){R, R, R}, 3, 1, false, chance), 1);
        assert_int_equal(rota_reach_choose((enum rota_reach[]){U, R, U}, 3, 2, false, chance), 2);
        assert_int_equal(rota_reach_choose((enum rota_reach[]){F, F, F}, 3, 0, false, chance), 0);
    }
}

static void a_node_that_fails_is_not_asked_while_another_can_be(void **state)
{
    (void)state;
    bool is_asked[3] = {false};
    for (uint64_t chance = 0; chance < 6; chance++) {
        is_asked[rota_reach_choose((enum rota_reach[]){R, F, R}, 3, 1, false, chance)] = true;
        assert_int_equal(rota_reach_choose((enum rota_reach[]){F, U, F}, 3, 0, false, chance), 1);
        assert_int_equal(rota_reach_choose((enum rota_reach[]){F, U, R}, 3, 0, false, chance), 2);
        assert_int_equal(rota_reach_choose((enum rota_reach[]){F, F, R}, 3, 3, true, chance), 2);
    }
    assert_true(is_asked[0] && !is_asked[1] && is_asked[2]);
}

static void another_node_is_asked_when_the_owner_failed(void **state)
{
    (void)state;
    for (uint64_t chance = 0; chance < 6; chance++) {
        assert_true(rota_reach_choose((enum rota_reach[]){R, R, R}, 3, 1, true, chance) != 1);
        assert_int_equal(rota_reach_choose((enum rota_reach[]){F, R, F}, 3, 1, true, chance), 1);
        assert_int_equal(rota_reach_choose((enum rota_reach[]){R}, 1, 0, true, chance), 0);
        assert_true(rota_reach_choose((enum rota_reach[]){F, F, F}, 3, 1, true, chance) != 1);
        assert_int_equal(rota_reach_choose((enum rota_reach[]){F}, 1, 0, true, chance), 0);
    }
}

static void a_failed_node_is_back_once_it_answers(void **state)
{
    (void)state;
    assert_int_equal(rota_reach_of(false, false, false), U);
    assert_int_equal(rota_reach_of(false, false, true), F);
    assert_int_equal(rota_reach_of(true, false, false), R); /* the first call need not wait */
    assert_int_equal(rota_reach_of(true, false, true), F);
    assert_int_equal(rota_reach_of(true, true, true), R);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_is_asked_when_it_can_be_reached),
        cmocka_unit_test(a_node_that_fails_is_not_asked_while_another_can_be),
        cmocka_unit_test(another_node_is_asked_when_the_owner_failed),
        cmocka_unit_test(a_failed_node_is_back_once_it_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
