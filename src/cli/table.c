#include "cli/table.h"

#include "wire/text/json_rows.h"
#include "wire/text/json_scan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    GAP = 2,        /* blank columns between two columns of the table */
    WIDTH_MIN = 12, /* no column is cut below this */
    LINES_AT_A_TIME = 10000,
};

const char *const rota_table_form_names[] = {"auto", "table", "wide", "tsv", "json", NULL};

enum rota_table_form rota_table_choose(enum rota_table_form form,
                                       const struct rota_terminal *terminal)
{
    if (form != ROTA_TABLE_AUTO)
        return form;
    return terminal->is_terminal ? ROTA_TABLE_PLAIN : ROTA_TABLE_TSV;
}

/* --- cells --- */

/* In the largest unit that leaves two digits or more: "45s", "90m", "26h", "12d". */
static void append_age(struct rota_buffer *buffer, rota_time age)
{
    static const struct {
        rota_time unit, up_to;
        const char *name;
    } UNITS[] = {
        {ROTA_SEC, 100 * ROTA_SEC, "s"},
        {60 * ROTA_SEC, 100 * 60 * ROTA_SEC, "m"},
        {ROTA_HOUR, 48 * ROTA_HOUR, "h"},
        {24 * ROTA_HOUR, ROTA_TIME_NEVER, "d"},
    };
    size_t i = 0;
    if (age < 0)
        age = 0;
    while (age >= UNITS[i].up_to && i + 1 < sizeof UNITS / sizeof *UNITS)
        i++;
    rota_buffer_print(buffer, "%lld%s", (long long)(age / UNITS[i].unit), UNITS[i].name);
}

/* The number at the start of a cell. */
static rota_time parse_ms(struct rota_str cell, size_t *size)
{
    rota_time ms = 0;
    size_t i = 0;
    for (; i < cell.size && cell.data[i] >= '0' && cell.data[i] <= '9'; i++)
        ms = ms > ROTA_TIME_NEVER / ROTA_MSEC / 10 ? ms : ms * 10 + (cell.data[i] - '0');
    *size = i;
    return ms > ROTA_TIME_NEVER / ROTA_MSEC ? ROTA_TIME_NEVER : ms * ROTA_MSEC;
}

static void append_time(struct rota_buffer *buffer, struct rota_str cell, enum rota_table_kind kind,
                        bool is_table, rota_time now)
{
    char text[ROTA_TIME_TEXT_MAX];
    size_t size;
    rota_time time = parse_ms(cell, &size);
    if (size == cell.size && time == 0)
        rota_buffer_append_char(buffer, '-');
    else if (size < cell.size && rota_time_parse(cell, &time))
        rota_terminal_append(buffer, cell);
    else if (!is_table)
        rota_buffer_append_text(buffer, rota_terminal_format_time(time, 3, text));
    else if (kind == ROTA_TABLE_AGE)
        append_age(buffer, now - time);
    else
        rota_terminal_append_local(buffer, time);
}

/* In the largest unit that leaves a digit or more: "18.2 MiB". */
static void append_bytes(struct rota_buffer *buffer, struct rota_str cell)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double bytes = 0;
    size_t unit = 0;
    for (size_t i = 0; i < cell.size && cell.data[i] >= '0' && cell.data[i] <= '9'; i++)
        bytes = bytes * 10 + (cell.data[i] - '0');
    for (; bytes >= 1024 && unit + 1 < sizeof UNITS / sizeof *UNITS; unit++)
        bytes /= 1024;
    rota_buffer_print(buffer, "%.*f %s", unit > 0 && bytes < 100, bytes, UNITS[unit]);
}

static void append_list(struct rota_buffer *buffer, struct rota_str array)
{
    struct rota_scan scan;
    char *room = malloc(array.size + 1);
    bool is_first = true;
    if (!room) {
        buffer->failed = true;
        return;
    }
    rota_json_scan_init(&scan, array, room);
    rota_json_scan_array(&scan);
    while (rota_json_scan_item(&scan)) {
        struct rota_str item = rota_json_scan_string(&scan);
        rota_buffer_append_text(buffer, is_first ? "" : ",");
        rota_terminal_append(buffer, item);
        is_first = false;
    }
    if (is_first)
        rota_buffer_append_char(buffer, '-');
    free(room);
}

