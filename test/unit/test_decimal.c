#include "base/decimal.h"

#include "vectors.h"
#include <rota/experimental/random.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

static void assert_format(double value, const char *expected)
{
    char text[ROTA_DECIMAL_TEXT_MAX];
    assert_string_equal(rota_decimal_format(value, text), expected);
}

static void few_digits_are_enough(void **state)
{
    (void)state;
    assert_format(0, "0");
    assert_format(-0.0, "-0");
    assert_format(1, "1");
    assert_format(0.1, "0.1");
    assert_format(-2.5, "-2.5");
    assert_format(0.1 + 0.2, "0.30000000000000004");
    assert_format(1.0 / 3, "0.3333333333333333");
    assert_format(1e21, "1e+21");
    assert_format(0x1p-1074, "5e-324");
    assert_format(DBL_MAX, "1.7976931348623157e+308");
    assert_format(NAN, "NaN");
    assert_format(-NAN, "NaN");
    assert_format(INFINITY, "+Inf");
    assert_format(-INFINITY, "-Inf");
}

static void what_is_written_is_read_again(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 100000; i++) {
        char text[ROTA_DECIMAL_TEXT_MAX];
        uint64_t bits = rota_random_next(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            assert_true(strtod(rota_decimal_format(value, text), NULL) == value);
    }
}

static void whole_numbers_have_all_their_digits(void **state)
{
    static const uint64_t numbers[] = {0, 7, 10, 99, 100, 4294967295, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[21], expected[21];
        *rota_decimal_put(text, numbers[i]) = '\0';
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)numbers[i]);
        assert_string_equal(text, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_have_all_their_digits),
        cmocka_unit_test(few_digits_are_enough),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
