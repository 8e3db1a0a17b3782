#include "core/own/view_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { KEYS = 200 };

static struct rota_view view;
static struct rota_view_keys keys;
static char texts[KEYS][16];

static int set_up(void **state)
{
    (void)state;
    view = (struct rota_view){.number = 10, .base = 1};
    for (int i = 0; i < KEYS; i++)
        snprintf(texts[i], sizeof texts[i], "key %d", i);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_view_keys_deinit(&keys);
    rota_view_deinit(&view);
    return 0;
}

/* In the order of names. */
static void add_member(const char *name, uint64_t instance, uint64_t from, uint64_t to)
{
    struct rota_view_member member = {.span = {from, to},
                                      .name = rota_str(name),
                                      .instance = instance,
                                      .weight = ROTA_WEIGHT_ONE};
    assert_true(rota_vector_push(&view.members, member));
}

static void begin(void)
{
    assert_int_equal(rota_view_check(&view, NULL), ROTA_OK);
    assert_int_equal(rota_view_keys_init(&keys, &view, NULL), ROTA_OK);
}

static struct rota_view_key find(int i)
{
    struct rota_view_key found;
    struct rota_str key = rota_str(texts[i]);
    assert_int_equal(rota_view_keys_find(&keys, rota_view_keys_lookup, &key, &found, NULL),
                     ROTA_OK);
    return found;
}

static bool is(struct rota_str name, const char *expected)
{
    return rota_str_is_equal(name, rota_str(expected));
}

static void owner_is_the_lookup_on_the_ring_of_the_members(void **state)
{
    (void)state;
    const struct rota_ring_host hosts[] = {{.address = rota_str("a"), .weight = 3000},
                                           {.address = rota_str("b"), .zone = rota_str("east")}};
    struct rota_ring *ring;
    add_member("a", 7, 1, 0);
    add_member("b", 8, 1, 0);
    view.members.items[0].weight = 3000;
    view.members.items[1].zone = rota_str("east");
    begin();
    assert_int_equal(rota_ring_new(hosts, 2, 0, &ring, NULL), ROTA_OK);
    assert_int_equal(rota_ring_points_checksum(ring),
                     rota_ring_points_checksum(rota_view_keys_ring(&keys)));
    assert_int_equal(rota_ring_n_zones(rota_view_keys_ring(&keys)), 2);
    for (int i = 0; i < KEYS; i++) {
        struct rota_view_key found = find(i);
        uint32_t host = rota_ring_lookup(ring, rota_str(texts[i]));
        assert_true(is(found.owner, host == 0 ? "a" : "b"));
        assert_int_equal(found.instance, host == 0 ? 7 : 8);
        assert_int_equal(found.epoch, 1);
        assert_int_equal(found.former.size, 0);
    }
    rota_ring_unref(ring);
}

static void epoch_is_when_the_owner_changed(void **state)
{
    (void)state;
    int n_moved = 0;
    add_member("a", 7, 1, 0);
    add_member("b", 8, 4, 0);
    begin();
    for (int i = 0; i < KEYS; i++) {
        struct rota_view_key found = find(i);
        bool has_moved = is(found.owner, "b");
        n_moved += has_moved;
        assert_int_equal(found.epoch, has_moved ? 4 : 1);
        assert_true(is(found.former, has_moved ? "a" : ""));
        assert_int_equal(found.lost_at, has_moved ? 4 : 0);
    }
    assert_in_range(n_moved, 1, KEYS - 1);
}

/* Its epoch is that of the new life; who had the key before is another node. */
static void restarted_owner_has_a_new_epoch_and_the_same_former_owner(void **state)
{
    (void)state;
    add_member("a", 7, 1, 3);
    add_member("b", 8, 3, 6);
    add_member("b", 9, 6, 0);
    begin();
    for (int i = 0; i < KEYS; i++) {
        struct rota_view_key found = find(i);
        assert_true(is(found.owner, "b"));
        assert_int_equal(found.instance, 9);
        assert_int_equal(found.epoch, 6);
        assert_true(is(found.former, "a"));
        assert_int_equal(found.lost_at, 3);
    }
}

static void owner_that_left_and_came_back_was_not_the_former_one(void **state)
{
    (void)state;
    add_member("a", 7, 1, 3);
    add_member("a", 7, 6, 0);
    add_member("b", 8, 3, 6);
    begin();
    assert_int_equal(find(0).epoch, 6);
    assert_true(is(find(0).owner, "a"));
    assert_true(is(find(0).former, "b"));
}

static void times_without_members_are_skipped(void **state)
{
    (void)state;
    add_member("a", 7, 1, 3);
    add_member("b", 8, 6, 0);
    begin();
    assert_int_equal(find(0).epoch, 6);
    assert_true(is(find(0).former, "a"));
    assert_int_equal(find(0).lost_at, 3);
}

static void space_without_members_has_no_owners(void **state)
{
    (void)state;
    add_member("a", 7, 1, 3);
    begin();
    assert_int_equal(find(0).owner.size, 0);
    assert_int_equal(find(0).epoch, 3);
    assert_true(is(find(0).former, "a"));
}

static void nothing_is_known_from_before_the_base(void **state)
{
    (void)state;
    add_member("a", 7, 1, 3);
    add_member("b", 8, 3, 0);
    rota_view_rebase(&view, 5);
    begin();
    assert_int_equal(find(0).epoch, 5);
    assert_int_equal(find(0).former.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(owner_is_the_lookup_on_the_ring_of_the_members, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(epoch_is_when_the_owner_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(restarted_owner_has_a_new_epoch_and_the_same_former_owner,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(owner_that_left_and_came_back_was_not_the_former_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_without_members_are_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(space_without_members_has_no_owners, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_known_from_before_the_base, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
