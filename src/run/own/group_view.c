/* What a group answers when it is asked. */
#include "io/clock.h"
#include "run/own/group_inside.h"

#include <rota/group.h>
#include <stdlib.h>

bool rota_group_is_current(const struct rota_group *group, struct rota_str partition,
                           uint64_t token)
{
    return !group->is_failed && token != 0 &&
           rota_group_fsm_is_current(&group->fsm, rota_clock_boot(), partition, token);
}

static struct rota_str task_name(const struct rota_group_fold *fold, uint32_t place)
{
    return place == ROTA_GROUP_NOBODY ? rota_str("") : fold->tasks.items[place].member.task;
}

static bool is_there(const struct rota_group_partition *partition)
{
    enum rota_group_life life = ROTA_GROUP_REMOVED;
    if (partition->def)
        life = rota_group_fold_life(partition);
    return life != ROTA_GROUP_NAMED && life != ROTA_GROUP_REMOVED;
}

void rota_group_status(const struct rota_group *group, struct rota_group_status *status)
{
    const struct rota_group_fold *fold = &group->fsm.fold;
    *status = (struct rota_group_status){
        .state = rota_group_fsm_state_name(group->fsm.state),
        .incarnation = group->incarnation,
        .epoch = fold->epoch,
        .generation = fold->generation,
        .sync_epoch = fold->sync_epoch,
        .leader = fold->epoch ? task_name(fold, fold->leader) : rota_str(""),
        .first = group->fsm.first,
        .next = fold->next,
        .end = group->end,
        .n_tasks = fold->n_tasks,
        .n_partitions = fold->n_partitions,
        .n_unfinished = fold->n_unfinished,
        .n_running = rota_group_fsm_running(&group->fsm),
        .has_watermark = group->has_watermark,
        .watermark = group->watermark,
        .log = rota_sync_name(group->sync),
        .trouble = rota_sync_trouble(group->sync),
    };
    for (size_t i = 0; i < fold->partitions.size; i++)
        status->n_offers += is_there(&fold->partitions.items[i]) &&
                            fold->partitions.items[i].target != ROTA_GROUP_NOBODY;
    for (int why = ROTA_GROUP_FOREIGN; why <= ROTA_GROUP_OVERSIZED; why++)
        status->n_skipped += fold->counts.verdicts[why];
}

/* The unfinished partitions of each task, by its place; NULL without memory. */
static uint32_t *count_unfinished(const struct rota_group_fold *fold)
{
    uint32_t *counts = calloc(fold->tasks.size + 1, sizeof *counts);
    for (size_t i = 0; counts && i < fold->partitions.size; i++) {
        const struct rota_group_partition *partition = &fold->partitions.items[i];
        if (is_there(partition) && partition->owner < fold->tasks.size &&
            rota_group_fold_life(partition) != ROTA_GROUP_FINISHED)
            counts[partition->owner]++;
    }
    return counts;
}

void rota_group_each_task(const struct rota_group *group,
                          bool (*each)(void *data, const struct rota_group_task_status *task),
                          void *data)
{
    const struct rota_group_fold *fold = &group->fsm.fold;
    uint32_t *counts = count_unfinished(fold);
    for (uint32_t i = 0; i < fold->tasks.size; i++) {
        const struct rota_group_task *task = &fold->tasks.items[i];
        const struct rota_group_task_status status = {
            .task = task->member.task,
            .incarnation = task->member.incarnation,
            .is_leader = fold->leader == i,
            .has_lag = task->has_lag,
            .lag = task->lag,
            .load = task->load,
            .owned = counts ? counts[i] : 0,
        };
        if (task->serial && !each(data, &status))
            break;
    }
    free(counts);
}

/* The task that made an offer that is not cleared, if it is still a member. */
static struct rota_str sharer_name(const struct rota_group_fold *fold, uint32_t serial)
{
    for (size_t i = 0; serial && i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial == serial)
            return fold->tasks.items[i].member.task;
    return rota_str("");
}

static struct rota_group_partition_status status_of(const struct rota_group_fold *fold,
                                                    const struct rota_group_partition *partition,
                                                    struct rota_str parents[ROTA_GROUP_PARENTS_MAX])
{
    const struct rota_group_def *def = partition->def;
    for (uint32_t i = 0; i < def->n_parents; i++)
        parents[i] = def->parents[i].text;
    return (struct rota_group_partition_status){
        .partition = def->name.text,
        .life = rota_group_fold_life_name(rota_group_fold_life(partition)),
        .owner = task_name(fold, partition->owner),
        .target = task_name(fold, partition->target),
        .sharer = sharer_name(fold, partition->sharer),
        .token = partition->token,
        .mark = partition->mark,
        .position = rota_blob_str(partition->position),
        .parents = parents,
        .n_parents = def->n_parents,
    };
}

void rota_group_each_partition(const struct rota_group *group,
                               bool (*each)(void *data,
                                            const struct rota_group_partition_status *partition),
                               void *data)
{
    const struct rota_group_fold *fold = &group->fsm.fold;
    struct rota_str parents[ROTA_GROUP_PARENTS_MAX];
    for (size_t i = 0; i < fold->partitions.size; i++) {
        const struct rota_group_partition *partition = &fold->partitions.items[i];
        if (!is_there(partition))
            continue;
        const struct rota_group_partition_status status = status_of(fold, partition, parents);
        if (!each(data, &status))
            return;
    }
}

void rota_group_view_tell_touched(struct rota_group *group, rota_time at)
{
    const struct rota_group_fold *fold = &group->fsm.fold;
    struct rota_str parents[ROTA_GROUP_PARENTS_MAX];
    for (size_t i = 0; i < fold->touched.size && !group->is_closing; i++) {
        const struct rota_group_partition *partition =
            &fold->partitions.items[fold->touched.items[i]];
        if (!partition->def || rota_group_fold_life(partition) == ROTA_GROUP_NAMED)
            continue;
        const struct rota_group_partition_status status = status_of(fold, partition, parents);
        group->options.on_partition(group->options.data, &status, at);
    }
}

char *rota_group_explain(const struct rota_group *group, struct rota_str partition, char *text,
                         size_t size)
{
    return rota_group_fsm_explain(&group->fsm, partition, text, size);
}
