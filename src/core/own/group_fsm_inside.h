/* What the files of group_fsm share. */
#pragma once

#include "core/own/group_fsm.h"

/* --- group_fsm.c --- */

/* An action to fill in; it is discarded when there is no memory. */
struct rota_group_action *rota_group_fsm_do(struct rota_group_fsm *fsm,
                                            enum rota_group_action_type type);

/* We no longer own anything: stop everything, leave, start over. */
void rota_group_fsm_drop(struct rota_group_fsm *fsm, enum rota_group_loss loss);
void rota_group_fsm_fail(struct rota_group_fsm *fsm, enum rota_group_failure failure);

/* In the epoch in force, and confirmed by the group. */
static inline bool rota_group_may_run(const struct rota_group_fsm *fsm)
{
    return fsm->me != ROTA_GROUP_NOBODY &&
           (fsm->state == ROTA_GROUP_AT_WAITING || fsm->state == ROTA_GROUP_AT_WORKING ||
            fsm->state == ROTA_GROUP_AT_LEAVING);
}

static inline struct rota_group_member rota_group_self(const struct rota_group_fsm *fsm)
{
    return (struct rota_group_member){rota_blob_str(fsm->name), fsm->incarnation};
}

/* WAITING becomes WORKING when the epoch in force answers the round. */
void rota_group_fsm_look_at_epoch(struct rota_group_fsm *fsm, rota_time now);

/* Whether the epoch in force is the one that our round asks for, as its leader. */
bool rota_group_fsm_is_in_force(const struct rota_group_fsm *fsm);

/* --- group_fsm_replay.c --- */

void rota_group_fsm_replay_open_log(struct rota_group_fsm *fsm, uint64_t first, uint64_t end);
void rota_group_fsm_replay_lose_log(struct rota_group_fsm *fsm);
void rota_group_fsm_replay_hear_record(struct rota_group_fsm *fsm, rota_time now,
                                       const struct rota_group_event *event);
void rota_group_fsm_replay_hear_end(struct rota_group_fsm *fsm, rota_time sent_at);

/* --- group_fsm_run.c --- */

struct rota_group_run *rota_group_fsm_run_find(const struct rota_group_fsm *fsm,
                                               struct rota_str name);

/* The run that an event refers to. */
static inline struct rota_group_run *rota_group_run_of(const struct rota_group_fsm *fsm,
                                                       const struct rota_group_event *event)
{
    struct rota_group_run *run = rota_group_fsm_run_find(fsm, event->partition);
    return run && (event->token == 0 || event->token == run->token) ? run : NULL;
}

/* Make what runs here agree with the fold: for one partition, for those of the last record, for
 * all that are ours. */
void rota_group_fsm_run_look(struct rota_group_fsm *fsm, uint32_t place);
void rota_group_fsm_run_look_at_touched(struct rota_group_fsm *fsm);
void rota_group_fsm_run_look_at_all(struct rota_group_fsm *fsm);

/* Stop everything; `is_lost`: it is no longer ours. */
void rota_group_fsm_run_stop_all(struct rota_group_fsm *fsm, bool is_lost);
void rota_group_fsm_run_free(struct rota_group_fsm *fsm, struct rota_group_run *run);
void rota_group_fsm_run_end(struct rota_group_fsm *fsm, struct rota_group_run *run);
void rota_group_fsm_run_hear_stopped(struct rota_group_fsm *fsm,
                                     const struct rota_group_event *event);
void rota_group_fsm_run_mark_late(struct rota_group_fsm *fsm, rota_time now,
                                  struct rota_group_run *run);
enum rota_code rota_group_fsm_run_hear_user(struct rota_group_fsm *fsm, rota_time now,
                                            const struct rota_group_event *event,
                                            struct rota_error *error);

/* If configured, hand a running partition to a task that has fewer, now and then. */
void rota_group_fsm_run_balance(struct rota_group_fsm *fsm, rota_time now);

/* --- group_fsm_draft.c --- */

/* Note that a partition may need a change in the next record. */
void rota_group_fsm_draft_mark(struct rota_group_fsm *fsm, struct rota_group_def *def);

/* Whether there is, or was, a partition of this name. */
bool rota_group_fsm_draft_is_known(const struct rota_group_fsm *fsm, struct rota_group_name name);

/* Drop reports that are in the log now. */
void rota_group_fsm_draft_clean_pending(struct rota_group_fsm *fsm,
                                        struct rota_group_pending *items, size_t *n);

/* Put everything that is to be written into a record, as much as fits; false when there is
 * nothing. The names of targets still belong to the fold. */
bool rota_group_fsm_draft(struct rota_group_fsm *fsm, rota_time now,
                          struct rota_group_record *record);

/* --- group_fsm_send.c --- */

/* Send what is pending. */
void rota_group_fsm_send_pump(struct rota_group_fsm *fsm, rota_time now);
void rota_group_fsm_send_hear_append(struct rota_group_fsm *fsm, rota_time now,
                                     const struct rota_group_event *event);

/* A record at `offset` counted: if it is ours, report that before its consequences. */
void rota_group_fsm_send_tell_own(struct rota_group_fsm *fsm, uint64_t offset,
                                  struct rota_group_record *record);

/* A record at `offset` was applied, perhaps ours, with this verdict. */
void rota_group_fsm_send_settle(struct rota_group_fsm *fsm, rota_time now, uint64_t offset,
                                struct rota_group_record *record, enum rota_group_verdict verdict);

/* Records in flight from an epoch that has ended no longer count. */
void rota_group_fsm_send_void(struct rota_group_fsm *fsm);
/* Drop an unsent epoch of an earlier round. */
void rota_group_fsm_send_forget_epoch(struct rota_group_fsm *fsm);
void rota_group_fsm_send_forget(struct rota_group_fsm *fsm);
void rota_group_fsm_send_end_snapshot(struct rota_group_fsm *fsm);

static inline void rota_group_pending_deinit(struct rota_group_pending *pending)
{
    rota_group_def_unref(pending->def);
    rota_group_blob_unref(pending->position);
}
