/* Options: one description gives parsing, bounds, help and documentation.
 *
 * An option describes one field of a struct that the caller chooses: its name,
 * its type, what it may hold and what it means. The same table serves the
 * command line (command.h) and a configuration file. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_OPTION_LIST_MAX = 1024,
    ROTA_OPTION_LIMITS_MAX = 256, /* room for rota_option_format_limits() */
};

enum rota_option_type {
    ROTA_OPTION_FLAG,   /* bool: on a command line it takes no value */
    ROTA_OPTION_INT,    /* int64_t */
    ROTA_OPTION_SPAN,   /* rota_time, a duration */
    ROTA_OPTION_TIME,   /* rota_time, a time on the wall clock */
    ROTA_OPTION_TEXT,   /* const char * */
    ROTA_OPTION_CHOICE, /* int: an index into `choices` */
    ROTA_OPTION_LIST,   /* struct rota_option_list: a text that may be repeated */
};

struct rota_option_list {
    const char *items[ROTA_OPTION_LIST_MAX];
    size_t size;
};

struct rota_option {
    const char *name; /* without dashes */
    char letter;      /* the short form, 'n' for -n; 0: none */
    enum rota_option_type type;
    size_t offset;              /* of the field; see ROTA_OPTION_INTO */
    const char *value_name;     /* "N", for the help; flags have none */
    const char *default_text;   /* as the user would write it; NULL: the field is left alone */
    int64_t min, max;           /* of the number, or of the text's bytes; both 0: any */
    const char *const *choices; /* ends with NULL */
    bool is_required;
    const char *help; /* a phrase without a final dot */
};

/* Name type and field together, so that the compiler refuses a field that has
 * another type:
 *
 *     {.name = "batch", ROTA_OPTION_INTO(INT, struct lookup, batch), ...} */
#define ROTA_OPTION_INTO(kind, result, field)                                                      \
    .type = ROTA_OPTION_##kind,                                                                    \
    .offset = offsetof(result, field) +                                                            \
              0 * sizeof(_Generic(((result *)0)->field, ROTA_OPTION_C_##kind : 0))
#define ROTA_OPTION_C_FLAG   bool
#define ROTA_OPTION_C_INT    int64_t
#define ROTA_OPTION_C_SPAN   rota_time
#define ROTA_OPTION_C_TIME   rota_time
#define ROTA_OPTION_C_TEXT   const char *
#define ROTA_OPTION_C_CHOICE int
#define ROTA_OPTION_C_LIST   struct rota_option_list

/* Of the field that a value is stored in. */
size_t rota_option_size(enum rota_option_type type);

/* Read `text` into `field`, which has the option's type; a flag reads "true" and "false", a list
 * gains one item.
 *
 * TEXT and LIST keep `text`, which must be followed by a NUL. The error is a phrase such as
 * `"abc" is not a whole number (1 to 100)`, without the name of the option: the caller knows
 * where the text came from. */
enum rota_code rota_option_parse_value(const struct rota_option *option, struct rota_str text,
                                       void *field, struct rota_error *error);

/* Write the allowed values: "1 to 100", "1s or more", "lookup, slots"; empty when there is no
 * limit. Returns `text`. */
char *rota_option_format_limits(const struct rota_option *option,
                                char text[ROTA_OPTION_LIMITS_MAX]);
