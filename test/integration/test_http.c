/* The HTTP server, asked by hand over real sockets. */
#include "await.h"
#include "base/buffer.h"
#include "io/net/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- a server whose handler does what the path says --- */

static struct {
    uv_loop_t loop;
    struct rota_http *http;
    struct rota_http_request *late; /* to be answered by the test */
    struct rota_http_stream *stream;
    size_t n_requests, n_gone, n_full[ROTA_HTTP_BOUNDS];
} world;

static const struct rota_http_field TEXT[] = {{"Content-Type", "text/plain"}};

static void on_gone(void *data)
{
    (void)data;
    world.stream = NULL;
    world.n_gone++;
}

static void on_request(void *data, struct rota_http_request *request)
{
    assert_ptr_equal(data, &world);
    struct rota_str target = rota_http_target(request);
    world.n_requests++;
    if (rota_str_is_equal(target, rota_str("/late")))
        world.late = request;
    else if (rota_str_is_equal(target, rota_str("/stream")))
        world.stream = rota_http_answer_stream(request, 200, TEXT, 1, on_gone, NULL);
    else if (rota_str_is_equal(target, rota_str("/page")))
        rota_http_answer_static(request, 200, TEXT, 1, rota_str("a page"));
    else if (rota_http_method(request) == ROTA_HTTP_OTHER)
        rota_http_answer(request, 405, TEXT, 1, target);
    else if (rota_http_method(request) == ROTA_HTTP_POST)
        rota_http_answer(request, 201, TEXT, 1, rota_http_body(request));
    else if (rota_http_field(request, "X-Say").size > 0)
        rota_http_answer(request, 200, TEXT, 1, rota_http_field(request, "x-say"));
    else
        rota_http_answer(request, 404, TEXT, 1, target);
}

static bool is_urgent(void *data, struct rota_str target)
{
    assert_ptr_equal(data, &world);
    return rota_str_is_equal(target, rota_str("/page"));
}

static void on_full(void *data, enum rota_http_bound bound, const char *peer)
{
    (void)peer;
    assert_ptr_equal(data, &world);
    world.n_full[bound]++;
}

static const struct rota_http_handler HANDLER = {on_request, is_urgent, on_full, &world};

static int open_server(struct rota_http_options options)
{
    struct rota_error error;
    memset(&world, 0, sizeof world);
    uv_loop_init(&world.loop);
    options.body_max = 1000;
    enum rota_code code =
        rota_http_open(&world.loop, "127.0.0.1:0", &options, &HANDLER, &world.http, &error);
    if (code)
        print_error("%s\n", error.text);
    return code;
}

static int set_up(void **state)
{
    (void)state;
    return open_server((struct rota_http_options){0});
}

static int set_up_small(void **state)
{
    (void)state;
    return open_server((struct rota_http_options){
        .connections_max = 8, .peer_connections_max = 4, .bodies_max = 1500});
}

static int set_up_hasty(void **state)
{
    (void)state;
    return open_server((struct rota_http_options){.idle_timeout = ROTA_MSEC});
}

static int tear_down(void **state)
{
    (void)state;
    rota_http_close(world.http);
    await_end(&world.loop);
    return 0;
}

/* --- a client --- */

struct client {
    int fd;
    bool is_ended; /* by the server */
    struct rota_buffer in;
};

static void client_open(struct client *client)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(strchr(rota_http_address(world.http), ':') + 1)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(client, 0, sizeof *client);
    client->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client->fd, (struct sockaddr *)&in, sizeof in), 0);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
}

static void client_close(struct client *client)
{
    close(client->fd);
    rota_buffer_deinit(&client->in);
}

/* A moment passes, for both. */
static void step(struct client *client)
{
    char bytes[4096];
    struct pollfd look = {.fd = client->fd, .events = POLLIN};
    uv_run(&world.loop, UV_RUN_NOWAIT);
    poll(&look, 1, 1);
    ssize_t n = recv(client->fd, bytes, sizeof bytes, 0);
    if (n > 0)
        rota_buffer_append(&client->in, bytes, (size_t)n);
    client->is_ended |= n == 0 || (n < 0 && errno != EAGAIN);
}

static void say(struct client *client, struct rota_str text)
{
    for (size_t at = 0; at < text.size;) {
        ssize_t n = send(client->fd, text.data + at, text.size - at, MSG_NOSIGNAL);
        if (n > 0)
            at += (size_t)n;
        else if (errno != EAGAIN)
            return;
        else
            step(client);
    }
}

