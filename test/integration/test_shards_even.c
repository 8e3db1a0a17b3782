/* Equal nodes get equal shares of the calls, however few are made at a time.
 *
 * Three nodes are alike: their handlers take 4 ms or next to no time. Callers make 1, 2 or 16 calls
 * at a time, with connections that stand already or have to be made first, with pauses and
 * without. Each node must answer a third of the calls, 10 % more or less.
 *
 * A node that other programs keep from running gets fewer calls, and should. So the nodes and their
 * client share one thread, and a clock that no other program can hold up. */
#include "await.h"
#include "thread_clock.h"

#include <rota/experimental/rota.h>
#include <stdlib.h>

enum { NODES = 3, SLOTS = 64, CALLERS_MAX = 16, CONNECTIONS = 10 };

struct scene {
    uint64_t delay_ms;
    int n_callers;
    uint64_t pause_ms;
    bool is_warm;
};

struct world {
    struct scene scene;
    uv_loop_t loop;
    struct rota_server *servers[NODES];
    struct rota_replica replicas[NODES];
    struct rota_shards *shards;
    uv_timer_t callers[CALLERS_MAX];
    size_t n_calls, n_started, n_ended, n_maps, counts[NODES];
};

/* --- a node --- */

struct job {
    struct rota_server_call *call;
    uv_timer_t timer;
};

static void on_job_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_served(uv_timer_t *timer)
{
    struct job *job = timer->data;
    rota_server_call_reply(job->call, rota_str("done"));
    uv_close((uv_handle_t *)timer, on_job_closed);
}

static void on_work(void *data, struct rota_server_call *call)
{
    struct world *world = data;
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->call = call;
    uv_timer_init(&world->loop, &job->timer);
    job->timer.data = job;
    uv_timer_start(&job->timer, on_served, world->scene.delay_ms, 0);
}

static void open_nodes(struct world *world)
{
    const struct rota_server_options options = {.handlers_max = SLOTS};
    const struct rota_server_method work = {
        .path = "/test.Node/Work", .on_call = on_work, .data = world};
    for (int i = 0; i < NODES; i++) {
        struct rota_server **server = &world->servers[i];
        assert_int_equal(rota_server_open(&world->loop, &options, server, NULL), ROTA_OK);
        assert_int_equal(rota_server_add(*server, &work, NULL), ROTA_OK);
        assert_int_equal(rota_server_listen(*server, "127.0.0.1:0", NULL), ROTA_OK);
        world->replicas[i] =
            (struct rota_replica){.node = i + 1,
                                  .address = rota_str(rota_server_address(*server, 0)),
                                  .is_serviceable = true};
    }
}

/* --- the client --- */

static void ask(void *data, struct rota_shards *shards, uint64_t question,
                const struct rota_shards_name *name)
{
    struct world *world = data;
    const struct rota_shard_channel channel = {rota_str("s"), world->replicas, NODES};
    const struct rota_shards_map map = {.id = 1, .channels = &channel, .n_channels = 1};
    (void)name;
    rota_shards_tell(shards, question, &map, NULL);
}

static void on_map(void *data, const struct rota_shards_map *map, struct rota_str text)
{
    (void)map, (void)text;
    ((struct world *)data)->n_maps++;
}

static bool is_connected(const struct world *world)
{
    struct rota_shards_view view;
    for (int i = 0; i < NODES; i++)
        if (!rota_shards_look_at(world->shards, i + 1, &view) || view.n_connections < CONNECTIONS)
            return false;
    return true;
}

static void open_client(struct world *world)
{
    const struct rota_shards_source source = {.ask = ask, .data = world};
    const struct rota_shards_options options = {.source = &source};
    const struct rota_shards_query query = {
        .name = {.id = 1}, .is_warmed = true, .on_map = on_map, .data = world};
    assert_int_equal(rota_shards_open(&world->loop, &options, &world->shards, NULL), ROTA_OK);
    if (!world->scene.is_warm)
        return;
    assert_int_equal(rota_shards_look(world->shards, &query, NULL), ROTA_OK);
    await(&world->loop, &world->n_maps, 1);
    while (!is_connected(world))
        uv_run(&world->loop, UV_RUN_ONCE);
}

/* --- calls --- */

