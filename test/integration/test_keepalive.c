/* Peers that fall silent: each side notices by itself, says so, and serves on.
 *
 * Times are short where silence is to be noticed, and endless where an answer is
 * to be in time: a busy machine makes these tests slow, not wrong. */
#include "raw.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct rota_str empty_settings = {"\0\0\0\4\0\0\0\0\0", 9};

/* --- the server notices --- */

/* `raw` has been dropped for its silence, and others are served. */
static void check_dropped(struct pair *pair, struct raw *raw)
{
    RUN_UNTIL(raw->is_closed);
    assert_int_equal(rota_server_counts(pair->echo.server).faults_total, 1);
    assert_int_equal(rota_server_counts(pair->echo.server).connections, 0);
    pair_check_echo(pair->channel, rota_str("I speak"));
    raw_deinit(raw);
    pair_close(pair);
}

static void a_client_that_never_sends_anything_is_dropped(void **state)
{
    struct pair pair;
    struct raw raw;
    (void)state;
    pair_open(&pair, &(struct rota_server_options){.open_timeout = 20 * ROTA_MSEC}, NULL);
    raw_open(&raw, pair.address);
    check_dropped(&pair, &raw);
}

/* A byte, or all but the settings: it has not said enough to be let in. */
static void a_client_that_stops_within_its_preface_is_dropped(void **state)
{
    static const char *const words[] = {"P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct pair pair;
        struct raw raw;
        pair_open(&pair, &(struct rota_server_options){.open_timeout = 20 * ROTA_MSEC}, NULL);
        raw_open(&raw, pair.address);
        rota_buffer_append_text(&raw.out, words[i]);
        raw_flush(&raw);
        check_dropped(&pair, &raw);
    }
}

static void a_client_that_has_sent_its_preface_may_be_idle(void **state)
{
    struct pair pair;
    struct raw raw;
    (void)state;
    pair_open(&pair, &(struct rota_server_options){.open_timeout = 20 * ROTA_MSEC}, NULL);
    pair_check_echo(pair.channel, rota_str("one"));
    raw_open(&raw, pair.address); /* comes later, so its time is over later */
    RUN_UNTIL(raw.is_closed);
    assert_int_equal(rota_server_counts(pair.echo.server).connections, 1);
    assert_int_equal(rota_server_counts(pair.echo.server).faults_total, 1);
    raw_deinit(&raw);
    pair_close(&pair);
}

static void a_client_that_answers_no_ping_is_dropped(void **state)
{
    struct pair pair;
    struct raw raw;
    (void)state;
    pair_open(&pair,
              &(struct rota_server_options){.keepalive_interval = 200 * ROTA_MSEC,
                                            .keepalive_timeout = 20 * ROTA_MSEC},
              NULL);
    raw_open(&raw, pair.address);
    raw_preface(&raw, rota_str(""));
    raw_flush(&raw);
    RUN_UNTIL(raw.n_frames[RAW_PING] == 1);
    check_dropped(&pair, &raw);
}

static void a_client_that_answers_stays(void **state)
{
    struct pair pair;
    struct raw raw;
    (void)state;
    pair_open(&pair,
              &(struct rota_server_options){.keepalive_interval = 5 * ROTA_MSEC,
                                            .keepalive_timeout = ROTA_HOUR},
              NULL);
    raw_open(&raw, pair.address);
    raw_preface(&raw, rota_str(""));
    for (size_t n = 1; n <= 5; n++) {
        raw_flush(&raw);
        RUN_UNTIL(raw.n_frames[RAW_PING] == n);
        raw_frame(&raw, RAW_PING, RAW_ACK, 0, rota_str_of("\0\0\0\0\0\0\0\0", 8));
    }
    assert_false(raw.is_closed);
    assert_int_equal(rota_server_counts(pair.echo.server).connections, 1);
    raw_deinit(&raw);
    pair_close(&pair);
}

/* --- the client notices --- */

