/* rota shard: the shards of a space, one by one. */
#include "cli/own/space_client.h"
#include "cli/terminal.h"
#include "wire/message/message_json.h"

static const char *const STATES[] = {"any", "owned", "moving", "unowned", NULL};

static const struct rota_option LIST_OPTIONS[] = {
    ROTA_SPACE_LIST_OPTIONS,
    {.name = "owner",
     ROTA_OPTION_INTO(TEXT, struct rota_space_words, owner),
     .value_name = "NODE",
     .help = "only shards this node owns or is about to own"},
    {.name = "state",
     ROTA_OPTION_INTO(CHOICE, struct rota_space_words, state),
     .value_name = "STATE",
     .choices = STATES,
     .default_text = "any",
     .help = "only shards in this state"},
};

static const struct rota_option SHOW_OPTIONS[] = {ROTA_SPACE_LIST_OPTIONS};

static const struct rota_option PIN_OPTIONS[] = {
    ROTA_SPACE_OPTIONS,
    ROTA_SPACE_DRY_RUN,
    {.name = "off",
     ROTA_OPTION_INTO(FLAG, struct rota_space_words, off),
     .help = "unpin the shard; give no NODE"},
};

static const struct rota_option MOVE_OPTIONS[] = {
    ROTA_SPACE_OPTIONS,
    ROTA_SPACE_DRY_RUN,
    {.name = "once",
     ROTA_OPTION_INTO(FLAG, struct rota_space_words, once),
     .help = "unpin the shard once it is there"},
};

/* --- list --- */

static struct rota_str owner_of(const struct rota_space_show *show, size_t shard)
{
    const struct rota_space_claim_info *claim =
        (const struct rota_space_claim_info *)show->shards.items + shard;
    return claim->owner > 0 ? show->nodes.items[claim->owner - 1] : rota_str("");
}

/* An older node sends no names. */
static struct rota_str owner_name(const struct rota_space_show *show, size_t shard)
{
    const struct rota_space_claim_info *claim =
        (const struct rota_space_claim_info *)show->shards.items + shard;
    return claim->owner > 0 && claim->owner <= show->node_names.n
               ? show->node_names.items[claim->owner - 1]
               : owner_of(show, shard);
}

static bool is_wanted(const struct rota_space_show *show, const struct rota_space_words *words,
                      size_t shard)
{
    const struct rota_space_claim_info *claim =
        (const struct rota_space_claim_info *)show->shards.items + shard;
    return (!words->owner || rota_str_is_equal(owner_of(show, shard), rota_str(words->owner)) ||
            rota_str_is_equal(owner_name(show, shard), rota_str(words->owner))) &&
           (words->state == 0 || claim->state + 1 == (uint64_t)words->state);
}

static void add_claim(struct rota_json *json, const struct rota_space_show *show, size_t shard)
{
    const struct rota_space_claim_info *claim =
        (const struct rota_space_claim_info *)show->shards.items + shard;
    rota_json_begin_object(json);
    rota_json_add_uint(json, "shard", shard);
    rota_json_add_string(json, "owner", owner_of(show, shard));
    rota_json_add_string(json, "owner_name", owner_name(show, shard));
    rota_json_add_uint(json, "epoch", claim->epoch);
    rota_json_add_text(json, "state", rota_space_message_state_name(claim->state));
    rota_json_add_bool(json, "is_pinned", claim->is_pinned);
    rota_json_end_object(json);
}

static enum rota_code list(struct rota_client *client, const struct rota_space_words *words,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_show reply;
    struct rota_json json = {.buffer = buffer};
    enum rota_code code = rota_space_client_show(client, words, &reply, error);
    if (code)
        return code;
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "shards");
    for (size_t i = 0; i < reply.shards.n; i++)
        if (is_wanted(&reply, words, i))
            add_claim(&json, &reply, i);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
    return ROTA_OK;
}

/* --- show and explain --- */

