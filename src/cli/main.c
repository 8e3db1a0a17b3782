/* rota: the command line. Finds the command in a table and runs it. */
#include "base/json.h"
#include "base/quote.h"
#include "base/spell.h"
#include "cli/cli.h"
#include "cli/terminal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct rota_cli_command *const COMMANDS[] = {
    &rota_cmd_up,
    &rota_cmd_top,
    &rota_cmd_events,
    &rota_cmd_ping,
    &rota_cmd_wait,
    &rota_cmd_node_list,
    &rota_cmd_node_show,
    &rota_cmd_node_drain,
    &rota_cmd_node_undrain,
    &rota_cmd_node_evict,
    &rota_cmd_node_members,
    &rota_cmd_node_heartbeat,
    &rota_cmd_node_remove,
    &rota_cmd_ring_lookup,
    &rota_cmd_ring_hash,
    &rota_cmd_route,
    &rota_cmd_gradual,
    &rota_cmd_plan,
    &rota_cmd_hosts_check,
    &rota_cmd_hosts_watch,
    &rota_cmd_config_check,
    &rota_cmd_config_show,
    &rota_cmd_config_watch,
    &rota_cmd_directory_get,
    &rota_cmd_directory_show,
    &rota_cmd_directory_watch,
    &rota_cmd_space_list,
    &rota_cmd_space_show,
    &rota_cmd_space_create,
    &rota_cmd_space_delete,
    &rota_cmd_space_migrate,
    &rota_cmd_space_reseat,
    &rota_cmd_shard_list,
    &rota_cmd_shard_show,
    &rota_cmd_shard_explain,
    &rota_cmd_shard_pin,
    &rota_cmd_shard_move,
    &rota_cmd_lease_list,
    &rota_cmd_lease_history,
    &rota_cmd_lease_hold,
    &rota_cmd_group_join,
    &rota_cmd_group_status,
    &rota_cmd_cache_serve,
    &rota_cmd_get,
    &rota_cmd_broker,
    &rota_cmd_work,
    &rota_cmd_worker_key,
    &rota_cmd_job_add,
    &rota_cmd_job_list,
    &rota_cmd_job_show,
    &rota_cmd_job_explain,
    &rota_cmd_job_cancel,
    &rota_cmd_job_priority,
    &rota_cmd_job_retry,
    &rota_cmd_queue_list,
    &rota_cmd_queue_show,
    &rota_cmd_queue_pause,
    &rota_cmd_queue_resume,
    &rota_cmd_queue_wait_empty,
    &rota_cmd_queue_dead,
    &rota_cmd_queue_delete,
    &rota_cmd_queue_quarantine,
    &rota_cmd_queue_weight,
    &rota_cmd_queue_partitions,
    &rota_cmd_queue_spread,
    &rota_cmd_queue_workers,
    &rota_cmd_queue_nodes,
    &rota_cmd_queue_forget,
    &rota_cmd_doctor,
    &rota_cmd_sim_balance,
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

/* Old names, and what they are called now. */
static const struct {
    const char *old;
    const struct rota_cli_command *now;
} RENAMED[] = {
    {"queue drain", &rota_cmd_queue_wait_empty}, {"lease hold", &rota_cmd_lease_hold},
    {"members list", &rota_cmd_node_members},    {"members beat", &rota_cmd_node_heartbeat},
    {"node beat", &rota_cmd_node_heartbeat},     {"members drain", &rota_cmd_node_drain},
    {"members evict", &rota_cmd_node_evict},     {"members restore", &rota_cmd_node_undrain},
    {"members remove", &rota_cmd_node_remove},   {"shards show", &rota_cmd_directory_show},
    {"shards watch", &rota_cmd_directory_watch},
};

static const char INTRODUCTION[] =
    "Rota places shards, decides which process owns each, routes calls and runs jobs.";

/* What --help shows, by plane: a command with its own summary, or a noun, whose verbs come from the
 * table above. */
