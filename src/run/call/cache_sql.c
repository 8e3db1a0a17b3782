/* A table of a SQL database as a source. It uses a separate connection, so that a slow answer does
 * not delay heartbeats. */
#include "base/quote.h"
#include "base/vector.h"
#include "io/clock.h"
#include "run/call/cache.h"

#include <rota/experimental/store_ask.h>
#include <stdio.h>
#include <stdlib.h>

struct source {
    struct rota_cache_source base; /* first */
    struct rota_cache_source_options options;
    struct rota_store *store;
    char *text; /* what the names point into */
    struct rota_str table, key, value;
    struct rota_error standing; /* reported, and still the case */
    size_t n_refused;           /* of the keys that the table was tried with */
    bool is_refused;
};

/* Log each reason once: the log of a cache that can't read must not grow with its load. */
static void report_failure(struct source *source, const struct rota_error *error)
{
    bool is_known =
        source->standing.code == error->code && strcmp(source->standing.text, error->text) == 0;
    source->standing = *error;
    if (!is_known)
        rota_log(source->options.log, rota_clock_wall(), ROTA_LOG_WARN, "source not read",
                 ROTA_LOG_FACT("error", error->text));
}

static struct rota_store_request select_of(const struct source *source, const struct rota_str *keys,
                                           size_t n)
{
    return (struct rota_store_request){.verb = ROTA_STORE_SELECT,
                                       .table = source->table,
                                       .key_column = source->key,
                                       .value_column = source->value,
                                       .keys = keys,
                                       .n_keys = n};
}

/* --- trial reads --- */

/* Keys for a trial read: a column of numbers rejects what is not a number, a column of UUIDs
 * likewise. One that is accepted shows that the table can be read. */
static const char *const TRIALS[] = {"0", "00000000-0000-0000-0000-000000000000"};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

static void on_up(void *data);

static void on_checked(void *data, const struct rota_store_answer *answer)
{
    struct source *source = data;
    if (source->base.is_ready || source->is_refused)
        return;
    if (answer->code == ROTA_OK) {
        source->base.is_ready = true;
        source->options.events.on_ready(source->options.events.data);
        return;
    }
    if (answer->code == ROTA_ERR_NOT_FOUND ||
        (answer->code == ROTA_ERR_INVALID && ++source->n_refused == N_TRIALS)) {
        source->is_refused = true;
        source->options.events.on_refused(source->options.events.data, &answer->error);
        return;
    }
    if (answer->code != ROTA_ERR_INVALID)
        report_failure(source, &answer->error);
    if (rota_store_is_up(source->store))
        on_up(source);
}

static void on_up(void *data)
{
    struct source *source = data;
    struct rota_str key = rota_str(TRIALS[source->n_refused % N_TRIALS]);
    struct rota_store_request request = select_of(source, &key, 1);
    struct rota_error error;
    if (source->base.is_ready || source->is_refused)
        return;
    if (rota_store_ask(source->store, &request, on_checked, source, &error)) {
        source->is_refused = true;
        source->options.events.on_refused(source->options.events.data, &error);
    }
}

static void on_down(void *data, const struct rota_error *error)
{
    struct source *source = data;
    report_failure(source, error);
    bool is_lasting = error->code == ROTA_ERR_INVALID || error->code == ROTA_ERR_NOT_FOUND;
    if (source->base.is_ready || source->is_refused || !is_lasting)
        return;
    source->is_refused = true;
    source->options.events.on_refused(source->options.events.data, error);
}

/* --- reading --- */

static int compare_keys(const void *a, const void *b)
{
    const struct rota_store_value *x = *(const struct rota_store_value *const *)a;
    const struct rota_store_value *y = *(const struct rota_store_value *const *)b;
    return rota_str_compare(x->key, y->key);
}

