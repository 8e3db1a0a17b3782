#include "wire/message/message_json.h"

#include "base/hex.h"
#include "base/quote.h"
#include "base/spell.h"
#include "base/utf8.h"
#include "wire/grpc/grpc.h"
#include "wire/text/json_scan.h"

#include <string.h>

static const void *field_at(const void *message, const struct rota_message_field *field)
{
    return (const char *)message + field->offset;
}

/* --- writing --- */

static bool is_text(struct rota_str bytes)
{
    for (struct rota_str rest = bytes; rest.size > 0;) {
        size_t size;
        if (rest.data[0] == '\0' || rota_utf8_decode(rest, &size) == ROTA_UTF8_NONE)
            return false;
        rest = rota_str_of(rest.data + size, rest.size - size);
    }
    return true;
}

static void write_bytes(struct rota_str bytes, struct rota_json *json)
{
    if (is_text(bytes)) {
        rota_json_string(json, bytes);
        return;
    }
    struct rota_buffer text = {0};
    rota_grpc_base64_encode(&text, bytes);
    rota_json_begin_object(json);
    rota_json_add_string(json, "base64", rota_buffer_str(&text));
    rota_json_end_object(json);
    json->buffer->failed |= text.failed;
    rota_buffer_deinit(&text);
}

static void write_hex(struct rota_str bytes, struct rota_json *json)
{
    enum { BYTES_MAX = 64 };
    static const char DIGITS[] = "0123456789abcdef";
    char text[2 * BYTES_MAX];
    size_t n = bytes.size < BYTES_MAX ? bytes.size : BYTES_MAX;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = DIGITS[(unsigned char)bytes.data[i] >> 4];
        text[2 * i + 1] = DIGITS[bytes.data[i] & 15];
    }
    rota_json_string(json, rota_str_of(text, 2 * n));
}

static void write_str(const struct rota_message_field *field, struct rota_str value,
                      struct rota_json *json)
{
    switch (field->form) {
    case ROTA_MESSAGE_PLAIN:
        rota_json_string(json, value);
        return;
    case ROTA_MESSAGE_BYTES:
    case ROTA_MESSAGE_PACKED:
        write_bytes(value, json);
        return;
    case ROTA_MESSAGE_HEX:
        write_hex(value, json);
        return;
    }
}

static void write_uint(const struct rota_message_field *field, uint64_t value,
                       struct rota_json *json)
{
    const char *name = field->name_of ? field->name_of(value) : NULL;
    if (name)
        rota_json_text(json, name);
    else
        rota_json_uint(json, value);
}

static void write_strs(const struct rota_message_strs *strs, struct rota_json *json)
{
    rota_json_begin_array(json);
    for (size_t i = 0; i < strs->n; i++)
        rota_json_string(json, strs->items[i]);
    rota_json_end_array(json);
}

static void write_inners(const struct rota_message_field *field,
                         const struct rota_message_list *list, struct rota_json *json)
{
    rota_json_begin_array(json);
    for (size_t i = 0; i < list->n; i++)
        rota_message_json_write(field->type, (const char *)list->items + i * field->type->size,
                                json);
    rota_json_end_array(json);
}

static void write_inner(const struct rota_message_field *field, const void *inner,
                        struct rota_json *json)
{
    if (inner)
        rota_message_json_write(field->type, inner, json);
    else
        rota_json_null(json);
}

static void write_field(const struct rota_message_field *field, const void *value,
                        struct rota_json *json)
{
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
        write_uint(field, *(const uint64_t *)value, json);
        return;
    case ROTA_MESSAGE_INT:
    case ROTA_MESSAGE_SINT:
        rota_json_int(json, *(const int64_t *)value);
        return;
    case ROTA_MESSAGE_BOOL:
        rota_json_bool(json, *(const bool *)value);
        return;
    case ROTA_MESSAGE_STR:
        write_str(field, *(const struct rota_str *)value, json);
        return;
    case ROTA_MESSAGE_STRS:
        write_strs(value, json);
        return;
    case ROTA_MESSAGE_INNER:
        write_inner(field, *(const void *const *)value, json);
        return;
    case ROTA_MESSAGE_INNERS:
        write_inners(field, value, json);
        return;
    }
}

void rota_message_json_write_members(const struct rota_message_type *type, const void *message,
                                     struct rota_json *json)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        rota_json_key(json, type->fields[i].name);
        write_field(&type->fields[i], field_at(message, &type->fields[i]), json);
    }
}

void rota_message_json_write(const struct rota_message_type *type, const void *message,
                             struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_message_json_write_members(type, message, json);
    rota_json_end_object(json);
}

/* --- reading --- */

struct reader {
    struct rota_scan scan;
    const struct rota_message_type *type;
    struct rota_arena *arena;
    struct rota_error *error;
};

static enum rota_code reject_field(const struct reader *reader, const char *name, const char *why)
{
    return rota_error_set(reader->error, ROTA_ERR_INVALID, "%s of the %s %s", name,
                          reader->type->name, why);
}

static enum rota_code read_hex(struct reader *reader, const char *name, struct rota_str *value)
{
    struct rota_str text = rota_json_scan_string(&reader->scan);
    char *bytes = rota_arena_take(reader->arena, text.size / 2 + 1);
    if (!bytes)
        return rota_error_no_memory(reader->error, "to read a request");
    bool is_hex = text.size % 2 == 0;
    for (size_t i = 0; is_hex && i < text.size; i += 2) {
        int high = rota_hex_digit(text.data[i]), low = rota_hex_digit(text.data[i + 1]);
        is_hex = high >= 0 && low >= 0;
        if (is_hex)
            bytes[i / 2] = (char)(high << 4 | low);
    }
    if (!is_hex)
        return reject_field(reader, name, "takes pairs of hexadecimal digits");
    *value = rota_str_of(bytes, text.size / 2);
    return ROTA_OK;
}

