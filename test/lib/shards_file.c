#include "shards_file.h"

#include "base/quote.h"
#include "base/text.h"
#include "base/vector.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Where the reader is, for its messages. */
struct reader {
    const char *file;
    size_t line; /* from 1 */
    struct rota_error *error;
};

/* One line. */
struct row {
    struct rota_str database, name, channel;
    int64_t id;
    struct rota_replica replica;
    size_t line;
};

__attribute__((format(printf, 3, 4))) static enum rota_code reject_line(const struct reader *reader,
                                                                        enum rota_code code,
                                                                        const char *format, ...)
{
    char text[ROTA_ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rota_error_set(reader->error, code, "%s:%zu: %s", reader->file, reader->line, text);
}

/* --- words --- */

static enum rota_code check_line(const struct reader *reader, struct rota_str line)
{
    if (line.size > ROTA_SHARDS_LINE_MAX)
        return reject_line(reader, ROTA_ERR_LIMIT, "a line of %zu bytes, at most %d are allowed",
                           line.size, ROTA_SHARDS_LINE_MAX);
    for (size_t i = 0; i < line.size; i++) {
        unsigned char c = (unsigned char)line.data[i];
        if ((c < ' ' && c != '\t') || c > '~')
            return reject_line(reader, ROTA_ERR_INVALID, "byte %zu (0x%02x) is not printable ASCII",
                               i + 1, c);
    }
    return ROTA_OK;
}

/* Take the next word off `line`; empty at its end or where a comment starts. */
static struct rota_str take_word(struct rota_str *line)
{
    size_t from = 0, to;
    while (from < line->size && (line->data[from] == ' ' || line->data[from] == '\t'))
        from++;
    to = from;
    if (from < line->size && line->data[from] != '#')
        while (to < line->size && line->data[to] != ' ' && line->data[to] != '\t')
            to++;
    struct rota_str word = rota_str_of(line->data + from, to - from);
    *line = rota_str_of(line->data + to, line->size - to);
    return word;
}

static bool parse_number(struct rota_str word, uint64_t min, uint64_t max, uint64_t *number)
{
    uint64_t value = 0;
    if (word.size == 0)
        return false;
    for (size_t i = 0; i < word.size; i++) {
        char c = word.data[i];
        if (c < '0' || c > '9' || value > (max - (uint64_t)(c - '0')) / 10)
            return false;
        value = value * 10 + (uint64_t)(c - '0');
    }
    if (value < min)
        return false;
    *number = value;
    return true;
}

static enum rota_code read_number(const struct reader *reader, const char *what,
                                  struct rota_str word, uint64_t min, uint64_t max,
                                  uint64_t *number)
{
    char quoted[ROTA_QUOTE_MAX];
    if (parse_number(word, min, max, number))
        return ROTA_OK;
    return reject_line(reader, ROTA_ERR_INVALID, "%s %s is not a whole number from %llu to %llu",
                       what, rota_quote(word, quoted), (unsigned long long)min,
                       (unsigned long long)max);
}

/* --- lines --- */

static enum rota_code read_attribute(const struct reader *reader, struct rota_str word,
                                     struct row *row)
{
    static const char epoch[] = "epoch=", serviceable[] = "serviceable=";
    char quoted[ROTA_QUOTE_MAX];
    if (rota_str_has_prefix(word, rota_str(epoch)))
        return read_number(reader, "epoch",
                           rota_str_of(word.data + sizeof epoch - 1, word.size - sizeof epoch + 1),
                           0, UINT64_MAX, &row->replica.epoch);
    if (!rota_str_has_prefix(word, rota_str(serviceable)))
        return reject_line(reader, ROTA_ERR_INVALID, "unknown attribute %s",
                           rota_quote(word, quoted));
    struct rota_str value =
        rota_str_of(word.data + sizeof serviceable - 1, word.size - sizeof serviceable + 1);
    row->replica.is_serviceable = rota_str_is_equal(value, rota_str("true"));
    if (row->replica.is_serviceable || rota_str_is_equal(value, rota_str("false")))
        return ROTA_OK;
    return reject_line(reader, ROTA_ERR_INVALID, "serviceable %s is neither true nor false",
                       rota_quote(value, quoted));
}

/* Read one line; `row->database` stays empty when there is nothing on it. */
static enum rota_code read_line(const struct reader *reader, struct rota_str line, struct row *row)
{
    static const char *const names[] = {"database", "collection", "id",
                                        "channel",  "node",       "address"};
    struct rota_str words[6];
    uint64_t id = 0, node = 0;
    enum rota_code code = check_line(reader, line);
    if (code)
        return code;
    *row = (struct row){.line = reader->line, .replica = {.epoch = 1, .is_serviceable = true}};
    for (size_t i = 0; i < 6; i++) {
        words[i] = take_word(&line);
        if (words[i].size == 0 && i == 0)
            return ROTA_OK;
        if (words[i].size == 0)
            return reject_line(reader, ROTA_ERR_INVALID, "the line ends before its %s", names[i]);
        if (words[i].size > ROTA_SHARD_NAME_MAX)
            return reject_line(reader, ROTA_ERR_INVALID,
                               "a %s of %zu bytes, at most %d are allowed", names[i], words[i].size,
                               ROTA_SHARD_NAME_MAX);
    }
    if ((code = read_number(reader, "id", words[2], 1, INT64_MAX, &id)) ||
        (code = read_number(reader, "node", words[4], 0, INT64_MAX, &node)))
        return code;
    row->database = words[0];
    row->name = words[1];
    row->id = (int64_t)id;
    row->channel = words[3];
    row->replica.node = (int64_t)node;
    row->replica.address = words[5];
    for (struct rota_str word; (word = take_word(&line)).size > 0;)
        if ((code = read_attribute(reader, word, row)))
            return code;
    return ROTA_OK;
}

/* --- the whole --- */

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    int order = rota_str_compare(x->channel, y->channel);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* By name: what the ids must agree on. */
static int compare_names(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
    int order = rota_str_compare(x->database, y->database);
    if (!order)
        order = rota_str_compare(x->name, y->name);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* One name has one id. */
static enum rota_code check_names(struct reader *reader, const struct row *rows, size_t n)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct row **by_name = malloc((n + 1) * sizeof *by_name);
    if (!by_name)
        return reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for %zu lines", n);
    for (size_t i = 0; i < n; i++)
        by_name[i] = &rows[i];
    qsort(by_name, n, sizeof *by_name, compare_names);
    enum rota_code code = ROTA_OK;
    for (size_t i = 1; i < n && !code; i++) {
        const struct row *a = by_name[i - 1], *b = by_name[i];
        if (rota_str_is_equal(a->database, b->database) && rota_str_is_equal(a->name, b->name) &&
            a->id != b->id) {
            reader->line = b->line;
            code = reject_line(reader, ROTA_ERR_INVALID,
                               "collection %s has id %lld, but on line %zu it has id %lld",
                               rota_quote(b->name, quoted), (long long)b->id, a->line,
                               (long long)a->id);
        }
    }
    free(by_name);
    return code;
}

/* Rows are sorted: a neighbour of the same collection or shard must fit. */
static enum rota_code check_row(struct reader *reader, const struct row *rows, size_t i,
                                size_t first_of_shard)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct row *row = &rows[i];
    reader->line = row->line;
    if (i > 0 && rows[i - 1].id == row->id &&
        (!rota_str_is_equal(rows[i - 1].database, row->database) ||
         !rota_str_is_equal(rows[i - 1].name, row->name)))
        return reject_line(reader, ROTA_ERR_INVALID,
                           "the id %lld of %s belongs to another collection", (long long)row->id,
                           rota_quote(row->name, quoted));
    for (size_t j = first_of_shard; j < i; j++)
        if (rows[j].replica.node == row->replica.node)
            return reject_line(reader, ROTA_ERR_INVALID,
                               "duplicate: node %lld already serves shard %s on line %zu",
                               (long long)row->replica.node, rota_quote(row->channel, quoted),
                               rows[j].line);
    if (i - first_of_shard >= ROTA_SHARD_REPLICAS_MAX)
        return reject_line(reader, ROTA_ERR_LIMIT, "more than %d replicas of shard %s",
                           ROTA_SHARD_REPLICAS_MAX, rota_quote(row->channel, quoted));
    return ROTA_OK;
}

