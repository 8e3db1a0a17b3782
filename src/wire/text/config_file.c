/* config_file: a configuration text turned into the layers of a configuration.
 *
 * It defines what a file may contain: which tables and keys there are, and which type of text
 * makes which value. rota_config_new() in core decides whether the values are consistent. */
#include <rota/experimental/config.h>

#include "base/buffer.h"
#include "base/error_at.h"
#include "base/quote.h"
#include "base/spell.h"
#include "base/vector.h"
#include "core/place/config.h"
#include "wire/text/config_text.h"

#include <stdio.h>
#include <stdlib.h>

struct reader {
    struct rota_config_text document;
    const char *file;
    struct rota_error *error;
    ROTA_VECTOR(struct rota_config_layer) layers;
};

#define refuse(reader, line, ...)                                                                  \
    rota_error_set_at((reader)->error, ROTA_ERR_INVALID, (reader)->file, (line), __VA_ARGS__)

static enum rota_code no_memory(const struct reader *reader)
{
    return rota_error_no_memory(reader->error, "to read %.200s", reader->file);
}

/* --- values --- */

static enum rota_code refuse_type(const struct reader *reader, enum rota_setting setting,
                                  const struct rota_config_text_entry *entry)
{
    const struct rota_setting_info *info = rota_setting_info(setting);
    struct rota_buffer allowed = {0};
    char word[ROTA_QUOTE_MAX];

    rota_setting_print_allowed(setting, &allowed);
    refuse(reader, entry->line, "%s takes %s%s, not %s", info->name, rota_buffer_str(&allowed).data,
           info->is_gradual ? " or a table of old, new, start and end" : "",
           entry->type == ROTA_CONFIG_TEXT_STRING ? rota_quote(entry->string, word)
                                                  : rota_config_text_type_name(entry->type));
    rota_buffer_deinit(&allowed);
    return ROTA_ERR_INVALID;
}

/* A value that does not change. */
static enum rota_code parse_plain(const struct reader *reader, enum rota_setting setting,
                                  const struct rota_config_text_entry *entry, int64_t *value)
{
    const struct rota_setting_info *info = rota_setting_info(setting);
    bool is_string = entry->type == ROTA_CONFIG_TEXT_STRING;

    switch (info->type) {
    case ROTA_SETTING_INTEGER:
        if (entry->type != ROTA_CONFIG_TEXT_INTEGER)
            break;
        *value = entry->integer;
        return ROTA_OK;
    case ROTA_SETTING_CHOICE:
        for (int64_t i = info->min; is_string && i <= info->max; i++) {
            if (rota_str_is_equal(entry->string, rota_str(info->choices[i]))) {
                *value = i;
                return ROTA_OK;
            }
        }
        break;
    case ROTA_SETTING_SPAN:
        if (is_string && rota_span_parse(entry->string, value) == ROTA_OK)
            return ROTA_OK;
        break;
    }
    return refuse_type(reader, setting, entry);
}

/* The start or the end of a change: a date-time, or unix seconds, or either as
 * a string. */
static enum rota_code parse_moment(const struct reader *reader,
                                   const struct rota_config_text_entry *entry, rota_time *time)
{
    bool is_moment = false;
    if (entry->type == ROTA_CONFIG_TEXT_TIME) {
        *time = entry->time;
        is_moment = true;
    } else if (entry->type == ROTA_CONFIG_TEXT_INTEGER) {
        is_moment = !__builtin_mul_overflow(entry->integer, ROTA_SEC, time);
    } else if (entry->type == ROTA_CONFIG_TEXT_STRING) {
        is_moment = rota_time_parse(entry->string, time) == ROTA_OK;
    }
    if (!is_moment || *time <= 0)
        return refuse(reader, entry->line,
                      "%.*s of a change must be a date-time or Unix seconds after 1970",
                      ROTA_STR_ARGS(entry->key));
    return ROTA_OK;
}

