/* group: the words of a task group: partitions, tasks, and the records of the log
 * by which tasks agree who has which partition.
 *
 * A record is one of three kinds. An *epoch* says who the members are; a *state*
 * says what one task did to its partitions, change by change; a *snapshot* is a
 * piece of the whole, so that nobody has to read the log from its beginning. How
 * they look as JSON is wire/group_record.h's business, what they mean is
 * core/own/group_fold.h's.
 *
 * A record can't be changed once it is made, and is counted, as are the parts of
 * it that outlive it (what a partition is, its position): a thousand folds of the
 * same log hold one copy. All of it belongs to one thread. */
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
    ROTA_GROUP_EXTRA_MAX = 4096,        /* bytes of fields that we do not know, of one thing */
    ROTA_GROUP_TASKS_MAX = 2048,        /* of one epoch */
    ROTA_GROUP_PARTITIONS_MAX = 262144, /* that are not removed */
    ROTA_GROUP_REMEMBERED_MAX = 16384,  /* removed partitions that are still known by name */
    ROTA_GROUP_RECORD_MAX = 1 << 20,    /* bytes of any record */
    ROTA_GROUP_CHUNK_MAX = 240 << 10,   /* bytes of a snapshot's piece, of a batch of changes */
    ROTA_GROUP_CHUNKS_MAX = 65536,      /* of one snapshot */
    ROTA_GROUP_SYNC_EPOCH_MAX = 64,     /* bytes of an epoch's label */
};

#define ROTA_GROUP_NUMBER_MAX                                                                      \
    ((uint64_t)1 << 53) /* of any number in a record: JSON's whole ones                            \
                         */

/* --- what is counted --- */

struct rota_blob {
    uint32_t n_refs, size;
    char data[];
};

/* NULL when there is no memory. Each has a share more after `ref`, which returns
 * its argument; `unref` gives one back. Both accept NULL. */
struct rota_blob *rota_blob_new(struct rota_str bytes);
struct rota_blob *rota_blob_ref(struct rota_blob *blob);
void rota_blob_unref(struct rota_blob *blob);

static inline struct rota_str rota_blob_str(const struct rota_blob *blob)
{
    return blob ? rota_str_of(blob->data, blob->size) : rota_str("");
}

struct rota_group_name {
    struct rota_str text;
    uint64_t hash; /* rota_group_hash() of it */
};

/* What a partition is, for as long as it is known: its name and those it came
 * from. A change to one that exists needs its name alone. */
struct rota_group_def {
    uint32_t n_refs, n_parents;
    struct rota_group_name name;
    struct rota_str extra; /* fields that we do not know: "key":value,"key":value */
    struct rota_group_name parents[];
};

/* Everything is copied; NULL when there is no memory. */
struct rota_group_def *rota_group_def_new(struct rota_str name, const struct rota_str *parents,
                                          size_t n_parents, struct rota_str extra);
struct rota_group_def *rota_group_def_ref(struct rota_group_def *def);
void rota_group_def_unref(struct rota_group_def *def);

uint64_t rota_group_hash(struct rota_str name);

/* --- records --- */

/* A task is its name and the number of its life. A restart is another task, so
 * that nothing the one before may still send is taken for ours. */
struct rota_group_member {
    struct rota_str task;
    uint64_t incarnation; /* 1 or more */
};

enum rota_group_change_type {
    ROTA_GROUP_OWN,      /* a new partition, which the author has from now on */
    ROTA_GROUP_SHARE,    /* a new partition, offered to `target` */
    ROTA_GROUP_TAKE,     /* what was offered to the author */
    ROTA_GROUP_PROGRESS, /* a position is committed */
    ROTA_GROUP_FINISH,   /* read to its end, all of it committed */
    ROTA_GROUP_REMOVE,   /* finished, and so are all that refer to it */
    ROTA_GROUP_CLEAR,    /* what the author offered has an owner */
    ROTA_GROUP_WITHDRAW, /* what the author offered and nobody took goes to `target` */
    ROTA_GROUP_MOVE,     /* what the author had, and has stopped, is offered to `target` */
};

enum { ROTA_GROUP_CHANGES = ROTA_GROUP_MOVE + 1 };

/* In a record those of what a task has come first, then those of what it offers. */
static inline bool rota_group_is_share(enum rota_group_change_type type)
{
    return type == ROTA_GROUP_SHARE || type == ROTA_GROUP_CLEAR || type == ROTA_GROUP_WITHDRAW ||
           type == ROTA_GROUP_MOVE;
}

struct rota_group_change {
    enum rota_group_change_type type;
    struct rota_group_def *def;      /* the parents count in OWN and SHARE alone */
    uint64_t token;                  /* of PROGRESS, FINISH, REMOVE, MOVE: under which we act */
    struct rota_group_member target; /* of SHARE, WITHDRAW, MOVE */
    bool has_position;               /* may be in OWN, SHARE, PROGRESS, FINISH, MOVE */
    int64_t mark;                    /* how far the position is, for the watermark */
    struct rota_blob *position;      /* NULL: empty */
    bool is_end;                     /* of FINISH: there are no children, nor will be */
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
    uint64_t sequence; /* of the author's records; from 1 */
    uint64_t epoch;    /* which it is made in; of EPOCH: which it begins */
    char sync_epoch[ROTA_GROUP_SYNC_EPOCH_MAX + 1]; /* the epoch's label, for people */
    rota_time timestamp;                            /* wall clock; carried, never compared */
    uint64_t replay_from;                           /* where the author knows a reader may begin */
    uint64_t next;         /* all before it the author had read; of SNAPSHOT: what it holds */
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
    bool is_seed_end; /* with it all partitions to begin with are there */

    /* SNAPSHOT: piece `index` of `count`. The first has the group's own words. */
    uint32_t index, count;
    uint64_t state_epoch; /* in force at `next` */
    uint64_t state_epoch_offset;
    char state_sync_epoch[ROTA_GROUP_SYNC_EPOCH_MAX + 1];
    uint64_t state_generation;
    uint64_t state_replay_from;
    uint64_t incarnation_floor; /* no incarnation in any epoch so far was higher */
    uint32_t leader;            /* place in `tasks`; ROTA_GROUP_NOBODY: before the first epoch */
    bool is_seeded;
    struct rota_group_partition_state *partitions;
    size_t n_partitions;
    struct rota_group_def **removed; /* remembered, the longest first */
    size_t n_removed;

    char *text;             /* what the strings point into */
    struct rota_blob *name; /* and the author's, in records of our own */
    struct rota_blob *extra_text;
};

/* A record on the heap with one share; the arrays and `text` are its own, and
 * each def and position in them is a share. NULL when there is no memory. */
struct rota_group_record *rota_group_record_new(enum rota_group_kind kind);
struct rota_group_record *rota_group_record_ref(struct rota_group_record *record);
void rota_group_record_unref(struct rota_group_record *record);

/* "epoch", "progress". Any thread. */
const char *rota_group_kind_name(enum rota_group_kind kind);
const char *rota_group_change_name(enum rota_group_change_type type);

/* Whether text may be the name of a task, of a partition. */
bool rota_group_is_task_name(struct rota_str text);
bool rota_group_is_name(struct rota_str text);

static inline bool rota_group_member_is_equal(struct rota_group_member a,
                                              struct rota_group_member b)
{
    return a.incarnation == b.incarnation && rota_str_is_equal(a.task, b.task);
}

/* At least as many bytes as it takes in a record. */
size_t rota_group_change_size_max(const struct rota_group_change *change);
size_t rota_group_partition_size_max(const struct rota_group_partition_state *partition);
