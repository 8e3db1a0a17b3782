/* The lines of a live view. */
#include "base/quote.h"
#include "cli/node/top.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MARGIN = 2, GAP = 2, NAME_MIN = 21, HEAD_LINES = 3, FOOT_LINES = 1, TOTAL_LINES = 1 };

/* --- cells --- */

struct cell {
    char text[ROTA_TOP_CELL_MAX * 4 + 1];
    size_t size;
    int width; /* columns of the screen */
};

/* Escapes what would control a terminal. A character that is not ASCII takes one column. */
static void put_text(struct cell *cell, struct rota_str text)
{
    char piece[ROTA_QUOTE_PIECE_MAX];
    while (text.size > 0 && cell->width < ROTA_TOP_CELL_MAX - ROTA_QUOTE_PIECE_MAX) {
        size_t n = 1;
        if (*text.data == '"' || *text.data == '\\') {
            piece[0] = *text.data;
            text = rota_str_of(text.data + 1, text.size - 1);
        } else {
            n = rota_quote_next(&text, piece);
        }
        memcpy(cell->text + cell->size, piece, n);
        cell->size += n;
        cell->width += (unsigned char)piece[0] < 0x80 ? (int)n : 1;
    }
}

static void put_number(struct cell *cell, double value, int decimals, const char *unit)
{
    int n = snprintf(cell->text, sizeof cell->text, "%.*f", decimals, value);
    cell->size = n > 0 ? (size_t)n : 0;
    cell->width = (int)cell->size;
    put_text(cell, rota_str(unit));
}

struct unit {
    double size;
    const char *name;
};

static void put_scaled(struct cell *cell, double value, const struct unit *units, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (value >= units[i].size || i == n - 1) {
            double scaled = value / units[i].size;
            put_number(cell, scaled, scaled < 10 && units[i].size > units[n - 1].size,
                       units[i].name);
            return;
        }
}

static void put_bytes(struct cell *cell, double bytes)
{
    static const struct unit UNITS[] = {
        {1024.0 * 1024 * 1024, "G"}, {1024.0 * 1024, "M"}, {1024, "K"}, {1, ""}};
    put_scaled(cell, bytes, UNITS, 4);
}

static void put_span(struct cell *cell, double ms)
{
    static const struct unit UNITS[] = {
        {86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}, {1, "ms"}};
    put_scaled(cell, ms > 0 ? ms : 0, UNITS, 5);
}

static struct cell make_cell(const struct rota_top_view *view, const struct rota_top_row *row,
                             size_t column, uint64_t now_ms)
{
    struct cell cell = {.size = 0};
    double value = row->values[column];
    bool is_missing = row->cells[column].size == 0;
    switch (view->columns[column].kind) {
    case ROTA_TOP_TEXT:
        put_text(&cell, row->cells[column]);
        return cell;
    case ROTA_TOP_FLAG:
        if (!is_missing)
            put_text(&cell, rota_str(row->cells[column].data[0] == 't' ? "yes" : "no"));
        return cell;
    case ROTA_TOP_NUMBER:
    case ROTA_TOP_VALUE:
        if (!is_missing)
            put_number(&cell, value, value == floor(value) ? 0 : 2, "");
        break;
    case ROTA_TOP_BYTES:
        if (!is_missing)
            put_bytes(&cell, value);
        break;
    case ROTA_TOP_AGE:
        if (!is_missing && value > 0)
            put_span(&cell, (double)now_ms - value);
        break;
    case ROTA_TOP_SPAN:
        if (!is_missing)
            put_span(&cell, value);
        break;
    case ROTA_TOP_RATE:
        if (!is_missing)
            put_number(&cell, row->rates[column], row->rates[column] < 10, "");
        break;
    case ROTA_TOP_CPU:
        if (!is_missing)
            put_number(&cell, row->rates[column] / 10, 1, "%");
        break;
    }
    if (cell.size == 0)
        put_text(&cell, rota_str("-"));
    return cell;
}

/* --- lines --- */

static void begin_line(struct rota_top_screen *screen)
{
    screen->lines[screen->n] = (struct rota_top_line){.at = screen->text.size};
}

static void end_line(struct rota_top_screen *screen, enum rota_top_mark mark)
{
    struct rota_top_line *line = &screen->lines[screen->n++];
    line->size = screen->text.size - line->at;
    line->mark = mark;
}

