#include "wire/message/message.h"

#include "wire/message/message_code.h"

#include <assert.h>

enum {
    ENTRIES_DEFAULT = 4096,
    ESTIMATE_MAX = 1 << 15, /* bytes of a list, before it is known how long it is */
};

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

/* Not inlined, so that a type with a writer of its own does not pay for it. */
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

static inline uint8_t *put_message(struct rota_buffer *buffer, uint8_t *at,
                                   const struct rota_message_type *type, const void *message)
{
    return type->put ? type->put(buffer, at, message) : put_any(buffer, at, type, message);
}

uint8_t *rota_message_put_long_size(struct rota_buffer *buffer, uint8_t *at, size_t size)
{
    size_t n_more = rota_lean_varint_size(size) - 1;
    at = rota_message_make_room(buffer, at, n_more);
    if (!at)
        return NULL;
    memmove(at - size + n_more, at - size, size);
    rota_lean_put_varint(at - size - 1, size);
    return at + n_more;
}

static uint8_t *put_inners(struct rota_buffer *buffer, uint8_t *at, uint32_t number,
                           const struct rota_message_type *type, const void *messages, size_t n)
{
    const char *message = messages;
    if (type->put_list && number < 16)
        return type->put_list(buffer, at, number, messages, n);
    for (; at && n > 0; n--, message += type->size) {
        at = rota_message_make_room(buffer, at, ROTA_MESSAGE_HEAD_MAX);
        if (!at)
            return NULL;
        at = rota_lean_put_varint(at, (uint64_t)number << 3 | ROTA_LEAN_BYTES) + 1;
        size_t start = (size_t)(at - (uint8_t *)buffer->data);
        at = put_message(buffer, at, type, message);
        if (at)
            at = rota_message_put_size(buffer, at, (size_t)(at - (uint8_t *)buffer->data) - start);
    }
    return at;
}

/* All of them, and what follows, in one piece of memory. */
static uint8_t *put_strs(struct rota_buffer *buffer, uint8_t *at, uint32_t number,
                         const struct rota_message_strs *strs, size_t ahead)
{
    const struct rota_str *items = strs->items;
    size_t n = strs->n, size = ahead + n * ROTA_MESSAGE_HEAD_MAX;
    for (size_t i = 0; i < n; i++)
        size += items[i].size;
    at = rota_message_make_room(buffer, at, size);
    if (!at)
        return NULL;
    for (size_t i = 0; i < n; i++)
        at = rota_lean_put_bytes(at, number, items[i]);
    return at;
}

uint8_t *rota_message_put_nested(struct rota_buffer *buffer, uint8_t *at,
                                 const struct rota_message_field *field, const void *value,
                                 size_t ahead)
{
    const struct rota_message_list *list = value;
    const void *inner = *(const void *const *)value;
    if (field->kind == ROTA_MESSAGE_STRS)
        return put_strs(buffer, at, field->number, value, ahead);
    if (field->kind == ROTA_MESSAGE_INNERS)
        at = put_inners(buffer, at, field->number, field->type, list->items, list->n);
    else if (inner)
        at = put_inners(buffer, at, field->number, field->type, inner, 1);
    return at ? rota_message_make_room(buffer, at, ahead) : NULL;
}

/* A buffer without memory gets some. */
static uint8_t *begin_message(struct rota_buffer *buffer)
{
    if (buffer->failed || !buffer->data)
        return rota_message_grow(buffer, NULL, 0);
    return (uint8_t *)buffer->data + buffer->size;
}

/* All of it was written, or nothing. */
static void end_message(struct rota_buffer *buffer, const uint8_t *at)
{
    if (at)
        buffer->size = (size_t)(at - (uint8_t *)buffer->data);
    if (buffer->data)
        buffer->data[buffer->size] = '\0';
}

void rota_message_encode(const struct rota_message_type *type, const void *message,
                         struct rota_buffer *buffer)
{
    uint8_t *at = begin_message(buffer);
    end_message(buffer, at ? put_message(buffer, at, type, message) : NULL);
}

void rota_message_encode_entry(const struct rota_message_type *type, uint32_t number,
                               const void *message, struct rota_buffer *buffer)
{
    uint8_t *at = begin_message(buffer);
    end_message(buffer, at ? put_inners(buffer, at, number, type, message, 1) : NULL);
}

/* --- reading --- */

/* Numbers without gaps, as most types have them, are found at once. */
static const struct rota_message_field *find_field(const struct rota_message_type *type,
                                                   uint32_t number)
{
    if (number - 1 < type->n_fields && type->fields[number - 1].number == number)
        return &type->fields[number - 1];
    for (size_t i = 0; i < type->n_fields; i++)
        if (type->fields[i].number == number)
            return &type->fields[i];
    return NULL;
}

static enum rota_code reject_field(struct rota_message_reader *reader,
                                   const struct rota_message_type *type,
                                   const struct rota_message_field *field, const char *why)
{
    return rota_error_set(reader->error, ROTA_ERR_INVALID, "%s of the %s %s", field->name,
                          type->name, why);
}

static enum rota_code refuse_memory(struct rota_message_reader *reader,
                                    const struct rota_message_type *type)
{
    return rota_error_no_memory(reader->error, "for the %s", type->name);
}

