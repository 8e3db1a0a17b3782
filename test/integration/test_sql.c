/* One interface over three databases; test/lib/databases.py says which. */
#include "store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rota_sql *sql;
static enum rota_sql_kind kind;

static struct rota_sql *open_with(rota_time statement_timeout)
{
    struct rota_sql_url url = database_url(false);
    struct rota_sql_options options = {.statement_timeout = statement_timeout};
    struct rota_sql *made = NULL;
    struct rota_error error;
    if (rota_sql_open(&url, &options, &made, &error))
        fail_msg("%s", error.text);
    return made;
}

static int set_up(void **state)
{
    (void)state;
    sql = open_with(20 * ROTA_SEC);
    kind = rota_sql_kind(sql);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_sql_close(sql);
    return 0;
}

/* Make a table `t` with a number `n`, a text `s` and bytes `b`. */
static void make_table(void)
{
    static const char *const types[] = {"BLOB", "LONGBLOB", "BYTEA"};
    char text[128];
    store_sql(sql, "DROP TABLE IF EXISTS t");
    snprintf(text, sizeof text, "CREATE TABLE t (n BIGINT PRIMARY KEY, s VARCHAR(200), b %s)",
             types[kind]);
    store_sql(sql, text);
}

static enum rota_code insert(int64_t n, struct rota_sql_value s, struct rota_sql_value b,
                             struct rota_error *error)
{
    const struct rota_sql_value values[] = {rota_sql_int(n), s, b};
    return rota_sql_run(sql, "INSERT INTO t (n, s, b) VALUES (?, ?, ?)", values, 3, NULL, error);
}

/* --- values --- */

static void values_come_back_as_they_were(void **state)
{
    static const char bytes[] = "a\0b\xff\xfe'\"\\?;\n";
    const struct rota_str all = rota_str_of(bytes, sizeof bytes);
    const int64_t numbers[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    struct rota_sql_result result = {0};
    struct rota_error error;
    (void)state;
    make_table();
    for (size_t i = 0; i < 5; i++)
        if (insert(numbers[i], rota_sql_bytes(rota_str("gr\xc3\xbc\xc3\x9f '?'")),
                   i % 2 ? rota_sql_null() : rota_sql_bytes(all), &error))
            fail_msg("%s", error.text);

    assert_int_equal(
        rota_sql_run(sql, "SELECT n, s, b, '?' FROM t ORDER BY n", NULL, 0, &result, &error), 0);
    assert_int_equal(result.n_rows, 5);
    assert_int_equal(result.n_columns, 4);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(rota_sql_at(&result, i, 0).type, ROTA_SQL_INT);
        assert_true(rota_sql_int_at(&result, i, 0) == numbers[i]);
        assert_true(rota_str_is_equal(rota_sql_bytes_at(&result, i, 1),
                                      rota_str("gr\xc3\xbc\xc3\x9f '?'")));
        assert_int_equal(rota_sql_at(&result, i, 2).type, i % 2 ? ROTA_SQL_NULL : ROTA_SQL_BYTES);
        if (i % 2 == 0)
            assert_true(rota_str_is_equal(rota_sql_bytes_at(&result, i, 2), all));
    }
    rota_sql_result_deinit(&result);
}

static void large_and_empty_values_come_back(void **state)
{
    enum { SIZE = 3 << 20 };
    struct rota_sql_result result = {0};
    struct rota_error error;
    char *large = malloc(SIZE);
    (void)state;
    make_table();
    for (size_t i = 0; i < SIZE; i++)
        large[i] = (char)(i * 7);
    assert_int_equal(
        insert(1, rota_sql_bytes(rota_str("")), rota_sql_bytes(rota_str_of(large, SIZE)), &error),
        ROTA_OK);
    assert_int_equal(rota_sql_run(sql, "SELECT s, b FROM t", NULL, 0, &result, &error), ROTA_OK);
    assert_int_equal(rota_sql_at(&result, 0, 0).type, ROTA_SQL_BYTES);
    assert_int_equal(rota_sql_bytes_at(&result, 0, 0).size, 0);
    assert_true(rota_str_is_equal(rota_sql_bytes_at(&result, 0, 1), rota_str_of(large, SIZE)));
    free(large);
    rota_sql_result_deinit(&result);
}

/* In MariaDB an update counts what it changed, unless it is told otherwise. */
static void update_to_the_same_value_counts_its_row(void **state)
{
    (void)state;
    make_table();
    assert_int_equal(insert(1, rota_sql_null(), rota_sql_null(), NULL), ROTA_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_sql(sql, "UPDATE t SET s = 'x' WHERE n = 1"), 1);
    assert_int_equal(store_sql(sql, "UPDATE t SET s = 'x' WHERE n = 2"), 0);
    assert_int_equal(store_sql(sql, "DELETE FROM t"), 1);
}

