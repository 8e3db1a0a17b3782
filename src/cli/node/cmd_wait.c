/* rota ping, rota wait: check that a node answers; wait until something is ready. */
#include "cli/terminal.h"
#include "cli/work/queue_view.h"
#include "io/clock.h"
#include "wire/message/space_message.h"

#include <string.h>

struct wait {
    struct rota_client_options of;
    rota_time limit;
    struct rota_str name; /* of the space or queue */
};

static const struct rota_option PING_OPTIONS[] = {ROTA_CLIENT_OPTIONS(struct wait)};

static const struct rota_option WAIT_OPTIONS[] = {
    ROTA_CLIENT_NODE(struct wait),
    {.name = "timeout",
     ROTA_OPTION_INTO(SPAN, struct wait, limit),
     .value_name = "DURATION",
     .default_text = "30s",
     .min = ROTA_MSEC,
     .max = 365 * ROTA_DAY,
     .help = "how long to wait"},
    ROTA_CLIENT_MANNER(struct wait),
};

static enum rota_code ask_node(struct rota_client *client, struct rota_queue_nodes *nodes,
                               struct rota_error *error)
{
    return rota_client_ask(client, "Nodes", NULL, NULL, &ROTA_QUEUE_NODES, nodes, error);
}

/* --- ping --- */

/* A broker without a cluster does not know its address. */
static void append_answer(struct rota_buffer *buffer, const struct wait *options,
                          struct rota_str node, double ms)
{
    struct rota_json json = {.buffer = buffer};
    if (node.size == 0)
        node = rota_str(rota_cli_node(options->of.node));
    if (!options->of.json) {
        rota_terminal_append(buffer, node);
        rota_buffer_print(buffer, " answered in %.1f ms\n", ms);
        return;
    }
    rota_json_begin_object(&json);
    rota_json_add_string(&json, "node", node);
    rota_json_add_double(&json, "ms", ms);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static int run_ping(int argc, char *const *argv)
{
    struct wait options = {0};
    struct rota_client client;
    struct rota_queue_nodes nodes;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_ping, argc, argv, &options, NULL, &exit_code))
        return exit_code;
    if (rota_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    rota_time start = rota_clock_mono(); /* includes connecting, as any first call does */
    enum rota_code code = ask_node(&client, &nodes, &error);
    double ms = (double)(rota_clock_mono() - start) / ROTA_MSEC;
    if (!code)
        append_answer(&buffer, &options, nodes.node, ms);
    rota_client_close(&client);
    return code ? rota_cli_fail_error(&error) : rota_cli_print(&buffer);
}

const struct rota_cli_command rota_cmd_ping = {
    .command =
        {
            .name = "ping",
            .summary = "Check that a node answers",
            .description = "Prints which node answered and how long it took, including the "
                           "connection. Exits 1 if no node answers.\n\n"
                           "With --json: {\"node\", \"ms\"}.",
            .options = PING_OPTIONS,
            .n_options = sizeof PING_OPTIONS / sizeof *PING_OPTIONS,
            .examples = "rota ping --node 10.0.0.7:7700\n",
        },
    .run = run_ping,
};

/* --- wait --- */

/* ROTA_OK if it is ready; otherwise `error` says what is missing. */
typedef enum rota_code check(struct rota_client *client, const struct wait *wait,
                             struct rota_error *error);

static enum rota_code check_node(struct rota_client *client, const struct wait *wait,
                                 struct rota_error *error)
{
    struct rota_queue_nodes nodes;
    (void)wait;
    return ask_node(client, &nodes, error);
}

static enum rota_code check_space(struct rota_client *client, const struct wait *wait,
                                  struct rota_error *error)
{
    const struct rota_space_request request = {.space = wait->name};
    struct rota_space_show show;
    enum rota_code code = rota_client_ask(client, "/rota.v1.Space/Show", &ROTA_SPACE_SHOW, &request,
                                          &ROTA_SPACE_SHOW_REPLY, &show, error);
    const struct rota_space_info *space = code ? NULL : show.space;
    if (code || (space && space->n_owned == space->n_shards))
        return code;
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%llu of %llu shards have an owner",
                          space ? (unsigned long long)space->n_owned : 0,
                          space ? (unsigned long long)space->n_shards : 0);
}

