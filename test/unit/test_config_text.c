#include "wire/text/config_text.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rota_config_text read_text(const char *text)
{
    struct rota_config_text document;
    struct rota_error error;
    if (rota_config_text_parse(rota_str(text), "t.toml", &document, &error))
        fail_msg("%s", error.text);
    return document;
}

static void check_str(struct rota_str found, const char *wanted)
{
    if (!rota_str_is_equal(found, rota_str(wanted)))
        fail_msg("\"%.*s\" instead of \"%s\"", ROTA_STR_ARGS(found), wanted);
}

/* The text is refused, on this line, with a sentence that holds this phrase. */
static void check_refused(struct rota_str text, enum rota_code code, int line, const char *phrase)
{
    struct rota_config_text document, kept;
    struct rota_error error = {0};
    char prefix[32];
    memset(&document, 0x5a, sizeof document);
    memcpy(&kept, &document, sizeof kept);
    snprintf(prefix, sizeof prefix, "t.toml:%d: ", line);

    if (rota_config_text_parse(text, "t.toml", &document, &error) != code)
        fail_msg("not refused, or not so: %s: %.*s", error.text, (int)(text.size % 100), text.data);
    assert_int_equal(error.code, code);
    assert_memory_equal(&document, &kept, sizeof kept);
    if (line && !rota_str_has_prefix(rota_str(error.text), rota_str(prefix)))
        fail_msg("line %d: %s", line, error.text);
    if (!strstr(error.text, phrase))
        fail_msg("no \"%s\" in: %s", phrase, error.text);
}

static void refused(const char *text, int line, const char *phrase)
{
    check_refused(rota_str(text), ROTA_ERR_INVALID, line, phrase);
}

/* --- what is read --- */

static void every_type_of_value_is_read(void **state)
{
    struct rota_config_text d = read_text("# first\n"
                                          "\n"
                                          "a = \"x\\t\\\"\\\\\\u00e9\\U0001F600\" # behind\n"
                                          "b.c = 'C:\\new'\r\n"
                                          "  d . e-1_ = -1_000\n"
                                          "f = +9223372036854775807\n"
                                          "g = -9223372036854775808\n"
                                          "h = true\n"
                                          "i = false\n"
                                          "j = 1970-01-01T01:00:00.5+01:00\n"
                                          "k = 1970-01-02 00:00:00z\n"
                                          "l = ''\n"
                                          "m = -0");
    (void)state;
    assert_int_equal(d.n_tables, 1);
    assert_int_equal(d.n_entries, 11);
    assert_int_equal(d.tables[0].n_entries, 11);
    assert_int_equal(d.entries[0].type, ROTA_CONFIG_TEXT_STRING);
    check_str(d.entries[0].key, "a");
    check_str(d.entries[0].string, "x\t\"\\\xc3\xa9\xf0\x9f\x98\x80");
    assert_int_equal(d.entries[0].line, 3);
    assert_int_equal(d.entries[0].column, 1);
    check_str(d.entries[1].key, "b.c");
    check_str(d.entries[1].string, "C:\\new");
    check_str(d.entries[2].key, "d.e-1_");
    assert_int_equal(d.entries[2].type, ROTA_CONFIG_TEXT_INTEGER);
    assert_int_equal(d.entries[2].integer, -1000);
    assert_int_equal(d.entries[2].line, 5);
    assert_int_equal(d.entries[2].column, 3);
    assert_true(d.entries[3].integer == INT64_MAX);
    assert_true(d.entries[4].integer == INT64_MIN);
    assert_int_equal(d.entries[5].type, ROTA_CONFIG_TEXT_BOOLEAN);
    assert_true(d.entries[5].boolean);
    assert_false(d.entries[6].boolean);
    assert_int_equal(d.entries[7].type, ROTA_CONFIG_TEXT_TIME);
    assert_int_equal(d.entries[7].time, ROTA_SEC / 2);
    assert_int_equal(d.entries[8].time, ROTA_DAY);
    assert_int_equal(d.entries[9].string.size, 0);
    assert_int_equal(d.entries[10].integer, 0);
    assert_int_equal(d.entries[10].line, 13);
    rota_config_text_deinit(&d);
}

static void nothing_is_a_text_too(void **state)
{
    static const char *const TEXTS[] = {"", "\n", "# only", "  ", "\r\n\t\n", "[a]"};
    (void)state;
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        struct rota_config_text document = read_text(TEXTS[i]);
        assert_int_equal(document.n_entries, 0);
        assert_true(document.n_tables >= 1);
        check_str(document.tables[0].name, "");
        rota_config_text_deinit(&document);
    }
}

