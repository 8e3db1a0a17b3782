/* rota space: the spaces of a cluster and their assignment engines. */
#include "cli/own/space_client.h"
#include "cli/terminal.h"
#include "wire/message/message_json.h"
#include "wire/message/queue_message.h"

#include <stdlib.h>

static const struct rota_option MIGRATE_OPTIONS[] = {
    ROTA_SPACE_OPTIONS,
    ROTA_SPACE_DRY_RUN,
    {.name = "shadow",
     ROTA_OPTION_INTO(SPAN, struct rota_space_words, shadow),
     .value_name = "DURATION",
     .default_text = "0s",
     .min = 0,
     .max = ROTA_DAY,
     .help = "how long the new engine runs in shadow mode; 0: for one --ttl of the node"},
    {.name = "wait",
     ROTA_OPTION_INTO(FLAG, struct rota_space_words, wait),
     .help = "wait until the new engine is in force"},
};

static const struct rota_option CHANGE_OPTIONS[] = {ROTA_SPACE_OPTIONS, ROTA_SPACE_DRY_RUN};

static const char *const ENGINES[] = {"static", "ring", "lease", "group", NULL};

static const struct rota_option CREATE_OPTIONS[] = {
    ROTA_SPACE_OPTIONS,
    ROTA_SPACE_DRY_RUN,
    {.name = "engine",
     ROTA_OPTION_INTO(CHOICE, struct rota_space_words, chosen),
     .value_name = "ENGINE",
     .default_text = "ring",
     .choices = ENGINES,
     .help = "assignment engine"},
    {.name = "shards",
     ROTA_OPTION_INTO(INT, struct rota_space_words, n_shards),
     .value_name = "N",
     .default_text = "64",
     .min = 1,
     .max = ROTA_SPACE_SHARDS_MAX,
     .help = "number of shards, which never changes"},
    {.name = "seats",
     ROTA_OPTION_INTO(TEXT, struct rota_space_words, seats),
     .value_name = "NODES",
     .help = "engine static: names or addresses of its nodes, separated by commas"},
};

/* --- list --- */

static enum rota_code list(struct rota_client *client, const struct rota_space_words *words,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_list reply;
    (void)words;
    enum rota_code code = rota_client_insist(client, "/rota.v1.Space/List", NULL, NULL,
                                             &ROTA_SPACE_LIST_REPLY, &reply, error);
    if (code)
        return code;
    struct rota_json json = {.buffer = buffer};
    rota_message_json_write(&ROTA_SPACE_LIST_REPLY, &reply, &json);
    rota_buffer_append_char(buffer, '\n');
    return ROTA_OK;
}

/* --- show --- */

/* The shards of a node; the last entry counts shards without an owner. */
struct share {
    uint64_t n_owned, n_moving;
};

static void count(const struct rota_space_show *show, struct share *shares)
{
    const struct rota_space_claim_info *shards = show->shards.items;
    for (size_t i = 0; i < show->shards.n; i++) {
        struct share *share = &shares[shards[i].owner > 0 ? shards[i].owner - 1 : show->nodes.n];
        if (shards[i].state == ROTA_SPACE_MOVING)
            share->n_moving++;
        else
            share->n_owned++;
    }
}

static void append_show_json(struct rota_buffer *buffer, const struct rota_space_show *show,
                             const struct share *shares)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_message_json_write_members(&ROTA_SPACE_INFO, show->space, &json);
    rota_json_add_array(&json, "nodes");
    for (size_t i = 0; i < show->nodes.n; i++) {
        rota_json_begin_object(&json);
        rota_json_add_string(&json, "node", show->nodes.items[i]);
        rota_json_add_string(&json, "name",
                             i < show->node_names.n ? show->node_names.items[i]
                                                    : show->nodes.items[i]);
        rota_json_add_uint(&json, "n_owned", shares[i].n_owned);
        rota_json_add_uint(&json, "n_moving", shares[i].n_moving);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_add_uint(&json, "n_unowned",
                       shares[show->nodes.n].n_owned + shares[show->nodes.n].n_moving);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static enum rota_code show(struct rota_client *client, const struct rota_space_words *words,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_show reply;
    enum rota_code code = rota_space_client_show(client, words, &reply, error);
    if (code)
        return code;
    struct share *shares = calloc(reply.nodes.n + 1, sizeof *shares);
    if (!shares)
        return rota_error_no_memory(error, "for the answer");
    count(&reply, shares);
    append_show_json(buffer, &reply, shares);
    free(shares);
    return ROTA_OK;
}

/* --- migrate --- */

/* Wait until the engine is in force and every shard has an owner, or the shadow phase was
 * cancelled. */
static enum rota_code await_engine(struct rota_client *client, const struct rota_space_words *words,
                                   struct rota_error *error)
{
    struct rota_progress progress = {0};
    bool was_seen = false;
    for (;;) {
        struct rota_space_show reply;
        enum rota_code code = rota_space_client_show(client, words, &reply, error);
        if (code) {
            rota_terminal_progress_end(&progress);
            return code;
        }
        const struct rota_space_info *info = reply.space;
        const struct rota_space_migration_info *migration = info->migration;
        bool is_there = rota_str_is_equal(info->engine, rota_str(words->engine));
        if (!info->migration && is_there && info->n_owned == info->n_shards)
            break;
        if (was_seen && !info->migration && !is_there) {
            rota_terminal_progress_end(&progress);
            return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                                  "the migration was cancelled: the engine is still %.*s",
                                  ROTA_STR_ARGS(info->engine));
        }
        was_seen |= info->migration != NULL;
        if (is_there)
            rota_terminal_progress_print(
                &progress, "waiting for owners: %llu of %llu shards have one",
                (unsigned long long)info->n_owned, (unsigned long long)info->n_shards);
        else
            rota_terminal_progress_print(
                &progress, "waiting for engine %s%s%.*s", words->engine,
                migration ? ": phase " : "",
                ROTA_STR_ARGS(migration ? migration->phase : rota_str("")));
        rota_client_pause(client, 200);
    }
    rota_terminal_progress_end(&progress);
    return ROTA_OK;
}

