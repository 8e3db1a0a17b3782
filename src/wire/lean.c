#include "wire/lean.h"

/* A number of more than 64 bits is none: who drops the rest and who does not
 * would read different ones. */
static bool get_varint(struct rota_lean_reader *reader, unsigned n_max, uint64_t *value)
{
    uint64_t result = 0;
    for (unsigned i = 0; i < n_max && reader->at < reader->end; i++) {
        uint8_t byte = *reader->at++;
        result |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *value = result;
            return i < ROTA_LEAN_VARINT_MAX - 1 || byte < 2;
        }
    }
    return false;
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
        return get_varint(reader, ROTA_LEAN_VARINT_MAX, &field->value);
    case ROTA_LEAN_FIXED64:
        return get_bytes(reader, 8, &field->bytes);
    case ROTA_LEAN_BYTES:
        return get_varint(reader, ROTA_LEAN_SIZE_MAX, &size) && size <= ROTA_LEAN_MESSAGE_MAX &&
               get_bytes(reader, size, &field->bytes);
    case ROTA_LEAN_FIXED32:
        return get_bytes(reader, 4, &field->bytes);
    default: /* groups, and what was never defined */
        return false;
    }
}

enum rota_lean_found rota_lean_next_any(struct rota_lean_reader *reader,
                                        struct rota_lean_field *field)
{
    uint64_t tag;
    if (reader->at == reader->end)
        return ROTA_LEAN_END;
    if (!get_varint(reader, ROTA_LEAN_SIZE_MAX, &tag) || tag > UINT32_MAX || tag >> 3 == 0 ||
        !get_content(reader, field, tag & 7))
        return ROTA_LEAN_MALFORMED;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum rota_lean_type)(tag & 7);
    return ROTA_LEAN_FIELD;
}
