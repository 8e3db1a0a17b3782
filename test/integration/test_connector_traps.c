/* Traps of ZeroMQ, one in each test; and what hostile peers may do. */
#include "connectors.h"
#include "io/net/zmq.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uv_loop_t loop;
static struct end broker, worker, other;
static char folder[] = "/tmp/rota-connector-XXXXXX";

/* What the broker has logged; complete once it is closed. Both of its threads write. */
static struct {
    uv_mutex_t mutex;
    char text[16384];
    size_t size;
} logged;

static void log_line(void *data, struct rota_str line)
{
    (void)data;
    uv_mutex_lock(&logged.mutex);
    if (line.size < sizeof logged.text - logged.size) {
        memcpy(logged.text + logged.size, line.data, line.size);
        logged.size += line.size;
        logged.text[logged.size] = 0;
    }
    uv_mutex_unlock(&logged.mutex);
}

static const struct rota_log logger = {.level = ROTA_LOG_WARN, .write = log_line};

static int setup(void **state)
{
    (void)state;
    logged.size = 0;
    logged.text[0] = 0;
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    await_end(&loop);
    return 0;
}

static const char *address(void)
{
    return rota_connector_address(broker.connector);
}

static void open_broker(uint32_t missed_max, size_t queue_max)
{
    struct rota_connector_options options = end_options(&broker, &loop);
    options.missed_max = missed_max;
    options.queue_max = queue_max;
    options.log = &logger;
    end_open(&broker, &options);
}

/* --- the traps --- */

/* A ROUTER drops what is beyond the high-water mark of a peer, and says nothing. */
static void a_worker_that_does_not_read_is_refused_not_dropped(void **state)
{
    struct raw raw;
    char type[65], frame[4096];
    size_t n_taken = 0, n_heard = 0;
    (void)state;
    open_broker(100, 500);
    raw_open(&raw, address(), NULL);
    raw_hello(&raw, "sleeper", 1);
    await(&loop, &broker.n_connected, 1);
    char large[4000];
    memset(large, 'x', sizeof large);
    while (rota_connector_send(broker.connector, broker.peer, broker.text,
                               rota_str_of(large, sizeof large), NULL) == ROTA_OK)
        n_taken++;
    assert_true(n_taken >= 500);
    assert_true(end_stats(&broker).n_refused > 0);
    raw_hear(&raw, &loop, type, frame);
    assert_string_equal(type, ROTA_WORKER_WELCOME);
    while (n_heard < n_taken) {
        raw_hear(&raw, &loop, type, frame);
        assert_string_equal(type, "text");
        n_heard++;
    }
    assert_int_equal(end_stats(&broker).n_dropped, 0);
    await(&loop, &broker.n_room, 1);
    raw_close(&raw);
    end_close(&broker, &loop);
}

static int64_t cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The library may tell of room, or of a message, within a call that finds none: whoever asks until
 * nothing changes asks forever. */
static void waiting_for_room_uses_no_cpu(void **state)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof to;
    char place[32];
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* takes connections, and is mute */
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&to, &size), 0);
    snprintf(place, sizeof place, "127.0.0.1:%d", ntohs(to.sin_port));
    struct rota_connector_options options = end_options(&worker, &loop);
    options.address = place;
    options.name = "alpha";
    options.join_timeout = ROTA_SEC;
    int64_t before = cpu_ms();
    end_open(&worker, &options);
    await(&loop, &worker.n_retries, 1);
    assert_in_range(cpu_ms() - before, 0, 100);
    end_close(&worker, &loop);
    close(fd);
}

/* A message to a peer that is not there is gone without a word. */
static void a_worker_whose_connection_broke_is_lost_at_the_next_heartbeat(void **state)
{
    struct raw raw;
    (void)state;
    open_broker(100, 0); /* it would be silent for 5 s */
    raw_open(&raw, address(), NULL);
    raw_hello(&raw, "short", 1);
    await(&loop, &broker.n_connected, 1);
    raw_close(&raw);
    uint64_t before = uv_hrtime();
    await(&loop, &broker.n_disconnected, 1);
    assert_non_null(strstr(broker.why, "closed"));
    assert_true(uv_hrtime() - before < (uint64_t)(4 * ROTA_SEC));
    end_close(&broker, &loop);
}

