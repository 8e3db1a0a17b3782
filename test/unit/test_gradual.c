#include <rota/experimental/gradual.h>
#include <rota/experimental/route.h>

#include "base/hash.h"
#include "ring_vectors.h"
#include <rota/experimental/random.h>

#include <stdio.h>

#define YEAR (365 * ROTA_DAY)

/* --- the original's answers --- */

static void change_is_the_originals(void **state)
{
    json_t *root = vectors_load("gradual.json");
    const json_t *row, *point;
    size_t i, j, n_points = 0;
    (void)state;

    json_array_foreach (json_object_get(root, "rows"), i, row) {
        struct rota_str key = vectors_str(row, "key");
        struct rota_gradual change = {
            .old_value = 3,
            .new_value = 8,
            .start = vectors_int(row, "start_ns"),
            .end = vectors_int(row, "end_ns"),
        };
        assert_int_equal(rota_hash_farm32(key), vectors_int(row, "fp32"));
        json_array_foreach (json_object_get(row, "points"), j, point) {
            rota_time now = vectors_int(point, "now_ns");
            bool expected = json_is_true(json_object_get(point, "new"));
            assert_int_equal(rota_gradual_is_new(&change, key, now), expected);
            assert_int_equal(rota_gradual_value(&change, key, now), expected ? 8 : 3);
            n_points++;
        }
        assert_int_equal(rota_gradual_when(&change, key), vectors_int(row, "first_new_ns"));
        assert_int_equal(rota_gradual_check(&change, NULL),
                         change.end < change.start ? ROTA_ERR_INVALID : ROTA_OK);
    }
    assert_int_equal(i, 63);
    assert_true(n_points >= 700);
    json_decref(root);
}

static void partitions_move_as_their_batch_flips(void **state)
{
    json_t *root = vectors_load("spread.json");
    const json_t *row;
    size_t i;
    (void)state;

    json_array_foreach (json_object_get(root, "gradual_routes"), i, row) {
        const json_t *description = vectors_ring(root, vectors_str(row, "ring"));
        struct rota_ring *ring = ring_of_vector(description);
        struct rota_partition partition = {
            .namespace_id = vectors_str(row, "namespace_id"),
            .queue = vectors_str(row, "queue"),
            .type = (enum rota_task_type)vectors_int(row, "task_type"),
            .id = vectors_int(row, "partition"),
        };
        struct rota_gradual change = {
            .old_value = vectors_int(row, "old_batch"),
            .new_value = vectors_int(row, "new_batch"),
            .start = vectors_int(row, "start_ns"),
            .end = vectors_int(row, "end_ns"),
        };
        struct rota_route_key key;

        rota_partition_route_key(&partition, 0, &key);
        int64_t batch = rota_gradual_value(&change, rota_str_of(key.text, key.size),
                                           vectors_int(row, "now_ns"));
        assert_int_equal(batch, vectors_int(row, "effective_batch"));

        rota_partition_route_key(&partition, (uint32_t)batch, &key);
        assert_true(rota_str_is_equal(rota_str_of(key.text, key.size), vectors_str(row, "key")));
        assert_int_equal(key.index, vectors_int(row, "index"));

        uint32_t host =
            rota_route(ring, &partition, (struct rota_spread){.batch = (uint32_t)batch});
        const json_t *owner = json_array_get(json_object_get(description, "servers"),
                                             (size_t)vectors_int(row, "owner"));
        assert_true(rota_str_is_equal(rota_ring_host(ring, host).address,
                                      rota_str(json_string_value(owner))));
        rota_ring_unref(ring);
    }
    assert_int_equal(i, 40);
    json_decref(root);
}

/* --- rules --- */

/* A window of 1 ns to 100 years, all sizes alike, that is after 1970 and ends
 * in range. */
static struct rota_gradual random_change(struct rota_random *random)
{
    rota_time span = rota_random_range(random, 1, 100 * YEAR);
    span >>= rota_random_below(random, 62);
    if (span == 0)
        span = 1;
    rota_time start = rota_random_range(random, 1, 160 * YEAR);
    return (struct rota_gradual){
        .old_value = 1, .new_value = 2, .start = start, .end = start + span};
}

static void when_is_the_first_instant_of_the_new_value(void **state)
{
    struct rota_random random;
    char text[32];
    (void)state;
    rota_random_init(&random, 1);

    for (int i = 0; i < 200000; i++) {
        struct rota_gradual change = random_change(&random);
        int size = snprintf(text, sizeof text, "key-%d", i);
        struct rota_str key = rota_str_of(text, (size_t)size);
        rota_time when = rota_gradual_when(&change, key);

        assert_int_equal(rota_gradual_check(&change, NULL), ROTA_OK);
        assert_true(when > change.start && when <= change.end);
        assert_true(rota_gradual_is_new(&change, key, when));
        assert_false(rota_gradual_is_new(&change, key, when - 1));
    }
}

