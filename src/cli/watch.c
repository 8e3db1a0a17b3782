#include "cli/watch.h"

#include "cli/cli.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

bool rota_watch_init(struct rota_watch *watch)
{
    int code = uv_loop_init(&watch->loop);
    if (code) {
        rota_cli_fail(ROTA_CLI_NO, "no event loop: %s", uv_strerror(code));
        return false;
    }
    watch->is_failed = false;
    uv_signal_init(&watch->loop, &watch->interrupt);
    uv_signal_init(&watch->loop, &watch->terminate);
    uv_signal_start(&watch->interrupt, on_signal, SIGINT);
    uv_signal_start(&watch->terminate, on_signal, SIGTERM);
    return true;
}

void rota_watch_run(struct rota_watch *watch)
{
    if (!watch->is_failed)
        uv_run(&watch->loop, UV_RUN_DEFAULT);
}

void rota_watch_deinit(struct rota_watch *watch)
{
    uv_close((uv_handle_t *)&watch->interrupt, NULL);
    uv_close((uv_handle_t *)&watch->terminate, NULL);
    uv_run(&watch->loop, UV_RUN_DEFAULT);
    int code = uv_loop_close(&watch->loop);
    assert(code == 0);
    (void)code;
}

void rota_watch_print(struct rota_watch *watch, struct rota_buffer *line)
{
    rota_buffer_append_char(line, '\n');
    if (line->failed || fwrite(line->data, 1, line->size, stdout) != line->size ||
        fflush(stdout) != 0) {
        watch->is_failed = true;
        uv_stop(&watch->loop);
    }
    rota_buffer_clear(line);
}
