#include "wire/text/settings.h"

#include "base/error_at.h"
#include "base/quote.h"
#include "base/spell.h"
#include "wire/text/config_text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- values --- */

static void *field_of(void *values, const struct rota_option *option)
{
    return (char *)values + option->offset;
}

/* Members that are not given are zero; a text is NULL. */
static void fill_defaults(const struct rota_option *options, size_t n, void *values)
{
    for (size_t i = 0; i < n; i++) {
        void *field = field_of(values, &options[i]);
        assert(options[i].type != ROTA_OPTION_LIST);
        memset(field, 0, rota_option_size(options[i].type));
        if (options[i].default_text &&
            rota_option_parse_value(&options[i], rota_str(options[i].default_text), field, NULL))
            assert(!"a default is a value");
    }
}

/* A text option that was not given has no value. */
static bool is_set(const struct rota_option *option, const void *field)
{
    return option->type != ROTA_OPTION_TEXT || *(const char *const *)field;
}

/* The required option of a section that is missing, which is a text; NULL: none. */
static const char *find_missing(const struct rota_settings_kind *kind, void *values)
{
    for (size_t i = 0; i < kind->n_options; i++)
        if (kind->options[i].is_required &&
            !is_set(&kind->options[i], field_of(values, &kind->options[i])))
            return kind->options[i].name;
    return NULL;
}

static const struct rota_option *find_option(const struct rota_option *options, size_t n,
                                             struct rota_str name)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(name, rota_str(options[i].name)))
            return &options[i];
    return NULL;
}

void rota_settings_init(struct rota_settings *settings, const struct rota_option *options,
                        size_t n_options, const struct rota_settings_kind *kinds, size_t n_kinds,
                        void *values)
{
    assert(n_options <= ROTA_SETTINGS_OPTIONS_MAX);
    *settings = (struct rota_settings){
        .options = options,
        .n_options = n_options,
        .kinds = kinds,
        .n_kinds = n_kinds,
        .values = values,
    };
    fill_defaults(options, n_options, values);
}

void rota_settings_deinit(struct rota_settings *settings)
{
    rota_arena_deinit(&settings->arena);
}

enum rota_code rota_settings_set(struct rota_settings *settings, const char *name, const char *text,
                                 enum rota_settings_place place, struct rota_error *error)
{
    const struct rota_option *option =
        find_option(settings->options, settings->n_options, rota_str(name));
    struct rota_error why;
    if (!option)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "unknown setting %.80s", name);
    struct rota_str copy = rota_arena_copy(&settings->arena, rota_str(text));
    if (!copy.data)
        return rota_error_no_memory(error, "for the setting %s", name);
    char variable[ROTA_SETTINGS_VARIABLE_MAX];
    if (rota_option_parse_value(option, copy, field_of(settings->values, option), &why))
        return rota_error_set(
            error, ROTA_ERR_INVALID, "%s%s: %s", place == ROTA_SETTINGS_ENVIRONMENT ? "" : "--",
            place == ROTA_SETTINGS_ENVIRONMENT ? rota_settings_variable(option, variable) : name,
            why.text);
    settings->origins[option - settings->options] = (struct rota_settings_origin){.place = place};
    return ROTA_OK;
}

static bool is_same_value(const struct rota_option *option, const void *a, const void *b)
{
    const char *const *texts[] = {a, b};
    if (option->type != ROTA_OPTION_TEXT)
        return memcmp(a, b, rota_option_size(option->type)) == 0;
    if (!*texts[0] || !*texts[1])
        return *texts[0] == *texts[1];
    return strcmp(*texts[0], *texts[1]) == 0;
}

bool rota_settings_is_same(const struct rota_settings *a, const struct rota_settings *b, size_t i)
{
    return is_same_value(&a->options[i], field_of(a->values, &a->options[i]),
                         field_of(b->values, &b->options[i]));
}