/* Two peers with one routing id: the second connects and is never heard. */
static void a_second_with_the_same_routing_id_takes_over(void **state)
{
    struct raw first, second;
    char type[65], frame[4096];
    (void)state;
    open_broker(100, 0);
    raw_open(&first, address(), "same");
    raw_hello(&first, "alpha", 1);
    await(&loop, &broker.n_connected, 1);
    raw_open(&second, address(), "same");
    raw_hello(&second, "alpha", 2);
    await(&loop, &broker.n_connected, 2);
    raw_hear(&second, &loop, type, frame);
    assert_string_equal(type, ROTA_WORKER_WELCOME);
    assert_int_equal(broker.n_disconnected, 1);
    raw_close(&first);
    raw_close(&second);
    end_close(&broker, &loop);
}

/* A worker that was restarted is not noticed, and its job hangs forever. */
static void a_worker_that_was_restarted_ends_its_former_session(void **state)
{
    struct raw first, second;
    char type[65], frame[4096];
    (void)state;
    open_broker(100, 0);
    raw_open(&first, address(), NULL);
    raw_hello(&first, "alpha", 7);
    await(&loop, &broker.n_connected, 1);
    raw_open(&second, address(), NULL);
    raw_hello(&second, "alpha", 8);
    await(&loop, &broker.n_connected, 2);
    assert_int_equal(broker.n_disconnected, 1);
    assert_int_equal(broker.code, ROTA_ERR_STALE);
    assert_int_not_equal(broker.sessions[0], broker.sessions[1]);
    raw_hear(&first, &loop, type, frame);
    assert_int_equal(raw_hear_bye(&first, &loop), ROTA_BYE_REPLACED);
    /* What its former life still says counts for nothing. */
    raw_say(&first, "text", NULL);
    assert_int_equal(raw_hear_bye(&first, &loop), ROTA_BYE_NO_SESSION);
    assert_int_equal(broker.n_messages, 0);
    raw_hello(&first, "alpha", 7);
    assert_int_equal(raw_hear_bye(&first, &loop), ROTA_BYE_STALE);
    assert_int_equal(broker.n_connected, 2);
    raw_close(&first);
    raw_close(&second);
    end_close(&broker, &loop);
}

static void two_workers_of_one_name_do_not_both_serve(void **state)
{
    (void)state;
    broker_open(&broker, &loop);
    worker_open(&worker, &loop, address(), "twin");
    await(&loop, &worker.n_connected, 1);
    worker_open(&other, &loop, address(), "twin");
    await(&loop, &other.n_connected, 1);
    await(&loop, &worker.n_disconnected, 1);
    assert_int_equal(worker.code, ROTA_ERR_STALE);
    await(&loop, &other.n_disconnected, 1); /* the first came back, more slowly */
    assert_true(end_stats(&broker).n_peers <= 1);
    end_close(&worker, &loop);
    end_close(&other, &loop);
    end_close(&broker, &loop);
}

/* What a ROUTER says before the peer has spoken vanishes. */
static void no_message_can_be_sent_before_the_session(void **state)
{
    struct raw raw;
    (void)state;
    open_broker(100, 0);
    raw_open(&raw, address(), NULL);
    raw_say(&raw, "text", NULL);
    assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_NO_SESSION);
    assert_int_equal(broker.n_connected + broker.n_messages, 0);
    assert_int_equal(end_stats(&broker).n_strangers, 1);
    raw_hello(&raw, "late", 1);
    await(&loop, &broker.n_connected, 1);
    assert_int_equal(end_say(&broker, broker.peer, "now"), ROTA_OK);
    raw_close(&raw);
    end_close(&broker, &loop);
}

/* A DEALER keeps what was said to a broker that is gone, and says it to the next. */
static void no_message_of_an_older_session_arrives_in_a_later_one(void **state)
{
    char where[300];
    (void)state;
    broker_open(&broker, &loop);
    snprintf(where, sizeof where, "%s", address());
    worker_open(&worker, &loop, where, "alpha");
    await(&loop, &worker.n_connected, 1);
    struct rota_connector_peer *peer = worker.peer;
    rota_connector_close(broker.connector, on_end_closed, &broker);
    for (int i = 0; i < 1000; i++)
        end_say(&worker, peer, "old");
    await(&loop, &broker.n_closed, 1);
    await(&loop, &worker.n_disconnected, 1);
    assert_int_equal(end_say(&worker, peer, "older"), ROTA_ERR_UNAVAILABLE);
    struct rota_connector_options options = end_options(&broker, &loop);
    options.address = where;
    end_open(&broker, &options);
    await(&loop, &worker.n_connected, 2);
    assert_int_equal(end_say(&worker, peer, "new"), ROTA_OK);
    await(&loop, &broker.n_messages, 1);
    assert_string_equal(broker.last, "new");
    assert_int_equal(broker.n_messages, 1);
    end_close(&worker, &loop);
    end_close(&broker, &loop);
}

