#include "core/own/group_fold.h"

#include "base/hash.h"
#include "core/own/group_fold_inside.h"

#include <rota/experimental/random.h>
#include <stdlib.h>

void rota_group_fold_init(struct rota_group_fold *fold)
{
    *fold = (struct rota_group_fold){
        .leader = ROTA_GROUP_NOBODY,
        .free_partition = ROTA_FOLD_NONE,
        .free_edge = ROTA_FOLD_NONE,
        .removed_first = ROTA_FOLD_NONE,
        .removed_last = ROTA_FOLD_NONE,
    };
    rota_map_init(&fold->members, 0);
}

void rota_group_fold_deinit(struct rota_group_fold *fold)
{
    for (size_t i = 0; i < fold->partitions.size; i++)
        if (fold->partitions.items[i].def) {
            rota_group_def_unref(fold->partitions.items[i].def);
            rota_group_blob_unref(fold->partitions.items[i].position);
        }
    for (size_t i = 0; i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial)
            free((char *)fold->tasks.items[i].member.task.data - sizeof(uint64_t));
    rota_vector_deinit(&fold->partitions);
    rota_vector_deinit(&fold->tasks);
    rota_vector_deinit(&fold->edges);
    rota_vector_deinit(&fold->touched);
    rota_vector_deinit(&fold->refusals);
    rota_map_deinit(&fold->members);
    free(fold->index);
    fold->index = NULL;
}

/* --- records --- */

/* Begin with the next offset. */
static void advance_offset(struct rota_group_fold *fold, uint64_t offset, size_t size)
{
    for (size_t i = 0; i < fold->touched.size; i++)
        fold->partitions.items[fold->touched.items[i]].is_touched = false;
    fold->touched.size = 0;
    fold->refusals.size = 0;
    fold->next = offset + 1;
    fold->n_records++;
    fold->n_bytes += size;
}

/* Rules 2 and 3. */
static enum rota_group_verdict check_author(const struct rota_group_fold *fold,
                                            const struct rota_group_record *record,
                                            uint32_t *author)
{
    if (record->epoch < fold->epoch)
        return ROTA_GROUP_OLD_EPOCH;
    if (record->epoch > fold->epoch)
        return ROTA_GROUP_EARLY_EPOCH;
    *author = rota_group_fold_table_find_task(fold, record->author);
    if (*author == ROTA_FOLD_NONE)
        return ROTA_GROUP_STRANGER;
    if (record->sequence <= fold->tasks.items[*author].sequence)
        return ROTA_GROUP_REPEATED;
    return ROTA_GROUP_ACCEPTED;
}

static enum rota_code apply_state(struct rota_group_fold *fold, uint64_t offset, uint32_t author,
                                  const struct rota_group_record *record)
{
    enum rota_code code = ROTA_OK;
    if (!rota_vector_reserve(&fold->refusals, record->n_changes + 1))
        return ROTA_ERR_NO_MEMORY;
    for (size_t i = 0; i < record->n_changes && !code; i++) {
        enum rota_group_refusal refusal =
            rota_group_fold_change(fold, offset, author, &record->changes[i], &code);
        fold->refusals.items[fold->refusals.size++] = (uint8_t)refusal;
        fold->counts.refusals[refusal]++;
    }
    fold->is_seeded = fold->is_seeded || (record->is_seed_end && author == fold->leader);
    fold->tasks.items[author].has_lag = true;
    fold->tasks.items[author].lag = offset > record->next ? offset - record->next : 0;
    return code ? code : fold->is_out_of_memory ? ROTA_ERR_NO_MEMORY : ROTA_OK;
}

static enum rota_code apply_member(struct rota_group_fold *fold, uint64_t offset,
                                   const struct rota_group_record *record,
                                   enum rota_group_verdict *verdict)
{
    uint32_t author = ROTA_FOLD_NONE;
    enum rota_code code = ROTA_OK;
    *verdict = check_author(fold, record, &author);
    if (*verdict != ROTA_GROUP_ACCEPTED)
        return ROTA_OK;
    if (record->kind == ROTA_GROUP_STATE)
        code = apply_state(fold, offset, author, record);
    else
        *verdict = rota_group_fold_snapshot_piece(fold, offset, author, record);
    if (*verdict == ROTA_GROUP_ACCEPTED)
        fold->tasks.items[author].sequence = record->sequence;
    return code;
}

enum rota_code rota_group_fold_apply(struct rota_group_fold *fold, uint64_t offset,
                                     const struct rota_group_record *record,
                                     enum rota_group_verdict *verdict)
{
    enum rota_code code;
    if (offset < fold->next) {
        *verdict = ROTA_GROUP_REPEATED;
        return ROTA_OK;
    }
    advance_offset(fold, offset, record->size);
    if (record->kind == ROTA_GROUP_EPOCH)
        code = rota_group_fold_epoch(fold, offset, record, verdict);
    else
        code = apply_member(fold, offset, record, verdict);
    if (!code)
        fold->counts.verdicts[*verdict]++;
    return code;
}

