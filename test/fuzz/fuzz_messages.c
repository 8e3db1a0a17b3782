/* The messages of directories, health and reflection: any bytes are a message or none, the same as
 * protobuf-c finds, and what a directory sends is a map within its bounds or none. The first byte
 * says which message it is. */
#include "core/call/shards/shard_map.h"
#include "oracle.h"
#include "run/call/shards_directory.h"
#include "wire/message/standard_message.h"

#include "directory.pb-c.h"
#include "health.pb-c.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_map(void *data, const struct rota_shards_map *read)
{
    struct rota_shard_map *map = NULL;
    (void)data;
    if (rota_shard_map_new(read->id, rota_str(""), read->channels, read->n_channels, &map, NULL))
        return;
    assert(map->n_channels <= ROTA_SHARD_CHANNELS_MAX);
    for (size_t i = 0; i < map->n_channels; i++) {
        const struct rota_shard_channel *channel = &map->channels[i];
        assert(channel->n_replicas <= ROTA_SHARD_REPLICAS_MAX);
        assert(rota_shard_map_find(map, channel->name) == channel);
    }
    rota_shard_map_drop(map);
}

static void check_map(struct rota_str reply)
{
    struct rota_arena arena = {0};
    rota_shards_directory_read_map(rota_shards_directory_decode_map(reply, &arena), &arena,
                                   make_map, NULL);
    rota_arena_deinit(&arena);
}

/* An enum and a oneof are read in another way than protobuf-c's: a number may have 64 bits, and
 * of several members all are there. */
static void check_standard(const struct rota_message_type *type, struct rota_str bytes)
{
    union {
        struct rota_standard_health_response health;
        struct rota_standard_question question;
    } message, same;
    struct rota_buffer written = {0};
    assert(type->size <= sizeof message);
    if (rota_message_decode(type, bytes, &message, NULL, NULL))
        return;
    rota_message_encode(type, &message, &written);
    assert(!rota_message_decode(type, rota_buffer_str(&written), &same, NULL, NULL));
    assert(message.health.status == same.health.status || type != &ROTA_STANDARD_HEALTH_RESPONSE);
    assert(type != &ROTA_STANDARD_REFLECTION_REQUEST ||
           rota_str_is_equal(message.question.list_services, same.question.list_services));
    rota_buffer_deinit(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { N_KINDS = 7 };
    if (size == 0)
        return 0;
    struct rota_str bytes = rota_str_of(data + 1, size - 1);
    switch (data[0] % N_KINDS) {
    case 0:
    case 2:
        oracle_check(&ROTA_DIRECTORY_REPLY, &rota__v1__get_shards_reply__descriptor, bytes);
        check_map(bytes);
        break;
    case 1:
        oracle_check(&ROTA_DIRECTORY_GET, &rota__v1__get_shards_request__descriptor, bytes);
        break;
    case 3:
        oracle_check(&ROTA_DIRECTORY_WATCH, &rota__v1__watch_shards_request__descriptor, bytes);
        break;
    case 4:
        oracle_check(&ROTA_STANDARD_HEALTH_REQUEST,
                     &grpc__health__v1__health_check_request__descriptor, bytes);
        break;
    case 5:
        check_standard(&ROTA_STANDARD_HEALTH_RESPONSE, bytes);
        break;
    default:
        check_standard(&ROTA_STANDARD_REFLECTION_REQUEST, bytes);
    }
    return 0;
}
