/* The store on a loop, while its database comes and goes; test/lib/databases.py says
 * which. */
#include "await.h"
#include "store.h"

#include <rota/experimental/store_ask.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uv_loop_t loop;
static struct rota_store *store;
static size_t n_up, n_down, n_answers;
static struct rota_error down_error;

/* The last answer, without what is only borrowed. */
static struct rota_store_answer last;

/* What was logged. */
static char log_text[65536];
static size_t log_size;

static void on_log(void *data, struct rota_str line)
{
    (void)data;
    if (line.size < sizeof log_text - log_size) {
        memcpy(log_text + log_size, line.data, line.size);
        log_size += line.size;
        log_text[log_size] = '\0';
    }
}

static const struct rota_log log_all = {ROTA_LOG_DEBUG, on_log, NULL};

static void on_up(void *data)
{
    (void)data;
    n_up++;
}

static void on_down(void *data, const struct rota_error *error)
{
    (void)data;
    n_down++;
    down_error = *error;
}

static void on_answer(void *data, const struct rota_store_answer *answer)
{
    (void)data;
    last = *answer;
    n_answers++;
}

static void open_store(const char *url)
{
    struct rota_store_options options = {
        .url = url,
        .connect_timeout = 10 * ROTA_SEC,
        .statement_timeout = 10 * ROTA_SEC,
        .log = &log_all,
        .on_up = on_up,
        .on_down = on_down,
    };
    struct rota_error error;
    n_up = n_down = n_answers = log_size = 0;
    if (rota_store_open(&loop, &options, &store, &error))
        fail_msg("%s", error.text);
}

static int set_up(void **state)
{
    (void)state;
    store_clear();
    assert_int_equal(uv_loop_init(&loop), 0);
    store = NULL;
    return 0;
}

static void on_walk(uv_handle_t *handle, void *data)
{
    (void)handle;
    ++*(size_t *)data;
}

/* All is given back, however the test ended. */
static int tear_down(void **state)
{
    size_t n_open = 0;
    (void)state;
    rota_store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_walk(&loop, on_walk, &n_open);
    return n_open || uv_loop_close(&loop) ? -1 : 0;
}

static void ask(const struct rota_store_request *request)
{
    struct rota_error error;
    if (rota_store_ask(store, request, on_answer, NULL, &error))
        fail_msg("%s", error.text);
}

/* Ask and await the answer, which has to be good. */
static void must(const struct rota_store_request *request)
{
    size_t before = n_answers;
    ask(request);
    await(&loop, &n_answers, before + 1);
    if (last.code)
        fail_msg("%s", last.error.text);
}

/* --- requests --- */

/* They were asked for before there was a connection. */
static void requests_are_answered_in_order(void **state)
{
    struct rota_store_request claim = store_claim_of("a", 1, 4),
                              list = store_request(ROTA_STORE_LEASES);
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    assert_false(rota_store_is_up(store));
    for (uint64_t i = 0; i < 4; i++)
        ask(&claim);
    ask(&list);
    await(&loop, &n_answers, 5);
    assert_int_equal(last.code, ROTA_OK);
    assert_int_equal(last.n_leases, 4);
    assert_int_equal(n_up, 1);
    assert_true(rota_store_is_up(store));
    assert_true(last.sent_at <= last.heard_at && last.db_now > 0);
}

/* What a request points to is gone by the time it is carried out. */
static void request_is_copied(void **state)
{
    char space[] = "cache", dc[] = "east", host[] = "a", table[] = "rota_dcs", key[] = "east";
    char column[] = "dc", value[] = "shards";
    struct rota_str keys[] = {rota_str("west"), rota_str(key)};
    struct rota_lease_dead dead[] = {{.shard = 0, .epoch = 1, .pings = 1}};
    struct rota_store_request claim = store_claim_of(host, 1, 3),
                              select = {
                                  .verb = ROTA_STORE_SELECT,
                                  .table = rota_str(table),
                                  .key_column = rota_str(column),
                                  .value_column = rota_str(value),
                                  .keys = keys,
                                  .n_keys = 2,
                              };
    (void)state;
    claim.space = rota_str(space);
    claim.dc = rota_str(dc);
    claim.claim.dead = dead;
    claim.claim.n_dead = 1;
    open_store(database_text("ROTA_TEST_URL"));
    ask(&claim);
    ask(&select);
    memset(space, 'x', 5);
    memset(dc, 'x', 4);
    memset(key, 'x', 4);
    memset(table, 'x', 8);
    memset(column, 'x', 2);
    memset(dead, 0xff, sizeof dead);
    memset(keys, 0, sizeof keys);
    host[0] = 'x';
    await(&loop, &n_answers, 2);
    assert_int_equal(last.code, ROTA_OK);
    assert_int_equal(last.n_values, 1);
    struct rota_store_request list = store_request(ROTA_STORE_LEASES);
    must(&list);
    assert_int_equal(last.n_leases, 3);
}

