#include <rota/experimental/plan.h>

#include <math.h>
#include <rota/experimental/gradual.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_HOSTS_MAX = 16, N_QUEUES = 5, N_PARTITIONS_MAX = 200 };

/* The moves of a plan as they were told, to be compared with routes made one
 * by one. */
struct told {
    struct rota_plan *plan;
    struct rota_plan_move moves[N_QUEUES * N_PARTITIONS_MAX];
    char queues[N_QUEUES * N_PARTITIONS_MAX][16];
    size_t n;
};

static void on_move(void *data, const struct rota_plan_move *move)
{
    struct told *told = data;
    snprintf(told->queues[told->n], sizeof told->queues[0], "%.*s",
             ROTA_STR_ARGS(move->space->queue));
    told->moves[told->n++] = *move;
}

static const char *const ADDRESSES[N_HOSTS_MAX] = {
    "10.0.0.1:7000",  "10.0.0.2:7000",  "10.0.0.3:7000",  "10.0.0.4:7000",
    "10.0.0.5:7000",  "10.0.0.6:7000",  "10.0.0.7:7000",  "10.0.0.8:7000",
    "10.0.0.9:7000",  "10.0.0.10:7000", "10.0.0.11:7000", "10.0.0.12:7000",
    "10.0.0.13:7000", "10.0.0.14:7000", "10.0.0.15:7000", "10.0.0.16:7000",
};

/* Hosts [from, to), the first of them with `weight`, zones a and b by turns. */
static struct rota_ring *build(size_t from, size_t to, uint32_t weight)
{
    struct rota_ring_host hosts[N_HOSTS_MAX] = {0};
    struct rota_ring *ring;
    for (size_t i = from; i < to; i++) {
        hosts[i - from].address = rota_str(ADDRESSES[i]);
        hosts[i - from].zone = rota_str(i % 2 ? "b" : "a");
    }
    hosts[0].weight = weight;
    assert_int_equal(rota_ring_new(hosts, to - from, 0, &ring, NULL), ROTA_OK);
    return ring;
}

/* Takes the rings. */
static struct rota_plan *begin(struct rota_ring *before, struct rota_ring *after, struct told *told)
{
    struct rota_plan *plan;
    struct rota_plan_options options = {.before = before, .after = after};
    if (told) {
        options.on_move = on_move;
        options.data = told;
        told->n = 0;
    }
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_OK);
    rota_ring_unref(before);
    rota_ring_unref(after);
    return plan;
}

static struct rota_plan_space space_of(const char *queue, struct rota_plan_side before,
                                       struct rota_plan_side after)
{
    return (struct rota_plan_space){.namespace_id = rota_str("ns"),
                                    .queue = rota_str(queue),
                                    .type = ROTA_TASK_ACTIVITY,
                                    .before = before,
                                    .after = after};
}

/* Add queues "0", "1", ... to the plan. */
static void add_queues(struct rota_plan *plan, struct rota_plan_side before,
                       struct rota_plan_side after)
{
    for (int i = 0; i < N_QUEUES; i++) {
        char queue[16];
        snprintf(queue, sizeof queue, "%d", i);
        struct rota_plan_space space = space_of(queue, before, after);
        assert_int_equal(rota_plan_add(plan, &space, NULL), ROTA_OK);
    }
}

/* The host of one partition, asked for alone, as an index into `hosts`. */
static uint32_t route_one(const struct rota_ring *ring, int queue, uint32_t id,
                          const struct rota_plan_side *side, const struct rota_plan_result *result)
{
    char name[16];
    snprintf(name, sizeof name, "%d", queue);
    struct rota_partition partition = {.namespace_id = rota_str("ns"),
                                       .queue = rota_str(name),
                                       .type = ROTA_TASK_ACTIVITY,
                                       .id = id};
    uint32_t host = rota_route(ring, &partition, side->spread);
    if (host == ROTA_RING_NONE)
        return ROTA_RING_NONE;
    for (uint32_t i = 0; i < result->n_hosts; i++)
        if (rota_str_is_equal(result->hosts[i].address, rota_ring_host(ring, host).address))
            return i;
    fail();
    return ROTA_RING_NONE;
}

