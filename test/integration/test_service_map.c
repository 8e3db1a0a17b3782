/* The maps of spaces as a directory serves them, and clients that follow: many shards, many
 * clients, slow ones, and what is rejected. */
#include "await.h"
#include "loop.h"
#include "run/call/map_watch.h"
#include "run/call/space_directory.h"
#include "wire/message/directory_message.h"

#include <rota/experimental/channel.h>
#include <rota/experimental/store_ask.h>
#include <rota/service_client.h>
#include <rota/space.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 100000, FEW = 8, CLIENTS = 100, MESSAGE_MAX = 1 << 20 };

struct member {
    struct rota_space *space;
    bool is_closed;
};

static char folder[64], url[128];
static struct rota_store *store;
static struct rota_server *server;
static struct rota_space_directory *directory;
static struct member members[2];
static size_t n_look_ups;
static enum rota_code look_up_code;
static const struct rota_store_answer nothing;

static void fail_with(const struct rota_error *error)
{
    fail_msg("%s", error->text);
}

static void look_up(void *data)
{
    (void)data;
    n_look_ups++;
    if (look_up_code != ROTA_ERR_UNKNOWN) /* else the store does not respond */
        rota_space_directory_looked_up(directory, look_up_code ? NULL : &nothing);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    (void)until;
    rota_space_stopped(((struct member *)data)->space, shard, epoch);
}

static void on_change(void *data)
{
    struct member *member = data;
    if (member == &members[0] && member->space)
        rota_space_directory_set(directory, rota_space_map(member->space), NULL, NULL);
}

static void join(struct member *member, const char *address, uint32_t n_shards)
{
    struct rota_error error;
    const struct rota_space_options options = {
        .name = "things",
        .member = address,
        .engine = "ring",
        .n_shards = n_shards,
        .is_alone = true,
        .ttl = 5 * ROTA_SEC,
        .on_stop = on_stop,
        .on_change = on_change,
        .data = member,
    };
    member->is_closed = false;
    if (rota_space_open(&loop, store, &options, &member->space, &error))
        fail_with(&error);
}

static void on_closed(void *data)
{
    ((struct member *)data)->is_closed = true;
}

static void leave(struct member *member)
{
    struct rota_space *space = member->space;
    if (!space)
        return;
    rota_space_close(space, on_closed, member);
    RUN_UNTIL(member->is_closed);
    member->space = NULL;
}

