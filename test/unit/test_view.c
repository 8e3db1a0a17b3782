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

static void shards_without_members_or_by_other_engines_have_no_owner(void **state)
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

static void seat_of_a_shard_is_fixed_and_empty_while_its_node_is_down(void **state)
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

static void pin_takes_precedence_if_its_node_is_a_member(void **state)
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

static void later_base_forgets_ended_entries(void **state)
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

static void views_of_different_histories_are_distinguished(void **state)
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
static void histories_differ_by_base_engine_and_seats(void **state)
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

    later.phase = ROTA_VIEW_SHADOW; /* the engine continues */
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
    for (int c = 0; c < 256; c++) {
        char name[] = {(char)c, 'x', (char)c};
        assert_int_equal(rota_view_name_is_valid(rota_str_of(name, 3)), c >= ' ' && c != 0x7f);
    }
}

/* --- what is a view --- */

static enum rota_code check(void)
{
    return rota_view_check(&view, NULL);
}

/* The check says `code` while the field has this value. */
#define CHECKS(field, value, code)                                                                 \
    do {                                                                                           \
        __typeof__(field) kept = (field);                                                          \
        (field) = (value);                                                                         \
        assert_int_equal(check(), code);                                                           \
        (field) = kept;                                                                            \
        assert_int_equal(check(), ROTA_OK);                                                        \
    } while (0)

static void numbers_of_a_view_are_within_bounds(void **state)
{
    (void)state;
    CHECKS(view.base, 0, ROTA_ERR_INVALID);
    CHECKS(view.base, 10, ROTA_OK);
    CHECKS(view.base, 11, ROTA_ERR_INVALID);
    CHECKS(view.number, 0, ROTA_ERR_INVALID);
    CHECKS(view.number, 1, ROTA_OK);
    CHECKS(view.number, ROTA_VIEW_NUMBER_MAX, ROTA_OK);
    CHECKS(view.number, ROTA_VIEW_NUMBER_MAX + 1, ROTA_ERR_INVALID);
    CHECKS(view.n_shards, 0, ROTA_OK);
    CHECKS(view.n_shards, 1, ROTA_OK);
    CHECKS(view.n_shards, ROTA_VIEW_SHARDS_MAX, ROTA_OK);
    CHECKS(view.n_shards, ROTA_VIEW_SHARDS_MAX + 1, ROTA_ERR_INVALID);
    add_seat("a");
    CHECKS(view.seats.items[0], rota_str("\n"), ROTA_ERR_INVALID);
}

static void view_that_moves_has_two_engines(void **state)
{
    (void)state;
    for (int phase = 0; phase < 4; phase++) {
        bool is_moving = phase == ROTA_VIEW_SHADOW || phase == ROTA_VIEW_STOPPING;
        view.phase = (enum rota_view_phase)phase;
        view.to = ROTA_VIEW_RING;
        assert_int_equal(check(), is_moving ? ROTA_ERR_INVALID : ROTA_OK);
        view.to = ROTA_VIEW_LEASE;
        assert_int_equal(check(), is_moving ? ROTA_OK : ROTA_ERR_INVALID);
    }
}

static void lists_of_a_view_are_bounded(void **state)
{
    static char names[ROTA_VIEW_MEMBERS_MAX + 1][8];
    (void)state;
    view.n_shards = ROTA_VIEW_SHARDS_MAX;
    for (size_t i = 0; i <= ROTA_VIEW_MEMBERS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "n%04d", (int)i % 10000);
        add_member(names[i], 1, 0);
    }
    assert_int_equal(check(), ROTA_ERR_LIMIT);
    view.members.size--;
    assert_int_equal(check(), ROTA_OK);
    for (uint32_t i = 0; i <= ROTA_VIEW_PINS_MAX; i++)
        add_pin(i, "a", 1, 0);
    assert_int_equal(check(), ROTA_ERR_LIMIT);
    view.pins.size--;
    assert_int_equal(check(), ROTA_OK);
    for (size_t i = 0; i <= ROTA_VIEW_SEATS_MAX; i++)
        add_seat("a");
    assert_int_equal(check(), ROTA_ERR_LIMIT);
    view.seats.size--;
    assert_int_equal(check(), ROTA_OK);
}

static void changes_since_the_base_are_bounded(void **state)
{
    (void)state;
    view.number = 200;
    for (uint32_t i = 0; i < ROTA_VIEW_STATES_MAX / 2; i++)
        add_pin(i, "a", 2 + 2 * i, 3 + 2 * i);
    assert_int_equal(check(), ROTA_OK); /* the base and as many as may be */
    add_pin(SHARDS - 1, "a", 1, 0);
    assert_int_equal(check(), ROTA_OK);
    view.pins.items[view.pins.size - 1].span.from = 199;
    assert_int_equal(check(), ROTA_ERR_LIMIT);
}

