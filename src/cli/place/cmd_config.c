/* rota config: a configuration file as Rota reads it, and the settings that apply to a queue. */
#include "base/json.h"
#include "base/quote.h"
#include "cli/cli.h"
#include "cli/watch.h"
#include "cli/work/queue_options.h"
#include "wire/text/config_text.h"
#include <rota/experimental/config_watch.h>

#include <rota/experimental/config.h>
#include <stdio.h>

struct config {
    const char *namespace_id, *queue;
    int type; /* enum rota_task_type */
    bool json;
    int output;
};

#define QUEUE_OPTIONS                                                                              \
    {.name = "namespace",                                                                          \
     ROTA_OPTION_INTO(TEXT, struct config, namespace_id),                                          \
     .value_name = "NS",                                                                           \
     .default_text = "default",                                                                    \
     .help = "namespace of the queue"},                                                            \
        {.name = "queue",                                                                          \
         ROTA_OPTION_INTO(TEXT, struct config, queue),                                             \
         .value_name = "NAME",                                                                     \
         .is_required = true,                                                                      \
         .help = "name of the queue"},                                                             \
    {                                                                                              \
        .name = "type", ROTA_OPTION_INTO(CHOICE, struct config, type), .value_name = "TYPE",       \
        .choices = rota_task_type_names, .default_text = "workflow", .help = "type of the queue"   \
    }

static const struct rota_option CHECK_OPTIONS[] = {
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct config, json), .help = "print JSON"},
    ROTA_TABLE_OPTION(struct config, output),
};

static const struct rota_option SHOW_OPTIONS[] = {
    QUEUE_OPTIONS,
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct config, json), .help = "print JSON"},
    ROTA_TABLE_OPTION(struct config, output),
};

static const struct rota_option WATCH_OPTIONS[] = {
    QUEUE_OPTIONS,
    {.name = "json",
     ROTA_OPTION_INTO(FLAG, struct config, json),
     .help = "print one JSON object per line"},
};

/* --- a setting and where it comes from --- */

static void append_scope(struct rota_buffer *buffer, const struct rota_config_scope *scope)
{
    char quoted[ROTA_QUOTE_MAX];
    if (!scope->has_namespace && !scope->has_queue && !scope->has_type) {
        rota_buffer_append_text(buffer, "whole file");
        return;
    }
    const char *comma = "";
    if (scope->has_namespace) {
        rota_buffer_print(buffer, "namespace %s", rota_quote(scope->namespace_id, quoted));
        comma = ", ";
    }
    if (scope->has_queue) {
        rota_buffer_print(buffer, "%squeue %s", comma, rota_quote(scope->queue, quoted));
        comma = ", ";
    }
    if (scope->has_type)
        rota_buffer_print(buffer, "%stype %s", comma, rota_task_type_name(scope->type));
}

/* "line 5: queue "orders"" */
static void append_source(struct rota_buffer *buffer, const struct rota_config_origin *origin)
{
    if (origin->line == 0) {
        rota_buffer_append_text(buffer, "default");
        return;
    }
    rota_buffer_print(buffer, "line %u: ", origin->line);
    append_scope(buffer, &origin->scope);
}

static void add_value(struct rota_json *json, const char *key, enum rota_setting setting,
                      int64_t value)
{
    const struct rota_setting_info *info = rota_setting_info(setting);
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_key(json, key);
    switch (info->type) {
    case ROTA_SETTING_INTEGER:
        rota_json_int(json, value);
        break;
    case ROTA_SETTING_CHOICE:
        rota_json_text(json, info->choices[value]);
        break;
    case ROTA_SETTING_SPAN:
        rota_json_text(json, rota_span_format(value, text));
        break;
    }
}

static void add_scope(struct rota_json *json, const struct rota_config_scope *scope)
{
    rota_json_add_object(json, "scope");
    if (scope->has_namespace)
        rota_json_add_string(json, "namespace", scope->namespace_id);
    if (scope->has_queue)
        rota_json_add_string(json, "queue", scope->queue);
    if (scope->has_type)
        rota_json_add_text(json, "type", rota_task_type_name(scope->type));
    rota_json_end_object(json);
}

/* The members of a setting's object. */
static void add_setting(struct rota_json *json, enum rota_setting setting,
                        const struct rota_config_origin *origin)
{
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_add_text(json, "setting", rota_setting_info(setting)->name);
    add_value(json, "value", setting, origin->value.new_value);
    if (origin->value.start != 0) {
        add_value(json, "old", setting, origin->value.old_value);
        rota_json_add_text(json, "start", rota_time_format(origin->value.start, text));
        rota_json_add_text(json, "end", rota_time_format(origin->value.end, text));
    }
    rota_json_key(json, "line");
    if (origin->line == 0) {
        rota_json_null(json);
        return;
    }
    rota_json_uint(json, origin->line);
    add_scope(json, &origin->scope);
}

