/* Gets as a program meets them: two data centres of two shards, real sockets. */
#include "get_hosts.h"

#include <rota/metrics.h>
#include <signal.h>
#include <sys/wait.h>

enum { DCS = 2, SHARDS = 2, HOSTS = DCS * SHARDS, KEYS_MAX = 64 };

/* Host DC * SHARDS + SHARD holds that shard in that data centre. */
static const char *const names[HOSTS] = {"a0", "a1", "b0", "b1"};

struct world {
    uv_loop_t loop;
    struct get_host hosts[HOSTS];
    struct rota_get_host list[HOSTS + 1];
    size_t n_list;
    struct rota_get *get;

    /* Of the last Get. */
    char room[KEYS_MAX][32];
    struct rota_str keys[KEYS_MAX];
    struct rota_get_result *result;
    struct rota_error error;
    size_t n_done;
    enum rota_code code;
};

static void hosts_open(struct world *world)
{
    memset(world, 0, sizeof *world);
    uv_loop_init(&world->loop);
    for (size_t i = 0; i < HOSTS; i++) {
        get_host_open(&world->hosts[i], &world->loop, names[i]);
        get_host_hold(&world->hosts[i], i % SHARDS, SHARDS, 10 + i);
        world->list[i] = (struct rota_get_host){rota_str(world->hosts[i].address),
                                                rota_str(i < SHARDS ? "a" : "b")};
    }
    world->n_list = HOSTS;
}

static void client_open(struct world *world, struct rota_get_options options)
{
    if (!options.hosts && !options.hosts_file && !options.ask_hosts && !options.members) {
        options.hosts = world->list;
        options.n_hosts = world->n_list;
    }
    options.seed = 1;
    if (options.ping_period == 0)
        options.ping_period = 50 * ROTA_MSEC;
    if (rota_get_open(&world->loop, &options, &world->get, &world->error))
        fail_msg("%s", world->error.text);
}

static void world_open(struct world *world, enum rota_get_mode mode)
{
    hosts_open(world);
    client_open(world, (struct rota_get_options){.mode = mode, .timeout = 20 * ROTA_SEC});
}

static void world_close(struct world *world)
{
    rota_get_result_free(world->result);
    rota_get_close(world->get);
    for (size_t i = 0; i < HOSTS; i++)
        if (world->hosts[i].server)
            get_host_close(&world->hosts[i]);
    uv_run(&world->loop, UV_RUN_DEFAULT); /* until nothing is open */
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

/* "PREFIX0", "PREFIX1" ...: as keys of the next Get. */
static void name_keys(struct world *world, const char *prefix, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(world->room[i], sizeof world->room[i], "%s%zu", prefix, i);
        world->keys[i] = rota_str(world->room[i]);
    }
}

static enum rota_code get_keys(struct world *world, size_t n, rota_time timeout)
{
    struct rota_get_request request = {.keys = world->keys, .n_keys = n, .timeout = timeout};
    rota_get_result_free(world->result);
    return rota_get_wait(world->get, &request, &world->result, &world->error);
}

static void assert_all_found(const struct world *world, size_t n)
{
    if (world->result->code)
        fail_msg("%s", world->result->text);
    assert_int_equal(world->result->n_items, n);
    for (size_t i = 0; i < n; i++) {
        const struct rota_get_item *item = &world->result->items[i];
        char expected[64];
        snprintf(expected, sizeof expected, "%s@", world->room[i]);
        assert_int_equal(item->state, ROTA_GET_KEY_FOUND);
        assert_true(rota_str_has_prefix(item->value, rota_str(expected)));
        assert_true(item->host.size > 0);
        assert_null(item->reason);
    }
}

/* Has the client learned what each host holds, and has it a connection there? */
static void await_holders(struct world *world, size_t wanted)
{
    for (;;) {
        struct rota_get_view view;
        size_t place = 0, n = 0;
        while (rota_get_next_host(world->get, &place, &view))
            n += view.has_shard && view.is_connected;
        if (n == wanted)
            return;
        uv_run(&world->loop, UV_RUN_ONCE);
    }
}