static void tables_hold_their_entries(void **state)
{
    struct rota_config_text d = read_text("top = 1\n"
                                          "[a.b] # c\n"
                                          "x = 1\n"
                                          "y.z = 2\n"
                                          "y.w = 2\n"
                                          "[a]\n"
                                          "x = 3\n"
                                          "[ a . y ]\n"
                                          "[[o]]\n"
                                          "x = 4\n"
                                          "[[ o ]]\n"
                                          "x = 5\n"
                                          "y = 6\n");
    (void)state;
    assert_int_equal(d.n_tables, 6);
    check_str(d.tables[1].name, "a.b");
    assert_int_equal(d.tables[1].line, 2);
    assert_int_equal(d.tables[1].first_entry, 1);
    assert_int_equal(d.tables[1].n_entries, 3);
    check_str(d.tables[3].name, "a.y");
    assert_int_equal(d.tables[3].n_entries, 0);
    assert_false(d.tables[3].is_array);
    check_str(d.tables[5].name, "o");
    assert_true(d.tables[4].is_array);
    assert_int_equal(d.tables[4].instance, 0);
    assert_int_equal(d.tables[5].instance, 1);
    assert_int_equal(d.tables[5].n_entries, 2);
    assert_int_equal(d.entries[d.tables[5].first_entry].integer, 5);
    assert_int_equal(d.entries[7].table, 5);
    rota_config_text_deinit(&d);
}

static void an_inline_table_is_followed_by_its_fields(void **state)
{
    struct rota_config_text d =
        read_text("g = { old = 0, new.x = 8,new.y='9', in = { deep = {} , f = true } }\nz = 1");
    (void)state;
    assert_int_equal(d.n_entries, 8);
    assert_int_equal(d.entries[0].type, ROTA_CONFIG_TEXT_TABLE);
    assert_int_equal(d.entries[0].n_fields, 6);
    check_str(d.entries[1].key, "old");
    check_str(d.entries[2].key, "new.x");
    assert_int_equal(d.entries[2].column, 16);
    check_str(d.entries[3].string, "9");
    assert_int_equal(d.entries[4].n_fields, 2);
    assert_int_equal(d.entries[5].n_fields, 0);
    check_str(d.entries[7].key, "z");
    assert_int_equal(d.entries[7].line, 2);
    rota_config_text_deinit(&d);
}

static void the_document_owns_its_text(void **state)
{
    char text[] = "[t]\nkey = \"value\"";
    struct rota_config_text document;
    (void)state;
    assert_int_equal(rota_config_text_parse(rota_str(text), "f", &document, NULL), ROTA_OK);
    memset(text, '!', sizeof text);
    check_str(document.tables[1].name, "t");
    check_str(document.entries[0].key, "key");
    check_str(document.entries[0].string, "value");
    rota_config_text_deinit(&document);
}

/* --- what is refused --- */

static void unsupported_toml_is_refused_by_name(void **state)
{
    (void)state;
    refused("a = 1.5", 1, "floats are not supported: 1.5");
    refused("a = 1e5", 1, "floats");
    refused("a = -inf", 1, "floats");
    refused("a = nan", 1, "floats");
    refused("\na = [1, 2]", 2, "arrays are not supported; write a list as one string: \"a,b\"");
    refused("a = \"\"\"x\"\"\"", 1, "multi-line strings are not supported");
    refused("a = '''x'''", 1, "multi-line strings");
    refused("a = 2026-01-01", 1, "local dates are not supported");
    refused("a = 2026-01-01T00:00:00", 1, "local date-times are not supported");
    refused("a = 2026-01-01 00:00:00.25", 1, "local date-times");
    refused("a = 12:30:00", 1, "local times are not supported");
    refused("a = 0xff", 1, "hexadecimal, octal and binary");
    refused("a = 0o7", 1, "hexadecimal, octal and binary");
    refused("a = 0b1", 1, "hexadecimal, octal and binary");
    refused("\"a\" = 1", 1, "quoted keys are not supported");
    refused("a.'b' = 1", 1, "quoted keys");
    refused("[[a]]\n[a.b]\n", 2, "tables inside an array of tables are not supported");
    refused("[[a]]\n[[a.b]]\n", 2, "tables inside an array of tables");
}