/* Put the rows together; the arrays have room for the most that can be. */
static enum rota_code group_rows(struct reader *reader, const struct row *rows, size_t n,
                                 struct rota_shards_file *file)
{
    struct rota_shards_collection *collection = NULL;
    struct rota_shard_channel *channel = NULL;
    size_t first = 0;
    for (size_t i = 0; i < n; i++) {
        const struct row *row = &rows[i];
        bool is_new = !collection || collection->id != row->id;
        bool is_new_shard = is_new || !rota_str_is_equal(channel->name, row->channel);
        if (is_new_shard)
            first = i;
        enum rota_code code = check_row(reader, rows, i, first);
        if (code)
            return code;
        if (is_new_shard)
            channel = channel ? channel + 1 : file->channels;
        if (is_new) {
            collection = &file->collections[file->n_collections++];
            *collection =
                (struct rota_shards_collection){row->database, row->name, row->id, channel, 0};
        }
        if (is_new_shard) {
            *channel = (struct rota_shard_channel){row->channel, &file->replicas[i], 0};
            if (++collection->n_channels > ROTA_SHARD_CHANNELS_MAX)
                return reject_line(reader, ROTA_ERR_LIMIT, "more than %d shards of one collection",
                                   ROTA_SHARD_CHANNELS_MAX);
        }
        file->replicas[i] = row->replica;
        channel->n_replicas++;
    }
    return ROTA_OK;
}