struct counts {
    uint64_t before[2 * N_HOSTS_MAX], after[2 * N_HOSTS_MAX];
    uint64_t arriving[2 * N_HOSTS_MAX], leaving[2 * N_HOSTS_MAX];
    uint64_t moved, added, gone, lost, stays;
};

static void expect_move(const struct told *told, size_t index, int queue, uint32_t id,
                        enum rota_plan_kind kind)
{
    assert_true(index < told->n);
    assert_int_equal(atoi(told->queues[index]), queue);
    assert_int_equal(told->moves[index].partition, id);
    assert_int_equal(told->moves[index].kind, kind);
}

/* Route every partition by itself on both sides; the plan must have told of
 * exactly the differences, in order, and counted them. */
static void check_exact(const struct rota_ring *before, const struct rota_ring *after,
                        struct rota_plan_side side_before, struct rota_plan_side side_after,
                        struct told *told, const struct rota_plan_result *result)
{
    struct counts counts = {0};
    size_t n_told = 0;

    for (int queue = 0; queue < N_QUEUES; queue++) {
        for (uint32_t id = 0; id < side_before.n_partitions || id < side_after.n_partitions; id++) {
            bool was = id < side_before.n_partitions, will = id < side_after.n_partitions;
            uint32_t from = was ? route_one(before, queue, id, &side_before, result) : 0;
            uint32_t to = will ? route_one(after, queue, id, &side_after, result) : 0;
            bool is_from = was && from != ROTA_RING_NONE, is_to = will && to != ROTA_RING_NONE;
            if (is_from)
                counts.before[from]++;
            if (is_to)
                counts.after[to]++;
            if (was && will && from == to) {
                counts.stays++;
                continue;
            }
            enum rota_plan_kind kind = !was    ? ROTA_PLAN_NEW
                                       : !will ? ROTA_PLAN_GONE
                                       : is_to ? ROTA_PLAN_MOVED
                                               : ROTA_PLAN_LOST;
            ++*(!was ? &counts.added : !will ? &counts.gone : is_to ? &counts.moved : &counts.lost);
            if (is_from)
                counts.leaving[from]++;
            if (is_to)
                counts.arriving[to]++;
            expect_move(told, n_told, queue, id, kind);
            if (was)
                assert_int_equal(told->moves[n_told].from, from);
            if (will)
                assert_int_equal(told->moves[n_told].to, to);
            n_told++;
        }
    }
    assert_int_equal(told->n, n_told);
    assert_int_equal(result->moved, counts.moved);
    assert_int_equal(result->added, counts.added);
    assert_int_equal(result->gone, counts.gone);
    assert_int_equal(result->lost, counts.lost);
    assert_int_equal(result->before, result->stays + result->moved + result->gone + result->lost);
    assert_int_equal(result->stays, counts.stays);
    assert_int_equal(result->before, N_QUEUES * side_before.n_partitions);
    assert_int_equal(result->after, N_QUEUES * side_after.n_partitions);
    for (size_t i = 0; i < result->n_hosts; i++) {
        assert_int_equal(result->hosts[i].before, counts.before[i]);
        assert_int_equal(result->hosts[i].after, counts.after[i]);
        assert_int_equal(result->hosts[i].arriving, counts.arriving[i]);
        assert_int_equal(result->hosts[i].leaving, counts.leaving[i]);
    }
}

