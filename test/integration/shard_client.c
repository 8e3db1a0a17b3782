/* A client for tests: `shard_client DIRECTORIES CALLS PER_SECOND TIMEOUT_MS
 * TRY_TIMEOUT_MS METRICS_FILE [AT_A_TIME [paced] [warm]]`. Makes calls at a steady pace, whatever
 * becomes of them, or so many at a time: as fast as they end, or paced, so many together at a
 * steady pace. A warm client has all its connections before the first call. Each call is on one
 * shard of the collection "c" in turn, and writes a line when it ends:
 *
 *     ID STARTED_US ENDED_US STATUS NODE TRIES
 *
 * and `end CALLS` after the last, when its metrics are in the file, and a comment `node ID ADDRESS`
 * for each node. With CALLS 0 it starts calls until SIGTERM. */
#include <rota/experimental/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { SHARDS = 4, DIRECTORIES_MAX = 8, NODES = 3, NODES_MAX = 64, CONNECTIONS = 10 };

struct call {
    long id;
    uint64_t started_at;
    char status[32];
    long long node;
    unsigned n_tries;
};

static struct {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t stop;
    struct rota_shards *shards;
    const char *metrics;
    long n_calls, n_started, n_ended;
    long n_at_a_time;
    bool is_paced, is_warm;
    uint64_t began_at, period;
    rota_time timeout, try_timeout;
} client;

static void finish(void)
{
    FILE *file = fopen(client.metrics, "w");
    char *text = rota_shards_metrics(client.shards);
    int64_t nodes[NODES_MAX];
    struct rota_shards_view view;
    if (!file || !text)
        exit(1);
    fputs(text, file);
    for (size_t i = 0, n = rota_shards_nodes(client.shards, nodes, NODES_MAX);
         i < n && i < NODES_MAX; i++)
        if (rota_shards_look_at(client.shards, nodes[i], &view))
            fprintf(file, "# node %lld %s\n", (long long)nodes[i], view.address);
    fclose(file);
    free(text);
    printf("end %ld\n", client.n_ended);
    fflush(stdout);
    rota_shards_close(client.shards);
    uv_close((uv_handle_t *)&client.timer, NULL);
    uv_close((uv_handle_t *)&client.stop, NULL);
}

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    struct call *call = data;
    char text[256], address[128];
    call->node = 0;
    call->n_tries = reply->n_tries;
    if (reply->status != ROTA_STATUS_OK)
        return;
    /* The node says itself who and where it is: the answer is from where it is said to be. */
    snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(reply->message));
    if (sscanf(text, "%lld %127s", &call->node, address) != 2 ||
        rota_space_node(rota_str(address)) != reply->node) {
        fprintf(stderr, "shard_client: node %lld has not sent: %s\n", (long long)reply->node, text);
        exit(1);
    }
}

static void start(void);

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct call *call = data;
    printf("%ld %llu %llu %s %lld %u\n", call->id, (unsigned long long)(call->started_at / 1000),
           (unsigned long long)(uv_hrtime() / 1000), rota_status_name(result->status), call->node,
           call->n_tries);
    fflush(stdout);
    if (result->status != ROTA_STATUS_OK)
        fprintf(stderr, "shard_client: call %ld: %s %s: %.*s\n", call->id,
                rota_status_name(result->status), result->failure, ROTA_STR_ARGS(result->text));
    free(call);
    if (++client.n_ended == client.n_calls)
        finish();
    else if (!client.is_paced && client.n_started < client.n_calls)
        start();
}

static void start(void)
{
    struct call *call = calloc(1, sizeof *call);
    struct rota_error error;
    char channel[8];
    call->id = ++client.n_started;
    call->started_at = uv_hrtime();
    snprintf(channel, sizeof channel, "%ld", call->id % SHARDS);
    struct rota_shards_request request = {
        .name = {.database = rota_str("default"), .collection = rota_str("c")},
        .mode = ROTA_SHARDS_NAMED,
        .channel = rota_str(channel),
        .method = rota_str("/test.Node/Work"),
        .request = rota_str(channel),
        .timeout = client.timeout,
        .try_timeout = client.try_timeout,
        .repeat = ROTA_REPEAT_ANY,
        .on_reply = on_reply,
        .on_done = on_done,
        .data = call,
    };
    if (rota_shards_execute(client.shards, &request, NULL, &error)) {
        fprintf(stderr, "shard_client: %s\n", error.text);
        exit(1);
    }
}

