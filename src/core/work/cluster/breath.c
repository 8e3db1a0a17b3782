#include "core/work/cluster/breath.h"

bool rota_breath_holds(struct rota_breath *breath, rota_time now, rota_time free_since)
{
    if (breath->until > now)
        return true;
    if (breath->until > 0)
        rota_breath_end(breath, now);
    else if (breath->since == 0 || free_since < now)
        breath->since = now; /* nothing waited for it until now */
    if (now - breath->since < ROTA_BREATH_EVERY)
        return false;
    breath->until = rota_time_add(now, ROTA_BREATH_FOR);
    return true;
}

void rota_breath_end(struct rota_breath *breath, rota_time now)
{
    if (breath->until == 0)
        return;
    breath->until = 0;
    breath->since = now;
}