static bool is_same_section(const struct rota_settings_section *a,
                            const struct rota_settings_section *b)
{
    for (size_t i = 0; a->kind == b->kind && i < a->kind->n_options; i++)
        if (!is_same_value(&a->kind->options[i], field_of(a->values, &a->kind->options[i]),
                           field_of(b->values, &b->kind->options[i])))
            return false;
    return a->kind == b->kind;
}

bool rota_settings_has_same_sections(const struct rota_settings *a, const struct rota_settings *b)
{
    bool is_same = a->n_sections == b->n_sections;
    for (size_t i = 0; is_same && i < a->n_sections; i++)
        is_same = is_same_section(&a->sections[i], &b->sections[i]);
    return is_same;
}

enum rota_code rota_settings_adopt(struct rota_settings *settings, const struct rota_settings *from,
                                   size_t i, struct rota_error *error)
{
    const struct rota_option *option = &settings->options[i];
    const void *field = field_of(from->values, option);
    const char *const *text = option->type == ROTA_OPTION_TEXT ? field : NULL;
    const char *copy = NULL;
    if (text && *text) {
        copy = rota_arena_copy(&settings->arena, rota_str(*text)).data;
        if (!copy)
            return rota_error_no_memory(error, "for the setting %s", option->name);
    }
    if (text)
        *(const char **)field_of(settings->values, option) = copy;
    else
        memcpy(field_of(settings->values, option), field, rota_option_size(option->type));
    settings->origins[i] = from->origins[i];
    return ROTA_OK;
}

