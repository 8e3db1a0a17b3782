#include "core/call/get/lru.h"
#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>
#include <stdlib.h>

static struct rota_lru lru;

static bool put(const char *key, const char *value, rota_time expires_at)
{
    struct rota_str bytes = rota_str(value ? value : "");
    return rota_lru_put(&lru, rota_str(key), value ? &bytes : NULL, expires_at);
}

static void assert_value(rota_time now, const char *key, const char *expected)
{
    struct rota_str value;
    assert_int_equal(rota_lru_get(&lru, now, rota_str(key), &value), ROTA_LRU_VALUE);
    assert_true(rota_str_is_equal(value, rota_str(expected)));
}

static enum rota_lru_found find(rota_time now, const char *key)
{
    struct rota_str value;
    return rota_lru_get(&lru, now, rota_str(key), &value);
}

static void a_stored_value_is_found(void **state)
{
    (void)state;
    rota_lru_init(&lru, 1 << 20, 0, 1);
    assert_int_equal(find(0, "a"), ROTA_LRU_MISS);
    assert_true(put("a", "1", 10));
    assert_true(put("", "", 10));
    assert_true(put("gone", NULL, 10));
    assert_value(0, "a", "1");
    assert_value(0, "", "");
    assert_int_equal(find(0, "gone"), ROTA_LRU_ABSENT);
    assert_true(put("a", "2", 10));
    assert_value(0, "a", "2");
    assert_true(put("a", NULL, 10));
    assert_int_equal(find(0, "a"), ROTA_LRU_ABSENT);
    assert_int_equal(rota_lru_n_entries(&lru), 3);
    assert_int_equal(lru.stats.n_hits, 5);
    assert_int_equal(lru.stats.n_misses, 1);
    rota_lru_deinit(&lru);
}

static void each_entry_has_its_own_end(void **state)
{
    (void)state;
    rota_lru_init(&lru, 1 << 20, 0, 1);
    put("long", "1", 100);
    put("short", NULL, 10);
    put("ever", "3", ROTA_TIME_NEVER);
    assert_int_equal(find(9, "short"), ROTA_LRU_ABSENT);
    assert_int_equal(find(10, "short"), ROTA_LRU_MISS);
    assert_int_equal(lru.stats.n_expired, 1);
    assert_int_equal(rota_lru_n_entries(&lru), 2);
    assert_value(99, "long", "1");
    assert_int_equal(find(100, "long"), ROTA_LRU_MISS);
    assert_value(INT64_MAX - 1, "ever", "3");
    rota_lru_deinit(&lru);
}

static void the_one_used_longest_ago_makes_room(void **state)
{
    (void)state;
    rota_lru_init(&lru, 1 << 20, 3, 1);
    put("a", "1", 10);
    put("b", "2", 10);
    put("c", "3", 10);
    assert_value(0, "a", "1");
    put("d", "4", 10);
    assert_int_equal(find(0, "b"), ROTA_LRU_MISS);
    put("c", "33", 10);
    put("e", "5", 10);
    assert_int_equal(find(0, "a"), ROTA_LRU_MISS);
    assert_value(0, "c", "33");
    assert_int_equal(lru.stats.n_evicted, 2);
    rota_lru_deinit(&lru);
}

static void an_oversized_value_evicts_nothing(void **state)
{
    struct rota_str large = {calloc(1, ROTA_LRU_BYTES_MIN), ROTA_LRU_BYTES_MIN};
    (void)state;
    rota_lru_init(&lru, ROTA_LRU_BYTES_MIN, 0, 1);
    put("a", "1", 10);
    put("b", "2", 10);
    assert_false(rota_lru_put(&lru, rota_str("a"), &large, 10));
    assert_int_equal(find(0, "a"), ROTA_LRU_MISS); /* the old value is no longer the value */
    assert_value(0, "b", "2");
    assert_int_equal(lru.stats.n_refused, 1);
    free((void *)large.data);
    rota_lru_deinit(&lru);
}