static void more_statements_than_are_cached_succeed(void **state)
{
    char text[64];
    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < ROTA_SQL_STATEMENTS_MAX + 20; i++) {
            snprintf(text, sizeof text, "SELECT %d", i);
            assert_int_equal(store_sql(sql, text), i);
        }
}

/* --- failures that are surely undone --- */

static void missing_row_is_not_found(void **state)
{
    struct rota_error error;
    (void)state;
    make_table();
    assert_int_equal(rota_sql_run(sql, "SELECT 1 FROM nowhere", NULL, 0, NULL, &error),
                     ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "nowhere"));
    assert_int_equal(rota_sql_run(sql, "SELECT missing FROM t", NULL, 0, NULL, &error),
                     ROTA_ERR_NOT_FOUND);
    assert_int_equal(rota_sql_run(sql, "SELECT FROM WHERE", NULL, 0, NULL, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_sql_run(sql, "SELECT ?", NULL, 0, NULL, &error), ROTA_ERR_INVALID);
    assert_true(rota_sql_is_alive(sql));
    assert_int_equal(store_sql(sql, "SELECT 7"), 7);
}

static void second_row_with_a_key_is_invalid(void **state)
{
    struct rota_error error;
    (void)state;
    make_table();
    assert_int_equal(insert(1, rota_sql_null(), rota_sql_null(), &error), ROTA_OK);
    assert_int_equal(insert(1, rota_sql_null(), rota_sql_null(), &error), ROTA_ERR_INVALID);
    assert_int_equal(store_sql(sql, "SELECT COUNT(*) FROM t"), 1);
}

static void transaction_is_all_or_nothing(void **state)
{
    (void)state;
    make_table();
    assert_int_equal(rota_sql_begin(sql, NULL), ROTA_OK);
    assert_int_equal(insert(1, rota_sql_null(), rota_sql_null(), NULL), ROTA_OK);
    rota_sql_rollback(sql);
    assert_int_equal(store_sql(sql, "SELECT COUNT(*) FROM t"), 0);
    assert_int_equal(rota_sql_begin(sql, NULL), ROTA_OK);
    assert_int_equal(insert(1, rota_sql_null(), rota_sql_null(), NULL), ROTA_OK);
    assert_int_equal(rota_sql_commit(sql, NULL), ROTA_OK);
    assert_int_equal(store_sql(sql, "SELECT COUNT(*) FROM t"), 1);
}

static void lock_that_is_not_given_up_makes_it_unavailable(void **state)
{
    struct rota_sql *other = open_with(300 * ROTA_MSEC);
    struct rota_error error;
    (void)state;
    make_table();
    assert_int_equal(insert(1, rota_sql_null(), rota_sql_null(), NULL), ROTA_OK);
    assert_int_equal(rota_sql_begin(sql, NULL), ROTA_OK);
    store_sql(sql, "UPDATE t SET s = 'a'");
    assert_int_equal(rota_sql_run(other, "UPDATE t SET s = 'b'", NULL, 0, NULL, &error),
                     ROTA_ERR_UNAVAILABLE);
    assert_int_equal(rota_sql_commit(sql, NULL), ROTA_OK);
    assert_int_equal(store_sql(other, "SELECT COUNT(*) FROM t WHERE s = 'a'"), 1);
    assert_int_equal(store_sql(other, "UPDATE t SET s = 'b'"), 1);
    rota_sql_close(other);
}

static void result_with_too_many_rows_is_refused(void **state)
{
    struct rota_sql_result result = {0};
    struct rota_error error;
    (void)state;
    make_table();
    for (int i = 0; i < 128; i++)
        assert_int_equal(insert(i, rota_sql_null(), rota_sql_null(), NULL), ROTA_OK);
    assert_int_equal(rota_sql_run(sql, "SELECT 1 FROM t a, t b, t c", NULL, 0, &result, &error),
                     ROTA_ERR_LIMIT);
    assert_int_equal(result.n_rows, 0);
}

/* --- who may come in --- */

static void assert_no_secret(const struct rota_sql_url *url, const struct rota_error *error)
{
    assert_true(error->text[0] != '\0');
    if (strstr(error->text, url->password))
        fail_msg("the password is in: %s", error->text);
}

