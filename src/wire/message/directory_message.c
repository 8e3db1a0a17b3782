#include "wire/message/directory_message.h"

#include "wire/message/message_table.h"

#define THIS struct rota_directory_collection
static const struct rota_message_field COLLECTION[] = {
    F(1, STR, database),
    F(2, STR, name),
    F(3, INT, id),
};
#undef THIS
static TYPE(COLLECTION_TYPE, "collection", struct rota_directory_collection, COLLECTION);

#define THIS struct rota_directory_request
static const struct rota_message_field WATCH[] = {
    F_OF(1, INNER, collection, COLLECTION_TYPE),
    F(2, UINT, version),
};
static const struct rota_message_field GET[] = {F_OF(1, INNER, collection, COLLECTION_TYPE)};
#undef THIS
TYPE(ROTA_DIRECTORY_WATCH, "request", struct rota_directory_request, WATCH);
TYPE(ROTA_DIRECTORY_GET, "request", struct rota_directory_request, GET);

static const struct rota_message_field NODE[] = {
    {.name = "node_id", .number = 1, ROTA_MESSAGE_INTO(INT, struct rota_replica, node)},
    {.name = "address", .number = 2, ROTA_MESSAGE_INTO(STR, struct rota_replica, address)},
    {.name = "serviceable",
     .number = 3,
     ROTA_MESSAGE_INTO(BOOL, struct rota_replica, is_serviceable)},
    {.name = "epoch", .number = 4, ROTA_MESSAGE_INTO(UINT, struct rota_replica, epoch)},
};
static TYPE(NODE_TYPE, "node", struct rota_replica, NODE);

#define THIS struct rota_directory_shard
static const struct rota_message_field SHARD[] = {
    F(1, STR, channel),
    F_OF(2, INNERS, nodes, NODE_TYPE),
};
#undef THIS
static TYPE(SHARD_TYPE, "shard", struct rota_directory_shard, SHARD);

#define THIS struct rota_directory_map
static const struct rota_message_field MAP[] = {
    F_OF(1, INNER, collection, COLLECTION_TYPE),
    F(2, UINT, version),
    F_LIST(3, shards, SHARD_TYPE, ROTA_SHARD_CHANNELS_MAX),
};
#undef THIS
TYPE(ROTA_DIRECTORY_MAP, "map", struct rota_directory_map, MAP);

#define THIS struct rota_directory_reply
static const struct rota_message_field REPLY[] = {F_OF(1, INNER, shards, ROTA_DIRECTORY_MAP)};
#undef THIS
TYPE(ROTA_DIRECTORY_REPLY, "reply", struct rota_directory_reply, REPLY);