static void await_shard(struct world *world, size_t host, uint64_t from, uint64_t of)
{
    for (;;) {
        struct rota_get_view view;
        size_t place = 0;
        while (rota_get_next_host(world->get, &place, &view))
            if (rota_str_is_equal(view.address, rota_str(world->hosts[host].address)) &&
                view.has_shard && view.shard.from == from && view.shard.of == of)
                return;
        uv_run(&world->loop, UV_RUN_ONCE);
    }
}

/* --- what is answered --- */

static void values_of_all_shards_come_together(void **state)
{
    struct world world;
    (void)state;
    for (int mode = 0; mode < ROTA_GET_MODES; mode++) {
        world_open(&world, (enum rota_get_mode)mode);
        name_keys(&world, "key", 40);
        assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
        assert_all_found(&world, 40);
        assert_true(world.result->n_tries >= SHARDS);
        assert_string_equal(world.result->text, "");
        world_close(&world);
    }
}

static void key_without_a_value_is_answered(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_ADAPTIVE);
    name_keys(&world, "-", 20);
    assert_int_equal(get_keys(&world, 20, 0), ROTA_OK);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(world.result->items[i].state, ROTA_GET_KEY_ABSENT);
    world_close(&world);
}

static void get_of_nothing_succeeds(void **state)
{
    struct world world;
    (void)state;
    hosts_open(&world);
    world.n_list = 0; /* even when there is nobody to ask */
    client_open(&world, (struct rota_get_options){.hosts = world.list});
    assert_int_equal(get_keys(&world, 0, 0), ROTA_OK);
    assert_int_equal(world.result->n_items, 0);
    world_close(&world);
}

static void keys_may_come_more_than_once(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    name_keys(&world, "key", 4);
    for (size_t i = 4; i < 12; i++) {
        memcpy(world.room[i], world.room[i % 4], sizeof world.room[i]);
        world.keys[i] = rota_str(world.room[i]);
    }
    assert_int_equal(get_keys(&world, 12, 0), ROTA_OK);
    assert_all_found(&world, 12);
    world_close(&world);
}

static void keys_and_values_are_any_bytes(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_ADAPTIVE);
    world.keys[0] = rota_str_of("\xff\0\n", 3);
    world.keys[1] = rota_str_of("", 0);
    assert_int_equal(get_keys(&world, 2, 0), ROTA_OK);
    assert_int_equal(world.result->items[0].state, ROTA_GET_KEY_FOUND);
    assert_int_equal(world.result->items[1].state, ROTA_GET_KEY_FOUND);
    assert_int_equal(world.result->items[1].value.data[0], '@');
    world_close(&world);
}

static void get_of_many_keys(void **state)
{
    struct world world;
    static struct rota_str keys[ROTA_GET_KEYS_MAX];
    static char room[ROTA_GET_KEYS_MAX][8];
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    for (size_t i = 0; i < ROTA_GET_KEYS_MAX; i++) {
        snprintf(room[i], sizeof room[i], "%zu", i);
        keys[i] = rota_str(room[i]);
    }
    struct rota_get_request request = {.keys = keys, .n_keys = ROTA_GET_KEYS_MAX};
    if (rota_get_wait(world.get, &request, &world.result, &world.error))
        fail_msg("%s", world.error.text);
    for (size_t i = 0; i < ROTA_GET_KEYS_MAX; i++)
        assert_true(rota_str_has_prefix(world.result->items[i].value, keys[i]));
    world_close(&world);
}

/* --- replicas --- */

static void first_answer_wins_and_the_loser_is_cancelled(void **state)
{
    struct world world;
    size_t n_late = 0, n_won = 0;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    world.hosts[0].is_keeping = world.hosts[1].is_keeping = true;
    name_keys(&world, "key", 40);
    assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
    assert_all_found(&world, 40);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(world.result->items[i].value.data[world.result->items[i].value.size - 2],
                         'b');
    for (size_t i = 0; i < world.result->n_tries; i++) {
        n_won += world.result->tries[i].outcome == ROTA_GET_TRY_WON;
        n_late += world.result->tries[i].outcome == ROTA_GET_TRY_CANCELLED;
    }
    assert_int_equal(n_won, 2);
    assert_int_equal(n_late, 2);
    await(&world.loop, &world.hosts[0].n_cancelled, 1);
    await(&world.loop, &world.hosts[1].n_cancelled, 1);
    world_close(&world);
}

