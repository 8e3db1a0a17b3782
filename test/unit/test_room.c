#include "core/work/broker/room.h"

#include "vectors.h"

enum { MEGA = 1 << 20 };

static void waiting_jobs_have_reserved_room(void **state)
{
    struct rota_room_look look = {.left = MEGA, .free = 4 * MEGA, .waiting = MEGA / 2};
    (void)state;
    assert_int_equal(rota_room_all(&look), 4 * MEGA + MEGA / 2);
    look.waiting = 9 * MEGA;
    assert_int_equal(rota_room_all(&look), 0);
}

static void a_reserve_that_is_missing_is_spared(void **state)
{
    struct rota_room_look look = {.left = MEGA, .free = 4 * MEGA, .reserve = 2 * MEGA};
    (void)state;
    assert_int_equal(rota_room_spare(&look), 3 * MEGA);
    look.has_reserve = true;
    assert_int_equal(rota_room_spare(&look), 5 * MEGA);
    look.has_reserve = false;
    look.free = 0;
    assert_int_equal(rota_room_spare(&look), 0);
}

static void new_jobs_leave_room_for_the_ends_of_existing_ones(void **state)
{
    struct rota_room_look look = {.left = MEGA, .has_reserve = true};
    (void)state;
    assert_int_equal(rota_room_for_adds(&look), MEGA - ROTA_ROOM_MARGIN);
    look.n_jobs = 1000;
    assert_int_equal(rota_room_for_adds(&look), MEGA - ROTA_ROOM_MARGIN - 1000 * ROTA_ROOM_END);
    look.n_jobs = 100000;
    assert_int_equal(rota_room_for_adds(&look), 0);
}

static void new_jobs_find_their_place_in_one_piece(void **state)
{
    struct rota_room_look look = {.left = MEGA, .free = 3 * MEGA, .has_reserve = true};
    (void)state;
    assert_int_equal(rota_room_for_adds(&look), 3 * MEGA - ROTA_ROOM_MARGIN);
    look.waiting = MEGA;
    assert_int_equal(rota_room_for_adds(&look), 2 * MEGA - ROTA_ROOM_MARGIN);
    look.left = 5 * MEGA;
    assert_int_equal(rota_room_for_adds(&look), 4 * MEGA - ROTA_ROOM_MARGIN);
    look.waiting = 6 * MEGA;
    assert_int_equal(rota_room_for_adds(&look), 0);
}

static void without_a_known_disk_size_there_is_no_bound(void **state)
{
    struct rota_room_look look = {.left = MEGA, .free = ROTA_ROOM_UNKNOWN, .reserve = MEGA};
    (void)state;
    look.waiting = 5 * MEGA;
    look.n_jobs = 1000;
    assert_true(rota_room_for_adds(&look) == UINT64_MAX);
    assert_true(rota_room_spare(&look) == UINT64_MAX);
}

static void after_one_refusal_all_are_refused_until_there_is_room(void **state)
{
    struct rota_room room = {0};
    struct rota_room_look look = {.left = MEGA, .reserve = 8 * MEGA, .has_reserve = true};
    (void)state;
    assert_false(rota_room_step(&room, &look, false));
    assert_true(rota_room_step(&room, &look, true));
    look.left = 4 * MEGA;
    assert_true(rota_room_step(&room, &look, false));
    look.left += ROTA_ROOM_MARGIN;
    assert_false(rota_room_step(&room, &look, false));
    assert_false(rota_room_step(&room, &look, true)); /* it alone was too large */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_jobs_have_reserved_room),
        cmocka_unit_test(a_reserve_that_is_missing_is_spared),
        cmocka_unit_test(new_jobs_leave_room_for_the_ends_of_existing_ones),
        cmocka_unit_test(new_jobs_find_their_place_in_one_piece),
        cmocka_unit_test(without_a_known_disk_size_there_is_no_bound),
        cmocka_unit_test(after_one_refusal_all_are_refused_until_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
