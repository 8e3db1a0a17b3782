#include "pair.h"

#include <stdio.h>
#include <stdlib.h>

void pair_open(struct pair *pair, const struct rota_server_options *server,
               const struct rota_channel_options *client)
{
    echo_open(&pair->echo, &loop, "127.0.0.1:0", server);
    snprintf(pair->address, sizeof pair->address, "%s", rota_server_address(pair->echo.server, 0));
    assert_int_equal(rota_channel_open(&loop, pair->address, client, &pair->channel, NULL),
                     ROTA_OK);
}

void pair_settle(void)
{
    uv_run(&loop, UV_RUN_DEFAULT);
}

void pair_close(struct pair *pair)
{
    rota_channel_close(pair->channel);
    rota_server_close(pair->echo.server);
    pair_settle();
}

void pair_start_with(struct rota_channel *channel, const struct rota_call_options *options,
                     struct seen *seen)
{
    struct rota_call_options ours = *options;
    struct rota_error error = {0};
    ours.on_end = seen_on_end;
    ours.data = seen;
    if (rota_channel_call(channel, &ours, &seen->call, &error))
        fail_msg("%s", error.text);
}

void pair_start(struct rota_channel *channel, const char *method, struct rota_str request,
                struct seen *seen)
{
    pair_start_with(
        channel, &(struct rota_call_options){.method = rota_str(method), .request = request}, seen);
}

struct seen pair_ask(struct rota_channel *channel, const char *method, struct rota_str request)
{
    struct seen seen = {0};
    pair_start(channel, method, request, &seen);
    RUN_UNTIL(seen.n_ended);
    return seen;
}

void pair_check_echo(struct rota_channel *channel, struct rota_str request)
{
    struct seen seen = pair_ask(channel, METHOD_ECHO, request);
    assert_string_equal(seen.text, "");
    assert_int_equal(seen.status, ROTA_STATUS_OK);
    assert_true(rota_str_is_equal(rota_str_of(seen.message, seen.size), request));
    free(seen.message);
}

int pair_tear_down(void **state)
{
    (void)state;
    return uv_loop_close(&loop);
}