static enum rota_code get_message(struct rota_message_reader *reader,
                                  const struct rota_message_type *type, struct rota_str bytes,
                                  void *message)
{
    if (type->get)
        return type->get(reader, bytes, message);
    memset(message, 0, type->size);
    return rota_message_get_rest(reader, type, rota_lean_reader(bytes), message);
}

/* Room for at least `needed` entries of `size` bytes, if that many are allowed. */
static enum rota_code grow_list(struct rota_message_reader *reader,
                                const struct rota_message_type *type,
                                const struct rota_message_field *field, size_t size, size_t needed,
                                struct rota_message_list *list, size_t *capacity)
{
    size_t max = field->max ? field->max : ENTRIES_DEFAULT;
    if (needed > max)
        return rota_error_set(reader->error, ROTA_ERR_LIMIT, "%s of the %s has at most %zu entries",
                              field->name, type->name, max);
    *capacity = *capacity < needed ? needed : *capacity > max ? max : *capacity;
    void *items = rota_arena_take(reader->arena, *capacity * size);
    if (!items)
        return refuse_memory(reader, type);
    if (list->n > 0)
        memcpy(items, list->items, list->n * size);
    list->items = items;
    return ROTA_OK;
}

static size_t count_entries(struct rota_lean_reader rest, uint32_t number)
{
    struct rota_lean_field found = {0};
    size_t n = 0;
    while (rota_lean_next(&rest, &found) == ROTA_LEAN_FIELD)
        n += found.number == number;
    return n;
}

/* An entry, and those that follow it at once: texts, or messages if there is an `entry`. The first
 * ones are read into an array that grows from an estimate. After them it has room for exactly those
 * that come later, so that many pieces are not copied many times. */
ROTA_MESSAGE_INLINE enum rota_code get_list(struct rota_message_reader *reader,
                                            const struct rota_message_type *type,
                                            const struct rota_message_field *field,
                                            const struct rota_message_type *entry, size_t size,
                                            struct rota_str bytes, struct rota_lean_reader *rest,
                                            struct rota_message_list *result)
{
    const uint32_t number = field->number;
    struct rota_lean_reader next = *rest;
    struct rota_message_list list = *result;
    bool is_first = !list.items;
    size_t capacity = is_first ? 0 : SIZE_MAX;
    enum rota_code code = ROTA_OK;
    do {
        if (list.n == capacity) {
            size_t estimate = (size_t)(next.end - next.at) / (bytes.size + 2) + 1;
            capacity = list.n                           ? 2 * list.n
                       : estimate < ESTIMATE_MAX / size ? estimate
                                                        : ESTIMATE_MAX / size;
            code = grow_list(reader, type, field, size, list.n + 1, &list, &capacity);
            if (code)
                return code;
        }
        char *to = (char *)list.items + list.n++ * size;
        if (entry)
            code = get_message(reader, entry, bytes, to);
        else
            *(struct rota_str *)to = bytes;
    } while (!code && rota_lean_take_bytes(&next, number, &bytes));
    if (!code && is_first && next.at != next.end) {
        size_t needed = list.n + count_entries(next, number);
        if (needed > list.n)
            code = grow_list(reader, type, field, size, needed, &list, &needed);
    }
    *result = list;
    *rest = next;
    return code;
}

static enum rota_code get_strs(struct rota_message_reader *reader,
                               const struct rota_message_type *type,
                               const struct rota_message_field *field, struct rota_str bytes,
                               struct rota_lean_reader *rest, struct rota_message_strs *strs)
{
    struct rota_message_list list = {strs->items, strs->n};
    enum rota_code code = get_list(reader, type, field, NULL, sizeof bytes, bytes, rest, &list);
    *strs = (struct rota_message_strs){list.items, list.n};
    return code;
}

static enum rota_code get_inners(struct rota_message_reader *reader,
                                 const struct rota_message_type *type,
                                 const struct rota_message_field *field, struct rota_str bytes,
                                 struct rota_lean_reader *rest, struct rota_message_list *list)
{
    return get_list(reader, type, field, field->type, field->type->size, bytes, rest, list);
}

static enum rota_code get_inner(struct rota_message_reader *reader,
                                const struct rota_message_type *type,
                                const struct rota_message_field *field, struct rota_str bytes,
                                const void **inner)
{
    if (*inner)
        return reject_field(reader, type, field, "is given twice");
    void *made = rota_arena_take(reader->arena, field->type->size);
    if (!made)
        return refuse_memory(reader, type);
    *inner = made;
    return get_message(reader, field->type, bytes, made);
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
        return reject_field(reader, type, field, "has the wrong type");
    if (is_number && found->value > rota_message_number_max(field))
        return rota_error_set(reader->error, ROTA_ERR_INVALID,
                              "%s of the %s is at most %llu, not %llu", field->name, type->name,
                              (unsigned long long)rota_message_number_max(field),
                              (unsigned long long)found->value);
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
    case ROTA_MESSAGE_INT:
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
        const struct rota_message_field *field = code ? NULL : find_field(type, found.number);
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
    enum rota_code code = get_message(&reader, type, bytes, message);
    if (code)
        memset(message, 0, type->size);
    return code;
}
