/* Adds that are made again at a node that has the partition by now, while the job is still at the
 * one before: two brokers on one loop, of which the first does not know of the second. */
#include "await.h"

#include "wire/queue_message.h"

#include <rota/broker.h>
#include <rota/channel.h>
#include <rota/members.h>
#include <rota/server.h>

enum { N_PARTITIONS = 16, FIRST = 0, SECOND = 1, N_NODES = 2 };

struct node {
    struct rota_server *server;
    struct rota_work_broker *broker;
    struct rota_channel *channel;
    const char *address;
};

struct world {
    uv_loop_t loop;
    struct node nodes[N_NODES];
    char hosts[64]; /* the list that the second has */
};

static void open_broker(struct world *world, struct node *node, struct rota_members_source *members)
{
    struct rota_error error;
    struct rota_work_broker_options options = {.is_memory = true,
                                               .partitions = N_PARTITIONS,
                                               .members = members,
                                               .advertise = node->address};
    if (rota_work_broker_open(&world->loop, node->server, &options, &node->broker, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_channel_open(&world->loop, node->address, NULL, &node->channel, NULL),
                     ROTA_OK);
}

static void write_hosts(const struct world *world, bool has_first)
{
    char text[256];
    snprintf(text, sizeof text, "%s\n%s\n", world->nodes[SECOND].address,
             has_first ? world->nodes[FIRST].address : "");
    await_write(world->hosts, text);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    struct rota_members_source *source;
    assert_int_equal(uv_loop_init(&world->loop), 0);
    for (size_t i = 0; i < N_NODES; i++) {
        struct node *node = &world->nodes[i];
        assert_int_equal(rota_server_open(&world->loop, &with, &node->server, NULL), ROTA_OK);
        assert_int_equal(rota_server_listen(node->server, "127.0.0.1:0", NULL), ROTA_OK);
        node->address = rota_server_address(node->server, 0);
    }
    strcpy(world->hosts, "/tmp/rota-again-XXXXXX");
    int fd = mkstemp(world->hosts);
    assert_true(fd >= 0);
    close(fd);
    write_hosts(world, true);
    assert_int_equal(rota_hosts_list_new(world->nodes[FIRST].address, &source, NULL), ROTA_OK);
    open_broker(world, &world->nodes[FIRST], source);
    assert_int_equal(rota_hosts_watch_new(world->hosts, &source, NULL), ROTA_OK);
    open_broker(world, &world->nodes[SECOND], source);
    *state = world;
    return 0;
}

static void close_node(struct node *node)
{
    rota_channel_close(node->channel);
    rota_server_close(node->server);
    rota_work_broker_close(node->broker);
    *node = (struct node){0};
}

static int tear_down(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < N_NODES; i++)
        close_node(&world->nodes[i]);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
    unlink(world->hosts);
    free(world);
    return 0;
}

static size_t n_jobs(const struct world *world, size_t node)
{
    return rota_work_broker_counts(world->nodes[node].broker).jobs;
}

/* --- adds --- */

struct batch {
    struct rota_queue_job_spec specs[N_PARTITIONS];
    char ids[N_PARTITIONS][ROTA_QUEUE_ID_SIZE];
    bool is_new[N_PARTITIONS];
};

/* A job for each partition. */
static void make_batch(struct batch *batch, uint64_t chance)
{
    for (uint32_t i = 0; i < N_PARTITIONS; i++)
        batch->specs[i] = (struct rota_queue_job_spec){
            .queue = rota_str("jobs"),
            .partition = i,
            .id = rota_queue_id_write(rota_job_id_make(ROTA_SEC, i, chance), batch->ids[i])};
}

static enum rota_status ask(struct world *world, size_t node, const char *method,
                            const struct rota_message_type *type, const void *message,
                            struct rota_reply *reply)
{
    struct rota_buffer buffer = {0};
    char path[64];
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", method);
    rota_message_encode(type, message, &buffer);
    struct rota_call_options call = {.method = rota_str(path), .request = rota_buffer_str(&buffer)};
    assert_int_equal(rota_channel_wait(world->nodes[node].channel, &call, reply, NULL), ROTA_OK);
    rota_buffer_deinit(&buffer);
    return reply->status;
}

static enum rota_status add_all(struct world *world, size_t node, struct batch *batch,
                                bool is_again)
{
    struct rota_arena arena = {0};
    struct rota_queue_list request = {{batch->specs, N_PARTITIONS}}, added;
    struct rota_reply reply;
    for (size_t i = 0; i < N_PARTITIONS; i++)
        batch->specs[i].is_again = is_again;
    enum rota_status status = ask(world, node, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &reply);
    if (status == ROTA_STATUS_OK) {
        assert_int_equal(rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY,
                                             rota_str_of(reply.message, reply.size), &added, &arena,
                                             NULL),
                         ROTA_OK);
        const struct rota_queue_added *items = added.items.items;
        assert_int_equal(added.items.n, N_PARTITIONS);
        for (size_t i = 0; i < N_PARTITIONS; i++) {
            assert_int_equal(items[i].status, ROTA_STATUS_OK);
            assert_true(rota_str_is_equal(items[i].id, batch->specs[i].id));
            batch->is_new[i] = items[i].is_new;
        }
    }
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    return status;
}

