#include "cli/signals.h"

#include <assert.h>

const int rota_signals_end[] = {SIGINT, SIGTERM, 0};

static void on_signal(uv_signal_t *handle, int number)
{
    struct rota_signals *signals = handle->data;
    signals->number = number;
    signals->on_signal(signals->data);
}

void rota_signals_open(struct rota_signals *signals, uv_loop_t *loop, const int *numbers,
                       void (*act)(void *data), void *data)
{
    signals->n = 0;
    signals->on_signal = act;
    signals->data = data;
    for (; *numbers; numbers++) {
        assert(signals->n < ROTA_SIGNALS_MAX);
        uv_signal_t *handle = &signals->handles[signals->n++];
        uv_signal_init(loop, handle);
        handle->data = signals;
        uv_signal_start(handle, on_signal, *numbers);
    }
}

void rota_signals_close(struct rota_signals *signals)
{
    for (size_t i = 0; i < signals->n; i++)
        uv_close((uv_handle_t *)&signals->handles[i], NULL);
    signals->n = 0;
}

bool rota_signals_is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}
