#include "core/call/get/loads.h"
#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>

static struct rota_loads loads;

static void begin(size_t waits_max, size_t keys_max, size_t reads_max)
{
    struct rota_loads_options options = {waits_max, keys_max, reads_max};
    rota_loads_init(&loads, &options, 1);
}

static enum rota_code ask(struct rota_load_asker *asker, const char *key, uint32_t index)
{
    return rota_loads_ask(&loads, rota_str(key), asker, index);
}

/* How many waited for this key. */
static size_t settle(struct rota_load_read *read, const char *key)
{
    uint32_t index;
    size_t n = 0;
    while (rota_loads_next_asker(&loads, read, rota_str(key), &index))
        n++;
    return n;
}

static size_t settle_rest(struct rota_load_read *read)
{
    struct rota_str name;
    uint32_t index;
    size_t n = 0;
    while (rota_loads_next_asker_left(&loads, read, &name, &index))
        n++;
    return n;
}

static void one_read_serves_all_askers(void **state)
{
    struct rota_load_asker askers[50] = {0};
    bool told[50] = {0};
    uint32_t index;
    (void)state;
    begin(1000, 10, 10);
    for (uint32_t i = 0; i < 49; i++)
        assert_int_equal(ask(&askers[i], "k", i), ROTA_OK);
    struct rota_load_read *read = rota_loads_begin(&loads);
    assert_int_equal(read->keys.size, 1);
    assert_int_equal(ask(&askers[49], "k", 49), ROTA_OK); /* while it is being read */
    assert_null(rota_loads_begin(&loads));
    for (struct rota_load_asker *asker;
         (asker = rota_loads_next_asker(&loads, read, rota_str("k"), &index));) {
        assert_ptr_equal(asker, &askers[index]);
        assert_int_equal(asker->n_waiting, 0);
        assert_false(told[index]);
        told[index] = true;
    }
    for (size_t i = 0; i < 50; i++)
        assert_true(told[i]);
    assert_int_equal(settle_rest(read), 0);
    rota_loads_end(&loads, read);
    assert_int_equal(loads.n_loaded, 1);
    assert_int_equal(ask(&askers[0], "k", 0), ROTA_OK); /* a new load */
    read = rota_loads_begin(&loads);
    assert_int_equal(settle_rest(read), 1);
    rota_loads_end(&loads, read);
    rota_loads_deinit(&loads);
}

static void many_keys_go_in_one_read_within_its_bound(void **state)
{
    struct rota_load_asker asker = {0};
    (void)state;
    begin(1000, 3, 2);
    for (uint32_t i = 0; i < 8; i++) {
        char key[] = {(char)('a' + i), 0};
        assert_int_equal(ask(&asker, key, i), ROTA_OK);
    }
    struct rota_load_read *first = rota_loads_begin(&loads), *second = rota_loads_begin(&loads);
    assert_int_equal(first->keys.size, 3);
    assert_int_equal(second->keys.size, 3);
    assert_null(rota_loads_begin(&loads));   /* two at one time */
    assert_int_equal(settle(first, "d"), 0); /* it is the other one's */
    assert_int_equal(settle(first, "b"), 1);
    assert_int_equal(settle(first, "unknown"), 0);
    assert_int_equal(settle_rest(first), 2);
    rota_loads_end(&loads, first);
    first = rota_loads_begin(&loads);
    assert_int_equal(first->keys.size, 2);
    assert_int_equal(settle_rest(first) + settle_rest(second), 5);
    assert_int_equal(asker.n_waiting, 0);
    rota_loads_end(&loads, second);
    rota_loads_end(&loads, first);
    rota_loads_deinit(&loads);
}

static void a_key_asked_for_twice_is_given_out_twice(void **state)
{
    struct rota_load_asker asker = {0};
    uint32_t first = 9, second = 9;
    (void)state;
    begin(10, 10, 1);
    ask(&asker, "", 0);
    ask(&asker, "", 1);
    struct rota_load_read *read = rota_loads_begin(&loads);
    assert_int_equal(read->keys.size, 1);
    assert_non_null(rota_loads_next_asker(&loads, read, rota_str(""), &first));
    assert_non_null(rota_loads_next_asker(&loads, read, rota_str(""), &second));
    assert_int_equal(first + second, 1);
    rota_loads_end(&loads, read);
    rota_loads_deinit(&loads);
}

static void one_wait_too_many_is_refused(void **state)
{
    struct rota_load_asker one = {0}, other = {0};
    (void)state;
    begin(2, 10, 1);
    assert_int_equal(ask(&one, "a", 0), ROTA_OK);
    assert_int_equal(ask(&other, "a", 0), ROTA_OK);
    assert_int_equal(ask(&other, "b", 1), ROTA_ERR_LIMIT);
    assert_int_equal(other.n_waiting, 1);
    rota_loads_forget(&loads, &one);
    assert_int_equal(ask(&other, "b", 1), ROTA_OK);
    rota_loads_deinit(&loads); /* who still waits is forgotten */
    assert_int_equal(other.n_waiting, 0);
}