static void data_centre_may_be_lost(void **state)
{
    struct world world;
    (void)state;
    for (int mode = 0; mode < ROTA_GET_MODES; mode++) {
        world_open(&world, (enum rota_get_mode)mode);
        await_holders(&world, HOSTS);
        get_host_close(&world.hosts[0]);
        get_host_close(&world.hosts[1]);
        name_keys(&world, "key", 40);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
            assert_all_found(&world, 40);
        }
        world_close(&world);
    }
}

static void failing_host_is_made_up_for(void **state)
{
    struct world world;
    (void)state;
    for (int mode = 0; mode < ROTA_GET_MODES; mode++) {
        world_open(&world, (enum rota_get_mode)mode);
        await_holders(&world, HOSTS);
        world.hosts[2].is_failing = true;
        name_keys(&world, "key", 40);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
            assert_all_found(&world, 40);
        }
        world_close(&world);
    }
}

static void host_that_comes_back_is_found_by_pings(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    for (size_t i = 0; i < HOSTS; i++)
        get_host_close(&world.hosts[i]);
    name_keys(&world, "key", 8);
    assert_int_equal(get_keys(&world, 8, 300 * ROTA_MSEC), ROTA_ERR_UNAVAILABLE);
    for (size_t i = 0; i < HOSTS; i++) {
        char address[64];
        snprintf(address, sizeof address, "%s", world.hosts[i].address);
        get_host_open_with(&world.hosts[i], &world.loop, names[i], address,
                           (struct rota_server_options){0});
        get_host_hold(&world.hosts[i], i % SHARDS, SHARDS, 20 + i);
    }
    await_holders(&world, HOSTS);
    assert_int_equal(get_keys(&world, 8, 0), ROTA_OK);
    assert_all_found(&world, 8);
    world_close(&world);
}

/* --- shards that move --- */

static void wrong_shard_is_asked_elsewhere(void **state)
{
    struct world world;
    (void)state;
    for (int mode = 0; mode < ROTA_GET_MODES; mode++) {
        hosts_open(&world);
        client_open(&world, (struct rota_get_options){.mode = (enum rota_get_mode)mode,
                                                      .ping_period = 100 * ROTA_MSEC,
                                                      .timeout = 20 * ROTA_SEC});
        await_holders(&world, HOSTS);
        for (size_t i = 0; i < HOSTS; i++) /* all change places, and nobody tells the client */
            get_host_hold(&world.hosts[i], 1 - i % SHARDS, SHARDS, 30 + i);
        name_keys(&world, "key", 40);
        assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
        assert_all_found(&world, 40);
        world_close(&world);
    }
}

static void re_sharding_goes_dc_by_dc(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    name_keys(&world, "key", 40);
    for (uint64_t round = 1; round <= 3; round++)
        for (size_t dc = 0; dc < DCS; dc++) {
            get_host_hold(&world.hosts[dc * SHARDS], 0, 1, 100 * round); /* one has it all */
            get_host_hold(&world.hosts[dc * SHARDS + 1], 0, 0, 0);
            assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
            assert_all_found(&world, 40);
            await_shard(&world, dc * SHARDS, 0, 1);
            get_host_hold(&world.hosts[dc * SHARDS], 0, SHARDS, 100 * round + 1);
            get_host_hold(&world.hosts[dc * SHARDS + 1], 1, SHARDS, 100 * round + 1);
            assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
            assert_all_found(&world, 40);
            await_shard(&world, dc * SHARDS + 1, 1, SHARDS);
        }
    world_close(&world);
}

