#include "oracle.h"

#include "wire/message/lean.h"

#include <assert.h>
#include <stdlib.h>

enum { LIST_MAX = 3, TEXT_MAX = 200 };

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *theirs,
                                                const struct rota_message_field *field)
{
    return protobuf_c_message_descriptor_get_field(theirs, field->number);
}

/* --- tables --- */

static bool has_kind(const struct rota_message_field *field, const ProtobufCFieldDescriptor *other)
{
    bool is_list = other->label == PROTOBUF_C_LABEL_REPEATED;
    bool is_message = other->type == PROTOBUF_C_TYPE_MESSAGE;
    bool is_text = other->type == PROTOBUF_C_TYPE_STRING || other->type == PROTOBUF_C_TYPE_BYTES;
    if (field->form == ROTA_MESSAGE_PACKED)
        return field->kind == ROTA_MESSAGE_STR && is_list &&
               (other->type == PROTOBUF_C_TYPE_UINT32 || other->type == PROTOBUF_C_TYPE_UINT64);
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
        return !is_list &&
               (other->type == PROTOBUF_C_TYPE_UINT32 || other->type == PROTOBUF_C_TYPE_UINT64 ||
                other->type == PROTOBUF_C_TYPE_ENUM);
    case ROTA_MESSAGE_INT:
        return !is_list &&
               (other->type == PROTOBUF_C_TYPE_INT32 || other->type == PROTOBUF_C_TYPE_INT64);
    case ROTA_MESSAGE_SINT:
        return !is_list &&
               (other->type == PROTOBUF_C_TYPE_SINT32 || other->type == PROTOBUF_C_TYPE_SINT64);
    case ROTA_MESSAGE_BOOL:
        return !is_list && other->type == PROTOBUF_C_TYPE_BOOL;
    case ROTA_MESSAGE_STR: /* or a message that is not looked into */
        return !is_list && (is_text || is_message);
    case ROTA_MESSAGE_STRS:
        return is_list && is_text;
    case ROTA_MESSAGE_INNER:
        return !is_list && is_message;
    case ROTA_MESSAGE_INNERS:
        return is_list && is_message;
    }
    return false;
}

bool oracle_has_table(const struct rota_message_type *ours,
                      const ProtobufCMessageDescriptor *theirs, bool with_names, const char **where)
{
    size_t n_lists = 0;
    for (unsigned i = 0; i < theirs->n_fields; i++)
        n_lists += theirs->fields[i].label == PROTOBUF_C_LABEL_REPEATED &&
                   theirs->fields[i].type < PROTOBUF_C_TYPE_STRING;
    for (size_t i = 0; i < ours->n_fields; i++)
        n_lists -= ours->fields[i].form == ROTA_MESSAGE_PACKED;
    *where = ours->name;
    if (ours->n_fields + n_lists != theirs->n_fields)
        return false;
    for (size_t i = 0; i < ours->n_fields; i++) {
        const struct rota_message_field *field = &ours->fields[i];
        const ProtobufCFieldDescriptor *other = field_of(theirs, field);
        *where = field->name;
        if (!other || (with_names && strcmp(other->name, field->name) != 0) ||
            !has_kind(field, other) ||
            (field->type && !oracle_has_table(field->type, other->descriptor, with_names, where)))
            return false;
    }
    return true;
}

/* --- messages --- */

static struct rota_str any_text(struct rota_random *random)
{
    static char text[TEXT_MAX];
    memset(text, 'x', sizeof text);
    size_t max = rota_random_chance(random, 0.1) ? TEXT_MAX : 20;
    return rota_str_of(text, rota_random_below(random, max));
}

/* Of as many bits as both have. */
static uint64_t any_number(const struct rota_message_field *field,
                           const ProtobufCFieldDescriptor *other, struct rota_random *random)
{
    bool is_short = other->type == PROTOBUF_C_TYPE_UINT32 || other->type == PROTOBUF_C_TYPE_INT32 ||
                    other->type == PROTOBUF_C_TYPE_SINT32 || other->type == PROTOBUF_C_TYPE_ENUM;
    uint64_t number = rota_random_next(random) >> rota_random_below(random, 64);
    if (is_short)
        number &= INT32_MAX;
    if (field->kind == ROTA_MESSAGE_INT && rota_random_chance(random, 0.5))
        number = -number;
    return field->max ? number % (field->max + 1) : number;
}

