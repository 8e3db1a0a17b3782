/* Gets that can't be answered, or are no longer wanted. */
#include "get_client.h"

#include <string.h>

static void missing_keys_are_named_with_the_reason(void **state)
{
    struct world world;
    (void)state;
    hosts_open(&world);
    get_host_hold(&world.hosts[1], 0, 0, 0);
    get_host_hold(&world.hosts[3], 0, 0, 0);
    client_open(&world, (struct rota_get_options){0});
    await_holders(&world, 2);
    name_keys(&world, "key", 40);
    assert_int_equal(get_keys(&world, 40, 300 * ROTA_MSEC), ROTA_ERR_UNAVAILABLE);
    assert_true(world.result->n_missing > 0 && world.result->n_missing < 40);
    for (size_t i = 0; i < 40; i++) {
        bool is_there = rota_get_hash(world.keys[i]) % SHARDS == 0;
        const struct rota_get_item *item = &world.result->items[i];
        assert_int_equal(item->state, is_there ? ROTA_GET_KEY_FOUND : ROTA_GET_KEY_MISSING);
        if (!is_there)
            assert_string_equal(item->reason, "no known host serves its shard");
    }
    assert_non_null(strstr(world.result->text, "of 40 keys are missing after"));
    assert_non_null(strstr(world.result->text, "\"key"));
    assert_non_null(strstr(world.result->text, "more"));
    world_close(&world);
}

static void deadline_ends_a_get(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    for (size_t i = 0; i < HOSTS; i++)
        world.hosts[i].is_keeping = true;
    name_keys(&world, "key", 4);
    assert_int_equal(get_keys(&world, 4, 200 * ROTA_MSEC), ROTA_ERR_UNAVAILABLE);
    assert_int_equal(world.result->n_missing, 4);
    assert_true(world.result->elapsed >= 200 * ROTA_MSEC);
    assert_non_null(strstr(world.result->items[0].reason, "127.0.0.1:"));
    world_close(&world);
}

static void last_error_is_the_reason(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    for (size_t i = 0; i < HOSTS; i++)
        world.hosts[i].is_failing = true;
    name_keys(&world, "key", 4);
    assert_int_equal(get_keys(&world, 4, ROTA_SEC), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(world.error.text, "the disk is on fire"));
    world_close(&world);
}

static void check_tries(void *data, const struct rota_get_result *result)
{
    struct world *world = data;
    world->n_done++;
    world->code = result->code;
    assert_true(result->n_tries >= HOSTS);
    for (size_t i = 0; i < result->n_tries; i++)
        assert_true(result->tries[i].host.size > 0);
}

/* A try to a host that has just failed waits a little. Here others answer before. */
static void try_that_was_never_sent_is_left_out(void **state)
{
    struct world world;
    struct rota_get_request request = {
        .keys = world.keys, .n_keys = 40, .on_done = check_tries, .data = &world};
    (void)state;
    hosts_open(&world);
    world.n_list = SHARDS;
    client_open(&world, (struct rota_get_options){.mode = ROTA_GET_MODE_BROADCAST,
                                                  .timeout = 20 * ROTA_SEC});
    await_holders(&world, SHARDS);
    world.hosts[0].is_failing = world.hosts[1].is_failing = true;
    name_keys(&world, "key", 40);
    assert_int_equal(rota_get_start(world.get, &request, NULL, &world.error), ROTA_OK);
    while (world.hosts[0].n_batches == 0 || world.hosts[1].n_batches == 0)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(rota_get_set_hosts(world.get, world.list, HOSTS, NULL), ROTA_OK);
    while (!world.n_done)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(world.code, ROTA_OK);
    world_close(&world);
}

static void value_that_is_too_large_says_so(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    for (size_t i = 0; i < HOSTS; i++)
        world.hosts[i].is_large = true;
    name_keys(&world, "key", 1);
    assert_int_equal(get_keys(&world, 1, ROTA_SEC), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(world.error.text, "its value has 1073741824 bytes"));
    for (size_t i = 0; i < HOSTS; i++)
        world.hosts[i].is_large = false;
    assert_int_equal(get_keys(&world, 1, 0), ROTA_OK);
    world_close(&world);
}

static void absent_host_does_no_harm(void **state)
{
    struct world world;
    (void)state;
    hosts_open(&world);
    world.list[world.n_list++] =
        (struct rota_get_host){rota_str("127.0.0.1:1"), rota_str("nowhere")};
    client_open(&world, (struct rota_get_options){0});
    name_keys(&world, "key", 40);
    assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
    assert_all_found(&world, 40);
    assert_int_equal(rota_get_set_hosts(world.get, &world.list[HOSTS], 1, NULL), ROTA_OK);
    assert_int_equal(get_keys(&world, 40, 200 * ROTA_MSEC), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(world.result->items[0].reason,
                           "1 of 1 hosts failed: cannot connect to 127.0.0.1:1: "));
    assert_non_null(strstr(world.result->items[0].reason, "refused"));
    assert_int_equal(rota_get_set_hosts(world.get, NULL, 0, NULL), ROTA_OK);
    assert_int_equal(get_keys(&world, 1, ROTA_MSEC), ROTA_ERR_UNAVAILABLE);
    assert_string_equal(world.result->items[0].reason, "no host is known");
    world_close(&world);
}

