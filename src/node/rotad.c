/* rotad: one node of a cluster. */
#include "base/command.h"
#include "base/json.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/memory.h"
#include "io/notify.h"
#include "node/node.h"
#include "wire/text/config_text.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_NO = 1, EXIT_BAD = 2 };

static const char *const EXIT_CODES[] = {
    [0] = "the node stopped as requested, or the settings are valid",
    [EXIT_NO] = "the node could not start or continue; see standard error",
    [EXIT_BAD] =
        "the command line, the environment or the file is invalid; nothing was started or created",
};

/* --- the command line --- */

struct words {
    struct rota_node_settings settings;
    const char *config;
    struct rota_option_list set;
    bool check_config, print_config, version;
};

static const struct rota_option OWN_OPTIONS[] = {
    {.name = "config",
     ROTA_OPTION_INTO(TEXT, struct words, config),
     .value_name = "FILE",
     .help = "read settings from this file"},
    {.name = "set",
     ROTA_OPTION_INTO(LIST, struct words, set),
     .value_name = "KIND.NAME=VALUE",
     .help = "a setting of a [[KIND]] section, such as cache.shards=4; repeat for more settings of "
             "the section"},
    {.name = "check-config",
     ROTA_OPTION_INTO(FLAG, struct words, check_config),
     .help = "check the settings and exit"},
    {.name = "print-config",
     ROTA_OPTION_INTO(FLAG, struct words, print_config),
     .help = "print the settings in force and where each comes from, and exit"},
    {.name = "version", ROTA_OPTION_INTO(FLAG, struct words, version), .help = "print the version"},
};

enum { N_OWN = sizeof OWN_OPTIONS / sizeof OWN_OPTIONS[0] };

static struct rota_option options[N_OWN + ROTA_SETTINGS_OPTIONS_MAX];

static const struct rota_command *rotad_command(void)
{
    static struct rota_command command = {
        .program = "rotad",
        .summary = "Run one node of a cluster",
        .description =
            "Runs until stopped. Prints `ready grpc=ADDRESS zmq=ADDRESS http=ADDRESS` when it is "
            "ready, and logs to standard error. Settings come from the file, the environment "
            "(ROTA_LISTEN for --listen) and the command line; later ones override earlier ones. "
            "Sections of the file, such as [[cache]], can be given with --set. Without any "
            "settings "
            "it keeps everything in ./rota-data.\n\nSIGTERM and SIGINT drain "
            "the node: it accepts no new work, hands over what it has, waits for running work up "
            "to --drain-limit, and leaves the cluster; a second signal ends it at once. SIGHUP "
            "reloads the file; an invalid file changes nothing.",
        .options = options,
        .examples = "rotad --data /var/lib/rota --listen 127.0.0.1:7700\n"
                    "rotad --config /etc/rota/rotad.toml --check-config\n",
    };
    memcpy(options, OWN_OPTIONS, sizeof OWN_OPTIONS);
    memcpy(options + N_OWN, rota_node_options, rota_node_n_options * sizeof options[0]);
    command.n_options = N_OWN + rota_node_n_options;
    return &command;
}

static int fail_with(int code, const char *text)
{
    fprintf(stderr, "rotad: %s\n", text);
    return code;
}

/* The words were parsed once, so they are valid; now they are applied by name. */
static enum rota_code take_words(struct rota_settings *settings, int argc, char *const *argv,
                                 struct rota_error *error)
{
    for (int i = 1; i < argc; i++) {
        char name[64];
        const char *word = argv[i] + 2;
        size_t size = strcspn(word, "=");
        snprintf(name, sizeof name, "%.*s", (int)size, word);
        size_t k = 0;
        while (k < rotad_command()->n_options && strcmp(options[k].name, name) != 0)
            k++;
        bool is_flag = options[k].type == ROTA_OPTION_FLAG;
        const char *value = word[size] == '=' ? word + size + 1 : is_flag ? "true" : argv[++i];
        if (k < N_OWN)
            continue;
        enum rota_code code =
            rota_settings_set(settings, name, value, ROTA_SETTINGS_COMMAND_LINE, error);
        if (code)
            return code;
    }
    return ROTA_OK;
}

static enum rota_code take_environment(struct rota_settings *settings, struct rota_error *error)
{
    char name[ROTA_SETTINGS_VARIABLE_MAX];
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < rota_node_n_options; i++) {
        const char *value = getenv(rota_settings_variable(&rota_node_options[i], name));
        if (value)
            code = rota_settings_set(settings, rota_node_options[i].name, value,
                                     ROTA_SETTINGS_ENVIRONMENT, error);
    }
    return code;
}