static void add_refusal(uint32_t shard, const char *name, uint64_t from, uint64_t to)
{
    struct rota_view_refusal refusal = {
        .span = {from, to}, .shard = shard, .name = rota_str(name), .why = rota_str("broken")};
    assert_true(rota_vector_push(&view.refusals, refusal));
}

static void refused_shard_goes_to_the_next_member_clockwise(void **state)
{
    (void)state;
    struct rota_ring *ring;
    const struct rota_ring_host hosts[] = {
        {.address = rota_str("a")}, {.address = rota_str("b")}, {.address = rota_str("c")}};
    uint32_t order[3];
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        add_member(names[i], 1, 0);
    assert_int_equal(rota_ring_new(hosts, 3, 0, &ring, NULL), ROTA_OK);
    assert_int_equal(rota_ring_lookup_n_hash(ring, hashes[5], 3, order), 3);
    add_refusal(5, names[order[0]], 4, 8);
    place(3, ROTA_VIEW_RING);
    assert_int_equal(owners[5], order[0]);
    place(4, ROTA_VIEW_RING);
    assert_int_equal(owners[5], order[1]);
    for (uint32_t shard = 0; shard < SHARDS; shard++) /* no other shard moves */
        assert_true(shard == 5 || owners[shard] == rota_ring_lookup_hash(ring, hashes[shard]));
    place(8, ROTA_VIEW_RING);
    assert_int_equal(owners[5], order[0]);
    /* A pin to a member that has refused waits; the refusals of all count for nothing. */
    add_pin(5, names[order[0]], 1, 0);
    place(5, ROTA_VIEW_RING);
    assert_int_equal(owners[5], order[1]);
    view.refusals.size = 0;
    for (size_t i = 0; i < 3; i++)
        add_refusal(5, names[i], 4, 0);
    place(5, ROTA_VIEW_RING);
    assert_int_equal(owners[5], order[0]);
    add_seat(names[order[0]]);
    place(5, ROTA_VIEW_STATIC);
    assert_int_equal(owners[5], ROTA_VIEW_NOBODY);
    assert_int_equal(owners[6], order[0]);
    rota_ring_unref(ring);
}

static void refusals_are_part_of_the_history(void **state)
{
    (void)state;
    struct rota_view copy;
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    add_member("a", 1, 0);
    add_refusal(5, "a", 4, 8);
    assert_int_equal(rota_view_check(&view, NULL), ROTA_OK);
    assert_int_equal(rota_view_states(&view, numbers), 3);
    assert_true(numbers[1] == 4 && numbers[2] == 8);
    assert_int_equal(rota_view_copy(&view, &copy, NULL), ROTA_OK);
    assert_true(rota_view_is_equal(&view, &copy));
    copy.refusals.items[0].why = rota_str("another reason");
    assert_false(rota_view_is_equal(&view, &copy));
    rota_view_rebase(&copy, 5);
    assert_int_equal(copy.refusals.items[0].span.from, 5);
    rota_view_rebase(&copy, 8);
    assert_int_equal(copy.refusals.size, 0);
    rota_view_deinit(&copy);
    add_refusal(5, "a", 6, 0);
    assert_int_equal(rota_view_check(&view, NULL), ROTA_ERR_INVALID); /* twice at a time */
}

static void members_and_pins_are_within_bounds(void **state)
{
    (void)state;
    view.base = 3;
    add_member("a", 4, 8);
    add_pin(7, "a", 4, 8);
    struct rota_view_member *member = view.members.items;
    struct rota_view_pin *pin = view.pins.items;
    CHECKS(member->name, rota_str(""), ROTA_ERR_INVALID);
    CHECKS(member->instance, 0, ROTA_ERR_INVALID);
    CHECKS(member->weight, ROTA_WEIGHT_MIN, ROTA_OK);
    CHECKS(member->weight, ROTA_WEIGHT_MIN - 1, ROTA_ERR_INVALID);
    CHECKS(member->weight, ROTA_VIEW_WEIGHT_MAX, ROTA_OK);
    CHECKS(member->weight, ROTA_VIEW_WEIGHT_MAX + 1, ROTA_ERR_INVALID);
    CHECKS(pin->name, rota_str(""), ROTA_ERR_INVALID);
    CHECKS(pin->shard, SHARDS - 1, ROTA_OK);
    CHECKS(pin->shard, SHARDS, ROTA_ERR_INVALID);
    for (int i = 0; i < 2; i++) {
        struct rota_view_span *span = i == 0 ? &member->span : &pin->span;
        CHECKS(span->from, 2, ROTA_ERR_INVALID);
        CHECKS(span->from, 3, ROTA_OK);
        CHECKS(span->from, 7, ROTA_OK);
        CHECKS(span->from, 8, ROTA_ERR_INVALID);
        CHECKS(span->to, 0, ROTA_OK);
        CHECKS(span->to, 10, ROTA_OK);
        CHECKS(span->to, 11, ROTA_ERR_INVALID);
        CHECKS(span->to, 5, ROTA_OK);
        CHECKS(span->to, 4, ROTA_ERR_INVALID);
        span->to = 0;
        CHECKS(span->from, 10, ROTA_OK);
        CHECKS(span->from, 11, ROTA_ERR_INVALID);
    }
}

