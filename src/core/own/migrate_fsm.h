/* migrate_fsm: how a space moves from one assignment engine to another while in use.
 *
 *     STABLE --begin--> SHADOW --commit--> STOPPING --all acked--> STARTING --all acked--> STABLE
 *              STABLE <--cancel-- SHADOW
 *
 * The phase is part of the space's view (core/own/view.h), so that all nodes agree on it by number,
 * and no member stays in a phase that the others have left: each change is a new view that the
 * members receive, carry out and acknowledge (ack).
 *
 *  - SHADOW: the old engine owns. The new one's owners are computed alongside, and
 *    the differences are counted. It can be cancelled without any effect.
 *  - STOPPING: no member owns anything. Each stops everything, and only then acks; one
 *    whose row is gone has stopped too. From here a migration can't be cancelled; to
 *    go back, migrate again.
 *  - STARTING: the new engine owns. It begins above every epoch of the old one, for the
 *    view's number is above all of them, and everything before it has stopped.
 *
 * Between ring and static all members need not stop at once, since both follow from views: a commit
 * goes from SHADOW to STABLE, and a shard that stays with its owner is not interrupted.
 *
 * Invariant: an engine owns only in views in which every other one owns nothing, and that every
 * member that was in a view before has acked or is gone. */
#pragma once

#include "core/own/view.h"

/* What an operator asks for. */
enum rota_migrate_wish {
    ROTA_MIGRATE_BEGIN,  /* a shadow of `to` */
    ROTA_MIGRATE_COMMIT, /* it becomes the engine */
    ROTA_MIGRATE_CANCEL,
};

struct rota_migrate {
    enum rota_view_engine engine, to;
    enum rota_view_phase phase;
};

/* Carry out a wish. ROTA_ERR_INVALID, with a sentence, when it is not possible in this phase; a
 * wish that is already fulfilled succeeds and changes nothing. */
enum rota_code rota_migrate_fsm_wish(struct rota_migrate *migrate, enum rota_migrate_wish wish,
                                     enum rota_view_engine to, struct rota_error *error);

/* Every live member has acked the view with this state: enter the next phase, if there is one. */
void rota_migrate_fsm_acked(struct rota_migrate *migrate);

/* Whether the engine owns in this phase. */
bool rota_migrate_fsm_owns(const struct rota_migrate *migrate, enum rota_view_engine engine);

/* Whether all shards get a new epoch when `next` follows: the base of its view is then
 * its own number. */
bool rota_migrate_fsm_is_break(const struct rota_migrate *migrate, const struct rota_migrate *next);

/* Whether the engine's owners follow from views. */
static inline bool rota_migrate_is_by_view(enum rota_view_engine engine)
{
    return engine == ROTA_VIEW_RING || engine == ROTA_VIEW_STATIC;
}
