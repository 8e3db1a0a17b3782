#include "core/work/job/fair.h"
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>

static struct rota_fair fair;
static struct rota_fair_queue queue;
static size_t n_freed;

static void on_free(void *data, void *block)
{
    (void)data;
    n_freed++;
    free(block);
}

static void begin(size_t keys_max)
{
    n_freed = 0;
    fair = (struct rota_fair){.keys_max = keys_max, .on_free = on_free};
    rota_list_init(&fair.resting);
    rota_fair_queue_init(&queue, &fair, 1);
}

static struct rota_fair_key *key_of(const char *name)
{
    struct rota_fair_key *key;
    assert_int_equal(rota_fair_key(&queue, rota_str(name), &key, NULL), ROTA_OK);
    return key;
}

static uint64_t tag_of(const char *name)
{
    struct rota_fair_key *key = key_of(name);
    rota_fair_hold(key);
    return rota_fair_tag(&queue, key);
}

static void without_keys_tags_only_grow(void **state)
{
    (void)state;
    begin(10);
    uint64_t last = rota_fair_tag(&queue, NULL);
    for (int i = 0; i < 1000; i++) {
        uint64_t tag = rota_fair_tag(&queue, NULL);
        assert_true(tag > last);
        last = tag;
        if (i % 7 == 0)
            rota_fair_hand_out(&queue, last);
    }
    rota_fair_queue_deinit(&queue);
}

static void a_key_runs_ahead_by_what_it_asks_for_over_its_weight(void **state)
{
    (void)state;
    begin(10);
    rota_fair_set_weight(&queue, key_of("heavy"), 4000, 1);
    uint64_t step = 0;
    for (int i = 0; i < 2; i++)
        step = tag_of("usual") - step;
    for (int i = 0; i < 4; i++)
        tag_of("heavy");
    assert_int_equal(tag_of("heavy"), step); /* four of it are one of the other */
    rota_fair_queue_deinit(&queue);
}

static void no_key_starts_before_the_present(void **state)
{
    (void)state;
    begin(10);
    for (int i = 0; i < 100; i++)
        rota_fair_hand_out(&queue, tag_of("busy"));
    assert_int_equal(tag_of("new"), queue.present);
    rota_fair_hand_out(&queue, 1); /* the present does not go back */
    assert_int_equal(tag_of("other"), queue.present);
    rota_fair_queue_deinit(&queue);
}

static void a_key_without_jobs_is_forgotten_once_the_present_has_reached_it(void **state)
{
    (void)state;
    begin(10);
    uint64_t tag = tag_of("a");
    rota_fair_let_go(key_of("a"));
    assert_non_null(rota_fair_find(&queue, rota_str("a"))); /* it is ahead, and stays so */
    assert_true(tag_of("a") > tag);
    rota_fair_let_go(key_of("a"));
    rota_fair_hand_out(&queue, key_of("a")->ahead);
    key_of("b");
    assert_null(rota_fair_find(&queue, rota_str("a")));
    assert_int_equal(n_freed, 1);
    rota_fair_queue_deinit(&queue);
    assert_int_equal(fair.n_keys, 0);
}

static void a_key_with_a_weight_of_its_own_stays(void **state)
{
    (void)state;
    begin(10);
    rota_fair_set_weight(&queue, key_of("a"), 2000, 0);
    for (int i = 0; i < 5; i++)
        key_of("b");
    assert_int_equal(rota_fair_find(&queue, rota_str("a"))->weight, 2000);
    rota_fair_set_weight(&queue, key_of("a"), ROTA_FAIR_WEIGHT, 0);
    assert_null(rota_fair_find(&queue, rota_str("a")));
    rota_fair_queue_deinit(&queue);
}

static void a_key_that_was_given_the_usual_weight_is_remembered_while_there_is_room(void **state)
{
    (void)state;
    begin(3);
    rota_fair_set_weight(&queue, key_of("a"), 2000, 7);
    rota_fair_set_weight(&queue, key_of("a"), ROTA_FAIR_WEIGHT, 8);
    for (int i = 0; i < 5; i++)
        key_of("b");
    assert_int_equal(rota_fair_find(&queue, rota_str("a"))->weighed_at, 8);
    tag_of("b");
    tag_of("c");
    tag_of("d"); /* needs the room */
    assert_null(rota_fair_find(&queue, rota_str("a")));
    rota_fair_queue_deinit(&queue);
}

static void keys_are_bounded_and_those_that_rest_make_room(void **state)
{
    (void)state;
    begin(2);
    struct rota_fair_key *key;
    tag_of("a");
    tag_of("b");
    assert_int_equal(rota_fair_key(&queue, rota_str("c"), &key, NULL), ROTA_ERR_LIMIT);
    rota_fair_let_go(key_of("a")); /* it is ahead of the present, but that is all */
    tag_of("c");
    assert_null(rota_fair_find(&queue, rota_str("a")));
    assert_int_equal(fair.n_keys, 2);
    rota_fair_queue_deinit(&queue);
}

static void tags_do_not_overflow(void **state)
{
    (void)state;
    begin(2);
    rota_fair_hand_out(&queue, UINT64_MAX - 5);
    rota_fair_set_weight(&queue, NULL, 1, 1);
    assert_int_equal(rota_fair_tag(&queue, NULL), UINT64_MAX - 5);
    assert_int_equal(rota_fair_tag(&queue, NULL), UINT64_MAX);
    assert_int_equal(rota_fair_tag(&queue, NULL), UINT64_MAX);
    rota_fair_queue_deinit(&queue);
}

static void a_queue_is_weighed_by_its_own_weight_or_by_that_of_a_key(void **state)
{
    (void)state;
    begin(10);
    assert_false(rota_fair_is_weighed(&queue));
    rota_fair_set_weight(&queue, NULL, 2000, 5);
    assert_true(rota_fair_is_weighed(&queue));
    rota_fair_set_weight(&queue, NULL, ROTA_FAIR_WEIGHT, 6);
    assert_false(rota_fair_is_weighed(&queue));
    tag_of("a");
    assert_false(rota_fair_is_weighed(&queue));
    rota_fair_set_weight(&queue, key_of("b"), 500, 9);
    assert_true(rota_fair_is_weighed(&queue));
    rota_fair_queue_deinit(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys_tags_only_grow),
        cmocka_unit_test(a_key_runs_ahead_by_what_it_asks_for_over_its_weight),
        cmocka_unit_test(no_key_starts_before_the_present),
        cmocka_unit_test(a_key_without_jobs_is_forgotten_once_the_present_has_reached_it),
        cmocka_unit_test(a_key_with_a_weight_of_its_own_stays),
        cmocka_unit_test(a_key_that_was_given_the_usual_weight_is_remembered_while_there_is_room),
        cmocka_unit_test(keys_are_bounded_and_those_that_rest_make_room),
        cmocka_unit_test(tags_do_not_overflow),
        cmocka_unit_test(a_queue_is_weighed_by_its_own_weight_or_by_that_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