/* Pad to `width` columns, left- or right-aligned; the end of a longer text is cut off. */
static void add_cell(struct rota_top_screen *screen, const struct cell *cell, int width,
                     bool is_right)
{
    int pad = width > cell->width ? width - cell->width : 0, left = width;
    if (is_right)
        rota_buffer_print(&screen->text, "%*s", pad, "");
    for (size_t i = 0; i < cell->size && left > 0; left--) {
        size_t n = 1;
        while (i + n < cell->size && ((unsigned char)cell->text[i + n] & 0xc0) == 0x80)
            n++;
        bool is_cut = left == 1 && i + n < cell->size;
        rota_buffer_append(&screen->text, is_cut ? "~" : cell->text + i, is_cut ? 1 : n);
        i += n;
    }
    if (!is_right)
        rota_buffer_print(&screen->text, "%*s", pad, "");
}

static void add_line(const struct rota_top *top, struct rota_top_screen *screen,
                     enum rota_top_mark mark, struct rota_str text)
{
    struct cell cell = {.size = 0};
    put_text(&cell, text);
    begin_line(screen);
    add_cell(screen, &cell, cell.width < top->width ? cell.width : top->width, false);
    end_line(screen, mark);
}

static int body_height(const struct rota_top *top)
{
    return top->height - HEAD_LINES - FOOT_LINES;
}

/* --- the table --- */

struct layout {
    int widths[ROTA_TOP_COLUMNS_MAX];
    size_t n; /* columns that fit on the screen */
};

/* The sum of all rows, for columns where it is meaningful. */
static struct rota_top_row sum_up(const struct rota_top *top)
{
    const struct rota_top_view *view = &rota_top_views[top->view];
    struct rota_top_row total = {.cells[0] = rota_str("TOTAL")};
    for (size_t i = 1; i < view->n_columns; i++) {
        enum rota_top_kind kind = view->columns[i].kind;
        bool is_summed = kind == ROTA_TOP_NUMBER || kind == ROTA_TOP_BYTES ||
                         kind == ROTA_TOP_RATE || kind == ROTA_TOP_CPU;
        for (size_t row = 0; is_summed && row < top->rows.size; row++) {
            const struct rota_top_row *of = &top->rows.items[row];
            total.values[i] += of->values[i];
            total.rates[i] += of->rates[i];
            if (of->cells[i].size > 0)
                total.cells[i] = of->cells[i]; /* there is something to sum */
        }
    }
    return total;
}

/* As wide as the shown rows and their sum need. Names are shortened first, then columns on the
 * right are left out. */
static struct layout lay_out(const struct rota_top *top, size_t from, size_t to,
                             const struct rota_top_row *sum, uint64_t now_ms)
{
    const struct rota_top_view *view = &rota_top_views[top->view];
    struct layout layout = {.n = view->n_columns};
    int total = MARGIN;
    for (size_t i = 0; i < view->n_columns; i++) {
        layout.widths[i] = (int)strlen(view->columns[i].title) + 1; /* and the sort mark */
        for (size_t row = from; row <= to; row++) {
            struct cell cell = make_cell(view, row < to ? &top->rows.items[row] : sum, i, now_ms);
            if (cell.width > layout.widths[i])
                layout.widths[i] = cell.width;
        }
        total += layout.widths[i] + (i > 0 ? GAP : 0);
    }
    while (total > top->width && layout.n > 1) {
        int spare = layout.widths[0] - NAME_MIN, over = total - top->width;
        if (spare >= over) {
            layout.widths[0] -= over;
            return layout;
        }
        layout.n--;
        total -= layout.widths[layout.n] + GAP;
    }
    if (total > top->width)
        layout.widths[0] = top->width - MARGIN;
    return layout;
}

static void add_titles(const struct rota_top *top, const struct layout *layout,
                       struct rota_top_screen *screen)
{
    const struct rota_top_view *view = &rota_top_views[top->view];
    begin_line(screen);
    rota_buffer_print(&screen->text, "%*s", MARGIN, "");
    for (size_t i = 0; i < layout->n; i++) {
        struct cell cell = {.size = 0};
        bool is_sorted = i == top->sorted_by[top->view];
        put_text(&cell, rota_str(view->columns[i].title));
        if (is_sorted)
            put_text(&cell, rota_str(top->marks[top->is_reversed[top->view]]));
        if (i > 0)
            rota_buffer_print(&screen->text, "%*s", GAP, "");
        add_cell(screen, &cell, layout->widths[i], !rota_top_is_text(view->columns[i].kind));
    }
    end_line(screen, ROTA_TOP_HEAD);
}

