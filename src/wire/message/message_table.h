/* Macros for message tables, for files in src/wire that have many:
 *
 *     #define THIS struct rota_nodes_change
 *     static const struct rota_message_field CHANGE[] = {F(1, STR, node), F(2, BOOL, is_dry_run)};
 *     #undef THIS
 *     TYPE(ROTA_NODES_CHANGE, "request", struct rota_nodes_change, CHANGE);
 *
 * The names are short because a table is read as a whole; no other header includes this one. */
#ifndef ROTA_WIRE_MESSAGE_TABLE_H
#define ROTA_WIRE_MESSAGE_TABLE_H

#include "wire/message/message_code.h"

#define TYPE(type_name, text, result, table) TYPE_WITH(type_name, text, result, table, .put = NULL)

/* The same with a writer and a reader that are compiled for its fields: more code, so use it for
 * messages that every job or every call needs. */
#define HOT_TYPE(type_name, text, result, table)                                                   \
    HOT_CODE(type_name, result, table)                                                             \
    TYPE_WITH(type_name, text, result, table, .put = put_##table, .get = get_##table)

/* The same for one that is mostly in lists; it has no lists and no messages inside. */
#define HOT_ENTRY(type_name, text, result, table)                                                  \
    HOT_CODE(type_name, result, table)                                                             \
    static uint8_t *put_list_##table(struct rota_buffer *buffer, uint8_t *at, uint32_t number,     \
                                     const void *messages, size_t n)                               \
    {                                                                                              \
        return rota_message_put_list(buffer, at, table, N_OF(table), sizeof(result), number,       \
                                     messages, n);                                                 \
    }                                                                                              \
    TYPE_WITH(type_name, text, result, table, .put = put_##table, .put_list = put_list_##table,    \
              .get = get_##table)

#define HOT_CODE(type_name, result, table)                                                         \
    static uint8_t *put_##table(struct rota_buffer *buffer, uint8_t *at, const void *message)      \
    {                                                                                              \
        return rota_message_put(buffer, at, table, N_OF(table), message);                          \
    }                                                                                              \
    static enum rota_code get_##table(struct rota_message_reader *reader, struct rota_str bytes,   \
                                      void *message)                                               \
    {                                                                                              \
        memset(message, 0, sizeof(result));                                                        \
        return rota_message_get(reader, &(type_name), table, N_OF(table), bytes, message);         \
    }

#define N_OF(table) (sizeof(table) / sizeof *(table))
#define TYPE_WITH(type_name, text, result, table, ...)                                             \
    const struct rota_message_type type_name = {.name = (text),                                    \
                                                .size = sizeof(result),                            \
                                                .fields = (table),                                 \
                                                .n_fields = N_OF(table),                           \
                                                __VA_ARGS__}

/* A field; the first with more members of struct rota_message_field. */
#define F_WITH(n, kind, member, ...)                                                               \
    {                                                                                              \
        .name = #member, .number = (n), ROTA_MESSAGE_INTO(kind, THIS, member), __VA_ARGS__         \
    }
#define F(n, kind, member)        F_WITH(n, kind, member, .max = 0)
#define F_MAX(n, kind, member, m) F_WITH(n, kind, member, .max = (m))
#define F_OF(n, kind, member, t)  F_WITH(n, kind, member, .type = &(t))
#define F_LIST(n, member, t, m)   F_WITH(n, INNERS, member, .type = &(t), .max = (m))
#define F_BYTES(n, member)        F_WITH(n, STR, member, .form = ROTA_MESSAGE_BYTES)
#define F_PACKED(n, member)       F_WITH(n, STR, member, .form = ROTA_MESSAGE_PACKED)
#define F_ID(n, member)           F_WITH(n, STR, member, .form = ROTA_MESSAGE_HEX)
#define F_NAMED(n, member, names) F_WITH(n, UINT, member, .name_of = (names))

#endif