static enum rota_code look_up_shard(struct rota_client *client,
                                    const struct rota_space_words *words,
                                    struct rota_space_explanation *reply, struct rota_error *error)
{
    struct rota_space_request request = {.space = words->space, .shard = words->shard};
    return rota_client_insist(client, "/rota.v1.Space/Explain", &ROTA_SPACE_EXPLAIN, &request,
                              &ROTA_SPACE_EXPLAIN_REPLY, reply, error);
}

static enum rota_code show(struct rota_client *client, const struct rota_space_words *words,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_explanation reply;
    struct rota_json json = {.buffer = buffer};
    enum rota_code code = look_up_shard(client, words, &reply, error);
    if (code)
        return code;
    rota_message_json_write(&ROTA_SPACE_EXPLAIN_REPLY, &reply, &json);
    rota_buffer_append_char(buffer, '\n');
    return ROTA_OK;
}

static rota_space_act *const explain = show; /* their tables differ */

/* --- pin and move --- */

static enum rota_code ask_pin(struct rota_client *client, const struct rota_space_words *words,
                              const char *node, struct rota_buffer *buffer,
                              struct rota_error *error)
{
    struct rota_space_request request = {.space = words->space,
                                         .shard = words->shard,
                                         .node = rota_str(node),
                                         .is_dry_run = words->dry_run};
    return rota_space_client_change(client, "/rota.v1.Space/Pin", &ROTA_SPACE_PIN, &request, NULL,
                                    buffer, error);
}

static enum rota_code pin(struct rota_client *client, const struct rota_space_words *words,
                          struct rota_buffer *buffer, struct rota_error *error)
{
    if (words->off == (words->node != NULL) || (words->node && !*words->node))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shard pin: give a node to pin the shard to, or --off");
    return ask_pin(client, words, words->off ? "" : words->node, buffer, error);
}

static enum rota_code await_owner(struct rota_client *client, const struct rota_space_words *words,
                                  struct rota_error *error)
{
    struct rota_progress progress = {0};
    for (;;) {
        struct rota_space_explanation reply = {0};
        enum rota_code code = look_up_shard(client, words, &reply, error);
        bool is_there = rota_str_is_equal(reply.owner, rota_str(words->node)) ||
                        rota_str_is_equal(reply.owner_name, rota_str(words->node));
        if (code || (reply.state == ROTA_SPACE_OWNED && is_there)) {
            rota_terminal_progress_end(&progress);
            return code;
        }
        rota_terminal_progress_print(&progress, "waiting until %s owns shard %u: %.*s", words->node,
                                     (unsigned)words->shard, ROTA_STR_ARGS(reply.why));
        rota_client_pause(client, 100);
    }
}

static enum rota_code move(struct rota_client *client, const struct rota_space_words *words,
                           struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_buffer second = {0};
    if (!*words->node)
        return rota_error_set(error, ROTA_ERR_INVALID, "shard move: the name of the node is empty");
    enum rota_code code = ask_pin(client, words, words->node, buffer, error);
    if (!code && !words->dry_run)
        code = await_owner(client, words, error);
    if (!code && !words->dry_run && words->once) {
        code = ask_pin(client, words, "", &second, error);
        if (!client->options->json)
            rota_buffer_append_str(buffer, rota_buffer_str(&second));
        rota_buffer_deinit(&second);
    }
    return code;
}

/* --- the commands --- */

#define COMMAND(noun, words, the_table, the_arguments, n_min, n_max, ...)                          \
    ROTA_SPACE_COMMAND(shard, noun, (n_max) > 1, words, the_table, the_arguments, n_min, n_max,    \
                       __VA_ARGS__)

static const struct rota_table_column COLUMNS[] = {
    {"SHARD", "shard", ROTA_TABLE_NUMBER, false},    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"OWNER", "owner_name", ROTA_TABLE_NAME, false}, {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"PINNED", "is_pinned", ROTA_TABLE_FLAG, false}, {"ADDRESS", "owner", ROTA_TABLE_NAME, true},
};
static const struct rota_table TABLE = ROTA_TABLE_OF("shards", COLUMNS);