static enum rota_code migrate(struct rota_client *client, const struct rota_space_words *words,
                              struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_request request = {.space = words->space,
                                         .engine = rota_str(words->engine),
                                         .shadow_ms = rota_queue_to_ms(words->shadow),
                                         .is_dry_run = words->dry_run};
    bool is_done = false;
    enum rota_code code = rota_space_client_change(
        client, "/rota.v1.Space/Migrate", &ROTA_SPACE_MIGRATE, &request, &is_done, buffer, error);
    if (!code && is_done && words->wait)
        code = await_engine(client, words, error);
    return code;
}

/* --- create, delete, reseat --- */

static enum rota_code create(struct rota_client *client, const struct rota_space_words *words,
                             struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_request request = {.space = words->space,
                                         .engine = rota_str(ENGINES[words->chosen]),
                                         .n_shards = (uint64_t)words->n_shards,
                                         .seats = rota_str(words->seats ? words->seats : ""),
                                         .is_dry_run = words->dry_run};
    return rota_space_client_change(client, "/rota.v1.Space/Create", &ROTA_SPACE_CREATE, &request,
                                    NULL, buffer, error);
}

static enum rota_code delete (struct rota_client *client, const struct rota_space_words *words,
                              struct rota_buffer *buffer, struct rota_error *error) {
    struct rota_space_request request = {.space = words->space, .is_dry_run = words->dry_run};
    return rota_space_client_change(client, "/rota.v1.Space/Delete", &ROTA_SPACE_DELETE, &request,
                                    NULL, buffer, error);
}

static enum rota_code reseat(struct rota_client *client, const struct rota_space_words *words,
                             struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_request request = {
        .space = words->space, .seats = rota_str(words->node), .is_dry_run = words->dry_run};
    return rota_space_client_change(client, "/rota.v1.Space/Reseat", &ROTA_SPACE_RESEAT, &request,
                                    NULL, buffer, error);
}

/* --- the commands --- */

#define COMMAND(noun, words, the_table, the_arguments, n, ...)                                     \
    ROTA_SPACE_COMMAND(space, noun, false, words, the_table, the_arguments, n, n, __VA_ARGS__)

static const struct rota_option LIST_OPTIONS[] = {ROTA_SPACE_LIST_OPTIONS};

