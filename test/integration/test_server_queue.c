/* A server with few concurrent calls: which calls wait, which are refused, and what their
 * clients learn. */
#include "calls.h"

#include "wire/grpc/call_notes.h"

#include <rota/metrics.h>
#include <stdlib.h>

enum { CALLS = 16 };

struct world {
    struct node node;
    struct rota_channel *channel;
    struct rota_metrics *metrics;
    struct rota_call *calls[CALLS];
    struct ended ended[CALLS];
};

static void world_open(struct world *world, struct rota_server_options options)
{
    memset(world, 0, sizeof *world);
    loop_open();
    world->metrics = options.metrics = rota_metrics_new(1);
    node_open_with(&world->node, 1, options, false);
    world->node.is_keeping = true;
    world->channel = channel_to(&world->node);
}

static void world_close(struct world *world)
{
    rota_channel_close(world->channel);
    node_close(&world->node);
    for (size_t i = 0; i < world->node.n_kept; i++)
        rota_server_call_finish(world->node.kept[i], ROTA_STATUS_OK, NULL, NULL, 0);
    loop_close();
    rota_metrics_free(world->metrics);
}

static void start(struct world *world, size_t n, rota_time timeout)
{
    for (size_t i = 0; i < n; i++)
        world->calls[i] = call_start(world->channel, NULL, NULL, timeout, &world->ended[i]);
}

static size_t count(const struct world *world, enum rota_status status)
{
    size_t n = 0;
    for (size_t i = 0; i < CALLS; i++)
        n += world->ended[i].n > 0 && world->ended[i].status == status;
    return n;
}

static size_t n_waiting(const struct world *world)
{
    return rota_server_counts(world->node.server).waiting;
}

static void answer_one(struct world *world)
{
    struct rota_server_call *call = world->node.kept[0];
    memmove(world->node.kept, world->node.kept + 1, --world->node.n_kept * sizeof call);
    rota_server_call_reply(call, rota_str("done"));
}

static bool says(const struct world *world, const char *line)
{
    char *text = rota_metrics_text(world->metrics, NULL);
    bool is_there = strstr(text, line) != NULL;
    free(text);
    return is_there;
}

static void few_run_some_wait_and_the_rest_is_refused(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 2, .waiting_max = 5});
    start(&world, CALLS, 0);
    RUN_UNTIL(count(&world, ROTA_STATUS_RESOURCE_EXHAUSTED) == CALLS - 7);
    assert_int_equal(world.node.n_kept, 2);
    assert_int_equal(n_waiting(&world), 5);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(world.ended[i].n, 0); /* the first to come are in */
    assert_string_equal(world.ended[7].failure, "overload");
    assert_true(says(&world, "rota_server_waiting 5\n"));
    assert_true(says(&world, "rota_server_refused_total{reason=\"queue\"} 9\n"));
    for (size_t n = 1; n <= 7; n++) {
        RUN_UNTIL(world.node.n_kept > 0);
        assert_true(world.node.n_kept <= 2);
        answer_one(&world);
        RUN_UNTIL(count(&world, ROTA_STATUS_OK) == n);
        assert_int_equal(world.ended[n - 1].n, 1); /* in the order they came */
    }
    assert_int_equal(n_waiting(&world), 0);
    assert_true(says(&world, "rota_server_wait_seconds_count 7\n"));
    assert_true(says(&world, "rota_server_calls_total 7\n"));
    assert_true(says(&world, "rota_server_calls 0\n"));
    assert_true(says(&world, "rota_server_waiting 0\n"));
    assert_true(says(&world, "rota_server_connections 1\n"));
    world_close(&world);
}

static void handler_that_answers_at_once_delays_no_call(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1, .waiting_max = 1});
    world.node.is_keeping = false;
    start(&world, CALLS, 0);
    RUN_UNTIL(count(&world, ROTA_STATUS_OK) == CALLS);
    world_close(&world);
}

static void waiting_calls_are_served_from_the_loop_not_inside_a_finish(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1});
    start(&world, CALLS, 0);
    RUN_UNTIL(n_waiting(&world) == CALLS - 1);
    world.node.is_keeping = false; /* from now on it answers at once */
    answer_one(&world);
    assert_int_equal(world.node.n_calls, 1);
    RUN_UNTIL(count(&world, ROTA_STATUS_OK) == CALLS);
    world_close(&world);
}

