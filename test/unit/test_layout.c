#include "core/work/cluster/layout.h"

#include <rota/experimental/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct rota_spread SPREAD = {.mode = ROTA_SPREAD_SLOTS, .batch = 16};

static struct rota_work_layout laid(uint32_t wanted, uint32_t write, uint32_t read)
{
    return (struct rota_work_layout){
        .wanted = wanted, .write = write, .read = read, .spread = SPREAD};
}

/* Another number of partitions is wished. */
static struct rota_work_layout want(struct rota_work_layout layout, uint32_t wanted)
{
    const struct rota_layout_wish wish = {.wanted = wanted};
    struct rota_work_layout next;
    assert_int_equal(rota_layout_want(&layout, &wish, 1, &next, NULL), ROTA_OK);
    return next;
}

static void check(struct rota_work_layout layout, uint32_t wanted, uint32_t write, uint32_t read)
{
    assert_int_equal(layout.wanted, wanted);
    assert_int_equal(layout.write, write);
    assert_int_equal(layout.read, read);
    assert_int_equal(rota_layout_check(&layout, NULL), ROTA_OK);
}

/* A round of two nodes, at `now`; true when it made a step. */
static bool ask(struct rota_layout_fsm *fsm, rota_time now, rota_time at, uint64_t n_beyond,
                struct rota_work_layout *next)
{
    assert_true(rota_layout_fsm_ask(fsm, now, 2));
    assert_false(rota_layout_fsm_step(fsm, now, 0, next)); /* nobody has answered */
    rota_layout_fsm_answer(fsm, fsm->round, &fsm->layout, fsm->at, 0);
    rota_layout_fsm_answer(fsm, fsm->round, &fsm->layout, at, n_beyond);
    return rota_layout_fsm_step(fsm, now, 0, next);
}

static void more_are_read_first_and_then_written(void **state)
{
    struct rota_layout_fsm fsm = {0};
    struct rota_work_layout layout = want(laid(4, 4, 4), 8), next;
    (void)state;
    check(layout, 8, 4, 8);
    rota_layout_fsm_follow_layout(&fsm, 0, &layout, 100);
    assert_false(ask(&fsm, 0, 99, 0, &next)); /* one has not heard of it */
    assert_true(ask(&fsm, ROTA_LAYOUT_ASK, 100, 7, &next));
    check(next, 8, 8, 8);
    rota_layout_fsm_follow_layout(&fsm, ROTA_LAYOUT_ASK, &next, 101);
    assert_false(rota_layout_fsm_ask(&fsm, ROTA_LAYOUT_ASK, 2));
    assert_int_equal(rota_layout_fsm_deadline(&fsm), ROTA_TIME_NEVER);
}

static void fewer_are_written_first_and_read_until_all_are_empty(void **state)
{
    struct rota_layout_fsm fsm = {0};
    struct rota_work_layout layout = want(laid(8, 8, 8), 4), next;
    rota_time now = 0;
    (void)state;
    check(layout, 4, 4, 8);
    rota_layout_fsm_follow_layout(&fsm, now, &layout, 100);
    assert_false(ask(&fsm, now, 100, 1, &next)); /* a job is left */
    assert_false(ask(&fsm, now += ROTA_LAYOUT_ASK, 100, 0, &next));
    assert_false(ask(&fsm, now += ROTA_LAYOUT_ASK, 99, 0, &next)); /* one knows of nothing */
    assert_false(ask(&fsm, now += ROTA_LAYOUT_ASK, 100, 0, &next));
    assert_true(ask(&fsm, now += ROTA_LAYOUT_ASK, 100, 0, &next));
    check(next, 4, 4, 4);
}

static void our_own_jobs_count_like_those_of_others(void **state)
{
    struct rota_layout_fsm fsm = {0};
    struct rota_work_layout layout = laid(4, 4, 8), next;
    (void)state;
    rota_layout_fsm_follow_layout(&fsm, 0, &layout, 100);
    for (rota_time now = 0; now < 10 * ROTA_LAYOUT_ASK; now += ROTA_LAYOUT_ASK) {
        assert_true(rota_layout_fsm_ask(&fsm, now, 0)); /* alone */
        assert_false(rota_layout_fsm_step(&fsm, now, 1, &next));
        assert_int_equal(rota_layout_fsm_deadline(&fsm), now + ROTA_LAYOUT_ASK);
    }
}

