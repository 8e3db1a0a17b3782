#include <rota/log.h>

#include "vectors.h"
#include <rota/experimental/random.h>

#include <stdio.h>

static char last[ROTA_LOG_LINE_MAX + 1];
static int n_lines;

static void keep(void *data, struct rota_str line)
{
    assert_ptr_equal(data, &n_lines);
    assert_true(line.size <= ROTA_LOG_LINE_MAX);
    memcpy(last, line.data, line.size);
    last[line.size] = '\0';
    n_lines++;
}

static const struct rota_log info = {ROTA_LOG_INFO, keep, &n_lines};

static void facts_of_every_type_are_written(void **state)
{
    char host[] = "10.0.0.1:7000";
    (void)state;
    rota_log(&info, 1769860800 * ROTA_SEC, ROTA_LOG_INFO, "lease gained",
             ROTA_LOG_FACT("name", "jobs"), ROTA_LOG_FACT("epoch", (uint64_t)7),
             ROTA_LOG_FACT("host", host), ROTA_LOG_FACT("shard", rota_str_of("abc", 2)),
             ROTA_LOG_FACT("n", -5), ROTA_LOG_FACT("max", UINT64_MAX), ROTA_LOG_FACT("load", 0.25),
             ROTA_LOG_FACT("held", (bool)true), ROTA_LOG_SPAN("ttl", 1500 * ROTA_MSEC),
             ROTA_LOG_TIME("until", 0));
    assert_string_equal(last,
                        "ts=2026-01-31T12:00:00.000000Z level=info msg=\"lease gained\" name=jobs "
                        "epoch=7 host=10.0.0.1:7000 shard=ab n=-5 "
                        "max=18446744073709551615 load=0.25 held=true ttl=1.5s "
                        "until=1970-01-01T00:00:00Z\n");
    rota_log(&info, 0, ROTA_LOG_ERROR, "stopped", ROTA_LOG_NO_FACTS);
    assert_string_equal(last, "ts=1970-01-01T00:00:00.000000Z level=error msg=stopped\n");
}

static void a_level_that_is_off_costs_nothing(void **state)
{
    const struct rota_log nowhere = {.level = ROTA_LOG_DEBUG};
    int looked_at = 0;
    (void)state;
    n_lines = 0;
    rota_log(&info, 0, ROTA_LOG_DEBUG, "step", ROTA_LOG_FACT("n", ++looked_at));
    rota_log((struct rota_log *)NULL, 0, ROTA_LOG_ERROR, "step", ROTA_LOG_FACT("n", ++looked_at));
    rota_log(&nowhere, 0, ROTA_LOG_ERROR, "step", ROTA_LOG_FACT("n", ++looked_at));
    assert_int_equal(n_lines, 0);
    assert_int_equal(looked_at, 0);
    rota_log(&info, 0, ROTA_LOG_WARN, "step", ROTA_LOG_FACT("n", ++looked_at));
    assert_int_equal(n_lines, 1);
}

static void assert_shown(struct rota_str value, const char *expected)
{
    rota_log(&info, 0, ROTA_LOG_INFO, "x", ROTA_LOG_FACT("v", value));
    const char *shown = strstr(last, " v=");
    assert_non_null(shown);
    assert_string_equal(shown + 3, expected);
}

static void values_are_quoted_when_need_be(void **state)
{
    (void)state;
    assert_shown(rota_str("a/b:c-d,e"), "a/b:c-d,e\n");
    assert_shown(rota_str(""), "\"\"\n");
    assert_shown(rota_str("two words"), "\"two words\"\n");
    assert_shown(rota_str("a=b"), "\"a=b\"\n");
    assert_shown(rota_str("a\"b"), "\"a\\\"b\"\n");
    assert_shown(rota_str("a\\b"), "\"a\\\\b\"\n");
    assert_shown(rota_str("\nts=1 level=info"), "\"\\nts=1 level=info\"\n");
    assert_shown(rota_str_of("\0\x1b[31m", 6), "\"\\u0000\\u001b[31m\"\n");
    assert_shown(rota_str("\xff\xfe"), "\"\\ufffd\\ufffd\"\n");
    assert_shown(rota_str("\u00e9"), "\"\u00e9\"\n");
}

