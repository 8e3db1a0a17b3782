/* watch: run a loop until interrupted, and report what happens.
 *
 * Commands that watch print a line for each event and flush it at once: the time, a word for what
 * happened, and more. An interrupt ends them with exit code 0. */
#pragma once

#include "base/json.h"
#include "cli/signals.h"

#include <rota/error.h>
#include <uv.h>

struct rota_watch {
    uv_loop_t *loop; /* the program's one */
    struct rota_signals signals;
    bool is_json;
    bool is_failed; /* nothing more can be printed */
    bool is_over;
    int exit_code; /* unless something worse happens */
    struct rota_buffer line;
    struct rota_json json; /* writes into the line */
};

/* The frame of a command that watches. `open` puts what is watched on the loop and reports the
 * initial state; then the loop runs until an interrupt, rota_watch_stop(), or a failure to print;
 * `close` removes everything from the loop, also what a failed `open` left there. It does not wait
 * for a peer that never closes its connection. `watch` is zeroed, except for `exit_code`, and is
 * the first member of the command's struct. Returns the exit code. */
int rota_watch_command(struct rota_watch *watch, bool is_json,
                       enum rota_code (*open)(struct rota_watch *watch, struct rota_error *error),
                       void (*close)(struct rota_watch *watch));

/* Stop, with this exit code. */
void rota_watch_stop(struct rota_watch *watch, int exit_code);

/* Begin a line with the time and the event; the caller adds columns, each after a tab, or members
 * of the JSON object; then print it. */
void rota_watch_begin(struct rota_watch *watch, const char *event);
void rota_watch_end(struct rota_watch *watch);

/* Print the line as it is. */
void rota_watch_print(struct rota_watch *watch);

/* A whole line: what is watched has a problem and keeps its old state. */
void rota_watch_refuse(struct rota_watch *watch, const struct rota_error *error);
