/* group: the vocabulary of a task group (like a Kafka consumer group): partitions, tasks, and the
 * log records by which the tasks agree which of them owns which partition.
 *
 * A record is one of three kinds. An *epoch* says who the members are; a *state* says what one task
 * did to its partitions, change by change; a *snapshot* is a piece of the whole state, so that no
 * task has to read the log from its beginning. wire/record/group_record.h defines their JSON,
 * core/own/group_fold.h their meaning.
 *
 * A record is immutable and reference-counted, as are the parts of it that outlive it (a
 * partition's definition, its position): a thousand folds of the same log hold one copy. All of
 * it belongs to one thread. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_GROUP_TASK_NAME_MAX = 128,     /* printable ASCII, no blank, no '"', no '\' */
    ROTA_GROUP_NAME_MAX = 512,          /* bytes of a partition's name, UTF-8 */
    ROTA_GROUP_PARENTS_MAX = 16,        /* of one partition */
    ROTA_GROUP_POSITION_MAX = 4096,     /* bytes, any */
    ROTA_GROUP_EXTRA_MAX = 4096,        /* bytes of unknown fields, of one object */
    ROTA_GROUP_TASKS_MAX = 2048,        /* of one epoch */
    ROTA_GROUP_PARTITIONS_MAX = 262144, /* that are not removed */
    ROTA_GROUP_REMEMBERED_MAX = 16384,  /* removed partitions whose names are remembered */
    ROTA_GROUP_RECORD_MAX = 1 << 20,    /* bytes of any record */
    ROTA_GROUP_CHUNK_MAX = 240 << 10,   /* bytes of a snapshot's piece, of a batch of changes */
    ROTA_GROUP_CHUNKS_MAX = 65536,      /* of one snapshot */
    ROTA_GROUP_SYNC_EPOCH_MAX = 64,     /* bytes of an epoch's label */
};

#define ROTA_GROUP_NUMBER_MAX                                                                      \
    ((uint64_t)1 << 53) /* of any number in a record: JSON's exact integers \ */

/* --- reference-counted parts --- */

struct rota_blob {
    uint32_t n_refs, size;
    char data[];
};

/* NULL when there is no memory. `ref` adds a reference and returns its argument; `unref` drops
 * one. Both accept NULL. */
struct rota_blob *rota_group_blob_new(struct rota_str bytes);
struct rota_blob *rota_group_blob_ref(struct rota_blob *blob);
void rota_group_blob_unref(struct rota_blob *blob);

static inline struct rota_str rota_blob_str(const struct rota_blob *blob)
{
    return blob ? rota_str_of(blob->data, blob->size) : rota_str("");
}

struct rota_group_name {
    struct rota_str text;
    uint64_t hash; /* rota_group_hash() of it */
};

/* A partition's definition, for as long as the partition is known: its name and its parents. A
 * change to an existing partition needs the name alone. */
struct rota_group_def {
    uint32_t n_refs, n_parents;
    struct rota_group_name name;
    struct rota_str extra; /* unknown fields: "key":value,"key":value */
    struct rota_group_name parents[];
};

/* Everything is copied; NULL when there is no memory. */
struct rota_group_def *rota_group_def_new(struct rota_str name, const struct rota_str *parents,
                                          size_t n_parents, struct rota_str extra);
struct rota_group_def *rota_group_def_ref(struct rota_group_def *def);
void rota_group_def_unref(struct rota_group_def *def);

uint64_t rota_group_hash(struct rota_str name);

/* --- records --- */

/* A task is its name and the number of its incarnation. A restart is another task, so that late
 * messages from the previous incarnation are not mistaken for ours. */
struct rota_group_member {
    struct rota_str task;
    uint64_t incarnation; /* 1 or more */
};

enum rota_group_change_type {
    ROTA_GROUP_OWN,      /* a new partition, owned by the author */
    ROTA_GROUP_SHARE,    /* a new partition, offered to `target` */
    ROTA_GROUP_TAKE,     /* accepts what was offered to the author */
    ROTA_GROUP_PROGRESS, /* a position is committed */
    ROTA_GROUP_FINISH,   /* read to its end, all of it committed */
    ROTA_GROUP_REMOVE,   /* finished, and so are all that refer to it */
    ROTA_GROUP_CLEAR,    /* the offer by the author has been taken */
    ROTA_GROUP_WITHDRAW, /* the author's offer that no task took goes to `target` */
    ROTA_GROUP_MOVE,     /* a partition the author owned, and has stopped reading, is offered to
                            `target` */
};

enum { ROTA_GROUP_CHANGES = ROTA_GROUP_MOVE + 1 };

