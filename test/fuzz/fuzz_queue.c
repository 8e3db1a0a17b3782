/* The messages of queues, by their tables: what is read can be written, and reads back the
 * same; a type with code of its own reads and writes, and refuses, as it would without. The
 * first byte says which message it is. */
#include "wire/message/queue_message.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rota_message_type *const types[] = {
    &ROTA_QUEUE_JOB_SPEC,   &ROTA_QUEUE_ADDED,          &ROTA_QUEUE_HANDED,
    &ROTA_QUEUE_COMPLETE,   &ROTA_QUEUE_COMPLETED,      &ROTA_QUEUE_ADD_BATCH,
    &ROTA_QUEUE_POLL_REPLY, &ROTA_QUEUE_COMPLETE_BATCH, &ROTA_QUEUE_POLL,
    &ROTA_QUEUE_LIST_REPLY, &ROTA_QUEUE_DESCRIPTION,    &ROTA_QUEUE_FAIL,
};
enum { N_TYPES = sizeof types / sizeof *types, MESSAGE_MAX = 1024 };

/* What is written of `bytes` once they are read. */
static enum rota_code pass(const struct rota_message_type *type, struct rota_str bytes,
                           struct rota_buffer *written, struct rota_error *error)
{
    _Alignas(max_align_t) char message[MESSAGE_MAX];
    struct rota_arena arena = {0};
    assert(type->size <= sizeof message);
    enum rota_code code = rota_message_decode(type, bytes, message, &arena, error);
    if (!code)
        rota_message_encode(type, message, written);
    assert(!written->failed);
    rota_arena_deinit(&arena);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct rota_message_type *type = types[data[0] % N_TYPES];
    struct rota_message_type plain = *type;
    struct rota_str bytes = rota_str_of(data + 1, size - 1);
    struct rota_buffer written = {0}, plainly = {0}, again = {0};
    struct rota_error error = {0}, plain_error = {0};
    plain.put = NULL;
    plain.get = NULL;
    enum rota_code code = pass(type, bytes, &written, &error);
    assert(code == pass(&plain, bytes, &plainly, &plain_error));
    assert(strcmp(error.text, plain_error.text) == 0);
    assert(rota_str_is_equal(rota_buffer_str(&written), rota_buffer_str(&plainly)));
    if (!code) {
        assert(!pass(type, rota_buffer_str(&written), &again, NULL));
        assert(rota_str_is_equal(rota_buffer_str(&written), rota_buffer_str(&again)));
    }
    rota_buffer_deinit(&written);
    rota_buffer_deinit(&plainly);
    rota_buffer_deinit(&again);
    return 0;
}