static void append_settings(struct rota_buffer *buffer, const struct rota_config_origin *origins)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "settings");
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        rota_json_begin_object(&json);
        add_setting(&json, (enum rota_setting)i, &origins[i]);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* The same for the table, with the value and its source as texts. */
static const struct rota_table_column COLUMNS[] = {
    {"SETTING", "setting", ROTA_TABLE_NAME, false},
    {"VALUE", "value", ROTA_TABLE_NAME, false},
    {"SOURCE", "source", ROTA_TABLE_TEXT, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF("settings", COLUMNS);

static void append_rows(struct rota_buffer *buffer, const struct rota_config_origin *origins)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "settings");
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        char text[ROTA_SETTING_TEXT_MAX];
        struct rota_buffer source = {0};
        append_source(&source, &origins[i]);
        rota_json_begin_object(&json);
        rota_json_add_text(&json, "setting", rota_setting_info((enum rota_setting)i)->name);
        rota_json_add_text(&json, "value",
                           rota_setting_format((enum rota_setting)i, &origins[i].value, text));
        rota_json_add_string(&json, "source", rota_buffer_str(&source));
        rota_json_end_object(&json);
        buffer->failed |= source.failed;
        rota_buffer_deinit(&source);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
}

/* --- check and show --- */

static enum rota_code read_config(const char *path, struct rota_config **config,
                                  struct rota_error *error)
{
    struct rota_buffer content;
    if (!path[0])
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the name of the configuration file is empty");
    enum rota_code code = rota_cli_read_file(path, ROTA_CONFIG_TEXT_MAX, &content, error);
    if (code)
        return code;
    code = rota_config_parse(rota_buffer_str(&content), rota_cli_file_name(path), config, error);
    rota_buffer_deinit(&content);
    return code;
}

/* The settings that apply to the queue named in the options. */
static void explain(const struct rota_config *config, const struct config *options,
                    struct rota_config_origin origins[ROTA_SETTINGS])
{
    rota_config_explain(config, rota_str(options->namespace_id), rota_str(options->queue),
                        (enum rota_task_type)options->type, origins);
}

static int show(const struct rota_cli_command *command, int argc, char *const *argv)
{
    struct config options = {0};
    struct rota_option_list arguments;
    struct rota_config_origin origins[ROTA_SETTINGS];
    struct rota_buffer buffer = {0};
    struct rota_config *config = NULL;
    struct rota_error error;
    int code;

    if (!rota_cli_parse(command, argc, argv, &options, &arguments, &code))
        return code;
    if ((options.queue && rota_queue_options_check(command->command.name, options.namespace_id,
                                                   options.queue, &error)) ||
        read_config(arguments.items[0], &config, &error))
        return rota_cli_fail_error(&error);
    if (options.queue)
        explain(config, &options, origins);
    else
        rota_config_explain(config, rota_str(""), rota_str(""), ROTA_TASK_UNSPECIFIED, origins);
    bool is_json = options.json || options.output == ROTA_TABLE_JSON;
    if (is_json)
        append_settings(&buffer, origins);
    else
        append_rows(&buffer, origins);
    rota_config_unref(config); /* owns what the origins point to */
    return is_json ? rota_cli_print(&buffer) : rota_cli_answer(command, options.output, &buffer);
}

static int run_check(int argc, char *const *argv)
{
    return show(&rota_cmd_config_check, argc, argv);
}

const struct rota_cli_command rota_cmd_config_check = {
    .command =
        {
            .name = "config check",
            .summary = "Check a file of dynamic settings and show its defaults",
            .arguments = "FILE",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Prints a row per setting: its name, its value for queues without an override, and "
                "the source. An invalid file is reported with the line number, exit code "
                "2.\n\nWith --json: {\"settings\": [{\"setting\", \"value\", \"line\", "
                "\"scope\"}]}; a gradual change also has \"old\", \"start\" and \"end\". The line "
                "is null for a default.",
            .options = CHECK_OPTIONS,
            .n_options = sizeof CHECK_OPTIONS / sizeof *CHECK_OPTIONS,
            .examples = "rota config check rota.toml\n",
        },
    .table = &TABLE,
    .run = run_check,
};

static int run_show(int argc, char *const *argv)
{
    return show(&rota_cmd_config_show, argc, argv);
}

