#include "base/percent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_byte_comes_back(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[3];
        size_t at = 0;
        assert_ptr_equal(rota_percent_encode(text, (unsigned char)c), text + 3);
        assert_int_equal(rota_percent_decode(rota_str_of(text, 3), &at), c);
        assert_int_equal(at, 2);
    }
}

static void digits_of_either_case_are_read_and_large_ones_written(void **state)
{
    (void)state;
    char text[4] = "";
    size_t at = 1;
    assert_int_equal(rota_percent_decode(rota_str("x%aFx"), &at), 0xaf);
    assert_int_equal(at, 3);
    rota_percent_encode(text, 0xaf);
    assert_string_equal(text, "%AF");
}

static void other_bytes_are_themselves(void **state)
{
    (void)state;
    size_t at = 0;
    assert_int_equal(rota_percent_decode(rota_str("\xff"), &at), 0xff);
    assert_int_equal(rota_percent_decode(rota_str_of("", 1), &at), 0);
    assert_int_equal(at, 0);
}

static void a_percent_without_two_digits_is_not_an_escape(void **state)
{
    (void)state;
    static const char *const texts[] = {"%", "%4", "%4g", "%g4", "%%41", "% 4"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t at = 0;
        assert_int_equal(rota_percent_decode(rota_str(texts[i]), &at), -1);
        assert_int_equal(at, 0);
    }
    size_t at = 0; /* what is behind the end does not count */
    assert_int_equal(rota_percent_decode(rota_str_of("%41", 2), &at), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(digits_of_either_case_are_read_and_large_ones_written),
        cmocka_unit_test(other_bytes_are_themselves),
        cmocka_unit_test(a_percent_without_two_digits_is_not_an_escape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
