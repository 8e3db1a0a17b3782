#include "core/own/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { SHARDS = 64 };

static struct rota_view view;
static uint32_t hashes[SHARDS], owners[SHARDS];

static int set_up(void **state)
{
    (void)state;
    view = (struct rota_view){.number = 10, .base = 1, .n_shards = SHARDS};
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        hashes[shard] = rota_view_hash(rota_str("space"), shard);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_view_deinit(&view);
    return 0;
}

static void add_member(const char *name, uint64_t from, uint64_t to)
{
    struct rota_view_member member = {.span = {from, to},
                                      .name = rota_str(name),
                                      .instance = 100 * from + 1,
                                      .weight = ROTA_WEIGHT_ONE};
    assert_true(rota_vector_push(&view.members, member));
}

static void add_pin(uint32_t shard, const char *name, uint64_t from, uint64_t to)
{
    struct rota_view_pin pin = {.span = {from, to}, .shard = shard, .name = rota_str(name)};
    assert_true(rota_vector_push(&view.pins, pin));
}

static void add_seat(const char *name)
{
    struct rota_str seat = rota_str(name);
    assert_true(rota_vector_push(&view.seats, seat));
}

static void place(uint64_t number, enum rota_view_engine engine)
{
    assert_int_equal(rota_view_place(&view, number, engine, hashes, owners, NULL), ROTA_OK);
}

static void ring_is_the_lookup_of_space_and_shard(void **state)
{
    (void)state;
    const struct rota_ring_host hosts[] = {{.address = rota_str("a")}, {.address = rota_str("b")}};
    struct rota_ring *ring;
    char key[32];
    add_member("a", 1, 0);
    add_member("b", 1, 0);
    place(10, ROTA_VIEW_RING);
    assert_int_equal(rota_ring_new(hosts, 2, 0, &ring, NULL), ROTA_OK);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        snprintf(key, sizeof key, "space/%u", shard);
        assert_int_equal(owners[shard], rota_ring_lookup(ring, rota_str(key)));
    }
    rota_ring_unref(ring);
}

static void earlier_views_are_made_again(void **state)
{
    (void)state;
    add_member("a", 1, 0);
    add_member("b", 4, 7);
    uint32_t n_of_b = 0;
    place(3, ROTA_VIEW_RING);
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_int_equal(owners[shard], 0);
    place(6, ROTA_VIEW_RING);
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        n_of_b += owners[shard] == 1;
    assert_in_range(n_of_b, 1, SHARDS - 1);
    place(7, ROTA_VIEW_RING);
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_int_equal(owners[shard], 0);
}

static void nobody_owns_without_members_or_by_other_engines(void **state)
{
    (void)state;
    place(10, ROTA_VIEW_RING);
    assert_int_equal(owners[0], ROTA_VIEW_NOBODY);
    add_member("a", 1, 0);
    add_pin(0, "a", 1, 0);
    place(10, ROTA_VIEW_LEASE);
    assert_int_equal(owners[0], ROTA_VIEW_NOBODY);
    place(10, ROTA_VIEW_GROUP);
    assert_int_equal(owners[0], ROTA_VIEW_NOBODY);
    place(10, ROTA_VIEW_STATIC); /* no seats: the pin alone */
    assert_int_equal(owners[0], 0);
    assert_int_equal(owners[1], ROTA_VIEW_NOBODY);
}

static void seat_of_a_shard_is_fixed_and_empty_while_its_node_is_away(void **state)
{
    (void)state;
    add_member("a", 1, 0);
    add_member("b", 5, 0);
    add_seat("b");
    add_seat("a");
    add_seat("b");
    place(10, ROTA_VIEW_STATIC);
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_int_equal(owners[shard], shard % 3 == 1 ? 0 : 1);
    place(4, ROTA_VIEW_STATIC);
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_int_equal(owners[shard], shard % 3 == 1 ? 0 : ROTA_VIEW_NOBODY);
}

static void pin_goes_before_all_if_its_node_is_a_member(void **state)
{
    (void)state;
    add_member("a", 1, 0);
    add_member("b", 1, 0);
    place(10, ROTA_VIEW_RING);
    uint32_t shard = 0;
    while (owners[shard] != 0)
        shard++;
    add_pin(shard, "b", 3, 6);
    place(2, ROTA_VIEW_RING);
    assert_int_equal(owners[shard], 0);
    place(5, ROTA_VIEW_RING);
    assert_int_equal(owners[shard], 1);
    place(6, ROTA_VIEW_RING);
    assert_int_equal(owners[shard], 0);
    add_pin(shard, "nobody", 6, 0);
    place(6, ROTA_VIEW_RING);
    assert_int_equal(owners[shard], 0);
}

static void states_are_the_numbers_at_which_something_changed(void **state)
{
    (void)state;
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    add_member("a", 3, 0);
    add_member("b", 1, 7);
    add_pin(0, "a", 7, 9);
    assert_int_equal(rota_view_states(&view, numbers), 4);
    assert_int_equal(numbers[0], 1);
    assert_int_equal(numbers[1], 3);
    assert_int_equal(numbers[2], 7);
    assert_int_equal(numbers[3], 9);
    for (uint64_t i = 0; i < 100; i++)
        add_pin((uint32_t)i, "a", 10 + i, 0);
    assert_int_equal(rota_view_states(&view, numbers), ROTA_VIEW_STATES_MAX + 2);
}

