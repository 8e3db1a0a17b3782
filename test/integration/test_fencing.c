/* Only the owner of a shard serves it: real servers, and a client that follows redirects. */
#include "calls.h"

#include <stdio.h>

/* Nodes with a fenced method, and a client whose map says who has shard "a". */
struct world {
    struct node nodes[NODES + 1]; /* by id */
    struct rota_shards *shards;
    struct rota_replica replica;
    struct rota_shard_channel channel;
    size_t n_asked, n_done;
    enum rota_status status;
    int64_t by;
    char text[256];
};

static void ask(void *data, struct rota_shards *shards, uint64_t question,
                const struct rota_shards_name *name)
{
    struct world *world = data;
    struct rota_shards_map map = {.id = 1, .channels = &world->channel, .n_channels = 1};
    (void)name;
    world->n_asked++;
    rota_shards_tell(shards, question, &map, NULL);
}

/* What the directory says. */
static void place(struct world *world, int64_t node, uint64_t epoch)
{
    world->replica = node_replica(&world->nodes[node], epoch);
    world->channel = (struct rota_shard_channel){rota_str("a"), &world->replica, 1};
}

static void world_open(struct world *world)
{
    struct rota_shards_source source = {.ask = ask, .data = world};
    struct rota_shards_options options = {.source = &source, .connections = 1, .seed = 1};
    struct rota_error error;
    memset(world, 0, sizeof *world);
    loop_open();
    for (int64_t id = 1; id <= NODES; id++)
        node_open_with(&world->nodes[id], id, (struct rota_server_options){0}, true);
    place(world, 1, 5);
    if (rota_shards_open(&loop, &options, &world->shards, &error))
        fail_msg("%s", error.text);
}

static void world_close(struct world *world)
{
    rota_shards_close(world->shards);
    for (int64_t id = 1; id <= NODES; id++)
        node_close(&world->nodes[id]);
    for (int64_t id = 1; id <= NODES; id++)
        for (size_t i = 0; i < world->nodes[id].n_kept; i++)
            rota_server_call_finish(world->nodes[id].kept[i], ROTA_STATUS_OK, NULL, NULL, 0);
    loop_close();
}

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    ((struct world *)data)->by = reply->node;
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct world *world = data;
    world->n_done++;
    world->status = result->status;
    copy_str(world->text, sizeof world->text, result->text);
}

/* A call that may be done again only when it was refused. */
static void execute(struct world *world)
{
    struct rota_shards_request request = {
        .name = {.database = rota_str("db"), .collection = rota_str("books")},
        .mode = ROTA_SHARDS_NAMED,
        .channel = rota_str("a"),
        .method = rota_str(METHOD_WORK),
        .request = rota_str("hello"),
        .repeat = ROTA_REPEAT_REFUSED,
        .timeout = 20 * ROTA_SEC,
        .on_reply = on_reply,
        .on_done = on_done,
        .data = world,
    };
    struct rota_error error;
    world->n_done = 0;
    world->by = 0;
    if (rota_shards_execute(world->shards, &request, NULL, &error))
        fail_msg("%s", error.text);
    RUN_UNTIL(world->n_done);
}

static void owner_serves(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[1], 5);
    execute(&world);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.by, 1);
    assert_string_equal(world.nodes[1].epoch, "5");
    world_close(&world);
}

static void owner_that_was_replaced_sends_the_client_on(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[1], 5);
    execute(&world);
    assert_int_equal(world.by, 1);

    /* Node 1 sleeps through its loss, and hears of it as it wakes up. */
    node_claim(&world.nodes[2], "a", &world.nodes[2], 6);
    node_claim(&world.nodes[1], "a", &world.nodes[2], 6);
    for (int i = 0; i < 3; i++) {
        execute(&world);
        assert_int_equal(world.status, ROTA_STATUS_OK);
        assert_int_equal(world.by, 2);
        assert_string_equal(world.nodes[2].epoch, "6");
    }
    assert_int_equal(world.nodes[1].n_calls, 1); /* its handler saw none of these */
    assert_int_equal(world.n_asked, 1);          /* the refusal told who has it */
    assert_int_equal(rota_server_counts(world.nodes[1].server).refused_total, 1);
    world_close(&world);
}

