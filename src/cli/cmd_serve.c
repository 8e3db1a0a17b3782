/* rota broker, rota cache serve: short names for `rotad` with one role.
 *
 * The command line becomes that of rotad, which then replaces this process: there is only one
 * server program. */
#include "cli/cli.h"
#include "demo/up.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 256, NAMES_MAX = 16, PRESETS_MAX = 8 };

/* An option that has another name in rotad; one with a dot is a setting of a section. */
struct name {
    const char *here, *there;
    bool is_flag;
};

/* A default that differs from rotad's: an environment variable, or a setting of a section. */
struct preset {
    const char *name, *value;
};

struct server {
    const struct rota_cli_command *command;
    const char *role;
    const struct name names[NAMES_MAX];
    const struct preset presets[PRESETS_MAX];
};

/* The command line of rotad. */
struct line {
    char *words[WORDS_MAX + 1];
    size_t n;
    bool is_full;
};

__attribute__((format(printf, 2, 3))) static void add_word(struct line *line, const char *format,
                                                           ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (line->n == WORDS_MAX || vasprintf(&line->words[line->n], format, arguments) < 0)
        line->is_full = true;
    else
        line->n++;
    va_end(arguments);
}

/* Whether an argument begins with this. */
static bool has_word(const struct line *line, const char *start)
{
    for (size_t i = 0; i < line->n; i++)
        if (strncmp(line->words[i], start, strlen(start)) == 0)
            return true;
    return false;
}

static const struct name *find_name(const struct server *server, const char *word)
{
    size_t size = strcspn(word, "=");
    for (size_t i = 0; i < NAMES_MAX && server->names[i].here; i++)
        if (rota_str_is_equal(rota_str_of(word, size), rota_str(server->names[i].here)))
            return &server->names[i];
    return NULL;
}

/* Options that rotad knows, and those that it will reject, are passed on unchanged. */
static void translate(const struct server *server, int argc, char *const *argv, struct line *line)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *equals = strchr(word, '=');
        const struct name *name = strncmp(word, "--", 2) == 0 ? find_name(server, word + 2) : NULL;
        if (!name) {
            add_word(line, "%s", word);
        } else if (!strchr(name->there, '.')) {
            add_word(line, "--%s%s", name->there, equals ? equals : "");
        } else {
            const char *value = equals          ? equals + 1
                                : name->is_flag ? "true"
                                : i + 1 < argc  ? argv[++i]
                                                : "";
            add_word(line, "--set");
            add_word(line, "%s=%s", name->there, value);
        }
    }
}

static void add_presets(const struct server *server, struct line *line)
{
    for (size_t i = 0; i < PRESETS_MAX && server->presets[i].name; i++) {
        const struct preset *preset = &server->presets[i];
        if (!strchr(preset->name, '.')) {
            setenv(preset->name, preset->value, false);
        } else if (!has_word(line, preset->name)) {
            add_word(line, "--set");
            add_word(line, "%s=%s", preset->name, preset->value);
        }
    }
}

static int start_rotad(const struct server *server, int argc, char *const *argv)
{
    static struct line line; /* stays until the process is replaced */
    char rota[PATH_MAX], rotad[PATH_MAX];
    int code;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return rota_cli_parse(server->command, 1, &argv[i], NULL, NULL, &code) ? 0 : code;
    rota_up_find_programs(rota, rotad);
    add_word(&line, "%s", rotad);
    add_word(&line, "--roles=%s", server->role);
    translate(server, argc, argv, &line);
    add_presets(server, &line);
    if (line.is_full)
        return rota_cli_fail(ROTA_CLI_BAD, "more than %d words", WORDS_MAX);
    execvp(rotad, line.words);
    return rota_cli_fail(ROTA_CLI_NO,
                         "cannot start %s: %s; install rotad, or set ROTA_ROTAD to its path", rotad,
                         strerror(errno));
}

/* --- broker --- */

/* The value of an option; NULL: not given. */
static const char *value_of(int argc, char *const *argv, const char *option)
{
    size_t size = strlen(option);
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], option, size) != 0)
            continue;
        if (argv[i][size] == '=')
            return argv[i] + size + 1;
        if (!argv[i][size] && i + 1 < argc)
            return argv[i + 1];
    }
    return NULL;
}

/* With a store and without a directory, jobs are kept in the store; a journal needs a permanent
 * directory. */
