#include "core/own/group_fold_inside.h"

#include "base/hash.h"
#include "base/heap.h"

#include <stdlib.h>

/* The members, the least loaded first: a heap of places. */
struct members {
    struct rota_group_fold *fold;
    uint32_t *items;
    size_t size;
};

static uint32_t hash_of(const struct members *members, uint32_t task)
{
    return rota_hash_finish32(members->fold->tasks.items[task].hash ^
                              (uint32_t)members->fold->epoch);
}

static bool is_less(const struct members *members, uint32_t a, uint32_t b)
{
    const struct rota_group_task *tasks = members->fold->tasks.items;
    if (tasks[a].load != tasks[b].load)
        return tasks[a].load < tasks[b].load;
    return rota_group_fold_table_is_before(&tasks[a], hash_of(members, a), &tasks[b],
                                           hash_of(members, b));
}

#define PUT_MEMBER(members, index, task) ((members)->items[index] = (task))

static void sift_member(struct members *members, size_t i)
{
    uint32_t task = members->items[i];
    ROTA_HEAP_SIFT_DOWN(members, members->items, members->size, i, task, is_less, PUT_MEMBER);
}

static bool gather_members(struct rota_group_fold *fold, struct members *members)
{
    *members = (struct members){fold, calloc(fold->n_tasks + 1, sizeof(uint32_t)), 0};
    if (!members->items)
        return false;
    for (uint32_t i = 0; i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial && fold->tasks.items[i].is_listed)
            members->items[members->size++] = i;
    for (size_t i = members->size / 2; i-- > 0;)
        sift_member(members, i);
    return true;
}

/* What the removed tasks had. The names are compared one after the other, so they are stored
 * alongside. */
struct orphan {
    struct rota_str name;
    uint32_t place;
};

static int compare_orphans(const void *a, const void *b)
{
    return rota_str_compare(((const struct orphan *)a)->name, ((const struct orphan *)b)->name);
}

static bool gather_orphans(const struct rota_group_fold *fold, struct orphan **orphans, size_t *n)
{
    ROTA_VECTOR(struct orphan) found = {0};
    for (size_t i = 0; i < fold->tasks.size; i++) {
        const struct rota_group_task *task = &fold->tasks.items[i];
        if (!task->serial || task->is_listed)
            continue;
        for (uint32_t at = task->first; at != ROTA_FOLD_NONE;
             at = fold->partitions.items[at].next) {
            struct orphan orphan = {fold->partitions.items[at].def->name.text, at};
            if (!rota_vector_push(&found, orphan)) {
                rota_vector_deinit(&found);
                return false;
            }
        }
    }
    if (found.size > 1)
        qsort(found.items, found.size, sizeof *found.items, compare_orphans);
    *orphans = found.items;
    *n = found.size;
    return true;
}

/* Rule 9. */
static bool redistribute_orphans(struct rota_group_fold *fold, uint64_t offset)
{
    struct members members;
    struct orphan *orphans;
    size_t n;
    if (!gather_orphans(fold, &orphans, &n))
        return false;
    if (!gather_members(fold, &members)) {
        free(orphans);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct rota_group_partition *partition = &fold->partitions.items[orphans[i].place];
        bool is_finished = partition->stage == ROTA_FOLD_FINISHED;
        partition->token = offset;
        rota_group_fold_table_give(fold, orphans[i].place,
                                   is_finished ? fold->leader : members.items[0],
                                   ROTA_GROUP_NOBODY);
        fold->counts.n_granted_by_epochs += !is_finished;
        sift_member(&members, 0);
    }
    free(orphans);
    free(members.items);
    return true;
}

/* Mark the tasks that stay and add the new ones; false without memory. Duplicates count once. */
static bool list_members(struct rota_group_fold *fold, const struct rota_group_record *record)
{
    for (size_t i = 0; i < fold->tasks.size; i++)
        fold->tasks.items[i].is_listed = false;
    for (size_t i = 0; i < record->n_tasks; i++) {
        struct rota_group_member member = record->tasks[i].member;
        uint32_t place = rota_group_fold_table_find_task(fold, member);
        if (place == ROTA_FOLD_NONE &&
            (place = rota_group_fold_table_add_task(fold, member)) == ROTA_FOLD_NONE)
            return false;
        fold->tasks.items[place].is_listed = true;
        if (member.incarnation > fold->incarnation_floor)
            fold->incarnation_floor = member.incarnation;
    }
    return true;
}

static bool has_author(const struct rota_group_record *record)
{
    for (size_t i = 0; i < record->n_tasks; i++)
        if (rota_group_member_is_equal(record->tasks[i].member, record->author))
            return true;
    return false;
}

enum rota_code rota_group_fold_epoch(struct rota_group_fold *fold, uint64_t offset,
                                     const struct rota_group_record *record,
                                     enum rota_group_verdict *verdict)
{
    if (record->prev_epoch != fold->epoch || record->epoch != fold->epoch + 1) {
        *verdict = ROTA_GROUP_BROKEN_CHAIN;
        return ROTA_OK;
    }
    if (record->n_tasks > ROTA_GROUP_TASKS_MAX || !has_author(record)) {
        *verdict = ROTA_GROUP_LEADERLESS;
        return ROTA_OK;
    }
    if (!list_members(fold, record))
        return ROTA_ERR_NO_MEMORY;
    fold->epoch = record->epoch;
    fold->epoch_offset = offset;
    fold->generation = record->generation;
    memcpy(fold->sync_epoch, record->sync_epoch, sizeof fold->sync_epoch);
    fold->leader = rota_group_fold_table_find_task(fold, record->author);
    fold->coming.count = 0;
    struct rota_group_task *leader = &fold->tasks.items[fold->leader];
    if (record->sequence > leader->sequence)
        leader->sequence = record->sequence;
    if (!redistribute_orphans(fold, offset))
        return ROTA_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial && !fold->tasks.items[i].is_listed)
            rota_group_fold_table_remove_task(fold, i);
    *verdict = ROTA_GROUP_ACCEPTED;
    return ROTA_OK;
}
