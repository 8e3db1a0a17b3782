#include "cli/call/shards_show.h"

#include <inttypes.h>
#include <string.h>

/* One line: a replica of a shard, or a shard without replicas. */
struct row {
    const struct rota_shard_channel *channel;
    const struct rota_replica *replica;
    const struct rota_probe_node *node;
};

/* --- cells --- */

static void append_channel(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_append_str(buffer, row->channel->name);
}

static void append_node(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "%" PRId64, row->replica->node);
}

static void append_address(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_append_str(buffer, row->replica->address);
}

static void append_epoch(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "%" PRIu64, row->replica->epoch);
}

static void append_health(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_append_text(buffer, rota_probe_health_name(row->node->health));
}

static void append_circuit(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_append_text(buffer, rota_circuit_name(rota_probe_circuit(row->node)));
}

static void append_quantile(const struct row *row, double p, struct rota_buffer *buffer)
{
    char text[ROTA_TIME_TEXT_MAX];
    rota_time span = (rota_time)rota_histogram_quantile(&row->node->latency, p);
    if (row->node->latency.count == 0)
        rota_buffer_append_char(buffer, '-');
    else
        rota_buffer_append_text(buffer, rota_span_format(span - span % ROTA_USEC, text));
}

static void append_p50(const struct row *row, struct rota_buffer *buffer)
{
    append_quantile(row, 0.5, buffer);
}

static void append_p99(const struct row *row, struct rota_buffer *buffer)
{
    append_quantile(row, 0.99, buffer);
}

static void append_errors(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "%" PRIu64 "/%" PRIu64, row->node->n_errors, row->node->n_probes);
}

static void append_score(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "%" PRId64, row->node->view.balance.score);
}

/* Nothing if all is well. */
static void append_problem(const struct row *row, struct rota_buffer *buffer)
{
    if (row->node->problem[0])
        rota_buffer_append_text(buffer, row->node->problem);
    else if (!row->replica->is_serviceable)
        rota_buffer_append_text(buffer, "not serviceable according to the map");
}

static const struct rota_table_column COLUMNS[] = {
    {"SHARD", "shard", ROTA_TABLE_NAME, false},     {"NODE", "node", ROTA_TABLE_NUMBER, true},
    {"ADDRESS", "address", ROTA_TABLE_NAME, false}, {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"HEALTH", "health", ROTA_TABLE_STATE, false},  {"CIRCUIT", "circuit", ROTA_TABLE_NAME, false},
    {"P50", "p50", ROTA_TABLE_NUMBER, false},       {"P99", "p99", ROTA_TABLE_NUMBER, false},
    {"ERRORS", "errors", ROTA_TABLE_NUMBER, false}, {"SCORE", "score", ROTA_TABLE_NUMBER, true},
    {"PROBLEM", "problem", ROTA_TABLE_TEXT, false},
};
enum { N_COLUMNS = sizeof COLUMNS / sizeof *COLUMNS };
static const struct rota_table TABLE = ROTA_TABLE_OF(NULL, COLUMNS);

static void (*const CELLS[N_COLUMNS])(const struct row *row, struct rota_buffer *buffer) = {
    append_channel, append_node, append_address, append_epoch, append_health,  append_circuit,
    append_p50,     append_p99,  append_errors,  append_score, append_problem,
};

/* --- rows --- */

/* The next row; start with a zeroed one. Returns false at the end. */
struct place {
    size_t channel, replica;
};

static bool next_row(const struct rota_probe *probe, struct place *place, struct row *row)
{
    const struct rota_shard_map *map = probe->map;
    if (place->channel == map->n_channels)
        return false;
    const struct rota_shard_channel *channel = &map->channels[place->channel];
    *row = (struct row){.channel = channel};
    if (channel->n_replicas > 0) {
        row->replica = &channel->replicas[place->replica++];
        row->node = rota_probe_find(probe, row->replica->node);
    }
    if (place->replica == channel->n_replicas) {
        place->channel++;
        place->replica = 0;
    }
    return true;
}

/* --- JSON --- */

static void add_quantile(struct rota_json *json, const char *key,
                         const struct rota_probe_node *node, double p)
{
    rota_json_key(json, key);
    if (node->latency.count == 0)
        rota_json_null(json);
    else
        rota_json_uint(json, rota_histogram_quantile(&node->latency, p) / ROTA_USEC);
}

/* What only probing can show. */
static void add_findings(const struct rota_probe_node *node, struct rota_json *json)
{
    const struct rota_shards_view *view = &node->view;
    rota_json_add_bool(json, "available", view->health == ROTA_HEALTH_WELL);
    rota_json_add_uint(json, "in_flight", view->balance.n_tries);
    rota_json_add_int(json, "score", view->balance.score);
    rota_json_add_uint(json, "probes", node->n_probes);
    rota_json_add_uint(json, "errors", node->n_errors);
    add_quantile(json, "p50_us", node, 0.5);
    add_quantile(json, "p99_us", node, 0.99);
    rota_json_add_text(json, "problem", node->problem[0] ? node->problem : NULL);
}