static int set_up(void **state)
{
    struct rota_error error;
    loop_set_up(state);
    snprintf(folder, sizeof folder, "/tmp/rota-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof url, "sqlite:%s/store.db", folder);
    const struct rota_store_options options = {.url = url, .statement_timeout = 60 * ROTA_SEC};
    n_look_ups = 0;
    look_up_code = ROTA_OK;
    memset(members, 0, sizeof members);
    if (rota_store_open(&loop, &options, &store, &error) ||
        rota_server_open(&loop, NULL, &server, &error) ||
        rota_space_directory_open(&loop, server, look_up, NULL, &directory, &error) ||
        rota_server_listen(server, "127.0.0.1:0", &error))
        fail_with(&error);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    rota_space_directory_end(directory);
    leave(&members[1]);
    leave(&members[0]);
    rota_server_close(server);
    rota_space_directory_close(directory);
    rota_store_close(store);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return loop_tear_down(state);
}

/* The first member's map is the one that the directory serves. */
static const struct rota_space_map *truth(void)
{
    return rota_space_map(members[0].space);
}

static void serve_space(uint32_t n_shards)
{
    struct rota_error error;
    join(&members[0], "127.0.0.1:7001", n_shards);
    if (rota_space_directory_set(directory, rota_space_map(members[0].space), NULL, &error))
        fail_with(&error);
    RUN_UNTIL(truth()->n_owned == n_shards);
}

static struct rota_service_client *open_client(void)
{
    struct rota_service_client *client = NULL;
    struct rota_error error;
    const char *address = rota_server_address(server, 0);
    const struct rota_service_client_options options = {.nodes = &address, .n_nodes = 1};
    if (rota_service_client_open(&loop, &options, &client, &error) ||
        rota_service_client_follow(client, rota_str("things"), &error))
        fail_with(&error);
    return client;
}

static bool knows_shard(struct rota_service_client *client, uint32_t shard)
{
    const struct rota_space_shard *known = &truth()->shards[shard];
    struct rota_service_view view;
    bool is_owned = known->state == ROTA_SPACE_OWNED;
    return rota_service_client_look(client, rota_str("things"), shard, &view) &&
           view.n_shards == truth()->n_shards &&
           view.is_moving == (known->state == ROTA_SPACE_MOVING) &&
           rota_str_is_equal(view.owner, is_owned ? truth()->nodes[known->owner] : rota_str("")) &&
           view.epoch == (is_owned ? known->epoch : 0);
}

static bool knows_all(struct rota_service_client *client)
{
    for (uint32_t i = 0; i < truth()->n_shards; i++)
        if (!knows_shard(client, i))
            return false;
    return true;
}

static void on_outcome(void *data, const struct rota_space_outcome *outcome)
{
    assert_int_equal(outcome->code, ROTA_OK);
    *(bool *)data = true;
}

static void pin(uint32_t shard, const char *node)
{
    bool is_done = false;
    struct rota_error error;
    if (rota_space_pin(members[0].space, shard, rota_str(node), false, on_outcome, &is_done,
                       &error))
        fail_with(&error);
    RUN_UNTIL(is_done);
    RUN_UNTIL(truth()->n_owned == truth()->n_shards &&
              rota_str_is_equal(truth()->nodes[truth()->shards[shard].owner], rota_str(node)));
}

static void a_change_of_many_shards_reaches_many_clients(void **state)
{
    struct rota_service_client *clients[CLIENTS];
    (void)state;
    serve_space(MANY);
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i] = open_client();
    for (size_t i = 0; i < CLIENTS; i++)
        RUN_UNTIL(knows_all(clients[i]));
    join(&members[1], "127.0.0.1:7002", MANY); /* about half of them move */
    RUN_UNTIL(rota_space_map(members[1].space)->n_held > MANY / 4 && truth()->n_owned == MANY);
    for (size_t i = 0; i < CLIENTS; i++)
        RUN_UNTIL(knows_all(clients[i]));
    const char *owner = truth()->shards[MANY / 2].owner == truth()->shards[0].owner
                            ? "127.0.0.1:7002"
                            : "127.0.0.1:7001";
    pin(MANY / 2, owner);
    for (size_t i = 0; i < CLIENTS; i++)
        RUN_UNTIL(knows_shard(clients[i], MANY / 2));
    for (size_t i = 0; i < CLIENTS; i++)
        rota_service_client_close(clients[i]);
}

/* --- the protocol --- */

struct stream {
    struct rota_call *call;
    struct rota_space_table table;
    size_t n_messages, n_bytes, n_max;
    bool has_ended;
    enum rota_status status;
    char text[256];
};

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct stream *stream = data;
    struct rota_error error;
    bool is_whole;
    (void)call;
    stream->n_messages++;
    stream->n_bytes += message.size;
    stream->n_max = message.size > stream->n_max ? message.size : stream->n_max;
    if (rota_map_watch_apply(&stream->table, message, &is_whole, &error))
        fail_with(&error);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct stream *stream = data;
    if (result->status == ROTA_STATUS_OK && result->message.size > 0)
        on_message(data, call, result->message);
    stream->status = result->status;
    snprintf(stream->text, sizeof stream->text, "%.*s", ROTA_STR_ARGS(result->text));
    stream->has_ended = true;
    stream->call = NULL;
}

static struct rota_channel *open_channel(void)
{
    struct rota_channel *channel = NULL;
    struct rota_error error;
    if (rota_channel_open(&loop, rota_server_address(server, 0), NULL, &channel, &error))
        fail_with(&error);
    return channel;
}

static void ask(struct rota_channel *channel, struct stream *stream, bool is_watch,
                const char *space)
{
    const struct rota_directory_space_request message = {.space = rota_str(space),
                                                         .history = stream->table.history,
                                                         .version = stream->table.version};
    struct rota_buffer request = {0};
    struct rota_error error;
    rota_message_encode(&ROTA_DIRECTORY_SPACE_REQUEST, &message, &request);
    const struct rota_call_options options = {
        .method =
            rota_str(is_watch ? "/rota.v1.Directory/WatchSpace" : "/rota.v1.Directory/GetSpace"),
        .request = rota_buffer_str(&request),
        .on_message = is_watch ? on_message : NULL,
        .on_end = on_end,
        .data = stream,
    };
    stream->has_ended = false;
    if (rota_channel_call(channel, &options, &stream->call, &error))
        fail_with(&error);
    rota_buffer_deinit(&request);
}

