/* node_fsm: the lifecycle of a node, from its start to its end.
 *
 *     STARTING --opened--> JOINING --joined--> SERVING --drain--> DRAINING --idle--> DRAINED
 *                             ^                                      |                  |
 *                             +---------------restore----------------+------------------+
 *
 *     any of these --stop--> STOPPING --idle, or its limit--> LEAVING --left, or its
 *     limit--> CLOSING --closed--> ENDED
 *
 * A node is ready only while it is SERVING. One that an operator has drained keeps running, owns
 * nothing and may be restored; one that is stopped drains first, as long as its limit allows, so
 * that other nodes own its work before it exits. A second stop is immediate, and so is an
 * unrecoverable failure.
 *
 * Invariants: a node that has joined leaves, unless there was no time; a node that was asked to
 * stop never serves again; each action is emitted once per entry of its state. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>

enum rota_node_state {
    ROTA_NODE_STARTING, /* its parts are being opened */
    ROTA_NODE_JOINING,  /* it is not a member yet */
    ROTA_NODE_SERVING,
    ROTA_NODE_DRAINING, /* takes nothing new, hands over what it has */
    ROTA_NODE_DRAINED,  /* has nothing */
    ROTA_NODE_STOPPING, /* drains to stop */
    ROTA_NODE_LEAVING,  /* removes itself from the list of members */
    ROTA_NODE_CLOSING,
    ROTA_NODE_ENDED,
};

enum rota_node_event {
    ROTA_NODE_OPENED,  /* all parts are open */
    ROTA_NODE_JOINED,  /* it is a member, and its time to start has come */
    ROTA_NODE_DRAIN,   /* an operator asks for a drain */
    ROTA_NODE_RESTORE, /* ... and ends it */
    ROTA_NODE_IDLE,    /* nothing runs and nothing is held */
    ROTA_NODE_STOP,    /* a signal, or an operator */
    ROTA_NODE_LEFT,
    ROTA_NODE_FAILED, /* a part has failed permanently */
    ROTA_NODE_CLOSED, /* all parts are closed */
    ROTA_NODE_TICK,
};

/* What to do; a bit mask. */
enum rota_node_action {
    ROTA_NODE_DO_JOIN = 1,
    ROTA_NODE_DO_SERVE = 2, /* accept work, and report that it is ready */
    ROTA_NODE_DO_DRAIN = 4, /* accept nothing new, hand over, report when idle; not ready */
    ROTA_NODE_DO_LEAVE = 8,
    ROTA_NODE_DO_CLOSE = 16, /* everything, now */
    ROTA_NODE_DO_END = 32,
};

#define ROTA_NODE_LEAVE_LIMIT (2 * ROTA_SEC)

struct rota_node_fsm {
    enum rota_node_state state;
    rota_time drain_limit; /* duration: maximum to drain before it stops */
    rota_time until;       /* of STOPPING and LEAVING */
    bool has_joined;       /* it has to leave */
    bool has_failed;       /* the process ends with an error */
};

void rota_node_fsm_init(struct rota_node_fsm *fsm, rota_time drain_limit);

/* Returns the actions to carry out, in the order of their values. */
unsigned rota_node_fsm_step(struct rota_node_fsm *fsm, rota_time now, enum rota_node_event event);

/* When a TICK is needed; ROTA_TIME_NEVER: none. */
rota_time rota_node_fsm_deadline(const struct rota_node_fsm *fsm);

/* "serving"; for people. Any thread. */
const char *rota_node_fsm_state_name(enum rota_node_state state);