static enum rota_code read_shards(struct reader *reader, struct rota_shards_file *file, size_t size)
{
    ROTA_VECTOR(struct row) rows = {0};
    struct rota_str text = rota_str_of(file->text, size);
    enum rota_code code = ROTA_OK;
    for (reader->line = 1; text.size > 0 && !code; reader->line++) {
        struct row row;
        code = read_line(reader, rota_text_cut_line(&text), &row);
        if (!code && row.database.size > 0 && !rota_vector_push(&rows, row))
            code = reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for another line");
    }
    if (!code)
        code = check_names(reader, rows.items, rows.size);
    if (!code) {
        file->collections = calloc(rows.size + 1, sizeof *file->collections);
        file->channels = calloc(rows.size + 1, sizeof *file->channels);
        file->replicas = calloc(rows.size + 1, sizeof *file->replicas);
        if (!file->collections || !file->channels || !file->replicas)
            code = reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for %zu lines",
                               rows.size);
    }
    if (!code && rows.size > 0) {
        qsort(rows.items, rows.size, sizeof *rows.items, compare_rows);
        code = group_rows(reader, rows.items, rows.size, file);
    }
    rota_vector_deinit(&rows);
    return code;
}

enum rota_code rota_shards_file_parse(struct rota_str text, const char *name,
                                      struct rota_shards_file *shards, struct rota_error *error)
{
    struct reader reader = {.file = name, .error = error};
    struct rota_shards_file file = {0};
    if (text.size > ROTA_SHARDS_TEXT_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%s: %zu bytes, at most %d are allowed", name,
                              text.size, ROTA_SHARDS_TEXT_MAX);
    file.text = malloc(text.size + 1);
    if (!file.text)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "%s: %zu bytes", name, text.size);
    if (text.size > 0)
        memcpy(file.text, text.data, text.size);
    enum rota_code code = read_shards(&reader, &file, text.size);
    if (code) {
        rota_shards_file_deinit(&file);
        return code;
    }
    *shards = file;
    return ROTA_OK;
}

void rota_shards_file_deinit(struct rota_shards_file *shards)
{
    free(shards->collections);
    free(shards->channels);
    free(shards->replicas);
    free(shards->text);
    *shards = (struct rota_shards_file){0};
}
