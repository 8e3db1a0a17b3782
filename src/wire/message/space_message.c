#include "wire/message/space_message.h"

#include "wire/message/message_table.h"

#define F_STATE(n, member)                                                                         \
    F_WITH(n, UINT, member, .max = ROTA_SPACE_UNOWNED, .name_of = rota_space_message_state_name)

const char *rota_space_message_state_name(uint64_t state)
{
    static const char *const NAMES[] = {[ROTA_SPACE_OWNED] = "owned",
                                        [ROTA_SPACE_MOVING] = "moving",
                                        [ROTA_SPACE_UNOWNED] = "unowned"};
    return state <= ROTA_SPACE_UNOWNED ? NAMES[state] : NULL;
}

/* --- replies --- */

#define THIS struct rota_space_migration_info
static const struct rota_message_field MIGRATION[] = {
    F(1, STR, to),
    F(2, STR, phase),
    F(3, UINT, differences),
    F(4, BOOL, is_counted),
};
#undef THIS
static TYPE(ROTA_SPACE_MIGRATION, "migration", struct rota_space_migration_info, MIGRATION);

#define THIS struct rota_space_info
static const struct rota_message_field INFO[] = {
    F(1, STR, name),
    F(2, STR, engine),
    F_MAX(3, UINT, n_shards, ROTA_SPACE_SHARDS_MAX),
    F(4, UINT, version),
    F(5, UINT, n_owned),
    F(6, UINT, n_moving),
    F_OF(7, INNER, migration, ROTA_SPACE_MIGRATION),
    F(8, STR, trouble),
};
#undef THIS
TYPE(ROTA_SPACE_INFO, "space", struct rota_space_info, INFO);

#define THIS struct rota_space_list
static const struct rota_message_field LIST[] = {
    F_LIST(1, spaces, ROTA_SPACE_INFO, ROTA_SPACE_LIST_MAX),
};
#undef THIS
TYPE(ROTA_SPACE_LIST_REPLY, "reply", struct rota_space_list, LIST);

#define THIS struct rota_space_claim_info
static const struct rota_message_field CLAIM[] = {
    F_MAX(1, UINT, owner, UINT32_MAX),
    F(2, UINT, epoch),
    F_STATE(3, state),
    F(4, BOOL, is_pinned),
    F(5, UINT, held),
};
#undef THIS
static TYPE(ROTA_SPACE_CLAIM, "shard", struct rota_space_claim_info, CLAIM);

#define THIS struct rota_space_show
static const struct rota_message_field SHOW_REPLY[] = {
    F_OF(1, INNER, space, ROTA_SPACE_INFO),
    F_MAX(2, STRS, nodes, ROTA_SPACE_SHARDS_MAX),
    F_LIST(3, shards, ROTA_SPACE_CLAIM, ROTA_SPACE_SHARDS_MAX),
    F_MAX(4, STRS, node_names, ROTA_SPACE_SHARDS_MAX),
};
#undef THIS
TYPE(ROTA_SPACE_SHOW_REPLY, "reply", struct rota_space_show, SHOW_REPLY);

#define THIS struct rota_space_change
static const struct rota_message_field CHANGE[] = {
    F(1, UINT, at_ms), F(2, STR, owner), F(3, UINT, epoch), F(4, STR, what), F(5, STR, owner_name),
};
#undef THIS
static TYPE(ROTA_SPACE_CHANGE, "change", struct rota_space_change, CHANGE);

#define THIS struct rota_space_explanation
static const struct rota_message_field EXPLANATION[] = {
    F_MAX(1, UINT, shard, UINT32_MAX),
    F(2, STR, owner),
    F(3, UINT, epoch),
    F_STATE(4, state),
    F(5, STR, why),
    F_OF(6, INNERS, history, ROTA_SPACE_CHANGE),
    F(7, BOOL, is_pinned),
    F(8, STR, owner_name),
};
#undef THIS
TYPE(ROTA_SPACE_EXPLAIN_REPLY, "reply", struct rota_space_explanation, EXPLANATION);

#define THIS struct rota_space_plan
static const struct rota_message_field PLAN[] = {F(1, STRS, plan), F(2, BOOL, is_done)};
#undef THIS
TYPE(ROTA_SPACE_PLAN_REPLY, "reply", struct rota_space_plan, PLAN);

/* --- requests --- */

#define THIS struct rota_space_request
static const struct rota_message_field SHOW[] = {F(1, STR, space)};
static const struct rota_message_field EXPLAIN[] = {F(1, STR, space),
                                                    F_MAX(2, UINT, shard, UINT32_MAX)};
static const struct rota_message_field PIN[] = {F(1, STR, space), F_MAX(2, UINT, shard, UINT32_MAX),
                                                F(3, STR, node), F(4, BOOL, is_dry_run)};
static const struct rota_message_field MIGRATE[] = {F(1, STR, space), F(2, STR, engine),
                                                    F(3, BOOL, is_dry_run), F(4, UINT, shadow_ms)};
static const struct rota_message_field CREATE[] = {F(1, STR, space), F(2, STR, engine),
                                                   F_MAX(3, UINT, n_shards, UINT32_MAX),
                                                   F(4, STR, seats), F(5, BOOL, is_dry_run)};
static const struct rota_message_field DELETE[] = {F(1, STR, space), F(2, BOOL, is_dry_run)};
static const struct rota_message_field RESEAT[] = {F(1, STR, space), F(2, STR, seats),
                                                   F(3, BOOL, is_dry_run)};
static const struct rota_message_field PIN_BODY[] = {F(3, STR, node), F(4, BOOL, is_dry_run)};
static const struct rota_message_field MIGRATE_BODY[] = {F(2, STR, engine), F(3, BOOL, is_dry_run),
                                                         F(4, UINT, shadow_ms)};
#undef THIS
TYPE(ROTA_SPACE_SHOW, "request", struct rota_space_request, SHOW);
TYPE(ROTA_SPACE_EXPLAIN, "request", struct rota_space_request, EXPLAIN);
TYPE(ROTA_SPACE_PIN, "request", struct rota_space_request, PIN);
TYPE(ROTA_SPACE_MIGRATE, "request", struct rota_space_request, MIGRATE);
TYPE(ROTA_SPACE_CREATE, "request", struct rota_space_request, CREATE);
TYPE(ROTA_SPACE_DELETE, "request", struct rota_space_request, DELETE);
TYPE(ROTA_SPACE_RESEAT, "request", struct rota_space_request, RESEAT);
TYPE(ROTA_SPACE_PIN_BODY, "request", struct rota_space_request, PIN_BODY);
TYPE(ROTA_SPACE_MIGRATE_BODY, "request", struct rota_space_request, MIGRATE_BODY);