static void let_all_in(struct rota_zmq *zmq)
{
    struct rota_zmq_question question;
    while (rota_zmq_next_question(zmq, &question))
        rota_zmq_answer(zmq, true, rota_str(""));
    usleep(1000);
}

static void send_raw(struct rota_zmq *judge, struct rota_zmq_socket *socket, struct rota_str route)
{
    struct rota_zmq_message message;
    assert_true(rota_zmq_message_init(&message, 1));
    memcpy(rota_zmq_message_data(&message), "x", 1);
    while (rota_zmq_send(socket, route, &message) == ROTA_ERR_LIMIT)
        let_all_in(judge);
    rota_zmq_message_deinit(&message);
}

static void the_last_message_is_there_after_the_connection_has_ended(void **state)
{
    struct rota_zmq *here, *there;
    struct rota_zmq_socket *router, *dealer;
    struct rota_zmq_message message;
    struct rota_zmq_route route;
    struct rota_error error;
    struct rota_zmq_options options = {.endpoint = "tcp://127.0.0.1:*",
                                       .message_max = 100,
                                       .high_water = 10,
                                       .handshake_timeout = ROTA_MIN};
    (void)state;
    assert_int_equal(rota_zmq_open(&there, &error), ROTA_OK);
    assert_int_equal(rota_zmq_open(&here, &error), ROTA_OK);
    assert_int_equal(rota_zmq_listen(there, &options, &router, &error), ROTA_OK);
    options.endpoint = rota_zmq_socket_endpoint(router);
    assert_int_equal(rota_zmq_connect(here, &options, &dealer, &error), ROTA_OK);
    send_raw(there, dealer, rota_str(""));
    while (rota_zmq_receive(router, &route, &message))
        let_all_in(there);
    rota_zmq_message_deinit(&message);
    assert_int_equal(rota_zmq_receive(dealer, &(struct rota_zmq_route){0}, &message),
                     ROTA_ERR_NOT_FOUND);
    send_raw(there, router, rota_str_of(route.bytes, route.size));
    rota_zmq_socket_close(router, ROTA_MIN);
    rota_zmq_close(there);
    while (rota_zmq_next_event(dealer, &error) != ROTA_ZMQ_DISCONNECTED)
        usleep(1000);
    assert_int_equal(rota_zmq_receive(dealer, &route, &message), ROTA_OK);
    assert_int_equal(rota_zmq_message_size(&message), 1);
    rota_zmq_message_deinit(&message);
    rota_zmq_socket_close(dealer, 0);
    rota_zmq_close(here);
}

/* Closing waits forever for a peer that does not read. */
static void closing_ends_although_the_peer_does_not_read(void **state)
{
    struct raw raw;
    char large[4000];
    (void)state;
    struct rota_connector_options options = end_options(&broker, &loop);
    options.linger = 100 * ROTA_MSEC;
    end_open(&broker, &options);
    raw_open(&raw, address(), NULL);
    raw_hello(&raw, "sleeper", 1);
    await(&loop, &broker.n_connected, 1);
    memset(large, 'x', sizeof large);
    for (int i = 0; i < 9000; i++)
        rota_connector_send(broker.connector, broker.peer, broker.text,
                            rota_str_of(large, sizeof large), NULL);
    end_close(&broker, &loop); /* await() would fail after 30 s */
    worker_open(&worker, &loop, "127.0.0.1:1", "nobody-there");
    end_close(&worker, &loop);
    raw_close(&raw);
}

/* The library's own heartbeat proves that its thread lives, and nothing else. */
static void an_unresponsive_worker_is_lost(void **state)
{
    struct raw raw;
    char type[65], frame[4096];
    (void)state;
    open_broker(3, 0);
    raw_open(&raw, address(), NULL);
    raw_hello(&raw, "silent", 1);
    await(&loop, &broker.n_disconnected, 1);
    assert_non_null(strstr(broker.why, "no heartbeat"));
    assert_string_equal(broker.name, "silent");
    raw_hear(&raw, &loop, type, frame);
    assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_SILENT);
    raw_close(&raw);
    end_close(&broker, &loop);
}