static void append_cell(struct rota_buffer *buffer, struct rota_str cell, enum rota_table_kind kind,
                        bool is_table, rota_time now)
{
    char text[ROTA_TIME_TEXT_MAX];
    size_t size;
    if (cell.size == 0) {
        rota_buffer_append_char(buffer, '-');
        return;
    }
    switch (kind) {
    case ROTA_TABLE_TEXT:
    case ROTA_TABLE_NAME:
    case ROTA_TABLE_NUMBER:
    case ROTA_TABLE_STATE:
    case ROTA_TABLE_LINES:
        rota_terminal_append(buffer, cell);
        break;
    case ROTA_TABLE_FLAG:
        rota_buffer_append_text(buffer, cell.data[0] == 't' ? "yes" : "no");
        break;
    case ROTA_TABLE_TIME:
    case ROTA_TABLE_AGE:
        append_time(buffer, cell, kind, is_table, now);
        break;
    case ROTA_TABLE_DURATION:
        rota_buffer_append_text(buffer, rota_span_format(parse_ms(cell, &size), text));
        break;
    case ROTA_TABLE_LIST:
        append_list(buffer, cell);
        break;
    case ROTA_TABLE_BYTES:
        if (is_table)
            append_bytes(buffer, cell);
        else
            rota_terminal_append(buffer, cell);
        break;
    }
}

