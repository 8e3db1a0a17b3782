/* Settings from a file, the environment and the command line. */
#include "wire/text/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct values {
    const char *listen, *store;
    int64_t partitions;
    rota_time drain;
    bool insecure;
    int level;
};

struct space {
    const char *name;
    int engine;
    int64_t shards;
};

static const char *const LEVELS[] = {"info", "warn", NULL};
static const char *const ENGINES[] = {"ring", "lease", NULL};

static const struct rota_option OPTIONS[] = {
    {.name = "listen",
     ROTA_OPTION_INTO(TEXT, struct values, listen),
     .default_text = "127.0.0.1:0",
     .min = 1,
     .max = 100},
    {.name = "store", ROTA_OPTION_INTO(TEXT, struct values, store)},
    {.name = "partitions",
     ROTA_OPTION_INTO(INT, struct values, partitions),
     .default_text = "16",
     .min = 1,
     .max = 100},
    {.name = "drain-limit", ROTA_OPTION_INTO(SPAN, struct values, drain), .default_text = "30s"},
    {.name = "insecure", ROTA_OPTION_INTO(FLAG, struct values, insecure)},
    {.name = "log-level",
     ROTA_OPTION_INTO(CHOICE, struct values, level),
     .default_text = "info",
     .choices = LEVELS},
};

static const struct rota_option SPACE_OPTIONS[] = {
    {.name = "name", ROTA_OPTION_INTO(TEXT, struct space, name), .is_required = true},
    {.name = "engine",
     ROTA_OPTION_INTO(CHOICE, struct space, engine),
     .default_text = "ring",
     .choices = ENGINES},
    {.name = "shards", ROTA_OPTION_INTO(INT, struct space, shards), .default_text = "64"},
};

static const struct rota_settings_kind KINDS[] = {
    {.name = "space", .options = SPACE_OPTIONS, .n_options = 3, .size = sizeof(struct space)},
    {.name = "spaces", .gone = "use [[space]]"},
};

static struct values values;
static struct rota_settings settings;
static struct rota_error error;

static int set_up(void **state)
{
    (void)state;
    rota_settings_init(&settings, OPTIONS, sizeof OPTIONS / sizeof OPTIONS[0], KINDS, 2, &values);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_settings_deinit(&settings);
    return 0;
}

static enum rota_code read_text(const char *text)
{
    return rota_settings_read(&settings, rota_str(text), "rota.toml", &error);
}

static void check_refused(const char *text, const char *why)
{
    assert_int_equal(read_text(text), ROTA_ERR_INVALID);
    if (!strstr(error.text, why))
        fail_msg("\"%s\", not \"%s\"", error.text, why);
}

static void defaults_apply_without_settings(void **state)
{
    (void)state;
    assert_int_equal(read_text(""), ROTA_OK);
    assert_string_equal(values.listen, "127.0.0.1:0");
    assert_null(values.store);
    assert_int_equal(values.partitions, 16);
    assert_int_equal(values.drain, 30 * ROTA_SEC);
    assert_false(values.insecure);
    assert_int_equal(settings.n_sections, 0);
}

static void later_place_wins_whatever_comes_first(void **state)
{
    (void)state;
    assert_int_equal(
        rota_settings_set(&settings, "partitions", "3", ROTA_SETTINGS_COMMAND_LINE, &error),
        ROTA_OK);
    assert_int_equal(
        rota_settings_set(&settings, "listen", "here:1", ROTA_SETTINGS_ENVIRONMENT, &error),
        ROTA_OK);
    assert_int_equal(read_text("partitions = 5\nlisten = \"there:2\"\ninsecure = true\n"), ROTA_OK);
    assert_int_equal(values.partitions, 3);
    assert_string_equal(values.listen, "here:1");
    assert_true(values.insecure);
    /* A file that says less than the one before: what it no longer says is the default's. */
    assert_int_equal(read_text("log-level = 'warn'"), ROTA_OK);
    assert_false(values.insecure);
    assert_int_equal(values.level, 1);
    assert_int_equal(values.partitions, 3);
    assert_string_equal(values.listen, "here:1");
}

static void sections_are_read_in_order(void **state)
{
    (void)state;
    assert_int_equal(read_text("partitions = 2\n[[space]]\nname = \"a\"\nengine = \"lease\"\n"
                               "[[space]]\nname = \"b\"\nshards = 7\n"),
                     ROTA_OK);
    assert_int_equal(settings.n_sections, 2);
    const struct space *a = settings.sections[0].values, *b = settings.sections[1].values;
    assert_string_equal(a->name, "a");
    assert_int_equal(a->engine, 1);
    assert_int_equal(a->shards, 64);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->engine, 0);
    assert_int_equal(b->shards, 7);
    assert_int_equal(settings.sections[1].line, 5);
}

