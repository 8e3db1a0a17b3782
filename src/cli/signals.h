/* signals: the signals that end a command which runs until interrupted. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct rota_signals {
    uv_signal_t handles[3];
    size_t n;
    void (*on_signal)(void *data);
    void *data;
};

/* Call `on_signal` from the loop on SIGINT and SIGTERM, and on SIGHUP with `with_hangup`.
 * Everything must stay valid until rota_signals_close(); then run the loop once more. */
void rota_signals_open(struct rota_signals *signals, uv_loop_t *loop, bool with_hangup,
                       void (*on_signal)(void *data), void *data);
void rota_signals_close(struct rota_signals *signals);
