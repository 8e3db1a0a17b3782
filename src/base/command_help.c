/* How a command describes itself, on a terminal, on a page of documentation and to programs. */
#include "base/command.h"

#include "base/json.h"

enum {
    WIDTH_MIN = 40,
    COLUMN_MAX = 28, /* where explanations begin, at most */
};

static const struct rota_option HELP = {
    .name = "help", .letter = 'h', .type = ROTA_OPTION_FLAG, .help = "show this help and exit"};

/* The last one is --help, which is in no table. */
static const struct rota_option *option_at(const struct rota_command *command, size_t index)
{
    return index < command->n_options ? &command->options[index] : &HELP;
}

static void append_usage(const struct rota_command *command, struct rota_buffer *buffer)
{
    rota_buffer_append_text(buffer, command->program ? command->program : "rota");
    if (command->name)
        rota_buffer_print(buffer, " %s", command->name);
    rota_buffer_append_text(buffer, " [OPTION...]");
    if (command->arguments)
        rota_buffer_print(buffer, " %s", command->arguments);
}

static void append_note(struct rota_buffer *notes, const char *word, const char *text)
{
    rota_buffer_print(notes, "%s%s%s", notes->size ? "; " : "", word, text);
}

/* Bounds and default: "1 to 9; default 3". */
static void format_notes(const struct rota_option *option, struct rota_buffer *notes)
{
    char limits[ROTA_OPTION_LIMITS_MAX];
    rota_buffer_clear(notes);
    if (*rota_option_format_limits(option, limits))
        append_note(notes, option->type == ROTA_OPTION_CHOICE ? "one of " : "", limits);
    if (option->type == ROTA_OPTION_LIST)
        append_note(notes, "may be repeated", "");
    if (option->is_required)
        append_note(notes, "required", "");
    if (option->default_text && *option->default_text && option->type != ROTA_OPTION_FLAG)
        append_note(notes, "default ", option->default_text);
}

/* Append `text` word by word, from `column` on; further lines begin at
 * `indent`. An empty line stays one. */
static void append_wrapped(struct rota_buffer *buffer, const char *text, unsigned column,
                           unsigned indent, unsigned width)
{
    for (bool is_first = true;; is_first = false) {
        size_t gap = strspn(text, " \n"), size = strcspn(text + gap, " \n");
        bool is_paragraph = memmem(text, gap, "\n\n", 2);
        if (size == 0)
            return;
        if (!is_first && (is_paragraph || column + 1 + size > width)) {
            rota_buffer_print(buffer, "%s\n%*s", is_paragraph ? "\n" : "", (int)indent, "");
            column = indent;
        } else if (!is_first) {
            rota_buffer_append_char(buffer, ' ');
            column++;
        }
        rota_buffer_append(buffer, text + gap, size);
        column += (unsigned)size;
        text += gap + size;
    }
}

/* --- the terminal --- */

/* "  -n, --batch N", with the long names below each other. */
static void format_left(const struct rota_option *option, struct rota_buffer *left)
{
    rota_buffer_clear(left);
    if (option->letter)
        rota_buffer_print(left, "  -%c, --%s", option->letter, option->name);
    else
        rota_buffer_print(left, "      --%s", option->name);
    if (option->value_name)
        rota_buffer_print(left, " %s", option->value_name);
}

/* The column of the explanations: two after the longest name that allows it. */
static unsigned find_column(const struct rota_command *command)
{
    struct rota_buffer left = {0};
    size_t column = 0;
    for (size_t i = 0; i <= command->n_options; i++) {
        format_left(option_at(command, i), &left);
        if (left.size + 2 > column && left.size + 2 <= COLUMN_MAX)
            column = left.size + 2;
    }
    rota_buffer_deinit(&left);
    return (unsigned)column;
}

static void append_options(const struct rota_command *command, unsigned width,
                           struct rota_buffer *buffer)
{
    struct rota_buffer left = {0}, notes = {0}, right = {0};
    unsigned column = find_column(command);

    for (size_t i = 0; i <= command->n_options; i++) {
        const struct rota_option *option = option_at(command, i);
        format_left(option, &left);
        format_notes(option, &notes);
        rota_buffer_clear(&right);
        rota_buffer_append_text(&right, option->help);
        if (notes.size)
            rota_buffer_print(&right, " (%s)", notes.data);

        rota_buffer_append_str(buffer, rota_buffer_str(&left));
        if (left.size + 2 > column)
            rota_buffer_print(buffer, "\n%*s", (int)column, "");
        else
            rota_buffer_print(buffer, "%*s", (int)(column - left.size), "");
        append_wrapped(buffer, rota_buffer_str(&right).data, column, column, width);
        rota_buffer_append_char(buffer, '\n');
    }
    buffer->failed |= left.failed || notes.failed || right.failed;
    rota_buffer_deinit(&left);
    rota_buffer_deinit(&notes);
    rota_buffer_deinit(&right);
}

