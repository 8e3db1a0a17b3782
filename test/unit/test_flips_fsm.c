#include "core/place/flips_fsm.h"

#include "base/hash.h"
#include "vectors.h"
#include <rota/experimental/random.h>

#include <stdlib.h>

enum { PARTITIONS = 100 };

static const struct rota_partition QUEUE = {
    .namespace_id = {"orders", 6}, .queue = {"email", 5}, .type = ROTA_TASK_ACTIVITY};

static struct rota_str key(int64_t partition)
{
    static struct rota_route_key made;
    struct rota_partition one = QUEUE;
    one.id = partition;
    rota_partition_route_key(&one, 0, &made);
    return rota_str_of(made.text, made.size);
}

static struct rota_gradual change_over(rota_time start, rota_time end)
{
    return (struct rota_gradual){.old_value = 4, .new_value = 8, .start = start, .end = end};
}

/* A batch that changes in mode lookup. */
static struct rota_queue_config batch(struct rota_gradual change)
{
    return (struct rota_queue_config){.batch = change,
                                      .mode = rota_gradual_static(ROTA_SPREAD_LOOKUP)};
}

static void set(struct rota_flips_fsm *fsm, rota_time now, struct rota_queue_config config,
                int64_t n)
{
    assert_int_equal(rota_flips_fsm_reserve(fsm, n, NULL), ROTA_OK);
    rota_flips_fsm_set(fsm, now, &config, n);
}

/* A machine with all partitions under one change of the batch, at its start. */
static void init_with(struct rota_flips_fsm *fsm, struct rota_gradual change)
{
    rota_flips_fsm_init(fsm, &QUEUE);
    set(fsm, change.start, batch(change), PARTITIONS);
    for (int64_t i = 0; i < PARTITIONS; i++)
        assert_int_equal(rota_flips_fsm_spread(fsm, i).batch, change.old_value);
}

/* Take all flips of `now`; returns how many, all of them from `from` to `to`. */
static size_t drain(struct rota_flips_fsm *fsm, rota_time now, uint32_t from, uint32_t to)
{
    struct rota_flip flip;
    size_t n = 0;
    for (; rota_flips_fsm_step(fsm, now, &flip); n++) {
        assert_int_equal(flip.old_spread.batch, from);
        assert_int_equal(flip.new_spread.batch, to);
        assert_int_equal(rota_flips_fsm_spread(fsm, flip.partition).batch, to);
    }
    return n;
}

/* --- rules --- */

