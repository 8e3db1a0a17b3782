/* group_fold: the state that the records of a log add up to.
 *
 * The log is the clock. Records are applied in the order of their offsets, and the same records
 * give the same state, bit for bit, in every task: no clock, no random number and no order but the
 * log's affects it. The rules, numbered as in docs/groups.md:
 *
 *  1 An EPOCH counts if its prev_epoch is the epoch in force, its number is one
 *    more, and its author is among its members.
 *  2 Any other record counts if its epoch is the one in force at its own offset and
 *    its author, name and incarnation, is a member of it.
 *  3 ... and if its sequence is above that of the author's last that counted.
 *  4 A partition has one owner at most. OWN and SHARE count for an unknown name and
 *    an author that has one of its parents, unfinished; or, without parents, for any
 *    member. TAKE counts for the one it is offered to. All others count for the
 *    owner, under the token in force; CLEAR and WITHDRAW for the task that offered it.
 *  5 The token of a partition is the offset of the record that gave it to its owner.
 *  6 FINISH needs a proof: a known child, or the statement that there is none.
 *  7 REMOVE requires that it and all that refer to it are finished, and that the group
 *    has all the partitions it begins with. The name is remembered, the last
 *    ROTA_GROUP_REMEMBERED_MAX of them.
 *  8 A partition may be read when all its parents are finished or removed. One that
 *    is neither known nor remembered counts as unfinished.
 *  9 An epoch removes tasks that are not among its members. What they had and what was
 *    offered to them is given to the least loaded, one by one in the order of the
 *    names; what is finished goes to the author of the epoch. What the others have
 *    stays, as do offers to them. The least loaded has the fewest unfinished
 *    partitions, those offered to it included; of equals a hash decides.
 * 10 Pieces of a snapshot count from the author of the epoch in force, in their
 *    order. With the last one, reading may begin at what it holds.
 *
 * A change that does not count is refused alone; the rest of the record is applied. The work is
 * bounded by what a record names, and for an epoch by what the removed tasks had, never by the
 * number of partitions.
 *
 * Invariants: an unfinished, known partition has one owner or is offered to one task, never
 * both; either is a member. */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "core/own/group.h"

enum rota_group_verdict {
    ROTA_GROUP_ACCEPTED,

    /* Rejected because it can't be read. */
    ROTA_GROUP_FOREIGN,   /* not a record of Rota */
    ROTA_GROUP_FUTURE,    /* of an unknown version */
    ROTA_GROUP_MALFORMED, /* a record of Rota, but malformed */
    ROTA_GROUP_OVERSIZED, /* beyond a bound */

    /* Well-formed, but it does not count (see the rules). */
    ROTA_GROUP_OLD_EPOCH,    /* its epoch is over */
    ROTA_GROUP_EARLY_EPOCH,  /* its epoch has not started */
    ROTA_GROUP_BROKEN_CHAIN, /* an epoch that does not follow the one in force */
    ROTA_GROUP_LEADERLESS,   /* an epoch without its author, or with too many members */
    ROTA_GROUP_STRANGER,     /* the author is not a member */
    ROTA_GROUP_REPEATED,     /* sequence: already seen, or overtaken by a later one */
    ROTA_GROUP_NOT_LEADER,   /* a snapshot that another task than the leader wrote */
    ROTA_GROUP_OUT_OF_ORDER, /* not the piece that comes next */
};

enum { ROTA_GROUP_VERDICTS = ROTA_GROUP_OUT_OF_ORDER + 1 };

/* Why a change was refused. */
enum rota_group_refusal {
    ROTA_GROUP_FINE,
    ROTA_GROUP_IS_KNOWN,     /* OWN, SHARE: a partition of that name exists or existed */
    ROTA_GROUP_IS_UNKNOWN,   /* no partition of that name exists */
    ROTA_GROUP_NOT_PARENT,   /* OWN, SHARE: the author has none of its parents */
    ROTA_GROUP_NOT_MINE,     /* another task owns it, or none does */
    ROTA_GROUP_NOT_OFFERED,  /* TAKE, WITHDRAW: no offer is open, or it is another task's */
    ROTA_GROUP_NOT_CURRENT,  /* under another token than the one in force */
    ROTA_GROUP_NOT_READY,    /* a parent of it is not finished */
    ROTA_GROUP_IS_FINISHED,  /* it can't be finished again, moved, or make progress */
    ROTA_GROUP_BACKWARDS,    /* a mark below the one that is committed */
    ROTA_GROUP_UNPROVEN,     /* FINISH without a child, and without `is_end` */
    ROTA_GROUP_IS_REFERRED,  /* REMOVE: what refers to it is not finished */
    ROTA_GROUP_NOT_FINISHED, /* REMOVE */
    ROTA_GROUP_NOT_SEEDED,   /* REMOVE: the group does not have its first partitions yet */
    ROTA_GROUP_NO_TARGET,    /* `target` is not a member */
    ROTA_GROUP_IS_FULL,      /* ROTA_GROUP_PARTITIONS_MAX */
};