static void add_replica(const struct row *row, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_add_int(json, "node", row->replica->node);
    rota_json_add_string(json, "address", row->replica->address);
    rota_json_add_uint(json, "epoch", row->replica->epoch);
    rota_json_add_bool(json, "serviceable", row->replica->is_serviceable);
    rota_json_add_bool(json, "well", rota_probe_is_well(row->node, row->replica));
    rota_json_add_text(json, "health", rota_probe_health_name(row->node->health));
    rota_json_add_text(json, "circuit", rota_circuit_name(rota_probe_circuit(row->node)));
    add_findings(row->node, json);
    rota_json_end_object(json);
}

static void add_shard(const struct rota_probe *probe, const struct rota_shard_channel *channel,
                      struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_add_string(json, "channel", channel->name);
    rota_json_add_array(json, "replicas");
    for (size_t i = 0; i < channel->n_replicas; i++) {
        struct row row = {channel, &channel->replicas[i],
                          rota_probe_find(probe, channel->replicas[i].node)};
        if (row.node)
            add_replica(&row, json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}

static void append_json(const struct rota_probe *probe, struct rota_buffer *buffer)
{
    struct rota_json json = {.buffer = buffer};
    const struct rota_collection_options *of = probe->options;
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "collection", of->collection);
    rota_json_add_bool(&json, "well", rota_probe_is_all_well(probe));
    rota_json_add_array(&json, "shards");
    for (size_t i = 0; i < probe->map->n_channels; i++)
        add_shard(probe, &probe->map->channels[i], &json);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* --- the forms --- */

/* The rows of a table, one object per line. Of a shard that no node serves, only the name is
 * known. */
static void append_rows(const struct rota_probe *probe, struct rota_buffer *buffer)
{
    struct rota_buffer cell = {0};
    struct place place = {0};
    struct row row;
    while (next_row(probe, &place, &row)) {
        struct rota_json json = {.buffer = buffer};
        rota_json_begin_object(&json);
        for (int i = 0; i < (row.node ? N_COLUMNS : 1); i++) {
            rota_buffer_clear(&cell);
            CELLS[i](&row, &cell);
            rota_json_key(&json, COLUMNS[i].field);
            rota_json_string(&json, rota_buffer_str(&cell));
        }
        rota_json_end_object(&json);
        rota_buffer_append_char(buffer, '\n');
    }
    buffer->failed |= cell.failed;
    rota_buffer_deinit(&cell);
}

enum rota_code rota_shards_show_append(const struct rota_probe *probe, enum rota_table_form form,
                                       const struct rota_terminal *terminal,
                                       struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_buffer rows = {0};
    form = rota_table_choose(form, terminal);
    if (form == ROTA_TABLE_JSON) {
        append_json(probe, buffer);
        return ROTA_OK;
    }
    append_rows(probe, &rows);
    enum rota_code code = rows.failed ? rota_error_no_memory(error, "for a table")
                                      : rota_table_append(buffer, &TABLE, form, terminal,
                                                          rota_buffer_str(&rows), 0, error);
    rota_buffer_deinit(&rows);
    return code;
}

void rota_shards_show_redraw(const struct rota_probe *probe, const struct rota_terminal *terminal,
                             size_t height, struct rota_buffer *buffer)
{
    struct rota_buffer table = {0};
    struct rota_error error;
    if (rota_shards_show_append(probe, ROTA_TABLE_PLAIN, terminal, &table, &error)) {
        rota_buffer_append_text(&table, error.text);
        rota_buffer_append_char(&table, '\n');
    }
    struct rota_str rest = rota_buffer_str(&table);
    size_t n = 0, n_left_out = 0;
    for (const char *end; (end = memchr(rest.data, '\n', rest.size));) {
        size_t size = (size_t)(end - rest.data);
        if (++n < height)
            rota_buffer_print(buffer, "%.*s\033[K\n", (int)size, rest.data);
        else
            n_left_out++;
        rest = rota_str_of(end + 1, rest.size - size - 1);
    }
    if (n_left_out > 0)
        rota_buffer_print(buffer, "and %zu more\033[K\n", n_left_out);
    buffer->failed |= table.failed;
    rota_buffer_deinit(&table);
}

/* --- one node --- */

void rota_shards_show_append_node(const struct rota_probe_node *node, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "\t%" PRId64 "\t", node->node);
    rota_terminal_append(buffer, node->address);
    rota_buffer_print(buffer, "\t%s\tshards=%zu", rota_probe_health_name(node->health),
                      node->n_shards);
    if (node->problem[0]) {
        rota_buffer_append_char(buffer, '\t');
        rota_terminal_append(buffer, rota_str(node->problem));
    }
}

void rota_shards_show_add_node(const struct rota_probe_node *node, struct rota_json *json)
{
    rota_json_add_int(json, "node", node->node);
    rota_json_add_string(json, "address", node->address);
    rota_json_add_text(json, "health", rota_probe_health_name(node->health));
    rota_json_add_uint(json, "shards", node->n_shards);
    add_findings(node, json);
}
