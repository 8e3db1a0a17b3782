#include "cli/watch.h"

#include "cli/cli.h"
#include "cli/terminal.h"
#include "io/clock.h"

#include <signal.h>
#include <stdio.h>

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

/* How long connections may take to end in good order. */
#define GRACE (200 * ROTA_MSEC)

static bool begin(struct rota_watch *watch)
{
    static uv_loop_t loop; /* stays where it is if it can't be ended in time */
    int code = uv_loop_init(&loop);
    if (code) {
        rota_cli_fail(ROTA_CLI_NO, "no event loop: %s", uv_strerror(code));
        return false;
    }
    watch->loop = &loop;
    uv_signal_init(watch->loop, &watch->interrupt);
    uv_signal_init(watch->loop, &watch->terminate);
    uv_signal_start(&watch->interrupt, on_signal, SIGINT);
    uv_signal_start(&watch->terminate, on_signal, SIGTERM);
    return true;
}

static void on_grace_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void end(struct rota_watch *watch)
{
    uv_timer_t grace;
    uv_close((uv_handle_t *)&watch->interrupt, NULL);
    uv_close((uv_handle_t *)&watch->terminate, NULL);
    uv_run(watch->loop, UV_RUN_NOWAIT); /* a stop that came before ends this early */
    uv_timer_init(watch->loop, &grace);
    uv_timer_start(&grace, on_grace_over, GRACE / ROTA_MSEC, 0);
    uv_unref((uv_handle_t *)&grace);
    uv_run(watch->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&grace, NULL);
    for (int i = 0; i < 2; i++)
        uv_run(watch->loop, UV_RUN_NOWAIT);
    rota_cli_close_loop(watch->loop);
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
    end(watch);
    if (watch->line.failed && watch->exit_code == ROTA_CLI_OK)
        watch->exit_code = rota_cli_fail(ROTA_CLI_NO, "no memory for the answer");
    rota_buffer_deinit(&watch->line);
    return watch->exit_code;
}

void rota_watch_stop(struct rota_watch *watch, int exit_code)
{
    watch->is_over = true;
    watch->exit_code = exit_code;
    uv_stop(watch->loop);
}

/* All moments are equally long, so that what follows them lines up. */
static void format_now(char text[ROTA_TIME_TEXT_MAX])
{
    rota_time now = rota_clock_wall();
    rota_time_format(now - now % ROTA_SEC, text);
    char *end = strchr(text, 'Z');
    snprintf(end, ROTA_TIME_TEXT_MAX - (size_t)(end - text), ".%03dZ",
             (int)(now % ROTA_SEC / ROTA_MSEC));
}

void rota_watch_begin(struct rota_watch *watch, const char *event)
{
    char time[ROTA_TIME_TEXT_MAX];
    format_now(time);
    if (!watch->is_json) {
        rota_buffer_print(&watch->line, "%s\t%s", time, event);
        return;
    }
    watch->json = (struct rota_json){.buffer = &watch->line};
    rota_json_begin_object(&watch->json);
    rota_json_key(&watch->json, "time");
    rota_json_text(&watch->json, time);
    rota_json_key(&watch->json, "event");
    rota_json_text(&watch->json, event);
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
        rota_json_key(&watch->json, "error");
        rota_json_text(&watch->json, error->text);
    } else {
        rota_buffer_append_char(&watch->line, '\t');
        rota_terminal_append(&watch->line, rota_str(error->text));
    }
    rota_watch_end(watch);
}