static void overlapping_intervals_are_both_asked(void **state)
{
    struct world world;
    struct rota_interval wide = {0, 2, 2};
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    assert_int_equal(rota_get_server_hold(world.hosts[0].gets, &wide, 50, NULL), ROTA_OK);
    get_host_close(&world.hosts[2]);
    get_host_close(&world.hosts[3]);
    name_keys(&world, "key", 40);
    assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
    assert_all_found(&world, 40);
    world_close(&world);
}

static void older_epoch_of_a_shard_is_not_believed(void **state)
{
    struct world world;
    (void)state;
    hosts_open(&world);
    world.list[2].dc = world.list[0].dc; /* a0 and b0 both say that they hold 0 of "a" */
    get_host_close(&world.hosts[1]);
    client_open(&world, (struct rota_get_options){.mode = ROTA_GET_MODE_BROADCAST});
    await_holders(&world, 3);
    for (size_t n = 0, i = 0; n < 8; i++) {
        snprintf(world.room[n], sizeof world.room[n], "key%zu", i);
        world.keys[n] = rota_str(world.room[n]);
        n += rota_get_hash(world.keys[n]) % SHARDS == 0;
    }
    assert_int_equal(get_keys(&world, 8, 0), ROTA_OK);
    for (size_t i = 0; i < 8; i++) { /* b0 has epoch 12, a0 has 10 */
        const struct rota_get_item *item = &world.result->items[i];
        assert_true(rota_str_is_equal(item->host, world.list[2].address));
        assert_int_equal(item->epoch, 12);
        assert_int_equal(item->shard.from, 0);
        assert_int_equal(item->shard.of, SHARDS);
    }
    assert_int_equal(world.hosts[0].n_batches, 0);
    world_close(&world);
}

static void on_done(void *data, const struct rota_get_result *result)
{
    struct world *world = data;
    world->n_done++;
    world->code = result->code;
}

static struct rota_get_run *start(struct world *world, size_t n_keys)
{
    struct rota_get_request request = {
        .keys = world->keys, .n_keys = n_keys, .on_done = on_done, .data = world};
    struct rota_get_run *run;
    if (rota_get_start(world->get, &request, &run, &world->error))
        fail_msg("%s", world->error.text);
    return run;
}

static void key_without_a_shard_waits_for_it(void **state)
{
    struct world world;
    (void)state;
    hosts_open(&world);
    get_host_hold(&world.hosts[1], 0, 0, 0);
    get_host_hold(&world.hosts[3], 0, 0, 0);
    client_open(&world,
                (struct rota_get_options){.ping_period = 50 * ROTA_MSEC, .timeout = 20 * ROTA_SEC});
    await_holders(&world, 2);
    name_keys(&world, "key", 40);
    start(&world, 40);
    for (int i = 0; i < 20; i++)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(world.n_done, 0);
    get_host_hold(&world.hosts[3], 1, SHARDS, 60);
    await(&world.loop, &world.n_done, 1);
    assert_int_equal(world.code, ROTA_OK);
    world_close(&world);
}

/* --- what goes wrong --- */

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
            assert_string_equal(item->reason, "no host is known to hold its shard");
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

static void host_that_is_not_there_harms_nobody(void **state)
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
    assert_non_null(strstr(world.result->items[0].reason, "1 of 1 do not answer, 127.0.0.1:1: "));
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

static void callback_can_not_wait(void **state)
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

static void closing_drops_what_runs(void **state)
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

/* --- where the hosts come from --- */

static void hosts_file_is_followed(void **state)
{
    struct world world;
    char path[] = "/tmp/rota_get_hosts_XXXXXX", text[512];
    (void)state;
    hosts_open(&world);
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    snprintf(text, sizeof text, "%s zone=a\n", world.hosts[0].address);
    await_write(path, text);
    client_open(&world,
                (struct rota_get_options){.hosts_file = path,
                                          .ping_period = ROTA_HOUR, /* it is not waited for */
                                          .timeout = 20 * ROTA_SEC});
    await_holders(&world, 1);
    snprintf(text, sizeof text, "%s zone=a\n%s zone=a\n", world.hosts[0].address,
             world.hosts[1].address);
    await_write(path, text);
    name_keys(&world, "key", 40);
    assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
    assert_all_found(&world, 40);
    unlink(path);
    world_close(&world);
}

