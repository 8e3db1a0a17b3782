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
    &rota_cmd_node_list,
    &rota_cmd_node_show,
    &rota_cmd_node_drain,
    &rota_cmd_node_undrain,
    &rota_cmd_node_evict,
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
    &rota_cmd_directory_serve,
    &rota_cmd_directory_get,
    &rota_cmd_shards_show,
    &rota_cmd_shards_watch,
    &rota_cmd_space_list,
    &rota_cmd_space_show,
    &rota_cmd_space_migrate,
    &rota_cmd_shard_list,
    &rota_cmd_shard_show,
    &rota_cmd_shard_explain,
    &rota_cmd_shard_pin,
    &rota_cmd_shard_move,
    &rota_cmd_lease_list,
    &rota_cmd_lease_history,
    &rota_cmd_lease_hold,
    &rota_cmd_members_list,
    &rota_cmd_members_beat,
    &rota_cmd_members_drain,
    &rota_cmd_members_evict,
    &rota_cmd_members_restore,
    &rota_cmd_members_remove,
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
    &rota_cmd_queue_drain,
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

static const char INTRODUCTION[] =
    "Rota tells where the shards of a service belong, and what would move if something changed.";

/* By their number. */
static const char *const EXIT_CODES[] = {
    [ROTA_CLI_OK] = "all went well",
    [ROTA_CLI_NO] = "the answer is no, there is none, or it can't be had now",
    [ROTA_CLI_BAD] = "the command line, a file or the input is wrong; nothing is changed, and at "
                     "most the input before the mistake is answered",
};
enum { N_EXIT_CODES = sizeof EXIT_CODES / sizeof *EXIT_CODES };

static const char OUTPUT[] =
    "Answers go to standard output, whatever goes wrong is one sentence on standard error. With "
    "--json the answer is one JSON document; commands that read keys or watch print one JSON "
    "object per line. Colour and bars appear only on a terminal, colour only without NO_COLOR. A "
    "moment is RFC 3339 (2026-01-31T12:00:00Z) or unix seconds; `gradual` alone takes nanoseconds. "
    "A file that is read once may be a pipe, or - for standard input; one that is watched may not.";

/* --- finding a command --- */

/* How many of the words are the command's name; 0 when they are not. */
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

static const struct rota_cli_command *find(int n_words, char *const *words, int *n_used)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if ((*n_used = match(COMMANDS[i]->command.name, n_words, words)) > 0)
            return COMMANDS[i];
    return NULL;
}

/* Whether `word` is the first of several commands' names, as "ring" is. */
static bool is_in_group(const struct rota_cli_command *command, const char *word)
{
    size_t size = strlen(word);
    return strncmp(command->command.name, word, size) == 0 && command->command.name[size] == ' ';
}

static bool is_group(const char *word)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (is_in_group(COMMANDS[i], word))
            return true;
    return false;
}

/* Say which word is unknown and what it may have meant. */
static int refuse_words(int n_words, char *const *words)
{
    const char *group = is_group(words[0]) ? words[0] : NULL;
    char quoted[ROTA_QUOTE_MAX], firsts[N_COMMANDS][32];

    if (group && n_words == 1)
        return rota_cli_fail(ROTA_CLI_BAD, "%s what? See `rota %s --help`", group, group);
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
    if (!spell.best)
        return rota_cli_fail(ROTA_CLI_BAD, "unknown command %s, see `rota --help`", quoted);
    return rota_cli_fail(ROTA_CLI_BAD, "unknown command %s, did you mean `%s%s%s`?", quoted,
                         group ? group : "", group ? " " : "", spell.best);
}

/* --- help --- */

static void append_commands(struct rota_buffer *buffer, const char *group)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!group || is_in_group(COMMANDS[i], group))
            rota_buffer_print(buffer, "  %-15s  %s\n", COMMANDS[i]->command.name,
                              COMMANDS[i]->command.summary);
}