static const struct {
    const char *plane, *noun, *summary;
} NOUNS[] = {
    {"Try it", "up", NULL},
    {"Cluster", "node", "Nodes, and other members of a store"},
    {"Cluster", "ping", NULL},
    {"Cluster", "wait", NULL},
    {"Cluster", "top", NULL},
    {"Cluster", "events", NULL},
    {"Cluster", "doctor", NULL},
    {"Place", "ring", "Consistent hashing"},
    {"Place", "route", NULL},
    {"Place", "plan", NULL},
    {"Place", "gradual", NULL},
    {"Place", "hosts", "Hosts files"},
    {"Place", "config", "Dynamic settings of queues (not of rotad)"},
    {"Own", "space", "Sharded resources"},
    {"Own", "shard", "Shards of a space and their owners"},
    {"Own", "lease", "Leases in a store"},
    {"Own", "group", "Task groups that share partitions"},
    {"Call", "directory", "Shard maps over gRPC, and the health of replicas"},
    {"Call", "cache", "Sharded cache servers"},
    {"Call", "get", NULL},
    {"Call", "sim", "Compare balancing policies in simulation"},
    {"Work", "queue", "Queues"},
    {"Work", "job", "Jobs"},
    {"Work", "work", NULL},
    {"Work", "broker", NULL},
    {"Work", "worker-key", NULL},
};
enum { N_NOUNS = sizeof NOUNS / sizeof *NOUNS };

/* By their index. */
static const char *const EXIT_CODES[] = {
    [ROTA_CLI_OK] = "success",
    [ROTA_CLI_NO] = "the answer is no, or something was not found or is unavailable right now",
    [ROTA_CLI_BAD] = "invalid command line, file or input; nothing was changed, and only input "
                     "before the error was processed",
};
enum { N_EXIT_CODES = sizeof EXIT_CODES / sizeof *EXIT_CODES };

static const char OUTPUT[] =
    "Results go to standard output, errors to standard error, one sentence each. Lists and `show` "
    "commands print tables on a terminal and tab-separated values elsewhere; -o chooses. With "
    "--json the result is one JSON document; commands that read keys or watch print one JSON "
    "object per line. Color is used only on a terminal, and not if NO_COLOR is set. Timestamps are "
    "RFC 3339 (2026-01-31T12:00:00Z) or Unix seconds (`gradual`: nanoseconds). A FILE may be a "
    "pipe, or - for standard input, unless the command watches it.";

/* --- finding a command --- */

/* How many of the words are the command's name; 0 if they don't match. */
static int match(const char *name, int n_words, char *const *words)
{
    int n = 0;
    while (*name) {
        size_t size = strcspn(name, " ");
        if (n == n_words || !rota_str_is_equal(rota_str_of(name, size), rota_str(words[n])))
            return 0;
        n++;
        name += size;
        if (*name == ' ')
            name++;
    }
    return n;
}

static const struct rota_cli_command *find_command(int n_words, char *const *words, int *n_used)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if ((*n_used = match(COMMANDS[i]->command.name, n_words, words)) > 0)
            return COMMANDS[i];
    for (size_t i = 0; i < sizeof RENAMED / sizeof *RENAMED; i++)
        if ((*n_used = match(RENAMED[i].old, n_words, words)) > 0) {
            fprintf(stderr,
                    "rota: `%s` is `%s` now; the old name will be removed in the next release\n",
                    RENAMED[i].old, RENAMED[i].now->command.name);
            return RENAMED[i].now;
        }
    if ((*n_used = match(rota_cmd_complete.command.name, n_words, words)) > 0)
        return &rota_cmd_complete; /* for shells, so not listed */
    return NULL;
}

static bool is_noun_of(const char *name, const char *word)
{
    size_t size = strlen(word);
    return strncmp(name, word, size) == 0 && name[size] == ' ';
}

/* Whether `word` is the first of several commands' names, as "ring" is. */
static bool is_in_group(const struct rota_cli_command *command, const char *word)
{
    return is_noun_of(command->command.name, word);
}

static bool is_group(const char *word)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (is_in_group(COMMANDS[i], word))
            return true;
    return false;
}

/* The current name of a command whose old name has this noun; NULL: no old name has it. */
static const char *renamed_from(const char *noun)
{
    for (size_t i = 0; i < sizeof RENAMED / sizeof *RENAMED; i++)
        if (is_noun_of(RENAMED[i].old, noun))
            return RENAMED[i].now->command.name;
    return NULL;
}

