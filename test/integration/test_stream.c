/* Streams and listeners on a real loop. Rules of all streams are shown twice, in plain text and
 * under TLS; test_tls.c has those of TLS alone. */
#include "streams.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- any stream --- */

static void bytes_arrive_in_both_directions(void **state)
{
    (void)state;
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0");
    streams_meet();
    streams_write(&streams.client, 1000);
    await(&streams.loop, &streams.client.n_got, 1000);
    assert_int_equal(streams.client.n_got, 1000);
    assert_int_equal(streams.server[0].n_got, 1000);
    assert_int_equal(streams.client.n_wrong + streams.server[0].n_wrong, 0);
    assert_string_equal(rota_stream_peer(streams.client.stream), streams.address);
    assert_non_null(strstr(rota_stream_peer(streams.server[0].stream), "127.0.0.1:"));
}

static void bytes_written_before_the_stream_is_open_arrive(void **state)
{
    (void)state;
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0");
    streams_dial(&streams.client, streams.address);
    streams_write(&streams.client, 100);
    assert_int_equal(rota_stream_pending(streams.client.stream), 100);
    await(&streams.loop, &streams.client.n_got, 100);
    assert_int_equal(streams.client.n_drained, 1);
    assert_int_equal(streams.client.n_wrong, 0);
}

/* The client does not read until both ends are stuck: then all that lies
 * between them is what they meant to gather at most, and the kernel's part. */
static void much_arrives_whole_while_little_is_pending(void **state)
{
    enum { MUCH = 40 << 20, MOST = STREAMS_HOLD + ROTA_STREAM_READ_SIZE + (8 << 10) };
    (void)state;
    streams.model.habit = STREAMS_ECHO;
    streams.client.habit = STREAMS_SOURCE;
    streams.client.to_send = MUCH;
    streams_listen("127.0.0.1:0");
    streams_meet();
    streams_set_reading(&streams.client, false);
    await(&streams.loop, &streams.server[0].pending_max, STREAMS_HOLD);
    await(&streams.loop, &streams.client.pending_max, STREAMS_HOLD);
    assert_true(streams.client.n_sent < MUCH);
    streams_set_reading(&streams.client, true);

    await(&streams.loop, &streams.client.n_got, MUCH);
    assert_int_equal(streams.client.n_got, MUCH);
    assert_int_equal(streams.client.n_wrong + streams.server[0].n_wrong, 0);
    assert_in_range(streams.client.pending_max, STREAMS_HOLD, MOST);
    assert_in_range(streams.server[0].pending_max, STREAMS_HOLD, MOST);
}

static void more_than_the_bound_is_refused_and_nothing_is_lost(void **state)
{
    static char piece[1 << 20];
    struct rota_stream *client;
    size_t n_accepted = 0;
    enum rota_code code;
    (void)state;
    streams_listen("127.0.0.1:0");
    streams_meet();
    client = streams.client.stream;
    streams_set_reading(&streams.server[0], false);
    for (;;) {
        for (size_t i = 0; i < sizeof piece; i++)
            piece[i] = streams_byte(n_accepted + i);
        if ((code = streams_push(client, rota_str_of(piece, sizeof piece))))
            break;
        n_accepted += sizeof piece;
        assert_true(n_accepted < 256u << 20);
    }
    assert_int_equal(code, ROTA_ERR_LIMIT);
    assert_in_range(rota_stream_pending(client), ROTA_STREAM_PENDING_MAX - sizeof piece,
                    ROTA_STREAM_PENDING_MAX);
    struct rota_buffer handed = {0};
    rota_buffer_append(&handed, piece, sizeof piece);
    assert_int_equal(rota_stream_send_buffer(client, &handed), ROTA_ERR_LIMIT);
    assert_int_equal(handed.size, sizeof piece); /* left alone */
    rota_buffer_deinit(&handed);

    streams_set_reading(&streams.server[0], true);
    await(&streams.loop, &streams.server[0].n_got, n_accepted);
    await(&streams.loop, &streams.client.n_drained, 1);
    assert_int_equal(streams.server[0].n_got, n_accepted);
    assert_int_equal(streams.server[0].n_wrong, 0);
}

