/* rota node: the nodes of a cluster, and operators' commands to them. */
#include "cli/cli.h"
#include "cli/node/documents.h"
#include "cli/node/node_store.h"
#include "cli/terminal.h"
#include "wire/text/json_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct node {
    struct rota_client_options of;
    const char *store;
    bool is_dry_run, is_waited;
};

/* --- looking --- */

enum { ADDRESS, STATE, JOBS, SHARDS };

static const char *const FIELDS[] = {"address", "state", "jobs", "shards"};
enum { N_FIELDS = sizeof FIELDS / sizeof FIELDS[0] };

static enum rota_code ask_cluster(struct rota_client *client, struct rota_str *document,
                                  struct rota_error *error)
{
    const struct rota_str topic = rota_str("cluster");
    struct rota_nodes_documents_reply reply;
    enum rota_code code = rota_documents_ask(client, &topic, 1, &reply, error);
    if (code)
        return code;
    *document = rota_documents_find(&reply, "cluster");
    return document->size > 0 ? ROTA_OK
                              : rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                                               "the node did not return a list of nodes");
}

static enum rota_code read_nodes(struct rota_client *client, struct rota_rows *rows,
                                 struct rota_error *error)
{
    struct rota_str document;
    enum rota_code code = ask_cluster(client, &document, error);
    return code ? code : rota_json_rows_read(document, "nodes", FIELDS, N_FIELDS, rows, error);
}

static enum rota_code list(struct rota_client *client, struct rota_buffer *buffer,
                           struct rota_error *error)
{
    struct rota_rows rows;
    enum rota_code code = read_nodes(client, &rows, error);
    if (code)
        return code;
    rota_buffer_append_text(buffer, "{\"nodes\":[");
    for (size_t i = 0; i < rows.n_rows; i++) {
        rota_buffer_append_text(buffer, i > 0 ? "," : "");
        rota_buffer_append_str(buffer, rows.objects[i]);
    }
    rota_buffer_append_text(buffer, "]}\n");
    rota_json_rows_deinit(&rows);
    return ROTA_OK;
}

static enum rota_code show(struct rota_client *client, const char *name, struct rota_buffer *buffer,
                           struct rota_error *error)
{
    const struct rota_nodes_change request = {.node = rota_str(name)};
    struct rota_nodes_shown reply;
    enum rota_code code = rota_client_ask(client, "/rota.v1.Nodes/Show", &ROTA_NODES_SHOW, &request,
                                          &ROTA_NODES_SHOWN, &reply, error);
    if (code)
        return code;
    rota_buffer_append_str(buffer, reply.json);
    rota_buffer_append_char(buffer, '\n');
    return ROTA_OK;
}

/* --- changing --- */

/* How much work the node still has; `*is_over`: none, or it is no longer a member. */
static enum rota_code look_at(struct rota_client *client, const char *address, const char *name,
                              bool *is_over, char *left, size_t size, struct rota_error *error)
{
    struct rota_rows rows;
    enum rota_code code = read_nodes(client, &rows, error);
    if (code)
        return code;
    *is_over = true;
    for (size_t i = 0; i < rows.n_rows; i++) {
        if (!rota_str_is_equal(rota_rows_cell(&rows, i, ADDRESS), rota_str(address)))
            continue;
        unsigned long long jobs = rota_documents_number(rota_rows_cell(&rows, i, JOBS));
        unsigned long long shards = rota_documents_number(rota_rows_cell(&rows, i, SHARDS));
        struct rota_str state = rota_rows_cell(&rows, i, STATE);
        *is_over = rota_str_is_equal(state, rota_str("drained")) && jobs == 0 && shards == 0;
        snprintf(left, size, "%llu jobs and %llu shards left, the node is %.*s", jobs, shards,
                 ROTA_STR_ARGS(state));
        if (rota_str_is_equal(state, rota_str("dead")))
            code = rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                                  "%s is dead, and %llu jobs wait in its journal", name, jobs);
    }
    rota_json_rows_deinit(&rows);
    return code;
}

