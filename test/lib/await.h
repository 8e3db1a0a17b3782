/* For tests on a real loop and real files: run the loop until something has
 * happened, and a directory to play in. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

/* A test that waits this long for something has failed. */
enum { AWAIT_MAX_MS = 120000 };

static inline void await_on_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Run the loop until `*n` is at least `wanted`. What fails is the caller's line. */
#define await(loop, n, wanted) await_at(loop, n, wanted, __FILE__, __LINE__)
static inline void await_at(uv_loop_t *loop, const size_t *n, size_t wanted, const char *file,
                            int line)
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

static inline void on_await_walk(uv_handle_t *handle, void *data)
{
    if (!uv_is_closing(handle))
        ++*(size_t *)data;
}

/* Let everything that was closed go, and see that nothing was left open. */
static inline void await_end(uv_loop_t *loop)
{
    size_t n_open = 0;
    uv_walk(loop, on_await_walk, &n_open);
    assert_int_equal(n_open, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
}

/* Write `text` to `path` in place, as an editor without much care would. */
static inline void await_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
