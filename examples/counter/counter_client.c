/* Adds 1 to a counter of counter_server.c: `counter_client NODE NAME`
 *
 * NODE is any node of the cluster. The client learns from it who owns the shard of NAME, calls the
 * owner, and follows when the shard moves. It may repeat the call (ROTA_REPEAT_ANY): the ID in the
 * request keeps it from being counted twice. */
#include <inttypes.h>
#include <rota/rota.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

int main(int argc, char **argv)
{
    uv_loop_t loop;
    struct rota_service_client *client;
    struct rota_service_answer answer;
    struct rota_error error;
    char request[160];
    if (argc != 3) {
        fprintf(stderr, "usage: counter_client NODE NAME\n");
        return 2;
    }
    snprintf(request, sizeof request, "%.64s %ld%ld", argv[2], (long)time(NULL), (long)getpid());
    const struct rota_service_client_options options = {
        .nodes = (const char *const *)&argv[1],
        .n_nodes = 1,
    };
    const struct rota_service_request add = {
        .space = rota_str("counters"),
        .key = rota_str(argv[2]),
        .method = rota_str("/example.Counter/Add"),
        .request = rota_str(request),
        .timeout = 30 * ROTA_SEC,
        .try_timeout = 2 * ROTA_SEC,
        .repeat = ROTA_REPEAT_ANY,
    };
    uv_loop_init(&loop);
    if (rota_service_client_open(&loop, &options, &client, &error) ||
        rota_service_client_wait(client, &add, &answer, &error)) {
        fprintf(stderr, "counter_client: %s\n", error.text);
        return 1;
    }
    bool is_added = answer.status == ROTA_STATUS_OK;
    if (is_added)
        printf("%s=%s shard=%" PRIu32 " epoch=%" PRIu64 " owner=%s\n", argv[2], answer.message,
               answer.shard, answer.epoch, answer.node);
    else
        fprintf(stderr, "counter_client: %s: %s\n", rota_status_name(answer.status), answer.text);
    rota_service_answer_deinit(&answer);
    rota_service_client_close(client);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0 || !is_added;
}
