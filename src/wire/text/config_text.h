/* config_text: a strict reader of a small part of TOML.
 *
 * It knows lines, tables, keys and typed values, but not their meaning; the caller, which does,
 * gets a flat list in the order of the file, with the place of everything, for messages.
 *
 * Read: comments, `[table]` and `[[array of tables]]` headers, `key = value` with bare keys and
 * dots between them, "basic" and 'literal' strings, decimal integers, booleans, date-times with an
 * offset, and inline tables. All other features of TOML are rejected by name (floats, arrays,
 * multi-line strings, quoted keys, other bases, local dates and times, tables inside an array of
 * tables), so that a file which is read means the same to any other reader of TOML.
 *
 * Invariants: a key has one value and a table one header; strings are valid UTF-8 and hold no
 * NUL; nothing points into the caller's text. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_CONFIG_TEXT_MAX = 4 << 20,         /* bytes of a file */
    ROTA_CONFIG_TEXT_ENTRIES_MAX = 1 << 17, /* values in a file, fields of inline tables too */
    ROTA_CONFIG_TEXT_TABLES_MAX = 1 << 14,  /* headers in a file */
    ROTA_CONFIG_TEXT_KEY_MAX = 255,         /* bytes of a key with its dots */
    ROTA_CONFIG_TEXT_DEPTH_MAX = 8,         /* parts of a key; inline tables in each other */
};

enum rota_config_text_type {
    ROTA_CONFIG_TEXT_STRING,
    ROTA_CONFIG_TEXT_INTEGER,
    ROTA_CONFIG_TEXT_BOOLEAN,
    ROTA_CONFIG_TEXT_TIME,
    ROTA_CONFIG_TEXT_TABLE, /* inline: its fields are the entries right after it */
};

struct rota_config_text_entry {
    struct rota_str key; /* "a.b", without spaces; within its table or inline table */
    size_t table;        /* number of the table it is in */
    uint32_t line;       /* from 1 */
    uint32_t column;     /* in bytes, from 1; of the key */
    enum rota_config_text_type type;
    union {
        struct rota_str string;
        int64_t integer;
        bool boolean;
        rota_time time;  /* wall clock */
        size_t n_fields; /* entries after this one that are inside it, nested ones too */
    };
};

struct rota_config_text_table {
    struct rota_str name; /* "a.b"; empty for what is before the first header */
    uint32_t line;        /* of the header; 1 for the one without */
    bool is_array;
    size_t instance; /* which one of its array, from 0 */
    size_t first_entry, n_entries;
};

struct rota_config_text {
    struct rota_config_text_table *tables; /* the first is the one without a header */
    struct rota_config_text_entry *entries;
    size_t n_tables, n_entries;
    char *text; /* what all the strings point into */
};

/* Read `text`; `file` is its name in messages, which begin with "FILE:LINE: ".
 * Fills `*document`; rota_config_text_deinit() ends it. Any thread. */
enum rota_code rota_config_text_parse(struct rota_str text, const char *file,
                                      struct rota_config_text *document, struct rota_error *error);

void rota_config_text_deinit(struct rota_config_text *document);

/* For messages: "a string", "an integer", ... */
const char *rota_config_text_type_name(enum rota_config_text_type type);