/* In a record, changes to partitions that the task owns come first, then those to its offers. */
static inline bool rota_group_is_share(enum rota_group_change_type type)
{
    return type == ROTA_GROUP_SHARE || type == ROTA_GROUP_CLEAR || type == ROTA_GROUP_WITHDRAW ||
           type == ROTA_GROUP_MOVE;
}

struct rota_group_change {
    enum rota_group_change_type type;
    struct rota_group_def *def; /* the parents matter in OWN and SHARE only */
    uint64_t token;             /* of PROGRESS, FINISH, REMOVE, MOVE: the author's fencing token */
    struct rota_group_member target; /* of SHARE, WITHDRAW, MOVE */
    bool has_position;               /* may be in OWN, SHARE, PROGRESS, FINISH, MOVE */
    int64_t mark;                    /* how far the position is, for the watermark */
    struct rota_blob *position;      /* NULL: empty */
    bool is_end;                     /* of FINISH: there are no children and never will be */
};

/* A task as a snapshot has it. */
struct rota_group_task_state {
    struct rota_group_member member;
    uint64_t sequence; /* of its last record that counted */
};

#define ROTA_GROUP_NOBODY UINT32_MAX

/* A partition as a snapshot has it; tasks are places in the snapshot's list. */
struct rota_group_partition_state {
    struct rota_group_def *def;
    struct rota_blob *position;
    int64_t mark;
    uint64_t token;
    uint32_t owner, target, sharer; /* ROTA_GROUP_NOBODY: none */
    bool is_finished;
};

enum rota_group_kind {
    ROTA_GROUP_EPOCH,
    ROTA_GROUP_STATE,
    ROTA_GROUP_SNAPSHOT,
};

struct rota_group_record {
    uint32_t n_refs;
    enum rota_group_kind kind;

    struct rota_group_member author;
    uint64_t sequence; /* of the author's records, counted from 1 */
    uint64_t epoch;    /* in which the author wrote it; of EPOCH: the one it begins */
    char sync_epoch[ROTA_GROUP_SYNC_EPOCH_MAX + 1]; /* the epoch's label, for people */
    rota_time timestamp;                            /* wall clock; stored, never compared */
    uint64_t replay_from; /* an offset from which, by the author's knowledge, a reader may begin */
    uint64_t
        next; /* the author had read everything before it; of SNAPSHOT: what the snapshot covers */
    struct rota_str extra; /* as in rota_group_def */
    size_t size;           /* bytes as JSON; 0: not known yet */

    /* EPOCH: the members, its author among them, and the round of the membership
     * engine that it answers. SNAPSHOT, the first piece: the members at `next`. */
    uint64_t prev_epoch, generation;
    struct rota_group_task_state *tasks;
    size_t n_tasks;

    /* STATE */
    struct rota_group_change *changes;
    size_t n_changes;
    bool is_seed_end; /* from here on all initial partitions exist */

    /* SNAPSHOT: piece `index` of `count`. The first piece has the group's own fields. */
    uint32_t index, count;
    uint64_t state_epoch; /* in force at `next` */
    uint64_t state_epoch_offset;
    char state_sync_epoch[ROTA_GROUP_SYNC_EPOCH_MAX + 1];
    uint64_t state_generation;
    uint64_t state_replay_from;
    uint64_t incarnation_floor; /* the highest incarnation in any epoch so far */
    uint32_t leader;            /* place in `tasks`; ROTA_GROUP_NOBODY: before the first epoch */
    bool is_seeded;
    struct rota_group_partition_state *partitions;
    size_t n_partitions;
    struct rota_group_def **removed; /* remembered, the oldest first */
    size_t n_removed;

    char *text;             /* what the strings point into */
    struct rota_blob *name; /* and the author's, in records that this task wrote */
    struct rota_blob *extra_text;
};

/* A record on the heap with one reference; it owns the arrays and `text`, and a reference to
 * each def and position in them. NULL when there is no memory. */
struct rota_group_record *rota_group_record_new(enum rota_group_kind kind);
struct rota_group_record *rota_group_record_ref(struct rota_group_record *record);
void rota_group_record_unref(struct rota_group_record *record);

/* "epoch", "progress". Any thread. */
const char *rota_group_kind_name(enum rota_group_kind kind);
const char *rota_group_change_name(enum rota_group_change_type type);

/* Whether text may be the name of a task or of a partition. */
bool rota_group_is_task_name(struct rota_str text);
bool rota_group_is_name(struct rota_str text);

static inline bool rota_group_member_is_equal(struct rota_group_member a,
                                              struct rota_group_member b)
{
    return a.incarnation == b.incarnation && rota_str_is_equal(a.task, b.task);
}

/* An upper bound for its bytes in a record. */
size_t rota_group_change_size_max(const struct rota_group_change *change);
size_t rota_group_partition_size_max(const struct rota_group_partition_state *partition);