static void server_reports_the_cost_on_its_own(void **state)
{
    struct world world;
    struct rota_cost cost;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1});
    start(&world, 3, 0);
    RUN_UNTIL(n_waiting(&world) == 2);
    answer_one(&world);
    RUN_UNTIL(world.ended[0].n);
    assert_true(rota_call_notes_parse_cost(rota_str(world.ended[0].cost), &cost));
    assert_int_equal(cost.waiting, 2);
    assert_int_equal(cost.response_us, cost.service_us); /* it did not wait */
    RUN_UNTIL(world.node.n_kept);
    struct rota_cost own = {3, 2, 1};
    rota_server_call_cost(world.node.kept[0], &own); /* the handler knows better */
    answer_one(&world);
    RUN_UNTIL(world.ended[1].n);
    assert_string_equal(world.ended[1].cost, "3 2 1");
    RUN_UNTIL(world.node.n_kept);
    answer_one(&world);
    RUN_UNTIL(world.ended[2].n);
    assert_true(rota_call_notes_parse_cost(rota_str(world.ended[2].cost), &cost));
    assert_true(cost.service_us <= cost.response_us);
    assert_int_equal(cost.waiting, 0);
    world_close(&world);
}

static void without_a_queue_only_routing_clients_get_the_cost(void **state)
{
    struct world world;
    struct rota_cost cost;
    (void)state;
    world_open(&world, (struct rota_server_options){0});
    world.node.is_keeping = false;
    call_wait(world.channel, NULL, NULL, &world.ended[0]);
    assert_string_equal(world.ended[0].cost, "");
    call_wait(world.channel, NULL, "5", &world.ended[0]);
    assert_true(rota_call_notes_parse_cost(rota_str(world.ended[0].cost), &cost));
    assert_int_equal(cost.waiting, 0);
    world_close(&world);
}

static void call_cancelled_in_the_queue_is_never_run(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1, .waiting_max = 3});
    start(&world, 4, 0);
    RUN_UNTIL(n_waiting(&world) == 3);
    rota_call_cancel(world.calls[2]);
    RUN_UNTIL(n_waiting(&world) == 2);
    assert_int_equal(rota_server_counts(world.node.server).calls, 3);
    assert_int_equal(rota_server_counts(world.node.server).cancelled_total, 1);
    assert_true(says(&world, "rota_server_cancelled_total 1\n"));
    for (size_t n = 1; n <= 3; n++) {
        RUN_UNTIL(world.node.n_kept);
        answer_one(&world);
        RUN_UNTIL(count(&world, ROTA_STATUS_OK) == n);
    }
    assert_int_equal(world.node.n_calls, 3);
    assert_int_equal(world.node.n_cancelled, 0); /* its handler was not bothered */
    world_close(&world);
}

static void call_that_is_too_late_in_the_queue_is_never_run(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1});
    start(&world, 1, 0);
    RUN_UNTIL(world.node.n_kept == 1);
    call_start(world.channel, NULL, NULL, 20 * ROTA_MSEC, &world.ended[1]);
    RUN_UNTIL(world.ended[1].n && n_waiting(&world) == 0);
    assert_int_equal(world.ended[1].status, ROTA_STATUS_DEADLINE_EXCEEDED);
    answer_one(&world);
    RUN_UNTIL(world.ended[0].n);
    call_start(world.channel, NULL, NULL, 0, &world.ended[2]);
    RUN_UNTIL(world.node.n_kept == 1);
    assert_int_equal(world.node.n_calls, 2);
    world_close(&world);
}

static void greedy_client_does_not_take_all_the_places(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, (struct rota_server_options){
                           .handlers_max = 1, .waiting_max = 4, .connection_calls_max = 3});
    struct rota_channel *modest = channel_to(&world.node);
    start(&world, CALLS - 1, 0);
    RUN_UNTIL(n_waiting(&world) == 2); /* its other calls wait on its own side */
    call_start(modest, NULL, NULL, 0, &world.ended[CALLS - 1]);
    RUN_UNTIL(n_waiting(&world) == 3);
    for (size_t n = 1; world.ended[CALLS - 1].n == 0; n++) {
        assert_true(n <= 4); /* its turn comes, whatever the other one sends */
        RUN_UNTIL(world.node.n_kept);
        answer_one(&world);
        RUN_UNTIL(count(&world, ROTA_STATUS_OK) == n);
    }
    while (count(&world, ROTA_STATUS_OK) < CALLS) {
        RUN_UNTIL(world.node.n_kept);
        size_t n = count(&world, ROTA_STATUS_OK);
        answer_one(&world);
        RUN_UNTIL(count(&world, ROTA_STATUS_OK) > n);
    }
    assert_int_equal(rota_server_counts(world.node.server).refused_total, 0);
    rota_channel_close(modest);
    world_close(&world);
}

static void health_checks_do_not_wait(void **state)
{
    struct world world;
    struct rota_reply reply;
    struct rota_error error;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1});
    start(&world, 2, 0);
    RUN_UNTIL(n_waiting(&world) == 1);
    struct rota_call_options check = {.method = rota_str("/grpc.health.v1.Health/Check")};
    assert_int_equal(rota_channel_wait(world.channel, &check, &reply, &error), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    assert_int_equal(n_waiting(&world), 1);
    rota_reply_deinit(&reply);
    world_close(&world);
}

