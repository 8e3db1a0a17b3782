/* top: a live view of a cluster in a terminal: which table is shown, how it is sorted, which row is
 * chosen, what the keys do, and the lines on the screen.
 *
 *     rota_top_take()   the current rows of a table; rates come from the previous ones
 *     rota_top_feed()   what the user typed
 *     rota_top_draw()   the lines
 *     rota_top_paint()  the difference to what the terminal shows
 *
 * Nothing here talks to a terminal. Texts may be any bytes; control sequences are escaped. The
 * chosen row is identified by its first cell, so it stays chosen when the order changes; without
 * color it is marked with an arrow. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"

#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    ROTA_TOP_COLUMNS_MAX = 12,
    ROTA_TOP_ROWS_MAX = 10000, /* more are not shown */
    ROTA_TOP_CELL_MAX = 128,   /* columns of the screen, of one cell */
    ROTA_TOP_NAME_MAX = 256,   /* bytes, of a row's first cell */
    ROTA_TOP_WIDTH_MAX = 512,
    ROTA_TOP_HEIGHT_MAX = 512,
};

enum rota_top_kind {
    ROTA_TOP_TEXT,
    ROTA_TOP_FLAG,   /* true and false, shown as yes and no */
    ROTA_TOP_NUMBER, /* summed in the totals */
    ROTA_TOP_VALUE,  /* a number without a meaningful sum */
    ROTA_TOP_BYTES,
    ROTA_TOP_AGE,  /* since a timestamp in ms since 1970 */
    ROTA_TOP_SPAN, /* a duration in ms */
    ROTA_TOP_RATE, /* growth per second */
    ROTA_TOP_CPU,  /* ms of growth per second, as a percentage */
};

/* Whether a column is sorted as text, and left-aligned. */
static inline bool rota_top_is_text(enum rota_top_kind kind)
{
    return kind == ROTA_TOP_TEXT || kind == ROTA_TOP_FLAG;
}

struct rota_top_column {
    const char *title;
    const char *field; /* of an entry of the document, see json_rows.h */
    enum rota_top_kind kind;
    const char *name; /* in JSON; NULL: the field's */
};

/* A table. The first column names a row. */
struct rota_top_view {
    const char *name;
    const char *topic, *key; /* where its rows are */
    const struct rota_top_column *columns;
    size_t n_columns;
};

enum { ROTA_TOP_VIEWS = 4 };
extern const struct rota_top_view rota_top_views[ROTA_TOP_VIEWS]; /* nodes first */

enum rota_top_mark { /* of a line */
                     ROTA_TOP_PLAIN,
                     ROTA_TOP_HEAD,
                     ROTA_TOP_CHOSEN,
                     ROTA_TOP_BAD,
                     ROTA_TOP_DIM,
};

struct rota_top_line {
    size_t at, size; /* in the screen's text */
    enum rota_top_mark mark;
};

struct rota_top_screen {
    struct rota_buffer text;
    struct rota_top_line lines[ROTA_TOP_HEIGHT_MAX];
    size_t n;
};

struct rota_top_row {
    char name[ROTA_TOP_NAME_MAX];        /* its first cell, cut */
    uint32_t place;                      /* among the rows that were taken */
    double values[ROTA_TOP_COLUMNS_MAX]; /* of cells that are not text, as in the document */
    double rates[ROTA_TOP_COLUMNS_MAX];  /* per second */
    struct rota_str cells[ROTA_TOP_COLUMNS_MAX]; /* borrowed until the next rows */
};

typedef ROTA_VECTOR(struct rota_top_row) rota_top_row_vector;

/* A member of the chosen row, for the detail view. */
struct rota_top_detail {
    struct rota_str name, value;
};

struct rota_top {
    size_t view;
    size_t sorted_by[ROTA_TOP_VIEWS]; /* a column */
    bool is_reversed[ROTA_TOP_VIEWS];
    bool is_detail, is_help, is_paused, is_over;
    char chosen[ROTA_TOP_NAME_MAX];
    size_t scroll; /* of details */
    int width, height;
    const char *marks[2]; /* mark of the sort column: ascending, reversed */

    rota_top_row_vector rows, before; /* of `view`, sorted; and the previous ones */
    rota_time taken_at, before_at;
    bool has_rows;
    char why[160]; /* why there are none; empty: they have not arrived yet */
};

void rota_top_init(struct rota_top *top);
void rota_top_deinit(struct rota_top *top);

/* Set the rows of the current view at `now` (any clock, for rates): `n_rows` times as many cells as
 * the view has columns. The cells are borrowed until the next call. */
void rota_top_take(struct rota_top *top, rota_time now, const struct rota_str *cells,
                   size_t n_rows);

/* There is no such table; `why` says why. */
void rota_top_refuse(struct rota_top *top, const char *why);

/* Handle keys as a terminal sends them. Returns true if another table has to be fetched. Sets
 * `is_over` if the user quits. */
bool rota_top_feed(struct rota_top *top, struct rota_str bytes);

/* The index of the chosen row as given to rota_top_take(); SIZE_MAX: none. */
size_t rota_top_chosen(const struct rota_top *top);

/* Draw the lines of a screen of the top's width and height. `now_ms` is the wall clock, `title` the
 * first line; `details` are those of the chosen row. */
void rota_top_draw(struct rota_top *top, const char *title, uint64_t now_ms,
                   const struct rota_top_detail *details, size_t n_details,
                   struct rota_top_screen *screen);

/* The bytes that change a terminal from `shown` to `wanted`; `shown` is NULL if it is unknown. */
void rota_top_paint(const struct rota_top_screen *shown, const struct rota_top_screen *wanted,
                    bool is_colored, struct rota_buffer *out);

void rota_top_screen_deinit(struct rota_top_screen *screen);
