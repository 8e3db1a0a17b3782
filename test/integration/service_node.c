/* A process of test_service_server.py: `service_node serve STORE FOLDER NAME`, or
 * `service_node load STORE N`.
 *
 * serve: a service server whose shards are files in FOLDER, as in examples/counter. While
 * FOLDER/NAME.fail exists a start fails with the text in it; while FOLDER/NAME.slow exists a start
 * takes until it is gone. Prints a line for each start, failure and stop.
 *
 * load: adds to N counters in turn, one call at a time, until it gets SIGTERM, and checks that each
 * reply is the one before plus 1, whatever happened between. Prints a line for each rejection. */
#include <fcntl.h>
#include <inttypes.h>
#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <uv.h>

enum { SHARDS = 16, NAMES_MAX = 64, POLL_MS = 10 };

static uv_loop_t loop;
static uv_signal_t signals[2];
static struct rota_store *store;
static struct rota_service_server *server;
static const char *folder, *name;

static void fail(const char *what, const char *why)
{
    printf("failed %s: %s\n", what, why);
    exit(1);
}

static void open_store(const char *url)
{
    struct rota_error error;
    const struct rota_store_options options = {.url = url};
    uv_loop_init(&loop);
    if (rota_store_open(&loop, &options, &store, &error))
        fail("store", error.text);
}

static void on_closed(void *data)
{
    (void)data;
    rota_store_close(store);
}

/* --- the server --- */

static int files[SHARDS];
static bool is_open[SHARDS];
static uint64_t starting[SHARDS]; /* the epoch; 0: it is not */
static uv_timer_t timer;

/* The text of FOLDER/NAME.SUFFIX; false: there is none. */
static bool read_knob(const char *suffix, char *text, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return true;
}

/* The file has the epoch of its owner, and then "NAME COUNT ID" for each addition. */
static bool open_file(uint32_t shard, uint64_t epoch)
{
    char path[4096], text[32] = "";
    snprintf(path, sizeof path, "%s/%" PRIu32, folder, shard);
    files[shard] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    flock(files[shard], LOCK_EX);
    bool is_ours = pread(files[shard], text, 20, 0) <= 0 || strtoull(text, NULL, 10) <= epoch;
    snprintf(text, sizeof text, "%020" PRIu64 "\n", epoch);
    if (is_ours)
        is_ours = pwrite(files[shard], text, 21, 0) == 21;
    flock(files[shard], LOCK_UN);
    return is_ours;
}

