#include "wire/message.h"

#include "wire/message_code.h"

#include <assert.h>

enum { ENTRIES_DEFAULT = 4096 };

/* --- writing --- */

uint8_t *rota_message_grow(struct rota_buffer *buffer, uint8_t *at, size_t size)
{
    size_t before = buffer->size;
    if (at)
        buffer->size = (size_t)(at - (uint8_t *)buffer->data);
    at = (uint8_t *)rota_buffer_extend(buffer, size);
    buffer->size = before;
    return at;
}

/* Not in line, so that a type with a writer of its own does not pay for what it does not use. */
__attribute__((noinline)) static uint8_t *put_any(struct rota_buffer *buffer, uint8_t *at,
                                                  const struct rota_message_type *type,
                                                  const void *message)
{
    size_t ahead = 0;
    for (size_t i = 0; i < type->n_fields; i++)
        ahead += rota_message_bound(&type->fields[i], message);
    at = rota_message_make_room(buffer, at, ahead);
    for (size_t i = 0; at && i < type->n_fields; i++)
        at = rota_message_put_field(buffer, at, &type->fields[i], message, ahead);
    return at;
}

static inline uint8_t *put(struct rota_buffer *buffer, uint8_t *at,
                           const struct rota_message_type *type, const void *message)
{
    return type->put ? type->put(buffer, at, message) : put_any(buffer, at, type, message);
}

/* Its size is known when it is there: room for the usual one is left, and a larger one moves
 * what was written. */
static inline uint8_t *put_inner(struct rota_buffer *buffer, uint8_t *at, uint32_t number,
                                 const struct rota_message_type *type, const void *message)
{
    at = rota_message_make_room(buffer, at, ROTA_MESSAGE_HEAD_MAX);
    if (!at)
        return NULL;
    at = rota_lean_put_varint(at, (uint64_t)number << 3 | ROTA_LEAN_BYTES) + 1;
    size_t start = (size_t)(at - (uint8_t *)buffer->data);
    at = put(buffer, at, type, message);
    if (!at)
        return NULL;
    size_t size = (size_t)(at - (uint8_t *)buffer->data) - start;
    if (size >= 0x80) {
        size_t n_more = rota_lean_varint_size(size) - 1;
        at = rota_message_make_room(buffer, at, n_more);
        if (!at)
            return NULL;
        memmove(at - size + n_more, at - size, size);
        at += n_more;
    }
    rota_lean_put_varint((uint8_t *)buffer->data + start - 1, size);
    return at;
}

static uint8_t *put_str(struct rota_buffer *buffer, uint8_t *at, uint32_t number,
                        struct rota_str bytes)
{
    at = rota_message_make_room(buffer, at, ROTA_MESSAGE_HEAD_MAX + bytes.size);
    return at ? rota_lean_put_bytes(at, number, bytes) : NULL;
}

uint8_t *rota_message_put_nested(struct rota_buffer *buffer, uint8_t *at,
                                 const struct rota_message_field *field, const void *value,
                                 size_t ahead)
{
    const struct rota_message_strs *strs = value;
    const struct rota_message_list *list = value;
    const void *inner = *(const void *const *)value;
    if (field->kind == ROTA_MESSAGE_STRS)
        for (size_t i = 0; at && i < strs->n; i++)
            at = put_str(buffer, at, field->number, strs->items[i]);
    else if (field->kind == ROTA_MESSAGE_INNERS)
        for (size_t i = 0; at && i < list->n; i++)
            at = put_inner(buffer, at, field->number, field->type,
                           (const char *)list->items + i * field->type->size);
    else if (inner)
        at = put_inner(buffer, at, field->number, field->type, inner);
    return at ? rota_message_make_room(buffer, at, ahead) : NULL;
}

/* A buffer without memory gets some. */
static uint8_t *begin(struct rota_buffer *buffer)
{
    if (buffer->failed || !buffer->data)
        return rota_message_grow(buffer, NULL, 0);
    return (uint8_t *)buffer->data + buffer->size;
}

