/* What the files of group_fold share: the tables and their counts, which always agree. */
#pragma once

#include "core/own/group_fold.h"

#define ROTA_FOLD_NONE UINT32_MAX

enum rota_fold_stage {
    ROTA_FOLD_NAMED,
    ROTA_FOLD_ALIVE, /* made and not finished */
    ROTA_FOLD_FINISHED,
    ROTA_FOLD_REMOVED,
};

/* --- partitions --- */

uint32_t rota_group_fold_table_find(const struct rota_group_fold *fold,
                                    struct rota_group_name name);

/* Make room for `n` more partitions and as many pairs, so that adding them can't
 * fail; false when there is no memory. */
bool rota_group_fold_table_reserve(struct rota_group_fold *fold, size_t n);

/* A new partition, NAMED and without an owner, or ALIVE in place of a NAMED one; takes a
 * reference to `def`. Reserved before. */
uint32_t rota_group_fold_table_add(struct rota_group_fold *fold, struct rota_group_def *def);
void rota_group_fold_table_make(struct rota_group_fold *fold, uint32_t place,
                                struct rota_group_def *def);

/* Link an ALIVE partition to its parents. Reserved before, 1 + n_parents. */
void rota_group_fold_table_link(struct rota_group_fold *fold, uint32_t place);

/* Finish an ALIVE partition whose parents are all finished. */
void rota_group_fold_table_finish(struct rota_group_fold *fold, uint32_t place);

/* Remove one that is FINISHED, or fresh from add: its name is remembered, the oldest name
 * forgotten. */
void rota_group_fold_table_remove(struct rota_group_fold *fold, uint32_t place);

void rota_group_fold_table_touch(struct rota_group_fold *fold, uint32_t place);

/* Give it to `owner`, or to no task and offer it to `target`. */
void rota_group_fold_table_give(struct rota_group_fold *fold, uint32_t place, uint32_t owner,
                                uint32_t target);

void rota_group_fold_table_set_position(struct rota_group_fold *fold, uint32_t place, int64_t mark,
                                        struct rota_blob *position);

/* --- tasks --- */

/* ROTA_FOLD_NONE when the task is not a member, or when there is no memory. */
uint32_t rota_group_fold_table_find_task(const struct rota_group_fold *fold,
                                         struct rota_group_member member);
uint32_t rota_group_fold_table_add_task(struct rota_group_fold *fold,
                                        struct rota_group_member member);

/* The task no longer owns anything. */
void rota_group_fold_table_remove_task(struct rota_group_fold *fold, uint32_t place);

/* The member with this serial; ROTA_FOLD_NONE when it was removed. */
uint32_t rota_group_fold_table_find_serial(const struct rota_group_fold *fold, uint32_t serial);

/* Whether `a` is preferred at equal loads: by these hashes, then by name and incarnation, never
 * by place. */
bool rota_group_fold_table_is_before(const struct rota_group_task *a, uint32_t hash_a,
                                     const struct rota_group_task *b, uint32_t hash_b);

/* --- records --- */

enum rota_group_refusal rota_group_fold_change(struct rota_group_fold *fold, uint64_t offset,
                                               uint32_t author,
                                               const struct rota_group_change *change,
                                               enum rota_code *code);
enum rota_code rota_group_fold_epoch(struct rota_group_fold *fold, uint64_t offset,
                                     const struct rota_group_record *record,
                                     enum rota_group_verdict *verdict);
enum rota_group_verdict rota_group_fold_snapshot_piece(struct rota_group_fold *fold,
                                                       uint64_t offset, uint32_t author,
                                                       const struct rota_group_record *record);
