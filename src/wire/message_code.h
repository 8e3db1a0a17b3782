/* The writer and the reader of messages, in pieces that can be compiled for one table of fields.
 *
 * Where the table is a constant the compiler unrolls the loop over it, and what remains is the
 * code that one would write by hand for these fields. HOT_TYPE in message_table.h does so for
 * messages that are in the life of every job; all others share the loops in message.c.
 *
 * Writing goes straight into the memory behind what the buffer holds, and becomes part of it
 * when all of it is there. A message first makes room for the largest it can be, then it is
 * written without looking back. Each function takes where to write and returns where the next
 * goes, NULL when there is no memory. */
#pragma once

#include "wire/lean.h"
#include "wire/message.h"

#define ROTA_MESSAGE_INLINE __attribute__((always_inline)) static inline
#ifdef __clang__
#define ROTA_MESSAGE_UNROLL /* it would warn where a sanitizer is in the way */
#else
#define ROTA_MESSAGE_UNROLL _Pragma("GCC unroll 32")
#endif

/* --- writing --- */

/* The tag of a field, with a number or a size. */
enum { ROTA_MESSAGE_HEAD_MAX = ROTA_LEAN_SIZE_MAX + ROTA_LEAN_VARINT_MAX };

/* What was written so far moves along, and what the buffer holds stays what it is. */
uint8_t *rota_message_grow(struct rota_buffer *buffer, uint8_t *at, size_t size);

/* The last byte of a buffer is for a NUL. */
ROTA_MESSAGE_INLINE uint8_t *rota_message_make_room(struct rota_buffer *buffer, uint8_t *at,
                                                    size_t size)
{
    size_t left = (size_t)((uint8_t *)buffer->data + buffer->capacity - at);
    return size < left ? at : rota_message_grow(buffer, at, size);
}

/* A list or a message: it makes room for itself, and again for `ahead` behind it. */
uint8_t *rota_message_put_nested(struct rota_buffer *buffer, uint8_t *at,
                                 const struct rota_message_field *field, const void *value,
                                 size_t ahead);

/* The most that a field takes, but for one that makes room for itself. */
ROTA_MESSAGE_INLINE size_t rota_message_bound(const struct rota_message_field *field,
                                              const void *message)
{
    const void *value = (const char *)message + field->offset;
    size_t size = field->kind == ROTA_MESSAGE_STR ? ((const struct rota_str *)value)->size : 0;
    return ROTA_MESSAGE_HEAD_MAX + size;
}

/* Most fields of most messages are empty: those cost a look. */
ROTA_MESSAGE_INLINE uint8_t *rota_message_put_field(struct rota_buffer *buffer, uint8_t *at,
                                                    const struct rota_message_field *field,
                                                    const void *message, size_t ahead)
{
    const void *value = (const char *)message + field->offset;
    const struct rota_str *bytes = value;
    const uint64_t *number = value;
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
        return rota_lean_put_number(at, field->number, *number);
    case ROTA_MESSAGE_SINT:
        return rota_lean_put_number(at, field->number, *number << 1 ^ -(*number >> 63));
    case ROTA_MESSAGE_BOOL:
        return rota_lean_put_number(at, field->number, *(const bool *)value);
    case ROTA_MESSAGE_STR:
        return bytes->size ? rota_lean_put_bytes(at, field->number, *bytes) : at;
    case ROTA_MESSAGE_STRS:
    case ROTA_MESSAGE_INNER:
    case ROTA_MESSAGE_INNERS:
        break;
    }
    return rota_message_put_nested(buffer, at, field, value, ahead);
}

/* For a constant table. */
ROTA_MESSAGE_INLINE uint8_t *rota_message_put(struct rota_buffer *buffer, uint8_t *at,
                                              const struct rota_message_field *fields,
                                              size_t n_fields, const void *message)
{
    size_t ahead = 0;
    ROTA_MESSAGE_UNROLL
    for (size_t i = 0; i < n_fields; i++)
        ahead += rota_message_bound(&fields[i], message);
    at = rota_message_make_room(buffer, at, ahead);
    ROTA_MESSAGE_UNROLL
    for (size_t i = 0; i < n_fields; i++) {
        if (!at)
            return NULL;
        at = rota_message_put_field(buffer, at, &fields[i], message, ahead);
    }
    return at;
}

/* --- reading --- */

struct rota_message_reader {
    struct rota_arena *arena;
    struct rota_error *error;
    int depth;
};

/* All that is left of a message, in whatever order and form. */
enum rota_code rota_message_get_rest(struct rota_message_reader *reader,
                                     const struct rota_message_type *type,
                                     struct rota_lean_reader rest, void *message);

ROTA_MESSAGE_INLINE bool rota_message_is_number(const struct rota_message_field *field)
{
    return field->kind == ROTA_MESSAGE_UINT || field->kind == ROTA_MESSAGE_SINT ||
           field->kind == ROTA_MESSAGE_BOOL;
}

ROTA_MESSAGE_INLINE uint64_t rota_message_number_max(const struct rota_message_field *field)
{
    return field->max ? field->max : UINT64_MAX;
}

ROTA_MESSAGE_INLINE void rota_message_set_number(const struct rota_message_field *field,
                                                 uint64_t number, void *value)
{
    if (field->kind == ROTA_MESSAGE_BOOL)
        *(bool *)value = number != 0;
    else if (field->kind == ROTA_MESSAGE_SINT)
        *(int64_t *)value = (int64_t)(number >> 1 ^ (number & 1 ? UINT64_MAX : 0));
    else
        *(uint64_t *)value = number;
}

/* For a constant table, into a zeroed message: the fields that come in its order and in the
 * common form, as everybody writes them. From the first that does not all is read as the rest,
 * which also refuses what is to be refused. */
ROTA_MESSAGE_INLINE enum rota_code rota_message_get(struct rota_message_reader *reader,
                                                    const struct rota_message_type *type,
                                                    const struct rota_message_field *fields,
                                                    size_t n_fields, struct rota_str bytes,
                                                    void *message)
{
    struct rota_lean_reader rest = rota_lean_reader(bytes);
    ROTA_MESSAGE_UNROLL
    for (size_t i = 0; i < n_fields; i++) {
        const struct rota_message_field *field = &fields[i];
        void *value = (char *)message + field->offset;
        uint64_t number;
        if (rest.at == rest.end)
            return ROTA_OK;
        if (field->kind == ROTA_MESSAGE_STR)
            rota_lean_take_bytes(&rest, field->number, value);
        else if (rota_message_is_number(field) &&
                 rota_lean_take_number(&rest, field->number, rota_message_number_max(field),
                                       &number))
            rota_message_set_number(field, number, value);
    }
    return rota_message_get_rest(reader, type, rest, message);
}
