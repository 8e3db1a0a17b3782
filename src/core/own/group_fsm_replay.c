#include "core/own/group_fsm_inside.h"

#include <stdlib.h>

static void read_from(struct rota_group_fsm *fsm, uint64_t offset)
{
    rota_group_fsm_do(fsm, ROTA_GROUP_DO_READ)->offset = offset;
}

static void clear_collected(struct rota_group_fsm *fsm)
{
    for (size_t i = 0; i < fsm->collected.size; i++)
        rota_group_record_unref(fsm->collected.items[i].record);
    rota_vector_deinit(&fsm->collected);
}

/* Read the log from here on, as if nothing was known. */
static void begin_afresh(struct rota_group_fsm *fsm, uint64_t offset)
{
    clear_collected(fsm);
    rota_group_fold_deinit(&fsm->fold);
    rota_group_fold_init(&fsm->fold);
    fsm->replay = ROTA_GROUP_REPLAY_FOLD;
    read_from(fsm, offset);
}

/* Read the last records for a beginning. */
static void look_at_tail(struct rota_group_fsm *fsm)
{
    fsm->replay = ROTA_GROUP_REPLAY_TAIL;
    fsm->has_begin = false;
    fsm->begin_at = 0;
    read_from(fsm, fsm->end - fsm->first > fsm->tail ? fsm->end - fsm->tail : fsm->first);
}

void rota_group_fsm_replay_open_log(struct rota_group_fsm *fsm, uint64_t first, uint64_t end)
{
    if (fsm->replay != ROTA_GROUP_REPLAY_CLOSED)
        return;
    fsm->first = first;
    fsm->end = end;
    if (end < fsm->fold.next) {
        rota_group_fsm_fail(fsm, ROTA_GROUP_LOG_SHRANK);
    } else if (fsm->fold.next > 0 && first <= fsm->fold.next) {
        fsm->replay = ROTA_GROUP_REPLAY_FOLD;
        read_from(fsm, fsm->fold.next);
    } else if (first == 0 && end == 0) {
        begin_afresh(fsm, 0);
    } else if (first >= end) {
        rota_group_fsm_fail(fsm, ROTA_GROUP_LOG_CUT);
    } else {
        fsm->tail = ROTA_GROUP_TAIL;
        fsm->begin_below = UINT64_MAX;
        fsm->n_begins = 0;
        look_at_tail(fsm);
    }
}

void rota_group_fsm_replay_lose_log(struct rota_group_fsm *fsm)
{
    clear_collected(fsm);
    fsm->replay = ROTA_GROUP_REPLAY_CLOSED;
    rota_group_fsm_drop(fsm, ROTA_GROUP_LOGLESS);
    if (fsm->state != ROTA_GROUP_AT_DONE)
        fsm->state = ROTA_GROUP_AT_START;
}

/* --- the tail --- */

/* A task may begin at the snapshot that other records name, and at what the last piece of a
 * newer one covers, which no record names yet. */
static void hear_tail(struct rota_group_fsm *fsm, uint64_t offset,
                      const struct rota_group_record *record)
{
    bool is_last = record->kind == ROTA_GROUP_SNAPSHOT && record->index + 1 == record->count;
    const uint64_t begins[] = {record->replay_from, is_last ? record->next : 0};
    for (int i = 0; i < 2; i++) {
        if (begins[i] > offset || begins[i] >= fsm->begin_below)
            continue;
        fsm->has_begin = true;
        if (begins[i] > fsm->begin_at)
            fsm->begin_at = begins[i];
    }
}

static void end_tail(struct rota_group_fsm *fsm)
{
    bool is_whole = fsm->end - fsm->first <= fsm->tail;
    bool is_found = fsm->has_begin && fsm->begin_at >= fsm->first;
    if (is_found && fsm->begin_at > 0) {
        fsm->replay = ROTA_GROUP_REPLAY_COLLECT;
        read_from(fsm, fsm->begin_at);
    } else if (!is_found && !is_whole) {
        fsm->tail = fsm->tail > UINT64_MAX / 16 ? UINT64_MAX : fsm->tail * 16;
        look_at_tail(fsm);
    } else if (fsm->first == 0) {
        begin_afresh(fsm, 0);
    } else {
        rota_group_fsm_fail(fsm, fsm->n_begins ? ROTA_GROUP_SNAPSHOT_BROKEN : ROTA_GROUP_LOG_CUT);
    }
}