static void one_key_is_there_once_at_a_time_and_all_are_in_order(void **state)
{
    static const struct {
        int first, second; /* name or shard */
        struct rota_view_span a, b;
        bool is_fine;
    } rows[] = {
        {1, 2, {1, 0}, {1, 0}, true},  {2, 1, {1, 0}, {1, 0}, false}, {1, 1, {1, 5}, {5, 0}, true},
        {1, 1, {1, 5}, {4, 0}, false}, {1, 1, {1, 0}, {5, 0}, false}, {1, 1, {5, 0}, {1, 5}, false},
        {1, 1, {1, 3}, {5, 7}, true},  {1, 1, {1, 0}, {1, 0}, false}, {1, 1, {1, 7}, {5, 6}, false},
        {1, 1, {2, 3}, {3, 4}, true},
    };
    static const char *const names[] = {"", "a", "b"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        view.members.size = view.pins.size = 0;
        add_member(names[rows[i].first], rows[i].a.from, rows[i].a.to);
        add_member(names[rows[i].second], rows[i].b.from, rows[i].b.to);
        assert_int_equal(check(), rows[i].is_fine ? ROTA_OK : ROTA_ERR_INVALID);
        view.members.size = 0;
        add_pin((uint32_t)rows[i].first, "x", rows[i].a.from, rows[i].a.to);
        add_pin((uint32_t)rows[i].second, "y", rows[i].b.from, rows[i].b.to);
        assert_int_equal(check(), rows[i].is_fine ? ROTA_OK : ROTA_ERR_INVALID);
    }
}

static void member_is_found_by_name_as_of_the_view(void **state)
{
    static char names[9][2];
    (void)state;
    for (size_t i = 0; i < 9; i++) {
        names[i][0] = (char)('b' + 2 * i);
        if (i % 3 == 2)
            add_member(names[i], 1, 4); /* an earlier life */
        if (i % 3 != 1)
            add_member(names[i], 5, 0);
        else
            add_member(names[i], 5, 9);
    }
    assert_int_equal(check(), ROTA_OK);
    for (char c = 'a'; c <= 'v'; c++) {
        uint32_t found = rota_view_find(&view, rota_str_of(&c, 1));
        size_t i = (size_t)(c - 'b') / 2;
        if (c < 'b' || c > 'r' || (c - 'b') % 2 || i % 3 == 1) {
            assert_true(found == ROTA_VIEW_NOBODY);
            continue;
        }
        assert_int_equal(view.members.items[found].name.data[0], c);
        assert_int_equal(view.members.items[found].span.from, 5);
    }
}