static void fill(struct rota_buffer *buffer, size_t at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        rota_buffer_append_char(buffer, streams_byte(at + i));
}

static void a_buffer_is_sent_at_once_and_has_its_memory_after(void **state)
{
    enum { SIZE = 5000, TURNS = 3 };
    struct rota_buffer handed = {0};
    (void)state;
    streams_listen("127.0.0.1:0");
    streams_meet();
    for (size_t turn = 0; turn < TURNS; turn++) {
        fill(&handed, turn * SIZE, SIZE);
        const char *memory = handed.data;
        assert_int_equal(rota_stream_send_buffer(streams.client.stream, &handed), ROTA_OK);
        assert_int_equal(rota_stream_pending(streams.client.stream), 0);
        assert_int_equal(handed.size, 0);
        assert_ptr_equal(handed.data, memory);
    }
    rota_buffer_deinit(&handed);
    await(&streams.loop, &streams.server[0].n_got, (size_t)TURNS * SIZE);
    assert_int_equal(streams.server[0].n_wrong, 0);
}

static void a_buffer_keeps_its_place_after_waiting_bytes(void **state)
{
    enum { FIRST = 300, LARGE = 7 << 20, LAST = 5000 }; /* two large ones fill the kernel */
    struct rota_stream *client;
    struct rota_buffer handed = {0};
    (void)state;
    streams_listen("127.0.0.1:0");
    streams_meet();
    client = streams.client.stream;
    streams_set_reading(&streams.server[0], false);
    streams_write(&streams.client, FIRST);
    fill(&handed, FIRST, LARGE);
    assert_int_equal(rota_stream_send_buffer(client, &handed), ROTA_OK);
    fill(&handed, FIRST + LARGE, LARGE);
    assert_int_equal(rota_stream_send_buffer(client, &handed), ROTA_OK);
    assert_true(rota_stream_pending(client) > 0);
    fill(&handed, FIRST + 2 * LARGE, LAST);
    assert_int_equal(rota_stream_send_buffer(client, &handed), ROTA_OK);
    assert_int_equal(handed.size, 0);
    rota_buffer_deinit(&handed);
    streams_set_reading(&streams.server[0], true);
    await(&streams.loop, &streams.server[0].n_got, FIRST + 2 * LARGE + LAST);
    assert_int_equal(streams.server[0].n_wrong, 0);
}

static void finish_after(size_t size, size_t answered)
{
    static char bytes[8 << 20];
    struct streams_end *server = &streams.server[0];
    assert_true(size <= sizeof bytes);
    streams_listen("127.0.0.1:0");
    streams_meet();
    streams_set_reading(server, false);
    for (size_t i = 0; i < size; i++)
        bytes[i] = streams_byte(i);
    assert_int_equal(streams_push(streams.client.stream, rota_str_of(bytes, size)), ROTA_OK);
    rota_stream_finish(streams.client.stream);
    streams.client.stream = NULL;
    for (int i = 0; i < 20; i++)
        uv_run(&streams.loop, UV_RUN_NOWAIT);
    streams_write(server, answered);
    streams_set_reading(server, true);
    await(&streams.loop, &server->n_closed, 1);
    streams_assert_reason(&server->reason, ROTA_OK, "closed the connection");
    assert_int_equal(server->n_got, size);
    assert_int_equal(server->n_wrong, 0);
    assert_int_equal(streams.client.n_closed, 0);
}

static void a_finished_stream_delivers_everything_first(void **state)
{
    (void)state;
    finish_after(8 << 20, 0);
}

/* Bytes for a closed socket make the kernel drop what that has yet to deliver. */
static void a_finished_stream_tolerates_a_peer_that_still_writes(void **state)
{
    (void)state;
    finish_after(512 << 10, 1000);
}

static void both_may_finish_at_once(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    streams_meet();
    streams_write(&streams.client, 100);
    streams_write(&streams.server[0], 100);
    rota_stream_finish(streams.client.stream);
    rota_stream_finish(streams.server[0].stream);
    streams.client.stream = streams.server[0].stream = NULL;
}

static void a_closed_stream_notifies_its_peer_and_not_its_owner(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    streams_meet();
    rota_stream_close(streams.client.stream);
    streams.client.stream = NULL;
    await(&streams.loop, &streams.server[0].n_closed, 1);
    assert_int_equal(streams.client.n_closed, 0);
}

