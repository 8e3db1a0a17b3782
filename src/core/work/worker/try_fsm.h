/* try_fsm: whether a call to a node that holds queues is repeated, and how.
 *
 * A call that may be made twice is repeated while its outcome is unknown. An add that was
 * certainly not accepted may move: be repeated with an id of another partition, at another node.
 * One that may have been accepted stays the same, or there would be two jobs.
 *
 * A call that reached no node is repeated at once until it was tried at `n_nodes` of them; only
 * then patience counts. */
#pragma once

#include <rota/rpc.h>
#include <rota/time.h>

enum rota_try_action {
    ROTA_TRY_DONE,    /* success */
    ROTA_TRY_AGAIN,   /* the same, at `again_at` */
    ROTA_TRY_MOVE,    /* to another partition, at `again_at` */
    ROTA_TRY_REFUSED, /* and will be rejected however often it is repeated */
    ROTA_TRY_FAILED,  /* timed out, and certainly not done */
    ROTA_TRY_UNKNOWN, /* timed out, and perhaps done */
};

struct rota_try_fsm {
    rota_time give_up_at, again_at; /* monotonic */
    unsigned n_nodes;               /* that may be tried; 0 is 1 */
    bool is_eager;                  /* no patience: fail when every node has failed once */
    bool is_alone; /* one node has all partitions: if it is full, moving does not help */
    bool may_move;
    bool is_unknown; /* one of the tries may have been carried out */
    unsigned n_tries;
};

/* `may_move`: of an add without a unique key. */
void rota_try_fsm_init(struct rota_try_fsm *fsm, rota_time now, rota_time patience, bool may_move);

/* A try has ended. `is_undone`: it certainly had no effect. */
enum rota_try_action rota_try_fsm_step(struct rota_try_fsm *fsm, rota_time now,
                                       enum rota_status status, bool is_undone);
