/* rota.v1.Cache as a service, and the buffers of services. */
#include "base/hash.h"
#include "base/quote.h"
#include "run/call/get_message.h"
#include "wire/message/cache_message.h"
#include "wire/message/lean.h"

#include <stdio.h>

void rota_get_cache_writer_deinit(struct rota_get_writer *writer)
{
    rota_buffer_deinit(&writer->buffer);
    rota_vector_deinit(&writer->keys);
}

void *rota_get_write(struct rota_get_writer *writer, size_t size)
{
    return rota_buffer_extend(&writer->buffer, size);
}

enum { HEAD_MAX = 20 }; /* two varints */

void rota_get_write_number(struct rota_get_writer *writer, uint32_t field, uint64_t value)
{
    uint8_t head[HEAD_MAX];
    uint8_t *end = rota_lean_put_varint(head, (uint64_t)field << 3 | ROTA_LEAN_VARINT);
    end = rota_lean_put_varint(end, value); /* an element of a list is written though it is 0 */
    rota_buffer_append_str(&writer->buffer, rota_str_of(head, (size_t)(end - head)));
}

void rota_get_write_bytes(struct rota_get_writer *writer, uint32_t field, struct rota_str value)
{
    uint8_t head[HEAD_MAX];
    uint8_t *end = rota_lean_put_size(head, field, value.size);
    rota_buffer_append_str(&writer->buffer, rota_str_of(head, (size_t)(end - head)));
    rota_buffer_append_str(&writer->buffer, value);
}

void rota_get_cache_reader_clear(struct rota_get_reader *reader)
{
    reader->entries.size = reader->problems.size = reader->shards.size = 0;
    rota_arena_clear(reader->arena);
}

void rota_get_cache_reader_deinit(struct rota_get_reader *reader)
{
    rota_vector_deinit(&reader->entries);
    rota_vector_deinit(&reader->problems);
    rota_vector_deinit(&reader->shards);
}

static bool is_inside(struct rota_str outer, struct rota_str inner)
{
    uintptr_t start = (uintptr_t)outer.data, at = (uintptr_t)inner.data;
    return at >= start && at - start <= outer.size && inner.size <= outer.size - (at - start);
}

void rota_get_read(struct rota_get_reader *reader, const struct rota_get_entry *entry)
{
    struct rota_get_entry ours = *entry;
    if (ours.value.size == 0)
        ours.value = rota_str("");
    else if (!is_inside(reader->response, ours.value))
        ours.value = rota_arena_copy(reader->arena, ours.value);
    if (!ours.value.data || reader->entries.size >= ROTA_GET_KEYS_MAX ||
        !rota_vector_push(&reader->entries, ours))
        reader->has_failed = true;
}

void rota_get_read_problem(struct rota_get_reader *reader, const struct rota_get_problem *problem)
{
    struct rota_get_problem ours = *problem;
    if (ours.text.size == 0)
        ours.text = rota_str("");
    else if (!is_inside(reader->response, ours.text))
        ours.text = rota_arena_copy(reader->arena, ours.text);
    if (!ours.text.data || reader->problems.size >= ROTA_GET_KEYS_MAX ||
        !rota_vector_push(&reader->problems, ours))
        reader->has_failed = true;
}

void rota_get_read_shard(struct rota_get_reader *reader, const struct rota_interval_claim *shard)
{
    if (reader->shards.size >= ROTA_GET_SHARDS_MAX || !rota_vector_push(&reader->shards, *shard))
        reader->has_failed = true;
}

/* --- the cache --- */

uint64_t rota_get_hash(struct rota_str key)
{
    return rota_hash_farm32(key);
}

static uint64_t sharding_key(void *data, const void *key)
{
    (void)data;
    return rota_hash_farm32(*(const struct rota_str *)key);
}

static void name_key(void *data, const void *key, char *text, size_t size)
{
    char quoted[ROTA_QUOTE_MAX];
    (void)data;
    snprintf(text, size, "%s", rota_quote(*(const struct rota_str *)key, quoted));
}

/* Append the message, all of it or nothing. */
static enum rota_code write_message(const struct rota_message_type *type, const void *message,
                                    size_t n_keys, struct rota_buffer *buffer,
                                    struct rota_error *error)
{
    size_t before = buffer->size;
    if (n_keys <= ROTA_GET_KEYS_MAX)
        rota_message_encode(type, message, buffer);
    if (buffer->failed)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "the %s does not fit in memory",
                              type->name);
    if (n_keys <= ROTA_GET_KEYS_MAX && buffer->size - before <= ROTA_LEAN_MESSAGE_MAX)
        return ROTA_OK;
    buffer->size = before;
    return rota_error_set(error, ROTA_ERR_LIMIT,
                          "the %s has more keys or bytes than a message can hold", type->name);
}

static enum rota_code write_request(void *data, const void *const *keys, size_t n_keys,
                                    uint64_t epoch, struct rota_get_writer *writer,
                                    struct rota_error *error)
{
    (void)data;
    if (!rota_vector_reserve(&writer->keys, n_keys))
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "the request does not fit in memory");
    for (size_t i = 0; i < n_keys; i++)
        writer->keys.items[i] = *(const struct rota_str *)keys[i];
    const struct rota_cache_request request = {
        .key = {writer->keys.items, n_keys}, .epoch = epoch, .partial = n_keys > 0};
    return write_message(&ROTA_CACHE_REQUEST, &request, n_keys, &writer->buffer, error);
}

static enum rota_code read_response(void *data, struct rota_str bytes, struct rota_get_head *head,
                                    struct rota_get_reader *reader, struct rota_error *error)
{
    struct rota_cache_response response;
    (void)data;
    enum rota_code code =
        rota_message_decode(&ROTA_CACHE_RESPONSE, bytes, &response, reader->arena, error);
    if (code)
        return code;
    head->all_matched = response.all_matched;
    for (size_t i = 0; i < response.shard.n; i++)
        rota_get_read_shard(reader, (const struct rota_interval_claim *)response.shard.items + i);
    for (size_t i = 0; i < response.entry.n; i++)
        rota_get_read(reader, (const struct rota_get_entry *)response.entry.items + i);
    for (size_t i = 0; i < response.problem.n; i++)
        rota_get_read_problem(reader, (const struct rota_get_problem *)response.problem.items + i);
    return ROTA_OK;
}

static enum rota_code write_response(void *data, const struct rota_get_head *head,
                                     const struct rota_get_entry *entries, size_t n_entries,
                                     struct rota_get_writer *writer, struct rota_error *error)
{
    (void)data;
    const struct rota_cache_response response = {
        .entry = {entries, n_entries},
        .shard = {head->shards, head->n_shards},
        .all_matched = head->all_matched,
        .problem = {head->problems, head->n_problems},
    };
    size_t n_most = n_entries > head->n_problems ? n_entries : head->n_problems;
    return write_message(&ROTA_CACHE_RESPONSE, &response, n_most, &writer->buffer, error);
}

#define CACHE(the_method)                                                                          \
    {                                                                                              \
        .method = (the_method), .key_size = sizeof(struct rota_str), .sharding_key = sharding_key, \
        .name_key = name_key, .write_request = write_request, .read_response = read_response,      \
        .read_request = rota_get_server_read_request, .write_response = write_response             \
    }

const struct rota_get_service *rota_get_cache(void)
{
    static const struct rota_get_service cache = CACHE("/rota.v1.Cache/Get");
    return &cache;
}

const struct rota_get_service *rota_get_cache_relay(void)
{
    static const struct rota_get_service relay = CACHE("/rota.v1.Cache/Relay");
    return &relay;
}
