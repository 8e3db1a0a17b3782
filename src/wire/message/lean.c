#include "wire/message/lean.h"

/* Eight bytes of a number at once, the lowest first. */
static uint64_t swap_bytes(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* The low seven bits of each of eight bytes, side by side: first of two bytes, then of two pairs,
 * then of both halves. */
static uint64_t pack_sevens(uint64_t word)
{
    word = (word & 0x7f007f007f007f00) >> 1 | (word & 0x007f007f007f007f);
    word = (word & 0x3fff00003fff0000) >> 2 | (word & 0x00003fff00003fff);
    return (word & 0x0fffffff00000000) >> 4 | (word & 0x000000000fffffff);
}

static uint64_t unpack_sevens(uint64_t bits)
{
    uint64_t word = (bits & 0x00fffffff0000000) << 4 | (bits & 0x000000000fffffff);
    word = (word & 0x0fffc0000fffc000) << 2 | (word & 0x00003fff00003fff);
    return (word & 0x3f803f803f803f80) << 1 | (word & 0x007f007f007f007f);
}

static const uint64_t HIGH_BITS = 0x8080808080808080; /* of a byte that is not the last */

/* A number of more than 64 bits is malformed: readers that drop the rest and readers that do not
 * would disagree. */
struct rota_lean_number rota_lean_get_varint(const uint8_t *at, const uint8_t *end)
{
    uint64_t word, value = 0;
    unsigned n_bits = 0;
    if (end - at >= 8) {
        memcpy(&word, at, 8);
        word = swap_bytes(word);
        uint64_t lasts = ~word & HIGH_BITS;
        if (lasts)
            return (struct rota_lean_number){at + __builtin_ctzll(lasts) / 8 + 1,
                                             pack_sevens(word & (lasts ^ (lasts - 1)))};
        value = pack_sevens(word);
        n_bits = 56;
        at += 8;
    }
    for (; at < end && n_bits < 64; n_bits += 7) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << n_bits;
        if (byte < 0x80 && (n_bits < 63 || byte < 2))
            return (struct rota_lean_number){at, value};
        if (byte < 0x80)
            break;
    }
    return (struct rota_lean_number){0};
}

static bool get_number(struct rota_lean_reader *reader, unsigned n_max, uint64_t *value)
{
    struct rota_lean_number number = rota_lean_get_varint(reader->at, reader->end);
    if (!number.end || number.end - reader->at > n_max)
        return false;
    reader->at = number.end;
    *value = number.value;
    return true;
}

static bool get_bytes(struct rota_lean_reader *reader, uint64_t size, struct rota_str *bytes)
{
    if (size > (uint64_t)(reader->end - reader->at))
        return false;
    *bytes = rota_str_of(reader->at, (size_t)size);
    reader->at += size;
    return true;
}

static bool get_content(struct rota_lean_reader *reader, struct rota_lean_field *field,
                        unsigned type)
{
    uint64_t size;
    switch (type) {
    case ROTA_LEAN_VARINT:
        return get_number(reader, ROTA_LEAN_VARINT_MAX, &field->value);
    case ROTA_LEAN_FIXED64:
        return get_bytes(reader, 8, &field->bytes);
    case ROTA_LEAN_BYTES:
        return get_number(reader, ROTA_LEAN_SIZE_MAX, &size) && size <= ROTA_LEAN_MESSAGE_MAX &&
               get_bytes(reader, size, &field->bytes);
    case ROTA_LEAN_FIXED32:
        return get_bytes(reader, 4, &field->bytes);
    default: /* groups, and undefined types */
        return false;
    }
}

enum rota_lean_found rota_lean_next_any(struct rota_lean_reader *reader,
                                        struct rota_lean_field *field)
{
    uint64_t tag;
    if (reader->at == reader->end)
        return ROTA_LEAN_END;
    if (!get_number(reader, ROTA_LEAN_SIZE_MAX, &tag) || tag > UINT32_MAX || tag >> 3 == 0 ||
        !get_content(reader, field, tag & 7))
        return ROTA_LEAN_MALFORMED;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum rota_lean_type)(tag & 7);
    return ROTA_LEAN_FIELD;
}

uint8_t *rota_lean_put_long(uint8_t *to, uint64_t value)
{
    if (value >> 56) {
        uint64_t word = swap_bytes(unpack_sevens(value) | HIGH_BITS);
        memcpy(to, &word, 8);
        to += 8;
        value >>= 56;
    }
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}
