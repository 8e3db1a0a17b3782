/* migrate_fsm: how a space comes from one engine to another while it is used.
 *
 *     STABLE --begin--> SHADOW --commit--> STOPPING --all acked--> STARTING --all acked--> STABLE
 *              STABLE <--cancel-- SHADOW
 *
 * The phase is part of the space's view (core/own/view.h), so that all agree on it by
 * number, and nobody goes on in a phase that the others have left: each change is a new
 * view that the members hear of, carry out and ack.
 *
 *  - SHADOW: the old engine owns. Who would own by the new one is computed beside, and
 *    the differences are counted. It can be taken back as if nothing had been.
 *  - STOPPING: nobody owns anything. Each member stops all, and only then acks; one
 *    that has no row any more has stopped too. From here there is no way back: the way
 *    back is another migration.
 *  - STARTING: the new engine owns. It begins above every epoch of the old one, for the
 *    view's number is above all of them, and everything before it has stopped.
 *
 * Between ring and static there is nothing to wait for at once, since both follow from
 * views: a commit goes from SHADOW to STABLE, and a shard that stays with its owner is
 * not interrupted.
 *
 * Invariant: an engine owns only in views in which every other one owns nothing, and
 * that every member that was in a view before has acked or is gone. */
#pragma once

#include "core/own/view.h"

/* What an operator wants. */
enum rota_migrate_wish {
    ROTA_MIGRATE_BEGIN,  /* a shadow of `to` */
    ROTA_MIGRATE_COMMIT, /* it becomes the engine */
    ROTA_MIGRATE_CANCEL,
};

struct rota_migrate {
    enum rota_view_engine engine, to;
    enum rota_view_phase phase;
};

/* Carry out a wish. ROTA_ERR_INVALID, with a sentence, when it makes no sense in this
 * phase; a wish that is fulfilled already is fine and changes nothing. */
enum rota_code rota_migrate_wish(struct rota_migrate *migrate, enum rota_migrate_wish wish,
                                 enum rota_view_engine to, struct rota_error *error);

/* Every member that lives has acked the view with this state: go on, if there is
 * something to go on to. */
void rota_migrate_acked(struct rota_migrate *migrate);

/* Whether the engine owns in this phase. */
bool rota_migrate_owns(const struct rota_migrate *migrate, enum rota_view_engine engine);

/* Whether all shards get a new epoch when `next` follows: the base of its view is then
 * its own number. */
bool rota_migrate_is_break(const struct rota_migrate *migrate, const struct rota_migrate *next);

/* Whether the engine's owners follow from views. */
static inline bool rota_migrate_is_by_view(enum rota_view_engine engine)
{
    return engine == ROTA_VIEW_RING || engine == ROTA_VIEW_STATIC;
}
