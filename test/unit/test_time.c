#include <rota/time.h>

#include "vectors.h"
#include <rota/experimental/random.h>

#include <stdio.h>
#include <time.h>

static void assert_moment(const char *text, rota_time expected)
{
    rota_time time = 1;
    if (rota_time_parse(rota_str(text), &time))
        fail_msg("%s is refused", text);
    assert_int_equal(time, expected);
}

static void times_are_read_to_the_nanosecond(void **state)
{
    (void)state;
    assert_moment("1970-01-01T00:00:00Z", 0);
    assert_moment("1970-01-01T00:00:00.000000001Z", 1);
    assert_moment("1969-12-31T23:59:59.999999999Z", -1);
    assert_moment("2000-02-29T00:00:00Z", 951782400 * ROTA_SEC);
    assert_moment("2026-01-31T12:00:00.5Z", 1769860800 * ROTA_SEC + 500 * ROTA_MSEC);
    assert_moment("2026-01-31t12:00:00z", 1769860800 * ROTA_SEC);
    assert_moment("2026-01-31 13:30:00+01:30", 1769860800 * ROTA_SEC);
    assert_moment("2026-01-30T12:01:00-23:59", 1769860800 * ROTA_SEC);
    assert_moment("2026-01-31T12:00:00-00:00", 1769860800 * ROTA_SEC);
    assert_moment("1677-09-21T00:12:43.145224192Z", INT64_MIN);
    assert_moment("2262-04-11T23:47:16.854775807Z", INT64_MAX);
}

static void unix_seconds_are_read_to_the_nanosecond(void **state)
{
    (void)state;
    assert_moment("0", 0);
    assert_moment("-0", 0);
    assert_moment("1767225600.25", 1767225600 * ROTA_SEC + 250 * ROTA_MSEC);
    assert_moment("0.000000001", 1);
    assert_moment("-1.5", -1500 * ROTA_MSEC);
    assert_moment("9223372036.854775807", INT64_MAX);
    assert_moment("-9223372036.854775808", INT64_MIN);
}

static void invalid_times_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1.",
        ".5",
        "1.0000000001",
        "1e9",
        "0x10",
        "9223372036.854775808",
        "-9223372036.854775809",
        "99999999999999999999999999",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00Z ",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+01",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+01:60",
        "2026-01-31_12:00:00Z",
        "2026-00-31T12:00:00Z",
        "2026-13-31T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-01-32T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2100-02-29T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2016-12-31T23:59:60Z",
        "2026-1-31T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "1677-09-21T00:12:43.145224191Z",
        "2262-04-11T23:47:16.854775808Z",
        "-2026-01-31T12:00:00Z",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rota_time time = 77;
        if (rota_time_parse(rota_str(wrong[i]), &time) != ROTA_ERR_INVALID)
            fail_msg("\"%s\" is accepted", wrong[i]);
        assert_int_equal(time, 77);
    }
    rota_time time;
    assert_int_equal(rota_time_parse(rota_str_of("1\0", 2), &time), ROTA_ERR_INVALID);
    assert_int_equal(rota_time_parse(rota_str_of(NULL, 0), &time), ROTA_ERR_INVALID);
    assert_int_equal(rota_time_parse(rota_str_of("2026-01-31\0001:02:03Z", 20), &time),
                     ROTA_ERR_INVALID);
}

static void times_are_written_as_short_as_possible(void **state)
{
    char text[ROTA_TIME_TEXT_MAX];
    (void)state;
    assert_string_equal(rota_time_format(0, text), "1970-01-01T00:00:00Z");
    assert_string_equal(rota_time_format(-1, text), "1969-12-31T23:59:59.999999999Z");
    assert_string_equal(rota_time_format(50 * ROTA_MSEC, text), "1970-01-01T00:00:00.05Z");
    assert_string_equal(rota_time_format(INT64_MIN, text), "1677-09-21T00:12:43.145224192Z");
    assert_string_equal(rota_time_format(INT64_MAX, text), "2262-04-11T23:47:16.854775807Z");
}

/* The C library knows the calendar too. */
static void calendar_is_the_librarys(void **state)
{
    (void)state;
    for (int64_t day = -106750; day <= 106750; day++) {
        char text[ROTA_TIME_TEXT_MAX], expected[ROTA_TIME_TEXT_MAX];
        rota_time noon = day * ROTA_DAY + ROTA_DAY / 2, again;
        time_t seconds = (time_t)(noon / ROTA_SEC);
        struct tm parts;
        strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
        assert_string_equal(rota_time_format(noon, text), expected);
        assert_int_equal(rota_time_parse(rota_str(text), &again), ROTA_OK);
        assert_int_equal(again, noon);
    }
}

static void assert_span(const char *text, rota_time expected)
{
    rota_time span = -1;
    if (rota_span_parse(rota_str(text), &span))
        fail_msg("%s is refused", text);
    assert_int_equal(span, expected);
}

