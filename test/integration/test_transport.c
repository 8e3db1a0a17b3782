/* The gRPC client and server as one process, over 127.0.0.1. */
#include "certificate.h"
#include "echo.h"
#include "loop.h"
#include <rota/tls.h>

#include <unistd.h>

struct pair {
    struct echo echo;
    struct rota_channel *channel;
    char address[64];
};

static void pair_open(struct pair *pair, const struct rota_server_options *server,
                      const struct rota_channel_options *client)
{
    echo_open(&pair->echo, &loop, "127.0.0.1:0", server);
    snprintf(pair->address, sizeof pair->address, "%s", rota_server_address(pair->echo.server, 0));
    assert_int_equal(rota_channel_open(&loop, pair->address, client, &pair->channel, NULL),
                     ROTA_OK);
}

static void settle(void)
{
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void pair_close(struct pair *pair)
{
    rota_channel_close(pair->channel);
    rota_server_close(pair->echo.server);
    settle();
}

static void start_with(struct rota_channel *channel, const struct rota_call_options *options,
                       struct seen *seen)
{
    struct rota_call_options ours = *options;
    struct rota_error error = {0};
    ours.on_end = seen_on_end;
    ours.data = seen;
    if (rota_channel_call(channel, &ours, &seen->call, &error))
        fail_msg("%s", error.text);
}

static void start(struct rota_channel *channel, const char *method, struct rota_str request,
                  struct seen *seen)
{
    start_with(channel, &(struct rota_call_options){.method = rota_str(method), .request = request},
               seen);
}

static struct seen ask(struct rota_channel *channel, const char *method, struct rota_str request)
{
    struct seen seen = {0};
    start(channel, method, request, &seen);
    RUN_UNTIL(seen.n_ended);
    return seen;
}

static void check_echo(struct rota_channel *channel, struct rota_str request)
{
    struct seen seen = ask(channel, METHOD_ECHO, request);
    assert_string_equal(seen.text, "");
    assert_int_equal(seen.status, ROTA_STATUS_OK);
    assert_true(rota_str_is_equal(rota_str_of(seen.message, seen.size), request));
    free(seen.message);
}

/* --- messages --- */

static void a_message_comes_back(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    assert_int_equal(rota_channel_state(pair.channel), ROTA_CHANNEL_IDLE);
    check_echo(pair.channel, rota_str("hello"));
    assert_int_equal(rota_channel_state(pair.channel), ROTA_CHANNEL_READY);
    check_echo(pair.channel, rota_str(""));
    check_echo(pair.channel, rota_str_of("\0\1\2", 3));
    assert_int_equal(rota_server_counts(pair.echo.server).connections, 1);
    pair_close(&pair);
}

static void three_mebibytes_go_both_ways(void **state)
{
    enum { SIZE = 3 << 20 };
    struct pair pair;
    char *bytes = malloc(SIZE);
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 7 >> 3);
    pair_open(&pair, NULL, NULL);
    for (int i = 0; i < 3; i++)
        check_echo(pair.channel, rota_str_of(bytes, SIZE));
    free(bytes);
    pair_close(&pair);
}

static void a_message_too_large_is_refused_and_the_connection_stays(void **state)
{
    enum { SIZE = 5 << 20 };
    struct pair pair;
    char *bytes = calloc(1, SIZE);
    (void)state;
    assert_non_null(bytes);
    pair_open(&pair, NULL, NULL);
    struct seen other = {0};
    start(pair.channel, METHOD_KEEP, rota_str("x"), &other);
    struct seen seen = ask(pair.channel, METHOD_ECHO, rota_str_of(bytes, SIZE));
    assert_int_equal(seen.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(seen.text, "larger"));
    free(seen.message);
    check_echo(pair.channel, rota_str("still here"));
    echo_release(&pair.echo);
    RUN_UNTIL(other.n_ended);
    assert_int_equal(other.status, ROTA_STATUS_OK);
    free(other.message);
    free(bytes);
    pair_close(&pair);
}