static void snapshot_is_small_and_in_parts(void **state)
{
    struct rota_channel *channel = open_channel();
    struct stream stream = {0};
    (void)state;
    serve_space(MANY);
    rota_space_table_init(&stream.table, 1);
    ask(channel, &stream, true, "things");
    RUN_UNTIL(stream.table.is_known);
    assert_true(stream.n_messages > 1 && stream.n_bytes < MESSAGE_MAX);
    assert_true(stream.n_max < MESSAGE_MAX / 4);
    rota_call_cancel(stream.call);
    rota_space_table_deinit(&stream.table);
    rota_channel_close(channel);
}

static void get_returns_what_the_client_does_not_have(void **state)
{
    struct rota_channel *channel = open_channel();
    struct stream stream = {0};
    (void)state;
    serve_space(FEW);
    join(&members[1], "127.0.0.1:7002", FEW);
    RUN_UNTIL(rota_space_map(members[1].space)->n_held > 0 && truth()->n_owned == FEW);
    rota_space_table_init(&stream.table, 1);
    ask(channel, &stream, false, "things");
    RUN_UNTIL(stream.has_ended);
    assert_int_equal(stream.status, ROTA_STATUS_OK);
    size_t n_whole = stream.n_bytes;
    uint64_t version = stream.table.version;
    pin(3, "127.0.0.1:7001");
    pin(3, "127.0.0.1:7002");
    ask(channel, &stream, false, "things");
    RUN_UNTIL(stream.has_ended);
    assert_true(stream.table.version > version);
    assert_true(stream.n_bytes - n_whole < n_whole + 40);
    ask(channel, &stream, false, "things");
    RUN_UNTIL(stream.has_ended);
    assert_int_equal(stream.n_messages, 3);
    assert_int_equal(stream.table.now.zones[0].claims[3].epoch, truth()->shards[3].epoch);
    rota_space_table_deinit(&stream.table);
    rota_channel_close(channel);
}

static void a_slow_client_gets_the_last_state(void **state)
{
    struct rota_channel *channel = open_channel();
    struct stream stream = {0};
    (void)state;
    serve_space(MANY);
    rota_space_table_init(&stream.table, 1);
    ask(channel, &stream, true, "things");
    RUN_UNTIL(stream.n_messages > 0);
    rota_call_pause(stream.call);
    join(&members[1], "127.0.0.1:7002", MANY);
    RUN_UNTIL(rota_space_map(members[1].space)->n_held > MANY / 4 && truth()->n_owned == MANY);
    for (int i = 0; i < 5; i++) {
        pin(1, "127.0.0.1:7001");
        pin(1, "127.0.0.1:7002");
    }
    rota_call_resume(stream.call);
    RUN_UNTIL(stream.table.is_known &&
              stream.table.now.zones[0].claims[1].epoch == truth()->shards[1].epoch);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(stream.table.now.zones[0].claims[i].epoch, truth()->shards[i].epoch);
    rota_call_cancel(stream.call);
    rota_space_table_deinit(&stream.table);
    rota_channel_close(channel);
}