const struct rota_cli_command rota_cmd_config_show = {
    .command =
        {
            .name = "config show",
            .summary = "Show the settings of a queue and where they come from",
            .arguments = "FILE",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Prints a row per setting: its name, its value for this queue, and the source: the "
                "line in the file and the scope of the override, or `default`. For each setting "
                "the most specific override wins.\n\nWith --json: the same document as `config "
                "check`.",
            .options = SHOW_OPTIONS,
            .n_options = sizeof SHOW_OPTIONS / sizeof *SHOW_OPTIONS,
            .examples =
                "rota config show rota.toml --namespace ns --queue orders --type activity\n",
        },
    .table = &TABLE,
    .run = run_show,
};

/* --- watch --- */

struct config_watch {
    struct rota_watch watch;
    const char *path;
    const struct config *options;
    struct rota_config_watch *source;
    bool has_values; /* the first time there is nothing to compare with */
    struct rota_gradual values[ROTA_SETTINGS];
};

static bool is_same(const struct rota_gradual *a, const struct rota_gradual *b)
{
    return a->old_value == b->old_value && a->new_value == b->new_value && a->start == b->start &&
           a->end == b->end;
}

static void tell_setting(struct config_watch *watch, enum rota_setting setting,
                         const struct rota_config_origin *origin)
{
    rota_watch_begin(&watch->watch, "set");
    if (watch->watch.is_json) {
        add_setting(&watch->watch.json, setting, origin);
    } else {
        rota_buffer_append_char(&watch->watch.line, '\t');
        char text[ROTA_SETTING_TEXT_MAX];
        rota_buffer_print(&watch->watch.line, "%s\t%s\t", rota_setting_info(setting)->name,
                          rota_setting_format(setting, &origin->value, text));
        append_source(&watch->watch.line, origin);
    }
    rota_watch_end(&watch->watch);
}

static void on_change(void *data, const struct rota_config *config)
{
    struct config_watch *watch = data;
    struct rota_config_origin origins[ROTA_SETTINGS];

    explain(config, watch->options, origins);
    for (int i = 0; i < ROTA_SETTINGS && !watch->watch.is_failed; i++) {
        if (!watch->has_values || !is_same(&origins[i].value, &watch->values[i]))
            tell_setting(watch, (enum rota_setting)i, &origins[i]);
        watch->values[i] = origins[i].value;
    }
    watch->has_values = true;
}

static void on_error(void *data, const struct rota_error *error)
{
    rota_watch_refuse(&((struct config_watch *)data)->watch, error);
}

static enum rota_code open_watch(struct rota_watch *base, struct rota_error *error)
{
    struct config_watch *watch = (struct config_watch *)base;
    struct rota_config_watch_options options = {
        .path = watch->path, .on_error = on_error, .data = watch};
    enum rota_code code = rota_config_watch_open(base->loop, &options, &watch->source, error);
    if (code)
        return code;
    struct rota_config *config = rota_config_watch_get(watch->source);
    on_change(watch, config);
    rota_config_unref(config);
    return rota_config_watch_subscribe(watch->source, "rota config watch", on_change, watch, error);
}

static void close_watch(struct rota_watch *base)
{
    rota_config_watch_close(((struct config_watch *)base)->source);
}

static int run_watch(int argc, char *const *argv)
{
    struct config options = {0};
    struct rota_option_list arguments;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_config_watch, argc, argv, &options, &arguments, &code))
        return code;
    if (rota_queue_options_check("config watch", options.namespace_id, options.queue, &error))
        return rota_cli_fail_error(&error);
    struct config_watch watch = {.path = arguments.items[0], .options = &options};
    return rota_watch_command(&watch.watch, options.json, open_watch, close_watch);
}

const struct rota_cli_command rota_cmd_config_watch = {
    .command =
        {
            .name = "config watch",
            .summary = "Report changes of a queue's settings as the file changes",
            .arguments = "FILE",
            .min_arguments = 1,
            .max_arguments = 1,
            .description = "Prints all settings of the queue, and then each change, until "
                           "interrupted: the time, `set`, and the values of `config show`. If the "
                           "file becomes invalid or unreadable, that is reported as `refused` with "
                           "the reason, and the settings stay as they were.\n\nWith --json: "
                           "{\"time\", \"event\": \"set\", \"setting\", \"value\", \"line\", "
                           "\"scope\"} or {\"time\", \"event\": \"refused\", \"error\"} per line.",
            .options = WATCH_OPTIONS,
            .n_options = sizeof WATCH_OPTIONS / sizeof *WATCH_OPTIONS,
            .examples = "rota config watch rota.toml --queue orders\n",
        },
    .run = run_watch,
};
