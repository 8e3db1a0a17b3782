#include "core/own/group_fsm_inside.h"

#include <assert.h>
#include <stdlib.h>

/* --- the next record --- */

void rota_group_fsm_draft_mark(struct rota_group_fsm *fsm, struct rota_group_def *def)
{
    if (!rota_vector_push(&fsm->dirty, def)) {
        fsm->is_out_of_memory = true;
        return;
    }
    rota_group_def_ref(def);
}

static void hold_def(struct rota_group_fsm *fsm, struct rota_group_def *def)
{
    if (!rota_vector_push(&fsm->held, def)) {
        fsm->is_out_of_memory = true;
        return;
    }
    rota_group_def_ref(def);
}

/* A record in the making. */
struct draft {
    struct rota_group_fsm *fsm;
    rota_time now;
    ROTA_VECTOR(struct rota_group_change) changes;
    struct rota_map names; /* of the partitions that it speaks of */
    size_t size;
    bool is_seed_end, is_full;
    bool may_share;  /* the epoch answers the round */
    bool may_create; /* ... and there is room for new ones */
};

static bool has_room(const struct draft *draft, const struct rota_group_change *change)
{
    return draft->changes.size == 0 ||
           draft->size + rota_group_change_size_max(change) <= ROTA_GROUP_CHUNK_MAX;
}

/* Add a change; the record takes shares of its own. */
static void put_change(struct draft *draft, struct rota_group_change change)
{
    if (!rota_vector_push(&draft->changes, change)) {
        draft->fsm->is_out_of_memory = true;
        return;
    }
    rota_group_def_ref(change.def);
    rota_group_blob_ref(change.position);
    draft->size += rota_group_change_size_max(&change);
}

bool rota_group_fsm_draft_is_known(const struct rota_group_fsm *fsm, struct rota_group_name name)
{
    const struct rota_group_partition *partition = rota_group_fold_find(&fsm->fold, name);
    return partition && rota_group_fold_life(partition) != ROTA_GROUP_NAMED;
}

void rota_group_fsm_draft_clean_pending(struct rota_group_fsm *fsm,
                                        struct rota_group_pending *items, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (rota_group_fsm_draft_is_known(fsm, items[i].def->name))
            rota_group_pending_deinit(&items[i]);
        else
            items[kept++] = items[i];
    }
    fsm->n_children -= *n - kept;
    *n = kept;
}

/* A new partition: to the least loaded task, ourselves if that is us. False when there is no
 * room. */
static bool put_new(struct draft *draft, const struct rota_group_pending *pending)
{
    struct rota_group_fsm *fsm = draft->fsm;
    if (rota_group_fsm_draft_is_known(fsm, pending->def->name) ||
        rota_map_get(&draft->names, pending->def->name.text))
        return true;
    uint32_t to = rota_group_fold_least_loaded(&fsm->fold, fsm->me, ROTA_GROUP_NOBODY,
                                               fsm->extra_load.items, pending->def->name.text);
    assert(to != ROTA_GROUP_NOBODY); /* there are at least ourselves */
    struct rota_group_change change = {
        .type = to == fsm->me ? ROTA_GROUP_OWN : ROTA_GROUP_SHARE,
        .def = pending->def,
        .target = fsm->fold.tasks.items[to].member,
        .has_position = true,
        .mark = pending->mark,
        .position = pending->position,
    };
    if (!has_room(draft, &change))
        return false;
    if (!rota_map_put(&draft->names, pending->def->name.text, pending->def))
        fsm->is_out_of_memory = true;
    fsm->extra_load.items[to]++;
    put_change(draft, change);
    return true;
}

/* Its children can't be written now, so neither can what came after them. If we leave meanwhile,
 * the next owner reads that part again. */
static void hold_run(struct draft *draft, struct rota_group_run *run)
{
    if (draft->may_share)
        rota_group_fsm_run_mark_late(draft->fsm, draft->now, run);
    else
        hold_def(draft->fsm, run->def);
}

/* Its reader has stopped: it goes to the least loaded task. */
static bool put_move(struct draft *draft, struct rota_group_run *run,
                     struct rota_group_change change)
{
    struct rota_group_fsm *fsm = draft->fsm;
    uint32_t to = rota_group_fold_least_loaded(&fsm->fold, ROTA_GROUP_NOBODY, fsm->me,
                                               fsm->extra_load.items, run->def->name.text);
    if (!draft->may_share) {
        hold_def(fsm, run->def);
        return true;
    }
    if (to == ROTA_GROUP_NOBODY) { /* we are alone now, and continue to read it */
        const struct rota_group_partition *partition =
            rota_group_fold_find(&fsm->fold, run->def->name);
        rota_group_fsm_run_end(fsm, run);
        rota_group_fsm_run_look(fsm, (uint32_t)(partition - fsm->fold.partitions.items));
        return true;
    }
    change.type = ROTA_GROUP_MOVE;
    change.target = fsm->fold.tasks.items[to].member;
    if (!has_room(draft, &change))
        return false;
    fsm->extra_load.items[to]++;
    put_change(draft, change);
    return true;
}