static enum rota_code take_file(struct rota_settings *settings, const char *path,
                                struct rota_error *error)
{
    struct rota_buffer content = {0};
    enum rota_code code = rota_file_read(path, ROTA_CONFIG_TEXT_MAX, &content, error);
    if (!code)
        code = rota_settings_read(settings, rota_buffer_str(&content), path, error);
    rota_buffer_deinit(&content);
    return code;
}

static enum rota_code take_all(struct rota_settings *settings, const struct words *words, int argc,
                               char *const *argv, struct rota_error *error)
{
    enum rota_code code = take_environment(settings, error);
    if (!code)
        code = take_words(settings, argc, argv, error);
    if (!code && words->config)
        code = take_file(settings, words->config, error);
    if (!code)
        code = rota_settings_add(settings, words->set.items, words->set.size, error);
    return code ? code : rota_node_settings_check(settings, error);
}

/* --- a temporary data directory --- */

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

/* Make one if the settings name none; `path` is "" otherwise. */
static enum rota_code make_directory(struct rota_settings *settings, char path[PATH_MAX],
                                     struct rota_error *error)
{
    struct rota_node_settings *values = settings->values;
    const char *parent = getenv("TMPDIR");
    path[0] = '\0';
    if (values->data[0])
        return ROTA_OK;
    snprintf(path, PATH_MAX, "%.4000s/rotad-XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (!mkdtemp(path))
        return rota_error_set(error, ROTA_ERR_IO, "cannot create the directory %.1000s: %s", path,
                              strerror(errno));
    values->data = path;
    values->is_temporary = true;
    return ROTA_OK;
}

/* --- the process --- */

struct process {
    uv_loop_t loop;
    uv_signal_t signals[3];
    uv_timer_t watchdog;
    const struct words *words;
    int argc;
    char *const *argv;
    struct rota_settings settings;
    struct rota_log log;
    struct rota_node *node;
    char directory[PATH_MAX]; /* temporary; "": none */
    int exit_code;
};

static void write_log(void *data, struct rota_str line)
{
    (void)data;
    fwrite(line.data, 1, line.size, stderr);
}

static void on_ready(void *data, const char *line)
{
    (void)data;
    puts(line);
    fflush(stdout);
    rota_notify("READY=1");
}

static void on_ended(void *data, bool has_failed)
{
    struct process *process = data;
    process->exit_code = has_failed ? EXIT_NO : 0;
    for (size_t i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&process->signals[i], NULL);
    uv_close((uv_handle_t *)&process->watchdog, NULL);
}

/* --- signals --- */

static void on_stop(uv_signal_t *signal, int number)
{
    struct process *process = signal->data;
    (void)number;
    rota_notify("STOPPING=1");
    rota_node_stop(process->node);
}

static enum rota_code read_again(struct process *process, struct rota_error *error)
{
    struct rota_node_settings values = {0};
    struct rota_settings fresh;
    rota_settings_init(&fresh, rota_node_options, rota_node_n_options, rota_node_kinds,
                       rota_node_n_kinds, &values);
    enum rota_code code = take_all(&fresh, process->words, process->argc, process->argv, error);
    if (process->directory[0]) /* as it was made */
        values.data = process->directory;
    if (!code)
        code = rota_node_reload(process->node, &fresh, error);
    rota_settings_deinit(&fresh);
    return code;
}

static void on_reload(uv_signal_t *signal, int number)
{
    struct process *process = signal->data;
    const struct rota_node_settings *settings = process->settings.values;
    struct rota_error error;
    char text[64];
    (void)number;
    if (rota_node_state(process->node) >= ROTA_NODE_STOPPING)
        return;
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(uv_hrtime() / 1000));
    rota_notify(text);
    if (read_again(process, &error)) {
        rota_log(&process->log, rota_clock_wall(), ROTA_LOG_ERROR, "settings not reloaded",
                 ROTA_LOG_FACT("error", error.text));
        rota_node_note_unread(process->node, &error);
    } else {
        rota_log(&process->log, rota_clock_wall(), ROTA_LOG_INFO, "settings reloaded",
                 ROTA_LOG_NO_FACTS);
    }
    process->log.level = (enum rota_log_level)settings->log_level;
    rota_notify("READY=1");
}

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    rota_notify_alive();
}