static void a_request_between_both_counts_takes_two_steps(void **state)
{
    struct rota_layout_fsm fsm = {0};
    struct rota_work_layout layout = want(laid(4, 4, 16), 8), next;
    (void)state;
    check(layout, 8, 4, 16);
    rota_layout_fsm_follow_layout(&fsm, 0, &layout, 100);
    assert_true(ask(&fsm, 0, 100, 5, &next));
    check(next, 8, 8, 16);
    rota_layout_fsm_follow_layout(&fsm, 0, &next, 101);
    assert_false(ask(&fsm, 0, 101, 0, &next));
    assert_true(ask(&fsm, ROTA_LAYOUT_ASK, 101, 0, &next));
    check(next, 8, 8, 8);
}

static void another_request_starts_over(void **state)
{
    struct rota_layout_fsm fsm = {0};
    struct rota_work_layout layout = laid(4, 4, 8), next;
    (void)state;
    rota_layout_fsm_follow_layout(&fsm, 0, &layout, 100);
    assert_false(ask(&fsm, 0, 100, 0, &next));
    uint64_t former = fsm.round;
    rota_layout_fsm_follow_layout(&fsm, 1, &layout, 200);
    assert_true(rota_layout_fsm_ask(&fsm, 1, 1));
    rota_layout_fsm_answer(&fsm, former, &layout, 200, 0); /* comes late */
    assert_false(rota_layout_fsm_step(&fsm, 1, 0, &next));
    rota_layout_fsm_answer(&fsm, fsm.round, &layout, 200, 0);
    assert_false(rota_layout_fsm_step(&fsm, 1, 0, &next)); /* the first round of two */
}

static void layouts_that_differ_in_one_number_are_not_equal(void **state)
{
    const struct rota_spread lookup = {.mode = ROTA_SPREAD_LOOKUP, .batch = 16};
    const struct rota_spread small = {.mode = ROTA_SPREAD_SLOTS, .batch = 8};
    const struct rota_layout_change none = {0}, short_one = {lookup, 1, 2},
                                    long_one = {lookup, 1, 3}, late_one = {lookup, 2, 3};
    const struct rota_work_layout all[] = {
        {4, 2, 8, lookup, none},     {4, 4, 4, small, none},  {4, 4, 8, small, none},
        {4, 4, 8, lookup, none},     {4, 4, 8, SPREAD, none}, {4, 4, 8, SPREAD, short_one},
        {4, 4, 8, SPREAD, long_one}, {8, 4, 8, small, none},  {4, 4, 8, SPREAD, late_one}};
    const size_t n = sizeof all / sizeof *all;
    (void)state;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            assert_int_equal(rota_layout_is_equal(&all[i], &all[j]), i == j);
}

static void a_node_with_another_layout_of_the_same_time_does_not_know_ours(void **state)
{
    struct rota_layout_fsm fsm = {0};
    struct rota_work_layout layout = laid(8, 4, 8), other = laid(8, 4, 16), next;
    (void)state;
    rota_layout_fsm_follow_layout(&fsm, 0, &layout, 100);
    assert_true(rota_layout_fsm_ask(&fsm, 0, 1));
    rota_layout_fsm_answer(&fsm, fsm.round, &other, 100, 0);
    assert_false(rota_layout_fsm_step(&fsm, 0, 0, &next));
    assert_true(rota_layout_fsm_ask(&fsm, ROTA_LAYOUT_ASK, 1));
    rota_layout_fsm_answer(&fsm, fsm.round, &layout, 100, 0);
    assert_true(rota_layout_fsm_step(&fsm, ROTA_LAYOUT_ASK, 0, &next));
}

static void a_former_leader_stops_and_starts_over(void **state)
{
    struct rota_layout_fsm fsm = {0};
    struct rota_work_layout layout = laid(4, 4, 8), next;
    (void)state;
    rota_layout_fsm_follow_layout(&fsm, 0, &layout, 100);
    assert_false(ask(&fsm, 0, 100, 0, &next)); /* one round of two */
    uint64_t round = fsm.round;
    rota_layout_fsm_rest(&fsm);
    assert_int_equal(rota_layout_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    rota_layout_fsm_follow_layout(&fsm, ROTA_LAYOUT_ASK, &layout, 100);
    assert_false(ask(&fsm, ROTA_LAYOUT_ASK, 100, 0, &next)); /* the first once more */
    assert_true(fsm.round > round);
    assert_true(ask(&fsm, 2 * ROTA_LAYOUT_ASK, 100, 0, &next));
    check(next, 4, 4, 4);
}

static void every_number_has_a_place(void **state)
{
    struct rota_work_layout layout = laid(4, 4, 6);
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(rota_layout_write(&layout, i) < 4);
        assert_true(rota_layout_read(&layout, i) < 6);
        assert_true(i >= 4 || rota_layout_write(&layout, i) == i);
        assert_true(i >= 6 || rota_layout_read(&layout, i) == i);
    }
}

