#include "base/option.h"

#include "vectors.h"

static const char *const modes[] = {"lookup", "slots", NULL};

/* The sentence with which `text` is refused; the field must not change. */
static const char *refusal(struct rota_option option, struct rota_str text)
{
    static struct rota_error error;
    static struct rota_option_list field, before;
    memset(&field, 0x55, sizeof field);
    field.size = 0;
    before = field;
    assert_int_equal(rota_option_parse_value(&option, text, &field, &error), ROTA_ERR_INVALID);
    assert_int_equal(error.code, ROTA_ERR_INVALID);
    assert_memory_equal(&field, &before, sizeof field);
    return error.text;
}

static void whole_numbers_are_read_within_bounds(void **state)
{
    struct rota_option any = {.type = ROTA_OPTION_INT};
    struct rota_option few = {.type = ROTA_OPTION_INT, .min = 1, .max = 5};
    int64_t number;
    (void)state;
    assert_int_equal(rota_option_parse_value(&any, rota_str("-9223372036854775808"), &number, NULL),
                     ROTA_OK);
    assert_int_equal(number, INT64_MIN);
    assert_int_equal(rota_option_parse_value(&any, rota_str("9223372036854775807"), &number, NULL),
                     ROTA_OK);
    assert_int_equal(number, INT64_MAX);
    assert_int_equal(rota_option_parse_value(&few, rota_str("005"), &number, NULL), ROTA_OK);
    assert_int_equal(number, 5);

    assert_string_equal(refusal(few, rota_str("7")), "7 is out of bounds (1 to 5)");
    assert_string_equal(refusal(few, rota_str("0")), "0 is out of bounds (1 to 5)");
    assert_string_equal(refusal(few, rota_str("abc")), "\"abc\" is not a whole number (1 to 5)");
    assert_string_equal(refusal(any, rota_str("")), "\"\" is not a whole number");
    assert_string_equal(refusal(any, rota_str("-")), "\"-\" is not a whole number");
    assert_string_equal(refusal(any, rota_str("1.0")), "\"1.0\" is not a whole number");
    assert_string_equal(refusal(any, rota_str_of("1\0", 2)), "\"1\\u0000\" is not a whole number");
    assert_string_equal(refusal(any, rota_str("9223372036854775808")),
                        "\"9223372036854775808\" is out of bounds");
}

static void durations_and_times_are_read_within_bounds(void **state)
{
    struct rota_option span = {.type = ROTA_OPTION_SPAN, .min = ROTA_SEC, .max = ROTA_HOUR};
    struct rota_option time = {.type = ROTA_OPTION_TIME, .min = 0, .max = INT64_MAX};
    rota_time value;
    (void)state;
    assert_int_equal(rota_option_parse_value(&span, rota_str("1m30s"), &value, NULL), ROTA_OK);
    assert_int_equal(value, 90 * ROTA_SEC);
    assert_int_equal(rota_option_parse_value(&time, rota_str("1970-01-01T00:00:01Z"), &value, NULL),
                     ROTA_OK);
    assert_int_equal(value, ROTA_SEC);

    assert_string_equal(refusal(span, rota_str("2h")), "2h is out of bounds (1s to 1h)");
    assert_string_equal(refusal(span, rota_str("5")),
                        "\"5\" is not a duration such as 500ms, 10s or 1h30m (1s to 1h)");
    assert_string_equal(refusal(time, rota_str("-1")),
                        "1969-12-31T23:59:59Z is out of bounds (1970-01-01T00:00:00Z or more)");
    assert_non_null(strstr(refusal(time, rota_str("noon")), "\"noon\" is not a time such as"));
}

