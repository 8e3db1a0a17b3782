/* What the files of view_fsm share. */
#pragma once

#include "core/own/migrate_fsm.h"
#include "core/own/view_fsm.h"

/* --- view_fsm.c: actions --- */

/* Stop holding the shard. All stops of one step have the same reason. */
void rota_view_fsm_stop(struct rota_view_fsm *fsm, uint32_t shard, enum rota_view_why why);
void rota_view_fsm_stop_all(struct rota_view_fsm *fsm, enum rota_view_why why);
void rota_view_fsm_start(struct rota_view_fsm *fsm, uint32_t shard);
void rota_view_fsm_tell_outcome(struct rota_view_fsm *fsm, uint64_t id, enum rota_code code,
                                uint64_t number);

/* Returns the number of the ask. */
uint64_t rota_view_fsm_ask(struct rota_view_fsm *fsm, struct rota_view_ask made);

/* Our row has to be updated. */
void rota_view_fsm_renew_row(struct rota_view_fsm *fsm, rota_time now);

/* Read the store by then. */
void rota_view_fsm_look_at(struct rota_view_fsm *fsm, rota_time at);

/* Durations are never exact, so that nodes started together do not ask together: three quarters
 * of `most` or more; and how long to wait after an unknown outcome, or while something is in
 * flight. */
rota_time rota_view_fsm_some_of(struct rota_view_fsm *fsm, rota_time most);
rota_time rota_view_fsm_pause(struct rota_view_fsm *fsm);

static inline struct rota_migrate rota_view_fsm_migrate(const struct rota_view *view)
{
    return (struct rota_migrate){.engine = view->engine, .to = view->to, .phase = view->phase};
}

/* --- view_fsm_apply.c: following a view --- */

/* Follow a later view, or an earlier one after rota_view_fsm_apply_forget(); takes its contents.
 * What we have lost is stopped. Without memory everything is stopped, and no view is known. */
void rota_view_fsm_apply(struct rota_view_fsm *fsm, struct rota_view *view);

/* Forget the view; what it gave us must have been stopped. */
void rota_view_fsm_apply_forget(struct rota_view_fsm *fsm);

/* We have joined, or are out: find ourselves among the view's members. */
void rota_view_fsm_apply_find_me(struct rota_view_fsm *fsm);

/* The rows are new: find the owners that have stopped what they lost. */
void rota_view_fsm_apply_resolve(struct rota_view_fsm *fsm);

/* --- view_fsm_sight.c: the result of a read --- */

void rota_view_fsm_sight_hear(struct rota_view_fsm *fsm, rota_time now,
                              const struct rota_view_event *event);

/* --- view_fsm_draft.c: the view that should follow --- */

/* Make `fsm->proposal` from the view, the rows and the wishes; its number is 0 when nothing has
 * to change. Wishes that need no view get their outcome. */
void rota_view_fsm_draft(struct rota_view_fsm *fsm);

/* Whether every row has acked the view with this number. */
bool rota_view_fsm_draft_is_acked(const struct rota_view_fsm *fsm, uint64_t number);

/* The row of this name, or NULL. */
const struct rota_view_row *rota_view_fsm_draft_row(const struct rota_view_fsm *fsm,
                                                    struct rota_str name);
