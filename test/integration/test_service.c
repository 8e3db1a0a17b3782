/* A service server as a program meets it, on SQLite: a shard waits for its calls in progress before
 * it stops, and for its start before it is served; unfenced methods are served to all; invalid
 * options are refused. Processes are in test_service_server.py. */
#include "await.h"
#include "database.h"
#include "io/sql/sql.h"
#include "metric.h"

#include <rota/experimental/channel.h>
#include <rota/service_server.h>
#include <stdio.h>
#include <string.h>

static uv_loop_t loop;
static struct rota_store *store;
static struct rota_metrics *metrics;

struct service {
    struct rota_service_server *server;
    struct rota_server_call *kept;
    struct rota_channel *channel;
    size_t n_started, n_kept, n_ended, n_closed;
    uint64_t epoch; /* of shard 0 */
    enum rota_status status;
    bool is_current; /* when the call was finished */
};

static void on_keep(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    service->kept = call;
    service->n_kept++;
}

static void on_ping(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_str("pong"));
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct service *service = data;
    service->n_started++;
    if (shard == 0)
        service->epoch = epoch;
    else
        rota_service_server_started(service->server, shard, epoch, NULL);
}

static void on_closed(void *data)
{
    ((struct service *)data)->n_closed++;
}

static void run_sql(const char *text)
{
    struct rota_sql_url url = database_url(true);
    struct rota_sql *sql = NULL;
    struct rota_error error;
    if (rota_sql_open(&url, NULL, &sql, &error) || rota_sql_run(sql, text, NULL, 0, NULL, &error))
        fail_msg("%s: %s", text, error.text);
    rota_sql_close(sql);
}

static void on_up(void *data)
{
    ++*(size_t *)data;
}

static int setup(void **state)
{
    static size_t n_ups;
    const struct rota_store_options options = {
        .url = database_text("ROTA_TEST_URL"), .on_up = on_up, .data = &n_ups};
    struct rota_error error;
    (void)state;
    n_ups = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    metrics = rota_metrics_new(1);
    if (rota_store_open(&loop, &options, &store, &error))
        fail_msg("%s", error.text);
    await(&loop, &n_ups, 1);
    run_sql("DELETE FROM rota_spaces");
    run_sql("DELETE FROM rota_space_nodes");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rota_store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    rota_metrics_free(metrics);
    return 0;
}

static void open_service(struct service *service, const char *engine)
{
    const struct rota_server_method keep = {
        .path = "/test.Service/Keep", .on_call = on_keep, .data = service};
    const struct rota_server_method ping = {.path = "/test.Service/Ping", .on_call = on_ping};
    const struct rota_service_server_options options = {
        .space = "service",
        .listen = "127.0.0.1:0",
        .store = store,
        .engine = engine,
        .n_shards = 4,
        .ttl = 30 * ROTA_SEC,
        .methods = &keep,
        .n_methods = 1,
        .unfenced = &ping,
        .n_unfenced = 1,
        .on_start = on_start,
        .metrics = metrics,
        .data = service,
    };
    struct rota_error error;
    *service = (struct service){0};
    if (rota_service_server_open(&loop, &options, &service->server, &error) ||
        rota_channel_open(&loop, rota_service_server_address(service->server), NULL,
                          &service->channel, &error))
        fail_msg("%s", error.text);
    await(&loop, &service->n_started, 4);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct service *service = data;
    (void)call;
    service->status = result->status;
    service->n_ended++;
}

static void call_shard(struct service *service, const char *method, const char *shard)
{
    char epoch[32];
    struct rota_error error;
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)service->epoch);
    const struct rota_metadata notes[] = {{rota_str("rota-shard"), rota_str(shard)},
                                          {rota_str("rota-epoch"), rota_str(epoch)}};
    const struct rota_call_options options = {.method = rota_str(method),
                                              .metadata = notes,
                                              .n_metadata = 2,
                                              .timeout = ROTA_MIN,
                                              .on_end = on_end,
                                              .data = service};
    if (rota_channel_call(service->channel, &options, NULL, &error))
        fail_msg("%s", error.text);
}

static void shard_is_served_after_its_start_with(const char *engine)
{
    struct service service;
    open_service(&service, engine);
    call_shard(&service, "/test.Service/Keep", "service/0");
    await(&loop, &service.n_ended, 1);
    assert_int_equal(service.status, ROTA_STATUS_ABORTED);
    rota_service_server_started(service.server, 0, service.epoch, NULL);
    rota_service_server_started(service.server, 0, service.epoch, "too late"); /* is ignored */
    call_shard(&service, "/test.Service/Keep", "service/0");
    await(&loop, &service.n_kept, 1);
    assert_true(rota_service_server_is_current(service.server, service.kept));
    rota_server_call_reply(service.kept, rota_str("ok"));
    await(&loop, &service.n_ended, 2);
    assert_int_equal(service.status, ROTA_STATUS_OK);
    rota_channel_close(service.channel);
    rota_service_server_close(service.server, on_closed, &service);
    await(&loop, &service.n_closed, 1);
}