/* A broker that speaks ZeroMQ directly, and says what a test wants. */
static struct {
    void *context, *socket;
    char address[300], id[256]; /* of the worker that spoke last */
    size_t id_size;
} router;

static void router_open(void)
{
    char endpoint[300];
    size_t size = sizeof endpoint;
    int none = 0;
    router.context = zmq_ctx_new();
    router.socket = zmq_socket(router.context, ZMQ_ROUTER);
    zmq_setsockopt(router.socket, ZMQ_LINGER, &none, sizeof none);
    assert_int_equal(zmq_bind(router.socket, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(router.socket, ZMQ_LAST_ENDPOINT, endpoint, &size);
    snprintf(router.address, sizeof router.address, "%s", endpoint + strlen("tcp://"));
}

static void router_close(void)
{
    zmq_close(router.socket);
    zmq_ctx_term(router.context);
}

/* Wait for a message of this type, and give its body. */
static struct rota_str router_hear(const char *type)
{
    static char frame[4096];
    struct rota_str name = rota_str(""), body;
    while (!rota_str_is_equal(name, rota_str(type))) {
        int size;
        while ((size = zmq_recv(router.socket, router.id, sizeof router.id, ZMQ_DONTWAIT)) < 0)
            uv_run(&loop, UV_RUN_NOWAIT);
        router.id_size = (size_t)size;
        size = zmq_recv(router.socket, frame, sizeof frame, 0);
        assert_int_equal(
            rota_worker_frame_parse(rota_str_of(frame, (size_t)size), &name, &body, NULL), 0);
    }
    return body;
}

static void router_send(struct rota_str frame)
{
    zmq_send(router.socket, router.id, router.id_size, ZMQ_SNDMORE);
    zmq_send(router.socket, frame.data, frame.size, 0);
}

static void router_welcome(uint64_t session, struct rota_beat beat)
{
    struct rota_worker_welcome words = {1, session, beat, 0};
    struct rota_buffer frame = {0};
    rota_buffer_append_text(&frame, "\x0crota.welcome");
    rota_worker_frame_welcome_write(&words, &frame);
    router_send(rota_buffer_str(&frame));
    rota_buffer_deinit(&frame);
}

static void an_unresponsive_broker_is_lost(void **state)
{
    (void)state;
    router_open();
    worker_open(&worker, &loop, router.address, "alpha");
    router_hear(ROTA_WORKER_HELLO);
    router_welcome(7, (struct rota_beat){20 * ROTA_MSEC, 3});
    await(&loop, &worker.n_connected, 1);
    assert_int_equal(worker.sessions[0], 7);
    await(&loop, &worker.n_disconnected, 1);
    assert_non_null(strstr(worker.why, "no heartbeat"));
    end_close(&worker, &loop);
    router_close();
}

/* The worker leaves with the reason, and tries again. */
static void a_worker_leaves_a_broker_that_sends_nonsense(void **state)
{
    const struct rota_beat beat = {ROTA_SEC, 100};
    struct rota_worker_bye bye;
    (void)state;
    router_open();
    worker_open(&worker, &loop, router.address, "alpha");
    router_hear(ROTA_WORKER_HELLO);
    router_send(rota_str_of("\x05text", 5)); /* shorter than it says */
    await(&loop, &worker.n_retries, 1);
    router_hear(ROTA_WORKER_HELLO);
    router_send(rota_str("\x0crota.welcome!")); /* not the body of one */
    await(&loop, &worker.n_retries, 2);
    assert_int_equal(end_stats(&worker).n_malformed, 2);
    assert_int_equal(worker.n_connected, 0);
    router_hear(ROTA_WORKER_HELLO);
    router_send(rota_str("\x04texttoo early")); /* which is not delivered */
    router_welcome(1, beat);
    await(&loop, &worker.n_connected, 1);
    assert_int_equal(end_stats(&worker).n_strangers, 1);
    router_send(rota_str("\x04textwell"));
    await(&loop, &worker.n_messages, 1);
    assert_string_equal(worker.last, "well");
    router_send(rota_str_of("\x00", 1));
    await(&loop, &worker.n_disconnected, 1);
    assert_int_equal(end_stats(&worker).n_malformed, 3);
    assert_int_equal(rota_worker_frame_bye_read(router_hear(ROTA_WORKER_BYE), &bye, NULL), ROTA_OK);
    assert_int_equal(bye.reason, ROTA_BYE_MALFORMED);
    router_hear(ROTA_WORKER_HELLO);
    router_welcome(2, beat);
    await(&loop, &worker.n_connected, 2);
    assert_int_equal(worker.sessions[1], 2);
    end_close(&worker, &loop);
    router_close();
}

/* It is the worker that ends the session here; the broker hears why. */
static void a_worker_that_drops_its_broker_says_why(void **state)
{
    (void)state;
    open_broker(100, 0);
    worker_open(&worker, &loop, address(), "alpha");
    await(&loop, &worker.n_connected, 1);
    rota_connector_drop(worker.connector, worker.peer, "enough of it");
    await(&loop, &worker.n_disconnected, 1);
    assert_non_null(strstr(worker.why, "enough of it"));
    await(&loop, &broker.n_disconnected, 1);
    assert_non_null(strstr(broker.why, "enough of it"));
    await(&loop, &worker.n_connected, 2); /* and it comes back */
    end_close(&worker, &loop);
    end_close(&broker, &loop);
}

/* --- without manners --- */

static void a_peer_that_sends_garbage_does_not_fill_the_log(void **state)
{
    enum { N = 200 };
    size_t n_written = 0, n_left_out = 0;
    struct raw raw;
    (void)state;
    open_broker(100, 0);
    raw_open(&raw, address(), NULL);
    for (size_t i = 0; i < N; i++) {
        raw_send(&raw, "\xff", 1);
        assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_MALFORMED);
    }
    raw_close(&raw);
    end_close(&broker, &loop);
    const char *line = logged.text;
    for (; (line = strstr(line, "\"malformed message\" peer")); line++)
        n_written++;
    for (line = logged.text; (line = strstr(line, "count=")); line++)
        n_left_out += strtoul(line + strlen("count="), NULL, 10);
    assert_in_range(n_written, 1, N / 2); /* 5 in 10 s */
    assert_int_equal(n_written + n_left_out, N);
}

static void a_malformed_frame_is_reported_and_ends_the_session(void **state)
{
    static const struct {
        const char *frame;
        size_t size;
    } wrong[] = {
        {"", 0},
        {"\x00", 1},
        {"\x05text", 5},        /* shorter than it says */
        {"\xff", 1},            /* much shorter */
        {"\x04t\x00xt", 5},     /* no name */
        {"{\"a\":1}", 7},       /* another protocol */
        {"GET / HTTP/1.1", 14}, /* likewise */
    };
    struct raw raw;
    char type[65], frame[4096];
    (void)state;
    open_broker(100, 0);
    raw_open(&raw, address(), NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        raw_send(&raw, wrong[i].frame, wrong[i].size);
        assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_MALFORMED);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        raw_hello(&raw, "rude", i + 1);
        raw_hear(&raw, &loop, type, frame);
        assert_string_equal(type, ROTA_WORKER_WELCOME);
        raw_send(&raw, wrong[i].frame, wrong[i].size);
        assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_MALFORMED);
        await(&loop, &broker.n_disconnected, i + 1);
    }
    assert_int_equal(end_stats(&broker).n_malformed, 2 * sizeof wrong / sizeof *wrong);
    /* Several parts, as a REQ socket sends. */
    zmq_send(raw.socket, "", 0, ZMQ_SNDMORE);
    zmq_send(raw.socket, "x", 1, ZMQ_SNDMORE);
    zmq_send(raw.socket, "y", 1, 0);
    assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_MALFORMED);
    raw_close(&raw);
    end_close(&broker, &loop);
}

