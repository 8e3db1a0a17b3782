/* get_load: how many copies of a Get its servers can take.
 *
 * To ask all replicas and take the first answer is the quickest way where replicas
 * are now quick and now slow and the copies fit, and the way to collapse when they do
 * not: the copies alone then fill the queues. Whether they pay is found by trying
 * (get_trial.h); where they do not there are none. Where they do the *share* of Gets
 * that are broadcast follows the *pressure*, how long requests wait in the servers'
 * queues for each moment they take otherwise:
 *
 *     pressure above HIGH: a step down, above TOP all the way; what was too much is
 *                          not tried again for a while, longer each time
 *     pressure below LOW:  a step up
 *     between them:        it stays. That is the hysteresis.
 *
 * What is not broadcast goes to one replica, and to a second after a delay that is
 * usually enough (hedge.h). When even single copies wait above TOP there is one
 * copy only, hedged later, until the pressure is below HIGH.
 *
 * The pressure is what the costs that answers carry come to, over half a second at a
 * time: less would be noise. A server that refuses for want of room, or does not
 * answer in time, counts as pressed; and when much is in flight and nothing comes
 * back at all, they all are. Where answers carry no costs only these can be seen. */
#pragma once

#include "core/call/get_trial.h"

#include <rota/balancer.h>
#include <rota/random.h>

enum rota_get_copies {
    ROTA_GET_ALL,   /* a copy for each replica */
    ROTA_GET_HEDGE, /* one, and another when it is slow */
    ROTA_GET_ONE,   /* one, and another when it is very slow */
};

enum { ROTA_GET_LOAD_STEPS = 4 }; /* of the share: none, 1/8, 1/4, 1/2, all */

struct rota_get_load {
    double pressure;         /* of the last window */
    double wait_us, busy_us; /* sums of the window at hand: in a queue, and all else */
    uint32_t n_samples;      /* in it */
    rota_time window_at;     /* when it began, or begins */
    rota_time heard_at;      /* when anything last came back */
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

/* An answer came after `latency`; `cost` may be NULL: then it says only that the
 * server is there. */
void rota_get_load_answered(struct rota_get_load *load, rota_time now, rota_time latency,
                            const struct rota_cost *cost);

/* A try failed: by overload or by time. Other failures say nothing of load and are
 * not told. */
void rota_get_load_refused(struct rota_get_load *load, rota_time now);

/* A Get that was begun then, as rota_get_load_choose() said, has all its values. */
void rota_get_load_ended(struct rota_get_load *load, rota_time now, rota_time started_at,
                         enum rota_get_copies copies);

/* What the next Get is to do; `in_flight`: our own tries that are out. */
enum rota_get_copies rota_get_load_choose(struct rota_get_load *load, rota_time now,
                                          size_t in_flight, struct rota_random *random);

/* The part of Gets that are broadcast, in millionths; trials aside. */
uint32_t rota_get_load_share_ppm(const struct rota_get_load *load);