char *rota_settings_variable(const struct rota_option *option,
                             char text[ROTA_SETTINGS_VARIABLE_MAX])
{
    snprintf(text, ROTA_SETTINGS_VARIABLE_MAX, "ROTA_%s", option->name);
    for (char *c = text; *c; c++)
        *c = *c == '-' ? '_' : (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    return text;
}

/* --- a file --- */

/* The content of a file, separate from the settings in force until it is read completely. */
struct reader {
    struct rota_settings *settings;
    struct rota_config_text document;
    struct rota_settings made;
    const char *file;
    struct rota_error *error;
};

#define refuse(reader, line, ...)                                                                  \
    rota_error_set_at((reader)->error, ROTA_ERR_INVALID, (reader)->file, (line), __VA_ARGS__)

static enum rota_code no_memory(const struct reader *reader)
{
    return rota_error_no_memory(reader->error, "to read %.200s", reader->file);
}

/* A value as the command line would have it, in the arena. */
static enum rota_code value_text(struct reader *reader, const struct rota_option *option,
                                 const struct rota_config_text_entry *entry, struct rota_str *text)
{
    char number[32];
    bool is_string = entry->type == ROTA_CONFIG_TEXT_STRING;
    bool is_right = is_string;
    struct rota_str found = is_string ? entry->string : rota_str("");
    if (option->type == ROTA_OPTION_INT) {
        is_right = entry->type == ROTA_CONFIG_TEXT_INTEGER;
        snprintf(number, sizeof number, "%lld", is_right ? (long long)entry->integer : 0);
        found = rota_str(number);
    } else if (option->type == ROTA_OPTION_FLAG) {
        is_right = entry->type == ROTA_CONFIG_TEXT_BOOLEAN;
        found = rota_str(is_right && entry->boolean ? "true" : "false");
    }
    if (!is_right)
        return refuse(reader, entry->line, "%s takes %s, not %s", option->name,
                      option->type == ROTA_OPTION_INT    ? "an integer"
                      : option->type == ROTA_OPTION_FLAG ? "true or false"
                      : option->type == ROTA_OPTION_SPAN ? "a string such as \"10s\""
                                                         : "a string",
                      rota_config_text_type_name(entry->type));
    *text = rota_arena_copy(&reader->made.arena, found);
    return text->data ? ROTA_OK : no_memory(reader);
}

static enum rota_code read_entry(struct reader *reader, const struct rota_option *options, size_t n,
                                 const struct rota_config_text_entry *entry, void *values,
                                 size_t *which)
{
    const struct rota_option *option = find_option(options, n, entry->key);
    struct rota_str text;
    struct rota_error why;
    if (!option) {
        struct rota_spell spell = {.word = entry->key};
        char near[ROTA_SPELL_HINT_MAX];
        for (size_t i = 0; i < n; i++)
            rota_spell_offer(&spell, options[i].name);
        return refuse(reader, entry->line, "unknown setting %.*s%s", ROTA_STR_ARGS(entry->key),
                      rota_spell_hint(&spell, near));
    }
    enum rota_code code = value_text(reader, option, entry, &text);
    if (code)
        return code;
    if (rota_option_parse_value(option, text, field_of(values, option), &why))
        return refuse(reader, entry->line, "%s: %s", option->name, why.text);
    *which = (size_t)(option - options);
    return ROTA_OK;
}

/* The part of the file before the first section. What a higher place has set stays. */
static enum rota_code read_top(struct reader *reader, const struct rota_config_text_table *table)
{
    struct rota_settings *made = &reader->made;
    for (size_t i = 0; i < table->n_entries; i++) {
        const struct rota_config_text_entry *entry =
            &reader->document.entries[table->first_entry + i];
        size_t which;
        enum rota_code code =
            read_entry(reader, made->options, made->n_options, entry, made->values, &which);
        if (code)
            return code;
        made->origins[which] =
            (struct rota_settings_origin){.place = ROTA_SETTINGS_FILE, .line = entry->line};
    }
    return ROTA_OK;
}

static enum rota_code read_section(struct reader *reader,
                                   const struct rota_config_text_table *table)
{
    struct rota_settings *made = &reader->made;
    const struct rota_settings_kind *kind = NULL;
    struct rota_spell spell = {.word = table->name};
    char near[ROTA_SPELL_HINT_MAX];
    for (size_t i = 0; i < made->n_kinds; i++) {
        if (!made->kinds[i].gone)
            rota_spell_offer(&spell, made->kinds[i].name);
        if (rota_str_is_equal(table->name, rota_str(made->kinds[i].name)))
            kind = &made->kinds[i];
    }
    if (!kind)
        return refuse(reader, table->line, "unknown section %.*s%s", ROTA_STR_ARGS(table->name),
                      rota_spell_hint(&spell, near));
    if (kind->gone)
        return refuse(reader, table->line, "[[%s]] is gone: %s", kind->name, kind->gone);
    if (!table->is_array)
        return refuse(reader, table->line, "a section must start with [[%s]]", kind->name);
    void *values = rota_arena_take(&made->arena, kind->size);
    if (!values)
        return no_memory(reader);
    memset(values, 0, kind->size);
    fill_defaults(kind->options, kind->n_options, values);
    for (size_t i = 0; i < table->n_entries; i++) {
        size_t which;
        enum rota_code code =
            read_entry(reader, kind->options, kind->n_options,
                       &reader->document.entries[table->first_entry + i], values, &which);
        if (code)
            return code;
    }
    const char *missing = find_missing(kind, values);
    if (missing)
        return refuse(reader, table->line, "[[%s]] needs %s", kind->name, missing);
    made->sections[made->n_sections++] =
        (struct rota_settings_section){.kind = kind, .line = table->line, .values = values};
    return ROTA_OK;
}

static enum rota_code read_document(struct reader *reader)
{
    size_t n = reader->document.n_tables;
    if (n - 1 > ROTA_SETTINGS_SECTIONS_MAX)
        return refuse(reader, reader->document.tables[ROTA_SETTINGS_SECTIONS_MAX + 1].line,
                      "more than %d sections", ROTA_SETTINGS_SECTIONS_MAX);
    reader->made.sections = rota_arena_take(&reader->made.arena, n * sizeof *reader->made.sections);
    if (!reader->made.sections)
        return no_memory(reader);
    enum rota_code code = read_top(reader, &reader->document.tables[0]);
    for (size_t i = 1; !code && i < n; i++)
        code = read_section(reader, &reader->document.tables[i]);
    return code;
}

/* Options of the environment or the command line override those of the file; their texts are
 * copied. */
static enum rota_code keep_higher(struct reader *reader)
{
    struct rota_settings *made = &reader->made;
    const struct rota_settings *before = reader->settings;
    for (size_t i = 0; i < before->n_options; i++) {
        const struct rota_option *option = &before->options[i];
        if (before->origins[i].place <= ROTA_SETTINGS_FILE)
            continue;
        void *field = field_of(made->values, option);
        memcpy(field, field_of(before->values, option), rota_option_size(option->type));
        made->origins[i] = before->origins[i];
        const char **text = option->type == ROTA_OPTION_TEXT ? field : NULL;
        if (text && *text && !(*text = rota_arena_copy(&made->arena, rota_str(*text)).data))
            return no_memory(reader);
    }
    return ROTA_OK;
}

/* How many bytes of the caller's struct the options describe. */
static size_t values_size(const struct rota_settings *settings)
{
    size_t size = 0;
    for (size_t i = 0; i < settings->n_options; i++) {
        size_t end = settings->options[i].offset + rota_option_size(settings->options[i].type);
        if (end > size)
            size = end;
    }
    return size;
}

enum rota_code rota_settings_read(struct rota_settings *settings, struct rota_str text,
                                  const char *file, struct rota_error *error)
{
    struct reader reader = {.settings = settings, .file = file, .error = error};
    enum rota_code code = rota_config_text_parse(text, file, &reader.document, error);
    if (code)
        return code;
    size_t size = values_size(settings);
    reader.made = (struct rota_settings){
        .options = settings->options,
        .n_options = settings->n_options,
        .kinds = settings->kinds,
        .n_kinds = settings->n_kinds,
        .file = file,
    };
    reader.made.values = rota_arena_take(&reader.made.arena, size);
    if (reader.made.values) {
        memcpy(reader.made.values, settings->values, size);
        fill_defaults(settings->options, settings->n_options, reader.made.values);
        code = read_document(&reader);
    } else {
        code = no_memory(&reader);
    }
    if (!code)
        code = keep_higher(&reader);
    rota_config_text_deinit(&reader.document);
    if (code) {
        rota_arena_deinit(&reader.made.arena);
        return code;
    }
    memcpy(settings->values, reader.made.values, size);
    reader.made.values = settings->values;
    rota_arena_deinit(&settings->arena);
    *settings = reader.made;
    return ROTA_OK;
}

/* --- sections of the command line --- */

/* The section of the command line; NULL without memory. */
static struct rota_settings_section *need_section(struct rota_settings *settings,
                                                  const struct rota_settings_kind *kind)
{
    size_t n = settings->n_sections;
    for (size_t i = 0; i < n; i++)
        if (settings->sections[i].kind == kind && settings->sections[i].line == 0)
            return &settings->sections[i];
    struct rota_settings_section *sections =
        rota_arena_take(&settings->arena, (n + 1) * sizeof *sections);
    void *values = rota_arena_take(&settings->arena, kind->size);
    if (!sections || !values)
        return NULL;
    if (n > 0)
        memcpy(sections, settings->sections, n * sizeof *sections);
    memset(values, 0, kind->size);
    fill_defaults(kind->options, kind->n_options, values);
    sections[n] = (struct rota_settings_section){.kind = kind, .values = values};
    settings->sections = sections;
    settings->n_sections++;
    return &sections[n];
}

static const struct rota_settings_kind *find_kind(const struct rota_settings *settings,
                                                  struct rota_str name)
{
    for (size_t i = 0; i < settings->n_kinds; i++)
        if (rota_str_is_equal(name, rota_str(settings->kinds[i].name)))
            return &settings->kinds[i];
    return NULL;
}

static enum rota_code add_word(struct rota_settings *settings, const char *word,
                               struct rota_error *error)
{
    size_t size = strcspn(word, "="), dot = strcspn(word, ".=");
    const struct rota_settings_kind *kind = find_kind(settings, rota_str_of(word, dot));
    struct rota_str key = dot < size ? rota_str_of(word + dot + 1, size - dot - 1) : rota_str("");
    const struct rota_option *option =
        kind ? find_option(kind->options, kind->n_options, key) : NULL;
    struct rota_error why;
    if (!option || !word[size])
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "--set %.80s: not a setting of a section; write it as in cache.shards=4", word);
    struct rota_settings_section *section = need_section(settings, kind);
    struct rota_str text = rota_arena_copy(&settings->arena, rota_str(word + size + 1));
    if (!section || !text.data)
        return rota_error_no_memory(error, "for the settings");
    return rota_option_parse_value(option, text, field_of(section->values, option), &why)
               ? rota_error_set(error, ROTA_ERR_INVALID, "--set %.*s: %s", (int)size, word,
                                why.text)
               : ROTA_OK;
}

