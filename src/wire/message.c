#include "wire/message.h"

#include "wire/lean.h"

#include <assert.h>

enum { ENTRIES_DEFAULT = 4096 };

static const void *member(const void *message, const struct rota_message_field *field)
{
    return (const char *)message + field->offset;
}

/* --- writing --- */

/* A message is written in one pass, straight into the memory of the buffer. */
struct pen {
    struct rota_buffer *buffer;
    uint8_t *at, *end; /* of what is free */
};

enum { NUMBER_MAX = ROTA_LEAN_SIZE_MAX + ROTA_LEAN_VARINT_MAX };

static bool grow(struct pen *pen, size_t size)
{
    struct rota_buffer *buffer = pen->buffer;
    if (pen->at)
        buffer->size = (size_t)(pen->at - (uint8_t *)buffer->data);
    if (!rota_buffer_extend(buffer, size))
        return false;
    buffer->size -= size;
    pen->at = (uint8_t *)buffer->data + buffer->size;
    pen->end = (uint8_t *)buffer->data + buffer->capacity - 1; /* a NUL is behind it */
    return true;
}

static inline bool has_room(struct pen *pen, size_t size)
{
    return size <= (size_t)(pen->end - pen->at) || grow(pen, size);
}

static bool put(struct pen *pen, const struct rota_message_type *type, const void *message);

/* Its size is known when it is there: room for the usual one is left, and a larger one moves
 * what was written. */
static bool put_inner(struct pen *pen, uint32_t number, const struct rota_message_type *type,
                      const void *message)
{
    if (!has_room(pen, NUMBER_MAX))
        return false;
    pen->at = rota_lean_put_varint(pen->at, (uint64_t)number << 3 | ROTA_LEAN_BYTES) + 1;
    size_t start = (size_t)(pen->at - (uint8_t *)pen->buffer->data);
    if (!put(pen, type, message))
        return false;
    size_t size = (size_t)(pen->at - (uint8_t *)pen->buffer->data) - start;
    size_t n_more = rota_lean_varint_size(size) - 1;
    if (n_more > 0 && !has_room(pen, n_more))
        return false;
    uint8_t *body = (uint8_t *)pen->buffer->data + start;
    if (n_more > 0)
        memmove(body + n_more, body, size);
    rota_lean_put_varint(body - 1, size);
    pen->at += n_more;
    return true;
}

static bool put_str(struct pen *pen, uint32_t number, struct rota_str bytes)
{
    if (!has_room(pen, NUMBER_MAX + bytes.size))
        return false;
    pen->at = rota_lean_put_bytes(pen->at, number, bytes);
    return true;
}

static const void *entry_at(const struct rota_message_list *list,
                            const struct rota_message_type *type, size_t i)
{
    return (const char *)list->items + i * type->size;
}

static bool put_list(struct pen *pen, const struct rota_message_field *field, const void *at)
{
    const struct rota_message_strs *strs = at;
    const struct rota_message_list *list = at;
    bool is_fine = true;
    if (field->kind == ROTA_MESSAGE_STRS)
        for (size_t i = 0; is_fine && i < strs->n; i++)
            is_fine = put_str(pen, field->number, strs->items[i]);
    else
        for (size_t i = 0; is_fine && i < list->n; i++)
            is_fine = put_inner(pen, field->number, field->type, entry_at(list, field->type, i));
    return is_fine;
}

static bool put_field(struct pen *pen, const struct rota_message_field *field, const void *at)
{
    switch (field->kind) {
    case ROTA_MESSAGE_STR:
        return put_str(pen, field->number, *(const struct rota_str *)at);
    case ROTA_MESSAGE_STRS:
    case ROTA_MESSAGE_INNERS:
        return put_list(pen, field, at);
    case ROTA_MESSAGE_INNER:
        return put_inner(pen, field->number, field->type, *(const void *const *)at);
    case ROTA_MESSAGE_UINT:
    case ROTA_MESSAGE_SINT:
    case ROTA_MESSAGE_BOOL:
        break;
    }
    uint64_t value = field->kind == ROTA_MESSAGE_BOOL ? *(const bool *)at : *(const uint64_t *)at;
    if (field->kind == ROTA_MESSAGE_SINT)
        value = value << 1 ^ -(value >> 63);
    if (!has_room(pen, NUMBER_MAX))
        return false;
    pen->at = rota_lean_put_number(pen->at, field->number, value);
    return true;
}

