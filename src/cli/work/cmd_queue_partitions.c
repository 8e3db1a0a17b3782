/* rota queue partitions, rota queue spread: change how many partitions a queue has and which nodes
 * get them, in a running cluster. */
#include "cli/cli.h"
#include "cli/terminal.h"
#include "cli/work/queue_view.h"
#include "core/place/names.h"
#include "io/clock.h"

#include <stdlib.h>

struct partitions {
    struct rota_client_options of;
    struct rota_str queue;
    uint64_t n;
    bool create, dry_run;
};

static const struct rota_option OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct partitions),
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
    rota_json_add_string(&json, "queue", queue);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        rota_json_add_uint(&json, NUMBERS[i].name, NUMBERS[i].value);
    rota_json_add_text(&json, "mode", laid->is_slots ? "slots" : "lookup");
    rota_queue_view_add_change(&json, laid->change_from_batch, laid->change_from_slots,
                               laid->change_start_ms, laid->change_end_ms);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* The steps, in order. */
static void append_text(struct rota_buffer *buffer, struct rota_str queue,
                        const struct rota_queue_laid_out *laid, bool is_dry_run)
{
    unsigned wanted = (unsigned)laid->wanted, write = (unsigned)laid->write,
             read = (unsigned)laid->read;
    rota_terminal_append(buffer, queue);
    rota_buffer_print(buffer,
                      is_dry_run ? " would get %u partitions:" : " gets %u partitions:", wanted);
    if (write < wanted)
        rota_buffer_print(
            buffer,
            " all nodes start to read %u; when they do, new jobs go to %u, until then to %u.", read,
            wanted, write);
    if (read > wanted)
        rota_buffer_print(buffer, " new jobs go to %u; the others are read until they are empty.",
                          wanted);
    if (write == wanted && read == wanted)
        rota_buffer_print(buffer, " it has that many already.");
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code set(struct rota_client *client, const void *data, struct rota_buffer *buffer,
                          struct rota_error *error)
{
    const struct partitions *options = data;
    struct rota_str queue = options->queue;
    const struct rota_queue_lay_out request = {
        .queue = queue, .partitions = options->n, .is_dry_run = options->dry_run};
    struct rota_queue_list known;
    struct rota_queue_laid_out laid;
    enum rota_code code =
        options->create ? ROTA_OK : rota_queue_view_look(client, queue, &known, error);
    if (!code)
        code = rota_client_insist(client, "SetLayout", &ROTA_QUEUE_SET_LAYOUT, &request,
                                  &ROTA_QUEUE_LAID_OUT, &laid, error);
    if (code)
        return code;
    if (options->of.json)
        append_json(buffer, queue, &laid);
    else
        append_text(buffer, queue, &laid, options->dry_run);
    return ROTA_OK;
}

static int run_queue_partitions(int argc, char *const *argv)
{
    struct partitions options = {0};
    static struct rota_option_list arguments;
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_queue_partitions, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    char *end;
    options.queue = rota_str(arguments.items[0]);
    options.n = strtoul(arguments.items[1], &end, 10);
    if (rota_job_queue_check(options.queue, &error))
        return rota_cli_fail_error(&error);
    if (*end || arguments.items[1][0] < '0' || arguments.items[1][0] > '9' || options.n < 1 ||
        options.n > ROTA_JOB_PARTITIONS_MAX)
        return rota_cli_fail(ROTA_CLI_BAD, "a queue has 1 to %d partitions, not %s",
                             ROTA_JOB_PARTITIONS_MAX, arguments.items[1]);
    return rota_client_run(&rota_cmd_queue_partitions, &options.of, set, &options);
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
             "\"write\", \"read\", \"batch\", \"mode\", \"change\" (as in `queue spread`)}, as "
             "they are after the first step.",
         .options = OPTIONS,
         .n_options = sizeof OPTIONS / sizeof *OPTIONS},
    .run = run_queue_partitions};

/* --- spread --- */

enum { KEEP = -1 };

struct spread {
    struct rota_client_options of;
    struct rota_str queue;
    int64_t batch; /* KEEP: as before, like the mode */
    int mode;
    rota_time gradual;
    bool dry_run;
};

