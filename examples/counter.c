/* A service that owns shards: counters by name, divided into SHARDS shards.
 *
 *     counter serve STORE FOLDER      serve the shards that this process owns
 *     counter add STORE NAME [EPOCH]  add 1 to a counter, at the owner of its shard
 *
 * The processes share the shards through a space in the store. Each server rejects calls that were
 * routed by an old epoch (fencing token), and each counter's file in FOLDER rejects writes with an
 * epoch below the highest it has seen; a database does the same with a column beside the data.
 * EPOCH instead of the current one shows a rejection. */
#include <fcntl.h>
#include <inttypes.h>
#include <rota/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <uv.h>

#define SPACE  "counters"
#define METHOD "/example.Counter/Add"

enum { SHARDS = 32, NAME_MAX_BYTES = 64, RETRY_MS = 100 };

static struct rota_store *store;
static struct rota_space *space;
static struct rota_claims *claims;
static struct rota_server *server;
static const char *folder;
static uv_signal_t signals[2];

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "counter: %s: %s\n", what, why);
    exit(1);
}

/* --- the server --- */

/* Adds 1 to the counter in a file, unless a higher epoch has written it. */
static bool add_one(const char *name, uint64_t epoch, uint64_t *count)
{
    char path[4096], text[64] = "";
    uint64_t highest = 0;
    *count = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return false;
    flock(file, LOCK_EX); /* so that the second of two writers sees the epoch of the first */
    if (pread(file, text, sizeof text - 1, 0) > 0)
        sscanf(text, "%" SCNu64 " %" SCNu64, &highest, count);
    int size = snprintf(text, sizeof text, "%020" PRIu64 " %020" PRIu64 "\n", epoch, ++*count);
    bool is_added = highest <= epoch && pwrite(file, text, (size_t)size, 0) == size;
    close(file);
    return is_added;
}

/* The request is "SHARD EPOCH NAME". The server has already rejected the call if its epoch is not
 * the one under which this process owns the shard. */
