#include "core/own/group_fsm_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* --- records --- */

/* The names of tasks that a record speaks of become its own. */
static bool own_names(struct rota_group_record *record)
{
    size_t size = 1;
    for (size_t i = 0; i < record->n_changes; i++)
        size += record->changes[i].target.task.size;
    for (size_t i = 0; i < record->n_tasks; i++)
        size += record->tasks[i].member.task.size;
    char *end = record->text = malloc(size);
    if (!end)
        return false;
    for (size_t i = 0; i < record->n_changes + record->n_tasks; i++) {
        struct rota_str *name = i < record->n_changes
                                    ? &record->changes[i].target.task
                                    : &record->tasks[i - record->n_changes].member.task;
        if (name->size > 0)
            memcpy(end, name->data, name->size);
        *name = rota_str_of(end, name->size);
        end += name->size;
    }
    return true;
}

static void sign_record(struct rota_group_fsm *fsm, struct rota_group_record *record)
{
    if (!record->name)
        record->name = rota_group_blob_ref(fsm->name);
    record->author = rota_group_self(fsm);
    record->sequence = ++fsm->sequence;
    record->replay_from = fsm->fold.replay_from;
    if (record->kind == ROTA_GROUP_EPOCH)
        return;
    record->epoch = fsm->fold.epoch;
    memcpy(record->sync_epoch, fsm->fold.sync_epoch, sizeof record->sync_epoch);
}

static void append_record(struct rota_group_fsm *fsm, struct rota_group_send *send)
{
    send->number = ++fsm->number;
    struct rota_group_action *action = rota_group_fsm_do(fsm, ROTA_GROUP_DO_APPEND);
    action->number = send->number;
    action->record = rota_group_record_ref(send->record);
}

/* Takes `record`. */
static void post_record(struct rota_group_fsm *fsm, struct rota_group_send *send,
                        struct rota_group_record *record)
{
    *send = (struct rota_group_send){.record = record, .retry_after = ROTA_GROUP_RETRY_FIRST};
    append_record(fsm, send);
}

/* Positions that are due are written with the rest. */
static void mark_progress(struct rota_group_fsm *fsm, rota_time now)
{
    if (now < fsm->progress_at && fsm->state != ROTA_GROUP_AT_LEAVING)
        return;
    for (size_t i = 0; i < fsm->progressed.size; i++) {
        struct rota_group_def *def = fsm->progressed.items[i];
        struct rota_group_run *run = rota_group_fsm_run_find(fsm, def->name.text);
        if (run)
            run->is_late = false;
        rota_group_fsm_draft_mark(fsm, def);
        rota_group_def_unref(def);
    }
    fsm->progressed.size = 0;
}

static void send_state(struct rota_group_fsm *fsm, rota_time now)
{
    struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_STATE);
    if (!record) {
        fsm->is_out_of_memory = true;
        return;
    }
    bool is_needed = rota_group_fsm_draft(fsm, now, record) || (fsm->has_news && !fsm->needs_epoch);
    if (!own_names(record))
        fsm->is_out_of_memory = true;
    if (!is_needed || fsm->is_out_of_memory) {
        rota_group_record_unref(record);
        return;
    }
    record->next = fsm->fold.next;
    fsm->has_news = fsm->has_news && fsm->needs_epoch;
    sign_record(fsm, record);
    post_record(fsm, &fsm->send, record);
}

static void label_sync_epoch(struct rota_group_fsm *fsm, char text[ROTA_GROUP_SYNC_EPOCH_MAX + 1])
{
    uint64_t a = rota_random_next(&fsm->random), b = rota_random_next(&fsm->random);
    snprintf(text, ROTA_GROUP_SYNC_EPOCH_MAX + 1, "%08x-%04x-4%03x-%04x-%012llx",
             (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
             (unsigned)(b >> 48 & 0x3fff) | 0x8000U, (unsigned long long)(b & 0xffffffffffff));
}

/* An epoch of our round may follow the one in force only if that one answers no later round: it
 * would remove tasks that joined since and rely on what they read. A lower generation shows that
 * it does not. A higher one shows nothing, because a group that has forgotten its members counts
 * from 1 again. Then the group has to confirm our round after we read that epoch. */
static bool may_send_epoch(const struct rota_group_fsm *fsm)
{
    return fsm->fold.generation <= fsm->generation || fsm->group_ok_at >= fsm->epoch_at;
}

static void send_epoch(struct rota_group_fsm *fsm)
{
    struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_EPOCH);
    if (record)
        record->tasks = malloc((fsm->n_members + 1) * sizeof *record->tasks);
    if (!record || !record->tasks) {
        rota_group_record_unref(record);
        fsm->is_out_of_memory = true;
        return;
    }
    memcpy(record->tasks, fsm->members, fsm->n_members * sizeof *record->tasks);
    record->n_tasks = fsm->n_members;
    record->prev_epoch = fsm->fold.epoch;
    record->epoch = fsm->fold.epoch + 1;
    record->generation = fsm->generation;
    record->next = fsm->fold.next;
    label_sync_epoch(fsm, record->sync_epoch);
    sign_record(fsm, record);
    if (!own_names(record)) {
        rota_group_record_unref(record);
        fsm->is_out_of_memory = true;
        return;
    }
    post_record(fsm, &fsm->epoch_send, record);
}

