#include "core/own/lease_watch.h"
#include "vectors.h"

enum { US = 7, THEM = 8 };

#define TTL (8 * ROTA_SEC)

static struct rota_lease_watch watch;
static struct rota_random chance;
static struct rota_lease_dead dead[ROTA_LEASE_DEAD_MAX];

static int setup(void **state)
{
    (void)state;
    rota_random_init(&chance, 3);
    return rota_lease_watch_init(&watch, 64, NULL);
}

static int teardown(void **state)
{
    (void)state;
    rota_lease_watch_deinit(&watch);
    return 0;
}

static bool see(rota_time now, uint32_t shard, uint64_t instance, uint64_t epoch, uint64_t pings)
{
    return rota_lease_watch_see_row(
        &watch, now, US,
        &(struct rota_lease_row){
            .shard = shard, .instance = instance, .epoch = epoch, .pings = pings, .ttl = TTL});
}

static size_t dead_at(rota_time now)
{
    return rota_lease_watch_dead(&watch, now, &chance, dead);
}

static void an_unchanged_row_is_dead_after_the_holders_ttl(void **state)
{
    (void)state;
    see(100, 3, THEM, 5, 9);
    see(100 + TTL / 2, 3, THEM, 5, 9);
    assert_int_equal(rota_lease_watch_dead_at(&watch), 100 + TTL);
    assert_int_equal(dead_at(100 + TTL - 1), 0);
    assert_int_equal(dead_at(100 + TTL), 1);
    assert_int_equal(dead[0].shard, 3);
    assert_int_equal(dead[0].epoch, 5);
    assert_int_equal(dead[0].pings, 9);
}

static void any_change_of_a_row_restarts_the_count(void **state)
{
    (void)state;
    see(0, 3, THEM, 5, 9);
    see(TTL - 1, 3, THEM, 5, 10);
    see(2 * TTL - 2, 3, THEM, 6, 11);
    assert_int_equal(rota_lease_watch_dead_at(&watch), 3 * TTL - 2);
}

static void free_rows_and_our_own_are_not_dead(void **state)
{
    (void)state;
    see(0, 3, 0, 5, 9);
    see(0, 4, US, 5, 9);
    assert_int_equal(rota_lease_watch_dead_at(&watch), ROTA_TIME_NEVER);
    assert_int_equal(dead_at(100 * TTL), 0);
}

static void shards_that_lost_their_holder_count_until_a_ttl_after_the_next_took_them(void **state)
{
    (void)state;
    see(0, 3, THEM, 5, 9);
    see(0, 4, THEM, 5, 9);
    see(0, 5, THEM + 1, 5, 9);
    assert_int_equal(rota_lease_watch_orphans(&watch, TTL - 1), 0);
    see(TTL - 1, 5, THEM + 1, 5, 10);
    assert_int_equal(rota_lease_watch_orphans(&watch, TTL), 2);

    /* One is ours now, one another's. */
    rota_lease_watch_note_grant(&watch, TTL, 3, 6, US);
    assert_int_equal(dead_at(TTL), 1);
    see(TTL + 1, 4, THEM + 1, 6, 10);
    assert_int_equal(dead_at(TTL + 1), 0);
    assert_int_equal(rota_lease_watch_orphans(&watch, TTL + 1), 2);

    /* Both are seen again, and pinged. */
    for (uint64_t pings = 10; pings < 12; pings++) {
        see(2 * TTL - 1, 3, US, 6, pings);
        see(2 * TTL - 1, 4, THEM + 1, 6, pings);
        see(2 * TTL - 1, 5, THEM + 1, 5, pings + 1);
        assert_int_equal(rota_lease_watch_orphans(&watch, 2 * TTL - 1), 2);
    }
    assert_int_equal(rota_lease_watch_orphans(&watch, 2 * TTL), 1);
    assert_int_equal(rota_lease_watch_orphans(&watch, 2 * TTL + 1), 0);
}

static void a_shard_released_by_a_live_holder_is_not_lost(void **state)
{
    (void)state;
    see(0, 3, THEM, 5, 9);
    see(0, 4, THEM, 5, 9);
    see(0, 5, THEM, 5, 9);
    see(TTL / 3, 3, 0, 5, 10); /* seen to be free */
    see(TTL / 3 + 1, 3, THEM + 1, 6, 11);
    see(TTL / 3, 4, THEM + 1, 6, 11); /* free between two looks */
    rota_lease_watch_note_grant(&watch, TTL / 3, 5, 6, US);
    assert_int_equal(rota_lease_watch_orphans(&watch, TTL / 3 + 1), 0);

    /* Nor what was taken from the dead and is free again. */
    see(2 * TTL, 4, US, 7, 12);
    assert_int_equal(rota_lease_watch_orphans(&watch, TTL * 5 / 2), 2);
    see(TTL * 5 / 2, 4, 0, 7, 13);
    see(TTL * 5 / 2, 3, THEM + 1, 6, 12);
    assert_int_equal(rota_lease_watch_orphans(&watch, TTL * 5 / 2), 0);
}

