/* settings: a program's settings, and where each value came from.
 *
 * One table of options (base/option.h) is filled from four places, of which the later wins: its
 * defaults, a file, the environment and the command line. An option has one name in all of them:
 * `drain-limit` is `drain-limit = "30s"` in the file, ROTA_DRAIN_LIMIT in the environment and
 * --drain-limit on the command line. Repeated things are sections, `[[space]]`, each with a table
 * of its own: any number in the file, and one of each kind on the command line. There are no lists:
 * they are written as a text with commas.
 *
 * A file with an error is rejected as a whole, with the line; earlier settings stay. The file's
 * format is that of config_text.h. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/option.h"

enum {
    ROTA_SETTINGS_OPTIONS_MAX = 64,
    ROTA_SETTINGS_SECTIONS_MAX = 1024, /* of all kinds, in one file */
};

enum rota_settings_place {
    ROTA_SETTINGS_DEFAULT,
    ROTA_SETTINGS_FILE,
    ROTA_SETTINGS_ENVIRONMENT,
    ROTA_SETTINGS_COMMAND_LINE,
};

struct rota_settings_origin {
    enum rota_settings_place place;
    uint32_t line; /* of the file */
};

/* A kind of section: `[[name]]` with `options` that describe a struct of `size` bytes. */
struct rota_settings_kind {
    const char *name;
    const struct rota_option *options;
    size_t n_options;
    size_t size;
    const char *gone; /* what to do instead of a former section, which is refused; or NULL */
};

struct rota_settings_section {
    const struct rota_settings_kind *kind;
    uint32_t line; /* of the file; 0: the command line */
    void *values;  /* the kind's struct; of the arena */
};

struct rota_settings {
    const struct rota_option *options; /* kept, like the kinds */
    size_t n_options;
    const struct rota_settings_kind *kinds;
    size_t n_kinds;
    void *values; /* the caller's struct; what its texts point to is the arena's */
    struct rota_settings_origin origins[ROTA_SETTINGS_OPTIONS_MAX];
    struct rota_settings_section *sections; /* in the order of the file; of the arena */
    size_t n_sections;
    const char *file; /* that was read; kept */
    struct rota_arena arena;
};

/* Fill `values` with the defaults. The tables are kept; rota_settings_deinit() ends it. */
void rota_settings_init(struct rota_settings *settings, const struct rota_option *options,
                        size_t n_options, const struct rota_settings_kind *kinds, size_t n_kinds,
                        void *values);
void rota_settings_deinit(struct rota_settings *settings);

/* Take a file's text in; `file` is its name in messages, which begin with "FILE:LINE: ", and is
 * kept. On failure `settings` are as they were. */
enum rota_code rota_settings_read(struct rota_settings *settings, struct rota_str text,
                                  const char *file, struct rota_error *error);

/* Set one option, as the command line or the environment has it. */
enum rota_code rota_settings_set(struct rota_settings *settings, const char *name, const char *text,
                                 enum rota_settings_place place, struct rota_error *error);

/* Add the sections of the command line, after those of the file: words such as
 * "space.shards=64". */
enum rota_code rota_settings_add(struct rota_settings *settings, const char *const *words, size_t n,
                                 struct rota_error *error);

/* Whether option number `i` has the same value in both; the tables of both are the same. And
 * whether their sections are equal, in order. */
bool rota_settings_is_same(const struct rota_settings *a, const struct rota_settings *b, size_t i);
bool rota_settings_has_same_sections(const struct rota_settings *a, const struct rota_settings *b);

/* Copy option number `i` of `from`, with where it came from and its text. */
enum rota_code rota_settings_adopt(struct rota_settings *settings, const struct rota_settings *from,
                                   size_t i, struct rota_error *error);

/* The name of an option's variable: "ROTA_DRAIN_LIMIT". Returns `text`. */
enum { ROTA_SETTINGS_VARIABLE_MAX = 64 };
char *rota_settings_variable(const struct rota_option *option,
                             char text[ROTA_SETTINGS_VARIABLE_MAX]);

/* The prefix of a message about an option's value, by where the value came from: "--weight",
 * "ROTA_WEIGHT" or "FILE:LINE: weight". Returns `text`. */
enum { ROTA_SETTINGS_WHERE_MAX = 384 };
char *rota_settings_where(const struct rota_settings *settings, const char *name,
                          char text[ROTA_SETTINGS_WHERE_MAX]);

/* Append all settings in force as an equivalent file, each line with where it came from; `file`
 * is the name of the one that was read. A URL is shown without its password. */
void rota_settings_print(const struct rota_settings *settings, const char *file,
                         struct rota_buffer *buffer);
