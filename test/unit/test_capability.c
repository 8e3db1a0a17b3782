#include "core/work/job/capability.h"
#include "vectors.h"

#include <stdio.h>

static struct rota_capabilities all;

static struct rota_capability_list list_of(const char *a, const char *b, const char *c)
{
    struct rota_str names[3] = {rota_str(a), rota_str(b ? b : a), rota_str(c ? c : a)};
    struct rota_capability_list list;
    assert_int_equal(rota_capabilities_make_list(&all, names, 3, &list, NULL), ROTA_OK);
    return list;
}

static struct rota_capability_set *set_of(const char *a, const char *b)
{
    struct rota_str names[2] = {rota_str(a), rota_str(b)};
    struct rota_capability_set *set;
    assert_int_equal(rota_capabilities_set(&all, names, 2, &set, NULL), ROTA_OK);
    return set;
}

static void the_order_of_names_and_repeats_do_not_matter(void **state)
{
    (void)state;
    assert_true(rota_capabilities_init(&all, 10, 1));
    assert_ptr_equal(set_of("a", "b"), set_of("b", "a"));
    assert_ptr_not_equal(set_of("a", "b"), set_of("a", "a"));
    assert_int_equal(set_of("a", "a")->list.size, 1);
    assert_ptr_not_equal(set_of("a", "bc"), set_of("ab", "c"));
    struct rota_capability_list list = list_of("x", "x", "y");
    assert_int_equal(list.size, 2);
    struct rota_str names[] = {rota_str("p"), rota_str("q"), rota_str("p"), rota_str("r")};
    struct rota_capability_set *set;
    assert_int_equal(rota_capabilities_set(&all, names, 4, &set, NULL), ROTA_OK);
    assert_true(rota_str_is_equal(rota_str_of(set->text, set->text_size), rota_str("p q r ")));
    assert_int_equal(set->list.size, 3);
    rota_capabilities_drop_list(&all, &list);
    rota_capabilities_deinit(&all);
}

static void a_worker_fits_when_it_has_all_that_is_needed(void **state)
{
    (void)state;
    assert_true(rota_capabilities_init(&all, 10, 1));
    struct rota_capability_list has = list_of("c", "a", "b"), other = list_of("a", "z", "y");
    assert_true(rota_capability_list_has(&has, &set_of("a", "b")->list));
    assert_true(rota_capability_list_has(&has, &set_of("c", "c")->list));
    assert_true(rota_capability_list_has(&has, &rota_capabilities_set_at(&all, 0)->list));
    assert_false(rota_capability_list_has(&has, &set_of("a", "d")->list));
    assert_false(rota_capability_list_has(&other, &set_of("a", "b")->list));
    rota_capabilities_drop_list(&all, &has);
    rota_capabilities_drop_list(&all, &other);
    rota_capabilities_deinit(&all);
}

static void sets_are_bounded_and_those_without_use_make_room(void **state)
{
    char name[16];
    struct rota_capability_set *sets[9], *more;
    (void)state;
    assert_true(rota_capabilities_init(&all, 10, 1));
    for (int i = 0; i < 9; i++) { /* and the empty one */
        snprintf(name, sizeof name, "n%d", i);
        sets[i] = set_of(name, name);
        sets[i]->n_refs = 1;
    }
    struct rota_str name10 = rota_str("n10");
    struct rota_error error;
    assert_int_equal(rota_capabilities_set(&all, &name10, 1, &more, &error), ROTA_ERR_LIMIT);
    sets[4]->n_refs = 0;
    uint32_t number = sets[4]->number;
    assert_int_equal(rota_capabilities_set(&all, &name10, 1, &more, NULL), ROTA_OK);
    assert_int_equal(more->number, number);
    assert_int_equal(all.by_name.size, 9); /* names go with the last who used them */
    for (int i = 0; i < 9; i++)
        if (i != 4)
            sets[i]->n_refs = 0;
    rota_capabilities_sweep(&all);
    assert_int_equal(all.n_sets, 1);
    assert_int_equal(all.by_name.size, 0);
    rota_capabilities_deinit(&all);
}

static void names_are_bounded(void **state)
{
    enum { STEP = 256 };
    static char texts[STEP][16];
    static struct rota_capability_list lists[ROTA_CAPABILITIES_MAX / STEP];
    struct rota_str names[STEP];
    struct rota_capability_list more;
    (void)state;
    assert_true(rota_capabilities_init(&all, 10, 1));
    for (int i = 0; i < ROTA_CAPABILITIES_MAX / STEP; i++) {
        for (int k = 0; k < STEP; k++) {
            snprintf(texts[k], sizeof texts[k], "n%d", i * STEP + k);
            names[k] = rota_str(texts[k]);
        }
        assert_int_equal(rota_capabilities_make_list(&all, names, STEP, &lists[i], NULL), ROTA_OK);
    }
    names[1] = rota_str("one-more"); /* the first is known, the second can't be */
    assert_int_equal(rota_capabilities_make_list(&all, names, 2, &more, NULL), ROTA_ERR_LIMIT);
    rota_capabilities_drop_list(&all, &lists[0]);
    assert_int_equal(rota_capabilities_make_list(&all, names, 2, &more, NULL), ROTA_OK);
    rota_capabilities_drop_list(&all, &more);
    for (int i = 1; i < ROTA_CAPABILITIES_MAX / STEP; i++)
        rota_capabilities_drop_list(&all, &lists[i]);
    assert_int_equal(all.by_name.size, 0);
    rota_capabilities_deinit(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_names_and_repeats_do_not_matter),
        cmocka_unit_test(a_worker_fits_when_it_has_all_that_is_needed),
        cmocka_unit_test(sets_are_bounded_and_those_without_use_make_room),
        cmocka_unit_test(names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
