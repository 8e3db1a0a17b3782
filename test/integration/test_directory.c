/* The maps of <rota/experimental/shards.h> are those of spaces: found by name, pushed, resumed, and
 * sought at another directory where one is dead, silent or behind. */
#include "await.h"
#include "core/call/shards/shard_cache.h"
#include "nodes.h"
#include "run/call/space_directory.h"
#include "wire/message/directory_message.h"

#include <netinet/in.h>
#include <rota/experimental/store_ask.h>
#include <rota/space.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* A directory, as a node has it. */
struct directory {
    struct rota_server *server;
    struct rota_space_directory *spaces;
};

/* A directory that a client asks, and two nodes. */
struct world {
    struct directory directory;
    struct node nodes[3]; /* by id */
    struct rota_shards *shards;
    char first[64]; /* an address that the client is given, too; nothing is there */
    size_t n_done;
    enum rota_status status;
    int64_t by; /* the node that answered */
};

/* What the directory knows: the node of the only shard, in each of two zones. Node 0: none. */
static void set_claims(const struct world *world, struct rota_space_directory *directory,
                       const char *name, const int64_t nodes[2], bool is_first_moving)
{
    static const struct rota_str names[] = {{"east", 4}, {"west", 4}};
    const struct rota_space_zones zones = {names, 2};
    const struct rota_str addresses[] = {node_address(&world->nodes[1]),
                                         node_address(&world->nodes[2])};
    struct rota_space_shard shards[2];
    struct rota_error error;
    for (int i = 0; i < 2; i++)
        shards[i] = (struct rota_space_shard){
            .epoch = 1,
            .owner = nodes[i] ? (uint32_t)nodes[i] - 1 : ROTA_SPACE_NOBODY,
            .state = !nodes[i]                   ? ROTA_SPACE_UNOWNED
                     : i == 0 && is_first_moving ? ROTA_SPACE_MOVING
                                                 : ROTA_SPACE_OWNED};
    const struct rota_space_map map = {.name = rota_str(name),
                                       .engine = rota_str("lease"),
                                       .nodes = addresses,
                                       .n_nodes = 2,
                                       .shards = shards,
                                       .n_shards = 1};
    if (rota_space_directory_set(directory, &map, &zones, &error))
        fail_msg("%s", error.text);
}

static void set(const struct world *world, const char *name, int64_t node)
{
    set_claims(world, world->directory.spaces, name, (const int64_t[]){node, 0}, false);
}

static void look_up(void *data)
{
    static const struct rota_store_answer nothing;
    rota_space_directory_looked_up(((struct directory *)data)->spaces, &nothing);
}

static void open_directory(struct directory *directory, const char *address)
{
    struct rota_error error;
    if (rota_server_open(&loop, NULL, &directory->server, &error) ||
        rota_space_directory_open(&loop, directory->server, look_up, directory, &directory->spaces,
                                  &error) ||
        rota_server_listen(directory->server, address, &error))
        fail_msg("%s", error.text);
}

static void close_directory(struct directory *directory)
{
    rota_server_close(directory->server);
    rota_space_directory_close(directory->spaces);
}

static size_t n_watchers(const struct world *world)
{
    return rota_space_directory_n_watchers(world->directory.spaces);
}

static void world_open(struct world *world)
{
    struct rota_error error;
    memset(world, 0, sizeof *world);
    loop_open();
    node_open(&world->nodes[1], 1);
    node_open(&world->nodes[2], 2);
    open_directory(&world->directory, "127.0.0.1:0");
    snprintf(world->first, sizeof world->first, "%s",
             rota_server_address(world->directory.server, 0));
    close_directory(&world->directory);
    open_directory(&world->directory, "127.0.0.1:0");
    const char *addresses[] = {world->first, rota_server_address(world->directory.server, 0)};
    struct rota_shards_options options = {
        .directories = addresses, .n_directories = 2, .connections = 1};
    if (rota_shards_open(&loop, &options, &world->shards, &error))
        fail_msg("%s", error.text);
}

static void world_close(struct world *world)
{
    rota_shards_close(world->shards);
    close_directory(&world->directory);
    for (int i = 1; i <= 2; i++)
        if (world->nodes[i].server)
            node_close(&world->nodes[i]);
    loop_close();
}

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    struct world *world = data;
    world->by = 0;
    for (int i = 1; i <= 2; i++)
        if (world->nodes[i].server &&
            reply->node == rota_space_node(node_address(&world->nodes[i])))
            world->by = i;
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct world *world = data;
    world->status = result->status;
    world->n_done++;
}