static const struct rota_option SPREAD_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct spread),
    {.name = "batch",
     ROTA_OPTION_INTO(INT, struct spread, batch),
     .value_name = "N",
     .max = ROTA_BATCH_MAX,
     .help = "place partitions in batches of N, each batch on different nodes if there are "
             "enough; 0: place each partition by its own key"},
    {.name = "mode",
     ROTA_OPTION_INTO(CHOICE, struct spread, mode),
     .value_name = "MODE",
     .choices = rota_spread_mode_names,
     .help = "how to place a batch: lookup uses the order of nodes found for one key; slots moves "
             "fewer partitions when nodes change"},
    {.name = "gradual",
     ROTA_OPTION_INTO(SPAN, struct spread, gradual),
     .value_name = "DURATION",
     .default_text = "0s",
     .max = ROTA_LAYOUT_CHANGE_MAX,
     .help = "move partition by partition over this time; 0s: all at once"},
    {.name = "dry-run",
     ROTA_OPTION_INTO(FLAG, struct spread, dry_run),
     .help = "print what would happen and change nothing"},
};

static void append_spread(struct rota_buffer *buffer, struct rota_str queue,
                          const struct rota_queue_laid_out *laid, bool is_dry_run)
{
    rota_buffer_append_text(buffer, "queue ");
    rota_terminal_append(buffer, queue);
    rota_buffer_print(buffer, " %s --batch %llu and --mode %s", is_dry_run ? "would have" : "has",
                      (unsigned long long)laid->batch, laid->is_slots ? "slots" : "lookup");
    rota_time end = rota_queue_from_ms(laid->change_end_ms);
    if (end > rota_clock_wall()) {
        rota_buffer_append_text(buffer, ": partitions move one by one until ");
        rota_terminal_append_time(buffer, end);
    }
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code set_spread(struct rota_client *client, const void *data,
                                 struct rota_buffer *buffer, struct rota_error *error)
{
    const struct spread *options = data;
    struct rota_str queue = options->queue;
    struct rota_queue_list known;
    struct rota_queue_laid_out laid;
    enum rota_code code = rota_queue_view_look(client, queue, &known, error);
    if (code)
        return code;
    const struct rota_queue_info *info = known.items.items;
    const struct rota_queue_lay_out request = {
        .queue = queue,
        .has_spread = true,
        .batch = options->batch == KEEP ? info->batch : (uint64_t)options->batch,
        .is_slots = options->mode == KEEP ? info->is_slots : options->mode == ROTA_SPREAD_SLOTS,
        .gradual_ms = (uint64_t)(options->gradual / ROTA_MSEC),
        .is_dry_run = options->dry_run};
    code = rota_client_insist(client, "SetLayout", &ROTA_QUEUE_SET_LAYOUT, &request,
                              &ROTA_QUEUE_LAID_OUT, &laid, error);
    if (!code && options->of.json)
        append_json(buffer, queue, &laid);
    else if (!code)
        append_spread(buffer, queue, &laid, options->dry_run);
    return code;
}

static int run_spread(int argc, char *const *argv)
{
    struct spread options = {.batch = KEEP, .mode = KEEP};
    static struct rota_option_list arguments;
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_queue_spread, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    options.queue = rota_str(arguments.items[0]);
    if (options.batch == KEEP && options.mode == KEEP)
        return rota_cli_fail(ROTA_CLI_BAD, "nothing to change: give --batch, --mode or both");
    if (rota_job_queue_check(options.queue, &error))
        return rota_cli_fail_error(&error);
    return rota_client_run(&rota_cmd_queue_spread, &options.of, set_spread, &options);
}

const struct rota_cli_command rota_cmd_queue_spread = {
    .command = {.name = "queue spread",
                .summary = "Change how the partitions of a queue are spread over nodes",
                .arguments = "QUEUE",
                .min_arguments = 1,
                .max_arguments = 1,
                .description =
                    "Partitions move to other nodes while the queue keeps working; `rota plan` "
                    "shows how many. With --gradual each partition moves at its own time within "
                    "that duration. The change is part of the queue's settings: it continues if "
                    "the node you asked stops, and survives restarts. `rota queue show -o wide` "
                    "shows when it ends (CHANGING). A second gradual change has to wait for the "
                    "end of the first; an immediate change, including a change back, ends it. "
                    "Exits 1 if there is no such queue.\n\nWith --json: {\"queue\", \"wanted\", "
                    "\"write\", \"read\", \"batch\", \"mode\", \"change\": {\"from_batch\", "
                    "\"from_mode\", \"start\", \"end\"}}; \"change\" is null without --gradual.",
                .options = SPREAD_OPTIONS,
                .n_options = sizeof SPREAD_OPTIONS / sizeof *SPREAD_OPTIONS,
                .examples = "rota queue spread mail --batch 8 --mode slots --gradual 10m\n"},
    .run = run_spread};
