#include "wire/worker_fields.h"

static size_t size_of(const struct rota_worker_field *fields, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        size += rota_lean_number_size(fields[i].number, fields[i].value);
        if (fields[i].bytes.size)
            size += rota_lean_bytes_size(fields[i].number, fields[i].bytes.size);
    }
    return size;
}

static void put(uint8_t *to, const struct rota_worker_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to = rota_lean_put_number(to, fields[i].number, fields[i].value);
        if (fields[i].bytes.size)
            to = rota_lean_put_bytes(to, fields[i].number, fields[i].bytes);
    }
}

void rota_worker_fields_write(struct rota_buffer *body, const struct rota_worker_field *fields,
                              size_t n)
{
    size_t size = size_of(fields, n);
    char *to = size ? rota_buffer_extend(body, size) : NULL;
    if (to)
        put((uint8_t *)to, fields, n);
}

void rota_worker_entry_write(struct rota_buffer *body, uint32_t number,
                             const struct rota_worker_field *fields, size_t n)
{
    size_t size = size_of(fields, n);
    char *to = rota_buffer_extend(body, rota_lean_bytes_size(number, size));
    if (to)
        put(rota_lean_put_size((uint8_t *)to, number, size), fields, n);
}

bool rota_worker_fields_read(struct rota_str message, unsigned are_bytes, unsigned are_numbers,
                             struct rota_worker_fields *fields)
{
    struct rota_lean_reader reader = rota_lean_reader(message);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    memset(fields, 0, sizeof *fields);
    while ((found = rota_lean_next(&reader, &field)) == ROTA_LEAN_FIELD) {
        bool is_low = field.number <= ROTA_WORKER_FIELD_MAX;
        unsigned bit = is_low ? ROTA_WORKER_BIT(field.number) : 0;
        if (!(bit & (are_bytes | are_numbers)))
            continue;
        if (field.type != ((bit & are_bytes) ? ROTA_LEAN_BYTES : ROTA_LEAN_VARINT))
            return false;
        if (bit & are_bytes)
            fields->bytes[field.number] = field.bytes;
        else
            fields->values[field.number] = field.value;
    }
    return found == ROTA_LEAN_END;
}
