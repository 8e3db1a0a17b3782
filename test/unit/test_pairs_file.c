#include "vectors.h"
#include "wire/text/pairs_file.h"

#include <stdio.h>
#include <stdlib.h>

static struct rota_buffer scratch;

static void assert_pair(const char *line, const char *key, const char *value)
{
    struct rota_pair pair;
    struct rota_error error;
    if (rota_pairs_file_parse_pair(rota_str(line), "f", 1, &scratch, &pair, &error))
        fail_msg("%s", error.text);
    assert_true(rota_str_is_equal(pair.key, rota_str(key)));
    assert_true(rota_str_is_equal(pair.value, rota_str(value)));
    rota_buffer_deinit(&scratch);
}

static void assert_refused(struct rota_str line, enum rota_code code, const char *words)
{
    struct rota_pair pair;
    struct rota_error error;
    assert_int_equal(rota_pairs_file_parse_pair(line, "f", 7, &scratch, &pair, &error), code);
    assert_true(strncmp(error.text, "f:7: ", 5) == 0);
    if (!strstr(error.text, words))
        fail_msg("%s", error.text);
    rota_buffer_deinit(&scratch);
}

static void a_line_is_a_key_a_tab_and_a_value(void **state)
{
    (void)state;
    assert_pair("a\tb c", "a", "b c");
    assert_pair("a\t", "a", "");
    assert_pair("# a\t#", "# a", "#");
    assert_pair("", "", "");
}

static void escapes_replace_separators(void **state)
{
    (void)state;
    assert_pair("a\\tb\tc\\nd\\r\\\\", "a\tb", "c\nd\r\\");
    assert_pair("\\x41\\x6A\t\\x7e", "Aj", "~");
    assert_pair("\\\\t\t\\\\n", "\\t", "\\n");
}

static void a_bad_line_is_named(void **state)
{
    static char large[ROTA_PAIRS_VALUE_MAX + 16];
    (void)state;
    assert_refused(rota_str("a"), ROTA_ERR_INVALID, "no tab");
    assert_refused(rota_str("\ta"), ROTA_ERR_INVALID, "no key");
    assert_refused(rota_str("a\tb\tc"), ROTA_ERR_INVALID, "byte 4 is a second tab");
    assert_refused(rota_str("a\\\tb"), ROTA_ERR_INVALID, "byte 2: invalid escape");
    assert_refused(rota_str("a\tb\\q"), ROTA_ERR_INVALID, "byte 4: invalid escape");
    assert_refused(rota_str("a\t\\x4"), ROTA_ERR_INVALID, "byte 3: invalid escape");
    assert_refused(rota_str("a\t\\xg0"), ROTA_ERR_INVALID, "byte 3: invalid escape");
    assert_refused(rota_str("a\t\\"), ROTA_ERR_INVALID, "byte 3: invalid escape");
    memset(large, 'x', sizeof large);
    large[ROTA_PAIRS_KEY_MAX + 1] = '\t';
    assert_refused(rota_str_of(large, ROTA_PAIRS_KEY_MAX + 3), ROTA_ERR_LIMIT, "4097 bytes");
    large[ROTA_PAIRS_KEY_MAX + 1] = 'x';
    large[1] = '\t';
    assert_refused(rota_str_of(large, sizeof large), ROTA_ERR_LIMIT, "value of \"x\"");
}

static void any_bytes_can_be_written_and_are_safe_to_show(void **state)
{
    struct rota_buffer text = {0};
    struct rota_pair pair;
    char all[256];
    (void)state;
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    rota_pairs_file_escape(rota_str_of(all, sizeof all), &text);
    for (size_t i = 0; i < text.size; i++)
        assert_true(text.data[i] >= ' ' && text.data[i] < 0x7f);
    rota_buffer_append_text(&text, "\tgrün");
    assert_int_equal(
        rota_pairs_file_parse_pair(rota_buffer_str(&text), "f", 1, &scratch, &pair, NULL), ROTA_OK);
    assert_true(rota_str_is_equal(pair.key, rota_str_of(all, sizeof all)));
    rota_buffer_clear(&text);
    rota_pairs_file_escape(pair.value, &text);
    assert_true(rota_str_is_equal(rota_buffer_str(&text), rota_str("grün"))); /* as it is */
    rota_buffer_clear(&text);
    rota_pairs_file_escape(rota_str("a\xe2\x80\xae"
                                    "b"),
                           &text); /* turns the line round */
    assert_true(rota_str_is_equal(rota_buffer_str(&text), rota_str("a\\xe2\\x80\\xaeb")));
    rota_buffer_deinit(&text);
    rota_buffer_deinit(&scratch);
}

