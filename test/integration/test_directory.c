#include "run/call/directory.h"

#include "core/call/shards/shard_cache.h"
#include "nodes.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* A directory that a client asks, and two nodes. */
struct world {
    struct rota_server *server;
    struct rota_directory *directory;
    struct node nodes[3]; /* by id */
    struct rota_shards *shards;
    char first[64]; /* an address that the client tries first; nothing is there */
    size_t n_done;
    enum rota_status status;
    int64_t by;
};

static enum rota_code set(struct world *world, int64_t id, const char *name, int64_t node,
                          struct rota_error *error)
{
    struct rota_replica replica = node_replica(&world->nodes[node], 1);
    struct rota_shard_channel channel = {rota_str("a"), &replica, 1};
    struct rota_shards_collection collection = {rota_str("default"), rota_str(name), id, &channel,
                                                1};
    return rota_directory_set(world->directory, &collection, 1, error);
}

static void open_directory(struct world *world, const char *address)
{
    struct rota_error error;
    if (rota_server_open(&loop, NULL, &world->server, &error) ||
        rota_directory_open(world->server, &world->directory, &error) ||
        rota_server_listen(world->server, address, &error))
        fail_msg("%s", error.text);
}

static void close_directory(struct world *world)
{
    rota_server_close(world->server);
    rota_directory_close(world->directory);
}

static void world_open(struct world *world)
{
    struct rota_error error;
    memset(world, 0, sizeof *world);
    loop_open();
    node_open(&world->nodes[1], 1);
    node_open(&world->nodes[2], 2);
    open_directory(world, "127.0.0.1:0");
    snprintf(world->first, sizeof world->first, "%s", rota_server_address(world->server, 0));
    close_directory(world);
    open_directory(world, "127.0.0.1:0");
    const char *addresses[] = {world->first, rota_server_address(world->server, 0)};
    struct rota_shards_options options = {
        .directories = addresses, .n_directories = 2, .connections = 1};
    if (rota_shards_open(&loop, &options, &world->shards, &error))
        fail_msg("%s", error.text);
}

static void world_close(struct world *world)
{
    rota_shards_close(world->shards);
    close_directory(world);
    node_close(&world->nodes[1]);
    node_close(&world->nodes[2]);
    loop_close();
}

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    struct world *world = data;
    world->by = reply->node;
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct world *world = data;
    world->status = result->status;
    world->n_done++;
}

static void execute(struct world *world, const char *name, int64_t id)
{
    struct rota_shards_request what = {
        .name = {.collection = rota_str(name), .id = id},
        .method = rota_str(METHOD_WORK),
        .timeout = 5 * ROTA_SEC,
        .on_reply = on_reply,
        .on_done = on_done,
        .data = world,
    };
    struct rota_error error;
    world->n_done = 0;
    if (rota_shards_execute(world->shards, &what, NULL, &error))
        fail_msg("%s", error.text);
    RUN_UNTIL(world->n_done);
}

static void keep_text(void *data, const struct rota_shards_result *result)
{
    char *text = data;
    assert_int_equal(result->status, ROTA_STATUS_DEADLINE_EXCEEDED);
    snprintf(text, ROTA_ERROR_TEXT_MAX, "%.*s", ROTA_STR_ARGS(result->text));
}

/* What a call says that ends before the directory at this address has answered. */
static void execute_late(const char *address, rota_time timeout, char text[ROTA_ERROR_TEXT_MAX])
{
    struct rota_shards_options options = {.directories = &address, .n_directories = 1};
    struct rota_shards_request what = {
        .name = {.id = 1},
        .method = rota_str(METHOD_WORK),
        .timeout = timeout,
        .on_done = keep_text,
        .data = text,
    };
    struct rota_shards *shards;
    text[0] = '\0';
    assert_int_equal(rota_shards_open(&loop, &options, &shards, NULL), ROTA_OK);
    assert_int_equal(rota_shards_execute(shards, &what, NULL, NULL), ROTA_OK);
    RUN_UNTIL(text[0]);
    rota_shards_close(shards);
}

/* A socket that accepts connections and never sends a byte. */
static int listen_silently(char address[32])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    int silent = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(silent, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(silent, 8), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&name, &size), 0);
    snprintf(address, 32, "127.0.0.1:%d", ntohs(name.sin_port));
    return silent;
}

static void directory_that_does_not_answer_is_named(void **state)
{
    char address[32], text[ROTA_ERROR_TEXT_MAX];
    (void)state;
    loop_open();
    int silent = listen_silently(address);
    execute_late(address, 300 * ROTA_MSEC, text);
    assert_non_null(strstr(text, "does not respond"));
    assert_non_null(strstr(text, address));

    close(silent);
    execute_late(address, 300 * ROTA_MSEC, text);
    assert_non_null(strstr(text, "the directory is unreachable"));
    assert_non_null(strstr(text, address));
    loop_close();
}

/* The client repeats the question when the directory does not answer it in time; only its own
 * deadline ends the call. */