/* All rows of one key. It is unknown which of several rows is the right one. */
static void tell_rows(struct rota_cache_read *read, const struct rota_store_value *row, size_t n)
{
    char quoted[ROTA_QUOTE_MAX], text[ROTA_ERROR_TEXT_MAX];
    const char *key = rota_quote(row->key, quoted);
    if (n > 1)
        snprintf(text, sizeof text, "the table has %zu rows with the key %s", n, key);
    else
        snprintf(text, sizeof text, "the value of %s is too large: it has more than %d bytes", key,
                 ROTA_STORE_VALUE_MAX);
    if (n > 1 || row->is_too_large)
        rota_cache_read_refuse(read, row->key, text);
    else
        rota_cache_read_value(read, row->key, row->value);
}

static bool tell_values(struct rota_cache_read *read, const struct rota_store_answer *answer)
{
    ROTA_VECTOR(const struct rota_store_value *) rows = {0};
    if (!rota_vector_reserve(&rows, answer->n_values))
        return false;
    for (size_t i = 0; i < answer->n_values; i++)
        rows.items[rows.size++] = &answer->values[i];
    if (rows.size > 1)
        qsort(rows.items, rows.size, sizeof *rows.items, compare_keys);
    for (size_t i = 0, end; i < rows.size; i = end) {
        for (end = i + 1; end < rows.size && !compare_keys(&rows.items[i], &rows.items[end]); end++)
            ;
        tell_rows(read, rows.items[i], end - i);
    }
    rota_vector_deinit(&rows);
    return true;
}

static void on_read(void *data, const struct rota_store_answer *answer)
{
    struct rota_cache_read *read = data;
    struct source *source = read->data;
    struct rota_error error = answer->error;
    error.code = answer->code;
    if (answer->code == ROTA_OK) {
        source->standing.code = ROTA_OK;
        if (!tell_values(read, answer))
            rota_error_no_memory(&error, "for the data read");
    } else if (answer->code != ROTA_ERR_LIMIT && answer->code != ROTA_ERR_INVALID) {
        report_failure(source, &answer->error);
    }
    rota_cache_read_done(read, error.code ? &error : NULL);
}

static void read_keys(struct rota_cache_source *base, struct rota_cache_read *read)
{
    struct source *source = (struct source *)base;
    struct rota_error error;
    size_t n;
    const struct rota_str *keys = rota_cache_read_keys(read, &n);
    struct rota_store_request request = select_of(source, keys, n);
    read->data = source;
    if (rota_store_ask(source->store, &request, on_read, read, &error))
        rota_cache_read_done(read, &error);
}

/* --- opening --- */

static void close_source(struct rota_cache_source *base)
{
    struct source *source = (struct source *)base;
    rota_store_close(source->store);
    free(source->text);
    free(source);
}

/* "TABLE" or "TABLE:KEY:VALUE"; the store validates the names. */
static enum rota_code split_table(struct source *source, struct rota_error *error)
{
    char *key = strchr(source->text, ':'), *value = key ? strchr(key + 1, ':') : NULL;
    if (key && (!value || strchr(value + 1, ':') || value == key + 1 || !value[1]))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "the source sql:%s must be sql:TABLE or sql:TABLE:KEYCOLUMN:VALUECOLUMN", source->text);
    source->key = source->value = rota_str("");
    if (key) {
        *key = *value = 0;
        source->key = rota_str(key + 1);
        source->value = rota_str(value + 1);
    }
    source->table = rota_str(source->text);
    return ROTA_OK;
}

enum rota_code rota_cache_sql_open(struct uv_loop_s *loop, const char *url, const char *table,
                                   const struct rota_cache_source_options *options,
                                   struct rota_cache_source **source, struct rota_error *error)
{
    struct source *made = calloc(1, sizeof *made);
    char *text = strdup(table);
    if (!made || !text) {
        free(made);
        free(text);
        return rota_error_no_memory(error, "for a source");
    }
    made->base = (struct rota_cache_source){.read = read_keys, .close = close_source};
    made->options = *options;
    made->text = text;
    struct rota_store_options with = {
        .url = url,
        .purpose = "source",
        .is_reader = true,
        .log = options->log,
        .on_up = on_up,
        .on_down = on_down,
        .data = made,
    };
    enum rota_code code = split_table(made, error);
    if (!code)
        code = rota_store_open(loop, &with, &made->store, error);
    if (code) {
        close_source(&made->base);
        return code;
    }
    *source = &made->base;
    return ROTA_OK;
}
