#include "base/metrics.h"

#include "base/decimal.h"
#include "base/map.h"
#include "base/quote.h"
#include "base/vector.h"

#include <assert.h>
#include <math.h>

enum type { COUNTER, GAUGE, HISTOGRAM };

/* One name and its type. */
struct family {
    const char *name, *help;
    enum type type;
    int64_t per_unit;
    ROTA_VECTOR(struct series *) series;
};

struct series {
    union {
        struct rota_counter counter;
        struct rota_gauge gauge;
        struct rota_histogram *histogram;
    };
    const struct family *family;
    struct rota_str labels; /* `host="a",shard="1"`: the inner part of `key` */
    char key[];             /* `name{labels}`: no two series have the same */
};

struct rota_metrics {
    ROTA_VECTOR(struct family *) families;
    struct rota_map family_by_name, series_by_key;
    struct rota_counter *refused;

    /* For callers whose series was rejected. */
    struct rota_counter spare_counter;
    struct rota_gauge spare_gauge;
    struct rota_histogram spare_histogram;
};

/* --- names and labels --- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(const char *name, const char *also)
{
    if (!is_letter(name[0]) && !(name[0] && strchr(also, name[0])))
        return false;
    for (const char *c = name; *c; c++)
        if (!is_letter(*c) && !(*c >= '0' && *c <= '9') && !strchr(also, *c))
            return false;
    return true;
}

/* Two underscores are Prometheus' own, and a summary has its quantiles. */
static bool is_label(const struct rota_label *label)
{
    return is_name(label->name, "") && strncmp(label->name, "__", 2) != 0 &&
           strcmp(label->name, "quantile") != 0 && label->value.size <= ROTA_METRICS_VALUE_MAX;
}

static int compare_labels(const void *a, const void *b)
{
    return strcmp(((const struct rota_label *)a)->name, ((const struct rota_label *)b)->name);
}

/* The format has three escapes, \" \\ and \n; other characters that would need one are replaced. */
static void append_label_value(struct rota_buffer *buffer, struct rota_str value)
{
    while (value.size > 0) {
        char piece[ROTA_QUOTE_PIECE_MAX];
        size_t size = rota_quote_next(&value, piece);
        if (piece[0] == '\\' && strchr("utr", piece[1]))
            rota_buffer_append_text(buffer, "\xef\xbf\xbd"); /* U+FFFD */
        else
            rota_buffer_append(buffer, piece, size);
    }
}

/* Write `name{labels}`, with the labels sorted; false when one is malformed or
 * comes twice. */
static bool format_key(const char *name, const struct rota_label *labels, size_t n_labels,
                       struct rota_buffer *key)
{
    struct rota_label sorted[ROTA_METRICS_LABELS_MAX];
    if (!is_name(name, ":") || n_labels > ROTA_METRICS_LABELS_MAX)
        return false;
    for (size_t i = 0; i < n_labels; i++)
        sorted[i] = labels[i];
    qsort(sorted, n_labels, sizeof *sorted, compare_labels);

    rota_buffer_print(key, "%s{", name);
    for (size_t i = 0; i < n_labels; i++) {
        if (!is_label(&sorted[i]) || (i > 0 && compare_labels(&sorted[i - 1], &sorted[i]) == 0))
            return false;
        rota_buffer_print(key, "%s%s=\"", i ? "," : "", sorted[i].name);
        append_label_value(key, sorted[i].value);
        rota_buffer_append_char(key, '"');
    }
    rota_buffer_append_char(key, '}');
    return !key->failed;
}

/* --- making series --- */

static void free_series(struct series *series)
{
    if (series->family->type == HISTOGRAM)
        free(series->histogram);
    free(series);
}

static struct series *new_series(const struct family *family, struct rota_str key)
{
    struct series *series = calloc(1, sizeof *series + key.size);
    if (!series)
        return NULL;
    size_t name_size = strlen(family->name);
    memcpy(series->key, key.data, key.size);
    series->labels = rota_str_of(series->key + name_size + 1, key.size - name_size - 2);
    series->family = family;
    if (family->type == HISTOGRAM && !(series->histogram = calloc(1, sizeof *series->histogram))) {
        free(series);
        return NULL;
    }
    return series;
}

static struct series *add_series(struct rota_metrics *metrics, struct family *family,
                                 struct rota_str key)
{
    if (!rota_vector_reserve(&family->series, family->series.size + 1))
        return NULL;
    struct series *series = new_series(family, key);
    if (!series)
        return NULL;
    if (!rota_map_put(&metrics->series_by_key, rota_str_of(series->key, key.size), series)) {
        free_series(series);
        return NULL;
    }
    return family->series.items[family->series.size++] = series;
}