/* Whether there is nothing to write of it. */
static inline bool is_empty(const struct rota_message_field *field, const void *at)
{
    switch (field->kind) {
    case ROTA_MESSAGE_STR:
        return ((const struct rota_str *)at)->size == 0;
    case ROTA_MESSAGE_STRS:
        return ((const struct rota_message_strs *)at)->n == 0;
    case ROTA_MESSAGE_INNERS:
        return ((const struct rota_message_list *)at)->n == 0;
    case ROTA_MESSAGE_INNER:
        return *(const void *const *)at == NULL;
    case ROTA_MESSAGE_UINT:
    case ROTA_MESSAGE_SINT:
        return *(const uint64_t *)at == 0;
    case ROTA_MESSAGE_BOOL:
        break;
    }
    return !*(const bool *)at;
}

/* Most fields of most messages are empty: those cost a look. */
static bool put(struct pen *pen, const struct rota_message_type *type, const void *message)
{
    const struct rota_message_field *field = type->fields, *end = field + type->n_fields;
    for (; field < end; field++)
        if (!is_empty(field, member(message, field)) &&
            !put_field(pen, field, member(message, field)))
            return false;
    return true;
}

static struct pen begin(struct rota_buffer *buffer)
{
    uint8_t *data = (uint8_t *)buffer->data;
    if (!data || buffer->failed)
        return (struct pen){.buffer = buffer}; /* it has no room */
    return (struct pen){buffer, data + buffer->size, data + buffer->capacity - 1};
}

/* All of it was written, or nothing. */
static void end(struct pen *pen, size_t before, bool is_fine)
{
    struct rota_buffer *buffer = pen->buffer;
    if (is_fine && pen->at)
        buffer->size = (size_t)(pen->at - (uint8_t *)buffer->data);
    else
        buffer->size = before;
    if (buffer->data)
        buffer->data[buffer->size] = '\0';
}

void rota_message_encode(const struct rota_message_type *type, const void *message,
                         struct rota_buffer *buffer)
{
    struct pen pen = begin(buffer);
    size_t before = buffer->size;
    end(&pen, before, put(&pen, type, message));
}

void rota_message_encode_entry(const struct rota_message_type *type, uint32_t number,
                               const void *message, struct rota_buffer *buffer)
{
    struct pen pen = begin(buffer);
    size_t before = buffer->size;
    end(&pen, before, put_inner(&pen, number, type, message));
}

/* --- reading --- */

struct reader {
    struct rota_arena *arena;
    struct rota_error *error;
    int depth;
};

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

static enum rota_code refuse(struct reader *reader, enum rota_code code,
                             const struct rota_message_type *type, uint32_t number, const char *why)
{
    return rota_error_set(reader->error, code, "field %u of the %s %s", number, type->name, why);
}

static enum rota_code refuse_memory(struct reader *reader, const struct rota_message_type *type)
{
    return rota_error_set(reader->error, ROTA_ERR_NO_MEMORY, "no memory for the %s", type->name);
}

/* The array of a list whose first entry was found; `rest` is all that follows it. */
static enum rota_code make_list(struct reader *reader, const struct rota_message_type *type,
                                const struct rota_message_field *field,
                                struct rota_lean_reader rest, size_t size, void **items)
{
    struct rota_lean_field found = {0};
    size_t n = 1, max = field->max ? field->max : ENTRIES_DEFAULT;
    while (n <= max && rota_lean_next(&rest, &found) == ROTA_LEAN_FIELD)
        n += found.number == field->number;
    if (n > max)
        return refuse(reader, ROTA_ERR_LIMIT, type, field->number, "has too many entries");
    *items = rota_arena_take(reader->arena, n * size);
    return *items ? ROTA_OK : refuse_memory(reader, type);
}