static void hear(struct client *client, const char *text)
{
    uint64_t until = uv_hrtime() + AWAIT_MAX_MS * 1000000ull;
    while (!client->in.data || !memmem(client->in.data, client->in.size, text, strlen(text))) {
        if (uv_hrtime() > until || client->is_ended)
            fail_msg("no \"%s\" in \"%s\"", text, client->in.data ? client->in.data : "");
        step(client);
    }
}

#define STEP_UNTIL(client, condition)                                                              \
    do {                                                                                           \
        uint64_t until_ = uv_hrtime() + AWAIT_MAX_MS * 1000000ull;                                 \
        while (!(condition)) {                                                                     \
            if (uv_hrtime() > until_)                                                              \
                fail_msg("waited in vain for " #condition);                                        \
            step(client);                                                                          \
        }                                                                                          \
    } while (0)

static void ask(struct client *client, const char *request, const char *answer)
{
    say(client, rota_str(request));
    hear(client, answer);
}

/* --- requests --- */

static void request_gets_the_matching_answer(void **state)
{
    struct client client;
    (void)state;
    client_open(&client);
    ask(&client, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "\r\n\r\na page");
    hear(&client, "HTTP/1.1 200");
    hear(&client, "Content-Type: text/plain");
    /* The connection continues; a target comes as it was written. */
    ask(&client, "GET /a%2Fb%00?q=%zz&+ HTTP/1.1\r\nHost: a\r\n\r\n", "\r\n\r\n/a%2Fb%00?q=%zz&+");
    ask(&client, "GET /c HTTP/1.1\r\nHost: a\r\nX-Say: hello\r\n\r\n", "\r\n\r\nhello");
    client_close(&client);
}

static void head_is_a_get_without_its_bytes(void **state)
{
    struct client client;
    (void)state;
    client_open(&client);
    say(&client, rota_str("HEAD /page HTTP/1.1\r\nHost: a\r\n\r\n"));
    ask(&client, "GET /end HTTP/1.1\r\nHost: a\r\n\r\n", "/end");
    assert_null(strstr(client.in.data, "a page"));
    hear(&client, "Content-Length: 6");
    client_close(&client);
}

static void body_comes_whole(void **state)
{
    struct client client;
    (void)state;
    client_open(&client);
    say(&client, rota_str("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc"));
    step(&client);
    assert_int_equal(world.n_requests, 0);
    ask(&client, "def", "\r\n\r\nabcdef");
    ask(&client,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
        "chunked\r\n\r\n2\r\nxy\r\n1\r\nz\r\n0\r\n\r\n",
        "\r\n\r\nxyz");
    client_close(&client);
}

static void body_over_the_limit_is_refused(void **state)
{
    char body[1002] = "";
    struct client client;
    (void)state;
    memset(body, 'x', sizeof body - 1);
    client_open(&client);
    say(&client, rota_str("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n"));
    ask(&client, body, "HTTP/1.1 413");
    assert_int_equal(world.n_requests, 0);
    client_close(&client);
    client_open(&client);
    say(&client, rota_str("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"));
    body[1000] = '\0';
    ask(&client, body, "HTTP/1.1 201");
    client_close(&client);
}

static void malformed_request_is_refused(void **state)
{
    static const struct {
        const char *request, *answer;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400"}, /* no host */
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400"},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         "HTTP/1.1 400"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client client;
        client_open(&client);
        ask(&client, cases[i].request, cases[i].answer);
        client_close(&client);
    }
    assert_int_equal(world.n_requests, 0);
}

static void the_handler_is_asked_about_every_method(void **state)
{
    struct client client;
    (void)state;
    client_open(&client);
    ask(&client, "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405");
    assert_int_equal(world.n_requests, 1);
    client_close(&client);
}

static void oversized_request_is_refused(void **state)
{
    struct client client;
    struct rota_buffer text = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rota_buffer_clear(&text);
        rota_buffer_append_text(&text, i ? "GET / HTTP/1.1\r\nHost: a\r\nX-Say: " : "GET /");
        for (size_t k = 0; k < (i ? ROTA_HTTP_MEMORY : ROTA_HTTP_TARGET_MAX); k++)
            rota_buffer_append_char(&text, 'x');
        rota_buffer_append_text(&text, i ? "\r\n\r\n" : " HTTP/1.1\r\nHost: a\r\n\r\n");
        client_open(&client);
        say(&client, rota_buffer_str(&text));
        hear(&client, i ? "HTTP/1.1 431" : "HTTP/1.1 414");
        client_close(&client);
    }
    assert_int_equal(world.n_requests, 0);
    rota_buffer_deinit(&text);
}

