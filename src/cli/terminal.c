#include "cli/terminal.h"

#include "io/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
    struct rota_terminal terminal = {.width = 80};
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    struct winsize size;

    terminal.is_terminal = isatty(STDOUT_FILENO);
    if (!terminal.is_terminal)
        return terminal;
    terminal.is_colored =
        !(no_color && no_color[0]) && term && term[0] && strcmp(term, "dumb") != 0;
    terminal.is_utf8 = is_utf8_locale();
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        terminal.width = size.ws_col < 40 ? 40 : size.ws_col;
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

/* Eighths of a column, where the font has them. */
static const char *const EIGHTHS[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};

void rota_terminal_bar(const struct rota_terminal *terminal, enum rota_color color, double value,
                       double full, int width)
{
    double columns = full > 0 && value > 0 ? value / full * width : 0;
    int eighths = (int)(columns * 8 + 0.5);
    if (!(value > 0))
        return;
    if (eighths == 0)
        eighths = 1; /* little is not nothing */
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

void rota_progress_step(struct rota_progress *progress, uint64_t done, uint64_t total)
{
    enum { WIDTH = 40 };
    const rota_time quiet = 500 * ROTA_MSEC, redraw = 100 * ROTA_MSEC;
    rota_time now = rota_clock_mono();

    if (progress->started_at == 0)
        progress->started_at = now;
    if (now - progress->started_at < quiet || now - progress->drawn_at < redraw || total == 0 ||
        !isatty(STDERR_FILENO))
        return;
    progress->drawn_at = now;
    progress->is_drawn = true;
    int filled = (int)((double)done / (double)total * WIDTH);
    fprintf(stderr, "\r%s [", progress->what);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '=' : ' ', stderr);
    fprintf(stderr, "] %3d%%", (int)((double)done / (double)total * 100));
    fflush(stderr);
}

void rota_progress_end(struct rota_progress *progress)
{
    if (progress->is_drawn)
        fputs("\r\033[K", stderr);
    progress->is_drawn = false;
}
