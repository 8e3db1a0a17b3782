#include "core/own/view_fsm_inside.h"

#include "base/search.h"

uint64_t rota_view_fsm_epoch(const struct rota_view_fsm *fsm, rota_time now, uint32_t shard)
{
    return shard < fsm->options.n_shards && now < fsm->until ? fsm->held[shard] : 0;
}

bool rota_view_fsm_is_running(const struct rota_view_fsm *fsm, rota_time now)
{
    return fsm->is_running && now < fsm->until;
}

void rota_view_fsm_note_epoch(struct rota_view_fsm *fsm, uint64_t epoch)
{
    if (epoch > fsm->highest && epoch < ROTA_VIEW_NUMBER_MAX)
        fsm->highest = epoch;
}

const struct rota_view *rota_view_fsm_view(const struct rota_view_fsm *fsm)
{
    return &fsm->view;
}

const struct rota_view_row *rota_view_fsm_rows(const struct rota_view_fsm *fsm, size_t *n)
{
    *n = fsm->rows.size;
    return fsm->rows.items;
}

/* Pins are in the order of their shards, and the one that counts is the last of its own. */
static bool is_pinned(const struct rota_view *view, uint32_t shard, struct rota_str name)
{
    size_t from;
    ROTA_SEARCH(from, view->pins.size, middle, view->pins.items[middle].shard <= shard);
    const struct rota_view_pin *pin = from > 0 ? &view->pins.items[from - 1] : NULL;
    return pin && pin->shard == shard && pin->span.to == 0 && rota_str_is_equal(pin->name, name);
}

bool rota_view_fsm_owner(const struct rota_view_fsm *fsm, uint32_t shard,
                         struct rota_view_owner *owner)
{
    if (shard >= fsm->options.n_shards || fsm->owners[shard] == ROTA_VIEW_NOBODY)
        return false;
    const struct rota_view_life *life = &fsm->lives.items[fsm->owners[shard]];
    *owner = (struct rota_view_owner){.name = life->name,
                                      .instance = life->instance,
                                      .epoch = fsm->epochs[shard],
                                      .is_moving = fsm->is_taken[shard] || fsm->is_barred,
                                      .is_pinned = is_pinned(&fsm->view, shard, life->name)};
    return true;
}

enum rota_code rota_view_fsm_differences(const struct rota_view_fsm *fsm, uint32_t *n,
                                         struct rota_error *error)
{
    const struct rota_view *view = &fsm->view;
    uint32_t n_found = 0;
    if (view->phase != ROTA_VIEW_SHADOW || !rota_migrate_is_by_view(view->to) ||
        !rota_migrate_is_by_view(view->engine))
        return rota_error_set(error, ROTA_ERR_NOT_FOUND,
                              "view: there is no shadow engine whose owners follow from the view");
    enum rota_code code =
        rota_view_place(view, view->number, view->to, fsm->hashes, fsm->scratch, error);
    for (uint32_t shard = 0; !code && shard < view->n_shards; shard++) {
        uint32_t member = fsm->scratch[shard], owner = fsm->owners[shard];
        if (member == ROTA_VIEW_NOBODY || owner == ROTA_VIEW_NOBODY)
            n_found += (member == ROTA_VIEW_NOBODY) != (owner == ROTA_VIEW_NOBODY);
        else
            n_found += view->members.items[member].instance != fsm->lives.items[owner].instance;
    }
    if (!code)
        *n = n_found;
    return code;
}

bool rota_view_fsm_is_drained(const struct rota_view_fsm *fsm)
{
    return fsm->is_draining && fsm->me == ROTA_VIEW_NOBODY && fsm->n_held == 0 &&
           !fsm->is_running && fsm->view.number > 0 && fsm->acked == fsm->view.number;
}

const char *rota_view_fsm_look_why_text(enum rota_view_why why)
{
    switch (why) {
    case ROTA_VIEW_WHY_MOVED:
        return "moved";
    case ROTA_VIEW_WHY_EXPIRED:
        return "expired";
    case ROTA_VIEW_WHY_GONE:
        return "gone";
    case ROTA_VIEW_WHY_WENT_BACK:
        return "went back";
    case ROTA_VIEW_WHY_SHUTDOWN:
        return "shutdown";
    }
    return "?";
}
