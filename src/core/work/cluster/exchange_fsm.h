/* exchange_fsm: when a node asks its peers for what they know, when it may begin to hand out jobs,
 * and when it has left.
 *
 * A node asks all peers when it starts, when the list of nodes changes, soon after a call showed
 * that they know other nodes, and every few seconds.
 *
 *     ON HOLD --listed, and every peer has answered or had its time--> BEGUN
 *
 * Until it is listed, other nodes own its partitions and would start the same jobs again. But a
 * node that an operator has drained is never listed: it begins after a while all the same.
 *
 * A node that leaves hands its jobs over and says goodbye, once: its peers then know that it holds
 * none. Jobs that arrive later make that untrue, so the peers are asked again, and learn of them.
 */
#pragma once

#include <rota/time.h>
#include <stdbool.h>

#define ROTA_EXCHANGE_INTERVAL (10 * ROTA_SEC)
#define ROTA_EXCHANGE_SOON     (100 * ROTA_MSEC) /* at most that often for calls */
#define ROTA_EXCHANGE_ANSWERS  (2 * ROTA_SEC)    /* for answers, from when it is listed */
#define ROTA_EXCHANGE_HOLD_MAX (10 * ROTA_SEC)   /* for being listed */

struct rota_exchange_fsm {
    rota_time ask_at, asked_at;
    rota_time hold_until;    /* 0: it has begun */
    rota_time answers_until; /* 0: it is not listed yet */
    bool has_said_bye;
};

/* What there is to hand over, and to whom. */
struct rota_exchange_sight {
    bool is_draining;
    bool is_placed;  /* this node has partitions */
    bool has_others; /* other nodes have */
    bool is_empty;   /* it holds no jobs, and that is durable */
    bool delists;    /* it leaves the list by draining: wait for that */
};

/* On hold, and due to ask. */
void rota_exchange_fsm_init(struct rota_exchange_fsm *fsm, rota_time now);

/* True: ask all peers now. */
bool rota_exchange_fsm_ask(struct rota_exchange_fsm *fsm, rota_time now);

/* Ask at once: the list has changed; or soon. */
void rota_exchange_fsm_ask_now(struct rota_exchange_fsm *fsm);
void rota_exchange_fsm_ask_soon(struct rota_exchange_fsm *fsm);

/* True once: begin. `is_waiting`: a peer that was asked has not answered. */
bool rota_exchange_fsm_begin(struct rota_exchange_fsm *fsm, rota_time now, bool is_listed,
                             bool is_waiting);
bool rota_exchange_fsm_has_begun(const struct rota_exchange_fsm *fsm);

/* True: say goodbye to all peers. */
bool rota_exchange_fsm_leave(struct rota_exchange_fsm *fsm,
                             const struct rota_exchange_sight *sight);

/* Jobs have arrived. True: the goodbye is no longer true, and the peers have to be asked again. */
bool rota_exchange_fsm_take_back(struct rota_exchange_fsm *fsm);

/* Whether there is nothing that this node has to hand over and can, and its peers know.
 * `is_waiting`: a goodbye is not answered yet. */
bool rota_exchange_fsm_has_left(const struct rota_exchange_fsm *fsm,
                                const struct rota_exchange_sight *sight, bool is_waiting);

rota_time rota_exchange_fsm_deadline(const struct rota_exchange_fsm *fsm);