static void an_invalid_hello_is_rejected(void **state)
{
    struct raw raw;
    struct rota_buffer body = {0};
    struct rota_worker_hello hello = {.version = 2, .name = rota_str("alpha"), .epoch = 1};
    (void)state;
    open_broker(100, 0);
    raw_open(&raw, address(), NULL);
    rota_worker_frame_hello_write(&hello, &body);
    raw_say(&raw, ROTA_WORKER_HELLO, &body);
    assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_UNSUPPORTED);
    raw_say(&raw, ROTA_WORKER_HELLO, NULL);
    assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_UNSUPPORTED);
    raw_hello(&raw, "two words", 1);
    assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_MALFORMED);
    raw_hello(&raw, "", 1);
    assert_int_equal(raw_hear_bye(&raw, &loop), ROTA_BYE_MALFORMED);
    assert_int_equal(end_stats(&broker).n_turned_away, 4);
    assert_int_equal(broker.n_connected, 0);
    rota_buffer_deinit(&body);
    raw_close(&raw);
    end_close(&broker, &loop);
}

static void workers_beyond_the_limit_are_rejected(void **state)
{
    struct raw first, second;
    (void)state;
    struct rota_connector_options options = end_options(&broker, &loop);
    options.workers_max = 1;
    end_open(&broker, &options);
    raw_open(&first, address(), NULL);
    raw_hello(&first, "first", 1);
    await(&loop, &broker.n_connected, 1);
    raw_open(&second, address(), NULL);
    raw_hello(&second, "second", 1);
    assert_int_equal(raw_hear_bye(&second, &loop), ROTA_BYE_FULL);
    raw_close(&first);
    raw_close(&second);
    end_close(&broker, &loop);
}

