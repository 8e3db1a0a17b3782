#include "cli/terminal.h"

#include "io/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static bool is_utf8_locale(void)
{
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0])
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

struct rota_terminal rota_terminal_look(void)
{
    struct rota_terminal terminal = {.width = 80, .height = 24};
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    struct winsize size;

    terminal.is_terminal = isatty(STDOUT_FILENO);
    if (!terminal.is_terminal)
        return terminal;
    terminal.is_redrawn = term && term[0] && strcmp(term, "dumb") != 0;
    terminal.is_colored = terminal.is_redrawn && !(no_color && no_color[0]);
    terminal.is_utf8 = is_utf8_locale();
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        terminal.width = size.ws_col < 40 ? 40 : size.ws_col;
        terminal.height = size.ws_row < 10 ? 10 : size.ws_row;
    }
    return terminal;
}

const char *rota_terminal_color(const struct rota_terminal *terminal, enum rota_color color)
{
    if (!terminal->is_colored)
        return "";
    switch (color) {
    case ROTA_COLOR_NONE:
        return "\033[0m";
    case ROTA_COLOR_BOLD:
        return "\033[1m";
    case ROTA_COLOR_DIM:
        return "\033[2m";
    case ROTA_COLOR_RED:
        return "\033[31m";
    case ROTA_COLOR_GREEN:
        return "\033[32m";
    case ROTA_COLOR_YELLOW:
        return "\033[33m";
    case ROTA_COLOR_BLUE:
        return "\033[34m";
    }
    return "";
}

size_t rota_terminal_next(struct rota_str *rest, char piece[ROTA_QUOTE_PIECE_MAX])
{
    if (*rest->data != '"' && *rest->data != '\\')
        return rota_quote_next(rest, piece);
    piece[0] = *rest->data;
    *rest = rota_str_of(rest->data + 1, rest->size - 1);
    return 1;
}

void rota_terminal_end_line(struct rota_buffer *result)
{
    if (result->size > 0 && result->data[result->size - 1] != '\n' && isatty(STDOUT_FILENO))
        rota_buffer_append_char(result, '\n');
}

void rota_terminal_append(struct rota_buffer *buffer, struct rota_str text)
{
    char piece[ROTA_QUOTE_PIECE_MAX];
    while (text.size > 0) {
        size_t size = rota_terminal_next(&text, piece);
        rota_buffer_append(buffer, piece, size);
    }
}

/* The width of one character as shown: an escape is as wide as it is long. */
static int piece_columns(const char *piece, size_t size)
{
    return (unsigned char)piece[0] < 0x80 ? (int)size : 1;
}

int rota_terminal_columns(struct rota_str text)
{
    char piece[ROTA_QUOTE_PIECE_MAX];
    int columns = 0;
    while (text.size > 0) {
        size_t size = rota_terminal_next(&text, piece);
        columns += piece_columns(piece, size);
    }
    return columns;
}

int rota_terminal_append_cut(struct rota_buffer *buffer, const struct rota_terminal *terminal,
                             struct rota_str text, int width)
{
    char piece[ROTA_QUOTE_PIECE_MAX];
    int columns = rota_terminal_columns(text), column = 0, shown = 0;
    bool is_cut = columns > width && terminal->is_terminal, is_marked = false;
    int head = (width - 1) / 2, tail = width - 1 - head;

    while (text.size > 0) {
        size_t size = rota_terminal_next(&text, piece);
        int next = column + piece_columns(piece, size);
        if (is_cut && next > head && !is_marked) {
            rota_buffer_append_text(buffer, terminal->is_utf8 ? "…" : "~");
            shown++;
            is_marked = true;
        }
        if (!is_cut || next <= head || column >= columns - tail) {
            rota_buffer_append(buffer, piece, size);
            shown += next - column;
        }
        column = next;
    }
    return shown;
}

char *rota_terminal_format_time(rota_time time, int digits, char text[ROTA_TIME_TEXT_MAX])
{
    rota_time fraction = (time % ROTA_SEC + ROTA_SEC) % ROTA_SEC;
    size_t size = strlen(rota_time_format(time - fraction, text)) - 1; /* "...:53Z" */
    snprintf(text + size, ROTA_TIME_TEXT_MAX - size, ".%0*dZ", digits,
             (int)(fraction / (digits == 3 ? ROTA_MSEC : ROTA_USEC)));
    return text;
}

