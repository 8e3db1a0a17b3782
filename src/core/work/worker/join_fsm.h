/* join_fsm: how a worker opens a session with its broker, keeps it, and reconnects.
 *
 *     WAITING --its time--> JOINING --welcome--> JOINED
 *        ^                     |                    |
 *        +----- refused, no answer, lost, silent ---+
 *
 * Each try is a session of its own: a new connection, so that no message of an older one can arrive
 * in it, and a higher epoch. The jittered wait before a try grows with each failure; a session that
 * lasted resets it. One that did not, because another worker of this name took its place, does not:
 * two workers that compete for a name do so more and more slowly.
 *
 * Invariants: OPEN comes only when no connection is open; between OPEN and CLOSE there is one;
 * TELL_UP and TELL_DOWN alternate. */
#pragma once

#include "core/call/backoff.h"
#include "core/work/cluster/peer_fsm.h"

#define ROTA_JOIN_TIMEOUT (5 * ROTA_SEC) /* from the try to the welcome */

enum rota_join_state {
    ROTA_JOIN_WAITING,
    ROTA_JOIN_JOINING,
    ROTA_JOIN_JOINED,
    ROTA_JOIN_STOPPED,
};

enum rota_join_event_type {
    ROTA_JOIN_TICK,    /* `is_drained` */
    ROTA_JOIN_HEARD,   /* any message from the broker */
    ROTA_JOIN_WELCOME, /* with `beat` */
    ROTA_JOIN_LOST,    /* the connection closed or failed, or the broker said goodbye */
    ROTA_JOIN_SENT,    /* any message to the broker */
    ROTA_JOIN_STOP,
};

struct rota_join_event {
    enum rota_join_event_type type;
    bool is_drained; /* of TICK: everything that had arrived was handled */
    struct rota_beat beat;
    rota_time wall; /* of TICK: for the epoch */
};

/* In this order. */
struct rota_join_actions {
    bool tell_down;   /* the session is over */
    bool tell_failed; /* a try failed */
    bool is_silent;   /* of both: no message arrived for too long */
    bool close;
    bool open; /* open a new connection, and say hello with `epoch` */
    bool tell_up;
    bool beat;
    rota_time wait; /* of tell_down and tell_failed: before the next try */
};

/* Zero means the defaults. */
struct rota_join_options {
    struct rota_beat beat; /* before the broker has sent its own */
    rota_time timeout;
    rota_time wait_first, wait_max;
    uint64_t seed;
};

struct rota_join_fsm {
    enum rota_join_state state;
    rota_time timeout;
    rota_time at;        /* when WAITING or JOINING ends */
    rota_time joined_at; /* of JOINED */
    uint64_t epoch;      /* of the last try */
    struct rota_beat beat;
    struct rota_peer_fsm peer;
    struct rota_attention attention;
    struct rota_backoff backoff;
    struct rota_random random;
};

/* The first tick opens. */
void rota_join_fsm_init(struct rota_join_fsm *fsm, const struct rota_join_options *options,
                        rota_time now);
struct rota_join_actions rota_join_fsm_step(struct rota_join_fsm *fsm, rota_time now,
                                            const struct rota_join_event *event);
rota_time rota_join_fsm_deadline(const struct rota_join_fsm *fsm);
