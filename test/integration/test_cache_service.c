/* A server of a sharded cache that holds several shards: from its lease to its last answer, with a
 * real store and clients over gRPC. */
#include "await.h"
#include "io/sql/sql.h"
#include "run/call/cache_service.h"
#include "run/call/get_server_inside.h"
#include "wire/text/sql_url.h"

#include <rota/experimental/get.h>
#include <rota/experimental/interval.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS = 3, KEYS = 60 };

static struct {
    uv_loop_t loop;
    struct rota_server *server; /* as a node has it */
    struct rota_cache_service *service;
    size_t n_calls, n_shards_told;
    size_t n_ready, n_refused, n_left, n_closed;
    struct rota_error why;
    char folder[64], store[128], source[160];
} world;

static void on_ready(void *data)
{
    (void)data;
    world.n_ready++;
}

static void on_refused(void *data, const struct rota_error *error)
{
    (void)data;
    world.why = *error;
    world.n_refused++;
}

static void on_left(void *data)
{
    (void)data;
    world.n_left++;
}

static void on_shards(void *data)
{
    (void)data;
    world.n_shards_told++;
}

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    world.n_calls++;
    rota_cache_service_take(world.service, call);
}

static void on_closed(void *data)
{
    (void)data;
    world.n_closed++;
}

static struct rota_cache_service_options usual(void)
{
    return (struct rota_cache_service_options){.store = world.store,
                                               .name = "fruit",
                                               .dc = "a",
                                               .source = world.source,
                                               .host = "h",
                                               .shards = SHARDS,
                                               .memory = 1 << 20,
                                               .wanted = SHARDS,
                                               .ttl = 10 * ROTA_SEC,
                                               .keep = ROTA_MIN,
                                               .loss = ROTA_LEASE_LOSS_STANDBY,
                                               .is_alone = true,
                                               .on_ready = on_ready,
                                               .on_shards = on_shards,
                                               .on_refused = on_refused,
                                               .on_left = on_left};
}

static int set_up(void **state)
{
    char path[128], text[KEYS * 32] = "";
    (void)state;
    memset(&world, 0, sizeof world);
    snprintf(world.folder, sizeof world.folder, "/tmp/rota-cache-XXXXXX");
    assert_non_null(mkdtemp(world.folder));
    snprintf(world.store, sizeof world.store, "sqlite:%s/store.db", world.folder);
    snprintf(path, sizeof path, "%s/pairs", world.folder);
    snprintf(world.source, sizeof world.source, "file:%s", path);
    for (size_t i = 0, size = 0; i < KEYS; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "key%zu\tvalue %zu\n", i, i);
    await_write(path, text);
    assert_int_equal(uv_loop_init(&world.loop), 0);
    const struct rota_server_method method = {
        .path = "/rota.v1.Cache/Get", .on_call = on_call, .on_cancel = rota_get_server_cancel};
    assert_int_equal(rota_server_open(&world.loop, NULL, &world.server, NULL), ROTA_OK);
    assert_int_equal(rota_server_add(world.server, &method, NULL), ROTA_OK);
    return rota_server_listen(world.server, "127.0.0.1:0", NULL);
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    rota_server_close(world.server);
    if (world.service) {
        rota_cache_service_close(world.service, on_closed, NULL);
        await(&world.loop, &world.n_closed, 1);
    }
    uv_run(&world.loop, UV_RUN_DEFAULT);
    await_end(&world.loop);
    snprintf(command, sizeof command, "rm -r %s", world.folder);
    return system(command);
}

static void open_service(struct rota_cache_service_options options)
{
    struct rota_error error;
    if (rota_cache_service_open(&world.loop, &options, &world.service, &error))
        fail_msg("%s", error.text);
}

static size_t n_held(void)
{
    return rota_cache_service_n_shards(world.service);
}

static void await_held(size_t n)
{
    while (n_held() != n)
        uv_run(&world.loop, UV_RUN_ONCE);
}

