/* A client and a server of the echo service on one loop, over 127.0.0.1. */
#pragma once

#include "echo.h"
#include "loop.h"

struct pair {
    struct echo echo;
    struct rota_channel *channel;
    char address[64];
};

void pair_open(struct pair *pair, const struct rota_server_options *server,
               const struct rota_channel_options *client);
void pair_settle(void);
void pair_close(struct pair *pair);
void pair_start_with(struct rota_channel *channel, const struct rota_call_options *options,
                     struct seen *seen);
void pair_start(struct rota_channel *channel, const char *method, struct rota_str request,
                struct seen *seen);
struct seen pair_ask(struct rota_channel *channel, const char *method, struct rota_str request);
void pair_check_echo(struct rota_channel *channel, struct rota_str request);

/* What a test that failed has left open is left alone: waiting for it would hide
 * what has failed. */
int pair_tear_down(void **state);

#define PAIR_TEST(name) cmocka_unit_test_setup_teardown(name, loop_set_up, pair_tear_down)
