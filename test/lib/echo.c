#include "echo.h"

#include <stdio.h>
#include <stdlib.h>

static void echo_on_echo(void *data, struct rota_server_call *call)
{
    struct echo *echo = data;
    size_t n;
    const struct rota_metadata *pairs = rota_server_call_metadata(call, &n);
    struct rota_metadata back[16];
    size_t n_back = 0;
    echo->n_calls++;
    echo->time_left = rota_server_call_time_left(call);
    for (size_t i = 0; i < n && n_back < 16; i++)
        if (rota_str_has_prefix(pairs[i].name, rota_str("x-")))
            back[n_back++] = pairs[i];
    if (n_back == 0) {
        rota_server_call_reply(call, rota_server_call_request(call));
        return;
    }
    rota_server_call_head(call, back, 1, NULL);
    rota_server_call_send(call, rota_server_call_request(call));
    rota_server_call_finish(call, ROTA_STATUS_OK, NULL, back + 1, n_back - 1);
}

static void echo_on_fail(void *data, struct rota_server_call *call)
{
    struct rota_str request = rota_server_call_request(call);
    char text[200];
    (void)data;
    snprintf(text, sizeof text, "%.*s", (int)request.size - 1, request.data + 1);
    rota_server_call_finish(call, (enum rota_status)request.data[0], text, NULL, 0);
}

static void echo_on_keep(void *data, struct rota_server_call *call)
{
    struct echo *echo = data;
    assert_true(echo->n_kept < ECHO_KEPT_MAX);
    rota_server_call_set_data(call, (void *)(uintptr_t)echo->n_kept);
    echo->kept[echo->n_kept++] = call;
    echo->time_left = rota_server_call_time_left(call);
}

static void echo_on_keep_cancel(void *data, struct rota_server_call *call)
{
    struct echo *echo = data;
    echo->n_cancelled++;
    echo->kept[(uintptr_t)rota_server_call_data(call)] = NULL;
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
}

void echo_release(struct echo *echo)
{
    for (size_t i = 0; i < echo->n_kept; i++)
        if (echo->kept[i])
            rota_server_call_reply(echo->kept[i], rota_server_call_request(echo->kept[i]));
    echo->n_kept = 0;
}

static void echo_count_on(void *data, struct rota_server_call *call)
{
    struct echo *echo = data;
    static char bytes[1 << 20];
    int n = 0, size = 0;
    struct rota_str request = rota_server_call_request(call);
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)request.size, request.data);
    assert_int_equal(sscanf(text, "%d %d", &n, &size), 2);
    size_t sent = (uintptr_t)rota_server_call_data(call);
    enum rota_code code = ROTA_OK;
    while (sent < (size_t)n && code == ROTA_OK) {
        memset(bytes, (int)(sent & 0xff), (size_t)size);
        code = rota_server_call_send(call, rota_str_of(bytes, (size_t)size));
        if (code == ROTA_OK) {
            sent++;
            echo->n_sent++;
        }
    }
    rota_server_call_set_data(call, (void *)(uintptr_t)sent);
    if (code != ROTA_ERR_LIMIT)
        rota_server_call_finish(call, ROTA_STATUS_OK, "", NULL, 0);
}

static void echo_on_count_cancel(void *data, struct rota_server_call *call)
{
    struct echo *echo = data;
    echo->n_cancelled++;
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
}

void echo_open(struct echo *echo, uv_loop_t *loop, const char *address,
               const struct rota_server_options *options)
{
    struct rota_error error = {0};
    *echo = (struct echo){0};
    const struct rota_server_method methods[] = {
        {.path = METHOD_ECHO, .on_call = echo_on_echo, .data = echo},
        {.path = METHOD_FAIL, .on_call = echo_on_fail, .data = echo},
        {.path = METHOD_KEEP,
         .on_call = echo_on_keep,
         .on_cancel = echo_on_keep_cancel,
         .data = echo},
        {.path = METHOD_COUNT,
         .on_call = echo_count_on,
         .on_room = echo_count_on,
         .on_cancel = echo_on_count_cancel,
         .data = echo},
    };
    if (rota_server_open(loop, options, &echo->server, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        assert_int_equal(rota_server_add(echo->server, &methods[i], NULL), ROTA_OK);
    if (rota_server_listen(echo->server, address, &error))
        fail_msg("%s", error.text);
}

void seen_on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct seen *seen = data;
    struct rota_str value;
    (void)call;
    seen->n_ended++;
    seen->status = result->status;
    seen->may_have_run = result->may_have_run;
    snprintf(seen->text, sizeof seen->text, "%.*s", ROTA_STR_ARGS(result->text));
    free(seen->message);
    seen->message = malloc(result->message.size + 1);
    assert_non_null(seen->message);
    if (result->message.size > 0)
        memcpy(seen->message, result->message.data, result->message.size);
    seen->size = result->message.size;
    if (rota_metadata_get(result->metadata, result->n_metadata, "x-first", &value))
        snprintf(seen->x_first, sizeof seen->x_first, "%.*s", ROTA_STR_ARGS(value));
    if (rota_metadata_get(result->metadata, result->n_metadata, "x-blob-bin", &value)) {
        assert_true(value.size <= sizeof seen->x_bin);
        memcpy(seen->x_bin, value.data, value.size);
        seen->x_bin_size = value.size;
    }
}

void seen_on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct seen *seen = data;
    assert_int_equal((unsigned char)message.data[message.size / 2], seen->n_messages & 0xff);
    seen->n_messages++;
    seen->n_bytes += message.size;
    if (seen->is_slow)
        rota_call_pause(call);
}
