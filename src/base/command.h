/* A command: a table of options that reads a command line and describes itself.
 *
 * The words of a command line are options, in any order, and arguments:
 *
 *     --name value   --name=value   -n value   -nvalue   --flag   -f
 *
 * "--" ends the options, a lone "-" is an argument, and every command has --help and -h. A
 * program embeds the command in a struct of its own, with the function that runs it. */
#pragma once

#include "base/buffer.h"
#include "base/option.h"

enum { ROTA_COMMAND_OPTIONS_MAX = 64 };

struct rota_json;

struct rota_command {
    const char *program;     /* NULL: rota */
    const char *name;        /* "ring lookup"; NULL: the program has no commands */
    const char *summary;     /* one sentence without a final dot */
    const char *arguments;   /* "KEY..."; NULL: there are none */
    size_t min_arguments;    /* how many there have to be */
    size_t max_arguments;    /* 0: up to ROTA_OPTION_LIST_MAX */
    const char *for_more;    /* the alternative to more of them; may be NULL */
    const char *description; /* paragraphs parted by empty lines; may be NULL */
    const struct rota_option *options;
    size_t n_options;
    const char *examples; /* lines, shown as they are; may be NULL */
};

enum rota_command_answer {
    ROTA_COMMAND_RUN,     /* everything was read successfully */
    ROTA_COMMAND_HELP,    /* --help was asked for */
    ROTA_COMMAND_REFUSED, /* `error` says why */
};

/* Parse the words after the command's name into the struct `result`, which the options describe,
 * and into `arguments`; both keep words of `argv`. Fields whose option is not given get its
 * default, or stay as they were when there is none; lists start empty. Unless the answer is RUN,
 * `result` and `arguments` are unchanged. */
enum rota_command_answer rota_command_parse(const struct rota_command *command, int argc,
                                            char *const *argv, void *result,
                                            struct rota_option_list *arguments,
                                            struct rota_error *error);

/* Append what --help shows, in lines of at most `width` characters where the
 * words allow it. */
void rota_command_format_help(const struct rota_command *command, unsigned width,
                              struct rota_buffer *buffer);

/* Append the command's section of a page in Markdown. */
void rota_command_format_markdown(const struct rota_command *command, struct rota_buffer *buffer);

/* Write the command as a JSON object with the whole table, from which programs generate other
 * pages and shell completions. */
void rota_command_format_json(const struct rota_command *command, struct rota_json *json);