static void a_second_meaning_is_refused_with_both_lines(void **state)
{
    (void)state;
    refused("a = 1\n\na = 2", 3, "a already has a value, on line 1");
    refused("a.b = 1\na . b = 2", 2, "a.b already has a value, on line 1");
    refused("a = 1\na.b = 2", 2, "a already has a value, on line 1");
    refused("a.b = 1\na = 2", 2, "a is already a table, since line 1");
    refused("a = {b = 1}\na.c = 2", 2, "a already has a value, on line 1");
    refused("a = {b = 1, b = 2}", 1, "b already has a value, on line 1");
    refused("[t]\n[u]\n[t]", 3, "t is already a table, since line 1");
    refused("[t]\nx = 1\nx = 1", 3, "x already has a value, on line 2");
    refused("t = 1\n[t]", 2, "t already has a value, on line 1");
    refused("t = 1\n[t.u]", 2, "t already has a value, on line 1");
    refused("t.u = 1\n[t]", 2, "t is already a table, since line 1");
    refused("[t]\n[[t]]", 2, "t is already a table, since line 1");
    refused("[[t]]\n[t]", 2, "t is already an array of tables, since line 1");
    refused("[t.u]\nx = 1\n[t]\nu.y = 2", 4, "u is already a table, since line 1");
    refused("[[t]]\nx = 1\nx = 2", 3, "x already has a value, on line 2");
}

static void a_malformed_line_is_refused(void **state)
{
    (void)state;
    refused("a", 1, "expected = after the key before the end of the file");
    refused("a\nb = 1", 1, "expected = after the key before the end of the line");
    refused("a =", 1, "expected a value before the end of the file");
    refused("a = \n", 1, "expected a value before the end of the line");
    refused("a = # c\n", 1, "expected a value, found '#'");
    refused("= 1", 1, "expected a key");
    refused("a. = 1", 1, "expected a key of letters, digits, _ and -, found '='");
    refused("\n\na..b = 1", 3, ", found '.'");
    refused("\xc3\xa9 = 1", 1, ", found '\xc3\xa9'");
    refused("a = 1 b = 2", 1, "expected the end of the line or a # comment, found 'b'");
    refused("a = \"x\" y", 1, ", found 'y'");
    refused("[a", 1, "expected ]");
    refused("[a] b = 1", 1, ", found 'b'");
    refused("[[a]", 1, "expected ]]");
    refused("[]", 1, "expected a key");
    refused("a = {", 1, "expected a key");
    refused("a = { b = 1", 1, "expected a comma or }");
    refused("a = { b = 1, }", 1, "expected another field after the comma");
    refused("a = { b = 1 c = 2 }", 1, "expected a comma or }, found 'c'");
    refused("a = {\nb = 1 }", 1, "before the end of the line");
}

static void a_malformed_value_is_refused(void **state)
{
    (void)state;
    refused("a = yes", 1, "yes is not a value; text needs \"quotes\"");
    refused("a = 10s", 1, "10s is not a value");
    refused("a = +", 1, "+ is not a value");
    refused("a = 007", 1, "begins with a zero");
    refused("a = 1__0", 1, "is not an integer");
    refused("a = 1_", 1, "is not an integer");
    refused("a = _1", 1, "_1 is not a value");
    refused("a = 9223372036854775808", 1, "does not fit 64 bits");
    refused("a = -9223372036854775809", 1, "does not fit 64 bits");
    refused("\na = 2026-02-30T00:00:00Z", 2, "is not a time");
    refused("a = 9999-01-01T00:00:00Z", 1, "between the years 1678 and 2262");
    refused("a = 2026-01-01Tnonsense-with-more-than-any-moment-has-and-more-and-moreZ", 1,
            "moment");
    refused("a = \"x", 1, "a string is not closed");
    refused("a = 'x\nb = 'y'", 1, "a string is not closed: expected '");
    refused("a = \"\\x41\"", 1, "after a backslash, found 'x'");
    refused("a = \"\\", 1, "after a backslash before the end of the file");
    refused("a = \"\\u12g4\"", 1, "\\u needs 4 hexadecimal digits");
    refused("a = \"\\U0001\"", 1, "\\U needs 8 hexadecimal digits");
    refused("a = \"\\ud800\"", 1, "U+D800 is not a character");
    refused("a = \"\\U00110000\"", 1, "is not a character");
    refused("a = \"\\u0000\"", 1, "NUL");
}

