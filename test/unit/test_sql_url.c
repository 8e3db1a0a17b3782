#include "wire/text/sql_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rota_sql_url url;
static struct rota_error error;

static void parse(const char *text)
{
    if (rota_sql_url_parse(rota_str(text), &url, &error))
        fail_msg("%s: %s", text, error.text);
}

static void assert_shown(const char *text)
{
    static char shown[ROTA_SQL_URL_TEXT_MAX];
    assert_string_equal(rota_sql_url_format(&url, shown), text);
}

static void sqlite_is_a_path(void **state)
{
    (void)state;
    parse("sqlite:/var/lib/my rota%20.db?x=y");
    assert_int_equal(url.kind, ROTA_SQL_SQLITE);
    assert_string_equal(url.path, "/var/lib/my rota%20.db?x=y");
    assert_shown("sqlite:/var/lib/my rota%20.db?x=y");
}

static void parts_of_a_server_are_found(void **state)
{
    (void)state;
    parse("mysql://rota:s%3A%2F%3F%23%40t@db.example:3307/my_db");
    assert_int_equal(url.kind, ROTA_SQL_MYSQL);
    assert_string_equal(url.user, "rota");
    assert_string_equal(url.password, "s:/?#@t");
    assert_string_equal(url.host, "db.example");
    assert_int_equal(url.port, 3307);
    assert_string_equal(url.database, "my_db");
    assert_int_equal(url.tls, ROTA_SQL_TLS_OFF);

    parse("postgresql://u%40x:p:q@[fe80::1%eth0]/d%20b?tls=verify&ca=/a%26b");
    assert_int_equal(url.kind, ROTA_SQL_POSTGRES);
    assert_string_equal(url.user, "u@x");
    assert_string_equal(url.password, "p:q");
    assert_string_equal(url.host, "fe80::1%eth0");
    assert_int_equal(url.port, 0);
    assert_string_equal(url.database, "d b");
    assert_int_equal(url.tls, ROTA_SQL_TLS_VERIFY);
    assert_string_equal(url.ca, "/a&b");
    assert_shown("postgres://u%40x@[fe80::1%eth0]/d%20b?tls=verify&ca=/a%26b");
}

static void socket_needs_no_host(void **state)
{
    (void)state;
    parse("mysql://rota:pw@/db?socket=/run/my.sock");
    assert_string_equal(url.host, "");
    assert_string_equal(url.path, "/run/my.sock");
    assert_shown("mysql://rota@/db?socket=/run/my.sock");
}

static void password_is_not_shown(void **state)
{
    static const char *const urls[] = {
        "mysql://rota:hunter2@h/d",
        "mysql://:hunter2@h/d",
        "postgres://rota:hunter2@h:1/d",
        "postgres://rota:hunter2@/d?socket=/s",
    };
    char shown[ROTA_SQL_URL_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        parse(urls[i]);
        assert_string_equal(url.password, "hunter2");
        assert_null(strstr(rota_sql_url_format(&url, shown), "hunter2"));
    }
}

/* Also where the password stands where something else should. */
static void errors_do_not_show_the_url(void **state)
{
    static const struct {
        const char *url, *reason;
    } cases[] = {
        {"", "begins with"},
        {"hunter2", "begins with"},
        {"redis://u:hunter2@h/d", "begins with"},
        {"mysql:u:hunter2@h/d", "begins with"},
        {"sqlite:", "no path"},
        {"mysql://u:hunter2/d", "the port"},
        {"mysql://u:hunter2@h", "no database"},
        {"mysql://u:hunter2@h/", "no database"},
        {"mysql://u:hunter2@/d", "no host"},
        {"mysql://u:hunter2@h,g/d", "no host"},
        {"mysql://u:hun@ter2@h/d", "no host"},
        {"mysql://u:hun/ter2@h/d", "the port"},
        {"mysql://u:hun?ter2@h/d", "socket="},
        {"mysql://u:hunter2%@h/d", "hex digits"},
        {"mysql://u:hunter2%0@h/d", "hex digits"},
        {"mysql://u:hunter2%00@h/d", "NUL"},
        {"mysql://u:hunter2@h:0/d", "the port"},
        {"mysql://u:hunter2@h:65536/d", "the port"},
        {"mysql://u:hunter2@h:/d", "the port"},
        {"mysql://u:hunter2@h:1x/d", "the port"},
        {"mysql://u:hunter2@[::1/d", "no host"},
        {"mysql://u:hunter2@[::1]x/d", "the port"},
        {"mysql://u:hunter2@h/d?tls=maybe", "must be off, on or verify"},
        {"mysql://u:hunter2@h/d?tls=verify", "needs ca="},
        {"mysql://u:hunter2@h/d?hunter2=1", "socket="},
        {"mysql://u:hunter2@h/d\n", "control character"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rota_sql_url before = url;
        assert_int_equal(rota_sql_url_parse(rota_str(cases[i].url), &url, &error),
                         ROTA_ERR_INVALID);
        if (!strstr(error.text, cases[i].reason))
            fail_msg("%s: %s", cases[i].url, error.text);
        assert_null(strstr(error.text, "hun"));
        assert_memory_equal(&before, &url, sizeof url);
    }
}

static void parts_have_bounds(void **state)
{
    static char text[ROTA_SQL_URL_TEXT_MAX + 100];
    (void)state;
    snprintf(text, sizeof text, "mysql://u:%0300d@h/d", 0);
    assert_int_equal(rota_sql_url_parse(rota_str(text), &url, &error), ROTA_ERR_LIMIT);
    snprintf(text, sizeof text, "sqlite:%02000d", 0);
    assert_int_equal(rota_sql_url_parse(rota_str(text), &url, &error), ROTA_ERR_LIMIT);
    memset(text, 'a', sizeof text);
    assert_int_equal(rota_sql_url_parse(rota_str_of(text, sizeof text), &url, &error),
                     ROTA_ERR_LIMIT);
    assert_int_equal(rota_sql_url_parse(rota_str_of("sqlite:a\0b", 10), &url, &error),
                     ROTA_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sqlite_is_a_path),           cmocka_unit_test(parts_of_a_server_are_found),
        cmocka_unit_test(socket_needs_no_host),       cmocka_unit_test(password_is_not_shown),
        cmocka_unit_test(errors_do_not_show_the_url), cmocka_unit_test(parts_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
