#include "core/place/flips_fsm.h"

#include "base/hash.h"
#include "vectors.h"
#include <rota/random.h>

#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 100 };

static char texts[KEYS][16];

static struct rota_str name(size_t i)
{
    return rota_str(texts[i]);
}

static int make_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEYS; i++)
        snprintf(texts[i], sizeof texts[i], "key-%zu", i);
    return 0;
}

static size_t number(struct rota_str key)
{
    size_t i = 0;
    while (i < KEYS && !rota_str_is_equal(key, name(i)))
        i++;
    assert_true(i < KEYS);
    return i;
}

static struct rota_gradual change_over(rota_time start, rota_time end)
{
    return (struct rota_gradual){.old_value = 4, .new_value = 8, .start = start, .end = end};
}

static int64_t add(struct rota_flips_fsm *fsm, rota_time now, size_t key,
                   struct rota_gradual change)
{
    int64_t value;
    struct rota_error error;
    if (rota_flips_fsm_add(fsm, now, name(key), &change, &value, &error))
        fail_msg("%s", error.text);
    return value;
}

static void replace(struct rota_flips_fsm *fsm, size_t key, struct rota_gradual change)
{
    assert_int_equal(rota_flips_fsm_replace(fsm, name(key), &change, NULL), ROTA_OK);
}

/* A machine with all keys under one change, at its start. */
static void init_with_keys(struct rota_flips_fsm *fsm, struct rota_gradual change)
{
    rota_flips_fsm_init(fsm, 1);
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(add(fsm, change.start, i, change), change.old_value);
}

/* Take all flips of `now`; returns how many, all of them from `from` to `to`. */
static size_t drain(struct rota_flips_fsm *fsm, rota_time now, int64_t from, int64_t to)
{
    struct rota_flip flip;
    size_t n = 0;
    for (; rota_flips_fsm_step(fsm, now, &flip); n++) {
        assert_int_equal(flip.old_value, from);
        assert_int_equal(flip.new_value, to);
    }
    return n;
}

/* --- rules --- */