/* A frame larger than the bound cuts its connection, before it is in memory. */
static void a_huge_frame_is_rejected(void **state)
{
    enum { HUGE_SIZE = 64 << 20 };
    struct raw raw;
    (void)state;
    open_broker(100, 0);
    raw_open(&raw, address(), NULL);
    raw_hello(&raw, "huge", 1);
    await(&loop, &broker.n_connected, 1);
    char *huge = calloc(1, HUGE_SIZE);
    memcpy(huge, "\x04text", 5);
    raw_send(&raw, huge, HUGE_SIZE);
    await(&loop, &broker.n_disconnected, 1);
    assert_int_equal(broker.n_messages, 0);
    assert_true(end_stats(&broker).bytes_received < 1000);
    free(huge);
    raw_close(&raw);
    end_close(&broker, &loop);
}

/* A million frames as fast as they go, from one who has no session and one who has:
 * memory stays as it is, and somebody else is served meanwhile. */
static void a_million_frames_do_no_harm(void **state)
{
    enum { MILLION = 1000000 };
    struct rusage before, after;
    struct raw raw;
    (void)state;
    struct rota_connector_options options = end_options(&broker, &loop);
    options.inbox_max = 1000;
    end_open(&broker, &options);
    worker_open(&worker, &loop, address(), "quiet");
    await(&loop, &worker.n_connected, 1);
    raw_open(&raw, address(), NULL);
    raw_hello(&raw, "loud", 1);
    await(&loop, &broker.n_connected, 2);
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < MILLION; i++) {
        while (zmq_send(raw.socket, "\x04textx", 6, ZMQ_DONTWAIT) < 0)
            uv_run(&loop, UV_RUN_NOWAIT);
        if (i % 100000 == 0)
            assert_int_equal(end_say(&worker, worker.peer, "me too"), ROTA_OK);
    }
    await(&loop, &broker.n_messages, MILLION + 10);
    getrusage(RUSAGE_SELF, &after);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed, for a while */
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10); /* KiB */
#endif
    assert_int_equal(broker.n_disconnected + worker.n_disconnected, 0);
    raw_close(&raw);
    end_close(&worker, &loop);
    end_close(&broker, &loop);
}

/* --- processes --- */

/* This program again, as a worker that does nothing until it is killed. */
static int be_worker(const char *where, const char *name)
{
    struct rota_connector_options options = {.address = where, .name = name};
    struct rota_connector *connector;
    struct rota_error error;
    if (rota_connector_open_worker(&options, &connector, &error) ||
        rota_connector_start(connector, &error))
        return 1;
    for (;;)
        pause();
}

/* Between fork and exec nothing but exec: the parent has threads. */
static pid_t start_worker(const char *where, const char *name)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    execl("/proc/self/exe", "worker", where, name, (char *)NULL);
    _exit(127);
}

static void stop_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void a_killed_worker_is_lost_and_its_next_process_connects(void **state)
{
    (void)state;
    open_broker(100, 0);
    pid_t pid = start_worker(address(), "mortal");
    await(&loop, &broker.n_connected, 1);
    stop_child(pid);
    pid = start_worker(address(), "mortal");
    await(&loop, &broker.n_connected, 2);
    await(&loop, &broker.n_disconnected, 1);
    stop_child(pid);
    end_close(&broker, &loop);
}

static void a_worker_that_was_stopped_is_lost_and_comes_back(void **state)
{
    (void)state;
    open_broker(10, 0);
    pid_t pid = start_worker(address(), "sleepy");
    await(&loop, &broker.n_connected, 1);
    kill(pid, SIGSTOP);
    await(&loop, &broker.n_disconnected, 1);
    assert_non_null(strstr(broker.why, "no heartbeat"));
    kill(pid, SIGCONT);
    await(&loop, &broker.n_connected, 2);
    stop_child(pid);
    end_close(&broker, &loop);
}