/* Keys "key0", "key1" ... from the one address. */
static struct rota_get_result *get_keys(size_t n_keys)
{
    struct rota_get_host host = {.address = rota_str(rota_server_address(world.server, 0))};
    static char names[KEYS + 1][16];
    static struct rota_str keys[KEYS + 1];
    struct rota_get *get;
    struct rota_get_result *result;
    for (size_t i = 0; i < n_keys; i++) {
        snprintf(names[i], sizeof names[i], "key%zu", i);
        keys[i] = rota_str(names[i]);
    }
    const struct rota_get_options options = {
        .hosts = &host, .n_hosts = 1, .ping_period = 50 * ROTA_MSEC, .seed = 1};
    const struct rota_get_request request = {.keys = keys, .n_keys = n_keys, .timeout = ROTA_MIN};
    assert_int_equal(rota_get_open(&world.loop, &options, &get, NULL), ROTA_OK);
    rota_get_wait(get, &request, &result, NULL);
    assert_non_null(result);
    for (size_t i = 0; i < KEYS; i++) {
        char value[16];
        snprintf(value, sizeof value, "value %zu", i);
        assert_int_equal(result->items[i].state, ROTA_GET_KEY_FOUND);
        assert_true(rota_str_is_equal(result->items[i].value, rota_str(value)));
    }
    rota_get_close(get);
    return result;
}

static void assert_all_found(void)
{
    rota_get_result_free(get_keys(KEYS));
}

static void all_shards_are_served_at_one_address(void **state)
{
    bool is_held[SHARDS] = {false};
    (void)state;
    open_service(usual());
    await(&world.loop, &world.n_ready, 1);
    await_held(SHARDS);
    assert_int_equal(world.n_shards_told, SHARDS);
    struct rota_get_result *result = get_keys(KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(result->items[i].shard.of, SHARDS);
        assert_true(result->items[i].epoch > 0);
        is_held[result->items[i].shard.from] = true;
    }
    for (size_t i = 0; i < SHARDS; i++)
        assert_true(is_held[i]);
    assert_int_equal(result->n_tries, 1); /* one request for the keys of all shards */
    rota_get_result_free(result);
    assert_int_equal(world.n_ready, 1);
    assert_int_equal(world.n_refused, 0);
}

static void shards_follow_the_wanted_number(void **state)
{
    struct rota_cache_service_options options = usual();
    (void)state;
    options.wanted = 1;
    options.wanted_max = SHARDS;
    open_service(options);
    await(&world.loop, &world.n_ready, 1);
    await_held(1);
    rota_cache_service_set_wanted(world.service, SHARDS + 7); /* more than may be */
    await_held(SHARDS);
    assert_all_found();
    rota_cache_service_set_wanted(world.service, 0); /* one at least */
    await_held(1);
    rota_cache_service_set_wanted(world.service, SHARDS);
    await_held(SHARDS);
    assert_all_found();
}

static void a_leaving_service_releases_everything(void **state)
{
    (void)state;
    open_service(usual());
    await(&world.loop, &world.n_ready, 1);
    await_held(SHARDS);
    rota_cache_service_leave(world.service);
    await(&world.loop, &world.n_left, 1);
    assert_int_equal(n_held(), 0);
    rota_cache_service_set_wanted(world.service, SHARDS); /* is of no use now */
    rota_cache_service_close(world.service, on_closed, NULL);
    await(&world.loop, &world.n_closed, 1);
    /* The shards are free: another process has them at once. */
    struct rota_cache_service_options other = usual();
    other.host = "other";
    other.is_alone = false;
    open_service(other);
    await_held(SHARDS);
    world.n_closed = 0;
}

