#include "core/own/lease_share.h"
#include "vectors.h"

enum { SHARDS = 100 };

static struct rota_view view;

static int tear_down(void **state)
{
    (void)state;
    rota_view_deinit(&view);
    return 0;
}

static void add_member(const char *name, uint32_t weight, uint64_t to)
{
    struct rota_view_member member = {
        .span = {1, to}, .name = rota_str(name), .instance = 1, .weight = weight};
    assert_true(rota_vector_push(&view.members, member));
}

static uint32_t share_of(const char *name, uint32_t wanted)
{
    struct rota_str self = name ? rota_str(name) : (struct rota_str){0};
    return rota_lease_share_of_member(&view, self, SHARDS, wanted);
}

static void shares_follow_weights_and_are_enough_for_all_shards(void **state)
{
    (void)state;
    add_member("a", 1000, 0);
    add_member("b", 2000, 0);
    add_member("c", 4000, 0);
    assert_int_equal(share_of("a", 0), 15);
    assert_int_equal(share_of("b", 0), 29);
    assert_int_equal(share_of("c", 0), 58);
}

static void former_members_have_no_share(void **state)
{
    (void)state;
    add_member("a", 1000, 0);
    add_member("b", 1000, 2);
    add_member("c", 1000, 0);
    assert_int_equal(share_of("a", 0), 50);
}

static void first_member_may_hold_all_shards(void **state)
{
    (void)state;
    assert_int_equal(share_of("a", 0), SHARDS);
    add_member("a", 1, 0);
    assert_int_equal(share_of("a", 0), SHARDS);
}

/* Until the others know of a process, it may not leave shards without an owner. */
static void process_that_is_not_a_member_yet_may_hold_all_shards(void **state)
{
    (void)state;
    add_member("a", 1000, 0);
    assert_int_equal(share_of("b", 0), SHARDS);
}

static void observer_gets_the_largest_share(void **state)
{
    (void)state;
    add_member("a", 1000, 0);
    add_member("b", 3000, 0);
    add_member("c", 9000, 2);
    assert_int_equal(share_of(NULL, 0), 75);
}

static void user_can_lower_a_share(void **state)
{
    (void)state;
    add_member("a", 1000, 0);
    add_member("b", 1000, 0);
    assert_int_equal(share_of("a", 7), 7);
    assert_int_equal(share_of("a", 50), 50);
    assert_int_equal(share_of("a", 51), 50);
}

static void largest_weights_do_not_overflow(void **state)
{
    (void)state;
    uint64_t all = (uint64_t)ROTA_VIEW_WEIGHT_MAX * ROTA_VIEW_NODES_MAX;
    assert_int_equal(rota_lease_share_of_weight(ROTA_VIEW_SHARDS_MAX, ROTA_VIEW_WEIGHT_MAX, all),
                     ROTA_VIEW_SHARDS_MAX / ROTA_VIEW_NODES_MAX);
    assert_int_equal(rota_lease_share_of_weight(ROTA_VIEW_SHARDS_MAX, all, all),
                     ROTA_VIEW_SHARDS_MAX);
}

static void large_tables_are_read_less_often(void **state)
{
    (void)state;
    assert_int_equal(rota_lease_share_read_interval(8 * ROTA_SEC, 0), 2 * ROTA_SEC);
    assert_int_equal(rota_lease_share_read_interval(8 * ROTA_SEC, 16000), 3 * ROTA_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shares_follow_weights_and_are_enough_for_all_shards, tear_down),
        cmocka_unit_test_teardown(former_members_have_no_share, tear_down),
        cmocka_unit_test_teardown(first_member_may_hold_all_shards, tear_down),
        cmocka_unit_test_teardown(process_that_is_not_a_member_yet_may_hold_all_shards, tear_down),
        cmocka_unit_test_teardown(observer_gets_the_largest_share, tear_down),
        cmocka_unit_test_teardown(user_can_lower_a_share, tear_down),
        cmocka_unit_test(largest_weights_do_not_overflow),
        cmocka_unit_test(large_tables_are_read_less_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