static enum rota_color color_of(struct rota_str state)
{
    static const struct {
        const char *word;
        enum rota_color color;
    } WORDS[] = {
        {"serving", ROTA_COLOR_GREEN},    {"open", ROTA_COLOR_GREEN},
        {"owned", ROTA_COLOR_GREEN},      {"held", ROTA_COLOR_GREEN},
        {"done", ROTA_COLOR_GREEN},       {"in", ROTA_COLOR_GREEN},
        {"ok", ROTA_COLOR_GREEN},         {"nothing lost", ROTA_COLOR_GREEN},
        {"FAILED", ROTA_COLOR_RED},       {"violated", ROTA_COLOR_RED},
        {"running", ROTA_COLOR_BLUE},     {"joining", ROTA_COLOR_YELLOW},
        {"draining", ROTA_COLOR_YELLOW},  {"stopping", ROTA_COLOR_YELLOW},
        {"moving", ROTA_COLOR_YELLOW},    {"paused", ROTA_COLOR_YELLOW},
        {"unresponsive", ROTA_COLOR_RED}, {"dead", ROTA_COLOR_RED},
        {"evicted", ROTA_COLOR_RED},      {"expired", ROTA_COLOR_RED},
        {"unowned", ROTA_COLOR_RED},      {"failing", ROTA_COLOR_RED},
        {"not serving", ROTA_COLOR_RED},  {"unknown", ROTA_COLOR_YELLOW},
        {"on ring", ROTA_COLOR_GREEN},    {"not yet", ROTA_COLOR_YELLOW},
        {"warn", ROTA_COLOR_YELLOW},      {"fail", ROTA_COLOR_RED},
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (rota_str_is_equal(state, rota_str(WORDS[i].word)))
            return WORDS[i].color;
    return ROTA_COLOR_NONE;
}

/* --- a table --- */

struct drawing {
    struct rota_buffer *buffer;
    const struct rota_table *table;
    const struct rota_terminal *terminal;
    struct rota_str *cells; /* as shown, row by row; the first row has the titles */
    size_t n_rows;
    bool is_wide, has_titles; /* already drawn */
    int widths[ROTA_ROWS_FIELDS_MAX];
    bool is_left_out[ROTA_ROWS_FIELDS_MAX]; /* no row has a value there, and the terminal is narrow
                                             */
};

static bool is_shown(const struct drawing *drawing, size_t column)
{
    return drawing->is_wide ||
           (!drawing->table->columns[column].is_wide && !drawing->is_left_out[column]);
}

static int sum_widths(const struct drawing *drawing)
{
    int sum = -GAP;
    for (size_t i = 0; i < drawing->table->n_columns; i++)
        sum += is_shown(drawing, i) ? drawing->widths[i] + GAP : 0;
    return sum;
}

static bool is_cut(enum rota_table_kind kind)
{
    return kind == ROTA_TABLE_TEXT || kind == ROTA_TABLE_LIST;
}

/* If the terminal is too narrow for all columns, empty ones are left out first. */
static void leave_out(struct drawing *drawing)
{
    size_t n_columns = drawing->table->n_columns;
    for (size_t column = 1; column < n_columns; column++) {
        size_t row = 1;
        while (row < drawing->n_rows &&
               rota_str_is_equal(drawing->cells[row * n_columns + column], rota_str("-")))
            row++;
        drawing->is_left_out[column] = drawing->n_rows > 1 && row == drawing->n_rows;
    }
}

/* Widths by content; if that is too wide, the widest column of text shrinks. */
static void choose_widths(struct drawing *drawing)
{
    const struct rota_table *table = drawing->table;
    for (size_t i = 0; i < drawing->n_rows * table->n_columns; i++) {
        int columns = rota_terminal_columns(drawing->cells[i]);
        int *width = &drawing->widths[i % table->n_columns];
        *width = columns > *width ? columns : *width;
    }
    if (drawing->terminal->is_terminal && !drawing->has_titles &&
        sum_widths(drawing) > drawing->terminal->width)
        leave_out(drawing);
    for (int over = sum_widths(drawing) - drawing->terminal->width;
         over > 0 && !drawing->is_wide && drawing->terminal->is_terminal;) {
        int *widest = NULL;
        for (size_t i = 0; i < table->n_columns; i++)
            if (is_shown(drawing, i) && is_cut(table->columns[i].kind) &&
                drawing->widths[i] > WIDTH_MIN && (!widest || drawing->widths[i] > *widest))
                widest = &drawing->widths[i];
        if (!widest)
            return;
        --*widest;
        over--;
    }
}

static void append_padded(struct drawing *drawing, size_t row, size_t column, bool is_last)
{
    struct rota_str cell = drawing->cells[row * drawing->table->n_columns + column];
    enum rota_table_kind kind = drawing->table->columns[column].kind;
    int columns = rota_terminal_columns(cell), width = drawing->widths[column];
    int room = columns < width ? width - columns : 0;
    bool is_right = kind == ROTA_TABLE_NUMBER || kind == ROTA_TABLE_DURATION ||
                    kind == ROTA_TABLE_AGE || kind == ROTA_TABLE_BYTES;
    enum rota_color color = row == 0                   ? ROTA_COLOR_BOLD
                            : kind == ROTA_TABLE_STATE ? color_of(cell)
                                                       : ROTA_COLOR_NONE;
    if (is_right)
        rota_buffer_print(drawing->buffer, "%*s", room, "");
    if (color)
        rota_buffer_append_text(drawing->buffer, rota_terminal_color(drawing->terminal, color));
    rota_terminal_append_cut(drawing->buffer, drawing->terminal, cell, width);
    if (color)
        rota_buffer_append_text(drawing->buffer,
                                rota_terminal_color(drawing->terminal, ROTA_COLOR_NONE));
    if (!is_last)
        rota_buffer_print(drawing->buffer, "%*s", (is_right ? 0 : room) + GAP, "");
}

static void append_table(struct drawing *drawing)
{
    size_t last = 0;
    choose_widths(drawing);
    for (size_t i = 0; i < drawing->table->n_columns; i++)
        last = is_shown(drawing, i) ? i : last;
    for (size_t row = drawing->has_titles ? 1 : 0; row < drawing->n_rows; row++) {
        for (size_t i = 0; i <= last; i++)
            if (is_shown(drawing, i))
                append_padded(drawing, row, i, i == last);
        rota_buffer_append_char(drawing->buffer, '\n');
    }
    drawing->has_titles = true;
}

/* Format the titles and all cells. Returns false if out of memory. */
static bool format_cells(struct drawing *drawing, const struct rota_rows *rows, rota_time now,
                         struct rota_buffer *text)
{
    const struct rota_table *table = drawing->table;
    size_t n = drawing->n_rows * table->n_columns;
    size_t *ends = calloc(n + 1, sizeof *ends);
    if (!ends)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t row = i / table->n_columns, column = i % table->n_columns;
        if (row == 0)
            rota_buffer_append_text(text, table->columns[column].title);
        else
            append_cell(text, rota_rows_cell(rows, row - 1, column), table->columns[column].kind,
                        true, now);
        ends[i] = text->size;
    }
    for (size_t i = 0; i < n && !text->failed; i++) {
        size_t start = i > 0 ? ends[i - 1] : 0;
        drawing->cells[i] = rota_str_of(text->data + start, ends[i] - start);
    }
    free(ends);
    return !text->failed;
}

