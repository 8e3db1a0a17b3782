#include "run/connector/connector_inside.h"

#include "io/clock.h"

static const char *const PHRASES[ROTA_CONNECTOR_N_LINES] = {
    [ROTA_CONNECTOR_LINE_MALFORMED] = "malformed message",
    [ROTA_CONNECTOR_LINE_TURNED_AWAY] = "worker rejected",
    [ROTA_CONNECTOR_LINE_REFUSED] = "connection rejected",
    [ROTA_CONNECTOR_LINE_KEY] = "key rejected",
};

static void end_span(const struct rota_connector *connector, enum rota_connector_line line,
                     struct rota_connector_lines *lines)
{
    if (lines->n_left_out > 0)
        rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_WARN, "lines suppressed",
                 ROTA_LOG_FACT("of", PHRASES[line]), ROTA_LOG_FACT("count", lines->n_left_out));
    *lines = (struct rota_connector_lines){0};
}

bool rota_connector_lines_may_log(struct rota_connector *connector, enum rota_connector_line line)
{
    struct rota_connector_lines *lines = &connector->lines[line];
    rota_time now = rota_clock_mono();
    if (now >= lines->until) {
        end_span(connector, line, lines);
        lines->until = rota_time_add(now, ROTA_CONNECTOR_LINES_SPAN);
    }
    if (lines->n_written < ROTA_CONNECTOR_LINES_MAX) {
        lines->n_written++;
        return true;
    }
    lines->n_left_out++;
    return false;
}

void rota_connector_lines_tick(struct rota_connector *connector, rota_time now)
{
    for (int i = 0; i < ROTA_CONNECTOR_N_LINES; i++)
        if (connector->lines[i].n_left_out > 0 && now >= connector->lines[i].until)
            end_span(connector, (enum rota_connector_line)i, &connector->lines[i]);
}

rota_time rota_connector_lines_deadline(const struct rota_connector *connector)
{
    rota_time at = ROTA_TIME_NEVER;
    for (int i = 0; i < ROTA_CONNECTOR_N_LINES; i++)
        if (connector->lines[i].n_left_out > 0)
            at = rota_time_min(at, connector->lines[i].until);
    return at;
}