static bool is_same_family(const struct family *a, const struct family *b)
{
    return a->type == b->type && a->per_unit == b->per_unit;
}

/* The family that is described; NULL when its name means something else. */
static struct family *find_family(struct rota_metrics *metrics, const struct family *described)
{
    struct rota_str name = rota_str(described->name);
    struct family *family = rota_map_get(&metrics->family_by_name, name);
    if (family)
        return is_same_family(family, described) ? family : NULL;

    family = malloc(sizeof *family);
    if (!family || !rota_vector_reserve(&metrics->families, metrics->families.size + 1) ||
        !rota_map_put(&metrics->family_by_name, name, family)) {
        free(family);
        return NULL;
    }
    *family = *described;
    return metrics->families.items[metrics->families.size++] = family;
}

static struct series *find_series(struct rota_metrics *metrics, const struct family *described,
                                  struct rota_str key)
{
    struct series *series = rota_map_get(&metrics->series_by_key, key);
    if (series)
        return is_same_family(series->family, described) ? series : NULL;
    if (metrics->series_by_key.size == ROTA_METRICS_SERIES_MAX)
        return NULL;
    struct family *family = find_family(metrics, described);
    return family ? add_series(metrics, family, key) : NULL;
}

/* The series of a family, made when it is new; NULL when it is refused. */
static struct series *get_or_add_series(struct rota_metrics *metrics, struct family described,
                                        const struct rota_label *labels, size_t n_labels)
{
    struct rota_buffer key = {0};
    struct series *series = NULL;
    if (format_key(described.name, labels, n_labels, &key))
        series = find_series(metrics, &described, rota_buffer_str(&key));
    rota_buffer_deinit(&key);
    if (!series && metrics->refused)
        rota_counter_add(metrics->refused, 1);
    return series;
}

struct rota_metrics *rota_metrics_new(uint64_t seed)
{
    struct rota_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    rota_map_init(&metrics->family_by_name, seed);
    rota_map_init(&metrics->series_by_key, seed);
    metrics->refused =
        rota_metrics_counter(metrics, "rota_metrics_refused_total",
                             "Series rejected because the series limit was reached.", NULL, 0);
    if (metrics->refused == &metrics->spare_counter) {
        rota_metrics_free(metrics);
        return NULL;
    }
    return metrics;
}

void rota_metrics_free(struct rota_metrics *metrics)
{
    if (!metrics)
        return;
    for (size_t i = 0; i < metrics->families.size; i++) {
        struct family *family = metrics->families.items[i];
        for (size_t j = 0; j < family->series.size; j++)
            free_series(family->series.items[j]);
        rota_vector_deinit(&family->series);
        free(family);
    }
    rota_vector_deinit(&metrics->families);
    rota_map_deinit(&metrics->family_by_name);
    rota_map_deinit(&metrics->series_by_key);
    free(metrics);
}

struct rota_counter *rota_metrics_counter(struct rota_metrics *metrics, const char *name,
                                          const char *help, const struct rota_label *labels,
                                          size_t n_labels)
{
    struct family family = {.name = name, .help = help, .type = COUNTER};
    struct series *series = get_or_add_series(metrics, family, labels, n_labels);
    return series ? &series->counter : &metrics->spare_counter;
}

struct rota_gauge *rota_metrics_gauge(struct rota_metrics *metrics, const char *name,
                                      const char *help, const struct rota_label *labels,
                                      size_t n_labels)
{
    struct family family = {.name = name, .help = help, .type = GAUGE};
    struct series *series = get_or_add_series(metrics, family, labels, n_labels);
    return series ? &series->gauge : &metrics->spare_gauge;
}

struct rota_histogram *rota_metrics_histogram(struct rota_metrics *metrics, const char *name,
                                              const char *help, int64_t per_unit,
                                              const struct rota_label *labels, size_t n_labels)
{
    assert(per_unit > 0);
    struct family family = {.name = name, .help = help, .type = HISTOGRAM, .per_unit = per_unit};
    struct series *series = get_or_add_series(metrics, family, labels, n_labels);
    return series ? series->histogram : &metrics->spare_histogram;
}

/* --- removing them --- */

/* A quote within a value is escaped: what looks like a label is one. */
static bool has_label(struct rota_str labels, struct rota_str label)
{
    const char *end = labels.data + labels.size, *at = labels.data;
    while ((at = memmem(at, (size_t)(end - at), label.data, label.size))) {
        const char *after = at + label.size;
        if ((at == labels.data || at[-1] == ',') && (after == end || *after == ','))
            return true;
        at = after;
    }
    return false;
}

