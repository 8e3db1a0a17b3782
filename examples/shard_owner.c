/* A server that serves a shard only if it owns it: `shard_owner NODE SHARD EPOCH [OWNER
 * ADDRESS]`. The owner of SHARD of collection 1 since EPOCH is this server, or node OWNER
 * at ADDRESS. The server rejects a call that was routed by an older claim, and returns the
 * current one; the handler below never sees such a call. A real service takes its claims
 * from a space or a lease while it runs: see counter.c. */
#include <rota/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct program {
    const char *node;
    struct rota_server *server;
    uv_signal_t signal;
};

static void on_call(void *data, struct rota_server_call *call)
{
    struct program *program = data;
    struct rota_str request = rota_server_call_request(call);
    char reply[256];
    if (!rota_server_call_is_current(call)) { /* check again before an effect, as after long work */
        rota_server_call_refuse(call);
        return;
    }
    int size = snprintf(reply, sizeof reply, "node %s says %.*s", program->node,
                        (int)(request.size < 200 ? request.size : 200), request.data);
    rota_server_call_reply(call, rota_str_of(reply, (size_t)size));
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct program *program = signal->data;
    (void)number;
    rota_server_close(program->server);
    uv_close((uv_handle_t *)signal, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6) {
        fprintf(stderr, "usage: shard_owner NODE SHARD EPOCH [OWNER ADDRESS]\n");
        return 2;
    }
    struct program program = {.node = argv[1]};
    struct rota_claims *claims;
    struct rota_server_method echo = {
        .path = "/example.Echo/Echo", .on_call = on_call, .data = &program, .is_fenced = true};
    struct rota_error error;
    uv_loop_t loop;

    uv_loop_init(&loop);
    if (rota_claims_new(1, &claims, &error)) {
        fprintf(stderr, "shard_owner: %s\n", error.text);
        return 1;
    }
    struct rota_server_options options = {.claims = claims};
    if (rota_server_open(&loop, &options, &program.server, &error) ||
        rota_server_add(program.server, &echo, &error) ||
        rota_server_listen(program.server, "127.0.0.1:0", &error)) {
        fprintf(stderr, "shard_owner: %s\n", error.text);
        return 1;
    }
    struct rota_claim claim = {
        .space = rota_str("1"),
        .shard = rota_str(argv[2]),
        .epoch = strtoull(argv[3], NULL, 10),
        .node = atol(argc > 4 ? argv[4] : argv[1]),
        .address = rota_str(argc > 5 ? argv[5] : rota_server_address(program.server, 0)),
        .is_held = argc == 4,
    };
    if (rota_claims_set(claims, &claim, &error)) {
        fprintf(stderr, "shard_owner: %s\n", error.text);
        return 1;
    }
    uv_signal_init(&loop, &program.signal);
    program.signal.data = &program;
    uv_signal_start(&program.signal, on_signal, SIGTERM);
    printf("ready grpc=%s\n", rota_server_address(program.server, 0));
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
    rota_claims_free(claims);
    return uv_loop_close(&loop) != 0;
}