/* There is no complete snapshot where one should be: an earlier one may do, or the log's
 * beginning. */
static void end_in_vain(struct rota_group_fsm *fsm)
{
    clear_collected(fsm);
    fsm->n_begins++;
    fsm->begin_below = fsm->begin_at;
    if (fsm->first == 0) {
        begin_afresh(fsm, 0);
    } else if (fsm->n_begins < ROTA_GROUP_BEGINS_MAX) {
        fsm->tail = ROTA_GROUP_TAIL;
        look_at_tail(fsm);
    } else {
        rota_group_fsm_fail(fsm, ROTA_GROUP_SNAPSHOT_BROKEN);
    }
}

/* --- the snapshot --- */

static bool is_next_piece(const struct rota_group_record *first,
                          const struct rota_group_record *record, size_t index)
{
    return record && record->kind == ROTA_GROUP_SNAPSHOT && record->index == index &&
           record->count == first->count && record->next == first->next &&
           record->epoch == first->epoch &&
           rota_group_member_is_equal(record->author, first->author);
}

/* The snapshot whose last piece came last, if it is complete. Gives `*pieces`. */
static size_t gather_pieces(struct rota_group_fsm *fsm, struct rota_group_record ***pieces)
{
    size_t n = fsm->collected.size, found;
    const struct rota_group_record *last = fsm->collected.items[n - 1].record;
    if (!last || last->kind != ROTA_GROUP_SNAPSHOT || last->next != fsm->begin_at ||
        last->index + 1 != last->count || last->count > n)
        return 0;
    found = last->count;
    *pieces = malloc(found * sizeof(struct rota_group_record *));
    if (!*pieces) {
        fsm->is_out_of_memory = true;
        return 0;
    }
    for (size_t i = n; i-- > 0 && found > 0;)
        if (is_next_piece(last, fsm->collected.items[i].record, found - 1))
            (*pieces)[--found] = fsm->collected.items[i].record;
    if (found == 0)
        return last->count;
    free(*pieces);
    return 0;
}

static void apply_record(struct rota_group_fsm *fsm, rota_time now,
                         const struct rota_group_collected *at);

/* All pieces are here: load them, and apply what was collected meanwhile. */
static void end_collect(struct rota_group_fsm *fsm, rota_time now,
                        struct rota_group_record **pieces, size_t n_pieces)
{
    rota_group_fold_deinit(&fsm->fold);
    rota_group_fold_init(&fsm->fold);
    enum rota_code code = rota_group_fold_load(&fsm->fold, pieces, n_pieces, NULL);
    free(pieces);
    if (code == ROTA_ERR_NO_MEMORY) {
        fsm->is_out_of_memory = true;
    } else if (code) {
        rota_group_fold_deinit(&fsm->fold);
        rota_group_fold_init(&fsm->fold);
        end_in_vain(fsm);
    } else {
        fsm->replay = ROTA_GROUP_REPLAY_FOLD;
        for (size_t i = 0; i < fsm->collected.size; i++)
            apply_record(fsm, now, &fsm->collected.items[i]);
        clear_collected(fsm);
    }
}

static void collect_piece(struct rota_group_fsm *fsm, rota_time now,
                          const struct rota_group_collected *at)
{
    struct rota_group_record **pieces = NULL;
    size_t n_pieces;
    size_t n = fsm->collected.size;
    if (at->offset < fsm->begin_at || (n > 0 && at->offset <= fsm->collected.items[n - 1].offset))
        return;
    if (n >= ROTA_GROUP_COLLECT_MAX) {
        end_in_vain(fsm);
        return;
    }
    if (!rota_vector_push(&fsm->collected, *at)) {
        fsm->is_out_of_memory = true;
        return;
    }
    rota_group_record_ref(at->record);
    n_pieces = gather_pieces(fsm, &pieces);
    if (n_pieces > 0)
        end_collect(fsm, now, pieces, n_pieces);
}