/* --- snapshots --- */

void rota_group_fsm_send_end_snapshot(struct rota_group_fsm *fsm)
{
    for (size_t i = fsm->snapshot_place; i < fsm->n_snapshot; i++)
        rota_group_record_unref(fsm->snapshot[i]);
    free(fsm->snapshot);
    fsm->snapshot = NULL;
    fsm->n_snapshot = fsm->snapshot_place = 0;
}

/* Often enough that a reader has little to read, seldom enough that it is not most
 * of the log. */
static bool is_snapshot_due(const struct rota_group_fsm *fsm)
{
    enum { RECORD_BYTES = 256 };
    uint64_t n = fsm->fold.n_partitions, records = fsm->options.snapshot_records,
             bytes = fsm->options.snapshot_bytes;
    return fsm->fold.n_records >= (records > n ? records : n) ||
           fsm->fold.n_bytes >= (bytes > n * RECORD_BYTES ? bytes : n * RECORD_BYTES);
}

static void send_piece(struct rota_group_fsm *fsm)
{
    bool may_send = fsm->state == ROTA_GROUP_AT_WORKING && fsm->fold.leader == fsm->me;
    if (!may_send || (!fsm->snapshot && !is_snapshot_due(fsm)))
        return;
    if (!fsm->snapshot &&
        rota_group_fold_save(&fsm->fold, &fsm->snapshot, &fsm->n_snapshot) != ROTA_OK) {
        fsm->is_out_of_memory = true;
        return;
    }
    struct rota_group_record *piece = fsm->snapshot[fsm->snapshot_place++];
    sign_record(fsm, piece);
    post_record(fsm, &fsm->send, piece);
    if (fsm->snapshot_place == fsm->n_snapshot)
        rota_group_fsm_send_end_snapshot(fsm);
}

/* --- fates --- */

static void retry_append(struct rota_group_fsm *fsm, struct rota_group_send *send, rota_time now)
{
    if (send->record && !send->number && !send->is_appended && now >= send->retry_at)
        append_record(fsm, send);
}

static bool has_something_to_say(const struct rota_group_fsm *fsm, rota_time now)
{
    bool may_share = fsm->state == ROTA_GROUP_AT_WORKING;
    bool is_seeding = !fsm->fold.is_seeded && fsm->fold.leader == fsm->me;
    rota_time after = fsm->options.withdraw_after;
    return fsm->dirty.size > 0 ||
           (fsm->has_news && !fsm->needs_epoch) || /* a leader's epoch is its word on a round */
           (may_share && now >= fsm->full_until && (is_seeding || fsm->roots.size > 0)) ||
           (may_share && after > 0 && fsm->offers.size > 0 &&
            now >= rota_time_add(fsm->offers.items[0].at, after));
}

void rota_group_fsm_send_pump(struct rota_group_fsm *fsm, rota_time now)
{
    if (fsm->is_out_of_memory) /* our state may be incomplete, and the step ends with FAIL */
        return;
    retry_append(fsm, &fsm->send, now);
    retry_append(fsm, &fsm->epoch_send, now);
    if (fsm->needs_epoch && !fsm->epoch_send.record && fsm->state == ROTA_GROUP_AT_WAITING &&
        may_send_epoch(fsm))
        send_epoch(fsm);
    if (fsm->send.record || !rota_group_may_run(fsm))
        return;
    mark_progress(fsm, now);
    if (has_something_to_say(fsm, now))
        send_state(fsm, now);
    if (!fsm->send.record)
        send_piece(fsm);
}

