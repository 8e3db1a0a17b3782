#include "core/call/backoff.h"

rota_time rota_backoff_failed(struct rota_backoff *backoff, struct rota_random *random)
{
    rota_time first = backoff->first > 0 ? backoff->first : ROTA_BACKOFF_FIRST;
    rota_time max = backoff->max > 0 ? backoff->max : ROTA_BACKOFF_MAX;
    if (max < first)
        max = first;
    rota_time step = backoff->next > 0 ? rota_time_min(backoff->next, max) : first;
    rota_time fifth = step / 5;
    backoff->next = step > max / 8 * 5 ? max : step / 5 * 8; /* 1.6 times */
    if (backoff->next <= step)
        backoff->next = max;
    rota_time extra = rota_random_range(random, 0, 2 * fifth);
    return rota_time_min(rota_time_add(step - fifth, extra), max);
}

void rota_backoff_succeeded(struct rota_backoff *backoff)
{
    backoff->next = 0;
}
