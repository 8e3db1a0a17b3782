#include "cli/watch.h"

#include "cli/cli.h"
#include "cli/terminal.h"
#include "io/clock.h"

#include <stdio.h>

static void on_signal(void *data)
{
    uv_stop(data);
}

/* How long connections may take to close gracefully. */
#define GRACE (200 * ROTA_MSEC)

static bool begin(struct rota_watch *watch)
{
    static uv_loop_t loop; /* static: it stays if it can't be ended in time */
    int code = uv_loop_init(&loop);
    if (code) {
        rota_cli_fail(ROTA_CLI_NO, "no event loop: %s", uv_strerror(code));
        return false;
    }
    watch->loop = &loop;
    rota_signals_open(&watch->signals, &loop, rota_signals_end, on_signal, &loop);
    return true;
}

int rota_watch_command(struct rota_watch *watch, bool is_json,
                       enum rota_code (*open)(struct rota_watch *watch, struct rota_error *error),
                       void (*close)(struct rota_watch *watch))
{
    struct rota_error error;
    watch->is_json = is_json;
    if (!begin(watch))
        return ROTA_CLI_NO;
    if (open(watch, &error))
        watch->exit_code = rota_cli_fail_error(&error);
    else if (!watch->is_failed && !watch->is_over)
        uv_run(watch->loop, UV_RUN_DEFAULT);
    close(watch);
    rota_signals_close(&watch->signals);
    rota_cli_end_loop(watch->loop, GRACE);
    if (watch->line.failed && watch->exit_code == ROTA_CLI_OK)
        watch->exit_code = rota_cli_fail(ROTA_CLI_NO, "not enough memory for the answer");
    rota_buffer_deinit(&watch->line);
    return watch->exit_code;
}

void rota_watch_stop(struct rota_watch *watch, int exit_code)
{
    watch->is_over = true;
    watch->exit_code = exit_code;
    uv_stop(watch->loop);
}

void rota_watch_begin(struct rota_watch *watch, const char *event)
{
    enum { EVENT_WIDTH = 9 }; /* "continued" is the longest; aligns what follows */
    char time[ROTA_TIME_TEXT_MAX];
    rota_time now = rota_clock_wall();
    if (!watch->is_json) {
        rota_terminal_append_time(&watch->line, now);
        rota_buffer_print(&watch->line, "\t%-*s",
                          rota_terminal_look().is_terminal ? EVENT_WIDTH : 0, event);
        return;
    }
    rota_terminal_format_time(now, 3, time);
    watch->json = (struct rota_json){.buffer = &watch->line};
    rota_json_begin_object(&watch->json);
    rota_json_add_text(&watch->json, "time", time);
    rota_json_add_text(&watch->json, "event", event);
}

void rota_watch_end(struct rota_watch *watch)
{
    if (watch->is_json)
        rota_json_end_object(&watch->json);
    rota_buffer_append_char(&watch->line, '\n');
    rota_watch_print(watch);
}

void rota_watch_print(struct rota_watch *watch)
{
    struct rota_buffer *line = &watch->line;
    if (!line->failed) {
        fwrite(line->data, 1, line->size, stdout);
        fflush(stdout);
    }
    if (line->failed || !rota_cli_can_print()) {
        watch->is_failed = true;
        uv_stop(watch->loop);
        return;
    }
    rota_buffer_clear(line);
}

void rota_watch_refuse(struct rota_watch *watch, const struct rota_error *error)
{
    rota_watch_begin(watch, "refused");
    if (watch->is_json) {
        rota_json_add_text(&watch->json, "error", error->text);
    } else {
        rota_buffer_append_char(&watch->line, '\t');
        rota_terminal_append(&watch->line, rota_str(error->text));
    }
    rota_watch_end(watch);
}
