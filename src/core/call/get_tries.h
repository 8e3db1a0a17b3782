/* get_tries: the tries of one Get; inside get_fsm.
 *
 * What they have in common however they come about: each is counted, numbered,
 * known to the balancer from when it is sent until it ends, and gives back the keys
 * that it did not answer. A try may wait before it is sent: then it has no number
 * yet, and its keys are not idle. */
#pragma once

#include "core/call/get_fsm.h"

/* One step: what it works on. */
struct rota_get_step {
    struct rota_get_fsm *fsm;
    rota_time now;
};

enum { ROTA_GET_FRESH = 3 }; /* the rank from which on a host has not failed */

#define ROTA_GET_NO_VISIT UINT32_MAX

/* Something to do; there is always room, for each try has made it. */
struct rota_get_fsm_action *rota_get_tries_act(struct rota_get_step *step,
                                               enum rota_get_action_type type);
void rota_get_tries_act_on(struct rota_get_step *step, enum rota_get_action_type type,
                           const struct rota_get_fsm_try *try);

/* The one that runs under this number, or NULL. */
struct rota_get_fsm_try *rota_get_tries_find(struct rota_get_fsm *fsm, uint64_t number);

/* A token for an extra try; NULL: there is no limit. */
bool rota_get_tries_spend(struct rota_get_step *step, struct rota_budget *budget);

/* The host's visit, made if need be; ROTA_GET_NO_VISIT when there is no memory. */
uint32_t rota_get_tries_visit(struct rota_get_fsm *fsm, uint64_t host);

/* How willingly the host is taken for keys that it should hold, 0: not at all. */
int rota_get_tries_rank(const struct rota_get_fsm *fsm, const struct rota_get_visit *visit,
                        const struct rota_interval_host *host);

/* Room for one more, running but not sent; false, and noted, when there is none. */
bool rota_get_tries_add(struct rota_get_fsm *fsm, struct rota_get_fsm_try try);

/* Send it; `chosen` is zeroed when the balancer was not asked yet. */
void rota_get_tries_send(struct rota_get_step *step, struct rota_get_fsm_try *try,
                         const struct rota_interval_host *host, struct rota_try chosen);

/* There was no token to hedge it with: when to ask again. One that is stuck outlives
 * those that took the tokens because they were a little slow. */
rota_time rota_get_tries_hedge_again(const struct rota_get_step *step);

/* Send what is left of one that waited, if its host is as it was. */
void rota_get_tries_send_again(struct rota_get_step *step, struct rota_get_fsm_try *try);

/* The host of a try that has failed is asked once more, after a while and apart from
 * what others do, if it may be; adds a try. */
void rota_get_tries_retry(struct rota_get_step *step, size_t index);

/* A try has ended with an answer that leaves keys out: its host is asked for the rest,
 * at once and whatever others do; adds a try. */
void rota_get_tries_go_on(struct rota_get_step *step, size_t index);

/* Whether a key of the try is still pending. */
bool rota_get_tries_is_wanted(struct rota_get_fsm *fsm, struct rota_get_fsm_try *try);

/* How long it took, or has taken until another one was quicker. */
void rota_get_tries_record(struct rota_get_step *step, const struct rota_get_fsm_try *try);

/* It is over; its pending keys come back. */
void rota_get_tries_end(struct rota_get_step *step, struct rota_get_fsm_try *try,
                        enum rota_failure failure, const struct rota_cost *cost);
void rota_get_tries_cancel(struct rota_get_step *step, struct rota_get_fsm_try *try);
