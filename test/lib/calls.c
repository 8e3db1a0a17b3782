#include "calls.h"

static void call_on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct ended *ended = data;
    struct rota_str value;
    (void)call;
    ended->n++;
    ended->status = result->status;
    copy_str(ended->text, sizeof ended->text, result->text);
    if (rota_metadata_get(result->metadata, result->n_metadata, "rota-failure", &value))
        copy_str(ended->failure, sizeof ended->failure, value);
    if (rota_metadata_get(result->metadata, result->n_metadata, "rota-claim", &value))
        copy_str(ended->claim, sizeof ended->claim, value);
    if (rota_metadata_get(result->metadata, result->n_metadata, "rota-cost", &value))
        copy_str(ended->cost, sizeof ended->cost, value);
}

struct rota_channel *channel_to(const struct node *node)
{
    struct rota_channel *channel;
    struct rota_error error;
    if (rota_channel_open(&loop, rota_server_address(node->server, 0), NULL, &channel, &error))
        fail_msg("%s", error.text);
    return channel;
}

struct rota_call *call_start(struct rota_channel *channel, const char *shard, const char *epoch,
                             rota_time timeout, struct ended *ended)
{
    struct rota_metadata notes[2];
    size_t n = 0;
    if (shard)
        notes[n++] = (struct rota_metadata){rota_str("rota-shard"), rota_str(shard)};
    if (epoch)
        notes[n++] = (struct rota_metadata){rota_str("rota-epoch"), rota_str(epoch)};
    struct rota_call_options options = {
        .method = rota_str(METHOD_WORK),
        .request = rota_str("hello"),
        .metadata = notes,
        .n_metadata = n,
        .timeout = timeout,
        .on_end = call_on_end,
        .data = ended,
    };
    struct rota_call *call;
    struct rota_error error;
    *ended = (struct ended){0};
    if (rota_channel_call(channel, &options, &call, &error))
        fail_msg("%s", error.text);
    return call;
}

void call_wait(struct rota_channel *channel, const char *shard, const char *epoch,
               struct ended *ended)
{
    call_start(channel, shard, epoch, 0, ended);
    RUN_UNTIL(ended->n);
}