enum rota_code rota_settings_add(struct rota_settings *settings, const char *const *words, size_t n,
                                 struct rota_error *error)
{
    for (size_t i = 0; i < n; i++) {
        enum rota_code code = add_word(settings, words[i], error);
        if (code)
            return code;
    }
    for (size_t i = 0; i < settings->n_sections; i++) {
        const struct rota_settings_section *section = &settings->sections[i];
        const char *missing = find_missing(section->kind, section->values);
        if (missing)
            return rota_error_set(error, ROTA_ERR_INVALID, "--set %s.%s=... is missing",
                                  section->kind->name, missing);
    }
    return ROTA_OK;
}

/* --- printing --- */

/* Append what follows the password, with stars for values whose name means a password. */
static void append_rest(struct rota_buffer *shown, const char *rest)
{
    static const char *const SECRETS[] = {"password", "secret"};
    size_t size = strcspn(rest, "?");
    rota_buffer_append(shown, rest, size);
    for (rest += size; *rest; rest += size) {
        size = 1 + strcspn(rest + 1, "&");
        const char *equals = memchr(rest, '=', size);
        bool is_secret = false;
        for (size_t i = 0; equals && i < sizeof SECRETS / sizeof SECRETS[0]; i++)
            is_secret |=
                memmem(rest, (size_t)(equals - rest), SECRETS[i], strlen(SECRETS[i])) != NULL;
        rota_buffer_append(shown, rest, is_secret ? (size_t)(equals + 1 - rest) : size);
        rota_buffer_append_text(shown, is_secret ? "***" : "");
    }
}