/* Append `lines`, each indented by `indent` spaces. */
static void append_lines(struct rota_buffer *buffer, const char *lines, int indent)
{
    while (*lines) {
        size_t size = strcspn(lines, "\n");
        rota_buffer_print(buffer, "%*s%.*s\n", size ? indent : 0, "", (int)size, lines);
        lines += size + (lines[size] == '\n');
    }
}

void rota_command_format_help(const struct rota_command *command, unsigned width,
                              struct rota_buffer *buffer)
{
    if (width < WIDTH_MIN)
        width = WIDTH_MIN;
    rota_buffer_append_text(buffer, "Usage: ");
    append_usage(command, buffer);
    rota_buffer_append_text(buffer, "\n\n");
    append_wrapped(buffer, command->summary, 0, 0, width);
    rota_buffer_append_text(buffer, ".\n");
    if (command->description) {
        rota_buffer_append_char(buffer, '\n');
        append_wrapped(buffer, command->description, 0, 0, width);
        rota_buffer_append_char(buffer, '\n');
    }
    rota_buffer_append_text(buffer, "\nOptions:\n");
    append_options(command, width, buffer);
    if (command->examples) {
        rota_buffer_append_text(buffer, "\nExamples:\n");
        append_lines(buffer, command->examples, 2);
    }
}

/* --- the page --- */

/* A bar would end the cell of the table. */
static void append_cell(struct rota_buffer *buffer, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            rota_buffer_append_char(buffer, '\\');
        rota_buffer_append_char(buffer, *text == '\n' ? ' ' : *text);
    }
}

static void append_row(const struct rota_option *option, struct rota_buffer *buffer)
{
    struct rota_buffer notes = {0};
    format_notes(option, &notes);
    rota_buffer_append_text(buffer, "| ");
    if (option->letter)
        rota_buffer_print(buffer, "`-%c`, ", option->letter);
    rota_buffer_print(buffer, "`--%s", option->name);
    if (option->value_name) {
        rota_buffer_append_char(buffer, ' ');
        append_cell(buffer, option->value_name);
    }
    rota_buffer_append_text(buffer, "` | ");
    append_cell(buffer, option->help);
    rota_buffer_append_text(buffer, " | ");
    append_cell(buffer, rota_buffer_str(&notes).data);
    rota_buffer_append_text(buffer, " |\n");
    buffer->failed |= notes.failed;
    rota_buffer_deinit(&notes);
}

void rota_command_format_markdown(const struct rota_command *command, struct rota_buffer *buffer)
{
    const char *program = command->program ? command->program : "rota";
    rota_buffer_print(buffer, "## %s%s%s\n\n%s.\n\n    ", program, command->name ? " " : "",
                      command->name ? command->name : "", command->summary);
    append_usage(command, buffer);
    rota_buffer_append_text(buffer, "\n\n");
    if (command->description)
        rota_buffer_print(buffer, "%s\n\n", command->description);
    rota_buffer_append_text(buffer, "| option | meaning | values |\n|---|---|---|\n");
    for (size_t i = 0; i <= command->n_options; i++)
        append_row(option_at(command, i), buffer);
    if (command->examples) {
        rota_buffer_append_text(buffer, "\nExamples:\n\n");
        append_lines(buffer, command->examples, 4);
    }
}

/* --- the data --- */

static void write_option(const struct rota_option *option, struct rota_json *json)
{
    struct rota_buffer notes = {0};
    format_notes(option, &notes);
    rota_json_begin_object(json);
    rota_json_add_text(json, "name", option->name);
    rota_json_add_string(json, "letter", rota_str_of(&option->letter, option->letter != 0));
    rota_json_add_text(json, "value", option->value_name);
    rota_json_add_array(json, "choices");
    for (const char *const *choice = option->choices; choice && *choice; choice++)
        rota_json_text(json, *choice);
    rota_json_end_array(json);
    rota_json_add_bool(json, "is_repeated", option->type == ROTA_OPTION_LIST);
    rota_json_add_text(json, "help", option->help);
    rota_json_add_string(json, "notes", rota_buffer_str(&notes));
    rota_json_end_object(json);
    json->buffer->failed |= notes.failed;
    rota_buffer_deinit(&notes);
}

void rota_command_format_json(const struct rota_command *command, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_add_text(json, "program", command->program ? command->program : "rota");
    rota_json_add_text(json, "name", command->name);
    rota_json_add_text(json, "summary", command->summary);
    rota_json_add_text(json, "arguments", command->arguments);
    rota_json_add_text(json, "description", command->description);
    rota_json_add_array(json, "options");
    for (size_t i = 0; i <= command->n_options; i++)
        write_option(option_at(command, i), json);
    rota_json_end_array(json);
    rota_json_add_text(json, "examples", command->examples);
    rota_json_end_object(json);
}