static void each_partition_flips_once_at_its_first_new_instant(void **state)
{
    struct rota_gradual change = change_over(1000 * ROTA_DAY, 1010 * ROTA_DAY);
    struct rota_flips_fsm fsm;
    struct rota_flip flip;
    bool told[PARTITIONS] = {false};
    (void)state;
    init_with(&fsm, change);

    for (int n = 0; n < PARTITIONS; n++) {
        rota_time at = rota_flips_fsm_deadline(&fsm);
        assert_false(rota_flips_fsm_step(&fsm, at - 1, &flip));
        assert_true(rota_flips_fsm_step(&fsm, at, &flip));
        assert_int_equal(at, rota_gradual_when(&change, key(flip.partition)));
        assert_int_equal(flip.old_spread.batch, 4);
        assert_int_equal(flip.new_spread.batch, 8);
        assert_false(told[flip.partition]);
        told[flip.partition] = true;
    }
    assert_int_equal(rota_flips_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    assert_false(rota_flips_fsm_step(&fsm, INT64_MAX, &flip));
    rota_flips_fsm_deinit(&fsm);
}

static void batch_and_mode_of_one_instant_are_one_flip(void **state)
{
    struct rota_queue_config config = batch(change_over(ROTA_DAY, 2 * ROTA_DAY));
    struct rota_flips_fsm fsm;
    struct rota_flip flip;
    size_t n = 0;
    (void)state;
    config.mode =
        (struct rota_gradual){ROTA_SPREAD_LOOKUP, ROTA_SPREAD_SLOTS, ROTA_DAY, 2 * ROTA_DAY};
    rota_flips_fsm_init(&fsm, &QUEUE);
    set(&fsm, ROTA_DAY, config, PARTITIONS);
    for (rota_time at; (at = rota_flips_fsm_deadline(&fsm)) != ROTA_TIME_NEVER;) {
        while (rota_flips_fsm_step(&fsm, at, &flip)) {
            assert_int_equal(flip.new_spread.mode, ROTA_SPREAD_SLOTS);
            assert_int_equal(flip.new_spread.batch, 8);
            n++;
        }
    }
    assert_int_equal(n, PARTITIONS);
    rota_flips_fsm_deinit(&fsm);
}

static void clock_that_jumps_ahead_skips_nothing(void **state)
{
    struct rota_flips_fsm fsm;
    (void)state;
    init_with(&fsm, change_over(ROTA_DAY, 2 * ROTA_DAY));
    assert_int_equal(drain(&fsm, 100000 * ROTA_DAY, 4, 8), PARTITIONS);
    assert_int_equal(drain(&fsm, 100000 * ROTA_DAY, 4, 8), 0);
    rota_flips_fsm_deinit(&fsm);
}

static void clock_that_goes_back_undoes_and_repeats_nothing(void **state)
{
    struct rota_gradual change = change_over(ROTA_DAY, 2 * ROTA_DAY);
    struct rota_flips_fsm fsm;
    (void)state;
    init_with(&fsm, change);

    size_t n = drain(&fsm, ROTA_DAY + ROTA_DAY / 2, 4, 8);
    assert_true(n > 0 && n < PARTITIONS);
    assert_int_equal(drain(&fsm, 1, 4, 8), 0);
    set(&fsm, 1, batch(change), PARTITIONS); /* a reload that brings nothing new */
    assert_int_equal(drain(&fsm, 1, 4, 8), 0);
    set(&fsm, 1, batch(change), PARTITIONS + 1); /* or only more partitions */
    assert_int_equal(drain(&fsm, 1, 4, 8), 0);
    set(&fsm, 1, batch(change), PARTITIONS);
    assert_int_equal(drain(&fsm, ROTA_DAY + ROTA_DAY / 2, 4, 8), 0);
    assert_int_equal(drain(&fsm, 2 * ROTA_DAY, 4, 8), PARTITIONS - n);
    assert_int_equal(drain(&fsm, 1, 4, 8), 0);
    assert_int_equal(rota_flips_fsm_spread(&fsm, 0).batch, 8);
    rota_flips_fsm_deinit(&fsm);
}

static void replaced_change_reports_only_differences(void **state)
{
    rota_time half = ROTA_DAY + ROTA_DAY / 2;
    struct rota_gradual change = change_over(ROTA_DAY, 2 * ROTA_DAY), other = change;
    struct rota_flips_fsm fsm;
    (void)state;
    init_with(&fsm, change);
    size_t n = drain(&fsm, half, 4, 8);

    other.start = half; /* starts again: those that had flipped go back */
    other.end = half + ROTA_DAY;
    set(&fsm, half, batch(other), PARTITIONS);
    assert_int_equal(rota_flips_fsm_deadline(&fsm), ROTA_TIME_MIN);
    assert_int_equal(drain(&fsm, half, 8, 4), n);
    assert_true(rota_flips_fsm_deadline(&fsm) > half);

    set(&fsm, half, batch(rota_gradual_static(4)), PARTITIONS); /* what all have already */
    assert_int_equal(drain(&fsm, half, 0, 0), 0);
    assert_int_equal(rota_flips_fsm_deadline(&fsm), ROTA_TIME_NEVER);

    set(&fsm, half, batch(rota_gradual_static(5)), PARTITIONS); /* only the last counts */
    set(&fsm, half, batch(rota_gradual_static(6)), PARTITIONS);
    assert_int_equal(drain(&fsm, half, 4, 6), PARTITIONS);
    rota_flips_fsm_deinit(&fsm);
}

static void removed_partitions_report_nothing_and_return_as_new(void **state)
{
    struct rota_gradual change = change_over(ROTA_DAY, 2 * ROTA_DAY);
    struct rota_flips_fsm fsm;
    (void)state;
    init_with(&fsm, change);
    set(&fsm, ROTA_DAY, batch(change), 10);
    assert_int_equal(drain(&fsm, 2 * ROTA_DAY, 4, 8), 10);
    set(&fsm, 2 * ROTA_DAY, batch(change), PARTITIONS);
    assert_int_equal(drain(&fsm, 2 * ROTA_DAY, 4, 8), 0);
    assert_int_equal(rota_flips_fsm_spread(&fsm, PARTITIONS - 1).batch, 8);
    rota_flips_fsm_deinit(&fsm);
}

/* --- against a naive model, which looks at every partition on every step --- */

struct world {
    struct rota_flips_fsm fsm;
    struct rota_random random;
    struct rota_queue_config config;
    rota_time batch_at, mode_at; /* the latest look at each change */
    int64_t n;
    struct rota_spread told[PARTITIONS];
    rota_time now;
    size_t n_flips;
};

static struct rota_gradual random_change(struct world *world)
{
    struct rota_random *random = &world->random;
    if (rota_random_chance(random, 0.2))
        return rota_gradual_static((int64_t)rota_random_below(random, 2));
    rota_time start = rota_random_range(random, 1, 20000);
    rota_time span = rota_random_chance(random, 0.1) ? 0 : rota_random_range(random, 1, 8000);
    return (struct rota_gradual){
        .old_value = (int64_t)rota_random_below(random, 2),
        .new_value = (int64_t)rota_random_below(random, 2),
        .start = start,
        .end = start + span,
    };
}

static void look(struct world *world)
{
    world->batch_at = world->now > world->batch_at ? world->now : world->batch_at;
    world->mode_at = world->now > world->mode_at ? world->now : world->mode_at;
}

static struct rota_spread model_spread(const struct world *world, int64_t i)
{
    const struct rota_queue_config *config = &world->config;
    return (struct rota_spread){
        .batch = (uint32_t)rota_gradual_value(&config->batch, key(i), world->batch_at),
        .mode = (enum rota_spread_mode)rota_gradual_value(&config->mode, key(i), world->mode_at)};
}

static bool is_same(struct rota_spread a, struct rota_spread b)
{
    return a.batch == b.batch && a.mode == b.mode;
}

static void change_world(struct world *world)
{
    struct rota_queue_config next = world->config;
    int64_t n = world->n;
    switch (rota_random_below(&world->random, 4)) {
    case 0:
        next.batch = random_change(world);
        break;
    case 1:
        next.mode = random_change(world);
        break;
    case 2:
        n = rota_random_range(&world->random, 1, PARTITIONS);
        break;
    default: /* the same again */
        break;
    }
    look(world);
    if (!rota_gradual_is_equal(&next.batch, &world->config.batch))
        world->batch_at = world->now;
    if (!rota_gradual_is_equal(&next.mode, &world->config.mode))
        world->mode_at = world->now;
    world->config = next;
    set(&world->fsm, world->now, next, n);
    for (int64_t i = world->n; i < n; i++)
        world->told[i] = model_spread(world, i);
    world->n = n;
}

static void move_clock(struct world *world)
{
    struct rota_random *random = &world->random;
    rota_time deadline = rota_flips_fsm_deadline(&world->fsm);
    switch (rota_random_below(random, 5)) {
    case 0: /* is paused */
        break;
    case 1: /* jumps anywhere */
        world->now = rota_random_range(random, 0, 30000);
        break;
    case 2: /* goes back a little */
        world->now -= rota_random_range(random, 0, 50);
        break;
    case 3: /* to the deadline exactly, if that is ahead */
        if (deadline != ROTA_TIME_NEVER && deadline > world->now)
            world->now = deadline;
        break;
    default:
        world->now += rota_random_range(random, 0, 100);
    }
}

/* The flips of one step, each of them once and no other. */
static void check_flips(struct world *world)
{
    struct rota_flip flip;
    look(world);
    while (rota_flips_fsm_step(&world->fsm, world->now, &flip)) {
        assert_in_range(flip.partition, 0, world->n - 1);
        assert_true(is_same(flip.old_spread, world->told[flip.partition]));
        assert_true(is_same(flip.new_spread, model_spread(world, flip.partition)));
        assert_false(is_same(flip.old_spread, flip.new_spread));
        world->told[flip.partition] = flip.new_spread;
        world->n_flips++;
    }
    for (int64_t i = 0; i < world->n; i++) {
        assert_true(is_same(world->told[i], model_spread(world, i)));
        assert_true(is_same(world->told[i], rota_flips_fsm_spread(&world->fsm, i)));
    }
}

/* Nothing flips before the deadline. */
static void check_deadline(const struct world *world)
{
    rota_time deadline = rota_flips_fsm_deadline(&world->fsm);
    struct world later = *world;
    assert_true(deadline > world->now);
    later.now = deadline - 1;
    look(&later);
    for (int64_t i = 0; i < world->n; i++)
        assert_true(is_same(world->told[i], model_spread(&later, i)));
}

static void machine_agrees_with_the_naive_model(void **state)
{
    static struct world world;
    (void)state;
    world.now = 5000;
    world.config = batch(rota_gradual_static(1));
    rota_flips_fsm_init(&world.fsm, &QUEUE);
    rota_random_init(&world.random, 4);
    for (int i = 0; i < 4000; i++) {
        for (uint64_t n = rota_random_below(&world.random, 4); n > 0; n--)
            change_world(&world);
        move_clock(&world);
        check_flips(&world);
        check_deadline(&world);
    }
    assert_true(world.n_flips > 5000);
    rota_flips_fsm_deinit(&world.fsm);
}

/* --- the original's fault, planted --- */

/* Where the original sets its timer: cut off to a whole nanosecond, and before
 * the strict comparison lets the value be new. */
static rota_time originals_when(const struct rota_gradual *change, struct rota_str key)
{
    double fraction = (double)rota_hash_farm32(key) / UINT32_MAX;
    return change->start + (rota_time)(fraction * (double)(change->end - change->start));
}

static void planted_fault_is_the_originals(void **state)
{
    json_t *root = vectors_load("gradual.json");
    const json_t *row;
    size_t i;
    (void)state;
    json_array_foreach (json_object_get(root, "rows"), i, row) {
        struct rota_gradual change =
            change_over(vectors_int(row, "start_ns"), vectors_int(row, "end_ns"));
        assert_int_equal(originals_when(&change, vectors_str(row, "key")),
                         vectors_int(row, "when_ns"));
    }
    json_decref(root);
}

typedef rota_time timer_rule(const struct rota_gradual *change, struct rota_str key);

/* One key as the original watches it: one timer, set for `rule` if that is
 * ahead, and a look at the value when it fires, here on time to the nanosecond.
 * Returns whether the flip was told. */
static bool original_tells(const struct rota_gradual *change, struct rota_str key, timer_rule *rule)
{
    rota_time now = change->start;
    int64_t told = rota_gradual_value(change, key, now);
    while (rule(change, key) > now) {
        now = rule(change, key);
        if (rota_gradual_value(change, key, now) != told)
            return true;
    }
    return false;
}

static void early_timer_loses_flips_and_exact_one_none(void **state)
{
    struct rota_gradual change = change_over(1000 * ROTA_DAY, 1001 * ROTA_DAY);
    struct rota_flips_fsm fsm;
    size_t n_early = 0, n_exact = 0, n_told = 0;
    (void)state;
    for (int64_t i = 0; i < PARTITIONS; i++) {
        n_early += original_tells(&change, key(i), originals_when);
        n_exact += original_tells(&change, key(i), rota_gradual_when);
    }
    assert_int_equal(n_early, 0);
    assert_int_equal(n_exact, PARTITIONS);

    init_with(&fsm, change); /* driven by its deadlines alone */
    for (rota_time at; (at = rota_flips_fsm_deadline(&fsm)) != ROTA_TIME_NEVER;)
        n_told += drain(&fsm, at, 4, 8);
    assert_int_equal(n_told, PARTITIONS);
    rota_flips_fsm_deinit(&fsm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_partition_flips_once_at_its_first_new_instant),
        cmocka_unit_test(batch_and_mode_of_one_instant_are_one_flip),
        cmocka_unit_test(clock_that_jumps_ahead_skips_nothing),
        cmocka_unit_test(clock_that_goes_back_undoes_and_repeats_nothing),
        cmocka_unit_test(replaced_change_reports_only_differences),
        cmocka_unit_test(removed_partitions_report_nothing_and_return_as_new),
        cmocka_unit_test(machine_agrees_with_the_naive_model),
        cmocka_unit_test(planted_fault_is_the_originals),
        cmocka_unit_test(early_timer_loses_flips_and_exact_one_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