/* Say which word is unknown, and suggest its current name or the closest word. */
static int refuse_words(char *const *words)
{
    const char *group = is_group(words[0]) ? words[0] : NULL;
    char quoted[ROTA_QUOTE_MAX], firsts[N_COMMANDS][32];

    const char *word = group ? words[1] : words[0];
    struct rota_spell spell = {.word = rota_str(word)};
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *name = COMMANDS[i]->command.name;
        if (!group) {
            snprintf(firsts[i], sizeof firsts[i], "%.*s", (int)strcspn(name, " "), name);
            rota_spell_offer(&spell, firsts[i]);
        } else if (is_in_group(COMMANDS[i], group)) {
            rota_spell_offer(&spell, name + strlen(group) + 1);
        }
    }
    if (!group)
        rota_spell_offer(&spell, "help");
    rota_quote(rota_str(word), quoted);
    const char *renamed = group ? NULL : renamed_from(word);
    if (renamed)
        return rota_cli_fail(ROTA_CLI_BAD, "unknown command %s, did you mean `%.*s`?", quoted,
                             (int)strcspn(renamed, " "), renamed);
    if (!spell.best)
        return rota_cli_fail(ROTA_CLI_BAD, "unknown command %s; see `rota --help`", quoted);
    return rota_cli_fail(ROTA_CLI_BAD, "unknown command %s, did you mean `%s%s%s`?", quoted,
                         group ? group : "", group ? " " : "", spell.best);
}

/* --- help --- */

static void append_commands(struct rota_buffer *buffer, const char *group)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!group || is_in_group(COMMANDS[i], group))
            rota_buffer_print(buffer, "  %-16s  %s\n", COMMANDS[i]->command.name,
                              COMMANDS[i]->command.summary);
}

/* "list, show, drain" */
static void append_verbs(struct rota_buffer *buffer, const char *noun)
{
    const char *separator = ": ";
    for (int i = 0; i < N_COMMANDS; i++)
        if (is_in_group(COMMANDS[i], noun)) {
            rota_buffer_print(buffer, "%s%s", separator,
                              COMMANDS[i]->command.name + strlen(noun) + 1);
            separator = ", ";
        }
}

static int help_width(void)
{
    int width = rota_terminal_look().width;
    return width > 100 ? 100 : width;
}

static const char *summary_of(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(COMMANDS[i]->command.name, name) == 0)
            return COMMANDS[i]->command.summary;
    return "";
}

static void append_noun(struct rota_buffer *buffer, int number)
{
    struct rota_buffer text = {0};
    enum { INDENT = 14 };
    rota_buffer_append_text(&text, NOUNS[number].summary ? NOUNS[number].summary
                                                         : summary_of(NOUNS[number].noun));
    append_verbs(&text, NOUNS[number].noun);
    rota_buffer_print(buffer, "  %-*s", INDENT - 2, NOUNS[number].noun);
    rota_terminal_wrap(buffer, rota_buffer_str(&text).data, INDENT, help_width());
    rota_buffer_deinit(&text);
}

static int print_help(void)
{
    struct rota_buffer buffer = {0};
    rota_buffer_append_text(&buffer, "Usage: rota COMMAND [OPTION...]\n\n");
    rota_terminal_wrap(&buffer, INTRODUCTION, 0, help_width());
    for (int i = 0; i < N_NOUNS; i++) {
        if (i == 0 || NOUNS[i].plane != NOUNS[i - 1].plane)
            rota_buffer_print(&buffer, "\n%s\n", NOUNS[i].plane);
        append_noun(&buffer, i);
    }
    rota_buffer_append_text(&buffer, "\n`rota help COMMAND` explains a command, `rota help all` "
                                     "lists all commands.\nFirst time here? Run `rota up`.\n");
    return rota_cli_print(&buffer);
}

/* All commands, and what they have in common. */
static int print_all(void)
{
    struct rota_buffer buffer = {0};
    int width = help_width();
    rota_buffer_append_text(&buffer, "Usage: rota COMMAND [OPTION...]\n\nCommands:\n");
    append_commands(&buffer, NULL);
    rota_buffer_append_text(&buffer, "  help              Show the help of a command\n"
                                     "\nOptions:\n"
                                     "  -h, --help        show this help and exit\n"
                                     "  --version         show the version and exit\n\n");
    rota_terminal_wrap(&buffer, OUTPUT, 0, width);
    rota_buffer_print(&buffer, "\nExit codes:\n");
    for (int i = 0; i < N_EXIT_CODES; i++) {
        rota_buffer_print(&buffer, "  %d  ", i);
        rota_terminal_wrap(&buffer, EXIT_CODES[i], 5, width);
    }
    return rota_cli_print(&buffer);
}

