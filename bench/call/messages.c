#include "messages.h"

#include "wire/message/cache_message.h"
#include "wire/message/message_table.h"

struct echo {
    uint64_t id;
    struct rota_str payload;
};

#define THIS struct echo
static const struct rota_message_field ECHO_FIELDS[] = {F(1, UINT, id), F_BYTES(2, payload)};
#undef THIS
extern const struct rota_message_type ECHO_TYPE;
HOT_TYPE(ECHO_TYPE, "echo", struct echo, ECHO_FIELDS);

/* For the program's one thread: the lists of what was read. */
static struct rota_arena arena;

static bool put_message(const struct rota_message_type *type, const void *message,
                        struct rota_buffer *bytes)
{
    rota_message_encode(type, message, bytes);
    return !bytes->failed;
}

static bool get_message(const struct rota_message_type *type, struct rota_str bytes, void *message)
{
    rota_arena_clear(&arena);
    return rota_message_decode(type, bytes, message, &arena, NULL) == ROTA_OK;
}

void messages_ask(bool is_batch, uint64_t id, struct rota_buffer *bytes)
{
    static char payload[LOAD_PAYLOAD_SIZE], keys[LOAD_KEYS][LOAD_KEY_SIZE];
    static struct rota_str strs[LOAD_KEYS];
    rota_buffer_clear(bytes);
    if (!is_batch) {
        load_payload(id, payload);
        const struct echo echo = {id, rota_str_of(payload, sizeof payload)};
        if (!put_message(&ECHO_TYPE, &echo, bytes))
            load_fail("no memory");
        return;
    }
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        load_key(id, i, keys[i]);
        strs[i] = rota_str_of(keys[i], LOAD_KEY_SIZE);
    }
    const struct rota_cache_request request = {.key = {strs, LOAD_KEYS}, .epoch = id};
    if (!put_message(&ROTA_CACHE_REQUEST, &request, bytes))
        load_fail("no memory");
}

static bool is_echo_right(uint64_t id, struct rota_str reply)
{
    char payload[LOAD_PAYLOAD_SIZE];
    struct echo echo;
    load_payload(id, payload);
    return !rota_message_decode(&ECHO_TYPE, reply, &echo, NULL, NULL) && echo.id == id &&
           rota_str_is_equal(echo.payload, rota_str_of(payload, sizeof payload));
}

bool messages_is_right(bool is_batch, uint64_t id, struct rota_str reply)
{
    struct rota_cache_response response;
    if (!is_batch)
        return is_echo_right(id, reply);
    if (!get_message(&ROTA_CACHE_RESPONSE, reply, &response))
        return false;
    const struct rota_get_entry *entries = response.entry.items;
    const struct rota_interval_claim *shard = response.shard.items;
    if (response.entry.n != LOAD_KEYS || !response.all_matched || response.shard.n != 1 ||
        shard->epoch != id || shard->interval.to != 64)
        return false;
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        char key[LOAD_KEY_SIZE], value[LOAD_VALUE_SIZE];
        load_key(id, i, key);
        load_value(key, value);
        if (entries[i].id != i ||
            !rota_str_is_equal(entries[i].value, rota_str_of(value, sizeof value)))
            return false;
    }
    return true;
}

bool messages_answer(bool is_batch, struct rota_str request, struct rota_buffer *reply)
{
    static char values[LOAD_KEYS][LOAD_VALUE_SIZE];
    static struct rota_get_entry entries[LOAD_KEYS];
    struct rota_cache_request batch;
    struct echo echo;
    if (!is_batch)
        return !rota_message_decode(&ECHO_TYPE, request, &echo, NULL, NULL) &&
               put_message(&ECHO_TYPE, &echo, reply);
    if (!get_message(&ROTA_CACHE_REQUEST, request, &batch) || batch.key.n > LOAD_KEYS)
        return false;
    for (unsigned i = 0; i < batch.key.n; i++) {
        if (batch.key.items[i].size != LOAD_KEY_SIZE)
            return false;
        load_value(batch.key.items[i].data, values[i]);
        entries[i] = (struct rota_get_entry){i, {values[i], LOAD_VALUE_SIZE}};
    }
    const struct rota_interval_claim shard = {{0, 64, 64}, batch.epoch};
    const struct rota_cache_response response = {
        .entry = {entries, batch.key.n}, .shard = {&shard, 1}, .all_matched = true};
    return put_message(&ROTA_CACHE_RESPONSE, &response, reply);
}
