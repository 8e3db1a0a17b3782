/* signals: what ends a command that runs until it is interrupted. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct rota_signals {
    uv_signal_t handles[3];
    size_t n;
    void (*on_signal)(void *data);
    void *data;
};

/* Call `on_signal` from the loop for SIGINT and SIGTERM, and for SIGHUP with `with_hangup`. All is
 * kept until rota_signals_close(); the loop has to run once more then. */
void rota_signals_open(struct rota_signals *signals, uv_loop_t *loop, bool with_hangup,
                       void (*on_signal)(void *data), void *data);
void rota_signals_close(struct rota_signals *signals);