/* All of it was written, or nothing. */
static void end(struct rota_buffer *buffer, const uint8_t *at)
{
    if (at)
        buffer->size = (size_t)(at - (uint8_t *)buffer->data);
    if (buffer->data)
        buffer->data[buffer->size] = '\0';
}

void rota_message_encode(const struct rota_message_type *type, const void *message,
                         struct rota_buffer *buffer)
{
    uint8_t *at = begin(buffer);
    end(buffer, at ? put(buffer, at, type, message) : NULL);
}

void rota_message_encode_entry(const struct rota_message_type *type, uint32_t number,
                               const void *message, struct rota_buffer *buffer)
{
    uint8_t *at = begin(buffer);
    end(buffer, at ? put_inner(buffer, at, number, type, message) : NULL);
}

/* --- reading --- */

/* Numbers without gaps, as most types have them, are found at once. */
static const struct rota_message_field *find(const struct rota_message_type *type, uint32_t number)
{
    if (number - 1 < type->n_fields && type->fields[number - 1].number == number)
        return &type->fields[number - 1];
    for (size_t i = 0; i < type->n_fields; i++)
        if (type->fields[i].number == number)
            return &type->fields[i];
    return NULL;
}

static enum rota_code refuse(struct rota_message_reader *reader,
                             const struct rota_message_type *type,
                             const struct rota_message_field *field, const char *why)
{
    return rota_error_set(reader->error, ROTA_ERR_INVALID, "%s of the %s %s", field->name,
                          type->name, why);
}

static enum rota_code refuse_memory(struct rota_message_reader *reader,
                                    const struct rota_message_type *type)
{
    return rota_error_set(reader->error, ROTA_ERR_NO_MEMORY, "no memory for the %s", type->name);
}

static enum rota_code get(struct rota_message_reader *reader, const struct rota_message_type *type,
                          struct rota_str bytes, void *message)
{
    memset(message, 0, type->size);
    if (type->get)
        return type->get(reader, bytes, message);
    return rota_message_get_rest(reader, type, rota_lean_reader(bytes), message);
}

/* The array of a list whose first entry was found; `rest` is all that follows it. */
static enum rota_code make_list(struct rota_message_reader *reader,
                                const struct rota_message_type *type,
                                const struct rota_message_field *field,
                                struct rota_lean_reader rest, size_t size, void **items)
{
    struct rota_lean_field found = {0};
    size_t n = 1, max = field->max ? field->max : ENTRIES_DEFAULT;
    while (n <= max) {
        if (rota_lean_take_bytes(&rest, field->number, &found.bytes))
            n++;
        else if (rota_lean_next(&rest, &found) == ROTA_LEAN_FIELD)
            n += found.number == field->number;
        else
            break;
    }
    if (n > max)
        return rota_error_set(reader->error, ROTA_ERR_LIMIT, "%s of the %s has at most %zu entries",
                              field->name, type->name, max);
    *items = rota_arena_take(reader->arena, n * size);
    return *items ? ROTA_OK : refuse_memory(reader, type);
}

/* A list's array is taken with its first entry; those that stand beside it are read with it. */
static enum rota_code get_strs(struct rota_message_reader *reader,
                               const struct rota_message_type *type,
                               const struct rota_message_field *field, struct rota_str bytes,
                               struct rota_lean_reader *rest, struct rota_message_strs *strs)
{
    void *items = (void *)strs->items;
    enum rota_code code = ROTA_OK;
    if (!items)
        code = make_list(reader, type, field, *rest, sizeof bytes, &items);
    if (code)
        return code;
    strs->items = items;
    do
        ((struct rota_str *)items)[strs->n++] = bytes;
    while (rota_lean_take_bytes(rest, field->number, &bytes));
    return ROTA_OK;
}

