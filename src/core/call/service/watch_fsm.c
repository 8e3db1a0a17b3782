#include "core/call/service/watch_fsm.h"

void rota_watch_fsm_init(struct rota_watch_fsm *fsm, size_t n_nodes, size_t first)
{
    *fsm = (struct rota_watch_fsm){
        .n_nodes = n_nodes,
        .node = first % n_nodes,
        .doubted_at = ROTA_TIME_NEVER,
        .doubt = ROTA_WATCH_DOUBT,
        .backoff = {.first = ROTA_WATCH_PAUSE, .max = ROTA_WATCH_PAUSE_MAX},
    };
}

static void start_watch(struct rota_watch_fsm *fsm, rota_time now,
                        struct rota_watch_actions *actions)
{
    fsm->state = ROTA_WATCH_WATCHING;
    fsm->first_by = rota_time_add(now, ROTA_WATCH_FIRST_WITHIN);
    actions->start = true;
    actions->number = ++fsm->number;
    actions->node = fsm->node;
}

/* The next node, at once or, when all have failed, after a pause. */
static void leave_node(struct rota_watch_fsm *fsm, rota_time now, struct rota_random *random,
                       struct rota_watch_actions *actions)
{
    fsm->node = (fsm->node + 1) % fsm->n_nodes;
    if (++fsm->n_failed < fsm->n_nodes) {
        start_watch(fsm, now, actions);
        return;
    }
    fsm->n_failed = 0;
    fsm->state = ROTA_WATCH_PAUSED;
    fsm->paused_until = rota_time_add(now, rota_backoff_failed(&fsm->backoff, random));
}

static void on_ended(struct rota_watch_fsm *fsm, rota_time now, enum rota_status status,
                     struct rota_random *random, struct rota_watch_actions *actions)
{
    if (status == ROTA_STATUS_NOT_FOUND) {
        actions->tell_missing = true;
        if (!fsm->is_known) { /* the next call asks again */
            fsm->state = ROTA_WATCH_IDLE;
            fsm->doubted_at = ROTA_TIME_NEVER;
            return;
        }
    }
    leave_node(fsm, now, random, actions);
}

static void on_update(struct rota_watch_fsm *fsm, rota_time now, bool is_whole)
{
    fsm->first_by = is_whole ? ROTA_TIME_NEVER : rota_time_add(now, ROTA_WATCH_FIRST_WITHIN);
    fsm->doubted_at = ROTA_TIME_NEVER;
    if (!is_whole)
        return;
    fsm->is_known = true;
    fsm->n_failed = 0;
    rota_backoff_succeeded(&fsm->backoff);
}

static rota_time doubt_deadline(const struct rota_watch_fsm *fsm)
{
    if (fsm->state != ROTA_WATCH_WATCHING || fsm->doubted_at == ROTA_TIME_NEVER ||
        fsm->n_nodes == 1)
        return ROTA_TIME_NEVER;
    return rota_time_add(fsm->doubted_at, fsm->doubt);
}

static void on_tick(struct rota_watch_fsm *fsm, rota_time now, struct rota_random *random,
                    struct rota_watch_actions *actions)
{
    if (fsm->state == ROTA_WATCH_PAUSED && now >= fsm->paused_until) {
        start_watch(fsm, now, actions);
    } else if (fsm->state == ROTA_WATCH_WATCHING && now >= fsm->first_by) {
        actions->cancel = true;
        leave_node(fsm, now, random, actions);
    } else if (now >= doubt_deadline(fsm)) {
        actions->cancel = true;
        fsm->doubted_at = ROTA_TIME_NEVER;
        if (++fsm->n_doubted == fsm->n_nodes) {
            fsm->n_doubted = 0;
            fsm->doubt = rota_time_min(2 * fsm->doubt, ROTA_WATCH_DOUBT_MAX);
        }
        fsm->node = (fsm->node + 1) % fsm->n_nodes;
        start_watch(fsm, now, actions);
    }
}

struct rota_watch_actions rota_watch_fsm_step(struct rota_watch_fsm *fsm, rota_time now,
                                              const struct rota_watch_event *event,
                                              struct rota_random *random)
{
    struct rota_watch_actions actions = {0};
    bool is_ours = fsm->state == ROTA_WATCH_WATCHING && event->number == fsm->number;
    switch (event->type) {
    case ROTA_WATCH_START:
        if (fsm->state == ROTA_WATCH_IDLE)
            start_watch(fsm, now, &actions);
        break;
    case ROTA_WATCH_UPDATE:
        if (is_ours)
            on_update(fsm, now, event->is_whole);
        break;
    case ROTA_WATCH_ENDED:
        if (is_ours)
            on_ended(fsm, now, event->status, random, &actions);
        break;
    case ROTA_WATCH_WAITED:
        if (fsm->doubted_at == ROTA_TIME_NEVER)
            fsm->doubted_at = now;
        break;
    case ROTA_WATCH_SERVED:
        if (!event->is_waited)
            fsm->doubted_at = ROTA_TIME_NEVER;
        fsm->doubt = ROTA_WATCH_DOUBT;
        fsm->n_doubted = 0;
        break;
    case ROTA_WATCH_TICK:
        on_tick(fsm, now, random, &actions);
        break;
    }
    return actions;
}

rota_time rota_watch_fsm_deadline(const struct rota_watch_fsm *fsm)
{
    rota_time at = doubt_deadline(fsm);
    if (fsm->state == ROTA_WATCH_PAUSED)
        at = rota_time_min(at, fsm->paused_until);
    if (fsm->state == ROTA_WATCH_WATCHING)
        at = rota_time_min(at, fsm->first_by);
    return at;
}