/* An open loop: calls are started when their time has come. */
static void on_timer(uv_timer_t *timer)
{
    uint64_t now = uv_hrtime();
    while ((client.n_calls == 0 || client.n_started < client.n_calls) &&
           now - client.began_at >= (uint64_t)client.n_started * client.period) {
        start();
        while (client.n_started % client.n_at_a_time != 0 && client.n_started < client.n_calls)
            start();
    }
    if (client.n_started == client.n_calls)
        uv_timer_stop(timer);
}

static void begin(void)
{
    client.began_at = uv_hrtime();
    if (client.is_paced)
        uv_timer_start(&client.timer, on_timer, 0, 1);
    for (long i = 0; !client.is_paced && i < client.n_at_a_time; i++)
        start();
}

static void await_connections(uv_timer_t *timer)
{
    int64_t nodes[NODES];
    size_t n = 0;
    if (rota_shards_nodes(client.shards, nodes, NODES) == NODES)
        for (int i = 0; i < NODES; i++) {
            struct rota_shards_view view;
            n += rota_shards_look_at(client.shards, nodes[i], &view) ? view.n_connections : 0;
        }
    if (n < NODES * CONNECTIONS)
        return;
    uv_timer_stop(timer);
    begin();
}

static void on_map(void *data, const struct rota_shards_map *map, struct rota_str text)
{
    (void)data;
    if (!map) {
        fprintf(stderr, "shard_client: %.*s\n", ROTA_STR_ARGS(text));
        exit(1);
    }
    uv_timer_start(&client.timer, await_connections, 0, 1);
}

static void warm_up(void)
{
    const struct rota_shards_query query = {
        .name = {.database = rota_str("default"), .collection = rota_str("c")},
        .is_warmed = true,
        .on_map = on_map};
    struct rota_error error;
    if (rota_shards_look(client.shards, &query, &error)) {
        fprintf(stderr, "shard_client: %s\n", error.text);
        exit(1);
    }
}

static void on_stop(uv_signal_t *handle, int number)
{
    (void)handle, (void)number;
    client.n_calls = client.n_started;
    uv_timer_stop(&client.timer);
    if (client.n_ended == client.n_calls)
        finish();
}

int main(int argc, char **argv)
{
    struct rota_error error;
    const char *directories[DIRECTORIES_MAX];
    size_t n = 0;
    if (argc < 7) {
        fprintf(stderr, "usage: shard_client DIRECTORIES CALLS PER_SECOND TIMEOUT_MS "
                        "TRY_TIMEOUT_MS METRICS_FILE [AT_A_TIME [paced] [warm]]\n");
        return 2;
    }
    for (char *rest = argv[1], *one; n < DIRECTORIES_MAX && (one = strsep(&rest, ","));)
        directories[n++] = one;
    client.n_calls = atol(argv[2]);
    client.period = 1000000000u / (uint64_t)atol(argv[3]);
    client.timeout = atol(argv[4]) * ROTA_MSEC;
    client.try_timeout = atol(argv[5]) * ROTA_MSEC;
    client.metrics = argv[6];
    client.n_at_a_time = argc > 7 ? atol(argv[7]) : 1;
    client.is_paced = argc <= 7;
    for (int i = 8; i < argc; i++) {
        client.is_paced |= strcmp(argv[i], "paced") == 0;
        client.is_warm |= strcmp(argv[i], "warm") == 0;
    }
    uv_loop_init(&client.loop);
    struct rota_shards_options options = {
        .directories = directories,
        .n_directories = n,
        .connections = argc > 7 ? CONNECTIONS : 2,
        .health_interval = 200 * ROTA_MSEC,
        .health_timeout = 500 * ROTA_MSEC,
        .blacklist = ROTA_SEC,
    };
    if (rota_shards_open(&client.loop, &options, &client.shards, &error)) {
        fprintf(stderr, "shard_client: %s\n", error.text);
        return 1;
    }
    uv_timer_init(&client.loop, &client.timer);
    if (client.is_warm)
        warm_up();
    else
        begin();
    uv_signal_init(&client.loop, &client.stop);
    if (client.n_calls == 0)
        uv_signal_start_oneshot(&client.stop, on_stop, SIGTERM);
    uv_run(&client.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&client.loop) != 0;
}
