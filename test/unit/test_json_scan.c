#include "wire/text/json_scan.h"

#include "vectors.h"

static char room[1024];

static struct rota_scan scan_of(const char *text)
{
    struct rota_scan scan;
    rota_json_scan_init(&scan, rota_str(text), room);
    return scan;
}

static bool is_value(struct rota_str text)
{
    struct rota_scan scan;
    rota_json_scan_init(&scan, text, NULL);
    rota_json_scan_skip(&scan);
    rota_json_scan_end(&scan);
    return !scan.failed;
}

static void assert_str(struct rota_str str, const char *text)
{
    assert_true(rota_str_is_equal(str, rota_str(text)));
}

static void object_is_read_key_by_key(void **state)
{
    struct rota_scan scan = scan_of(" { \"a\" : 7 , \"b\" : [ true , false ] , \"c\" : -3 } ");
    struct rota_str key;
    (void)state;
    rota_json_scan_object(&scan);
    assert_true(rota_json_scan_key(&scan, &key));
    assert_str(key, "a");
    assert_int_equal(rota_json_scan_uint(&scan, 10), 7);
    assert_true(rota_json_scan_key(&scan, &key));
    assert_str(key, "b");
    rota_json_scan_array(&scan);
    assert_true(rota_json_scan_item(&scan));
    assert_true(rota_json_scan_bool(&scan));
    assert_true(rota_json_scan_item(&scan));
    assert_false(rota_json_scan_bool(&scan));
    assert_false(rota_json_scan_item(&scan));
    assert_true(rota_json_scan_key(&scan, &key));
    assert_str(key, "c");
    assert_int_equal(rota_json_scan_int(&scan), -3);
    assert_false(rota_json_scan_key(&scan, &key));
    rota_json_scan_end(&scan);
    assert_false(scan.failed);
}

static void strings_are_decoded_side_by_side(void **state)
{
    struct rota_scan scan = scan_of(
        "[\"\",\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"\\u0041\\u00e9\\ud83d\\ude00\",\"\xc3\xa9\"]");
    struct rota_str texts[4];
    (void)state;
    rota_json_scan_array(&scan);
    for (int i = 0; i < 4; i++) {
        assert_true(rota_json_scan_item(&scan));
        texts[i] = rota_json_scan_string(&scan);
    }
    assert_false(rota_json_scan_item(&scan));
    rota_json_scan_end(&scan);
    assert_false(scan.failed);
    assert_str(texts[0], "");
    assert_str(texts[1], "a\"\\/\b\f\n\r\t");
    assert_str(texts[2], "A\xc3\xa9\xf0\x9f\x98\x80");
    assert_str(texts[3], "\xc3\xa9");
}

static void string_with_a_nul_keeps_it(void **state)
{
    struct rota_scan scan = scan_of("\"a\\u0000b\"");
    (void)state;
    assert_true(rota_str_is_equal(rota_json_scan_string(&scan), rota_str_of("a\0b", 3)));
    assert_false(scan.failed);
}

static void malformed_strings_fail(void **state)
{
    static const char *const bad[] = {
        "\"",
        "\"a",
        "a",
        "'a'",
        "\"\\x\"",
        "\"\\",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\n\"",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xed\xa0\x80\"",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rota_scan scan = scan_of(bad[i]);
        assert_str(rota_json_scan_string(&scan), "");
        assert_true(scan.failed);
        assert_false(is_value(rota_str(bad[i])));
    }
    assert_false(is_value(rota_str_of("\"a\0b\"", 5)));
}

static void numbers_stay_in_their_bounds(void **state)
{
    struct rota_scan scan = scan_of("18446744073709551615");
    (void)state;
    assert_true(rota_json_scan_uint(&scan, UINT64_MAX) == UINT64_MAX);
    assert_false(scan.failed);
    scan = scan_of("18446744073709551616");
    assert_int_equal(rota_json_scan_uint(&scan, UINT64_MAX), 0);
    assert_true(scan.failed);
    scan = scan_of("11");
    rota_json_scan_uint(&scan, 10);
    assert_true(scan.failed);
    scan = scan_of("5");
    rota_json_scan_uint(&scan, 4);
    assert_true(scan.failed);
    scan = scan_of("9223372036854775807");
    assert_true(rota_json_scan_int(&scan) == INT64_MAX && !scan.failed);
    scan = scan_of("-9223372036854775808");
    assert_true(rota_json_scan_int(&scan) == INT64_MIN && !scan.failed);
    scan = scan_of("9223372036854775808");
    rota_json_scan_int(&scan);
    assert_true(scan.failed);
    scan = scan_of("-9223372036854775809");
    rota_json_scan_int(&scan);
    assert_true(scan.failed);
}

