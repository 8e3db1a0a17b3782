#include "core/own/view_fsm_inside.h"

/* --- members, present and former --- */

static uint32_t find_life(const struct rota_view_fsm *fsm, struct rota_str name, uint64_t instance)
{
    for (size_t i = 0; i < fsm->lives.size; i++)
        if (fsm->lives.items[i].instance == instance &&
            rota_str_is_equal(fsm->lives.items[i].name, name))
            return (uint32_t)i;
    return ROTA_VIEW_NOBODY;
}

static bool add_life(struct rota_view_fsm *fsm, const struct rota_view_member *member, uint32_t *id)
{
    *id = find_life(fsm, member->name, member->instance);
    if (*id != ROTA_VIEW_NOBODY)
        return true;
    struct rota_view_life life = {.name = rota_arena_copy(&fsm->names, member->name),
                                  .instance = member->instance};
    *id = (uint32_t)fsm->lives.size;
    return life.name.data && rota_vector_push(&fsm->lives, life);
}

/* The life of each member of the view, by its place there. */
static bool add_lives(struct rota_view_fsm *fsm, const struct rota_view *view, uint32_t *ids)
{
    for (size_t i = 0; i < view->members.size; i++)
        if (!add_life(fsm, &view->members.items[i], &ids[i]))
            return false;
    return true;
}

/* --- from view to view --- */

static void forget_moves(struct rota_view_fsm *fsm)
{
    for (uint32_t shard = 0; shard < fsm->options.n_shards; shard++) {
        fsm->owners[shard] = ROTA_VIEW_NOBODY;
        fsm->is_taken[shard] = false;
    }
    fsm->lives.size = 0;
    fsm->moves.size = 0;
    fsm->me = ROTA_VIEW_NOBODY;
    rota_arena_clear(&fsm->names);
}

void rota_view_fsm_apply_forget(struct rota_view_fsm *fsm)
{
    forget_moves(fsm);
    fsm->n_ours = 0;
    rota_view_deinit(&fsm->view);
}

/* Another node owns the shard from `number` on. Our own holding does not delay us. */
static bool move_shard(struct rota_view_fsm *fsm, uint32_t shard, uint32_t who, uint64_t number)
{
    uint32_t former = fsm->owners[shard];
    fsm->owners[shard] = who;
    fsm->epochs[shard] = number;
    if (former == ROTA_VIEW_NOBODY || fsm->lives.items[former].instance == fsm->instance)
        return true;
    struct rota_view_move made = {.shard = shard, .who = former, .lost_at = number};
    fsm->is_taken[shard] = true;
    return rota_vector_push(&fsm->moves, made);
}

/* One of the views that can be reconstructed from `view`; the others are compared with the first
 * one. */
static bool replay_state(struct rota_view_fsm *fsm, const struct rota_view *view,
                         const uint32_t *ids, uint64_t number, bool is_first)
{
    struct rota_migrate migrate = rota_view_fsm_migrate(view);
    enum rota_view_engine engine =
        rota_migrate_fsm_owns(&migrate, view->engine) ? view->engine : ROTA_VIEW_LEASE;
    if (rota_view_place(view, number, engine, fsm->hashes, fsm->scratch, NULL))
        return false;
    for (uint32_t shard = 0; shard < view->n_shards; shard++) {
        uint32_t member = fsm->scratch[shard];
        uint32_t who = member == ROTA_VIEW_NOBODY ? ROTA_VIEW_NOBODY : ids[member];
        if (is_first) {
            fsm->owners[shard] = who;
            fsm->epochs[shard] = number;
        } else if (who != fsm->owners[shard] && !move_shard(fsm, shard, who, number)) {
            return false;
        }
    }
    return true;
}

/* Lists that only grow with the views are rebuilt from time to time: the result is the same
 * either way. */
static bool is_too_much(const struct rota_view_fsm *fsm)
{
    return fsm->lives.size > ROTA_VIEW_MEMBERS_MAX ||
           fsm->moves.size > 4 * (size_t)fsm->options.n_shards;
}

static bool follow_view(struct rota_view_fsm *fsm, const struct rota_view *view, uint32_t *ids)
{
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    size_t n = rota_view_states(view, numbers);
    bool is_fresh = fsm->view.number < view->base || is_too_much(fsm);
    bool is_fine = true;
    if (is_fresh) {
        forget_moves(fsm);
        fsm->known_since = view->base;
    }
    is_fine = add_lives(fsm, view, ids);
    for (size_t i = 0; i < n && is_fine; i++)
        if (is_fresh || numbers[i] > fsm->view.number)
            is_fine = replay_state(fsm, view, ids, numbers[i], is_fresh && i == 0);
    for (uint32_t shard = 0; shard < view->n_shards; shard++)
        if (fsm->epochs[shard] < view->base)
            fsm->epochs[shard] = view->base;
    return is_fine;
}