/* --- answers that come later --- */

static void answer_may_come_later(void **state)
{
    struct client client, other;
    (void)state;
    client_open(&client);
    client_open(&other);
    say(&client, rota_str("GET /late HTTP/1.1\r\nHost: a\r\n\r\n"));
    STEP_UNTIL(&client, world.late);
    ask(&other, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page"); /* nobody else waits */
    assert_null(client.in.data);
    rota_http_answer(world.late, 200, TEXT, 1, rota_str("at last"));
    hear(&client, "\r\n\r\nat last");
    client_close(&client);
    client_close(&other);
}

static void answer_to_a_client_that_has_gone_is_dropped(void **state)
{
    struct client client;
    (void)state;
    client_open(&client);
    say(&client, rota_str("GET /late HTTP/1.1\r\nHost: a\r\n\r\n"));
    STEP_UNTIL(&client, world.late);
    client_close(&client);
    rota_http_answer(world.late, 200, TEXT, 1, rota_str("at last"));
    client_open(&client);
    ask(&client, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page");
    client_close(&client);
}

/* --- streams --- */

static void open_stream(struct client *client)
{
    client_open(client);
    ask(client, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200");
    assert_non_null(world.stream);
}

static void stream_continues_until_it_is_closed(void **state)
{
    struct client client;
    (void)state;
    open_stream(&client);
    rota_http_stream_send(world.stream, rota_str("one "));
    hear(&client, "one ");
    rota_http_stream_send(world.stream, rota_str("two "));
    rota_http_stream_send(world.stream, rota_str("three"));
    hear(&client, "two three");
    rota_http_stream_close(world.stream);
    hear(&client, "\r\n0\r\n\r\n");
    assert_int_equal(world.n_gone, 0);
    client_close(&client);
}

static void owner_is_notified_when_the_client_of_a_stream_disconnects(void **state)
{
    struct client client, other;
    (void)state;
    open_stream(&client);
    client_close(&client);
    client_open(&other);
    while (world.n_gone == 0) { /* the kernel takes some before it says that nobody is there */
        rota_http_stream_send(world.stream, rota_str("are you there?\n"));
        ask(&other, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page");
        step(&other);
    }
    client_close(&other);
}

static void client_that_does_not_read_its_stream_is_cut_off(void **state)
{
    static char much[1 << 20];
    struct client client, other;
    size_t n = 0;
    (void)state;
    memset(much, 'x', sizeof much);
    open_stream(&client);
    client_open(&other);
    for (; world.stream; n++) {
        rota_http_stream_send(world.stream, rota_str_of(much, sizeof much));
        step(&other);
    }
    assert_in_range(n, ROTA_HTTP_STREAM_MAX / sizeof much, 64);
    assert_int_equal(world.n_gone, 1);
    client_close(&client);
    client_close(&other);
}

static void server_that_closes_ends_its_streams(void **state)
{
    struct client client;
    (void)state;
    set_up(NULL);
    open_stream(&client);
    rota_http_close(world.http);
    assert_int_equal(world.n_gone, 1);
    await_end(&world.loop);
    client_close(&client);
}

static void address_beyond_this_machine_needs_to_be_asked_for(void **state)
{
    struct rota_http *http;
    struct rota_error error;
    struct rota_http_handler handler = HANDLER;
    (void)state;
    assert_int_equal(rota_http_open(&world.loop, "0.0.0.0:0", NULL, &handler, &http, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "loopback"));
    assert_non_null(strstr(error.text, "TLS proxy")); /* there is none to set up here */
    struct rota_http_options options = {.insecure = true};
    assert_int_equal(rota_http_open(&world.loop, "0.0.0.0:0", &options, &handler, &http, &error),
                     ROTA_OK);
    rota_http_close(http);
    /* ... and one that is taken can't be. */
    assert_int_equal(
        rota_http_open(&world.loop, rota_http_address(world.http), NULL, &handler, &http, &error),
        ROTA_ERR_IO);
}

/* --- too many --- */

static void connection_beyond_its_share_may_send_urgent_requests(void **state)
{
    struct client held[4], more;
    (void)state;
    for (int i = 0; i < 4; i++) {
        client_open(&held[i]);
        ask(&held[i], "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page");
    }
    client_open(&more);
    ask(&more, "GET /other HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 503");
    STEP_UNTIL(&more, more.is_ended);
    client_close(&more);
    client_open(&more);
    ask(&more, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page");
    hear(&more, "Connection: close");
    STEP_UNTIL(&more, more.is_ended);
    client_close(&more);
    assert_int_equal(world.n_full[ROTA_HTTP_BOUND_PEER], 2);
    client_close(&held[0]); /* its place is free again */
    do {
        client_open(&more);
        say(&more, rota_str("GET /other HTTP/1.1\r\nHost: a\r\n\r\n"));
        STEP_UNTIL(&more, more.in.size > 0);
        if (strstr(more.in.data, "404"))
            break;
        client_close(&more);
    } while (true);
    client_close(&more);
    for (int i = 1; i < 4; i++)
        client_close(&held[i]);
}

/* However many connections do nothing in the reserve, there is room for one that asks. */
static void reserve_has_always_room_for_one_more(void **state)
{
    enum { N = 3 * ROTA_HTTP_RESERVE };
    struct client idle[N], one;
    (void)state;
    for (int i = 0; i < N; i++) {
        client_open(&idle[i]);
        step(&idle[i]);
    }
    for (int round = 0; round < 20; round++) {
        client_open(&one);
        ask(&one, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page");
        client_close(&one);
    }
    for (int i = 0; i < N; i++)
        client_close(&idle[i]);
}

static void bodies_that_do_not_end_are_bounded_together(void **state)
{
    char part[901] = "";
    struct client first, second;
    (void)state;
    memset(part, 'x', sizeof part - 1);
    client_open(&first);
    client_open(&second);
    say(&first, rota_str("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 901\r\n\r\n"));
    say(&first, rota_str(part));
    for (int i = 0; i < 20; i++)
        step(&first);
    say(&second, rota_str("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n"));
    say(&second, rota_str(part));
    hear(&second, "HTTP/1.1 503");
    assert_true(world.n_full[ROTA_HTTP_BOUND_BODIES] > 0);
    ask(&first, "x", "HTTP/1.1 201");
    client_close(&second);
    client_open(&second);
    say(&second, rota_str("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n"));
    ask(&second, part, "HTTP/1.1 201");
    client_close(&first);
    client_close(&second);
}

/* A byte now and then does not keep a connection open. */
static void request_that_does_not_become_whole_ends_its_connection(void **state)
{
    struct client slow;
    (void)state;
    client_open(&slow);
    say(&slow, rota_str("GET /page HTTP/1.1\r\nX-Slow: "));
    while (!slow.is_ended) {
        say(&slow, rota_str("x"));
        step(&slow);
    }
    assert_int_equal(world.n_requests, 0);
    client_close(&slow);
}

static void server_lives_on_after_descriptors_ran_out(void **state)
{
    struct client first, second;
    struct rlimit limit, none;
    (void)state;
    client_open(&first);
    ask(&first, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page");
    client_open(&second); /* which the server has not seen yet */
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 1;
    setrlimit(RLIMIT_NOFILE, &none);
    for (int i = 0; i < 20; i++)
        step(&first);
    setrlimit(RLIMIT_NOFILE, &limit);
    client_close(&first);
    ask(&second, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "a page");
    client_close(&second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request_gets_the_matching_answer),
        TEST(head_is_a_get_without_its_bytes),
        TEST(body_comes_whole),
        TEST(body_over_the_limit_is_refused),
        TEST(malformed_request_is_refused),
        TEST(the_handler_is_asked_about_every_method),
        TEST(oversized_request_is_refused),
        TEST(answer_may_come_later),
        TEST(answer_to_a_client_that_has_gone_is_dropped),
        TEST(stream_continues_until_it_is_closed),
        TEST(owner_is_notified_when_the_client_of_a_stream_disconnects),
        TEST(client_that_does_not_read_its_stream_is_cut_off),
        cmocka_unit_test(server_that_closes_ends_its_streams),
        TEST(address_beyond_this_machine_needs_to_be_asked_for),
        cmocka_unit_test_setup_teardown(connection_beyond_its_share_may_send_urgent_requests,
                                        set_up_small, tear_down),
        cmocka_unit_test_setup_teardown(reserve_has_always_room_for_one_more, set_up_small,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bodies_that_do_not_end_are_bounded_together, set_up_small,
                                        tear_down),
        cmocka_unit_test_setup_teardown(request_that_does_not_become_whole_ends_its_connection,
                                        set_up_hasty, tear_down),
        TEST(server_lives_on_after_descriptors_ran_out),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