static const struct rota_table_column SHOW_COLUMNS[] = {
    {"SHARD", "shard", ROTA_TABLE_NUMBER, false},    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"OWNER", "owner_name", ROTA_TABLE_NAME, false}, {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"PINNED", "is_pinned", ROTA_TABLE_FLAG, false}, {"ADDRESS", "owner", ROTA_TABLE_NAME, false},
    {"WHY", "why", ROTA_TABLE_LINES, false},
};
static const struct rota_table_column HISTORY_COLUMNS[] = {
    {"TIME", "at_ms", ROTA_TABLE_TIME, false},       {"STATE", "what", ROTA_TABLE_STATE, false},
    {"OWNER", "owner_name", ROTA_TABLE_NAME, false}, {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"ADDRESS", "owner", ROTA_TABLE_NAME, true},
};
static const struct rota_table HISTORY = ROTA_TABLE_PART("history", "change", HISTORY_COLUMNS);
static const struct rota_table SHEET = {.is_sheet = true,
                                        .columns = SHOW_COLUMNS,
                                        .n_columns = sizeof SHOW_COLUMNS / sizeof *SHOW_COLUMNS -
                                                     1}; /* without WHY */
static const struct rota_table EXPLAIN_SHEET = ROTA_TABLE_SHEET(SHOW_COLUMNS, &HISTORY, 1);

COMMAND(
    list, LIST_OPTIONS, &TABLE, "SPACE", 1, 1,
    "Columns: SHARD; STATE: `owned`, `moving` or `unowned`; its OWNER, or the node it moves to; "
    "EPOCH; whether it is PINNED; the ADDRESS of the owner.\n\n"
    "With --json: {\"shards\": [{\"shard\", \"owner\": address, \"owner_name\", \"epoch\", "
    "\"state\", \"is_pinned\"}]}.",
    "List the shards of a space and their owners",
    "rota shard list orders --owner box-1\n"
    "rota shard list orders --state unowned\n");
COMMAND(show, SHOW_OPTIONS, &SHEET, "SPACE SHARD", 2, 2,
        "Prints the columns of `shard list` for one shard, one per line: a title and a value on a "
        "terminal, elsewhere the name of a field, a tab and its value.\n\nWith --json: {\"shard\", "
        "\"owner\": address, \"epoch\", \"state\", \"why\", \"history\": [{\"at_ms\", \"owner\", "
        "\"epoch\", "
        "\"what\", \"owner_name\"}], \"is_pinned\", \"owner_name\"}.",
        "Show the owner of a shard", "rota shard show orders 17\n");
COMMAND(explain, SHOW_OPTIONS, &EXPLAIN_SHEET, "SPACE SHARD", 2, 2,
        "Prints what `shard show` prints, WHY the shard is where it is, and its history, newest "
        "first, as seen by the node you asked. Where the output is not a terminal, a line of the "
        "history has `change`, the time, state, owner, epoch and the owner's address.\n\nWith "
        "--json: the same document "
        "as `shard show`.",
        "Explain why a shard is where it is", "rota shard explain orders 17\n");
COMMAND(pin, PIN_OPTIONS, NULL, "SPACE SHARD [NODE]", 2, 3,
        "The node, given by its name or address, keeps the shard, whatever the engine would "
        "decide, until --off. Nothing else "
        "moves. The previous owner stops first. Fails with the engines lease and group, which "
        "cannot pin.\n\nReturns when the pin is in the store; `shard move` waits for the "
        "shard.\n\nWith --json: {\"plan\": [sentence...], \"is_done\"}.",
        "Pin a shard to a node",
        "rota shard pin orders 17 box-2\n"
        "rota shard pin orders 17 --off --dry-run\n");
COMMAND(
    move, MOVE_OPTIONS, NULL, "SPACE SHARD NODE", 3, 3,
    "Pins the shard as `shard pin` does, and waits, without a time limit, until the node owns "
    "it. The shard stays pinned, because otherwise the engine would move it back. With --once it "
    "is unpinned as soon as it is there, and the engine may move it again.\n\nWith --json: "
    "{\"plan\": [sentence...], \"is_done\"}.",
    "Move a shard to a node and wait until it is there", "rota shard move orders 17 box-2\n");
