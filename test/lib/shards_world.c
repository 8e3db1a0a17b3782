#include "shards_world.h"

void ask(void *data, struct rota_shards *shards, uint64_t question,
         const struct rota_shards_name *name)
{
    struct world *world = data;
    struct rota_shards_map map = {.id = 1, .channels = world->channels, .n_channels = 2};
    struct rota_error error;
    (void)name;
    world->n_asked++;
    if (world->is_holding) {
        world->held = question;
        return;
    }
    if (world->is_unknown) {
        rota_error_set(&error, ROTA_ERR_NOT_FOUND, "never heard of it");
        rota_shards_tell(shards, question, NULL, &error);
        return;
    }
    rota_shards_tell(shards, question, &map, NULL);
}

void place(struct world *world, size_t shard, int64_t first, int64_t second, uint64_t epoch)
{
    static const char *const names[] = {"a", "b"};
    world->replicas[shard][0] = node_replica(&world->nodes[first], epoch);
    world->replicas[shard][1] = node_replica(&world->nodes[second], epoch);
    world->channels[shard] =
        (struct rota_shard_channel){rota_str(names[shard]), world->replicas[shard], 2};
}

void world_open_with(struct world *world, struct rota_shards_options options)
{
    struct rota_shards_source source = {.ask = ask, .data = world};
    struct rota_error error;
    options.source = &source;
    options.connections = WORLD_CONNECTIONS;
    options.seed = 1;
    memset(world, 0, sizeof *world);
    loop_open();
    for (int64_t id = 1; id <= NODES; id++)
        node_open(&world->nodes[id], id);
    place(world, 0, 1, 2, 5);
    place(world, 1, 2, 3, 6);
    if (rota_shards_open(&loop, &options, &world->shards, &error))
        fail_msg("%s", error.text);
}

void world_open(struct world *world)
{
    world_open_with(world, (struct rota_shards_options){0});
}

void world_close(struct world *world)
{
    rota_shards_close(world->shards);
    for (int64_t id = 1; id <= NODES; id++)
        if (world->nodes[id].server)
            node_close(&world->nodes[id]);
    for (int64_t id = 1; id <= NODES; id++)
        for (size_t i = 0; i < world->nodes[id].n_kept; i++)
            rota_server_call_finish(world->nodes[id].kept[i], ROTA_STATUS_OK, NULL, NULL, 0);
    loop_close();
}

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    struct world *world = data;
    assert_false(world->is_inside);
    assert_int_equal(world->n_done, 0);
    assert_true(world->n_replies < REPLIES_MAX);
    world->statuses[world->n_replies] = reply->status;
    world->by[world->n_replies] = reply->node;
    copy_str(world->messages[world->n_replies++], sizeof world->messages[0], reply->message);
    if (world->closes) {
        rota_shards_close(world->shards);
        world->shards = NULL;
    }
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct world *world = data;
    assert_false(world->is_inside);
    world->n_done++;
    world->result = *result;
    copy_str(world->text, sizeof world->text, result->text);
}

struct rota_shards_request request(struct world *world, enum rota_shards_mode mode)
{
    return (struct rota_shards_request){
        .name = {.database = rota_str("db"), .collection = rota_str("books")},
        .mode = mode,
        .channel = rota_str("a"),
        .method = rota_str(METHOD_WORK),
        .request = rota_str("hello"),
        .repeat = ROTA_REPEAT_ANY,
        .on_reply = on_reply,
        .on_done = on_done,
        .data = world,
    };
}

struct rota_shards_run *start(struct world *world, struct rota_shards_request what)
{
    struct rota_shards_run *run;
    struct rota_error error;
    world->n_replies = world->n_done = 0;
    world->is_inside = true;
    if (rota_shards_execute(world->shards, &what, &run, &error))
        fail_msg("%s", error.text);
    world->is_inside = false;
    return run;
}

void execute(struct world *world, struct rota_shards_request what)
{
    start(world, what);
    RUN_UNTIL(world->n_done);
}
