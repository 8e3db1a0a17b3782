/* A directory for tests: `shard_directory MAP [ADDRESS]` serves rota.v1.Directory/GetShards and
 * WatchShards with the shards of a file (shards_file.h), which it watches: so a test decides what
 * the map of its clients is. A mistake in the file is printed, and changes nothing. Has the health
 * service, too. Prints `ready grpc=ADDRESS`. */
#include "run/call/directory.h"
#include "run/place/file_watch.h"
#include "shards_file.h"

#include <rota/experimental/health.h>
#include <signal.h>
#include <stdio.h>
#include <uv.h>

static struct {
    uv_loop_t loop;
    const char *map;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_directory *directory;
    struct rota_file_watch *watch;
    uv_signal_t signal;
} program;

static enum rota_code on_content(void *data, struct rota_str content, struct rota_error *error)
{
    struct rota_shards_file file;
    (void)data;
    enum rota_code code = rota_shards_file_parse(content, program.map, &file, error);
    if (code)
        return code;
    code = rota_directory_set(program.directory, file.collections, file.n_collections, error);
    rota_shards_file_deinit(&file);
    return code;
}

static void on_error(void *data, const struct rota_error *error)
{
    (void)data;
    fprintf(stderr, "shard_directory: %s\n", error->text);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    rota_file_watch_close(program.watch);
    rota_server_close(program.server);
    rota_directory_close(program.directory);
    rota_health_close(program.health);
    uv_close((uv_handle_t *)signal, NULL);
}

int main(int argc, char **argv)
{
    struct rota_error error;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: shard_directory MAP [ADDRESS]\n");
        return 2;
    }
    program.map = argv[1];
    uv_loop_init(&program.loop);
    const struct rota_file_watch_options options = {.path = program.map,
                                                    .size_max = ROTA_SHARDS_TEXT_MAX,
                                                    .on_content = on_content,
                                                    .on_error = on_error};
    if (rota_server_open(&program.loop, NULL, &program.server, &error) ||
        rota_health_open(program.server, &program.health, &error) ||
        rota_directory_open(program.server, &program.directory, &error) ||
        rota_file_watch_open(&program.loop, &options, &program.watch, &error) ||
        rota_server_listen(program.server, argc > 2 ? argv[2] : "127.0.0.1:0", &error)) {
        fprintf(stderr, "shard_directory: %s\n", error.text);
        return 1;
    }
    uv_signal_init(&program.loop, &program.signal);
    uv_signal_start(&program.signal, on_signal, SIGTERM);
    rota_health_set(program.health, "", true, NULL);
    printf("ready grpc=%s\n", rota_server_address(program.server, 0));
    fflush(stdout);
    return uv_run(&program.loop, UV_RUN_DEFAULT);
}
