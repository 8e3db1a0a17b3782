#include "wire/message.h"

#include "wire/lean.h"

#include <assert.h>

enum { ENTRIES_DEFAULT = 4096 };

static const void *member(const void *message, const struct rota_message_field *field)
{
    return (const char *)message + field->offset;
}

/* --- writing --- */

static size_t size_of(const struct rota_message_type *type, const void *message);

static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

static const void *entry_at(const struct rota_message_list *list,
                            const struct rota_message_type *type, size_t i)
{
    return (const char *)list->items + i * type->size;
}

static size_t field_size(const struct rota_message_field *field, const void *message)
{
    const void *at = member(message, field);
    size_t size = 0;
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
        return rota_lean_number_size(field->number, *(const uint64_t *)at);
    case ROTA_MESSAGE_SINT:
        return rota_lean_number_size(field->number, zigzag(*(const int64_t *)at));
    case ROTA_MESSAGE_BOOL:
        return rota_lean_number_size(field->number, *(const bool *)at);
    case ROTA_MESSAGE_STR:
        size = ((const struct rota_str *)at)->size;
        return size ? rota_lean_bytes_size(field->number, size) : 0;
    case ROTA_MESSAGE_STRS:
        for (size_t i = 0; i < ((const struct rota_message_strs *)at)->n; i++)
            size += rota_lean_bytes_size(field->number,
                                         ((const struct rota_message_strs *)at)->items[i].size);
        return size;
    case ROTA_MESSAGE_INNER:
        if (*(const void *const *)at)
            size =
                rota_lean_bytes_size(field->number, size_of(field->type, *(const void *const *)at));
        return size;
    case ROTA_MESSAGE_INNERS:
        for (size_t i = 0; i < ((const struct rota_message_list *)at)->n; i++)
            size += rota_lean_bytes_size(field->number,
                                         size_of(field->type, entry_at(at, field->type, i)));
        return size;
    }
    return 0;
}

static size_t size_of(const struct rota_message_type *type, const void *message)
{
    size_t size = 0;
    for (size_t i = 0; i < type->n_fields; i++)
        size += field_size(&type->fields[i], message);
    return size;
}

static uint8_t *put(uint8_t *to, const struct rota_message_type *type, const void *message);

static uint8_t *put_inner(uint8_t *to, const struct rota_message_field *field, const void *message)
{
    to = rota_lean_put_size(to, field->number, size_of(field->type, message));
    return put(to, field->type, message);
}

static uint8_t *put_field(uint8_t *to, const struct rota_message_field *field, const void *message)
{
    const void *at = member(message, field);
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
        return rota_lean_put_number(to, field->number, *(const uint64_t *)at);
    case ROTA_MESSAGE_SINT:
        return rota_lean_put_number(to, field->number, zigzag(*(const int64_t *)at));
    case ROTA_MESSAGE_BOOL:
        return rota_lean_put_number(to, field->number, *(const bool *)at);
    case ROTA_MESSAGE_STR:
        if (((const struct rota_str *)at)->size)
            to = rota_lean_put_bytes(to, field->number, *(const struct rota_str *)at);
        break;
    case ROTA_MESSAGE_STRS:
        for (size_t i = 0; i < ((const struct rota_message_strs *)at)->n; i++)
            to = rota_lean_put_bytes(to, field->number,
                                     ((const struct rota_message_strs *)at)->items[i]);
        break;
    case ROTA_MESSAGE_INNER:
        if (*(const void *const *)at)
            to = put_inner(to, field, *(const void *const *)at);
        break;
    case ROTA_MESSAGE_INNERS:
        for (size_t i = 0; i < ((const struct rota_message_list *)at)->n; i++)
            to = put_inner(to, field, entry_at(at, field->type, i));
        break;
    }
    return to;
}

static uint8_t *put(uint8_t *to, const struct rota_message_type *type, const void *message)
{
    for (size_t i = 0; i < type->n_fields; i++)
        to = put_field(to, &type->fields[i], message);
    return to;
}

void rota_message_encode(const struct rota_message_type *type, const void *message,
                         struct rota_buffer *buffer)
{
    size_t size = size_of(type, message);
    uint8_t *to = size ? (uint8_t *)rota_buffer_extend(buffer, size) : NULL;
    if (to)
        put(to, type, message);
}

void rota_message_encode_entry(const struct rota_message_type *type, uint32_t number,
                               const void *message, struct rota_buffer *buffer)
{
    size_t size = size_of(type, message);
    uint8_t *to = (uint8_t *)rota_buffer_extend(buffer, rota_lean_bytes_size(number, size));
    if (to)
        put(rota_lean_put_size(to, number, size), type, message);
}

/* --- reading --- */

struct reader {
    struct rota_arena *arena;
    struct rota_error *error;
    int depth;
};

static const struct rota_message_field *find(const struct rota_message_type *type, uint32_t number)
{
    for (size_t i = 0; i < type->n_fields; i++)
        if (type->fields[i].number == number)
            return &type->fields[i];
    return NULL;
}

static enum rota_code refuse(struct reader *reader, enum rota_code code,
                             const struct rota_message_type *type, uint32_t number, const char *why)
{
    return rota_error_set(reader->error, code, "field %u of the %s %s", number, type->name, why);
}

static bool is_list(const struct rota_message_field *field)
{
    return field->kind == ROTA_MESSAGE_STRS || field->kind == ROTA_MESSAGE_INNERS;
}