/* {"base64": "..."} */
static enum rota_code read_base64(struct reader *reader, const char *name, struct rota_str *value)
{
    struct rota_buffer bytes = {0};
    struct rota_str key, text = rota_str("");
    bool is_known = true;
    rota_json_scan_object(&reader->scan);
    while (rota_json_scan_key(&reader->scan, &key)) {
        is_known &= rota_str_is_equal(key, rota_str("base64"));
        text = rota_json_scan_string(&reader->scan);
    }
    if (!is_known || rota_grpc_base64_decode(&bytes, text)) {
        rota_buffer_deinit(&bytes);
        return reject_field(reader, name, "takes a string, or {\"base64\": \"...\"}");
    }
    *value = rota_arena_copy(reader->arena, rota_buffer_str(&bytes));
    rota_buffer_deinit(&bytes);
    return value->data ? ROTA_OK : rota_error_no_memory(reader->error, "to read a request");
}

static bool is_object_next(const struct rota_scan *scan)
{
    const char *next = scan->at;
    while (next < scan->end && (*next == ' ' || *next == '\t' || *next == '\r' || *next == '\n'))
        next++;
    return next < scan->end && *next == '{';
}

static enum rota_code read_strs(struct reader *reader, const struct rota_message_field *field,
                                struct rota_message_strs *strs)
{
    size_t n = 0, max = field->max ? field->max : 256;
    struct rota_str *items = rota_arena_take(reader->arena, max * sizeof *items);
    if (!items)
        return rota_error_no_memory(reader->error, "to read a request");
    rota_json_scan_array(&reader->scan);
    while (rota_json_scan_item(&reader->scan)) {
        if (n == max)
            return rota_error_set(reader->error, ROTA_ERR_INVALID,
                                  "%s of the %s has at most %zu entries", field->name,
                                  reader->type->name, max);
        items[n++] = rota_json_scan_string(&reader->scan);
    }
    *strs = (struct rota_message_strs){items, n};
    return ROTA_OK;
}

static enum rota_code read_field(struct reader *reader, const struct rota_message_field *field,
                                 void *value)
{
    switch (field->kind) {
    case ROTA_MESSAGE_UINT:
        *(uint64_t *)value =
            rota_json_scan_uint(&reader->scan, field->max ? field->max : (uint64_t)INT64_MAX);
        return ROTA_OK;
    case ROTA_MESSAGE_INT:
    case ROTA_MESSAGE_SINT:
        *(int64_t *)value = rota_json_scan_int(&reader->scan);
        return ROTA_OK;
    case ROTA_MESSAGE_BOOL:
        *(bool *)value = rota_json_scan_bool(&reader->scan);
        return ROTA_OK;
    case ROTA_MESSAGE_STR:
        if (field->form == ROTA_MESSAGE_HEX)
            return read_hex(reader, field->name, value);
        if (field->form == ROTA_MESSAGE_BYTES && is_object_next(&reader->scan))
            return read_base64(reader, field->name, value);
        *(struct rota_str *)value = rota_json_scan_string(&reader->scan);
        return ROTA_OK;
    case ROTA_MESSAGE_STRS:
        return read_strs(reader, field, value);
    case ROTA_MESSAGE_INNER:
    case ROTA_MESSAGE_INNERS:
        return reject_field(reader, field->name, "must not be set");
    }
    return ROTA_OK;
}

/* A null, which means not given. */
static bool skip_null(struct rota_scan *scan)
{
    struct rota_scan ahead = *scan;
    if (!rota_str_is_equal(rota_json_scan_skip(&ahead), rota_str("null")))
        return false;
    *scan = ahead;
    return true;
}

static enum rota_code read_member(struct reader *reader, struct rota_str key, void *message)
{
    struct rota_spell spell = {.word = key};
    char quoted[ROTA_QUOTE_MAX], near[ROTA_SPELL_HINT_MAX];
    for (size_t i = 0; i < reader->type->n_fields; i++) {
        const struct rota_message_field *field = &reader->type->fields[i];
        rota_spell_offer(&spell, field->name);
        if (!rota_str_is_equal(key, rota_str(field->name)))
            continue;
        if (skip_null(&reader->scan))
            return ROTA_OK;
        enum rota_code code = read_field(reader, field, (char *)message + field->offset);
        if (!code && reader->scan.failed)
            return reject_field(reader, field->name,
                                "has a value of the wrong type, or one that is too large");
        return code;
    }
    return rota_error_set(reader->error, ROTA_ERR_INVALID, "a %s has no %s%s", reader->type->name,
                          rota_quote(key, quoted), rota_spell_hint(&spell, near));
}

enum rota_code rota_message_json_read(const struct rota_message_type *type, struct rota_str text,
                                      void *message, struct rota_arena *arena,
                                      struct rota_error *error)
{
    struct reader reader = {.type = type, .arena = arena, .error = error};
    struct rota_str key;
    char *room = rota_arena_take(arena, text.size + 1);
    enum rota_code code = ROTA_OK;
    memset(message, 0, type->size);
    if (!room)
        return rota_error_no_memory(error, "to read a request");
    rota_json_scan_init(&reader.scan, text, room);
    rota_json_scan_object(&reader.scan);
    while (!code && rota_json_scan_key(&reader.scan, &key))
        code = read_member(&reader, key, message);
    if (!code)
        rota_json_scan_end(&reader.scan);
    if (!code && reader.scan.failed)
        code = rota_error_set(error, ROTA_ERR_INVALID, "the %s is not a JSON object", type->name);
    if (code)
        memset(message, 0, type->size);
    return code;
}
