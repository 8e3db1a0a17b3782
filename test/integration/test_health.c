#include <rota/experimental/health.h>

#include "echo.h"
#include "loop.h"

struct fixture {
    struct rota_server *server;
    struct rota_health *health;
    struct rota_channel *channel;
};

static void open_all(struct fixture *f)
{
    struct rota_error error;
    if (rota_server_open(&loop, NULL, &f->server, &error) ||
        rota_health_open(f->server, &f->health, &error) ||
        rota_server_listen(f->server, "127.0.0.1:0", &error) ||
        rota_channel_open(&loop, rota_server_address(f->server, 0), NULL, &f->channel, &error))
        fail_msg("%s", error.text);
}

static void close_all(struct fixture *f)
{
    rota_channel_close(f->channel);
    rota_server_close(f->server);
    rota_health_close(f->health);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* A reply is field 1 as a varint; 0 is not written at all. */
static int check(struct fixture *f, struct rota_str request)
{
    struct rota_reply reply;
    struct rota_call_options options = {.method = rota_str("/grpc.health.v1.Health/Check"),
                                        .request = request};
    assert_int_equal(rota_channel_wait(f->channel, &options, &reply, NULL), ROTA_OK);
    int result = -(int)reply.status;
    if (reply.status == ROTA_STATUS_OK) {
        assert_int_equal(reply.size, 2);
        assert_int_equal(reply.message[0], 8);
        result = reply.message[1];
    }
    rota_reply_deinit(&reply);
    return result;
}

static void a_check_returns_the_status(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f);
    assert_int_equal(check(&f, rota_str("")), 1);
    assert_int_equal(check(&f, rota_str("\n\4rota")), -ROTA_STATUS_NOT_FOUND);
    rota_health_set(f.health, "rota", false, NULL);
    assert_int_equal(check(&f, rota_str("\n\4rota")), 2);
    rota_health_set(f.health, "rota", true, NULL);
    assert_int_equal(check(&f, rota_str("\n\4rota")), 1);
    assert_int_equal(check(&f, rota_str("\n\4ro")), -ROTA_STATUS_INVALID_ARGUMENT);
    close_all(&f);
}

struct watch {
    int told[8];
    size_t n;
};

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct watch *watch = data;
    (void)call;
    assert_true(watch->n < 8 && message.size == 2);
    watch->told[watch->n++] = message.data[1];
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    (void)data;
    (void)call;
    (void)result;
}

static void a_watch_reports_every_change_and_nothing_else(void **state)
{
    struct fixture f;
    struct watch watch = {0};
    struct rota_call *call;
    struct rota_call_options options = {.method = rota_str("/grpc.health.v1.Health/Watch"),
                                        .request = rota_str("\n\4rota"),
                                        .on_message = on_message,
                                        .on_end = on_end,
                                        .data = &watch};
    (void)state;
    open_all(&f);
    assert_int_equal(rota_channel_call(f.channel, &options, &call, NULL), ROTA_OK);
    RUN_UNTIL(watch.n == 1);
    rota_health_set(f.health, "other", false, NULL);
    rota_health_set(f.health, "rota", true, NULL);
    rota_health_set(f.health, "rota", true, NULL);
    RUN_UNTIL(watch.n == 2);
    rota_health_set(f.health, "rota", false, NULL);
    RUN_UNTIL(watch.n == 3);
    assert_int_equal(check(&f, rota_str("")), 1);
    assert_int_equal(watch.n, 3);
    assert_int_equal(watch.told[0], 3);
    assert_int_equal(watch.told[1], 1);
    assert_int_equal(watch.told[2], 2);
    rota_call_cancel(call);
    RUN_UNTIL(rota_server_counts(f.server).calls == 0);
    assert_int_equal(rota_channel_call(f.channel, &options, &call, NULL), ROTA_OK);
    RUN_UNTIL(watch.n == 4);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_check_returns_the_status),
        TEST(a_watch_reports_every_change_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
