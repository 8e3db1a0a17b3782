#include "base/command.h"

#include "base/quote.h"
#include "base/spell.h"

#include <assert.h>
#include <stdlib.h>

/* A command line while it is read. */
struct reading {
    const struct rota_command *command;
    char *const *words;
    int n_words, next;
    char *result; /* a copy of the caller's struct as far as options reach into it */
    struct rota_option_list arguments;
    bool is_given[ROTA_COMMAND_OPTIONS_MAX];
    struct rota_error *error;
};

/* --- the result --- */

/* How far the options reach into the result. */
static size_t result_size(const struct rota_command *command)
{
    size_t size = 0;
    for (size_t i = 0; i < command->n_options; i++) {
        size_t end = command->options[i].offset + rota_option_size(command->options[i].type);
        if (size < end)
            size = end;
    }
    return size;
}

static void set_defaults(struct reading *reading)
{
    for (size_t i = 0; i < reading->command->n_options; i++) {
        const struct rota_option *option = &reading->command->options[i];
        void *field = reading->result + option->offset;
        if (option->type == ROTA_OPTION_LIST) {
            ((struct rota_option_list *)field)->size = 0;
        } else if (option->default_text) {
            enum rota_code code =
                rota_option_parse_value(option, rota_str(option->default_text), field, NULL);
            assert(code == ROTA_OK);
            (void)code;
        }
    }
}

/* --- one word after the other --- */

