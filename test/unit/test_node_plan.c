#include "node/rules/node_plan_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1000 };

static uint32_t before[N], after[N];
static bool is_pinned[N];

#define HOST(text, was, will)                                                                      \
    {                                                                                              \
        .name = rota_str(text), .weight_before = (was), .weight_after = (will), .has_queues = true \
    }

static int begin(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++)
        is_pinned[i] = false;
    return 0;
}

static void place(enum rota_view_engine engine, struct rota_node_plan_host *hosts, size_t n)
{
    assert_int_equal(rota_node_plan_rules_place(rota_str("orders"), engine, hosts, n, before,
                                                is_pinned, N, after, NULL),
                     ROTA_OK);
}

/* As the ring has them when all of `hosts` are there as they were. */
static void place_before(struct rota_node_plan_host *hosts, size_t n)
{
    struct rota_node_plan_host were[8];
    for (size_t i = 0; i < n; i++) {
        were[i] = hosts[i];
        were[i].weight_after = were[i].weight_before;
    }
    assert_int_equal(rota_node_plan_rules_place(rota_str("orders"), ROTA_VIEW_RING, were, n, before,
                                                is_pinned, N, before, NULL),
                     ROTA_OK);
}

static void a_ring_moves_only_what_has_to(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1000, 1000), HOST("b:1", 1000, 1000),
                                          HOST("c:1", 1000, 0), HOST("d:1", 0, 1000)};
    (void)state;
    place_before(hosts, 4);
    place(ROTA_VIEW_RING, hosts, 4);
    struct rota_node_plan_count count = rota_node_plan_rules_count(hosts, 4, before, N, after, N);
    uint64_t moves = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(after[i] != 2);
        if (before[i] != after[i])
            moves++;
        if (before[i] != after[i] && before[i] != 2)
            assert_int_equal(after[i], 3); /* those that stay get nothing from each other */
    }
    assert_int_equal(count.moves, moves);
    assert_int_equal(count.lost, 0);
    assert_true(count.minimum >= hosts[2].n_before && count.minimum <= moves);
    assert_true(hosts[3].n_after > N / 6); /* although the host before it goes */
    assert_int_equal(hosts[0].n_after + hosts[1].n_after + hosts[3].n_after, N);
}

static void pinned_shards_stay_while_their_host_does(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1000, 1000), HOST("b:1", 1000, 0)};
    (void)state;
    place_before(hosts, 2);
    for (size_t i = 0; i < N; i++)
        is_pinned[i] = true;
    place(ROTA_VIEW_RING, hosts, 2);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(after[i], 0); /* b has gone, pinned or not */
    hosts[1].weight_after = 500;
    place(ROTA_VIEW_RING, hosts, 2);
    assert_memory_equal(before, after, sizeof before);
}

static void static_shards_of_a_removed_host_are_lost(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1000, 1000), HOST("b:1", 1000, 0)};
    (void)state;
    for (size_t i = 0; i < N; i++)
        before[i] = i % 2;
    place(ROTA_VIEW_STATIC, hosts, 2);
    struct rota_node_plan_count count = rota_node_plan_rules_count(hosts, 2, before, N, after, N);
    assert_int_equal(count.lost, N / 2);
    assert_int_equal(count.moves, 0);
    assert_int_equal(hosts[1].n_after, 0);
}

static void leases_of_a_removed_host_are_shared_out(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1000, 1000), HOST("b:1", 1000, 0),
                                          HOST("c:1", 1000, 1000)};
    (void)state;
    for (size_t i = 0; i < N; i++)
        before[i] = i < N / 2 ? 0 : 1;
    place(ROTA_VIEW_LEASE, hosts, 3);
    struct rota_node_plan_count count = rota_node_plan_rules_count(hosts, 3, before, N, after, N);
    assert_int_equal(count.moves, N / 2);
    assert_int_equal(hosts[0].n_after, N / 2);
    assert_int_equal(hosts[2].n_after, N / 2);
}

