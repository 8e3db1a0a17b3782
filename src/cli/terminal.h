/* terminal: what may be drawn, and the drawing of it.
 *
 * Colour and bars are for people: both appear only where standard output is a
 * terminal, colour moreover only without NO_COLOR. Elsewhere the same text
 * comes out plain. */
#pragma once

#include "base/buffer.h"
#include "base/quote.h"

#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rota_terminal {
    bool is_terminal; /* standard output is one */
    bool is_colored;
    bool is_redrawn; /* what is there can be drawn over */
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

/* The codes that begin a colour and end it, or "". */
const char *rota_terminal_color(const struct rota_terminal *terminal, enum rota_color color);

/* Take one character off `*rest`, which is not empty, and write how it is shown to
 * people: as it is, but for what would break a line, turn it round or drive the
 * terminal. Returns its bytes. */
size_t rota_terminal_next(struct rota_str *rest, char piece[ROTA_QUOTE_PIECE_MAX]);

/* On a terminal, end a result whose last line has no end: the prompt comes below it. */
void rota_terminal_end_line(struct rota_buffer *result);

/* Append a text as it is shown to people. */
void rota_terminal_append(struct rota_buffer *buffer, struct rota_str text);

/* How many columns a text takes as it is shown to people, a character each. */
int rota_terminal_columns(struct rota_str text);

/* Append a text in at most `width` columns: one that is longer, on a terminal, loses its middle,
 * since names often differ at both ends. Returns the columns it takes. */
int rota_terminal_append_cut(struct rota_buffer *buffer, const struct rota_terminal *terminal,
                             struct rota_str text, int width);

/* Write a time as RFC 3339 with 3 or 6 digits of a second, so that all times have one width and
 * sort as text. Returns `text`. */
char *rota_terminal_format_time(rota_time time, int digits, char text[ROTA_TIME_TEXT_MAX]);

/* Append a time as people read it, in the local time zone. */
void rota_terminal_append_local(struct rota_buffer *buffer, rota_time time);

/* The same where standard output is a terminal, and RFC 3339 with milliseconds elsewhere. */
void rota_terminal_append_time(struct rota_buffer *buffer, rota_time time);

/* Append `text` in lines of at most `width` columns, each with a newline, where
 * the words allow it. The first one begins at column `indent`, to which the
 * caller has gone; the others are indented. */
void rota_terminal_wrap(struct rota_buffer *buffer, const char *text, int indent, int width);

/* Draw `value` of `full` as a bar of at most `width` columns. */
void rota_terminal_bar(const struct rota_terminal *terminal, enum rota_color color, double value,
                       double full, int width);

/* How far a long piece of work has come, on standard error if that is a
 * terminal, from half a second on. Starts zeroed; `end` wipes it out. */
struct rota_progress {
    const char *what;
    rota_time started_at, drawn_at;
    bool is_drawn;
};

void rota_terminal_progress_step(struct rota_progress *progress, uint64_t done, uint64_t total);
/* The same when the total is unknown. */
void rota_terminal_progress_count(struct rota_progress *progress, uint64_t done);
/* The same as a sentence, shown as texts are; it is cut where the line ends. */
void rota_terminal_progress_say(struct rota_progress *progress, struct rota_str text);
void rota_terminal_progress_print(struct rota_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rota_terminal_progress_end(struct rota_progress *progress);