static bool is_bad(const struct rota_top_row *row, const struct rota_top_view *view)
{
    static const char *const BAD[] = {"dead", "unresponsive", "evicted", "open"};
    for (size_t i = 0; i < view->n_columns; i++)
        for (size_t k = 0; k < sizeof BAD / sizeof BAD[0]; k++)
            if (view->columns[i].kind == ROTA_TOP_TEXT && i > 0 &&
                rota_str_is_equal(row->cells[i], rota_str(BAD[k])))
                return true;
    return false;
}

static void add_row(const struct rota_top *top, const struct layout *layout,
                    const struct rota_top_row *row, bool is_chosen, uint64_t now_ms,
                    struct rota_top_screen *screen)
{
    const struct rota_top_view *view = &rota_top_views[top->view];
    begin_line(screen);
    rota_buffer_append_text(&screen->text, is_chosen ? "> " : "  ");
    for (size_t i = 0; i < layout->n; i++) {
        struct cell cell = make_cell(view, row, i, now_ms);
        if (i > 0)
            rota_buffer_print(&screen->text, "%*s", GAP, "");
        add_cell(screen, &cell, layout->widths[i], !rota_top_is_text(view->columns[i].kind));
    }
    end_line(screen, is_chosen           ? ROTA_TOP_CHOSEN
                     : is_bad(row, view) ? ROTA_TOP_BAD
                                         : ROTA_TOP_PLAIN);
}

static void draw_table(const struct rota_top *top, uint64_t now_ms, struct rota_top_screen *screen)
{
    size_t height = (size_t)body_height(top) - TOTAL_LINES, chosen = 0, from = 0;
    for (size_t i = 0; i < top->rows.size; i++)
        if (strcmp(top->rows.items[i].name, top->chosen) == 0) {
            chosen = i;
            break;
        }
    if (chosen >= height)
        from = chosen - height + 1;
    size_t to = from + height < top->rows.size ? from + height : top->rows.size;
    const struct rota_top_row total = sum_up(top);
    struct layout layout = lay_out(top, from, to, &total, now_ms);
    add_titles(top, &layout, screen);
    if (!top->has_rows) {
        char why[MARGIN + sizeof top->why];
        snprintf(why, sizeof why, "%*s%s", MARGIN, "", top->why[0] ? top->why : "loading ...");
        add_line(top, screen, ROTA_TOP_DIM, rota_str(why));
    }
    if (top->has_rows && top->rows.size == 0)
        add_line(top, screen, ROTA_TOP_DIM, rota_str("  none"));
    for (size_t i = from; i < to; i++)
        add_row(top, &layout, &top->rows.items[i], i == chosen, now_ms, screen);
    if (top->rows.size == 0)
        return;
    while (screen->n < (size_t)top->height - FOOT_LINES - TOTAL_LINES)
        add_line(top, screen, ROTA_TOP_PLAIN, rota_str(""));
    add_row(top, &layout, &total, false, now_ms, screen);
    screen->lines[screen->n - 1].mark = ROTA_TOP_HEAD;
}

/* --- one row, and help --- */

/* A JSON value as people read it; lists and objects stay as they are. */
static struct rota_str readable(struct rota_str value)
{
    static const struct {
        const char *json, *text;
    } WORDS[] = {{"true", "yes"}, {"false", "no"}, {"null", "-"}, {"\"\"", "-"}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (rota_str_is_equal(value, rota_str(WORDS[i].json)))
            return rota_str(WORDS[i].text);
    if (value.size > 2 && value.data[0] == '"' && !memchr(value.data, '\\', value.size))
        return rota_str_of(value.data + 1, value.size - 2);
    return value;
}

static void draw_details(struct rota_top *top, const struct rota_top_detail *details, size_t n,
                         struct rota_top_screen *screen)
{
    size_t height = (size_t)body_height(top);
    int width = 0;
    for (size_t i = 0; i < n; i++)
        if ((int)details[i].name.size > width && details[i].name.size < 40)
            width = (int)details[i].name.size;
    add_line(top, screen, ROTA_TOP_HEAD, rota_str(top->chosen));
    if (top->scroll + height > n)
        top->scroll = n > height ? n - height : 0;
    for (size_t i = top->scroll; i < n && i < top->scroll + height; i++) {
        struct cell name = {.size = 0}, value = {.size = 0};
        put_text(&name, details[i].name);
        put_text(&value, readable(details[i].value));
        int left = top->width - MARGIN - width - GAP;
        begin_line(screen);
        rota_buffer_print(&screen->text, "%*s", MARGIN, "");
        add_cell(screen, &name, width, false);
        rota_buffer_print(&screen->text, "%*s", GAP, "");
        add_cell(screen, &value, value.width < left ? value.width : left > 0 ? left : 0, false);
        end_line(screen, ROTA_TOP_PLAIN);
    }
}

static void draw_help(const struct rota_top *top, struct rota_top_screen *screen)
{
    static const char *const LINES[] = {
        "  1 2 3 4  nodes, shards, queues, calls; Tab: next",
        "  up down  choose a row; also k and j, Page Up and Down, g and G",
        "  < >      sort by the column on the left or right; also the arrows",
        "  r        reverse the order",
        "  Enter    show the details of the row; Esc goes back",
        "  p        pause and continue",
        "  q        quit",
    };
    add_line(top, screen, ROTA_TOP_HEAD, rota_str("keys"));
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0] && i < (size_t)body_height(top); i++)
        add_line(top, screen, ROTA_TOP_PLAIN, rota_str(LINES[i]));
}

