/* try_fsm: whether a call to a node that holds queues is made again, and as what.
 *
 * A call that may be made twice is made again while nobody knows what became of it. An add
 * that was certainly not taken in may move: be made with an id of another partition, at
 * another node. One that may have been taken in stays what it is, or there would be two. */
#pragma once

#include <rota/rpc.h>
#include <rota/time.h>

enum rota_try_action {
    ROTA_TRY_DONE,    /* it went well */
    ROTA_TRY_AGAIN,   /* the same, at `again_at` */
    ROTA_TRY_MOVE,    /* elsewhere, at `again_at` */
    ROTA_TRY_REFUSED, /* and will be, however often */
    ROTA_TRY_FAILED,  /* out of time, and certainly not done */
    ROTA_TRY_UNKNOWN, /* out of time, and perhaps done */
};

struct rota_try_fsm {
    rota_time give_up_at, again_at; /* monotonic */
    bool may_move;
    bool is_unknown; /* one of the tries may have been carried out */
    unsigned n_tries;
};

/* Whether a status may come from anywhere on the way, and not only from a node that has looked
 * at the request and done nothing. */
bool rota_try_is_from_anywhere(enum rota_status status);

/* `may_move`: of an add without a unique key. */
void rota_try_fsm_init(struct rota_try_fsm *fsm, rota_time now, rota_time patience, bool may_move);

/* A try has ended. `is_undone`: it is certain that nothing was done. */
enum rota_try_action rota_try_fsm_step(struct rota_try_fsm *fsm, rota_time now,
                                       enum rota_status status, bool is_undone);
