/* connector_lines: log lines that any remote peer can cause.
 *
 * Of each kind a few are written per period, from all peers together; at its end, one with the
 * number of suppressed lines. On the socket thread. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>

struct rota_connector;

enum rota_connector_line {
    ROTA_CONNECTOR_LINE_MALFORMED,
    ROTA_CONNECTOR_LINE_TURNED_AWAY,
    ROTA_CONNECTOR_LINE_REFUSED,
    ROTA_CONNECTOR_LINE_KEY,
    ROTA_CONNECTOR_N_LINES,
};

enum { ROTA_CONNECTOR_LINES_MAX = 5 };
#define ROTA_CONNECTOR_LINES_SPAN (10 * ROTA_SEC)

struct rota_connector_lines {
    rota_time until; /* the period's end; 0: none is running */
    uint64_t n_written, n_left_out;
};

/* Whether a line may be written now; it is counted either way. */
bool rota_connector_lines_may_log(struct rota_connector *connector, enum rota_connector_line line);

/* Log the numbers of suppressed lines of periods that ended before `now`; and when to do that
 * next. */
void rota_connector_lines_tick(struct rota_connector *connector, rota_time now);
rota_time rota_connector_lines_deadline(const struct rota_connector *connector);