static void on_call(void *data, struct rota_server_call *call)
{
    char request[128], name[NAME_MAX_BYTES + 1], reply[128];
    uint64_t epoch, count;
    uint32_t shard;
    (void)data;
    snprintf(request, sizeof request, "%.*s", ROTA_STR_ARGS(rota_server_call_request(call)));
    if (sscanf(request, "%" SCNu32 " %" SCNu64 " %64[a-z0-9]", &shard, &epoch, name) != 3) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, "a name is a-z and 0-9", NULL,
                                0);
        return;
    }
    if (!rota_space_is_current(space, shard, epoch)) { /* right before each effect */
        rota_server_call_refuse(call);
        return;
    }
    if (!add_one(name, epoch, &count)) {
        rota_server_call_finish(call, ROTA_STATUS_ABORTED, "a later owner wrote", NULL, 0);
        return;
    }
    int size = snprintf(reply, sizeof reply, "%" PRIu64, count);
    rota_server_call_reply(call, rota_str_of(reply, (size_t)size));
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    (void)data;
    printf("start shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    (void)data, (void)until;
    printf("stop shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
    rota_space_stopped(space, shard, epoch); /* nothing is in progress between two callbacks */
}

static void on_closed(void *data)
{
    (void)data;
    rota_server_close(server);
    rota_store_close(store);
}

/* Hands the shards over; the others need not wait until the ttl ends. */
static void on_signal(uv_signal_t *signal, int number)
{
    (void)signal, (void)number;
    rota_space_close(space, on_closed, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
}

static int serve(uv_loop_t *loop)
{
    const int numbers[2] = {SIGTERM, SIGINT};
    const struct rota_server_method add = {.path = METHOD, .on_call = on_call, .is_fenced = true};
    struct rota_error error;
    if (rota_claims_new(1, &claims, &error))
        fail("claims", error.text);
    struct rota_server_options options = {.claims = claims};
    if (rota_server_open(loop, &options, &server, &error) ||
        rota_server_add(server, &add, &error) || rota_server_listen(server, "127.0.0.1:0", &error))
        fail("server", error.text);
    struct rota_space_options member = {
        .name = SPACE,
        .member = rota_server_address(server, 0),
        .engine = "ring", /* if this process creates the space */
        .n_shards = SHARDS,
        .is_alone = true, /* we have the port */
        .ttl = 2 * ROTA_SEC,
        .claims = claims, /* the space keeps them up to date, the server checks them */
        .on_start = on_start,
        .on_stop = on_stop,
    };
    if (rota_space_open(loop, store, &member, &space, &error))
        fail("space", error.text);
    for (int i = 0; i < 2; i++) {
        uv_signal_init(loop, &signals[i]);
        uv_signal_start(&signals[i], on_signal, numbers[i]);
    }
    printf("ready grpc=%s\n", rota_server_address(server, 0));
    uv_run(loop, UV_RUN_DEFAULT);
    rota_claims_free(claims);
    return uv_loop_close(loop) != 0;
}

/* --- the client --- */

static uint32_t shard_of(const char *name, uint32_t n_shards)
{
    uint32_t hash = 2166136261; /* FNV-1a; all clients must compute the same */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619;
    return hash % n_shards;
}

/* Waits until the shard has an owner. */
static struct rota_space_shard wait_for_owner(uv_loop_t *loop, const char *name, uint32_t *shard)
{
    for (;; uv_run(loop, UV_RUN_ONCE)) {
        const struct rota_space_map *map = rota_space_map(space);
        if (!map->n_shards)
            continue;
        *shard = shard_of(name, map->n_shards);
        if (map->shards[*shard].state == ROTA_SPACE_OWNED)
            return map->shards[*shard];
    }
}

/* One call to the owner that the map names, with the shard and the epoch it was routed by. */
static void call_owner(uv_loop_t *loop, const char *owner, uint32_t shard, uint64_t epoch,
                       const char *name, struct rota_reply *reply)
{
    char request[128], shard_text[32], epoch_text[32];
    struct rota_channel *channel;
    struct rota_error error;
    snprintf(request, sizeof request, "%" PRIu32 " %" PRIu64 " %s", shard, epoch, name);
    snprintf(shard_text, sizeof shard_text, SPACE "/%" PRIu32, shard);
    snprintf(epoch_text, sizeof epoch_text, "%" PRIu64, epoch);
    const struct rota_metadata metadata[] = {{rota_str("rota-shard"), rota_str(shard_text)},
                                             {rota_str("rota-epoch"), rota_str(epoch_text)}};
    struct rota_call_options options = {.method = rota_str(METHOD),
                                        .request = rota_str(request),
                                        .metadata = metadata,
                                        .n_metadata = 2,
                                        .timeout = 5 * ROTA_SEC};
    if (rota_channel_open(loop, owner, NULL, &channel, &error) ||
        rota_channel_wait(channel, &options, reply, &error))
        fail(owner, error.text);
    rota_channel_close(channel);
}

/* A timer only wakes the loop. */
static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* Adds 1. Tries again while the owner is dead or rejects the call: neither did anything. Returns
 * false, with the reason on standard error, if it may or may not have been added. */
static bool add_at_owner(uv_loop_t *loop, const char *name, uint64_t old_epoch)
{
    for (;; uv_run(loop, UV_RUN_ONCE)) {
        struct rota_reply reply;
        uint32_t shard;
        struct rota_space_shard owned = wait_for_owner(loop, name, &shard);
        struct rota_str node = rota_space_map(space)->nodes[owned.owner];
        uint64_t epoch = old_epoch ? old_epoch : owned.epoch;
        char owner[ROTA_CHANNEL_TARGET_MAX + 1];
        snprintf(owner, sizeof owner, "%.*s", ROTA_STR_ARGS(node));
        call_owner(loop, owner, shard, epoch, name, &reply);
        bool is_added = reply.status == ROTA_STATUS_OK;
        bool has_acted = reply.may_have_run && reply.status != ROTA_STATUS_ABORTED;
        bool is_over = is_added || has_acted || old_epoch;
        if (is_added)
            printf("%s=%s shard=%" PRIu32 " epoch=%" PRIu64 " owner=%s\n", name, reply.message,
                   shard, epoch, owner);
        else if (is_over)
            fprintf(stderr, "counter: %s: %s\n", rota_status_name(reply.status), reply.text);
        rota_reply_deinit(&reply);
        if (is_over)
            return is_added;
    }
}

static int add(uv_loop_t *loop, const char *name, uint64_t old_epoch)
{
    struct rota_space_options observer = {.name = SPACE}; /* no member: owns nothing */
    struct rota_error error;
    uv_timer_t timer;
    if (rota_space_open(loop, store, &observer, &space, &error))
        fail("space", error.text);
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_timer, RETRY_MS, RETRY_MS);
    bool is_added = add_at_owner(loop, name, old_epoch);
    uv_close((uv_handle_t *)&timer, NULL);
    rota_space_close(space, on_closed, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop) != 0 || !is_added;
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    struct rota_error error;
    bool is_server = argc == 4 && strcmp(argv[1], "serve") == 0;
    if (!is_server && (argc < 4 || argc > 5 || strcmp(argv[1], "add") != 0)) {
        fprintf(stderr, "usage: counter serve STORE FOLDER | counter add STORE NAME [EPOCH]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    uv_loop_init(&loop);
    struct rota_store_options options = {.url = argv[2]};
    if (rota_store_open(&loop, &options, &store, &error))
        fail(argv[2], error.text);
    folder = argv[3];
    return is_server ? serve(&loop)
                     : add(&loop, argv[3], argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
}
