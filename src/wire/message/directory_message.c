#include "wire/message/directory_message.h"

#include "wire/message/message_table.h"

enum { CLAIMS_FIELD = 9, UPDATE_FIELD = 1 }; /* of an update, of a reply */
enum { VARINT_MAX = 10 };

#define THIS struct rota_directory_space_request
static const struct rota_message_field SPACE_REQUEST[] = {
    F(1, STR, space),
    F(2, UINT, history),
    F(3, UINT, version),
};
#undef THIS
TYPE(ROTA_DIRECTORY_SPACE_REQUEST, "request", struct rota_directory_space_request, SPACE_REQUEST);

#define THIS struct rota_directory_space_node
static const struct rota_message_field SPACE_NODE[] = {
    F(1, STR, address),
    F(2, STR, name),
    F(3, STR, zone),
};
#undef THIS
static TYPE(SPACE_NODE_TYPE, "node", struct rota_directory_space_node, SPACE_NODE);

#define THIS struct rota_directory_claims
static const struct rota_message_field CLAIMS[] = {
    F(1, STR, zone),        F_MAX(2, UINT, first_shard, UINT32_MAX),
    F_PACKED(3, shards),    F_PACKED(4, owners),
    F(5, UINT, base_epoch), F_PACKED(6, epochs),
    F_PACKED(7, moving),
};
#undef THIS
static TYPE(CLAIMS_TYPE, "claims", struct rota_directory_claims, CLAIMS);

#define THIS struct rota_directory_update
static const struct rota_message_field UPDATE[] = {
    F(1, UINT, history),
    F(2, UINT, version),
    F(3, BOOL, is_snapshot),
    F(4, BOOL, is_whole),
    F(5, STR, engine),
    F_MAX(6, UINT, n_shards, UINT32_MAX),
    F_MAX(7, UINT, first_node, UINT32_MAX),
    F_LIST(8, nodes, SPACE_NODE_TYPE, 65536),
    F_OF(CLAIMS_FIELD, INNERS, claims, CLAIMS_TYPE),
};
#undef THIS
TYPE(ROTA_DIRECTORY_UPDATE, "update", struct rota_directory_update, UPDATE);

#define THIS struct rota_directory_space_reply
static const struct rota_message_field SPACE_REPLY[] = {
    F_OF(UPDATE_FIELD, INNER, update, ROTA_DIRECTORY_UPDATE)};
#undef THIS
TYPE(ROTA_DIRECTORY_SPACE_REPLY, "reply", struct rota_directory_space_reply, SPACE_REPLY);

static void put_packed(struct rota_buffer *buffer, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    rota_buffer_append(buffer, bytes, (size_t)(rota_lean_put_varint(bytes, value) - bytes));
}

void rota_directory_message_claims_add(struct rota_directory_claims_writer *writer,
                                       const struct rota_directory_claim *claim, bool is_listed)
{
    if (is_listed)
        put_packed(&writer->shards, claim->shard);
    put_packed(&writer->owners, claim->owner);
    put_packed(&writer->epochs, claim->epoch - writer->claims.base_epoch);
    if (claim->is_moving)
        put_packed(&writer->moving, writer->n);
    writer->n++;
}

void rota_directory_message_claims_end(struct rota_directory_claims_writer *writer,
                                       struct rota_buffer *buffer)
{
    struct rota_buffer *lists[] = {&writer->shards, &writer->owners, &writer->epochs,
                                   &writer->moving};
    writer->claims.shards = rota_buffer_str(&writer->shards);
    writer->claims.owners = rota_buffer_str(&writer->owners);
    writer->claims.epochs = rota_buffer_str(&writer->epochs);
    writer->claims.moving = rota_buffer_str(&writer->moving);
    rota_message_encode_entry(&CLAIMS_TYPE, CLAIMS_FIELD, &writer->claims, buffer);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        buffer->failed |= lists[i]->failed;
        rota_buffer_clear(lists[i]);
    }
    writer->n = 0;
}

void rota_directory_message_claims_deinit(struct rota_directory_claims_writer *writer)
{
    rota_buffer_deinit(&writer->shards);
    rota_buffer_deinit(&writer->owners);
    rota_buffer_deinit(&writer->epochs);
    rota_buffer_deinit(&writer->moving);
}

/* The first number of a packed list, which is removed; false: it is not a number. */
static bool take_packed(struct rota_str *list, uint64_t max, uint64_t *value)
{
    const uint8_t *at = (const uint8_t *)list->data, *end = at + list->size;
    struct rota_lean_number number = rota_lean_get_varint(at, end);
    if (!number.end || number.value > max)
        return false;
    *value = number.value;
    *list = rota_str_of(number.end, (size_t)(end - number.end));
    return true;
}

/* The position of the next shard that moves, which is above the one before. */
static bool take_moving(struct rota_directory_claims_reader *reader)
{
    uint64_t position;
    if (reader->moving.size == 0) {
        reader->next_moving = UINT32_MAX;
        return true;
    }
    if (!take_packed(&reader->moving, UINT32_MAX - 1, &position) || position < reader->n)
        return false;
    reader->next_moving = (uint32_t)position;
    return true;
}

static bool begin_claims(struct rota_directory_claims_reader *reader)
{
    reader->shards = reader->claims->shards;
    reader->owners = reader->claims->owners;
    reader->epochs = reader->claims->epochs;
    reader->moving = reader->claims->moving;
    reader->n = 0;
    reader->has_begun = true;
    return take_moving(reader);
}

static bool take_claim(struct rota_directory_claims_reader *reader,
                       struct rota_directory_claim *claim)
{
    uint64_t shard = reader->claims->first_shard + reader->n, owner, epoch;
    uint64_t base = reader->claims->base_epoch;
    if (reader->claims->shards.size > 0 && !take_packed(&reader->shards, UINT32_MAX, &shard))
        return false;
    if (!take_packed(&reader->owners, UINT32_MAX, &owner) ||
        !take_packed(&reader->epochs, UINT64_MAX - base, &epoch) || shard > UINT32_MAX)
        return false;
    *claim = (struct rota_directory_claim){.shard = (uint32_t)shard,
                                           .owner = (uint32_t)owner,
                                           .epoch = base + epoch,
                                           .is_moving = reader->next_moving == reader->n};
    reader->n++;
    return !claim->is_moving || take_moving(reader);
}

enum rota_code rota_directory_message_claims_next(struct rota_directory_claims_reader *reader,
                                                  struct rota_directory_claim *claim)
{
    if (!reader->has_begun && !begin_claims(reader))
        return ROTA_ERR_INVALID;
    if (reader->owners.size > 0)
        return take_claim(reader, claim) ? ROTA_OK : ROTA_ERR_INVALID;
    bool is_at_end =
        reader->shards.size == 0 && reader->epochs.size == 0 && reader->next_moving == UINT32_MAX;
    return is_at_end ? ROTA_ERR_NOT_FOUND : ROTA_ERR_INVALID;
}

void rota_directory_message_write_reply(struct rota_str head, struct rota_str claims,
                                        struct rota_buffer *reply)
{
    uint8_t prefix[2 * VARINT_MAX];
    uint8_t *end = rota_lean_put_size(prefix, UPDATE_FIELD, head.size + claims.size);
    rota_buffer_append(reply, prefix, (size_t)(end - prefix));
    rota_buffer_append_str(reply, head);
    rota_buffer_append_str(reply, claims);
}
