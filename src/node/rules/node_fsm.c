#include "node/rules/node_fsm.h"

void rota_node_fsm_init(struct rota_node_fsm *fsm, rota_time drain_limit)
{
    *fsm = (struct rota_node_fsm){.state = ROTA_NODE_STARTING, .drain_limit = drain_limit};
}

static unsigned enter_state(struct rota_node_fsm *fsm, enum rota_node_state state, unsigned actions)
{
    fsm->state = state;
    return actions;
}

static unsigned start_closing(struct rota_node_fsm *fsm)
{
    return enter_state(fsm, ROTA_NODE_CLOSING, ROTA_NODE_DO_CLOSE);
}

static unsigned start_leaving(struct rota_node_fsm *fsm, rota_time now)
{
    if (!fsm->has_joined)
        return start_closing(fsm);
    unsigned actions = enter_state(fsm, ROTA_NODE_LEAVING, ROTA_NODE_DO_LEAVE);
    fsm->until = rota_time_add(now, ROTA_NODE_LEAVE_LIMIT);
    return actions;
}

static unsigned start_stopping(struct rota_node_fsm *fsm, rota_time now)
{
    switch (fsm->state) {
    case ROTA_NODE_STARTING:
    case ROTA_NODE_JOINING:
    case ROTA_NODE_DRAINED:
        return start_leaving(fsm, now);
    case ROTA_NODE_SERVING:
    case ROTA_NODE_DRAINING: {
        unsigned actions = enter_state(fsm, ROTA_NODE_STOPPING,
                                       fsm->state == ROTA_NODE_SERVING ? ROTA_NODE_DO_DRAIN : 0);
        fsm->until = rota_time_add(now, fsm->drain_limit);
        return actions;
    }
    case ROTA_NODE_STOPPING:
    case ROTA_NODE_LEAVING:
        return start_closing(fsm);
    case ROTA_NODE_CLOSING:
    case ROTA_NODE_ENDED:
        return 0;
    }
    return 0;
}

static unsigned fail_node(struct rota_node_fsm *fsm)
{
    fsm->has_failed = true;
    return fsm->state < ROTA_NODE_CLOSING ? start_closing(fsm) : 0;
}

static unsigned start_joining(struct rota_node_fsm *fsm)
{
    fsm->has_joined = true;
    return enter_state(fsm, ROTA_NODE_JOINING, ROTA_NODE_DO_JOIN);
}

static unsigned tick(struct rota_node_fsm *fsm, rota_time now)
{
    if (now < fsm->until)
        return 0;
    if (fsm->state == ROTA_NODE_STOPPING)
        return start_leaving(fsm, now);
    return fsm->state == ROTA_NODE_LEAVING ? start_closing(fsm) : 0;
}

unsigned rota_node_fsm_step(struct rota_node_fsm *fsm, rota_time now, enum rota_node_event event)
{
    enum rota_node_state state = fsm->state;
    switch (event) {
    case ROTA_NODE_OPENED:
        return state == ROTA_NODE_STARTING ? start_joining(fsm) : 0;
    case ROTA_NODE_JOINED:
        return state == ROTA_NODE_JOINING ? enter_state(fsm, ROTA_NODE_SERVING, ROTA_NODE_DO_SERVE)
                                          : 0;
    case ROTA_NODE_DRAIN:
        if (state == ROTA_NODE_SERVING)
            return enter_state(fsm, ROTA_NODE_DRAINING, ROTA_NODE_DO_DRAIN);
        return state == ROTA_NODE_JOINING ? enter_state(fsm, ROTA_NODE_DRAINED, ROTA_NODE_DO_DRAIN)
                                          : 0;
    case ROTA_NODE_RESTORE:
        return state == ROTA_NODE_DRAINING || state == ROTA_NODE_DRAINED ? start_joining(fsm) : 0;
    case ROTA_NODE_IDLE:
        if (state == ROTA_NODE_DRAINING)
            return enter_state(fsm, ROTA_NODE_DRAINED, 0);
        return state == ROTA_NODE_STOPPING ? start_leaving(fsm, now) : 0;
    case ROTA_NODE_STOP:
        return start_stopping(fsm, now);
    case ROTA_NODE_LEFT:
        return state == ROTA_NODE_LEAVING ? start_closing(fsm) : 0;
    case ROTA_NODE_FAILED:
        return fail_node(fsm);
    case ROTA_NODE_CLOSED:
        return state == ROTA_NODE_CLOSING ? enter_state(fsm, ROTA_NODE_ENDED, ROTA_NODE_DO_END) : 0;
    case ROTA_NODE_TICK:
        return tick(fsm, now);
    }
    return 0;
}

rota_time rota_node_fsm_deadline(const struct rota_node_fsm *fsm)
{
    bool waits = fsm->state == ROTA_NODE_STOPPING || fsm->state == ROTA_NODE_LEAVING;
    return waits ? fsm->until : ROTA_TIME_NEVER;
}

const char *rota_node_fsm_state_name(enum rota_node_state state)
{
    static const char *const NAMES[] = {
        [ROTA_NODE_STARTING] = "starting", [ROTA_NODE_JOINING] = "joining",
        [ROTA_NODE_SERVING] = "serving",   [ROTA_NODE_DRAINING] = "draining",
        [ROTA_NODE_DRAINED] = "drained",   [ROTA_NODE_STOPPING] = "stopping",
        [ROTA_NODE_LEAVING] = "leaving",   [ROTA_NODE_CLOSING] = "closing",
        [ROTA_NODE_ENDED] = "ended",
    };
    return NAMES[state];
}
