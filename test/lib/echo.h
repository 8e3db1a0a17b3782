/* A small gRPC service for tests, examples aside: echo, errors, streams. */
#pragma once

#include <rota/experimental/channel.h>
#include <rota/server.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <uv.h>

#include <cmocka.h>

#define METHOD_ECHO  "/test.Echo/Echo"
#define METHOD_FAIL  "/test.Echo/Fail"  /* request: a status code, then its text */
#define METHOD_KEEP  "/test.Echo/Keep"  /* never answers by itself */
#define METHOD_COUNT "/test.Echo/Count" /* request: how many replies, of how many bytes */

enum { ECHO_KEPT_MAX = 8192 };

struct echo {
    struct rota_server *server;
    struct rota_server_call *kept[ECHO_KEPT_MAX];
    size_t n_kept, n_cancelled, n_calls;
    size_t n_sent;       /* replies of METHOD_COUNT, so far */
    rota_time time_left; /* of the last call */
};

/* Answer all that are kept. */
void echo_release(struct echo *echo);

void echo_open(struct echo *echo, uv_loop_t *loop, const char *address,
               const struct rota_server_options *options);

/* What one call ended with. */
struct seen {
    int n_ended;
    size_t n_messages, n_bytes;
    enum rota_status status;
    char text[300];
    char *message;
    size_t size;
    bool may_have_run, is_slow;
    struct rota_call *call;
    char x_first[64], x_bin[64];
    size_t x_bin_size;
};

void seen_on_end(void *data, struct rota_call *call, const struct rota_call_result *result);
void seen_on_message(void *data, struct rota_call *call, struct rota_str message);
