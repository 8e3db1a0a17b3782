#include "core/place/slots.h"

#include "movement.h"
#include <rota/experimental/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { QUEUES = 2000 };

static const struct rota_spread SLOTS_8 = {ROTA_SPREAD_SLOTS, 8};
static const struct rota_spread SLOTS_32 = {ROTA_SPREAD_SLOTS, 32};

static void check_movement(struct rota_spread spread, uint32_t n_hosts, double at_most)
{
    struct movement m = movement_measure(spread, n_hosts, QUEUES);
    if (m.ratio > at_most || !m.is_distinct)
        fail_msg("%u -> %u hosts, batch %u: moves %.2f x the minimum, %.2f allowed", n_hosts,
                 n_hosts + 1, spread.batch, m.ratio, at_most);
}

static void with_hosts_to_spare_movement_is_near_the_minimum(void **state)
{
    (void)state;
    check_movement(SLOTS_8, 20, 1.25);
    check_movement(SLOTS_8, 30, 1.25);
    check_movement(SLOTS_8, 100, 1.25);
    check_movement(SLOTS_32, 80, 1.25);
    check_movement(SLOTS_32, 100, 1.25);
}

/* A host that leaves n + 1 hosts moves what one that joins n does. The matching
 * is tightest between one host fewer than slots and as many. */
static void with_few_hosts_movement_stays_small(void **state)
{
    (void)state;
    for (uint32_t n_hosts = 2; n_hosts <= 12; n_hosts++)
        check_movement(SLOTS_8, n_hosts, n_hosts == 7 ? 1.9 : 1.6);
    check_movement(SLOTS_32, 31, 2.6);
    check_movement(SLOTS_32, 32, 2.2);
}

static void going_from_three_to_four_hosts_moves_a_third(void **state)
{
    (void)state;
    struct rota_spread lookup = {ROTA_SPREAD_LOOKUP, 8};
    double slots_moved = movement_measure(SLOTS_8, 3, QUEUES).moved;
    assert_true(slots_moved > 0.25 && slots_moved < 0.37);
    assert_true(movement_measure(lookup, 3, QUEUES).moved > 0.75);
}

static void load_is_as_even_as_with_lookup_to_half_a_percent(void **state)
{
    (void)state;
    /* On average slots is evener. With few hosts both are within half a percent, and which of
     * the two is ahead differs from one set of addresses to the next. */
    const double slack = 0.005;
    static const uint32_t HOSTS[] = {3, 5, 10, 20, 50, 100};
    for (size_t i = 0; i < sizeof HOSTS / sizeof *HOSTS; i++) {
        for (uint32_t batch = 8; batch <= 32; batch += 24) {
            struct rota_spread slots = {ROTA_SPREAD_SLOTS, batch};
            struct rota_spread lookup = {ROTA_SPREAD_LOOKUP, batch};
            double ours = movement_measure(slots, HOSTS[i], QUEUES).unevenness;
            double theirs = movement_measure(lookup, HOSTS[i], QUEUES).unevenness;
            if (ours > theirs + slack)
                fail_msg("%u hosts, batch %u: unevenness %.4f, lookup has %.4f", HOSTS[i], batch,
                         ours, theirs);
        }
    }
}

/* A random cluster, with or without weights. */
static struct rota_ring *random_ring(struct rota_random *random, uint32_t n_hosts, bool is_weighted)
{
    struct rota_ring_host hosts[64] = {0};
    char names[64][24];
    struct rota_ring *ring;
    for (uint32_t i = 0; i < n_hosts; i++) {
        snprintf(names[i], sizeof names[i], "h%llu:1",
                 (unsigned long long)rota_random_next(random) % 1000000000);
        hosts[i].address = rota_str(names[i]);
        if (is_weighted)
            hosts[i].weight = (uint32_t)rota_random_range(random, 100, 4000);
    }
    assert_int_equal(rota_ring_new(hosts, n_hosts, 0, &ring, NULL), ROTA_OK);
    return ring;
}

static void one_slot_is_answered_as_in_the_whole_batch(void **state)
{
    struct rota_random random;
    uint32_t hosts[ROTA_BATCH_MAX];
    (void)state;
    rota_random_init(&random, 3);
    for (int round = 0; round < 300; round++) {
        uint32_t batch = 1 + (uint32_t)rota_random_below(&random, 40);
        struct rota_ring *ring = random_ring(&random, 1 + (uint32_t)rota_random_below(&random, 64),
                                             rota_random_chance(&random, 0.5));
        uint32_t hash = (uint32_t)rota_random_next(&random);
        rota_slots_match(ring, hash, batch, hosts);
        for (uint32_t slot = 0; slot < batch; slot++)
            assert_int_equal(rota_slots_host(ring, hash, batch, slot), hosts[slot]);
        rota_ring_unref(ring);
    }
}

