/* A Rota that was built without the libraries of the servers: the files that stand in for
 * theirs are linked before them. */
#include "io/log/sync.h"
#include "io/sql/sql.h"

#include <rota/experimental/connector.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void missing_database_support_is_reported(void **state)
{
    static const char *const urls[] = {"mysql://u:pw-1234@h/d", "postgres://u:pw-1234@h/d"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rota_sql_url url;
        struct rota_sql *sql = NULL;
        struct rota_error error;
        assert_int_equal(rota_sql_url_parse(rota_str(urls[i]), &url, &error), ROTA_OK);
        assert_int_equal(rota_sql_open(&url, NULL, &sql, &error), ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "was built without"));
        assert_null(strstr(error.text, "pw-1234"));
        assert_null(sql);
    }
}

static void missing_log_support_is_reported(void **state)
{
    struct rota_sync_options options = {.url = "kafka://h?sasl.password=pw-1234", .name = "g"};
    struct rota_sync *sync = NULL;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_sync_open(NULL, &options, &sync, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "was built without"));
    assert_null(strstr(error.text, "pw-1234"));
    assert_null(sync);
}

static void missing_worker_support_is_reported(void **state)
{
    const struct rota_connector_options options = {.address = "127.0.0.1:0", .name = "w"};
    struct rota_connector *connector = NULL;
    char key[ROTA_CONNECTOR_KEY_SIZE];
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "was built without"));
    assert_int_equal(rota_connector_open_worker(&options, &connector, &error), ROTA_ERR_INVALID);
    assert_null(connector);
    assert_int_equal(rota_connector_key_make("/nowhere/key", key, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "was built without"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_database_support_is_reported),
        cmocka_unit_test(missing_log_support_is_reported),
        cmocka_unit_test(missing_worker_support_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