static enum rota_code check_queue(struct rota_client *client, const struct wait *wait,
                                  struct rota_error *error)
{
    struct rota_queue_list reply;
    enum rota_code code = rota_queue_view_look(client, wait->name, &reply, error);
    const struct rota_queue_info *info = code ? NULL : reply.items.items;
    if (code || info->n_workers > 0)
        return code;
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "no worker serves it");
}

static enum rota_code await_ready(struct rota_client *client, const struct wait *wait,
                                  check *is_ready, const char *what, struct rota_error *error)
{
    enum { EVERY_MS = 100 };
    struct rota_progress progress = {0};
    struct rota_error why, last = {0};
    for (;;) {
        enum rota_code code = is_ready(client, wait, &why);
        if (code != ROTA_OK && code != ROTA_ERR_INVALID && rota_clock_mono() < client->until) {
            last = why;
            rota_terminal_progress_print(&progress, "waiting for %s%s%.*s: %s", what,
                                         wait->name.size ? " " : "", ROTA_STR_ARGS(wait->name),
                                         why.text);
            rota_client_pause(client, EVERY_MS);
            continue;
        }
        rota_terminal_progress_end(&progress);
        if (code == ROTA_OK)
            return ROTA_OK;
        if (last.code && code != ROTA_ERR_INVALID)
            why = last; /* the timeout says less than the answer before it */
        return rota_error_set(error, code, "timed out waiting for %s%s%.*s: %s", what,
                              wait->name.size ? " " : "", ROTA_STR_ARGS(wait->name), why.text);
    }
}

static int run_wait(int argc, char *const *argv)
{
    static const struct {
        const char *what;
        check *is_ready;
        bool has_name;
    } THINGS[] = {
        {"node", check_node, false}, {"space", check_space, true}, {"queue", check_queue, true}};
    struct wait options = {.of.timeout = ROTA_SEC};
    static struct rota_option_list arguments;
    struct rota_client client;
    struct rota_error error;
    size_t thing = 0;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_wait, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    const char *what = arguments.size > 0 ? arguments.items[0] : "node";
    while (thing < 3 && strcmp(THINGS[thing].what, what) != 0)
        thing++;
    if (thing == 3 || THINGS[thing].has_name != (arguments.size == 2))
        return rota_cli_fail(
            ROTA_CLI_BAD,
            "wait: give `node`, `space NAME` or `queue NAME`; see `rota wait --help`");
    options.name = rota_str(arguments.size > 1 ? arguments.items[1] : "");
    if (rota_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    client.until = rota_clock_mono() + options.limit;
    enum rota_code code = await_ready(&client, &options, THINGS[thing].is_ready,
                                      THINGS[thing].has_name ? what : "a node", &error);
    rota_client_close(&client);
    if (code)
        return rota_cli_fail_error(&error);
    if (options.of.json)
        fputs("{}\n", stdout);
    return ROTA_CLI_OK;
}

const struct rota_cli_command rota_cmd_wait = {
    .command =
        {
            .name = "wait",
            .summary = "Wait until a node, a space or a queue is ready",
            .arguments = "[node | space NAME | queue NAME]",
            .max_arguments = 2,
            .description =
                "A node is ready when it answers, a space when every shard has an owner, a queue "
                "when a worker serves it. Use it in scripts between starting something and using "
                "it. Exits 1 after --timeout, and says what was missing.\n\n"
                "With --json: {} as soon as it is ready.",
            .options = WAIT_OPTIONS,
            .n_options = sizeof WAIT_OPTIONS / sizeof *WAIT_OPTIONS,
            .examples = "rotad --data /tmp/rota & rota wait\n"
                        "rota wait space orders --timeout 1m\n",
        },
    .run = run_wait,
};
