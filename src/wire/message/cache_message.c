#include "wire/message/cache_message.h"

#include "wire/message/message_table.h"

#define THIS struct rota_cache_request
static const struct rota_message_field REQUEST[] = {
    F_MAX(1, STRS, key, ROTA_GET_KEYS_MAX),
    F(2, UINT, epoch),
    F(3, BOOL, partial),
};
#undef THIS
HOT_TYPE(ROTA_CACHE_REQUEST, "request", struct rota_cache_request, REQUEST);

#define THIS struct rota_get_entry
static const struct rota_message_field ENTRY[] = {F(1, UINT, id), F_BYTES(2, value)};
#undef THIS
HOT_ENTRY(ROTA_CACHE_ENTRY, "entry", struct rota_get_entry, ENTRY);

#define THIS struct rota_get_problem
static const struct rota_message_field PROBLEM[] = {F(1, UINT, id), F_BYTES(2, text)};
#undef THIS
static TYPE(PROBLEM_TYPE, "problem", struct rota_get_problem, PROBLEM);

#define THIS struct rota_interval_claim
static const struct rota_message_field SHARD[] = {
    {.name = "from", .number = 1, ROTA_MESSAGE_INTO(UINT, THIS, interval.from)},
    {.name = "to", .number = 2, ROTA_MESSAGE_INTO(UINT, THIS, interval.to)},
    {.name = "of", .number = 3, ROTA_MESSAGE_INTO(UINT, THIS, interval.of)},
    F(4, UINT, epoch),
};
#undef THIS
HOT_ENTRY(ROTA_CACHE_SHARD, "shard", struct rota_interval_claim, SHARD);

#define THIS struct rota_cache_response
static const struct rota_message_field RESPONSE[] = {
    F_LIST(1, entry, ROTA_CACHE_ENTRY, ROTA_GET_KEYS_MAX),
    F_LIST(2, shard, ROTA_CACHE_SHARD, ROTA_GET_SHARDS_MAX),
    F(4, BOOL, all_matched),
    F_LIST(5, problem, PROBLEM_TYPE, ROTA_GET_KEYS_MAX),
};
#undef THIS
HOT_TYPE(ROTA_CACHE_RESPONSE, "response", struct rota_cache_response, RESPONSE);