static void plan_equals_routing_one_by_one(void **state)
{
    static struct told told;
    static const struct {
        size_t from_before, to_before, from_after, to_after;
        uint32_t weight_after;
    } changes[] = {{0, 3, 0, 4, 0},    {0, 12, 3, 16, 0}, {2, 9, 2, 5, 0},
                   {0, 7, 0, 7, 2500}, {0, 0, 0, 3, 0},   {0, 3, 0, 0, 0}};
    static const struct rota_plan_side sides[][2] = {
        {{130, {ROTA_SPREAD_LOOKUP, 0}}, {130, {ROTA_SPREAD_LOOKUP, 0}}},
        {{64, {ROTA_SPREAD_LOOKUP, 8}}, {64, {ROTA_SPREAD_LOOKUP, 8}}},
        {{64, {ROTA_SPREAD_LOOKUP, 8}}, {70, {ROTA_SPREAD_SLOTS, 8}}},
        {{64, {ROTA_SPREAD_SLOTS, 20}}, {31, {ROTA_SPREAD_SLOTS, 20}}},
        {{0, {ROTA_SPREAD_LOOKUP, 0}}, {9, {ROTA_SPREAD_LOOKUP, 4}}},
    };
    (void)state;

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) {
            struct rota_ring *before = build(changes[i].from_before, changes[i].to_before, 0);
            struct rota_ring *after =
                build(changes[i].from_after, changes[i].to_after, changes[i].weight_after);
            struct rota_plan *plan = begin(rota_ring_ref(before), rota_ring_ref(after), &told);
            add_queues(plan, sides[k][0], sides[k][1]);
            check_exact(before, after, sides[k][0], sides[k][1], &told, rota_plan_result(plan));
            rota_plan_free(plan);
            rota_ring_unref(before);
            rota_ring_unref(after);
        }
    }
}

/* A queue of more than one chunk, with a batch that a chunk cuts. */
static void long_queue_is_routed_like_a_short_one(void **state)
{
    enum { N = 40000 };
    struct rota_ring *before = build(0, 9, 0), *after = build(0, 10, 0);
    struct rota_plan *plan = begin(rota_ring_ref(before), rota_ring_ref(after), NULL);
    struct rota_plan_side side = {N, {ROTA_SPREAD_LOOKUP, 7}};
    struct rota_plan_space space = space_of("long", side, side);
    uint64_t moved = 0;
    (void)state;

    assert_int_equal(rota_plan_add(plan, &space, NULL), ROTA_OK);
    for (int64_t id = 0; id < N; id++) {
        struct rota_partition partition = {
            .namespace_id = space.namespace_id, .queue = space.queue, .type = space.type, .id = id};
        moved += !rota_str_is_equal(
            rota_ring_host(before, rota_route(before, &partition, side.spread)).address,
            rota_ring_host(after, rota_route(after, &partition, side.spread)).address);
    }
    assert_int_equal(rota_plan_result(plan)->moved, moved);
    rota_plan_free(plan);
    rota_ring_unref(before);
    rota_ring_unref(after);
}

static double minimum_of(struct rota_ring *before, struct rota_ring *after, double *ratio)
{
    struct rota_plan *plan = begin(before, after, NULL);
    struct rota_plan_side side = {100, {ROTA_SPREAD_SLOTS, 4}};
    struct rota_plan_side other = {100, {ROTA_SPREAD_LOOKUP, 5}};
    add_queues(plan, side, other);
    const struct rota_plan_result *result = rota_plan_result(plan);
    double minimum = result->minimum;
    *ratio = rota_plan_ratio(result);
    if (minimum > 0)
        assert_float_equal(*ratio, (double)result->moved / minimum, 1e-6);
    rota_plan_free(plan);
    return minimum;
}

static void minimum_is_the_gain_of_fair_shares(void **state)
{
    double ratio;
    (void)state;
    assert_float_equal(minimum_of(build(0, 4, 0), build(0, 5, 0), &ratio), 100, 1e-6);
    assert_float_equal(minimum_of(build(0, 4, 0), build(0, 4, 2000), &ratio), 75, 1e-6);
    assert_float_equal(minimum_of(build(0, 0, 0), build(0, 4, 0), &ratio), 500, 1e-6);
    assert_true(minimum_of(build(0, 4, 0), build(0, 4, 0), &ratio) == 0);
    assert_true(ratio == -1); /* something moved, but nothing had to */
}

/* Fair shares do not come into it when hosts only go: what they own must move,
 * be it more or less than their share, and nothing else has to. */