/* --- files --- */

static enum rota_code read_text(struct rota_str text, size_t piece, struct rota_pairs *pairs,
                                struct rota_error *error)
{
    struct rota_pairs_reader reader;
    enum rota_code code = ROTA_OK;
    *pairs = (struct rota_pairs){.seed = 3};
    rota_pairs_file_reader_init(&reader, "f", pairs);
    for (size_t at = 0; !code && at < text.size; at += piece) {
        size_t left = text.size - at;
        code = rota_pairs_file_reader_feed(
            &reader, rota_str_of(text.data + at, left < piece ? left : piece), error);
    }
    if (!code)
        code = rota_pairs_file_reader_finish(&reader, error);
    rota_pairs_file_reader_deinit(&reader);
    return code;
}

static void lines_are_found_however_the_file_is_cut(void **state)
{
    static const char TEXT[] = "\xef\xbb\xbf"
                               "one\t1\r\n\n\\x74wo\t2\nthree\t3";
    (void)state;
    for (size_t piece = 1; piece < sizeof TEXT; piece++) {
        struct rota_pairs pairs;
        const struct rota_pair_place *place;
        size_t n;
        assert_int_equal(read_text(rota_str(TEXT), piece, &pairs, NULL), ROTA_OK);
        assert_int_equal(pairs.places.size, 3);
        place = rota_pairs_file_find(&pairs, rota_str("one"), &n);
        assert_true(n == 1 && place->offset == 3 && place->size == 5 && place->line == 1);
        place = rota_pairs_file_find(&pairs, rota_str("two"), &n);
        assert_true(n == 1 && place->size == 8 && place->line == 3);
        assert_memory_equal(TEXT + place->offset, "\\x74wo\t2", 8);
        assert_non_null(rota_pairs_file_find(&pairs, rota_str("three"), &n));
        assert_null(rota_pairs_file_find(&pairs, rota_str("four"), &n));
        rota_pairs_file_deinit(&pairs);
    }
}

static void an_error_names_its_line(void **state)
{
    struct rota_pairs pairs;
    struct rota_error error;
    (void)state;
    assert_int_equal(read_text(rota_str("a\t1\n\nb\n"), 2, &pairs, &error), ROTA_ERR_INVALID);
    assert_true(strncmp(error.text, "f:3: ", 5) == 0);
    rota_pairs_file_deinit(&pairs);
}

static void an_endless_line_is_refused_before_it_is_kept(void **state)
{
    struct rota_pairs pairs = {.seed = 1};
    struct rota_pairs_reader reader;
    struct rota_error error;
    enum { PIECE = 1 << 20 };
    char *piece = calloc(1, PIECE);
    size_t n = 0;
    (void)state;
    rota_pairs_file_reader_init(&reader, "f", &pairs);
    while (!rota_pairs_file_reader_feed(&reader, rota_str_of(piece, PIECE), &error))
        n++;
    assert_int_equal(error.code, ROTA_ERR_LIMIT);
    assert_int_equal(n, ROTA_PAIRS_LINE_MAX / PIECE);
    rota_pairs_file_reader_deinit(&reader);
    rota_pairs_file_deinit(&pairs);
    free(piece);
}

static void possible_duplicate_keys_are_reported(void **state)
{
    struct rota_pairs pairs;
    struct rota_pair_place first, second;
    size_t index = 0;
    (void)state;
    assert_int_equal(read_text(rota_str("a\t1\nb\t1\nc\t\nb\t2\n"), 100, &pairs, NULL), ROTA_OK);
    assert_true(rota_pairs_file_next_twins(&pairs, &index, &first, &second));
    assert_int_equal(first.line, 2);
    assert_int_equal(second.line, 4);
    assert_false(rota_pairs_file_next_twins(&pairs, &index, &first, &second));
    rota_pairs_file_deinit(&pairs);
    assert_int_equal(read_text(rota_str(""), 1, &pairs, NULL), ROTA_OK);
    index = 0;
    assert_false(rota_pairs_file_next_twins(&pairs, &index, &first, &second));
    rota_pairs_file_deinit(&pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_key_a_tab_and_a_value),
        cmocka_unit_test(escapes_replace_separators),
        cmocka_unit_test(a_bad_line_is_named),
        cmocka_unit_test(any_bytes_can_be_written_and_are_safe_to_show),
        cmocka_unit_test(lines_are_found_however_the_file_is_cut),
        cmocka_unit_test(an_error_names_its_line),
        cmocka_unit_test(an_endless_line_is_refused_before_it_is_kept),
        cmocka_unit_test(possible_duplicate_keys_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