static void each_key_flips_once_at_its_first_new_instant(void **state)
{
    struct rota_gradual change = change_over(1000 * ROTA_DAY, 1010 * ROTA_DAY);
    struct rota_flips_fsm fsm;
    struct rota_flip flip;
    bool told[KEYS] = {false};
    (void)state;
    init_with_keys(&fsm, change);

    for (int n = 0; n < KEYS; n++) {
        rota_time at = rota_flips_fsm_deadline(&fsm);
        assert_false(rota_flips_fsm_step(&fsm, at - 1, &flip));
        assert_true(rota_flips_fsm_step(&fsm, at, &flip));
        assert_int_equal(at, rota_gradual_when(&change, flip.key));
        assert_int_equal(flip.old_value, 4);
        assert_int_equal(flip.new_value, 8);
        assert_false(told[number(flip.key)]);
        told[number(flip.key)] = true;
    }
    assert_int_equal(rota_flips_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    assert_false(rota_flips_fsm_step(&fsm, INT64_MAX, &flip));
    rota_flips_fsm_deinit(&fsm);
}

static void clock_that_jumps_ahead_skips_nothing(void **state)
{
    struct rota_flips_fsm fsm;
    (void)state;
    init_with_keys(&fsm, change_over(ROTA_DAY, 2 * ROTA_DAY));
    assert_int_equal(drain(&fsm, 100000 * ROTA_DAY, 4, 8), KEYS);
    assert_int_equal(drain(&fsm, 100000 * ROTA_DAY, 4, 8), 0);
    rota_flips_fsm_deinit(&fsm);
}

static void clock_that_goes_back_undoes_and_repeats_nothing(void **state)
{
    struct rota_gradual change = change_over(ROTA_DAY, 2 * ROTA_DAY);
    struct rota_flips_fsm fsm;
    int64_t value;
    (void)state;
    init_with_keys(&fsm, change);

    size_t n = drain(&fsm, ROTA_DAY + ROTA_DAY / 2, 4, 8);
    assert_true(n > 0 && n < KEYS);
    assert_int_equal(drain(&fsm, 1, 4, 8), 0);
    for (size_t i = 0; i < KEYS; i++)
        replace(&fsm, i, change); /* a reload that brings nothing new */
    assert_int_equal(drain(&fsm, 1, 4, 8), 0);
    assert_int_equal(drain(&fsm, ROTA_DAY + ROTA_DAY / 2, 4, 8), 0);
    assert_int_equal(drain(&fsm, 2 * ROTA_DAY, 4, 8), KEYS - n);
    assert_int_equal(drain(&fsm, 1, 4, 8), 0);
    assert_true(rota_flips_fsm_value(&fsm, name(0), &value));
    assert_int_equal(value, 8);
    rota_flips_fsm_deinit(&fsm);
}

static void replaced_change_tells_only_what_differs(void **state)
{
    rota_time half = ROTA_DAY + ROTA_DAY / 2;
    struct rota_gradual change = change_over(ROTA_DAY, 2 * ROTA_DAY), other = change;
    struct rota_flips_fsm fsm;
    (void)state;
    init_with_keys(&fsm, change);
    size_t n = drain(&fsm, half, 4, 8);

    other.start = half; /* starts anew: those that had flipped go back */
    other.end = half + ROTA_DAY;
    for (size_t i = 0; i < KEYS; i++)
        replace(&fsm, i, other);
    assert_int_equal(rota_flips_fsm_deadline(&fsm), ROTA_TIME_MIN);
    assert_int_equal(drain(&fsm, half, 8, 4), n);
    assert_true(rota_flips_fsm_deadline(&fsm) > half);

    for (size_t i = 0; i < KEYS; i++) /* the value all have: nothing to tell */
        replace(&fsm, i, rota_gradual_static(4));
    assert_int_equal(drain(&fsm, half, 0, 0), 0);
    assert_int_equal(rota_flips_fsm_deadline(&fsm), ROTA_TIME_NEVER);

    for (size_t i = 0; i < KEYS; i++) { /* only the last of several counts */
        replace(&fsm, i, rota_gradual_static(5));
        replace(&fsm, i, rota_gradual_static(6));
    }
    assert_int_equal(drain(&fsm, half, 4, 6), KEYS);
    rota_flips_fsm_deinit(&fsm);
}

static void removed_key_is_silent_and_can_come_back(void **state)
{
    struct rota_gradual change = change_over(ROTA_DAY, 2 * ROTA_DAY);
    struct rota_flips_fsm fsm;
    int64_t value = 1;
    (void)state;
    init_with_keys(&fsm, change);

    assert_true(rota_flips_fsm_remove(&fsm, name(7)));
    assert_false(rota_flips_fsm_remove(&fsm, name(7)));
    assert_false(rota_flips_fsm_value(&fsm, name(7), &value));
    assert_int_equal(value, 1);
    assert_int_equal(rota_flips_fsm_size(&fsm), KEYS - 1);
    assert_int_equal(drain(&fsm, 2 * ROTA_DAY, 4, 8), KEYS - 1);
    assert_int_equal(add(&fsm, 2 * ROTA_DAY, 7, change), 8); /* told by the adding itself */
    assert_int_equal(drain(&fsm, 2 * ROTA_DAY, 4, 8), 0);
    rota_flips_fsm_deinit(&fsm);
}

static void bad_input_is_refused_and_changes_nothing(void **state)
{
    static char long_text[ROTA_FLIPS_KEY_MAX + 1];
    struct rota_gradual good = change_over(5, 6), bad = change_over(6, 5);
    struct rota_str too_long = rota_str_of(long_text, sizeof long_text);
    struct rota_flips_fsm fsm;
    struct rota_error error;
    int64_t value = 77;
    (void)state;
    rota_flips_fsm_init(&fsm, 1);

    assert_int_equal(rota_flips_fsm_add(&fsm, 0, name(0), &bad, &value, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_flips_fsm_add(&fsm, 0, too_long, &good, &value, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "4097 bytes"));
    assert_int_equal(rota_flips_fsm_replace(&fsm, too_long, &good, &error), ROTA_ERR_NOT_FOUND);
    assert_int_equal(value, 77);
    assert_int_equal(rota_flips_fsm_size(&fsm), 0);

    add(&fsm, 0, 0, good);
    assert_int_equal(rota_flips_fsm_add(&fsm, 0, name(0), &good, &value, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "key-0 is watched already"));
    assert_int_equal(rota_flips_fsm_replace(&fsm, name(0), &bad, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_flips_fsm_replace(&fsm, name(1), &good, &error), ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "key-1 is not watched"));
    assert_int_equal(drain(&fsm, 6, 4, 8), 1);

    too_long.size--; /* any bytes, NUL included, are a key */
    assert_int_equal(rota_flips_fsm_add(&fsm, 0, too_long, &good, &value, NULL), ROTA_OK);
    assert_int_equal(rota_flips_fsm_add(&fsm, 0, rota_str(""), &good, &value, NULL), ROTA_OK);
    rota_flips_fsm_deinit(&fsm);
}

static void keys_have_a_bound(void **state)
{
    struct rota_gradual change = rota_gradual_static(1);
    struct rota_flips_fsm fsm;
    struct rota_error error;
    int64_t value;
    (void)state;
    rota_flips_fsm_init(&fsm, 1);
    for (int i = 0; i < ROTA_FLIPS_KEYS_MAX; i++)
        if (rota_flips_fsm_add(&fsm, 0, rota_str_of(&i, sizeof i), &change, &value, NULL))
            fail();
    assert_int_equal(rota_flips_fsm_add(&fsm, 0, name(0), &change, &value, &error), ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "more than 1048576 keys"));
    assert_int_equal(rota_flips_fsm_size(&fsm), ROTA_FLIPS_KEYS_MAX);
    rota_flips_fsm_deinit(&fsm);
}

/* --- against a naive model, which looks at every key on every step --- */

struct model_key {
    bool is_there, is_settled;
    struct rota_gradual change;
    int64_t told;
};

struct world {
    struct rota_flips_fsm fsm;
    struct rota_random random;
    struct model_key keys[KEYS];
    rota_time now;
    size_t n_flips;
};

static struct rota_gradual random_change(struct world *world)
{
    struct rota_random *random = &world->random;
    if (rota_random_chance(random, 0.2))
        return rota_gradual_static((int64_t)rota_random_below(random, 3));
    rota_time start = rota_random_range(random, 1, 20000);
    rota_time span = rota_random_chance(random, 0.1) ? 0 : rota_random_range(random, 1, 8000);
    return (struct rota_gradual){
        .old_value = (int64_t)rota_random_below(random, 3),
        .new_value = (int64_t)rota_random_below(random, 3),
        .start = start,
        .end = start + span,
    };
}

/* The value by the model's rule: by the clock, but once new for ever new. */
static int64_t model_look(struct model_key *key, size_t i, rota_time now)
{
    key->is_settled = key->is_settled || rota_gradual_is_new(&key->change, name(i), now);
    return key->is_settled ? key->change.new_value : key->change.old_value;
}

static void change_keys(struct world *world)
{
    size_t i = rota_random_below(&world->random, KEYS);
    struct model_key *key = &world->keys[i];
    struct rota_gradual change = random_change(world);

    if (!key->is_there) {
        *key = (struct model_key){.is_there = true, .change = change};
        key->told = model_look(key, i, world->now);
        assert_int_equal(add(&world->fsm, world->now, i, change), key->told);
    } else if (rota_random_chance(&world->random, 0.3)) {
        key->is_there = false;
        assert_true(rota_flips_fsm_remove(&world->fsm, name(i)));
    } else if (rota_random_chance(&world->random, 0.2)) {
        replace(&world->fsm, i, key->change);
    } else {
        key->is_settled = memcmp(&key->change, &change, sizeof change) == 0 && key->is_settled;
        key->change = change;
        replace(&world->fsm, i, change);
    }
}

static void move_clock(struct world *world)
{
    struct rota_random *random = &world->random;
    rota_time deadline = rota_flips_fsm_deadline(&world->fsm);
    switch (rota_random_below(random, 5)) {
    case 0: /* stands still */
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
    bool is_expected[KEYS] = {false};
    struct rota_flip flip;
    size_t n_expected = 0;
    for (size_t i = 0; i < KEYS; i++) {
        struct model_key *key = &world->keys[i];
        is_expected[i] = key->is_there && model_look(key, i, world->now) != key->told;
        n_expected += is_expected[i];
    }
    while (rota_flips_fsm_step(&world->fsm, world->now, &flip)) {
        size_t i = number(flip.key);
        assert_true(is_expected[i]);
        is_expected[i] = false;
        assert_int_equal(flip.old_value, world->keys[i].told);
        assert_int_equal(flip.new_value, model_look(&world->keys[i], i, world->now));
        world->keys[i].told = flip.new_value;
        world->n_flips++;
        n_expected--;
    }
    assert_int_equal(n_expected, 0);
}

/* At the deadline some key is new that is not so an instant before. */
static void check_deadline(struct world *world)
{
    rota_time deadline = rota_flips_fsm_deadline(&world->fsm);
    bool is_reached = deadline == ROTA_TIME_NEVER;
    assert_true(deadline > world->now);
    for (size_t i = 0; i < KEYS; i++) {
        const struct model_key *key = &world->keys[i];
        if (!key->is_there || key->is_settled || key->change.old_value == key->change.new_value)
            continue;
        assert_false(rota_gradual_is_new(&key->change, name(i), deadline - 1));
        is_reached = is_reached || rota_gradual_is_new(&key->change, name(i), deadline);
    }
    assert_true(is_reached);
}

static void machine_agrees_with_the_naive_model(void **state)
{
    struct world world = {.now = 5000};
    (void)state;
    rota_flips_fsm_init(&world.fsm, 3);
    rota_random_init(&world.random, 4);
    for (int i = 0; i < 20000; i++) {
        for (uint64_t n = rota_random_below(&world.random, 4); n > 0; n--)
            change_keys(&world);
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
    for (size_t i = 0; i < KEYS; i++) {
        n_early += original_tells(&change, name(i), originals_when);
        n_exact += original_tells(&change, name(i), rota_gradual_when);
    }
    assert_int_equal(n_early, 0);
    assert_int_equal(n_exact, KEYS);

    init_with_keys(&fsm, change); /* driven by its deadlines alone */
    for (rota_time at; (at = rota_flips_fsm_deadline(&fsm)) != ROTA_TIME_NEVER;)
        n_told += drain(&fsm, at, 4, 8);
    assert_int_equal(n_told, KEYS);
    rota_flips_fsm_deinit(&fsm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_flips_once_at_its_first_new_instant),
        cmocka_unit_test(clock_that_jumps_ahead_skips_nothing),
        cmocka_unit_test(clock_that_goes_back_undoes_and_repeats_nothing),
        cmocka_unit_test(replaced_change_tells_only_what_differs),
        cmocka_unit_test(removed_key_is_silent_and_can_come_back),
        cmocka_unit_test(bad_input_is_refused_and_changes_nothing),
        cmocka_unit_test(keys_have_a_bound),
        cmocka_unit_test(machine_agrees_with_the_naive_model),
        cmocka_unit_test(planted_fault_is_the_originals),
        cmocka_unit_test(early_timer_loses_flips_and_exact_one_none),
    };
    return cmocka_run_group_tests(tests, make_names, NULL);
}
