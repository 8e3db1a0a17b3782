/* For tests on a real loop and real files: run the loop until something has
 * happened, and a directory to play in. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <cmocka.h>

/* A test that waits this long for something has failed. */
enum { AWAIT_MAX_MS = 120000 };

/* Run the loop until `*n` is at least `wanted`. What fails is the caller's line. */
#define await(loop, n, wanted) await_at(loop, n, wanted, __FILE__, __LINE__)
void await_at(uv_loop_t *loop, const size_t *n, size_t wanted, const char *file, int line);

/* Let everything that was closed go, and see that nothing was left open. */
void await_end(uv_loop_t *loop);

/* Write `text` to `path` in place, as an editor without much care would. */
void await_write(const char *path, const char *text);