/* --- the screen --- */

static void add_tabs(const struct rota_top *top, struct rota_top_screen *screen)
{
    char text[ROTA_TOP_WIDTH_MAX];
    int n = 0;
    for (size_t i = 0; i < ROTA_TOP_VIEWS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, i == top->view ? " [%zu %s]" : "  %zu %s ",
                      i + 1, rota_top_views[i].name);
    snprintf(text + n, sizeof text - (size_t)n, "  %zu row%s", top->rows.size,
             top->rows.size == 1 ? "" : "s");
    add_line(top, screen, ROTA_TOP_PLAIN, rota_str(text));
}

void rota_top_draw(struct rota_top *top, const char *title, uint64_t now_ms,
                   const struct rota_top_detail *details, size_t n_details,
                   struct rota_top_screen *screen)
{
    if (top->width > ROTA_TOP_WIDTH_MAX)
        top->width = ROTA_TOP_WIDTH_MAX;
    if (top->height > ROTA_TOP_HEIGHT_MAX)
        top->height = ROTA_TOP_HEIGHT_MAX;
    if (top->height < HEAD_LINES + FOOT_LINES + TOTAL_LINES + 1)
        top->height = HEAD_LINES + FOOT_LINES + TOTAL_LINES + 1;
    rota_buffer_clear(&screen->text);
    screen->n = 0;
    add_line(top, screen, ROTA_TOP_HEAD, rota_str(title));
    add_tabs(top, screen);
    if (top->is_help)
        draw_help(top, screen);
    else if (top->is_detail)
        draw_details(top, details, n_details, screen);
    else
        draw_table(top, now_ms, screen);
    while (screen->n < (size_t)top->height - 1)
        add_line(top, screen, ROTA_TOP_PLAIN, rota_str(""));
    add_line(top, screen, ROTA_TOP_DIM,
             rota_str(top->is_paused ? " paused: p resume   ? keys   q quit"
                                     : " ? keys   q quit   Enter details   < > r sort"));
}

static bool is_same_line(const struct rota_top_screen *a, const struct rota_top_screen *b, size_t i)
{
    return a && i < a->n && a->lines[i].mark == b->lines[i].mark &&
           a->lines[i].size == b->lines[i].size &&
           (b->lines[i].size == 0 || memcmp(a->text.data + a->lines[i].at,
                                            b->text.data + b->lines[i].at, b->lines[i].size) == 0);
}

void rota_top_paint(const struct rota_top_screen *shown, const struct rota_top_screen *wanted,
                    bool is_colored, struct rota_buffer *out)
{
    static const char *const COLORS[] = {
        [ROTA_TOP_PLAIN] = "",       [ROTA_TOP_HEAD] = "\033[1m", [ROTA_TOP_CHOSEN] = "\033[7m",
        [ROTA_TOP_BAD] = "\033[31m", [ROTA_TOP_DIM] = "\033[2m",
    };
    if (!shown)
        rota_buffer_append_text(out, "\033[H\033[2J");
    for (size_t i = 0; i < wanted->n; i++) {
        const struct rota_top_line *line = &wanted->lines[i];
        const char *color = is_colored ? COLORS[line->mark] : "";
        if (is_same_line(shown, wanted, i))
            continue;
        rota_buffer_print(out, "\033[%zu;1H%s", i + 1, color);
        rota_buffer_append(out, wanted->text.data + line->at, line->size);
        rota_buffer_print(out, "%s\033[K", color[0] ? "\033[0m" : "");
    }
}

void rota_top_screen_deinit(struct rota_top_screen *screen)
{
    rota_buffer_deinit(&screen->text);
}
