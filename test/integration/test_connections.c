/* Connections come and go, and servers: which calls live on, and which fail. */
#include "pair.h"

#include <stdlib.h>

/* --- connections come and go --- */

static void a_server_that_comes_back_is_found_again(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, NULL, NULL);
    pair_check_echo(pair.channel, rota_str("one"));
    struct seen lost = {0};
    pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &lost);
    RUN_UNTIL(pair.echo.n_kept);
    rota_server_close(pair.echo.server);
    RUN_UNTIL(lost.n_ended);
    assert_int_equal(lost.status, ROTA_STATUS_UNAVAILABLE);
    assert_true(lost.may_have_run);
    free(lost.message);
    echo_open(&pair.echo, &loop, pair.address, NULL);
    pair_check_echo(pair.channel, rota_str("two"));
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
    pair_start(pair.channel, METHOD_ECHO, rota_str("hasty"), &hasty);
    pair_start_with(pair.channel,
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

static void a_deadline_holds_while_there_is_no_connection(void **state)
{
    struct rota_channel *channel;
    struct seen seen = {0};
    (void)state;
    assert_int_equal(rota_channel_open(&loop, "127.0.0.1:1", NULL, &channel, NULL), ROTA_OK);
    pair_start_with(channel,
                    &(struct rota_call_options){.method = rota_str(METHOD_ECHO),
                                                .timeout = 20 * ROTA_MSEC,
                                                .wait_for_ready = true},
                    &seen);
    RUN_UNTIL(seen.n_ended);
    assert_int_equal(seen.status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_false(seen.may_have_run);
    free(seen.message);
    rota_channel_close(channel);
    pair_settle();
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

static void a_drained_server_finishes_its_calls(void **state)
{
    struct pair pair;
    struct seen seen = {0}, late = {0};
    struct drained drained = {0};
    (void)state;
    pair_open(&pair, NULL, NULL);
    pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &seen);
    RUN_UNTIL(pair.echo.n_kept);
    rota_server_drain(pair.echo.server, ROTA_MIN, on_drained, &drained);
    RUN_UNTIL(rota_channel_state(pair.channel) != ROTA_CHANNEL_READY);
    pair_start(pair.channel, METHOD_ECHO, rota_str("y"), &late); /* nobody listens any more */
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
    pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &seen);
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
    pair_check_echo(pair.channel, rota_str("settings are known"));
    for (int i = 0; i < 5; i++)
        pair_start(pair.channel, METHOD_KEEP, rota_str("x"), &seen[i]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(a_server_that_comes_back_is_found_again),
        PAIR_TEST(a_call_that_can_wait_outlives_an_absent_server),
        PAIR_TEST(a_deadline_holds_while_there_is_no_connection),
        PAIR_TEST(a_drained_server_finishes_its_calls),
        PAIR_TEST(a_drain_has_a_time_limit),
        PAIR_TEST(draining_under_load_loses_no_call),
        PAIR_TEST(calls_that_had_to_wait_move_to_the_next_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
