/* Connectors: a broker and its workers, which connect, send, leave and return. */
#include "connectors.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uv_loop_t loop;
static struct end broker, worker;

static int setup(void **state)
{
    (void)state;
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    await_end(&loop);
    return 0;
}

static void run_shortly(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    usleep(1000);
}

static void open_both(const char *name)
{
    broker_open(&broker, &loop);
    worker_open(&worker, &loop, rota_connector_address(broker.connector), name);
    await(&loop, &worker.n_connected, 1);
    await(&loop, &broker.n_connected, 1);
}

static void close_both(void)
{
    end_close(&worker, &loop);
    end_close(&broker, &loop);
}

/* --- sessions --- */

static void both_sides_are_notified_of_a_session(void **state)
{
    (void)state;
    open_both("alpha");
    assert_int_equal(worker.sessions[0], broker.sessions[0]);
    assert_int_not_equal(worker.sessions[0], 0);
    assert_true(rota_connector_peer_epoch(broker.peer) > 0);
    assert_int_equal(rota_connector_peer_epoch(broker.peer),
                     rota_connector_peer_epoch(worker.peer));
    assert_ptr_equal(worker.peer, rota_connector_broker(worker.connector));
    close_both();
}

static void a_message_arrives_and_so_does_the_answer(void **state)
{
    (void)state;
    open_both("alpha");
    assert_int_equal(end_say(&worker, worker.peer, "to the broker"), ROTA_OK);
    await(&loop, &broker.n_messages, 1);
    assert_string_equal(broker.last, "to the broker");
    assert_string_equal(broker.name, "alpha");
    assert_int_equal(end_say(&broker, broker.peer, "to the worker"), ROTA_OK);
    await(&loop, &worker.n_messages, 1);
    assert_string_equal(worker.last, "to the worker");
    close_both();
}

static void a_worker_that_stops_is_reported_by_name(void **state)
{
    (void)state;
    open_both("alpha");
    end_close(&worker, &loop);
    await(&loop, &broker.n_disconnected, 1);
    assert_string_equal(broker.name, "alpha");
    assert_non_null(strstr(broker.why, "ended the session"));
    end_close(&broker, &loop);
}

static void a_worker_comes_back_to_a_broker_that_was_restarted(void **state)
{
    (void)state;
    char address[300];
    open_both("alpha");
    snprintf(address, sizeof address, "%s", rota_connector_address(broker.connector));
    end_close(&broker, &loop);
    await(&loop, &worker.n_disconnected, 1);
    assert_int_equal(end_say(&worker, rota_connector_broker(worker.connector), "?"),
                     ROTA_ERR_UNAVAILABLE);
    struct rota_connector_options options = end_options(&broker, &loop);
    options.address = address;
    end_open(&broker, &options);
    await(&loop, &worker.n_connected, 2);
    await(&loop, &broker.n_connected, 1);
    assert_int_not_equal(worker.sessions[0], worker.sessions[1]);
    assert_int_equal(end_say(&worker, worker.peer, "again"), ROTA_OK);
    await(&loop, &broker.n_messages, 1);
    close_both();
}

static void heartbeats_keep_an_idle_session(void **state)
{
    (void)state;
    open_both("alpha");
    /* Ten times as long as anybody may be silent. */
    uint64_t before = end_stats(&broker).n_received;
    while (end_stats(&broker).n_received < before + 30)
        run_shortly();
    assert_int_equal(worker.n_disconnected + broker.n_disconnected, 0);
    close_both();
}

static void a_worker_uses_the_heartbeat_of_its_broker(void **state)
{
    (void)state;
    broker_open(&broker, &loop);
    struct rota_connector_options options = end_options(&worker, &loop);
    options.address = rota_connector_address(broker.connector);
    options.name = "slow";
    options.interval = 10 * ROTA_MIN; /* what it would do by itself */
    end_open(&worker, &options);
    await(&loop, &worker.n_connected, 1);
    uint64_t before = end_stats(&broker).n_received;
    while (end_stats(&broker).n_received < before + 10)
        run_shortly();
    assert_int_equal(broker.n_disconnected, 0);
    close_both();
}