static struct rota_work_layout changing(rota_time start, rota_time end)
{
    struct rota_work_layout layout = laid(4, 4, 4);
    layout.change = (struct rota_layout_change){{ROTA_SPREAD_LOOKUP, 4}, start, end};
    return layout;
}

static void invalid_values_are_refused(void **state)
{
    const struct rota_work_layout BAD[] = {
        laid(0, 0, 0),
        laid(4, 5, 5),
        laid(6, 5, 5),
        laid(5, 5, 4),
        laid(1, 1, 65537),
        {.wanted = 1, .write = 1, .read = 1, .spread = {9, 1}},
        changing(5, 5),
        changing(6, 5),
        changing(0, 5),
        changing(5, 0),
        changing(-5, 5),
        changing(5, 6 + ROTA_LAYOUT_CHANGE_MAX),
        {.wanted = 1, .write = 1, .read = 1, .change = {{9, 1}, 5, 6}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(rota_layout_check(&BAD[i], NULL), ROTA_ERR_INVALID);
}

/* --- gradual changes --- */

#define START (1000 * ROTA_SEC)
static const struct rota_spread LOOKUP = {.mode = ROTA_SPREAD_LOOKUP, .batch = 4};

/* SPREAD becomes LOOKUP from START on, within ten seconds. */
static struct rota_work_layout begin_change(uint32_t n)
{
    const struct rota_layout_wish wish = {
        .has_spread = true, .spread = LOOKUP, .gradual = 10 * ROTA_SEC};
    struct rota_work_layout layout = laid(n, n, n), next;
    assert_int_equal(rota_layout_want(&layout, &wish, START, &next, NULL), ROTA_OK);
    return next;
}

static void a_gradual_change_is_part_of_the_layout(void **state)
{
    struct rota_work_layout layout = begin_change(8);
    (void)state;
    check(layout, 8, 8, 8);
    assert_int_equal(layout.spread.batch, 4);
    assert_int_equal(layout.change.from.batch, 16);
    assert_int_equal(layout.change.start, START);
    assert_int_equal(layout.change.end, START + 10 * ROTA_SEC);
    assert_true(rota_layout_is_changing(&layout, START));
    assert_true(rota_layout_is_changing(&layout, layout.change.end - 1));
    assert_false(rota_layout_is_changing(&layout, layout.change.end));
}

static void another_number_of_partitions_leaves_a_change_alone(void **state)
{
    struct rota_work_layout layout = begin_change(8), more = want(layout, 12);
    (void)state;
    check(more, 12, 8, 12);
    assert_int_equal(more.change.end, layout.change.end);
}

static void a_repeated_request_continues_the_change(void **state)
{
    const struct rota_layout_wish wish = {
        .has_spread = true, .spread = LOOKUP, .gradual = 20 * ROTA_SEC};
    struct rota_work_layout layout = begin_change(8), next;
    (void)state;
    assert_int_equal(rota_layout_want(&layout, &wish, START + 1, &next, NULL), ROTA_OK);
    assert_true(rota_layout_is_equal(&layout, &next));
}

static void a_second_change_waits_for_the_first(void **state)
{
    const struct rota_layout_wish back = {
        .has_spread = true, .spread = SPREAD, .gradual = 10 * ROTA_SEC};
    struct rota_work_layout layout = begin_change(8), next;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_layout_want(&layout, &back, START + 4 * ROTA_SEC, &next, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "batch 4 and mode lookup takes 7 more seconds"));
    assert_int_equal(rota_layout_want(&layout, &back, layout.change.end, &next, &error), ROTA_OK);
    assert_int_equal(next.change.from.batch, 4);
    assert_int_equal(next.change.start, layout.change.end);
}

static void an_immediate_change_ends_one_in_progress(void **state)
{
    struct rota_layout_wish wish = {.has_spread = true, .spread = SPREAD};
    struct rota_work_layout layout = begin_change(8), usual = laid(8, 8, 8), next;
    (void)state;
    assert_int_equal(rota_layout_want(&layout, &wish, START + 1, &next, NULL), ROTA_OK);
    assert_true(rota_layout_is_equal(&next, &usual));
    wish.spread = LOOKUP; /* also to where it goes anyway */
    assert_int_equal(rota_layout_want(&layout, &wish, START + 1, &next, NULL), ROTA_OK);
    assert_false(rota_layout_is_changing(&next, START + 1));
    assert_int_equal(next.spread.batch, 4);
}

static void an_impossible_request_changes_nothing(void **state)
{
    const struct rota_layout_wish bad[] = {
        {.wanted = 65537},
        {.has_spread = true, .spread = {.batch = 1 << 20}},
        {.has_spread = true, .spread = LOOKUP, .gradual = ROTA_LAYOUT_CHANGE_MAX + 1}};
    struct rota_work_layout layout = laid(8, 8, 8), next = laid(1, 1, 1);
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(rota_layout_want(&layout, &bad[i], START, &next, NULL), ROTA_ERR_INVALID);
        check(next, 1, 1, 1);
    }
}

