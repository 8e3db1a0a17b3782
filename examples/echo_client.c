/* Many concurrent calls from one thread: `echo_client ADDRESS [CALLS [CONCURRENT]]`.
 * When a call ends, its callback starts the next one. */
#include <rota/experimental/channel.h>
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct program {
    struct rota_channel *channel;
    long n_left, n_under_way, n_ok, n_failed;
};

static void start(struct program *program);

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct program *program = data;
    (void)call;
    program->n_under_way--;
    if (result->status == ROTA_STATUS_OK) {
        program->n_ok++;
    } else if (program->n_failed++ == 0) {
        fprintf(stderr, "echo_client: %s: %.*s\n", rota_status_name(result->status),
                ROTA_STR_ARGS(result->text));
    }
    start(program);
    if (program->n_under_way == 0)
        rota_channel_close(program->channel);
}

static void start(struct program *program)
{
    static const char payload[100] = "hello";
    struct rota_error error;
    struct rota_call_options options = {
        .method = rota_str("/example.Echo/Echo"),
        .request = rota_str_of(payload, sizeof payload),
        .timeout = 10 * ROTA_SEC,
        .on_end = on_end,
        .data = program,
    };
    if (program->n_left == 0)
        return;
    program->n_left--;
    if (rota_channel_call(program->channel, &options, NULL, &error)) {
        fprintf(stderr, "echo_client: %s\n", error.text);
        program->n_failed++;
        program->n_left = 0;
        return;
    }
    program->n_under_way++;
}

int main(int argc, char **argv)
{
    struct program program = {.n_left = argc > 2 ? atol(argv[2]) : 1000};
    long at_once = argc > 3 ? atol(argv[3]) : 128;
    struct rota_error error;
    uv_loop_t loop;

    if (argc < 2) {
        fprintf(stderr, "usage: echo_client ADDRESS [CALLS [AT_ONCE]]\n");
        return 2;
    }
    uv_loop_init(&loop);
    if (rota_channel_open(&loop, argv[1], NULL, &program.channel, &error)) {
        fprintf(stderr, "echo_client: %s\n", error.text);
        return 1;
    }
    uint64_t began = uv_hrtime();
    for (long i = 0; i < at_once; i++)
        start(&program);
    uv_run(&loop, UV_RUN_DEFAULT);
    double seconds = (double)(uv_hrtime() - began) / 1e9;
    printf("%ld ok, %ld failed, %.0f calls/s\n", program.n_ok, program.n_failed,
           (double)program.n_ok / seconds);
    return uv_loop_close(&loop) != 0 || program.n_failed > 0;
}
