/* One request to every shard of a collection: `shard_client DIRECTORY COLLECTION
 * TEXT`. The program does not know which nodes serve the shards: the client asks the
 * directory, and uses other replicas where one is slow or down. Prints a line for each
 * shard; the service is that of echo_server.c. */
#include <rota/experimental/shards.h>
#include <rota/rota.h>
#include <stdio.h>
#include <uv.h>

struct program {
    struct rota_shards *shards;
    enum rota_status status;
};

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    (void)data;
    if (reply->status == ROTA_STATUS_OK)
        printf("%.*s: %.*s\n", ROTA_STR_ARGS(reply->channel), ROTA_STR_ARGS(reply->message));
    else
        printf("%.*s: %s\n", ROTA_STR_ARGS(reply->channel), rota_status_name(reply->status));
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct program *program = data;
    program->status = result->status;
    if (result->status != ROTA_STATUS_OK)
        fprintf(stderr, "shard_client: %s: %.*s\n", rota_status_name(result->status),
                ROTA_STR_ARGS(result->text));
    rota_shards_close(program->shards);
}

int main(int argc, char **argv)
{
    struct program program = {0};
    struct rota_error error;
    uv_loop_t loop;
    if (argc != 4) {
        fprintf(stderr, "usage: shard_client DIRECTORY COLLECTION TEXT\n");
        return 2;
    }
    const char *directories[] = {argv[1]};
    struct rota_shards_options options = {.directories = directories, .n_directories = 1};
    struct rota_shards_request request = {
        .name = {.collection = rota_str(argv[2])},
        .mode = ROTA_SHARDS_ALL,
        .method = rota_str("/example.Echo/Echo"),
        .request = rota_str(argv[3]),
        .timeout = 10 * ROTA_SEC,
        .repeat = ROTA_REPEAT_ANY, /* an echo is idempotent */
        .is_partial = true,
        .on_reply = on_reply,
        .on_done = on_done,
        .data = &program,
    };
    uv_loop_init(&loop);
    if (rota_shards_open(&loop, &options, &program.shards, &error) ||
        rota_shards_execute(program.shards, &request, NULL, &error)) {
        fprintf(stderr, "shard_client: %s\n", error.text);
        return 1;
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0 || program.status != ROTA_STATUS_OK;
}
