/* rota worker-key: the keys of brokers and workers. */
#include "base/quote.h"
#include "cli/cli.h"
#include "cli/dry_run.h"
#include "wire/message/worker_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <rota/experimental/connector.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *name;
    bool dry_run;
};

static const struct rota_option OPTIONS[] = {
    {.name = "name",
     ROTA_OPTION_INTO(TEXT, struct options, name),
     .value_name = "NAME",
     .help = "name of the worker; prints its line for the node's list"},
    ROTA_DRY_RUN_OPTION(struct options, dry_run),
};

/* Why a missing file could not be created; 0 if it could. */
static int why_not_made(const char *path)
{
    struct stat status;
    const char *slash = strrchr(path, '/');
    if (lstat(path, &status) == 0)
        return EEXIST; /* a dangling link */
    if (errno != ENOENT || !path[0])
        return errno;
    if (!slash)
        return faccessat(AT_FDCWD, ".", W_OK | X_OK, AT_EACCESS) ? errno : 0;
    if (!slash[1])
        return EISDIR;
    struct rota_buffer folder = {0};
    rota_buffer_append(&folder, path, (size_t)(slash + 1 - path));
    const char *name = rota_buffer_str(&folder).data;
    int failed = folder.failed ? ENOMEM : 0;
    if (!failed && faccessat(AT_FDCWD, name, W_OK | X_OK, AT_EACCESS))
        failed = errno;
    rota_buffer_deinit(&folder);
    return failed;
}

static enum rota_code plan(const char *path, const char *name, bool is_there,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_dry_run dry_run;
    char key[ROTA_CONNECTOR_KEY_SIZE], printed[ROTA_WORKER_NAME_MAX + 64] = "its public key";
    int failed = is_there ? 0 : why_not_made(path);
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "cannot create %s: %s", path, strerror(failed));
    enum rota_code code = is_there ? rota_connector_key_read(path, key, error) : ROTA_OK;
    if (code)
        return code;
    if (name)
        snprintf(printed, sizeof printed, "the line of %s with its public key", name);
    rota_dry_run_begin(&dry_run, false, buffer);
    if (is_there)
        rota_dry_run_say(&dry_run, "%s has a key pair and would stay as it is; %s would be printed",
                         path, printed);
    else
        rota_dry_run_say(&dry_run,
                         "a new key pair would be written to %s, readable only by its owner (mode "
                         "0600), and %s printed",
                         path, printed);
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

static int run_worker_key(int argc, char *const *argv)
{
    static struct rota_option_list arguments;
    struct options options = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    char key[ROTA_CONNECTOR_KEY_SIZE];
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_worker_key, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    if (options.name && rota_worker_frame_name_check(rota_str(options.name), &error))
        return rota_cli_fail_error(&error);
    const char *path = arguments.items[0];
    bool is_there = access(path, F_OK) == 0;
    if (options.dry_run) {
        if (!plan(path, options.name, is_there, &buffer, &error))
            return rota_cli_print(&buffer);
        rota_buffer_deinit(&buffer);
        return rota_cli_fail_error(&error);
    }
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
            .summary = "Make a key pair for a ZeroMQ worker",
            .arguments = "FILE",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Nodes (or brokers) and workers authenticate each other over ZeroMQ by their keys. "
                "Makes a key pair and writes it to FILE, readable only by you. An existing FILE is "
                "read and never changed; it is rejected if other users can read it. Prints the "
                "public "
                "key. A worker needs its node's public key, and the node a list (--workers-list) "
                "with a name and a public key per line, as --name prints it.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota worker-key broker.key\n"
                        "rota worker-key --name snake snake.key >> workers.list\n",
        },
    .run = run_worker_key,
};