static void bad_hosts_are_refused_and_nothing_changes(void **state)
{
    struct world world;
    struct rota_get_host bad[] = {{rota_str("127.0.0.1:99"), rota_str("a")},
                                  {rota_str("no port"), rota_str("a")}};
    char name[300] = {0};
    (void)state;
    world_open(&world, ROTA_GET_MODE_ADAPTIVE);
    assert_int_equal(rota_get_set_hosts(world.get, bad, 2, &world.error), ROTA_ERR_INVALID);
    assert_non_null(strstr(world.error.text, "no port"));
    memset(name, 'd', sizeof name - 1);
    bad[1] = (struct rota_get_host){rota_str("127.0.0.1:98"), rota_str(name)};
    assert_int_equal(rota_get_set_hosts(world.get, bad, 2, &world.error), ROTA_ERR_INVALID);
    bad[1] = (struct rota_get_host){rota_str_of("a\0b:1", 5), rota_str("a")};
    assert_int_equal(rota_get_set_hosts(world.get, bad, 2, &world.error), ROTA_ERR_INVALID);
    name_keys(&world, "key", 8);
    assert_int_equal(get_keys(&world, 8, 0), ROTA_OK);
    world_close(&world);
}

static void bad_options_are_refused(void **state)
{
    struct world world;
    struct rota_get *get;
    (void)state;
    world_open(&world, ROTA_GET_MODE_ADAPTIVE);
    struct rota_get_options none = {0};
    assert_int_equal(rota_get_open(&world.loop, &none, &get, &world.error), ROTA_ERR_INVALID);
    struct rota_get_options two = {.hosts = world.list, .n_hosts = 1, .hosts_file = "hosts"};
    assert_int_equal(rota_get_open(&world.loop, &two, &get, &world.error), ROTA_ERR_INVALID);
    struct rota_get_options missing = {.hosts_file = "/nowhere/hosts"};
    assert_int_not_equal(rota_get_open(&world.loop, &missing, &get, &world.error), ROTA_OK);
    struct rota_get_service empty = {.method = "/a.B/C"};
    struct rota_get_options bare = {.hosts = world.list, .n_hosts = 1, .service = &empty};
    assert_int_equal(rota_get_open(&world.loop, &bare, &get, &world.error), ROTA_ERR_INVALID);
    assert_int_equal(get_keys(&world, ROTA_GET_KEYS_MAX + 1, 0), ROTA_ERR_LIMIT);
    assert_int_equal(get_keys(&world, 0, -1), ROTA_ERR_INVALID);
    struct rota_get_request deaf = {.keys = world.keys, .n_keys = 1}; /* no on_done */
    assert_int_equal(rota_get_start(world.get, &deaf, NULL, &world.error), ROTA_ERR_INVALID);
    world_close(&world);
}

static void on_done_waits(void *data, const struct rota_get_result *result)
{
    struct world *world = data;
    struct rota_get_result *inner;
    struct rota_get_request request = {0};
    (void)result;
    world->code = rota_get_wait(world->get, &request, &inner, &world->error);
    world->n_done++;
}

static void callback_cannot_wait(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_ADAPTIVE);
    struct rota_get_request request = {.on_done = on_done_waits, .data = &world};
    assert_int_equal(rota_get_start(world.get, &request, NULL, NULL), ROTA_OK);
    await(&world.loop, &world.n_done, 1);
    assert_int_equal(world.code, ROTA_ERR_INVALID);
    world_close(&world);
}

/* --- life --- */

static void cancelled_get_is_dropped_on_the_hosts(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    for (size_t i = 0; i < HOSTS; i++)
        world.hosts[i].is_keeping = true;
    name_keys(&world, "key", 40);
    struct rota_get_run *run = start(&world, 40);
    for (size_t i = 0; i < HOSTS; i++)
        await(&world.loop, &world.hosts[i].n_kept, 1);
    rota_get_cancel(run);
    for (size_t i = 0; i < HOSTS; i++)
        await(&world.loop, &world.hosts[i].n_cancelled, 1);
    assert_int_equal(world.n_done, 0);
    world_close(&world);
}

static void closing_drops_gets_in_flight(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    world.hosts[0].is_keeping = world.hosts[2].is_keeping = true;
    name_keys(&world, "key", 40);
    for (int i = 0; i < 5; i++)
        start(&world, 40);
    await(&world.loop, &world.hosts[0].n_kept, 1);
    start(&world, 0); /* done, and not told yet */
    world_close(&world);
    assert_int_equal(world.n_done, 0);
}

static void on_done_closes(void *data, const struct rota_get_result *result)
{
    struct world *world = data;
    (void)result;
    world->n_done++;
    rota_get_close(world->get);
    world->get = NULL;
}

static void callback_may_close_the_client(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_ADAPTIVE);
    name_keys(&world, "key", 8);
    struct rota_get_request request = {
        .keys = world.keys, .n_keys = 8, .on_done = on_done_closes, .data = &world};
    for (int i = 0; i < 3; i++)
        assert_int_equal(rota_get_start(world.get, &request, NULL, NULL), ROTA_OK);
    await(&world.loop, &world.n_done, 1);
    world_close(&world);
    assert_int_equal(world.n_done, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_keys_are_named_with_the_reason),
        cmocka_unit_test(deadline_ends_a_get),
        cmocka_unit_test(last_error_is_the_reason),
        cmocka_unit_test(try_that_was_never_sent_is_left_out),
        cmocka_unit_test(value_that_is_too_large_says_so),
        cmocka_unit_test(absent_host_does_no_harm),
        cmocka_unit_test(bad_hosts_are_refused_and_nothing_changes),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(callback_cannot_wait),
        cmocka_unit_test(cancelled_get_is_dropped_on_the_hosts),
        cmocka_unit_test(closing_drops_gets_in_flight),
        cmocka_unit_test(callback_may_close_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