static void call(uv_timer_t *caller);

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    struct world *world = ((uv_timer_t *)data)->data;
    if (reply->status == ROTA_STATUS_OK)
        world->counts[reply->node - 1]++;
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    uv_timer_t *caller = data;
    struct world *world = caller->data;
    assert_int_equal(result->status, ROTA_STATUS_OK);
    world->n_ended++;
    if (world->n_started == world->n_calls)
        return;
    if (world->scene.pause_ms > 0)
        uv_timer_start(caller, call, world->scene.pause_ms, 0);
    else
        call(caller);
}

static void call(uv_timer_t *caller)
{
    struct world *world = caller->data;
    const struct rota_shards_request request = {
        .name = {.id = 1},
        .mode = ROTA_SHARDS_ONE,
        .method = rota_str("/test.Node/Work"),
        .request = rota_str("work"),
        .on_reply = on_reply,
        .on_done = on_done,
        .data = caller,
    };
    if (world->n_started == world->n_calls)
        return; /* another caller made the last one during the pause */
    world->n_started++;
    assert_int_equal(rota_shards_execute(world->shards, &request, NULL, NULL), ROTA_OK);
}

/* --- the shares --- */

static void close_world(struct world *world)
{
    for (int i = 0; i < world->scene.n_callers; i++)
        uv_close((uv_handle_t *)&world->callers[i], NULL);
    rota_shards_close(world->shards);
    for (int i = 0; i < NODES; i++)
        rota_server_close(world->servers[i]);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
}

static void check_shares(struct scene scene, size_t n_calls)
{
    struct world world = {.scene = scene, .n_calls = n_calls};
    assert_int_equal(uv_loop_init(&world.loop), 0);
    open_nodes(&world);
    open_client(&world);
    for (int i = 0; i < scene.n_callers; i++) {
        uv_timer_init(&world.loop, &world.callers[i]);
        world.callers[i].data = &world;
    }
    for (int i = 0; i < scene.n_callers; i++)
        call(&world.callers[i]);
    await(&world.loop, &world.n_ended, n_calls);
    close_world(&world);
    for (int i = 0; i < NODES; i++)
        if (world.counts[i] * NODES * 10 < n_calls * 9 ||
            world.counts[i] * NODES * 10 > n_calls * 11)
            fail_msg("%d at a time, %s, %d ms apart: %zu, %zu and %zu", scene.n_callers,
                     scene.is_warm ? "warm" : "cold", (int)scene.pause_ms, world.counts[0],
                     world.counts[1], world.counts[2]);
}

static void nodes_that_are_alike_get_equal_shares(uint64_t delay_ms, int n_callers, size_t n_calls)
{
    bool is_too_much = delay_ms == 0 && n_callers > 2; /* without pauses, for one thread */
    for (uint64_t pause_ms = is_too_much ? 3 : 0; pause_ms <= 3; pause_ms += 3)
        for (int is_warm = 0; is_warm < 2; is_warm++)
            check_shares((struct scene){delay_ms, n_callers, pause_ms, is_warm},
                         delay_ms || pause_ms ? n_calls : 10 * n_calls);
}

static void one_call_at_a_time(void **state)
{
    (void)state;
    nodes_that_are_alike_get_equal_shares(4, 1, 150);
}

static void two_calls_at_a_time(void **state)
{
    (void)state;
    nodes_that_are_alike_get_equal_shares(4, 2, 300);
}

static void sixteen_calls_at_a_time(void **state)
{
    (void)state;
    nodes_that_are_alike_get_equal_shares(4, 16, 3000);
}

static void one_call_at_a_time_that_takes_no_time(void **state)
{
    (void)state;
    nodes_that_are_alike_get_equal_shares(0, 1, 150);
}

static void two_calls_at_a_time_that_take_no_time(void **state)
{
    (void)state;
    nodes_that_are_alike_get_equal_shares(0, 2, 300);
}

static void sixteen_calls_at_a_time_that_take_no_time(void **state)
{
    (void)state;
    nodes_that_are_alike_get_equal_shares(0, 16, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_call_at_a_time),
        cmocka_unit_test(two_calls_at_a_time),
        cmocka_unit_test(sixteen_calls_at_a_time),
        cmocka_unit_test(one_call_at_a_time_that_takes_no_time),
        cmocka_unit_test(two_calls_at_a_time_that_take_no_time),
        cmocka_unit_test(sixteen_calls_at_a_time_that_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
