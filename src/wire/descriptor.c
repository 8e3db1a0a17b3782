#include "wire/descriptor.h"

#include <string.h>

/* --- protobuf's encoding, as far as it is met here --- */

struct field {
    uint64_t number;
    struct rota_str bytes; /* of a field with a length; empty for others */
};

struct reader {
    struct rota_str rest;
    bool is_bad;
};

static uint64_t varint(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reader->rest.size > 0; shift += 7) {
        uint8_t byte = (uint8_t)*reader->rest.data;
        reader->rest.data++;
        reader->rest.size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    reader->is_bad = true;
    return 0;
}

static struct rota_str take(struct reader *reader, uint64_t size)
{
    struct rota_str taken = {reader->rest.data, (size_t)size};
    if (reader->is_bad || size > reader->rest.size) {
        reader->is_bad = true;
        return (struct rota_str){"", 0};
    }
    reader->rest.data += size;
    reader->rest.size -= (size_t)size;
    return taken;
}

/* The next field; false at the end, and when the bytes are no fields. */
static bool next(struct reader *reader, struct field *field)
{
    enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
    if (reader->is_bad || reader->rest.size == 0)
        return false;
    uint64_t tag = varint(reader);
    field->number = tag >> 3;
    field->bytes = (struct rota_str){"", 0};
    switch (tag & 7) {
    case VARINT:
        varint(reader);
        break;
    case FIXED64:
        take(reader, 8);
        break;
    case BYTES: {
        uint64_t size = varint(reader);
        field->bytes = take(reader, size);
        break;
    }
    case FIXED32:
        take(reader, 4);
        break;
    default: /* groups are of another time */
        reader->is_bad = true;
        break;
    }
    return !reader->is_bad;
}

/* The last value of a field with a length, as protobuf has it. */
static enum rota_code get(struct rota_str message, uint64_t number, struct rota_str *value)
{
    struct reader reader = {.rest = message};
    struct field field;
    *value = (struct rota_str){"", 0};
    while (next(&reader, &field))
        if (field.number == number)
            *value = field.bytes;
    return reader.is_bad ? ROTA_ERR_INVALID : ROTA_OK;
}

/* --- symbols --- */

/* A place in which names are defined: "package.Message". */
struct scope {
    char name[ROTA_DESCRIPTOR_NAME_MAX + 1];
    size_t size;
};

static enum rota_code enter(struct scope *scope, struct rota_str name)
{
    size_t has_dot = scope->size > 0;
    if (name.size == 0 || memchr(name.data, '\0', name.size))
        return ROTA_ERR_INVALID;
    if (scope->size + has_dot + name.size > ROTA_DESCRIPTOR_NAME_MAX)
        return ROTA_ERR_LIMIT;
    if (has_dot)
        scope->name[scope->size++] = '.';
    memcpy(scope->name + scope->size, name.data, name.size);
    scope->size += name.size;
    return ROTA_OK;
}

static enum rota_code define(struct rota_descriptors *descriptors, const struct scope *scope,
                             bool is_service)
{
    struct rota_str name = {scope->name, scope->size};
    if (rota_map_get(&descriptors->by_name, name))
        return ROTA_OK;
    if (descriptors->symbols.size == ROTA_DESCRIPTOR_SYMBOLS_MAX)
        return ROTA_ERR_LIMIT;
    struct rota_descriptor_symbol *symbol = malloc(sizeof *symbol + name.size + 1);
    if (!symbol || !rota_vector_push(&descriptors->symbols, symbol)) {
        free(symbol);
        return ROTA_ERR_NO_MEMORY;
    }
    symbol->file = (uint32_t)descriptors->files.size - 1;
    symbol->is_service = is_service;
    memcpy(symbol->name, name.data, name.size);
    symbol->name[name.size] = '\0';
    bool is_put = rota_map_put(&descriptors->by_name, rota_str(symbol->name), symbol);
    return is_put ? ROTA_OK : ROTA_ERR_NO_MEMORY;
}

/* What kinds of definition there are, by the numbers of the fields that hold
 * them in a file or in another definition. */
enum kind { KIND_FILE, KIND_MESSAGE, KIND_ENUM, KIND_SERVICE, KIND_METHOD, KIND_NONE };