static void password_is_in_no_message(void **state)
{
    struct rota_sql_url url = database_url(false), good = url;
    struct rota_sql_options options = {.connect_timeout = 2 * ROTA_SEC};
    struct rota_sql *none = NULL;
    struct rota_error error;
    (void)state;
    if (kind == ROTA_SQL_SQLITE) {
        strcpy(url.path, "/nowhere/rota.db");
        assert_int_not_equal(rota_sql_open(&url, &options, &none, &error), ROTA_OK);
        assert_non_null(strstr(error.text, "/nowhere/rota.db"));
        return;
    }
    strcpy(url.password, "a wrong one");
    assert_int_equal(rota_sql_open(&url, &options, &none, &error), ROTA_ERR_INVALID);
    assert_no_secret(&url, &error);
    assert_no_secret(&good, &error);
    url = good;
    strcpy(url.user, "s3cret p@ss/word"); /* in the wrong place */
    assert_int_equal(rota_sql_open(&url, &options, &none, &error), ROTA_ERR_INVALID);
    assert_null(strstr(strrchr(error.text, ':'), good.password));
    url = good;
    strcpy(url.database, "nowhere");
    assert_int_equal(rota_sql_open(&url, &options, &none, &error), ROTA_ERR_INVALID);
    assert_no_secret(&good, &error);
    url = good;
    strcpy(url.host, "no-such-host.invalid");
    assert_int_equal(rota_sql_open(&url, &options, &none, &error), ROTA_ERR_UNAVAILABLE);
    assert_no_secret(&good, &error);
    url = good;
    url.port = 1;
    assert_int_equal(rota_sql_open(&url, &options, &none, &error), ROTA_ERR_UNAVAILABLE);
    assert_no_secret(&good, &error);

    /* A server may repeat what it was told. */
    const struct rota_sql_value value = rota_sql_bytes(rota_str(good.password));
    char text[300];
    snprintf(text, sizeof text, "SELECT 1 FROM \"%s\"", good.password);
    assert_int_not_equal(rota_sql_run(sql, text, NULL, 0, NULL, &error), ROTA_OK);
    assert_no_secret(&good, &error);
    if (kind == ROTA_SQL_POSTGRES) {
        assert_int_equal(rota_sql_run(sql, "SELECT CAST(? AS INTEGER)", &value, 1, NULL, &error),
                         ROTA_ERR_INVALID);
        assert_no_secret(&good, &error);
    }
}

/* --- connections that are lost --- */

static const char *sleep_text(void)
{
    return kind == ROTA_SQL_MYSQL ? "SELECT SLEEP(15)" : "SELECT pg_sleep(15)";
}

struct sleeper {
    struct rota_error error;
    enum rota_code code;
};

static void *run_sleeper(void *data)
{
    struct sleeper *sleeper = data;
    sleeper->code = rota_sql_run(sql, sleep_text(), NULL, 0, NULL, &sleeper->error);
    return NULL;
}

/* The connection that sleeps; awaited. One that is lost while it prepares its statement has
 * surely done nothing. */
static int64_t find_sleeper(struct rota_sql *admin)
{
    for (;;) {
        struct rota_sql_result result = {0};
        const char *text =
            kind == ROTA_SQL_MYSQL
                ? "SELECT id FROM information_schema.processlist WHERE info LIKE "
                  "'SELECT SLEEP%' AND state = 'User sleep'"
                : "SELECT CAST(pid AS BIGINT) FROM pg_stat_activity WHERE query LIKE "
                  "'SELECT pg_sleep%' AND wait_event = 'PgSleep'";
        assert_int_equal(rota_sql_run(admin, text, NULL, 0, &result, NULL), ROTA_OK);
        int64_t found = result.n_rows > 0 ? rota_sql_int_at(&result, 0, 0) : 0;
        rota_sql_result_deinit(&result);
        if (found)
            return found;
    }
}

static void killed_connection_leaves_the_outcome_unknown(void **state)
{
    struct sleeper sleeper = {0};
    struct rota_sql *admin = store_admin();
    pthread_t thread;
    char text[64];
    (void)state;
    pthread_create(&thread, NULL, run_sleeper, &sleeper);
    snprintf(text, sizeof text,
             kind == ROTA_SQL_MYSQL ? "KILL CONNECTION %lld" : "SELECT pg_terminate_backend(%lld)",
             (long long)find_sleeper(admin));
    store_sql(admin, text);
    pthread_join(thread, NULL);
    assert_int_equal(sleeper.code, ROTA_ERR_UNKNOWN);
    assert_true(sleeper.error.text[0] != '\0');
    assert_false(rota_sql_is_alive(sql));
    assert_int_equal(rota_sql_run(sql, "SELECT 1", NULL, 0, NULL, NULL), ROTA_ERR_UNAVAILABLE);
    rota_sql_close(admin);
}

