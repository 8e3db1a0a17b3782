/* What the files of group_fold share: the tables, whose counts always agree. */
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

uint32_t rota_fold_find(const struct rota_group_fold *fold, struct rota_group_name name);

/* Make room for `n` more partitions and as many pairs, so that adding them can't
 * fail; false when there is no memory. */
bool rota_fold_reserve(struct rota_group_fold *fold, size_t n);

/* A new one, NAMED and nobody's, or ALIVE in place of a NAMED one; takes a share
 * of `def`. Reserved before. */
uint32_t rota_fold_add(struct rota_group_fold *fold, struct rota_group_def *def);
void rota_fold_make(struct rota_group_fold *fold, uint32_t place, struct rota_group_def *def);

/* Tie an ALIVE one to its parents. Reserved before, 1 + n_parents. */
void rota_fold_link(struct rota_group_fold *fold, uint32_t place);

/* ALIVE, all its parents finished: is finished itself. */
void rota_fold_finish(struct rota_group_fold *fold, uint32_t place);

/* FINISHED, or fresh from add: its name is remembered, the oldest one forgotten. */
void rota_fold_remove(struct rota_group_fold *fold, uint32_t place);

void rota_fold_touch(struct rota_group_fold *fold, uint32_t place);

/* Give it to `owner`, or nobody and offer it to `target`. */
void rota_fold_give(struct rota_group_fold *fold, uint32_t place, uint32_t owner, uint32_t target);

void rota_fold_set_position(struct rota_group_fold *fold, uint32_t place, int64_t mark,
                            struct rota_blob *position);

/* --- tasks --- */

/* ROTA_FOLD_NONE when it is no member, or when there is no memory. */
uint32_t rota_fold_find_task(const struct rota_group_fold *fold, struct rota_group_member member);
uint32_t rota_fold_add_task(struct rota_group_fold *fold, struct rota_group_member member);

/* It has nothing any more. */
void rota_fold_remove_task(struct rota_group_fold *fold, uint32_t place);

/* The member with this serial; ROTA_FOLD_NONE when it is gone. */
uint32_t rota_fold_find_serial(const struct rota_group_fold *fold, uint32_t serial);

/* Whether `a` is to be preferred at equal loads, by these hashes and then by what
 * they are, never by their places. */
bool rota_fold_is_before(const struct rota_group_task *a, uint32_t hash_a,
                         const struct rota_group_task *b, uint32_t hash_b);

/* --- records --- */

enum rota_group_refusal rota_fold_change(struct rota_group_fold *fold, uint64_t offset,
                                         uint32_t author, const struct rota_group_change *change,
                                         enum rota_code *code);
enum rota_code rota_fold_epoch(struct rota_group_fold *fold, uint64_t offset,
                               const struct rota_group_record *record,
                               enum rota_group_verdict *verdict);
enum rota_group_verdict rota_fold_piece(struct rota_group_fold *fold, uint64_t offset,
                                        uint32_t author, const struct rota_group_record *record);