/* As the route of either spread says, before and behind the instant of each partition. */
static void a_partition_is_routed_by_its_own_instant(void **state)
{
    enum { N = 40 };
    struct rota_work_layout layout = begin_change(N);
    const struct rota_gradual change = {0, 1, layout.change.start, layout.change.end};
    struct rota_ring_host hosts[5];
    const char *const names[] = {"a:1", "b:1", "c:1", "d:1", "e:1"};
    struct rota_partition one = rota_layout_partition(rota_str("q"), 0);
    uint32_t before[N], after[N], now[N];
    struct rota_ring *ring;
    (void)state;
    for (size_t i = 0; i < 5; i++)
        hosts[i] = (struct rota_ring_host){.address = rota_str(names[i])};
    assert_int_equal(rota_ring_new(hosts, 5, 0, &ring, NULL), ROTA_OK);
    rota_route_all(ring, &one, SPREAD, N, before);
    rota_route_all(ring, &one, LOOKUP, N, after);
    for (rota_time at = START - ROTA_SEC; at < START + 12 * ROTA_SEC; at += 250 * ROTA_MSEC) {
        rota_layout_route(&layout, ring, rota_str("q"), at, N, now);
        for (uint32_t i = 0; i < N; i++) {
            struct rota_route_key key;
            one.id = i;
            rota_partition_route_key(&one, 0, &key);
            bool is_new = at >= rota_gradual_when(&change, rota_str_of(key.text, key.size));
            assert_int_equal(now[i], is_new ? after[i] : before[i]);
        }
    }
    rota_ring_unref(ring);
}

/* --- a small world --- */

/* Three nodes: the first leads. Each writes to partitions as it knows them, and hands out what it
 * has in those that it reads; a job may move once to another node. Nodes are asked one by one,
 * and may be silent. */
enum { NODES = 3, PARTITIONS = 12, TURNS = 3000 };
enum plant { NONE, READ_AT_ONCE, WRITE_AT_ONCE, ASK_ONCE, ASK_SOME, PLANTS };

struct world {
    enum plant plant;
    struct rota_random random;
    rota_time now, at[NODES];
    struct rota_work_layout known[NODES];
    struct rota_layout_fsm fsm;
    size_t n_asked; /* of the round that is in flight */
    unsigned jobs[NODES][PARTITIONS], moved[NODES][PARTITIONS];
};

static uint32_t chance(struct world *world, uint32_t n)
{
    return (uint32_t)(rota_random_next(&world->random) % n);
}

static uint64_t n_beyond(const struct world *world, size_t node)
{
    uint64_t n = 0;
    for (uint32_t i = world->known[node].write; i < PARTITIONS; i++)
        n += world->jobs[node][i] + world->moved[node][i];
    return n;
}

static void put_in_force(struct world *world, struct rota_work_layout layout, rota_time at)
{
    if (world->plant == READ_AT_ONCE && layout.read > layout.wanted)
        layout.read = layout.wanted;
    if (world->plant == WRITE_AT_ONCE)
        layout.write = layout.wanted;
    world->known[0] = layout;
    world->at[0] = at;
    rota_layout_fsm_follow_layout(&world->fsm, world->now, &layout, at);
    world->n_asked = NODES;
}

static void lead(struct world *world)
{
    struct rota_work_layout next;
    struct rota_layout_fsm *fsm = &world->fsm;
    if (rota_layout_fsm_ask(fsm, world->now, NODES - 1))
        world->n_asked = 1;
    if (fsm->is_asking && world->n_asked < NODES && chance(world, 2)) {
        size_t node = world->n_asked++;
        bool is_silent = chance(world, 8) == 0;
        if (!is_silent && world->at[0] > world->at[node]) {
            world->known[node] = world->known[0];
            world->at[node] = world->at[0];
        }
        if (world->plant == ASK_SOME && is_silent)
            rota_layout_fsm_answer(fsm, fsm->round, &fsm->layout, fsm->at, 0);
        else
            rota_layout_fsm_answer(fsm, fsm->round, is_silent ? NULL : &world->known[node],
                                   world->at[node], n_beyond(world, node));
    }
    if (world->plant == ASK_ONCE && fsm->n_rounds == 0)
        fsm->n_rounds = ROTA_LAYOUT_ROUNDS - 1;
    if (rota_layout_fsm_step(fsm, world->now, n_beyond(world, 0), &next))
        put_in_force(world, next, world->at[0] + 1);
}