static enum rota_code get_inners(struct rota_message_reader *reader,
                                 const struct rota_message_type *type,
                                 const struct rota_message_field *field, struct rota_str bytes,
                                 struct rota_lean_reader *rest, struct rota_message_list *list)
{
    const struct rota_message_type *entry = field->type;
    const uint32_t number = field->number;
    struct rota_lean_reader next = *rest;
    void *items = (void *)list->items;
    enum rota_code code = ROTA_OK;
    if (!items)
        code = make_list(reader, type, field, next, entry->size, &items);
    if (code)
        return code;
    list->items = items;
    char *to = (char *)items + list->n * entry->size;
    do {
        code = get(reader, entry, bytes, to);
        to += entry->size;
        list->n++;
    } while (!code && rota_lean_take_bytes(&next, number, &bytes));
    *rest = next;
    return code;
}

static enum rota_code get_inner(struct rota_message_reader *reader,
                                const struct rota_message_type *type,
                                const struct rota_message_field *field, struct rota_str bytes,
                                const void **inner)
{
    if (*inner)
        return refuse(reader, type, field, "comes twice");
    void *made = rota_arena_take(reader->arena, field->type->size);
    if (!made)
        return refuse_memory(reader, type);
    *inner = made;
    return get(reader, field->type, bytes, made);
}

/* `rest` is what follows the field. */
static enum rota_code get_field(struct rota_message_reader *reader,
                                const struct rota_message_type *type,
                                const struct rota_message_field *field,
                                const struct rota_lean_field *found, struct rota_lean_reader *rest,
                                void *value)
{
    bool is_number = rota_message_is_number(field);
    if (found->type != (is_number ? ROTA_LEAN_VARINT : ROTA_LEAN_BYTES))
        return refuse(reader, type, field, "is of another type");
    if (is_number && found->value > rota_message_number_max(field))
        return rota_error_set(reader->error, ROTA_ERR_INVALID,
                              "%s of the %s is at most %llu, not %llu", field->name, type->name,
                              (unsigned long long)rota_message_number_max(field),
                              (unsigned long long)found->value);
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
    case ROTA_MESSAGE_SINT:
    case ROTA_MESSAGE_BOOL:
        rota_message_set_number(field, found->value, value);
        break;
    case ROTA_MESSAGE_STR:
        *(struct rota_str *)value = found->bytes;
        break;
    case ROTA_MESSAGE_STRS:
        return get_strs(reader, type, field, found->bytes, rest, value);
    case ROTA_MESSAGE_INNERS:
        return get_inners(reader, type, field, found->bytes, rest, value);
    case ROTA_MESSAGE_INNER:
        return get_inner(reader, type, field, found->bytes, value);
    }
    return ROTA_OK;
}

enum rota_code rota_message_get_rest(struct rota_message_reader *reader,
                                     const struct rota_message_type *type,
                                     struct rota_lean_reader rest, void *message)
{
    struct rota_lean_field found = {0};
    enum rota_lean_found next;
    enum rota_code code = ROTA_OK;
    assert(reader->depth < ROTA_MESSAGE_DEPTH_MAX); /* our types are not that deep */
    reader->depth++;
    while (!code && (next = rota_lean_next(&rest, &found)) != ROTA_LEAN_END) {
        if (next == ROTA_LEAN_MALFORMED)
            code =
                rota_error_set(reader->error, ROTA_ERR_INVALID, "the %s is malformed", type->name);
        const struct rota_message_field *field = code ? NULL : find(type, found.number);
        if (field)
            code = get_field(reader, type, field, &found, &rest, (char *)message + field->offset);
    }
    reader->depth--;
    return code;
}

enum rota_code rota_message_decode(const struct rota_message_type *type, struct rota_str bytes,
                                   void *message, struct rota_arena *arena,
                                   struct rota_error *error)
{
    struct rota_message_reader reader = {.arena = arena, .error = error};
    enum rota_code code = get(&reader, type, bytes, message);
    if (code)
        memset(message, 0, type->size);
    return code;
}