static void no_host_holds_more_than_its_share(void **state)
{
    struct rota_random random;
    uint32_t hosts[ROTA_BATCH_MAX];
    (void)state;
    rota_random_init(&random, 4);
    for (int round = 0; round < 1000; round++) {
        bool is_weighted = round % 2;
        uint32_t n_hosts = 1 + (uint32_t)rota_random_below(&random, 64);
        uint32_t batch = 1 + (uint32_t)rota_random_below(&random, 2 * n_hosts + 3), held[64] = {0};
        struct rota_ring *ring = random_ring(&random, n_hosts, is_weighted);
        rota_slots_match(ring, (uint32_t)rota_random_next(&random), batch, hosts);
        for (uint32_t slot = 0; slot < batch; slot++)
            held[hosts[slot]]++;

        uint64_t total_weight = 0;
        for (uint32_t i = 0; i < n_hosts; i++)
            total_weight += rota_ring_host(ring, i).weight;
        for (uint32_t i = 0; i < n_hosts; i++) {
            uint64_t weight = rota_ring_host(ring, i).weight;
            uint64_t most = (batch * weight + total_weight - 1) / total_weight + is_weighted;
            assert_true(held[i] <= (batch <= n_hosts ? 1 : most));
            if (!is_weighted)
                assert_true(held[i] >= batch / n_hosts);
        }
        rota_ring_unref(ring);
    }
}

static void crowded_load_follows_the_weights(void **state)
{
    enum { HOSTS = 6, BATCH = 8, QUEUES_HERE = 4000 };
    struct rota_ring_host hosts[HOSTS] = {0};
    static const char *const NAMES[HOSTS] = {"a:1", "b:1", "c:1", "d:1", "e:1", "f:1"};
    size_t load[HOSTS] = {0};
    struct rota_ring *ring;
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 6);
    for (int i = 0; i < HOSTS; i++)
        hosts[i].address = rota_str(NAMES[i]);
    hosts[5].weight = 2 * ROTA_WEIGHT_ONE;
    assert_int_equal(rota_ring_new(hosts, HOSTS, 0, &ring, NULL), ROTA_OK);
    for (int queue = 0; queue < QUEUES_HERE; queue++) {
        uint32_t owners[BATCH];
        rota_slots_match(ring, (uint32_t)rota_random_next(&random), BATCH, owners);
        for (int slot = 0; slot < BATCH; slot++)
            load[owners[slot]]++;
    }
    double fair = (double)QUEUES_HERE * BATCH / 7;
    for (int i = 0; i < HOSTS; i++) {
        double share = (double)load[i] / (i == 5 ? 2 * fair : fair);
        if (share < 0.93 || share > 1.07)
            fail_msg("host %s has %.2f of its share", NAMES[i], share);
    }
    rota_ring_unref(ring);
}

/* The largest batch on the smallest ring, and on a single host. */
static void extremes_end(void **state)
{
    struct rota_random random;
    uint32_t hosts[ROTA_BATCH_MAX];
    (void)state;
    rota_random_init(&random, 5);
    for (uint32_t n_hosts = 1; n_hosts <= 2; n_hosts++) {
        struct rota_ring *ring = random_ring(&random, n_hosts, false);
        uint32_t first = 0;
        rota_slots_match(ring, 1, ROTA_BATCH_MAX, hosts);
        for (uint32_t slot = 0; slot < ROTA_BATCH_MAX; slot++)
            first += hosts[slot] == 0;
        assert_int_equal(first, ROTA_BATCH_MAX / n_hosts);
        rota_ring_unref(ring);
    }
}

/* Placement is a promise to clients of other versions: these never change. */
static void placement_is_pinned(void **state)
{
    static const uint32_t PINNED[8] = {2, 9, 3, 5, 6, 7, 1, 4};
    uint32_t hosts[8];
    (void)state;
    struct rota_ring *ring = movement_ring(0, 10);
    rota_slots_match(ring, rota_ring_hash(rota_str("default:orders:1")), 8, hosts);
    for (int i = 0; i < 8; i++)
        assert_int_equal(hosts[i], PINNED[i]);
    rota_ring_unref(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_hosts_to_spare_movement_is_near_the_minimum),
        cmocka_unit_test(with_few_hosts_movement_stays_small),
        cmocka_unit_test(going_from_three_to_four_hosts_moves_a_third),
        cmocka_unit_test(load_is_as_even_as_with_lookup_to_half_a_percent),
        cmocka_unit_test(one_slot_is_answered_as_in_the_whole_batch),
        cmocka_unit_test(no_host_holds_more_than_its_share),
        cmocka_unit_test(crowded_load_follows_the_weights),
        cmocka_unit_test(extremes_end),
        cmocka_unit_test(placement_is_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