static void a_value_can_be_put_under_its_own_key(void **state)
{
    struct rota_str value;
    (void)state;
    rota_lru_init(&lru, 1 << 20, 0, 1);
    put("a", "some bytes", 10);
    rota_lru_get(&lru, 0, rota_str("a"), &value);
    assert_true(rota_lru_put(&lru, rota_str("a"), &value, 20));
    assert_value(15, "a", "some bytes");
    rota_lru_deinit(&lru);
}

static void removing_frees_the_bytes(void **state)
{
    (void)state;
    rota_lru_init(&lru, 1 << 20, 0, 1);
    put("a", "1", 10);
    put("b", "2", 10);
    assert_true(rota_lru_n_bytes(&lru) > 2);
    assert_true(rota_lru_remove(&lru, rota_str("a")));
    assert_false(rota_lru_remove(&lru, rota_str("a")));
    assert_int_equal(find(0, "a"), ROTA_LRU_MISS);
    assert_true(rota_lru_remove(&lru, rota_str("b")));
    assert_int_equal(lru.entry_bytes, 0);
    assert_int_equal(rota_lru_n_entries(&lru), 0);
    rota_lru_deinit(&lru);
}

static void an_expired_value_is_not_found(void **state)
{
    (void)state;
    rota_lru_init(&lru, 1 << 20, 0, 1);
    put("a", "1", 10);
    put("b", NULL, 10);
    rota_lru_outdate(&lru);
    assert_int_equal(find(0, "a"), ROTA_LRU_MISS);
    assert_int_equal(find(0, "b"), ROTA_LRU_MISS);
    assert_int_equal(lru.entry_bytes, 0);
    put("a", "2", 10);
    assert_value(0, "a", "2");
    rota_lru_deinit(&lru);
}

/* --- against a model: an array in the order of use --- */

enum { KEYS = 300, MODEL_BYTES = 256 << 10 };

struct model {
    struct item {
        unsigned key;
        int size; /* of the value, -1: absent; its bytes follow from `fill` */
        char fill;
        rota_time expires_at;
    } items[KEYS];
    size_t n;
};

static size_t model_find(const struct model *model, unsigned key)
{
    size_t i = 0;
    while (i < model->n && model->items[i].key != key)
        i++;
    return i;
}

static void model_remove(struct model *model, size_t i)
{
    memmove(&model->items[i], &model->items[i + 1], (model->n - i - 1) * sizeof *model->items);
    model->n--;
}

static void assert_same(struct model *model, rota_time now, unsigned key)
{
    char text[16];
    struct rota_str value;
    size_t i = model_find(model, key);
    snprintf(text, sizeof text, "k%u", key);
    enum rota_lru_found found = rota_lru_get(&lru, now, rota_str(text), &value);
    if (i < model->n && model->items[i].expires_at <= now) {
        model_remove(model, i);
        i = model->n;
    }
    if (i == model->n) {
        assert_int_equal(found, ROTA_LRU_MISS);
        return;
    }
    struct item item = model->items[i];
    assert_int_equal(found, item.size < 0 ? ROTA_LRU_ABSENT : ROTA_LRU_VALUE);
    if (item.size >= 0) {
        assert_int_equal(value.size, item.size);
        for (int at = 0; at < item.size; at++)
            assert_int_equal(value.data[at], item.fill);
    }
    model_remove(model, i);
    model->items[model->n++] = item;
}

/* The bounds are the lru's own business: what it pushed out must be the oldest. */
static void put_both(struct model *model, struct item item)
{
    static char bytes[8192];
    char text[16];
    size_t i = model_find(model, item.key);
    struct rota_str value = {bytes, item.size < 0 ? 0 : (size_t)item.size};
    memset(bytes, item.fill, sizeof bytes);
    snprintf(text, sizeof text, "k%u", item.key);
    assert_true(rota_lru_put(&lru, rota_str(text), item.size < 0 ? NULL : &value, item.expires_at));
    if (i < model->n)
        model_remove(model, i);
    model->items[model->n++] = item;
    while (model->n > rota_lru_n_entries(&lru))
        model_remove(model, 0);
    assert_int_equal(model->n, rota_lru_n_entries(&lru));
}

