/* rota complete: print names for a shell's tab completion. Not for people, so it is in no list of
 * commands.
 *
 * The user is waiting for the prompt: after 300 ms, and after any failure, it exits silently. */
#include "cli/cli.h"
#include "cli/node/documents.h"
#include "wire/message/queue_message.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

struct complete {
    struct rota_client_options of;
};

static const struct rota_option OPTIONS[] = {
    ROTA_CLIENT_NODE(struct complete),
    ROTA_CLIENT_MANNER(struct complete),
};

static const struct noun {
    const char *name, *topic, *key;
} NOUNS[] = {
    {"group", "groups", "groups"},
    {"node", "cluster", "nodes"},
    {"queue", "queues", "items"},
    {"space", "spaces", "spaces"},
};

/* A broker without a cluster has queues, but no documents. */
static enum rota_code ask_queues(struct rota_client *client, struct rota_buffer *names)
{
    struct rota_queue_list reply;
    enum rota_code code =
        rota_client_ask(client, "Queues", NULL, NULL, &ROTA_QUEUE_QUEUES_REPLY, &reply, NULL);
    const struct rota_queue_info *queues = code ? NULL : reply.items.items;
    for (size_t i = 0; !code && i < reply.items.n; i++) {
        rota_buffer_append_str(names, queues[i].name);
        rota_buffer_append_char(names, '\n');
    }
    return code;
}

static enum rota_code ask_names(struct rota_client *client, const struct noun *noun,
                                struct rota_buffer *names)
{
    static const char *const FIELDS[] = {"name"};
    struct rota_nodes_documents_reply reply;
    struct rota_str topic = rota_str(noun->topic);
    struct rota_rows rows;
    enum rota_code code = rota_documents_ask(client, &topic, 1, &reply, NULL);
    if (!code)
        code = rota_json_rows_read(rota_documents_find(&reply, noun->topic), noun->key, FIELDS, 1,
                                   &rows, NULL);
    if (code)
        return code;
    for (size_t i = 0; i < rows.n_rows; i++) {
        rota_buffer_append_str(names, rota_rows_cell(&rows, i, 0));
        rota_buffer_append_char(names, '\n');
    }
    rota_json_rows_deinit(&rows);
    return ROTA_OK;
}

static void on_late(int number)
{
    (void)number;
    _exit(ROTA_CLI_OK);
}

static int run_complete(int argc, char *const *argv)
{
    const struct itimerval limit = {.it_value.tv_usec = 300000};
    struct complete options = {.of.timeout = ROTA_SEC};
    static struct rota_option_list arguments;
    struct rota_client client;
    struct rota_buffer names = {0};
    struct rota_error error;
    size_t i = 0;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_complete, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    while (i < sizeof NOUNS / sizeof *NOUNS && strcmp(NOUNS[i].name, arguments.items[0]) != 0)
        i++;
    signal(SIGALRM, on_late);
    setitimer(ITIMER_REAL, &limit, NULL);
    if (i == sizeof NOUNS / sizeof *NOUNS || rota_client_open(&options.of, &client, &error))
        return ROTA_CLI_OK;
    enum rota_code code = strcmp(NOUNS[i].name, "queue") == 0
                              ? ask_queues(&client, &names)
                              : ask_names(&client, &NOUNS[i], &names);
    rota_client_close(&client);
    if (!code && !names.failed)
        return rota_cli_print(&names);
    rota_buffer_deinit(&names);
    return ROTA_CLI_OK;
}

const struct rota_cli_command rota_cmd_complete = {
    .command =
        {
            .name = "complete",
            .summary = "Print names for the completion of a shell",
            .arguments = "NOUN",
            .min_arguments = 1,
            .max_arguments = 1,
            .description = "Prints the names of what a node knows, one per line: `group`, `node`, "
                           "`queue` or `space`. Takes at most 300 ms, and prints nothing if it "
                           "cannot find out.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
        },
    .run = run_complete,
};
