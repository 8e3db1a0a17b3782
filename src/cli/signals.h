/* signals: the signals that a command with an event loop handles. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <uv.h>

enum { ROTA_SIGNALS_MAX = 7 };

struct rota_signals {
    uv_signal_t handles[ROTA_SIGNALS_MAX];
    size_t n;
    int number; /* of the last one */
    void (*on_signal)(void *data);
    void *data;
};

/* Those that end a command which runs until interrupted. */
extern const int rota_signals_end[];

/* Call `on_signal` from the loop on these signals; 0 ends the list. Everything must stay valid
 * until rota_signals_close(); then run the loop once more. A zeroed struct is closed already. */
void rota_signals_open(struct rota_signals *signals, uv_loop_t *loop, const int *numbers,
                       void (*on_signal)(void *data), void *data);
void rota_signals_close(struct rota_signals *signals);

/* Whether the parent chose that this command ignores the signal, as a shell does for SIGINT when it
 * runs a command in the background. */
bool rota_signals_is_ignored(int number);
