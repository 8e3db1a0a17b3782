/* Where the hosts of a client come from, and one that is frozen. */
#include "get_client.h"
#include "metric.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void metrics_count_each_event(void **state)
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
    assert_int_equal(metric_in(text, "rota_get_total{result=\"ok\"}"), 1);
    assert_int_equal(metric_in(text, "rota_get_total{result=\"failed\"}"), 0);
    assert_int_equal(metric_in(text, "rota_get_keys_total{result=\"found\"}"), 3);
    assert_int_equal(metric_in(text, "rota_get_seconds_count"), 1);
    assert_int_equal(metric_in(text, "rota_get_hosts"), HOSTS);
    assert_int_equal(metric_in(text, "rota_get_holders"), HOSTS);
    assert_int_equal(metric_in(text, "rota_get_copies_total{copies=\"all\"}"), 1);
    assert_true(metric_in(text, "rota_get_tries_total{kind=\"first\"}") >= DCS);
    assert_int_equal(metric_in(text, "rota_get_tries_total{kind=\"retry\"}"), 0);
    assert_true(metric_in(text, "rota_get_pings_total{result=\"answered\"}") >= HOSTS);
    assert_int_equal(metric_in(text, "rota_get_pings_total{result=\"failed\"}"), 0);
    assert_int_equal(metric_in(text, "rota_get_under_way"), 0);
    free(text);

    for (size_t i = 0; i < HOSTS; i++)
        world.hosts[i].is_keeping = true;
    name_keys(&world, "key", 1);
    start(&world, 1);
    while (world.hosts[0].n_kept + world.hosts[1].n_kept + world.hosts[2].n_kept +
               world.hosts[3].n_kept <
           DCS)
        uv_run(&world.loop, UV_RUN_ONCE);
    text = rota_get_metrics(world.get);
    assert_int_equal(metric_in(text, "rota_get_under_way"), 1);
    assert_int_equal(metric_in(text, "rota_get_requests"), DCS);
    free(text);
    for (size_t i = 0; i < HOSTS; i++) {
        world.hosts[i].is_keeping = false;
        get_host_release(&world.hosts[i]);
    }
    await(&world.loop, &world.n_done, 1);
    text = rota_get_metrics(world.get);
    assert_int_equal(metric_in(text, "rota_get_total{result=\"ok\"}"), 2);
    assert_int_equal(metric_in(text, "rota_get_copies_total{copies=\"all\"}"), 2); /* not 1 + 2 */
    assert_int_equal(metric_in(text, "rota_get_seconds_count"), 2);
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

static void frozen_replica_delays_no_get(void **state)
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
        cmocka_unit_test(hosts_file_is_followed),
        cmocka_unit_test(host_that_comes_while_a_broadcast_runs_joins_in),
        cmocka_unit_test(callback_is_asked_for_hosts),
        cmocka_unit_test(host_that_is_taken_off_the_list_is_not_waited_for),
        cmocka_unit_test(metrics_count_each_event),
        cmocka_unit_test(frozen_replica_delays_no_get),
        cmocka_unit_test(modes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