static void request_that_is_wrong_is_not_asked(void **state)
{
    struct rota_store_request claim = store_claim_of("a", 1, 0);
    struct rota_error error;
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    assert_int_equal(rota_store_ask(store, &claim, on_answer, NULL, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "shards"));
}

static void there_is_a_bound_on_requests(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS);
    struct rota_error error;
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    for (int i = 0; i < ROTA_STORE_PENDING_MAX; i++)
        ask(&list);
    assert_int_equal(rota_store_ask(store, &list, on_answer, NULL, &error), ROTA_ERR_LIMIT);
    await(&loop, &n_answers, ROTA_STORE_PENDING_MAX);
    must(&list);
}

static void forgotten_request_is_not_answered(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS);
    struct rota_error error;
    int one = 0, two = 0;
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    assert_int_equal(rota_store_ask(store, &list, on_answer, &one, &error), ROTA_OK);
    assert_int_equal(rota_store_ask(store, &list, on_answer, &two, &error), ROTA_OK);
    rota_store_forget(store, &one);
    await(&loop, &n_answers, 1);
    must(&list);
    assert_int_equal(n_answers, 2);
}

static void close_in_answer(void *data, const struct rota_store_answer *answer)
{
    (void)data, (void)answer;
    n_answers++;
    rota_store_close(store);
    store = NULL;
}

static void store_may_be_closed_in_an_answer(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS);
    struct rota_error error;
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    for (int i = 0; i < 10; i++)
        assert_int_equal(rota_store_ask(store, &list, close_in_answer, NULL, &error), ROTA_OK);
    await(&loop, &n_answers, 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_answers, 1);
}

static void store_may_be_closed_at_once(void **state)
{
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    rota_store_close(store);
    store = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_up + n_down, 0);
}

/* --- databases that are unreachable --- */

static void bad_url_is_refused_without_showing_it(void **state)
{
    static const char *const urls[] = {
        "",
        "rota.db",
        "sqlite:",
        "mysql:rota:pass-word@host/db",
        "mysql://rota:pass-word/db",
        "postgres://rota:pass-word@host",
        "postgres://rota:pass-word@host:port/db",
        "mysql://rota:pass-word@host/db?pass-word=1",
        "mysql://rota:pass-word%zz@host/db",
    };
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct rota_store_options options = {.url = urls[i]};
        assert_int_equal(rota_store_open(&loop, &options, &store, &error), ROTA_ERR_INVALID);
        assert_null(strstr(error.text, "pass-word"));
        assert_null(store);
    }
}

/* It keeps trying, says why, and never says the password. */
static void store_that_cannot_connect_says_why(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS);
    struct rota_sql_url url = database_url(false);
    char text[ROTA_SQL_URL_TEXT_MAX];
    (void)state;
    if (url.kind == ROTA_SQL_SQLITE)
        snprintf(text, sizeof text, "sqlite:/nowhere/rota.db");
    else
        snprintf(text, sizeof text, "%s://%s:not-the-password@%s:%u/%s",
                 url.kind == ROTA_SQL_MYSQL ? "mysql" : "postgres", url.user, url.host,
                 (unsigned)url.port, url.database);
    open_store(text);
    ask(&list);
    await(&loop, &n_answers, 1);
    assert_int_equal(last.code, ROTA_ERR_UNAVAILABLE);
    assert_null(strstr(last.error.text, "not-the-password"));
    await(&loop, &n_down, 2);
    assert_int_equal(n_up, 0);
    assert_false(rota_store_is_up(store));
    assert_null(strstr(down_error.text, "not-the-password"));
    assert_true(log_size > 0);
    assert_non_null(strstr(log_text, "store down"));
    assert_null(strstr(log_text, "not-the-password"));
    assert_null(strstr(rota_store_name(store), "not-the-password"));
}

static size_t n_logged(const char *phrase)
{
    size_t n = 0;
    for (const char *at = log_text; (at = strstr(at, phrase)); at++)
        n++;
    return n;
}

static void lost_connection_is_replaced(void **state)
{
    struct rota_store_request claim = store_claim_of("a", 1, 1), ping;
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    must(&claim);
    ping = store_of_lease(ROTA_STORE_PING, 1, last.claimed);
    database_do("stop");
    ask(&ping);
    await(&loop, &n_answers, 2);
    assert_true(last.code == ROTA_ERR_UNKNOWN || last.code == ROTA_ERR_UNAVAILABLE);
    assert_null(strstr(last.error.text, "://")); /* it may be shown to others */
    assert_int_equal(n_down, 1);
    ask(&ping);
    await(&loop, &n_answers, 3);
    assert_null(strstr(last.error.text, "127.0.0.1"));
    database_do("start");
    await(&loop, &n_up, 2);
    must(&ping); /* the lease was kept through it */
    assert_true(last.holder.is_ours);
    assert_int_equal(n_logged("\"store down\""), 1); /* however often it was tried */
    database_do("stop");
    ask(&ping);
    await(&loop, &n_answers, 5);
    assert_int_equal(n_logged("\"store down\""), 2);
    database_do("start");
    await(&loop, &n_up, 3);
    assert_null(strstr(log_text, database_url(false).password));
}