static void on_stream(void *data, struct rota_server_call *call)
{
    ++*(size_t *)data;
    (void)call;
}

static void on_stream_message(void *data, struct rota_server_call *call, struct rota_str message)
{
    (void)call;
    (void)message;
    assert_int_equal(*(size_t *)data, 1); /* not before the call itself */
}

static void on_stream_end(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_str("done"));
}

static void stream_of_requests_does_not_wait(void **state)
{
    struct world world;
    size_t n_streams = 0;
    const struct rota_server_method method = {.path = "/test.Node/Stream",
                                              .on_call = on_stream,
                                              .on_message = on_stream_message,
                                              .on_requests_end = on_stream_end,
                                              .data = &n_streams};
    struct rota_call_options options = {.method = rota_str(method.path)};
    struct rota_reply reply;
    struct rota_error error;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1});
    assert_int_equal(rota_server_add(world.node.server, &method, &error), ROTA_OK);
    start(&world, 1, 0);
    RUN_UNTIL(world.node.n_kept == 1);
    assert_int_equal(rota_channel_wait(world.channel, &options, &reply, &error), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    rota_reply_deinit(&reply);
    answer_one(&world);
    RUN_UNTIL(world.ended[0].n);
    assert_int_equal(n_streams, 0);
    assert_int_equal(rota_channel_wait(world.channel, &options, &reply, &error), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    rota_reply_deinit(&reply);
    assert_int_equal(n_streams, 1);
    world_close(&world);
}

static void server_can_be_drained_and_closed_with_calls_waiting(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, (struct rota_server_options){.handlers_max = 1});
    start(&world, 3, 0);
    RUN_UNTIL(n_waiting(&world) == 2);
    rota_server_drain(world.node.server, 20 * ROTA_SEC, NULL, NULL);
    for (size_t n = 1; n <= 3; n++) {
        RUN_UNTIL(world.node.n_kept);
        answer_one(&world);
        RUN_UNTIL(count(&world, ROTA_STATUS_OK) == n);
    }
    world_close(&world);

    world_open(&world, (struct rota_server_options){.handlers_max = 1});
    start(&world, 3, 0);
    RUN_UNTIL(n_waiting(&world) == 2);
    world_close(&world);
    assert_int_equal(world.node.n_calls, 1);
}

static void claim_that_moves_while_a_call_waits_is_noticed(void **state)
{
    struct node node;
    struct ended ended[2];
    (void)state;
    loop_open();
    node_open_with(&node, 1, (struct rota_server_options){.handlers_max = 1}, true);
    node_claim(&node, "a", &node, 5);
    node.is_keeping = true;
    struct rota_channel *channel = channel_to(&node);
    for (size_t i = 0; i < 2; i++)
        call_start(channel, "1/a", "5", 0, &ended[i]);
    RUN_UNTIL(rota_server_counts(node.server).waiting == 1);
    node_claim(&node, "a", &node, 6);
    rota_server_call_reply(node.kept[--node.n_kept], rota_str("done"));
    RUN_UNTIL(ended[0].n && ended[1].n);
    assert_int_equal(ended[0].status, ROTA_STATUS_OK);
    assert_int_equal(ended[1].status, ROTA_STATUS_ABORTED);
    assert_string_equal(ended[1].failure, "stale");
    assert_int_equal(node.n_calls, 1);
    node.is_keeping = false; /* the place of the refused one is free */
    call_wait(channel, "1/a", "6", &ended[0]);
    assert_int_equal(ended[0].status, ROTA_STATUS_OK);
    rota_channel_close(channel);
    node_close(&node);
    loop_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_run_some_wait_and_the_rest_is_refused),
        cmocka_unit_test(handler_that_answers_at_once_delays_no_call),
        cmocka_unit_test(waiting_calls_are_served_from_the_loop_not_inside_a_finish),
        cmocka_unit_test(server_reports_the_cost_on_its_own),
        cmocka_unit_test(without_a_queue_only_routing_clients_get_the_cost),
        cmocka_unit_test(call_cancelled_in_the_queue_is_never_run),
        cmocka_unit_test(call_that_is_too_late_in_the_queue_is_never_run),
        cmocka_unit_test(greedy_client_does_not_take_all_the_places),
        cmocka_unit_test(health_checks_do_not_wait),
        cmocka_unit_test(stream_of_requests_does_not_wait),
        cmocka_unit_test(server_can_be_drained_and_closed_with_calls_waiting),
        cmocka_unit_test(claim_that_moves_while_a_call_waits_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