static enum rota_code append_rows(struct drawing *drawing, const struct rota_rows *rows,
                                  rota_time now, struct rota_error *error)
{
    struct rota_buffer text = {0};
    drawing->n_rows = rows->n_rows + 1;
    drawing->cells =
        calloc(drawing->n_rows * drawing->table->n_columns + 1, sizeof *drawing->cells);
    bool is_formatted = drawing->cells && format_cells(drawing, rows, now, &text);
    if (is_formatted)
        append_table(drawing);
    free(drawing->cells);
    rota_buffer_deinit(&text);
    return is_formatted ? ROTA_OK : rota_error_no_memory(error, "for a table");
}

/* --- the forms --- */

static void append_lines(struct rota_buffer *buffer, const struct rota_table *table,
                         const struct rota_rows *rows, rota_time now)
{
    for (size_t row = 0; row < rows->n_rows; row++) {
        if (table->name)
            rota_buffer_print(buffer, "%s\t", table->name);
        for (size_t i = 0; i < table->n_columns; i++) {
            append_cell(buffer, rota_rows_cell(rows, row, i), table->columns[i].kind, false, now);
            rota_buffer_append_char(buffer, i + 1 < table->n_columns ? '\t' : '\n');
        }
    }
}

static enum rota_code read_rows(const struct rota_table *table, struct rota_str document,
                                const char *key, struct rota_rows *rows, struct rota_error *error)
{
    const char *fields[ROTA_ROWS_FIELDS_MAX];
    for (size_t i = 0; i < table->n_columns; i++)
        fields[i] = table->columns[i].field;
    return rota_json_rows_read(document, key, fields, table->n_columns, rows, error);
}

static enum rota_code append_read(struct drawing *drawing, enum rota_table_form form,
                                  const struct rota_rows *rows, rota_time now,
                                  struct rota_error *error)
{
    if (form != ROTA_TABLE_TSV)
        return append_rows(drawing, rows, now, error);
    append_lines(drawing->buffer, drawing->table, rows, now);
    return ROTA_OK;
}

static enum rota_code append_document(struct drawing *drawing, enum rota_table_form form,
                                      struct rota_str document, const char *key, rota_time now,
                                      struct rota_error *error)
{
    struct rota_rows rows;
    enum rota_code code = read_rows(drawing->table, document, key, &rows, error);
    if (code)
        return code;
    code = append_read(drawing, form, &rows, now, error);
    rota_json_rows_deinit(&rows);
    return code;
}

/* Objects, one per line, in batches: there may be millions. */
static enum rota_code append_objects(struct drawing *drawing, enum rota_table_form form,
                                     struct rota_str lines, rota_time now, struct rota_error *error)
{
    struct rota_buffer document = {0};
    enum rota_code code = ROTA_OK;
    do {
        rota_buffer_clear(&document);
        rota_buffer_append_text(&document, "{\"rows\":[");
        for (size_t n = 0; n < LINES_AT_A_TIME && lines.size > 0; n++) {
            const char *end = memchr(lines.data, '\n', lines.size);
            size_t size = end ? (size_t)(end - lines.data) : lines.size;
            rota_buffer_append_text(&document, n > 0 ? "," : "");
            rota_buffer_append(&document, lines.data, size);
            size += end != NULL;
            lines = rota_str_of(lines.data + size, lines.size - size);
        }
        rota_buffer_append_text(&document, "]}");
        code = document.failed
                   ? rota_error_no_memory(error, "for a table")
                   : append_document(drawing, form, rota_buffer_str(&document), "rows", now, error);
    } while (!code && lines.size > 0);
    rota_buffer_deinit(&document);
    return code;
}