/* A loop that hangs sends no watchdog message, and the service manager ends it. */
static void open_signals(struct process *process)
{
    static const struct {
        int number;
        uv_signal_cb on_signal;
    } SIGNALS[] = {{SIGTERM, on_stop}, {SIGINT, on_stop}, {SIGHUP, on_reload}};
    rota_time every = rota_notify_watchdog() / 2;
    for (size_t i = 0; i < 3; i++) {
        uv_signal_init(&process->loop, &process->signals[i]);
        process->signals[i].data = process;
        uv_signal_start(&process->signals[i], SIGNALS[i].on_signal, SIGNALS[i].number);
    }
    uv_timer_init(&process->loop, &process->watchdog);
    if (every > 0)
        uv_timer_start(&process->watchdog, on_watchdog, 0, (uint64_t)(every / ROTA_MSEC) + 1);
}

static int run_node(struct process *process)
{
    struct rota_error error;
    const struct rota_node_settings *settings = process->settings.values;
    process->log =
        (struct rota_log){.level = (enum rota_log_level)settings->log_level, .write = write_log};
    signal(SIGXFSZ, SIG_IGN); /* a write beyond `ulimit -f` fails like one to a full disk */
    if (make_directory(&process->settings, process->directory, &error))
        return fail_with(EXIT_NO, error.text);
    if (uv_loop_init(&process->loop))
        return fail_with(EXIT_NO, "no event loop");
    struct rota_node_options node = {.settings = &process->settings,
                                     .log = &process->log,
                                     .on_ready = on_ready,
                                     .on_ended = on_ended,
                                     .data = process};
    if (rota_node_open(&process->loop, &node, &process->node, &error)) {
        process->exit_code = fail_with(EXIT_NO, error.text);
    } else {
        open_signals(process);
        uv_run(&process->loop, UV_RUN_DEFAULT);
    }
    uv_loop_close(&process->loop);
    if (process->directory[0])
        nftw(process->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return process->exit_code;
}

static int print_settings(const struct process *process)
{
    struct rota_buffer buffer = {0};
    rota_settings_print(&process->settings, process->words->config ? process->words->config : "",
                        &buffer);
    fwrite(buffer.data, 1, buffer.size, stdout);
    rota_buffer_deinit(&buffer);
    return fflush(stdout) ? fail_with(EXIT_NO, "cannot write to standard output") : 0;
}

static int print_help(void)
{
    enum { WIDTH = 80 };
    struct rota_buffer buffer = {0};
    rota_command_format_help(rotad_command(), WIDTH, &buffer);
    fwrite(buffer.data, 1, buffer.size, stdout);
    rota_buffer_deinit(&buffer);
    return fflush(stdout) ? EXIT_NO : 0;
}

/* The table of options, like `rota help --json`: for share/. */
static int help_json(void)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "program", rotad_command()->program);
    rota_json_add_text(&json, "version", ROTA_VERSION);
    rota_json_add_array(&json, "exit_codes");
    for (size_t i = 0; i < sizeof EXIT_CODES / sizeof EXIT_CODES[0]; i++)
        rota_json_text(&json, EXIT_CODES[i]);
    rota_json_end_array(&json);
    rota_json_add_array(&json, "commands");
    rota_command_format_json(rotad_command(), &json);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(&buffer, '\n');
    fwrite(buffer.data, 1, buffer.size, stdout);
    bool has_failed = buffer.failed;
    rota_buffer_deinit(&buffer);
    return has_failed || fflush(stdout) ? EXIT_NO : 0;
}

int main(int argc, char **argv)
{
    struct words words = {0};
    struct rota_option_list none;
    struct rota_error error;
    struct rota_node_settings values = {0};
    struct process process = {.words = &words, .argc = argc, .argv = argv};
    rota_memory_set_up();
    if (argc == 3 && strcmp(argv[1], "help") == 0 && strcmp(argv[2], "--json") == 0)
        return help_json();
    switch (rota_command_parse(rotad_command(), argc - 1, argv + 1, &words, &none, &error)) {
    case ROTA_COMMAND_RUN:
        break;
    case ROTA_COMMAND_HELP:
        return print_help();
    case ROTA_COMMAND_REFUSED:
        return fail_with(EXIT_BAD, error.text);
    }
    if (words.version) {
        puts("rotad " ROTA_VERSION);
        return 0;
    }
    rota_settings_init(&process.settings, rota_node_options, rota_node_n_options, rota_node_kinds,
                       rota_node_n_kinds, &values);
    int code = EXIT_BAD;
    if (take_all(&process.settings, &words, argc, argv, &error))
        fail_with(code, error.text);
    else if (words.print_config)
        code = print_settings(&process);
    else if (words.check_config)
        code = 0;
    else
        code = run_node(&process);
    rota_settings_deinit(&process.settings);
    return code;
}