static void flags_and_choices_are_read(void **state)
{
    struct rota_option flag = {.type = ROTA_OPTION_FLAG};
    struct rota_option choice = {.type = ROTA_OPTION_CHOICE, .choices = modes};
    bool is_set = false;
    int mode = 7;
    (void)state;
    assert_int_equal(rota_option_parse_value(&flag, rota_str("true"), &is_set, NULL), ROTA_OK);
    assert_true(is_set);
    assert_int_equal(rota_option_parse_value(&flag, rota_str("false"), &is_set, NULL), ROTA_OK);
    assert_false(is_set);
    assert_int_equal(rota_option_parse_value(&choice, rota_str("slots"), &mode, NULL), ROTA_OK);
    assert_int_equal(mode, 1);

    assert_string_equal(refusal(flag, rota_str("yes")), "\"yes\" is neither true nor false");
    assert_string_equal(refusal(choice, rota_str("x")), "\"x\" is not one of lookup, slots");
    assert_string_equal(refusal(choice, rota_str("slot")), "\"slot\" is not one of lookup, slots");
}

static void texts_are_kept_where_they_are(void **state)
{
    struct rota_option text = {.type = ROTA_OPTION_TEXT, .min = 2, .max = 4};
    const char *word = "abcd", *value = NULL;
    (void)state;
    assert_int_equal(rota_option_parse_value(&text, rota_str(word), &value, NULL), ROTA_OK);
    assert_ptr_equal(value, word);
    assert_string_equal(refusal(text, rota_str("")), "\"\" is empty (2 to 4 bytes)");
    assert_string_equal(refusal(text, rota_str("a")), "\"a\" is too short (2 to 4 bytes)");
    assert_string_equal(refusal(text, rota_str("abcde")), "\"abcde\" is too long (2 to 4 bytes)");
    assert_string_equal(refusal(text, rota_str_of("a\0b", 3)),
                        "\"a\\u0000b\" contains a NUL byte (2 to 4 bytes)");
}

static void lists_grow_to_their_bound(void **state)
{
    struct rota_option option = {.type = ROTA_OPTION_LIST};
    static struct rota_option_list list;
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i < ROTA_OPTION_LIST_MAX; i++)
        assert_int_equal(rota_option_parse_value(&option, rota_str("x"), &list, NULL), ROTA_OK);
    assert_int_equal(rota_option_parse_value(&option, rota_str("x"), &list, &error),
                     ROTA_ERR_LIMIT);
    assert_string_equal(error.text, "more than 1024 values");
    assert_int_equal(list.size, ROTA_OPTION_LIST_MAX);
}

static void limits_are_worded_for_people(void **state)
{
    char text[ROTA_OPTION_LIMITS_MAX];
    struct rota_option option = {.type = ROTA_OPTION_INT};
    (void)state;
    assert_string_equal(rota_option_format_limits(&option, text), "");
    option.max = 9;
    assert_string_equal(rota_option_format_limits(&option, text), "0 to 9");
    option.min = INT64_MIN;
    assert_string_equal(rota_option_format_limits(&option, text), "9 or less");
    option.min = 3, option.max = INT64_MAX;
    assert_string_equal(rota_option_format_limits(&option, text), "3 or more");
}

static void huge_values_are_shown_in_part(void **state)
{
    enum { SIZE = 10 << 20 };
    static char huge[SIZE];
    (void)state;
    memset(huge, '\xff', sizeof huge);
    const char *text =
        refusal((struct rota_option){.type = ROTA_OPTION_INT}, rota_str_of(huge, sizeof huge));
    assert_non_null(strstr(text, "\\ufffd\"... is not a whole number"));
    memset(huge, '9', sizeof huge);
    text = refusal((struct rota_option){.type = ROTA_OPTION_SPAN}, rota_str_of(huge, sizeof huge));
    assert_true(strlen(text) < 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read_within_bounds),
        cmocka_unit_test(durations_and_times_are_read_within_bounds),
        cmocka_unit_test(flags_and_choices_are_read),
        cmocka_unit_test(texts_are_kept_where_they_are),
        cmocka_unit_test(lists_grow_to_their_bound),
        cmocka_unit_test(limits_are_worded_for_people),
        cmocka_unit_test(huge_values_are_shown_in_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