void rota_group_fsm_send_hear_append(struct rota_group_fsm *fsm, rota_time now,
                                     const struct rota_group_event *event)
{
    struct rota_group_send *send = event->number == fsm->send.number         ? &fsm->send
                                   : event->number == fsm->epoch_send.number ? &fsm->epoch_send
                                                                             : NULL;
    if (event->number == 0 || !send)
        return; /* of one whose outcome is known */
    send->number = 0;
    if (event->type == ROTA_GROUP_APPENDED && event->offset >= fsm->fold.next) {
        send->is_appended = true;
        send->offset = event->offset;
        return;
    }
    send->retry_at = rota_time_add(now, send->retry_after);
    send->retry_after = rota_time_min(2 * send->retry_after, ROTA_GROUP_RETRY_MAX);
}

static void clear_send(struct rota_group_send *send)
{
    rota_group_record_unref(send->record);
    *send = (struct rota_group_send){0};
}

static void clear_defs(struct rota_group_def **items, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        rota_group_def_unref(items[i]);
    *n = 0;
}

static void clean_run(struct rota_group_fsm *fsm, rota_time now, struct rota_group_def *def)
{
    struct rota_group_run *run = rota_group_fsm_run_find(fsm, def->name.text);
    const struct rota_group_partition *partition = rota_group_fold_find(&fsm->fold, def->name);
    if (!run || run->is_lost || !partition)
        return;
    rota_group_fsm_draft_clean_pending(fsm, run->children.items, &run->children.size);
    if (run->has_progress && partition->mark == run->mark &&
        rota_str_is_equal(rota_blob_str(partition->position), rota_blob_str(run->position)))
        run->has_progress = false;
    if (run->has_finish || (run->is_ended && run->is_moving))
        rota_group_fsm_draft_mark(fsm, def);
    else if (run->has_progress || run->children.size > 0)
        rota_group_fsm_run_mark_late(fsm, now, run);
}

/* Our record counted, but this change of it did not. */
static void hear_refusal(struct rota_group_fsm *fsm, rota_time now,
                         const struct rota_group_change *change, enum rota_group_refusal refusal)
{
    struct rota_group_run *run = rota_group_fsm_run_find(fsm, change->def->name.text);
    bool is_told = refusal == ROTA_GROUP_IS_FULL || refusal == ROTA_GROUP_BACKWARDS ||
                   refusal == ROTA_GROUP_UNPROVEN;
    if (run && (change->type == ROTA_GROUP_PROGRESS || change->type == ROTA_GROUP_FINISH ||
                change->type == ROTA_GROUP_MOVE)) {
        run->has_finish = false; /* the same would be refused again */
        if (refusal == ROTA_GROUP_BACKWARDS)
            run->has_progress = false;
    }
    if (refusal == ROTA_GROUP_IS_FULL)
        fsm->full_until = rota_time_add(now, fsm->options.progress_every);
    if (!is_told)
        return;
    struct rota_group_action *action = rota_group_fsm_do(fsm, ROTA_GROUP_TELL_REFUSED);
    action->def = rota_group_def_ref(change->def);
    action->refusal = refusal;
}

/* Offers of ours are watched if they may be withdrawn. */
static void note_offer(struct rota_group_fsm *fsm, rota_time now,
                       const struct rota_group_change *change)
{
    struct rota_group_offer offer = {change->def, now};
    bool is_offer = change->type == ROTA_GROUP_SHARE || change->type == ROTA_GROUP_MOVE;
    if (fsm->options.withdraw_after <= 0 || !is_offer)
        return;
    if (!rota_vector_push(&fsm->offers, offer)) {
        fsm->is_out_of_memory = true;
        return;
    }
    rota_group_def_ref(offer.def);
}

static void settle_state(struct rota_group_fsm *fsm, rota_time now,
                         const struct rota_group_record *record, bool is_counted)
{
    for (size_t i = 0; is_counted && i < record->n_changes; i++) {
        enum rota_group_refusal refusal = fsm->fold.refusals.items[i];
        if (refusal)
            hear_refusal(fsm, now, &record->changes[i], refusal);
        else
            note_offer(fsm, now, &record->changes[i]);
    }
    for (size_t i = 0; i < fsm->sent.size; i++) {
        if (is_counted)
            clean_run(fsm, now, fsm->sent.items[i]);
        else
            rota_group_fsm_draft_mark(fsm, fsm->sent.items[i]);
    }
    clear_defs(fsm->sent.items, &fsm->sent.size);
    rota_group_fsm_draft_clean_pending(fsm, fsm->roots.items, &fsm->roots.size);
    if (!is_counted && record->n_changes == 0)
        fsm->has_news = true;
}