static void end_at(enum streams_moment client, enum streams_moment server, bool finishes)
{
    struct streams_end *peer = &streams.server[streams.n_accepted];
    size_t before = streams.n_accepted;
    bool waits = client == STREAMS_ON_DRAINED || server == STREAMS_ON_DRAINED;
    size_t to_send = waits ? 16 << 20 : 20000; /* more than the kernel takes at once */
    streams.client = (struct streams_end){
        .habit = STREAMS_SOURCE, .to_send = to_send, .ends_at = client, .finishes = finishes};
    streams.model = (struct streams_end){
        .habit = STREAMS_SOURCE, .to_send = to_send, .ends_at = server, .finishes = finishes};
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.n_accepted, before + 1);
    if (client == STREAMS_ON_CLOSE && server == STREAMS_ON_CLOSE) { /* someone has to begin */
        await(&streams.loop, &peer->n_got, 20000);
        streams_drop(peer);
        peer->n_ended++;
    }
    await(&streams.loop, &streams.client.n_ended, 1);
    await(&streams.loop, &peer->n_ended, 1);
    assert_int_equal(streams.client.n_ended, 1);
    assert_int_equal(peer->n_ended, 1);
}

static void a_stream_may_be_ended_in_every_callback(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    for (int client = STREAMS_ON_OPEN; client <= STREAMS_ON_CLOSE; client++)
        for (int server = STREAMS_ON_OPEN; server <= STREAMS_ON_CLOSE; server++)
            for (int finishes = 0; finishes < 2; finishes++)
                end_at((enum streams_moment)client, (enum streams_moment)server, finishes);
}

static void a_stream_may_be_ended_while_it_connects(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    for (int n_turns = 0; n_turns < 6; n_turns++)
        for (int by_name = 0; by_name < 2; by_name++) {
            char address[64];
            streams.client = (struct streams_end){0};
            snprintf(address, sizeof address, "%s:%s", by_name ? "localhost" : "127.0.0.1",
                     streams_port());
            streams_dial(&streams.client, address);
            for (int i = 0; i < n_turns; i++)
                uv_run(&streams.loop, UV_RUN_NOWAIT);
            streams_drop(&streams.client);
        }
}

static void a_name_is_looked_up_and_its_addresses_tried(void **state)
{
    char address[64];
    (void)state;
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0"); /* and not on ::1, which localhost may be first */
    snprintf(address, sizeof address, "localhost:%s", streams_port());
    streams_dial(&streams.client, address);
    streams_write(&streams.client, 10);
    await(&streams.loop, &streams.client.n_got, 10);
}

static void hundreds_come_and_go(void **state)
{
    enum { N = 200 };
    static struct streams_end clients[N];
    (void)state;
    memset(clients, 0, sizeof clients);
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0");
    for (size_t i = 0; i < N; i++) {
        streams_dial(&clients[i], streams.address);
        streams_write(&clients[i], i + 1);
    }
    for (size_t i = 0; i < N; i++) {
        await(&streams.loop, &clients[i].n_got, i + 1);
        assert_int_equal(clients[i].n_wrong, 0);
    }
    struct rota_listener_counts counts = rota_listener_counts(streams.listener);
    assert_int_equal(counts.connections, N);
    assert_int_equal(counts.accepted, N);
    for (size_t i = 0; i < N; i++)
        rota_stream_finish(clients[i].stream);
    for (size_t i = 0; i < N; i++)
        await(&streams.loop, &streams.server[i].n_closed, 1);
    while (rota_listener_counts(streams.listener).connections > 0)
        uv_run(&streams.loop, UV_RUN_ONCE);
    assert_int_equal(rota_listener_counts(streams.listener).refused, 0);
}

/* --- connections that do not come about --- */

static void await_failure(const char *address, enum rota_code code, const char *phrase)
{
    streams_dial(&streams.client, address);
    await(&streams.loop, &streams.client.n_closed, 1);
    assert_int_equal(streams.client.n_opened, 0);
    streams_assert_reason(&streams.client.reason, code, phrase);
}