void rota_metrics_forget(struct rota_metrics *metrics, const struct rota_label *label)
{
    struct rota_buffer text = {0};
    rota_buffer_print(&text, "%s=\"", label->name);
    append_label_value(&text, label->value);
    rota_buffer_append_char(&text, '"');
    for (size_t i = 0; !text.failed && i < metrics->families.size; i++) {
        struct family *family = metrics->families.items[i];
        size_t n = 0;
        for (size_t j = 0; j < family->series.size; j++) {
            struct series *series = family->series.items[j];
            if (!has_label(series->labels, rota_buffer_str(&text))) {
                family->series.items[n++] = series;
                continue;
            }
            size_t size = strlen(family->name) + series->labels.size + 2;
            rota_map_remove(&metrics->series_by_key, rota_str_of(series->key, size));
            free_series(series);
        }
        family->series.size = n;
    }
    rota_buffer_deinit(&text);
}

/* --- the text --- */

static void append_head(struct rota_buffer *buffer, const struct family *family)
{
    static const char *const types[] = {
        [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "summary"};
    rota_buffer_print(buffer, "# HELP %s ", family->name);
    for (const char *c = family->help; *c; c++) {
        if (*c == '\\' || *c == '\n')
            rota_buffer_append_char(buffer, '\\');
        rota_buffer_append_char(buffer, *c == '\n' ? 'n' : *c);
    }
    rota_buffer_print(buffer, "\n# TYPE %s %s\n", family->name, types[family->type]);
}

/* `name_suffix{labels,extra} `; without braces when there is nothing in them. */
static void append_name(struct rota_buffer *buffer, const struct series *series, const char *suffix,
                        const char *extra)
{
    bool has_labels = series->labels.size > 0;
    rota_buffer_print(buffer, "%s%s", series->family->name, suffix);
    if (has_labels || *extra) {
        rota_buffer_append_char(buffer, '{');
        rota_buffer_append_str(buffer, series->labels);
        rota_buffer_print(buffer, "%s%s}", has_labels && *extra ? "," : "", extra);
    }
    rota_buffer_append_char(buffer, ' ');
}

static void append_decimal(struct rota_buffer *buffer, double value)
{
    char text[ROTA_DECIMAL_TEXT_MAX];
    rota_buffer_print(buffer, "%s\n", rota_decimal_format(value, text));
}

/* A quantile of nothing is not a number. */
static void append_summary(struct rota_buffer *buffer, const struct series *series)
{
    static const struct {
        double p;
        const char *label;
    } quantiles[] = {
        {0.5, "quantile=\"0.5\""}, {0.99, "quantile=\"0.99\""}, {0.999, "quantile=\"0.999\""}};
    const struct rota_histogram *histogram = series->histogram;
    double unit = (double)series->family->per_unit;

    for (size_t i = 0; i < sizeof quantiles / sizeof quantiles[0]; i++) {
        double value = (double)rota_histogram_quantile(histogram, quantiles[i].p) / unit;
        append_name(buffer, series, "", quantiles[i].label);
        append_decimal(buffer, histogram->count ? value : NAN);
    }
    append_name(buffer, series, "_sum", "");
    append_decimal(buffer, histogram->sum / unit);
    append_name(buffer, series, "_count", "");
    rota_buffer_print(buffer, "%llu\n", (unsigned long long)histogram->count);
}

static void append_series(struct rota_buffer *buffer, const struct series *series)
{
    switch (series->family->type) {
    case COUNTER:
        append_name(buffer, series, "", "");
        rota_buffer_print(buffer, "%llu\n", (unsigned long long)rota_counter_get(&series->counter));
        break;
    case GAUGE:
        append_name(buffer, series, "", "");
        rota_buffer_print(buffer, "%lld\n", (long long)rota_gauge_get(&series->gauge));
        break;
    case HISTOGRAM:
        append_summary(buffer, series);
        break;
    }
}

void rota_metrics_format(const struct rota_metrics *metrics, struct rota_buffer *buffer)
{
    for (size_t i = 0; i < metrics->families.size; i++) {
        const struct family *family = metrics->families.items[i];
        if (family->series.size > 0) /* memory may have run out between the two */
            append_head(buffer, family);
        for (size_t j = 0; j < family->series.size; j++)
            append_series(buffer, family->series.items[j]);
    }
}

char *rota_metrics_text(const struct rota_metrics *metrics, size_t *size)
{
    struct rota_buffer buffer = {0};
    rota_metrics_format(metrics, &buffer);
    rota_buffer_append_char(&buffer, '\0'); /* there is a text even without a series */
    if (buffer.failed) {
        rota_buffer_deinit(&buffer);
        return NULL;
    }
    if (size)
        *size = buffer.size - 1;
    return buffer.data;
}