static int count(const char *part)
{
    int n = 0;
    for (const char *at = last; (at = strstr(at, part)); at++)
        n++;
    return n;
}

static void long_values_and_lines_are_cut(void **state)
{
    enum { SIZE = 10 << 20 };
    static char huge[SIZE];
    struct rota_log_fact facts[200];
    (void)state;
    memset(huge, 'x', SIZE);
    rota_log(&info, 0, ROTA_LOG_INFO, "x", ROTA_LOG_FACT("v", rota_str_of(huge, SIZE)),
             ROTA_LOG_FACT("after", 1));
    assert_true(strlen(last) < ROTA_LOG_VALUE_MAX + 100);
    assert_non_null(strstr(last, "xxx...\" after=1\n"));

    for (size_t size = 0; size < 600; size++) {
        for (size_t i = 0; i < 200; i++)
            facts[i] = rota_log_fact_str("fact", rota_str_of(huge, size));
        facts[199] = rota_log_fact_int("z", 1);
        rota_log_write(&info, 0, ROTA_LOG_INFO, "x", facts, 200);
        assert_int_equal(count(" fact=") == 199, !strstr(last, " cut=true\n"));
        assert_true(count(" fact=") == 199 || strlen(last) + size + 20 > ROTA_LOG_LINE_MAX - 20);
        assert_string_equal(last + strlen(last) - 1, "\n");
        assert_ptr_equal(strchr(last, '\n'), last + strlen(last) - 1);
    }
}

/* No bytes can forge a line or a fact: quotation marks pair up, and outside of
 * them there is one space before each fact. */
static void hostile_values_stay_in_their_place(void **state)
{
    static const char alphabet[] = "\"\\ =\n\xc3\xa9\xffmsg";
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int round = 0; round < 10000; round++) {
        char value[30];
        size_t size = rota_random_below(&random, sizeof value + 1);
        for (size_t i = 0; i < size; i++)
            value[i] = alphabet[rota_random_below(&random, sizeof alphabet)];
        rota_log(&info, 0, ROTA_LOG_INFO, "x", ROTA_LOG_FACT("v", rota_str_of(value, size)),
                 ROTA_LOG_FACT("w", 1));
        bool is_quoted = false;
        int n_spaces = 0;
        for (const char *c = last; *c; c++) {
            assert_int_equal(*c == '\n', c[1] == '\0');
            if (is_quoted && *c == '\\')
                c++;
            else if (*c == '"')
                is_quoted = !is_quoted;
            else if (*c == ' ' && !is_quoted)
                n_spaces++;
        }
        assert_false(is_quoted);
        assert_int_equal(n_spaces, 4);
    }
}

static void levels_have_names(void **state)
{
    enum rota_log_level level = ROTA_LOG_ERROR;
    (void)state;
    for (int i = ROTA_LOG_ERROR; i <= ROTA_LOG_DEBUG; i++) {
        assert_int_equal(rota_log_level_parse(rota_str(rota_log_level_names[i]), &level), ROTA_OK);
        assert_int_equal(level, i);
    }
    assert_int_equal(rota_log_level_parse(rota_str("INFO"), &level), ROTA_ERR_INVALID);
    assert_int_equal(rota_log_level_parse(rota_str(""), &level), ROTA_ERR_INVALID);
    assert_int_equal(level, ROTA_LOG_DEBUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_of_every_type_are_written),
        cmocka_unit_test(a_level_that_is_off_costs_nothing),
        cmocka_unit_test(values_are_quoted_when_need_be),
        cmocka_unit_test(long_values_and_lines_are_cut),
        cmocka_unit_test(hostile_values_stay_in_their_place),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