static void mistake_is_reported_by_its_line_and_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(read_text("partitions = 7\n[[space]]\nname = \"a\"\n"), ROTA_OK);
    check_refused("\npartition = 8\n", "rota.toml:2: unknown setting partition; did you mean part");
    check_refused("partitions = \"8\"", "rota.toml:1: partitions takes an integer, not a string");
    check_refused("partitions = 101", "rota.toml:1: partitions: 101 is out of bounds (1 to 100)");
    check_refused("insecure = 1", "insecure takes true or false, not an integer");
    check_refused("drain-limit = 30", "drain-limit takes a string such as \"10s\", not an integer");
    check_refused("drain-limit = \"soon\"", "is not a duration");
    check_refused("log-level = \"loud\"", "\"loud\" is not one of info, warn");
    check_refused("[[spice]]\nname = \"a\"", "rota.toml:1: unknown section spice; did you");
    check_refused("\n[[spaces]]\nname = \"a\"", "rota.toml:2: [[spaces]] is gone: use [[space]]");
    check_refused("[space]\nname = \"a\"", "rota.toml:1: a section must start with [[space]]");
    check_refused("partitions = 9\n[[space]]\nshards = 1", "rota.toml:2: [[space]] needs name");
    check_refused("a = {}", "unknown setting a");
    assert_int_equal(values.partitions, 7);
    assert_int_equal(settings.n_sections, 1);
    assert_string_equal(((struct space *)settings.sections[0].values)->name, "a");
}

static void invalid_value_is_reported_with_its_place(void **state)
{
    (void)state;
    assert_int_equal(
        rota_settings_set(&settings, "drain-limit", "x", ROTA_SETTINGS_ENVIRONMENT, &error),
        ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "ROTA_DRAIN_LIMIT: \"x\""));
    assert_int_equal(
        rota_settings_set(&settings, "drain-limit", "x", ROTA_SETTINGS_COMMAND_LINE, &error),
        ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "--drain-limit: \"x\""));
    assert_int_equal(
        rota_settings_set(&settings, "drain", "1s", ROTA_SETTINGS_COMMAND_LINE, &error),
        ROTA_ERR_NOT_FOUND);
    assert_int_equal(values.drain, 30 * ROTA_SEC);
}

static void value_has_its_origin(void **state)
{
    char where[ROTA_SETTINGS_WHERE_MAX];
    (void)state;
    rota_settings_set(&settings, "partitions", "3", ROTA_SETTINGS_COMMAND_LINE, &error);
    rota_settings_set(&settings, "listen", "here:1", ROTA_SETTINGS_ENVIRONMENT, &error);
    assert_int_equal(read_text("\ninsecure = true\nlisten = \"there:2\"\n"), ROTA_OK);
    assert_string_equal(rota_settings_where(&settings, "partitions", where), "--partitions");
    assert_string_equal(rota_settings_where(&settings, "listen", where), "ROTA_LISTEN");
    assert_string_equal(rota_settings_where(&settings, "insecure", where), "rota.toml:2: insecure");
    assert_string_equal(rota_settings_where(&settings, "drain-limit", where), "drain-limit");
}

/* What is printed, read again, is the same. */
static void settings_in_force_are_shown_with_their_origin(void **state)
{
    struct rota_buffer first = {0};
    (void)state;
    rota_settings_set(&settings, "store", "mysql://me:secret@db:1/x", ROTA_SETTINGS_ENVIRONMENT,
                      &error);
    rota_settings_set(&settings, "partitions", "3", ROTA_SETTINGS_COMMAND_LINE, &error);
    assert_int_equal(read_text("\nlisten = \"a \\\" b\"\n[[space]]\nname = 'c'\n"), ROTA_OK);
    rota_settings_print(&settings, "rota.toml", &first);
    static const char *const LINES[] = {
        "listen = \"a \\\" b\" # rota.toml:2\n",
        "store = \"mysql://me:***@db:1/x\" # ROTA_STORE\n",
        "partitions = 3 # --partitions\n",
        "drain-limit = \"30s\" # the default\n",
        "\n[[space]] # rota.toml:3\nname = \"c\"\nengine = \"ring\"\nshards = 64\n",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++)
        if (!strstr(first.data, LINES[i]))
            fail_msg("no %s in %s", LINES[i], first.data);
    assert_null(strstr(first.data, "secret"));

    rota_settings_deinit(&settings);
    set_up(NULL);
    assert_int_equal(read_text(first.data), ROTA_OK);
    assert_string_equal(values.listen, "a \" b");
    assert_int_equal(values.partitions, 3);
    assert_int_equal(settings.n_sections, 1);
    rota_buffer_deinit(&first);
}

