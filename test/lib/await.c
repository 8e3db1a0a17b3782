#include "await.h"

#include <stdio.h>
#include <stdlib.h>

static void await_on_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

void await_at(uv_loop_t *loop, const size_t *n, size_t wanted, const char *file, int line)
{
    uv_timer_t *timer = malloc(sizeof *timer);
    bool is_late = false;
    assert_non_null(timer);
    uv_timer_init(loop, timer);
    timer->data = &is_late;
    uv_timer_start(timer, await_on_late, AWAIT_MAX_MS, 0);
    while (*n < wanted && !is_late)
        uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    if (*n < wanted) {
        print_error("ERROR: waited in vain: %zu of %zu\n", *n, wanted);
        _fail(file, line);
    }
}

static void on_await_walk(uv_handle_t *handle, void *data)
{
    if (!uv_is_closing(handle))
        ++*(size_t *)data;
}

void await_end(uv_loop_t *loop)
{
    size_t n_open = 0;
    uv_walk(loop, on_await_walk, &n_open);
    assert_int_equal(n_open, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
}

void await_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
