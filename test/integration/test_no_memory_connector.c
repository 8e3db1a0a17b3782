/* A broker and a worker of <rota/experimental/connector.h> while memory runs out: what can't be
 * opened says so, and the two meet and talk once there is memory again. */
#include "no_memory.h"

#include "await.h"

#include <rota/experimental/connector.h>

static uv_loop_t loop;
static struct rota_error error;

struct end {
    struct rota_connector *connector;
    struct rota_connector_peer *peer;
    uint32_t text;
    size_t n_connected, n_messages, n_closed;
};

static void on_connected(void *data, struct rota_connector_peer *peer)
{
    struct end *end = data;
    end->peer = peer;
    end->n_connected++;
}

static void on_disconnected(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why)
{
    struct end *end = data;
    assert_true(why->text[0]);
    if (end->peer == peer)
        end->peer = NULL;
}

static void on_text(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct end *end = data;
    (void)from;
    assert_true(rota_str_is_equal(message, rota_str("hello")));
    end->n_messages++;
}

static void on_closed(void *data)
{
    ((struct end *)data)->n_closed++;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static bool is_open(enum rota_code code)
{
    if (!code)
        return true;
    assert_true(no_memory_has_failed());
    assert_int_equal(error.code, code);
    return false;
}

#define OPEN(call) is_open(NO_MEMORY_IN(call))

static bool open_end(struct end *end, const char *address, const char *name)
{
    const struct rota_connector_options options = {.address = address,
                                                   .name = name,
                                                   .loop = &loop,
                                                   .interval = 50 * ROTA_MSEC,
                                                   .missed_max = 4,
                                                   .reconnect_first = ROTA_MSEC,
                                                   .reconnect_max = 5 * ROTA_MSEC,
                                                   .on_connected = on_connected,
                                                   .on_disconnected = on_disconnected,
                                                   .data = end};
    return OPEN((name ? rota_connector_open_worker
                      : rota_connector_open_broker)(&options, &end->connector, &error)) &&
           OPEN(rota_connector_register(end->connector, "text", &end->text, &error)) &&
           OPEN(rota_connector_register_handler_async(end->connector, end->text, on_text, end,
                                                      &error)) &&
           OPEN(rota_connector_start(end->connector, &error));
}

static void close_end(struct end *end)
{
    if (!end->connector)
        return;
    rota_connector_close(end->connector, on_closed, end);
    await(&loop, &end->n_closed, 1);
}

static void scenario(void)
{
    struct end broker = {0}, worker = {0};
    uv_timer_t ticking; /* so that the loop does not sleep when nothing happens */
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &ticking);
    uv_timer_start(&ticking, on_tick, 1, 1);
    if (open_end(&broker, "127.0.0.1:0", NULL) &&
        open_end(&worker, rota_connector_address(broker.connector), "alpha")) {
        no_memory_arm();
        for (int i = 0; i < 3; i++)
            uv_run(&loop, UV_RUN_ONCE);
        no_memory_disarm();
        no_memory_end();
        while (broker.n_messages == 0) { /* a session may still end for what failed before */
            if (worker.peer)
                rota_connector_send(worker.connector, worker.peer, worker.text, rota_str("hello"),
                                    NULL);
            uv_run(&loop, UV_RUN_ONCE);
        }
    }
    close_end(&worker);
    close_end(&broker);
    uv_close((uv_handle_t *)&ticking, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void the_two_meet_in_the_end(void **state)
{
    (void)state;
    no_memory_each(scenario, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_two_meet_in_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
