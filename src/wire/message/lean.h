/* lean: the bytes of Protocol Buffers, field by field: what message.h is made of.
 *
 * A writer first makes room for the maximum size, then writes without checks. A reader is strict:
 * it never reads past its end, skips unknown fields, and rejects what is malformed (a number that
 * does not end or has more than 64 bits, a size beyond the end, a group, field 0).
 *
 * Numbers that are 0 are not written, as proto3 requires. */
#pragma once

#include <rota/str.h>
#include <stdint.h>

enum {
    ROTA_LEAN_MESSAGE_MAX = INT32_MAX, /* bytes of a message, in any implementation */
    ROTA_LEAN_VARINT_MAX = 10,         /* bytes of a number */
    ROTA_LEAN_SIZE_MAX = 5,            /* bytes of a tag or a size */
};

enum rota_lean_type {
    ROTA_LEAN_VARINT = 0,
    ROTA_LEAN_FIXED64 = 1,
    ROTA_LEAN_BYTES = 2,
    ROTA_LEAN_FIXED32 = 5,
};

/* --- reading --- */

struct rota_lean_reader {
    const uint8_t *at, *end;
};

struct rota_lean_field {
    uint32_t number;
    enum rota_lean_type type;
    uint64_t value;        /* of a number */
    struct rota_str bytes; /* of the others, borrowed */
};

enum rota_lean_found {
    ROTA_LEAN_END,
    ROTA_LEAN_FIELD,
    ROTA_LEAN_MALFORMED, /* the reader can no longer be used */
};

static inline struct rota_lean_reader rota_lean_reader(struct rota_str bytes)
{
    const uint8_t *data = (const uint8_t *)bytes.data;
    return (struct rota_lean_reader){data, bytes.size ? data + bytes.size : data};
}

/* The next field of whatever kind. */
enum rota_lean_found rota_lean_next_any(struct rota_lean_reader *reader,
                                        struct rota_lean_field *field);

/* The same through copies, so that the caller's stay in registers. */
static inline enum rota_lean_found rota_lean_next_slow(struct rota_lean_reader *reader,
                                                       struct rota_lean_field *field)
{
    struct rota_lean_reader reader_copy = *reader;
    struct rota_lean_field field_copy = {0};
    enum rota_lean_found found = rota_lean_next_any(&reader_copy, &field_copy);
    *reader = reader_copy;
    *field = field_copy;
    return found;
}

/* A number and where it ends, which is NULL when it is malformed. Returned in registers. */
struct rota_lean_number {
    const uint8_t *end;
    uint64_t value;
};
struct rota_lean_number rota_lean_get_varint(const uint8_t *at, const uint8_t *end);

/* Whether the next field is this one, in the common form: with a tag of one byte and, for bytes,
 * a size of one or two. If so it is taken; if not the reader is unchanged. */
__attribute__((always_inline)) static inline bool rota_lean_take_bytes(
    struct rota_lean_reader *reader, uint32_t number, struct rota_str *bytes)
{
    const uint8_t *at = reader->at, *end = reader->end;
    if (number >= 16 || end - at < 2 || at[0] != (number << 3 | ROTA_LEAN_BYTES))
        return false;
    size_t size = at[1];
    at += 2;
    if (size >= 0x80) {
        if (at == end || *at >= 0x80)
            return false;
        size += ((size_t)*at++ << 7) - 0x80;
    }
    if (size > (size_t)(end - at))
        return false;
    *bytes = rota_str_of(at, size);
    reader->at = at + size;
    return true;
}

/* The number is at most `max`. */
__attribute__((always_inline)) static inline bool rota_lean_take_number(
    struct rota_lean_reader *reader, uint32_t number, uint64_t max, uint64_t *value)
{
    const uint8_t *at = reader->at, *end = reader->end;
    if (number >= 16 || end - at < 2 || at[0] != (number << 3 | ROTA_LEAN_VARINT))
        return false;
    struct rota_lean_number content = {at + 2, at[1]};
    if (content.value >= 0x80)
        content = rota_lean_get_varint(at + 1, end);
    if (!content.end || content.value > max)
        return false;
    *value = content.value;
    reader->at = content.end;
    return true;
}

/* The next field; the common kinds in a few instructions. A call would send all of them through
 * memory. */
__attribute__((always_inline)) static inline enum rota_lean_found rota_lean_next(
    struct rota_lean_reader *reader, struct rota_lean_field *field)
{
    const uint8_t *at = reader->at;
    if (reader->end - at < 2 || at[0] < 8 || at[0] >= 0x80)
        return rota_lean_next_slow(reader, field);
    uint32_t number = at[0] >> 3;
    enum rota_lean_type type = (enum rota_lean_type)(at[0] & 7);
    if (type == ROTA_LEAN_BYTES ? !rota_lean_take_bytes(reader, number, &field->bytes)
                                : !rota_lean_take_number(reader, number, UINT64_MAX, &field->value))
        return rota_lean_next_slow(reader, field);
    field->number = number;
    field->type = type;
    return ROTA_LEAN_FIELD;
}

/* --- writing --- */

static inline size_t rota_lean_varint_size(uint64_t value)
{
    unsigned n_bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (n_bits + 6) / 7;
}

static inline size_t rota_lean_bytes_size(uint32_t number, size_t size)
{
    return rota_lean_varint_size((uint64_t)number << 3) + rota_lean_varint_size(size) + size;
}

/* Each returns where the next one goes. A long number is not inlined: it is possible in many
 * places, but rare. */
__attribute__((noinline)) uint8_t *rota_lean_put_long(uint8_t *to, uint64_t value);

static inline uint8_t *rota_lean_put_varint(uint8_t *to, uint64_t value)
{
    if (value >= 0x80)
        return rota_lean_put_long(to, value);
    *to++ = (uint8_t)value;
    return to;
}

static inline uint8_t *rota_lean_put_number(uint8_t *to, uint32_t number, uint64_t value)
{
    if (value == 0)
        return to;
    to = rota_lean_put_varint(to, (uint64_t)number << 3 | ROTA_LEAN_VARINT);
    return rota_lean_put_varint(to, value);
}

/* The tag and the size of bytes that the caller writes after them. */
static inline uint8_t *rota_lean_put_size(uint8_t *to, uint32_t number, size_t size)
{
    to = rota_lean_put_varint(to, (uint64_t)number << 3 | ROTA_LEAN_BYTES);
    return rota_lean_put_varint(to, size);
}

/* Names, ids and such without a call: both ends, which may overlap. */
static inline void rota_lean_copy(uint8_t *to, struct rota_str bytes)
{
    if (bytes.size >= 8 && bytes.size <= 16) {
        uint64_t first, last;
        memcpy(&first, bytes.data, 8);
        memcpy(&last, bytes.data + bytes.size - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + bytes.size - 8, &last, 8);
    } else if (bytes.size >= 4 && bytes.size < 8) {
        uint32_t first, last;
        memcpy(&first, bytes.data, 4);
        memcpy(&last, bytes.data + bytes.size - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + bytes.size - 4, &last, 4);
    } else if (bytes.size > 0) {
        memcpy(to, bytes.data, bytes.size);
    }
}

static inline uint8_t *rota_lean_put_bytes(uint8_t *to, uint32_t number, struct rota_str bytes)
{
    to = rota_lean_put_size(to, number, bytes.size);
    rota_lean_copy(to, bytes);
    return to + bytes.size;
}