void rota_group_fold_skip(struct rota_group_fold *fold, uint64_t offset, size_t size,
                          enum rota_group_verdict why)
{
    if (offset < fold->next)
        return;
    advance_offset(fold, offset, size);
    fold->counts.verdicts[why]++;
}

/* --- questions --- */

const struct rota_group_partition *rota_group_fold_find(const struct rota_group_fold *fold,
                                                        struct rota_group_name name)
{
    uint32_t place = rota_group_fold_table_find(fold, name);
    return place == ROTA_FOLD_NONE ? NULL : &fold->partitions.items[place];
}

enum rota_group_life rota_group_fold_life(const struct rota_group_partition *partition)
{
    switch ((enum rota_fold_stage)partition->stage) {
    case ROTA_FOLD_NAMED:
        return ROTA_GROUP_NAMED;
    case ROTA_FOLD_FINISHED:
        return ROTA_GROUP_FINISHED;
    case ROTA_FOLD_REMOVED:
        return ROTA_GROUP_REMOVED;
    case ROTA_FOLD_ALIVE:
        break;
    }
    if (partition->n_parents_open > 0)
        return ROTA_GROUP_CREATED;
    return partition->owner == ROTA_GROUP_NOBODY ? ROTA_GROUP_READY : ROTA_GROUP_RUNNING;
}

const struct rota_group_task *rota_group_fold_task(const struct rota_group_fold *fold,
                                                   struct rota_group_member member)
{
    uint32_t place = rota_group_fold_table_find_task(fold, member);
    return place == ROTA_FOLD_NONE ? NULL : &fold->tasks.items[place];
}

const struct rota_group_partition *rota_group_fold_next_of(const struct rota_group_fold *fold,
                                                           const struct rota_group_task *task,
                                                           uint32_t *place)
{
    *place = *place == ROTA_GROUP_NOBODY ? task->first : fold->partitions.items[*place].next;
    return *place == ROTA_FOLD_NONE ? NULL : &fold->partitions.items[*place];
}

uint32_t rota_group_fold_least_loaded(const struct rota_group_fold *fold, uint32_t self,
                                      uint32_t not_this, const uint32_t *extra,
                                      struct rota_str name)
{
    uint32_t best = ROTA_GROUP_NOBODY, salt = rota_hash_farm32(name), best_hash = 0;
    uint64_t best_load = UINT64_MAX;
    for (uint32_t i = 0; i < fold->tasks.size; i++) {
        const struct rota_group_task *task = &fold->tasks.items[i];
        if (!task->serial || i == not_this)
            continue;
        uint64_t load = (uint64_t)task->load + (extra ? extra[i] : 0);
        uint32_t hash = rota_hash_finish32(task->hash ^ salt);
        bool is_better = load < best_load ||
                         (load == best_load && best != self &&
                          (i == self || rota_group_fold_table_is_before(
                                            task, hash, &fold->tasks.items[best], best_hash)));
        if (is_better) {
            best = i;
            best_load = load;
            best_hash = hash;
        }
    }
    return best;
}

bool rota_group_fold_watermark(struct rota_group_fold *fold, int64_t *mark)
{
    if (fold->n_unfinished == 0)
        return false;
    if (!fold->is_watermark_known) {
        fold->watermark = INT64_MAX;
        for (size_t i = 0; i < fold->partitions.size; i++) {
            const struct rota_group_partition *partition = &fold->partitions.items[i];
            if (partition->def && partition->stage == ROTA_FOLD_ALIVE &&
                partition->mark < fold->watermark)
                fold->watermark = partition->mark;
        }
        fold->is_watermark_known = true;
    }
    *mark = fold->watermark;
    return true;
}

/* --- comparison --- */

static uint64_t mix(uint64_t digest, uint64_t value)
{
    digest ^= value;
    return rota_random_mix(&digest);
}

static uint64_t mix_task(const struct rota_group_fold *fold, uint64_t digest, uint32_t place)
{
    if (place == ROTA_GROUP_NOBODY)
        return mix(digest, 1);
    const struct rota_group_task *task = &fold->tasks.items[place];
    return mix(mix(digest, task->member.incarnation), rota_group_hash(task->member.task));
}

static uint64_t digest_partition(const struct rota_group_fold *fold,
                                 const struct rota_group_partition *partition)
{
    uint64_t digest = mix(partition->stage, partition->def->name.hash);
    digest = mix(digest, (uint64_t)partition->mark);
    digest = mix(digest, rota_group_hash(rota_blob_str(partition->position)));
    digest = mix(digest, partition->token);
    digest = mix(digest, partition->n_children);
    digest = mix(digest, partition->n_parents_open);
    digest = mix_task(fold, digest, partition->owner);
    digest = mix_task(fold, digest, partition->target);
    return mix_task(fold, digest, rota_group_fold_table_find_serial(fold, partition->sharer));
}