/* A statement that a busy server may not get done in the time of this connection. */
static void await_select(struct rota_sql *hasty)
{
    struct rota_error error;
    enum rota_code code;
    do
        code = rota_sql_run(hasty, "SELECT 1", NULL, 0, NULL, &error);
    while (code == ROTA_ERR_UNAVAILABLE && rota_sql_is_alive(hasty));
    if (code)
        fail_msg("%s", error.text);
}

static void statement_that_takes_too_long_is_certainly_undone(void **state)
{
    struct rota_sql *hasty = open_with(200 * ROTA_MSEC);
    struct rota_error error;
    (void)state;
    enum rota_code code = rota_sql_run(hasty, sleep_text(), NULL, 0, NULL, &error);
    if (code != ROTA_ERR_UNAVAILABLE && code != ROTA_OK) /* MariaDB's SLEEP just wakes up */
        fail_msg("%s", error.text);
    assert_true(kind == ROTA_SQL_MYSQL || code == ROTA_ERR_UNAVAILABLE);
    await_select(hasty);
    rota_sql_close(hasty);
}

static void server_that_hangs_does_not_hang_us(void **state)
{
    struct rota_sql_url url = database_url(false);
    struct rota_sql_options options = {.connect_timeout = ROTA_SEC};
    struct rota_sql *hasty = open_with(200 * ROTA_MSEC), *none = NULL;
    struct rota_error error;
    (void)state;
    await_select(hasty); /* so that it is prepared */
    database_do("pause");
    enum rota_code code = rota_sql_run(hasty, "SELECT 1", NULL, 0, NULL, &error);
    enum rota_code connected = rota_sql_open(&url, &options, &none, NULL);
    database_do("resume");
    assert_int_equal(code, ROTA_ERR_UNKNOWN);
    assert_int_equal(connected, ROTA_ERR_UNAVAILABLE);
    assert_false(rota_sql_is_alive(hasty));
    rota_sql_close(hasty);
}

static void restarted_server_gets_a_new_connection(void **state)
{
    struct rota_error error;
    (void)state;
    make_table();
    assert_int_equal(insert(1, rota_sql_null(), rota_sql_null(), NULL), ROTA_OK);
    database_do("restart");
    assert_int_equal(rota_sql_run(sql, "SELECT COUNT(*) FROM t", NULL, 0, NULL, &error),
                     ROTA_ERR_UNAVAILABLE); /* it had to be prepared first */
    assert_false(rota_sql_is_alive(sql));
    rota_sql_close(sql);
    sql = open_with(20 * ROTA_SEC);
    assert_int_equal(store_sql(sql, "SELECT COUNT(*) FROM t"), 1);
}

static void each_session_reads_committed_data(void **state)
{
    struct rota_sql_result result = {0};
    (void)state;
    const char *text = kind == ROTA_SQL_MYSQL ? "SELECT @@tx_isolation"
                                              : "SELECT current_setting('transaction_isolation')";
    assert_int_equal(rota_sql_run(sql, text, NULL, 0, &result, NULL), ROTA_OK);
    struct rota_str level = rota_sql_bytes_at(&result, 0, 0);
    assert_true(rota_str_is_equal(level, rota_str("READ-COMMITTED")) ||
                rota_str_is_equal(level, rota_str("read committed")));
    rota_sql_result_deinit(&result);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(values_come_back_as_they_were),
        TEST(large_and_empty_values_come_back),
        TEST(update_to_the_same_value_counts_its_row),
        TEST(more_statements_than_are_cached_succeed),
        TEST(missing_row_is_not_found),
        TEST(second_row_with_a_key_is_invalid),
        TEST(transaction_is_all_or_nothing),
        TEST(lock_that_is_not_given_up_makes_it_unavailable),
        TEST(result_with_too_many_rows_is_refused),
        TEST(password_is_in_no_message),
        /* Of servers only. */
        TEST(killed_connection_leaves_the_outcome_unknown),
        TEST(statement_that_takes_too_long_is_certainly_undone),
        TEST(server_that_hangs_does_not_hang_us),
        TEST(restarted_server_gets_a_new_connection),
        TEST(each_session_reads_committed_data),
    };
    size_t n_tests = sizeof tests / sizeof *tests;
    if (database_url(false).kind == ROTA_SQL_SQLITE)
        n_tests -= 5;
    return _cmocka_run_group_tests("sql", tests, n_tests, NULL, NULL);
}