static void owner_that_took_the_shard_again_is_called_under_its_new_epoch(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[1], 8);
    execute(&world);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.by, 1);
    assert_string_equal(world.nodes[1].epoch, "8");
    assert_int_equal(world.n_asked, 1);
    world_close(&world);
}

static void claim_that_has_run_out_is_not_served(void **state)
{
    struct world world;
    struct rota_error error;
    struct ended ended;
    (void)state;
    world_open(&world);
    struct rota_claim claim = {.space = rota_str("1"),
                               .shard = rota_str("a"),
                               .node = 1,
                               .epoch = 5,
                               .address = node_address(&world.nodes[1]),
                               .is_held = true,
                               .until = 1}; /* long ago: nobody told, the clock did */
    assert_int_equal(rota_claims_set(world.nodes[1].claims, &claim, &error), ROTA_OK);
    struct rota_channel *channel = channel_to(&world.nodes[1]);
    call_wait(channel, "1/a", "5", &ended);
    assert_int_equal(ended.status, ROTA_STATUS_ABORTED);
    assert_string_equal(ended.failure, "stale");
    assert_string_equal(ended.claim, "");
    assert_int_equal(world.nodes[1].n_calls, 0);
    rota_channel_close(channel);
    world_close(&world);
}

static void outdated_owner_rejects_a_later_epoch(void **state)
{
    struct world world;
    struct ended ended;
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[1], 5);
    struct rota_channel *channel = channel_to(&world.nodes[1]);
    call_wait(channel, "1/a", "6", &ended);
    assert_int_equal(ended.status, ROTA_STATUS_ABORTED);
    assert_string_equal(ended.failure, "stale");
    assert_string_equal(ended.claim, ""); /* ours is no news to the caller */
    assert_string_equal(ended.text,
                        "epoch 6 of shard 1/a is unknown here so far: the last known epoch is 5");
    assert_int_equal(world.nodes[1].n_calls, 0);
    rota_channel_close(channel);
    world_close(&world);
}

static void client_that_is_ahead_is_served_when_the_node_catches_up(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[1], 5);
    node_claim(&world.nodes[2], "a", &world.nodes[2], 6);
    execute(&world);
    place(&world, 2, 7); /* the directory is ahead of node 2 permanently, */
    rota_shards_replace(world.shards, &(struct rota_shards_map){
                                          .id = 1, .channels = &world.channel, .n_channels = 1});
    place(&world, 3, 8); /* and then names another */
    node_claim(&world.nodes[3], "a", &world.nodes[3], 8);
    execute(&world);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.by, 3);
    assert_int_equal(world.nodes[2].n_calls, 0);
    world_close(&world);
}

static void refusal_names_the_claim(void **state)
{
    struct world world;
    struct ended ended;
    char claim[128];
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[2], 6);
    snprintf(claim, sizeof claim, "2 6 %.*s", ROTA_STR_ARGS(node_address(&world.nodes[2])));
    struct rota_channel *channel = channel_to(&world.nodes[1]);
    call_wait(channel, "1/a", "5", &ended);
    assert_int_equal(ended.status, ROTA_STATUS_ABORTED);
    assert_string_equal(ended.failure, "stale");
    assert_string_equal(ended.claim, claim);
    assert_string_equal(ended.text, "epoch 5 of shard 1/a is stale: the current epoch is 6");
    call_wait(channel, "1/b", "5", &ended);
    assert_string_equal(ended.text, "this server does not own shard 1/b");
    assert_string_equal(ended.claim, "");
    rota_channel_close(channel);
    world_close(&world);
}

