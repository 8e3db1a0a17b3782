/* Three brokers on one loop that know different views of who serves queues: calls between them have
 * the number of the sender's view, and the later one counts. */
#include "await.h"

#include "core/work/cluster/layout.h"
#include "run/work/cluster/work_broker_cluster.h"
#include "wire/message/queue_message.h"

#include <rota/experimental/broker.h>
#include <rota/experimental/channel.h>
#include <rota/experimental/members.h>
#include <rota/server.h>
#include <stdlib.h>

enum { A, B, C, N_NODES };

struct world;

/* A node, with a source of members that reports the view that the test says. */
struct node {
    struct rota_members_source base; /* first: the two are cast into each other */
    struct rota_members_sink sink;
    struct world *world;
    struct rota_server *server;
    struct rota_work_broker *broker;
    struct rota_channel *channel;
    uv_timer_t timer;
    uint64_t number;
    size_t n_hints, n_shown;
    bool has_store;
};

struct world {
    uv_loop_t loop;
    struct node nodes[N_NODES];
    uint64_t latest;
};

/* View 1 has A and B, view 2 A and C, view 3 all. */
static bool is_member(uint64_t number, size_t node)
{
    return node == A || (node == B && number != 2) || (node == C && number != 1);
}

static size_t list_hosts(const struct world *world, uint64_t number,
                         struct rota_host hosts[N_NODES])
{
    size_t n = 0;
    for (size_t i = 0; i < N_NODES; i++)
        if (is_member(number, i))
            hosts[n++] = (struct rota_host){
                .address = rota_str(rota_server_address(world->nodes[i].server, 0)),
                .weight = ROTA_WEIGHT_ONE};
    return n;
}

static void show_view(struct node *node, uint64_t number)
{
    struct rota_host hosts[N_NODES];
    size_t n = list_hosts(node->world, number, hosts);
    node->number = number;
    node->n_shown++;
    assert_int_equal(node->sink.on_snapshot(node->sink.data, number, hosts, n, NULL), ROTA_OK);
}

static void on_timer(uv_timer_t *timer)
{
    struct node *node = timer->data;
    show_view(node, node->world->latest);
}

static void on_later_view(void *data)
{
    struct node *node = data;
    node->n_hints++;
    if (node->has_store)
        uv_timer_start(&node->timer, on_timer, 5, 0);
}

static uint64_t view_of(void *data)
{
    return ((const struct node *)data)->number;
}

static enum rota_code start_source(struct rota_members_source *base, struct uv_loop_s *loop,
                                   const struct rota_members_sink *sink, struct rota_error *error)
{
    struct node *node = (struct node *)base;
    (void)loop;
    (void)error;
    node->sink = *sink;
    show_view(node, node->number);
    return ROTA_OK;
}

static void stop_source(struct rota_members_source *base)
{
    uv_close((uv_handle_t *)&((struct node *)base)->timer, NULL);
}

static void open_node(struct world *world, struct node *node)
{
    struct rota_error error;
    const struct rota_work_broker_options options = {.is_memory = true,
                                                     .members = &node->base,
                                                     .advertise =
                                                         rota_server_address(node->server, 0),
                                                     .view = view_of,
                                                     .on_later_view = on_later_view,
                                                     .data = node};
    node->base = (struct rota_members_source){.start = start_source, .stop = stop_source};
    uv_timer_init(&world->loop, &node->timer);
    node->timer.data = node;
    if (rota_work_broker_open(&world->loop, node->server, &options, &node->broker, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_channel_open(&world->loop, rota_server_address(node->server, 0), NULL,
                                       &node->channel, NULL),
                     ROTA_OK);
}

static void open_world(struct world *world, const uint64_t views[N_NODES])
{
    for (size_t i = 0; i < N_NODES; i++) {
        world->nodes[i].number = views[i];
        open_node(world, &world->nodes[i]);
    }
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    const struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    assert_int_equal(uv_loop_init(&world->loop), 0);
    for (size_t i = 0; i < N_NODES; i++) {
        struct node *node = &world->nodes[i];
        node->world = world;
        assert_int_equal(rota_server_open(&world->loop, &with, &node->server, NULL), ROTA_OK);
        assert_int_equal(rota_server_listen(node->server, "127.0.0.1:0", NULL), ROTA_OK);
    }
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < N_NODES; i++)
        rota_channel_close(world->nodes[i].channel);
    for (size_t i = 0; i < N_NODES; i++)
        rota_server_close(world->nodes[i].server);
    for (size_t i = 0; i < N_NODES; i++)
        rota_work_broker_close(world->nodes[i].broker);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
    free(world);
    return 0;
}

/* --- calls --- */

static bool is_owner(const struct world *world, uint64_t number, uint32_t partition, size_t node)
{
    struct rota_host hosts[N_NODES];
    struct rota_ring_host on_ring[N_NODES] = {0};
    struct rota_ring *ring;
    size_t n = list_hosts(world, number, hosts);
    for (size_t i = 0; i < n; i++)
        on_ring[i].address = hosts[i].address;
    assert_int_equal(rota_ring_new(on_ring, n, 0, &ring, NULL), ROTA_OK);
    struct rota_partition of = rota_layout_partition(rota_str("jobs"), partition);
    uint32_t host = rota_route(ring, &of, ROTA_BROKER_CLUSTER_SPREAD);
    bool is = rota_str_is_equal(rota_ring_host(ring, host).address,
                                rota_str(rota_server_address(world->nodes[node].server, 0)));
    rota_ring_unref(ring);
    return is;
}