static void route(const struct rota_node_plan_host *hosts, size_t n, bool is_after,
                  struct rota_spread spread, uint32_t n_partitions, uint32_t *owners)
{
    struct rota_node_plan_ring ring;
    assert_int_equal(rota_node_plan_rules_ring_init(&ring, hosts, n, is_after, NULL), ROTA_OK);
    const struct rota_work_layout layout = {.spread = spread};
    rota_node_plan_rules_route(&ring, rota_str("mail"), &layout, 0, n_partitions, owners);
    rota_node_plan_rules_ring_deinit(&ring);
}

static void partitions_follow_the_hosts_that_have_queues(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1000, 1000), HOST("b:1", 1000, 0),
                                          HOST("c:1", 1000, 1000)};
    struct rota_spread spread = {.mode = ROTA_SPREAD_SLOTS, .batch = 8};
    (void)state;
    hosts[2].has_queues = false;
    route(hosts, 3, false, spread, 16, before);
    route(hosts, 3, true, spread, 24, after);
    struct rota_node_plan_count count = rota_node_plan_rules_count(hosts, 3, before, 16, after, 24);
    assert_int_equal(hosts[0].n_before + hosts[1].n_before, 16);
    assert_true(hosts[1].n_before > 0);
    assert_int_equal(hosts[0].n_after, 24); /* eight are new, and move from nowhere */
    assert_int_equal(count.moves, hosts[1].n_before);
}

static void leases_are_shared_out_evenly_among_uneven_hosts(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1000, 1000), HOST("b:1", 1000, 1000),
                                          HOST("c:1", 0, 1000)};
    (void)state;
    for (size_t i = 0; i < N; i++)
        before[i] = i < 100 ? 0 : i < 300 ? 1 : ROTA_NODE_PLAN_NOBODY;
    place(ROTA_VIEW_LEASE, hosts, 3);
    rota_node_plan_rules_count(hosts, 3, before, N, after, N);
    assert_int_equal(hosts[0].n_after, 334); /* the first of those with the fewest takes one more */
    assert_int_equal(hosts[1].n_after, 333);
    assert_int_equal(hosts[2].n_after, 333);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(after[i], before[i]);
}

static void cost_grows_with_weights_spaces_and_shards(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1000, 1000), HOST("b:1", 0, 100000)};
    (void)state;
    struct rota_node_plan_size size = {.n_shards = 7};
    assert_int_equal(rota_node_plan_rules_cost(hosts, 2, size), 7);
    size.n_ring_spaces = 3;
    assert_int_equal(rota_node_plan_rules_cost(hosts, 2, size), 3 * 10100 + 7);
    size.n_queues = 1;
    assert_int_equal(rota_node_plan_rules_cost(hosts, 2, size), 3 * 10100 + 10100 + 100 + 7);
    size.n_queues = 1000; /* they share both rings */
    assert_int_equal(rota_node_plan_rules_cost(hosts, 2, size), 3 * 10100 + 10100 + 100 + 7);
}

static void a_large_plan_needs_the_token_and_a_larger_one_is_refused(void **state)
{
    (void)state;
    assert_int_equal(rota_node_plan_rules_judge(ROTA_NODE_PLAN_COST_OPEN, false),
                     ROTA_NODE_PLAN_FITS);
    assert_int_equal(rota_node_plan_rules_judge(ROTA_NODE_PLAN_COST_OPEN + 1, false),
                     ROTA_NODE_PLAN_NEEDS_TOKEN);
    assert_int_equal(rota_node_plan_rules_judge(ROTA_NODE_PLAN_COST_OPEN + 1, true),
                     ROTA_NODE_PLAN_FITS);
    assert_int_equal(rota_node_plan_rules_judge(ROTA_NODE_PLAN_COST_MAX, true),
                     ROTA_NODE_PLAN_FITS);
    assert_int_equal(rota_node_plan_rules_judge(ROTA_NODE_PLAN_COST_MAX + 1, true),
                     ROTA_NODE_PLAN_TOO_LARGE);
}