static void durations_are_read_exactly(void **state)
{
    (void)state;
    assert_span("0", 0);
    assert_span("0s", 0);
    assert_span("7ns", 7);
    assert_span("7us", 7 * ROTA_USEC);
    assert_span("7ms", 7 * ROTA_MSEC);
    assert_span("7s", 7 * ROTA_SEC);
    assert_span("7m", 7 * ROTA_MIN);
    assert_span("7h", 7 * ROTA_HOUR);
    assert_span("7d", 7 * ROTA_DAY);
    assert_span("1h30m", 90 * ROTA_MIN);
    assert_span("1.5h", 90 * ROTA_MIN);
    assert_span("1m1ms1s", 61001 * ROTA_MSEC);
    assert_span("0.000000001s", 1);
    assert_span("0.3s", 300 * ROTA_MSEC);
    assert_span("00000000000000000000000000000001s", ROTA_SEC);
    assert_span("9223372036854775807ns", INT64_MAX);
}

static void invalid_durations_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "1",
        "00",
        "s",
        "-1s",
        "+1s",
        "1 s",
        " 1s",
        "1s ",
        "1.s",
        ".5s",
        "1.5",
        "0.5ns",
        "1.0000001us",
        "1x",
        "1S",
        "1s1",
        "1ss",
        "1,5s",
        "1e3s",
        "infs",
        "1.0000000000s",
        "106752d",
        "9223372036854775808ns",
        "9223372036854775807ns1ns",
        "99999999999999999999s",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rota_time span = 77;
        if (rota_span_parse(rota_str(wrong[i]), &span) != ROTA_ERR_INVALID)
            fail_msg("\"%s\" is accepted", wrong[i]);
        assert_int_equal(span, 77);
    }
    rota_time span;
    assert_int_equal(rota_span_parse(rota_str_of("1s\0", 3), &span), ROTA_ERR_INVALID);
    assert_int_equal(rota_span_parse(rota_str_of(NULL, 0), &span), ROTA_ERR_INVALID);
}

static void durations_are_written_for_people(void **state)
{
    char text[ROTA_TIME_TEXT_MAX];
    (void)state;
    assert_string_equal(rota_span_format(0, text), "0s");
    assert_string_equal(rota_span_format(999, text), "999ns");
    assert_string_equal(rota_span_format(1500 * ROTA_NSEC, text), "1.5us");
    assert_string_equal(rota_span_format(250 * ROTA_MSEC, text), "250ms");
    assert_string_equal(rota_span_format(1500 * ROTA_MSEC, text), "1.5s");
    assert_string_equal(rota_span_format(90 * ROTA_MIN, text), "1h30m");
    assert_string_equal(rota_span_format(2 * ROTA_DAY, text), "2d");
    assert_string_equal(rota_span_format(ROTA_HOUR + 1, text), "1h0.000000001s");
    assert_string_equal(rota_span_format(-90 * ROTA_SEC, text), "-1m30s");
    assert_string_equal(rota_span_format(INT64_MAX, text), "106751d23h47m16.854775807s");
    assert_string_equal(rota_span_format(INT64_MIN, text), "-106751d23h47m16.854775808s");
}

static void what_is_written_is_read_again(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 100000; i++) {
        char text[ROTA_TIME_TEXT_MAX];
        int64_t number = (int64_t)rota_random_next(&random) >> rota_random_below(&random, 64);
        rota_time again;
        if (i % 2)
            number -= number % ROTA_MSEC;
        assert_int_equal(rota_time_parse(rota_str(rota_time_format(number, text)), &again),
                         ROTA_OK);
        assert_int_equal(again, number);
        if (number < 0)
            number = -(number + 1);
        assert_int_equal(rota_span_parse(rota_str(rota_span_format(number, text)), &again),
                         ROTA_OK);
        assert_int_equal(again, number);
    }
}

static void sums_stop_at_the_ends(void **state)
{
    (void)state;
    assert_int_equal(rota_time_add(ROTA_TIME_NEVER, 1), ROTA_TIME_NEVER);
    assert_int_equal(rota_time_add(-1, ROTA_TIME_MIN), ROTA_TIME_MIN);
    assert_int_equal(rota_time_add(2, -3), -1);
    assert_int_equal(rota_time_min(2, -3), -3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read_to_the_nanosecond),
        cmocka_unit_test(unix_seconds_are_read_to_the_nanosecond),
        cmocka_unit_test(invalid_times_are_refused),
        cmocka_unit_test(times_are_written_as_short_as_possible),
        cmocka_unit_test(calendar_is_the_librarys),
        cmocka_unit_test(durations_are_read_exactly),
        cmocka_unit_test(invalid_durations_are_refused),
        cmocka_unit_test(durations_are_written_for_people),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(sums_stop_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
