/* child: a command that runs in a process group of its own.
 *
 * It reads the input it is given, and its output is kept up to a bound; of its log (standard
 * error) the end is kept. When the command ends, its whole group is killed. A command never
 * outlives this process: the guard kills it. */
#pragma once

#include "base/buffer.h"
#include "run/work/queue/child_guard.h"

#include <rota/str.h>
#include <stdbool.h>
#include <uv.h>

enum { ROTA_CHILD_LOG_MAX = 1024 }; /* bytes of the log that are kept */

struct rota_child;

struct rota_child_options {
    char *const *argv;              /* ends with NULL; found on PATH */
    const char *const *environment; /* "NAME=value", added to ours; ends with NULL */
    struct rota_str input;          /* copied */
    size_t output_max;
    int log_fd; /* receives its log instead of us; 0: none */

    /* It has printed something; may be NULL. */
    void (*on_output)(void *data);

    /* It has printed more than `output_max`; the rest is discarded. */
    void (*on_overflow)(void *data);

    /* The command has ended and its whole group is killed: with a code, or by a signal when that
     * is not 0. The last callback. */
    void (*on_end)(void *data, int exit_code, int signal);
    void *data; /* kept */
};

/* Start a command. Gives `*child`; rota_child_free() ends it. `guard` is kept. */
enum rota_code rota_child_start(uv_loop_t *loop, const struct rota_child_guard *guard,
                                const struct rota_child_options *options, struct rota_child **child,
                                struct rota_error *error);

/* 0 when it has ended. */
pid_t rota_child_pid(const struct rota_child *child);

/* Send a signal to all of its group; no-op when it has ended. */
void rota_child_signal(struct rota_child *child, int signal);

/* Its output so far: borrowed until the loop runs again. */
struct rota_str rota_child_output(const struct rota_child *child);
struct rota_str rota_child_log(const struct rota_child *child);

/* Remove the first `size` bytes of its output, to make room. */
void rota_child_drop_output(struct rota_child *child, size_t size);

/* Takes `child`, which may be NULL; no callback is called after this. A running command is
 * killed. The loop has to run once more to free everything. */
void rota_child_free(struct rota_child *child);
