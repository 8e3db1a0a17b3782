#include "cli/signals.h"

#include <signal.h>

static void on_signal(uv_signal_t *handle, int number)
{
    const struct rota_signals *signals = handle->data;
    (void)number;
    signals->on_signal(signals->data);
}

void rota_signals_open(struct rota_signals *signals, uv_loop_t *loop, bool with_hangup,
                       void (*act)(void *data), void *data)
{
    static const int NUMBERS[] = {SIGINT, SIGTERM, SIGHUP};
    size_t n = with_hangup ? 3 : 2;
    signals->n = n;
    signals->on_signal = act;
    signals->data = data;
    for (size_t i = 0; i < n; i++) {
        uv_signal_init(loop, &signals->handles[i]);
        signals->handles[i].data = signals;
        uv_signal_start(&signals->handles[i], on_signal, NUMBERS[i]);
    }
}

void rota_signals_close(struct rota_signals *signals)
{
    for (size_t i = 0; i < signals->n; i++)
        uv_close((uv_handle_t *)&signals->handles[i], NULL);
}