static void minimum_moves_are_what_leaves_or_what_others_gain(void **state)
{
    static const struct {
        uint32_t was[3], will[3];
        uint64_t minimum;
    } CASES[] = {
        {{100, 100, 0}, {100, 100, 0}, 0},    {{100, 100, 0}, {100, 100, 100}, 20},
        {{100, 100, 100}, {100, 100, 0}, 20}, /* a third of 60 leaves, and is gained */
        {{300, 100, 0}, {100, 100, 0}, 15},   {{100, 300, 0}, {0, 300, 0}, 20},
        {{0, 0, 0}, {100, 0, 0}, 20},         {{1, 0, 0}, {0, 0, 0}, 60},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rota_node_plan_host hosts[] = {HOST("a:1", CASES[i].was[0], CASES[i].will[0]),
                                              HOST("b:1", CASES[i].was[1], CASES[i].will[1]),
                                              HOST("c:1", CASES[i].was[2], CASES[i].will[2])};
        for (uint32_t k = 0; k < 60; k++)
            before[k] = after[k] = k % 3;
        struct rota_node_plan_count count =
            rota_node_plan_rules_count(hosts, 3, before, 60, after, 60);
        uint64_t leaving = 0;
        for (size_t k = 0; k < 3; k++)
            leaving += CASES[i].will[k] == 0 ? 20 : 0;
        assert_int_equal(count.minimum, leaving > CASES[i].minimum ? leaving : CASES[i].minimum);
        assert_int_equal(count.moves, 0);
        assert_int_equal(count.lost, 0);
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(hosts[k].n_before, 20);
            assert_int_equal(hosts[k].n_after, 20);
        }
    }
}

static void shards_without_an_owner_are_counted_where_they_are(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 1, 1), HOST("b:1", 1, 1)};
    const uint32_t was[] = {0, 0, 1, ROTA_NODE_PLAN_NOBODY, 1, 0};
    const uint32_t will[] = {0, 1, ROTA_NODE_PLAN_NOBODY, 0};
    (void)state;
    struct rota_node_plan_count count = rota_node_plan_rules_count(hosts, 2, was, 6, will, 4);
    assert_int_equal(count.moves, 1);
    assert_int_equal(count.lost, 1);
    assert_int_equal(hosts[0].n_before, 3);
    assert_int_equal(hosts[1].n_before, 2);
    assert_int_equal(hosts[0].n_after, 2);
    assert_int_equal(hosts[1].n_after, 1);
}

static void cost_of_no_host_and_of_parts_of_a_weight(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 15, 25)};
    const struct rota_node_plan_size size = {.n_ring_spaces = 1, .n_queues = 1};
    (void)state;
    assert_int_equal(rota_node_plan_rules_cost(hosts, 0, size), 0);
    assert_int_equal(rota_node_plan_rules_cost(hosts, 1, size), 2 + 1 + 2);
}

/* The view bounds weights; a plan does, too. */
static void weight_is_bounded_as_in_a_view(void **state)
{
    struct rota_node_plan_host hosts[] = {HOST("a:1", 0, ROTA_VIEW_WEIGHT_MAX),
                                          HOST("b:1", 0, ROTA_VIEW_WEIGHT_MAX)};
    static uint32_t bounded[N];
    (void)state;
    for (size_t i = 0; i < N; i++)
        before[i] = ROTA_NODE_PLAN_NOBODY;
    place(ROTA_VIEW_RING, hosts, 2);
    memcpy(bounded, after, sizeof bounded);
    hosts[1].weight_after = 2 * ROTA_VIEW_WEIGHT_MAX;
    place(ROTA_VIEW_RING, hosts, 2);
    assert_memory_equal(bounded, after, sizeof bounded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_ring_moves_only_what_has_to, begin),
        cmocka_unit_test_setup(pinned_shards_stay_while_their_host_does, begin),
        cmocka_unit_test_setup(static_shards_of_a_removed_host_are_lost, begin),
        cmocka_unit_test_setup(leases_of_a_removed_host_are_shared_out, begin),
        cmocka_unit_test_setup(partitions_follow_the_hosts_that_have_queues, begin),
        cmocka_unit_test_setup(leases_are_shared_out_evenly_among_uneven_hosts, begin),
        cmocka_unit_test(cost_grows_with_weights_spaces_and_shards),
        cmocka_unit_test(a_large_plan_needs_the_token_and_a_larger_one_is_refused),
        cmocka_unit_test(minimum_moves_are_what_leaves_or_what_others_gain),
        cmocka_unit_test(shards_without_an_owner_are_counted_where_they_are),
        cmocka_unit_test(cost_of_no_host_and_of_parts_of_a_weight),
        cmocka_unit_test(weight_is_bounded_as_in_a_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
