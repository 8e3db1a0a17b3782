#include "three_brokers.h"

#include "run/work/cluster/work_broker_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void open_broker(struct world *world, int i)
{
    struct rota_work_broker_options options = {.is_memory = true,
                                               .partitions = 16,
                                               .settings_store = world->store,
                                               .settings_interval = 100 * ROTA_MSEC,
                                               .advertise =
                                                   rota_server_address(world->servers[i], 0)};
    assert_int_equal(rota_hosts_list_new(world->nodes, &options.members, NULL), ROTA_OK);
    assert_int_equal(
        rota_work_broker_open(&world->loop, world->servers[i], &options, &world->brokers[i], NULL),
        ROTA_OK);
}

static void open_store(struct world *world)
{
    char url[80];
    strcpy(world->file, "/tmp/rota-three-XXXXXX");
    int fd = mkstemp(world->file);
    assert_true(fd >= 0);
    close(fd);
    snprintf(url, sizeof url, "sqlite:%s", world->file);
    assert_int_equal(rota_store_open(&world->loop, &(struct rota_store_options){.url = url},
                                     &world->store, NULL),
                     ROTA_OK);
}

int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    size_t size = 0;
    assert_int_equal(uv_loop_init(&world->loop), 0);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(rota_server_open(&world->loop, &with, &world->servers[i], NULL), ROTA_OK);
        assert_int_equal(rota_server_listen(world->servers[i], "127.0.0.1:0", NULL), ROTA_OK);
        size += (size_t)snprintf(world->nodes + size, sizeof world->nodes - size, "%s%s",
                                 i ? "," : "", rota_server_address(world->servers[i], 0));
    }
    open_store(world);
    for (int i = 0; i < NODES; i++)
        open_broker(world, i);
    for (int i = 0; i < NODES; i++) /* before, a node can't say that a job is nowhere */
        while (!rota_work_broker_settings_are_told(world->brokers[i]->settings) ||
               !rota_work_broker_rows_have_begun(world->brokers[i]->rows))
            uv_run(&world->loop, UV_RUN_ONCE);
    struct rota_queue_options options = {.nodes = world->nodes, .patience = 10 * ROTA_SEC};
    assert_int_equal(rota_queue_open(&world->loop, &options, &world->queue, NULL), ROTA_OK);
    *state = world;
    return 0;
}

void close_node(struct world *world, int i)
{
    rota_server_close(world->servers[i]);
    rota_work_broker_close(world->brokers[i]);
    world->servers[i] = NULL;
    world->brokers[i] = NULL;
}

int tear_down(void **state)
{
    struct world *world = *state;
    rota_queue_close(world->queue);
    for (int i = 0; i < NODES; i++)
        close_node(world, i);
    rota_store_close(world->store);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
    unlink(world->file);
    free(world);
    return 0;
}

enum rota_status ask(struct world *world, int node, const char *method,
                     const struct rota_message_type *type, const void *request,
                     struct rota_reply *reply)
{
    struct rota_channel *channel;
    struct rota_buffer bytes = {0};
    char path[64];
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", method);
    rota_message_encode(type, request, &bytes);
    struct rota_call_options options = {
        .method = rota_str(path), .request = rota_buffer_str(&bytes), .wait_for_ready = true};
    assert_int_equal(rota_channel_open(&world->loop, rota_server_address(world->servers[node], 0),
                                       NULL, &channel, NULL),
                     ROTA_OK);
    assert_int_equal(rota_channel_wait(channel, &options, reply, NULL), ROTA_OK);
    rota_channel_close(channel);
    rota_buffer_deinit(&bytes);
    return reply->status;
}

void lay_out(struct world *world, const char *queue, uint32_t n)
{
    const struct rota_queue_lay_out wish = {.queue = rota_str(queue), .partitions = n};
    const struct rota_queue_setting about = {.queue = rota_str(queue)};
    struct rota_reply reply;
    assert_int_equal(ask(world, 0, "SetLayout", &ROTA_QUEUE_SET_LAYOUT, &wish, &reply),
                     ROTA_STATUS_OK);
    rota_reply_deinit(&reply);
    for (int i = 0; i < NODES; i++)
        for (bool is_known = false; !is_known;) {
            struct rota_queue_nodes nodes = {0};
            struct rota_arena arena = {0};
            assert_int_equal(ask(world, i, "Nodes", &ROTA_QUEUE_PAUSE, &about, &reply),
                             ROTA_STATUS_OK);
            rota_message_decode(&ROTA_QUEUE_NODES, rota_str_of(reply.message, reply.size), &nodes,
                                &arena, NULL);
            is_known = nodes.write == n;
            rota_arena_deinit(&arena);
            rota_reply_deinit(&reply);
        }
}
