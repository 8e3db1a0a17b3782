#include "core/own/group_fold_inside.h"

/* One change of one task, judged and carried out. */
struct change {
    struct rota_group_fold *fold;
    const struct rota_group_change *asked;
    uint64_t offset;
    uint32_t author;
    uint32_t place; /* of the partition; ROTA_FOLD_NONE: not known */
};

static struct rota_group_partition *partition_at(const struct change *change)
{
    return &change->fold->partitions.items[change->place];
}

static bool is_alive(const struct change *change)
{
    return change->place != ROTA_FOLD_NONE && (partition_at(change)->stage == ROTA_FOLD_ALIVE ||
                                               partition_at(change)->stage == ROTA_FOLD_FINISHED);
}

/* Whether the author reads one of the parents, and so may know of a child. */
static bool has_parent(const struct change *change)
{
    const struct rota_group_def *def = change->asked->def;
    for (uint32_t i = 0; i < def->n_parents; i++) {
        uint32_t place = rota_group_fold_table_find(change->fold, def->parents[i]);
        if (place == ROTA_FOLD_NONE)
            continue;
        const struct rota_group_partition *parent = &change->fold->partitions.items[place];
        if (parent->stage == ROTA_FOLD_ALIVE && parent->owner == change->author &&
            parent->n_parents_open == 0)
            return true;
    }
    return def->n_parents == 0;
}

static enum rota_group_refusal find_target(const struct change *change, uint32_t *target)
{
    *target = rota_group_fold_table_find_task(change->fold, change->asked->target);
    return *target == ROTA_FOLD_NONE ? ROTA_GROUP_NO_TARGET : ROTA_GROUP_FINE;
}

static enum rota_group_refusal create_partition(struct change *change, uint32_t owner,
                                                uint32_t target, enum rota_code *code)
{
    struct rota_group_fold *fold = change->fold;
    const struct rota_group_change *asked = change->asked;
    size_t n = 1 + (size_t)asked->def->n_parents;
    if (change->place != ROTA_FOLD_NONE && partition_at(change)->stage != ROTA_FOLD_NAMED)
        return ROTA_GROUP_IS_KNOWN;
    if (!has_parent(change))
        return ROTA_GROUP_NOT_PARENT;
    if (fold->n_partitions + fold->n_named + n > ROTA_GROUP_PARTITIONS_MAX)
        return ROTA_GROUP_IS_FULL;
    if (!rota_group_fold_table_reserve(fold, n)) {
        *code = ROTA_ERR_NO_MEMORY;
        return ROTA_GROUP_FINE;
    }
    if (change->place == ROTA_FOLD_NONE)
        change->place = rota_group_fold_table_add(fold, asked->def);
    partition_at(change)->mark = asked->has_position ? asked->mark : 0;
    partition_at(change)->position =
        asked->has_position ? rota_group_blob_ref(asked->position) : NULL;
    partition_at(change)->token = change->offset;
    if (target != ROTA_GROUP_NOBODY)
        partition_at(change)->sharer = fold->tasks.items[change->author].serial;
    rota_group_fold_table_make(fold, change->place, asked->def);
    rota_group_fold_table_give(fold, change->place, owner, target);
    rota_group_fold_table_link(fold, change->place);
    return ROTA_GROUP_FINE;
}

static enum rota_group_refusal share_partition(struct change *change, enum rota_code *code)
{
    uint32_t target;
    enum rota_group_refusal refusal = find_target(change, &target);
    return refusal ? refusal : create_partition(change, ROTA_GROUP_NOBODY, target, code);
}

static enum rota_group_refusal take_partition(const struct change *change)
{
    if (!is_alive(change))
        return ROTA_GROUP_IS_UNKNOWN;
    if (partition_at(change)->target != change->author)
        return ROTA_GROUP_NOT_OFFERED;
    partition_at(change)->token = change->offset;
    rota_group_fold_table_give(change->fold, change->place, change->author, ROTA_GROUP_NOBODY);
    return ROTA_GROUP_FINE;
}

/* Whether the author owns it, under the token it names. */
static enum rota_group_refusal check_mine(const struct change *change)
{
    if (!is_alive(change))
        return ROTA_GROUP_IS_UNKNOWN;
    if (partition_at(change)->owner != change->author)
        return ROTA_GROUP_NOT_MINE;
    return partition_at(change)->token == change->asked->token ? ROTA_GROUP_FINE
                                                               : ROTA_GROUP_NOT_CURRENT;
}

static enum rota_group_refusal check_unfinished(const struct change *change)
{
    enum rota_group_refusal refusal = check_mine(change);
    if (refusal)
        return refusal;
    if (partition_at(change)->stage == ROTA_FOLD_FINISHED)
        return ROTA_GROUP_IS_FINISHED;
    if (change->asked->has_position && change->asked->mark < partition_at(change)->mark)
        return ROTA_GROUP_BACKWARDS;
    return ROTA_GROUP_FINE;
}

