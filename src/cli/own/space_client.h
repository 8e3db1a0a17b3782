/* space_client: what `rota space` and `rota shard` share: the options that name a node, its
 * answers, and how a change is made and reported. */
#pragma once

#include "cli/cli.h"
#include "cli/client.h"
#include "wire/message/space_message.h"

struct rota_space_words {
    struct rota_client_options of;
    bool dry_run, off, once, wait;
    rota_time shadow;
    const char *owner;
    int state, chosen; /* the chosen engine */
    int64_t n_shards;
    const char *seats;
    struct rota_str space;     /* the first argument; empty: none */
    uint32_t shard;            /* the second, of `rota shard` */
    const char *node, *engine; /* the last; NULL: none */
};

#define ROTA_SPACE_OPTIONS ROTA_CLIENT_OPTIONS(struct rota_space_words)

#define ROTA_SPACE_LIST_OPTIONS ROTA_CLIENT_LIST_OPTIONS(struct rota_space_words)

#define ROTA_SPACE_DRY_RUN                                                                         \
    {                                                                                              \
        .name = "dry-run", ROTA_OPTION_INTO(FLAG, struct rota_space_words, dry_run),               \
        .help = "print what would happen and change nothing"                                       \
    }

/* What a command does with its arguments. */
typedef enum rota_code rota_space_act(struct rota_client *client,
                                      const struct rota_space_words *words,
                                      struct rota_buffer *buffer, struct rota_error *error);

/* Read the arguments, act, print the answer; returns an exit code. The arguments are a space, a
 * shard if `has_shard`, and one more. */
int rota_space_client_run(const struct rota_cli_command *command, int argc, char *const *argv,
                          bool has_shard, rota_space_act *act);

/* A command whose `act` has the name of its second word. */
#define ROTA_SPACE_COMMAND(family, noun, has_shard, words, the_table, the_arguments, n_min, n_max, \
                           text, the_summary, the_examples)                                        \
    static int run_##noun(int argc, char *const *argv)                                             \
    {                                                                                              \
        return rota_space_client_run(&rota_cmd_##family##_##noun, argc, argv, (has_shard), noun);  \
    }                                                                                              \
    const struct rota_cli_command rota_cmd_##family##_##noun = {                                   \
        .command = {.name = #family " " #noun,                                                     \
                    .summary = (the_summary),                                                      \
                    .arguments = (the_arguments),                                                  \
                    .min_arguments = (n_min),                                                      \
                    .max_arguments = (n_max),                                                      \
                    .description = (text),                                                         \
                    .options = (words),                                                            \
                    .n_options = sizeof(words) / sizeof *(words),                                  \
                    .examples = (the_examples)},                                                   \
        .run = run_##noun,                                                                         \
        .table = (the_table),                                                                      \
    }

/* Get the space named in the arguments. The result is borrowed until the client's next call. */
enum rota_code rota_space_client_show(struct rota_client *client,
                                      const struct rota_space_words *words,
                                      struct rota_space_show *show, struct rota_error *error);

/* Request a change and append its plan. `*is_done`, which may be NULL: something was changed. */
enum rota_code rota_space_client_change(struct rota_client *client, const char *method,
                                        const struct rota_message_type *type,
                                        const struct rota_space_request *request, bool *is_done,
                                        struct rota_buffer *buffer, struct rota_error *error);