/* --- a sheet --- */

/* One line of text, wrapped at words if the terminal is too narrow. */
static void append_wrapped(struct drawing *drawing, struct rota_str line, int indent)
{
    struct rota_buffer shown = {0}, wrapped = {0};
    rota_terminal_append(&shown, line);
    rota_buffer_append_char(&shown, '\0');
    if (!shown.failed && drawing->terminal->is_terminal && !drawing->is_wide)
        rota_terminal_wrap(&wrapped, shown.data, indent, drawing->terminal->width);
    struct rota_str text = wrapped.size > 0 ? rota_str_of(wrapped.data, wrapped.size - 1)
                                            : rota_str(shown.failed ? "" : shown.data);
    rota_buffer_append_str(drawing->buffer, text);
    drawing->buffer->failed |= shown.failed || wrapped.failed;
    rota_buffer_deinit(&shown);
    rota_buffer_deinit(&wrapped);
}

/* A value on a terminal: further lines are indented below the first one. */
static void append_value(struct drawing *drawing, const struct rota_table_column *column,
                         struct rota_str cell, int indent, rota_time now)
{
    struct rota_buffer shown = {0};
    const char *end;
    while (column->kind == ROTA_TABLE_LINES && (end = memchr(cell.data, '\n', cell.size))) {
        size_t size = (size_t)(end - cell.data);
        append_wrapped(drawing, rota_str_of(cell.data, size), indent);
        cell = rota_str_of(end + 1, cell.size - size - 1);
        if (cell.size == 0)
            return;
        rota_buffer_print(drawing->buffer, "\n%*s", indent, "");
    }
    if (column->kind == ROTA_TABLE_LINES) {
        append_wrapped(drawing, cell, indent);
        return;
    }
    append_cell(&shown, cell, column->kind, true, now);
    if (column->kind == ROTA_TABLE_AGE)
        rota_buffer_append_text(&shown, " ago");
    struct rota_str text = rota_buffer_str(&shown);
    enum rota_color color = column->kind == ROTA_TABLE_STATE ? color_of(text) : ROTA_COLOR_NONE;
    if (color)
        rota_buffer_append_text(drawing->buffer, rota_terminal_color(drawing->terminal, color));
    if (is_cut(column->kind) && !drawing->is_wide)
        rota_terminal_append_cut(drawing->buffer, drawing->terminal, text,
                                 drawing->terminal->width - indent);
    else
        rota_buffer_append_str(drawing->buffer, text);
    if (color)
        rota_buffer_append_text(drawing->buffer,
                                rota_terminal_color(drawing->terminal, ROTA_COLOR_NONE));
    drawing->buffer->failed |= shown.failed;
    rota_buffer_deinit(&shown);
}

/* On a terminal an empty field is left out. */
static bool has_value(const struct drawing *drawing, const struct rota_rows *rows, size_t column)
{
    struct rota_str cell = rota_rows_cell(rows, 0, column);
    enum rota_table_kind kind = drawing->table->columns[column].kind;
    bool is_time = kind == ROTA_TABLE_TIME || kind == ROTA_TABLE_AGE || kind == ROTA_TABLE_DURATION;
    return is_shown(drawing, column) && cell.size > 0 && !rota_str_is_equal(cell, rota_str("[]")) &&
           !(is_time && rota_str_is_equal(cell, rota_str("0")));
}

