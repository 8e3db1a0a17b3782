/* watch: run a loop until somebody says stop.
 *
 * Commands that watch print a line as each thing happens and flush it at once;
 * an interrupt ends them with exit code 0, a reader that has gone too. */
#pragma once

#include "base/buffer.h"

#include <stdbool.h>
#include <uv.h>

struct rota_watch {
    uv_loop_t loop;
    uv_signal_t interrupt, terminate;
    bool is_failed; /* standard output can't be written */
};

/* Begin; false, with a message out, when there is no loop to be had. */
bool rota_watch_init(struct rota_watch *watch);

/* Run until an interrupt comes or nothing can be printed any more. */
void rota_watch_run(struct rota_watch *watch);

/* End; whatever else is on the loop has to be closing by now. */
void rota_watch_deinit(struct rota_watch *watch);

/* Print one line, which the buffer holds without its newline, and clear it. */
void rota_watch_print(struct rota_watch *watch, struct rota_buffer *line);