static void call_outlasts_a_question_that_times_out(void **state)
{
    char address[32], text[ROTA_ERROR_TEXT_MAX];
    (void)state;
    loop_open();
    int silent = listen_silently(address);
    execute_late(address, ROTA_SHARD_FLIGHT_TIMEOUT + ROTA_SEC, text);
    assert_non_null(strstr(text, "the deadline has passed"));
    assert_non_null(strstr(text, address));
    close(silent);
    loop_close();
}

static bool has_metric(const struct world *world, const char *line)
{
    char *text = rota_shards_metrics(world->shards);
    assert_non_null(text);
    bool is_there = strstr(text, line) != NULL;
    free(text);
    return is_there;
}

static void client_finds_the_directory_that_is_there(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    set(&world, 7, "books", 1, NULL);
    execute(&world, "books", 0);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.by, 1);
    execute(&world, "", 7);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    world_close(&world);
}

static void unknown_collection_is_not_found(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    set(&world, 7, "books", 1, NULL);
    execute(&world, "papers", 0);
    assert_int_equal(world.status, ROTA_STATUS_NOT_FOUND);
    execute(&world, "", 8);
    assert_int_equal(world.status, ROTA_STATUS_NOT_FOUND);
    execute(&world, "papers", 7); /* they do not fit */
    assert_int_equal(world.status, ROTA_STATUS_NOT_FOUND);
    world_close(&world);
}

/* The client has the map, which says node 1, and hears of changes. */
static void world_open_watching(struct world *world)
{
    world_open(world);
    set(world, 7, "books", 1, NULL);
    execute(world, "books", 0);
    assert_int_equal(world->by, 1);
    RUN_UNTIL(rota_directory_n_watchers(world->directory) == 1);
}

/* ... hears that it is node 2 now. */
static void execute_until_moved(struct world *world)
{
    do {
        execute(world, "books", 0);
        assert_int_equal(world->status, ROTA_STATUS_OK);
    } while (world->by != 2);
}

static void change_arrives_without_a_request(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    set(&world, 7, "books", 2, NULL);
    execute_until_moved(&world);
    assert_true(has_metric(&world, "rota_shard_cache_questions_total 1\n"));
    assert_true(has_metric(&world, "rota_shard_cache_changes_total 1\n"));
    world_close(&world);
}

static void serviceable_flag_is_a_change_like_any_other(void **state)
{
    struct world world;
    struct rota_replica replicas[2];
    struct rota_shard_channel channel = {rota_str("a"), replicas, 2};
    struct rota_shards_collection books = {rota_str("default"), rota_str("books"), 7, &channel, 1};
    (void)state;
    world_open(&world);
    for (int i = 0; i < 2; i++)
        replicas[i] = node_replica(&world.nodes[i + 1], 1);
    replicas[0].is_serviceable = false;
    rota_directory_set(world.directory, &books, 1, NULL);
    for (int i = 0; i < 4; i++) {
        execute(&world, "books", 0);
        assert_int_equal(world.by, 2);
    }
    RUN_UNTIL(rota_directory_n_watchers(world.directory) == 1);
    replicas[0].is_serviceable = true; /* it has loaded, and is to have its share */
    rota_directory_set(world.directory, &books, 1, NULL);
    do
        execute(&world, "books", 0);
    while (world.by != 1);
    assert_false(has_metric(&world, "rota_shard_cache_changes_total 0\n"));
    world_close(&world);
}

static void setting_the_same_content_is_not_a_change(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    set(&world, 7, "books", 1, NULL);
    for (int i = 0; i < 20; i++)
        execute(&world, "books", 0);
    assert_true(has_metric(&world, "rota_shard_cache_changes_total 0\n"));
    world_close(&world);
}

static void removed_collection_ends_its_watch(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    set(&world, 8, "books", 2, NULL); /* the name means another one now */
    assert_int_equal(rota_directory_n_watchers(world.directory), 0);
    execute_until_moved(&world);
    world_close(&world);
}

static void directory_that_restarts_is_watched_again(void **state)
{
    struct world world;
    char address[64];
    (void)state;
    world_open_watching(&world);
    snprintf(address, sizeof address, "%s", rota_server_address(world.server, 0));
    close_directory(&world);
    execute(&world, "books", 0); /* by the map at hand */
    assert_int_equal(world.status, ROTA_STATUS_OK);
    open_directory(&world, address);
    set(&world, 7, "books", 2, NULL);
    execute_until_moved(&world);
    world_close(&world);
}

static void directory_that_dies_is_left_for_another_one(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    close_directory(&world);
    open_directory(&world, world.first);
    set(&world, 7, "books", 2, NULL);
    RUN_UNTIL(rota_directory_n_watchers(world.directory) == 1);
    execute_until_moved(&world);
    world_close(&world);
}