static void a_port_without_a_listener_is_unavailable(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    rota_listener_close(streams.listener);
    streams.listener = NULL;
    await_failure(streams.address, ROTA_ERR_UNAVAILABLE, "connection refused");
    assert_non_null(strstr(streams.client.reason.text, streams.address));
}

static void an_unknown_name_is_named(void **state)
{
    (void)state;
    streams_dial(&streams.client, "nosuch.invalid:80");
    await(&streams.loop, &streams.client.n_closed, 1);
    /* A machine without any resolver can't know that there is no such name. */
    enum rota_code code = streams.client.reason.code;
    assert_true(code == ROTA_ERR_NOT_FOUND || code == ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(streams.client.reason.text, "nosuch.invalid:80"));
}

static void a_peer_that_does_not_answer_in_time_is_given_up(void **state)
{
    enum { N_CROWD = 4 };
    int crowd[N_CROWD];
    (void)state;
    int listening = streams_socket(":0", true);
    streams_name_socket(listening, streams.address);
    for (int i = 0; i < N_CROWD; i++) /* fill the queue of those who wait to be accepted */
        crowd[i] = streams_socket(streams.address, false);
    streams.connect.open_timeout = 100 * ROTA_MSEC;
    await_failure(streams.address, ROTA_ERR_UNAVAILABLE, "no reply in time");
    for (int i = 0; i < N_CROWD; i++)
        close(crowd[i]);
    close(listening);
}

static void a_bad_address_is_refused_at_once(void **state)
{
    static const char *const bad[] = {
        "",       "localhost", ":80",   "127.0.0.1:",  "127.0.0.1:x", "127.0.0.1:65536",
        "::1:80", "[::1]",     "[]:80", "a:-1",        "a: 1",        "a:1\n",
        ":",      "[",         "]:1:2", "a:000000001",
    };
    char too_long[400];
    const struct rota_stream_handler handler = {0};
    struct rota_stream *stream = NULL;
    struct rota_listener *listener = NULL;
    struct rota_error error;
    (void)state;
    memset(too_long, 'a', sizeof too_long);
    strcpy(too_long + sizeof too_long - 4, ":80");
    for (size_t i = 0; i <= sizeof bad / sizeof bad[0]; i++) {
        const char *address = i < sizeof bad / sizeof bad[0] ? bad[i] : too_long;
        assert_int_equal(
            rota_stream_connect(&streams.loop, address, NULL, &handler, &stream, &error),
            ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "address \""));
        assert_int_equal(rota_listener_open(&streams.loop, address, NULL,
                                            &(struct rota_listener_handler){0}, &listener, &error),
                         ROTA_ERR_INVALID);
    }
    assert_null(stream);
    assert_null(listener);
}

static void plain_text_stays_on_this_machine(void **state)
{
    static const struct {
        const char *address;
        bool is_inside;
    } rows[] = {
        {"127.0.0.1", true},
        {"127.255.3.4", true},
        {"::1", true},
        {"::ffff:127.0.0.1", true},
        {"126.255.255.255", false},
        {"128.0.0.1", false},
        {"0.0.0.0", false},
        {"::", false},
        {"10.0.0.1", false},
        {"::ffff:10.0.0.1", false},
        {"fe80::1", false},
    };
    const struct rota_stream_handler handler = {0};
    struct rota_stream *stream = NULL;
    struct rota_listener *listener = NULL;
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sockaddr_storage address = {0};
        if (uv_ip4_addr(rows[i].address, 80, (struct sockaddr_in *)&address))
            uv_ip6_addr(rows[i].address, 80, (struct sockaddr_in6 *)&address);
        assert_int_equal(rota_stream_check_plain((struct sockaddr *)&address, false, &error),
                         rows[i].is_inside ? ROTA_OK : ROTA_ERR_INVALID);
        assert_int_equal(rota_stream_check_plain((struct sockaddr *)&address, true, &error),
                         ROTA_OK);
    }
    assert_int_equal(
        rota_stream_connect(&streams.loop, "192.0.2.1:80", NULL, &handler, &stream, &error),
        ROTA_ERR_INVALID);
    streams_assert_reason(&error, ROTA_ERR_INVALID, "192.0.2.1:80 is not a loopback address");
    assert_int_equal(rota_listener_open(&streams.loop, "0.0.0.0:0", NULL,
                                        &(struct rota_listener_handler){0}, &listener, &error),
                     ROTA_ERR_INVALID);
    streams.listen.insecure = true;
    streams_listen("0.0.0.0:0");
}