static void fenced_method_refuses_calls_without_notes(void **state)
{
    static const char *const notes[][2] = {{NULL, NULL},    {"1/a", NULL}, {NULL, "5"},
                                           {"1/a", "five"}, {"1a", "5"},   {"1/%zz", "5"}};
    struct world world;
    struct ended ended;
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[1], 5);
    struct rota_channel *channel = channel_to(&world.nodes[1]);
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        call_wait(channel, notes[i][0], notes[i][1], &ended);
        assert_int_equal(ended.status, ROTA_STATUS_FAILED_PRECONDITION);
        assert_non_null(strstr(ended.text, "its shard and epoch"));
    }
    assert_int_equal(world.nodes[1].n_calls, 0);
    call_wait(channel, "%31/%61", "5", &ended); /* the same names, written otherwise */
    assert_int_equal(ended.status, ROTA_STATUS_OK);
    rota_channel_close(channel);
    world_close(&world);
}

static void fenced_method_needs_claims(void **state)
{
    struct rota_server *server;
    struct rota_error error;
    const struct rota_server_method work = {
        .path = METHOD_WORK, .on_call = node_on_call, .is_fenced = true};
    (void)state;
    loop_open();
    assert_int_equal(rota_server_open(&loop, NULL, &server, &error), ROTA_OK);
    assert_int_equal(rota_server_add(server, &work, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "has no claims"));
    rota_server_close(server);
    loop_close();
}

static void handler_learns_that_its_claim_was_lost(void **state)
{
    struct world world;
    struct ended ended;
    (void)state;
    world_open(&world);
    struct node *node = &world.nodes[1];
    node_claim(node, "a", node, 5);
    node->is_keeping = true;
    struct rota_channel *channel = channel_to(node);
    call_start(channel, "1/a", "5", 0, &ended);
    RUN_UNTIL(node->n_kept);
    assert_true(rota_server_call_is_current(node->kept[0]));
    assert_true(rota_claims_drop(node->claims, rota_str("1"), rota_str("a"), 5));
    assert_false(rota_server_call_is_current(node->kept[0]));
    node_claim(node, "a", node, 7); /* ours again, but not by that claim */
    assert_false(rota_server_call_is_current(node->kept[0]));
    rota_server_call_refuse(node->kept[--node->n_kept]);
    RUN_UNTIL(ended.n);
    assert_int_equal(ended.status, ROTA_STATUS_ABORTED);
    assert_string_equal(ended.failure, "stale");
    assert_string_equal(ended.text, "epoch 5 of shard 1/a is stale: the current epoch is 7");
    assert_true(strncmp(ended.claim, "1 7 ", 4) == 0);
    rota_channel_close(channel);
    world_close(&world);
}

static void handler_can_reject_a_call_without_a_claim(void **state)
{
    struct node node;
    struct ended ended;
    (void)state;
    loop_open();
    node_open(&node, 1);
    node.is_keeping = true;
    struct rota_channel *channel = channel_to(&node);
    call_start(channel, NULL, NULL, 0, &ended);
    RUN_UNTIL(node.n_kept);
    assert_true(rota_server_call_is_current(node.kept[0]));
    rota_server_call_refuse(node.kept[--node.n_kept]);
    RUN_UNTIL(ended.n);
    assert_int_equal(ended.status, ROTA_STATUS_ABORTED);
    assert_string_equal(ended.failure, "stale");
    rota_channel_close(channel);
    node_close(&node);
    loop_close();
}

/* Answers with what it knows of its shard. */
static void answer_shard(void *data, struct rota_server_call *call)
{
    struct rota_str space = rota_str("none"), shard = rota_str("none");
    char text[128];
    uint64_t epoch = 0;
    (void)data;
    bool is_there = rota_server_call_shard(call, &space, &shard, &epoch);
    snprintf(text, sizeof text, "%d %.*s %.*s %llu", is_there, ROTA_STR_ARGS(space),
             ROTA_STR_ARGS(shard), (unsigned long long)epoch);
    rota_server_call_reply(call, rota_str(text));
}

