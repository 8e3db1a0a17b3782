#include "two_brokers.h"

#include "run/work/cluster/work_broker_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void open_broker(struct world *world, struct node *node, struct rota_members_source *members)
{
    struct rota_error error;
    struct rota_work_broker_options options = {.is_memory = true,
                                               .partitions = N_PARTITIONS,
                                               .members = members,
                                               .settings_store = world->store,
                                               .settings_interval = 100 * ROTA_MSEC,
                                               .advertise = node->address};
    if (rota_work_broker_open(&world->loop, node->server, &options, &node->broker, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_channel_open(&world->loop, node->address, NULL, &node->channel, NULL),
                     ROTA_OK);
}

void write_hosts(const struct world *world, bool has_first)
{
    char text[256];
    snprintf(text, sizeof text, "%s\n%s\n", world->nodes[SECOND].address,
             has_first ? world->nodes[FIRST].address : "");
    await_write(world->hosts, text);
}

static void make_file(char path[64])
{
    strcpy(path, "/tmp/rota-two-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

struct world *world_new(void)
{
    char url[80];
    struct world *world = calloc(1, sizeof *world);
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    assert_int_equal(uv_loop_init(&world->loop), 0);
    for (size_t i = 0; i < N_NODES; i++) {
        struct node *node = &world->nodes[i];
        assert_int_equal(rota_server_open(&world->loop, &with, &node->server, NULL), ROTA_OK);
        assert_int_equal(rota_server_listen(node->server, "127.0.0.1:0", NULL), ROTA_OK);
        node->address = rota_server_address(node->server, 0);
    }
    make_file(world->hosts);
    make_file(world->file);
    write_hosts(world, true);
    snprintf(url, sizeof url, "sqlite:%s", world->file);
    assert_int_equal(rota_store_open(&world->loop, &(struct rota_store_options){.url = url},
                                     &world->store, NULL),
                     ROTA_OK);
    return world;
}

void open_first(struct world *world)
{
    struct rota_members_source *source;
    assert_int_equal(rota_hosts_list_new(world->nodes[FIRST].address, &source, NULL), ROTA_OK);
    open_broker(world, &world->nodes[FIRST], source);
}

void open_second(struct world *world)
{
    struct rota_members_source *source;
    assert_int_equal(rota_hosts_watch_new(world->hosts, &source, NULL), ROTA_OK);
    open_broker(world, &world->nodes[SECOND], source);
}

void await_read(struct world *world)
{
    for (size_t i = 0; i < N_NODES; i++)
        while (world->nodes[i].broker &&
               !rota_work_broker_rows_have_begun(world->nodes[i].broker->rows))
            uv_run(&world->loop, UV_RUN_ONCE);
}

void await_told(struct world *world)
{
    await_read(world);
    for (size_t i = 0; i < N_NODES; i++)
        while (!rota_work_broker_settings_are_told(world->nodes[i].broker->settings))
            uv_run(&world->loop, UV_RUN_ONCE);
}

void close_node(struct node *node)
{
    rota_channel_close(node->channel);
    rota_server_close(node->server);
    rota_work_broker_close(node->broker);
    *node = (struct node){0};
}

void world_free(struct world *world)
{
    for (size_t i = 0; i < N_NODES; i++)
        close_node(&world->nodes[i]);
    rota_store_close(world->store);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
    unlink(world->hosts);
    unlink(world->file);
    free(world);
}

static enum rota_status ask_with(struct world *world, size_t node, const char *method,
                                 const struct rota_message_type *type, const void *message,
                                 const struct rota_metadata *notes, size_t n_notes,
                                 struct rota_reply *reply)
{
    struct rota_buffer buffer = {0};
    char path[64];
    snprintf(path, sizeof path, "%s%s", method[0] == '/' ? "" : "/rota.v1.Queue/", method);
    if (type)
        rota_message_encode(type, message, &buffer);
    struct rota_call_options call = {.method = rota_str(path),
                                     .request = rota_buffer_str(&buffer),
                                     .metadata = notes,
                                     .n_metadata = n_notes};
    assert_int_equal(rota_channel_wait(world->nodes[node].channel, &call, reply, NULL), ROTA_OK);
    rota_buffer_deinit(&buffer);
    return reply->status;
}

enum rota_status ask(struct world *world, size_t node, const char *method,
                     const struct rota_message_type *type, const void *message,
                     struct rota_reply *reply)
{
    return ask_with(world, node, method, type, message, NULL, 0, reply);
}

enum rota_status ask_alone(struct world *world, size_t node, const char *method,
                           const struct rota_message_type *type, const void *message,
                           struct rota_reply *reply)
{
    const struct rota_metadata hops = {rota_str("rota-hops"), rota_str("1")};
    return ask_with(world, node, method, type, message, &hops, 1, reply);
}

size_t poll_jobs(struct world *world, size_t node, uint64_t wait_ms)
{
    struct rota_arena arena = {0};
    struct rota_reply reply;
    struct rota_queue_list handed;
    struct rota_str queue = rota_str("jobs");
    struct rota_queue_poll request = {.queues = {&queue, 1},
                                      .max_jobs = 1,
                                      .lease_ms = 60000,
                                      .wait_ms = wait_ms,
                                      .worker = rota_str("w")};
    assert_int_equal(ask_alone(world, node, "Poll", &ROTA_QUEUE_POLL, &request, &reply),
                     ROTA_STATUS_OK);
    assert_int_equal(rota_message_decode(&ROTA_QUEUE_POLL_REPLY,
                                         rota_str_of(reply.message, reply.size), &handed, &arena,
                                         NULL),
                     ROTA_OK);
    size_t n = handed.items.n;
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    return n;
}