static void whole_numbers_have_no_fraction_and_no_zero_before(void **state)
{
    static const char *const bad[] = {"", "-", "+1", "01", "1.0", "1e2", "1E2", "- 1", "x", "--1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rota_scan scan = scan_of(bad[i]);
        assert_int_equal(rota_json_scan_int(&scan), 0);
        assert_true(scan.failed);
    }
}

static void unknown_values_are_skipped_and_their_text_returned(void **state)
{
    struct rota_scan scan =
        scan_of("{\"x\": {\"a\":[1,-2.5e+3,{}],\"b\":[[]],\"c\":null} ,\"y\":\"\\u0041\"}");
    struct rota_str key;
    (void)state;
    rota_json_scan_object(&scan);
    assert_true(rota_json_scan_key(&scan, &key));
    assert_str(rota_json_scan_skip(&scan), "{\"a\":[1,-2.5e+3,{}],\"b\":[[]],\"c\":null}");
    assert_true(rota_json_scan_key(&scan, &key));
    assert_str(key, "y");
    assert_str(rota_json_scan_skip(&scan), "\"\\u0041\"");
    assert_false(rota_json_scan_key(&scan, &key));
    rota_json_scan_end(&scan);
    assert_false(scan.failed);
}

static void only_standard_json_is_a_value(void **state)
{
    static const char *const good[] = {"0",    "-0",    "1.5", "1e9",   "1E-9", "true",
                                       "null", " [ ] ", "{ }", "\"a\"", "[[]]", "[1,2]"};
    static const char *const bad[] = {
        "",         " ",     "[",   "]",          "[1,]",  "[,1]", "[1 2]",   "{\"a\"}",
        "{\"a\":}", "{a:1}", "{,}", "{\"a\":1,}", "{1:2}", "[1}",  "nul",     "True",
        "01",       "1.",    ".5",  "1e",         "-",     "1 2",  "// a\n1", "[1]]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(is_value(rota_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(is_value(rota_str(bad[i])));
}

static void depth_is_bounded(void **state)
{
    char text[2 * ROTA_SCAN_DEPTH_MAX + 3];
    (void)state;
    for (size_t depth = ROTA_SCAN_DEPTH_MAX; depth <= ROTA_SCAN_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(is_value(rota_str_of(text, 2 * depth)), depth == ROTA_SCAN_DEPTH_MAX);
    }
}

static void failed_scan_returns_nothing(void **state)
{
    struct rota_scan scan = scan_of("[x,1,\"a\",true]");
    struct rota_str key;
    (void)state;
    rota_json_scan_array(&scan);
    assert_true(rota_json_scan_item(&scan));
    rota_json_scan_int(&scan);
    assert_true(scan.failed);
    assert_false(rota_json_scan_item(&scan));
    assert_false(rota_json_scan_key(&scan, &key));
    assert_false(rota_json_scan_bool(&scan));
    assert_int_equal(rota_json_scan_uint(&scan, 10), 0);
    assert_str(rota_json_scan_string(&scan), "");
    assert_str(rota_json_scan_skip(&scan), "");
}

/* Every text, cut anywhere, is read within its bytes. */
static void text_that_breaks_off_fails(void **state)
{
    static const char text[] = "{\"a\":[1,-2.5e3,true,null,\"\\ud83d\\ude00\xc3\xa9\",{\"b\":{}}]}";
    (void)state;
    for (size_t size = 0; size < sizeof text - 1; size++) {
        char *copy = malloc(size + 1);
        assert_non_null(copy);
        memcpy(copy, text, size);
        assert_false(is_value(rota_str_of(copy, size)));
        free(copy);
    }
    assert_true(is_value(rota_str(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(object_is_read_key_by_key),
        cmocka_unit_test(strings_are_decoded_side_by_side),
        cmocka_unit_test(string_with_a_nul_keeps_it),
        cmocka_unit_test(malformed_strings_fail),
        cmocka_unit_test(numbers_stay_in_their_bounds),
        cmocka_unit_test(whole_numbers_have_no_fraction_and_no_zero_before),
        cmocka_unit_test(unknown_values_are_skipped_and_their_text_returned),
        cmocka_unit_test(only_standard_json_is_a_value),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(failed_scan_returns_nothing),
        cmocka_unit_test(text_that_breaks_off_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
