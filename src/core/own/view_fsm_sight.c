#include "core/own/view_fsm_inside.h"

/* --- the rows --- */

static int compare_rows(const void *a, const void *b)
{
    const struct rota_view_row *x = a, *y = b;
    int order = rota_str_compare(x->name, y->name);
    return order ? order : (x->instance > y->instance) - (x->instance < y->instance);
}

static bool copy_rows(struct rota_view_fsm *fsm, const struct rota_view_event *event)
{
    fsm->rows.size = 0;
    rota_arena_clear(&fsm->row_names);
    if (!rota_vector_reserve(&fsm->rows, event->n_rows + 1))
        return false;
    for (size_t i = 0; i < event->n_rows; i++) {
        struct rota_view_row row = event->rows[i];
        row.name = rota_arena_copy(&fsm->row_names, row.name);
        row.zone = rota_arena_copy(&fsm->row_names, row.zone);
        if (!row.name.data || !row.zone.data)
            return false;
        if (row.acked > ROTA_VIEW_NUMBER_MAX)
            row.acked = 0;
        fsm->rows.items[fsm->rows.size++] = row;
    }
    if (fsm->rows.size > 1)
        qsort(fsm->rows.items, fsm->rows.size, sizeof *fsm->rows.items, compare_rows);
    return true;
}

/* Rows that do not change. A node without a row, because its name is taken, is last in the
 * order. */
static void watch_rows(struct rota_view_fsm *fsm, rota_time now)
{
    struct rota_session_row *rows = malloc((fsm->rows.size + 1) * sizeof *rows);
    const struct rota_session_row *dead;
    uint64_t ours = fsm->standing == ROTA_VIEW_IN ? fsm->instance : 0;
    size_t n = 0, place = 0;
    bool is_there = false;
    if (!rows)
        return;
    for (; n < fsm->rows.size; n++) {
        const struct rota_view_row *row = &fsm->rows.items[n];
        is_there |= row->instance == ours;
        rows[n] = (struct rota_session_row){
            .place = row->instance, .pings = row->pings, .session = row->ttl};
    }
    if (!is_there)
        rows[n++] = (struct rota_session_row){
            .place = ours, .pings = fsm->n_asked, .session = fsm->options.ttl};
    bool is_seen = rota_session_watch_see_rows(&fsm->watch, now, rows, n);
    free(rows);
    while (is_seen && fsm->actions.n_asks < ROTA_VIEW_ASKS_MAX - 4 &&
           (dead = rota_session_watch_next(&fsm->watch, ours, &place))) {
        struct rota_view_row row = {.instance = dead->place, .pings = dead->pings};
        for (size_t i = 0; i < fsm->rows.size; i++)
            if (fsm->rows.items[i].instance == dead->place)
                row.name = fsm->rows.items[i].name;
        rota_view_fsm_ask(fsm, (struct rota_view_ask){.type = ROTA_VIEW_EVICT, .row = row});
        rota_view_fsm_look_at(fsm, now + rota_view_fsm_pause(fsm));
    }
}

/* Our name is free, or was that of our own life before. */
static void see_whether_to_join(struct rota_view_fsm *fsm)
{
    const struct rota_view_row *row = rota_view_fsm_draft_row(fsm, fsm->options.name);
    if (fsm->standing != ROTA_VIEW_OUT || fsm->own_ask != 0 || fsm->options.is_observer)
        return;
    fsm->may_join = !row || row->instance == fsm->instance || fsm->options.is_alone;
    fsm->join_former = row ? row->instance : 0;
}

/* The store shows an earlier state: there may be owners that it does not know of. They stop no
 * later than a heartbeat lasts. */
static void go_back(struct rota_view_fsm *fsm, rota_time now)
{
    rota_time ttl = fsm->options.ttl;
    for (size_t i = 0; i < fsm->rows.size; i++)
        if (fsm->rows.items[i].ttl > ttl && fsm->rows.items[i].ttl <= ROTA_VIEW_TTL_MAX)
            ttl = fsm->rows.items[i].ttl;
    rota_view_fsm_stop_all(fsm, ROTA_VIEW_WHY_WENT_BACK);
    rota_view_fsm_apply_forget(fsm);
    rota_session_watch_forget(&fsm->watch);
    fsm->lost = fsm->floor;
    fsm->is_on_hold = true;
    fsm->hold_until = rota_time_add(now, ttl);
    fsm->actions.went_back = fsm->actions.is_changed = true;
}

