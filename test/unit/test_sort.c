#include "base/sort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int compare(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void first_repeated_item_is_found(void **state)
{
    int distinct[] = {3, 1, 2}, repeated[] = {2, 9, 2, 1, 9}, one[] = {5};
    (void)state;
    assert_int_equal(rota_sort_distinct(NULL, 0, sizeof(int), compare), 0);
    assert_int_equal(rota_sort_distinct(one, 1, sizeof(int), compare), 1);
    assert_int_equal(rota_sort_distinct(distinct, 3, sizeof(int), compare), 3);
    assert_int_equal(distinct[0], 1);
    assert_int_equal(distinct[2], 3);
    assert_int_equal(rota_sort_distinct(repeated, 5, sizeof(int), compare), 2);
    assert_int_equal(repeated[2], 2);
    assert_int_equal(repeated[4], 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_repeated_item_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