/* No other node can have started what we held: they wait for our ack. So shards that are ours in
 * the new view continue, if needed under a later epoch. */
static void keep_or_stop(struct rota_view_fsm *fsm)
{
    fsm->n_ours = 0;
    for (uint32_t shard = 0; shard < fsm->options.n_shards; shard++) {
        bool is_ours = fsm->me != ROTA_VIEW_NOBODY && fsm->owners[shard] == fsm->me;
        fsm->n_ours += is_ours;
        if (fsm->held[shard] == 0 || (is_ours && fsm->held[shard] == fsm->epochs[shard]))
            continue;
        rota_view_fsm_stop(fsm, shard, ROTA_VIEW_WHY_MOVED);
        if (is_ours)
            rota_view_fsm_start(fsm, shard);
    }
}

/* Another engine continues if we are in the view, and it has not changed since. */
static void keep_or_halt(struct rota_view_fsm *fsm, bool is_late)
{
    struct rota_migrate migrate = rota_view_fsm_migrate(&fsm->view);
    if (!fsm->is_running || (!is_late && fsm->me != ROTA_VIEW_NOBODY &&
                             rota_migrate_fsm_owns(&migrate, fsm->view.engine)))
        return;
    fsm->is_running = false;
    fsm->actions.has_halt = true;
    fsm->actions.why = ROTA_VIEW_WHY_MOVED;
}

/* Whether we are in the view: earlier lives of ours are others. */
static uint32_t find_me(const struct rota_view_fsm *fsm)
{
    uint32_t member = rota_view_find(&fsm->view, fsm->options.name);
    if (member == ROTA_VIEW_NOBODY || fsm->standing != ROTA_VIEW_IN ||
        fsm->view.members.items[member].instance != fsm->instance)
        return ROTA_VIEW_NOBODY;
    return find_life(fsm, fsm->options.name, fsm->instance);
}

void rota_view_fsm_apply_find_me(struct rota_view_fsm *fsm)
{
    fsm->me = find_me(fsm);
    keep_or_stop(fsm);
}

void rota_view_fsm_apply(struct rota_view_fsm *fsm, struct rota_view *view)
{
    uint32_t *ids = malloc((view->members.size + 1) * sizeof *ids);
    bool is_late = fsm->view.number < view->base;
    bool is_fine = ids && follow_view(fsm, view, ids);
    free(ids);
    rota_view_deinit(&fsm->view);
    if (is_fine) {
        fsm->view = *view;
        *view = (struct rota_view){0};
        fsm->me = find_me(fsm);
    } else {
        rota_view_fsm_apply_forget(fsm);
        rota_view_deinit(view);
        is_late = true;
    }
    if (fsm->view.number > fsm->floor)
        fsm->floor = fsm->view.number;
    fsm->has_rows = false; /* they are older than the view */
    fsm->is_barred = true;
    fsm->is_row_old = true;
    fsm->actions.is_changed = true;
    keep_or_stop(fsm);
    keep_or_halt(fsm, is_late);
}

/* --- former owners that have stopped --- */

/* A missing row means that its node has stopped, since it existed when the node became a member. */
static void judge_life(struct rota_view_fsm *fsm, struct rota_view_life *life)
{
    const struct rota_view_row *row = rota_view_fsm_draft_row(fsm, life->name);
    life->is_dead = !row || row->instance != life->instance;
    life->acked = life->is_dead ? 0 : row->acked;
}

void rota_view_fsm_apply_resolve(struct rota_view_fsm *fsm)
{
    size_t n = 0;
    fsm->is_barred = false;
    for (size_t i = 0; i < fsm->rows.size; i++)
        if (fsm->rows.items[i].instance != fsm->instance &&
            fsm->rows.items[i].acked < fsm->known_since)
            fsm->is_barred = true;
    if (fsm->moves.size == 0)
        return;
    for (size_t i = 0; i < fsm->lives.size; i++)
        judge_life(fsm, &fsm->lives.items[i]);
    for (size_t i = 0; i < fsm->moves.size; i++)
        fsm->is_taken[fsm->moves.items[i].shard] = false;
    for (size_t i = 0; i < fsm->moves.size; i++) {
        struct rota_view_move made = fsm->moves.items[i];
        const struct rota_view_life *who = &fsm->lives.items[made.who];
        if (who->is_dead || who->acked >= made.lost_at)
            continue;
        fsm->is_taken[made.shard] = true;
        fsm->moves.items[n++] = made;
    }
    fsm->moves.size = n;
}
