#include "core/work/cluster/refresh.h"

bool rota_refresh_hear(struct rota_refresh *refresh, rota_time now, uint64_t number)
{
    if (number <= refresh->number)
        return false;
    if (number <= refresh->heard && now - refresh->looked_at < ROTA_REFRESH_LOOK_EVERY)
        return false;
    if (number > refresh->heard)
        refresh->heard = number;
    refresh->looked_at = now;
    return true;
}

static bool is_late(const struct rota_refresh_call *call, rota_time now)
{
    return call->since != 0 && now - call->since >= ROTA_REFRESH_WAIT_MAX;
}

bool rota_refresh_must_wait(const struct rota_refresh *refresh, rota_time now,
                            struct rota_refresh_call *call)
{
    if (call->wanted <= refresh->number || is_late(call, now))
        return false;
    if (call->since == 0)
        call->since = now;
    return true;
}

enum rota_refresh_do rota_refresh_refused(const struct rota_refresh *refresh, rota_time now,
                                          struct rota_refresh_call *call,
                                          const struct rota_refresh_refusal *refusal)
{
    bool is_later = refusal->number > call->route;
    if (!refusal->is_stale || !refusal->is_undone || !is_later || is_late(call, now))
        return ROTA_REFRESH_PASS;
    if (call->since == 0)
        call->since = now;
    call->wanted = refusal->number;
    bool is_known = refusal->number <= refresh->number;
    if (!is_known && refusal->has_owner && call->n_hops < ROTA_REFRESH_HOPS_MAX) {
        call->n_hops++;
        call->route = refusal->number;
        return ROTA_REFRESH_ASK;
    }
    call->n_hops = 0;
    return ROTA_REFRESH_AGAIN;
}