/* The call ends with a sentence that names the server and has `phrase` in it. */
static void check_given_up(struct rota_channel *channel, const char *phrase)
{
    struct seen seen = pair_ask(channel, METHOD_ECHO, rota_str("is anybody there?"));
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    assert_true(seen.may_have_run);
    assert_non_null(strstr(seen.text, rota_channel_target(channel)));
    if (!strstr(seen.text, phrase))
        fail_msg("no \"%s\" in: %s", phrase, seen.text);
    free(seen.message);
}

static void check_patient(struct rota_channel *channel)
{
    struct seen seen = {0};
    pair_start_with(channel,
                    &(struct rota_call_options){.method = rota_str(METHOD_ECHO),
                                                .request = rota_str("again"),
                                                .wait_for_ready = true},
                    &seen);
    RUN_UNTIL(seen.n_ended);
    assert_int_equal(seen.status, ROTA_STATUS_OK);
    free(seen.message);
}

/* As when the process behind an address is stuck: the kernel connects for it. */
static void a_server_that_never_answers_is_given_up(void **state)
{
    struct rota_channel_options options = {.connect_timeout = 50 * ROTA_MSEC,
                                           .backoff_first = ROTA_MSEC,
                                           .backoff_max = 2 * ROTA_MSEC};
    struct rota_channel *channel;
    struct echo echo;
    char address[64];
    (void)state;
    int listening = raw_listen(address);
    assert_int_equal(rota_channel_open(&loop, address, &options, &channel, NULL), ROTA_OK);
    check_given_up(channel, "the peer did not start HTTP/2 in time");
    close(listening);
    echo_open(&echo, &loop, address, NULL);
    check_patient(channel);
    rota_channel_close(channel);
    rota_server_close(echo.server);
    pair_settle();
}

static void a_server_that_answers_no_ping_is_given_up(void **state)
{
    struct rota_channel_options options = {.keepalive_interval = 10 * ROTA_MSEC,
                                           .keepalive_timeout = 20 * ROTA_MSEC};
    struct rota_channel *channel;
    char address[64];
    (void)state;
    int listening = raw_listen(address);
    assert_int_equal(rota_channel_open(&loop, address, &options, &channel, NULL), ROTA_OK);
    rota_channel_connect(channel);
    int fd = raw_greet(listening, empty_settings);
    check_given_up(channel, "the peer did not answer a ping in time");
    close(fd);
    close(listening);
    rota_channel_close(channel);
    pair_settle();
}

/* A server in a process of its own, which tells its address. */
static pid_t start_process(char address[64])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct echo echo;
        uv_loop_t own;
        uv_loop_init(&own);
        echo_open(&echo, &own, "127.0.0.1:0", NULL);
        dprintf(ends[1], "%s", rota_server_address(echo.server, 0));
        close(ends[0]);
        close(ends[1]);
        uv_run(&own, UV_RUN_DEFAULT);
        _exit(1);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], address, 63);
    assert_true(size > 0);
    address[size] = '\0';
    close(ends[0]);
    return pid;
}

static void a_stopped_process_is_noticed_and_found_again(void **state)
{
    struct rota_channel_options options = {.keepalive_interval = 10 * ROTA_MSEC,
                                           .keepalive_timeout = 500 * ROTA_MSEC,
                                           .backoff_first = ROTA_MSEC,
                                           .backoff_max = 10 * ROTA_MSEC};
    struct rota_channel *channel;
    char address[64];
    int status;
    (void)state;
    pid_t pid = start_process(address);
    assert_int_equal(rota_channel_open(&loop, address, &options, &channel, NULL), ROTA_OK);
    check_patient(channel);
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    check_given_up(channel, "the peer did not answer a ping in time");
    kill(pid, SIGCONT);
    check_patient(channel);
    rota_channel_close(channel);
    pair_settle();
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(a_client_that_never_sends_anything_is_dropped),
        PAIR_TEST(a_client_that_stops_within_its_preface_is_dropped),
        PAIR_TEST(a_client_that_has_sent_its_preface_may_be_idle),
        PAIR_TEST(a_client_that_answers_no_ping_is_dropped),
        PAIR_TEST(a_client_that_answers_stays),
        PAIR_TEST(a_server_that_never_answers_is_given_up),
        PAIR_TEST(a_server_that_answers_no_ping_is_given_up),
        PAIR_TEST(a_stopped_process_is_noticed_and_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