/* Reports about a partition that runs here. Children first, alone: until they are known to be in
 * the log, no position after them may be. False when there is no room. */
static bool put_run(struct draft *draft, struct rota_group_run *run)
{
    struct rota_group_fsm *fsm = draft->fsm;
    rota_group_fsm_draft_clean_pending(fsm, run->children.items, &run->children.size);
    if (run->children.size > 0 && !draft->may_create) {
        hold_run(draft, run);
        return true;
    }
    for (size_t i = 0; i < run->children.size; i++)
        if (!put_new(draft, &run->children.items[i]))
            return false;
    if (run->children.size > 0)
        return true;
    struct rota_group_change change = {
        .type = run->has_finish ? ROTA_GROUP_FINISH : ROTA_GROUP_PROGRESS,
        .def = run->def,
        .token = run->token,
        .has_position = run->has_progress,
        .mark = run->mark,
        .position = run->has_progress ? run->position : NULL,
        .is_end = run->is_end,
    };
    if (run->is_ended && run->is_moving && !run->has_finish)
        return put_move(draft, run, change);
    if (!run->has_finish && !run->has_progress)
        return true;
    if (!has_room(draft, &change))
        return false;
    put_change(draft, change);
    return true;
}

/* What follows from the fold alone. */
static bool put_due(struct draft *draft, const struct rota_group_partition *partition)
{
    struct rota_group_fsm *fsm = draft->fsm;
    struct rota_group_change change = {.def = partition->def, .token = partition->token};
    bool is_ours = partition->owner == fsm->me;
    bool is_offered_by_us = partition->sharer == fsm->fold.tasks.items[fsm->me].serial;
    if (partition->target == fsm->me) {
        if (!draft->may_share) {
            hold_def(fsm, partition->def);
            return true;
        }
        change.type = ROTA_GROUP_TAKE;
        if (!has_room(draft, &change))
            return false;
        put_change(draft, change);
    }
    if (is_offered_by_us && partition->owner != ROTA_GROUP_NOBODY) {
        change.type = ROTA_GROUP_CLEAR;
        if (!has_room(draft, &change))
            return false;
        put_change(draft, change);
    }
    if (is_ours && partition->n_children == 0 && fsm->fold.is_seeded &&
        rota_group_fold_life(partition) == ROTA_GROUP_FINISHED) {
        change.type = ROTA_GROUP_REMOVE;
        if (!has_room(draft, &change))
            return false;
        put_change(draft, change);
    }
    return true;
}

/* Everything to be written about one partition; false when there is no room for it. */
static bool put_partition(struct draft *draft, struct rota_group_def *def)
{
    struct rota_group_fsm *fsm = draft->fsm;
    struct rota_group_run *run = rota_group_fsm_run_find(fsm, def->name.text);
    const struct rota_group_partition *partition = rota_group_fold_find(&fsm->fold, def->name);
    if (!partition || rota_map_get(&draft->names, def->name.text))
        return true;
    bool is_running =
        run && !run->is_lost && partition->owner == fsm->me && partition->token == run->token;
    if (is_running && !put_run(draft, run))
        return false;
    if (!put_due(draft, partition))
        return false;
    if (!rota_map_put(&draft->names, def->name.text, def) || !rota_vector_push(&fsm->sent, def)) {
        fsm->is_out_of_memory = true;
        return true;
    }
    rota_group_def_ref(def);
    return true;
}

static void put_dirty(struct draft *draft)
{
    struct rota_group_fsm *fsm = draft->fsm;
    size_t n = fsm->dirty.size, done = 0;
    while (done < n && put_partition(draft, fsm->dirty.items[done])) {
        rota_group_def_unref(fsm->dirty.items[done]);
        done++;
    }
    draft->is_full = done < n;
    if (done > 0)
        memmove(fsm->dirty.items, fsm->dirty.items + done,
                (fsm->dirty.size - done) * sizeof *fsm->dirty.items);
    fsm->dirty.size -= done;
}

