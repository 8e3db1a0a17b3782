#include "wire/text/hosts_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rota_hosts read_text(const char *text)
{
    struct rota_hosts hosts;
    struct rota_error error;
    if (rota_hosts_file_parse(rota_str(text), "hosts", &hosts, &error))
        fail_msg("%s", error.text);
    return hosts;
}

/* The message that `text` is refused with. */
static const char *refusal_of(struct rota_str text, enum rota_code code)
{
    static struct rota_error error;
    struct rota_hosts hosts = {.n_hosts = 77};
    assert_int_equal(rota_hosts_file_parse(text, "hosts", &hosts, &error), code);
    assert_int_equal(hosts.n_hosts, 77); /* left alone */
    assert_int_equal(rota_hosts_file_parse(text, "hosts", &hosts, NULL), code);
    return error.text;
}

static void assert_refused(const char *text, const char *message)
{
    assert_string_equal(refusal_of(rota_str(text), ROTA_ERR_INVALID), message);
}

static void assert_str(struct rota_str str, const char *text)
{
    assert_true(rota_str_is_equal(str, rota_str(text)));
}

static void line_is_a_host_with_its_attributes(void **state)
{
    struct rota_hosts h = read_text("a:1 zone=east weight=1.5 start_at=1767225600 "
                                    "stop_at=2026-01-02T00:00:00.5Z draining\n"
                                    "b:2\n");
    (void)state;
    assert_int_equal(h.n_hosts, 2);
    assert_str(h.hosts[0].address, "a:1");
    assert_str(h.hosts[0].zone, "east");
    assert_int_equal(h.hosts[0].weight, 1500);
    assert_int_equal(h.hosts[0].start_at, 1767225600 * ROTA_SEC);
    assert_int_equal(h.hosts[0].stop_at, 1767312000 * ROTA_SEC + ROTA_SEC / 2);
    assert_true(h.hosts[0].is_draining);

    assert_str(h.hosts[1].address, "b:2");
    assert_str(h.hosts[1].zone, "");
    assert_int_equal(h.hosts[1].weight, ROTA_WEIGHT_ONE);
    assert_int_equal(h.hosts[1].start_at, 0);
    assert_int_equal(h.hosts[1].stop_at, 0);
    assert_false(h.hosts[1].is_draining);
    rota_hosts_file_deinit(&h);
}

static void comments_blanks_and_line_ends_do_not_matter(void **state)
{
    struct rota_hosts h =
        read_text("\xef\xbb\xbf# all\r\n\r\n \t \n  a:1\tzone=x #1 # a comment\r\n"
                  "\t# more\nb:2 #\nc:3 draining=false #draining\n\xc3\xa4:4");
    (void)state;
    assert_int_equal(h.n_hosts, 4);
    assert_str(h.hosts[0].address, "a:1");
    assert_str(h.hosts[0].zone, "x");
    assert_str(h.hosts[1].address, "b:2");
    assert_str(h.hosts[2].address, "c:3");
    assert_false(h.hosts[2].is_draining);
    assert_str(h.hosts[3].address, "\xc3\xa4:4");
    rota_hosts_file_deinit(&h);
}

static void an_empty_list_is_not_an_error(void **state)
{
    static const char *const texts[] = {"", "\n", "# nobody\n", "  \r\n\r\n", "\xef\xbb\xbf"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct rota_hosts h = read_text(texts[i]);
        assert_int_equal(h.n_hosts, 0);
        rota_hosts_file_deinit(&h);
    }
}

static void weight_is_a_decimal_number(void **state)
{
    static const struct {
        const char *text;
        uint32_t weight; /* 0: refused */
    } rows[] = {
        {"1", 1000},
        {"1.0", 1000},
        {"0.01", 10},
        {"0.010", 10},
        {"1000", 1000000},
        {"1000.000", 1000000},
        {"0.125", 125},
        {"007", 7000},
        {"999.999", 999999},
        {"", 0},
        {".", 0},
        {".5", 0},
        {"1.", 0},
        {"1.2.3", 0},
        {"0", 0},
        {"0.009", 0},
        {"1000.001", 0},
        {"1001", 0},
        {"-1", 0},
        {"+1", 0},
        {"1e3", 0},
        {"0.0100", 0},
        {"0x1", 0},
        {"nan", 0},
        {"1,5", 0},
        {"99999999999999999999999", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64], message[200];
        snprintf(text, sizeof text, "a:1 weight=%s", rows[i].text);
        snprintf(message, sizeof message,
                 "hosts:1: weight \"%s\" is not a decimal number from 0.01 to 1000 with at most "
                 "three decimal places",
                 rows[i].text);
        if (rows[i].weight == 0) {
            assert_refused(text, message);
            continue;
        }
        struct rota_hosts h = read_text(text);
        assert_int_equal(h.hosts[0].weight, rows[i].weight);
        rota_hosts_file_deinit(&h);
    }
}

