#include "messages.h"

#include "wire/cache_message.h"
#include "wire/lean.h"

enum { ECHO_ID = 1, ECHO_PAYLOAD };

struct echo {
    uint64_t id;
    struct rota_str payload;
};

/* One of each for the program's one thread. */
static struct rota_cache_request batch;
static struct rota_cache_response entries;

static bool put_echo(struct echo echo, struct rota_buffer *bytes)
{
    size_t size = rota_lean_number_size(ECHO_ID, echo.id) +
                  rota_lean_bytes_size(ECHO_PAYLOAD, echo.payload.size);
    uint8_t *to = (uint8_t *)rota_buffer_extend(bytes, size);
    if (!to)
        return false;
    to = rota_lean_put_number(to, ECHO_ID, echo.id);
    rota_lean_put_bytes(to, ECHO_PAYLOAD, echo.payload);
    return true;
}

static bool get_echo(struct rota_str bytes, struct echo *echo)
{
    struct rota_lean_reader reader = rota_lean_reader(bytes);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    *echo = (struct echo){0};
    while ((found = rota_lean_next(&reader, &field)) == ROTA_LEAN_FIELD) {
        if (field.number == ECHO_ID && field.type == ROTA_LEAN_VARINT)
            echo->id = field.value;
        else if (field.number == ECHO_PAYLOAD && field.type == ROTA_LEAN_BYTES)
            echo->payload = field.bytes;
        else
            return false;
    }
    return found == ROTA_LEAN_END;
}

void messages_ask(bool is_batch, uint64_t id, struct rota_buffer *bytes)
{
    static char payload[LOAD_PAYLOAD_SIZE], keys[LOAD_KEYS][LOAD_KEY_SIZE];
    rota_buffer_clear(bytes);
    if (!is_batch) {
        load_payload(id, payload);
        if (!put_echo((struct echo){id, rota_str_of(payload, sizeof payload)}, bytes))
            load_fail("no memory");
        return;
    }
    batch.keys.size = 0;
    batch.epoch = id;
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        load_key(id, i, keys[i]);
        if (!rota_vector_push(&batch.keys, rota_str_of(keys[i], LOAD_KEY_SIZE)))
            load_fail("no memory");
    }
    if (rota_cache_request_encode(&batch, bytes))
        load_fail("no memory");
}

static bool is_echo_right(uint64_t id, struct rota_str reply)
{
    char payload[LOAD_PAYLOAD_SIZE];
    struct echo echo;
    load_payload(id, payload);
    return get_echo(reply, &echo) && echo.id == id &&
           rota_str_is_equal(echo.payload, rota_str_of(payload, sizeof payload));
}

bool messages_is_right(bool is_batch, uint64_t id, struct rota_str reply)
{
    if (!is_batch)
        return is_echo_right(id, reply);
    if (rota_cache_response_decode(&entries, reply, NULL) || entries.epoch != id ||
        entries.entries.size != LOAD_KEYS || !entries.all_matched || entries.shard.to != 64)
        return false;
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        const struct rota_get_entry *entry = &entries.entries.items[i];
        char key[LOAD_KEY_SIZE], value[LOAD_VALUE_SIZE];
        load_key(id, i, key);
        load_value(key, value);
        if (entry->id != i || !rota_str_is_equal(entry->value, rota_str_of(value, sizeof value)))
            return false;
    }
    return true;
}

bool messages_answer(bool is_batch, struct rota_str request, struct rota_buffer *reply)
{
    static char values[LOAD_KEYS][LOAD_VALUE_SIZE];
    struct echo echo;
    if (!is_batch)
        return get_echo(request, &echo) && put_echo(echo, reply);
    if (rota_cache_request_decode(&batch, request, NULL) || batch.keys.size > LOAD_KEYS)
        return false;
    entries.entries.size = 0;
    for (unsigned i = 0; i < batch.keys.size; i++) {
        struct rota_get_entry entry = {i, {values[i], LOAD_VALUE_SIZE}};
        if (batch.keys.items[i].size != LOAD_KEY_SIZE)
            return false;
        load_value(batch.keys.items[i].data, values[i]);
        if (!rota_vector_push(&entries.entries, entry))
            return false;
    }
    entries.has_shard = entries.all_matched = true;
    entries.shard = (struct rota_interval){0, 64, 64};
    entries.epoch = batch.epoch;
    return rota_cache_response_encode(&entries, reply) == ROTA_OK;
}
