/* rota directory get: print which nodes serve the shards of a collection. */
#include "base/json.h"
#include "cli/call/collection_options.h"
#include "cli/cli.h"
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
    {"SHARD", "channel", ROTA_TABLE_NAME, false},
    {"NODE", "node", ROTA_TABLE_NUMBER, true},
    {"ADDRESS", "address", ROTA_TABLE_NAME, false},
    {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"SERVICEABLE", "serviceable", ROTA_TABLE_FLAG, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF(NULL, COLUMNS);

static void add_node(struct rota_json *json, const struct rota_replica *node)
{
    rota_json_add_int(json, "node", node->node);
    rota_json_add_string(json, "address", node->address);
    rota_json_add_bool(json, "serviceable", node->is_serviceable);
    rota_json_add_uint(json, "epoch", node->epoch);
}

/* The map as rows of a table: one object per line, for each replica and each shard without one. */
static void append_rows(struct rota_buffer *buffer, const struct rota_directory_map *map)
{
    const struct rota_directory_shard *shards = map->shards.items;
    for (size_t i = 0; i < map->shards.n; i++) {
        const struct rota_replica *nodes = shards[i].nodes.items;
        for (size_t j = 0; j == 0 || j < shards[i].nodes.n; j++) {
            struct rota_json json = {.buffer = buffer};
            rota_json_begin_object(&json);
            rota_json_add_string(&json, "channel", shards[i].channel);
            if (shards[i].nodes.n > 0)
                add_node(&json, &nodes[j]);
            rota_json_end_object(&json);
            rota_buffer_append_char(buffer, '\n');
        }
    }
}

static void add_shard(struct rota_json *json, const struct rota_directory_shard *shard)
{
    const struct rota_replica *nodes = shard->nodes.items;
    rota_json_begin_object(json);
    rota_json_add_string(json, "channel", shard->channel);
    rota_json_add_array(json, "nodes");
    for (size_t j = 0; j < shard->nodes.n; j++) {
        rota_json_begin_object(json);
        add_node(json, &nodes[j]);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}

static void append_json(struct rota_buffer *buffer, const struct rota_directory_map *map)
{
    static const struct rota_directory_collection unnamed = {0};
    const struct rota_directory_collection *collection =
        map->collection ? map->collection : &unnamed;
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_string(&json, "database", collection->database);
    rota_json_add_string(&json, "collection", collection->name);
    rota_json_add_int(&json, "id", collection->id);
    rota_json_add_uint(&json, "version", map->version);
    rota_json_add_array(&json, "shards");
    for (size_t i = 0; i < map->shards.n; i++)
        add_shard(&json, (const struct rota_directory_shard *)map->shards.items + i);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static int print_reply(const struct rota_reply *reply, const struct get *options)
{
    struct rota_directory_reply message;
    struct rota_arena arena = {0};
    struct rota_buffer buffer = {0};
    rota_message_decode(&ROTA_DIRECTORY_REPLY, rota_str_of(reply->message, reply->size), &message,
                        &arena, NULL);
    bool is_map = message.shards != NULL;
    bool is_json = options->json || options->output == ROTA_TABLE_JSON;
    if (is_map && is_json)
        append_json(&buffer, message.shards);
    else if (is_map)
        append_rows(&buffer, message.shards);
    rota_arena_deinit(&arena);
    if (!is_map)
        return rota_cli_fail(ROTA_CLI_NO, "malformed reply: expected a map of shards");
    return is_json ? rota_cli_print(&buffer)
                   : rota_cli_answer(&rota_cmd_directory_get, options->output, &buffer);
}

/* Encode the request into `buffer`. */
static void pack_request(const struct get *options, struct rota_buffer *buffer)
{
    const struct rota_directory_collection collection = {
        rota_str(options->of.database), rota_str(options->of.collection), options->of.id};
    rota_message_encode(&ROTA_DIRECTORY_GET, &(struct rota_directory_request){&collection, 0},
                        buffer);
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
    pack_request(options, &request);
    struct rota_call_options call = {
        .method = rota_str("/rota.v1.Directory/GetShards"),
        .request = rota_buffer_str(&request),
        .timeout = options->of.timeout,
    };
    code = rota_channel_wait(channel, &call, reply, error);
    rota_channel_close(channel);
    rota_buffer_deinit(&request);
    return code;
}

/* Ask one node after the other until one knows the collection. If none does, the error is that of
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
            .summary = "Print the shard map of a collection",
            .description =
                "A node has a collection for each space, and one named cache/NAME for each of its "
                "caches.\n\nColumns, for each replica: SHARD (its channel); NODE (with -o wide) "
                "and ADDRESS; EPOCH of its "
                "claim; whether it is SERVICEABLE now. A shard without replicas has - as its node. "
                "Exits 1 if there is no such collection or no directory is reachable.\n\nWith "
                "--json: "
                "{\"database\", \"collection\", \"id\", \"version\", \"shards\": [{\"channel\", "
                "\"nodes\": [{\"node\", \"address\", \"serviceable\", \"epoch\"}]}]}.",
            .options = GET_OPTIONS,
            .n_options = sizeof GET_OPTIONS / sizeof *GET_OPTIONS,
            .examples =
                "rota directory get --collection books\n"
                "ROTA_NODE=a:7700,b:7700 rota directory get --collection cache/fruit --json\n",
        },
    .table = &TABLE,
    .run = run_get,
};