static void append_fields(struct drawing *drawing, const struct rota_rows *rows, rota_time now)
{
    const struct rota_table *table = drawing->table;
    int width = 0;
    for (size_t i = 0; i < table->n_columns; i++) {
        int columns = rota_terminal_columns(rota_str(table->columns[i].title));
        if (has_value(drawing, rows, i) && columns > width)
            width = columns;
    }
    for (size_t i = 0; i < table->n_columns; i++) {
        if (!has_value(drawing, rows, i))
            continue;
        rota_buffer_print(drawing->buffer, "%s%-*s%s%*s",
                          rota_terminal_color(drawing->terminal, ROTA_COLOR_BOLD), width,
                          table->columns[i].title,
                          rota_terminal_color(drawing->terminal, ROTA_COLOR_NONE), GAP, "");
        append_value(drawing, &table->columns[i], rota_rows_cell(rows, 0, i), width + GAP, now);
        rota_buffer_append_char(drawing->buffer, '\n');
    }
}

static void append_pairs(struct rota_buffer *buffer, const struct rota_table *table,
                         const struct rota_rows *rows, rota_time now)
{
    for (size_t i = 0; i < table->n_columns; i++) {
        rota_buffer_print(buffer, "%s\t", table->columns[i].field);
        append_cell(buffer, rota_rows_cell(rows, 0, i), table->columns[i].kind, false, now);
        rota_buffer_append_char(buffer, '\n');
    }
}

/* The table of an array in the object, after an empty line; nothing if the array is empty. */
static enum rota_code append_part(struct drawing *drawing, const struct rota_table *part,
                                  enum rota_table_form form, struct rota_str object, rota_time now,
                                  struct rota_error *error)
{
    struct drawing below = {.buffer = drawing->buffer,
                            .table = part,
                            .terminal = drawing->terminal,
                            .is_wide = drawing->is_wide};
    struct rota_rows rows = {0};
    enum rota_code code = read_rows(part, object, part->key, &rows, error);
    if (code == ROTA_ERR_NOT_FOUND)
        return ROTA_OK;
    if (!code && form != ROTA_TABLE_TSV && rows.n_rows > 0)
        rota_buffer_append_char(drawing->buffer, '\n');
    if (!code && rows.n_rows > 0)
        code = append_read(&below, form, &rows, now, error);
    rota_json_rows_deinit(&rows);
    return code;
}

static enum rota_code append_sheet(struct drawing *drawing, enum rota_table_form form,
                                   struct rota_str object, rota_time now, struct rota_error *error)
{
    struct rota_buffer document = {0};
    struct rota_rows rows = {0};
    rota_buffer_print(&document, "{\"rows\":[%.*s]}", ROTA_STR_ARGS(object));
    enum rota_code code = document.failed ? rota_error_no_memory(error, "for a table")
                                          : read_rows(drawing->table, rota_buffer_str(&document),
                                                      "rows", &rows, error);
    rota_buffer_deinit(&document);
    if (!code && rows.n_rows != 1)
        code = rota_error_set(error, ROTA_ERR_INVALID, "malformed reply: expected one object");
    if (!code && form == ROTA_TABLE_TSV)
        append_pairs(drawing->buffer, drawing->table, &rows, now);
    else if (!code)
        append_fields(drawing, &rows, now);
    for (size_t i = 0; !code && i < drawing->table->n_parts; i++)
        code = append_part(drawing, &drawing->table->parts[i], form, object, now, error);
    rota_json_rows_deinit(&rows);
    return code;
}

enum rota_code rota_table_append(struct rota_buffer *buffer, const struct rota_table *table,
                                 enum rota_table_form form, const struct rota_terminal *terminal,
                                 struct rota_str document, rota_time now, struct rota_error *error)
{
    struct drawing drawing = {.buffer = buffer,
                              .table = table,
                              .terminal = terminal,
                              .is_wide = form == ROTA_TABLE_WIDE,
                              .has_titles = table->is_continued};
    if (form == ROTA_TABLE_JSON) {
        rota_buffer_append_str(buffer, document);
        return ROTA_OK;
    }
    if (table->is_sheet)
        return append_sheet(&drawing, form, document, now, error);
    return table->key ? append_document(&drawing, form, document, table->key, now, error)
                      : append_objects(&drawing, form, document, now, error);
}