static enum kind kind_of(enum kind holder, uint64_t number)
{
    switch (holder) {
    case KIND_FILE:
        return number == 4   ? KIND_MESSAGE
               : number == 5 ? KIND_ENUM
               : number == 6 ? KIND_SERVICE
                             : KIND_NONE;
    case KIND_MESSAGE:
        return number == 3 ? KIND_MESSAGE : number == 4 ? KIND_ENUM : KIND_NONE;
    case KIND_SERVICE:
        return number == 2 ? KIND_METHOD : KIND_NONE;
    case KIND_ENUM:
    case KIND_METHOD:
    case KIND_NONE:
        return KIND_NONE;
    }
    return KIND_NONE;
}

/* Define all that `holder` holds, and what that holds. */
static enum rota_code walk(struct rota_descriptors *descriptors, struct scope *scope,
                           enum kind holder, struct rota_str bytes, int depth)
{
    struct reader reader = {.rest = bytes};
    struct field field;
    size_t size = scope->size;
    if (depth > ROTA_DESCRIPTOR_DEPTH_MAX)
        return ROTA_ERR_LIMIT;
    while (next(&reader, &field)) {
        enum kind kind = kind_of(holder, field.number);
        struct rota_str name;
        if (kind == KIND_NONE)
            continue;
        enum rota_code code = get(field.bytes, 1, &name);
        if (!code)
            code = enter(scope, name);
        if (!code)
            code = define(descriptors, scope, kind == KIND_SERVICE);
        if (!code)
            code = walk(descriptors, scope, kind, field.bytes, depth + 1);
        if (code)
            return code;
        scope->size = size;
    }
    return reader.is_bad ? ROTA_ERR_INVALID : ROTA_OK;
}

static enum rota_code add_file(struct rota_descriptors *descriptors, struct rota_str bytes)
{
    struct rota_descriptor_file file = {.bytes = bytes};
    struct scope scope = {.size = 0};
    struct rota_str package;
    if (get(bytes, 1, &file.name) || get(bytes, 2, &package))
        return ROTA_ERR_INVALID;
    if (rota_descriptors_file(descriptors, file.name))
        return ROTA_OK;
    if (descriptors->files.size == ROTA_DESCRIPTOR_FILES_MAX)
        return ROTA_ERR_LIMIT;
    if (!rota_vector_push(&descriptors->files, file))
        return ROTA_ERR_NO_MEMORY;
    enum rota_code code = package.size > 0 ? enter(&scope, package) : ROTA_OK;
    return code ? code : walk(descriptors, &scope, KIND_FILE, bytes, 0);
}

/* --- all of them --- */

void rota_descriptors_init(struct rota_descriptors *descriptors)
{
    memset(descriptors, 0, sizeof *descriptors);
    rota_map_init(&descriptors->by_name, 0);
}

void rota_descriptors_deinit(struct rota_descriptors *descriptors)
{
    for (size_t i = 0; i < descriptors->symbols.size; i++)
        free(descriptors->symbols.items[i]);
    rota_vector_deinit(&descriptors->symbols);
    rota_vector_deinit(&descriptors->files);
    rota_map_deinit(&descriptors->by_name);
}

enum rota_code rota_descriptors_add(struct rota_descriptors *descriptors, struct rota_str set)
{
    struct reader reader = {.rest = set};
    struct field field;
    while (next(&reader, &field)) {
        enum rota_code code = field.number == 1 ? add_file(descriptors, field.bytes) : ROTA_OK;
        if (code)
            return code;
    }
    return reader.is_bad ? ROTA_ERR_INVALID : ROTA_OK;
}

const struct rota_descriptor_file *rota_descriptors_file(const struct rota_descriptors *descriptors,
                                                         struct rota_str name)
{
    for (size_t i = 0; i < descriptors->files.size; i++)
        if (rota_str_is_equal(descriptors->files.items[i].name, name))
            return &descriptors->files.items[i];
    return NULL;
}

const struct rota_descriptor_file *rota_descriptors_file_of(
    const struct rota_descriptors *descriptors, struct rota_str symbol)
{
    const struct rota_descriptor_symbol *found = rota_map_get(&descriptors->by_name, symbol);
    return found ? &descriptors->files.items[found->file] : NULL;
}