/* The password of a URL becomes three stars. It ends at the last '@', so that a user who forgot
 * to encode one, or a slash before it, does not see the rest of it shown. */
static void print_text(const char *text, struct rota_buffer *buffer)
{
    const char *user = strstr(text, "://");
    const char *at = user ? strrchr(user + 3, '@') : NULL;
    const char *colon = at ? memchr(user + 3, ':', (size_t)(at - user) - 3) : NULL;
    struct rota_buffer shown = {0};
    rota_buffer_append(&shown, text, colon ? (size_t)(colon + 1 - text) : 0);
    rota_buffer_append_text(&shown, colon ? "***" : "");
    if (user)
        append_rest(&shown, colon ? at : text);
    else
        rota_buffer_append_text(&shown, text);
    char piece[ROTA_QUOTE_PIECE_MAX];
    rota_buffer_append_char(buffer, '"');
    for (struct rota_str rest = rota_buffer_str(&shown); rest.size > 0;)
        rota_buffer_append(buffer, piece, rota_quote_next(&rest, piece));
    rota_buffer_append_char(buffer, '"');
    rota_buffer_deinit(&shown);
}

static void print_value(const struct rota_option *option, const void *field,
                        struct rota_buffer *buffer)
{
    char text[ROTA_TIME_TEXT_MAX];
    switch (option->type) {
    case ROTA_OPTION_FLAG:
        rota_buffer_append_text(buffer, *(const bool *)field ? "true" : "false");
        return;
    case ROTA_OPTION_INT:
        rota_buffer_print(buffer, "%lld", (long long)*(const int64_t *)field);
        return;
    case ROTA_OPTION_SPAN:
        rota_buffer_print(buffer, "\"%s\"", rota_span_format(*(const rota_time *)field, text));
        return;
    case ROTA_OPTION_TIME:
        rota_buffer_print(buffer, "\"%s\"", rota_time_format(*(const rota_time *)field, text));
        return;
    case ROTA_OPTION_TEXT:
        print_text(*(const char *const *)field, buffer);
        return;
    case ROTA_OPTION_CHOICE:
        rota_buffer_print(buffer, "\"%s\"", option->choices[*(const int *)field]);
        return;
    case ROTA_OPTION_LIST:
        return;
    }
}