static void a_new_key_stays_new(void **state)
{
    struct rota_random random;
    char text[32];
    (void)state;
    rota_random_init(&random, 2);

    for (int i = 0; i < 2000; i++) {
        struct rota_gradual change = random_change(&random);
        int size = snprintf(text, sizeof text, "key-%d", i);
        struct rota_str key = rota_str_of(text, (size_t)size);
        rota_time when = rota_gradual_when(&change, key);
        for (int j = 0; j < 50; j++) {
            rota_time now = j % 2 ? rota_random_range(&random, change.start, change.end)
                                  : when + rota_random_range(&random, -5000, 5000);
            assert_int_equal(rota_gradual_is_new(&change, key, now), now >= when);
        }
    }
}

/* The largest hashes flip just before or at the end, for the comparison is
 * strict; the smallest just after the start. */
static void extreme_hashes_flip_inside_the_window(void **state)
{
    struct rota_gradual change = {.new_value = 1, .start = YEAR, .end = 101 * YEAR};
    uint32_t lowest = UINT32_MAX, highest = 0;
    char text[32], low_text[32], high_text[32];
    (void)state;
    for (int i = 0; i < 1000000; i++) {
        snprintf(text, sizeof text, "%d", i);
        uint32_t hash = rota_hash_farm32(rota_str(text));
        if (hash < lowest)
            memcpy(low_text, text, sizeof text), lowest = hash;
        if (hash > highest)
            memcpy(high_text, text, sizeof text), highest = hash;
    }
    rota_time first = rota_gradual_when(&change, rota_str(low_text));
    rota_time last = rota_gradual_when(&change, rota_str(high_text));
    assert_true(first > change.start && first < change.start + YEAR / 1000);
    assert_true(last <= change.end && last > change.end - YEAR / 1000);
    assert_false(rota_gradual_is_new(&change, rota_str(low_text), first - 1));
    assert_false(rota_gradual_is_new(&change, rota_str(high_text), last - 1));
}

static void change_without_length_switches_at_its_instant(void **state)
{
    struct rota_gradual change = {.old_value = 1, .new_value = 2, .start = 500, .end = 500};
    (void)state;
    assert_int_equal(rota_gradual_check(&change, NULL), ROTA_OK);
    for (int i = 0; i < 100; i++) {
        struct rota_str key = rota_str_of(&i, sizeof i);
        assert_int_equal(rota_gradual_value(&change, key, 499), 1);
        assert_int_equal(rota_gradual_value(&change, key, 500), 2);
        assert_int_equal(rota_gradual_when(&change, key), 500);
    }
}

static void static_value_is_always_new(void **state)
{
    struct rota_gradual change = rota_gradual_static(7);
    (void)state;
    assert_int_equal(rota_gradual_check(&change, NULL), ROTA_OK);
    assert_int_equal(rota_gradual_value(&change, rota_str("k"), 0), 7);
    assert_true(rota_gradual_is_new(&change, rota_str("k"), ROTA_TIME_MIN));
    assert_int_equal(rota_gradual_when(&change, rota_str("k")), ROTA_TIME_MIN);
}

static void refuse(rota_time start, rota_time end, const char *phrase)
{
    struct rota_gradual change = {.old_value = 1, .new_value = 2, .start = start, .end = end};
    struct rota_error error;
    assert_int_equal(rota_gradual_check(&change, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, phrase));

    /* Nobody should ask, but whoever does gets an answer that agrees with
     * itself. */
    rota_time when = rota_gradual_when(&change, rota_str("key"));
    assert_true(rota_gradual_is_new(&change, rota_str("key"), when));
    assert_true(when == ROTA_TIME_MIN || !rota_gradual_is_new(&change, rota_str("key"), when - 1));
}

static void missing_or_reversed_bounds_are_refused(void **state)
{
    (void)state;
    refuse(0, 5, "no start");
    refuse(5, 0, "no end");
    refuse(-1, 5, "start is before 1970");
    refuse(5, -1, "end is before 1970");
    refuse(0, -1, "end is before 1970");
    refuse(-1, 0, "start is before 1970");
    refuse(ROTA_TIME_MIN, INT64_MAX, "before 1970");
    refuse(INT64_MAX, ROTA_TIME_MIN, "before 1970");
    refuse(3 * ROTA_SEC, ROTA_SEC / 2, "2.500000000 s before its start");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(change_is_the_originals),
        cmocka_unit_test(partitions_move_as_their_batch_flips),
        cmocka_unit_test(when_is_the_first_instant_of_the_new_value),
        cmocka_unit_test(a_new_key_stays_new),
        cmocka_unit_test(extreme_hashes_flip_inside_the_window),
        cmocka_unit_test(change_without_length_switches_at_its_instant),
        cmocka_unit_test(static_value_is_always_new),
        cmocka_unit_test(missing_or_reversed_bounds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