static void only_the_store_says_that_there_is_no_space(void **state)
{
    char too_long[ROTA_SPACE_DIRECTORY_NAME_MAX + 2] = {0};
    memset(too_long, 'x', sizeof too_long - 1);
    struct rota_channel *channel = open_channel();
    struct stream stream = {0};
    (void)state;
    for (int is_watch = 0; is_watch < 2; is_watch++) {
        look_up_code = ROTA_OK;
        ask(channel, &stream, is_watch, "other");
        RUN_UNTIL(stream.has_ended);
        assert_int_equal(stream.status, ROTA_STATUS_NOT_FOUND);
        assert_non_null(strstr(stream.text, "other"));
        look_up_code = ROTA_ERR_UNAVAILABLE;
        ask(channel, &stream, is_watch, "other");
        RUN_UNTIL(stream.has_ended);
        assert_int_equal(stream.status, ROTA_STATUS_UNAVAILABLE);
        ask(channel, &stream, is_watch, "");
        RUN_UNTIL(stream.has_ended);
        assert_int_equal(stream.status, ROTA_STATUS_INVALID_ARGUMENT);
        ask(channel, &stream, is_watch, too_long);
        RUN_UNTIL(stream.has_ended);
        assert_int_equal(stream.status, ROTA_STATUS_INVALID_ARGUMENT);
    }
    look_up_code = ROTA_ERR_UNKNOWN;
    ask(channel, &stream, true, "other");
    RUN_UNTIL(stream.has_ended); /* after a while */
    assert_int_equal(stream.status, ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(n_look_ups, 5);
    assert_int_equal(rota_space_directory_n_watchers(directory), 0);
    rota_channel_close(channel);
}

static void a_client_waits_for_a_space_that_is_just_opened(void **state)
{
    struct rota_channel *channel = open_channel();
    struct stream stream = {0};
    struct rota_error error;
    (void)state;
    rota_space_table_init(&stream.table, 1);
    look_up_code = ROTA_ERR_UNKNOWN;
    ask(channel, &stream, true, "things");
    RUN_UNTIL(n_look_ups == 1);
    join(&members[0], "127.0.0.1:7001", FEW);
    if (rota_space_directory_set(directory, rota_space_map(members[0].space), NULL, &error))
        fail_with(&error);
    rota_space_directory_looked_up(directory, &nothing);
    RUN_UNTIL(stream.table.is_known && stream.table.now.zones[0].claims[0].owner > 0);
    rota_call_cancel(stream.call);
    rota_space_table_deinit(&stream.table);
    rota_channel_close(channel);
}

static void a_watch_of_a_space_that_is_deleted_ends(void **state)
{
    struct rota_channel *channel = open_channel();
    struct stream stream = {0};
    (void)state;
    serve_space(FEW);
    rota_space_table_init(&stream.table, 1);
    ask(channel, &stream, true, "things");
    RUN_UNTIL(stream.table.is_known);
    rota_space_directory_remove(directory, rota_str("things"));
    RUN_UNTIL(stream.has_ended);
    assert_int_equal(stream.status, ROTA_STATUS_NOT_FOUND);
    rota_space_table_deinit(&stream.table);
    rota_channel_close(channel);
}

static void on_reply(void *data, const struct rota_service_reply *reply)
{
    (void)data, (void)reply;
}

static void requests_that_make_no_sense_are_rejected(void **state)
{
    struct rota_service_client *client = open_client();
    const struct rota_service_request good = {
        .space = rota_str("things"), .method = rota_str("/a.B/C"), .on_reply = on_reply};
    struct rota_service_request bad[6];
    struct rota_metadata pairs[ROTA_SERVICE_METADATA_MAX + 1] = {0};
    struct rota_service_client_options none = {0};
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].on_reply = NULL;
    bad[1].repeat = (enum rota_call_repeat)7;
    bad[2].method = rota_str("a.B/C");
    bad[3].space = rota_str("");
    bad[4].timeout = -1;
    bad[5].metadata = pairs;
    bad[5].n_metadata = ROTA_SERVICE_METADATA_MAX + 1;
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(rota_service_client_call(client, &bad[i], NULL, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_service_client_call(client, &good, NULL, &error), ROTA_OK);
    rota_service_client_close(client); /* with a call that waits */
    assert_int_equal(rota_service_client_open(&loop, &none, &client, &error), ROTA_ERR_INVALID);
}

/* --- calls, to a server of the space that is this process --- */

struct handler {
    struct rota_server_call *call;
    size_t n_calls, n_cancelled;
    char note[32], shard[32], epoch[32];
};

static void copy_note(struct rota_server_call *call, const char *name, char *text, size_t size)
{
    size_t n;
    const struct rota_metadata *metadata = rota_server_call_metadata(call, &n);
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(metadata[i].name, rota_str(name)))
            snprintf(text, size, "%.*s", (int)metadata[i].value.size, metadata[i].value.data);
}

static void on_call(void *data, struct rota_server_call *call)
{
    struct handler *handler = data;
    handler->call = call;
    handler->n_calls++;
    copy_note(call, "color", handler->note, sizeof handler->note);
    copy_note(call, "rota-shard", handler->shard, sizeof handler->shard);
    copy_note(call, "rota-epoch", handler->epoch, sizeof handler->epoch);
    if (strcmp(handler->note, "keep") != 0)
        rota_server_call_reply(call, rota_server_call_request(call));
}

static void on_cancel(void *data, struct rota_server_call *call)
{
    ((struct handler *)data)->n_cancelled++;
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, "", NULL, 0);
}

static void fail_on_reply(void *data, const struct rota_service_reply *reply)
{
    (void)data;
    fail_msg("a cancelled call was answered: %.*s", (int)reply->text.size, reply->text.data);
}