static void start_shard(uint32_t shard, uint64_t epoch)
{
    char why[256];
    starting[shard] = 0;
    if (read_knob("fail", why, sizeof why)) {
        printf("refuse shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
        rota_service_server_started(server, shard, epoch, why);
    } else if (!open_file(shard, epoch)) {
        rota_service_server_started(server, shard, epoch, "a later owner has opened its file");
    } else {
        printf("start shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
        is_open[shard] = true;
        rota_service_server_started(server, shard, epoch, NULL);
    }
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    char unused[8];
    (void)data;
    printf("begin shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
    starting[shard] = epoch;
    if (!read_knob("slow", unused, sizeof unused))
        start_shard(shard, epoch);
}

static void on_timer(uv_timer_t *unused)
{
    char text[8];
    (void)unused;
    for (uint32_t i = 0; i < SHARDS; i++)
        if (starting[i] && !read_knob("slow", text, sizeof text))
            start_shard(i, starting[i]);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    (void)data, (void)until;
    if (starting[shard] != epoch)
        close(files[shard]);
    starting[shard] = 0;
    is_open[shard] = false;
    printf("stop shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
    rota_service_server_stopped(server, shard, epoch);
}

static bool add_one(int file, uint64_t epoch, const char *key, const char *id, uint64_t *count)
{
    static char text[1 << 20];
    char last[64] = "", known[64], by[64];
    uint64_t number;
    *count = 0;
    flock(file, LOCK_EX);
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    bool is_ours = size >= 21 && strtoull(text, NULL, 10) == epoch;
    text[size > 0 ? size : 0] = '\0';
    for (char *at = is_ours ? strchr(text, '\n') : NULL; at && *++at; at = strchr(at, '\n'))
        if (sscanf(at, "%63s %" SCNu64 " %63s", known, &number, by) == 3 &&
            strcmp(known, key) == 0) {
            *count = number;
            memcpy(last, by, sizeof last);
        }
    if (is_ours && strcmp(last, id) != 0) {
        int n = snprintf(text, sizeof text, "%s %" PRIu64 " %s\n", key, ++*count, id);
        is_ours = pwrite(file, text, (size_t)n, size) == n;
    }
    flock(file, LOCK_UN);
    return is_ours;
}

static void on_add(void *data, struct rota_server_call *call)
{
    char request[160], key[64], id[64], reply[32];
    uint32_t shard;
    uint64_t epoch, count;
    (void)data;
    snprintf(request, sizeof request, "%.*s", ROTA_STR_ARGS(rota_server_call_request(call)));
    if (sscanf(request, "%63s %63s", key, id) != 2 ||
        !rota_service_server_shard(server, call, &shard, &epoch))
        fail("request", request);
    if (!is_open[shard])
        printf("wrong: a call to shard %" PRIu32 ", which is not open\n", shard);
    if (!is_open[shard] || !rota_service_server_is_current(server, call) ||
        !add_one(files[shard], epoch, key, id, &count)) {
        rota_server_call_refuse(call);
        return;
    }
    snprintf(reply, sizeof reply, "%" PRIu64, count);
    rota_server_call_reply(call, rota_str(reply));
}

static void on_server_signal(uv_signal_t *signal, int number)
{
    (void)signal, (void)number;
    rota_service_server_close(server, on_closed, NULL);
    uv_close((uv_handle_t *)&timer, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
}

static int serve(void)
{
    struct rota_error error;
    const struct rota_server_method add = {.path = "/test.Counter/Add", .on_call = on_add};
    const struct rota_service_server_options options = {
        .space = "counters",
        .n_shards = SHARDS,
        .listen = "127.0.0.1:0",
        .store = store,
        .ttl = 2 * ROTA_SEC,
        .retry_after = 500 * ROTA_MSEC,
        .methods = &add,
        .n_methods = 1,
        .on_start = on_start,
        .on_stop = on_stop,
    };
    const int numbers[2] = {SIGTERM, SIGINT};
    if (rota_service_server_open(&loop, &options, &server, &error))
        fail("server", error.text);
    for (int i = 0; i < 2; i++) {
        uv_signal_init(&loop, &signals[i]);
        uv_signal_start(&signals[i], on_server_signal, numbers[i]);
    }
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, POLL_MS, POLL_MS);
    printf("ready grpc=%s\n", rota_service_server_address(server));
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}

/* --- the load --- */

static struct rota_space *space;
static bool is_over;
static uint64_t counts[NAMES_MAX];

static void on_load_signal(uv_signal_t *signal, int number)
{
    (void)signal, (void)number;
    is_over = true;
}

static void on_wake(uv_timer_t *unused)
{
    (void)unused;
}

/* One try; false: it has to be tried again. */
static bool try_once(uint32_t shard, const struct rota_space_map *map, const char *request,
                     uint64_t *count)
{
    char owner[ROTA_CHANNEL_TARGET_MAX + 1], shard_text[32], epoch_text[32];
    struct rota_space_shard known = map->shards[shard];
    struct rota_channel *channel;
    struct rota_reply reply;
    struct rota_error error;
    if (known.state != ROTA_SPACE_OWNED)
        return false;
    snprintf(owner, sizeof owner, "%.*s", ROTA_STR_ARGS(map->nodes[known.owner]));
    snprintf(shard_text, sizeof shard_text, "counters/%" PRIu32, shard);
    snprintf(epoch_text, sizeof epoch_text, "%" PRIu64, known.epoch);
    const struct rota_metadata notes[] = {{rota_str("rota-shard"), rota_str(shard_text)},
                                          {rota_str("rota-epoch"), rota_str(epoch_text)}};
    const struct rota_call_options options = {.method = rota_str("/test.Counter/Add"),
                                              .request = rota_str(request),
                                              .metadata = notes,
                                              .n_metadata = 2,
                                              .timeout = 300 * ROTA_MSEC};
    if (rota_channel_open(&loop, owner, NULL, &channel, &error) ||
        rota_channel_wait(channel, &options, &reply, &error))
        fail(owner, error.text);
    rota_channel_close(channel);
    bool is_done = reply.status == ROTA_STATUS_OK;
    struct rota_str claim = rota_str("");
    rota_metadata_get(reply.metadata, reply.n_metadata, "rota-claim", &claim);
    if (reply.status == ROTA_STATUS_ABORTED)
        printf("rejected owner=%s claim=%.*s\n", owner, ROTA_STR_ARGS(claim));
    if (is_done)
        *count = strtoull(reply.message, NULL, 10);
    rota_reply_deinit(&reply);
    return is_done;
}

static int load(uint32_t n)
{
    struct rota_error error;
    const struct rota_space_options options = {.name = "counters"};
    uint64_t n_done = 0, n_again = 0;
    uv_signal_t signal;
    if (rota_space_open(&loop, store, &options, &space, &error) ||
        rota_space_wait(space, 10 * ROTA_MIN, &error))
        fail("space", error.text);
    uv_signal_init(&loop, &signal);
    uv_signal_start(&signal, on_load_signal, SIGTERM);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_wake, POLL_MS, POLL_MS);
    for (uint32_t i = 0; !is_over; i = (i + 1) % n) {
        char request[64];
        uint64_t count = 0;
        snprintf(request, sizeof request, "c%" PRIu32 " %d-%" PRIu64, i, (int)getpid(), n_done);
        while (!try_once(i % SHARDS, rota_space_map(space), request, &count)) {
            n_again++;
            uv_run(&loop, UV_RUN_ONCE);
        }
        if (counts[i] > 0 && count != counts[i] + 1)
            printf("wrong c%" PRIu32 ": %" PRIu64 " after %" PRIu64 "\n", i, count, counts[i]);
        counts[i] = count;
        if (++n_done % n == 0)
            printf("round %" PRIu64 "\n", n_done / n);
    }
    printf("done calls=%" PRIu64 " again=%" PRIu64 "\n", n_done, n_again);
    uv_close((uv_handle_t *)&signal, NULL);
    uv_close((uv_handle_t *)&timer, NULL);
    rota_space_close(space, on_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}

int main(int argc, char **argv)
{
    bool is_load = argc == 4 && strcmp(argv[1], "load") == 0;
    if (!is_load && (argc != 5 || strcmp(argv[1], "serve") != 0))
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_store(argv[2]);
    folder = argv[3];
    name = is_load ? NULL : argv[4];
    return is_load ? load((uint32_t)atoi(argv[3])) : serve();
}