static void many_workers_each_have_their_own_session(void **state)
{
    enum { MANY = 20 };
    static struct end workers[MANY];
    (void)state;
    broker_open(&broker, &loop);
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker-%d", i);
        worker_open(&workers[i], &loop, rota_connector_address(broker.connector), name);
    }
    await(&loop, &broker.n_connected, MANY);
    for (int i = 0; i < MANY; i++) {
        await(&loop, &workers[i].n_connected, 1);
        assert_int_equal(end_say(&workers[i], workers[i].peer, "here"), ROTA_OK);
    }
    await(&loop, &broker.n_messages, MANY);
    assert_int_equal(end_stats(&broker).n_peers, MANY);
    for (int i = 0; i < MANY; i++)
        end_close(&workers[i], &loop);
    await(&loop, &broker.n_disconnected, MANY);
    assert_int_equal(end_stats(&broker).n_peers, 0);
    end_close(&broker, &loop);
}

static void a_session_that_is_dropped_says_why_and_another_follows(void **state)
{
    (void)state;
    open_both("alpha");
    rota_connector_drop(broker.connector, broker.peer, "no such capability");
    await(&loop, &worker.n_disconnected, 1);
    await(&loop, &broker.n_disconnected, 1);
    assert_non_null(strstr(worker.why, "no such capability"));
    await(&loop, &worker.n_connected, 2);
    await(&loop, &broker.n_connected, 2);
    close_both();
}

/* --- types, handlers, threads --- */

struct sync {
    struct end *end;
    uv_thread_t heard_on;
    atomic_size_t n;
};

static void on_echo(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct sync *sync = data;
    sync->heard_on = uv_thread_self();
    assert_int_equal(
        rota_connector_send(sync->end->connector, from, sync->end->text, message, NULL), ROTA_OK);
    atomic_fetch_add(&sync->n, 1);
}

static void a_handler_runs_on_the_socket_thread_and_an_async_one_on_the_consumer(void **state)
{
    struct rota_error error;
    struct sync sync = {.end = &broker};
    (void)state;
    struct rota_connector_options options = end_options(&broker, &loop);
    memset(&broker, 0, sizeof broker);
    assert_int_equal(rota_connector_open_broker(&options, &broker.connector, &error), 0);
    assert_int_equal(rota_connector_register(broker.connector, "text", &broker.text, &error), 0);
    assert_int_equal(rota_connector_register(broker.connector, "echo", &broker.echo, &error), 0);
    assert_int_equal(
        rota_connector_register_handler(broker.connector, broker.echo, on_echo, &sync, &error), 0);
    assert_int_equal(rota_connector_start(broker.connector, &error), 0);
    worker_open(&worker, &loop, rota_connector_address(broker.connector), "alpha");
    await(&loop, &worker.n_connected, 1);
    assert_int_equal(
        rota_connector_send(worker.connector, worker.peer, worker.echo, rota_str("echo"), &error),
        0);
    await(&loop, &worker.n_messages, 1);
    uv_thread_t self = uv_thread_self();
    assert_int_equal(atomic_load(&sync.n), 1);
    assert_false(uv_thread_equal(&sync.heard_on, &self));
    assert_true(uv_thread_equal(&worker.heard_on, &self));
    close_both();
}

