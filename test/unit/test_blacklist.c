#include "core/call/blacklist.h"
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>

/* The rows K1 to K10 are the behaviours of the system that Rota is compatible with. */

static const struct rota_str A = {"a", 1}, B = {"b", 1};

static struct rota_blacklist make(rota_time lasts)
{
    struct rota_blacklist blacklist;
    rota_blacklist_init(&blacklist, 1, lasts, 0);
    return blacklist;
}

static void k1_k2_entry_counts_until_it_ends(void **state)
{
    struct rota_blacklist blacklist = make(ROTA_BLACKLIST_FOR);
    (void)state;
    rota_blacklist_add(&blacklist, 0, 1, A, 5);
    assert_true(rota_blacklist_has(&blacklist, 0, 1, A, 5));
    assert_false(rota_blacklist_has(&blacklist, 0, 1, A, 6));
    assert_true(rota_blacklist_has(&blacklist, 30 * ROTA_SEC - 1, 1, A, 5));
    assert_false(rota_blacklist_has(&blacklist, 30 * ROTA_SEC, 1, A, 5));
    rota_blacklist_deinit(&blacklist);
}

static void k3_clearing_a_shard_forgets_its_entries(void **state)
{
    struct rota_blacklist blacklist = make(ROTA_SEC);
    (void)state;
    rota_blacklist_add(&blacklist, 0, 1, A, 5);
    rota_blacklist_add(&blacklist, 0, 1, B, 5);
    rota_blacklist_clear(&blacklist, 1, A);
    rota_blacklist_clear(&blacklist, 1, A);
    assert_false(rota_blacklist_has(&blacklist, 0, 1, A, 5));
    assert_true(rota_blacklist_has(&blacklist, 0, 1, B, 5));
    rota_blacklist_deinit(&blacklist);
}

static void k4_no_span_turns_it_off(void **state)
{
    struct rota_blacklist blacklist = make(0);
    (void)state;
    rota_blacklist_add(&blacklist, 0, 1, A, 5);
    assert_false(rota_blacklist_has(&blacklist, 0, 1, A, 5));
    assert_int_equal(rota_blacklist_n_shards(&blacklist), 0);
    rota_blacklist_deinit(&blacklist);
}

static void k5_k8_entry_is_for_one_shard(void **state)
{
    struct rota_blacklist blacklist = make(ROTA_SEC);
    (void)state;
    rota_blacklist_add(&blacklist, 0, 1, A, 5);
    assert_false(rota_blacklist_has(&blacklist, 0, 1, B, 5));
    assert_false(rota_blacklist_has(&blacklist, 0, 2, A, 5));
    assert_false(rota_blacklist_has(&blacklist, 0, 1, rota_str(""), 5));
    rota_blacklist_deinit(&blacklist);
}

static void k6_sweep_drops_what_has_ended_and_empty_shards(void **state)
{
    struct rota_blacklist blacklist = make(15 * ROTA_SEC);
    char name[16];
    (void)state;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "%d", i);
        rota_blacklist_add(&blacklist, i % 2 ? 10 * ROTA_SEC : 0, 1, rota_str(name), i);
    }
    assert_int_equal(rota_blacklist_deadline(&blacklist), 10 * ROTA_SEC);
    rota_blacklist_step(&blacklist, 10 * ROTA_SEC);
    assert_int_equal(rota_blacklist_n_shards(&blacklist), 1000);
    rota_blacklist_step(&blacklist, 20 * ROTA_SEC);
    assert_int_equal(rota_blacklist_n_shards(&blacklist), 500);
    assert_true(rota_blacklist_has(&blacklist, 20 * ROTA_SEC, 1, rota_str("1"), 1));
    rota_blacklist_step(&blacklist, 30 * ROTA_SEC);
    assert_int_equal(rota_blacklist_n_shards(&blacklist), 0);
    rota_blacklist_deinit(&blacklist);
}

