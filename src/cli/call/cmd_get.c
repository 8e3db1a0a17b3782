/* rota get: get the values of keys from the servers of a cache. */
#include "base/vector.h"
#include "cli/call/get_view.h"
#include "cli/cli.h"
#include "cli/lines.h"
#include "cli/store_options.h"
#include "cli/tls_options.h"
#include "io/net/address.h"
#include "run/call/cache_service.h"
#include "run/call/get_message.h"

#include <rota/experimental/store_members.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { MESSAGE_MAX = 64 << 20 }; /* bytes of an answer */

struct options {
    const char *store, *space, *hosts, *node, *collection;
    rota_time timeout;
    struct rota_tls_words tls;
    int mode;
    bool json, raw, explain, insecure;
};

static const char *const MODES[] = {"adaptive", "broadcast", "hedge", NULL};

static const struct rota_option OPTIONS[] = {
    ROTA_STORE_OPTION(struct options, store),
    ROTA_SPACE_OPTION(struct options, space),
    {.name = "hosts",
     ROTA_OPTION_INTO(TEXT, struct options, hosts),
     .value_name = "FILE",
     .help =
         "instead of --store: file with the servers, one per line; the zone is the data center"},
    {.name = "node",
     ROTA_OPTION_INTO(TEXT, struct options, node),
     .value_name = "ADDRESS",
     .help = "instead of --store: comma-separated nodes to ask for all keys " ROTA_NODE_HELP},
    {.name = "collection",
     ROTA_OPTION_INTO(TEXT, struct options, collection),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_STORE_NAME_MAX,
     .help = "with --node or --hosts: collection to get from [default: the node's first]"},
    {.name = "timeout",
     ROTA_OPTION_INTO(SPAN, struct options, timeout),
     .value_name = "DURATION",
     .default_text = "5s",
     .min = ROTA_MSEC,
     .max = ROTA_HOUR,
     .help = "how long to wait for the values"},
    {.name = "mode",
     ROTA_OPTION_INTO(CHOICE, struct options, mode),
     .value_name = "MODE",
     .default_text = "adaptive",
     .choices = MODES,
     .help = "which replicas to ask; adaptive: all when that pays off; broadcast: always all; "
             "hedge: one, and a second if the first is slow"},
    {.name = "explain",
     ROTA_OPTION_INTO(FLAG, struct options, explain),
     .help = "print which server answered each key, how fast, and which others were asked"},
    {.name = "raw",
     ROTA_OPTION_INTO(FLAG, struct options, raw),
     .help = "print only the bytes of one value"},
    {.name = "json",
     ROTA_OPTION_INTO(FLAG, struct options, json),
     .help = "print one JSON object per line"},
    {.name = "insecure",
     ROTA_OPTION_INTO(FLAG, struct options, insecure),
     .help = "allow plaintext connections to other machines"},
    ROTA_TLS_OPTIONS(struct options, tls.ca, tls.certificate, tls.key),
};

/* What this command keeps on the loop. */
struct client {
    const struct options *options;
    uv_loop_t loop;
    struct rota_tls *tls; /* NULL: plain text */
    struct rota_store *store;
    struct rota_members *members;
    struct rota_get *get;
    char *nodes; /* what addresses point into */
    ROTA_VECTOR(struct rota_get_host) hosts;
    struct rota_error error; /* of the store */
    bool has_answered;       /* the store has listed its members */
    int exit_code;
};

/* --- who serves --- */

/* Open the client for the hosts of a file, a store or --node. */
static enum rota_code open_get(struct client *client, struct rota_get_options with,
                               struct rota_error *error)
{
    with.mode = (enum rota_get_mode)client->options->mode;
    with.timeout = client->options->timeout;
    if (with.timeout > 5 * ROTA_SEC) /* a longer wait lets a server take longer, for large values */
        with.host_timeout = with.timeout / 5;
    with.message_max = MESSAGE_MAX;
    with.tls = client->tls;
    with.insecure = client->options->insecure;
    return rota_get_open(&client->loop, &with, &client->get, error);
}

/* Once the servers are known, the store may become unreachable. */
static void on_down(void *data, const struct rota_error *error)
{
    ((struct client *)data)->error = *error;
}

static void on_members(void *data, const struct rota_store_answer *answer)
{
    ((struct client *)data)->has_answered = answer->code == ROTA_OK;
}

static void on_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static bool has_nobody(const struct client *client)
{
    size_t n = 0;
    if (client->members)
        rota_members_list(client->members, &n);
    return client->members && n == 0;
}

