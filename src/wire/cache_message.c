#include "wire/cache_message.h"

#include "wire/lean.h"

/* The numbers of the fields. */
enum { REQUEST_KEY = 1, REQUEST_EPOCH, REQUEST_PARTIAL };
enum { ENTRY_ID = 1, ENTRY_VALUE }; /* of a problem too */
enum { SHARD_FROM = 1, SHARD_TO, SHARD_OF };
enum { RESPONSE_ENTRY = 1, RESPONSE_SHARD, RESPONSE_EPOCH, RESPONSE_ALL_MATCHED, RESPONSE_PROBLEM };

void rota_cache_request_deinit(struct rota_cache_request *request)
{
    rota_vector_deinit(&request->keys);
}

void rota_cache_response_deinit(struct rota_cache_response *response)
{
    rota_vector_deinit(&response->entries);
    rota_vector_deinit(&response->problems);
}

/* --- encoding --- */

/* The most that a field of ours takes beside its bytes. All tags are short. */
enum {
    NUMBER_MAX = 1 + ROTA_LEAN_VARINT_MAX,
    BYTES_MAX = 1 + ROTA_LEAN_SIZE_MAX,
    ENTRY_MAX = BYTES_MAX + NUMBER_MAX + BYTES_MAX,
    SHARD_MAX = BYTES_MAX + 3 * NUMBER_MAX,
    ENTRY_SHORT = 127 - NUMBER_MAX - 2, /* bytes of a value whose entry's size is one byte */
};

/* Give back the room from `end` on. */
static enum rota_code settle(struct rota_buffer *buffer, size_t before, const uint8_t *end)
{
    bool fits = (size_t)((const char *)end - buffer->data) - before <= ROTA_LEAN_MESSAGE_MAX;
    buffer->size = fits ? (size_t)((const char *)end - buffer->data) : before;
    buffer->data[buffer->size] = '\0';
    return fits ? ROTA_OK : ROTA_ERR_LIMIT;
}

enum rota_code rota_cache_request_encode(const struct rota_cache_request *request,
                                         struct rota_buffer *buffer)
{
    size_t before = buffer->size, size = 2 * NUMBER_MAX;
    if (request->keys.size > ROTA_CACHE_KEYS_MAX)
        return ROTA_ERR_LIMIT;
    for (size_t i = 0; i < request->keys.size; i++) {
        if (request->keys.items[i].size > ROTA_LEAN_MESSAGE_MAX)
            return ROTA_ERR_LIMIT;
        size += BYTES_MAX + request->keys.items[i].size;
    }
    uint8_t *to = (uint8_t *)rota_buffer_extend(buffer, size);
    if (!to)
        return ROTA_ERR_NO_MEMORY;
    for (size_t i = 0; i < request->keys.size; i++)
        to = rota_lean_put_bytes(to, REQUEST_KEY, request->keys.items[i]);
    to = rota_lean_put_number(to, REQUEST_EPOCH, request->epoch);
    return settle(buffer, before, rota_lean_put_number(to, REQUEST_PARTIAL, request->is_partial));
}

/* An empty value is not written, as a number that is 0 is not. */
static uint8_t *put_entry_content(uint8_t *to, const struct rota_get_entry *entry)
{
    to = rota_lean_put_number(to, ENTRY_ID, entry->id);
    return entry->value.size ? rota_lean_put_bytes(to, ENTRY_VALUE, entry->value) : to;
}

/* A problem is written in the same way as an entry, under its own number. */
static uint8_t *put_entry(uint8_t *to, uint32_t field, const struct rota_get_entry *entry)
{
    size_t value_size = entry->value.size;
    if (value_size <= ENTRY_SHORT) { /* write first, then say how much it was */
        uint8_t *end = put_entry_content(to + 2, entry);
        rota_lean_put_size(to, field, (size_t)(end - to - 2));
        return end;
    }
    size_t size =
        rota_lean_number_size(ENTRY_ID, entry->id) + rota_lean_bytes_size(ENTRY_VALUE, value_size);
    return put_entry_content(rota_lean_put_size(to, field, size), entry);
}