enum { ROTA_GROUP_REFUSALS = ROTA_GROUP_IS_FULL + 1 };

enum rota_group_life {
    ROTA_GROUP_NAMED,   /* known as a parent only; not created yet */
    ROTA_GROUP_CREATED, /* waits for its parents */
    ROTA_GROUP_READY,   /* to be read, but still offered */
    ROTA_GROUP_RUNNING, /* its owner reads it */
    ROTA_GROUP_FINISHED,
    ROTA_GROUP_REMOVED, /* its name is remembered */
};

/* Read it, do not write it. Tasks are places in `fold->tasks`, or
 * ROTA_GROUP_NOBODY. */
struct rota_group_partition {
    struct rota_group_def *def;
    struct rota_blob *position;
    int64_t mark;
    uint64_t token; /* of the owner; kept while it is offered to another task */
    uint32_t owner;
    uint32_t target; /* the task to which an offer is open */
    uint32_t sharer; /* the `serial` of the task that made the last offer, until cleared; 0: none */
    uint32_t n_children;     /* known children that are not finished */
    uint32_t n_parents_open; /* parents that are not finished */
    uint32_t edges;          /* the rest is private to the fold */
    uint32_t previous, next;
    uint8_t stage;
    bool is_touched;
};

struct rota_group_task {
    struct rota_group_member member; /* the fold owns the text */
    uint64_t sequence;               /* of its last record that counted */
    bool has_lag;                    /* whether it wrote a state since we began to read */
    uint64_t lag;                    /* records before its last state that it had not read */
    uint32_t serial;                 /* never used again; 0: this place is free */
    uint32_t load;                   /* unfinished partitions, its own and offered to it */
    uint32_t n_owned;                /* with finished ones */
    uint32_t first;                  /* private to the fold */
    uint32_t hash;
    bool is_listed;
};

/* One (parent, child) pair, in a list from the parent. */
struct rota_group_edge {
    uint32_t child, next;
};

struct rota_group_fold_counts {
    uint64_t verdicts[ROTA_GROUP_VERDICTS];
    uint64_t refusals[ROTA_GROUP_REFUSALS];
    uint64_t n_granted_by_epochs;
    uint64_t n_forgotten; /* names no longer remembered */
};

struct rota_group_fold {
    uint64_t next;  /* the first offset that was not applied */
    uint64_t epoch; /* in force; 0: none yet */
    uint64_t epoch_offset, generation;
    char sync_epoch[ROTA_GROUP_SYNC_EPOCH_MAX + 1];
    uint32_t leader; /* the author of the epoch in force */
    uint64_t incarnation_floor;
    uint64_t replay_from;
    uint64_t replay_before; /* the previous value of `replay_from`, before the last snapshot; 0: not
                               known */
    bool is_seeded;
    size_t n_partitions; /* known and not removed */
    size_t n_named;      /* known as parents only */
    size_t n_unfinished;
    size_t n_tasks; /* members of the epoch in force */

    /* Since `replay_from`. */
    uint64_t n_records, n_bytes;
    struct rota_group_fold_counts counts; /* of this fold; not part of the state */

    /* Of the last record: partitions that changed in any way, each once, and the result of each
     * change of a STATE. */
    ROTA_VECTOR(uint32_t) touched;
    ROTA_VECTOR(uint8_t) refusals;

    ROTA_VECTOR(struct rota_group_partition) partitions; /* by place; a free one has no def */
    ROTA_VECTOR(struct rota_group_task) tasks;           /* by place */

