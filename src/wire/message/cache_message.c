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

#define THIS struct rota_interval
static const struct rota_message_field SHARD[] = {F(1, UINT, from), F(2, UINT, to), F(3, UINT, of)};
#undef THIS
static TYPE(SHARD_TYPE, "shard", struct rota_interval, SHARD);

#define THIS struct rota_cache_response
static const struct rota_message_field RESPONSE[] = {
    F_LIST(1, entry, ROTA_CACHE_ENTRY, ROTA_GET_KEYS_MAX),
    F_OF(2, INNER, shard, SHARD_TYPE),
    F(3, UINT, epoch),
    F(4, BOOL, all_matched),
    F_LIST(5, problem, PROBLEM_TYPE, ROTA_GET_KEYS_MAX),
};
#undef THIS
HOT_TYPE(ROTA_CACHE_RESPONSE, "response", struct rota_cache_response, RESPONSE);