static uint8_t *put_shard(uint8_t *to, const struct rota_interval *shard)
{
    size_t size = rota_lean_number_size(SHARD_FROM, shard->from) +
                  rota_lean_number_size(SHARD_TO, shard->to) +
                  rota_lean_number_size(SHARD_OF, shard->of);
    to = rota_lean_put_size(to, RESPONSE_SHARD, size);
    to = rota_lean_put_number(to, SHARD_FROM, shard->from);
    to = rota_lean_put_number(to, SHARD_TO, shard->to);
    return rota_lean_put_number(to, SHARD_OF, shard->of);
}

enum rota_code rota_cache_response_encode(const struct rota_cache_response *response,
                                          struct rota_buffer *buffer)
{
    size_t before = buffer->size, size = SHARD_MAX + 2 * NUMBER_MAX;
    if (response->entries.size > ROTA_CACHE_KEYS_MAX ||
        response->problems.size > ROTA_CACHE_KEYS_MAX)
        return ROTA_ERR_LIMIT;
    for (size_t i = 0; i < response->entries.size; i++) {
        if (response->entries.items[i].value.size > ROTA_LEAN_MESSAGE_MAX)
            return ROTA_ERR_LIMIT;
        size += ENTRY_MAX + response->entries.items[i].value.size;
    }
    for (size_t i = 0; i < response->problems.size; i++) {
        if (response->problems.items[i].text.size > ROTA_LEAN_MESSAGE_MAX)
            return ROTA_ERR_LIMIT;
        size += ENTRY_MAX + response->problems.items[i].text.size;
    }
    uint8_t *to = (uint8_t *)rota_buffer_extend(buffer, size);
    if (!to)
        return ROTA_ERR_NO_MEMORY;
    for (size_t i = 0; i < response->entries.size; i++)
        to = put_entry(to, RESPONSE_ENTRY, &response->entries.items[i]);
    if (response->has_shard)
        to = put_shard(to, &response->shard);
    to = rota_lean_put_number(to, RESPONSE_EPOCH, response->epoch);
    to = rota_lean_put_number(to, RESPONSE_ALL_MATCHED, response->all_matched);
    for (size_t i = 0; i < response->problems.size; i++) {
        const struct rota_get_problem *problem = &response->problems.items[i];
        to = put_entry(to, RESPONSE_PROBLEM, &(struct rota_get_entry){problem->id, problem->text});
    }
    return settle(buffer, before, to);
}

/* --- decoding --- */

static bool get_number(const struct rota_lean_field *field, uint64_t *value)
{
    *value = field->value;
    return field->type == ROTA_LEAN_VARINT;
}

static enum rota_code request_field(struct rota_cache_request *request,
                                    const struct rota_lean_field *field)
{
    if (field->number == REQUEST_KEY) {
        if (field->type != ROTA_LEAN_BYTES)
            return ROTA_ERR_INVALID;
        if (request->keys.size >= ROTA_CACHE_KEYS_MAX)
            return ROTA_ERR_LIMIT;
        return rota_vector_push(&request->keys, field->bytes) ? ROTA_OK : ROTA_ERR_NO_MEMORY;
    }
    if (field->number == REQUEST_EPOCH && !get_number(field, &request->epoch))
        return ROTA_ERR_INVALID;
    uint64_t number;
    if (field->number == REQUEST_PARTIAL) {
        if (!get_number(field, &number))
            return ROTA_ERR_INVALID;
        request->is_partial = number != 0;
    }
    return ROTA_OK;
}

static enum rota_code refused(struct rota_error *error, enum rota_code code, const char *what)
{
    const char *why = "has fields that are malformed";
    if (code == ROTA_ERR_LIMIT)
        return rota_error_set(error, code, "the %s has more than %d keys", what,
                              (int)ROTA_CACHE_KEYS_MAX);
    if (code == ROTA_ERR_NO_MEMORY)
        why = "does not fit into memory";
    return rota_error_set(error, code, "the %s %s", what, why);
}

static void request_clear(struct rota_cache_request *request)
{
    request->keys.size = 0;
    request->epoch = 0;
    request->is_partial = false;
}

enum rota_code rota_cache_request_decode(struct rota_cache_request *request, struct rota_str bytes,
                                         struct rota_error *error)
{
    struct rota_lean_reader reader = rota_lean_reader(bytes);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    enum rota_code code = ROTA_OK;
    request_clear(request);
    while (!code && (found = rota_lean_next(&reader, &field)) != ROTA_LEAN_END)
        code = found == ROTA_LEAN_FIELD ? request_field(request, &field) : ROTA_ERR_INVALID;
    if (!code)
        return ROTA_OK;
    request_clear(request);
    return refused(error, code, "request");
}