void rota_terminal_append_local(struct rota_buffer *buffer, rota_time time)
{
    char text[32];
    time_t seconds = time / ROTA_SEC;
    struct tm parts;
    if (localtime_r(&seconds, &parts) && strftime(text, sizeof text, "%F %T", &parts) > 0)
        rota_buffer_append_text(buffer, text);
}

void rota_terminal_append_time(struct rota_buffer *buffer, rota_time time)
{
    char text[ROTA_TIME_TEXT_MAX];
    if (rota_terminal_look().is_terminal)
        rota_terminal_append_local(buffer, time);
    else
        rota_buffer_append_text(buffer, rota_terminal_format_time(time, 3, text));
}

void rota_terminal_wrap(struct rota_buffer *buffer, const char *text, int indent, int width)
{
    int column = indent;
    while (*text) {
        int size = (int)strcspn(text, " ");
        if (column > indent && column + 1 + size > width) {
            rota_buffer_print(buffer, "\n%*s", indent, "");
            column = indent;
        }
        if (column > indent) {
            rota_buffer_append_char(buffer, ' ');
            column++;
        }
        rota_buffer_append(buffer, text, (size_t)size);
        column += size;
        text += size;
        text += *text == ' ';
    }
    rota_buffer_append_char(buffer, '\n');
}

/* Eighths of a column, if the font has them. */
static const char *const EIGHTHS[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};

void rota_terminal_bar(const struct rota_terminal *terminal, enum rota_color color, double value,
                       double full, int width)
{
    double columns = full > 0 && value > 0 ? value / full * width : 0;
    int eighths = (int)(columns * 8 + 0.5);
    if (!(value > 0))
        return;
    if (eighths == 0)
        eighths = 1; /* show a small value as more than nothing */
    if (eighths > 8 * width)
        eighths = 8 * width;
    int whole = terminal->is_utf8 ? eighths / 8 : (eighths + 7) / 8;
    int part = terminal->is_utf8 ? eighths % 8 : 0;

    fputs(rota_terminal_color(terminal, color), stdout);
    for (int i = 0; i < whole; i++)
        fputs(terminal->is_utf8 ? "█" : "#", stdout);
    fputs(EIGHTHS[part], stdout);
    fputs(rota_terminal_color(terminal, ROTA_COLOR_NONE), stdout);
}

/* Whether it is time to draw; the first call starts the clock. */
static bool is_due(struct rota_progress *progress, bool is_known)
{
    const rota_time quiet = 500 * ROTA_MSEC, redraw = 100 * ROTA_MSEC;
    rota_time now = rota_clock_mono();

    if (progress->started_at == 0)
        progress->started_at = now;
    if (now - progress->started_at < quiet || now - progress->drawn_at < redraw || !is_known ||
        !isatty(STDERR_FILENO))
        return false;
    progress->drawn_at = now;
    progress->is_drawn = true;
    return true;
}

void rota_terminal_progress_count(struct rota_progress *progress, uint64_t done)
{
    if (!is_due(progress, true))
        return;
    fprintf(stderr, "\r%s: %" PRIu64, progress->what, done);
    fflush(stderr);
}

void rota_terminal_progress_show_text(struct rota_progress *progress, struct rota_str text)
{
    struct winsize size;
    char piece[ROTA_QUOTE_PIECE_MAX];
    int left = 79; /* writing to the last column would wrap the line */
    if (!is_due(progress, text.size > 0))
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        left = size.ws_col - 1;
    fputc('\r', stderr);
    while (text.size > 0) {
        size_t n = rota_terminal_next(&text, piece);
        left -= piece_columns(piece, n);
        if (left < 0)
            break;
        fwrite(piece, 1, n, stderr);
    }
    fputs("\033[K", stderr);
    fflush(stderr);
}

void rota_terminal_progress_print(struct rota_progress *progress, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rota_terminal_progress_show_text(progress, rota_str(text));
}

void rota_terminal_progress_step(struct rota_progress *progress, uint64_t done, uint64_t total)
{
    enum { WIDTH = 40 };
    if (!is_due(progress, total > 0))
        return;
    int filled = (int)((double)done / (double)total * WIDTH);
    fprintf(stderr, "\r%s [", progress->what);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '=' : ' ', stderr);
    fprintf(stderr, "] %3d%%", (int)((double)done / (double)total * 100));
    fflush(stderr);
}

void rota_terminal_progress_end(struct rota_progress *progress)
{
    if (progress->is_drawn)
        fputs("\r\033[K", stderr);
    progress->is_drawn = false;
}
