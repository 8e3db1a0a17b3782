/* rota route: find the node of each partition of a queue. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/work/queue_options.h"

#include <stdio.h>

enum { CHUNK = 4096, TABLE_MAX = 100000 /* of the table on a terminal */ };

struct route {
    struct rota_queue_options queue;
    int64_t partition; /* -1: all of them */
    bool json;
    int output;
};

static const struct rota_option OPTIONS[] = {
    {.name = "queue",
     ROTA_OPTION_INTO(TEXT, struct route, queue.queue),
     .value_name = "NAME",
     .is_required = true,
     .help = "name of the queue"},
    ROTA_QUEUE_OPTIONS(struct route),
    {.name = "partition",
     ROTA_OPTION_INTO(INT, struct route, partition),
     .value_name = "P",
     .max = ROTA_PARTITIONS_MAX - 1,
     .help = "only this partition"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct route, json), .help = "print JSON"},
    ROTA_TABLE_OPTION(struct route, output),
};

static const struct rota_table_column COLUMNS[] = {
    {"PARTITION", "partition", ROTA_TABLE_NUMBER, false},
    {"KEY", "key", ROTA_TABLE_NAME, false},
    {"INDEX", "index", ROTA_TABLE_NUMBER, false},
    {"HOST", "host", ROTA_TABLE_NAME, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF("partitions", COLUMNS);

static void begin_json(struct rota_json *json, const struct rota_queue_options *queue)
{
    rota_json_begin_object(json);
    rota_json_add_text(json, "namespace", queue->namespace_id);
    rota_json_add_text(json, "queue", queue->queue);
    rota_json_add_text(json, "type", rota_task_type_name(rota_queue_options_type(queue)));
    rota_json_add_int(json, "batch", queue->batch);
    rota_json_add_text(json, "mode", rota_spread_mode_name((enum rota_spread_mode)queue->mode));
    rota_json_add_array(json, "partitions");
}

static void append_route(struct rota_json *json, const struct rota_partition *partition,
                         const struct rota_route_key *key, struct rota_str host, bool is_json)
{
    struct rota_str text = rota_str_of(key->text, key->size);
    if (!is_json) {
        rota_buffer_print(json->buffer, "%lld\t", (long long)partition->id);
        rota_buffer_append_str(json->buffer, text);
        rota_buffer_print(json->buffer, "\t%u\t", key->index);
        rota_buffer_append_str(json->buffer, host);
        rota_buffer_append_char(json->buffer, '\n');
        return;
    }
    rota_json_begin_object(json);
    rota_json_add_int(json, "partition", partition->id);
    rota_json_add_string(json, "key", text);
    rota_json_add_uint(json, "index", key->index);
    rota_json_add_string(json, "host", host);
    rota_json_end_object(json);
}

static int print_routes(const struct rota_ring *ring, struct rota_partition partition,
                        const struct route *options)
{
    struct rota_spread spread = rota_queue_options_spread(&options->queue);
    int64_t from = options->partition < 0 ? 0 : options->partition;
    int64_t to = options->partition < 0 ? options->queue.partitions : from + 1;
    uint32_t hosts[CHUNK];
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    const struct rota_terminal terminal = rota_terminal_look();
    enum rota_table_form form =
        options->json ? ROTA_TABLE_JSON
        : options->output == ROTA_TABLE_AUTO && to - from > TABLE_MAX
            ? ROTA_TABLE_TSV
            : rota_table_choose((enum rota_table_form)options->output, &terminal);
    bool is_json = form != ROTA_TABLE_TSV; /* the table is made from this document */
    bool is_table = is_json && form != ROTA_TABLE_JSON;

    if (is_json)
        begin_json(&json, &options->queue);
    for (int64_t first = from; first < to && rota_cli_can_print(); first += CHUNK) {
        int64_t n = to - first < CHUNK ? to - first : CHUNK;
        rota_route_range(ring, &partition, spread, (size_t)first, (size_t)n, hosts);
        for (int64_t i = 0; i < n; i++) {
            struct rota_route_key key;
            partition.id = first + i;
            rota_partition_route_key(&partition, spread.batch, &key);
            append_route(&json, &partition, &key, rota_ring_host(ring, hosts[i]).address, is_json);
        }
        if (buffer.failed)
            break;
        if (is_table)
            continue;
        fwrite(buffer.data, 1, buffer.size, stdout);
        rota_buffer_clear(&buffer);
    }
    if (is_json) {
        rota_json_end_array(&json);
        rota_json_end_object(&json);
        rota_buffer_append_char(&buffer, '\n');
    }
    return is_table ? rota_cli_answer(&rota_cmd_route, (int)form, &buffer)
                    : rota_cli_print(&buffer);
}

static int run_route(int argc, char *const *argv)
{
    struct route options = {.queue.at = ROTA_TIME_MIN, .partition = -1};
    struct rota_error error;
    struct rota_ring *ring = NULL;
    int code;
    if (!rota_cli_parse(&rota_cmd_route, argc, argv, &options, NULL, &code))
        return code;
    if (options.partition >= options.queue.partitions)
        return rota_cli_fail(ROTA_CLI_BAD, "route: --partition %lld: there are %lld partitions",
                             (long long)options.partition, (long long)options.queue.partitions);

    struct rota_partition partition = {
        .namespace_id = rota_str(options.queue.namespace_id),
        .queue = rota_str(options.queue.queue),
        .type = rota_queue_options_type(&options.queue),
        .kind = ROTA_PARTITION_NORMAL,
    };
    if (rota_queue_options_check("route", options.queue.namespace_id, options.queue.queue,
                                 &error) ||
        rota_cli_load_ring(&options.queue.hosts, rota_cli_now(options.queue.at),
                           options.queue.points, &ring, &error))
        return rota_cli_fail_error(&error);
    code = print_routes(ring, partition, &options);
    rota_ring_unref(ring);
    return code;
}

const struct rota_cli_command rota_cmd_route = {
    .command =
        {
            .name = "route",
            .summary = "Find the node of each partition of a queue",
            .description =
                "Columns: PARTITION; its routing KEY; its INDEX among the hosts of that key; its "
                "HOST. Keys and hosts are "
                "the ones Temporal's matching service computes from the same hosts.\n\nWith "
                "--json: {\"namespace\", \"queue\", \"type\", \"batch\", \"mode\", \"partitions\": "
                "[{\"partition\", \"key\", \"index\", \"host\"}]}.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples =
                "rota route --hosts hosts --queue orders --partitions 8\n"
                "rota route --hosts hosts --queue orders --partitions 8 --batch 4 --mode slots\n",
        },
    .run = run_route,
    .table = &TABLE,
};
