/* The gRPC client and server as one process, over 127.0.0.1: what a call carries
 * and how it ends. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>

/* --- messages --- */

static void a_message_comes_back(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    assert_int_equal(rota_channel_state(pair.channel), ROTA_CHANNEL_IDLE);
    pair_check_echo(pair.channel, rota_str("hello"));
    assert_int_equal(rota_channel_state(pair.channel), ROTA_CHANNEL_READY);
    pair_check_echo(pair.channel, rota_str(""));
    pair_check_echo(pair.channel, rota_str_of("\0\1\2", 3));
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
        pair_check_echo(pair.channel, rota_str_of(bytes, SIZE));
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
    pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &other);
    struct seen seen = pair_ask(pair.channel, METHOD_ECHO, rota_str_of(bytes, SIZE));
    assert_int_equal(seen.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_string_equal(seen.text,
                        "the message is larger than the 4194304 bytes that the receiver allows");
    free(seen.message);
    pair_check_echo(pair.channel, rota_str("still here"));
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
    struct seen seen = pair_ask(pair.channel, METHOD_ECHO, rota_str_of(bytes, sizeof bytes));
    assert_int_equal(seen.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_string_equal(seen.text,
                        "the message is larger than the 1000 bytes that the receiver allows");
    free(seen.message);
    pair_check_echo(pair.channel, rota_str("small"));
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
        struct seen seen = pair_ask(pair.channel, METHOD_FAIL, rota_str_of(request, (size_t)size));
        assert_int_equal(seen.status, status);
        assert_string_equal(seen.text, request + 1);
        assert_true(seen.may_have_run);
        free(seen.message);
    }
    pair_close(&pair);
}

