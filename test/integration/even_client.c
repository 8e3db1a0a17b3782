/* A client for tests: `even_client CALLS AT_ONCE PAUSE_MS cold|warm ADDRESS...`. The addresses
 * serve one shard together. So many callers make one call after the other, with a pause in between;
 * a warm client has its connections before the first. Prints how many calls each address answered,
 * with blanks in between. */
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { NODES_MAX = 8, CALLERS_MAX = 64 };

static struct {
    uv_loop_t loop;
    struct rota_shards *shards;
    struct rota_replica replicas[NODES_MAX];
    size_t n_nodes;
    long n_calls, n_started, n_ended, counts[NODES_MAX];
    int n_callers;
    uint64_t pause_ms;
    uv_timer_t timers[CALLERS_MAX], warming;
} client;

static void ask(void *data, struct rota_shards *shards, uint64_t question,
                const struct rota_shards_name *name)
{
    struct rota_shard_channel channel = {rota_str("s"), client.replicas, client.n_nodes};
    struct rota_shards_map map = {1, &channel, 1};
    (void)data, (void)name;
    rota_shards_tell(shards, question, &map, NULL);
}

static void die(const char *text)
{
    fprintf(stderr, "even_client: %s\n", text);
    exit(1);
}

static void finish(void)
{
    for (size_t i = 0; i < client.n_nodes; i++)
        printf("%ld%c", client.counts[i], i + 1 < client.n_nodes ? ' ' : '\n');
    for (int i = 0; i < client.n_callers; i++)
        uv_close((uv_handle_t *)&client.timers[i], NULL);
    uv_close((uv_handle_t *)&client.warming, NULL);
    rota_shards_close(client.shards);
}

static void call(uv_timer_t *timer);

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    (void)data;
    if (reply->status == ROTA_STATUS_OK)
        client.counts[reply->node - 1]++;
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    uv_timer_t *timer = data;
    if (result->status != ROTA_STATUS_OK)
        die("a call failed");
    if (++client.n_ended == client.n_calls)
        finish();
    else if (client.n_started < client.n_calls && client.pause_ms > 0)
        uv_timer_start(timer, call, client.pause_ms, 0);
    else if (client.n_started < client.n_calls)
        call(timer);
}

static void call(uv_timer_t *timer)
{
    struct rota_error error;
    struct rota_shards_request request = {
        .name = {.id = 1},
        .mode = ROTA_SHARDS_ONE,
        .method = rota_str("/test.Node/Work"),
        .request = rota_str("work"),
        .on_reply = on_reply,
        .on_done = on_done,
        .data = timer,
    };
    client.n_started++;
    if (rota_shards_execute(client.shards, &request, NULL, &error))
        die(error.text);
}

static void start_callers(void)
{
    for (int i = 0; i < client.n_callers; i++)
        call(&client.timers[i]);
}

static void on_warming(uv_timer_t *timer)
{
    for (size_t i = 0; i < client.n_nodes; i++) {
        struct rota_shards_view view;
        if (!rota_shards_look_at(client.shards, (int64_t)i + 1, &view) || view.n_connections < 10)
            return;
    }
    uv_timer_stop(timer);
    start_callers();
}

static void on_map(void *data, const struct rota_shards_map *map, struct rota_str text)
{
    (void)data, (void)map, (void)text;
    uv_timer_start(&client.warming, on_warming, 1, 1);
}

int main(int argc, char **argv)
{
    struct rota_error error;
    if (argc < 6 || argc > 5 + NODES_MAX || atoi(argv[2]) > CALLERS_MAX) {
        fprintf(stderr, "usage: even_client CALLS AT_ONCE PAUSE_MS cold|warm ADDRESS...\n");
        return 2;
    }
    client.n_calls = atol(argv[1]);
    client.n_callers = atoi(argv[2]);
    client.pause_ms = (uint64_t)atol(argv[3]);
    for (int i = 5; i < argc; i++) {
        struct rota_replica replica = {(int64_t)client.n_nodes + 1, rota_str(argv[i]), 0, true};
        client.replicas[client.n_nodes++] = replica;
    }
    uv_loop_init(&client.loop);
    struct rota_shards_source source = {.ask = ask};
    struct rota_shards_options options = {.source = &source};
    if (rota_shards_open(&client.loop, &options, &client.shards, &error))
        die(error.text);
    uv_timer_init(&client.loop, &client.warming);
    for (int i = 0; i < client.n_callers; i++)
        uv_timer_init(&client.loop, &client.timers[i]);
    struct rota_shards_query query = {.name = {.id = 1}, .is_warmed = true, .on_map = on_map};
    if (strcmp(argv[4], "warm") != 0)
        start_callers();
    else if (rota_shards_look(client.shards, &query, &error))
        die(error.text);
    uv_run(&client.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&client.loop) != 0;
}