static void minimum_is_the_partitions_of_leaving_hosts(void **state)
{
    bool is_below = false, is_above = false;
    (void)state;
    for (size_t gone = 0; gone < 3; gone++) {
        struct rota_ring *after, *before = build(0, 3, 0);
        struct rota_str address = rota_str(ADDRESSES[gone]);
        assert_int_equal(rota_ring_with(before, NULL, 0, &address, 1, &after, NULL), ROTA_OK);
        struct rota_plan *plan = begin(before, after, NULL);
        struct rota_plan_side side = {10, {0}};
        add_queues(plan, side, side);
        const struct rota_plan_result *result = rota_plan_result(plan);
        uint64_t owned = result->hosts[gone].before;
        assert_float_equal(result->minimum, (double)owned, 1e-6);
        assert_int_equal(result->moved, owned); /* basic routing moves no other */
        assert_float_equal(rota_plan_ratio(result), 1, 1e-6);
        is_below |= owned < 50 / 3;
        is_above |= owned > 50 / 3 + 1;
        rota_plan_free(plan);
    }
    assert_true(is_below && is_above);
}

/* One of four goes and three come: its partitions, and what 3/6 are beyond 1/4. */
static void result_can_be_asked_for_again(void **state)
{
    struct rota_plan *plan = begin(build(0, 4, 0), build(1, 7, 0), NULL);
    struct rota_plan_side side = {100, {0}};
    (void)state;
    add_queues(plan, side, side);
    struct rota_plan_result first = *rota_plan_result(plan);
    const struct rota_plan_result *again = rota_plan_result(plan);
    assert_memory_equal(&again->hosts_before, &first.hosts_before, sizeof first.hosts_before);
    assert_memory_equal(&again->hosts_after, &first.hosts_after, sizeof first.hosts_after);
    assert_memory_equal(&again->zones_before, &first.zones_before, sizeof first.zones_before);
    assert_memory_equal(&again->zones_after, &first.zones_after, sizeof first.zones_after);
    rota_plan_free(plan);
}

static void minimum_adds_the_gain_of_new_hosts_beyond_removed_ones(void **state)
{
    struct rota_plan *plan = begin(build(0, 4, 0), build(1, 7, 0), NULL);
    struct rota_plan_side side = {100, {0}};
    (void)state;
    add_queues(plan, side, side);
    const struct rota_plan_result *result = rota_plan_result(plan);
    assert_float_equal(result->minimum, (double)result->hosts[0].before + 125, 1e-6);
    rota_plan_free(plan);
}

static void empty_ring_loses_all_partitions(void **state)
{
    struct rota_plan *plan = begin(build(0, 3, 0), build(0, 0, 0), NULL);
    struct rota_plan_side side = {10, {0}}, fewer = {6, {0}};
    (void)state;
    add_queues(plan, side, fewer);
    const struct rota_plan_result *result = rota_plan_result(plan);
    assert_int_equal(result->lost, 6 * N_QUEUES);
    assert_int_equal(result->gone, 4 * N_QUEUES);
    assert_int_equal(result->moved, 0);
    assert_true(result->minimum == 0 && rota_plan_ratio(result) == -1);
    struct rota_plan_result one = {.minimum = 1, .moved = 2};
    assert_float_equal(rota_plan_ratio(&one), 2, 1e-6);
    assert_int_equal(result->hosts_after.n, 0);
    assert_true(result->hosts_after.mean == 0 && result->hosts_after.stddev == 0);
    rota_plan_free(plan);
}

/* A host of weight 3 beside three of weight 1: half of the partitions is fair. */
static void largest_load_is_measured_by_weight(void **state)
{
    struct rota_plan *plan = begin(build(0, 4, 3000), build(0, 4, 0), NULL);
    struct rota_plan_side side = {200, {0}};
    double largest = 0;
    (void)state;
    add_queues(plan, side, side);
    const struct rota_plan_result *result = rota_plan_result(plan);
    for (int i = 0; i < 4; i++) {
        double fair = (i == 0 ? 3.0 : 1.0) / 6 * 1000;
        largest = fmax(largest, (double)result->hosts[i].before / fair);
    }
    assert_float_equal(result->hosts_before.max_to_fair, largest, 1e-9);
    assert_true(largest < 1.5); /* although the heavy host has twice the mean */
    assert_true((double)result->hosts_before.max > 1.5 * result->hosts_before.mean);
    assert_float_equal(result->hosts_after.max_to_fair,
                       (double)result->hosts_after.max / result->hosts_after.mean, 1e-9);
    assert_float_equal(result->zones_before.max_to_fair, /* a has 4/6 of the weight */
                       fmax((double)result->zones[0].before / (4.0 / 6 * 1000),
                            (double)result->zones[1].before / (2.0 / 6 * 1000)),
                       1e-9);
    rota_plan_free(plan);
}

