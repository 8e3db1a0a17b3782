/* Gets with Rota: `server SHARD SHARDS` prints "ready ADDRESS" and serves;
 * `client MODE KEYS ...` (load.h) asks. The first half of the servers is one data
 * centre, the second half another. */
#include "base/map.h"
#include "load.h"

#include <rota/experimental/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static uv_loop_t loop;

/* --- the server --- */

static struct rota_map values;

static void on_batch(void *data, struct rota_get_batch *batch)
{
    (void)data;
    for (size_t i = 0; i < rota_get_batch_n_keys(batch); i++) {
        const char *value =
            rota_map_get(&values, *(const struct rota_str *)rota_get_batch_key(batch, i));
        if (value)
            rota_get_batch_put(batch, i, rota_str_of(value, LOAD_VALUE_SIZE));
    }
    rota_get_batch_finish(batch);
}

static void serve(struct rota_interval shard)
{
    struct rota_get_server_options options = {.on_batch = on_batch};
    struct rota_server *server;
    struct rota_get_server *gets;
    struct rota_error error;
    rota_map_init(&values, 1);
    for (unsigned i = 0; i < LOAD_KEYS; i++)
        if (rota_interval_has(&shard, rota_get_hash(load_keys[i])) &&
            !rota_map_put(&values, load_keys[i], load_values[i]))
            load_fail("no memory");
    uv_loop_init(&loop);
    if (rota_server_open(&loop, NULL, &server, &error) ||
        rota_get_server_open(server, &options, &gets, &error) ||
        rota_get_server_hold(gets, &shard, 1, &error) ||
        rota_server_listen(server, "127.0.0.1:0", &error))
        load_fail("%s", error.text);
    printf("ready %s\n", rota_server_address(server, 0));
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* --- the client --- */

struct slot {
    unsigned number, first;
};

static struct load load;
static struct rota_get *get;
static struct slot slots[LOAD_SLOTS_MAX];

static void begin(struct slot *slot);

static void on_done(void *data, const struct rota_get_result *result)
{
    struct slot *slot = data;
    unsigned n_values = 0;
    for (unsigned i = 0; i < result->n_items; i++) {
        if (result->items[i].state == ROTA_GET_KEY_MISSING)
            continue;
        if (!load_is_right((slot->first + i) % LOAD_KEYS, result->items[i].value))
            load_fail("a wrong value");
        n_values++;
    }
    load_end(&load, slot->number, n_values);
    begin(slot);
}

static void begin(struct slot *slot)
{
    struct rota_error error;
    slot->first = load_begin(slot->number);
    struct rota_get_request request = {
        .keys = &load_keys[slot->first],
        .n_keys = load.n_keys,
        .timeout = LOAD_TIMEOUT_MS * ROTA_MSEC,
        .on_done = on_done,
        .data = slot,
    };
    if (rota_get_start(get, &request, NULL, &error))
        load_fail("%s", error.text);
}

static void ask(void)
{
    struct rota_get_host hosts[LOAD_SERVERS_MAX];
    struct rota_get_options options = {.hosts = hosts, .n_hosts = load.n_servers};
    struct rota_error error;
    for (unsigned i = 0; i < load.n_servers; i++) {
        hosts[i].address = rota_str(load.servers[i]);
        hosts[i].dc = rota_str(i < load.n_servers / 2 ? "east" : "west");
    }
    uv_loop_init(&loop);
    if (rota_get_mode_parse(rota_str(load.mode), &options.mode, &error) ||
        rota_get_open(&loop, &options, &get, &error))
        load_fail("%s", error.text);
    for (unsigned i = 0; i < load.n_slots; i++) {
        slots[i].number = i;
        begin(&slots[i]);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    load_init("get_rota");
    if (argc == 4 && strcmp(argv[1], "server") == 0) {
        serve(rota_interval_of(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10)));
    } else if (argc > 2 && strcmp(argv[1], "client") == 0) {
        load_parse(argc - 2, argv + 2, &load);
        ask();
    }
    load_fail("server SHARD SHARDS, or client MODE ...");
}