/* A partition of B in view 1, and of C in view 2. Partition 0 stands for any. */
static uint32_t find_partition(const struct world *world)
{
    for (uint32_t partition = 1; partition < ROTA_BROKER_CLUSTER_BATCH; partition++)
        if (is_owner(world, 1, partition, B) && is_owner(world, 2, partition, C))
            return partition;
    fail_msg("B owns nothing");
    return 0;
}

static enum rota_status add(struct world *world, size_t node)
{
    struct rota_buffer buffer = {0};
    struct rota_reply reply;
    const struct rota_queue_job_spec spec = {.queue = rota_str("jobs"),
                                             .partition = find_partition(world)};
    rota_message_encode(&ROTA_QUEUE_ADD, &(struct rota_queue_add){.job = &spec}, &buffer);
    const struct rota_call_options call = {.method = rota_str("/rota.v1.Queue/Add"),
                                           .request = rota_buffer_str(&buffer)};
    assert_int_equal(rota_channel_wait(world->nodes[node].channel, &call, &reply, NULL), ROTA_OK);
    enum rota_status status = reply.status;
    rota_reply_deinit(&reply);
    rota_buffer_deinit(&buffer);
    return status;
}

static size_t n_jobs(const struct world *world, size_t node)
{
    return rota_work_broker_counts(world->nodes[node].broker).jobs;
}

/* --- rules --- */

static void node_with_an_earlier_view_follows_the_owner_that_a_refusal_names(void **state)
{
    struct world *world = *state;
    open_world(world, (const uint64_t[]){1, 2, 2}); /* A can't reach the store */
    assert_int_equal(add(world, A), ROTA_STATUS_OK);
    assert_int_equal(n_jobs(world, C), 1);
    assert_int_equal(n_jobs(world, A) + n_jobs(world, B), 0);
    assert_true(world->nodes[A].n_hints > 0);
}

static void node_with_an_earlier_view_routes_again_once_it_knows_the_later_one(void **state)
{
    struct world *world = *state;
    open_world(world, (const uint64_t[]){1, 2, 2});
    world->latest = 2;
    world->nodes[A].has_store = true;
    assert_int_equal(add(world, A), ROTA_STATUS_OK);
    await(&world->loop, &world->nodes[A].n_shown, 2);
    assert_int_equal(world->nodes[A].number, 2);
    assert_int_equal(add(world, A), ROTA_STATUS_OK);
    assert_int_equal(n_jobs(world, C), 2);
}

static void owner_with_an_earlier_view_reads_the_later_one_before_it_answers(void **state)
{
    struct world *world = *state;
    open_world(world, (const uint64_t[]){2, 1, 1});
    world->latest = 2;
    world->nodes[C].has_store = true;
    assert_int_equal(add(world, A), ROTA_STATUS_OK);
    assert_int_equal(world->nodes[C].number, 2);
    assert_int_equal(n_jobs(world, C), 1);
}

static void owner_that_cannot_read_the_later_view_refuses_and_adds_nothing(void **state)
{
    struct world *world = *state;
    open_world(world, (const uint64_t[]){2, 1, 1});
    assert_int_equal(add(world, A), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(n_jobs(world, A) + n_jobs(world, B) + n_jobs(world, C), 0);
    assert_true(world->nodes[C].n_hints > 0);
}

static void waiting_call_can_be_cancelled(void **state)
{
    struct world *world = *state;
    struct rota_buffer buffer = {0};
    struct rota_reply reply;
    open_world(world, (const uint64_t[]){2, 1, 1});
    const struct rota_queue_job_spec spec = {.queue = rota_str("jobs"),
                                             .partition = find_partition(world)};
    rota_message_encode(&ROTA_QUEUE_ADD, &(struct rota_queue_add){.job = &spec}, &buffer);
    const struct rota_call_options call = {.method = rota_str("/rota.v1.Queue/Add"),
                                           .request = rota_buffer_str(&buffer),
                                           .timeout = 50 * ROTA_MSEC};
    assert_int_equal(rota_channel_wait(world->nodes[A].channel, &call, &reply, NULL), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_DEADLINE_EXCEEDED);
    rota_reply_deinit(&reply);
    rota_buffer_deinit(&buffer);
    assert_int_equal(n_jobs(world, C), 0);
}

static void node_that_joins_makes_the_others_look(void **state)
{
    struct world *world = *state;
    open_world(world, (const uint64_t[]){1, 1, 1});
    show_view(&world->nodes[C], 2);
    await(&world->loop, &world->nodes[A].n_hints, 1);
}

static void node_that_leaves_makes_the_others_look(void **state)
{
    struct world *world = *state;
    open_world(world, (const uint64_t[]){1, 1, 1});
    show_view(&world->nodes[B], 2);
    await(&world->loop, &world->nodes[A].n_hints, 1);
    await(&world->loop, &world->nodes[C].n_hints, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(node_with_an_earlier_view_follows_the_owner_that_a_refusal_names),
        TEST(node_with_an_earlier_view_routes_again_once_it_knows_the_later_one),
        TEST(owner_with_an_earlier_view_reads_the_later_one_before_it_answers),
        TEST(owner_that_cannot_read_the_later_view_refuses_and_adds_nothing),
        TEST(waiting_call_can_be_cancelled),
        TEST(node_that_joins_makes_the_others_look),
        TEST(node_that_leaves_makes_the_others_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
