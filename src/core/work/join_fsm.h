/* join_fsm: how a worker comes into a session with its broker, stays in it, and comes
 * back.
 *
 *     WAITING --its time--> JOINING --welcome--> JOINED
 *        ^                     |                    |
 *        +----- refused, no answer, lost, silent ---+
 *
 * Each try is a session of its own: a new connection, so that nothing of an older one
 * can arrive in it, and a higher epoch. The wait before a try grows with each that
 * came to nothing, by chance too; a session that lasted starts over. One that did not,
 * because another worker of this name took its place, does not: two that fight over a
 * name do it more and more slowly.
 *
 * Invariants: OPEN comes only when no connection is open; between OPEN and CLOSE there is one;
 * TELL_UP and TELL_DOWN take turns. */
#pragma once

#include "core/call/backoff.h"
#include "core/work/peer_fsm.h"

#define ROTA_JOIN_TIMEOUT (5 * ROTA_SEC) /* from the try to the welcome */

enum rota_join_state {
    ROTA_JOIN_WAITING,
    ROTA_JOIN_JOINING,
    ROTA_JOIN_JOINED,
    ROTA_JOIN_STOPPED,
};

enum rota_join_event_type {
    ROTA_JOIN_TICK,    /* `is_drained` */
    ROTA_JOIN_HEARD,   /* any message of the broker */
    ROTA_JOIN_WELCOME, /* with `beat` */
    ROTA_JOIN_LOST,    /* the connection closed or failed, or the broker said goodbye */
    ROTA_JOIN_SENT,    /* any message to the broker */
    ROTA_JOIN_STOP,
};

struct rota_join_event {
    enum rota_join_event_type type;
    bool is_drained; /* of TICK: all that had arrived was taken in */
    struct rota_beat beat;
    rota_time wall; /* of TICK: for the epoch */
};

/* In this order. */
struct rota_join_actions {
    bool tell_down;   /* the session is over */
    bool tell_failed; /* a try came to nothing */
    bool is_silent;   /* of both: nothing was heard for too long */
    bool close;
    bool open; /* a new connection, and say hello with `epoch` */
    bool tell_up;
    bool beat;
    rota_time wait; /* of tell_down and tell_failed: before the next try */
};

/* Zero means the defaults. */
struct rota_join_options {
    struct rota_beat beat; /* before the broker has said what it wants */
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