static void shard_is_served_after_its_start(void **state)
{
    (void)state;
    shard_is_served_after_its_start_with("ring");
}

static void shard_by_lease_is_served_after_its_start(void **state)
{
    (void)state;
    shard_is_served_after_its_start_with("lease");
}

/* Finishes the call that is kept, from a later turn of the loop. */
static void on_timer(uv_timer_t *timer)
{
    struct service *service = timer->data;
    assert_int_equal(service->n_closed, 0);
    service->is_current = rota_service_server_is_current(service->server, service->kept);
    rota_server_call_reply(service->kept, rota_str("ok"));
    uv_close((uv_handle_t *)timer, NULL);
}

static void close_waits_for_calls_in_progress(void **state)
{
    struct service service;
    uv_timer_t timer;
    (void)state;
    open_service(&service, "ring");
    rota_service_server_started(service.server, 0, service.epoch, NULL);
    call_shard(&service, "/test.Service/Keep", "service/0");
    await(&loop, &service.n_kept, 1);
    assert_int_equal(metric_of(metrics, "rota_service_calls{space=\"service\"}"), 1);
    rota_service_server_close(service.server, on_closed, &service);
    call_shard(&service, "/test.Service/Keep", "service/0");
    await(&loop, &service.n_ended, 1); /* a new one is rejected */
    assert_int_equal(service.status, ROTA_STATUS_ABORTED);
    assert_true(rota_space_map(rota_service_server_space(service.server))->n_held == 0);
    uv_timer_init(&loop, &timer);
    timer.data = &service;
    uv_timer_start(&timer, on_timer, 1, 0);
    await(&loop, &service.n_ended, 2);
    assert_int_equal(service.status, ROTA_STATUS_OK);
    assert_true(service.is_current); /* while the shard stops, its calls may still act */
    assert_int_equal(metric_of(metrics, "rota_service_calls{space=\"service\"}"), 0);
    assert_int_equal(metric_of(metrics, "rota_service_cut_total{space=\"service\"}"), 0);
    rota_channel_close(service.channel);
    await(&loop, &service.n_closed, 1);
}

static void only_unfenced_methods_are_served_to_all(void **state)
{
    struct service service;
    struct rota_reply reply;
    struct rota_error error;
    struct rota_call_options options = {.method = rota_str("/test.Service/Ping"),
                                        .timeout = ROTA_MIN};
    (void)state;
    open_service(&service, "ring");
    assert_int_equal(rota_channel_wait(service.channel, &options, &reply, &error), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    rota_reply_deinit(&reply);
    options.method = rota_str("/test.Service/Keep");
    assert_int_equal(rota_channel_wait(service.channel, &options, &reply, &error), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_FAILED_PRECONDITION);
    rota_reply_deinit(&reply);
    options.method = rota_str("/grpc.health.v1.Health/Check");
    assert_int_equal(rota_channel_wait(service.channel, &options, &reply, &error), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    rota_reply_deinit(&reply);
    rota_channel_close(service.channel);
    rota_service_server_close(service.server, on_closed, &service);
    await(&loop, &service.n_closed, 1);
}

static void unreachable_server_is_refused(void **state)
{
    struct rota_service_server *server;
    struct rota_error error;
    struct rota_service_server_options options = {
        .space = "service", .listen = "0.0.0.0:0", .store = store};
    (void)state;
    assert_int_equal(rota_service_server_open(&loop, &options, &server, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "set `address` to the one that clients connect to"));
    options.listen = "127.0.0.1:0";
    options.space = "no/space";
    assert_int_equal(rota_service_server_open(&loop, &options, &server, &error), ROTA_ERR_INVALID);
    options.space = NULL;
    assert_int_equal(rota_service_server_open(&loop, &options, &server, &error), ROTA_ERR_INVALID);
}

static void failed_wait_for_a_space_says_why(void **state)
{
    const struct rota_space_options options = {.name = "nowhere"};
    struct service service = {0};
    struct rota_space *space;
    struct rota_error error;
    (void)state;
    if (rota_space_open(&loop, store, &options, &space, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_space_wait(space, 200 * ROTA_MSEC, &error), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "nowhere"));
    rota_space_close(space, on_closed, &service);
    await(&loop, &service.n_closed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shard_is_served_after_its_start, setup, teardown),
        cmocka_unit_test_setup_teardown(shard_by_lease_is_served_after_its_start, setup, teardown),
        cmocka_unit_test_setup_teardown(close_waits_for_calls_in_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(only_unfenced_methods_are_served_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(unreachable_server_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(failed_wait_for_a_space_says_why, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
