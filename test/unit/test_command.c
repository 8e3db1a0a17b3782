#include "base/command.h"

#include "base/json.h"
#include "vectors.h"

#include <stdlib.h>

struct lookup {
    bool json;
    int64_t batch;
    rota_time wait;
    rota_time at;
    const char *store;
    int mode;
    struct rota_option_list hosts;
};

static const char *const modes[] = {"lookup", "slots", NULL};

static const struct rota_option options[] = {
    {
        .name = "store",
        .letter = 's',
        ROTA_OPTION_INTO(TEXT, struct lookup, store),
        .value_name = "URL",
        .is_required = true,
        .help = "where the members are",
    },
    {
        .name = "batch",
        .letter = 'n',
        ROTA_OPTION_INTO(INT, struct lookup, batch),
        .value_name = "N",
        .default_text = "8",
        .min = 1,
        .max = 100,
        .help = "how many partitions are spread over distinct hosts",
    },
    {
        .name = "wait",
        ROTA_OPTION_INTO(SPAN, struct lookup, wait),
        .value_name = "SPAN",
        .default_text = "5s",
        .help = "how long to wait",
    },
    {
        .name = "at",
        ROTA_OPTION_INTO(TIME, struct lookup, at),
        .value_name = "TIME",
        .help = "the moment to look at",
    },
    {
        .name = "mode",
        .letter = 'm',
        ROTA_OPTION_INTO(CHOICE, struct lookup, mode),
        .value_name = "MODE",
        .default_text = "slots",
        .choices = modes,
        .help = "a|b",
    },
    {
        .name = "host",
        ROTA_OPTION_INTO(LIST, struct lookup, hosts),
        .value_name = "ADDRESS[,WEIGHT[,ZONE]]",
        .help = "one more host",
    },
    {
        .name = "json",
        .letter = 'j',
        ROTA_OPTION_INTO(FLAG, struct lookup, json),
        .help = "write JSON",
    },
};

static const struct rota_command command = {
    .name = "ring lookup",
    .summary = "Tell which host owns each key",
    .arguments = "KEY...",
    .min_arguments = 1,
    .max_arguments = 3,
    .description = "Keys are hashed as the nodes do it.\n\nNothing is changed.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "rota ring lookup -s x key\nrota ring lookup -s x -- -key",
};

static struct rota_option_list arguments;
static struct rota_error error;

