/* Answers of commands as tables and lines. */
#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const struct rota_table_column COLUMNS[] = {
    {"NODE", "name", ROTA_TABLE_TEXT, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"JOBS", "jobs", ROTA_TABLE_NUMBER, false},
    {"PAUSED", "is_paused", ROTA_TABLE_FLAG, true},
    {"HEARTBEAT", "heartbeat", ROTA_TABLE_AGE, false},
    {"SINCE", "since", ROTA_TABLE_TIME, true},
    {"TTL", "ttl_ms", ROTA_TABLE_DURATION, true},
};
static const struct rota_table NODES = ROTA_TABLE_OF("nodes", COLUMNS);

#define DOCUMENT                                                                                   \
    "{\"nodes\": [{\"name\": \"10.0.0.1:7700\", \"state\": \"serving\", \"jobs\": 12345, "         \
    "\"is_paused\": false, \"heartbeat\": \"2026-01-31T12:00:00Z\", \"since\": "                   \
    "\"2026-01-31T11:00:00.25Z\", \"ttl_ms\": 10000}, "                                            \
    "{\"name\": \"a\\tb\", \"state\": \"dead\", \"jobs\": 7, \"is_paused\": true}]}\n"

static struct rota_terminal wide_terminal(void)
{
    return (struct rota_terminal){.is_terminal = true, .is_utf8 = true, .width = 200};
}

static char *show(enum rota_table_form form, struct rota_terminal terminal, const char *document)
{
    struct rota_buffer buffer = {0};
    struct rota_error error;
    rota_time now;
    assert_int_equal(rota_time_parse(rota_str("2026-01-31T12:00:45Z"), &now), ROTA_OK);
    assert_int_equal(
        rota_table_append(&buffer, &NODES, form, &terminal, rota_str(document), now, &error),
        ROTA_OK);
    return buffer.data;
}

static void expect(enum rota_table_form form, struct rota_terminal terminal, const char *expected)
{
    char *text = show(form, terminal, DOCUMENT);
    assert_string_equal(text, expected);
    free(text);
}

static void columns_are_aligned_and_numbers_are_on_the_right(void **state)
{
    (void)state;
    expect(ROTA_TABLE_PLAIN, wide_terminal(),
           "NODE           STATE     JOBS  HEARTBEAT\n"
           "10.0.0.1:7700  serving  12345        45s\n"
           "a\\tb           dead         7          -\n");
}

static void a_narrow_terminal_omits_empty_columns(void **state)
{
    static const char EMPTY[] = "{\"nodes\": [{\"name\": \"10.0.0.1:7700\", \"state\": "
                                "\"serving\", \"jobs\": 12345}]}";
    struct rota_terminal narrow = wide_terminal();
    (void)state;
    for (narrow.width = 39; narrow.width <= 40; narrow.width++) {
        char *text = show(ROTA_TABLE_PLAIN, narrow, EMPTY);
        assert_string_equal(text, narrow.width < 40 ? "NODE           STATE     JOBS\n"
                                                      "10.0.0.1:7700  serving  12345\n"
                                                    : "NODE           STATE     JOBS  HEARTBEAT\n"
                                                      "10.0.0.1:7700  serving  12345          -\n");
        free(text);
    }
}

static void wide_tables_have_every_column(void **state)
{
    (void)state;
    setenv("TZ", "UTC-1", 1); /* an hour east */
    tzset();
    expect(ROTA_TABLE_WIDE, wide_terminal(),
           "NODE           STATE     JOBS  PAUSED  HEARTBEAT  SINCE                TTL\n"
           "10.0.0.1:7700  serving  12345  no            45s  2026-01-31 12:00:00  10s\n"
           "a\\tb           dead         7  yes             -  -                      -\n");
}

static void lines_have_no_header_and_times_of_one_width(void **state)
{
    (void)state;
    expect(ROTA_TABLE_TSV, (struct rota_terminal){.width = 80},
           "10.0.0.1:7700\tserving\t12345\tno\t2026-01-31T12:00:00.000Z\t"
           "2026-01-31T11:00:00.250Z\t10s\n"
           "a\\tb\tdead\t7\tyes\t-\t-\t-\n");
}

static void json_is_the_document_itself(void **state)
{
    (void)state;
    expect(ROTA_TABLE_JSON, wide_terminal(), DOCUMENT);
}