static void an_unservable_source_is_refused(void **state)
{
    static const struct {
        const char *name, *source, *phrase;
    } bad[] = {
        {"a,b", NULL, "contains a comma"},
        {NULL, "file:", "must be file:FILE or sql:TABLE"},
        {NULL, "sql:", "must be file:FILE or sql:TABLE"},
        {NULL, "ftp:x", "must be file:FILE or sql:TABLE"},
        {NULL, "sql:a:b", ":"},
    };
    char long_name[ROTA_STORE_ROLES_MAX + 1];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rota_cache_service_options options = usual();
        struct rota_error error;
        options.name = bad[i].name ? bad[i].name : options.name;
        options.source = bad[i].source ? bad[i].source : options.source;
        assert_int_equal(rota_cache_service_open(&world.loop, &options, &world.service, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, bad[i].phrase));
        world.service = NULL;
        uv_run(&world.loop, UV_RUN_NOWAIT);
    }
    memset(long_name, 'x', sizeof long_name - 1);
    for (size_t size = sizeof long_name - 1; size > sizeof long_name - 6; size--) {
        struct rota_cache_service_options options = usual();
        struct rota_error error;
        long_name[size] = '\0';
        options.name = long_name;
        assert_int_equal(rota_cache_service_open(&world.loop, &options, &world.service, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "too long"));
        world.service = NULL;
        uv_run(&world.loop, UV_RUN_NOWAIT);
    }
}

/* The store has another number of shards, and no order to change it. */
static void another_number_of_shards_is_refused(void **state)
{
    struct rota_cache_service_options options = usual();
    (void)state;
    open_service(options);
    await_held(SHARDS);
    rota_cache_service_close(world.service, on_closed, NULL);
    await(&world.loop, &world.n_closed, 1);
    world.n_closed = 0;
    options.shards = SHARDS - 1;
    options.wanted = 1;
    open_service(options);
    await(&world.loop, &world.n_refused, 1);
    assert_non_null(strstr(world.why.text, "shards"));
    assert_int_equal(n_held(), 0);
}

static void a_table_that_does_not_exist_is_refused(void **state)
{
    struct rota_cache_service_options options = usual();
    (void)state;
    open_service(options); /* makes the database */
    await(&world.loop, &world.n_ready, 1);
    rota_cache_service_close(world.service, on_closed, NULL);
    await(&world.loop, &world.n_closed, 1);
    world.n_closed = 0;
    options.source = "sql:nothing";
    open_service(options);
    await(&world.loop, &world.n_refused, 1);
    assert_non_null(strstr(world.why.text, "nothing"));
    assert_int_equal(n_held(), 0);
}

static void run_sql(struct rota_sql *sql, const char *text)
{
    struct rota_sql_result result = {0};
    struct rota_error error;
    if (rota_sql_run(sql, text, NULL, 0, &result, &error))
        fail_msg("%s: %s", text, error.text);
    rota_sql_result_deinit(&result);
}

/* Columns of other names, and a key with two rows, which is no answer. */
static void many_keys_are_read_from_a_table_at_once(void **state)
{
    struct rota_cache_service_options options = usual();
    struct rota_sql_url url;
    struct rota_sql *sql;
    char text[128];
    (void)state;
    assert_int_equal(rota_sql_url_parse(rota_str(world.store), &url, NULL), ROTA_OK);
    assert_int_equal(rota_sql_open(&url, NULL, &sql, NULL), ROTA_OK);
    run_sql(sql, "CREATE TABLE pairs (k TEXT, v TEXT)");
    for (int i = 0; i < KEYS; i++) {
        snprintf(text, sizeof text, "INSERT INTO pairs VALUES ('key%d', 'value %d')", i, i);
        run_sql(sql, text);
    }
    snprintf(text, sizeof text, "INSERT INTO pairs VALUES ('key%d', 'a'), ('key%d', 'b')", KEYS,
             KEYS);
    run_sql(sql, text);
    rota_sql_close(sql);
    options.source = "sql:pairs:k:v";
    open_service(options);
    await(&world.loop, &world.n_ready, 1);
    await_held(SHARDS);
    struct rota_get_result *result = get_keys(KEYS + 1);
    assert_int_equal(result->n_missing, 1);
    assert_int_equal(result->items[KEYS].state, ROTA_GET_KEY_MISSING);
    assert_non_null(strstr(result->items[KEYS].reason, "the table has 2 rows with the key"));
    rota_get_result_free(result);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_shards_are_served_at_one_address),    TEST(shards_follow_the_wanted_number),
        TEST(a_leaving_service_releases_everything),   TEST(an_unservable_source_is_refused),
        TEST(another_number_of_shards_is_refused),     TEST(a_table_that_does_not_exist_is_refused),
        TEST(many_keys_are_read_from_a_table_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