/* { old = ..., new = ..., start = ..., end = ... }, all four. */
static enum rota_code parse_change(const struct reader *reader, enum rota_setting setting,
                                   const struct rota_config_text_entry *table,
                                   struct rota_gradual *change)
{
    static const char *const FIELDS[] = {"old", "new", "start", "end"};
    enum { OLD, NEW, START, END, N_FIELDS };
    int64_t *values[N_FIELDS] = {&change->old_value, &change->new_value, &change->start,
                                 &change->end};
    bool has[N_FIELDS] = {false};
    const char *name = rota_setting_info(setting)->name;
    char near[ROTA_SPELL_HINT_MAX];
    enum rota_code code;

    for (const struct rota_config_text_entry *entry = table + 1; entry <= table + table->n_fields;
         entry++) {
        struct rota_spell spell = {.word = entry->key};
        int i = 0;
        for (; i < N_FIELDS && !rota_str_is_equal(entry->key, rota_str(FIELDS[i])); i++)
            rota_spell_offer(&spell, FIELDS[i]);
        if (i == N_FIELDS)
            return refuse(
                reader, entry->line,
                "%s: unknown field %.*s in a change; a change has old, new, start and end%s", name,
                ROTA_STR_ARGS(entry->key), rota_spell_hint(&spell, near));
        code = i >= START ? parse_moment(reader, entry, values[i])
                          : parse_plain(reader, setting, entry, values[i]);
        if (code)
            return code;
        has[i] = true;
    }
    for (int i = 0; i < N_FIELDS; i++) {
        if (!has[i])
            return refuse(reader, table->line, "%s: the change has no %s", name, FIELDS[i]);
    }
    return ROTA_OK;
}

/* --- keys --- */

static enum rota_code refuse_key(const struct reader *reader, struct rota_str name,
                                 const struct rota_config_text_entry *entry, bool is_override)
{
    static const char *const SCOPE[] = {"namespace", "queue", "type"};
    struct rota_spell spell = {.word = name};
    char near[ROTA_SPELL_HINT_MAX];

    for (int i = 0; is_override && i < 3; i++)
        rota_spell_offer(&spell, SCOPE[i]);
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        const char *full = rota_setting_info((enum rota_setting)i)->name;
        if (rota_str_is_equal(name, rota_str(strchr(full, '.') + 1)))
            spell = (struct rota_spell){.word = name, .best = full};
        else
            rota_spell_offer(&spell, full);
    }
    return refuse(reader, entry->line, "unknown setting %.*s%s", ROTA_STR_ARGS(name),
                  rota_spell_hint(&spell, near));
}

static enum rota_code parse_setting(const struct reader *reader, struct rota_str name,
                                    const struct rota_config_text_entry *entry,
                                    struct rota_config_layer *layer, bool is_override)
{
    enum rota_code code;
    int i = 0;
    while (i < ROTA_SETTINGS &&
           !rota_str_is_equal(name, rota_str(rota_setting_info((enum rota_setting)i)->name)))
        i++;
    if (i == ROTA_SETTINGS)
        return refuse_key(reader, name, entry, is_override);

    enum rota_setting setting = (enum rota_setting)i;
    struct rota_config_value value = {.is_set = true, .line = entry->line};
    if (entry->type == ROTA_CONFIG_TEXT_TABLE && rota_setting_info(setting)->is_gradual) {
        code = parse_change(reader, setting, entry, &value.value);
    } else {
        code = parse_plain(reader, setting, entry, &value.value.new_value);
        value.value.old_value = value.value.new_value;
    }
    if (!code)
        layer->values[setting] = value;
    return code;
}

static enum rota_code parse_type(const struct reader *reader,
                                 const struct rota_config_text_entry *entry,
                                 enum rota_task_type *type)
{
    struct rota_spell spell = {.word = entry->string};
    char word[ROTA_QUOTE_MAX], near[ROTA_SPELL_HINT_MAX];
    if (rota_task_type_parse(entry->string, type) == ROTA_OK)
        return ROTA_OK;
    for (int i = ROTA_TASK_UNSPECIFIED; i <= ROTA_TASK_NEXUS; i++)
        rota_spell_offer(&spell, rota_task_type_name((enum rota_task_type)i));
    return refuse(reader, entry->line,
                  "type must be workflow, activity, nexus or unspecified, not %s%s",
                  rota_quote(entry->string, word), rota_spell_hint(&spell, near));
}