static void spread_counts_idle_hosts_and_zones(void **state)
{
    struct rota_plan *plan = begin(build(0, 3, 0), build(0, 16, 0), NULL);
    struct rota_plan_side side = {4, {ROTA_SPREAD_LOOKUP, 4}};
    struct rota_plan_space space = space_of("q", side, side);
    (void)state;
    assert_int_equal(rota_plan_add(plan, &space, NULL), ROTA_OK);
    const struct rota_plan_result *result = rota_plan_result(plan);

    size_t n_hosts;
    assert_ptr_equal(rota_plan_hosts(plan, &n_hosts), result->hosts);
    assert_int_equal(n_hosts, 16);
    assert_int_equal(result->n_hosts, 16);
    for (size_t i = 0; i < 16; i++) {
        const struct rota_plan_host *host = &result->hosts[i];
        size_t number = strtoul(host->address.data + strlen("10.0.0."), NULL, 10) - 1;
        assert_true(rota_str_is_equal(host->address, rota_str(ADDRESSES[number])));
        assert_true(rota_str_is_equal(host->zone, rota_str(number % 2 ? "b" : "a")));
        assert_true(host->is_after && host->is_before == (number < 3));
    }
    assert_int_equal(result->hosts_before.n, 3);
    assert_int_equal(result->hosts_before.max, 2); /* 2, 1, 1 */
    assert_float_equal(result->hosts_before.mean, 4.0 / 3, 1e-9);
    assert_float_equal(result->hosts_before.stddev, sqrt(2.0 / 9), 1e-9);
    assert_int_equal(result->hosts_after.n, 16);
    assert_int_equal(result->hosts_after.max, 1); /* four 1, twelve 0 */
    assert_float_equal(result->hosts_after.mean, 0.25, 1e-9);
    assert_float_equal(result->hosts_after.stddev, sqrt(3.0 / 16), 1e-9);

    assert_int_equal(result->n_zones, 2);
    assert_true(rota_str_is_equal(result->zones[0].name, rota_str("a")));
    assert_int_equal(result->zones[0].n_hosts_before, 2);
    assert_int_equal(result->zones[0].n_hosts_after, 8);
    assert_int_equal(result->zones[0].before + result->zones[1].before, 4);
    assert_int_equal(result->zones[0].after, 2); /* replicas alternate */
    assert_int_equal(result->zones_after.max, 2);
    assert_true(result->zones_after.stddev == 0);
    rota_plan_free(plan);
}