/* Wait for servers as long as for values. */
static enum rota_code await_members(struct client *client, struct rota_error *error)
{
    static uv_timer_t timer;
    const struct rota_store_request members = {.verb = ROTA_STORE_MEMBERS};
    bool is_late = false;
    rota_store_ask(client->store, &members, on_members, client, NULL);
    uv_timer_init(&client->loop, &timer);
    timer.data = &is_late;
    uv_timer_start(&timer, on_late, (uint64_t)(client->options->timeout / ROTA_MSEC), 0);
    while (has_nobody(client) && !is_late && client->error.code == ROTA_OK)
        uv_run(&client->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    if (!has_nobody(client))
        return ROTA_OK;
    if (client->error.code) {
        *error = client->error;
        return error->code;
    }
    char timeout[ROTA_TIME_TEXT_MAX];
    if (!client->has_answered)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "the store %s did not answer within %s; --timeout waits longer",
                              rota_store_name(client->store),
                              rota_span_format(client->options->timeout, timeout));
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                          "the store %s lists no running server of the cache \"%s\"",
                          rota_store_name(client->store), client->options->space);
}

static enum rota_code open_members(struct client *client, const char *role,
                                   struct rota_error *error)
{
    struct rota_members_source *source;
    enum rota_code code = rota_store_members_new(client->store, role, 0, &source, error);
    if (!code)
        code = rota_members_open(&client->loop, source, NULL, &client->members, error);
    return code ? code : await_members(client, error);
}

static enum rota_code open_by_store(struct client *client, struct rota_error *error)
{
    const char *url = client->options->store;
    char role[ROTA_STORE_ROLES_MAX];
    enum rota_code code = rota_store_options_check_there(&url, error);
    struct rota_store_options with = {.url = url,
                                      .connect_timeout = client->options->timeout,
                                      .on_down = on_down,
                                      .data = client};
    if (!code)
        code = rota_cache_service_role(client->options->space, role, error);
    if (!code)
        code = rota_store_open(&client->loop, &with, &client->store, error);
    if (!code)
        code = open_members(client, role, error);
    if (code)
        return code;
    const struct rota_get_options servers = {.members = client->members,
                                             .collection = client->options->space};
    return open_get(client, servers, error);
}

/* Nodes relay. Their data centers are unknown, so each counts as its own, and all are asked. */
static enum rota_code open_by_nodes(struct client *client, const char *nodes,
                                    struct rota_error *error)
{
    struct rota_address parsed;
    enum rota_code code;
    client->nodes = strdup(nodes);
    if (!client->nodes)
        return rota_error_no_memory(error, "for the addresses");
    for (char *rest = client->nodes, *text; (text = strsep(&rest, ","));) {
        struct rota_get_host host = {rota_str(text), rota_str(text)};
        if ((code = rota_address_parse(text, &parsed, error)))
            return code;
        if (!rota_vector_push(&client->hosts, host))
            return rota_error_no_memory(error, "for the addresses");
    }
    struct rota_get_options with = {.service = rota_get_cache_relay(),
                                    .hosts = client->hosts.items,
                                    .n_hosts = client->hosts.size,
                                    .collection = client->options->collection};
    return open_get(client, with, error);
}

/* The client would not even connect to such a server, and its keys would just be missing. */
static enum rota_code check_hosts(const struct client *client, struct rota_error *error)
{
    struct rota_get_view view;
    for (size_t place = 0; rota_get_next_host(client->get, &place, &view);) {
        char text[ROTA_ADDRESS_TEXT_MAX];
        struct rota_address address;
        struct sockaddr_storage resolved;
        snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(view.address));
        if (client->options->insecure || rota_address_parse(text, &address, NULL) ||
            !rota_address_resolve(&address, &resolved) ||
            rota_address_is_loopback((const struct sockaddr *)&resolved))
            continue;
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s is another machine: plaintext connections need --insecure", text);
    }
    return ROTA_OK;
}

static enum rota_code open_client(struct client *client, struct rota_error *error)
{
    const struct options *options = client->options;
    const char *node = options->node, *store = getenv("ROTA_STORE");
    if (!options->store && !options->hosts && !node && (!store || !*store))
        node = rota_cli_node(NULL);
    if (!!options->store + !!options->hosts + !!options->node > 1)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "give only one of --store, --hosts and --node");
    if (options->hosts)
        return open_get(client,
                        (struct rota_get_options){.hosts_file = options->hosts,
                                                  .collection = options->collection},
                        error);
    if (node && *node)
        return open_by_nodes(client, node, error);
    if (node)
        return rota_error_set(error, ROTA_ERR_INVALID, "--node must not be empty");
    return open_by_store(client, error);
}

static void close_client(struct client *client)
{
    rota_get_close(client->get);
    rota_members_close(client->members);
    rota_store_close(client->store);
    rota_cli_end_loop(&client->loop, 200 * ROTA_MSEC);
    rota_vector_deinit(&client->hosts);
    free(client->nodes);
    rota_tls_free(client->tls);
}

/* --- asking --- */