static void execute_by(struct world *world, struct rota_shards_name name)
{
    struct rota_shards_request what = {
        .name = name,
        .mode = ROTA_SHARDS_ONE,
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

static void execute(struct world *world, const char *name)
{
    execute_by(world, (struct rota_shards_name){.collection = rota_str(name)});
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
        .name = {.collection = rota_str("books")},
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
    set(&world, "books", 1);
    execute(&world, "books");
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.by, 1);
    world_close(&world);
}

static void database_is_the_first_part_of_a_name(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    set(&world, "fruit", 1);
    set(&world, "cache/fruit", 2);
    execute_by(&world, (struct rota_shards_name){.database = rota_str("default"),
                                                 .collection = rota_str("fruit")});
    assert_int_equal(world.by, 1);
    execute_by(&world, (struct rota_shards_name){.database = rota_str("cache"),
                                                 .collection = rota_str("fruit")});
    assert_int_equal(world.by, 2);
    execute(&world, "cache/fruit");
    assert_int_equal(world.by, 2);
    world_close(&world);
}

static void unknown_collection_is_not_found(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    set(&world, "books", 1);
    execute(&world, "papers");
    assert_int_equal(world.status, ROTA_STATUS_NOT_FOUND);
    execute_by(&world, (struct rota_shards_name){.id = 8});
    assert_int_equal(world.status, ROTA_STATUS_NOT_FOUND);
    execute_by(&world, (struct rota_shards_name){.collection = rota_str("books"), .id = 8});
    assert_int_equal(world.status, ROTA_STATUS_NOT_FOUND);
    set(&world, "papers", 2); /* it is asked for again */
    execute(&world, "papers");
    assert_int_equal(world.status, ROTA_STATUS_OK);
    world_close(&world);
}

/* The client has the map, which says node 1, and hears of changes. */
static void world_open_watching(struct world *world)
{
    world_open(world);
    set(world, "books", 1);
    execute(world, "books");
    assert_int_equal(world->by, 1);
    assert_int_equal(n_watchers(world), 1);
}

/* ... hears that it is node 2 now. */
static void execute_until_moved(struct world *world)
{
    do
        execute(world, "books");
    while (world->status != ROTA_STATUS_OK || world->by != 2);
}

static void change_arrives_without_a_request(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    set(&world, "books", 2);
    execute_until_moved(&world);
    assert_true(has_metric(&world, "rota_shard_cache_questions_total 1\n"));
    assert_true(has_metric(&world, "rota_shard_cache_changes_total 1\n"));
    world_close(&world);
}

static void owner_of_each_zone_is_a_replica(void **state)
{
    struct world world;
    bool has_answered[3] = {0};
    (void)state;
    world_open(&world);
    set_claims(&world, world.directory.spaces, "books", (const int64_t[]){1, 2}, true);
    for (int i = 0; i < 4; i++) {
        execute(&world, "books");
        assert_int_equal(world.by, 2); /* node 1 waits for the former owner */
    }
    set_claims(&world, world.directory.spaces, "books", (const int64_t[]){1, 2}, false);
    while (!has_answered[1] || !has_answered[2]) {
        execute(&world, "books");
        assert_int_equal(world.status, ROTA_STATUS_OK);
        has_answered[world.by] = true;
    }
    assert_true(has_metric(&world, "rota_shard_cache_changes_total 1\n"));
    world_close(&world);
}

static void setting_the_same_content_is_not_a_change(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    set(&world, "books", 1);
    for (int i = 0; i < 20; i++)
        execute(&world, "books");
    assert_true(has_metric(&world, "rota_shard_cache_changes_total 0\n"));
    world_close(&world);
}

static void removed_collection_is_not_found_until_it_is_there_again(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    rota_space_directory_remove(world.directory.spaces, rota_str("books"));
    do
        execute(&world, "books");
    while (world.status == ROTA_STATUS_OK);
    assert_int_equal(world.status, ROTA_STATUS_NOT_FOUND);
    set(&world, "books", 2);
    execute_until_moved(&world);
    world_close(&world);
}

static void directory_that_restarts_is_watched_again(void **state)
{
    struct world world;
    char address[64];
    (void)state;
    world_open_watching(&world);
    snprintf(address, sizeof address, "%s", rota_server_address(world.directory.server, 0));
    close_directory(&world.directory);
    execute(&world, "books"); /* by the map at hand */
    assert_int_equal(world.status, ROTA_STATUS_OK);
    open_directory(&world.directory, address);
    set(&world, "books", 2);
    execute_until_moved(&world);
    world_close(&world);
}

static void directory_that_dies_is_left_for_another_one(void **state)
{
    struct world world;
    (void)state;
    world_open_watching(&world);
    close_directory(&world.directory);
    open_directory(&world.directory, world.first);
    set(&world, "books", 2);
    RUN_UNTIL(n_watchers(&world) == 1);
    execute_until_moved(&world);
    world_close(&world);
}

/* It still names the owner that has died, and sends nothing new. */
static void directory_that_is_behind_is_left_for_another_one(void **state)
{
    struct world world;
    struct directory other;
    (void)state;
    world_open_watching(&world);
    open_directory(&other, world.first);
    set_claims(&world, other.spaces, "books", (const int64_t[]){2, 0}, false);
    node_close(&world.nodes[1]);
    world.nodes[1].server = NULL;
    execute_until_moved(&world);
    close_directory(&other);
    world_close(&world);
}

/* --- what is asked and sent --- */

/* A directory that ends each watch after its first reply. */
struct brief {
    struct world *world;
    size_t n_calls;
    struct rota_server_call *call; /* the last one */
};

static void send_brief_update(const struct brief *brief, struct rota_server_call *call,
                              struct rota_directory_update update, uint32_t shard, uint32_t owner)
{
    struct rota_directory_space_node nodes[2] = {
        {.address = node_address(&brief->world->nodes[1])},
        {.address = node_address(&brief->world->nodes[2])}};
    struct rota_directory_claims_writer writer = {0};
    const struct rota_directory_claim claims[] = {{.shard = 0, .owner = 1, .epoch = 1},
                                                  {.shard = shard, .owner = owner, .epoch = 2}};
    struct rota_buffer head = {0}, list = {0}, reply = {0};
    if (update.is_snapshot)
        update.nodes = (struct rota_message_list){nodes, 2};
    if (update.is_snapshot)
        rota_directory_message_claims_add(&writer, &claims[0], true);
    rota_directory_message_claims_add(&writer, &claims[1], true);
    rota_directory_message_claims_end(&writer, &list);
    rota_message_encode(&ROTA_DIRECTORY_UPDATE, &update, &head);
    rota_directory_message_write_reply(rota_buffer_str(&head), rota_buffer_str(&list), &reply);
    assert_int_equal(rota_server_call_send(call, rota_buffer_str(&reply)), ROTA_OK);
    rota_directory_message_claims_deinit(&writer);
    rota_buffer_deinit(&head);
    rota_buffer_deinit(&list);
    rota_buffer_deinit(&reply);
}

static void on_brief_watch(void *data, struct rota_server_call *call)
{
    struct brief *brief = data;
    struct rota_directory_space_request request;
    struct rota_directory_update update = {
        .history = 5, .version = 7, .is_whole = true, .engine = rota_str("ring"), .n_shards = 2};
    assert_int_equal(rota_message_decode(&ROTA_DIRECTORY_SPACE_REQUEST,
                                         rota_server_call_request(call), &request, NULL, NULL),
                     ROTA_OK);
    brief->call = call;
    if (brief->n_calls++ == 0) {
        assert_true(request.history == 0 && request.version == 0);
        update.is_snapshot = true;
        send_brief_update(brief, call, update, 1, 1);
        return;
    }
    assert_true(request.history == 5 && request.version == 7);
    update.version = 8;
    send_brief_update(brief, call, update, 1, 2); /* shard 1 is at node 2 now; no more is said */
}

static void on_brief_cancel(void *data, struct rota_server_call *call)
{
    ((struct brief *)data)->call = NULL;
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
}

static int64_t execute_at(struct world *world, const char *channel)
{
    struct rota_shards_request what = {.name = {.collection = rota_str("books")},
                                       .mode = ROTA_SHARDS_NAMED,
                                       .channel = rota_str(channel),
                                       .method = rota_str(METHOD_WORK),
                                       .on_reply = on_reply,
                                       .on_done = on_done,
                                       .data = world};
    world->n_done = 0;
    assert_int_equal(rota_shards_execute(world->shards, &what, NULL, NULL), ROTA_OK);
    RUN_UNTIL(world->n_done);
    assert_int_equal(world->status, ROTA_STATUS_OK);
    return world->by;
}

static void watch_that_breaks_resumes_with_what_has_changed_since(void **state)
{
    struct world world = {0};
    struct brief brief = {.world = &world};
    struct rota_server *server;
    const struct rota_server_method method = {.path = "/rota.v1.Directory/WatchSpace",
                                              .on_call = on_brief_watch,
                                              .on_cancel = on_brief_cancel,
                                              .data = &brief};
    (void)state;
    loop_open();
    node_open(&world.nodes[1], 1);
    node_open(&world.nodes[2], 2);
    assert_int_equal(rota_server_open(&loop, NULL, &server, NULL), ROTA_OK);
    assert_int_equal(rota_server_add(server, &method, NULL), ROTA_OK);
    assert_int_equal(rota_server_listen(server, "127.0.0.1:0", NULL), ROTA_OK);
    const char *address = rota_server_address(server, 0);
    const struct rota_shards_options options = {
        .directories = &address, .n_directories = 1, .connections = 1};
    assert_int_equal(rota_shards_open(&loop, &options, &world.shards, NULL), ROTA_OK);
    assert_int_equal(execute_at(&world, "0"), 1);
    assert_int_equal(execute_at(&world, "1"), 1);
    rota_server_call_finish(brief.call, ROTA_STATUS_UNAVAILABLE, "it restarts", NULL, 0);
    while (execute_at(&world, "1") != 2)
        ;
    assert_int_equal(execute_at(&world, "0"), 1); /* what was not sent again still counts */
    assert_int_equal(brief.n_calls, 2);
    rota_shards_close(world.shards);
    rota_server_close(server);
    node_close(&world.nodes[1]);
    node_close(&world.nodes[2]);
    loop_close();
}

static void garbage_is_refused_and_the_next_is_served(void **state)
{
    static const char *const methods[] = {"/rota.v1.Directory/GetSpace",
                                          "/rota.v1.Directory/WatchSpace"};
    struct world world;
    struct rota_channel *channel;
    struct rota_reply reply;
    (void)state;
    world_open(&world);
    set(&world, "books", 1);
    assert_int_equal(rota_channel_open(&loop, rota_server_address(world.directory.server, 0), NULL,
                                       &channel, NULL),
                     ROTA_OK);
    for (int i = 0; i < 4; i++) {
        struct rota_call_options options = {.method = rota_str(methods[i % 2]),
                                            .request = rota_str(i < 2 ? "\xff\xff\xff" : "")};
        assert_int_equal(rota_channel_wait(channel, &options, &reply, NULL), ROTA_OK);
        assert_int_equal(reply.status, ROTA_STATUS_INVALID_ARGUMENT);
        rota_reply_deinit(&reply);
    }
    rota_channel_close(channel);
    execute(&world, "books");
    assert_int_equal(world.status, ROTA_STATUS_OK);
    world_close(&world);
}

static void longest_names_are_found_and_longer_ones_are_not(void **state)
{
    enum { HALF = 100, LONGEST = 200 };
    struct world world;
    static char name[LONGEST + 1], space[LONGEST + 1];
    (void)state;
    world_open(&world);
    memset(name, 'n', sizeof name);
    memset(space, 'n', LONGEST);
    space[HALF - 1] = '/';
    set(&world, space, 1);
    execute_by(&world, (struct rota_shards_name){.database = rota_str_of(name, HALF - 1),
                                                 .collection = rota_str_of(name, LONGEST - HALF)});
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.by, 1);
    execute_by(&world,
               (struct rota_shards_name){.database = rota_str_of(name, HALF - 1),
                                         .collection = rota_str_of(name, LONGEST - HALF + 1)});
    assert_int_equal(world.status, ROTA_STATUS_INVALID_ARGUMENT);
    execute_by(&world, (struct rota_shards_name){.collection = rota_str_of("a\0b", 3)});
    assert_int_equal(world.status, ROTA_STATUS_INVALID_ARGUMENT);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_finds_the_directory_that_is_there),
        cmocka_unit_test(database_is_the_first_part_of_a_name),
        cmocka_unit_test(directory_that_does_not_answer_is_named),
        cmocka_unit_test(call_outlasts_a_question_that_times_out),
        cmocka_unit_test(unknown_collection_is_not_found),
        cmocka_unit_test(longest_names_are_found_and_longer_ones_are_not),
        cmocka_unit_test(change_arrives_without_a_request),
        cmocka_unit_test(owner_of_each_zone_is_a_replica),
        cmocka_unit_test(setting_the_same_content_is_not_a_change),
        cmocka_unit_test(removed_collection_is_not_found_until_it_is_there_again),
        cmocka_unit_test(directory_that_restarts_is_watched_again),
        cmocka_unit_test(directory_that_dies_is_left_for_another_one),
        cmocka_unit_test(directory_that_is_behind_is_left_for_another_one),
        cmocka_unit_test(watch_that_breaks_resumes_with_what_has_changed_since),
        cmocka_unit_test(garbage_is_refused_and_the_next_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