static enum rota_code await_drained(struct rota_client *client, const char *address,
                                    const char *name, struct rota_error *error)
{
    enum { EVERY_MS = 500 };
    struct rota_progress progress = {0};
    bool is_over = false;
    char left[512] = "";
    enum rota_code code = ROTA_OK;
    while (!code && !is_over) {
        rota_client_pause(client, EVERY_MS);
        code = look_at(client, address, name, &is_over, left, sizeof left, error);
        rota_terminal_progress_print(&progress, "waiting until %s is drained: %s", name, left);
    }
    rota_terminal_progress_end(&progress);
    return code;
}

static void append_plan(struct rota_buffer *buffer, const struct node *options, const char *address,
                        const struct rota_nodes_changed *changed)
{
    struct rota_json json = {.buffer = buffer};
    if (!options->of.json) {
        for (size_t i = 0; i < changed->plan.n; i++) {
            rota_terminal_append(buffer, changed->plan.items[i]);
            rota_buffer_append_char(buffer, '\n');
        }
        return;
    }
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "node", address);
    rota_json_add_array(&json, "plan");
    for (size_t i = 0; i < changed->plan.n; i++)
        rota_json_string(&json, changed->plan.items[i]);
    rota_json_end_array(&json);
    rota_json_add_bool(&json, "is_done", changed->is_done);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code change(struct rota_client *client, const struct node *options,
                             const char *method, const char *name, struct rota_buffer *buffer,
                             struct rota_error *error)
{
    const struct rota_nodes_change request = {.node = rota_str(name),
                                              .is_dry_run = options->is_dry_run};
    struct rota_nodes_changed changed;
    char address[ROTA_STORE_NAME_MAX + 1];
    enum rota_code code = rota_client_ask(client, method, &ROTA_NODES_CHANGE, &request,
                                          &ROTA_NODES_CHANGED, &changed, error);
    if (code)
        return code;
    snprintf(address, sizeof address, "%.*s",
             ROTA_STR_ARGS(changed.node.size > 0 ? changed.node : rota_str(name)));
    append_plan(buffer, options, address, &changed);
    if (!options->is_waited || options->is_dry_run)
        return ROTA_OK;
    fwrite(buffer->data, 1, buffer->size, stdout); /* show the plan before waiting */
    fflush(stdout);
    rota_buffer_clear(buffer);
    return await_drained(client, address, name, error);
}

/* --- commands --- */

/* `method` is NULL for a command that only reads; `state` is the member's new state. */
static int run_with(const struct rota_cli_command *command, const char *method,
                    enum rota_store_member_state state, int argc, char *const *argv)
{
    struct node options = {0};
    static struct rota_option_list arguments;
    struct rota_client client;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(command, argc, argv, &options, &arguments, &exit_code))
        return exit_code;
    if (options.store)
        return rota_cmd_node_store_change(options.store, arguments.items[0], state,
                                          options.is_dry_run);
    if (rota_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    const char *name = arguments.size > 0 ? arguments.items[0] : "";
    enum rota_code code = method ? change(&client, &options, method, name, &buffer, &error)
                          : command == &rota_cmd_node_list ? list(&client, &buffer, &error)
                                                           : show(&client, name, &buffer, &error);
    rota_client_close(&client);
    if (!code)
        return rota_client_answer(command, &options.of, &buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}

static const struct rota_option LIST_OPTIONS[] = {ROTA_CLIENT_LIST_OPTIONS(struct node)};

static const struct rota_table_column NODE_COLUMNS[] = {
    {"NODE", "name", ROTA_TABLE_NAME, false},
    {"ADDRESS", "address", ROTA_TABLE_NAME, true},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"ZONE", "zone", ROTA_TABLE_TEXT, false},
    {"WEIGHT", "weight", ROTA_TABLE_NUMBER, true},
    {"ROLES", "roles", ROTA_TABLE_TEXT, true},
    {"JOBS", "jobs", ROTA_TABLE_NUMBER, false},
    {"RUNNING", "running", ROTA_TABLE_NUMBER, false},
    {"SHARDS", "shards", ROTA_TABLE_NUMBER, false},
    {"CALLS", "calls", ROTA_TABLE_NUMBER, false},
    {"DASHBOARD", "http", ROTA_TABLE_TEXT, true},
};
static const struct rota_table NODE_TABLE = ROTA_TABLE_OF("nodes", NODE_COLUMNS);

