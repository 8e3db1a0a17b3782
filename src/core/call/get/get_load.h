/* get_load: how many copies of a Get its servers can take.
 *
 * Asking all replicas and taking the first answer is fastest where the latency of replicas varies
 * and the servers have capacity for the copies; where they do not, the copies alone fill the
 * queues. Trials (get_trial.h) find out whether copies pay off; where they do not, none are sent.
 * Where they do, the *share* of Gets that are broadcast follows the *pressure*, the ratio of the
 * time that requests wait in the servers' queues to the time they take otherwise:
 *
 *     pressure above HIGH: a step down, above TOP all the way; what was too much is
 *                          not tried again for a while, longer each time
 *     pressure below LOW:  a step up
 *     between them:        it stays. That is the hysteresis.
 *
 * A Get that is not broadcast goes to one replica, and to a second after a delay that is usually
 * enough (hedge.h). When even single copies wait above TOP there is one copy only, hedged later,
 * until the pressure is below HIGH.
 *
 * The pressure is computed from the costs in answers, over half a second at a time: less would
 * be noise. A server that refuses for overload, or does not answer in time, counts as pressed;
 * and when much is in flight and nothing returns at all, all servers do. Where answers carry no
 * costs, only these signals remain. */
#pragma once

#include "core/call/get/get_trial.h"

#include <rota/experimental/balancer.h>
#include <rota/experimental/random.h>

enum rota_get_copies {
    ROTA_GET_ALL,   /* a copy for each replica */
    ROTA_GET_HEDGE, /* one, and another when it is slow */
    ROTA_GET_ONE,   /* one, and another when it is very slow */
};

enum { ROTA_GET_LOAD_STEPS = 4 }; /* of the share: none, 1/8, 1/4, 1/2, all */

struct rota_get_load {
    double pressure;         /* of the last window */
    double wait_us, busy_us; /* sums of the current window: in a queue, and all else */
    uint32_t n_samples;      /* in it */
    rota_time window_at;     /* when it began, or begins */
    rota_time heard_at;      /* when an answer last arrived */
    uint32_t step;           /* 0 .. ROTA_GET_LOAD_STEPS */
    uint32_t ceiling;        /* the step that was too much the last time */
    rota_time ceiling_until; /* it is not tried again before this */
    rota_time hold;          /* how long the next ceiling lasts */
    bool is_top;
    uint32_t turn; /* spreads the share over Gets evenly */
    struct rota_get_trial trial;
    uint64_t n_cuts, n_raises;
};

/* Starts with broadcasts. */
void rota_get_load_init(struct rota_get_load *load, rota_time now);

/* An answer arrived after `latency`; `cost` may be NULL: then it only shows that the server is
 * up. */
void rota_get_load_answered(struct rota_get_load *load, rota_time now, rota_time latency,
                            const struct rota_cost *cost);

/* A try failed by overload or timeout. Do not report other failures: they say nothing about
 * load. */
void rota_get_load_refused(struct rota_get_load *load, rota_time now);

/* A Get that began then, with the choice of rota_get_load_choose(), has all its values. */
void rota_get_load_ended(struct rota_get_load *load, rota_time now, rota_time started_at,
                         enum rota_get_copies copies);

/* What the next Get should do; `in_flight`: our own tries in flight. */
enum rota_get_copies rota_get_load_choose(struct rota_get_load *load, rota_time now,
                                          size_t in_flight, struct rota_random *random);

/* The part of Gets that are broadcast, in millionths, without trials. */
uint32_t rota_get_load_share_ppm(const struct rota_get_load *load);