char *rota_settings_where(const struct rota_settings *settings, const char *name,
                          char text[ROTA_SETTINGS_WHERE_MAX])
{
    const struct rota_option *option =
        find_option(settings->options, settings->n_options, rota_str(name));
    char variable[ROTA_SETTINGS_VARIABLE_MAX];
    assert(option);
    struct rota_settings_origin origin = settings->origins[option - settings->options];
    switch (origin.place) {
    case ROTA_SETTINGS_DEFAULT:
        snprintf(text, ROTA_SETTINGS_WHERE_MAX, "%s", name);
        break;
    case ROTA_SETTINGS_FILE:
        snprintf(text, ROTA_SETTINGS_WHERE_MAX, "%.300s:%u: %s", settings->file, origin.line, name);
        break;
    case ROTA_SETTINGS_ENVIRONMENT:
        snprintf(text, ROTA_SETTINGS_WHERE_MAX, "%s", rota_settings_variable(option, variable));
        break;
    case ROTA_SETTINGS_COMMAND_LINE:
        snprintf(text, ROTA_SETTINGS_WHERE_MAX, "--%s", name);
        break;
    }
    return text;
}

static void print_origin(const struct rota_option *option, struct rota_settings_origin origin,
                         const char *file, struct rota_buffer *buffer)
{
    char variable[ROTA_SETTINGS_VARIABLE_MAX];
    switch (origin.place) {
    case ROTA_SETTINGS_DEFAULT:
        rota_buffer_append_text(buffer, " # the default\n");
        return;
    case ROTA_SETTINGS_FILE:
        rota_buffer_print(buffer, " # %s:%u\n", file, origin.line);
        return;
    case ROTA_SETTINGS_ENVIRONMENT:
        rota_buffer_print(buffer, " # %s\n", rota_settings_variable(option, variable));
        return;
    case ROTA_SETTINGS_COMMAND_LINE:
        rota_buffer_print(buffer, " # --%s\n", option->name);
        return;
    }
}

void rota_settings_print(const struct rota_settings *settings, const char *file,
                         struct rota_buffer *buffer)
{
    for (size_t i = 0; i < settings->n_options; i++) {
        const struct rota_option *option = &settings->options[i];
        const void *field = field_of(settings->values, option);
        rota_buffer_print(buffer, "%s%s = ", is_set(option, field) ? "" : "# ", option->name);
        if (is_set(option, field))
            print_value(option, field, buffer);
        else
            rota_buffer_append_text(buffer, "\"\"");
        print_origin(option, settings->origins[i], file, buffer);
    }
    for (size_t i = 0; i < settings->n_sections; i++) {
        const struct rota_settings_section *section = &settings->sections[i];
        rota_buffer_print(buffer, "\n[[%s]] # ", section->kind->name);
        if (section->line > 0)
            rota_buffer_print(buffer, "%s:%u\n", file, section->line);
        else
            rota_buffer_append_text(buffer, "--set\n");
        for (size_t k = 0; k < section->kind->n_options; k++) {
            const struct rota_option *option = &section->kind->options[k];
            const void *field = field_of(section->values, option);
            if (!is_set(option, field))
                continue;
            rota_buffer_print(buffer, "%s = ", option->name);
            print_value(option, field, buffer);
            rota_buffer_append_char(buffer, '\n');
        }
    }
}