/* --- keys --- */

static char paths[4][300];

static void make_keys(char keys[3][ROTA_CONNECTOR_KEY_SIZE])
{
    static const char *const names[] = {"broker", "alpha", "beta", "workers"};
    static int n_made;
    struct rota_error error;
    n_made++;
    for (int i = 0; i < 4; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s-%d", folder, names[i], n_made);
    for (int i = 0; i < 3; i++)
        if (rota_connector_key_make(paths[i], keys[i], &error))
            fail_msg("%s", error.text);
}

static void open_with_keys(char keys[3][ROTA_CONNECTOR_KEY_SIZE], const char *key_file,
                           const char *broker_key, const char *name)
{
    char list[200];
    snprintf(list, sizeof list, "# all of them\nalpha %s\n", keys[1]);
    await_write(paths[3], list);
    struct rota_connector_options options = end_options(&broker, &loop);
    options.address = "0.0.0.0:0"; /* which needs keys */
    options.log = &logger;
    options.key_file = paths[0];
    options.workers_file = paths[3];
    end_open(&broker, &options);
    const char *port = strrchr(rota_connector_address(broker.connector), ':');
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1%s", port);
    options = end_options(&worker, &loop);
    options.address = where;
    options.name = name;
    options.key_file = key_file;
    options.broker_key = broker_key;
    options.join_timeout = 2 * ROTA_SEC;
    end_open(&worker, &options);
}

/* On a busy machine it may have been too slow before. */
static void await_why(const char *why)
{
    do
        await(&loop, &worker.n_retries, worker.n_retries + 1);
    while (!strstr(worker.why, why));
}

static void with_its_key_a_worker_connects_under_its_name(void **state)
{
    char keys[3][ROTA_CONNECTOR_KEY_SIZE], again[ROTA_CONNECTOR_KEY_SIZE];
    (void)state;
    make_keys(keys);
    assert_int_equal(rota_connector_key_read(paths[1], again, NULL), ROTA_OK);
    assert_string_equal(again, keys[1]);
    open_with_keys(keys, paths[1], keys[0], "alpha");
    await(&loop, &worker.n_connected, 1);
    assert_int_equal(end_say(&worker, worker.peer, "secret"), ROTA_OK);
    await(&loop, &broker.n_messages, 1);
    assert_string_equal(broker.name, "alpha");
    end_close(&worker, &loop);
    end_close(&broker, &loop);
}

static void a_key_does_not_admit_another_name(void **state)
{
    char keys[3][ROTA_CONNECTOR_KEY_SIZE];
    (void)state;
    make_keys(keys);
    open_with_keys(keys, paths[1], keys[0], "beta");
    await(&loop, &worker.n_retries, 1);
    assert_non_null(strstr(worker.why, "this key belongs to another name"));
    assert_int_equal(broker.n_connected, 0);
    end_close(&worker, &loop);
    end_close(&broker, &loop);
}

/* Without a judge any key pair is let in: encryption without authentication. */
static void a_key_that_is_not_in_the_list_is_refused_until_it_is(void **state)
{
    char keys[3][ROTA_CONNECTOR_KEY_SIZE], list[200];
    (void)state;
    make_keys(keys);
    open_with_keys(keys, paths[2], keys[0], "beta");
    await_why("our key is not in the peer's list");
    assert_int_equal(broker.n_connected, 0);
    assert_true(end_stats(&broker).n_keys_refused > 0);
    snprintf(list, sizeof list, "alpha %s\nbeta %s\n", keys[1], keys[2]);
    await_write(paths[3], list);
    await(&loop, &worker.n_connected, 1);
    end_close(&worker, &loop);
    end_close(&broker, &loop);
    assert_non_null(strstr(logged.text, "127.0.0.1"));
    assert_null(strstr(logged.text, "::ffff:"));
}

static void a_worker_that_takes_another_for_its_broker_is_not_served(void **state)
{
    char keys[3][ROTA_CONNECTOR_KEY_SIZE];
    (void)state;
    make_keys(keys);
    open_with_keys(keys, paths[1], keys[2], "alpha");
    await_why("do the keys match?");
    assert_int_equal(broker.n_connected, 0);
    end_close(&worker, &loop);
    end_close(&broker, &loop);
    assert_non_null(strstr(logged.text, "has a different key for this broker"));
    assert_null(strstr(logged.text, "speaks another protocol"));
}

static void a_worker_without_keys_is_not_served_by_a_broker_with(void **state)
{
    char keys[3][ROTA_CONNECTOR_KEY_SIZE];
    (void)state;
    make_keys(keys);
    open_with_keys(keys, NULL, NULL, "alpha");
    await_why("do the keys match?");
    assert_int_equal(broker.n_connected, 0);
    end_close(&worker, &loop);
    end_close(&broker, &loop);
}

static void invalid_key_files_are_reported(void **state)
{
    struct rota_connector_options options = end_options(&broker, &loop);
    struct rota_connector *connector;
    char keys[3][ROTA_CONNECTOR_KEY_SIZE], key[ROTA_CONNECTOR_KEY_SIZE];
    struct rota_error error;
    (void)state;
    make_keys(keys);
    assert_int_equal(rota_connector_key_make(paths[0], key, &error), ROTA_ERR_IO);
    assert_int_equal(rota_connector_key_read("/nowhere", key, &error), ROTA_ERR_NOT_FOUND);
    options.key_file = paths[0];
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "list of its workers"));
    options.workers_file = paths[3];
    await_write(paths[3], "alpha no-key\n");
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, ":1: no key follows the name \"alpha\""));
    await_write(paths[3], "");
    for (int i = 0; i < 3; i++) {
        static const struct {
            mode_t mode;
            const char *phrase;
        } cases[] = {{0644, ": other users can read the secret in it (mode 0644); run chmod 600 "},
                     {0640, "(mode 0640)"},
                     {0602, "other users can change the secret in it (mode 0602)"}};
        assert_int_equal(chmod(paths[0], cases[i].mode), 0);
        assert_int_equal(rota_connector_open_broker(&options, &connector, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, cases[i].phrase));
        assert_int_equal(rota_connector_key_read(paths[0], key, &error), ROTA_ERR_INVALID);
    }
    await_write(paths[0], "public only\n");
    assert_int_equal(rota_connector_open_broker(&options, &connector, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, ":1: no key follows")); /* which matters more */
    options.name = "alpha";
    options.key_file = paths[1];
    options.workers_file = NULL;
    options.broker_key = "short";
    assert_int_equal(rota_connector_open_worker(&options, &connector, &error), ROTA_ERR_INVALID);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return be_worker(argv[1], argv[2]);
    if (!mkdtemp(folder) || uv_mutex_init(&logged.mutex))
        return 1;
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_killed_worker_is_lost_and_its_next_process_connects),
        TEST(a_worker_that_was_stopped_is_lost_and_comes_back),
        TEST(a_worker_that_does_not_read_is_refused_not_dropped),
        TEST(waiting_for_room_uses_no_cpu),
        TEST(a_worker_whose_connection_broke_is_lost_at_the_next_heartbeat),
        TEST(a_second_with_the_same_routing_id_takes_over),
        TEST(a_worker_that_was_restarted_ends_its_former_session),
        TEST(two_workers_of_one_name_do_not_both_serve),
        TEST(no_message_can_be_sent_before_the_session),
        TEST(no_message_of_an_older_session_arrives_in_a_later_one),
        TEST(the_last_message_is_there_after_the_connection_has_ended),
        TEST(closing_ends_although_the_peer_does_not_read),
        TEST(an_unresponsive_worker_is_lost),
        TEST(an_unresponsive_broker_is_lost),
        TEST(a_worker_leaves_a_broker_that_sends_nonsense),
        TEST(a_worker_that_drops_its_broker_says_why),
        TEST(a_peer_that_sends_garbage_does_not_fill_the_log),
        TEST(a_malformed_frame_is_reported_and_ends_the_session),
        TEST(an_invalid_hello_is_rejected),
        TEST(workers_beyond_the_limit_are_rejected),
        TEST(a_huge_frame_is_rejected),
        TEST(a_million_frames_do_no_harm),
        TEST(with_its_key_a_worker_connects_under_its_name),
        TEST(a_key_does_not_admit_another_name),
        TEST(a_key_that_is_not_in_the_list_is_refused_until_it_is),
        TEST(a_worker_that_takes_another_for_its_broker_is_not_served),
        TEST(a_worker_without_keys_is_not_served_by_a_broker_with),
        TEST(invalid_key_files_are_reported),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : 1;
}
