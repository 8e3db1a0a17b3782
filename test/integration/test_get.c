/* Gets as a program meets them: which host answers which key while shards move. */
#include "get_client.h"

#include <stdio.h>
#include <string.h>

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

static struct rota_get_view sum_of_hosts(const struct world *world)
{
    struct rota_get_view view, sum = {0};
    for (size_t place = 0; rota_get_next_host(world->get, &place, &view);) {
        sum.n_hedges += view.n_hedges;
        sum.n_hedges_won += view.n_hedges_won;
        sum.n_cancelled += view.n_cancelled;
    }
    return sum;
}

static size_t await_kept(struct world *world, size_t other)
{
    for (;;) {
        for (size_t i = 0; i < HOSTS; i++)
            if (i != other && world->hosts[i].n_kept > 0)
                return i;
        uv_run(&world->loop, UV_RUN_ONCE);
    }
}

static void slow_host_is_hedged_and_that_is_counted(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, ROTA_GET_MODE_HEDGE);
    await_holders(&world, HOSTS);
    name_keys(&world, "key", 1);
    for (size_t i = 0; i < 50; i++) /* the latencies are known then */
        assert_int_equal(get_keys(&world, 1, 0), ROTA_OK);
    struct rota_get_view before = sum_of_hosts(&world);
    for (size_t i = 0; i < HOSTS; i++)
        world.hosts[i].is_keeping = true;
    size_t n_before = world.n_done;
    start(&world, 1);
    size_t slow = await_kept(&world, HOSTS), hedge = await_kept(&world, slow);
    get_host_release(&world.hosts[hedge]);
    await(&world.loop, &world.n_done, n_before + 1);
    assert_int_equal(world.code, ROTA_OK);
    struct rota_get_view sum = sum_of_hosts(&world);
    assert_int_equal(sum.n_hedges - before.n_hedges, 1);
    assert_int_equal(sum.n_hedges_won - before.n_hedges_won, 1);
    assert_int_equal(sum.n_cancelled - before.n_cancelled, 1);
    await(&world.loop, &world.hosts[slow].n_cancelled, 1);
    world_close(&world);
}

static void data_center_may_be_lost(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_all_shards_come_together),
        cmocka_unit_test(key_without_a_value_is_answered),
        cmocka_unit_test(get_of_nothing_succeeds),
        cmocka_unit_test(keys_may_come_more_than_once),
        cmocka_unit_test(keys_and_values_are_any_bytes),
        cmocka_unit_test(get_of_many_keys),
        cmocka_unit_test(first_answer_wins_and_the_loser_is_cancelled),
        cmocka_unit_test(slow_host_is_hedged_and_that_is_counted),
        cmocka_unit_test(data_center_may_be_lost),
        cmocka_unit_test(failing_host_is_made_up_for),
        cmocka_unit_test(host_that_comes_back_is_found_by_pings),
        cmocka_unit_test(wrong_shard_is_asked_elsewhere),
        cmocka_unit_test(re_sharding_goes_dc_by_dc),
        cmocka_unit_test(overlapping_intervals_are_both_asked),
        cmocka_unit_test(older_epoch_of_a_shard_is_not_believed),
        cmocka_unit_test(key_without_a_shard_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