static bool get_entry(struct rota_str bytes, struct rota_get_entry *entry)
{
    struct rota_lean_reader reader = rota_lean_reader(bytes);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    *entry = (struct rota_get_entry){0};
    while ((found = rota_lean_next(&reader, &field)) == ROTA_LEAN_FIELD) {
        if (field.number == ENTRY_VALUE) {
            if (field.type != ROTA_LEAN_BYTES)
                return false;
            entry->value = field.bytes;
        } else if (field.number == ENTRY_ID && !get_number(&field, &entry->id)) {
            return false;
        }
    }
    return found == ROTA_LEAN_END;
}

static bool get_shard(struct rota_str bytes, struct rota_interval *shard)
{
    struct rota_lean_reader reader = rota_lean_reader(bytes);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    uint64_t values[SHARD_OF + 1] = {0};
    while ((found = rota_lean_next(&reader, &field)) == ROTA_LEAN_FIELD)
        if (field.number <= SHARD_OF && !get_number(&field, &values[field.number]))
            return false;
    /* One that comes twice is merged: what is said later counts. */
    if (values[SHARD_FROM])
        shard->from = values[SHARD_FROM];
    if (values[SHARD_TO])
        shard->to = values[SHARD_TO];
    if (values[SHARD_OF])
        shard->of = values[SHARD_OF];
    return found == ROTA_LEAN_END;
}

static enum rota_code add_entry(struct rota_cache_response *response, struct rota_str bytes)
{
    if (response->entries.size >= ROTA_CACHE_KEYS_MAX)
        return ROTA_ERR_LIMIT;
    if (!rota_vector_reserve(&response->entries, response->entries.size + 1))
        return ROTA_ERR_NO_MEMORY;
    if (!get_entry(bytes, &response->entries.items[response->entries.size]))
        return ROTA_ERR_INVALID;
    response->entries.size++;
    return ROTA_OK;
}

static enum rota_code add_problem(struct rota_cache_response *response, struct rota_str bytes)
{
    struct rota_get_entry entry;
    if (response->problems.size >= ROTA_CACHE_KEYS_MAX)
        return ROTA_ERR_LIMIT;
    if (!get_entry(bytes, &entry))
        return ROTA_ERR_INVALID;
    struct rota_get_problem problem = {entry.id, entry.value};
    return rota_vector_push(&response->problems, problem) ? ROTA_OK : ROTA_ERR_NO_MEMORY;
}

static enum rota_code response_field(struct rota_cache_response *response,
                                     const struct rota_lean_field *field)
{
    uint64_t number;
    bool is_bytes = field->type == ROTA_LEAN_BYTES;
    switch (field->number) {
    case RESPONSE_ENTRY:
        return is_bytes ? add_entry(response, field->bytes) : ROTA_ERR_INVALID;
    case RESPONSE_SHARD:
        response->has_shard = true;
        return is_bytes && get_shard(field->bytes, &response->shard) ? ROTA_OK : ROTA_ERR_INVALID;
    case RESPONSE_EPOCH:
        return get_number(field, &response->epoch) ? ROTA_OK : ROTA_ERR_INVALID;
    case RESPONSE_ALL_MATCHED:
        if (!get_number(field, &number))
            return ROTA_ERR_INVALID;
        response->all_matched = number != 0;
        return ROTA_OK;
    case RESPONSE_PROBLEM:
        return is_bytes ? add_problem(response, field->bytes) : ROTA_ERR_INVALID;
    default: /* of later times */
        return ROTA_OK;
    }
}

static void response_clear(struct rota_cache_response *response)
{
    response->entries.size = response->problems.size = 0;
    response->shard = (struct rota_interval){0};
    response->epoch = 0;
    response->has_shard = response->all_matched = false;
}

enum rota_code rota_cache_response_decode(struct rota_cache_response *response,
                                          struct rota_str bytes, struct rota_error *error)
{
    struct rota_lean_reader reader = rota_lean_reader(bytes);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    enum rota_code code = ROTA_OK;
    response_clear(response);
    while (!code && (found = rota_lean_next(&reader, &field)) != ROTA_LEAN_END)
        code = found == ROTA_LEAN_FIELD ? response_field(response, &field) : ROTA_ERR_INVALID;
    if (!code)
        return ROTA_OK;
    response_clear(response);
    return refused(error, code, "response");
}