/* The outcome of the record in flight is known, from `record`, which may be a copy of it. A piece
 * of a snapshot counts unless an epoch came before it, which ends the snapshot. */
static void settle_send(struct rota_group_fsm *fsm, rota_time now,
                        const struct rota_group_record *record, bool is_counted)
{
    if (fsm->send.record->kind == ROTA_GROUP_STATE)
        settle_state(fsm, now, record, is_counted);
    clear_send(&fsm->send);
}

/* Acknowledged, but not where it should be: the log has lost it. */
static void check_lost(struct rota_group_send *send, uint64_t offset)
{
    if (send->record && send->is_appended && offset >= send->offset)
        send->is_appended = false;
}

static bool is_own_record(const struct rota_group_fsm *fsm, const struct rota_group_record *record)
{
    return record && fsm->incarnation &&
           rota_group_member_is_equal(record->author, rota_group_self(fsm));
}

/* A record in flight when we lost the log or the group may still count. */
static bool is_former_record(const struct rota_group_fsm *fsm,
                             const struct rota_group_record *record)
{
    size_t n = fsm->n_former < ROTA_GROUP_FORMER_MAX ? fsm->n_former : ROTA_GROUP_FORMER_MAX;
    if (!record || record->kind != ROTA_GROUP_STATE ||
        !rota_str_is_equal(record->author.task, rota_blob_str(fsm->name)))
        return false;
    for (size_t i = 0; i < n; i++)
        if (record->author.incarnation == fsm->former[i])
            return true;
    return false;
}

void rota_group_fsm_send_tell_own(struct rota_group_fsm *fsm, uint64_t offset,
                                  struct rota_group_record *record)
{
    if (!is_own_record(fsm, record) && !is_former_record(fsm, record))
        return;
    struct rota_group_action *action = rota_group_fsm_do(fsm, ROTA_GROUP_TELL_COUNTED);
    action->record = rota_group_record_ref(record);
    action->offset = offset;
}

void rota_group_fsm_send_settle(struct rota_group_fsm *fsm, rota_time now, uint64_t offset,
                                struct rota_group_record *record, enum rota_group_verdict verdict)
{
    bool is_own = is_own_record(fsm, record);
    bool is_counted = verdict == ROTA_GROUP_ACCEPTED;
    if (is_own && record->kind == ROTA_GROUP_EPOCH) {
        if (fsm->epoch_send.record && fsm->epoch_send.record->sequence == record->sequence)
            clear_send(&fsm->epoch_send);
    } else if (is_own && fsm->send.record && fsm->send.record->sequence == record->sequence) {
        settle_send(fsm, now, record, is_counted);
    }
    check_lost(&fsm->send, offset);
    check_lost(&fsm->epoch_send, offset);
}

void rota_group_fsm_send_void(struct rota_group_fsm *fsm)
{
    if (fsm->epoch_send.record && fsm->epoch_send.record->epoch <= fsm->fold.epoch)
        clear_send(&fsm->epoch_send);
    if (fsm->send.record)
        settle_send(fsm, 0, fsm->send.record, false);
}

void rota_group_fsm_send_forget_epoch(struct rota_group_fsm *fsm)
{
    if (!fsm->epoch_send.number && !fsm->epoch_send.is_appended)
        clear_send(&fsm->epoch_send);
}

void rota_group_fsm_send_forget(struct rota_group_fsm *fsm)
{
    clear_send(&fsm->send);
    clear_send(&fsm->epoch_send);
    clear_defs(fsm->sent.items, &fsm->sent.size);
    clear_defs(fsm->dirty.items, &fsm->dirty.size);
    clear_defs(fsm->held.items, &fsm->held.size);
    clear_defs(fsm->progressed.items, &fsm->progressed.size);
    for (size_t i = 0; i < fsm->offers.size; i++)
        rota_group_def_unref(fsm->offers.items[i].def);
    fsm->offers.size = 0;
}
