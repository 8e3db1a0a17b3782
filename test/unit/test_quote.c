#include "base/quote.h"

#include "vectors.h"
#include <rota/experimental/random.h>

static void assert_quoted(struct rota_str str, const char *expected)
{
    char text[ROTA_QUOTE_MAX];
    assert_string_equal(rota_quote(str, text), expected);
}

static void plain_text_stays(void **state)
{
    (void)state;
    assert_quoted(rota_str_of(NULL, 0), "\"\"");
    assert_quoted(rota_str("lease / gained"), "\"lease / gained\"");
    assert_quoted(rota_str("\u00e9 \u20ac \U0001f3a1"), "\"\u00e9 \u20ac \U0001f3a1\"");
}

static void dangerous_characters_are_escaped(void **state)
{
    (void)state;
    assert_quoted(rota_str("a\"b\\c"), "\"a\\\"b\\\\c\"");
    assert_quoted(rota_str("\n\r\t"), "\"\\n\\r\\t\"");
    assert_quoted(rota_str_of("\0\33\177", 3), "\"\\u0000\\u001b\\u007f\"");
    assert_quoted(rota_str("\xc2\x9b\u2028\u202e\u2066"), "\"\\u009b\\u2028\\u202e\\u2066\"");
}

static void bytes_that_are_not_text_are_replaced(void **state)
{
    (void)state;
    assert_quoted(rota_str("a\x80z"), "\"a\\ufffdz\"");                   /* no lead */
    assert_quoted(rota_str("\xc3"), "\"\\ufffd\"");                       /* cut short */
    assert_quoted(rota_str("\xc3z"), "\"\\ufffdz\"");                     /* no follower */
    assert_quoted(rota_str("\xc0\xaf"), "\"\\ufffd\\ufffd\"");            /* overlong */
    assert_quoted(rota_str("\xe0\x80\xaf"), "\"\\ufffd\\ufffd\\ufffd\""); /* overlong */
    assert_quoted(rota_str("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\""); /* a surrogate */
    assert_quoted(rota_str("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    assert_quoted(rota_str("\xff"), "\"\\ufffd\"");
}

static void long_text_is_cut_between_characters(void **state)
{
    char long_text[300], text[ROTA_QUOTE_MAX];
    (void)state;
    for (size_t size = 0; size < sizeof long_text; size++) {
        memset(long_text, 'x', size);
        rota_quote(rota_str_of(long_text, size), text);
        assert_true(strlen(text) < sizeof text);
        assert_true(strstr(text, "...") ? size > 80 : strlen(text) == size + 2);
        memset(long_text, '\xff', size);
        rota_quote(rota_str_of(long_text, size), text);
        assert_true(strlen(text) < sizeof text);
        assert_int_equal(strspn(text, "\"\\ufd."), strlen(text));
    }
}

/* Jansson knows what a JSON text is. */
static void any_bytes_become_a_json_text(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 20000; i++) {
        char bytes[12], text[ROTA_QUOTE_MAX];
        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (char)(rota_random_next(&random) >> (i % 57));
        rota_quote(rota_str_of(bytes, sizeof bytes), text);
        json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_true(json_is_string(json));
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_stays),
        cmocka_unit_test(dangerous_characters_are_escaped),
        cmocka_unit_test(bytes_that_are_not_text_are_replaced),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(any_bytes_become_a_json_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