static void host_that_comes_while_a_broadcast_runs_joins_in(void **state)
{
    struct world world;
    (void)state;
    hosts_open(&world);
    world.n_list = SHARDS;
    client_open(&world, (struct rota_get_options){.mode = ROTA_GET_MODE_BROADCAST,
                                                  .ping_period = ROTA_HOUR,
                                                  .host_timeout = ROTA_HOUR,
                                                  .timeout = 20 * ROTA_SEC});
    await_holders(&world, SHARDS);
    world.hosts[0].is_keeping = world.hosts[1].is_keeping = true;
    name_keys(&world, "key", 40);
    start(&world, 40);
    await(&world.loop, &world.hosts[0].n_kept, 1);
    await(&world.loop, &world.hosts[1].n_kept, 1);
    assert_int_equal(rota_get_set_hosts(world.get, world.list, HOSTS, NULL), ROTA_OK);
    await(&world.loop, &world.n_done, 1);
    assert_int_equal(world.code, ROTA_OK);
    await(&world.loop, &world.hosts[0].n_cancelled, 1);
    world_close(&world);
}

static void ask_hosts(void *data, struct rota_get *get)
{
    struct world *world = data;
    world->n_done++;
    if (world->n_done >= 2) /* not known the first time */
        assert_int_equal(rota_get_set_hosts(get, world->list, world->n_list, NULL), ROTA_OK);
}

static void callback_is_asked_for_hosts(void **state)
{
    struct world world;
    (void)state;
    hosts_open(&world);
    client_open(&world, (struct rota_get_options){
                            .ask_hosts = ask_hosts, .data = &world, .timeout = 20 * ROTA_SEC});
    name_keys(&world, "key", 40);
    assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
    assert_all_found(&world, 40);
    world_close(&world);
}

static void host_that_is_taken_off_the_list_is_not_waited_for(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_HEDGE);
    await_holders(&world, HOSTS);
    world.hosts[0].is_keeping = world.hosts[1].is_keeping = true;
    world.hosts[2].is_keeping = world.hosts[3].is_keeping = true;
    name_keys(&world, "key", 40);
    start(&world, 40);
    while (world.hosts[0].n_kept + world.hosts[2].n_kept == 0 ||
           world.hosts[1].n_kept + world.hosts[3].n_kept == 0)
        uv_run(&world.loop, UV_RUN_ONCE);
    world.hosts[2].is_keeping = world.hosts[3].is_keeping = false;
    get_host_release(&world.hosts[2]);
    get_host_release(&world.hosts[3]);
    assert_int_equal(rota_get_set_hosts(world.get, world.list + SHARDS, SHARDS, NULL), ROTA_OK);
    await(&world.loop, &world.n_done, 1);
    assert_int_equal(world.code, ROTA_OK);
    world_close(&world);
}

static void metrics_tell_what_happened(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_BROADCAST);
    await_holders(&world, HOSTS);
    name_keys(&world, "-", 4);
    name_keys(&world, "key", 3);
    assert_int_equal(get_keys(&world, 3, 0), ROTA_OK);
    char *text = rota_get_metrics(world.get);
    assert_non_null(text);
    assert_non_null(strstr(text, "rota_get_total{result=\"ok\"} 1\n"));
    assert_non_null(strstr(text, "rota_get_keys_total{result=\"found\"} 3\n"));
    assert_non_null(strstr(text, "rota_get_holders 4\n"));
    assert_non_null(strstr(text, "rota_get_copies_total{copies=\"all\"} 1\n"));
    free(text);
    world_close(&world);
}

/* --- a host that is frozen --- */