static int run_list(int argc, char *const *argv)
{
    return run_with(&rota_cmd_node_list, NULL, ROTA_STORE_MEMBER_IN, argc, argv);
}

const struct rota_cli_command rota_cmd_node_list = {
    .command =
        {
            .name = "node list",
            .summary = "List the nodes of a cluster",
            .description =
                "Any node knows all of them. The states are `joining`, `serving`, `draining`, "
                "`drained` and `stopping`, as the nodes report them, and `unresponsive` (it "
                "did not answer), `dead` (its last heartbeat is older than its ttl; listed for an "
                "hour) and `evicted`.\n\n"
                "Columns: NODE (its name), ADDRESS, STATE, ZONE, WEIGHT, ROLES, JOBS, RUNNING "
                "(jobs), SHARDS, CALLS "
                "(in flight), DASHBOARD.\n\n"
                "With --json: {\"nodes\": [...]}, as GET /api/v1/cluster returns them.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples = "rota node list --node 127.0.0.1:7700\n",
        },
    .table = &NODE_TABLE,
    .run = run_list,
};

static const struct rota_table_column SHOW_COLUMNS[] = {
    {"NODE", "name", ROTA_TABLE_NAME, false},
    {"ADDRESS", "address", ROTA_TABLE_NAME, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"ZONE", "zone", ROTA_TABLE_TEXT, false},
    {"WEIGHT", "weight", ROTA_TABLE_NUMBER, false},
    {"ROLES", "roles", ROTA_TABLE_TEXT, false},
    {"DASHBOARD", "http", ROTA_TABLE_NAME, false},
    {"HEARTBEAT", "heard_ms", ROTA_TABLE_AGE, false},
    {"STARTED", "started_ms", ROTA_TABLE_TIME, false},
    {"ALIVE", "is_alive", ROTA_TABLE_FLAG, true},
    {"DRAINING", "is_draining", ROTA_TABLE_FLAG, true},
    {"PLACED", "is_placed", ROTA_TABLE_FLAG, true},
    {"CPU TIME", "cpu_ms", ROTA_TABLE_DURATION, false},
    {"MEMORY", "memory", ROTA_TABLE_BYTES, false},
    {"SHARDS", "shards", ROTA_TABLE_NUMBER, false},
    {"JOBS", "jobs", ROTA_TABLE_NUMBER, false},
    {"RUNNING", "running", ROTA_TABLE_NUMBER, false},
    {"POLLS", "polls", ROTA_TABLE_NUMBER, true},
    {"JOBS MEMORY", "jobs_memory", ROTA_TABLE_BYTES, true},
    {"CALLS", "calls", ROTA_TABLE_NUMBER, false},
    {"TOTAL CALLS", "calls_total", ROTA_TABLE_NUMBER, true},
    {"CACHE SHARDS", "cache_shards", ROTA_TABLE_NUMBER, false},
    {"GETS", "gets", ROTA_TABLE_NUMBER, false},
    {"GETS FAILED", "gets_failed", ROTA_TABLE_NUMBER, false},
    {"GETS RUNNING", "gets_running", ROTA_TABLE_NUMBER, true},
    {"COLLECTIONS", "collections", ROTA_TABLE_NUMBER, true},
    {"WATCHERS", "watchers", ROTA_TABLE_NUMBER, true},
    {"GROUPS", "groups", ROTA_TABLE_NUMBER, true},
};
static const struct rota_table SHOW_SHEET = ROTA_TABLE_SHEET(SHOW_COLUMNS, NULL, 0);