static void later_base_forgets_what_ended_before(void **state)
{
    (void)state;
    add_member("a", 1, 5);
    add_member("a", 5, 0);
    add_member("b", 2, 8);
    add_pin(0, "a", 1, 4);
    add_pin(1, "b", 2, 0);
    assert_int_equal(rota_view_check(&view, NULL), ROTA_OK);
    rota_view_rebase(&view, 6);
    assert_int_equal(rota_view_check(&view, NULL), ROTA_OK);
    assert_int_equal(view.members.size, 2);
    assert_int_equal(view.members.items[0].span.from, 6);
    assert_int_equal(view.members.items[1].span.to, 8);
    assert_int_equal(view.pins.size, 1);
    assert_int_equal(view.pins.items[0].span.from, 6);
}

static void views_of_different_pasts_are_told_apart(void **state)
{
    (void)state;
    struct rota_view later;
    add_member("a", 1, 0);
    add_member("b", 2, 8);
    add_pin(3, "a", 4, 0);
    assert_int_equal(rota_view_copy(&view, &later, NULL), ROTA_OK);
    assert_true(rota_view_is_before(&view, &later));

    later.number = 12;
    later.members.items[0].span.to = 11;
    later.pins.items[0].span.to = 12;
    assert_true(rota_view_is_before(&view, &later));
    rota_view_rebase(&later, 5); /* what is left out says nothing else */
    assert_true(rota_view_is_before(&view, &later));

    later.members.items[0].span.to = 10;
    assert_false(rota_view_is_before(&view, &later));
    later.members.items[0].span.to = 11;
    later.pins.items[0].span.from = 6;
    assert_false(rota_view_is_before(&view, &later));
    later.pins.items[0].span.from = 5;
    later.members.items[1].instance++;
    assert_false(rota_view_is_before(&view, &later));
    rota_view_deinit(&later);
}

/* Views without members and pins differ in these alone. */
static void past_is_told_apart_by_base_engine_and_seats(void **state)
{
    (void)state;
    struct rota_view later;
    struct rota_str seat = rota_str("a");
    view.engine = view.to = ROTA_VIEW_STATIC;
    rota_view_rebase(&view, 5);
    assert_int_equal(rota_view_copy(&view, &later, NULL), ROTA_OK);
    later.number = 12;
    assert_true(rota_view_is_before(&view, &later));

    later.base = 4; /* a base never becomes less */
    assert_false(rota_view_is_before(&view, &later));
    later.base = 6;
    assert_true(rota_view_is_before(&view, &later));

    later.phase = ROTA_VIEW_SHADOW; /* the engine goes on */
    later.to = ROTA_VIEW_RING;
    assert_true(rota_view_is_before(&view, &later));
    later.phase = ROTA_VIEW_STOPPING;
    assert_false(rota_view_is_before(&view, &later));
    later.phase = ROTA_VIEW_STABLE;
    later.engine = ROTA_VIEW_RING;
    assert_false(rota_view_is_before(&view, &later));

    later.engine = ROTA_VIEW_STATIC;
    assert_true(rota_vector_push(&later.seats, seat));
    assert_false(rota_view_is_before(&view, &later));
    add_seat("b");
    assert_false(rota_view_is_before(&view, &later));
    view.engine = later.engine = ROTA_VIEW_RING; /* which does not look at seats */
    assert_true(rota_view_is_before(&view, &later));
    rota_view_deinit(&later);
}

static void copy_shares_nothing(void **state)
{
    (void)state;
    struct rota_view copy;
    add_member("a", 1, 0);
    add_seat("s");
    assert_int_equal(rota_view_copy(&view, &copy, NULL), ROTA_OK);
    assert_ptr_not_equal(copy.members.items[0].name.data, view.members.items[0].name.data);
    assert_true(rota_str_is_equal(copy.seats.items[0], rota_str("s")));
    assert_int_equal(copy.number, 10);
    rota_view_deinit(&copy);
}

static void names_have_no_control_characters(void **state)
{
    (void)state;
    char longest[ROTA_VIEW_NAME_MAX + 1];
    memset(longest, 'x', sizeof longest);
    assert_true(rota_view_name_is_valid(rota_str("10.0.0.1:80 \xff")));
    assert_true(rota_view_name_is_valid(rota_str_of(longest, ROTA_VIEW_NAME_MAX)));
    assert_false(rota_view_name_is_valid(rota_str_of(longest, ROTA_VIEW_NAME_MAX + 1)));
    assert_false(rota_view_name_is_valid(rota_str("")));
    assert_false(rota_view_name_is_valid(rota_str("a\nb")));
    assert_false(rota_view_name_is_valid(rota_str_of("a\0b", 3)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ring_is_the_lookup_of_space_and_shard),
        TEST(earlier_views_are_made_again),
        TEST(nobody_owns_without_members_or_by_other_engines),
        TEST(seat_of_a_shard_is_fixed_and_empty_while_its_node_is_away),
        TEST(pin_goes_before_all_if_its_node_is_a_member),
        TEST(states_are_the_numbers_at_which_something_changed),
        TEST(later_base_forgets_what_ended_before),
        TEST(views_of_different_pasts_are_told_apart),
        TEST(past_is_told_apart_by_base_engine_and_seats),
        TEST(copy_shares_nothing),
        TEST(names_have_no_control_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