/* Each owner of a partition is one of the nodes, as all of them say. */
static void live(struct world *world)
{
    size_t node = chance(world, NODES), other = chance(world, NODES);
    uint32_t partition = chance(world, PARTITIONS);
    switch (chance(world, 4)) {
    case 0:
        partition = chance(world, world->known[node].write);
        world->jobs[partition % NODES][partition]++;
        break;
    case 1: /* the route has changed */
        if (world->jobs[node][partition] > 0 && partition < world->known[other].read) {
            world->jobs[node][partition]--;
            world->moved[other][partition]++;
        }
        break;
    default:
        if (partition >= world->known[node].read)
            break;
        if (world->jobs[node][partition] > 0)
            world->jobs[node][partition]--;
        if (world->moved[node][partition] > 0)
            world->moved[node][partition]--;
    }
}

static bool is_out_of_reach(const struct world *world)
{
    for (size_t node = 0; node < NODES; node++)
        for (uint32_t i = world->known[node].read; i < PARTITIONS; i++)
            if (world->jobs[node][i] + world->moved[node][i] > 0)
                return true;
    return false;
}

/* True when a job was where nobody looks. */
static bool run(uint64_t seed, enum plant plant)
{
    struct world world = {.plant = plant};
    unsigned n_settled = 0;
    rota_random_init(&world.random, seed);
    for (size_t i = 0; i < NODES; i++) {
        world.known[i] = laid(6, 6, 6);
        world.at[i] = 1;
    }
    rota_layout_fsm_follow_layout(&world.fsm, 0, &world.known[0], 1);
    for (int i = 0; i < TURNS; i++, world.now += ROTA_LAYOUT_ASK / 8) {
        bool is_settled = rota_layout_is_settled(&world.known[0]);
        n_settled += is_settled;
        if ((is_settled && chance(&world, 20) == 0) || chance(&world, 400) == 0)
            put_in_force(&world, want(world.known[0], 1 + chance(&world, PARTITIONS)),
                         world.at[0] + ROTA_SEC);
        lead(&world);
        live(&world);
        if (is_out_of_reach(&world))
            return true;
    }
    assert_true(n_settled > 0); /* it gets on */
    return false;
}

static void every_job_is_in_a_partition_that_is_read(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        if (run(seed, NONE))
            fail_msg("seed %llu", (unsigned long long)seed);
}

static void every_planted_bug_is_caught(void **state)
{
    (void)state;
    for (int plant = NONE + 1; plant < PLANTS; plant++) {
        bool is_caught = false;
        for (uint64_t seed = 1; seed <= 300 && !is_caught; seed++)
            is_caught = run(seed, (enum plant)plant);
        if (!is_caught)
            fail_msg("plant %d is not caught", plant);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_are_read_first_and_then_written),
        cmocka_unit_test(fewer_are_written_first_and_read_until_all_are_empty),
        cmocka_unit_test(our_own_jobs_count_like_those_of_others),
        cmocka_unit_test(a_request_between_both_counts_takes_two_steps),
        cmocka_unit_test(another_request_starts_over),
        cmocka_unit_test(layouts_that_differ_in_one_number_are_not_equal),
        cmocka_unit_test(a_node_with_another_layout_of_the_same_time_does_not_know_ours),
        cmocka_unit_test(a_former_leader_stops_and_starts_over),
        cmocka_unit_test(every_number_has_a_place),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(a_gradual_change_is_part_of_the_layout),
        cmocka_unit_test(another_number_of_partitions_leaves_a_change_alone),
        cmocka_unit_test(a_repeated_request_continues_the_change),
        cmocka_unit_test(a_second_change_waits_for_the_first),
        cmocka_unit_test(an_immediate_change_ends_one_in_progress),
        cmocka_unit_test(an_impossible_request_changes_nothing),
        cmocka_unit_test(a_partition_is_routed_by_its_own_instant),
        cmocka_unit_test(every_job_is_in_a_partition_that_is_read),
        cmocka_unit_test(every_planted_bug_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