static const struct rota_table_column COLUMNS[] = {
    {"SPACE", "name", ROTA_TABLE_TEXT, false},
    {"ENGINE", "engine", ROTA_TABLE_TEXT, false},
    {"SHARDS", "n_shards", ROTA_TABLE_NUMBER, false},
    {"OWNED", "n_owned", ROTA_TABLE_NUMBER, false},
    {"MOVING", "n_moving", ROTA_TABLE_NUMBER, false},
    {"VERSION", "version", ROTA_TABLE_NUMBER, true},
    {"TO", "migration.to", ROTA_TABLE_TEXT, false},
    {"PHASE", "migration.phase", ROTA_TABLE_TEXT, false},
    {"DIFFERENCES", "migration.differences", ROTA_TABLE_NUMBER, true},
    {"TROUBLE", "trouble", ROTA_TABLE_TEXT, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF("spaces", COLUMNS);

static const struct rota_table_column SHOW_COLUMNS[] = {
    {"SPACE", "name", ROTA_TABLE_NAME, false},
    {"ENGINE", "engine", ROTA_TABLE_TEXT, false},
    {"SHARDS", "n_shards", ROTA_TABLE_NUMBER, false},
    {"OWNED", "n_owned", ROTA_TABLE_NUMBER, false},
    {"MOVING", "n_moving", ROTA_TABLE_NUMBER, false},
    {"UNOWNED", "n_unowned", ROTA_TABLE_NUMBER, false},
    {"VERSION", "version", ROTA_TABLE_NUMBER, false},
    {"MIGRATES TO", "migration.to", ROTA_TABLE_TEXT, false},
    {"PHASE", "migration.phase", ROTA_TABLE_TEXT, false},
    {"DIFFERENCES", "migration.differences", ROTA_TABLE_NUMBER, false},
    {"TROUBLE", "trouble", ROTA_TABLE_LINES, false},
};
static const struct rota_table_column NODE_COLUMNS[] = {
    {"NODE", "name", ROTA_TABLE_NAME, false},
    {"OWNED", "n_owned", ROTA_TABLE_NUMBER, false},
    {"MOVING", "n_moving", ROTA_TABLE_NUMBER, false},
    {"ADDRESS", "node", ROTA_TABLE_NAME, true},
};
static const struct rota_table NODES = ROTA_TABLE_PART("nodes", "node", NODE_COLUMNS);
static const struct rota_table SHEET = ROTA_TABLE_SHEET(SHOW_COLUMNS, &NODES, 1);

COMMAND(
    list, LIST_OPTIONS, &TABLE, NULL, 0,
    "Columns: SPACE; its assignment ENGINE; how many SHARDS it has, how many are OWNED and how "
    "many are MOVING; its VERSION; during a migration the engine it goes TO, the PHASE and the "
    "DIFFERENCES: how many shards would change their owner; TROUBLE: why the node you asked cannot "
    "own shards now.\n\n"
    "With --json: {\"spaces\": [{\"name\", \"engine\", \"n_shards\", \"version\", \"n_owned\", "
    "\"n_moving\", \"migration\" (null, or {\"to\", \"phase\", \"differences\", \"is_counted\"}), "
    "\"trouble\"}]}.",
    "List the spaces of a cluster", "rota space list --node 127.0.0.1:7700\n");
COMMAND(
    show, LIST_OPTIONS, &SHEET, "SPACE", 1,
    "Prints the columns of `space list`, one per line, and then a row per node with the number of "
    "shards it owns (OWNED) and the number moving to it (MOVING). Where the output is not a "
    "terminal, each line has the name of a field, a tab and its value; a node has `node`, its "
    "name, both numbers and its address. Exits 1 if there is no such space.\n\nWith --json: the "
    "object of "
    "`space list`, with \"nodes\": [{\"node\": address, \"name\", \"n_owned\", \"n_moving\"}] and "
    "\"n_unowned\".",
    "Show a space and how many shards each node owns", "rota space show orders\n");
COMMAND(migrate, MIGRATE_OPTIONS, NULL, "SPACE ENGINE", 2,
        "The engines are static, ring, lease and group. First the new engine runs in shadow mode "
        "beside the old one, for --shadow, and `space list` shows how many shards would change "
        "their owner; to cancel, migrate to the current engine. The node you asked ends the shadow "
        "phase. If that node dies first, the phase stays `shadow` and nothing changes: ask any "
        "node to migrate again, or to cancel. Between ring and static, only shards that change "
        "their owner stop. To and from lease and group, every owner stops, and the new engine "
        "assigns shards only when all have stopped or are known to be dead, under higher epochs "
        "than before. A shard never has two owners.\n\nReturns when the change is in the store, "
        "with --wait when the new engine is in force and every shard has an owner. --wait has no "
        "time limit.\n\nWith --json: {\"plan\": [sentence...], \"is_done\"}.",
        "Switch a space to another engine",
        "rota space migrate orders lease --dry-run\n"
        "rota space migrate orders lease --shadow 10m --wait\n");
COMMAND(create, CREATE_OPTIONS, NULL, "SPACE", 1,
        "Creates a space without members. You don't need this for a space that a program or a node "
        "opens with its own settings: the first one to open it creates it. It helps when the "
        "settings should not depend on which program starts first, and for static spaces. Exits 1 "
        "if the "
        "space exists.\n\nWith --json: {\"plan\": [sentence...], \"is_done\"}.",
        "Create a space",
        "rota space create orders --shards 1024\n"
        "rota space create rooms --engine static --seats 10.0.0.1:7700,10.0.0.2:7700\n");
COMMAND(delete, CHANGE_OPTIONS, NULL, "SPACE", 1,
        "Deletes a space that no process has open as a member; stop these first. Nodes that only "
        "observe it notice within seconds. Epochs keep growing: a later space of the same name "
        "starts above all epochs of this one, as long as the clock of the store's database does "
        "not go back.\n\nWith --json: {\"plan\": [sentence...], \"is_done\"}.",
        "Delete a space that is not in use", "rota space delete orders --dry-run\n");
COMMAND(
    reseat, CHANGE_OPTIONS, NULL, "SPACE NODES", 2,
    "Sets the node list of a static space (its seats): shard N belongs to entry N modulo the "
    "length of the list, and has no owner while that node is down. NODES are names or addresses, "
    "separated by commas. Every shard gets a new epoch. In a space with another engine the "
    "list takes effect when it migrates to static.\n\nWith --json: {\"plan\": [sentence...], "
    "\"is_done\"}.",
    "Set the nodes of a static space", "rota space reseat rooms 10.0.0.1:7700,10.0.0.3:7700\n");