static void a_lower_version_means_that_the_database_went_back(void **state)
{
    (void)state;
    assert_true(see(0, 3, THEM, 5, 9));
    assert_true(see(1, 3, THEM, 5, 9));
    assert_false(see(2, 3, THEM, 5, 8));
    assert_true(see(3, 3, THEM, 6, 9));
    assert_false(see(4, 3, 0, 5, 20));
    assert_true(see(5, 3, 0, 5, 20));
    rota_lease_watch_forget(&watch);
    assert_false(see(6, 3, 0, 5, 19));
}

static void a_forgotten_row_is_counted_from_the_start(void **state)
{
    (void)state;
    see(0, 3, THEM, 5, 9);
    rota_lease_watch_forget(&watch);
    assert_int_equal(rota_lease_watch_dead_at(&watch), ROTA_TIME_NEVER);
    see(TTL - 1, 3, THEM, 5, 9);
    assert_int_equal(rota_lease_watch_dead_at(&watch), 2 * TTL - 1);
}

static void dead_rows_that_were_ours_come_first_and_there_are_not_too_many(void **state)
{
    (void)state;
    for (uint32_t shard = 0; shard < 64; shard++)
        see(0, shard, THEM, 5, 9);
    for (uint32_t shard = 20; shard <= 40; shard += 20)
        rota_lease_watch_see_row(
            &watch, 0, US,
            &(struct rota_lease_row){
                .shard = shard, .is_ours = true, .instance = THEM, .epoch = 5, .pings = 9});
    assert_int_equal(dead_at(TTL), ROTA_LEASE_DEAD_MAX);
    assert_int_equal(dead[0].shard % 20 + dead[1].shard % 20, 0);
    assert_int_equal(dead[0].shard + dead[1].shard, 60);
}

static void two_watchers_choose_different_rows(void **state)
{
    int n_first[64] = {0}, n_most = 0;
    (void)state;
    for (uint32_t shard = 0; shard < 64; shard++)
        see(0, shard, THEM, 5, 9);
    for (int i = 0; i < 640; i++) {
        dead_at(TTL);
        n_first[dead[0].shard]++;
    }
    for (int i = 0; i < 64; i++)
        n_most = n_first[i] > n_most ? n_first[i] : n_most;
    assert_in_range(n_most, 10, 40);
}

static void the_floor_is_the_highest_epoch_from_anywhere(void **state)
{
    (void)state;
    see(0, 3, THEM, 5, 9);
    rota_lease_watch_learn(&watch, 4, 8);
    rota_lease_watch_learn(&watch, 4, 2);
    assert_int_equal(watch.floor, 8);
    assert_int_equal(rota_lease_watch_newest(&watch, 3), 5);
    assert_int_equal(rota_lease_watch_newest(&watch, 4), 8);
    assert_int_equal(rota_lease_watch_newest(&watch, 5), 0);
}

static void absurd_rows_do_no_harm(void **state)
{
    (void)state;
    assert_true(see(0, 64, THEM, 5, 9));
    assert_true(see(0, UINT32_MAX, THEM, 5, 9));
    assert_true(see(0, 1, THEM, UINT64_MAX, 9));
    rota_lease_watch_learn(&watch, UINT32_MAX, 5);
    rota_lease_watch_learn(&watch, 1, UINT64_MAX);
    assert_int_equal(rota_lease_watch_newest(&watch, UINT32_MAX), 0);
    assert_int_equal(watch.floor, 0);
    assert_int_equal(rota_lease_watch_dead_at(&watch), ROTA_TIME_NEVER);

    rota_time ttls[] = {INT64_MIN, -1, 0, ROTA_LEASE_TTL_MIN, ROTA_LEASE_TTL_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof ttls / sizeof ttls[0]; i++) {
        struct rota_lease_row row = {.shard = 2, .instance = THEM, .pings = i, .ttl = ttls[i]};
        rota_lease_watch_see_row(&watch, 0, US, &row);
        assert_int_equal(rota_lease_watch_dead_at(&watch),
                         i < 4 ? ROTA_LEASE_TTL_MIN : ROTA_LEASE_TTL_MAX);
    }
    assert_int_equal(rota_lease_watch_ttl_max(&watch, 1), ROTA_LEASE_TTL_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_unchanged_row_is_dead_after_the_holders_ttl, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(any_change_of_a_row_restarts_the_count, setup, teardown),
        cmocka_unit_test_setup_teardown(free_rows_and_our_own_are_not_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(
            shards_that_lost_their_holder_count_until_a_ttl_after_the_next_took_them, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_shard_released_by_a_live_holder_is_not_lost, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lower_version_means_that_the_database_went_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_forgotten_row_is_counted_from_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(
            dead_rows_that_were_ours_come_first_and_there_are_not_too_many, setup, teardown),
        cmocka_unit_test_setup_teardown(two_watchers_choose_different_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(the_floor_is_the_highest_epoch_from_anywhere, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(absurd_rows_do_no_harm, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