static void window_shows_when_each_partition_flips(void **state)
{
    static struct told told;
    struct rota_ring *ring = build(0, 5, 0), *other = build(0, 5, 0);
    struct rota_plan_options options = {.before = ring,
                                        .after = ring,
                                        .start = 1000 * ROTA_SEC,
                                        .end = 1100 * ROTA_SEC,
                                        .n_buckets = 10,
                                        .on_move = on_move,
                                        .data = &told};
    struct rota_gradual window = {.new_value = 1, .start = options.start, .end = options.end};
    struct rota_plan *plan;
    struct rota_plan_side side = {200, {ROTA_SPREAD_LOOKUP, 8}};
    struct rota_plan_side slots = {200, {ROTA_SPREAD_SLOTS, 8}}, more = {201, {0}};
    uint64_t buckets[10] = {0};
    (void)state;

    told.n = 0;
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_OK);
    add_queues(plan, side, slots);
    struct rota_plan_space growing = space_of("q", side, more);
    assert_int_equal(rota_plan_add(plan, &growing, NULL), ROTA_ERR_INVALID);
    const struct rota_plan_result *result = rota_plan_result(plan);
    assert_true(told.n > 100);
    for (size_t i = 0; i < told.n; i++) {
        struct rota_partition partition = {.namespace_id = rota_str("ns"),
                                           .queue = rota_str(told.queues[i]),
                                           .type = ROTA_TASK_ACTIVITY,
                                           .id = told.moves[i].partition};
        struct rota_route_key key;
        rota_partition_route_key(&partition, 0, &key);
        struct rota_str text = rota_str_of(key.text, key.size);
        assert_false(rota_gradual_is_new(&window, text, told.moves[i].at - 1));
        assert_true(rota_gradual_is_new(&window, text, told.moves[i].at));
        rota_time bucket = (told.moves[i].at - options.start) / (10 * ROTA_SEC);
        buckets[bucket < 10 ? bucket : 9]++;
    }
    assert_int_equal(result->n_buckets, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(result->buckets[i], buckets[i]);
    rota_plan_free(plan);

    options.end = 0;
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_ERR_INVALID);
    options.end = options.start - 1;
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_ERR_INVALID);
    options.end = options.start + 1;
    options.n_buckets = ROTA_PLAN_BUCKETS_MAX + 1;
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_ERR_LIMIT);
    options.n_buckets = ROTA_PLAN_BUCKETS_MAX;
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_OK);
    rota_plan_free(plan);
    options.n_buckets = 10;
    options.after = other; /* hosts change at once, there is no timeline of that */
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_ERR_INVALID);
    rota_ring_unref(ring);
    rota_ring_unref(other);
}

static void window_without_length_is_one_bucket(void **state)
{
    struct rota_ring *ring = build(0, 5, 0);
    struct rota_plan_options options = {
        .before = ring, .after = ring, .start = ROTA_SEC, .end = ROTA_SEC, .n_buckets = 10};
    struct rota_plan_side side = {200, {ROTA_SPREAD_LOOKUP, 8}}, basic = {200, {0}};
    struct rota_plan *plan;
    (void)state;
    assert_int_equal(rota_plan_new(&options, &plan, NULL), ROTA_OK);
    add_queues(plan, side, basic);
    const struct rota_plan_result *result = rota_plan_result(plan);
    assert_int_equal(result->n_buckets, 1);
    assert_int_equal(result->buckets[0], result->moved);
    rota_plan_free(plan);
    rota_ring_unref(ring);
}

static void bad_space_is_refused_and_changes_nothing(void **state)
{
    struct rota_plan *plan = begin(build(0, 3, 0), build(0, 4, 0), NULL);
    struct rota_plan_side side = {8, {0}};
    struct rota_error error;
    (void)state;

    struct rota_plan_space space = space_of("/_sys/q", side, side);
    assert_int_equal(rota_plan_add(plan, &space, &error), ROTA_ERR_INVALID);
    space = space_of("q", side, side);
    space.after.n_partitions = ROTA_PARTITIONS_MAX + 1;
    assert_int_equal(rota_plan_add(plan, &space, &error), ROTA_ERR_LIMIT);
    space = space_of("q", side, side);
    space.before.spread.batch = ROTA_BATCH_MAX + 1;
    assert_int_equal(rota_plan_add(plan, &space, &error), ROTA_ERR_LIMIT);
    assert_int_equal(rota_plan_result(plan)->before, 0);
    assert_int_equal(rota_plan_result(plan)->n_spaces, 0);
    rota_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_equals_routing_one_by_one),
        cmocka_unit_test(long_queue_is_routed_like_a_short_one),
        cmocka_unit_test(minimum_is_the_gain_of_fair_shares),
        cmocka_unit_test(minimum_is_the_partitions_of_leaving_hosts),
        cmocka_unit_test(result_can_be_asked_for_again),
        cmocka_unit_test(minimum_adds_the_gain_of_new_hosts_beyond_removed_ones),
        cmocka_unit_test(empty_ring_loses_all_partitions),
        cmocka_unit_test(largest_load_is_measured_by_weight),
        cmocka_unit_test(spread_counts_idle_hosts_and_zones),
        cmocka_unit_test(window_shows_when_each_partition_flips),
        cmocka_unit_test(window_without_length_is_one_bucket),
        cmocka_unit_test(bad_space_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
