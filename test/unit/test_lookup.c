/* The answer about a job, from the answers of the nodes. */
#include "core/work/job/lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define U ROTA_LOOKUP_UNASKED
#define F ROTA_LOOKUP_FOUND
#define R ROTA_LOOKUP_REFUSED
#define N ROTA_LOOKUP_NONE
#define O ROTA_LOOKUP_UNOWNED
#define S ROTA_LOOKUP_SILENT
#define Q ROTA_LOOKUP_UNSURE

#define CHOOSE(is_shared, ...)                                                                     \
    rota_lookup_choose((const enum rota_lookup_word[]){__VA_ARGS__},                               \
                       sizeof((const enum rota_lookup_word[]){__VA_ARGS__}) /                      \
                           sizeof(enum rota_lookup_word),                                          \
                       is_shared)

static void the_node_with_the_job_answers(void **state)
{
    (void)state;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        assert_int_equal(CHOOSE(is_shared, N, S, F, O), 2);
        assert_int_equal(CHOOSE(is_shared, N, R, S), 1);
        assert_int_equal(CHOOSE(is_shared, R, F), 1);
    }
}

static void with_journals_a_job_does_not_exist_if_every_node_says_so(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(false, N, U, N), 0);
    assert_int_equal(CHOOSE(false, N, N, S), 2); /* that one may have it */
    assert_int_equal(CHOOSE(false, S, N, N), 0);
    assert_int_equal(CHOOSE(false, N, Q, N),
                     1); /* it has handed the job to a node we do not know */
}

static void with_a_store_the_owner_of_the_partition_speaks_for_all(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(true, O, S, N), 2);
    assert_int_equal(CHOOSE(true, O, S, O), 1); /* the one that is unresponsive may own it */
    assert_int_equal(CHOOSE(true, O, U, O), 0); /* it changes hands: try again */
}

static void without_answers_nothing_is_known(void **state)
{
    (void)state;
    assert_true(CHOOSE(true, U, U) == SIZE_MAX);
    assert_true(CHOOSE(false, U) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_node_with_the_job_answers),
        cmocka_unit_test(with_journals_a_job_does_not_exist_if_every_node_says_so),
        cmocka_unit_test(with_a_store_the_owner_of_the_partition_speaks_for_all),
        cmocka_unit_test(without_answers_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
