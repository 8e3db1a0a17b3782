#include "sim/splits.h"

#include "vectors.h"

static void assert_children(const char *name, const char *first, const char *second)
{
    struct rota_splits_child children[2];
    size_t n = rota_splits_children(rota_str(name), children);
    assert_int_equal(n, second ? 2 : 1);
    assert_string_equal(children[0].name, first);
    if (second)
        assert_string_equal(children[1].name, second);
}

static void initial_partition_splits(void **state)
{
    struct rota_splits_child children[2];
    (void)state;
    assert_children("p0", "p0.0@1", "p0.1@1");
    assert_int_equal(rota_splits_children(rota_str("p0"), children), 2);
    assert_int_equal(children[1].n_parents, 1);
    assert_string_equal(children[1].parents[0], "p0");
}

static void deepest_ones_become_one(void **state)
{
    struct rota_splits_child left[2], right[2];
    (void)state;
    assert_int_equal(rota_splits_children(rota_str("p0.010@7"), left), 1);
    assert_int_equal(rota_splits_children(rota_str("p0.011@7"), right), 1);
    assert_memory_equal(&left[0], &right[0], sizeof left[0]); /* both say the same */
    assert_string_equal(left[0].name, "p0.01+8");
    assert_int_equal(left[0].n_parents, 2);
    assert_string_equal(left[0].parents[0], "p0.010@7");
    assert_string_equal(left[0].parents[1], "p0.011@7");
}

enum { LIVE_MAX = 1 << ROTA_SPLITS_DEPTH };

/* From one on, whatever ends: siblings agree, and there are never too many. */
static void generations_fit_together(void **state)
{
    static char live[2 * LIVE_MAX][ROTA_SPLITS_NAME_MAX], next[2 * LIVE_MAX][ROTA_SPLITS_NAME_MAX];
    size_t n_live = 1, n_merges = 0, n_splits = 0;
    (void)state;
    strcpy(live[0], "p3");
    for (int turn = 1; turn < 200; turn++) {
        size_t n_next = 0;
        for (size_t i = 0; i < n_live; i++) {
            struct rota_splits_child children[2];
            size_t n = rota_splits_children(rota_str(live[i]), children);
            n_splits += n == 2;
            if (n == 1) { /* the other parent is there, right beside it */
                size_t other = strcmp(children[0].parents[0], live[i]) == 0 ? i + 1 : i - 1;
                assert_true(other < n_live);
                assert_string_equal(children[0].parents[other > i], live[other]);
                n_merges++;
                if (other < i)
                    continue;
            }
            for (size_t j = 0; j < n; j++)
                strcpy(next[n_next++], children[j].name);
        }
        assert_true(n_next > 0 && n_next <= LIVE_MAX);
        memcpy(live, next, sizeof live);
        n_live = n_next;
    }
    assert_true(n_merges > 100 && n_splits > 100);
}

static void end_is_the_same_for_every_reader(void **state)
{
    struct rota_str name = rota_str("p0.1@1");
    int64_t end = rota_splits_end(name, 0, 100000, 50);
    (void)state;
    assert_true(end > 0);
    for (int64_t from = 0; from < end; from += 7)
        assert_int_equal(rota_splits_end(name, from, end + 10, 50), end);
    assert_int_equal(rota_splits_end(name, 0, end - 1, 50), 0);
    assert_true(rota_splits_end(name, end, 100000, 50) > end);
    assert_int_equal(rota_splits_end(name, 0, 100000, 0), 0); /* never */
    assert_int_equal(rota_splits_end(name, 0, 100000, 1), 1);
}

static void other_names_are_initial_partitions(void **state)
{
    static const char *const names[] = {"@",   "p@",       "p@x",
                                        "p@0", "p.0000@1", "p@99999999999999999999"};
    struct rota_splits_child children[2];
    char name[600];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(rota_splits_children(rota_str(names[i]), children), 2);
    memset(name, 'x', sizeof name);
    assert_int_equal(rota_splits_children(rota_str_of(name, sizeof name), children), 2);
    assert_true(strlen(children[0].name) < ROTA_SPLITS_NAME_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_partition_splits),
        cmocka_unit_test(deepest_ones_become_one),
        cmocka_unit_test(generations_fit_together),
        cmocka_unit_test(end_is_the_same_for_every_reader),
        cmocka_unit_test(other_names_are_initial_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