static void long_names_lose_their_middle_where_the_terminal_ends(void **state)
{
    struct rota_terminal narrow = wide_terminal();
    (void)state;
    narrow.width = 40;
    char *text = show(ROTA_TABLE_PLAIN, narrow,
                      "{\"nodes\": [{\"name\": \"node-with-a-long-name.example:7700\", "
                      "\"state\": \"serving\", \"jobs\": 1}]}");
    assert_string_equal(text, "NODE                       STATE    JOBS\n"
                              "node-with-a-…example:7700  serving     1\n");
    free(text);
}

static void states_have_colors(void **state)
{
    struct rota_terminal terminal = wide_terminal();
    (void)state;
    terminal.is_colored = true;
    char *text = show(ROTA_TABLE_PLAIN, terminal, DOCUMENT);
    assert_non_null(strstr(text, "\033[32mserving\033[0m"));
    assert_non_null(strstr(text, "\033[31mdead\033[0m"));
    assert_non_null(strstr(text, "\033[1mNODE\033[0m"));
    free(text);
}

static void ages_are_in_the_most_useful_unit(void **state)
{
    static const struct {
        const char *heartbeat, *age;
    } CASES[] = {
        {"2026-01-31T12:01:45Z", "  0s\n"}, {"2026-01-31T11:59:06Z", "  99s\n"},
        {"2026-01-31T11:59:05Z", "  1m\n"}, {"2026-01-31T10:20:46Z", "  99m\n"},
        {"2026-01-31T10:20:45Z", "  1h\n"}, {"2026-01-29T12:00:46Z", "  47h\n"},
        {"2026-01-29T12:00:45Z", "  2d\n"}, {"what it was", "  what it was\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char document[256];
        snprintf(document, sizeof document, "{\"nodes\": [{\"heartbeat\": \"%s\"}]}",
                 CASES[i].heartbeat);
        char *text = show(ROTA_TABLE_PLAIN, wide_terminal(), document);
        const char *line = strchr(text, '\n') + 1;
        assert_string_equal(line + strlen(line) - strlen(CASES[i].age), CASES[i].age);
        free(text);
    }
}

static void the_form_suits_the_output_unless_one_is_chosen(void **state)
{
    const struct rota_terminal terminal = wide_terminal(), pipe = {.width = 80};
    (void)state;
    assert_int_equal(rota_table_choose(ROTA_TABLE_AUTO, &terminal), ROTA_TABLE_PLAIN);
    assert_int_equal(rota_table_choose(ROTA_TABLE_AUTO, &pipe), ROTA_TABLE_TSV);
    assert_int_equal(rota_table_choose(ROTA_TABLE_WIDE, &pipe), ROTA_TABLE_WIDE);
    assert_int_equal(rota_table_choose(ROTA_TABLE_TSV, &terminal), ROTA_TABLE_TSV);
}

/* However many: rows are drawn some thousand at a time. */
static void objects_may_come_a_line_each(void **state)
{
    static const struct rota_table_column WORKERS[] = {
        {"WORKER", "worker", ROTA_TABLE_TEXT, false},
        {"CAN", "can", ROTA_TABLE_LIST, false},
    };
    const struct rota_table table = ROTA_TABLE_OF(NULL, WORKERS);
    const struct rota_terminal terminal = wide_terminal();
    struct rota_buffer lines = {0}, shown = {0};
    struct rota_error error;
    (void)state;
    enum { N = 25000 };
    for (int i = 0; i < N; i++)
        rota_buffer_print(&lines, "{\"worker\":\"w%d\",\"can\":[%s]}\n", i,
                          i == 0 ? "\"gpu\",\"x,y\"" : "");
    assert_int_equal(rota_table_append(&shown, &table, ROTA_TABLE_PLAIN, &terminal,
                                       rota_buffer_str(&lines), 0, &error),
                     ROTA_OK);
    size_t n_lines = 0;
    for (size_t i = 0; i < shown.size; i++)
        n_lines += shown.data[i] == '\n';
    assert_int_equal(n_lines, N + 1);
    static const char START[] = "WORKER  CAN\nw0      gpu,x,y\nw1      -\n";
    assert_memory_equal(shown.data, START, sizeof START - 1);
    assert_string_equal(shown.data + shown.size - 10, "w24999  -\n");
    rota_buffer_clear(&shown);
    assert_int_equal(
        rota_table_append(&shown, &table, ROTA_TABLE_PLAIN, &terminal, rota_str(""), 0, &error),
        ROTA_OK);
    assert_string_equal(shown.data, "WORKER  CAN\n");
    rota_buffer_deinit(&shown);
    rota_buffer_deinit(&lines);
}

static const struct rota_table_column JOB_COLUMNS[] = {
    {"JOB", "job", ROTA_TABLE_NAME, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"ADDED", "added_ms", ROTA_TABLE_AGE, false},
    {"ENDED", "ended_ms", ROTA_TABLE_TIME, false},
    {"TIMEOUT", "timeout_ms", ROTA_TABLE_DURATION, false},
    {"CAN", "can", ROTA_TABLE_LIST, false},
    {"WORKER", "worker", ROTA_TABLE_NAME, false},
    {"MESSAGE", "message", ROTA_TABLE_LINES, false},
    {"PAYLOAD", "payload", ROTA_TABLE_TEXT, false},
    {"TRACE", "trace", ROTA_TABLE_TEXT, true},
};
static const struct rota_table_column EVENT_COLUMNS[] = {
    {"TIME", "at", ROTA_TABLE_TIME, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
};
static const struct rota_table PARTS[] = {ROTA_TABLE_PART("events", "event", EVENT_COLUMNS),
                                          ROTA_TABLE_PART("offers", "offer", EVENT_COLUMNS)};
static const struct rota_table JOB = ROTA_TABLE_SHEET(JOB_COLUMNS, PARTS, 2);

#define JOB_DOCUMENT                                                                               \
    "{\"job\": \"mail/17\", \"state\": \"dead\", \"added_ms\": 1769860815000, \"ended_ms\": 0, "   \
    "\"timeout_ms\": 0, \"can\": [], \"worker\": \"\", \"message\": \"exit code 1\\nno "           \
    "route\\n\", "                                                                                 \
    "\"payload\": \"0123456789012345678901234567890123456789\\n\", \"trace\": \"t\", \"events\": " \
    "[{\"at\": \"2026-01-31T12:00:15Z\", \"state\": \"waiting\"}]}\n"

static void expect_sheet(enum rota_table_form form, struct rota_terminal terminal,
                         const char *expected)
{
    struct rota_buffer buffer = {0};
    struct rota_error error;
    rota_time now;
    setenv("TZ", "UTC", 1);
    tzset();
    assert_int_equal(rota_time_parse(rota_str("2026-01-31T12:00:45Z"), &now), ROTA_OK);
    assert_int_equal(
        rota_table_append(&buffer, &JOB, form, &terminal, rota_str(JOB_DOCUMENT), now, &error),
        ROTA_OK);
    assert_string_equal(buffer.data, expected);
    rota_buffer_deinit(&buffer);
}

static void a_long_text_of_a_sheet_is_wrapped_and_a_size_has_a_unit(void **state)
{
    static const struct rota_table_column TEXT_COLUMNS[] = {
        {"WHY", "why", ROTA_TABLE_LINES, false},
        {"MEMORY", "memory", ROTA_TABLE_BYTES, false},
        {"DISK", "disk", ROTA_TABLE_BYTES, false},
    };
    static const struct rota_table SHEET = ROTA_TABLE_SHEET(TEXT_COLUMNS, NULL, 0);
    static const struct {
        enum rota_table_form form;
        const char *expected;
    } CASES[] = {
        {ROTA_TABLE_PLAIN, "WHY     because it is the next node\n"
                           "        clockwise on the ring\n"
                           "        and not pinned\n"
                           "MEMORY  17.3 MiB\n"
                           "DISK    512 B\n"},
        {ROTA_TABLE_WIDE, "WHY     because it is the next node clockwise on the ring\n"
                          "        and not pinned\n"
                          "MEMORY  17.3 MiB\n"
                          "DISK    512 B\n"},
        {ROTA_TABLE_TSV, "why\tbecause it is the next node clockwise on the ring\\nand not pinned\n"
                         "memory\t18190336\n"
                         "disk\t512\n"},
    };
    struct rota_terminal narrow = wide_terminal();
    (void)state;
    narrow.width = 40;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rota_buffer buffer = {0};
        struct rota_error error;
        assert_int_equal(
            rota_table_append(
                &buffer, &SHEET, CASES[i].form, &narrow,
                rota_str("{\"why\": \"because it is the next node clockwise on the "
                         "ring\\nand not pinned\", \"memory\": 18190336, \"disk\": 512}"),
                0, &error),
            ROTA_OK);
        assert_string_equal(buffer.data, CASES[i].expected);
        rota_buffer_deinit(&buffer);
    }
}

static void a_sheet_has_a_line_per_field_and_a_table_per_array(void **state)
{
    struct rota_terminal narrow = wide_terminal();
    (void)state;
    narrow.width = 40;
    expect_sheet(ROTA_TABLE_PLAIN, narrow,
                 "JOB      mail/17\n"
                 "STATE    dead\n"
                 "ADDED    30s ago\n"
                 "MESSAGE  exit code 1\n"
                 "         no route\n"
                 "PAYLOAD  012345678901234…7890123456789\\n\n"
                 "\n"
                 "TIME                 STATE\n"
                 "2026-01-31 12:00:15  waiting\n");
    narrow.is_colored = true;
    expect_sheet(ROTA_TABLE_WIDE, narrow,
                 "\033[1mJOB    \033[0m  mail/17\n"
                 "\033[1mSTATE  \033[0m  \033[31mdead\033[0m\n"
                 "\033[1mADDED  \033[0m  30s ago\n"
                 "\033[1mMESSAGE\033[0m  exit code 1\n"
                 "         no route\n"
                 "\033[1mPAYLOAD\033[0m  0123456789012345678901234567890123456789\\n\n"
                 "\033[1mTRACE  \033[0m  t\n"
                 "\n"
                 "\033[1mTIME\033[0m                 \033[1mSTATE\033[0m\n"
                 "2026-01-31 12:00:15  waiting\n");
}

static void lines_of_a_sheet_name_every_field(void **state)
{
    (void)state;
    expect_sheet(ROTA_TABLE_TSV, (struct rota_terminal){.width = 80},
                 "job\tmail/17\n"
                 "state\tdead\n"
                 "added_ms\t2026-01-31T12:00:15.000Z\n"
                 "ended_ms\t-\n"
                 "timeout_ms\t0s\n"
                 "can\t-\n"
                 "worker\t-\n"
                 "message\texit code 1\\nno route\\n\n"
                 "payload\t0123456789012345678901234567890123456789\\n\n"
                 "trace\tt\n"
                 "event\t2026-01-31T12:00:15.000Z\twaiting\n");
}

static void document_without_the_rows_is_refused(void **state)
{
    struct rota_buffer buffer = {0};
    struct rota_terminal terminal = wide_terminal();
    struct rota_error error;
    (void)state;
    assert_int_equal(
        rota_table_append(&buffer, &NODES, ROTA_TABLE_PLAIN, &terminal, rota_str("{}"), 0, &error),
        ROTA_ERR_NOT_FOUND);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(
        rota_table_append(&buffer, &JOB, ROTA_TABLE_PLAIN, &terminal, rota_str(""), 0, &error),
        ROTA_ERR_INVALID);
    assert_int_equal(buffer.size, 0);
    rota_buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned_and_numbers_are_on_the_right),
        cmocka_unit_test(a_narrow_terminal_omits_empty_columns),
        cmocka_unit_test(wide_tables_have_every_column),
        cmocka_unit_test(lines_have_no_header_and_times_of_one_width),
        cmocka_unit_test(json_is_the_document_itself),
        cmocka_unit_test(long_names_lose_their_middle_where_the_terminal_ends),
        cmocka_unit_test(states_have_colors),
        cmocka_unit_test(ages_are_in_the_most_useful_unit),
        cmocka_unit_test(the_form_suits_the_output_unless_one_is_chosen),
        cmocka_unit_test(objects_may_come_a_line_each),
        cmocka_unit_test(a_sheet_has_a_line_per_field_and_a_table_per_array),
        cmocka_unit_test(a_long_text_of_a_sheet_is_wrapped_and_a_size_has_a_unit),
        cmocka_unit_test(lines_of_a_sheet_name_every_field),
        cmocka_unit_test(document_without_the_rows_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