static void a_type_has_one_name_one_number_and_one_handler(void **state)
{
    struct rota_connector_options options = end_options(&broker, &loop);
    struct rota_connector *connector;
    struct rota_error error;
    uint32_t first, again, last = 0;
    char name[80];
    (void)state;
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), 0);
    assert_int_equal(rota_connector_register(connector, "a", &first, &error), 0);
    assert_int_equal(rota_connector_register(connector, "a", &again, &error), 0);
    assert_int_equal(first, again);
    assert_int_equal(rota_connector_register_handler(connector, first, on_text, NULL, &error), 0);
    assert_int_equal(rota_connector_register_handler_async(connector, first, on_text, NULL, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_connector_register_handler(connector, 77, on_text, NULL, &error),
                     ROTA_ERR_INVALID);
    const char *const wrong[] = {"", "with blank", "t\xc3\xb6ne", "rota.hello", "rota.beat"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(rota_connector_register(connector, wrong[i], &again, &error),
                         ROTA_ERR_INVALID);
    memset(name, 'x', sizeof name);
    name[65] = '\0';
    assert_int_equal(rota_connector_register(connector, name, &again, &error), ROTA_ERR_INVALID);
    for (int i = 1; i < ROTA_CONNECTOR_TYPES_MAX; i++) {
        snprintf(name, sizeof name, "type-%d", i);
        assert_int_equal(rota_connector_register(connector, name, &last, &error), 0);
    }
    assert_int_equal(last, ROTA_CONNECTOR_TYPES_MAX - 1);
    assert_int_equal(rota_connector_register(connector, "one-more", &again, &error),
                     ROTA_ERR_LIMIT);
    rota_connector_close(connector, NULL, NULL);
}

static void an_unhandled_type_is_counted_logged_and_harmless(void **state)
{
    (void)state;
    open_both("alpha");
    assert_int_equal(
        rota_connector_send(worker.connector, worker.peer, worker.echo, rota_str("hm"), NULL), 0);
    await(&loop, &broker.n_unhandled, 1);
    assert_string_equal(broker.last, "echo:hm");
    assert_int_equal(end_stats(&broker).n_unhandled, 1);
    assert_int_equal(end_say(&worker, worker.peer, "still here"), ROTA_OK);
    await(&loop, &broker.n_messages, 1);
    assert_int_equal(broker.n_disconnected, 0);
    close_both();
}

/* --- a consumer of its own --- */

struct desk {
    struct rota_connector *connector;
    uv_sem_t done;
    uv_thread_t consumer;
    size_t n_called, n_cancelled; /* the consumer's */
    uint32_t text;
};

static void on_desk_text(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct desk *desk = data;
    uv_thread_t self = uv_thread_self();
    (void)from;
    assert_true(uv_thread_equal(&self, &desk->consumer));
    assert_true(rota_str_is_equal(message, rota_str("hello")));
    uv_sem_post(&desk->done);
}

static void call(void *data, bool is_cancelled)
{
    struct desk *desk = data;
    if (is_cancelled) {
        desk->n_cancelled++;
        return;
    }
    if (desk->n_called++ == 0)
        desk->consumer = uv_thread_self();
    uv_thread_t self = uv_thread_self();
    assert_true(uv_thread_equal(&self, &desk->consumer));
    uv_sem_post(&desk->done);
}

static void on_desk_closed(void *data)
{
    *(bool *)data = true;
}

static void a_connector_without_a_loop_has_a_consumer_thread(void **state)
{
    struct desk desk = {0};
    struct rota_error error;
    bool is_closed = false;
    (void)state;
    uv_sem_init(&desk.done, 0);
    struct rota_connector_options options = {.address = "localhost:0"};
    assert_int_equal(rota_connector_open_broker(&options, &desk.connector, &error), 0);
    assert_int_equal(rota_connector_register(desk.connector, "text", &desk.text, &error), 0);
    assert_int_equal(rota_connector_register_handler_async(desk.connector, desk.text, on_desk_text,
                                                           &desk, &error),
                     0);
    assert_int_equal(rota_connector_schedule(desk.connector, call, &desk), ROTA_ERR_UNAVAILABLE);
    assert_int_equal(rota_connector_start(desk.connector, &error), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rota_connector_schedule(desk.connector, call, &desk), ROTA_OK);
    for (int i = 0; i < 100; i++)
        uv_sem_wait(&desk.done);
    worker_open(&worker, &loop, rota_connector_address(desk.connector), "alpha");
    await(&loop, &worker.n_connected, 1);
    assert_int_equal(end_say(&worker, worker.peer, "hello"), ROTA_OK);
    uv_sem_wait(&desk.done);
    rota_connector_close(desk.connector, on_desk_closed, &is_closed);
    assert_true(is_closed);
    assert_int_equal(desk.n_called, 100);
    end_close(&worker, &loop);
    uv_sem_destroy(&desk.done);
}

/* A broker that greets each worker, on its own thread. */
static void on_greeted(void *data, struct rota_connector_peer *peer)
{
    struct desk *desk = data;
    rota_connector_send(desk->connector, peer, desk->text, rota_str("hello"), NULL);
}

struct early {
    struct end *end;
    uv_sem_t done;
    enum rota_code code;
};

static void on_early(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct early *early = data;
    early->code = rota_connector_send(early->end->connector, from, early->end->text, message, NULL);
    uv_sem_post(&early->done);
}

static void a_handler_may_answer_before_the_consumer_knows_of_the_session(void **state)
{
    struct desk desk = {0};
    struct early early = {.end = &worker};
    struct rota_error error;
    (void)state;
    uv_sem_init(&early.done, 0);
    struct rota_connector_options options = {
        .address = "127.0.0.1:0", .on_connected = on_greeted, .data = &desk};
    assert_int_equal(rota_connector_open_broker(&options, &desk.connector, &error), 0);
    assert_int_equal(rota_connector_register(desk.connector, "text", &desk.text, &error), 0);
    assert_int_equal(rota_connector_start(desk.connector, &error), 0);
    options = end_options(&worker, &loop);
    options.address = rota_connector_address(desk.connector);
    options.name = "alpha";
    memset(&worker, 0, sizeof worker);
    assert_int_equal(rota_connector_open_worker(&options, &worker.connector, &error), 0);
    assert_int_equal(rota_connector_register(worker.connector, "text", &worker.text, &error), 0);
    assert_int_equal(
        rota_connector_register_handler(worker.connector, worker.text, on_early, &early, &error),
        0);
    assert_int_equal(rota_connector_start(worker.connector, &error), 0);
    uv_sem_wait(&early.done); /* the loop does not run meanwhile */
    assert_int_equal(early.code, ROTA_OK);
    assert_int_equal(worker.n_connected, 0);
    rota_connector_close(desk.connector, NULL, NULL);
    end_close(&worker, &loop);
    uv_sem_destroy(&early.done);
}

/* --- bounds --- */

static void a_message_that_is_too_large_is_refused(void **state)
{
    (void)state;
    struct rota_connector_options options = end_options(&broker, &loop);
    options.message_max = 1000;
    end_open(&broker, &options);
    options = end_options(&worker, &loop);
    options.address = rota_connector_address(broker.connector);
    options.name = "alpha";
    options.message_max = 1000;
    end_open(&worker, &options);
    await(&loop, &worker.n_connected, 1);
    char text[1001];
    memset(text, 'x', sizeof text);
    assert_int_equal(rota_connector_send(worker.connector, worker.peer, worker.text,
                                         rota_str_of(text, 996), NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_connector_send(worker.connector, worker.peer, worker.text,
                                         rota_str_of(text, 995), NULL),
                     ROTA_OK);
    await(&loop, &broker.n_messages, 1);
    close_both();
}

/* A hundred thousand messages to a consumer that does not look: nothing is lost, nobody
 * is taken for dead, and what can't wait is refused. */
static void a_flood_is_held_back_and_nothing_is_lost(void **state)
{
    enum { FLOOD = 100000 };
    size_t n_sent = 0, n_refused = 0;
    (void)state;
    struct rota_connector_options options = end_options(&broker, &loop);
    options.inbox_max = 100;
    end_open(&broker, &options);
    options = end_options(&worker, &loop);
    options.address = rota_connector_address(broker.connector);
    options.name = "alpha";
    options.queue_max = 1000;
    end_open(&worker, &options);
    await(&loop, &worker.n_connected, 1);
    while (n_sent < FLOOD) {
        size_t n_room = worker.n_room;
        enum rota_code code = end_say(&worker, worker.peer, "one of many");
        n_sent += code == ROTA_OK;
        n_refused += code == ROTA_ERR_LIMIT;
        assert_true(code == ROTA_OK || code == ROTA_ERR_LIMIT);
        if (code == ROTA_ERR_LIMIT)
            await(&loop, &worker.n_room, n_room + 1);
    }
    await(&loop, &broker.n_messages, FLOOD);
    assert_true(n_refused > 0);
    assert_int_equal(end_stats(&worker).n_refused, n_refused);
    assert_true(end_stats(&broker).n_pauses > 0);
    assert_int_equal(end_stats(&worker).n_dropped, 0);
    assert_int_equal(broker.n_disconnected + worker.n_disconnected, 0);
    assert_int_equal(broker.n_messages, FLOOD);
    close_both();
}

/* --- opening --- */

static void other_machines_need_keys_or_an_explicit_option(void **state)
{
    struct rota_connector_options options = end_options(&broker, &loop);
    struct rota_connector *connector;
    struct rota_error error;
    (void)state;
    options.address = "0.0.0.0:0";
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "need keys"));
    options.is_insecure = true;
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_OK);
    rota_connector_close(connector, NULL, NULL);
    options.name = "alpha";
    options.address = "example.org:7000";
    options.is_insecure = false;
    assert_int_equal(rota_connector_open_worker(&options, &connector, &error), ROTA_ERR_INVALID);
}

