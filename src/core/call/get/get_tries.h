/* get_tries: the tries of one Get; inside get_fsm.
 *
 * All tries are counted, numbered, known to the balancer from when they are sent until they end,
 * and return the keys that they did not answer. A try may wait before it is sent: then it has no
 * number yet, and its keys are not idle. */
#pragma once

#include "core/call/get/get_fsm.h"

/* One step and its context. */
struct rota_get_step {
    struct rota_get_fsm *fsm;
    rota_time now;
};

enum { ROTA_GET_FRESH = 3 }; /* hosts of this rank or above have not failed */

#define ROTA_GET_NO_VISIT UINT32_MAX

/* A new action; there is always room, since each try has reserved it. */
struct rota_get_fsm_action *rota_get_tries_act(struct rota_get_step *step,
                                               enum rota_get_action_type type);
void rota_get_tries_act_on(struct rota_get_step *step, enum rota_get_action_type type,
                           const struct rota_get_fsm_try *try);

/* The running try with this number, or NULL. */
struct rota_get_fsm_try *rota_get_tries_find(struct rota_get_fsm *fsm, uint64_t number);

/* Take a token for an extra try; NULL: there is no limit. */
bool rota_get_tries_spend(struct rota_get_step *step, struct rota_budget *budget);

/* The host's visit, made if needed; ROTA_GET_NO_VISIT when there is no memory. */
uint32_t rota_get_tries_visit(struct rota_get_fsm *fsm, uint64_t host);

/* How preferable the host is for keys that it should hold; 0: not at all. */
int rota_get_tries_rank(const struct rota_get_fsm *fsm, const struct rota_get_visit *visit,
                        const struct rota_interval_host *host);

/* Room for one more, running but not sent; false, and recorded, when there is none. */
bool rota_get_tries_add(struct rota_get_fsm *fsm, struct rota_get_fsm_try try);

/* Send it; `chosen` is zeroed when the balancer was not asked yet. */
void rota_get_tries_send(struct rota_get_step *step, struct rota_get_fsm_try *try,
                         const struct rota_interval_host *host, struct rota_try chosen);

/* There was no token to hedge it: when to ask again. A stuck try outlives the slightly slow ones
 * that took the tokens. */
rota_time rota_get_tries_hedge_again(const struct rota_get_step *step);

/* Send the rest of a try that waited, if its host has not changed. */
void rota_get_tries_send_again(struct rota_get_step *step, struct rota_get_fsm_try *try);

/* If allowed, ask the host of a failed try once more, after a while and independently of other
 * tries; adds a try. */
void rota_get_tries_retry(struct rota_get_step *step, size_t index);

/* A try has ended with an answer that leaves keys out: ask its host for the rest, at once and
 * independently of other tries; adds a try. */
void rota_get_tries_go_on(struct rota_get_step *step, size_t index);

/* Whether a key of the try is still pending. */
bool rota_get_tries_is_wanted(struct rota_get_fsm *fsm, struct rota_get_fsm_try *try);

/* Record how long it took, or had taken when another one was faster. */
void rota_get_tries_record(struct rota_get_step *step, const struct rota_get_fsm_try *try);

/* The try is over; its pending keys return. */
void rota_get_tries_end(struct rota_get_step *step, struct rota_get_fsm_try *try,
                        enum rota_failure failure, const struct rota_cost *cost);
void rota_get_tries_cancel(struct rota_get_step *step, struct rota_get_fsm_try *try);
