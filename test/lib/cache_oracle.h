/* Our codec of the cache's messages beside protobuf-c's: both are asked for the
 * same thing, and equal answers are the rule. */
#pragma once

#include "cache.pb-c.h"
#include "wire/cache_message.h"

static inline bool oracle_bytes_equal(ProtobufCBinaryData theirs, struct rota_str ours)
{
    return rota_str_is_equal(rota_str_of(theirs.data, theirs.len), ours);
}

static inline bool oracle_request_equal(const Rota__V1__GetRequest *theirs,
                                        const struct rota_cache_request *ours)
{
    if (theirs->n_key != ours->keys.size || theirs->epoch != ours->epoch ||
        theirs->partial != ours->is_partial)
        return false;
    for (size_t i = 0; i < theirs->n_key; i++)
        if (!oracle_bytes_equal(theirs->key[i], ours->keys.items[i]))
            return false;
    return true;
}

static inline bool oracle_shard_equal(const Rota__V1__Interval *theirs,
                                      const struct rota_cache_response *ours)
{
    if (!theirs)
        return !ours->has_shard;
    return ours->has_shard && theirs->from == ours->shard.from && theirs->to == ours->shard.to &&
           theirs->of == ours->shard.of;
}

static inline bool oracle_response_equal(const Rota__V1__GetResponse *theirs,
                                         const struct rota_cache_response *ours)
{
    if (theirs->n_entry != ours->entries.size || theirs->epoch != ours->epoch ||
        theirs->all_matched != ours->all_matched || !oracle_shard_equal(theirs->shard, ours))
        return false;
    for (size_t i = 0; i < theirs->n_entry; i++)
        if (theirs->entry[i]->id != ours->entries.items[i].id ||
            !oracle_bytes_equal(theirs->entry[i]->value, ours->entries.items[i].value))
            return false;
    if (theirs->n_problem != ours->problems.size)
        return false;
    for (size_t i = 0; i < theirs->n_problem; i++)
        if (theirs->problem[i]->id != ours->problems.items[i].id ||
            !oracle_bytes_equal(theirs->problem[i]->text, ours->problems.items[i].text))
            return false;
    return true;
}

/* What protobuf-c writes for a message it has read. */
static inline struct rota_buffer oracle_pack(const ProtobufCMessage *message)
{
    struct rota_buffer packed = {0};
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *to = (uint8_t *)rota_buffer_extend(&packed, size);
    if (to)
        protobuf_c_message_pack(message, to);
    return packed;
}

/* Drop the fields that a later version may have and we do not keep. */
static inline void oracle_forget_unknown(ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        free(message->unknown_fields[i].data);
    free(message->unknown_fields);
    message->unknown_fields = NULL;
    message->n_unknown_fields = 0;
}
