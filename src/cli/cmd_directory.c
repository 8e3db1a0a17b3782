/* rota directory: the service that tells who serves which shard, and a question
 * to it. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/collection_options.h"
#include "cli/host_options.h"
#include "cli/watch.h"
#include "run/directory.h"
#include <rota/health.h>

#include "directory.pb-c.h"

#include <rota/channel.h>
#include <rota/store_members.h>
#include <stdio.h>
#include <stdlib.h>

/* --- serve --- */

struct serve {
    struct rota_host_options from;
    const char *map, *listen, *database, *collection;
    int64_t id, shards, replicas;
    bool insecure;
};

static const struct rota_option SERVE_OPTIONS[] = {
    {.name = "map",
     ROTA_OPTION_INTO(TEXT, struct serve, map),
     .value_name = "FILE",
     .help = "file with the shard map, one replica per line"},
    ROTA_HOST_OPTIONS(struct serve, from.file, from.store, from.role),
    {.name = "shards",
     ROTA_OPTION_INTO(INT, struct serve, shards),
     .value_name = "N",
     .default_text = "16",
     .min = 1,
     .max = ROTA_SHARD_CHANNELS_MAX,
     .help = "without --map: number of shards"},
    {.name = "replicas",
     ROTA_OPTION_INTO(INT, struct serve, replicas),
     .value_name = "N",
     .default_text = "2",
     .min = 1,
     .max = ROTA_SHARD_REPLICAS_MAX,
     .help = "without --map: replicas of each shard"},
    {.name = "database",
     ROTA_OPTION_INTO(TEXT, struct serve, database),
     .value_name = "NAME",
     .default_text = ROTA_DIRECTORY_DEFAULT,
     .min = 1,
     .max = ROTA_SHARD_NAME_MAX,
     .help = "without --map: database of the collection"},
    {.name = "collection",
     ROTA_OPTION_INTO(TEXT, struct serve, collection),
     .value_name = "NAME",
     .default_text = "shards",
     .min = 1,
     .max = ROTA_SHARD_NAME_MAX,
     .help = "without --map: name of the collection"},
    {.name = "id",
     ROTA_OPTION_INTO(INT, struct serve, id),
     .value_name = "N",
     .default_text = "1",
     .min = 1,
     .max = INT64_MAX,
     .help = "without --map: id of the collection"},
    {.name = "listen",
     ROTA_OPTION_INTO(TEXT, struct serve, listen),
     .value_name = "ADDRESS",
     .default_text = "127.0.0.1:0",
     .help = "address to serve gRPC on; port 0 picks a free one"},
    {.name = "insecure",
     ROTA_OPTION_INTO(FLAG, struct serve, insecure),
     .help = "serve plaintext on addresses other than loopback"},
};

/* What is on the loop while it serves. */
struct service {
    struct rota_watch watch;
    const struct serve *options;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_directory *directory;
    struct rota_directory_source *source;
    struct rota_store *store; /* NULL: a file is watched */
    bool is_ready;
};

static void on_error(void *data, const struct rota_error *error)
{
    (void)data;
    fprintf(stderr, "rota: %s; what was read before stays\n", error->text);
}

/* Nobody can ask before there is something to tell. */
static enum rota_code look_if_ready(struct service *service, struct rota_error *error)
{
    if (service->is_ready || rota_directory_n_collections(service->directory) == 0)
        return ROTA_OK;
    enum rota_code code = rota_server_listen(service->server, service->options->listen, error);
    if (code)
        return code;
    service->is_ready = true;
    rota_buffer_print(&service->watch.line, "ready grpc=%s\n",
                      rota_server_address(service->server, 0));
    rota_watch_print(&service->watch);
    return ROTA_OK;
}

static void on_change(void *data)
{
    struct service *service = data;
    struct rota_error error;
    if (look_if_ready(service, &error))
        rota_watch_stop(&service->watch, rota_cli_fail_error(&error));
}

static enum rota_code open_hosts(struct service *service, struct rota_members_source **hosts,
                                 struct rota_error *error)
{
    const struct rota_host_options *from = &service->options->from;
    const struct rota_store_options options = {.url = from->store};
    if (from->file)
        return rota_hosts_watch_new(from->file, hosts, error);
    enum rota_code code = rota_store_open(service->watch.loop, &options, &service->store, error);
    return code ? code : rota_store_members_new(service->store, from->role, 0, hosts, error);
}

