/* rota.v1.Cache as a service, and what services write into and read from. */
#include "base/hash.h"
#include "base/quote.h"
#include "run/get_message.h"
#include "wire/lean.h"

#include <stdio.h>

void rota_get_writer_deinit(struct rota_get_writer *writer)
{
    rota_buffer_deinit(&writer->buffer);
    rota_cache_request_deinit(&writer->request);
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

void rota_get_reader_clear(struct rota_get_reader *reader)
{
    reader->entries.size = reader->problems.size = 0;
    rota_arena_clear(reader->arena);
}

void rota_get_reader_deinit(struct rota_get_reader *reader)
{
    rota_vector_deinit(&reader->entries);
    rota_vector_deinit(&reader->problems);
    rota_cache_response_deinit(&reader->scratch);
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

static enum rota_code not_written(enum rota_code code, const char *what, struct rota_error *error)
{
    if (code == ROTA_ERR_LIMIT)
        rota_error_set(error, code, "the %s has more keys or bytes than a message can have", what);
    else if (code)
        rota_error_set(error, code, "the %s does not fit into memory", what);
    return code;
}

static enum rota_code write_request(void *data, const void *const *keys, size_t n_keys,
                                    uint64_t epoch, struct rota_get_writer *writer,
                                    struct rota_error *error)
{
    struct rota_cache_request *request = &writer->request;
    (void)data;
    request->epoch = epoch;
    request->is_partial = n_keys > 0;
    request->keys.size = 0;
    if (!rota_vector_reserve(&request->keys, n_keys))
        return not_written(ROTA_ERR_NO_MEMORY, "request", error);
    for (size_t i = 0; i < n_keys; i++)
        request->keys.items[i] = *(const struct rota_str *)keys[i];
    request->keys.size = n_keys;
    return not_written(rota_cache_request_encode(request, &writer->buffer), "request", error);
}

static enum rota_code read_response(void *data, struct rota_str bytes, struct rota_get_head *head,
                                    struct rota_get_reader *reader, struct rota_error *error)
{
    struct rota_cache_response *response = &reader->scratch;
    (void)data;
    enum rota_code code = rota_cache_response_decode(response, bytes, error);
    if (code)
        return code;
    *head = (struct rota_get_head){.shard = response->shard,
                                   .epoch = response->epoch,
                                   .has_shard = response->has_shard,
                                   .all_matched = response->all_matched};
    for (size_t i = 0; i < response->entries.size; i++)
        rota_get_read(reader, &response->entries.items[i]);
    for (size_t i = 0; i < response->problems.size; i++)
        rota_get_read_problem(reader, &response->problems.items[i]);
    return ROTA_OK;
}

static enum rota_code write_response(void *data, const struct rota_get_head *head,
                                     const struct rota_get_entry *entries, size_t n_entries,
                                     struct rota_get_writer *writer, struct rota_error *error)
{
    (void)data;
    struct rota_cache_response response = {
        .shard = head->shard,
        .epoch = head->epoch,
        .has_shard = head->has_shard,
        .all_matched = head->all_matched,
    };
    response.entries.items = (struct rota_get_entry *)entries; /* they are only read */
    response.entries.size = n_entries;
    response.problems.items = (struct rota_get_problem *)head->problems; /* likewise */
    response.problems.size = head->n_problems;
    return not_written(rota_cache_response_encode(&response, &writer->buffer), "response", error);
}

const struct rota_get_service *rota_get_cache(void)
{
    static const struct rota_get_service cache = {
        .method = "/rota.v1.Cache/Get",
        .key_size = sizeof(struct rota_str),
        .sharding_key = sharding_key,
        .name_key = name_key,
        .write_request = write_request,
        .read_response = read_response,
        .read_request = rota_get_cache_read_request,
        .write_response = write_response,
    };
    return &cache;
}