/* One line of an override: a part of its scope, or a setting. */
static enum rota_code parse_override(const struct reader *reader,
                                     const struct rota_config_text_entry *entry,
                                     struct rota_config_layer *layer)
{
    struct rota_config_scope *scope = &layer->scope;
    bool is_namespace = rota_str_is_equal(entry->key, rota_str("namespace"));
    bool is_queue = rota_str_is_equal(entry->key, rota_str("queue"));
    bool is_type = rota_str_is_equal(entry->key, rota_str("type"));

    if (!is_namespace && !is_queue && !is_type)
        return parse_setting(reader, entry->key, entry, layer, true);
    if (entry->type != ROTA_CONFIG_TEXT_STRING)
        return refuse(reader, entry->line, "%.*s takes a string, not %s", ROTA_STR_ARGS(entry->key),
                      rota_config_text_type_name(entry->type));
    if (is_type) {
        scope->has_type = true;
        return parse_type(reader, entry, &scope->type);
    }
    if (is_namespace) {
        scope->has_namespace = true;
        scope->namespace_id = entry->string;
    } else {
        scope->has_queue = true;
        scope->queue = entry->string;
    }
    return ROTA_OK;
}

/* --- tables --- */

/* Whether settings begin with the name of this table: those of "[matching]"
 * may be written without "matching." under it. */
static bool is_prefix(struct rota_str table)
{
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        const char *name = rota_setting_info((enum rota_setting)i)->name;
        if (rota_str_has_prefix(rota_str(name), table) && name[table.size] == '.')
            return true;
    }
    return false;
}

static enum rota_code check_table(const struct reader *reader,
                                  const struct rota_config_text_table *table)
{
    bool is_override = rota_str_is_equal(table->name, rota_str("override"));
    if (table->name.size == 0 || (table->is_array ? is_override : is_prefix(table->name)))
        return ROTA_OK;
    if (is_override)
        return refuse(reader, table->line, "an override must start with [[override]]");
    return refuse(reader, table->line,
                  "%s%.*s%s is not a configuration table; use [[override]], [matching] or [system]",
                  table->is_array ? "[[" : "[", ROTA_STR_ARGS(table->name),
                  table->is_array ? "]]" : "]");
}

static enum rota_code parse_table(struct reader *reader, const struct rota_config_text_table *table)
{
    const struct rota_config_text_entry *entry = NULL, *end = NULL;
    if (table->n_entries > 0) { /* a document without entries has no array of them */
        entry = reader->document.entries + table->first_entry;
        end = entry + table->n_entries;
    }
    struct rota_config_layer override = {.line = table->line};
    struct rota_config_layer *layer = table->is_array ? &override : &reader->layers.items[0];
    enum rota_code code = check_table(reader, table);

    while (!code && entry < end) {
        char name[2 * ROTA_CONFIG_TEXT_KEY_MAX + 2];
        snprintf(name, sizeof name, "%.*s%s%.*s", ROTA_STR_ARGS(table->name),
                 table->name.size ? "." : "", ROTA_STR_ARGS(entry->key));
        code = table->is_array ? parse_override(reader, entry, layer)
                               : parse_setting(reader, rota_str(name), entry, layer, false);
        entry += 1 + (entry->type == ROTA_CONFIG_TEXT_TABLE ? entry->n_fields : 0);
    }
    if (!code && table->is_array && !rota_vector_push(&reader->layers, override))
        code = no_memory(reader);
    return code;
}

static enum rota_code parse_tables(struct reader *reader)
{
    struct rota_config_layer top = {.line = 1};
    enum rota_code code = ROTA_OK;
    if (!rota_vector_push(&reader->layers, top))
        return no_memory(reader);
    for (size_t i = 0; !code && i < reader->document.n_tables; i++)
        code = parse_table(reader, &reader->document.tables[i]);
    return code;
}

enum rota_code rota_config_parse(struct rota_str text, const char *file,
                                 struct rota_config **config, struct rota_error *error)
{
    struct reader reader = {.file = file, .error = error};
    enum rota_code code = rota_config_text_parse(text, file, &reader.document, error);
    if (code)
        return code;
    code = parse_tables(&reader);
    if (!code)
        code = rota_config_new(reader.layers.items, reader.layers.size, file, config, error);
    rota_vector_deinit(&reader.layers);
    rota_config_text_deinit(&reader.document);
    return code;
}
