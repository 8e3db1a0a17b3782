/* The writer and the reader of messages, in pieces that can be compiled for one table of fields.
 *
 * Where the table is a constant the compiler unrolls the loop over it, and the result is like
 * hand-written code for these fields. HOT_TYPE in message_table.h does so for messages that every
 * job needs; all others share the loops in message.c.
 *
 * Writing goes directly into the memory after the buffer's content, and becomes part of it when
 * it is complete. A message first makes room for its maximum size, then it is written without
 * checks. Each function takes where to write and returns where the next goes, NULL when there is
 * no memory. */
#pragma once

#include "wire/message/lean.h"
#include "wire/message/message.h"

#define ROTA_MESSAGE_INLINE __attribute__((always_inline)) static inline
#ifdef __clang__
#define ROTA_MESSAGE_UNROLL /* it would warn where a sanitizer is in the way */
#else
#define ROTA_MESSAGE_UNROLL _Pragma("GCC unroll 32")
#endif

/* --- writing --- */

/* The tag of a field, with a number or a size. */
enum { ROTA_MESSAGE_HEAD_MAX = ROTA_LEAN_SIZE_MAX + ROTA_LEAN_VARINT_MAX };

/* What was written so far moves along, and the buffer's content is unchanged. */
uint8_t *rota_message_grow(struct rota_buffer *buffer, uint8_t *at, size_t size);

/* The last byte of a buffer is for a NUL. */
ROTA_MESSAGE_INLINE uint8_t *rota_message_make_room(struct rota_buffer *buffer, uint8_t *at,
                                                    size_t size)
{
    size_t left = (size_t)((uint8_t *)buffer->data + buffer->capacity - at);
    return size < left ? at : rota_message_grow(buffer, at, size);
}

/* A list or a message: it makes room for itself, and again for `ahead` after it. */
uint8_t *rota_message_put_nested(struct rota_buffer *buffer, uint8_t *at,
                                 const struct rota_message_field *field, const void *value,
                                 size_t ahead);

/* The maximum that a field takes, except for one that makes room for itself. */
ROTA_MESSAGE_INLINE size_t rota_message_bound(const struct rota_message_field *field,
                                              const void *message)
{
    const void *value = (const char *)message + field->offset;
    size_t size = field->kind == ROTA_MESSAGE_STR ? ((const struct rota_str *)value)->size : 0;
    return ROTA_MESSAGE_HEAD_MAX + size;
}

/* Most fields of most messages are empty: those cost one check. */
ROTA_MESSAGE_INLINE uint8_t *rota_message_put_field(struct rota_buffer *buffer, uint8_t *at,
                                                    const struct rota_message_field *field,
                                                    const void *message, size_t ahead)
{
    const void *value = (const char *)message + field->offset;
    const struct rota_str *bytes = value;
    const uint64_t *number = value;
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
    case ROTA_MESSAGE_INT:
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

/* For a constant table: a message, and a list of messages as field `number` of another. */
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

/* The size of a nested message is written when the message is. One byte in front of it is left
 * for that; one that takes more moves the message, which is the last that was written. */
uint8_t *rota_message_put_long_size(struct rota_buffer *buffer, uint8_t *at, size_t size);

ROTA_MESSAGE_INLINE uint8_t *rota_message_put_size(struct rota_buffer *buffer, uint8_t *at,
                                                   size_t size)
{
    if (size >= 0x80)
        return rota_message_put_long_size(buffer, at, size);
    at[-(ptrdiff_t)size - 1] = (uint8_t)size;
    return at;
}

/* A list of `n` messages of `size` bytes each, without lists and messages inside, so that each
 * makes room once; `number` is below 16. */
ROTA_MESSAGE_INLINE uint8_t *rota_message_put_list(struct rota_buffer *buffer, uint8_t *at,
                                                   const struct rota_message_field *fields,
                                                   size_t n_fields, size_t size, uint32_t number,
                                                   const void *messages, size_t n)
{
    const uint8_t tag = (uint8_t)(number << 3 | ROTA_LEAN_BYTES);
    const uint8_t *limit = at; /* the end of the room, as far as it is known */
    for (const char *message = messages; n > 0; n--, message += size) {
        size_t ahead = ROTA_MESSAGE_HEAD_MAX;
        ROTA_MESSAGE_UNROLL
        for (size_t i = 0; i < n_fields; i++)
            ahead += rota_message_bound(&fields[i], message);
        if (ahead >= (size_t)(limit - at)) {
            at = rota_message_make_room(buffer, at, ahead);
            if (!at)
                return NULL;
            limit = (const uint8_t *)buffer->data + buffer->capacity;
        }
        *at = tag;
        const uint8_t *start = at += 2;
        ROTA_MESSAGE_UNROLL
        for (size_t i = 0; i < n_fields; i++)
            at = rota_message_put_field(buffer, at, &fields[i], message, ahead);
        bool is_short = at - start < 0x80;
        at = rota_message_put_size(buffer, at, (size_t)(at - start));
        if (is_short)
            continue;
        if (!at)
            return NULL;
        limit = at;
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
    return field->kind <= ROTA_MESSAGE_BOOL;
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

/* For a constant table, into a zeroed message: the fields that are in its order and in the
 * common form, as all writers produce them. From the first that is not, everything is read by
 * the general reader, which also rejects what is invalid. */
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
    return rest.at == rest.end ? ROTA_OK : rota_message_get_rest(reader, type, rest, message);
}