/* Adopt the view that was read; false if we can't. */
static bool see_view(struct rota_view_fsm *fsm, rota_time now, const struct rota_view *view)
{
    struct rota_view copy;
    if (!view || rota_view_is_equal(view, &fsm->view))
        return true;
    if (view->number > 0 && view->n_shards != fsm->options.n_shards)
        return false;
    /* A known number can return with another view, from a database whose clock was set back as
     * well. */
    if (view->number < fsm->floor || view->number == fsm->view.number ||
        (view->base <= fsm->view.number && !rota_view_is_before(&fsm->view, view)))
        go_back(fsm, now);
    if (view->number == 0)
        return true;
    if (rota_view_copy(view, &copy, NULL))
        return false;
    rota_view_fsm_apply(fsm, &copy);
    rota_view_fsm_renew_row(fsm, now);
    return fsm->view.number > 0;
}

static bool is_settled(const struct rota_view_fsm *fsm)
{
    bool is_there = fsm->standing == ROTA_VIEW_IN || fsm->options.is_observer;
    return is_there && fsm->has_rows && fsm->n_held >= fsm->n_ours && fsm->moves.size == 0 &&
           !fsm->is_barred && fsm->proposal.number == 0 && fsm->view.phase != ROTA_VIEW_STOPPING;
}

/* Members before us in the list go first, and we need not do anything. Wishes can't wait. */
static rota_time turn_of(struct rota_view_fsm *fsm)
{
    enum { TURNS_MAX = 8 };
    rota_time turn = 0;
    if (fsm->wishes.size > 0)
        return 0;
    for (size_t i = 0; i < fsm->rows.size && i < TURNS_MAX; i++) {
        if (fsm->rows.items[i].instance == fsm->instance)
            break;
        turn += fsm->options.ttl / 64;
    }
    return turn;
}

/* Without a row we propose operators' wishes only, on top of a view that others made. */
static bool may_propose(const struct rota_view_fsm *fsm, rota_time now)
{
    const struct rota_view_row *row = rota_view_fsm_draft_row(fsm, fsm->options.name);
    if (fsm->standing == ROTA_VIEW_OUT)
        return fsm->wishes.size > 0 && fsm->view.number > 0;
    return fsm->standing == ROTA_VIEW_IN && now < fsm->until && row &&
           row->instance == fsm->instance;
}

static void see_what_to_propose(struct rota_view_fsm *fsm, rota_time now)
{
    if (may_propose(fsm, now))
        rota_view_fsm_draft(fsm);
    else
        rota_view_deinit(&fsm->proposal);
    if (fsm->proposal.number == 0)
        fsm->propose_at = ROTA_TIME_NEVER;
    else
        fsm->propose_at = rota_time_min(fsm->propose_at, now + turn_of(fsm));
}

void rota_view_fsm_sight_hear(struct rota_view_fsm *fsm, rota_time now,
                              const struct rota_view_event *event)
{
    bool is_fine = event->n_rows <= ROTA_VIEW_ROWS_MAX && see_view(fsm, now, event->view);
    if (!is_fine || !copy_rows(fsm, event)) {
        fsm->has_rows = false;
        rota_view_deinit(&fsm->proposal);
        fsm->propose_at = ROTA_TIME_NEVER;
        fsm->read_at = now + rota_view_fsm_pause(fsm);
        return;
    }
    fsm->has_rows = true;
    fsm->unix_ms = event->unix_ms;
    fsm->store_highest = event->highest;
    rota_view_fsm_apply_resolve(fsm);
    see_whether_to_join(fsm);
    see_what_to_propose(fsm, now);
    fsm->read_at = now + (is_settled(fsm) ? rota_view_fsm_some_of(fsm, fsm->options.ttl / 6)
                                          : rota_view_fsm_pause(fsm));
    watch_rows(fsm, now);
}
