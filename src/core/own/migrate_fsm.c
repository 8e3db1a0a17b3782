#include "core/own/migrate_fsm.h"

/* --- wishes --- */

static enum rota_code begin_migration(struct rota_migrate *migrate, enum rota_view_engine to,
                                      struct rota_error *error)
{
    if (migrate->phase == ROTA_VIEW_STABLE && migrate->engine != to) {
        migrate->phase = ROTA_VIEW_SHADOW;
        migrate->to = to;
    }
    if (migrate->to == to)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "migrate: a migration from %s to %s is in progress (%s); finish or "
                          "cancel it before you migrate to %s",
                          rota_view_engine_name(migrate->engine),
                          rota_view_engine_name(migrate->to), rota_view_phase_name(migrate->phase),
                          rota_view_engine_name(to));
}

static enum rota_code commit_migration(struct rota_migrate *migrate, enum rota_view_engine to,
                                       struct rota_error *error)
{
    if (migrate->to != to)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "migrate: no shadow of %s to commit; the engine is %s",
                              rota_view_engine_name(to), rota_view_engine_name(migrate->engine));
    if (migrate->phase != ROTA_VIEW_SHADOW)
        return ROTA_OK; /* it has been, already */
    if (rota_migrate_is_by_view(migrate->engine) && rota_migrate_is_by_view(to)) {
        migrate->engine = to;
        migrate->phase = ROTA_VIEW_STABLE;
    } else {
        migrate->phase = ROTA_VIEW_STOPPING;
    }
    return ROTA_OK;
}

static enum rota_code cancel_migration(struct rota_migrate *migrate, struct rota_error *error)
{
    switch (migrate->phase) {
    case ROTA_VIEW_STABLE:
        return ROTA_OK;
    case ROTA_VIEW_SHADOW:
        migrate->to = migrate->engine;
        migrate->phase = ROTA_VIEW_STABLE;
        return ROTA_OK;
    case ROTA_VIEW_STOPPING:
    case ROTA_VIEW_STARTING:
        break;
    }
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "migrate: the migration to %s is %s and cannot be cancelled; let it "
                          "finish, then migrate again",
                          rota_view_engine_name(migrate->to), rota_view_phase_name(migrate->phase));
}

enum rota_code rota_migrate_fsm_wish(struct rota_migrate *migrate, enum rota_migrate_wish wish,
                                     enum rota_view_engine to, struct rota_error *error)
{
    switch (wish) {
    case ROTA_MIGRATE_BEGIN:
        return begin_migration(migrate, to, error);
    case ROTA_MIGRATE_COMMIT:
        return commit_migration(migrate, to, error);
    case ROTA_MIGRATE_CANCEL:
        return cancel_migration(migrate, error);
    }
    return ROTA_ERR_INVALID;
}

/* --- going on --- */

void rota_migrate_fsm_acked(struct rota_migrate *migrate)
{
    switch (migrate->phase) {
    case ROTA_VIEW_STABLE:
    case ROTA_VIEW_SHADOW:
        return;
    case ROTA_VIEW_STOPPING:
        migrate->engine = migrate->to;
        migrate->phase = ROTA_VIEW_STARTING;
        return;
    case ROTA_VIEW_STARTING:
        migrate->phase = ROTA_VIEW_STABLE;
        return;
    }
}

bool rota_migrate_fsm_owns(const struct rota_migrate *migrate, enum rota_view_engine engine)
{
    return migrate->phase != ROTA_VIEW_STOPPING && migrate->engine == engine;
}

bool rota_migrate_fsm_is_break(const struct rota_migrate *migrate, const struct rota_migrate *next)
{
    return migrate->engine != next->engine ||
           (migrate->phase == ROTA_VIEW_STOPPING) != (next->phase == ROTA_VIEW_STOPPING);
}
