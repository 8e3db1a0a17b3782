/* <rota/queue.h> with three brokers on one loop, over real gRPC. */
#include "await.h"
#include "wire/queue_message.h"

#include <rota/broker.h>
#include <rota/channel.h>
#include <rota/members.h>
#include <rota/queue.h>
#include <rota/server.h>

enum { NODES = 3 };

struct world {
    uv_loop_t loop;
    struct rota_server *servers[NODES];
    struct rota_work_broker *brokers[NODES];
    struct rota_queue *queue;
    char nodes[200];
};

/* What was answered last. */
struct told {
    size_t n, n_works;
    enum rota_code code;
    enum rota_queue_state state;
    char job[ROTA_QUEUE_JOB_MAX], text[300], bytes[100];
    uint64_t attempt;
    bool is_new;
};

static void open_broker(struct world *world, int i)
{
    struct rota_work_broker_options options = {.is_memory = true,
                                               .partitions = 16,
                                               .advertise =
                                                   rota_server_address(world->servers[i], 0)};
    assert_int_equal(rota_hosts_list_new(world->nodes, &options.members, NULL), ROTA_OK);
    assert_int_equal(
        rota_work_broker_open(&world->loop, world->servers[i], &options, &world->brokers[i], NULL),
        ROTA_OK);
}

static int set_up(void **state)
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
    for (int i = 0; i < NODES; i++)
        open_broker(world, i);
    struct rota_queue_options options = {.nodes = world->nodes, .patience = 10 * ROTA_SEC};
    assert_int_equal(rota_queue_open(&world->loop, &options, &world->queue, NULL), ROTA_OK);
    *state = world;
    return 0;
}

static void close_node(struct world *world, int i)
{
    rota_server_close(world->servers[i]);
    rota_work_broker_close(world->brokers[i]);
    world->servers[i] = NULL;
    world->brokers[i] = NULL;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    rota_queue_close(world->queue);
    for (int i = 0; i < NODES; i++)
        close_node(world, i);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
    free(world);
    return 0;
}

static void on_result(void *data, const struct rota_queue_result *result)
{
    struct told *told = data;
    told->n++;
    told->code = result->code;
    told->state = result->state;
    told->is_new = result->is_new;
    snprintf(told->job, sizeof told->job, "%s", result->job);
    snprintf(told->text, sizeof told->text, "%s", result->text);
    snprintf(told->bytes, sizeof told->bytes, "%.*s", ROTA_STR_ARGS(result->result));
}

static void on_work(void *data, const struct rota_queue_result *result,
                    const struct rota_queue_work *works, size_t n)
{
    struct told *told = data;
    on_result(told, result);
    told->n_works = n;
    if (n == 0)
        return;
    snprintf(told->job, sizeof told->job, "%s", works[0].job);
    snprintf(told->bytes, sizeof told->bytes, "%.*s", ROTA_STR_ARGS(works[0].payload));
    told->attempt = works[0].attempt;
}

static void add(struct world *world, const char *payload, const char *unique, struct told *told)
{
    struct rota_queue_job job = {
        .queue = rota_str("q"), .payload = rota_str(payload), .unique = rota_str(unique)};
    *told = (struct told){0};
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, told, NULL), ROTA_OK);
    await(&world->loop, &told->n, 1);
}

static bool poll_once(struct world *world, struct told *told)
{
    struct rota_queue_wanted wanted = {.queue = rota_str("q"), .wait = ROTA_MSEC};
    *told = (struct told){0};
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, told, NULL), ROTA_OK);
    await(&world->loop, &told->n, 1);
    assert_int_equal(told->code, ROTA_OK);
    return told->n_works > 0;
}

static void a_job_is_added_worked_on_and_waited_for(void **state)
{
    struct world *world = *state;
    struct told added, work, done, ended = {0}, seen = {0};
    add(world, "hello", "", &added);
    assert_int_equal(added.code, ROTA_OK);
    assert_true(added.is_new);
    assert_int_equal(rota_queue_wait(world->queue, added.job, on_result, &ended, NULL), ROTA_OK);
    while (!poll_once(world, &work)) {
    }
    assert_string_equal(work.job, added.job);
    assert_string_equal(work.bytes, "hello");
    done = (struct told){0};
    assert_int_equal(rota_queue_extend(world->queue, work.job, work.attempt, 0, rota_str("half"),
                                       on_result, &done, NULL),
                     ROTA_OK);
    await(&world->loop, &done.n, 1);
    assert_int_equal(done.code, ROTA_OK);
    assert_int_equal(rota_queue_complete(world->queue, work.job, work.attempt, rota_str("world"),
                                         on_result, &done, NULL),
                     ROTA_OK);
    await(&world->loop, &done.n, 2);
    assert_int_equal(done.code, ROTA_OK);
    await(&world->loop, &ended.n, 1);
    assert_int_equal(ended.state, ROTA_QUEUE_DONE);
    assert_string_equal(ended.bytes, "world");
    assert_int_equal(rota_queue_look(world->queue, added.job, on_result, &seen, NULL), ROTA_OK);
    await(&world->loop, &seen.n, 1);
    assert_int_equal(seen.state, ROTA_QUEUE_DONE);
    assert_int_equal(rota_queue_fail(world->queue, work.job, work.attempt + 1, rota_str("late"),
                                     false, on_result, &done, NULL),
                     ROTA_OK);
    await(&world->loop, &done.n, 3);
    assert_int_equal(done.code, ROTA_ERR_STALE);
}