static enum rota_code set_option(struct reading *reading, const struct rota_option *option,
                                 const char *text)
{
    bool *is_given = &reading->is_given[option - reading->command->options];
    struct rota_error inner;

    if (*is_given && option->type != ROTA_OPTION_LIST)
        return rota_error_set(reading->error, ROTA_ERR_INVALID, "--%s is given twice",
                              option->name);
    *is_given = true;
    enum rota_code code =
        rota_option_parse_value(option, rota_str(text), reading->result + option->offset, &inner);
    if (code)
        rota_error_set(reading->error, code, "--%s: %s", option->name, inner.text);
    return code;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

/* The next word as the value of `option`. One that looks like an option, and not like a negative
 * number, probably means that the value was forgotten. */
static enum rota_code give_next(struct reading *reading, const struct rota_option *option)
{
    char quoted[ROTA_QUOTE_MAX];
    if (reading->next == reading->n_words)
        return rota_error_set(reading->error, ROTA_ERR_INVALID, "--%s needs a value", option->name);
    const char *word = reading->words[reading->next];
    if (is_option(word) && !(word[1] >= '0' && word[1] <= '9'))
        return rota_error_set(
            reading->error, ROTA_ERR_INVALID,
            "--%s needs a value, but %s looks like an option; if it is the value, write --%s=VALUE",
            option->name, rota_quote(rota_str(word), quoted), option->name);
    reading->next++;
    return set_option(reading, option, word);
}

/* `value` is the part of the word after the option's name, or NULL. */
static enum rota_code give_option(struct reading *reading, const struct rota_option *option,
                                  const char *value)
{
    if (option->type != ROTA_OPTION_FLAG)
        return value ? set_option(reading, option, value) : give_next(reading, option);
    if (value)
        return rota_error_set(reading->error, ROTA_ERR_INVALID, "--%s takes no value",
                              option->name);
    return set_option(reading, option, "true");
}

static enum rota_code refuse_unknown(struct reading *reading, const char *word,
                                     struct rota_str name)
{
    struct rota_spell spell = {.word = name};
    char quoted[ROTA_QUOTE_MAX];
    for (size_t i = 0; i < reading->command->n_options; i++)
        rota_spell_offer(&spell, reading->command->options[i].name);
    rota_spell_offer(&spell, "help");
    rota_quote(rota_str(word), quoted);
    if (spell.best)
        return rota_error_set(reading->error, ROTA_ERR_INVALID,
                              "unknown option %s, did you mean --%s?", quoted, spell.best);
    return rota_error_set(reading->error, ROTA_ERR_INVALID, "unknown option %s", quoted);
}

static enum rota_code read_long(struct reading *reading, const char *word)
{
    struct rota_str name = {word + 2, strcspn(word + 2, "=")};
    const char *value = name.data[name.size] == '=' ? name.data + name.size + 1 : NULL;
    for (size_t i = 0; i < reading->command->n_options; i++) {
        const struct rota_option *option = &reading->command->options[i];
        if (rota_str_is_equal(name, rota_str(option->name)))
            return give_option(reading, option, value);
    }
    return refuse_unknown(reading, word, name);
}

static enum rota_code read_short(struct reading *reading, const char *word)
{
    for (size_t i = 0; i < reading->command->n_options; i++) {
        const struct rota_option *option = &reading->command->options[i];
        if (option->letter == word[1])
            return give_option(reading, option, word[2] ? word + 2 : NULL);
    }
    return refuse_unknown(reading, word, rota_str(word + 1));
}

static enum rota_code read_argument(struct reading *reading, const char *word)
{
    const struct rota_command *command = reading->command;
    struct rota_option_list *arguments = &reading->arguments;
    size_t max = command->max_arguments ? command->max_arguments : ROTA_OPTION_LIST_MAX;
    char quoted[ROTA_QUOTE_MAX];

    if (!command->arguments)
        return rota_error_set(reading->error, ROTA_ERR_INVALID,
                              "unexpected argument %s: this command takes no arguments",
                              rota_quote(rota_str(word), quoted));
    if (arguments->size == max)
        return rota_error_set(
            reading->error, command->max_arguments ? ROTA_ERR_INVALID : ROTA_ERR_LIMIT,
            "unexpected argument %s: at most %zu allowed%s%s", rota_quote(rota_str(word), quoted),
            max, command->for_more ? "; " : "", command->for_more ? command->for_more : "");
    arguments->items[arguments->size++] = word;
    return ROTA_OK;
}

static enum rota_code read_words(struct reading *reading)
{
    enum rota_code code = ROTA_OK;
    bool is_over = false; /* "--" was read */

    while (!code && reading->next < reading->n_words) {
        const char *word = reading->words[reading->next++];
        if (is_over || !is_option(word))
            code = read_argument(reading, word);
        else if (word[1] != '-')
            code = read_short(reading, word);
        else if (word[2] != '\0')
            code = read_long(reading, word);
        else
            is_over = true;
    }
    return code;
}

static enum rota_code check_complete(const struct reading *reading)
{
    const struct rota_command *command = reading->command;
    for (size_t i = 0; i < command->n_options; i++)
        if (command->options[i].is_required && !reading->is_given[i])
            return rota_error_set(reading->error, ROTA_ERR_INVALID, "--%s is required",
                                  command->options[i].name);
    if (reading->arguments.size < command->min_arguments)
        return rota_error_set(reading->error, ROTA_ERR_INVALID, "missing argument, expected %s",
                              command->arguments);
    return ROTA_OK;
}

/* --help wins over every error on the line. */
static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

enum rota_command_answer rota_command_parse(const struct rota_command *command, int argc,
                                            char *const *argv, void *result,
                                            struct rota_option_list *arguments,
                                            struct rota_error *error)
{
    enum rota_command_answer answer = ROTA_COMMAND_REFUSED;
    size_t size = result_size(command);
    assert(command->n_options <= ROTA_COMMAND_OPTIONS_MAX);

    if (asks_for_help(argc, argv))
        return ROTA_COMMAND_HELP;
    struct reading reading = {.command = command, .words = argv, .n_words = argc, .error = error};
    reading.result = malloc(size + 1);
    if (!reading.result) {
        rota_error_no_memory(error, "for the command line");
        return ROTA_COMMAND_REFUSED;
    }
    if (size)
        memcpy(reading.result, result, size);
    set_defaults(&reading);
    if (!read_words(&reading) && !check_complete(&reading)) {
        if (size)
            memcpy(result, reading.result, size);
        *arguments = reading.arguments;
        answer = ROTA_COMMAND_RUN;
    }
    free(reading.result);
    return answer;
}
