/* A gRPC server that sends every message back: `echo_server [ADDRESS]`. It
 * prints its address, and drains on SIGTERM or SIGINT: calls in progress
 * finish, and new ones are rejected, so that clients go elsewhere. */
#include <rota/rota.h>
#include <signal.h>
#include <stdio.h>
#include <uv.h>

struct program {
    struct rota_server *server;
    uv_signal_t signals[2];
};

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_server_call_request(call));
}

static void on_drained(void *data, size_t n_cut)
{
    struct program *program = data;
    fprintf(stderr, "echo_server: drained, %zu calls aborted\n", n_cut);
    rota_server_close(program->server);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&program->signals[i], NULL);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct program *program = signal->data;
    (void)number;
    rota_server_drain(program->server, 5 * ROTA_SEC, on_drained, program);
}

int main(int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:0";
    const struct rota_server_method echo = {.path = "/example.Echo/Echo", .on_call = on_call};
    const int numbers[2] = {SIGTERM, SIGINT};
    struct program program;
    struct rota_error error;
    uv_loop_t loop;

    uv_loop_init(&loop);
    if (rota_server_open(&loop, NULL, &program.server, &error) ||
        rota_server_add(program.server, &echo, &error) ||
        rota_server_listen(program.server, address, &error)) {
        fprintf(stderr, "echo_server: %s\n", error.text);
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        uv_signal_init(&loop, &program.signals[i]);
        program.signals[i].data = &program;
        uv_signal_start(&program.signals[i], on_signal, numbers[i]);
    }
    printf("ready grpc=%s\n", rota_server_address(program.server, 0));
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}
