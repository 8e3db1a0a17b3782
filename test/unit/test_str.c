#include <rota/str.h>

#include "vectors.h"

#include <stdio.h>

static const struct rota_str none = {NULL, 0};

static void equal_means_the_same_bytes(void **state)
{
    (void)state;
    assert_true(rota_str_is_equal(rota_str("ab"), rota_str_of("abc", 2)));
    assert_false(rota_str_is_equal(rota_str("ab"), rota_str("ac")));
    assert_false(rota_str_is_equal(rota_str("ab"), rota_str("abc")));
    assert_false(rota_str_is_equal(rota_str_of("a\0b", 3), rota_str_of("a\0c", 3)));
    assert_true(rota_str_is_equal(none, rota_str("")));
}

static void order_is_by_unsigned_bytes_then_length(void **state)
{
    /* Each one is before all that follow. */
    const struct rota_str sorted[] = {none,
                                      rota_str_of("\0", 1),
                                      rota_str_of("\0\0", 2),
                                      rota_str("a"),
                                      rota_str("aa"),
                                      rota_str("b"),
                                      rota_str("\x7f"),
                                      rota_str("\x80"),
                                      rota_str("\xff")};
    enum { N = sizeof sorted / sizeof sorted[0] };
    (void)state;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            int order = rota_str_compare(sorted[i], sorted[j]);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}

static void every_text_begins_with_its_prefixes(void **state)
{
    (void)state;
    assert_true(rota_str_has_prefix(none, none));
    assert_true(rota_str_has_prefix(rota_str("abc"), none));
    assert_true(rota_str_has_prefix(rota_str("abc"), rota_str("ab")));
    assert_true(rota_str_has_prefix(rota_str("abc"), rota_str("abc")));
    assert_false(rota_str_has_prefix(rota_str("abc"), rota_str("abcd")));
    assert_false(rota_str_has_prefix(rota_str("abc"), rota_str("b")));
    assert_false(rota_str_has_prefix(none, rota_str("a")));
}

static void printf_takes_exactly_the_bytes(void **state)
{
    char text[16];
    (void)state;
    snprintf(text, sizeof text, "<%.*s>", ROTA_STR_ARGS(rota_str_of("abcdef", 3)));
    assert_string_equal(text, "<abc>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_means_the_same_bytes),
        cmocka_unit_test(order_is_by_unsigned_bytes_then_length),
        cmocka_unit_test(every_text_begins_with_its_prefixes),
        cmocka_unit_test(printf_takes_exactly_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