    /* The rest is private to the fold. */
    ROTA_VECTOR(struct rota_group_edge) edges;
    uint32_t *index; /* by the hash of the name: 1 + place; 0: free */
    size_t index_capacity, index_size;
    struct rota_map members; /* by name and incarnation */
    uint32_t free_partition, free_edge;
    uint32_t removed_first, removed_last, n_removed;
    uint32_t serial;
    int64_t watermark;
    bool is_watermark_known, is_loading, is_out_of_memory;
    struct { /* the snapshot that is being read */
        uint64_t next;
        uint32_t index, count, serial;
    } coming;
};

void rota_group_fold_init(struct rota_group_fold *fold);
void rota_group_fold_deinit(struct rota_group_fold *fold);

/* Apply the record at `offset`. Offsets grow, perhaps with gaps; one below `fold->next` was
 * applied before and changes nothing (ROTA_GROUP_REPEATED). The only failure is
 * ROTA_ERR_NO_MEMORY, after which the fold is unusable. */
enum rota_code rota_group_fold_apply(struct rota_group_fold *fold, uint64_t offset,
                                     const struct rota_group_record *record,
                                     enum rota_group_verdict *verdict);

/* At `offset` there are `size` bytes that are not a record, for this reason. */
void rota_group_fold_skip(struct rota_group_fold *fold, uint64_t offset, size_t size,
                          enum rota_group_verdict why);

/* The state as a snapshot: gives an array of records, pieces in their order, each
 * without author, sequence, epoch and timestamp; free() ends the array,
 * rota_group_record_unref() each. */
enum rota_code rota_group_fold_save(const struct rota_group_fold *fold,
                                    struct rota_group_record ***pieces, size_t *n_pieces);

/* Begin from a snapshot in place of the log's beginning: the fold, fresh from init, is as it was
 * at the snapshot's `next`. ROTA_ERR_INVALID when the pieces are incomplete or contradict
 * themselves; the fold is then fit for deinit only. */
enum rota_code rota_group_fold_load(struct rota_group_fold *fold,
                                    struct rota_group_record *const *pieces, size_t n_pieces,
                                    struct rota_error *error);

/* --- questions; what is borrowed is valid until the next record --- */

/* NULL when the name is unknown; NAMED and REMOVED partitions are known. */
const struct rota_group_partition *rota_group_fold_find(const struct rota_group_fold *fold,
                                                        struct rota_group_name name);
enum rota_group_life rota_group_fold_life(const struct rota_group_partition *partition);

/* NULL when the task is not a member of the epoch in force. */
const struct rota_group_task *rota_group_fold_task(const struct rota_group_fold *fold,
                                                   struct rota_group_member member);
static inline uint32_t rota_group_fold_place(const struct rota_group_fold *fold,
                                             const struct rota_group_task *task)
{
    return task ? (uint32_t)(task - fold->tasks.items) : ROTA_GROUP_NOBODY;
}

/* All partitions that a task owns or that are offered to it: start with *place =
 * ROTA_GROUP_NOBODY; NULL ends it. */
const struct rota_group_partition *rota_group_fold_next_of(const struct rota_group_fold *fold,
                                                           const struct rota_group_task *task,
                                                           uint32_t *place);

/* The task that a new partition goes to: the least loaded; of equals `self`, else by a hash of
 * both names. `extra` adds to the loads, by place; NULL adds nothing. ROTA_GROUP_NOBODY when
 * there are no tasks but `not`. */
uint32_t rota_group_fold_least_loaded(const struct rota_group_fold *fold, uint32_t self,
                                      uint32_t not_this, const uint32_t *extra,
                                      struct rota_str name);

/* The lowest mark of all unfinished partitions; false when there are none. */
bool rota_group_fold_watermark(struct rota_group_fold *fold, int64_t *mark);

/* A digest of the state, the same in all folds that agree; visits every partition. */
uint64_t rota_group_fold_digest(const struct rota_group_fold *fold);

/* Whether the invariants hold; visits everything, for tests. */
bool rota_group_fold_is_sound(const struct rota_group_fold *fold);

/* "old_epoch", "not_mine", "running". Any thread. */
const char *rota_group_fold_verdict_name(enum rota_group_verdict verdict);
const char *rota_group_fold_refusal_name(enum rota_group_refusal refusal);
const char *rota_group_fold_life_name(enum rota_group_life life);
