/* A client of a space, for test_service.py: service_load SPACE REPEAT NODE...
 *
 * REPEAT is "unsent" or "any". Reads commands, one per line:
 *
 *     call KEY    one call that waits; prints "STATUS shard=N epoch=N node=A tries=N ran=N: TEXT"
 *     load N      N calls in flight at a time, with different keys, until
 *     stop        ends the load and prints "ok=N failed=N followed=N"; failures are printed as
 *                 they come, as above
 *     await N     prints "ok" when N more calls of the load went well
 *
 * Every call has to return its own request. */
#include <inttypes.h>
#include <rota/experimental/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { LOAD_MAX = 256, KEYS = 1000 };

static uv_loop_t loop;
static uv_pipe_t input;
static struct rota_service_client *client;
static struct rota_str space;
static enum rota_call_repeat repeat;
static char line[256], to_call[256];
static size_t line_size, n_load, n_running, n_next;
static uint64_t n_ok, n_failed, n_followed, awaited;

static void check(enum rota_code code, const struct rota_error *error)
{
    if (code) {
        fprintf(stderr, "service_load: %s\n", error->text);
        exit(1);
    }
}

static void print_result(enum rota_status status, uint32_t shard, uint64_t epoch, const char *node,
                         uint32_t n_tries, bool may_have_run, const char *text)
{
    printf("%s shard=%" PRIu32 " epoch=%" PRIu64 " node=%s tries=%" PRIu32 " ran=%d: %s\n",
           rota_status_name(status), shard, epoch, node, n_tries, may_have_run, text);
}

static void start(void);

static void on_reply(void *data, const struct rota_service_reply *reply)
{
    char key[32], text[512], node[64];
    snprintf(key, sizeof key, "key-%zu", (size_t)data);
    bool is_good =
        reply->status == ROTA_STATUS_OK && rota_str_is_equal(reply->message, rota_str(key));
    snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(reply->text));
    snprintf(node, sizeof node, "%.*s", ROTA_STR_ARGS(reply->node));
    if (!is_good)
        print_result(reply->status, reply->shard, reply->epoch, node, reply->n_tries,
                     reply->may_have_run, text);
    n_ok += is_good;
    n_failed += !is_good;
    n_followed += reply->n_tries > 1;
    n_running--;
    if (awaited && n_ok >= awaited) {
        awaited = 0;
        puts("ok");
    }
    if (n_load > 0)
        start();
    else if (n_running == 0)
        printf("ok=%" PRIu64 " failed=%" PRIu64 " followed=%" PRIu64 "\n", n_ok, n_failed,
               n_followed);
}

static void start(void)
{
    char key[32];
    size_t number = n_next++ % KEYS;
    struct rota_error error;
    snprintf(key, sizeof key, "key-%zu", number);
    struct rota_service_request request = {
        .space = space,
        .key = rota_str(key),
        .method = rota_str("/test.Service/Echo"),
        .request = rota_str(key),
        .timeout = 20 * ROTA_SEC,
        .repeat = repeat,
        .on_reply = on_reply,
        .data = (void *)number,
    };
    check(rota_service_client_call(client, &request, NULL, &error), &error);
    n_running++;
}

static void call_once(const char *key)
{
    struct rota_service_answer answer;
    struct rota_error error;
    struct rota_service_request request = {.space = space,
                                           .key = rota_str(key),
                                           .method = rota_str("/test.Service/Echo"),
                                           .request = rota_str(key),
                                           .timeout = 3 * ROTA_SEC};
    check(rota_service_client_wait(client, &request, &answer, &error), &error);
    print_result(answer.status, answer.shard, answer.epoch, answer.node, answer.n_tries,
                 answer.may_have_run, answer.text);
    rota_service_answer_deinit(&answer);
}

static void on_command(char *text)
{
    if (strncmp(text, "call ", 5) == 0) {
        snprintf(to_call, sizeof to_call, "%s", text + 5); /* outside of this callback */
        uv_stop(&loop);
    } else if (strncmp(text, "load ", 5) == 0) {
        n_load = strtoul(text + 5, NULL, 10);
        n_ok = n_failed = n_followed = 0;
        for (size_t i = 0; i < n_load; i++)
            start();
    } else if (strncmp(text, "await ", 6) == 0) {
        awaited = n_ok + strtoul(text + 6, NULL, 10);
    } else {
        n_load = 0;
    }
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    (void)handle, (void)size;
    *buffer = uv_buf_init(line + line_size, (unsigned)(sizeof line - line_size - 1));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    char *end;
    (void)buffer;
    if (size < 0) {
        uv_close((uv_handle_t *)stream, NULL);
        rota_service_client_close(client);
        client = NULL;
        return;
    }
    line_size += (size_t)size;
    line[line_size] = '\0';
    while ((end = strchr(line, '\n'))) {
        *end = '\0';
        on_command(line);
        line_size -= (size_t)(end + 1 - line);
        memmove(line, end + 1, line_size + 1);
    }
}

int main(int argc, char **argv)
{
    struct rota_error error;
    if (argc < 4)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    uv_loop_init(&loop);
    space = rota_str(argv[1]);
    repeat = strcmp(argv[2], "any") == 0 ? ROTA_REPEAT_ANY : ROTA_REPEAT_UNSENT;
    struct rota_service_client_options options = {.nodes = (const char *const *)argv + 3,
                                                  .n_nodes = (size_t)argc - 3};
    check(rota_service_client_open(&loop, &options, &client, &error), &error);
    uv_pipe_init(&loop, &input, 0);
    uv_pipe_open(&input, 0);
    uv_read_start((uv_stream_t *)&input, on_alloc, on_read);
    puts("ready");
    while (uv_run(&loop, UV_RUN_DEFAULT) || client) {
        if (to_call[0] != '\0')
            call_once(to_call);
        to_call[0] = '\0';
    }
    return uv_loop_close(&loop) != 0;
}