/* A process that holds shard 0; its address comes through the pipe. */
static pid_t fork_host(char address[64])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static struct get_host host;
        static uv_loop_t loop;
        uv_loop_init(&loop);
        get_host_open(&host, &loop, "frozen");
        get_host_hold(&host, 0, 1, 99);
        if (write(ends[1], host.address, sizeof host.address) != sizeof host.address)
            _exit(1);
        uv_run(&loop, UV_RUN_DEFAULT);
        _exit(0);
    }
    assert_int_equal(read(ends[0], address, 64), 64);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void frozen_replica_holds_nobody_up(void **state)
{
    struct world world;
    char address[64];
    (void)state;
    for (int mode = 0; mode < ROTA_GET_MODES; mode++) {
        pid_t child = fork_host(address);
        hosts_open(&world);
        world.list[world.n_list++] = (struct rota_get_host){rota_str(address), rota_str("c")};
        client_open(&world, (struct rota_get_options){.mode = (enum rota_get_mode)mode,
                                                      .timeout = 20 * ROTA_SEC,
                                                      .host_timeout = 200 * ROTA_MSEC});
        await_holders(&world, HOSTS + 1);
        assert_int_equal(kill(child, SIGSTOP), 0);
        name_keys(&world, "key", 40);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(get_keys(&world, 40, 0), ROTA_OK);
            assert_all_found(&world, 40);
        }
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        world_close(&world);
    }
}

static void modes_have_names(void **state)
{
    enum rota_get_mode mode = ROTA_GET_MODE_HEDGE;
    struct rota_error error;
    (void)state;
    for (int i = 0; i < ROTA_GET_MODES; i++) {
        assert_int_equal(
            rota_get_mode_parse(rota_str(rota_get_mode_name((enum rota_get_mode)i)), &mode, &error),
            ROTA_OK);
        assert_int_equal(mode, i);
    }
    mode = ROTA_GET_MODE_BROADCAST;
    assert_int_equal(rota_get_mode_parse(rota_str("Hedge"), &mode, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_get_mode_parse(rota_str(""), &mode, NULL), ROTA_ERR_INVALID);
    assert_int_equal(mode, ROTA_GET_MODE_BROADCAST);
    assert_string_equal(rota_get_mode_name(ROTA_GET_MODE_HEDGE), "hedge");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_have_names),
        cmocka_unit_test(values_of_all_shards_come_together),
        cmocka_unit_test(key_without_a_value_is_answered),
        cmocka_unit_test(get_of_nothing_succeeds),
        cmocka_unit_test(keys_may_come_more_than_once),
        cmocka_unit_test(keys_and_values_are_any_bytes),
        cmocka_unit_test(get_of_many_keys),
        cmocka_unit_test(first_answer_wins_and_the_loser_is_cancelled),
        cmocka_unit_test(data_centre_may_be_lost),
        cmocka_unit_test(failing_host_is_made_up_for),
        cmocka_unit_test(host_that_comes_back_is_found_by_pings),
        cmocka_unit_test(wrong_shard_is_asked_elsewhere),
        cmocka_unit_test(re_sharding_goes_dc_by_dc),
        cmocka_unit_test(overlapping_intervals_are_both_asked),
        cmocka_unit_test(older_epoch_of_a_shard_is_not_believed),
        cmocka_unit_test(key_without_a_shard_waits_for_it),
        cmocka_unit_test(missing_keys_are_named_with_the_reason),
        cmocka_unit_test(deadline_ends_a_get),
        cmocka_unit_test(last_error_is_the_reason),
        cmocka_unit_test(value_that_is_too_large_says_so),
        cmocka_unit_test(host_that_is_not_there_harms_nobody),
        cmocka_unit_test(bad_hosts_are_refused_and_nothing_changes),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(callback_can_not_wait),
        cmocka_unit_test(cancelled_get_is_dropped_on_the_hosts),
        cmocka_unit_test(closing_drops_what_runs),
        cmocka_unit_test(callback_may_close_the_client),
        cmocka_unit_test(hosts_file_is_followed),
        cmocka_unit_test(host_that_comes_while_a_broadcast_runs_joins_in),
        cmocka_unit_test(callback_is_asked_for_hosts),
        cmocka_unit_test(host_that_is_taken_off_the_list_is_not_waited_for),
        cmocka_unit_test(metrics_tell_what_happened),
        cmocka_unit_test(frozen_replica_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
