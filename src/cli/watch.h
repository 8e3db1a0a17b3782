/* watch: run a loop until somebody says stop, and tell what happens meanwhile.
 *
 * Commands that watch print a line as each thing happens and flush it at once:
 * the moment, a word for what happened, and more. An interrupt ends them with
 * exit code 0, and so does nothing else. */
#pragma once

#include "base/json.h"

#include <rota/error.h>
#include <uv.h>

struct rota_watch {
    uv_loop_t loop;
    uv_signal_t interrupt, terminate;
    bool is_json;
    bool is_failed; /* nothing can be printed any more */
    struct rota_buffer line;
    struct rota_json json; /* writes into the line */
};

/* Begin; false, with a message out, when there is no loop to be had. */
bool rota_watch_init(struct rota_watch *watch, bool is_json);

/* Run until an interrupt comes or nothing can be printed any more. */
void rota_watch_run(struct rota_watch *watch);

/* End; whatever else is on the loop has to be closing by now. Returns the exit
 * code, unless there is a worse one to tell: `exit_code`. */
int rota_watch_deinit(struct rota_watch *watch, int exit_code);

/* Begin a line with the moment and what happens; the caller adds columns, each
 * behind a tab, or members of the JSON object; and print it. */
void rota_watch_begin(struct rota_watch *watch, const char *event);
void rota_watch_end(struct rota_watch *watch);

/* A whole line: what is watched has a problem and stays as it was. */
void rota_watch_refuse(struct rota_watch *watch, const struct rota_error *error);
