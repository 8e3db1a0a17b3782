/* One blocking call, in a program without an event loop: `echo_wait ADDRESS TEXT`. */
#include <rota/experimental/channel.h>
#include <rota/rota.h>
#include <stdio.h>
#include <uv.h>

int main(int argc, char **argv)
{
    struct rota_channel *channel;
    struct rota_reply reply;
    struct rota_error error;
    uv_loop_t loop;

    if (argc != 3) {
        fprintf(stderr, "usage: echo_wait ADDRESS TEXT\n");
        return 2;
    }
    struct rota_call_options options = {
        .method = rota_str("/example.Echo/Echo"),
        .request = rota_str(argv[2]),
        .timeout = 5 * ROTA_SEC,
    };
    uv_loop_init(&loop);
    if (rota_channel_open(&loop, argv[1], NULL, &channel, &error) ||
        rota_channel_wait(channel, &options, &reply, &error)) {
        fprintf(stderr, "echo_wait: %s\n", error.text);
        return 1;
    }
    bool is_ok = reply.status == ROTA_STATUS_OK;
    if (is_ok)
        printf("%.*s\n", (int)reply.size, reply.message);
    else
        fprintf(stderr, "echo_wait: %s: %s\n", rota_status_name(reply.status), reply.text);
    rota_reply_deinit(&reply);
    rota_channel_close(channel);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0 || !is_ok;
}