static void a_key_without_an_asker_is_not_read(void **state)
{
    struct rota_load_asker one = {0}, other = {0};
    (void)state;
    begin(10, 10, 2);
    rota_loads_forget(&loads, &one); /* never asked */
    ask(&one, "a", 0);
    ask(&one, "b", 1);
    ask(&other, "b", 0);
    rota_loads_forget(&loads, &one);
    assert_int_equal(one.n_waiting, 0);
    struct rota_load_read *read = rota_loads_begin(&loads);
    assert_int_equal(read->keys.size, 1);
    rota_loads_forget(&loads, &other); /* while it is being read */
    ask(&one, "b", 7);                 /* and back: it joins */
    assert_null(rota_loads_begin(&loads));
    assert_int_equal(settle(read, "b"), 1);
    rota_loads_end(&loads, read);
    rota_loads_deinit(&loads);
}

static void a_read_that_was_too_large_is_read_key_by_key(void **state)
{
    struct rota_load_asker asker = {0}, gone = {0};
    (void)state;
    begin(10, 10, 10);
    ask(&asker, "a", 0);
    ask(&asker, "b", 1);
    ask(&gone, "c", 0);
    struct rota_load_read *read = rota_loads_begin(&loads);
    rota_loads_forget(&loads, &gone);
    rota_loads_split(&loads, read);
    ask(&asker, "d", 2);
    ask(&asker, "e", 3);
    size_t sizes[3];
    struct rota_load_read *reads[3];
    for (size_t i = 0; i < 3; i++) {
        reads[i] = rota_loads_begin(&loads);
        sizes[i] = reads[i]->keys.size;
    }
    assert_null(rota_loads_begin(&loads));
    assert_true(sizes[0] == 1 && sizes[1] == 1 && sizes[2] == 2);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(settle_rest(reads[i]), sizes[i]);
        rota_loads_end(&loads, reads[i]);
    }
    rota_loads_deinit(&loads);
}

/* Askers come, go and are answered by chance: nobody is told twice or not at all, and
 * no key is in two reads. */
enum { ASKERS = 40, NAMES = 25, READS = 4 };

struct chance {
    struct rota_load_asker askers[ASKERS];
    unsigned waits[ASKERS]; /* how many answers each has to get */
    struct rota_load_read *reads[READS];
    unsigned n_reading[NAMES];
};

static unsigned number_of(struct rota_str name)
{
    return (unsigned)(name.data[0] - 'a');
}

static void end_read(struct chance *chance, size_t i, bool splits)
{
    struct rota_load_read *read = chance->reads[i];
    struct rota_load_asker *asker;
    struct rota_str name;
    uint32_t index;
    chance->reads[i] = NULL;
    for (size_t k = 0; k < read->keys.size; k++)
        chance->n_reading[number_of(read->keys.items[k])]--;
    if (splits && read->keys.size > 1) {
        rota_loads_split(&loads, read);
        return;
    }
    while ((asker = rota_loads_next_asker_left(&loads, read, &name, &index))) {
        assert_ptr_equal(asker, &chance->askers[index]);
        assert_true(chance->waits[index]-- > 0);
    }
    rota_loads_end(&loads, read);
}

static void step(struct chance *chance, struct rota_random *random)
{
    uint32_t who = (uint32_t)rota_random_below(random, ASKERS);
    size_t slot = (size_t)rota_random_below(random, READS);
    char name[] = {(char)('a' + rota_random_below(random, NAMES)), 0};
    switch (rota_random_below(random, 8)) {
    case 0:
        rota_loads_forget(&loads, &chance->askers[who]);
        chance->waits[who] = 0;
        break;
    case 1:
    case 2:
        if (chance->reads[slot])
            end_read(chance, slot, rota_random_chance(random, 0.2));
        break;
    case 3:
        if (!chance->reads[slot] && (chance->reads[slot] = rota_loads_begin(&loads)))
            for (size_t k = 0; k < chance->reads[slot]->keys.size; k++)
                assert_int_equal(++chance->n_reading[number_of(chance->reads[slot]->keys.items[k])],
                                 1);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        if (ask(&chance->askers[who], name, who) == ROTA_OK)
            chance->waits[who]++;
        break;
    }
    for (size_t i = 0; i < ASKERS; i++)
        assert_int_equal(chance->askers[i].n_waiting, chance->waits[i]);
}

static void every_asker_is_returned_once(void **state)
{
    static struct chance chance;
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 3);
    chance = (struct chance){0};
    begin(200, 6, READS);
    for (int i = 0; i < 20000; i++)
        step(&chance, &random);
    assert_true(loads.n_loaded * 2 < loads.n_asked);
    for (size_t i = 0; i < READS; i++)
        if (chance.reads[i])
            end_read(&chance, i, false);
    rota_loads_deinit(&loads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_read_serves_all_askers),
        cmocka_unit_test(many_keys_go_in_one_read_within_its_bound),
        cmocka_unit_test(a_key_asked_for_twice_is_given_out_twice),
        cmocka_unit_test(one_wait_too_many_is_refused),
        cmocka_unit_test(a_key_without_an_asker_is_not_read),
        cmocka_unit_test(a_read_that_was_too_large_is_read_key_by_key),
        cmocka_unit_test(every_asker_is_returned_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