static void drained_directory_is_watched_when_it_is_restored(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    rota_directory_drain(world.directory);
    assert_int_equal(rota_directory_n_watchers(world.directory), 0);
    set(&world, 7, "books", 2, NULL);
    assert_int_equal(rota_directory_n_watchers(world.directory), 0);
    rota_directory_restore(world.directory);
    RUN_UNTIL(rota_directory_n_watchers(world.directory) == 1);
    execute_until_moved(&world);
    world_close(&world);
}

static void refused_map_leaves_all_as_it_was(void **state)
{
    struct world world;
    struct rota_error error;
    (void)state;
    world_open(&world);
    set(&world, 7, "books", 1, NULL);
    struct rota_shards_collection twice[2] = {
        {rota_str("default"), rota_str("a"), 1, NULL, 0},
        {rota_str("default"), rota_str("a"), 2, NULL, 0},
    };
    assert_int_equal(rota_directory_set(world.directory, twice, 2, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_directory_n_collections(world.directory), 1);
    execute(&world, "books", 0);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    world_close(&world);
}

static void garbage_is_refused_and_the_next_is_served(void **state)
{
    static const char *const methods[] = {"/rota.v1.Directory/GetShards",
                                          "/rota.v1.Directory/WatchShards"};
    struct world world;
    struct rota_channel *channel;
    struct rota_reply reply;
    (void)state;
    world_open(&world);
    set(&world, 7, "books", 1, NULL);
    assert_int_equal(
        rota_channel_open(&loop, rota_server_address(world.server, 0), NULL, &channel, NULL),
        ROTA_OK);
    for (int i = 0; i < 2; i++) {
        struct rota_call_options options = {.method = rota_str(methods[i]),
                                            .request = rota_str("\xff\xff\xff")};
        assert_int_equal(rota_channel_wait(channel, &options, &reply, NULL), ROTA_OK);
        assert_int_equal(reply.status, ROTA_STATUS_INVALID_ARGUMENT);
        rota_reply_deinit(&reply);
        options.request = rota_str(""); /* no collection at all */
        assert_int_equal(rota_channel_wait(channel, &options, &reply, NULL), ROTA_OK);
        assert_int_equal(reply.status, ROTA_STATUS_NOT_FOUND);
        rota_reply_deinit(&reply);
    }
    rota_channel_close(channel);
    execute(&world, "books", 0);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    world_close(&world);
}

static void longest_names_are_found_and_longer_ones_are_not(void **state)
{
    struct world world;
    static char database[ROTA_SHARD_NAME_MAX + 2], name[ROTA_SHARD_NAME_MAX + 2];
    (void)state;
    world_open(&world);
    memset(database, 'd', sizeof database - 1);
    memset(name, 'n', sizeof name - 1);
    const struct rota_str of = rota_str_of(database, ROTA_SHARD_NAME_MAX);
    struct rota_replica replica = node_replica(&world.nodes[1], 1);
    struct rota_shard_channel channel = {rota_str("a"), &replica, 1};
    struct rota_shards_collection collection = {of, rota_str_of(name, ROTA_SHARD_NAME_MAX), 7,
                                                &channel, 1};
    assert_int_equal(rota_directory_set(world.directory, &collection, 1, NULL), ROTA_OK);
    struct rota_shards_request what = {.method = rota_str(METHOD_WORK),
                                       .timeout = 60 * ROTA_SEC,
                                       .on_reply = on_reply,
                                       .on_done = on_done,
                                       .data = &world};
    for (size_t i = 0; i < 3; i++) { /* the second and third have one byte too many */
        what.name.database = rota_str_of(database, ROTA_SHARD_NAME_MAX + (i == 1));
        what.name.collection = rota_str_of(name, ROTA_SHARD_NAME_MAX + (i == 2));
        world.n_done = 0;
        enum rota_code code = rota_shards_execute(world.shards, &what, NULL, NULL);
        if (i > 0 && code) {
            assert_int_equal(code, ROTA_ERR_INVALID);
            continue;
        }
        assert_int_equal(code, ROTA_OK);
        RUN_UNTIL(world.n_done);
        assert_int_equal(world.status == ROTA_STATUS_OK, i == 0);
    }
    assert_int_equal(world.by, 1);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_finds_the_directory_that_is_there),
        cmocka_unit_test(directory_that_does_not_answer_is_named),
        cmocka_unit_test(call_outlasts_a_question_that_times_out),
        cmocka_unit_test(unknown_collection_is_not_found),
        cmocka_unit_test(longest_names_are_found_and_longer_ones_are_not),
        cmocka_unit_test(change_arrives_without_a_request),
        cmocka_unit_test(serviceable_flag_is_a_change_like_any_other),
        cmocka_unit_test(setting_the_same_content_is_not_a_change),
        cmocka_unit_test(removed_collection_ends_its_watch),
        cmocka_unit_test(directory_that_restarts_is_watched_again),
        cmocka_unit_test(directory_that_dies_is_left_for_another_one),
        cmocka_unit_test(drained_directory_is_watched_when_it_is_restored),
        cmocka_unit_test(refused_map_leaves_all_as_it_was),
        cmocka_unit_test(garbage_is_refused_and_the_next_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