/* Parse words that are parted by spaces. */
static enum rota_command_answer parse(const struct rota_command *which, const char *line,
                                      struct lookup *result)
{
    static char text[1024];
    static char *words[64];
    int n = 0;
    assert_true(strlen(line) < sizeof text);
    strcpy(text, line);
    for (char *rest, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    return rota_command_parse(which, n, words, result, &arguments, &error);
}

static void every_way_to_write_an_option_is_read(void **state)
{
    struct lookup lookup = {.at = -1};
    (void)state;
    assert_int_equal(
        parse(&command, "k1 --store=a=b -n 7 --host x k2 -mlookup --host=y -j -- -k3", &lookup),
        ROTA_COMMAND_RUN);
    assert_string_equal(lookup.store, "a=b");
    assert_int_equal(lookup.batch, 7);
    assert_int_equal(lookup.mode, 0);
    assert_true(lookup.json);
    assert_int_equal(lookup.hosts.size, 2);
    assert_string_equal(lookup.hosts.items[0], "x");
    assert_string_equal(lookup.hosts.items[1], "y");
    assert_int_equal(arguments.size, 3);
    assert_string_equal(arguments.items[0], "k1");
    assert_string_equal(arguments.items[1], "k2");
    assert_string_equal(arguments.items[2], "-k3");
}

static void defaults_apply_to_missing_options(void **state)
{
    struct lookup lookup = {.at = -1, .json = true, .hosts.size = 5};
    (void)state;
    assert_int_equal(parse(&command, "-s x -", &lookup), ROTA_COMMAND_RUN);
    assert_int_equal(lookup.batch, 8);
    assert_int_equal(lookup.wait, 5 * ROTA_SEC);
    assert_int_equal(lookup.mode, 1);
    assert_int_equal(lookup.at, -1);
    assert_true(lookup.json);
    assert_int_equal(lookup.hosts.size, 0);
    assert_string_equal(arguments.items[0], "-");
}

static void negative_numbers_are_values(void **state)
{
    struct lookup lookup = {0};
    (void)state;
    assert_int_equal(parse(&command, "-s x --at -1 k", &lookup), ROTA_COMMAND_RUN);
    assert_int_equal(lookup.at, -ROTA_SEC);
}

static void help_is_found_in_any_line(void **state)
{
    struct lookup lookup = {0};
    (void)state;
    assert_int_equal(parse(&command, "--nonsense --help", &lookup), ROTA_COMMAND_HELP);
    assert_int_equal(parse(&command, "-h", &lookup), ROTA_COMMAND_HELP);
    assert_int_equal(parse(&command, "-s x -- --help", &lookup), ROTA_COMMAND_RUN);
}

static void assert_refused(const char *line, const char *sentence)
{
    static struct lookup lookup, before;
    static struct rota_option_list arguments_before;
    memset(&lookup, 0x55, sizeof lookup);
    memset(&arguments, 0x55, sizeof arguments);
    before = lookup;
    arguments_before = arguments;
    assert_int_equal(parse(&command, line, &lookup), ROTA_COMMAND_REFUSED);
    assert_string_equal(error.text, sentence);
    assert_memory_equal(&lookup, &before, sizeof lookup);
    assert_memory_equal(&arguments, &arguments_before, sizeof arguments);
}

static void wrong_lines_are_refused_and_change_nothing(void **state)
{
    (void)state;
    assert_refused("k", "--store is required");
    assert_refused("-s x", "missing argument, expected KEY...");
    assert_refused("-s x 1 2 3 4", "unexpected argument \"4\": at most 3 allowed");
    assert_refused("-s x k --batch", "--batch needs a value");
    assert_refused("-s x k --batch abc", "--batch: \"abc\" is not a whole number (1 to 100)");
    assert_refused("-s x k --batch= ", "--batch: \"\" is not a whole number (1 to 100)");
    assert_refused("-s x k -n101", "--batch: 101 is out of bounds (1 to 100)");
    assert_refused("-s x k -n1 --batch 1", "--batch is given twice");
    assert_refused("-s x k -j --json", "--json is given twice");
    assert_refused("-s x k --json=true", "--json takes no value");
    assert_refused("-s x k -jn", "--json takes no value");
    assert_refused("-s --json k", "--store needs a value, but \"--json\" looks like an option; if "
                                  "it is the value, write --store=VALUE");
    assert_refused("-s -- k", "--store needs a value, but \"--\" looks like an option; if it is "
                              "the value, write --store=VALUE");
    assert_refused("--stroe x k", "unknown option \"--stroe\", did you mean --store?");
    assert_refused("--jsn=7", "unknown option \"--jsn=7\", did you mean --json?");
    assert_refused("--hepl", "unknown option \"--hepl\", did you mean --help?");
    assert_refused("--frobnicate", "unknown option \"--frobnicate\"");
    assert_refused("-x", "unknown option \"-x\"");
    assert_refused("-5", "unknown option \"-5\"");
    assert_refused("--=", "unknown option \"--=\"");
    assert_refused("-\xff\n", "unknown option \"-\\ufffd\\n\"");
}

static void a_command_may_take_nothing(void **state)
{
    const struct rota_command bare = {.name = "version", .summary = "Tell the version"};
    (void)state;
    assert_int_equal(parse(&bare, "", NULL), ROTA_COMMAND_RUN);
    assert_int_equal(arguments.size, 0);
    assert_int_equal(parse(&bare, "x", NULL), ROTA_COMMAND_REFUSED);
    assert_string_equal(error.text, "unexpected argument \"x\": this command takes no arguments");
}

static void arguments_have_a_bound(void **state)
{
    const struct rota_command many = {.name = "x", .summary = "x", .arguments = "KEY..."};
    static char *words[ROTA_OPTION_LIST_MAX + 1];
    static char word[] = "k";
    (void)state;
    for (size_t i = 0; i <= ROTA_OPTION_LIST_MAX; i++)
        words[i] = word;
    assert_int_equal(
        rota_command_parse(&many, ROTA_OPTION_LIST_MAX, words, NULL, &arguments, &error),
        ROTA_COMMAND_RUN);
    assert_int_equal(
        rota_command_parse(&many, ROTA_OPTION_LIST_MAX + 1, words, NULL, &arguments, &error),
        ROTA_COMMAND_REFUSED);
    assert_int_equal(error.code, ROTA_ERR_LIMIT);
}

static void help_is_wrapped_and_complete(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    rota_command_format_help(&command, 60, &buffer);
    assert_string_equal(buffer.data,
                        "Usage: rota ring lookup [OPTION...] KEY...\n"
                        "\n"
                        "Tell which host owns each key.\n"
                        "\n"
                        "Keys are hashed as the nodes do it.\n"
                        "\n"
                        "Nothing is changed.\n"
                        "\n"
                        "Options:\n"
                        "  -s, --store URL  where the members are (required)\n"
                        "  -n, --batch N    how many partitions are spread over\n"
                        "                   distinct hosts (1 to 100; default 8)\n"
                        "      --wait SPAN  how long to wait (default 5s)\n"
                        "      --at TIME    the moment to look at\n"
                        "  -m, --mode MODE  a|b (one of lookup, slots; default slots)\n"
                        "      --host ADDRESS[,WEIGHT[,ZONE]]\n"
                        "                   one more host (may be repeated)\n"
                        "  -j, --json       write JSON\n"
                        "  -h, --help       show this help and exit\n"
                        "\n"
                        "Examples:\n"
                        "  rota ring lookup -s x key\n"
                        "  rota ring lookup -s x -- -key\n");
    rota_buffer_deinit(&buffer);
}

static void empty_default_is_not_shown(void **state)
{
    static const struct rota_option option = {.name = "store",
                                              ROTA_OPTION_INTO(TEXT, struct lookup, store),
                                              .value_name = "URL",
                                              .default_text = "",
                                              .help = "where the members are"};
    const struct rota_command with = {
        .name = "look", .summary = "Look", .options = &option, .n_options = 1};
    struct rota_buffer buffer = {0};
    (void)state;
    rota_command_format_help(&with, 60, &buffer);
    assert_non_null(strstr(buffer.data, "--store URL  where the members are\n"));
    rota_buffer_clear(&buffer);
    rota_command_format_markdown(&with, &buffer);
    assert_non_null(strstr(buffer.data, "| `--store URL` | where the members are |  |\n"));
    rota_buffer_deinit(&buffer);
}

static void page_comes_from_the_same_table(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    rota_command_format_markdown(&command, &buffer);
    assert_string_equal(
        buffer.data, "## rota ring lookup\n"
                     "\n"
                     "Tell which host owns each key.\n"
                     "\n"
                     "    rota ring lookup [OPTION...] KEY...\n"
                     "\n"
                     "Keys are hashed as the nodes do it.\n"
                     "\n"
                     "Nothing is changed.\n"
                     "\n"
                     "| option | meaning | values |\n"
                     "|---|---|---|\n"
                     "| `-s`, `--store URL` | where the members are | required |\n"
                     "| `-n`, `--batch N` | how many partitions are spread over distinct hosts | "
                     "1 to 100; default 8 |\n"
                     "| `--wait SPAN` | how long to wait | default 5s |\n"
                     "| `--at TIME` | the moment to look at |  |\n"
                     "| `-m`, `--mode MODE` | a\\|b | one of lookup, slots; default slots |\n"
                     "| `--host ADDRESS[,WEIGHT[,ZONE]]` | one more host | may be repeated |\n"
                     "| `-j`, `--json` | write JSON |  |\n"
                     "| `-h`, `--help` | show this help and exit |  |\n"
                     "\n"
                     "Examples:\n"
                     "\n"
                     "    rota ring lookup -s x key\n"
                     "    rota ring lookup -s x -- -key\n");
    rota_buffer_deinit(&buffer);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void json_has_the_whole_table(void **state)
{
    struct rota_buffer buffer = {0};
    struct rota_json writer = {.buffer = &buffer};
    (void)state;
    rota_command_format_json(&command, &writer);
    json_t *json = json_loads(buffer.data, 0, NULL);
    assert_non_null(json);
    assert_string_equal(text_of(json, "program"), "rota");
    assert_string_equal(text_of(json, "name"), "ring lookup");
    assert_string_equal(text_of(json, "summary"), command.summary);
    assert_string_equal(text_of(json, "arguments"), "KEY...");
    assert_string_equal(text_of(json, "description"), command.description);
    assert_string_equal(text_of(json, "examples"), command.examples);

    json_t *all = json_object_get(json, "options");
    assert_int_equal(json_array_size(all), command.n_options + 1);
    json_t *mode = json_array_get(all, 4), *host = json_array_get(all, 5);
    assert_string_equal(text_of(mode, "name"), "mode");
    assert_string_equal(text_of(mode, "letter"), "m");
    assert_string_equal(text_of(mode, "value"), "MODE");
    assert_string_equal(text_of(mode, "help"), "a|b");
    assert_string_equal(text_of(mode, "notes"), "one of lookup, slots; default slots");
    assert_int_equal(json_array_size(json_object_get(mode, "choices")), 2);
    assert_false(json_is_true(json_object_get(mode, "is_repeated")));
    assert_string_equal(text_of(host, "letter"), "");
    assert_int_equal(json_array_size(json_object_get(host, "choices")), 0);
    assert_true(json_is_true(json_object_get(host, "is_repeated")));
    assert_null(text_of(json_array_get(all, 6), "value"));
    assert_string_equal(text_of(json_array_get(all, 7), "name"), "help");
    json_decref(json);
    rota_buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_write_an_option_is_read),
        cmocka_unit_test(defaults_apply_to_missing_options),
        cmocka_unit_test(negative_numbers_are_values),
        cmocka_unit_test(help_is_found_in_any_line),
        cmocka_unit_test(wrong_lines_are_refused_and_change_nothing),
        cmocka_unit_test(a_command_may_take_nothing),
        cmocka_unit_test(arguments_have_a_bound),
        cmocka_unit_test(help_is_wrapped_and_complete),
        cmocka_unit_test(empty_default_is_not_shown),
        cmocka_unit_test(page_comes_from_the_same_table),
        cmocka_unit_test(json_has_the_whole_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