static int run_broker(int argc, char *const *argv)
{
    static const struct server BROKER = {
        .command = &rota_cmd_broker,
        .role = "queue",
        .names = {{"tls-cert", "cert", false},
                  {"tls-key", "key", false},
                  {"tls-ca", "ca", false},
                  {"drain", "drain-limit", false}},
        .presets = {{"ROTA_HTTP", "127.0.0.1:0"}, {"ROTA_WORKERS", ""}},
    };
    const char *durability = value_of(argc, argv, "--durability");
    if (!durability && value_of(argc, argv, "--store") && !value_of(argc, argv, "--data"))
        setenv("ROTA_DURABILITY", durability = "store", false);
    if (durability && strcmp(durability, "journal") != 0)
        setenv("ROTA_DATA", "", false);
    return start_rotad(&BROKER, argc, argv);
}

const struct rota_cli_command rota_cmd_broker = {
    .command =
        {
            .name = "broker",
            .summary = "Start rotad with only the role queue",
            .description =
                "Replaces itself with `rotad --roles queue`, and takes the options of rotad "
                "(`rotad --help`). Prints `ready grpc=ADDRESS zmq=ADDRESS http=ADDRESS` when it is "
                "ready; zmq only with --workers. After a crash it recovers every acknowledged job "
                "from --data.\n\nThese differ from rotad: --http uses a free port of loopback, "
                "and there is no port for workers without --workers. With --store and without "
                "--data, jobs are kept in the store. "
                "With jobs in the store or in memory and without --data, the data directory is a "
                "temporary one. --tls-cert, --tls-key, --tls-ca and --drain are other names of "
                "--cert, --key, --ca and --drain-limit.",
            .examples = "rota broker --data jobs --listen 127.0.0.1:7700 --workers 127.0.0.1:7701\n"
                        "rota broker --durability memory\n",
        },
    .run = run_broker,
};

/* --- cache serve --- */

static int run_cache(int argc, char *const *argv)
{
    static const struct server CACHE = {
        .command = &rota_cmd_cache_serve,
        .role = "cache",
        .names = {{"space", "cache.name", false},
                  {"dc", "zone", false},
                  {"shards", "cache.shards", false},
                  {"source", "cache.source", false},
                  {"memory", "cache.memory", false},
                  {"keep", "cache.keep", false},
                  {"wanted", "cache.wanted", false},
                  {"loss", "cache.loss", false},
                  {"reshard", "cache.reshard", true},
                  {"drain", "drain-limit", false}},
        .presets = {{"ROTA_LISTEN", "127.0.0.1:0"},
                    {"ROTA_HTTP", "127.0.0.1:0"},
                    {"ROTA_DATA", ""},
                    {"cache.name", "cache"},
                    {"cache.wanted", "1"},
                    {"cache.loss", "abort"}},
    };
    return start_rotad(&CACHE, argc, argv);
}

const struct rota_cli_command rota_cmd_cache_serve = {
    .command =
        {
            .name = "cache serve",
            .summary = "Start rotad with only the role cache",
            .description =
                "Replaces itself with `rotad --roles cache`, and takes the options of rotad "
                "(`rotad --help`). It leases a shard of its data center and serves "
                "rota.v1.Cache/Get for the keys of that shard, and rota.v1.Cache/Relay for all "
                "keys, by asking the others. If no shard is free, it is a standby until one is. "
                "Prints `ready grpc=ADDRESS http=ADDRESS` when it serves.\n\nThe cache is one "
                "[[cache]] section: --source SOURCE, "
                "--shards N and --dc NAME (the zone); --space NAME [default: cache], "
                "--memory, --keep, --wanted N [1], --reshard, and --loss abort, exit or standby "
                "[abort], which says what to do when a shard is lost. "
                "--listen and --http use free ports of loopback, and --data a temporary directory, "
                "unless you give them; with --data DIR it reclaims its shards at once after a "
                "crash.\n\nThe source sql:TABLE reads the columns `key` and `value`, sql:TABLE:K:V "
                "the columns K and V. file:FILE has a key, a tab and a value per line, with the "
                "escapes \\t \\n \\r \\\\ and \\xHH. The file is read again when you move another "
                "one into its place; an invalid one changes nothing. A key has at most 4096 bytes, "
                "a value 16 MiB. docs/cache.md is a tour.",
            .examples =
                "rota cache serve --store sqlite:cache.db --dc east --shards 2 "
                "--source file:pairs\n"
                "ROTA_STORE=postgres://rota:secret@db/rota rota cache serve --dc west --shards 8 "
                "--source sql:users --listen 10.0.0.7:7600 --insecure\n",
        },
    .run = run_cache,
};