static void a_reply_too_large_ends_its_call_only(void **state)
{
    struct pair pair;
    static char bytes[200000];
    (void)state;
    pair_open(&pair, NULL, &(struct rota_channel_options){.message_max = 1000});
    struct seen seen = ask(pair.channel, METHOD_ECHO, rota_str_of(bytes, sizeof bytes));
    assert_int_equal(seen.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    free(seen.message);
    check_echo(pair.channel, rota_str("small"));
    assert_int_equal(rota_server_counts(pair.echo.server).connections, 1);
    pair_close(&pair);
}

/* --- status and metadata --- */

static void every_status_arrives_with_its_text(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    for (int status = 1; status <= 16; status++) {
        char request[64];
        int size = snprintf(request, sizeof request, "%cn\xc3\xb6 100%% \n %d", status, status);
        struct seen seen = ask(pair.channel, METHOD_FAIL, rota_str_of(request, (size_t)size));
        assert_int_equal(seen.status, status);
        assert_string_equal(seen.text, request + 1);
        assert_true(seen.may_have_run);
        free(seen.message);
    }
    pair_close(&pair);
}

static void a_method_nobody_serves_is_unimplemented(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    struct seen seen = ask(pair.channel, "/test.Echo/None", rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNIMPLEMENTED);
    free(seen.message);
    struct rota_call_options bad = {.method = rota_str("Echo"), .on_end = seen_on_end};
    assert_int_equal(rota_channel_call(pair.channel, &bad, NULL, NULL), ROTA_ERR_INVALID);
    pair_close(&pair);
}

static void metadata_goes_both_ways(void **state)
{
    struct pair pair;
    struct seen seen = {0};
    struct rota_metadata pairs[] = {
        {rota_str("x-first"), rota_str("one two")},
        {rota_str("x-blob-bin"), rota_str_of("\0\xff,\n", 4)},
        {rota_str("other"), rota_str("not sent back")},
    };
    (void)state;
    pair_open(&pair, NULL, NULL);
    start_with(pair.channel,
               &(struct rota_call_options){.method = rota_str(METHOD_ECHO),
                                           .request = rota_str("x"),
                                           .metadata = pairs,
                                           .n_metadata = 3},
               &seen);
    RUN_UNTIL(seen.n_ended);
    assert_int_equal(seen.status, ROTA_STATUS_OK);
    assert_string_equal(seen.x_first, "one two");
    assert_int_equal(seen.x_bin_size, 4);
    assert_memory_equal(seen.x_bin, "\0\xff,\n", 4);
    free(seen.message);

    struct rota_metadata bad = {rota_str("X"), rota_str("y")};
    struct rota_call_options options = {.method = rota_str(METHOD_ECHO),
                                        .metadata = &bad,
                                        .n_metadata = 1,
                                        .on_end = seen_on_end,
                                        .data = &seen};
    assert_int_equal(rota_channel_call(pair.channel, &options, NULL, NULL), ROTA_ERR_INVALID);
    pair_close(&pair);
}

/* --- deadlines and cancelling --- */

static void a_deadline_ends_the_call_on_both_sides(void **state)
{
    struct pair pair;
    struct seen seen = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    check_echo(pair.channel, rota_str("warm"));
    start_with(pair.channel,
               &(struct rota_call_options){.method = rota_str(METHOD_KEEP),
                                           .request = rota_str("x"),
                                           .timeout = 50 * ROTA_MSEC},
               &seen);
    RUN_UNTIL(seen.n_ended && pair.echo.n_cancelled);
    assert_int_equal(seen.status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_true(seen.may_have_run);
    assert_true(pair.echo.time_left > 0 && pair.echo.time_left <= 50 * ROTA_MSEC);
    assert_int_equal(rota_server_counts(pair.echo.server).calls, 0);
    free(seen.message);
    check_echo(pair.channel, rota_str("after"));
    pair_close(&pair);
}

static void a_cancelled_call_reaches_its_handler(void **state)
{
    struct pair pair;
    struct seen seen = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    start(pair.channel, METHOD_KEEP, rota_str("x"), &seen);
    RUN_UNTIL(pair.echo.n_kept);
    rota_call_cancel(seen.call);
    RUN_UNTIL(pair.echo.n_cancelled);
    assert_int_equal(seen.n_ended, 0);
    assert_int_equal(rota_channel_n_calls(pair.channel), 0);
    pair_close(&pair);
}

static void a_call_may_be_cancelled_at_any_moment(void **state)
{
    struct pair pair;
    struct seen seen[40] = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    for (int turns = 0; turns < 40; turns++) {
        start(pair.channel, turns % 2 ? METHOD_ECHO : METHOD_KEEP, rota_str("x"), &seen[turns]);
        for (int i = 0; i < turns / 2 && !seen[turns].n_ended; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        if (!seen[turns].n_ended)
            rota_call_cancel(seen[turns].call);
    }
    RUN_UNTIL(rota_server_counts(pair.echo.server).calls == 0);
    for (int i = 0; i < 40; i++)
        free(seen[i].message);
    check_echo(pair.channel, rota_str("fine"));
    pair_close(&pair);
}

static void five_thousand_cancels_keep_the_connection(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    for (int round = 0; round < 50; round++) {
        struct seen seen[100] = {0};
        for (int i = 0; i < 100; i++)
            start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
        RUN_UNTIL(pair.echo.n_kept == 100);
        for (int i = 0; i < 100; i++)
            rota_call_cancel(seen[i].call);
        RUN_UNTIL(pair.echo.n_cancelled == (size_t)(round + 1) * 100);
        pair.echo.n_kept = 0;
    }
    check_echo(pair.channel, rota_str("still the first"));
    assert_int_equal(rota_server_counts(pair.echo.server).faults_total, 0);
    pair_close(&pair);
}

/* --- many calls --- */

static void more_calls_than_the_server_takes_at_once_wait_their_turn(void **state)
{
    enum { N = 500 };
    struct pair pair;
    static struct seen seen[N];
    (void)state;
    memset(seen, 0, sizeof seen);
    pair_open(&pair, &(struct rota_server_options){.connection_calls_max = 8}, NULL);
    check_echo(pair.channel, rota_str("settings are known"));
    for (int i = 0; i < N; i++)
        start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
    for (int left = N; left > 0; left -= 8) {
        size_t due = left < 8 ? (size_t)left : 8;
        RUN_UNTIL(pair.echo.n_kept == due);
        for (int i = 0; i < 5; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        assert_int_equal(pair.echo.n_kept, due);
        echo_release(&pair.echo);
    }
    RUN_UNTIL(rota_channel_n_calls(pair.channel) == 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[i].n_ended, 1);
        assert_int_equal(seen[i].status, ROTA_STATUS_OK);
        free(seen[i].message);
    }
    pair_close(&pair);
}

static void calls_beyond_the_servers_bound_are_refused(void **state)
{
    struct pair pair;
    struct seen seen[6] = {0};
    (void)state;
    pair_open(&pair, &(struct rota_server_options){.calls_max = 4}, NULL);
    for (int i = 0; i < 6; i++)
        start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
    RUN_UNTIL(seen[4].n_ended && seen[5].n_ended);
    assert_int_equal(seen[4].status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(seen[5].status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(rota_server_counts(pair.echo.server).refused_total, 2);
    echo_release(&pair.echo);
    RUN_UNTIL(rota_channel_n_calls(pair.channel) == 0);
    assert_int_equal(seen[3].status, ROTA_STATUS_OK);
    for (int i = 0; i < 6; i++)
        free(seen[i].message);
    check_echo(pair.channel, rota_str("room again"));
    pair_close(&pair);
}

/* --- streams --- */

static void start_count(struct pair *pair, const char *request, struct seen *seen)
{
    start_with(pair->channel,
               &(struct rota_call_options){.method = rota_str(METHOD_COUNT),
                                           .request = rota_str(request),
                                           .on_message = seen_on_message},
               seen);
}

static void a_stream_of_replies_arrives_in_order(void **state)
{
    struct pair pair;
    struct seen seen = {0}, none = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    start_count(&pair, "3000 1000", &seen);
    start_count(&pair, "0 0", &none);
    RUN_UNTIL(seen.n_ended && none.n_ended);
    assert_int_equal(seen.status, ROTA_STATUS_OK);
    assert_int_equal(seen.n_messages, 3000);
    assert_int_equal(none.status, ROTA_STATUS_OK);
    assert_int_equal(none.n_messages, 0);
    free(seen.message);
    free(none.message);
    pair_close(&pair);
}

/* 64 MiB are asked for and one message at a time is taken: the server must not
 * get ahead by more than the windows and the buffers in between. */
static void a_slow_reader_holds_back_the_sender(void **state)
{
    enum { N = 1024, SIZE = 64 << 10, AHEAD_MAX = (8 << 20) / SIZE };
    struct pair pair;
    struct seen seen = {.is_slow = true};
    (void)state;
    pair_open(&pair, NULL, NULL);
    start_count(&pair, "1024 65536", &seen);
    size_t ahead = 0;
    while (!seen.n_ended) {
        size_t before = seen.n_messages;
        for (int i = 0; i < 3; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        assert_true(seen.n_messages <= before + 1);
        if (pair.echo.n_sent - seen.n_messages > ahead)
            ahead = pair.echo.n_sent - seen.n_messages;
        if (seen.n_messages == 100)
            check_echo(pair.channel, rota_str("others are not held back"));
        if (!seen.n_ended)
            rota_call_resume(seen.call);
    }
    assert_int_equal(seen.n_messages, N);
    assert_int_equal(seen.status, ROTA_STATUS_OK);
    assert_in_range(ahead, 2, AHEAD_MAX);
    free(seen.message);
    pair_close(&pair);
}

static void a_stream_can_be_dropped_halfway(void **state)
{
    struct pair pair;
    struct seen seen = {.is_slow = true};
    (void)state;
    pair_open(&pair, NULL, NULL);
    start_count(&pair, "1000 65536", &seen);
    RUN_UNTIL(seen.n_messages == 1);
    rota_call_cancel(seen.call);
    RUN_UNTIL(pair.echo.n_cancelled);
    check_echo(pair.channel, rota_str("next"));
    pair_close(&pair);
}

/* --- connections come and go --- */

static void a_server_that_comes_back_is_found_again(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    check_echo(pair.channel, rota_str("one"));
    struct seen lost = {0};
    start(pair.channel, METHOD_KEEP, rota_str("x"), &lost);
    RUN_UNTIL(pair.echo.n_kept);
    rota_server_close(pair.echo.server);
    RUN_UNTIL(lost.n_ended);
    assert_int_equal(lost.status, ROTA_STATUS_UNAVAILABLE);
    assert_true(lost.may_have_run);
    free(lost.message);
    echo_open(&pair.echo, &loop, pair.address, NULL);
    check_echo(pair.channel, rota_str("two"));
    pair_close(&pair);
}

static void a_call_that_can_wait_outlives_an_absent_server(void **state)
{
    struct pair pair;
    struct seen patient = {0}, hasty = {0};
    (void)state;
    pair_open(
        &pair, NULL,
        &(struct rota_channel_options){.backoff_first = ROTA_MSEC, .backoff_max = 2 * ROTA_MSEC});
    rota_server_close(pair.echo.server);
    for (int i = 0; i < 5; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    start(pair.channel, METHOD_ECHO, rota_str("hasty"), &hasty);
    start_with(pair.channel,
               &(struct rota_call_options){.method = rota_str(METHOD_ECHO),
                                           .request = rota_str("patient"),
                                           .wait_for_ready = true},
               &patient);
    RUN_UNTIL(hasty.n_ended);
    assert_int_equal(hasty.status, ROTA_STATUS_UNAVAILABLE);
    assert_non_null(strstr(hasty.text, pair.address));
    assert_false(hasty.may_have_run);
    assert_int_equal(patient.n_ended, 0);
    echo_open(&pair.echo, &loop, pair.address, NULL);
    RUN_UNTIL(patient.n_ended);
    assert_int_equal(patient.status, ROTA_STATUS_OK);
    free(hasty.message);
    free(patient.message);
    pair_close(&pair);
}

static void in_backoff_a_call_fails_at_once(void **state)
{
    struct rota_channel *channel;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_channel_open(&loop, "127.0.0.1:1",
                                       &(struct rota_channel_options){.backoff_first = ROTA_HOUR,
                                                                      .backoff_max = ROTA_HOUR},
                                       &channel, NULL),
                     ROTA_OK);
    struct seen seen = ask(channel, METHOD_ECHO, rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    assert_non_null(strstr(seen.text, "127.0.0.1:1"));
    free(seen.message);
    assert_int_equal(rota_channel_state(channel), ROTA_CHANNEL_BACKOFF);
    struct rota_call_options options = {.method = rota_str(METHOD_ECHO), .on_end = seen_on_end};
    assert_int_equal(rota_channel_call(channel, &options, NULL, &error), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "127.0.0.1:1"));
    rota_channel_close(channel);
    settle();
}

static void a_deadline_holds_while_there_is_no_connection(void **state)
{
    struct rota_channel *channel;
    struct seen seen = {0};
    (void)state;
    assert_int_equal(rota_channel_open(&loop, "127.0.0.1:1", NULL, &channel, NULL), ROTA_OK);
    start_with(channel,
               &(struct rota_call_options){.method = rota_str(METHOD_ECHO),
                                           .timeout = 20 * ROTA_MSEC,
                                           .wait_for_ready = true},
               &seen);
    RUN_UNTIL(seen.n_ended);
    assert_int_equal(seen.status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_false(seen.may_have_run);
    free(seen.message);
    rota_channel_close(channel);
    settle();
}

static void names_and_targets_that_lead_nowhere_are_named(void **state)
{
    static const char *const targets[] = {"no-such-host.invalid:1", "nonsense", "127.0.0.1:99999",
                                          "192.0.2.1:80", ""};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct rota_channel *channel;
        assert_int_equal(rota_channel_open(&loop, targets[i], NULL, &channel, NULL), ROTA_OK);
        struct seen seen = ask(channel, METHOD_ECHO, rota_str("x"));
        assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
        assert_true(strlen(seen.text) > 10);
        assert_non_null(strstr(seen.text, targets[i]));
        free(seen.message);
        rota_channel_close(channel);
        settle();
    }
}

/* --- the end of a server --- */

struct drained {
    int n;
    size_t n_cut;
};

static void on_drained(void *data, size_t n_cut)
{
    struct drained *drained = data;
    drained->n++;
    drained->n_cut = n_cut;
}

static void a_drained_server_finishes_what_it_has(void **state)
{
    struct pair pair;
    struct seen seen = {0}, late = {0};
    struct drained drained = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    start(pair.channel, METHOD_KEEP, rota_str("x"), &seen);
    RUN_UNTIL(pair.echo.n_kept);
    rota_server_drain(pair.echo.server, ROTA_MIN, on_drained, &drained);
    RUN_UNTIL(rota_channel_state(pair.channel) != ROTA_CHANNEL_READY);
    start(pair.channel, METHOD_ECHO, rota_str("y"), &late); /* nobody listens any more */
    RUN_UNTIL(late.n_ended);
    assert_int_equal(late.status, ROTA_STATUS_UNAVAILABLE);
    assert_false(late.may_have_run);
    assert_int_equal(seen.n_ended, 0);
    assert_int_equal(drained.n, 0);
    echo_release(&pair.echo);
    RUN_UNTIL(seen.n_ended && drained.n);
    assert_int_equal(seen.status, ROTA_STATUS_OK);
    assert_int_equal(drained.n_cut, 0);
    free(seen.message);
    free(late.message);
    pair_close(&pair);
}

static void a_drain_has_a_time_limit(void **state)
{
    struct pair pair;
    struct seen seen = {0};
    struct drained drained = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    start(pair.channel, METHOD_KEEP, rota_str("x"), &seen);
    RUN_UNTIL(pair.echo.n_kept);
    rota_server_drain(pair.echo.server, ROTA_MSEC, on_drained, &drained);
    RUN_UNTIL(seen.n_ended && drained.n);
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(drained.n_cut, 1);
    assert_int_equal(pair.echo.n_cancelled, 1);
    free(seen.message);
    pair_close(&pair);
}

/* A caller that never stops, and a server that is replaced under it. */
struct load {
    struct rota_channel *channel;
    size_t n_ok, n_failed, n_left;
};

static void load_next(struct load *load);

static void load_on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct load *load = data;
    (void)call;
    if (result->status == ROTA_STATUS_OK)
        load->n_ok++;
    else
        load->n_failed++;
    load_next(load);
}

static void load_next(struct load *load)
{
    if (load->n_left == 0)
        return;
    load->n_left--;
    struct rota_call_options options = {.method = rota_str(METHOD_ECHO),
                                        .request = rota_str("x"),
                                        .wait_for_ready = true,
                                        .on_end = load_on_end,
                                        .data = load};
    assert_int_equal(rota_channel_call(load->channel, &options, NULL, NULL), ROTA_OK);
}

static void draining_under_load_loses_no_call(void **state)
{
    enum { N = 20000, IN_FLIGHT = 100 };
    struct pair pair;
    struct echo next;
    struct drained drained = {0};
    (void)state;
    pair_open(
        &pair, NULL,
        &(struct rota_channel_options){.backoff_first = ROTA_MSEC, .backoff_max = 2 * ROTA_MSEC});
    struct load load = {.channel = pair.channel, .n_left = N};
    for (int i = 0; i < IN_FLIGHT; i++)
        load_next(&load);
    RUN_UNTIL(load.n_ok > N / 4);
    rota_server_drain(pair.echo.server, ROTA_MIN, on_drained, &drained);
    echo_open(&next, &loop, pair.address, NULL);
    RUN_UNTIL(load.n_ok + load.n_failed == N && drained.n);
    assert_int_equal(load.n_failed, 0);
    assert_int_equal(drained.n_cut, 0);
    assert_true(next.n_calls > 0);
    assert_int_equal(pair.echo.n_calls + next.n_calls, N);
    rota_server_close(next.server);
    pair_close(&pair);
}

/* Two calls are with the old server and three wait here when it drains: these
 * go to the new one by themselves, for nobody can have seen them. */
static void calls_that_had_to_wait_move_to_the_next_server(void **state)
{
    struct pair pair;
    struct echo next;
    struct seen seen[5] = {0};
    (void)state;
    pair_open(&pair, &(struct rota_server_options){.connection_calls_max = 2}, NULL);
    check_echo(pair.channel, rota_str("settings are known"));
    for (int i = 0; i < 5; i++)
        start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
    RUN_UNTIL(pair.echo.n_kept == 2);
    rota_server_drain(pair.echo.server, ROTA_MIN, NULL, NULL);
    echo_open(&next, &loop, pair.address, NULL);
    RUN_UNTIL(next.n_kept == 3);
    echo_release(&next);
    echo_release(&pair.echo);
    RUN_UNTIL(rota_channel_n_calls(pair.channel) == 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(seen[i].n_ended, 1);
        assert_int_equal(seen[i].status, ROTA_STATUS_OK);
        assert_int_equal(seen[i].size, 1);
        free(seen[i].message);
    }
    rota_server_close(next.server);
    pair_close(&pair);
}

/* --- TLS --- */

static void under_tls_only_who_trusts_the_server_is_served(void **state)
{
    static char bytes[1 << 20];
    char directory[] = "/tmp/rota-transport-XXXXXX", x509[64], key[64];
    struct rota_tls *server_tls, *client_tls, *stranger_tls;
    struct rota_channel *stranger, *plain;
    struct pair pair;
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(x509, sizeof x509, "%s/x509", directory);
    snprintf(key, sizeof key, "%s/key", directory);
    struct certificate made =
        certificate_make(&(struct certificate_wish){.name = "test", .names = "IP:127.0.0.1"});
    certificate_write(&made, x509, key);
    certificate_deinit(&made);
    struct rota_tls_options files = {.certificate_file = x509, .key_file = key};
    struct rota_tls_options trust = {.ca_file = x509}, nothing = {0};
    assert_int_equal(rota_tls_server_new(&files, &server_tls, NULL), ROTA_OK);
    assert_int_equal(rota_tls_client_new(&trust, &client_tls, NULL), ROTA_OK);
    assert_int_equal(rota_tls_client_new(&nothing, &stranger_tls, NULL), ROTA_OK);

    pair_open(&pair, &(struct rota_server_options){.tls = server_tls},
              &(struct rota_channel_options){.tls = client_tls});
    check_echo(pair.channel, rota_str("secret"));
    check_echo(pair.channel, rota_str_of(bytes, sizeof bytes));

    struct rota_channel_options strange = {.tls = stranger_tls};
    assert_int_equal(rota_channel_open(&loop, pair.address, &strange, &stranger, NULL), ROTA_OK);
    assert_int_equal(rota_channel_open(&loop, pair.address, NULL, &plain, NULL), ROTA_OK);
    struct seen seen = ask(stranger, METHOD_ECHO, rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    assert_false(seen.may_have_run);
    free(seen.message);
    seen = ask(plain, METHOD_ECHO, rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    free(seen.message);

    rota_channel_close(stranger);
    rota_channel_close(plain);
    pair_close(&pair);
    rota_tls_free(server_tls);
    rota_tls_free(client_tls);
    rota_tls_free(stranger_tls);
    unlink(x509);
    unlink(key);
    rmdir(directory);
}

/* --- waiting --- */

static void wait_inside(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct pair *pair = data;
    struct rota_reply reply;
    struct rota_error error;
    struct rota_call_options options = {.method = rota_str(METHOD_ECHO)};
    (void)call;
    (void)result;
    assert_int_equal(rota_channel_wait(pair->channel, &options, &reply, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "callback"));
}

static void a_simple_program_waits_for_its_call(void **state)
{
    struct pair pair;
    struct rota_reply reply;
    (void)state;
    pair_open(&pair, NULL, NULL);
    struct rota_call_options options = {.method = rota_str(METHOD_ECHO),
                                        .request = rota_str("wait")};
    assert_int_equal(rota_channel_wait(pair.channel, &options, &reply, NULL), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    assert_string_equal(reply.message, "wait");
    rota_reply_deinit(&reply);
    options.method = rota_str("/no/such");
    assert_int_equal(rota_channel_wait(pair.channel, &options, &reply, NULL), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_UNIMPLEMENTED);
    assert_null(reply.message);
    rota_reply_deinit(&reply);

    options = (struct rota_call_options){
        .method = rota_str(METHOD_ECHO), .on_end = wait_inside, .data = &pair};
    assert_int_equal(rota_channel_call(pair.channel, &options, NULL, NULL), ROTA_OK);
    RUN_UNTIL(rota_channel_n_calls(pair.channel) == 0);
    pair_close(&pair);
}

/* --- closing from inside --- */

static void close_inside(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct pair *pair = data;
    (void)call;
    (void)result;
    rota_channel_close(pair->channel);
    rota_server_close(pair->echo.server);
    pair->channel = NULL;
}

static void all_may_be_closed_inside_a_callback(void **state)
{
    struct pair pair;
    struct seen other = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    start(pair.channel, METHOD_KEEP, rota_str("x"), &other);
    struct rota_call_options options = {
        .method = rota_str(METHOD_ECHO), .on_end = close_inside, .data = &pair};
    assert_int_equal(rota_channel_call(pair.channel, &options, NULL, NULL), ROTA_OK);
    settle();
    assert_null(pair.channel);
    assert_int_equal(other.n_ended, 0);
    assert_int_equal(pair.echo.n_cancelled, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_comes_back),
        TEST(three_mebibytes_go_both_ways),
        TEST(a_message_too_large_is_refused_and_the_connection_stays),
        TEST(a_reply_too_large_ends_its_call_only),
        TEST(every_status_arrives_with_its_text),
        TEST(a_method_nobody_serves_is_unimplemented),
        TEST(metadata_goes_both_ways),
        TEST(a_deadline_ends_the_call_on_both_sides),
        TEST(a_cancelled_call_reaches_its_handler),
        TEST(a_call_may_be_cancelled_at_any_moment),
        TEST(five_thousand_cancels_keep_the_connection),
        TEST(more_calls_than_the_server_takes_at_once_wait_their_turn),
        TEST(calls_beyond_the_servers_bound_are_refused),
        TEST(a_stream_of_replies_arrives_in_order),
        TEST(a_slow_reader_holds_back_the_sender),
        TEST(a_stream_can_be_dropped_halfway),
        TEST(a_server_that_comes_back_is_found_again),
        TEST(a_call_that_can_wait_outlives_an_absent_server),
        TEST(in_backoff_a_call_fails_at_once),
        TEST(a_deadline_holds_while_there_is_no_connection),
        TEST(names_and_targets_that_lead_nowhere_are_named),
        TEST(a_drained_server_finishes_what_it_has),
        TEST(a_drain_has_a_time_limit),
        TEST(draining_under_load_loses_no_call),
        TEST(calls_that_had_to_wait_move_to_the_next_server),
        TEST(under_tls_only_who_trusts_the_server_is_served),
        TEST(a_simple_program_waits_for_its_call),
        TEST(all_may_be_closed_inside_a_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