static void a_failed_open_says_why(void **state)
{
    struct rota_connector_options options = end_options(&worker, &loop);
    struct rota_connector *connector;
    struct rota_error error;
    (void)state;
    options.address = "nowhere";
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_INVALID);
    options.address = "127.0.0.1:1";
    options.name = "two words";
    assert_int_equal(rota_connector_open_worker(&options, &connector, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "two words"));
    options.name = NULL;
    assert_int_equal(rota_connector_open_worker(&options, &connector, &error), ROTA_ERR_INVALID);
    broker_open(&broker, &loop);
    options.address = rota_connector_address(broker.connector);
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_IO);
    assert_non_null(strstr(error.text, "in use"));
    options.interval = 1;
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_INVALID);
    end_close(&broker, &loop);
}

/* Only so many descriptors more can be opened. */
static void leave_descriptors(int n)
{
    struct rlimit limit;
    int taken[64], fd = dup(0);
    assert_true(n < 64);
    for (int i = 0; i < n; i++) {
        taken[i] = fd;
        fd = dup(0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)fd;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    close(fd);
    for (int i = 0; i < n; i++)
        close(taken[i]);
}

static void set_closed(void *data)
{
    atomic_store((atomic_bool *)data, true);
}

/* However few descriptors there are: it starts, or says why not, and can be closed. */
static void without_descriptors_it_does_not_start(void **state)
{
    struct rlimit all;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    for (int has_loop = 0; has_loop < 2; has_loop++) {
        size_t n_failed = 0;
        bool is_started = false;
        for (int n_left = 0; !is_started; n_left++) {
            struct rota_connector_options options = end_options(&worker, has_loop ? &loop : NULL);
            struct rota_error error = {0};
            options.name = "alpha";
            options.address = "127.0.0.1:1";
            worker = (struct end){0};
            assert_int_equal(rota_connector_open_worker(&options, &worker.connector, &error), 0);
            leave_descriptors(n_left);
            is_started = rota_connector_start(worker.connector, &error) == ROTA_OK;
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
            if (!is_started) {
                assert_int_equal(error.code, ROTA_ERR_IO);
                assert_non_null(strstr(error.text, "too many open files"));
                n_failed++;
            }
            atomic_bool is_closed = false;
            rota_connector_close(worker.connector, set_closed, &is_closed);
            do
                uv_run(&loop, UV_RUN_NOWAIT);
            while (!is_closed || uv_loop_alive(&loop));
        }
        assert_true(n_failed > 2);
    }
}

static void an_absent_peer_is_reported_and_retried(void **state)
{
    (void)state;
    worker_open(&worker, &loop, "127.0.0.1:1", "alpha");
    await(&loop, &worker.n_retries, 3);
    assert_int_equal(worker.code, ROTA_ERR_UNAVAILABLE);
    assert_int_equal(worker.n_connected, 0);
    end_close(&worker, &loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(both_sides_are_notified_of_a_session),
        TEST(a_message_arrives_and_so_does_the_answer),
        TEST(a_worker_that_stops_is_reported_by_name),
        TEST(a_worker_comes_back_to_a_broker_that_was_restarted),
        TEST(heartbeats_keep_an_idle_session),
        TEST(a_worker_uses_the_heartbeat_of_its_broker),
        TEST(many_workers_each_have_their_own_session),
        TEST(a_session_that_is_dropped_says_why_and_another_follows),
        TEST(a_handler_runs_on_the_socket_thread_and_an_async_one_on_the_consumer),
        TEST(a_type_has_one_name_one_number_and_one_handler),
        TEST(an_unhandled_type_is_counted_logged_and_harmless),
        TEST(a_connector_without_a_loop_has_a_consumer_thread),
        TEST(a_handler_may_answer_before_the_consumer_knows_of_the_session),
        TEST(a_message_that_is_too_large_is_refused),
        TEST(a_flood_is_held_back_and_nothing_is_lost),
        TEST(other_machines_need_keys_or_an_explicit_option),
        TEST(a_failed_open_says_why),
        TEST(without_descriptors_it_does_not_start),
        TEST(an_absent_peer_is_reported_and_retried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