static struct rota_str any_numbers(const ProtobufCFieldDescriptor *other, size_t n,
                                   struct rota_arena *arena, struct rota_random *random)
{
    static const struct rota_message_field PLAIN = {.kind = ROTA_MESSAGE_UINT};
    uint8_t *numbers = rota_arena_take(arena, 10 * n + 1), *to = numbers;
    assert(numbers);
    for (size_t i = 0; i < n; i++)
        to = rota_lean_put_varint(to, any_number(&PLAIN, other, random));
    return rota_str_of(numbers, (size_t)(to - numbers));
}

static void any_message(const struct rota_message_type *ours,
                        const ProtobufCMessageDescriptor *theirs, void *message,
                        struct rota_arena *arena, struct rota_random *random);

static void *any_messages(const struct rota_message_field *field,
                          const ProtobufCFieldDescriptor *other, size_t n, struct rota_arena *arena,
                          struct rota_random *random)
{
    char *messages = rota_arena_take(arena, n * field->type->size + 1);
    assert(messages);
    for (size_t i = 0; i < n; i++)
        any_message(field->type, other->descriptor, messages + i * field->type->size, arena,
                    random);
    return messages;
}

static void any_value(const struct rota_message_field *field, const ProtobufCFieldDescriptor *other,
                      void *value, struct rota_arena *arena, struct rota_random *random)
{
    size_t n = rota_random_below(random, LIST_MAX + 1);
    struct rota_str *strs;
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
    case ROTA_MESSAGE_INT:
    case ROTA_MESSAGE_SINT:
        *(uint64_t *)value = any_number(field, other, random);
        return;
    case ROTA_MESSAGE_BOOL:
        *(bool *)value = true;
        return;
    case ROTA_MESSAGE_STR:
        if (field->form == ROTA_MESSAGE_PACKED)
            *(struct rota_str *)value = any_numbers(other, n, arena, random);
        else if (other->type != PROTOBUF_C_TYPE_MESSAGE)
            *(struct rota_str *)value = any_text(random);
        return;
    case ROTA_MESSAGE_STRS:
        strs = rota_arena_take(arena, n * sizeof *strs + 1);
        assert(strs);
        for (size_t i = 0; i < n; i++)
            strs[i] = any_text(random);
        *(struct rota_message_strs *)value = (struct rota_message_strs){strs, n};
        return;
    case ROTA_MESSAGE_INNER:
        *(const void **)value = any_messages(field, other, 1, arena, random);
        return;
    case ROTA_MESSAGE_INNERS:
        *(struct rota_message_list *)value =
            (struct rota_message_list){any_messages(field, other, n, arena, random), n};
        return;
    }
}

/* Of a oneof one member is given. */
static void any_message(const struct rota_message_type *ours,
                        const ProtobufCMessageDescriptor *theirs, void *message,
                        struct rota_arena *arena, struct rota_random *random)
{
    bool has_one = false;
    memset(message, 0, ours->size);
    for (size_t i = 0; i < ours->n_fields; i++) {
        const struct rota_message_field *field = &ours->fields[i];
        const ProtobufCFieldDescriptor *other = field_of(theirs, field);
        bool is_one = other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
        if (rota_random_chance(random, 0.4) || (is_one && has_one))
            continue;
        has_one |= is_one;
        any_value(field, other, (char *)message + field->offset, arena, random);
    }
}

static struct rota_buffer pack(const ProtobufCMessage *message)
{
    struct rota_buffer packed = {0};
    char *to = rota_buffer_extend(&packed, protobuf_c_message_get_packed_size(message));
    assert(to);
    protobuf_c_message_pack(message, (uint8_t *)to);
    return packed;
}

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *theirs, struct rota_str bytes)
{
    return protobuf_c_message_unpack(theirs, NULL, bytes.size, (const uint8_t *)bytes.data);
}

