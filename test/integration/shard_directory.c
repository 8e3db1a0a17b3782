/* A directory for tests: `shard_directory MAP [ADDRESS]` serves rota.v1.Directory with the spaces
 * of a file, which it watches: so a test decides what the map of its clients is. A line is a claim;
 * a zone is any word, for each replica of a shard another one:
 *
 *     SPACE ZONE SHARD ADDRESS EPOCH [moving]
 *
 * A mistake in the file is printed, and changes nothing. Has the health service, too. Prints
 * `ready grpc=ADDRESS`. */
#include "run/call/space_directory.h"
#include "run/place/file_watch.h"

#include <rota/experimental/health.h>
#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { SPACES = 4, ZONES = 8, SHARDS = 16, NODES = 64, WORD = 128, FILE_MAX = 1 << 20 };

struct space {
    char name[WORD];
    struct rota_str zones[ZONES], nodes[NODES]; /* nodes keep their numbers */
    size_t n_zones, n_nodes;
    uint32_t n_shards;
    struct rota_space_shard shards[ZONES][SHARDS];
};

static struct {
    uv_loop_t loop;
    const char *map;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_space_directory *directory;
    struct rota_file_watch *watch;
    uv_signal_t signal;
    struct space spaces[SPACES];
    size_t n_spaces;
} program;

static size_t find_word(struct rota_str *words, size_t *n, size_t max, const char *word)
{
    for (size_t i = 0; i < *n; i++)
        if (rota_str_is_equal(words[i], rota_str(word)))
            return i;
    if (*n == max)
        abort();
    words[*n] = rota_str(strdup(word));
    return (*n)++;
}

static void begin_space(struct space *space)
{
    while (space->n_zones > 0)
        free((char *)space->zones[--space->n_zones].data);
    space->n_shards = 0;
    for (size_t i = 0; i < ZONES; i++)
        for (size_t j = 0; j < SHARDS; j++)
            space->shards[i][j] =
                (struct rota_space_shard){.owner = ROTA_SPACE_NOBODY, .state = ROTA_SPACE_UNOWNED};
}

static struct space *find_space(const char *name)
{
    for (size_t i = 0; i < program.n_spaces; i++)
        if (strcmp(program.spaces[i].name, name) == 0)
            return &program.spaces[i];
    if (program.n_spaces == SPACES)
        abort();
    struct space *space = &program.spaces[program.n_spaces++];
    snprintf(space->name, sizeof space->name, "%s", name);
    begin_space(space);
    return space;
}

static enum rota_code read_line(const char *line, struct rota_error *error)
{
    char name[WORD], zone[WORD], address[WORD], state[WORD] = "";
    unsigned shard;
    unsigned long long epoch;
    int n =
        sscanf(line, "%127s %127s %u %127s %llu %127s", name, zone, &shard, address, &epoch, state);
    if (n < 5 || shard >= SHARDS || (n == 6 && strcmp(state, "moving") != 0))
        return rota_error_set(error, ROTA_ERR_INVALID, "not a claim: %s", line);
    struct space *space = find_space(name);
    size_t z = find_word(space->zones, &space->n_zones, ZONES, zone);
    space->n_shards = shard + 1 > space->n_shards ? shard + 1 : space->n_shards;
    space->shards[z][shard] = (struct rota_space_shard){
        .epoch = epoch,
        .owner = (uint32_t)find_word(space->nodes, &space->n_nodes, NODES, address),
        .state = n == 6 ? ROTA_SPACE_MOVING : ROTA_SPACE_OWNED};
    return ROTA_OK;
}

static enum rota_code serve_space(struct space *space, struct rota_error *error)
{
    struct rota_space_shard shards[ZONES * SHARDS];
    const struct rota_space_zones zones = {space->zones, space->n_zones};
    const struct rota_space_map map = {.name = rota_str(space->name),
                                       .engine = rota_str("lease"),
                                       .nodes = space->nodes,
                                       .n_nodes = space->n_nodes,
                                       .shards = shards,
                                       .n_shards = space->n_shards};
    if (space->n_shards == 0) {
        rota_space_directory_remove(program.directory, map.name);
        return ROTA_OK;
    }
    for (size_t i = 0; i < space->n_zones; i++)
        memcpy(shards + i * space->n_shards, space->shards[i], space->n_shards * sizeof shards[0]);
    return rota_space_directory_set(program.directory, &map, &zones, error);
}

static enum rota_code on_content(void *data, struct rota_str content, struct rota_error *error)
{
    char *text = strndup(content.data, content.size), *rest = text;
    enum rota_code code = ROTA_OK;
    (void)data;
    for (size_t i = 0; i < program.n_spaces; i++)
        begin_space(&program.spaces[i]);
    for (char *line; !code && (line = strsep(&rest, "\n"));)
        if (*line)
            code = read_line(line, error);
    free(text);
    for (size_t i = 0; !code && i < program.n_spaces; i++)
        code = serve_space(&program.spaces[i], error);
    return code;
}

static void on_error(void *data, const struct rota_error *error)
{
    (void)data;
    fprintf(stderr, "shard_directory: %s\n", error->text);
}

static void look_up(void *data)
{
    static const struct rota_store_answer nothing;
    (void)data;
    rota_space_directory_looked_up(program.directory, &nothing);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    rota_file_watch_close(program.watch);
    rota_server_close(program.server);
    rota_space_directory_close(program.directory);
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
    const struct rota_file_watch_options options = {
        .path = program.map, .size_max = FILE_MAX, .on_content = on_content, .on_error = on_error};
    if (rota_server_open(&program.loop, NULL, &program.server, &error) ||
        rota_health_open(program.server, &program.health, &error) ||
        rota_space_directory_open(&program.loop, program.server, look_up, NULL, &program.directory,
                                  &error) ||
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