static void set_position(const struct change *change)
{
    if (change->asked->has_position)
        rota_group_fold_table_set_position(change->fold, change->place, change->asked->mark,
                                           change->asked->position);
    rota_group_fold_table_touch(change->fold, change->place);
}

static enum rota_group_refusal record_progress(const struct change *change)
{
    enum rota_group_refusal refusal = check_unfinished(change);
    if (refusal)
        return refusal;
    if (partition_at(change)->n_parents_open > 0)
        return ROTA_GROUP_NOT_READY;
    set_position(change);
    return ROTA_GROUP_FINE;
}

static enum rota_group_refusal finish_partition(const struct change *change)
{
    enum rota_group_refusal refusal = check_unfinished(change);
    if (refusal)
        return refusal;
    if (partition_at(change)->n_parents_open > 0)
        return ROTA_GROUP_NOT_READY;
    if (partition_at(change)->n_children == 0 && !change->asked->is_end)
        return ROTA_GROUP_UNPROVEN;
    set_position(change);
    rota_group_fold_table_finish(change->fold, change->place);
    return ROTA_GROUP_FINE;
}

static enum rota_group_refusal remove_partition(const struct change *change)
{
    enum rota_group_refusal refusal = check_mine(change);
    if (refusal)
        return refusal;
    if (partition_at(change)->stage != ROTA_FOLD_FINISHED)
        return ROTA_GROUP_NOT_FINISHED;
    if (partition_at(change)->n_children > 0)
        return ROTA_GROUP_IS_REFERRED;
    if (!change->fold->is_seeded)
        return ROTA_GROUP_NOT_SEEDED;
    rota_group_fold_table_remove(change->fold, change->place);
    return ROTA_GROUP_FINE;
}

static bool is_sharer(const struct change *change)
{
    return partition_at(change)->sharer == change->fold->tasks.items[change->author].serial;
}

static enum rota_group_refusal clear_owner(const struct change *change)
{
    if (!is_alive(change))
        return ROTA_GROUP_IS_UNKNOWN;
    if (!is_sharer(change) || partition_at(change)->owner == ROTA_GROUP_NOBODY)
        return ROTA_GROUP_NOT_OFFERED;
    partition_at(change)->sharer = 0;
    rota_group_fold_table_touch(change->fold, change->place);
    return ROTA_GROUP_FINE;
}

static enum rota_group_refusal withdraw_share(const struct change *change)
{
    uint32_t target;
    if (!is_alive(change))
        return ROTA_GROUP_IS_UNKNOWN;
    if (!is_sharer(change) || partition_at(change)->target == ROTA_GROUP_NOBODY)
        return ROTA_GROUP_NOT_OFFERED;
    enum rota_group_refusal refusal = find_target(change, &target);
    if (!refusal)
        rota_group_fold_table_give(change->fold, change->place, ROTA_GROUP_NOBODY, target);
    return refusal;
}

static enum rota_group_refusal move_partition(const struct change *change)
{
    uint32_t target;
    enum rota_group_refusal refusal = check_unfinished(change);
    if (refusal || (refusal = find_target(change, &target)))
        return refusal;
    set_position(change);
    partition_at(change)->sharer = change->fold->tasks.items[change->author].serial;
    rota_group_fold_table_give(change->fold, change->place, ROTA_GROUP_NOBODY, target);
    return ROTA_GROUP_FINE;
}

enum rota_group_refusal rota_group_fold_change(struct rota_group_fold *fold, uint64_t offset,
                                               uint32_t author,
                                               const struct rota_group_change *asked,
                                               enum rota_code *code)
{
    struct change change = {
        .fold = fold,
        .asked = asked,
        .offset = offset,
        .author = author,
        .place = rota_group_fold_table_find(fold, asked->def->name),
    };
    switch (asked->type) {
    case ROTA_GROUP_OWN:
        return create_partition(&change, author, ROTA_GROUP_NOBODY, code);
    case ROTA_GROUP_SHARE:
        return share_partition(&change, code);
    case ROTA_GROUP_TAKE:
        return take_partition(&change);
    case ROTA_GROUP_PROGRESS:
        return record_progress(&change);
    case ROTA_GROUP_FINISH:
        return finish_partition(&change);
    case ROTA_GROUP_REMOVE:
        return remove_partition(&change);
    case ROTA_GROUP_CLEAR:
        return clear_owner(&change);
    case ROTA_GROUP_WITHDRAW:
        return withdraw_share(&change);
    case ROTA_GROUP_MOVE:
        return move_partition(&change);
    }
    return ROTA_GROUP_IS_UNKNOWN;
}