static void bytes_that_are_not_text_are_refused(void **state)
{
    (void)state;
    check_refused(rota_str_of("a = 1\nb\0 = 2", 12), ROTA_ERR_INVALID, 2, "NUL");
    refused("\n\n# \xff", 3, "byte 0xff is not valid UTF-8");
    refused("# \xc0\x80", 1, "UTF-8");
    refused("# \xe0\x80\x80", 1, "UTF-8");
    refused("# \xed\xa0\x80", 1, "UTF-8");
    refused("# \xf4\x90\x80\x80", 1, "UTF-8");
    refused("# \xe2\x82", 1, "UTF-8");
    refused("a = 'x\x1b'", 1, "control character 0x1b");
    refused("# \x7f", 1, "control character 0x7f");
    refused("a = 1\rb = 2", 1, "carriage return");
    refused("a = 1\r", 1, "carriage return");
    refused("\xef\xbb\xbf"
            "a = 1",
            1, "byte order mark");
}

/* --- bounds --- */

static char *repeat(const char *text, size_t n)
{
    size_t size = strlen(text);
    char *all = test_malloc(size * n + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(all + i * size, text, size);
    all[size * n] = '\0';
    return all;
}

static void every_bound_has_its_refusal(void **state)
{
    char text[2000], *big = repeat("#", ROTA_CONFIG_TEXT_MAX + 1);
    struct rota_config_text document;
    (void)state;

    check_refused(rota_str(big), ROTA_ERR_LIMIT, 0, "at most 4194304 are allowed");
    big[ROTA_CONFIG_TEXT_MAX] = '\0';
    document = read_text(big);
    rota_config_text_deinit(&document);
    test_free(big);

    char *key = repeat("k", ROTA_CONFIG_TEXT_KEY_MAX + 1);
    snprintf(text, sizeof text, "\n%s = 1", key);
    check_refused(rota_str(text), ROTA_ERR_LIMIT, 2, "a key has 256 bytes");
    snprintf(text, sizeof text, "%s = 1", key + 1);
    document = read_text(text);
    assert_int_equal(document.entries[0].key.size, ROTA_CONFIG_TEXT_KEY_MAX);
    rota_config_text_deinit(&document);
    test_free(key);

    check_refused(rota_str("a.b.c.d.e.f.g.h.i = 1"), ROTA_ERR_LIMIT, 1, "a key has 9 parts");
    document = read_text("a.b.c.d.e.f.g.h = 1");
    rota_config_text_deinit(&document);
    char *deep = repeat("a={", 1000);
    check_refused(rota_str(deep), ROTA_ERR_LIMIT, 1, "more than 8 nested inline tables");
    test_free(deep);

    char *headers = repeat("[[t]]\n", ROTA_CONFIG_TEXT_TABLES_MAX);
    check_refused(rota_str(headers), ROTA_ERR_LIMIT, ROTA_CONFIG_TEXT_TABLES_MAX,
                  "tables in a file");
    test_free(headers);
}

static void the_number_of_values_is_bounded(void **state)
{
    struct rota_config_text document;
    char *text = test_malloc(12 * (ROTA_CONFIG_TEXT_ENTRIES_MAX + 1) + 1), *end = text;
    (void)state;
    for (int i = 0; i < ROTA_CONFIG_TEXT_ENTRIES_MAX; i++)
        end += sprintf(end, "k%x=1\n", (unsigned)i);
    document = read_text(text);
    assert_int_equal(document.n_entries, ROTA_CONFIG_TEXT_ENTRIES_MAX);
    rota_config_text_deinit(&document);
    strcpy(end, "last=1");
    check_refused(rota_str(text), ROTA_ERR_LIMIT, ROTA_CONFIG_TEXT_ENTRIES_MAX + 1, "values");
    test_free(text);
}

static void the_error_is_optional(void **state)
{
    struct rota_config_text document;
    (void)state;
    assert_int_equal(rota_config_text_parse(rota_str("a"), "f", &document, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_config_text_parse(rota_str_of(NULL, 0), "f", &document, NULL), ROTA_OK);
    rota_config_text_deinit(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_value_is_read),
        cmocka_unit_test(nothing_is_a_text_too),
        cmocka_unit_test(tables_hold_their_entries),
        cmocka_unit_test(an_inline_table_is_followed_by_its_fields),
        cmocka_unit_test(the_document_owns_its_text),
        cmocka_unit_test(unsupported_toml_is_refused_by_name),
        cmocka_unit_test(a_second_meaning_is_refused_with_both_lines),
        cmocka_unit_test(a_malformed_line_is_refused),
        cmocka_unit_test(a_malformed_value_is_refused),
        cmocka_unit_test(bytes_that_are_not_text_are_refused),
        cmocka_unit_test(every_bound_has_its_refusal),
        cmocka_unit_test(the_number_of_values_is_bounded),
        cmocka_unit_test(the_error_is_optional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