static void refusal_names_the_line_and_the_reason(void **state)
{
    (void)state;
    assert_refused("#\n\na:1 wieght=2", "hosts:3: unknown attribute \"wieght\", did you mean "
                                        "weight?");
    assert_refused("a:1 zones=x", "hosts:1: unknown attribute \"zones\", did you mean zone?");
    assert_refused("a:1 colour=red", "hosts:1: unknown attribute \"colour\"");
    assert_refused("a:1 =", "hosts:1: unknown attribute \"\"");
    assert_refused("a:1 weight=1 weight=1", "hosts:1: weight is given twice");
    assert_refused("a:1 draining=false draining", "hosts:1: draining is given twice");
    assert_refused("a:1 weight", "hosts:1: weight needs a value: weight=...");
    assert_refused("a:1 zone=", "hosts:1: the zone is empty");
    assert_refused("a:1 draining=yes", "hosts:1: draining \"yes\" is neither true nor false");
    assert_refused("weight=2 a:1", "hosts:1: no address before \"weight=2\"");
    assert_refused("a:1 start_at=soon", "hosts:1: start_at \"soon\" is not a time like "
                                        "2026-01-31T12:00:00Z or Unix seconds");
    assert_refused("a:1 stop_at=0", "hosts:1: stop_at \"0\" is not after 1970");
    assert_refused("a:1 start_at=-5", "hosts:1: start_at \"-5\" is not after 1970");
    assert_refused("a:1 stop_at=5 start_at=5",
                   "hosts:1: stop_at of \"a:1\" is not after its start_at");
}

static void host_listed_twice_is_refused_with_both_lines(void **state)
{
    (void)state;
    assert_refused("b:1\na:1\n\na:1 weight=2\nb:1\n", "hosts:4: host \"a:1\" is already listed in "
                                                      "line 2");
    assert_refused("a:1\nb:1\na:1\na:1\n", "hosts:3: host \"a:1\" is already listed in line 1");
}

