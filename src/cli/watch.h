/* watch: run a loop until somebody says stop, and tell what happens meanwhile.
 *
 * Commands that watch print a line as each thing happens and flush it at once:
 * the moment, a word for what happened, and more. An interrupt ends them with
 * exit code 0. */
#pragma once

#include "base/json.h"
#include "cli/signals.h"

#include <rota/error.h>
#include <uv.h>

struct rota_watch {
    uv_loop_t *loop; /* the program's one */
    struct rota_signals signals;
    bool is_json;
    bool is_failed; /* nothing can be printed any more */
    bool is_over;
    int exit_code; /* what it ends with if nothing worse happens */
    struct rota_buffer line;
    struct rota_json json; /* writes into the line */
};

/* The frame of a command that watches. `open` puts what is watched on the loop and
 * tells what there is to begin with; then the loop runs until an interrupt comes,
 * rota_watch_stop() is called, or nothing can be printed any more; `close` takes
 * all of it off the loop, also what a failed `open` has left there. A connection
 * whose peer does not take its end is not waited for. `watch` is
 * zeroed, but for `exit_code`, and the first member of a struct of the command's.
 * Returns the exit code. */
int rota_watch_command(struct rota_watch *watch, bool is_json,
                       enum rota_code (*open)(struct rota_watch *watch, struct rota_error *error),
                       void (*close)(struct rota_watch *watch));

/* It is over, with this exit code. */
void rota_watch_stop(struct rota_watch *watch, int exit_code);

/* Begin a line with the moment and what happens; the caller adds columns, each
 * behind a tab, or members of the JSON object; and print it. */
void rota_watch_begin(struct rota_watch *watch, const char *event);
void rota_watch_end(struct rota_watch *watch);

/* Print what is in the line, as it is. */
void rota_watch_print(struct rota_watch *watch);

/* A whole line: what is watched has a problem and stays as it was. */
void rota_watch_refuse(struct rota_watch *watch, const struct rota_error *error);