/* The partitions that a group begins with are its leader's to make known. */
static void put_seeds(struct draft *draft)
{
    struct rota_group_fsm *fsm = draft->fsm;
    if (fsm->fold.is_seeded || fsm->fold.leader != fsm->me || !draft->may_create)
        return;
    for (size_t i = 0; i < fsm->options.n_seeds && !draft->is_full; i++) {
        const struct rota_group_seed *seed = &fsm->seeds[i];
        struct rota_group_name name = {seed->name, rota_group_hash(seed->name)};
        if (rota_group_fsm_draft_is_known(fsm, name))
            continue;
        struct rota_group_pending pending = {
            .def = rota_group_def_new(seed->name, NULL, 0, rota_str("")),
            .mark = seed->mark,
            .position = rota_group_blob_new(seed->position),
        };
        if (!pending.def || !pending.position)
            fsm->is_out_of_memory = draft->is_full = true;
        else
            draft->is_full = !put_new(draft, &pending);
        rota_group_pending_deinit(&pending);
    }
    draft->is_seed_end = !draft->is_full;
}

static void put_roots(struct draft *draft)
{
    struct rota_group_fsm *fsm = draft->fsm;
    for (size_t i = 0; i < fsm->roots.size && draft->may_create && !draft->is_full; i++)
        draft->is_full = !put_new(draft, &fsm->roots.items[i]);
}

/* An offer that was not taken for long goes to another task; a TAKE that comes first wins. */
static void put_withdrawals(struct draft *draft)
{
    struct rota_group_fsm *fsm = draft->fsm;
    rota_time after = fsm->options.withdraw_after;
    for (size_t n = fsm->offers.size; after > 0 && draft->may_share && n > 0; n--) {
        struct rota_group_offer offer = fsm->offers.items[0];
        const struct rota_group_partition *partition =
            rota_group_fold_find(&fsm->fold, offer.def->name);
        bool is_open = partition && partition->target != ROTA_GROUP_NOBODY &&
                       partition->sharer == fsm->fold.tasks.items[fsm->me].serial;
        if (is_open && draft->now < rota_time_add(offer.at, after))
            return;
        uint32_t to =
            is_open ? rota_group_fold_least_loaded(&fsm->fold, ROTA_GROUP_NOBODY, partition->target,
                                                   fsm->extra_load.items, offer.def->name.text)
                    : ROTA_GROUP_NOBODY;
        if (to != ROTA_GROUP_NOBODY) {
            struct rota_group_change change = {
                .type = ROTA_GROUP_WITHDRAW,
                .def = offer.def,
                .target = fsm->fold.tasks.items[to].member,
            };
            if (!has_room(draft, &change))
                return;
            fsm->extra_load.items[to]++;
            put_change(draft, change);
        }
        fsm->offers.size--;
        memmove(fsm->offers.items, fsm->offers.items + 1,
                fsm->offers.size * sizeof *fsm->offers.items);
        if (is_open) {
            offer.at = draft->now;
            fsm->offers.items[fsm->offers.size++] = offer;
        } else {
            rota_group_def_unref(offer.def);
        }
    }
}

static bool reset_loads(struct rota_group_fsm *fsm)
{
    if (!rota_vector_reserve(&fsm->extra_load, fsm->fold.tasks.size))
        return false;
    fsm->extra_load.size = fsm->fold.tasks.size;
    memset(fsm->extra_load.items, 0, fsm->extra_load.size * sizeof *fsm->extra_load.items);
    return true;
}

static void fill_draft(struct draft *draft)
{
    put_dirty(draft);
    if (!draft->is_full)
        put_seeds(draft);
    if (!draft->is_full)
        put_roots(draft);
    if (!draft->is_full)
        put_withdrawals(draft);
}

/* The order of a record as it is written. */
static bool sort_changes(struct rota_group_record *record)
{
    size_t n = 0;
    struct rota_group_change *sorted = malloc((record->n_changes + 1) * sizeof *sorted);
    if (!sorted)
        return false;
    for (int is_share = 0; is_share < 2; is_share++)
        for (size_t i = 0; i < record->n_changes; i++)
            if (rota_group_is_share(record->changes[i].type) == is_share)
                sorted[n++] = record->changes[i];
    free(record->changes);
    record->changes = sorted;
    return true;
}

bool rota_group_fsm_draft(struct rota_group_fsm *fsm, rota_time now,
                          struct rota_group_record *record)
{
    struct draft draft = {
        .fsm = fsm,
        .now = now,
        .may_share = fsm->state == ROTA_GROUP_AT_WORKING,
    };
    if (now >= fsm->full_until)
        fsm->full_until = 0;
    draft.may_create = draft.may_share && fsm->full_until == 0;
    rota_map_init(&draft.names, 0);
    if (reset_loads(fsm))
        fill_draft(&draft);
    else
        fsm->is_out_of_memory = true;
    rota_map_deinit(&draft.names);
    record->changes = draft.changes.items;
    record->n_changes = draft.changes.size;
    record->is_seed_end = draft.is_seed_end;
    if (!sort_changes(record))
        fsm->is_out_of_memory = true;
    return record->n_changes > 0 || record->is_seed_end;
}