static void bytes_that_are_not_text_are_refused(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        const char *message;
    } rows[] = {
        {"a\0b", 3, "hosts:1: byte 2 is a control character (0x00)"},
        {"a:1\n# \x1b[31m", 11, "hosts:2: byte 3 is a control character (0x1b)"},
        {"a:1\rb:1\n", 8, "hosts:1: byte 4 is a control character (0x0d)"},
        {"a:1\r\r\n", 6, "hosts:1: byte 4 is a control character (0x0d)"},
        {"\x7f", 1, "hosts:1: byte 1 is a control character (0x7f)"},
        {"a\xff", 2, "hosts:1: byte 2 (0xff) is not valid UTF-8"},
        {"\xc3", 1, "hosts:1: byte 1 (0xc3) is not valid UTF-8"},             /* cut off */
        {"\xc0\xaf", 2, "hosts:1: byte 1 (0xc0) is not valid UTF-8"},         /* too long */
        {"\xe0\x80\xaf", 3, "hosts:1: byte 1 (0xe0) is not valid UTF-8"},     /* too long */
        {"\xed\xa0\x80", 3, "hosts:1: byte 1 (0xed) is not valid UTF-8"},     /* surrogate */
        {"\xf4\x90\x80\x80", 4, "hosts:1: byte 1 (0xf4) is not valid UTF-8"}, /* beyond */
        {"\xef\xbb\xbf\xef\xbb\xbfx", 7,
         "hosts:1: byte 1 is a byte order mark; it is allowed only at the start"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(refusal_of(rota_str_of(rows[i].text, rows[i].size), ROTA_ERR_INVALID),
                            rows[i].message);
}

/* Every byte as the first of four: 0xf5 and above begin no character, though
 * their low bits look like those of one that does. */
static void only_leads_of_characters_begin_one(void **state)
{
    struct rota_hosts h;
    (void)state;
    for (int lead = 0x80; lead < 0x100; lead++) {
        char text[] = {(char)lead, '\x90', '\x80', '\x80'};
        bool is_lead = lead >= 0xf0 && lead <= 0xf3;
        enum rota_code code = rota_hosts_file_parse(rota_str_of(text, 4), "hosts", &h, NULL);
        assert_int_equal(code, is_lead ? ROTA_OK : ROTA_ERR_INVALID);
        if (!code)
            rota_hosts_file_deinit(&h);
    }
}

static void names_hold_nothing_that_misleads(void **state)
{
    (void)state;
    assert_refused("a:1,b:1",
                   "hosts:1: address \"a:1,b:1\" contains a comma; write one host per line");
    assert_refused("b:1#x", "hosts:1: # in an address, \"b:1#x\": a comment needs a space before "
                            "it");
    assert_refused("b:1 zone=x#1", "hosts:1: # in a zone, \"x#1\": a comment needs a space before "
                                   "it");
    assert_refused("a\u200f:1", "hosts:1: an address with the invisible character U+200F: "
                                "\"a\\u200f:1\"");
    assert_refused("a:1 zone=\u202e", "hosts:1: a zone with the invisible character U+202E: "
                                      "\"\\u202e\"");
    assert_refused("\xc2\x85", "hosts:1: an address with the invisible character U+0085: "
                               "\"\\u0085\"");
    struct rota_hosts h = read_text("a:1 # \u200f is well in a comment, and so is b#c\n");
    assert_int_equal(h.n_hosts, 1);
    rota_hosts_file_deinit(&h);
}

static void sizes_are_bounded(void **state)
{
    char *text = malloc(ROTA_HOSTS_TEXT_MAX + 1);
    struct rota_hosts h;
    (void)state;
    assert_non_null(text);
    memset(text, 'x', ROTA_HOSTS_TEXT_MAX + 1);

    assert_non_null(strstr(refusal_of(rota_str_of(text, ROTA_ADDRESS_MAX + 1), ROTA_ERR_INVALID),
                           "hosts:1: an address has 256 bytes"));
    assert_int_equal(rota_hosts_file_parse(rota_str_of(text, ROTA_ADDRESS_MAX), "hosts", &h, NULL),
                     ROTA_OK);
    rota_hosts_file_deinit(&h);
    assert_non_null(strstr(refusal_of(rota_str_of(text, ROTA_HOSTS_TEXT_MAX), ROTA_ERR_LIMIT),
                           "hosts:1: the line has 16777216 bytes"));
    assert_non_null(strstr(refusal_of(rota_str_of(text, ROTA_HOSTS_TEXT_MAX + 1), ROTA_ERR_LIMIT),
                           "hosts: the file has 16777217 bytes"));
    text[0] = '#';
    assert_int_equal(
        rota_hosts_file_parse(rota_str_of(text, ROTA_HOSTS_LINE_MAX), "hosts", &h, NULL), ROTA_OK);
    rota_hosts_file_deinit(&h);
    refusal_of(rota_str_of(text, ROTA_HOSTS_LINE_MAX + 1), ROTA_ERR_LIMIT);
    memcpy(text, "a zone=", 7);
    assert_non_null(
        strstr(refusal_of(rota_str_of(text, 7 + ROTA_ADDRESS_MAX + 1), ROTA_ERR_INVALID),
               "hosts:1: a zone has 256 bytes"));
    memcpy(text, "a x", 3);
    text[3 + 80] = '='; /* a long name is quoted in part */
    assert_true(strlen(refusal_of(rota_str_of(text, 2000), ROTA_ERR_INVALID)) < 150);

    size_t size = 0;
    for (int i = 0; i <= ROTA_HOSTS_MAX; i++)
        size += (size_t)sprintf(text + size, "h%d\n", i);
    assert_non_null(strstr(refusal_of(rota_str_of(text, size), ROTA_ERR_LIMIT),
                           "hosts:65536: more than 65535 hosts"));
    size -= strlen("h65535\n");
    assert_int_equal(rota_hosts_file_parse(rota_str_of(text, size), "hosts", &h, NULL), ROTA_OK);
    assert_int_equal(h.n_hosts, ROTA_HOSTS_MAX);
    rota_hosts_file_deinit(&h);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_is_a_host_with_its_attributes),
        cmocka_unit_test(comments_blanks_and_line_ends_do_not_matter),
        cmocka_unit_test(an_empty_list_is_not_an_error),
        cmocka_unit_test(weight_is_a_decimal_number),
        cmocka_unit_test(refusal_names_the_line_and_the_reason),
        cmocka_unit_test(host_listed_twice_is_refused_with_both_lines),
        cmocka_unit_test(bytes_that_are_not_text_are_refused),
        cmocka_unit_test(only_leads_of_characters_begin_one),
        cmocka_unit_test(names_hold_nothing_that_misleads),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