static enum rota_code open_source(struct service *service, struct rota_error *error)
{
    const struct serve *options = service->options;
    struct rota_members_source *hosts;
    struct rota_directory_source_options with = {
        .directory = service->directory,
        .on_error = on_error,
        .on_change = on_change,
        .data = service,
        .database = rota_str(options->database),
        .name = rota_str(options->collection),
        .id = options->id,
        .n_shards = (uint32_t)options->shards,
        .n_replicas = (uint32_t)options->replicas,
    };
    if (options->map)
        return rota_directory_watch_file(service->watch.loop, options->map, &with, &service->source,
                                         error);
    enum rota_code code = open_hosts(service, &hosts, error);
    return code ? code
                : rota_directory_watch_ring(service->watch.loop, hosts, &with, &service->source,
                                            error);
}

static enum rota_code open_service(struct rota_watch *watch, struct rota_error *error)
{
    struct service *service = (struct service *)watch;
    struct rota_server_options with = {.insecure = service->options->insecure};
    enum rota_code code = rota_server_open(watch->loop, &with, &service->server, error);
    if (code == ROTA_OK)
        code = rota_health_open(service->server, &service->health, error);
    if (code == ROTA_OK)
        code = rota_directory_open(service->server, &service->directory, error);
    if (code == ROTA_OK)
        code = open_source(service, error);
    return code ? code : look_if_ready(service, error);
}

static void close_service(struct rota_watch *watch)
{
    struct service *service = (struct service *)watch;
    rota_directory_source_close(service->source);
    rota_store_close(service->store);
    rota_server_close(service->server);
    rota_directory_close(service->directory);
    rota_health_close(service->health);
}

static enum rota_code check_place(struct serve *options, struct rota_error *error)
{
    const struct rota_host_options *from = &options->from;
    const char *store = from->store ? from->store : getenv("ROTA_STORE");
    if (options->map && (from->file || from->store || from->role))
        return rota_error_set(error, ROTA_ERR_INVALID, "give --map or hosts, not both");
    if (options->map)
        return ROTA_OK;
    if (!from->file && (!store || !store[0]))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "one of --map, --hosts and --store is required");
    return rota_host_options_check(&options->from, error);
}

static int run_serve(int argc, char *const *argv)
{
    struct serve options = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_directory_serve, argc, argv, &options, NULL, &code))
        return code;
    if (check_place(&options, &error) ||
        rota_cli_check_listen(options.listen, options.insecure, NULL, &error))
        return rota_cli_fail_error(&error);
    struct service service = {.options = &options};
    return rota_watch_command(&service.watch, false, open_service, close_service);
}

const struct rota_cli_command rota_cmd_directory_serve = {
    .command =
        {
            .name = "directory serve",
            .summary = "Serve a shard map over gRPC",
            .description =
                "Serves rota.v1.Directory and the standard health service until interrupted. "
                "Prints `ready grpc=ADDRESS` when it does. Files and members are watched, and "
                "clients are notified of changes at once. An invalid or missing file, or an "
                "unreachable store, is reported on standard error and changes nothing. With "
                "--store it waits for members before it is ready.\n\nA map has one line per "
                "replica: DATABASE COLLECTION ID CHANNEL NODE ADDRESS, optionally followed by "
                "serviceable=false and epoch=N; # starts a comment. With --hosts or --store there "
                "is one collection, whose shards are named COLLECTION-0, COLLECTION-1 and so on, "
                "and whose replicas are the hosts that own that key on the ring.",
            .options = SERVE_OPTIONS,
            .n_options = sizeof SERVE_OPTIONS / sizeof *SERVE_OPTIONS,
            .examples =
                "rota directory serve --map shards --listen 127.0.0.1:7500\n"
                "rota directory serve --hosts hosts --shards 64 --replicas 3\n"
                "rota directory serve --store sqlite:/var/lib/rota/store.db --role broker\n",
        },
    .run = run_serve,
};

/* --- get --- */

struct get {
    struct rota_collection_options of;
    bool json;
};

static const struct rota_option GET_OPTIONS[] = {
    ROTA_COLLECTION_OPTIONS(struct get, "5s", "how long to wait for each directory"),
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct get, json), .help = "print JSON"},
};

static void append_text(struct rota_buffer *buffer, const Rota__V1__ShardMap *map)
{
    for (size_t i = 0; i < map->n_shards; i++) {
        const Rota__V1__Shard *shard = map->shards[i];
        for (size_t j = 0; j < shard->n_nodes; j++) {
            const Rota__V1__Node *node = shard->nodes[j];
            rota_buffer_print(buffer, "%s\t%lld\t%s\tepoch=%llu%s\n", shard->channel,
                              (long long)node->node_id, node->address,
                              (unsigned long long)node->epoch,
                              node->serviceable ? "" : "\tserviceable=false");
        }
        if (shard->n_nodes == 0)
            rota_buffer_print(buffer, "%s\tnobody\n", shard->channel);
    }
}

