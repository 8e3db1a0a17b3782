/* table: the answer of a command as a table for people, lines for programs, or JSON.
 *
 * A command builds its answer once, as a JSON document. The table and the lines are made from that
 * document by a list of columns, so all forms say the same.
 *
 *     table  a header and aligned columns, cut to the terminal's width
 *     wide   the same with every column, and nothing cut
 *     tsv    every column, separated by tabs, without a header
 *     json   the document itself
 *
 * Unless you choose, a terminal gets a table and everything else gets lines.
 *
 * A sheet is the same for a single object: a line per field, its title and its value, and below
 * them a table for each array in the object. Its lines are the field's name and the value; those of
 * an array begin with a name of their own. */
#pragma once

#include "base/buffer.h"
#include "cli/terminal.h"

#include <rota/error.h>

enum rota_table_form {
    ROTA_TABLE_AUTO,
    ROTA_TABLE_PLAIN,
    ROTA_TABLE_WIDE,
    ROTA_TABLE_TSV,
    ROTA_TABLE_JSON,
};

extern const char *const rota_table_form_names[];

/* `field` of `result` is an int that holds an enum rota_table_form. */
#define ROTA_TABLE_OPTION(result, field)                                                           \
    ROTA_TABLE_OPTION_HELP(result, field,                                                          \
                           "output format; auto is a table on a terminal and tsv elsewhere")

/* The same for a command whose AUTO is something else. */
#define ROTA_TABLE_OPTION_HELP(result, field, the_help)                                            \
    {                                                                                              \
        .name = "output", .letter = 'o', ROTA_OPTION_INTO(CHOICE, result, field),                  \
        .value_name = "FORMAT", .choices = rota_table_form_names, .default_text = "auto",          \
        .help = (the_help)                                                                         \
    }

enum rota_table_kind {
    ROTA_TABLE_TEXT, /* cut where the terminal is too narrow */
    ROTA_TABLE_NAME, /* never cut: people copy it */
    ROTA_TABLE_NUMBER,
    ROTA_TABLE_STATE,    /* a word with a color */
    ROTA_TABLE_FLAG,     /* true and false, shown as yes and no */
    ROTA_TABLE_TIME,     /* RFC 3339, or milliseconds since 1970; local time on a terminal */
    ROTA_TABLE_AGE,      /* the same; how long ago on a terminal */
    ROTA_TABLE_DURATION, /* milliseconds */
    ROTA_TABLE_LIST,     /* an array of texts, with commas between them */
    ROTA_TABLE_BYTES,    /* a size; KiB, MiB or GiB on a terminal */
    ROTA_TABLE_LINES,    /* a text of several lines, in a sheet; wrapped, never cut */
};

struct rota_table_column {
    const char *title; /* in capitals */
    const char *field; /* of an entry, as in rota_json_rows_read() */
    enum rota_table_kind kind;
    bool is_wide; /* left out of a plain table */
};

struct rota_table {
    const char *key; /* of the array in the document; NULL: the document has one object per line */
    const struct rota_table_column *columns;
    size_t n_columns;               /* at most ROTA_ROWS_FIELDS_MAX */
    const struct rota_table *parts; /* the arrays of a sheet */
    size_t n_parts;
    const char *name; /* the first word of each of a part's lines */
    bool is_sheet;
    bool is_continued; /* no titles: an earlier piece had them */
};

/* A table of an array, or, with the key NULL, of a document with one object per line. */
#define ROTA_TABLE_OF(the_key, the_columns)                                                        \
    {                                                                                              \
        .key = (the_key), .columns = (the_columns),                                                \
        .n_columns = sizeof(the_columns) / sizeof *(the_columns)                                   \
    }

/* A part of a sheet, and a sheet with `n` parts. */
#define ROTA_TABLE_PART(the_key, the_name, the_columns)                                            \
    {                                                                                              \
        .key = (the_key), .name = (the_name), .columns = (the_columns),                            \
        .n_columns = sizeof(the_columns) / sizeof *(the_columns)                                   \
    }
#define ROTA_TABLE_SHEET(the_columns, the_parts, n)                                                \
    {                                                                                              \
        .is_sheet = true, .columns = (the_columns),                                                \
        .n_columns = sizeof(the_columns) / sizeof *(the_columns), .parts = (the_parts),            \
        .n_parts = (n)                                                                             \
    }

/* The form to use: AUTO becomes the one for the terminal. */
enum rota_table_form rota_table_choose(enum rota_table_form form,
                                       const struct rota_terminal *terminal);

/* Append `document` in a form other than AUTO. Ages are relative to `now`. Fails if the document
 * lacks the array; parts are optional. */
enum rota_code rota_table_append(struct rota_buffer *buffer, const struct rota_table *table,
                                 enum rota_table_form form, const struct rota_terminal *terminal,
                                 struct rota_str document, rota_time now, struct rota_error *error);