static void no_part_of_a_password_is_shown(void **state)
{
    static const struct {
        const char *url, *shown;
    } CASES[] = {
        {"mysql://me:se@cr@et@db:1/x", "mysql://me:***@db:1/x"},
        {"mysql://me:se/cr?et@db:1/x", "mysql://me:***@db:1/x"},
        {"postgres://me@db:1/x?tls=verify&ca=/y", "postgres://me@db:1/x?tls=verify&ca=/y"},
        {"kafka://a:1,b:1?sasl.password=secret&acks=all",
         "kafka://a:1,b:1?sasl.password=***&acks=all"},
        {"kafka://a:1?acks=all&ssl.key.password=secret",
         "kafka://a:1?acks=all&ssl.key.password=***"},
        {"sqlite:a@b?password", "sqlite:a@b?password"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct rota_buffer buffer = {0};
        char line[200];
        rota_settings_set(&settings, "store", CASES[i].url, ROTA_SETTINGS_ENVIRONMENT, &error);
        rota_settings_print(&settings, "rota.toml", &buffer);
        snprintf(line, sizeof line, "store = \"%s\" # ROTA_STORE\n", CASES[i].shown);
        if (!strstr(buffer.data, line))
            fail_msg("no %s in %s", line, buffer.data);
        rota_buffer_deinit(&buffer);
    }
}

static void fresh_settings_are_compared_and_adopted_one_by_one(void **state)
{
    (void)state;
    struct values other_values;
    struct rota_settings other;
    rota_settings_init(&other, OPTIONS, sizeof OPTIONS / sizeof OPTIONS[0], KINDS, 1,
                       &other_values);
    assert_int_equal(read_text("listen = \"a\"\npartitions = 3\n[[space]]\nname = \"c\"\n"),
                     ROTA_OK);
    assert_int_equal(rota_settings_read(&other,
                                        rota_str("listen = \"a\"\npartitions = 4\nstore = "
                                                 "\"s\"\n[[space]]\nname = \"c\"\n"),
                                        "new.toml", &error),
                     ROTA_OK);
    static const bool SAME[] = {true, false, false, true, true, true};
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        assert_int_equal(rota_settings_is_same(&settings, &other, i), SAME[i]);
    assert_true(rota_settings_has_same_sections(&settings, &other));

    assert_int_equal(rota_settings_adopt(&settings, &other, 1, &error), ROTA_OK);
    assert_int_equal(rota_settings_set(&other, "listen", "b", ROTA_SETTINGS_COMMAND_LINE, &error),
                     ROTA_OK);
    ((struct space *)other.sections[0].values)->shards = 5;
    assert_false(rota_settings_is_same(&settings, &other, 0));
    assert_false(rota_settings_has_same_sections(&settings, &other));
    other.n_sections = 0;
    assert_false(rota_settings_has_same_sections(&settings, &other));
    assert_int_equal(rota_settings_adopt(&settings, &other, 0, &error), ROTA_OK);
    rota_settings_deinit(&other);

    assert_string_equal(values.store, "s");
    assert_string_equal(values.listen, "b");
    assert_int_equal(settings.origins[0].place, ROTA_SETTINGS_COMMAND_LINE);
    assert_int_equal(values.partitions, 3);
}

static void check_words(const char *const *words, size_t n, const char *why)
{
    assert_int_equal(rota_settings_add(&settings, words, n, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, why));
}

static void command_line_has_one_section_of_a_kind(void **state)
{
    static const char *const WORDS[] = {"space.name=b=c", "space.shards=5"};
    (void)state;
    assert_int_equal(read_text("[[space]]\nname = \"a\"\n"), ROTA_OK);
    assert_int_equal(rota_settings_add(&settings, WORDS, 2, &error), ROTA_OK);
    assert_int_equal(settings.n_sections, 2);
    assert_string_equal(((struct space *)settings.sections[0].values)->name, "a");
    const struct space *space = settings.sections[1].values;
    assert_string_equal(space->name, "b=c");
    assert_int_equal(space->shards, 5);
    assert_int_equal(space->engine, 0);

    struct rota_buffer buffer = {0};
    rota_settings_print(&settings, "test.toml", &buffer);
    assert_non_null(strstr(buffer.data, "[[space]] # --set\nname = \"b=c\"\n"));
    rota_buffer_deinit(&buffer);
}

static void invalid_section_setting_is_named(void **state)
{
    (void)state;
    check_words((const char *const[]){"space.shards=5"}, 1, "--set space.name=... is missing");
    check_words((const char *const[]){"space.shards=x"}, 1, "--set space.shards: ");
    static const char *const NO_SETTINGS[] = {"",        "space",       "space=1",    "space.name",
                                              "nix.a=1", "space.nix=1", "listen=a:1", "space."};
    for (size_t i = 0; i < sizeof NO_SETTINGS / sizeof NO_SETTINGS[0]; i++)
        check_words(&NO_SETTINGS[i], 1, "not a setting of a section");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_apply_without_settings),
        TEST(later_place_wins_whatever_comes_first),
        TEST(sections_are_read_in_order),
        TEST(mistake_is_reported_by_its_line_and_changes_nothing),
        TEST(invalid_value_is_reported_with_its_place),
        TEST(value_has_its_origin),
        TEST(settings_in_force_are_shown_with_their_origin),
        TEST(no_part_of_a_password_is_shown),
        TEST(fresh_settings_are_compared_and_adopted_one_by_one),
        TEST(command_line_has_one_section_of_a_kind),
        TEST(invalid_section_setting_is_named),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
