/* rota directory get: print which nodes own the shards of a space. */
#include "base/json.h"
#include "cli/call/collection_options.h"
#include "cli/cli.h"
#include "run/call/map_watch.h"
#include "wire/message/directory_message.h"

#include <rota/experimental/channel.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct get {
    struct rota_collection_options of;
    bool json;
    int output;
};

static const struct rota_option GET_OPTIONS[] = {
    ROTA_COLLECTION_OPTIONS(struct get, "5s", "how long to wait for each directory"),
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct get, json), .help = "print JSON"},
    ROTA_TABLE_OPTION(struct get, output),
};

static const struct rota_table_column COLUMNS[] = {
    {"SHARD", "shard", ROTA_TABLE_NUMBER, false},
    {"ZONE", "zone", ROTA_TABLE_TEXT, true},
    {"ADDRESS", "address", ROTA_TABLE_NAME, false},
    {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"SERVICEABLE", "serviceable", ROTA_TABLE_FLAG, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF(NULL, COLUMNS);

static void add_owner(struct rota_json *json, const struct rota_space_table_side *side, size_t zone,
                      const struct rota_space_table_claim *claim)
{
    rota_json_add_text(json, "zone", side->zones[zone].name);
    rota_json_add_text(json, "address", side->nodes.items[claim->owner - 1]);
    rota_json_add_uint(json, "epoch", claim->epoch);
    rota_json_add_bool(json, "serviceable", !claim->is_moving);
}

/* The map as rows of a table: one object per line, for each owner and each shard without one. */
static void append_rows(struct rota_buffer *buffer, const struct rota_space_table_side *side)
{
    for (uint32_t i = 0; i < side->n_shards; i++) {
        bool has_owner = false;
        for (size_t zone = 0; zone <= side->n_zones; zone++) {
            struct rota_json json = {.buffer = buffer};
            bool is_owned = zone < side->n_zones && side->zones[zone].claims[i].owner > 0;
            if (!is_owned && (zone < side->n_zones || has_owner))
                continue;
            has_owner = true;
            rota_json_begin_object(&json);
            rota_json_add_uint(&json, "shard", i);
            if (is_owned)
                add_owner(&json, side, zone, &side->zones[zone].claims[i]);
            rota_json_end_object(&json);
            rota_buffer_append_char(buffer, '\n');
        }
    }
}

static void append_json(struct rota_buffer *buffer, const struct rota_space_table *table,
                        const char *space)
{
    const struct rota_space_table_side *side = &table->now;
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "space", space);
    rota_json_add_text(&json, "engine", table->engine);
    rota_json_add_uint(&json, "version", table->version);
    rota_json_add_array(&json, "shards");
    for (uint32_t i = 0; i < side->n_shards; i++) {
        rota_json_begin_object(&json);
        rota_json_add_uint(&json, "shard", i);
        rota_json_add_array(&json, "nodes");
        for (size_t zone = 0; zone < side->n_zones; zone++) {
            if (side->zones[zone].claims[i].owner == 0)
                continue;
            rota_json_begin_object(&json);
            add_owner(&json, side, zone, &side->zones[zone].claims[i]);
            rota_json_end_object(&json);
        }
        rota_json_end_array(&json);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static int print_reply(const struct rota_reply *reply, const struct get *options)
{
    struct rota_space_table table;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    bool is_whole, is_json = options->json || options->output == ROTA_TABLE_JSON;
    rota_space_table_init(&table, 0);
    enum rota_code code =
        rota_map_watch_apply(&table, rota_str_of(reply->message, reply->size), &is_whole, &error);
    if (!code && !is_whole)
        code = rota_error_set(&error, ROTA_ERR_IO, "the directory sent a part of a map");
    if (!code && is_json)
        append_json(&buffer, &table, options->of.collection);
    else if (!code)
        append_rows(&buffer, &table.now);
    rota_space_table_deinit(&table);
    if (code)
        return rota_cli_fail_error(&error);
    return is_json ? rota_cli_print(&buffer)
                   : rota_cli_answer(&rota_cmd_directory_get, options->output, &buffer);
}

/* Ask one node. Any answer fills `*reply`. */
static enum rota_code ask(uv_loop_t *loop, const char *address, struct rota_tls *tls,
                          const struct get *options, struct rota_reply *reply,
                          struct rota_error *error)
{
    struct rota_channel_options with = {
        .tls = tls, .insecure = options->of.insecure, .connect_timeout = options->of.timeout};
    struct rota_channel *channel;
    struct rota_buffer request = {0};
    enum rota_code code = rota_channel_open(loop, address, &with, &channel, error);
    if (code)
        return code;
    rota_message_encode(
        &ROTA_DIRECTORY_SPACE_REQUEST,
        &(struct rota_directory_space_request){.space = rota_str(options->of.collection)},
        &request);
    struct rota_call_options call = {
        .method = rota_str("/rota.v1.Directory/GetSpace"),
        .request = rota_buffer_str(&request),
        .timeout = options->of.timeout,
    };
    code = rota_channel_wait(channel, &call, reply, error);
    rota_channel_close(channel);
    rota_buffer_deinit(&request);
    return code;
}

/* Ask one node after the other until one knows the space. If none does, the error is that of
 * the last one. Returns the exit code. */
static int ask_all(uv_loop_t *loop, const struct rota_collection_nodes *nodes,
                   const struct get *options)
{
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "no directory to ask");
    for (size_t i = 0; i < nodes->size; i++) {
        struct rota_reply reply;
        if (ask(loop, nodes->items[i], nodes->tls, options, &reply, &error))
            continue;
        bool is_known = reply.status == ROTA_STATUS_OK,
             is_none = reply.status == ROTA_STATUS_NOT_FOUND;
        int code = is_known ? print_reply(&reply, options) : ROTA_CLI_NO;
        rota_cli_describe_refusal(&error, ROTA_ERR_UNAVAILABLE, nodes->items[i], reply.status,
                                  reply.text);
        rota_reply_deinit(&reply);
        if (is_known)
            return code;
        if (is_none)
            break;
    }
    return rota_cli_fail_error(&error);
}

static int run_get(int argc, char *const *argv)
{
    struct get options = {0};
    struct rota_collection_nodes nodes = {0};
    struct rota_error error;
    uv_loop_t loop;
    int code;
    if (!rota_cli_parse(&rota_cmd_directory_get, argc, argv, &options, NULL, &code))
        return code;
    if (rota_collection_options_check(&options.of, &nodes, &error))
        return rota_cli_fail_error(&error);
    if (uv_loop_init(&loop)) {
        rota_collection_options_nodes_deinit(&nodes);
        return rota_cli_fail(ROTA_CLI_NO, "not enough memory for an event loop");
    }
    code = ask_all(&loop, &nodes, &options);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    rota_collection_options_nodes_deinit(&nodes);
    return code;
}

const struct rota_cli_command rota_cmd_directory_get = {
    .command =
        {
            .name = "directory get",
            .summary = "Print the owners of the shards of a space or a cache",
            .description =
                "Asks a node for the map that clients get. A collection is a space of this name; "
                "cache/NAME is a cache, which has an owner of each shard in each zone.\n\nColumns, "
                "for each owner: SHARD; ZONE (with -o wide); ADDRESS; EPOCH of its claim; "
                "SERVICEABLE is `no` while the shard moves to it. A shard without owners has - as "
                "its address. Exits 1 if there is no such space or no node is reachable.\n\nWith "
                "--json: {\"space\", \"engine\", \"version\", \"shards\": [{\"shard\", \"nodes\": "
                "[{\"zone\", \"address\", \"epoch\", \"serviceable\"}]}]}.",
            .options = GET_OPTIONS,
            .n_options = sizeof GET_OPTIONS / sizeof *GET_OPTIONS,
            .examples =
                "rota directory get --collection books\n"
                "ROTA_NODE=a:7700,b:7700 rota directory get --collection cache/fruit --json\n",
        },
    .table = &TABLE,
    .run = run_get,
};