static void it_does_what_a_simple_list_does(void **state)
{
    struct rota_random random = {0};
    static struct model model;
    (void)state;
    rota_random_init(&random, 7);
    model.n = 0;
    rota_lru_init(&lru, MODEL_BYTES, 0, 1);
    for (rota_time now = 0; now < 50000; now++) {
        unsigned key = (unsigned)rota_random_below(&random, KEYS - 1);
        uint64_t what = rota_random_below(&random, 10);
        if (what < 5)
            assert_same(&model, now, key);
        else if (what < 9)
            put_both(&model, (struct item){key, (int)rota_random_below(&random, 8000) - 100,
                                           (char)(now & 0x7f),
                                           now + (rota_time)rota_random_below(&random, 2000)});
        else if (model_find(&model, key) < model.n) {
            char text[16];
            snprintf(text, sizeof text, "k%u", key);
            assert_true(rota_lru_remove(&lru, rota_str(text)));
            model_remove(&model, model_find(&model, key));
        }
        assert_true(rota_lru_n_bytes(&lru) <= MODEL_BYTES);
    }
    assert_true(lru.stats.n_evicted > 1000 && lru.stats.n_expired > 100);
    rota_lru_deinit(&lru);
}

/* Many small ones: the table grows while the bound is reached. */
static void the_table_counts_too(void **state)
{
    char text[16];
    (void)state;
    rota_lru_init(&lru, ROTA_LRU_BYTES_MIN, 0, 1);
    for (int i = 0; i < 10000; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_true(put(text, NULL, 10));
        assert_int_equal(find(0, text), ROTA_LRU_ABSENT);
        assert_true(rota_lru_n_bytes(&lru) <= ROTA_LRU_BYTES_MIN);
        assert_true(rota_lru_n_bytes(&lru) >= lru.entries.capacity * sizeof(struct rota_map_entry));
    }
    assert_true(rota_lru_n_entries(&lru) > 100);
    rota_lru_deinit(&lru);
}

/* At least the bytes, the entry's own words and what an allocator adds to a block. */
static void an_entry_counts_with_all_that_it_takes(void **state)
{
    static char text[300];
    (void)state;
    for (size_t size = 1; size < sizeof text; size++) {
        rota_lru_init(&lru, 1 << 20, 0, 1);
        struct rota_str key = rota_str_of(text, size / 3 + 1), value = rota_str_of(text, size);
        assert_true(rota_lru_put(&lru, key, &value, ROTA_SEC));
        size_t before = rota_lru_n_bytes(&lru);
        assert_true(lru.entry_bytes >= key.size + value.size + 6 * sizeof(void *) + 16);
        assert_true(lru.entry_bytes <= key.size + value.size + 128);
        assert_true(before > lru.entry_bytes); /* and the table */
        rota_lru_remove(&lru, key);
        assert_int_equal(lru.entry_bytes, 0);
        rota_lru_deinit(&lru);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_value_is_found),
        cmocka_unit_test(each_entry_has_its_own_end),
        cmocka_unit_test(the_one_used_longest_ago_makes_room),
        cmocka_unit_test(an_oversized_value_evicts_nothing),
        cmocka_unit_test(a_value_can_be_put_under_its_own_key),
        cmocka_unit_test(removing_frees_the_bytes),
        cmocka_unit_test(an_expired_value_is_not_found),
        cmocka_unit_test(it_does_what_a_simple_list_does),
        cmocka_unit_test(the_table_counts_too),
        cmocka_unit_test(an_entry_counts_with_all_that_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
