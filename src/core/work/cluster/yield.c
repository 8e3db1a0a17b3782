#include "core/work/cluster/yield.h"

bool rota_yield_holds(struct rota_yield *yield, rota_time now, rota_time free_since)
{
    if (yield->until > now)
        return true;
    if (yield->until > 0)
        rota_yield_end(yield, now);
    else if (yield->since == 0 || free_since < now)
        yield->since = now; /* nothing waited for it until now */
    if (now - yield->since < ROTA_YIELD_EVERY)
        return false;
    yield->until = rota_time_add(now, ROTA_YIELD_FOR);
    return true;
}

void rota_yield_end(struct rota_yield *yield, rota_time now)
{
    if (yield->until == 0)
        return;
    yield->until = 0;
    yield->since = now;
}