static void serve_things(struct handler *handler)
{
    const struct rota_server_method method = {
        .path = "/a.B/C", .on_call = on_call, .on_cancel = on_cancel, .data = handler};
    struct rota_error error;
    *handler = (struct handler){0};
    join(&members[0], rota_server_address(server, 0), FEW);
    if (rota_server_add(server, &method, &error) ||
        rota_space_directory_set(directory, rota_space_map(members[0].space), NULL, &error))
        fail_with(&error);
    RUN_UNTIL(truth()->n_owned == FEW);
}

static void call_brings_its_metadata_and_names_shard_and_epoch(void **state)
{
    struct handler handler;
    const struct rota_metadata color = {rota_str("color"), rota_str("blue")};
    struct rota_service_request request = {.space = rota_str("things"),
                                           .has_shard = true,
                                           .shard = 3,
                                           .method = rota_str("/a.B/C"),
                                           .request = rota_str("bytes"),
                                           .metadata = &color,
                                           .n_metadata = 1};
    struct rota_service_answer answer;
    struct rota_error error;
    char epoch[32];
    (void)state;
    serve_things(&handler);
    struct rota_service_client *client = open_client();
    if (rota_service_client_wait(client, &request, &answer, &error))
        fail_with(&error);
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)truth()->shards[3].epoch);
    assert_int_equal(answer.status, ROTA_STATUS_OK);
    assert_string_equal(answer.message, "bytes");
    assert_int_equal(answer.size, 5);
    assert_string_equal(answer.node, rota_server_address(server, 0));
    assert_int_equal(answer.shard, 3);
    assert_int_equal(answer.n_tries, 1);
    assert_int_equal(answer.epoch, truth()->shards[3].epoch);
    assert_string_equal(handler.note, "blue");
    assert_string_equal(handler.shard, "things/3");
    assert_string_equal(handler.epoch, epoch);
    rota_service_answer_deinit(&answer);

    request.shard = FEW; /* which the space does not have */
    if (rota_service_client_wait(client, &request, &answer, &error))
        fail_with(&error);
    assert_int_equal(answer.status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_null(answer.message);
    assert_false(answer.may_have_run);
    assert_int_equal(handler.n_calls, 1);
    rota_service_answer_deinit(&answer);
    rota_service_client_close(client);
}

static void cancelled_call_ends_at_the_server_and_is_not_answered(void **state)
{
    struct handler handler;
    const struct rota_metadata keep = {rota_str("color"), rota_str("keep")};
    const struct rota_service_request request = {.space = rota_str("things"),
                                                 .key = rota_str("k"),
                                                 .method = rota_str("/a.B/C"),
                                                 .metadata = &keep,
                                                 .n_metadata = 1,
                                                 .on_reply = fail_on_reply};
    struct rota_service_call *call;
    struct rota_service_answer answer;
    struct rota_error error;
    (void)state;
    serve_things(&handler);
    struct rota_service_client *client = open_client();
    for (size_t i = 1; i <= 3; i++) {
        if (rota_service_client_call(client, &request, &call, &error))
            fail_with(&error);
        RUN_UNTIL(handler.n_calls == i);
        rota_service_call_cancel(call);
        RUN_UNTIL(handler.n_cancelled == i);
    }
    if (rota_service_client_call(client, &request, &call, &error))
        fail_with(&error);
    rota_service_call_cancel(call); /* before it is sent */
    struct rota_service_request next = request;
    next.n_metadata = 0;
    handler.note[0] = '\0';
    if (rota_service_client_wait(client, &next, &answer, &error))
        fail_with(&error);
    assert_int_equal(answer.status, ROTA_STATUS_OK);
    assert_int_equal(handler.n_calls, 4);
    rota_service_answer_deinit(&answer);
    rota_service_client_close(client);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_change_of_many_shards_reaches_many_clients),
        RULE(snapshot_is_small_and_in_parts),
        RULE(get_returns_what_the_client_does_not_have),
        RULE(a_slow_client_gets_the_last_state),
        RULE(only_the_store_says_that_there_is_no_space),
        RULE(a_client_waits_for_a_space_that_is_just_opened),
        RULE(a_watch_of_a_space_that_is_deleted_ends),
        RULE(requests_that_make_no_sense_are_rejected),
        RULE(call_brings_its_metadata_and_names_shard_and_epoch),
        RULE(cancelled_call_ends_at_the_server_and_is_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
