#include "cli/shards_view.h"

#include <inttypes.h>

/* One line: a replica of a shard, or a shard that has none. */
struct row {
    const struct rota_shard_channel *channel;
    const struct rota_replica *replica;
    const struct rota_probe_node *node;
};

/* --- cells --- */

static void append_channel(const struct row *row, struct rota_buffer *buffer)
{
    rota_terminal_append(buffer, row->channel->name);
}

static void append_node(const struct row *row, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "%" PRId64, row->replica->node);
}

static void append_address(const struct row *row, struct rota_buffer *buffer)
{
    rota_terminal_append(buffer, row->replica->address);
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

/* Nothing when nothing is wrong. */
static void append_problem(const struct row *row, struct rota_buffer *buffer)
{
    if (row->node->problem[0])
        rota_terminal_append(buffer, rota_str(row->node->problem));
    else if (!row->replica->is_serviceable)
        rota_buffer_append_text(buffer, "not serviceable by the map");
}

static const struct column {
    const char *title, *label; /* of a table; before the value in a line */
    void (*append)(const struct row *row, struct rota_buffer *buffer);
    bool is_number;
} COLUMNS[] = {
    {"SHARD", "", append_channel, false},       {"NODE", "", append_node, true},
    {"ADDRESS", "", append_address, false},     {"EPOCH", "epoch=", append_epoch, true},
    {"HEALTH", "", append_health, false},       {"CIRCUIT", "", append_circuit, false},
    {"P50", "p50=", append_p50, true},          {"P99", "p99=", append_p99, true},
    {"ERRORS", "errors=", append_errors, true}, {"SCORE", "score=", append_score, true},
    {"PROBLEM", "", append_problem, false},
};
enum { N_COLUMNS = sizeof COLUMNS / sizeof *COLUMNS };

/* What a cell shows, into the cleared `buffer`. Only the first two of a shard that
 * nobody serves have something. */
static void fill(const struct row *row, int column, struct rota_buffer *buffer)
{
    rota_buffer_clear(buffer);
    if (row->node || column == 0)
        COLUMNS[column].append(row, buffer);
    else if (column == 1)
        rota_buffer_append_text(buffer, "nobody");
}

/* --- rows --- */

/* The next row; a zeroed one comes before the first. False at the end. */
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

void rota_shards_view_lines(const struct rota_probe *probe, struct rota_buffer *buffer)
{
    struct rota_buffer cell = {0};
    struct place place = {0};
    struct row row;
    while (next_row(probe, &place, &row)) {
        for (int i = 0; i < N_COLUMNS; i++) {
            fill(&row, i, &cell);
            if (cell.size == 0)
                continue;
            if (i > 0)
                rota_buffer_append_char(buffer, '\t');
            rota_buffer_append_text(buffer, COLUMNS[i].label);
            rota_buffer_append_str(buffer, rota_buffer_str(&cell));
        }
        rota_buffer_append_char(buffer, '\n');
    }
    rota_buffer_deinit(&cell);
}

/* --- the table --- */

struct table {
    const struct rota_terminal *terminal;
    struct rota_buffer *buffer, line, cell;
    int widths[N_COLUMNS];
    bool is_redrawn;
};

static void measure(struct table *table, const struct rota_probe *probe)
{
    struct place place = {0};
    struct row row;
    for (int i = 0; i < N_COLUMNS; i++)
        table->widths[i] = (int)strlen(COLUMNS[i].title);
    while (next_row(probe, &place, &row))
        for (int i = 0; i < N_COLUMNS; i++) {
            fill(&row, i, &table->cell);
            int columns = rota_terminal_columns(rota_buffer_str(&table->cell));
            if (columns > table->widths[i])
                table->widths[i] = columns;
        }
}

static void put_cell(struct table *table, int column)
{
    struct rota_str text = rota_buffer_str(&table->cell);
    int pad = table->widths[column] - rota_terminal_columns(text);
    if (column > 0)
        rota_buffer_append_text(&table->line, "  ");
    if (COLUMNS[column].is_number)
        rota_buffer_print(&table->line, "%*s", pad, "");
    rota_buffer_append_str(&table->line, text);
    if (!COLUMNS[column].is_number && column + 1 < N_COLUMNS)
        rota_buffer_print(&table->line, "%*s", pad, "");
}

/* The line as far as it fits, in its colour. */
static void put_line(struct table *table, enum rota_color color)
{
    struct rota_str rest = rota_buffer_str(&table->line);
    while (rest.size > 0 && rest.data[rest.size - 1] == ' ')
        rest.size--;
    rota_buffer_append_text(table->buffer, rota_terminal_color(table->terminal, color));
    for (int column = 0; rest.size > 0 && (!table->is_redrawn || column < table->terminal->width);
         column++) {
        char piece[ROTA_QUOTE_PIECE_MAX];
        size_t size = rota_terminal_next(&rest, piece);
        rota_buffer_append(table->buffer, piece, size);
    }
    rota_buffer_append_text(table->buffer, rota_terminal_color(table->terminal, ROTA_COLOR_NONE));
    rota_buffer_append_text(table->buffer, table->is_redrawn ? "\033[K\n" : "\n");
    rota_buffer_clear(&table->line);
}

static enum rota_color color_of(const struct row *row)
{
    if (row->node && rota_probe_is_well(row->node, row->replica))
        return ROTA_COLOR_NONE;
    if (row->node && (rota_probe_circuit(row->node) == ROTA_CIRCUIT_HALF_OPEN ||
                      row->node->health == ROTA_PROBE_UNKNOWN))
        return ROTA_COLOR_YELLOW;
    return ROTA_COLOR_RED;
}

void rota_shards_view_table(const struct rota_probe *probe, const struct rota_terminal *terminal,
                            int height, struct rota_buffer *buffer)
{
    struct table table = {.terminal = terminal, .buffer = buffer, .is_redrawn = height > 0};
    struct place place = {0};
    struct row row;
    size_t n = 0, n_left_out = 0;
    measure(&table, probe);
    for (int i = 0; i < N_COLUMNS; i++) {
        rota_buffer_clear(&table.cell);
        rota_buffer_append_text(&table.cell, COLUMNS[i].title);
        put_cell(&table, i);
    }
    put_line(&table, ROTA_COLOR_BOLD);
    while (next_row(probe, &place, &row)) {
        if (height > 0 && ++n > (size_t)height - 2) {
            n_left_out++;
            continue;
        }
        for (int i = 0; i < N_COLUMNS; i++) {
            fill(&row, i, &table.cell);
            put_cell(&table, i);
        }
        put_line(&table, color_of(&row));
    }
    if (n_left_out > 0) {
        rota_buffer_print(&table.line, "and %zu more", n_left_out);
        put_line(&table, ROTA_COLOR_DIM);
    }
    buffer->failed |= table.line.failed || table.cell.failed;
    rota_buffer_deinit(&table.line);
    rota_buffer_deinit(&table.cell);
}

/* --- JSON --- */

static void add_uint(struct rota_json *json, const char *key, uint64_t value)
{
    rota_json_key(json, key);
    rota_json_uint(json, value);
}

static void add_quantile(struct rota_json *json, const char *key,
                         const struct rota_probe_node *node, double p)
{
    rota_json_key(json, key);
    if (node->latency.count == 0)
        rota_json_null(json);
    else
        rota_json_uint(json, rota_histogram_quantile(&node->latency, p) / ROTA_USEC);
}

/* What is found out by asking. */
static void add_findings(const struct rota_probe_node *node, struct rota_json *json)
{
    const struct rota_shards_view *view = &node->view;
    rota_json_key(json, "available");
    rota_json_bool(json, view->health == ROTA_HEALTH_WELL);
    add_uint(json, "in_flight", view->balance.n_tries);
    rota_json_key(json, "score");
    rota_json_int(json, view->balance.score);
    add_uint(json, "probes", node->n_probes);
    add_uint(json, "errors", node->n_errors);
    add_quantile(json, "p50_us", node, 0.5);
    add_quantile(json, "p99_us", node, 0.99);
    rota_json_key(json, "problem");
    rota_json_text(json, node->problem[0] ? node->problem : NULL);
}

static void add_replica(const struct row *row, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "node");
    rota_json_int(json, row->replica->node);
    rota_json_key(json, "address");
    rota_json_string(json, row->replica->address);
    add_uint(json, "epoch", row->replica->epoch);
    rota_json_key(json, "serviceable");
    rota_json_bool(json, row->replica->is_serviceable);
    rota_json_key(json, "well");
    rota_json_bool(json, rota_probe_is_well(row->node, row->replica));
    rota_json_key(json, "health");
    rota_json_text(json, rota_probe_health_name(row->node->health));
    rota_json_key(json, "circuit");
    rota_json_text(json, rota_circuit_name(rota_probe_circuit(row->node)));
    add_findings(row->node, json);
    rota_json_end_object(json);
}