static void a_reset_is_an_error(void **state)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)state;
    streams_listen("127.0.0.1:0");
    int fd = streams_socket(streams.address, false);
    await(&streams.loop, &streams.n_accepted, 1);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    await(&streams.loop, &streams.server[0].n_closed, 1);
    streams_assert_reason(&streams.server[0].reason, ROTA_ERR_IO, "reset");
}

/* The bytes that could not be sent must not leave the owner waiting forever. */
static void writing_to_a_closed_peer_ends_a_stream_that_does_not_read(void **state)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)state;
    streams_listen("127.0.0.1:0");
    int fd = streams_socket(streams.address, false);
    await(&streams.loop, &streams.n_accepted, 1);
    streams_set_reading(&streams.server[0], false);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    shutdown(fd, SHUT_WR); /* an end and then a reset: the kernel would send SIGPIPE */
    close(fd);
    streams_write(&streams.server[0], 10);
    assert_int_equal(streams.server[0].n_closed, 0); /* not from inside the call */
    assert_int_equal(streams_push(streams.server[0].stream, rota_str("x")), ROTA_ERR_UNAVAILABLE);
    await(&streams.loop, &streams.server[0].n_closed, 1);
    streams_assert_reason(&streams.server[0].reason, ROTA_ERR_IO, "writing");
}

static void bytes_sent_before_a_reset_are_still_read(void **state)
{
    const struct linger at_once = {.l_onoff = 1};
    char words[10];
    (void)state;
    streams_listen("127.0.0.1:0");
    int fd = streams_socket(streams.address, false);
    await(&streams.loop, &streams.n_accepted, 1);
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = streams_byte(i);
    assert_int_equal(write(fd, words, sizeof words), sizeof words);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    streams_write(&streams.server[0], 10);
    assert_int_equal(streams_push(streams.server[0].stream, rota_str("x")), ROTA_ERR_UNAVAILABLE);
    await(&streams.loop, &streams.server[0].n_closed, 1);
    assert_int_equal(streams.server[0].n_got, sizeof words);
    streams_assert_reason(&streams.server[0].reason, ROTA_ERR_IO, "writing");
}

static void tls_to_a_plain_port_is_recognized(void **state)
{
    static const char hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1};
    (void)state;
    streams_listen("127.0.0.1:0");
    int fd = streams_socket(streams.address, false);
    await(&streams.loop, &streams.n_accepted, 1);
    assert_int_equal(write(fd, hello, sizeof hello), sizeof hello);
    await(&streams.loop, &streams.server[0].n_closed, 1);
    streams_assert_reason(&streams.server[0].reason, ROTA_ERR_INVALID, "the peer speaks TLS");
    assert_int_equal(streams.server[0].n_got, 0);
    close(fd);
}

/* --- listeners --- */

static void ipv6_is_written_in_brackets(void **state)
{
    struct sockaddr_in6 place = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    (void)state;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&place, sizeof place) != 0) {
        close(fd);
        return; /* no IPv6 on this machine; cmocka's skip() is a failure, to TAP */
    }
    close(fd);
    streams.model.habit = STREAMS_ECHO;
    streams_listen("[::1]:0");
    assert_int_equal(strncmp(streams.address, "[::1]:", 6), 0);
    streams_meet();
    streams_write(&streams.client, 10);
    await(&streams.loop, &streams.client.n_got, 10);
}

static void a_port_in_use_is_named(void **state)
{
    struct rota_listener *second = NULL;
    struct rota_error error;
    (void)state;
    streams_listen("127.0.0.1:0");
    assert_int_equal(rota_listener_open(&streams.loop, streams.address, NULL,
                                        &(struct rota_listener_handler){0}, &second, &error),
                     ROTA_ERR_IO);
    assert_non_null(strstr(error.text, streams.address));
    assert_null(second);
}

