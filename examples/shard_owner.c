/* A server of the space "books", which has four shards: `shard_owner STORE`. Start it as often as
 * you like: the servers divide the shards among themselves. A call that was routed by an older
 * claim is rejected before the handler below sees it, with the current claim. shard_client.c calls
 * all shards; the service is that of echo_server.c. */
#include <rota/rota.h>
#include <signal.h>
#include <stdio.h>
#include <uv.h>

static struct rota_store *store;
static struct rota_service_server *server;

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    if (rota_server_call_is_current(call)) /* check again before an effect, as after long work */
        rota_server_call_reply(call, rota_server_call_request(call));
    else
        rota_server_call_refuse(call);
}

static void on_closed(void *data)
{
    (void)data;
    rota_store_close(store);
}

/* Hands the shards over, so that the others need not wait for the end of the ttl. */
static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    rota_service_server_close(server, on_closed, NULL);
    uv_close((uv_handle_t *)signal, NULL);
}

int main(int argc, char **argv)
{
    const struct rota_server_method echo = {.path = "/example.Echo/Echo", .on_call = on_call};
    struct rota_error error;
    uv_signal_t signal;
    uv_loop_t loop;
    if (argc != 2) {
        fprintf(stderr, "usage: shard_owner STORE\n");
        return 2;
    }
    uv_loop_init(&loop);
    enum rota_code code =
        rota_store_open(&loop, &(struct rota_store_options){.url = argv[1]}, &store, &error);
    struct rota_service_server_options options = {
        .space = "books",
        .n_shards = 16, /* with 4 it would happen that one of two servers has none */
        .listen = "127.0.0.1:0",
        .store = store,
        .ttl = 2 * ROTA_SEC,
        .methods = &echo,
        .n_methods = 1,
    };
    if (!code)
        code = rota_service_server_open(&loop, &options, &server, &error);
    if (code) {
        fprintf(stderr, "shard_owner: %s\n", error.text);
        return 1;
    }
    uv_signal_init(&loop, &signal);
    uv_signal_start(&signal, on_signal, SIGTERM);
    printf("ready grpc=%s\n", rota_service_server_address(server));
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}
