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
 * Unless you choose, a terminal gets a table and everything else gets lines. */
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
    {                                                                                              \
        .name = "output", .letter = 'o', ROTA_OPTION_INTO(CHOICE, result, field),                  \
        .value_name = "FORM", .choices = rota_table_form_names, .default_text = "auto",            \
        .help = "output format; auto is a table on a terminal and tsv elsewhere"                   \
    }

enum rota_table_kind {
    ROTA_TABLE_TEXT, /* cut where the terminal is too narrow */
    ROTA_TABLE_NAME, /* never cut: people copy it */
    ROTA_TABLE_NUMBER,
    ROTA_TABLE_STATE,    /* a word with a colour */
    ROTA_TABLE_FLAG,     /* true and false, shown as yes and no */
    ROTA_TABLE_TIME,     /* RFC 3339; local time on a terminal */
    ROTA_TABLE_AGE,      /* RFC 3339; how long ago on a terminal */
    ROTA_TABLE_DURATION, /* milliseconds */
    ROTA_TABLE_LIST,     /* an array of texts, with commas between them */
};

struct rota_table_column {
    const char *title; /* in capitals */
    const char *field; /* of an entry, as in rota_rows_read() */
    enum rota_table_kind kind;
    bool is_wide; /* left out of a plain table */
};

struct rota_table {
    const char *key; /* of the array in the document; NULL: the document has an object per line */
    const struct rota_table_column *columns;
    size_t n_columns; /* at most ROTA_ROWS_FIELDS_MAX */
};

/* The form to use: AUTO becomes what suits the terminal. */
enum rota_table_form rota_table_choose(enum rota_table_form form,
                                       const struct rota_terminal *terminal);

/* Append `document` in a form other than AUTO. `now` is what ages are counted from. Fails if the
 * document has no such array. */
enum rota_code rota_table_append(struct rota_buffer *buffer, const struct rota_table *table,
                                 enum rota_table_form form, const struct rota_terminal *terminal,
                                 struct rota_str document, rota_time now, struct rota_error *error);