/* One Get; false if nothing more can be printed. */
static bool get_keys(void *data, const struct rota_str *keys, size_t n)
{
    struct client *client = data;
    const struct options *options = client->options;
    struct rota_get_view_options view = {
        .is_json = options->json, .is_raw = options->raw, .explains = options->explain};
    struct rota_get_request request = {.keys = keys, .n_keys = n};
    struct rota_get_result *result = NULL;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    rota_get_wait(client->get, &request, &result, &error);
    if (!result) {
        client->exit_code = rota_cli_fail_error(&error);
        return false;
    }
    rota_get_view_append(&view, keys, result, &buffer);
    bool is_lacking = rota_get_view_problem(keys, result, &error);
    rota_get_result_free(result);
    int code = rota_cli_print(&buffer);
    if (is_lacking)
        client->exit_code = rota_cli_fail_error(&error);
    if (code)
        client->exit_code = code;
    return code == ROTA_CLI_OK && rota_cli_can_print();
}

/* Keys from standard input: empty lines are skipped, and CRLF ends a line as well. */
static bool get_lines(void *data, const struct rota_str *lines, size_t n)
{
    struct rota_str keys[ROTA_LINES_GROUP_MAX];
    size_t n_keys = 0;
    for (size_t i = 0; i < n; i++) {
        struct rota_str key = lines[i];
        if (key.size > 0 && key.data[key.size - 1] == '\r')
            key.size--;
        if (key.size > 0)
            keys[n_keys++] = key;
    }
    return n_keys == 0 || get_keys(data, keys, n_keys);
}

static int get_all(struct client *client, const struct rota_option_list *arguments)
{
    struct rota_str keys[ROTA_OPTION_LIST_MAX];
    if (arguments->size == 1 && strcmp(arguments->items[0], "-") == 0) {
        int code = rota_lines_read(get_lines, client);
        return client->exit_code ? client->exit_code : code;
    }
    for (size_t i = 0; i < arguments->size; i++)
        keys[i] = rota_str(arguments->items[i]);
    get_keys(client, keys, arguments->size);
    return client->exit_code;
}

static int run_get(int argc, char *const *argv)
{
    static struct client client; /* static: it stays if the loop can't be ended in time */
    struct options options = {0};
    struct rota_option_list arguments;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_get, argc, argv, &options, &arguments, &code))
        return code;
    bool is_input = arguments.size == 1 && strcmp(arguments.items[0], "-") == 0;
    if (options.raw && (options.json || options.explain || arguments.size != 1 || is_input))
        return rota_cli_fail(ROTA_CLI_BAD,
                             "--raw takes one key and cannot be combined with --json or --explain");
    client.options = &options;
    if (uv_loop_init(&client.loop))
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    if (rota_tls_options_open(&options.tls, &client.tls, &error) || open_client(&client, &error) ||
        check_hosts(&client, &error))
        code = rota_cli_fail_error(&error);
    else
        code = get_all(&client, &arguments);
    close_client(&client);
    return code;
}

const struct rota_cli_command rota_cmd_get = {
    .command =
        {
            .name = "get",
            .summary = "Get the values of keys from a sharded cache",
            .arguments = "KEY...",
            .for_more =
                "give more keys on standard input, one per line, with - as the only argument",
            .min_arguments = 1,
            .description =
                "Asks the servers of `rota cache serve`, or of any program that serves "
                "rota.v1.Cache, in all data centers, each for the keys of its shards; the first "
                "answer for a key is used. With --node it asks only these nodes, which ask the "
                "others (rota.v1.Cache/Relay). - reads keys from standard input, one per line, "
                "ending "
                "with LF or CRLF; empty lines are skipped.\n\nPrints each key that has a value, a "
                "tab and the value, in the order of the keys. Tabs, newlines, backslashes and "
                "invisible characters are escaped as in a file of `rota cache serve`, so you can "
                "use the output as one. With --explain each key has a line with three more "
                "columns: found, absent (the key has no value) or missing (no server answered); "
                "the server that answered, or the reason why none did; the duration. Then come an "
                "empty line and one line per server: its address, its data center, the number of "
                "keys, the start, the duration, and the outcome: won, late, cancelled (no longer "
                "needed), failed, timed out, wrong shard or stale.\n\nExits 0 if every key has a "
                "value. Exits 1 if some have none or were not answered in time; standard error "
                "names them, and the others are printed.\n\nWith --json each line is {\"key\", "
                "\"state\": \"found\", \"value\", \"host\", \"elapsed_ms\"}; an \"absent\" key has "
                "no value, a \"missing\" one has a \"reason\" instead of the last three. Bytes "
                "that are not UTF-8 are in \"key_base64\" and \"value_base64\". With --explain "
                "there is one more line, {\"elapsed_ms\", \"tries\": [{\"host\", \"dc\", \"keys\", "
                "\"started_ms\", \"elapsed_ms\", \"outcome\", \"text\"}]}.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota get --store sqlite:cache.db apple pear\n"
                        "rota get --node 127.0.0.1:7600,127.0.0.1:7601 --explain apple\n"
                        "cut -f1 pairs | rota get --store sqlite:cache.db --json -\n",
        },
    .run = run_get,
};
