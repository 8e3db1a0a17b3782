#include "base/map.h"

#include "base/hash.h"
#include "vectors.h"
#include <rota/experimental/random.h>

#include <stdio.h>

enum { KEYS = 200, SEED = 42 };

static char texts[KEYS][16];
static struct rota_str keys[KEYS];

/* Keys with few different homes: the lowest `bits` of their hashes are all set
 * or none, so that runs are long and go around the end of the table. */
static void make_keys(int bits)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (size_t n = 0, i = 0; n < KEYS; i++) {
        snprintf(texts[n], sizeof texts[n], "k%zu", i);
        keys[n] = rota_str(texts[n]);
        uint64_t low = rota_hash_sip64(SEED, keys[n]) & mask;
        n += low == 0 || low == mask;
    }
}

static void assert_same(const struct rota_map *map, void *const model[KEYS])
{
    size_t n = 0, n_visited = 0, place = 0;
    const struct rota_map_entry *entry;
    for (size_t i = 0; i < KEYS; i++) {
        assert_ptr_equal(rota_map_get(map, keys[i]), model[i]);
        n += model[i] != NULL;
    }
    assert_int_equal(map->size, n);
    while ((entry = rota_map_next(map, &place))) {
        size_t i = (size_t)(entry->key.data - texts[0]) / sizeof texts[0];
        assert_ptr_equal(entry->value, model[i]);
        n_visited++;
    }
    assert_int_equal(n_visited, n);
}

/* Against an array that is simply looked through; the number of keys goes up
 * and down so that it grows, fills and empties. */
static void it_is_the_model(void **state)
{
    (void)state;
    for (int bits = 0; bits <= 8; bits += 4) {
        struct rota_map map;
        struct rota_random random;
        void *model[KEYS] = {NULL};
        static char values[KEYS * 2];
        make_keys(bits);
        rota_map_init(&map, SEED);
        rota_random_init(&random, (uint64_t)bits);
        for (int step = 0; step < 6000; step++) {
            size_t i = rota_random_below(&random, KEYS);
            bool grows = step / 1000 % 2 == 0;
            if (rota_random_chance(&random, grows ? 0.7 : 0.3)) {
                void *value = &values[rota_random_below(&random, sizeof values)];
                assert_true(rota_map_put(&map, keys[i], value));
                model[i] = value;
            } else {
                assert_ptr_equal(rota_map_remove(&map, keys[i]), model[i]);
                model[i] = NULL;
            }
            assert_ptr_equal(rota_map_get(&map, keys[i]), model[i]);
            if (step % 20 == 0)
                assert_same(&map, model);
        }
        assert_same(&map, model);
        rota_map_deinit(&map);
    }
}

static void an_empty_map_has_nothing(void **state)
{
    struct rota_map map;
    size_t place = 0;
    (void)state;
    rota_map_init(&map, SEED);
    assert_null(rota_map_get(&map, rota_str("x")));
    assert_null(rota_map_remove(&map, rota_str("x")));
    assert_null(rota_map_next(&map, &place));
    rota_map_deinit(&map);
}

static void keys_are_bytes(void **state)
{
    struct rota_map map;
    int a, b, c;
    (void)state;
    rota_map_init(&map, SEED);
    assert_true(rota_map_put(&map, rota_str_of(NULL, 0), &a));
    assert_true(rota_map_put(&map, rota_str_of("x\0", 2), &b));
    assert_true(rota_map_put(&map, rota_str_of("x\0y", 3), &c));
    assert_ptr_equal(rota_map_get(&map, rota_str("")), &a);
    assert_ptr_equal(rota_map_get(&map, rota_str_of("x\0", 2)), &b);
    assert_ptr_equal(rota_map_get(&map, rota_str_of("x\0y", 3)), &c);
    assert_null(rota_map_get(&map, rota_str("x")));
    rota_map_deinit(&map);
}

/* A value often holds its own key, so the old one may be about to go. */
static void a_replaced_value_brings_its_own_key(void **state)
{
    struct rota_map map;
    char old[] = "key", new[] = "key";
    size_t place = 0;
    (void)state;
    rota_map_init(&map, SEED);
    assert_true(rota_map_put(&map, rota_str(old), old));
    assert_true(rota_map_put(&map, rota_str(new), new));
    assert_int_equal(map.size, 1);
    assert_ptr_equal(rota_map_next(&map, &place)->key.data, new);
    rota_map_deinit(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_model),
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(a_replaced_value_brings_its_own_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
