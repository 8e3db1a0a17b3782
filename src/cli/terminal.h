/* terminal: what the terminal can show, and drawing on it.
 *
 * Color and bars are for people: both appear only if standard output is a terminal, and color only
 * without NO_COLOR. Otherwise the text is plain. */
#pragma once

#include "base/buffer.h"
#include "base/quote.h"

#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rota_terminal {
    bool is_terminal; /* standard output is a terminal */
    bool is_colored;
    bool is_redrawn; /* text can be overwritten */
    bool is_utf8;
    int width;  /* columns, at least 40; 80 when unknown */
    int height; /* lines, at least 10; 24 when unknown */
};

enum rota_color {
    ROTA_COLOR_NONE,
    ROTA_COLOR_BOLD,
    ROTA_COLOR_DIM,
    ROTA_COLOR_RED,
    ROTA_COLOR_GREEN,
    ROTA_COLOR_YELLOW,
    ROTA_COLOR_BLUE,
};

struct rota_terminal rota_terminal_look(void);

/* The escape codes that start and end a color, or "". */
const char *rota_terminal_color(const struct rota_terminal *terminal, enum rota_color color);

/* Take one character off `*rest`, which is not empty, and write it as it is shown to people:
 * unchanged, unless it would break a line, reverse the text direction or control the terminal.
 * Returns the number of bytes. */
size_t rota_terminal_next(struct rota_str *rest, char piece[ROTA_QUOTE_PIECE_MAX]);

/* On a terminal, add a missing newline to a result, so that the prompt starts on its own line. */
void rota_terminal_end_line(struct rota_buffer *result);

/* Append a text as it is shown to people. */
void rota_terminal_append(struct rota_buffer *buffer, struct rota_str text);

/* How many columns a text takes as it is shown to people, one per character. */
int rota_terminal_columns(struct rota_str text);

/* Append a text in at most `width` columns. On a terminal a longer text loses its middle, since
 * names often differ at both ends. Returns the number of columns. */
int rota_terminal_append_cut(struct rota_buffer *buffer, const struct rota_terminal *terminal,
                             struct rota_str text, int width);

/* Format a time as RFC 3339 with 3 or 6 digits of a second, so that all times have the same width
 * and sort as text. Returns `text`. */
char *rota_terminal_format_time(rota_time time, int digits, char text[ROTA_TIME_TEXT_MAX]);

/* Append a time for people, in the local time zone. */
void rota_terminal_append_local(struct rota_buffer *buffer, rota_time time);

/* The same if standard output is a terminal, otherwise RFC 3339 with milliseconds. */
void rota_terminal_append_time(struct rota_buffer *buffer, rota_time time);

/* Append `text`, wrapped at words to lines of at most `width` columns, each with a newline. The
 * first line continues at column `indent`; the others are indented. */
void rota_terminal_wrap(struct rota_buffer *buffer, const char *text, int indent, int width);

/* Draw `value` of `full` as a bar of at most `width` columns. */
void rota_terminal_bar(const struct rota_terminal *terminal, enum rota_color color, double value,
                       double full, int width);

/* Show the progress of a long operation on standard error if that is a terminal, starting after
 * half a second. Starts zeroed; `end` erases it. */
struct rota_progress {
    const char *what;
    rota_time started_at, drawn_at;
    bool is_drawn;
};

void rota_terminal_progress_step(struct rota_progress *progress, uint64_t done, uint64_t total);
/* The same when the total is unknown. */
void rota_terminal_progress_count(struct rota_progress *progress, uint64_t done);
/* The same with a sentence, which is escaped and cut at the end of the line. */
void rota_terminal_progress_show_text(struct rota_progress *progress, struct rota_str text);
void rota_terminal_progress_print(struct rota_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rota_terminal_progress_end(struct rota_progress *progress);
