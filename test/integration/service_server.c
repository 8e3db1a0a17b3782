/* A server of a space, for test_service.py: service_server STORE SPACE SHARDS.
 *
 * It serves the shards that it owns, and replies with the request. It is ready once the store has
 * the space. On SIGTERM it hands its shards over, then lets its calls end. */
#include <inttypes.h>
#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static struct rota_store *store;
static struct rota_space *space;
static struct rota_claims *claims;
static struct rota_server *server;
static uv_signal_t on_term;

static void check(enum rota_code code, const struct rota_error *error)
{
    if (code) {
        fprintf(stderr, "service_server: %s\n", error->text);
        exit(1);
    }
}

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_server_call_request(call));
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    (void)data, (void)until;
    rota_space_stopped(space, shard, epoch);
}

static void on_change(void *data)
{
    static bool is_ready;
    (void)data;
    if (!is_ready && space && rota_space_map(space)->n_owned > 0) {
        is_ready = true;
        printf("ready grpc=%s\n", rota_server_address(server, 0));
    }
}

static void on_drained(void *data, size_t n_cut)
{
    (void)data, (void)n_cut;
    rota_server_close(server);
    rota_store_close(store);
}

static void on_closed(void *data)
{
    (void)data;
    rota_server_drain(server, 5 * ROTA_SEC, on_drained, NULL);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    uv_close((uv_handle_t *)handle, NULL);
    rota_space_close(space, on_closed, NULL);
}

int main(int argc, char **argv)
{
    static const struct rota_server_method echo = {
        .path = "/test.Service/Echo", .on_call = on_call, .is_fenced = true};
    uv_loop_t loop;
    struct rota_error error;
    if (argc != 4)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    uv_loop_init(&loop);
    struct rota_store_options store_options = {.url = argv[1]};
    check(rota_store_open(&loop, &store_options, &store, &error), &error);
    check(rota_claims_new(1, &claims, &error), &error);
    struct rota_server_options options = {.claims = claims};
    check(rota_server_open(&loop, &options, &server, &error), &error);
    check(rota_server_add(server, &echo, &error), &error);
    check(rota_server_listen(server, "127.0.0.1:0", &error), &error);
    struct rota_space_options member = {
        .name = argv[2],
        .member = rota_server_address(server, 0),
        .engine = "ring",
        .n_shards = (uint32_t)strtoul(argv[3], NULL, 10),
        .is_alone = true,
        .ttl = 2 * ROTA_SEC,
        .claims = claims,
        .on_stop = on_stop,
        .on_change = on_change,
    };
    check(rota_space_open(&loop, store, &member, &space, &error), &error);
    uv_signal_init(&loop, &on_term);
    uv_signal_start(&on_term, on_signal, SIGTERM);
    uv_run(&loop, UV_RUN_DEFAULT);
    rota_claims_free(claims);
    return uv_loop_close(&loop) != 0;
}
