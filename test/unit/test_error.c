#include <rota/error.h>

#include "base/error_at.h"

#include "vectors.h"

static void code_and_sentence_are_kept(void **state)
{
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_error_set(&error, ROTA_ERR_LIMIT, "%d of %s", 7, "them"), ROTA_ERR_LIMIT);
    assert_int_equal(error.code, ROTA_ERR_LIMIT);
    assert_string_equal(error.text, "7 of them");
}

static void the_error_is_optional(void **state)
{
    (void)state;
    assert_int_equal(rota_error_set(NULL, ROTA_ERR_IO, "unheard"), ROTA_ERR_IO);
}

static void long_sentences_are_cut(void **state)
{
    struct rota_error error;
    char text[2 * ROTA_ERROR_TEXT_MAX];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    rota_error_set(&error, ROTA_ERR_INVALID, "%s", text);
    assert_int_equal(strlen(error.text), ROTA_ERROR_TEXT_MAX - 1);
    assert_memory_equal(error.text, text, ROTA_ERROR_TEXT_MAX - 1);
}

static void every_code_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = ROTA_OK; i <= ROTA_ERR_STALE; i++) {
        assert_string_not_equal(rota_code_name((enum rota_code)i), "unknown");
        for (int j = ROTA_OK; j < i; j++)
            assert_string_not_equal(rota_code_name((enum rota_code)i),
                                    rota_code_name((enum rota_code)j));
    }
    assert_string_equal(rota_code_name(ROTA_ERR_INVALID), "invalid");
    assert_string_equal(rota_code_name((enum rota_code)(ROTA_ERR_STALE + 1)), "unknown");
}

static void error_about_a_line_names_it(void **state)
{
    static char long_name[600];
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_error_set_at(&error, ROTA_ERR_LIMIT, "hosts", 7, "%d too many", 3),
                     ROTA_ERR_LIMIT);
    assert_int_equal(error.code, ROTA_ERR_LIMIT);
    assert_string_equal(error.text, "hosts:7: 3 too many");
    assert_int_equal(rota_error_set_at(NULL, ROTA_ERR_INVALID, "hosts", 7, "x"), ROTA_ERR_INVALID);

    memset(long_name, 'n', sizeof long_name - 1); /* leaves room for the sentence */
    rota_error_set_at(&error, ROTA_ERR_INVALID, long_name, SIZE_MAX, "%s", long_name);
    assert_int_equal(strlen(error.text), ROTA_ERROR_TEXT_MAX - 1);
    assert_non_null(strstr(error.text, "n:18446744073709551615: n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_about_a_line_names_it),
        cmocka_unit_test(code_and_sentence_are_kept),
        cmocka_unit_test(the_error_is_optional),
        cmocka_unit_test(long_sentences_are_cut),
        cmocka_unit_test(every_code_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
