/* rota queue partitions: how many partitions a queue has, on a cluster that runs. */
#include "cli/cli.h"
#include "cli/queue_client.h"
#include "cli/terminal.h"

#include <stdlib.h>

struct partitions {
    struct rota_queue_client_options of;
    bool create, dry_run;
};

static const struct rota_option OPTIONS[] = {
    ROTA_QUEUE_CLIENT_OPTIONS(struct partitions),
    {.name = "create",
     ROTA_OPTION_INTO(FLAG, struct partitions, create),
     .help = "create the queue if it does not exist"},
    {.name = "dry-run",
     ROTA_OPTION_INTO(FLAG, struct partitions, dry_run),
     .help = "print what would happen and change nothing"},
};

static void append_json(struct rota_buffer *buffer, struct rota_str queue,
                        const struct rota_queue_laid_out *laid)
{
    struct rota_json json = {.buffer = buffer};
    const struct {
        const char *name;
        uint64_t value;
    } NUMBERS[] = {
        {"wanted", laid->wanted},
        {"write", laid->write},
        {"read", laid->read},
        {"batch", laid->batch},
    };
    rota_json_begin_object(&json);
    rota_json_key(&json, "queue");
    rota_json_string(&json, queue);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        rota_json_key(&json, NUMBERS[i].name);
        rota_json_uint(&json, NUMBERS[i].value);
    }
    rota_json_key(&json, "mode");
    rota_json_text(&json, laid->is_slots ? "slots" : "lookup");
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* The steps, in their order. */
static void append_text(struct rota_buffer *buffer, struct rota_str queue,
                        const struct rota_queue_laid_out *laid, bool is_dry_run)
{
    unsigned wanted = (unsigned)laid->wanted, write = (unsigned)laid->write,
             read = (unsigned)laid->read;
    rota_terminal_append(buffer, queue);
    rota_buffer_print(buffer,
                      is_dry_run ? " would get %u partitions:" : " gets %u partitions:", wanted);
    if (write < wanted)
        rota_buffer_print(buffer,
                          " all nodes look at %u; when they do, new jobs go to %u, to %u until "
                          "then.",
                          read, wanted, write);
    if (read > wanted)
        rota_buffer_print(buffer,
                          " new jobs go to %u; what is left in the others is done first, they are "
                          "read until they are empty.",
                          wanted);
    if (write == wanted && read == wanted)
        rota_buffer_print(buffer, " it has them.");
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code set(struct rota_queue_client *client, const struct partitions *options,
                          struct rota_str queue, uint64_t n, struct rota_buffer *buffer,
                          struct rota_error *error)
{
    const struct rota_queue_lay_out request = {
        .queue = queue, .partitions = n, .is_dry_run = options->dry_run};
    struct rota_queue_list known;
    struct rota_queue_laid_out laid;
    enum rota_code code =
        options->create ? ROTA_OK : rota_queue_client_look(client, queue, &known, error);
    if (!code)
        code = rota_queue_client_ask_again(client, "SetLayout", &ROTA_QUEUE_SET_LAYOUT, &request,
                                           &ROTA_QUEUE_LAID_OUT, &laid, error);
    if (code)
        return code;
    if (options->of.json)
        append_json(buffer, queue, &laid);
    else
        append_text(buffer, queue, &laid, options->dry_run);
    return ROTA_OK;
}

static int run(int argc, char *const *argv)
{
    struct partitions options = {0};
    static struct rota_option_list arguments;
    struct rota_queue_client client;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_queue_partitions, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    struct rota_str queue = rota_str(arguments.items[0]);
    char *end;
    unsigned long n = strtoul(arguments.items[1], &end, 10);
    if (rota_job_queue_check(queue, &error))
        return rota_cli_fail_error(&error);
    if (*end || arguments.items[1][0] < '0' || arguments.items[1][0] > '9' || n < 1 ||
        n > ROTA_JOB_PARTITIONS_MAX)
        return rota_cli_fail(ROTA_CLI_BAD, "a queue has 1 to %d partitions, not %s",
                             ROTA_JOB_PARTITIONS_MAX, arguments.items[1]);
    if (rota_queue_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    enum rota_code code = set(&client, &options, queue, n, &buffer, &error);
    rota_queue_client_close(&client);
    if (!code)
        return rota_cli_print(&buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}

const struct rota_cli_command rota_cmd_queue_partitions = {
    .command =
        {.name = "queue partitions",
         .summary = "Change the number of partitions of a queue",
         .arguments = "QUEUE N",
         .min_arguments = 2,
         .max_arguments = 2,
         .description =
             "The queue keeps working. More partitions: all nodes read the new ones first, then "
             "new jobs go there. Fewer: new jobs go to the first N, and the others are read until "
             "they are empty. `rota queue show -o wide` shows the progress: the partitions to "
             "WRITE to and to READ from. The setting survives restarts. Exits 1 if there is no "
             "such queue, unless you give --create.\n\nWith --json: {\"queue\", \"wanted\", "
             "\"write\", \"read\", \"batch\", \"mode\"}, as they are after the first step.",
         .options = OPTIONS,
         .n_options = sizeof OPTIONS / sizeof *OPTIONS},
    .run = run};
