#include "core/work/cluster/exchange_fsm.h"

void rota_exchange_fsm_init(struct rota_exchange_fsm *fsm, rota_time now)
{
    *fsm = (struct rota_exchange_fsm){.hold_until = rota_time_add(now, ROTA_EXCHANGE_HOLD_MAX)};
}

bool rota_exchange_fsm_ask(struct rota_exchange_fsm *fsm, rota_time now)
{
    if (now < fsm->ask_at)
        return false;
    fsm->ask_at = rota_time_add(now, ROTA_EXCHANGE_INTERVAL);
    fsm->asked_at = now;
    return true;
}

void rota_exchange_fsm_ask_now(struct rota_exchange_fsm *fsm)
{
    fsm->ask_at = 0;
}

void rota_exchange_fsm_ask_soon(struct rota_exchange_fsm *fsm)
{
    fsm->ask_at = rota_time_min(fsm->ask_at, rota_time_add(fsm->asked_at, ROTA_EXCHANGE_SOON));
}

bool rota_exchange_fsm_begin(struct rota_exchange_fsm *fsm, rota_time now, bool is_listed,
                             bool is_waiting)
{
    if (fsm->hold_until == 0)
        return false;
    if (fsm->answers_until == 0 && is_listed)
        fsm->answers_until = rota_time_add(now, ROTA_EXCHANGE_ANSWERS);
    bool is_told = fsm->answers_until > 0 && (now >= fsm->answers_until || !is_waiting);
    if (!is_told && now < fsm->hold_until)
        return false;
    fsm->hold_until = 0;
    return true;
}

bool rota_exchange_fsm_has_begun(const struct rota_exchange_fsm *fsm)
{
    return fsm->hold_until == 0;
}

bool rota_exchange_fsm_leave(struct rota_exchange_fsm *fsm, const struct rota_exchange_sight *sight)
{
    bool is_over = sight->is_draining && sight->has_others && !sight->is_placed && sight->is_empty;
    bool is_new = is_over && !fsm->has_said_bye;
    fsm->has_said_bye = is_over;
    return is_new;
}

bool rota_exchange_fsm_take_back(struct rota_exchange_fsm *fsm)
{
    bool was_gone = fsm->has_said_bye;
    fsm->has_said_bye = false;
    if (was_gone)
        fsm->ask_at = 0;
    return was_gone;
}

bool rota_exchange_fsm_has_left(const struct rota_exchange_fsm *fsm,
                                const struct rota_exchange_sight *sight, bool is_waiting)
{
    bool hands_over =
        sight->is_draining && sight->has_others && (!sight->is_placed || sight->delists);
    return !hands_over || (fsm->has_said_bye && !is_waiting);
}

rota_time rota_exchange_fsm_deadline(const struct rota_exchange_fsm *fsm)
{
    if (fsm->hold_until == 0)
        return fsm->ask_at;
    rota_time until = fsm->hold_until;
    if (fsm->answers_until)
        until = rota_time_min(until, fsm->answers_until);
    return rota_time_min(until, fsm->ask_at);
}