static void connections_beyond_the_limit_wait(void **state)
{
    struct streams_end clients[3] = {{0}};
    (void)state;
    streams.listen.connections_max = streams.listen.peer_connections_max = 2;
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0");
    for (size_t i = 0; i < 3; i++) {
        streams_dial(&clients[i], streams.address);
        streams_write(&clients[i], 10);
        await(&streams.loop, &clients[i].n_opened, 1);
    }
    await(&streams.loop, &clients[0].n_got, 10);
    await(&streams.loop, &clients[1].n_got, 10);
    for (int i = 0; i < 20; i++)
        uv_run(&streams.loop, UV_RUN_NOWAIT);
    assert_int_equal(rota_listener_counts(streams.listener).connections, 2);
    assert_int_equal(streams.n_accepted, 2);
    rota_stream_close(clients[0].stream);
    await(&streams.loop, &clients[2].n_got, 10);
    rota_stream_close(clients[1].stream);
    rota_stream_close(clients[2].stream);
}

static void running_out_of_file_descriptors_is_survived(void **state)
{
    struct rlimit before, none;
    (void)state;
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0");
    uv_run(&streams.loop, UV_RUN_NOWAIT); /* the loop opens what it needs */
    int fd = streams_socket(streams.address, false);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int filler = dup(fd); /* below `fd` a place may have been free */
    for (int i = 0; i < 100 && rota_listener_counts(streams.listener).accept_errors == 0; i++)
        uv_run(&streams.loop, UV_RUN_ONCE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(streams.n_accepted, 0);
    assert_true(rota_listener_counts(streams.listener).accept_errors > 0);
    await(&streams.loop, &streams.n_accepted, 1);
    if (filler >= 0)
        close(filler);
    close(fd);
}

static void a_listener_may_be_closed_in_its_callback(void **state)
{
    (void)state;
    streams.closes_listener = true;
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0");
    streams_meet();
    streams_write(&streams.client, 10); /* the stream lives on */
    await(&streams.loop, &streams.client.n_got, 10);
}

#define IN_BOTH(test)                                                                              \
    {#test, test, streams_setup, streams_teardown, NULL},                                          \
    {                                                                                              \
#test "_under_tls", test, streams_setup_tls, streams_teardown, NULL                        \
    }
#define IN_PLAIN(test)                                                                             \
    {                                                                                              \
#test, test, streams_setup, streams_teardown, NULL                                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(bytes_arrive_in_both_directions),
        IN_BOTH(bytes_written_before_the_stream_is_open_arrive),
        IN_BOTH(much_arrives_whole_while_little_is_pending),
        IN_BOTH(more_than_the_bound_is_refused_and_nothing_is_lost),
        IN_BOTH(a_buffer_is_sent_at_once_and_has_its_memory_after),
        IN_BOTH(a_buffer_keeps_its_place_after_waiting_bytes),
        IN_BOTH(a_finished_stream_delivers_everything_first),
        IN_BOTH(a_finished_stream_tolerates_a_peer_that_still_writes),
        IN_BOTH(both_may_finish_at_once),
        IN_BOTH(a_closed_stream_notifies_its_peer_and_not_its_owner),
        IN_BOTH(a_stream_may_be_ended_in_every_callback),
        IN_BOTH(a_stream_may_be_ended_while_it_connects),
        IN_BOTH(a_name_is_looked_up_and_its_addresses_tried),
        IN_BOTH(hundreds_come_and_go),
        IN_PLAIN(a_port_without_a_listener_is_unavailable),
        IN_PLAIN(an_unknown_name_is_named),
        IN_PLAIN(a_peer_that_does_not_answer_in_time_is_given_up),
        IN_PLAIN(a_bad_address_is_refused_at_once),
        IN_PLAIN(plain_text_stays_on_this_machine),
        IN_PLAIN(a_reset_is_an_error),
        IN_PLAIN(writing_to_a_closed_peer_ends_a_stream_that_does_not_read),
        IN_PLAIN(bytes_sent_before_a_reset_are_still_read),
        IN_PLAIN(tls_to_a_plain_port_is_recognized),
        IN_PLAIN(ipv6_is_written_in_brackets),
        IN_PLAIN(a_port_in_use_is_named),
        IN_PLAIN(connections_beyond_the_limit_wait),
        IN_PLAIN(running_out_of_file_descriptors_is_survived),
        IN_PLAIN(a_listener_may_be_closed_in_its_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
