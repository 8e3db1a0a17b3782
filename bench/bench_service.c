/* How fast clients of a space know its map: 100,000 shards on 24 nodes.
 *
 *     bench_service [SHARDS]
 *
 * A process owns the shards as 24 nodes, through a store in SQLite. This one observes the space,
 * serves the directory and has all clients, on one loop: so the times of 100 clients are those of
 * one processor that does the work of all of them. Prints the time from opening a client, which
 * connects, until it has the whole map, and the time from when the directory knows of a change
 * until all clients do. */
#include "io/clock.h"
#include "run/call/space_directory.h"

#include <inttypes.h>
#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum { NODES = 24, CLIENTS = 100, ROUNDS = 20 };

static uv_loop_t loop;
static struct rota_store *store;
static struct rota_server *server;
static struct rota_space_directory *directory;
static struct rota_space *members[NODES], *observer;
static rota_time changed_at;

static void check(enum rota_code code, const struct rota_error *error)
{
    if (code) {
        fprintf(stderr, "bench_service: %s\n", error->text);
        exit(1);
    }
}

static void open_store(const char *url)
{
    struct rota_error error;
    const struct rota_store_options options = {.url = url, .statement_timeout = 60 * ROTA_SEC};
    uv_loop_init(&loop);
    check(rota_store_open(&loop, &options, &store, &error), &error);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    (void)until;
    rota_space_stopped(*(struct rota_space **)data, shard, epoch);
}

/* The process of the nodes. */
static void own(const char *url, uint32_t n_shards)
{
    struct rota_error error;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_store(url);
    for (int i = 0; i < NODES; i++) {
        char address[32];
        snprintf(address, sizeof address, "127.0.0.1:%d", 10001 + i);
        const struct rota_space_options options = {.name = "bench",
                                                   .member = address,
                                                   .engine = "ring",
                                                   .n_shards = n_shards,
                                                   .is_alone = true,
                                                   .ttl = 20 * ROTA_SEC,
                                                   .on_stop = on_stop,
                                                   .data = &members[i]};
        check(rota_space_open(&loop, store, &options, &members[i], &error), &error);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void on_change(void *data)
{
    (void)data;
    if (!observer || !directory)
        return;
    changed_at = rota_clock_mono();
    rota_space_directory_set(directory, rota_space_map(observer), NULL, NULL);
}

static void look_up(void *data)
{
    (void)data;
    rota_space_directory_looked_up(directory, NULL);
}

/* With an owner for every shard, on all nodes. */
static bool is_settled(void)
{
    const struct rota_space_map *map = rota_space_map(observer);
    bool has_shards[1024] = {0};
    size_t n = 0;
    if (map->n_shards == 0 || map->n_owned != map->n_shards)
        return false;
    for (uint32_t i = 0; i < map->n_shards; i++)
        has_shards[map->shards[i].owner % 1024] = true;
    for (size_t i = 0; i < 1024; i++)
        n += has_shards[i];
    return n == NODES;
}

static struct rota_service_client *open_client(void)
{
    struct rota_service_client *client = NULL;
    struct rota_error error;
    const char *address = rota_server_address(server, 0);
    const struct rota_service_client_options options = {.nodes = &address, .n_nodes = 1};
    check(rota_service_client_open(&loop, &options, &client, &error), &error);
    check(rota_service_client_follow(client, rota_str("bench"), &error), &error);
    return client;
}

static bool knows(struct rota_service_client *client, uint32_t shard)
{
    const struct rota_space_map *map = rota_space_map(observer);
    struct rota_service_view view;
    return map->shards[shard].state == ROTA_SPACE_OWNED &&
           rota_service_client_look(client, rota_str("bench"), shard, &view) &&
           view.epoch == map->shards[shard].epoch &&
           rota_str_is_equal(view.owner, map->nodes[map->shards[shard].owner]);
}

static int compare(const void *a, const void *b)
{
    rota_time x = *(const rota_time *)a, y = *(const rota_time *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *what, rota_time *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare);
    printf("%-48s median %6.2f ms, slowest %6.2f ms\n", what, (double)times[n / 2] / 1e6,
           (double)times[n - 1] / 1e6);
}

static void on_outcome(void *data, const struct rota_space_outcome *outcome)
{
    if (outcome->code)
        fprintf(stderr, "bench_service: %s\n", outcome->error.text);
    *(bool *)data = true;
}

/* To the next node. */
static void move_shard(uint32_t shard)
{
    const struct rota_space_map *map = rota_space_map(observer);
    uint32_t owner = map->shards[shard].owner;
    uint64_t epoch = map->shards[shard].epoch;
    struct rota_error error;
    bool is_done = false;
    check(rota_space_pin(observer, shard, map->nodes[(owner + 1) % map->n_nodes], false, on_outcome,
                         &is_done, &error),
          &error);
    while (!is_done || map->shards[shard].epoch == epoch ||
           map->shards[shard].state != ROTA_SPACE_OWNED)
        uv_run(&loop, UV_RUN_ONCE);
}

static void measure(uint32_t n_shards)
{
    static struct rota_service_client *clients[CLIENTS];
    rota_time times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        rota_time begin = rota_clock_mono();
        struct rota_service_client *client = open_client();
        while (!knows(client, n_shards - 1))
            uv_run(&loop, UV_RUN_ONCE);
        times[i] = rota_clock_mono() - begin;
        rota_service_client_close(client);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    print_times("the map, from opening a client", times, ROUNDS);

    rota_time begin = rota_clock_mono();
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = open_client();
    for (int i = 0; i < CLIENTS; i++)
        while (!knows(clients[i], n_shards - 1))
            uv_run(&loop, UV_RUN_ONCE);
    times[0] = rota_clock_mono() - begin;
    print_times("the map, 100 clients at once, until the last", times, 1);

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t shard = (uint32_t)i * (n_shards / ROUNDS);
        move_shard(shard);
        for (int j = 0; j < CLIENTS; j++)
            while (!knows(clients[j], shard))
                uv_run(&loop, UV_RUN_ONCE);
        times[i] = rota_clock_mono() - changed_at;
    }
    print_times("a change, until the last of 100 clients", times, ROUNDS);
}

int main(int argc, char **argv)
{
    uint32_t n_shards = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100000;
    char folder[] = "/tmp/rota-bench-XXXXXX", url[128], command[128];
    struct rota_error error;
    if (!mkdtemp(folder))
        return 1;
    snprintf(url, sizeof url, "sqlite:%s/store.db", folder);
    pid_t child = fork();
    if (child == 0) {
        own(url, n_shards);
        _exit(1);
    }
    open_store(url);
    check(rota_server_open(&loop, NULL, &server, &error), &error);
    check(rota_space_directory_open(&loop, server, look_up, NULL, &directory, &error), &error);
    check(rota_server_listen(server, "127.0.0.1:0", &error), &error);
    const struct rota_space_options options = {
        .name = "bench", .ttl = 20 * ROTA_SEC, .on_change = on_change};
    check(rota_space_open(&loop, store, &options, &observer, &error), &error);
    check(rota_space_directory_set(directory, rota_space_map(observer), NULL, &error), &error);
    printf("%" PRIu32 " shards on %d nodes\n", n_shards, NODES);
    while (!is_settled())
        uv_run(&loop, UV_RUN_ONCE);
    measure(n_shards);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0;
}