static int run_show(int argc, char *const *argv)
{
    return run_with(&rota_cmd_node_show, NULL, ROTA_STORE_MEMBER_IN, argc, argv);
}

const struct rota_cli_command rota_cmd_node_show = {
    .command =
        {
            .name = "node show",
            .summary = "Show everything known about a node",
            .arguments = "[NODE]",
            .max_arguments = 1,
            .description = "Shows the node with this name or address [default: the node you ask], "
                           "one field per line. On a terminal each line has a title and a value, "
                           "and -o wide shows all fields; elsewhere it has the name of the field, "
                           "a tab and its value. HEARTBEAT is how long ago the node was last seen. "
                           "MEMORY is in bytes if the output is not a terminal.\n\nWith --json: "
                           "one object, as GET /api/v1/cluster "
                           "lists it; fields may be missing if the node runs another version.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples = "rota node show box-2 --node 10.0.0.8:7700\n",
        },
    .table = &SHOW_SHEET,
    .run = run_show,
};

#define STORE                                                                                      \
    {                                                                                              \
        .name = "store", ROTA_OPTION_INTO(TEXT, struct node, store), .value_name = "URL",          \
        .help = "change the list in this database without asking a node: for members that are "    \
                "not nodes, or when no node is up"                                                 \
    }

#define DRY_RUN                                                                                    \
    {                                                                                              \
        .name = "dry-run", ROTA_OPTION_INTO(FLAG, struct node, is_dry_run),                        \
        .help = "print the plan and change nothing"                                                \
    }

static const struct rota_option CHANGE_OPTIONS[] = {ROTA_CLIENT_OPTIONS(struct node), STORE,
                                                    DRY_RUN};
static const struct rota_option DRAIN_OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct node),
    STORE,
    DRY_RUN,
    {.name = "wait",
     ROTA_OPTION_INTO(FLAG, struct node, is_waited),
     .help = "wait until the node has no work left"},
};

#define CHANGE(word, method, state, does, long_text, table)                                        \
    static int run_##word(int argc, char *const *argv)                                             \
    {                                                                                              \
        return run_with(&rota_cmd_node_##word, "/rota.v1.Nodes/" method, (state), argc, argv);     \
    }                                                                                              \
    const struct rota_cli_command rota_cmd_node_##word = {                                         \
        .command =                                                                                 \
            {                                                                                      \
                .name = "node " #word,                                                             \
                .summary = (does),                                                                 \
                .arguments = "NODE",                                                               \
                .min_arguments = 1,                                                                \
                .max_arguments = 1,                                                                \
                .description = long_text                                                           \
                "\n\nNODE is a name or an address. Prints the plan, one sentence per line: what "  \
                "moves, and which "                                                                \
                "nodes get it. With --json: {\"node\", \"plan\": [...], "                          \
                "\"is_done\"}, where `node` is its address. Exits 1 if there is no such node.",    \
                .options = (table),                                                                \
                .n_options = sizeof(table) / sizeof *(table),                                      \
                .examples = "rota node " #word " box-2 --dry-run --node 10.0.0.8:7700\n",          \
            },                                                                                     \
        .run = run_##word,                                                                         \
    }

CHANGE(drain, "Drain", ROTA_STORE_MEMBER_DRAINING,
       "Drain a node: hand over its work, assign nothing new",
       "The node hands over its work, finishes what is running, and gets no new work, even after a "
       "restart, until `rota node undrain`. --wait has no time limit.",
       DRAIN_OPTIONS);
CHANGE(undrain, "Undrain", ROTA_STORE_MEMBER_IN, "Let a drained or evicted node work again",
       "Undoes a drain or an eviction.", CHANGE_OPTIONS);
CHANGE(
    evict, "Evict", ROTA_STORE_MEMBER_EVICTED, "Mark a node as dead",
    "The cluster treats the node as dead, whatever its heartbeats say, until `rota node "
    "undrain`: other nodes take over its shards. Jobs in its journal stay there and wait for it.",
    CHANGE_OPTIONS);
