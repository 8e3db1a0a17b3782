#include "core/work/cluster/settings_fsm.h"

void rota_settings_fsm_init(struct rota_settings_fsm *fsm, rota_time now, rota_time interval,
                            bool has_copy)
{
    *fsm = (struct rota_settings_fsm){
        .interval = interval,
        .has_copy = has_copy,
        .begin_by = has_copy ? rota_time_add(now, ROTA_SETTINGS_START) : ROTA_TIME_NEVER,
    };
    rota_list_init(&fsm->changes);
}

static struct rota_settings_change *first_change(const struct rota_settings_fsm *fsm)
{
    return ROTA_LIST_FIRST(&fsm->changes, struct rota_settings_change, link);
}

struct rota_settings_change *rota_settings_fsm_drop(struct rota_settings_fsm *fsm)
{
    struct rota_settings_change *first = first_change(fsm);
    if (!first)
        return NULL;
    rota_list_remove(&first->link);
    fsm->n_changes--;
    return first;
}

static void end_first(struct rota_settings_fsm *fsm, enum rota_settings_end how,
                      struct rota_settings_actions *actions)
{
    actions->ended = rota_settings_fsm_drop(fsm);
    actions->how = how;
}

/* Versions that are lower than those read before are of a store that was restored. */
static void finish_read(struct rota_settings_fsm *fsm, rota_time now, uint64_t version)
{
    bool is_all = fsm->flight == ROTA_SETTINGS_READING_ALL;
    bool is_older = !is_all && version < fsm->known;
    bool is_behind = fsm->has_changed && fsm->hinted > version;
    fsm->has_read = true;
    fsm->must_read = is_older;
    if (!is_older)
        fsm->known = version;
    if (is_all || is_older)
        fsm->all_at = is_older ? now : rota_time_add(now, ROTA_SETTINGS_ALL);
    fsm->read_at = is_older || is_behind ? now : rota_time_add(now, fsm->interval);
}

static void read_before_writing(struct rota_settings_fsm *fsm, rota_time at)
{
    fsm->must_read = true;
    fsm->read_at = at;
}

static void finish_write(struct rota_settings_fsm *fsm, rota_time now,
                         const struct rota_settings_event *event)
{
    if (event->is_applied && event->previous == fsm->known)
        fsm->known = event->version;
    else
        read_before_writing(fsm, now); /* other rows were written before it */
}

static void push_change(struct rota_settings_fsm *fsm, rota_time now,
                        struct rota_settings_change *change, bool is_first)
{
    bool may_be_first = is_first && !fsm->written;
    change->until = rota_time_add(now, ROTA_SETTINGS_PATIENCE);
    change->is_unsure = false;
    rota_list_push(may_be_first ? fsm->changes.next : &fsm->changes, &change->link);
    fsm->n_changes++;
}

static void take_hint(struct rota_settings_fsm *fsm, rota_time now, uint64_t version)
{
    if (version <= fsm->known)
        return;
    fsm->hinted = version > fsm->hinted ? version : fsm->hinted;
    fsm->has_changed = true;
    fsm->read_at = now;
}

/* An event other than these two is the end of the request in flight. */
static void take_event(struct rota_settings_fsm *fsm, rota_time now,
                       const struct rota_settings_event *event,
                       struct rota_settings_actions *actions)
{
    struct rota_settings_change *written = fsm->written;
    switch (event->type) {
    case ROTA_SETTINGS_TICK:
        return;
    case ROTA_SETTINGS_HINT:
        take_hint(fsm, now, event->version);
        return;
    case ROTA_SETTINGS_CHANGE:
        push_change(fsm, now, event->change, event->is_first);
        return;
    case ROTA_SETTINGS_READ:
        finish_read(fsm, now, event->version);
        break;
    case ROTA_SETTINGS_WRITTEN:
        finish_write(fsm, now, event);
        end_first(fsm, ROTA_SETTINGS_DONE, actions);
        break;
    case ROTA_SETTINGS_CONFLICT:
        read_before_writing(fsm, now);
        break;
    case ROTA_SETTINGS_REFUSED:
        end_first(fsm,
                  written && written->is_unsure ? ROTA_SETTINGS_UNKNOWN : ROTA_SETTINGS_INVALID,
                  actions);
        break;
    case ROTA_SETTINGS_LOST:
    case ROTA_SETTINGS_FAILED:
        if (written && event->type == ROTA_SETTINGS_LOST)
            written->is_unsure = true;
        fsm->has_failed = true;
        read_before_writing(fsm, rota_time_add(now, fsm->interval));
        break;
    }
    fsm->flight = ROTA_SETTINGS_IDLE;
    fsm->written = NULL;
}

static void send_next(struct rota_settings_fsm *fsm, rota_time now,
                      struct rota_settings_actions *actions)
{
    if (now >= fsm->read_at) {
        bool is_all = !fsm->has_read || now >= fsm->all_at;
        fsm->flight = is_all ? ROTA_SETTINGS_READING_ALL : ROTA_SETTINGS_READING;
        fsm->has_changed = false;
        actions->read = true;
        actions->is_all = is_all;
        actions->from = is_all ? 0 : fsm->known;
    } else if (fsm->n_changes > 0 && fsm->has_read && !fsm->must_read) {
        fsm->flight = ROTA_SETTINGS_WRITING;
        actions->write = fsm->written = first_change(fsm);
        actions->known = fsm->known;
    }
}

struct rota_settings_actions rota_settings_fsm_step(struct rota_settings_fsm *fsm, rota_time now,
                                                    const struct rota_settings_event *event)
{
    struct rota_settings_actions actions = {0};
    take_event(fsm, now, event, &actions);
    const struct rota_settings_change *first = first_change(fsm);
    bool is_idle = fsm->flight == ROTA_SETTINGS_IDLE;
    if (is_idle && !actions.ended && first && now >= first->until)
        end_first(fsm, first->is_unsure ? ROTA_SETTINGS_UNKNOWN : ROTA_SETTINGS_UNREACHABLE,
                  &actions);
    if (is_idle)
        send_next(fsm, now, &actions);
    bool may_begin = fsm->has_read || (fsm->has_copy && (fsm->has_failed || now >= fsm->begin_by));
    actions.begin = may_begin && !fsm->has_begun;
    fsm->has_begun = fsm->has_begun || may_begin;
    return actions;
}

rota_time rota_settings_fsm_deadline(const struct rota_settings_fsm *fsm)
{
    const struct rota_settings_change *first = first_change(fsm);
    rota_time at = fsm->has_begun ? ROTA_TIME_NEVER : fsm->begin_by;
    if (fsm->flight != ROTA_SETTINGS_IDLE)
        return at;
    if (first)
        at = rota_time_min(at, first->until);
    return rota_time_min(at, fsm->read_at);
}