/* Whether our table reads the bytes; if so, what it writes then. */
static enum rota_code rewrite(const struct rota_message_type *ours, struct rota_str bytes,
                              struct rota_buffer *written)
{
    struct rota_arena arena = {0};
    void *message = rota_arena_take(&arena, ours->size);
    assert(message);
    enum rota_code code = rota_message_decode(ours, bytes, message, &arena, NULL);
    if (!code)
        rota_message_encode(ours, message, written);
    assert(!written->failed);
    rota_arena_deinit(&arena);
    return code;
}

bool oracle_agrees(const struct rota_message_type *ours, const ProtobufCMessageDescriptor *theirs,
                   struct rota_random *random)
{
    struct rota_arena arena = {0};
    struct rota_buffer written = {0}, again = {0}, packed = {0};
    void *message = rota_arena_take(&arena, ours->size);
    assert(message);
    any_message(ours, theirs, message, &arena, random);
    rota_message_encode(ours, message, &written);
    ProtobufCMessage *read = unpack(theirs, rota_buffer_str(&written));
    if (read)
        packed = pack(read);
    bool is_same = read && !rewrite(ours, rota_buffer_str(&packed), &again) &&
                   rota_str_is_equal(rota_buffer_str(&packed), rota_buffer_str(&written)) &&
                   rota_str_is_equal(rota_buffer_str(&again), rota_buffer_str(&written));
    if (read)
        protobuf_c_message_free_unpacked(read, NULL);
    rota_buffer_deinit(&written);
    rota_buffer_deinit(&again);
    rota_buffer_deinit(&packed);
    rota_arena_deinit(&arena);
    return is_same;
}

/* --- any bytes --- */

/* The fields that a later version may have and we do not keep. */
static void forget_unknown(ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        free(message->unknown_fields[i].data);
    free(message->unknown_fields);
    message->unknown_fields = NULL;
    message->n_unknown_fields = 0;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        char *value = (char *)message + field->offset;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(size_t *)((char *)message + field->quantifier_offset);
            for (size_t k = 0; k < n; k++)
                forget_unknown((*(ProtobufCMessage ***)value)[k]);
        } else if (*(ProtobufCMessage **)value) {
            forget_unknown(*(ProtobufCMessage **)value);
        }
    }
}

/* protobuf-c's strings end at a NUL. */
static bool has_strings(const ProtobufCMessageDescriptor *theirs)
{
    for (unsigned i = 0; i < theirs->n_fields; i++)
        if (theirs->fields[i].type == PROTOBUF_C_TYPE_STRING ||
            (theirs->fields[i].type == PROTOBUF_C_TYPE_MESSAGE &&
             has_strings(theirs->fields[i].descriptor)))
            return true;
    return false;
}

void oracle_check(const struct rota_message_type *ours, const ProtobufCMessageDescriptor *theirs,
                  struct rota_str bytes)
{
    bool may_be_cut = has_strings(theirs) && bytes.size && memchr(bytes.data, '\0', bytes.size);
    struct rota_buffer written = {0}, again = {0};
    enum rota_code code = rewrite(ours, bytes, &written);
    ProtobufCMessage *read = unpack(theirs, bytes);
    assert(code || read);
    if (read) {
        forget_unknown(read);
        struct rota_buffer packed = pack(read);
        enum rota_code packed_code = rewrite(ours, rota_buffer_str(&packed), &again);
        assert(!packed_code || (code && packed_code == ROTA_ERR_LIMIT));
        assert(packed_code || rota_str_is_equal(rota_buffer_str(&again), rota_buffer_str(&packed)));
        assert(code || may_be_cut ||
               rota_str_is_equal(rota_buffer_str(&written), rota_buffer_str(&packed)));
        rota_buffer_deinit(&packed);
        protobuf_c_message_free_unpacked(read, NULL);
    }
    rota_buffer_deinit(&written);
    rota_buffer_deinit(&again);
}