static void jobs_go_to_all_nodes_and_past_one_that_is_away(void **state)
{
    struct world *world = *state;
    struct told told;
    for (int i = 0; i < 60; i++) {
        add(world, "x", "", &told);
        assert_int_equal(told.code, ROTA_OK);
    }
    for (int i = 0; i < NODES; i++)
        assert_true(rota_work_broker_counts(world->brokers[i]).jobs > 0);
    close_node(world, 1);
    size_t n_unknown = 0;
    for (int i = 0; i < 20; i++) {
        add(world, "x", "", &told);
        n_unknown += told.code == ROTA_ERR_UNKNOWN;
        if (told.code != ROTA_ERR_UNKNOWN)
            assert_int_equal(told.code, ROTA_OK);
    }
    assert_true(n_unknown <= 1); /* the one that was on its way when the node went */
}

static void a_unique_key_is_of_all_nodes(void **state)
{
    struct world *world = *state;
    struct told first, second, cancelled = {0};
    add(world, "x", "once", &first);
    add(world, "y", "once", &second);
    assert_true(first.is_new);
    assert_false(second.is_new);
    assert_string_equal(first.job, second.job);
    assert_int_equal(rota_queue_cancel(world->queue, first.job, on_result, &cancelled, NULL),
                     ROTA_OK);
    await(&world->loop, &cancelled.n, 1);
    assert_int_equal(cancelled.code, ROTA_OK);
    add(world, "z", "once", &second);
    assert_true(second.is_new);
}

struct answer {
    size_t n;
    uint64_t write;
};

static void on_answer(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct answer *answer = data;
    struct rota_arena arena = {0};
    struct rota_queue_nodes nodes = {0};
    (void)call;
    answer->n++;
    assert_int_equal(result->status, ROTA_STATUS_OK);
    rota_message_decode(&ROTA_QUEUE_NODES, result->message, &nodes, &arena, NULL);
    answer->write = nodes.write;
    rota_arena_deinit(&arena);
}

/* Ask a node; returns what it says of the partitions that are written, if it does. */
static uint64_t ask(struct world *world, int node, const char *method,
                    const struct rota_message_type *type, const void *request)
{
    struct rota_channel *channel;
    struct rota_buffer bytes = {0};
    struct answer answer = {0};
    rota_message_encode(type, request, &bytes);
    struct rota_call_options options = {.method = rota_str(method),
                                        .request = rota_buffer_str(&bytes),
                                        .wait_for_ready = true,
                                        .on_end = on_answer,
                                        .data = &answer};
    assert_int_equal(rota_channel_open(&world->loop, rota_server_address(world->servers[node], 0),
                                       NULL, &channel, NULL),
                     ROTA_OK);
    assert_int_equal(rota_channel_call(channel, &options, NULL, NULL), ROTA_OK);
    await(&world->loop, &answer.n, 1);
    rota_channel_close(channel);
    rota_buffer_deinit(&bytes);
    return answer.write;
}

static void a_client_follows_a_queue_that_gets_fewer_partitions(void **state)
{
    struct world *world = *state;
    const struct rota_queue_lay_out wish = {.queue = rota_str("q"), .partitions = 2};
    const struct rota_queue_setting about = {.queue = rota_str("q")};
    char key[8];
    struct told told;
    ask(world, 0, "/rota.v1.Queue/SetLayout", &ROTA_QUEUE_SET_LAYOUT, &wish);
    for (int i = 0; i < NODES; i++)
        while (ask(world, i, "/rota.v1.Queue/Nodes", &ROTA_QUEUE_PAUSE, &about) != 2)
            ;
    for (int i = 0; i < 40; i++) {
        struct rota_job_id id;
        snprintf(key, sizeof key, "%s%d", i % 2 ? "k" : "", i);
        add(world, "x", i % 2 ? key : "", &told);
        assert_int_equal(told.code, ROTA_OK);
        assert_true(told.is_new);
        assert_int_equal(rota_job_id_parse(rota_str(told.job + 2), &id, NULL), ROTA_OK);
        assert_true(rota_job_id_partition(id) < 2);
        if (i % 2) {
            add(world, "x", key, &told);
            assert_false(told.is_new);
        }
    }
}

static void what_can_not_be_is_said(void **state)
{
    struct world *world = *state;
    struct rota_queue_job job = {.queue = rota_str("no queue")};
    struct rota_queue_options bad = {.nodes = "nowhere"};
    struct rota_queue *queue;
    struct told told = {0};
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, &told, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_wait(world->queue, "q", on_result, &told, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_wait(world->queue, "q/zz", on_result, &told, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_open(&world->loop, &bad, &queue, NULL), ROTA_ERR_INVALID);
    assert_int_equal(
        rota_queue_wait(world->queue, "q/000000000001000100000000000000aa", on_result, &told, NULL),
        ROTA_OK);
    await(&world->loop, &told.n, 1);
    assert_int_equal(told.code, ROTA_ERR_NOT_FOUND);
}

static void a_client_can_be_closed_with_calls_under_way(void **state)
{
    struct world *world = *state;
    struct rota_queue_wanted wanted = {.queue = rota_str("q")};
    struct rota_queue_job job = {.queue = rota_str("q")};
    struct told told = {0};
    assert_int_equal(rota_queue_poll(world->queue, &wanted, on_work, &told, NULL), ROTA_OK);
    assert_int_equal(rota_queue_add(world->queue, &job, on_result, &told, NULL), ROTA_OK);
    uv_run(&world->loop, UV_RUN_ONCE);
    rota_queue_close(world->queue);
    world->queue = NULL;
    assert_int_equal(told.n, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_added_worked_on_and_waited_for),
        TEST(jobs_go_to_all_nodes_and_past_one_that_is_away),
        TEST(a_unique_key_is_of_all_nodes),
        TEST(a_client_follows_a_queue_that_gets_fewer_partitions),
        TEST(what_can_not_be_is_said),
        TEST(a_client_can_be_closed_with_calls_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
