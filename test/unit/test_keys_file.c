/* Keys by name. */
#include "wire/text/keys_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define ALPHA "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
#define BETA  "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"

static void a_list_is_found_by_key_and_by_name(void **state)
{
    struct rota_keys keys = {0};
    struct rota_key key, nobodys = {{0}};
    char text[ROTA_KEY_TEXT_SIZE + 1];
    (void)state;
    assert_int_equal(rota_keys_file_parse(rota_str("# workers\n\n alpha \t" ALPHA "\r\nbeta " BETA),
                                          "list", &keys, NULL),
                     ROTA_OK);
    assert_true(rota_keys_file_parse_key(rota_str(ALPHA), &key));
    assert_string_equal(rota_keys_file_format_key(&key, text), ALPHA);
    assert_true(rota_str_is_equal(rota_keys_file_find_name(&keys, &key), rota_str("alpha")));
    assert_int_equal(rota_keys_file_find_name(&keys, &nobodys).size, 0);
    assert_memory_equal(rota_keys_file_find_key(&keys, rota_str("alpha")), &key, sizeof key);
    assert_null(rota_keys_file_find_key(&keys, rota_str("gamma")));
    rota_keys_file_deinit(&keys);
}

static void a_name_may_have_two_keys_and_a_key_one_name(void **state)
{
    struct rota_keys keys = {0};
    struct rota_error error;
    (void)state;
    assert_int_equal(
        rota_keys_file_parse(rota_str("alpha " ALPHA "\nalpha " BETA "\n"), "list", &keys, NULL),
        ROTA_OK);
    rota_keys_file_deinit(&keys);
    assert_int_equal(
        rota_keys_file_parse(rota_str("alpha " ALPHA "\nbeta " ALPHA "\n"), "list", &keys, &error),
        ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "\"alpha\""));
    assert_non_null(strstr(error.text, "\"beta\""));
}

static void invalid_key_is_reported_with_its_line(void **state)
{
    static const char *const wrong[] = {
        "alpha",
        "alpha short",
        "alpha " ALPHA "7",
        "alpha " ALPHA " and more",
        "alpha \"q:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", /* no character of Z85 */
        "alpha #####"
        "}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", /* beyond 32 bits */
    };
    struct rota_keys keys = {0};
    struct rota_error error;
    char text[200];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "# one\n%s\n", wrong[i]);
        assert_int_equal(rota_keys_file_parse(rota_str(text), "list", &keys, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "list:2: "));
        assert_int_equal(keys.entries.size, 0);
    }
    assert_int_equal(rota_keys_file_parse(rota_str_of("a\0b " ALPHA, 44), "list", &keys, &error),
                     0);
    rota_keys_file_deinit(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_found_by_key_and_by_name),
        cmocka_unit_test(a_name_may_have_two_keys_and_a_key_one_name),
        cmocka_unit_test(invalid_key_is_reported_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