static void k7_nothing_to_sweep_needs_no_tick(void **state)
{
    struct rota_blacklist blacklist = make(ROTA_SEC);
    (void)state;
    assert_int_equal(rota_blacklist_deadline(&blacklist), ROTA_TIME_NEVER);
    rota_blacklist_add(&blacklist, 0, 1, A, 5);
    rota_blacklist_step(&blacklist, 10 * ROTA_SEC);
    assert_int_equal(rota_blacklist_deadline(&blacklist), ROTA_TIME_NEVER);
    rota_blacklist_deinit(&blacklist);
}

static void k9_adding_again_renews(void **state)
{
    struct rota_blacklist blacklist = make(ROTA_SEC);
    (void)state;
    rota_blacklist_add(&blacklist, 0, 1, A, 5);
    rota_blacklist_add(&blacklist, ROTA_SEC / 2, 1, A, 5);
    assert_true(rota_blacklist_has(&blacklist, ROTA_SEC, 1, A, 5));
    rota_blacklist_deinit(&blacklist);
}

static void k10_ending_it_twice_is_safe_and_no_interval_means_ten_seconds(void **state)
{
    struct rota_blacklist blacklist = make(ROTA_SEC);
    (void)state;
    assert_int_equal(blacklist.sweep_every, 10 * ROTA_SEC);
    rota_blacklist_add(&blacklist, 0, 1, A, 5);
    rota_blacklist_deinit(&blacklist);
    rota_blacklist_deinit(&blacklist);
    assert_int_equal(rota_blacklist_n_shards(&blacklist), 0);
}

static void bounds_hold(void **state)
{
    struct rota_blacklist blacklist = make(ROTA_SEC);
    static char big[5000];
    (void)state;
    for (int64_t node = 0; node < 1000; node++)
        rota_blacklist_add(&blacklist, node, 1, A, node);
    assert_false(rota_blacklist_has(&blacklist, 1000, 1, A, 0)); /* the first to end made room */
    assert_true(rota_blacklist_has(&blacklist, 1000, 1, A, 999));
    rota_blacklist_add(&blacklist, 0, 1, rota_str_of(big, sizeof big), 1);
    assert_int_equal(rota_blacklist_n_shards(&blacklist), 1);
    for (int64_t id = 2; id < ROTA_BLACKLIST_SHARDS_MAX + 10; id++)
        rota_blacklist_add(&blacklist, 0, id, A, 1);
    assert_int_equal(rota_blacklist_n_shards(&blacklist), ROTA_BLACKLIST_SHARDS_MAX);
    rota_blacklist_deinit(&blacklist);
}

/* Wherever it stands, and no other entry does. */
static void entry_that_ends_first_makes_room(void **state)
{
    (void)state;
    for (int64_t first = 0; first < ROTA_BLACKLIST_NODES_MAX; first++) {
        struct rota_blacklist blacklist = make(ROTA_SEC);
        for (int64_t node = 0; node < ROTA_BLACKLIST_NODES_MAX; node++)
            rota_blacklist_add(&blacklist, 100 + node, 1, A, node);
        for (int64_t node = 0; node < ROTA_BLACKLIST_NODES_MAX; node++)
            if (node != first) /* adding again renews */
                rota_blacklist_add(&blacklist, 500, 1, A, node);
        rota_blacklist_add(&blacklist, 500, 1, A, 1000);
        for (int64_t node = 0; node < ROTA_BLACKLIST_NODES_MAX; node++)
            assert_int_equal(rota_blacklist_has(&blacklist, 500, 1, A, node), node != first);
        assert_true(rota_blacklist_has(&blacklist, 500, 1, A, 1000));
        rota_blacklist_deinit(&blacklist);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k1_k2_entry_counts_until_it_ends),
        cmocka_unit_test(k3_clearing_a_shard_forgets_its_entries),
        cmocka_unit_test(k4_no_span_turns_it_off),
        cmocka_unit_test(k5_k8_entry_is_for_one_shard),
        cmocka_unit_test(k6_sweep_drops_what_has_ended_and_empty_shards),
        cmocka_unit_test(k7_nothing_to_sweep_needs_no_tick),
        cmocka_unit_test(k9_adding_again_renews),
        cmocka_unit_test(k10_ending_it_twice_is_safe_and_no_interval_means_ten_seconds),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(entry_that_ends_first_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
