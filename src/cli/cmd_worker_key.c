/* rota worker-key: the keys of brokers and workers. */
#include "base/quote.h"
#include "cli/cli.h"
#include "wire/worker_frame.h"

#include <rota/connector.h>
#include <unistd.h>

struct options {
    const char *name;
};

static const struct rota_option OPTIONS[] = {
    {.name = "name",
     ROTA_OPTION_INTO(TEXT, struct options, name),
     .value_name = "NAME",
     .help = "of the worker: print its line for the broker's list"},
};

static int run(int argc, char *const *argv)
{
    static struct rota_option_list arguments;
    struct options options = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    char key[ROTA_CONNECTOR_KEY_SIZE];
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_worker_key, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    if (options.name && rota_worker_name_check(rota_str(options.name), &error))
        return rota_cli_fail_error(&error);
    const char *path = arguments.items[0];
    bool is_there = access(path, F_OK) == 0;
    if (is_there ? rota_connector_key_read(path, key, &error)
                 : rota_connector_key_make(path, key, &error))
        return rota_cli_fail_error(&error);
    if (options.name)
        rota_buffer_print(&buffer, "%s ", options.name);
    rota_buffer_print(&buffer, "%s\n", key);
    return rota_cli_print(&buffer);
}

const struct rota_cli_command rota_cmd_worker_key = {
    .command =
        {
            .name = "worker-key",
            .summary = "Make a key pair for ZeroMQ and print its public key",
            .arguments = "FILE",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Brokers and workers that talk over ZeroMQ know each other by their keys. Makes a "
                "pair and writes it to FILE, for its owner's eyes only; a FILE that is there is "
                "read and never changed. Prints the public key: a worker needs its broker's, and "
                "the broker a list (--workers-list) with a line for each worker, its name and its "
                "public key, which is what --name prints.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota worker-key broker.key\n"
                        "rota worker-key --name snake snake.key >> workers.list\n",
        },
    .run = run,
};
