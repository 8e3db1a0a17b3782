/* Adds 1 to a counter of counter_server.c: `counter_client STORE NAME [EPOCH]`
 *
 * Finds the owner of the counter's shard in the space, and calls it with the shard and the epoch.
 * It tries again until it has a reply: the ID in the request keeps it from being counted twice.
 * EPOCH instead of the current one shows a rejection. */
#include <inttypes.h>
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

enum { PAUSE_MS = 50 };

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "counter_client: %s: %s\n", what, why);
    exit(1);
}

static uint32_t shard_of(const char *name, uint32_t n_shards)
{
    uint32_t hash = 2166136261; /* FNV-1a; all clients must compute the same */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619;
    return hash % n_shards;
}

/* One call to the owner that the map names, with the shard and the epoch it was routed by. */
static void call_owner(uv_loop_t *loop, const char *owner, uint32_t shard, uint64_t epoch,
                       const char *request, struct rota_reply *reply)
{
    char shard_text[32], epoch_text[32];
    struct rota_channel *channel;
    struct rota_error error;
    snprintf(shard_text, sizeof shard_text, "counters/%" PRIu32, shard);
    snprintf(epoch_text, sizeof epoch_text, "%" PRIu64, epoch);
    const struct rota_metadata metadata[] = {{rota_str("rota-shard"), rota_str(shard_text)},
                                             {rota_str("rota-epoch"), rota_str(epoch_text)}};
    struct rota_call_options options = {.method = rota_str("/example.Counter/Add"),
                                        .request = rota_str(request),
                                        .metadata = metadata,
                                        .n_metadata = 2,
                                        .timeout = 2 * ROTA_SEC};
    if (rota_channel_open(loop, owner, NULL, &channel, &error) ||
        rota_channel_wait(channel, &options, reply, &error))
        fail(owner, error.text);
    rota_channel_close(channel);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer; /* it only wakes the loop */
}

static void on_closed(void *data)
{
    rota_store_close(data);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    uv_timer_t timer;
    struct rota_store *store;
    struct rota_space *space;
    struct rota_error error;
    char request[160], owner[ROTA_CHANNEL_TARGET_MAX + 1];
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: counter_client STORE NAME [EPOCH]\n");
        return 2;
    }
    uint64_t old_epoch = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    snprintf(request, sizeof request, "%.64s %ld%ld", argv[2], (long)time(NULL), (long)getpid());
    uv_loop_init(&loop);
    if (rota_store_open(&loop, &(struct rota_store_options){.url = argv[1]}, &store, &error) ||
        rota_space_open(&loop, store, &(struct rota_space_options){.name = "counters"}, &space,
                        &error) ||
        rota_space_wait(space, ROTA_MIN, &error))
        fail(argv[1], error.text);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, PAUSE_MS, PAUSE_MS);
    struct rota_reply reply = {.status = ROTA_STATUS_UNAVAILABLE};
    for (bool is_over = false; !is_over; uv_run(&loop, UV_RUN_ONCE)) {
        const struct rota_space_map *map = rota_space_map(space);
        uint32_t shard = shard_of(argv[2], map->n_shards);
        struct rota_space_shard known = map->shards[shard];
        if (known.state != ROTA_SPACE_OWNED)
            continue;
        uint64_t epoch = old_epoch ? old_epoch : known.epoch;
        snprintf(owner, sizeof owner, "%.*s", ROTA_STR_ARGS(map->nodes[known.owner]));
        rota_reply_deinit(&reply);
        call_owner(&loop, owner, shard, epoch, request, &reply);
        is_over = old_epoch || reply.status == ROTA_STATUS_OK ||
                  reply.status == ROTA_STATUS_INVALID_ARGUMENT;
        if (reply.status == ROTA_STATUS_OK)
            printf("%s=%s shard=%" PRIu32 " epoch=%" PRIu64 " owner=%s\n", argv[2], reply.message,
                   shard, epoch, owner);
        else if (is_over)
            fprintf(stderr, "counter_client: %s: %s\n", rota_status_name(reply.status), reply.text);
    }
    bool is_added = reply.status == ROTA_STATUS_OK;
    rota_reply_deinit(&reply);
    uv_close((uv_handle_t *)&timer, NULL);
    rota_space_close(space, on_closed, store);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0 || !is_added;
}