static void an_unknown_method_is_unimplemented(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    struct seen seen = pair_ask(pair.channel, "/test.Echo/None", rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNIMPLEMENTED);
    assert_string_equal(seen.text, "unknown method \"/test.Echo/None\"");
    free(seen.message);
    char path[1000]; /* one as long as this is cut */
    memset(path, '/', sizeof path);
    path[sizeof path - 1] = '\0';
    seen = pair_ask(pair.channel, path, rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNIMPLEMENTED);
    assert_in_range(strlen(seen.text), 40, 140);
    free(seen.message);
    pair_check_echo(pair.channel, rota_str("others are there"));
    struct rota_call_options bad = {.method = rota_str("Echo"), .on_end = seen_on_end};
    assert_int_equal(rota_channel_call(pair.channel, &bad, NULL, NULL), ROTA_ERR_INVALID);
    bad = (struct rota_call_options){.method = rota_str("/test.Echo/Echo")}; /* no on_end */
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
    pair_start_with(pair.channel,
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
    pair_check_echo(pair.channel, rota_str("warm"));
    pair_start_with(pair.channel,
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
    pair_check_echo(pair.channel, rota_str("after"));
    pair_close(&pair);
}

static void a_cancelled_call_reaches_its_handler(void **state)
{
    struct pair pair;
    struct seen seen = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &seen);
    RUN_UNTIL(pair.echo.n_kept);
    rota_call_cancel(seen.call);
    RUN_UNTIL(pair.echo.n_cancelled);
    assert_int_equal(seen.n_ended, 0);
    assert_int_equal(rota_channel_n_calls(pair.channel), 0);
    pair_close(&pair);
}

static void a_call_may_be_cancelled_at_any_time(void **state)
{
    struct pair pair;
    struct seen seen[40] = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    for (int turns = 0; turns < 40; turns++) {
        pair_start(pair.channel, turns % 2 ? METHOD_ECHO : METHOD_KEEP, rota_str("x"),
                   &seen[turns]);
        for (int i = 0; i < turns / 2 && !seen[turns].n_ended; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        if (!seen[turns].n_ended)
            rota_call_cancel(seen[turns].call);
    }
    RUN_UNTIL(rota_server_counts(pair.echo.server).calls == 0);
    for (int i = 0; i < 40; i++)
        free(seen[i].message);
    pair_check_echo(pair.channel, rota_str("fine"));
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
            pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
        RUN_UNTIL(pair.echo.n_kept == 100);
        for (int i = 0; i < 100; i++)
            rota_call_cancel(seen[i].call);
        RUN_UNTIL(pair.echo.n_cancelled == (size_t)(round + 1) * 100);
        pair.echo.n_kept = 0;
    }
    pair_check_echo(pair.channel, rota_str("still the first"));
    assert_int_equal(rota_server_counts(pair.echo.server).faults_total, 0);
    pair_close(&pair);
}

/* --- many calls --- */

static void calls_beyond_the_concurrency_limit_wait(void **state)
{
    enum { N = 500 };
    struct pair pair;
    static struct seen seen[N];
    (void)state;
    memset(seen, 0, sizeof seen);
    pair_open(&pair, &(struct rota_server_options){.connection_calls_max = 8}, NULL);
    pair_check_echo(pair.channel, rota_str("settings are known"));
    for (int i = 0; i < N; i++)
        pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
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
        pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
    RUN_UNTIL(seen[4].n_ended && seen[5].n_ended);
    assert_int_equal(seen[4].status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(seen[5].status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(rota_server_counts(pair.echo.server).refused_total, 2);
    echo_release(&pair.echo);
    RUN_UNTIL(rota_channel_n_calls(pair.channel) == 0);
    assert_int_equal(seen[3].status, ROTA_STATUS_OK);
    for (int i = 0; i < 6; i++)
        free(seen[i].message);
    pair_check_echo(pair.channel, rota_str("room again"));
    pair_close(&pair);
}

/* --- streams --- */

static void start_count(struct pair *pair, const char *request, struct seen *seen)
{
    pair_start_with(pair->channel,
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
            pair_check_echo(pair.channel, rota_str("others are not held back"));
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
    pair_check_echo(pair.channel, rota_str("next"));
    pair_close(&pair);
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
    pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &other);
    struct rota_call_options options = {
        .method = rota_str(METHOD_ECHO), .on_end = close_inside, .data = &pair};
    assert_int_equal(rota_channel_call(pair.channel, &options, NULL, NULL), ROTA_OK);
    pair_settle();
    assert_null(pair.channel);
    assert_int_equal(other.n_ended, 0);
    assert_int_equal(pair.echo.n_cancelled, 1);
}

struct closer {
    struct pair pair;
    size_t n_messages, n_ended;
    struct rota_call *call;
};

static void close_at_second(void *data, struct rota_call *call, struct rota_str message)
{
    struct closer *closer = data;
    (void)message;
    rota_call_pause(call);
    if (++closer->n_messages == 2) {
        rota_channel_close(closer->pair.channel);
        rota_server_close(closer->pair.echo.server);
    }
}

static void count_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct closer *closer = data;
    (void)call;
    (void)result;
    closer->n_ended++;
}

/* A message that was held back is told by the channel's timer, not by bytes. */
static void all_may_be_closed_inside_a_message_that_was_held_back(void **state)
{
    struct closer closer = {0};
    (void)state;
    pair_open(&closer.pair, NULL, NULL);
    struct rota_call_options options = {.method = rota_str(METHOD_COUNT),
                                        .request = rota_str("100 10"),
                                        .on_message = close_at_second,
                                        .on_end = count_end,
                                        .data = &closer};
    assert_int_equal(rota_channel_call(closer.pair.channel, &options, &closer.call, NULL), ROTA_OK);
    RUN_UNTIL(closer.n_messages == 1);
    pair_check_echo(closer.pair.channel, rota_str("the other messages came before this"));
    rota_call_resume(closer.call);
    pair_settle();
    assert_int_equal(closer.n_messages, 2);
    assert_int_equal(closer.n_ended, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(a_message_comes_back),
        PAIR_TEST(three_mebibytes_go_both_ways),
        PAIR_TEST(a_message_too_large_is_refused_and_the_connection_stays),
        PAIR_TEST(a_reply_too_large_ends_its_call_only),
        PAIR_TEST(every_status_arrives_with_its_text),
        PAIR_TEST(an_unknown_method_is_unimplemented),
        PAIR_TEST(metadata_goes_both_ways),
        PAIR_TEST(a_deadline_ends_the_call_on_both_sides),
        PAIR_TEST(a_cancelled_call_reaches_its_handler),
        PAIR_TEST(a_call_may_be_cancelled_at_any_time),
        PAIR_TEST(five_thousand_cancels_keep_the_connection),
        PAIR_TEST(calls_beyond_the_concurrency_limit_wait),
        PAIR_TEST(calls_beyond_the_servers_bound_are_refused),
        PAIR_TEST(a_stream_of_replies_arrives_in_order),
        PAIR_TEST(a_slow_reader_holds_back_the_sender),
        PAIR_TEST(a_stream_can_be_dropped_halfway),
        PAIR_TEST(a_simple_program_waits_for_its_call),
        PAIR_TEST(all_may_be_closed_inside_a_callback),
        PAIR_TEST(all_may_be_closed_inside_a_message_that_was_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
