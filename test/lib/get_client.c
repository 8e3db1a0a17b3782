#include "get_client.h"

#include <stdio.h>
#include <string.h>

const char *const names[HOSTS] = {"a0", "a1", "b0", "b1"};

void hosts_open(struct world *world)
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

void client_open(struct world *world, struct rota_get_options options)
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

void world_open(struct world *world, enum rota_get_mode mode)
{
    hosts_open(world);
    client_open(world, (struct rota_get_options){.mode = mode, .timeout = 20 * ROTA_SEC});
}

void world_close(struct world *world)
{
    rota_get_result_free(world->result);
    rota_get_close(world->get);
    get_hosts_close(world->hosts, HOSTS, &world->loop);
}

void name_keys(struct world *world, const char *prefix, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(world->room[i], sizeof world->room[i], "%s%zu", prefix, i);
        world->keys[i] = rota_str(world->room[i]);
    }
}

enum rota_code get_keys(struct world *world, size_t n, rota_time timeout)
{
    struct rota_get_request request = {.keys = world->keys, .n_keys = n, .timeout = timeout};
    rota_get_result_free(world->result);
    return rota_get_wait(world->get, &request, &world->result, &world->error);
}

void assert_all_found(const struct world *world, size_t n)
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

void await_holders(struct world *world, size_t wanted)
{
    for (;;) {
        struct rota_get_view view;
        size_t place = 0, n = 0;
        while (rota_get_next_host(world->get, &place, &view))
            n += view.n_shards > 0 && view.is_connected;
        if (n == wanted)
            return;
        uv_run(&world->loop, UV_RUN_ONCE);
    }
}

void await_shard(struct world *world, size_t host, uint64_t from, uint64_t of)
{
    for (;;) {
        struct rota_get_view view;
        size_t place = 0;
        while (rota_get_next_host(world->get, &place, &view))
            if (rota_str_is_equal(view.address, rota_str(world->hosts[host].address)) &&
                view.n_shards == 1 && view.shards[0].interval.from == from &&
                view.shards[0].interval.of == of)
                return;
        uv_run(&world->loop, UV_RUN_ONCE);
    }
}

static void on_done(void *data, const struct rota_get_result *result)
{
    struct world *world = data;
    world->n_done++;
    world->code = result->code;
}

struct rota_get_run *start(struct world *world, size_t n_keys)
{
    struct rota_get_request request = {
        .keys = world->keys, .n_keys = n_keys, .on_done = on_done, .data = world};
    struct rota_get_run *run;
    if (rota_get_start(world->get, &request, &run, &world->error))
        fail_msg("%s", world->error.text);
    return run;
}
