/* The messages of directories, health and reflection: any bytes are a message or none,
 * and what a directory sends is a map within its bounds or none. The first byte says
 * which message it is. */
#include "core/call/shard_map.h"
#include "run/shards_inside.h"

#include "directory.pb-c.h"
#include "health.pb-c.h"
#include "reflection.pb-c.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const kinds[] = {
    &rota__v1__get_shards_reply__descriptor,
    &rota__v1__get_shards_request__descriptor,
    &rota__v1__watch_shards_reply__descriptor,
    &rota__v1__watch_shards_request__descriptor,
    &grpc__health__v1__health_check_request__descriptor,
    &grpc__health__v1__health_check_response__descriptor,
    &grpc__reflection__v1__server_reflection_request__descriptor,
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void make_map(void *data, const struct rota_shards_map *read)
{
    struct rota_shard_map *map = NULL;
    (void)data;
    if (rota_shard_map_new(read->id, read->channels, read->n_channels, &map, NULL))
        return;
    assert(map->n_channels <= ROTA_SHARD_CHANNELS_MAX);
    for (size_t i = 0; i < map->n_channels; i++) {
        const struct rota_shard_channel *channel = &map->channels[i];
        assert(channel->n_replicas <= ROTA_SHARD_REPLICAS_MAX);
        assert(rota_shard_map_find(map, channel->name) == channel);
    }
    rota_shard_map_drop(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *kind = kinds[data[0] % N_KINDS];
    ProtobufCMessage *message = protobuf_c_message_unpack(kind, NULL, size - 1, data + 1);
    if (!message)
        return 0;
    if (kind == &rota__v1__get_shards_reply__descriptor)
        rota_shards_read_map(((Rota__V1__GetShardsReply *)message)->shards, make_map, NULL);
    else if (kind == &rota__v1__watch_shards_reply__descriptor)
        rota_shards_read_map(((Rota__V1__WatchShardsReply *)message)->shards, make_map, NULL);
    protobuf_c_message_free_unpacked(message, NULL);
    return 0;
}