static enum rota_status add_one(struct world *world, size_t node, struct rota_queue_job_spec *spec,
                                bool is_again, bool *is_new)
{
    struct rota_arena arena = {0};
    struct rota_queue_add request = {.job = spec};
    struct rota_queue_added added;
    struct rota_reply reply;
    spec->is_again = is_again;
    enum rota_status status = ask(world, node, "Add", &ROTA_QUEUE_ADD, &request, &reply);
    if (status == ROTA_STATUS_OK) {
        assert_int_equal(rota_message_decode(&ROTA_QUEUE_ADDED,
                                             rota_str_of(reply.message, reply.size), &added, &arena,
                                             NULL),
                         ROTA_OK);
        assert_true(rota_str_is_equal(added.id, spec->id));
        *is_new = added.is_new;
    }
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    return status;
}

static size_t n_new(const struct batch *batch)
{
    size_t n = 0;
    for (size_t i = 0; i < N_PARTITIONS; i++)
        n += batch->is_new[i];
    return n;
}

/* --- tests --- */

static void job_that_is_elsewhere_is_not_taken_in_again(void **state)
{
    struct world *world = *state;
    static struct batch batch, other;
    bool is_new;
    make_batch(&batch, 1);
    make_batch(&other, 2);
    assert_int_equal(add_all(world, FIRST, &batch, false), ROTA_STATUS_OK);
    assert_int_equal(n_new(&batch), N_PARTITIONS);
    for (size_t i = 0; i < N_PARTITIONS; i++) {
        assert_int_equal(add_one(world, SECOND, &batch.specs[i], true, &is_new), ROTA_STATUS_OK);
        assert_false(is_new);
    }
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_OK);
    assert_int_equal(n_new(&batch), 0);
    assert_int_equal(n_jobs(world, SECOND), 0);
    /* The danger is real: who does not say it has two of those that are the second's now. */
    assert_int_equal(add_all(world, SECOND, &batch, false), ROTA_STATUS_OK);
    assert_in_range(n_new(&batch), 1, N_PARTITIONS - 1);
}

static void job_that_is_nowhere_is_taken_in(void **state)
{
    struct world *world = *state;
    static struct batch batch, mixed;
    bool is_new;
    make_batch(&batch, 3);
    assert_int_equal(add_one(world, SECOND, &batch.specs[5], true, &is_new), ROTA_STATUS_OK);
    assert_true(is_new);
    make_batch(&mixed, 3); /* one of them is there */
    assert_int_equal(add_all(world, SECOND, &mixed, true), ROTA_STATUS_OK);
    assert_int_equal(n_new(&mixed), N_PARTITIONS - 1);
    assert_int_equal(n_jobs(world, FIRST) + n_jobs(world, SECOND), N_PARTITIONS);
}

static void node_that_does_not_answer_may_have_it(void **state)
{
    struct world *world = *state;
    static struct batch batch;
    bool is_new;
    make_batch(&batch, 4);
    close_node(&world->nodes[FIRST]);
    assert_int_equal(add_one(world, SECOND, &batch.specs[0], true, &is_new),
                     ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(n_jobs(world, SECOND), 0);
}

static void node_that_was_listed_until_lately_is_asked(void **state)
{
    struct world *world = *state;
    static struct batch batch, more;
    size_t n_owned = 0;
    make_batch(&batch, 5);
    assert_int_equal(add_all(world, FIRST, &batch, false), ROTA_STATUS_OK);
    write_hosts(world, false);
    for (uint64_t i = 0; n_owned < N_PARTITIONS; i++) { /* until the second has all partitions */
        make_batch(&more, 100 + i);
        assert_int_equal(add_all(world, SECOND, &more, false), ROTA_STATUS_OK);
        size_t before = n_jobs(world, SECOND);
        make_batch(&more, 1000000 + i);
        assert_int_equal(add_all(world, SECOND, &more, false), ROTA_STATUS_OK);
        n_owned = n_jobs(world, SECOND) - before;
    }
    size_t before = n_jobs(world, SECOND);
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_OK);
    assert_int_equal(n_new(&batch), 0);
    assert_int_equal(n_jobs(world, SECOND), before);
}

/* A client can't make a node believe that a job is somewhere. */
static void what_clients_say_of_other_nodes_is_not_believed(void **state)
{
    struct world *world = *state;
    static struct batch batch;
    bool is_new = false;
    make_batch(&batch, 6);
    batch.specs[0].is_known = true;
    assert_int_equal(add_one(world, FIRST, &batch.specs[0], false, &is_new), ROTA_STATUS_OK);
    assert_true(is_new);
    assert_int_equal(n_jobs(world, FIRST), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(job_that_is_elsewhere_is_not_taken_in_again),
        TEST(job_that_is_nowhere_is_taken_in),
        TEST(node_that_does_not_answer_may_have_it),
        TEST(node_that_was_listed_until_lately_is_asked),
        TEST(what_clients_say_of_other_nodes_is_not_believed),
    };
    return cmocka_run_group_tests_name("broker_again", tests, NULL, NULL);
}