/* How often each list occurs, so that its array is taken once. */
static enum rota_code count(struct reader *reader, const struct rota_message_type *type,
                            struct rota_str bytes, size_t counts[ROTA_MESSAGE_FIELDS_MAX])
{
    struct rota_lean_reader lean = rota_lean_reader(bytes);
    struct rota_lean_field found = {0};
    enum rota_lean_found next;
    while ((next = rota_lean_next(&lean, &found)) == ROTA_LEAN_FIELD) {
        const struct rota_message_field *field = find(type, found.number);
        if (!field)
            continue;
        size_t n = ++counts[found.number], max = field->max ? field->max : ENTRIES_DEFAULT;
        if (is_list(field) && n > max)
            return refuse(reader, ROTA_ERR_LIMIT, type, found.number, "has too many entries");
        if (field->kind == ROTA_MESSAGE_INNER && n > 1)
            return refuse(reader, ROTA_ERR_INVALID, type, found.number, "comes twice");
    }
    if (next == ROTA_LEAN_END)
        return ROTA_OK;
    return rota_error_set(reader->error, ROTA_ERR_INVALID, "the %s is malformed", type->name);
}

static enum rota_code make_lists(struct reader *reader, const struct rota_message_type *type,
                                 const size_t counts[ROTA_MESSAGE_FIELDS_MAX], void *message)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct rota_message_field *field = &type->fields[i];
        size_t n = counts[field->number];
        if (!is_list(field) || n == 0)
            continue;
        bool are_strs = field->kind == ROTA_MESSAGE_STRS;
        void *items = rota_arena_take(reader->arena,
                                      n * (are_strs ? sizeof(struct rota_str) : field->type->size));
        if (!items)
            return rota_error_set(reader->error, ROTA_ERR_NO_MEMORY, "no memory for the %s",
                                  type->name);
        if (are_strs)
            *(struct rota_message_strs *)member(message, field) =
                (struct rota_message_strs){.items = items};
        else
            *(struct rota_message_list *)member(message, field) =
                (struct rota_message_list){.items = items};
    }
    return ROTA_OK;
}

static enum rota_code read_message(struct reader *reader, const struct rota_message_type *type,
                                   struct rota_str bytes, void *message);

static enum rota_code read_number(struct reader *reader, const struct rota_message_type *type,
                                  const struct rota_message_field *field, uint64_t value,
                                  void *message)
{
    void *at = (void *)member(message, field);
    if (field->max && value > field->max)
        return refuse(reader, ROTA_ERR_INVALID, type, field->number, "is too large");
    if (field->kind == ROTA_MESSAGE_UINT)
        *(uint64_t *)at = value;
    else if (field->kind == ROTA_MESSAGE_BOOL)
        *(bool *)at = value != 0;
    else
        *(int64_t *)at = (int64_t)(value >> 1 ^ (value & 1 ? UINT64_MAX : 0));
    return ROTA_OK;
}

static enum rota_code read_bytes(struct reader *reader, const struct rota_message_field *field,
                                 struct rota_str bytes, void *message)
{
    void *at = (void *)member(message, field);
    if (field->kind == ROTA_MESSAGE_STR) {
        *(struct rota_str *)at = bytes;
    } else if (field->kind == ROTA_MESSAGE_STRS) {
        struct rota_message_strs *strs = at;
        ((struct rota_str *)strs->items)[strs->n++] = bytes;
    } else if (field->kind == ROTA_MESSAGE_INNERS) {
        struct rota_message_list *list = at;
        return read_message(reader, field->type, bytes,
                            (void *)entry_at(list, field->type, list->n++));
    } else {
        void *inner = rota_arena_take(reader->arena, field->type->size);
        if (!inner)
            return rota_error_set(reader->error, ROTA_ERR_NO_MEMORY, "no memory for a message");
        *(const void **)at = inner;
        return read_message(reader, field->type, bytes, inner);
    }
    return ROTA_OK;
}

static bool is_number(const struct rota_message_field *field)
{
    return field->kind == ROTA_MESSAGE_UINT || field->kind == ROTA_MESSAGE_SINT ||
           field->kind == ROTA_MESSAGE_BOOL;
}

static enum rota_code read_fields(struct reader *reader, const struct rota_message_type *type,
                                  struct rota_str bytes, void *message)
{
    struct rota_lean_reader lean = rota_lean_reader(bytes);
    struct rota_lean_field found = {0};
    enum rota_code code = ROTA_OK;
    while (!code && rota_lean_next(&lean, &found) == ROTA_LEAN_FIELD) {
        const struct rota_message_field *field = find(type, found.number);
        if (!field)
            continue;
        if (found.type != (is_number(field) ? ROTA_LEAN_VARINT : ROTA_LEAN_BYTES))
            return refuse(reader, ROTA_ERR_INVALID, type, found.number, "is of another type");
        code = is_number(field) ? read_number(reader, type, field, found.value, message)
                                : read_bytes(reader, field, found.bytes, message);
    }
    return code;
}

static enum rota_code read_message(struct reader *reader, const struct rota_message_type *type,
                                   struct rota_str bytes, void *message)
{
    size_t counts[ROTA_MESSAGE_FIELDS_MAX] = {0};
    assert(reader->depth < ROTA_MESSAGE_DEPTH_MAX); /* our types are not that deep */
    reader->depth++;
    memset(message, 0, type->size);
    enum rota_code code = count(reader, type, bytes, counts);
    if (!code)
        code = make_lists(reader, type, counts, message);
    if (!code)
        code = read_fields(reader, type, bytes, message);
    reader->depth--;
    return code;
}

enum rota_code rota_message_decode(const struct rota_message_type *type, struct rota_str bytes,
                                   void *message, struct rota_arena *arena,
                                   struct rota_error *error)
{
    struct reader reader = {.arena = arena, .error = error};
    enum rota_code code = read_message(&reader, type, bytes, message);
    if (code)
        memset(message, 0, type->size);
    return code;
}
