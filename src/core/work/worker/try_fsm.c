#include "core/work/worker/try_fsm.h"

#define PAUSE_FIRST (20 * ROTA_MSEC)
enum { DOUBLINGS_MAX = 6 };

/* Whether a status may come from anywhere on the path, and not only from a node that has read
 * the request and done nothing. */
static bool is_from_anywhere(enum rota_status status)
{
    switch (status) {
    case ROTA_STATUS_CANCELLED:
    case ROTA_STATUS_UNKNOWN:
    case ROTA_STATUS_DEADLINE_EXCEEDED:
    case ROTA_STATUS_INTERNAL:
    case ROTA_STATUS_UNAVAILABLE:
    case ROTA_STATUS_DATA_LOSS:
        return true;
    case ROTA_STATUS_OK:
    case ROTA_STATUS_INVALID_ARGUMENT:
    case ROTA_STATUS_NOT_FOUND:
    case ROTA_STATUS_ALREADY_EXISTS:
    case ROTA_STATUS_PERMISSION_DENIED:
    case ROTA_STATUS_RESOURCE_EXHAUSTED:
    case ROTA_STATUS_FAILED_PRECONDITION:
    case ROTA_STATUS_ABORTED:
    case ROTA_STATUS_OUT_OF_RANGE:
    case ROTA_STATUS_UNIMPLEMENTED:
    case ROTA_STATUS_UNAUTHENTICATED:
        return false;
    }
    return true;
}

void rota_try_fsm_init(struct rota_try_fsm *fsm, rota_time now, rota_time patience, bool may_move)
{
    *fsm = (struct rota_try_fsm){.give_up_at = rota_time_add(now, patience), .may_move = may_move};
}

enum rota_try_action rota_try_fsm_step(struct rota_try_fsm *fsm, rota_time now,
                                       enum rota_status status, bool is_undone)
{
    if (status == ROTA_STATUS_OK)
        return ROTA_TRY_DONE;
    bool is_full = fsm->is_alone && status == ROTA_STATUS_RESOURCE_EXHAUSTED;
    bool moves = fsm->may_move && is_undone && !fsm->is_unknown && !is_full;
    if (!moves && !is_from_anywhere(status))
        return ROTA_TRY_REFUSED;
    fsm->is_unknown |= !is_undone;
    unsigned n = fsm->n_tries < DOUBLINGS_MAX ? fsm->n_tries : DOUBLINGS_MAX;
    fsm->n_tries++;
    bool is_first_round = fsm->n_tries < fsm->n_nodes;
    if (is_first_round && is_undone && status == ROTA_STATUS_UNAVAILABLE) {
        fsm->again_at = now;
        return moves ? ROTA_TRY_MOVE : ROTA_TRY_AGAIN;
    }
    fsm->again_at = now + (PAUSE_FIRST << n);
    if (fsm->again_at > fsm->give_up_at || (fsm->is_eager && !is_first_round))
        return fsm->is_unknown ? ROTA_TRY_UNKNOWN : ROTA_TRY_FAILED;
    return moves ? ROTA_TRY_MOVE : ROTA_TRY_AGAIN;
}