static void add_shard(const struct rota_probe *probe, const struct rota_shard_channel *channel,
                      struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "channel");
    rota_json_string(json, channel->name);
    rota_json_key(json, "replicas");
    rota_json_begin_array(json);
    for (size_t i = 0; i < channel->n_replicas; i++) {
        struct row row = {channel, &channel->replicas[i],
                          rota_probe_find(probe, channel->replicas[i].node)};
        if (row.node)
            add_replica(&row, json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}

void rota_shards_view_json(const struct rota_probe *probe, struct rota_buffer *buffer)
{
    struct rota_json json = {.buffer = buffer};
    const struct rota_collection_options *of = probe->options;
    rota_json_begin_object(&json);
    rota_json_key(&json, "database");
    rota_json_text(&json, of->id ? NULL : of->database);
    rota_json_key(&json, "collection");
    rota_json_text(&json, of->id ? NULL : of->collection);
    rota_json_key(&json, "id");
    rota_json_int(&json, probe->map->collection);
    rota_json_key(&json, "well");
    rota_json_bool(&json, rota_probe_is_all_well(probe));
    rota_json_key(&json, "shards");
    rota_json_begin_array(&json);
    for (size_t i = 0; i < probe->map->n_channels; i++)
        add_shard(probe, &probe->map->channels[i], &json);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* --- one node --- */

void rota_shards_view_append_node(const struct rota_probe_node *node, struct rota_buffer *buffer)
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

void rota_shards_view_add_node(const struct rota_probe_node *node, struct rota_json *json)
{
    rota_json_key(json, "node");
    rota_json_int(json, node->node);
    rota_json_key(json, "address");
    rota_json_string(json, node->address);
    rota_json_key(json, "health");
    rota_json_text(json, rota_probe_health_name(node->health));
    add_uint(json, "shards", node->n_shards);
    add_findings(node, json);
}