static void check_shard(struct rota_channel *channel, const char *shard, const char *epoch,
                        const char *expected)
{
    const struct rota_metadata notes[] = {{rota_str("rota-shard"), rota_str(shard)},
                                          {rota_str("rota-epoch"), rota_str(epoch)}};
    const struct rota_call_options options = {.method = rota_str("/test.Shard/Get"),
                                              .metadata = notes,
                                              .n_metadata = 2,
                                              .timeout = 20 * ROTA_SEC};
    struct rota_reply reply;
    struct rota_error error;
    if (rota_channel_wait(channel, &options, &reply, &error))
        fail_msg("%s", error.text);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    assert_string_equal(reply.message, expected);
    rota_reply_deinit(&reply);
}

static void handler_knows_its_shard(void **state)
{
    const struct rota_server_method method = {.path = "/test.Shard/Get", .on_call = answer_shard};
    struct world world;
    struct rota_error error;
    (void)state;
    world_open(&world);
    assert_int_equal(rota_server_add(world.nodes[1].server, &method, &error), ROTA_OK);
    const char *const names[] = {"a", "b c%/"};
    for (size_t i = 0; i < 2; i++) {
        struct rota_claim claim = {.space = rota_str("1"),
                                   .shard = rota_str(names[i]),
                                   .node = 1,
                                   .epoch = 5 + i,
                                   .is_held = true};
        assert_int_equal(rota_claims_set(world.nodes[1].claims, &claim, &error), ROTA_OK);
    }
    struct rota_channel *channel = channel_to(&world.nodes[1]);
    check_shard(channel, "1/a", "5", "1 1 a 5");
    check_shard(channel, "1/b%20c%25%2F", "6", "1 1 b c%/ 6");
    check_shard(channel, "1/%61", "5", "1 1 a 5"); /* escaped without need */
    check_shard(channel, "1/a", "5", "1 1 a 5");
    check_shard(channel, "1/a", "five", "0 none none 0");
    check_shard(channel, "a", "5", "0 none none 0");
    rota_channel_close(channel);
    world_close(&world);
}

static void blocking_client_reads_the_claim_in_a_refusal(void **state)
{
    struct world world;
    struct rota_error error;
    struct rota_reply reply;
    struct rota_str claim = {0};
    char expected[128];
    (void)state;
    world_open(&world);
    node_claim(&world.nodes[1], "a", &world.nodes[2], 6);
    struct rota_channel *channel = channel_to(&world.nodes[1]);
    const struct rota_metadata notes[] = {{rota_str("rota-shard"), rota_str("1/a")},
                                          {rota_str("rota-epoch"), rota_str("5")}};
    const struct rota_call_options options = {.method = rota_str(METHOD_WORK),
                                              .metadata = notes,
                                              .n_metadata = 2,
                                              .timeout = 20 * ROTA_SEC};
    if (rota_channel_wait(channel, &options, &reply, &error))
        fail_msg("%s", error.text);
    assert_int_equal(reply.status, ROTA_STATUS_ABORTED);
    assert_true(rota_metadata_get(reply.metadata, reply.n_metadata, "rota-claim", &claim));
    snprintf(expected, sizeof expected, "2 6 %.*s", ROTA_STR_ARGS(node_address(&world.nodes[2])));
    assert_true(rota_str_is_equal(claim, rota_str(expected)));
    rota_reply_deinit(&reply);
    rota_channel_close(channel);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owner_serves),
        cmocka_unit_test(owner_that_was_replaced_sends_the_client_on),
        cmocka_unit_test(owner_that_took_the_shard_again_is_called_under_its_new_epoch),
        cmocka_unit_test(claim_that_has_run_out_is_not_served),
        cmocka_unit_test(outdated_owner_rejects_a_later_epoch),
        cmocka_unit_test(client_that_is_ahead_is_served_when_the_node_catches_up),
        cmocka_unit_test(refusal_names_the_claim),
        cmocka_unit_test(fenced_method_refuses_calls_without_notes),
        cmocka_unit_test(fenced_method_needs_claims),
        cmocka_unit_test(handler_learns_that_its_claim_was_lost),
        cmocka_unit_test(handler_can_reject_a_call_without_a_claim),
        cmocka_unit_test(handler_knows_its_shard),
        cmocka_unit_test(blocking_client_reads_the_claim_in_a_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