/* --- the fold --- */

/* Whether a leader has to write its epoch again: the one in force may be of an earlier round,
 * its own or that of a leader which does not know of this one. */
static void look_at_lead(struct rota_group_fsm *fsm, rota_time now)
{
    if (!fsm->is_leader)
        return;
    fsm->needs_epoch = !rota_group_fsm_is_in_force(fsm);
    if (fsm->needs_epoch && fsm->state == ROTA_GROUP_AT_WORKING) {
        fsm->state = ROTA_GROUP_AT_WAITING;
        fsm->waiting_since = now;
    }
}

static void hear_epoch(struct rota_group_fsm *fsm, rota_time now)
{
    bool was_listed = fsm->me != ROTA_GROUP_NOBODY;
    const struct rota_group_task *task =
        fsm->incarnation ? rota_group_fold_task(&fsm->fold, rota_group_self(fsm)) : NULL;
    rota_group_fsm_send_void(fsm);
    rota_group_fsm_send_end_snapshot(fsm);
    fsm->me = rota_group_fold_place(&fsm->fold, task);
    fsm->epoch_at = now;
    look_at_lead(fsm, now);
    if (!task) {
        if (was_listed)
            rota_group_fsm_drop(fsm, ROTA_GROUP_UNLISTED);
        return;
    }
    fsm->has_news = true;
    rota_group_fsm_do(fsm, ROTA_GROUP_TELL_EPOCH)->number = fsm->fold.epoch;
    rota_group_fsm_look_at_epoch(fsm, now);
    rota_group_fsm_run_look_at_touched(fsm);
}

static void apply_record(struct rota_group_fsm *fsm, rota_time now,
                         const struct rota_group_collected *at)
{
    struct rota_group_record *record = at->record;
    uint64_t offset = at->offset;
    enum rota_group_verdict verdict = ROTA_GROUP_ACCEPTED;
    if (offset < fsm->fold.next)
        return;
    if (!record) {
        rota_group_fold_skip(&fsm->fold, offset, at->size, at->why);
    } else if (rota_group_fold_apply(&fsm->fold, offset, record, &verdict)) {
        fsm->is_out_of_memory = true;
        return;
    }
    if (verdict == ROTA_GROUP_ACCEPTED)
        rota_group_fsm_send_tell_own(fsm, offset, record);
    if (record && record->kind == ROTA_GROUP_EPOCH && verdict == ROTA_GROUP_ACCEPTED)
        hear_epoch(fsm, now);
    else if (fsm->me != ROTA_GROUP_NOBODY)
        rota_group_fsm_run_look_at_touched(fsm);
    rota_group_fsm_send_settle(fsm, now, offset, record, verdict);
}

void rota_group_fsm_replay_hear_record(struct rota_group_fsm *fsm, rota_time now,
                                       const struct rota_group_event *event)
{
    const struct rota_group_collected at = {event->record, event->offset, event->size, event->why};
    switch (fsm->replay) {
    case ROTA_GROUP_REPLAY_CLOSED:
        break;
    case ROTA_GROUP_REPLAY_TAIL:
        if (at.record)
            hear_tail(fsm, at.offset, at.record);
        break;
    case ROTA_GROUP_REPLAY_COLLECT:
        collect_piece(fsm, now, &at);
        break;
    case ROTA_GROUP_REPLAY_FOLD:
        apply_record(fsm, now, &at);
        break;
    }
}

void rota_group_fsm_replay_hear_end(struct rota_group_fsm *fsm, rota_time sent_at)
{
    switch (fsm->replay) {
    case ROTA_GROUP_REPLAY_CLOSED:
        break;
    case ROTA_GROUP_REPLAY_TAIL:
        end_tail(fsm);
        break;
    case ROTA_GROUP_REPLAY_COLLECT:
        end_in_vain(fsm);
        break;
    case ROTA_GROUP_REPLAY_FOLD:
        if (sent_at > fsm->log_ok_at)
            fsm->log_ok_at = sent_at;
        if (fsm->state == ROTA_GROUP_AT_START)
            fsm->state = ROTA_GROUP_AT_READY;
        break;
    }
}
