/* The bodies of requests over HTTP: any bytes are a message as JSON or none, and what is read is
 * the same when it is written and read again. The first byte says which message it is. */
#include "wire/message/message_json.h"
#include "wire/message/nodes_message.h"
#include "wire/message/queue_message.h"
#include "wire/message/space_message.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rota_message_type *const TYPES[] = {
    &ROTA_QUEUE_JOB_SPEC,
    &ROTA_NODES_CHANGE,
    &ROTA_SPACE_PIN_BODY,
    &ROTA_SPACE_MIGRATE_BODY,
};

/* Text and bytes take different forms in JSON, so messages are compared as they are on the wire. */
static void check_again(const struct rota_message_type *type, const void *message,
                        struct rota_arena *arena)
{
    struct rota_buffer text = {0}, before = {0}, after = {0};
    struct rota_json json = {.buffer = &text};
    struct rota_error error;
    void *again = rota_arena_take(arena, type->size);
    rota_message_encode(type, message, &before);
    rota_message_json_write(type, message, &json);
    assert(again && !text.failed && !before.failed);
    enum rota_code code =
        rota_message_json_read(type, rota_buffer_str(&text), again, arena, &error);
    assert(code == ROTA_OK);
    rota_message_encode(type, again, &after);
    assert(rota_str_is_equal(rota_buffer_str(&before), rota_buffer_str(&after)));
    rota_buffer_deinit(&text);
    rota_buffer_deinit(&before);
    rota_buffer_deinit(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_arena arena = {0};
    struct rota_error error = {0};
    if (size == 0)
        return 0;
    const struct rota_message_type *type = TYPES[data[0] % (sizeof TYPES / sizeof TYPES[0])];
    unsigned char *message = rota_arena_take(&arena, type->size);
    if (!message)
        abort();
    enum rota_code code =
        rota_message_json_read(type, rota_str_of(data + 1, size - 1), message, &arena, &error);
    if (code) {
        assert(error.code == code && error.text[0]);
        for (size_t i = 0; i < type->size; i++)
            assert(message[i] == 0);
    } else {
        check_again(type, message, &arena);
    }
    rota_arena_deinit(&arena);
    return 0;
}