static void add_shard(struct rota_json *json, const Rota__V1__Shard *shard)
{
    rota_json_begin_object(json);
    rota_json_key(json, "channel");
    rota_json_text(json, shard->channel);
    rota_json_key(json, "nodes");
    rota_json_begin_array(json);
    for (size_t j = 0; j < shard->n_nodes; j++) {
        const Rota__V1__Node *node = shard->nodes[j];
        rota_json_begin_object(json);
        rota_json_key(json, "node");
        rota_json_int(json, node->node_id);
        rota_json_key(json, "address");
        rota_json_text(json, node->address);
        rota_json_key(json, "serviceable");
        rota_json_bool(json, node->serviceable);
        rota_json_key(json, "epoch");
        rota_json_uint(json, node->epoch);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}

static void append_json(struct rota_buffer *buffer, const Rota__V1__ShardMap *map)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_key(&json, "database");
    rota_json_text(&json, map->collection ? map->collection->database : NULL);
    rota_json_key(&json, "collection");
    rota_json_text(&json, map->collection ? map->collection->name : NULL);
    rota_json_key(&json, "id");
    rota_json_int(&json, map->collection ? map->collection->id : 0);
    rota_json_key(&json, "version");
    rota_json_uint(&json, map->version);
    rota_json_key(&json, "shards");
    rota_json_begin_array(&json);
    for (size_t i = 0; i < map->n_shards; i++)
        add_shard(&json, map->shards[i]);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static int print_reply(const struct rota_reply *reply, const struct get *options)
{
    Rota__V1__GetShardsReply *message =
        rota__v1__get_shards_reply__unpack(NULL, reply->size, (const uint8_t *)reply->message);
    struct rota_buffer buffer = {0};
    if (!message || !message->shards) {
        if (message)
            rota__v1__get_shards_reply__free_unpacked(message, NULL);
        return rota_cli_fail(ROTA_CLI_NO, "malformed reply: expected a map of shards");
    }
    if (options->json)
        append_json(&buffer, message->shards);
    else
        append_text(&buffer, message->shards);
    rota__v1__get_shards_reply__free_unpacked(message, NULL);
    return rota_cli_print(&buffer);
}

/* The request's bytes, into `buffer`. */
static void pack_request(const struct get *options, struct rota_buffer *buffer)
{
    Rota__V1__GetShardsRequest message = ROTA__V1__GET_SHARDS_REQUEST__INIT;
    Rota__V1__Collection collection = ROTA__V1__COLLECTION__INIT;
    uint8_t bytes[2 * ROTA_SHARD_NAME_MAX + 64];
    collection.database = (char *)options->of.database;
    collection.name = (char *)options->of.collection;
    collection.id = options->of.id;
    message.collection = &collection;
    rota_buffer_append(buffer, bytes, rota__v1__get_shards_request__pack(&message, bytes));
}

/* Ask one of them; an answer of any kind fills `*reply`. */
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

/* Ask them one after the other until one knows; the exit code. What the last one
 * met is told when none does. */
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
        rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "%s: %s: %s", nodes->items[i],
                       rota_status_name(reply.status), reply.text);
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
        rota_collection_nodes_deinit(&nodes);
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    }
    code = ask_all(&loop, &nodes, &options);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    rota_collection_nodes_deinit(&nodes);
    return code;
}

const struct rota_cli_command rota_cmd_directory_get = {
    .command =
        {
            .name = "directory get",
            .summary = "Print the shard map of a collection",
            .description =
                "Prints one line per replica of each shard, with tab-separated values: the shard's "
                "channel, the node, its address, the epoch of its claim, and serviceable=false if "
                "it does not serve now. A shard without replicas is printed as `nobody`. Exits 1 "
                "if there is no such collection or no directory is reachable.\n\nWith --json: "
                "{\"database\", \"collection\", \"id\", \"version\", \"shards\": [{\"channel\", "
                "\"nodes\": [{\"node\", \"address\", \"serviceable\", \"epoch\"}]}]}.",
            .options = GET_OPTIONS,
            .n_options = sizeof GET_OPTIONS / sizeof *GET_OPTIONS,
            .examples = "rota directory get --node 127.0.0.1:7500 --collection books\n"
                        "ROTA_NODE=a:7500,b:7500 rota directory get --id 12 --json\n",
        },
    .run = run_get,
};