static enum rota_code read_message(struct reader *reader, const struct rota_message_type *type,
                                   struct rota_str bytes, void *message);

/* A list's array is taken with its first entry. */
static enum rota_code read_entry(struct reader *reader, const struct rota_message_type *type,
                                 const struct rota_message_field *field, struct rota_str bytes,
                                 struct rota_lean_reader rest, void *at)
{
    struct rota_message_strs *strs = at;
    struct rota_message_list *list = at;
    void *items = NULL;
    enum rota_code code = ROTA_OK;
    if (field->kind == ROTA_MESSAGE_STRS) {
        if (!strs->items && !(code = make_list(reader, type, field, rest, sizeof bytes, &items)))
            strs->items = items;
        if (!code)
            ((struct rota_str *)strs->items)[strs->n++] = bytes;
        return code;
    }
    if (!list->items && !(code = make_list(reader, type, field, rest, field->type->size, &items)))
        list->items = items;
    if (code)
        return code;
    return read_message(reader, field->type, bytes, (void *)entry_at(list, field->type, list->n++));
}

static enum rota_code read_inner(struct reader *reader, const struct rota_message_type *type,
                                 const struct rota_message_field *field, struct rota_str bytes,
                                 void *at)
{
    const void **inner = at;
    if (*inner)
        return refuse(reader, ROTA_ERR_INVALID, type, field->number, "comes twice");
    void *made = rota_arena_take(reader->arena, field->type->size);
    if (!made)
        return refuse_memory(reader, type);
    *inner = made;
    return read_message(reader, field->type, bytes, made);
}

static bool is_number(const struct rota_message_field *field)
{
    return field->kind == ROTA_MESSAGE_UINT || field->kind == ROTA_MESSAGE_SINT ||
           field->kind == ROTA_MESSAGE_BOOL;
}

/* `rest` is what follows the field. */
static enum rota_code read_field(struct reader *reader, const struct rota_message_type *type,
                                 const struct rota_message_field *field,
                                 const struct rota_lean_field *found, struct rota_lean_reader rest,
                                 void *message)
{
    void *at = (void *)member(message, field);
    if (found->type != (is_number(field) ? ROTA_LEAN_VARINT : ROTA_LEAN_BYTES))
        return refuse(reader, ROTA_ERR_INVALID, type, field->number, "is of another type");
    if (is_number(field) && field->max && found->value > field->max)
        return refuse(reader, ROTA_ERR_INVALID, type, field->number, "is too large");
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
        *(uint64_t *)at = found->value;
        break;
    case ROTA_MESSAGE_SINT:
        *(int64_t *)at = (int64_t)(found->value >> 1 ^ (found->value & 1 ? UINT64_MAX : 0));
        break;
    case ROTA_MESSAGE_BOOL:
        *(bool *)at = found->value != 0;
        break;
    case ROTA_MESSAGE_STR:
        *(struct rota_str *)at = found->bytes;
        break;
    case ROTA_MESSAGE_STRS:
    case ROTA_MESSAGE_INNERS:
        return read_entry(reader, type, field, found->bytes, rest, at);
    case ROTA_MESSAGE_INNER:
        return read_inner(reader, type, field, found->bytes, at);
    }
    return ROTA_OK;
}

static enum rota_code read_message(struct reader *reader, const struct rota_message_type *type,
                                   struct rota_str bytes, void *message)
{
    struct rota_lean_reader lean = rota_lean_reader(bytes);
    struct rota_lean_field found = {0};
    enum rota_lean_found next;
    enum rota_code code = ROTA_OK;
    assert(reader->depth < ROTA_MESSAGE_DEPTH_MAX); /* our types are not that deep */
    reader->depth++;
    memset(message, 0, type->size);
    while (!code && (next = rota_lean_next(&lean, &found)) != ROTA_LEAN_END) {
        if (next == ROTA_LEAN_MALFORMED)
            code =
                rota_error_set(reader->error, ROTA_ERR_INVALID, "the %s is malformed", type->name);
        const struct rota_message_field *field = code ? NULL : find(type, found.number);
        if (field)
            code = read_field(reader, type, field, &found, lean, message);
    }
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