uint64_t rota_group_fold_digest(const struct rota_group_fold *fold)
{
    uint64_t digest = mix(fold->epoch, fold->epoch_offset), sum = 0, order = 0;
    digest = mix(digest, fold->generation);
    digest = mix(digest, rota_group_hash(rota_str(fold->sync_epoch)));
    digest = mix(digest, fold->incarnation_floor);
    digest = mix(digest, fold->is_seeded);
    digest = mix_task(fold, digest, fold->leader);
    for (uint32_t i = 0; i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial)
            sum += mix_task(fold, fold->tasks.items[i].sequence, i);
    for (size_t i = 0; i < fold->partitions.size; i++)
        if (fold->partitions.items[i].def)
            sum += digest_partition(fold, &fold->partitions.items[i]);
    for (uint32_t i = fold->removed_first; i != ROTA_FOLD_NONE; i = fold->partitions.items[i].next)
        sum += mix(++order, fold->partitions.items[i].def->name.hash);
    return mix(digest, sum);
}

static bool is_partition_sound(const struct rota_group_fold *fold,
                               const struct rota_group_partition *partition)
{
    bool has_owner = partition->owner != ROTA_GROUP_NOBODY;
    bool has_target = partition->target != ROTA_GROUP_NOBODY;
    if ((has_owner &&
         (partition->owner >= fold->tasks.size || !fold->tasks.items[partition->owner].serial)) ||
        (has_target &&
         (partition->target >= fold->tasks.size || !fold->tasks.items[partition->target].serial)))
        return false;
    switch ((enum rota_fold_stage)partition->stage) {
    case ROTA_FOLD_ALIVE:
        return has_owner != has_target;
    case ROTA_FOLD_FINISHED:
        return has_owner && !has_target && partition->n_parents_open == 0;
    case ROTA_FOLD_NAMED:
    case ROTA_FOLD_REMOVED:
        break;
    }
    return !has_owner && !has_target;
}

bool rota_group_fold_is_sound(const struct rota_group_fold *fold)
{
    size_t n_unfinished = 0, n_held = 0, n_partitions = 0, n_named = 0, n_indexed = 0;
    for (size_t i = 0; i < fold->partitions.size; i++) {
        const struct rota_group_partition *partition = &fold->partitions.items[i];
        if (!partition->def)
            continue;
        if (!is_partition_sound(fold, partition) ||
            rota_group_fold_table_find(fold, partition->def->name) != i)
            return false;
        n_named++;
        n_unfinished += partition->stage == ROTA_FOLD_ALIVE;
        n_partitions +=
            partition->stage == ROTA_FOLD_ALIVE || partition->stage == ROTA_FOLD_FINISHED;
    }
    for (size_t i = 0; i < fold->tasks.size; i++) {
        const struct rota_group_task *task = &fold->tasks.items[i];
        uint32_t place = ROTA_GROUP_NOBODY, load = 0, n_owned = 0;
        const struct rota_group_partition *partition;
        while (task->serial && (partition = rota_group_fold_next_of(fold, task, &place))) {
            load += partition->stage == ROTA_FOLD_ALIVE;
            n_owned += partition->owner == i;
            n_held++;
        }
        if (load != task->load || n_owned != task->n_owned)
            return false;
    }
    for (size_t i = 0; i < fold->index_capacity; i++)
        n_indexed += fold->index[i] != 0;
    return n_unfinished == fold->n_unfinished && n_partitions == fold->n_partitions &&
           n_held == n_partitions && n_indexed == n_named && fold->index_size == n_named;
}

const char *rota_group_fold_verdict_name(enum rota_group_verdict verdict)
{
    static const char *const names[ROTA_GROUP_VERDICTS] = {
        "accepted",  "foreign",     "future",       "malformed",  "oversized",
        "old_epoch", "early_epoch", "broken_chain", "leaderless", "stranger",
        "repeated",  "not_leader",  "out_of_order"};
    return (unsigned)verdict < ROTA_GROUP_VERDICTS ? names[verdict] : "unknown";
}

const char *rota_group_fold_refusal_name(enum rota_group_refusal refusal)
{
    static const char *const names[ROTA_GROUP_REFUSALS] = {
        "fine",         "is_known",   "is_unknown",  "not_parent", "not_mine", "not_offered",
        "not_current",  "not_ready",  "is_finished", "backwards",  "unproven", "is_referred",
        "not_finished", "not_seeded", "no_target",   "is_full"};
    return (unsigned)refusal < ROTA_GROUP_REFUSALS ? names[refusal] : "unknown";
}

const char *rota_group_fold_life_name(enum rota_group_life life)
{
    static const char *const names[] = {"named",   "created",  "ready",
                                        "running", "finished", "removed"};
    return (unsigned)life < sizeof names / sizeof *names ? names[life] : "unknown";
}
