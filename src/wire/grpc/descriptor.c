#include "wire/grpc/descriptor.h"

#include "wire/message/lean.h"

/* The next field that has bytes. */
static enum rota_lean_found next_field(struct rota_lean_reader *reader,
                                       struct rota_lean_field *field)
{
    enum rota_lean_found found;
    do
        found = rota_lean_next(reader, field);
    while (found == ROTA_LEAN_FIELD && field->type != ROTA_LEAN_BYTES);
    return found;
}

/* The last value of a field with bytes, as protobuf has it. */
static enum rota_code get_field(struct rota_str message, uint32_t number, struct rota_str *value)
{
    struct rota_lean_reader reader = rota_lean_reader(message);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    *value = rota_str("");
    while ((found = next_field(&reader, &field)) == ROTA_LEAN_FIELD)
        if (field.number == number)
            *value = field.bytes;
    return found == ROTA_LEAN_END ? ROTA_OK : ROTA_ERR_INVALID;
}

/* --- symbols --- */

/* A place in which names are defined: "package.Message". */
struct scope {
    char name[ROTA_DESCRIPTOR_NAME_MAX + 1];
    size_t size;
};

static enum rota_code enter_scope(struct scope *scope, struct rota_str name)
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

static enum rota_code define_symbol(struct rota_descriptors *descriptors, const struct scope *scope,
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

static enum kind kind_of(enum kind holder, uint32_t number)
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

/* Define everything in `holder`, recursively. */
static enum rota_code walk_message(struct rota_descriptors *descriptors, struct scope *scope,
                                   enum kind holder, struct rota_str bytes, int depth)
{
    struct rota_lean_reader reader = rota_lean_reader(bytes);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    size_t size = scope->size;
    if (depth > ROTA_DESCRIPTOR_DEPTH_MAX)
        return ROTA_ERR_LIMIT;
    while ((found = next_field(&reader, &field)) == ROTA_LEAN_FIELD) {
        enum kind kind = kind_of(holder, field.number);
        struct rota_str name;
        if (kind == KIND_NONE)
            continue;
        enum rota_code code = get_field(field.bytes, 1, &name);
        if (!code)
            code = enter_scope(scope, name);
        if (!code)
            code = define_symbol(descriptors, scope, kind == KIND_SERVICE);
        if (!code)
            code = walk_message(descriptors, scope, kind, field.bytes, depth + 1);
        if (code)
            return code;
        scope->size = size;
    }
    return found == ROTA_LEAN_END ? ROTA_OK : ROTA_ERR_INVALID;
}

static enum rota_code add_file(struct rota_descriptors *descriptors, struct rota_str bytes)
{
    struct rota_descriptor_file file = {.bytes = bytes};
    struct scope scope = {.size = 0};
    struct rota_str package;
    if (get_field(bytes, 1, &file.name) || get_field(bytes, 2, &package))
        return ROTA_ERR_INVALID;
    if (rota_descriptors_file(descriptors, file.name))
        return ROTA_OK;
    if (descriptors->files.size == ROTA_DESCRIPTOR_FILES_MAX)
        return ROTA_ERR_LIMIT;
    if (!rota_vector_push(&descriptors->files, file))
        return ROTA_ERR_NO_MEMORY;
    enum rota_code code = package.size > 0 ? enter_scope(&scope, package) : ROTA_OK;
    return code ? code : walk_message(descriptors, &scope, KIND_FILE, bytes, 0);
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
    struct rota_lean_reader reader = rota_lean_reader(set);
    struct rota_lean_field field = {0};
    enum rota_lean_found found;
    while ((found = next_field(&reader, &field)) == ROTA_LEAN_FIELD) {
        enum rota_code code = field.number == 1 ? add_file(descriptors, field.bytes) : ROTA_OK;
        if (code)
            return code;
    }
    return found == ROTA_LEAN_END ? ROTA_OK : ROTA_ERR_INVALID;
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