/* Nothing was sent on it: the first request after a restart is as good as any. */
static void connection_that_the_server_closed_is_replaced_before_it_is_used(void **state)
{
    struct rota_store_request claim = store_claim_of("a", 1, 1);
    struct rota_store_request list = store_request(ROTA_STORE_LEASES);
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    must(&claim);
    struct rota_store_request ping = store_of_lease(ROTA_STORE_PING, 1, last.claimed);
    database_do("restart");
    must(&list);
    assert_int_equal(last.n_leases, 1);
    database_do("restart");
    must(&ping);
    assert_true(last.holder.is_ours);
    assert_int_equal(n_down, 0);
    assert_non_null(strstr(log_text, "store reconnected"));
}

/* The thread replaces the connection while the loop still looks at how the first one went. */
static void connection_may_be_replaced_before_the_loop_knows_the_first(void **state)
{
    struct rota_store_request claim = store_claim_of("a", 1, 1);
    struct rota_store_request list = store_request(ROTA_STORE_LEASES);
    (void)state;
    struct rota_store_session *other = store_open();
    open_store(database_text("ROTA_TEST_URL"));
    ask(&claim);
    while (store_sql(other->sql, "SELECT COUNT(*) FROM rota_leases WHERE host = 'a'") == 0)
        usleep(1000); /* the loop may not run */
    rota_store_session_close(other);
    database_do("restart");
    ask(&list);
    await(&loop, &n_answers, 2);
    assert_int_equal(last.n_leases, 1);
}

/* It is there and does not answer: no error tells of that before the time-out. */
static void database_that_hangs_is_in_the_log(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS);
    (void)state;
    open_store(database_text("ROTA_TEST_URL"));
    must(&list);
    database_do("pause");
    ask(&list);
    while (!strstr(log_text, "store not responding"))
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(n_answers, 1);
    assert_int_equal(n_down, 0);
    database_do("resume");
    await(&loop, &n_answers, 2);
    assert_int_equal(last.code, ROTA_OK);
    assert_non_null(strstr(log_text, "store responding again"));
}

static void database_that_comes_later_is_found(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS);
    (void)state;
    database_do("stop");
    open_store(database_text("ROTA_TEST_URL"));
    await(&loop, &n_down, 2);
    database_do("start");
    await(&loop, &n_up, 1);
    must(&list);
}

/* Programs of the older version can't connect from then on. */
static void upgrade_of_the_tables_is_in_the_log(void **state)
{
    char text[80];
    struct rota_store_session *session = store_open();
    (void)state;
    snprintf(text, sizeof text, "UPDATE rota_schema SET version = %d",
             ROTA_STORE_SCHEMA_VERSION - 1);
    store_sql(session->sql, text);
    rota_store_session_close(session);
    open_store(database_text("ROTA_TEST_URL"));
    await(&loop, &n_up, 1);
    assert_non_null(strstr(log_text, "store tables upgraded"));
    snprintf(text, sizeof text, "from=%d to=%d", ROTA_STORE_SCHEMA_VERSION - 1,
             ROTA_STORE_SCHEMA_VERSION);
    assert_non_null(strstr(log_text, text));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(requests_are_answered_in_order),
        TEST(request_is_copied),
        TEST(request_that_is_wrong_is_not_asked),
        TEST(there_is_a_bound_on_requests),
        TEST(forgotten_request_is_not_answered),
        TEST(store_may_be_closed_in_an_answer),
        TEST(store_may_be_closed_at_once),
        TEST(bad_url_is_refused_without_showing_it),
        TEST(store_that_cannot_connect_says_why),
        TEST(upgrade_of_the_tables_is_in_the_log),
        /* Of servers only. */
        TEST(lost_connection_is_replaced),
        TEST(connection_that_the_server_closed_is_replaced_before_it_is_used),
        TEST(connection_may_be_replaced_before_the_loop_knows_the_first),
        TEST(database_that_hangs_is_in_the_log),
        TEST(database_that_comes_later_is_found),
    };
    size_t n_tests = sizeof tests / sizeof *tests;
    if (database_url(false).kind == ROTA_SQL_SQLITE)
        n_tests -= 5;
    return _cmocka_run_group_tests("store", tests, n_tests, NULL, NULL);
}