/* Each part of a view counts. */
static void views_are_equal_if_all_is_the_same(void **state)
{
    struct rota_view copy;
    (void)state;
    add_member("a", 1, 0);
    add_member("b", 2, 8);
    add_pin(3, "a", 4, 0);
    add_seat("a");
    view.engine = ROTA_VIEW_STATIC;
    view.to = ROTA_VIEW_GROUP;
    view.phase = ROTA_VIEW_SHADOW;
    assert_int_equal(rota_view_copy(&view, &copy, NULL), ROTA_OK);
#define DIFFERS(field, value)                                                                      \
    do {                                                                                           \
        assert_true(rota_view_is_equal(&view, &copy));                                             \
        assert_true(rota_view_is_equal(&copy, &view));                                             \
        __typeof__(field) kept = (field);                                                          \
        (field) = (value);                                                                         \
        assert_false(rota_view_is_equal(&view, &copy));                                            \
        assert_false(rota_view_is_equal(&copy, &view));                                            \
        (field) = kept;                                                                            \
    } while (0)
    DIFFERS(copy.number, 11);
    DIFFERS(copy.base, 2);
    DIFFERS(copy.engine, ROTA_VIEW_LEASE);
    DIFFERS(copy.to, ROTA_VIEW_LEASE);
    DIFFERS(copy.phase, ROTA_VIEW_STARTING);
    DIFFERS(copy.n_shards, 1);
    DIFFERS(copy.seats.size, 0);
    DIFFERS(copy.seats.items[0], rota_str("c"));
    DIFFERS(copy.members.size, 1);
    DIFFERS(copy.members.items[1].name, rota_str("c"));
    DIFFERS(copy.members.items[1].instance, 1);
    DIFFERS(copy.members.items[1].weight, 7);
    DIFFERS(copy.members.items[1].span.from, 3);
    DIFFERS(copy.members.items[1].span.to, 9);
    DIFFERS(copy.pins.size, 0);
    DIFFERS(copy.pins.items[0].name, rota_str("c"));
    DIFFERS(copy.pins.items[0].shard, 4);
    DIFFERS(copy.pins.items[0].span.from, 5);
    DIFFERS(copy.pins.items[0].span.to, 5);
    view.engine = copy.engine = ROTA_VIEW_RING;
    DIFFERS(copy.seats.items[0], rota_str("c")); /* not only where they count */
    rota_view_deinit(&copy);
    assert_int_equal(copy.number + copy.members.size + copy.seats.size + copy.pins.size, 0);
}

static void base_at_the_end_of_something_forgets_it(void **state)
{
    (void)state;
    add_member("a", 1, 6);
    add_member("b", 1, 7);
    add_member("c", 6, 0);
    add_pin(0, "a", 1, 6);
    add_pin(1, "a", 1, 7);
    rota_view_rebase(&view, 6);
    assert_int_equal(view.base, 6);
    assert_int_equal(view.members.size, 2);
    assert_int_equal(view.members.items[0].name.data[0], 'b');
    assert_int_equal(view.members.items[1].span.from, 6);
    assert_int_equal(view.pins.size, 1);
    assert_int_equal(view.pins.items[0].shard, 1);
    rota_view_rebase(&view, 10);
    assert_int_equal(view.members.size, 1);
    assert_int_equal(view.pins.size, 0);
}

static void engines_and_phases_have_names(void **state)
{
    static const char *const engines[] = {"ring", "static", "lease", "group"};
    static const char *const phases[] = {"stable", "shadow", "stopping", "starting"};
    enum rota_view_engine engine;
    enum rota_view_phase phase;
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_string_equal(rota_view_engine_name((enum rota_view_engine)i), engines[i]);
        assert_string_equal(rota_view_phase_name((enum rota_view_phase)i), phases[i]);
        assert_true(rota_view_engine_parse(rota_str(engines[i]), &engine));
        assert_true(rota_view_phase_parse(rota_str(phases[i]), &phase));
        assert_true((int)engine == i && (int)phase == i);
    }
    assert_false(rota_view_engine_parse(rota_str("stable"), &engine));
    assert_false(rota_view_phase_parse(rota_str("ring"), &phase));
    assert_true(engine == ROTA_VIEW_GROUP && phase == ROTA_VIEW_STARTING); /* left alone */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ring_is_the_lookup_of_space_and_shard),
        TEST(earlier_views_are_made_again),
        TEST(shards_without_members_or_by_other_engines_have_no_owner),
        TEST(seat_of_a_shard_is_fixed_and_empty_while_its_node_is_down),
        TEST(pin_takes_precedence_if_its_node_is_a_member),
        TEST(states_are_the_numbers_at_which_something_changed),
        TEST(later_base_forgets_ended_entries),
        TEST(views_of_different_histories_are_distinguished),
        TEST(histories_differ_by_base_engine_and_seats),
        TEST(copy_shares_nothing),
        TEST(names_have_no_control_characters),
        TEST(numbers_of_a_view_are_within_bounds),
        TEST(view_that_moves_has_two_engines),
        TEST(lists_of_a_view_are_bounded),
        TEST(changes_since_the_base_are_bounded),
        TEST(refused_shard_goes_to_the_next_member_clockwise),
        TEST(refusals_are_part_of_the_history),
        TEST(members_and_pins_are_within_bounds),
        TEST(one_key_is_there_once_at_a_time_and_all_are_in_order),
        TEST(member_is_found_by_name_as_of_the_view),
        TEST(views_are_equal_if_all_is_the_same),
        TEST(base_at_the_end_of_something_forgets_it),
        TEST(engines_and_phases_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