static int print_group(const char *group)
{
    struct rota_buffer buffer = {0};
    rota_buffer_print(&buffer, "Usage: rota %s COMMAND [OPTION...]\n\nCommands:\n", group);
    append_commands(&buffer, group);
    rota_buffer_print(&buffer, "\n`rota help %s COMMAND` explains a command.\n", group);
    return rota_cli_print(&buffer);
}

/* The body of docs/cli.md. */
static int print_markdown(void)
{
    struct rota_buffer buffer = {0};
    rota_terminal_wrap(&buffer, INTRODUCTION, 0, 100);
    rota_buffer_append_text(&buffer, "\n");
    rota_terminal_wrap(&buffer, OUTPUT, 0, 100);
    rota_buffer_append_text(&buffer, "\n| exit code | meaning |\n|---|---|\n");
    for (int i = 0; i < N_EXIT_CODES; i++)
        rota_buffer_print(&buffer, "| %d | %s |\n", i, EXIT_CODES[i]);
    for (int i = 0; i < N_COMMANDS; i++) {
        rota_buffer_append_char(&buffer, '\n');
        rota_command_format_markdown(&COMMANDS[i]->command, &buffer);
    }
    return rota_cli_print(&buffer);
}

/* Everything in the tables as JSON, for share/. */
static int print_json(void)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "program", "rota");
    rota_json_add_text(&json, "version", ROTA_VERSION);
    rota_json_add_text(&json, "introduction", INTRODUCTION);
    rota_json_add_text(&json, "output", OUTPUT);
    rota_json_add_array(&json, "exit_codes");
    for (int i = 0; i < N_EXIT_CODES; i++)
        rota_json_text(&json, EXIT_CODES[i]);
    rota_json_end_array(&json);
    rota_json_add_array(&json, "commands");
    for (int i = 0; i < N_COMMANDS; i++)
        rota_command_format_json(&COMMANDS[i]->command, &json);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(&buffer, '\n');
    return rota_cli_print(&buffer);
}

/* --- the words --- */

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run_command(int n_words, char *const *words)
{
    static char help[] = "--help";
    char *const help_words[] = {help};
    int n_used;
    const struct rota_cli_command *command = find_command(n_words, words, &n_used);

    if (command)
        return command->run(n_words - n_used, words + n_used);
    if (strcmp(words[0], "help") == 0) {
        if (n_words == 1 || is_help(words[1]))
            return print_help();
        if (n_words == 2 && strcmp(words[1], "all") == 0)
            return print_all();
        if (n_words == 2 && strcmp(words[1], "--markdown") == 0)
            return print_markdown();
        if (n_words == 2 && strcmp(words[1], "--json") == 0)
            return print_json();
        command = find_command(n_words - 1, words + 1, &n_used);
        if (command)
            return command->run(1, help_words);
        if (n_words == 2 && is_group(words[1]))
            return print_group(words[1]);
        return refuse_words(words + 1);
    }
    if (is_group(words[0]) && (n_words == 1 || is_help(words[1])))
        return print_group(words[0]);
    return refuse_words(words);
}

static int run_words(int n_words, char *const *words)
{
    char quoted[ROTA_QUOTE_MAX];
    if (n_words == 0)
        return rota_cli_fail(ROTA_CLI_BAD, "no command given; see `rota --help`");
    if (is_help(words[0]))
        return print_help();
    if (strcmp(words[0], "--version") == 0) {
        printf("rota %s\n", ROTA_VERSION);
        return ROTA_CLI_OK;
    }
    if (words[0][0] == '-')
        return rota_cli_fail(ROTA_CLI_BAD, "unknown option %s; see `rota --help`",
                             rota_quote(rota_str(words[0]), quoted));
    return run_command(n_words, words);
}

/* A file opened later must not become standard output by accident. The stand-in for a closed stream
 * can't be used the way the stream would be, so using it still fails. */
static void guard_streams(void)
{
    static const int USELESS[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", USELESS[fd]) != fd)
            abort();
}

int main(int argc, char **argv)
{
    static char output[1 << 16];
    guard_streams();
    setvbuf(stdout, output, _IOFBF, sizeof output);
    int code = rota_cli_finish(run_words(argc > 0 ? argc - 1 : 0, argv + 1));
    if (rota_cli_has_thread_left())
        _exit(code);
    return code;
}