static int print_help(void)
{
    struct rota_buffer buffer = {0};
    int width = rota_terminal_look().width;
    if (width > 100)
        width = 100;
    rota_buffer_append_text(&buffer, "Usage: rota COMMAND [OPTION...]\n\n");
    rota_terminal_wrap(&buffer, INTRODUCTION, 0, width);
    rota_buffer_append_text(&buffer, "\nCommands:\n");
    append_commands(&buffer, NULL);
    rota_buffer_append_text(&buffer, "  help             Show the help of a command\n"
                                     "\nOptions:\n"
                                     "  -h, --help       show this help and exit\n"
                                     "  --version        show the version and exit\n\n");
    rota_terminal_wrap(&buffer, OUTPUT, 0, width);
    rota_buffer_print(&buffer, "\nExit codes:\n");
    for (int i = 0; i < N_EXIT_CODES; i++) {
        rota_buffer_print(&buffer, "  %d  ", i);
        rota_terminal_wrap(&buffer, EXIT_CODES[i], 5, width);
    }
    rota_buffer_append_text(&buffer, "\n`rota help COMMAND` or `rota COMMAND --help` says more.\n");
    return rota_cli_print(&buffer);
}

static int print_group(const char *group)
{
    struct rota_buffer buffer = {0};
    rota_buffer_print(&buffer, "Usage: rota %s COMMAND [OPTION...]\n\nCommands:\n", group);
    append_commands(&buffer, group);
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

/* All that the tables say, for share/. */
static int print_json(void)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_json_begin_object(&json);
    rota_json_key(&json, "program");
    rota_json_text(&json, "rota");
    rota_json_key(&json, "version");
    rota_json_text(&json, ROTA_VERSION);
    rota_json_key(&json, "introduction");
    rota_json_text(&json, INTRODUCTION);
    rota_json_key(&json, "output");
    rota_json_text(&json, OUTPUT);
    rota_json_key(&json, "exit_codes");
    rota_json_begin_array(&json);
    for (int i = 0; i < N_EXIT_CODES; i++)
        rota_json_text(&json, EXIT_CODES[i]);
    rota_json_end_array(&json);
    rota_json_key(&json, "commands");
    rota_json_begin_array(&json);
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
    const struct rota_cli_command *command = find(n_words, words, &n_used);

    if (command)
        return command->run(n_words - n_used, words + n_used);
    if (strcmp(words[0], "help") == 0) {
        if (n_words == 1 || is_help(words[1]))
            return print_help();
        if (n_words == 2 && strcmp(words[1], "--markdown") == 0)
            return print_markdown();
        if (n_words == 2 && strcmp(words[1], "--json") == 0)
            return print_json();
        command = find(n_words - 1, words + 1, &n_used);
        if (command)
            return command->run(1, help_words);
        if (n_words == 2 && is_group(words[1]))
            return print_group(words[1]);
        return refuse_words(n_words - 1, words + 1);
    }
    if (n_words > 1 && is_help(words[1]) && is_group(words[0]))
        return print_group(words[0]);
    return refuse_words(n_words, words);
}

static int run_words(int n_words, char *const *words)
{
    char quoted[ROTA_QUOTE_MAX];
    if (n_words == 0)
        return rota_cli_fail(ROTA_CLI_BAD, "no command is given, see `rota --help`");
    if (is_help(words[0]))
        return print_help();
    if (strcmp(words[0], "--version") == 0) {
        printf("rota %s\n", ROTA_VERSION);
        return ROTA_CLI_OK;
    }
    if (words[0][0] == '-')
        return rota_cli_fail(ROTA_CLI_BAD, "unknown option %s, see `rota --help`",
                             rota_quote(rota_str(words[0]), quoted));
    return run_command(n_words, words);
}

/* A file opened later must not become standard output. What stands in for a
 * closed stream can't be used the way the stream is, so that use still fails. */
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
