/* group_fsm: one task of a group: what it reads, what it writes to the log, and when it must stop.
 *
 *     START --replayed to the end--> READY --all old readers stopped--> JOINING
 *     JOINING --a round has us--> WAITING --its epoch is in force--> WORKING
 *     WORKING --the next round--> WAITING      (running work continues; no sharing)
 *     JOINING, WAITING, WORKING --group lost, fenced, not in the epoch, waited too
 *                                 long--> READY, as another incarnation
 *     any --log lost--> START                  any --leave--> LEAVING --> DONE
 *     any --log cut, shrunk, no memory--> DONE
 *
 * The machine acts on the fold alone. What the user reports is kept until the fold shows it. One
 * record of ours is in flight at a time, and everything that happens meanwhile goes into the next.
 * When our record is read and counted, it is done; when it did not count, what still holds is sent
 * again. An append with an unknown outcome is repeated with the same sequence: the log shows it,
 * and the fold counts it once.
 *
 * The leader, which the membership engine names, only writes the epoch: its members, from the
 * round's list. Everything else about an epoch follows from the fold's rules. It also seeds the
 * group and writes the snapshots. A leader that learns of its round late may already have read the
 * epoch of a later round. It does not write an epoch over that one: tasks that joined in the later
 * round would be removed while they run.
 *
 * Invariants: before anything else is done, nothing runs later than `fence_after` past the last
 * time at which both the log and the group confirmed us, counted from when we asked. A START
 * comes only for what the fold says is ours and may be read, and never before the STOPPED of an
 * earlier reader of the same partition. A position that is committed in the log never lies after
 * a child that is not. Nothing is offered or taken between a round and its epoch. The group is
 * left only when the last reader has stopped. An observer reads the log and stays READY: it
 * neither joins nor writes. */
#pragma once

#include "core/own/group_fold.h"

#include <rota/experimental/random.h>
#include <rota/group.h>

#define ROTA_GROUP_FENCE_AFTER    (4 * ROTA_SEC)
#define ROTA_GROUP_PROGRESS_EVERY (1 * ROTA_SEC)
#define ROTA_GROUP_WAIT_MAX       (30 * ROTA_SEC)
#define ROTA_GROUP_RETRY_FIRST    (50 * ROTA_MSEC) /* after an append failed; doubles */
#define ROTA_GROUP_RETRY_MAX      (2 * ROTA_SEC)

enum {
    ROTA_GROUP_SNAPSHOT_RECORDS = 10000,
    ROTA_GROUP_SNAPSHOT_BYTES = 4 << 20,
    ROTA_GROUP_TAIL = 64,             /* records at the end of the log that are read first */
    ROTA_GROUP_COLLECT_MAX = 1000000, /* records between a snapshot and its last piece */
    ROTA_GROUP_BEGINS_MAX = 8,        /* snapshots that a start tries, the latest first */
    ROTA_GROUP_CHILDREN_MAX = 65536,  /* reported and not in the log yet */
    ROTA_GROUP_FORMER_MAX =
        4, /* former incarnations of this task whose late records are still reported */
};

struct rota_group_fsm_options {
    struct rota_str task;     /* copied */
    bool is_observer;         /* only observe; `task` is ignored */
    rota_time fence_after;    /* how long after the last confirmation the task stops; below the
                                 session; 0: default */
    rota_time progress_every; /* positions go to the log this often; 0 means the default */
    rota_time wait_max;       /* how long to wait for an epoch before joining again; 0: default */
    uint64_t snapshot_records,
        snapshot_bytes; /* the leader writes a snapshot after this many; 0: the defaults */

    /* Off when 0, as in the original rules. */
    rota_time withdraw_after; /* an offer that is not taken for this long goes to another task */
    rota_time move_every; /* hand a running partition to a task with at least 2 fewer, this often */
    uint32_t moves_max;   /* at the same time; 0 means 1 */

    const struct rota_group_seed *seeds; /* of the whole group; copied */
    size_t n_seeds;
    uint64_t seed; /* for random labels and incarnations */
};

enum rota_group_event_type {
    /* The log. It holds offsets `first` to below `end`; `first` is 0 as long as nothing was
     * trimmed. */
    ROTA_GROUP_OPENED,
    ROTA_GROUP_RECORD, /* `record` at `offset`; NULL: `size` bytes that are not a record, see `why`
                        */
    ROTA_GROUP_LOG_OK, /* everything below `end` was delivered since the last READ, and `end` was
                          the log's end when the driver asked at `sent_at` */
    ROTA_GROUP_LOG_LOST,
    ROTA_GROUP_APPENDED,     /* `number`, at `offset` */
    ROTA_GROUP_NOT_APPENDED, /* `number` failed as far as we know; it may still appear */

    /* The group. */
    ROTA_GROUP_REBALANCED, /* round `generation` has `members`; the driver asked at `sent_at` */
    ROTA_GROUP_GROUP_OK,   /* a heartbeat sent at `sent_at` succeeded, and there was no later round
                              than the last one that we know of */
    ROTA_GROUP_GROUP_LOST,

    /* The user; ignored for a partition that is not running, or runs under another token. */
    ROTA_GROUP_CHILD, /* of `partition`: `child`; an empty `partition` adds an initial one */
    ROTA_GROUP_PROGRESS_MADE,
    ROTA_GROUP_FINISHED_READING, /* everything is committed; `is_end`: it has no children */
    ROTA_GROUP_STOPPED,          /* the reader has stopped; answers every STOP */
    ROTA_GROUP_LEAVE,

    ROTA_GROUP_TICK,
};

/* Everything is borrowed. */
struct rota_group_event {
    enum rota_group_event_type type;
    uint64_t first, end, offset, number, generation;
    size_t size;
    rota_time sent_at;
    struct rota_group_record *record; /* the machine takes references of its own */
    enum rota_group_verdict why;

    const struct rota_group_member *members;
    size_t n_members;
    bool is_leader;

    struct rota_str partition;
    uint64_t token; /* under which the partition was started; 0: any */
    struct rota_group_def *child;
    int64_t mark;
    struct rota_str position;
    bool is_end;
};

enum rota_group_action_type {
    ROTA_GROUP_DO_READ,      /* deliver records from `offset` on, and forget earlier READs */
    ROTA_GROUP_DO_APPEND,    /* `record`; answer with `number`, once */
    ROTA_GROUP_DO_JOIN,      /* with our name and `incarnation` as metadata */
    ROTA_GROUP_DO_LEAVE,     /* if joined */
    ROTA_GROUP_DO_START,     /* start to read `def` from `position`, under `token` */
    ROTA_GROUP_DO_STOP,      /* stop reading, and answer STOPPED */
    ROTA_GROUP_TELL_ROUND,   /* a round has us: `number` */
    ROTA_GROUP_TELL_EPOCH,   /* an epoch that has us is in force: `number` */
    ROTA_GROUP_TELL_COUNTED, /* `record`, ours, counted at `offset`; also a state that we wrote
                                before we lost the log or the group */
    ROTA_GROUP_TELL_REFUSED, /* a report about `def` was rejected: `refusal` */
    ROTA_GROUP_TELL_LOST, /* the log or the group is lost and everything is stopped; see `loss` */
    ROTA_GROUP_FAIL,      /* the end: stop everything that runs; see `failure` */
};

enum rota_group_loss {
    ROTA_GROUP_NO_LOSS,  /* we left, or failed */
    ROTA_GROUP_FENCED,   /* too long without confirmation from the log or the group */
    ROTA_GROUP_EXPELLED, /* the group says that we are not a member */
    ROTA_GROUP_UNLISTED, /* we are not a member of the epoch in force */
    ROTA_GROUP_WAITED,   /* no round, or no epoch, came for too long */
    ROTA_GROUP_LOGLESS,  /* the log is lost */
};

enum { ROTA_GROUP_LOSSES = ROTA_GROUP_LOGLESS + 1 };

enum rota_group_failure {
    ROTA_GROUP_NO_FAILURE,
    ROTA_GROUP_LOG_CUT,         /* the log begins after records that the state needs */
    ROTA_GROUP_LOG_SHRANK,      /* records that we have read are gone from its end */
    ROTA_GROUP_SNAPSHOT_BROKEN, /* no complete snapshot where one should be */
    ROTA_GROUP_OUT_OF_MEMORY,   /* of memory, or of incarnations */
};

/* The references are the machine's, valid until its next step. */
struct rota_group_action {
    enum rota_group_action_type type;
    uint64_t offset, number, incarnation, token;
    struct rota_group_record *record;
    struct rota_group_def *def;
    struct rota_blob *position;
    int64_t mark;
    enum rota_group_refusal refusal;
    enum rota_group_loss loss;
    enum rota_group_failure failure;
};

enum rota_group_state {
    ROTA_GROUP_AT_START,
    ROTA_GROUP_AT_READY,
    ROTA_GROUP_AT_JOINING,
    ROTA_GROUP_AT_WAITING,
    ROTA_GROUP_AT_WORKING,
    ROTA_GROUP_AT_LEAVING,
    ROTA_GROUP_AT_DONE,
};

/* How far a start has come. */
enum rota_group_replay {
    ROTA_GROUP_REPLAY_CLOSED,  /* no log yet */
    ROTA_GROUP_REPLAY_TAIL,    /* looks for a record that names the offset to begin at */
    ROTA_GROUP_REPLAY_COLLECT, /* collects the pieces of the snapshot */
    ROTA_GROUP_REPLAY_FOLD,    /* applies the log */
};

/* What was at an offset while a snapshot was incomplete. */
struct rota_group_collected {
    struct rota_group_record *record; /* NULL: `size` bytes that are not a record, and `why` */
    uint64_t offset;
    size_t size;
    enum rota_group_verdict why;
};

/* A child that was reported and is not in the log yet. */
struct rota_group_pending {
    struct rota_group_def *def;
    int64_t mark;
    struct rota_blob *position;
};

/* A partition that runs here, or whose reader has not stopped yet. */
struct rota_group_run {
    struct rota_group_def *def;
    uint64_t token;
    bool is_stopping; /* STOPPED has not come yet */
    bool is_lost;     /* no longer ours: its reports are not published */
    bool is_ended;    /* stopped while it is ours, to be moved or to leave */
    bool is_moving;
    bool is_late; /* in `progressed` */
    ROTA_VECTOR(struct rota_group_pending) children;
    bool has_progress, has_finish, is_end;
    int64_t mark;
    struct rota_blob *position;
};

/* One append, as it was sent, until its outcome is known. */
struct rota_group_send {
    struct rota_group_record *record; /* NULL: none */
    uint64_t number;                  /* of the append in flight; 0: none */
    bool is_appended;
    uint64_t offset; /* then */
    rota_time retry_at, retry_after;
};

struct rota_group_offer {
    struct rota_group_def *def;
    rota_time at;
};

struct rota_group_fsm {
    struct rota_group_fsm_options options;
    struct rota_blob *name;
    struct rota_group_seed *seeds;
    char *seed_text;
    struct rota_random random;
    struct rota_group_fold fold;
    enum rota_group_state state;
    uint64_t incarnation, sequence;
    uint64_t former[ROTA_GROUP_FORMER_MAX]; /* our former incarnations; a ring */
    size_t n_former;                        /* how many there ever were */

    /* The log. */
    enum rota_group_replay replay;
    uint64_t first, end, tail;
    uint64_t
        begin_at; /* the highest offset below `begin_below` that a record names as a beginning */
    uint64_t begin_below; /* from here on, starting failed */
    bool has_begin;
    uint32_t n_begins; /* beginnings that failed */
    ROTA_VECTOR(struct rota_group_collected) collected;

    /* The group. */
    bool is_joined, is_leader;
    bool owes_leave;    /* to the group, once all readers have stopped */
    bool needs_epoch;   /* we lead the round and its epoch is not in force yet */
    uint32_t me;        /* our place in the epoch in force */
    rota_time epoch_at; /* when we read it; ROTA_TIME_MIN: before we joined */
    uint64_t generation;
    struct rota_group_task_state *members; /* of the round, if we lead it */
    char *members_text;
    size_t n_members;
    rota_time log_ok_at, group_ok_at, joined_at;
    rota_time waiting_since, leaving_since;

    /* What runs, and what to write. */
    struct rota_map runs; /* by name */
    size_t n_stopping, n_moving;
    ROTA_VECTOR(struct rota_group_def *) dirty;      /* to check for the next record */
    ROTA_VECTOR(struct rota_group_def *) held;       /* ... once sharing resumes */
    ROTA_VECTOR(struct rota_group_def *) progressed; /* ... at `progress_at` */
    ROTA_VECTOR(struct rota_group_pending) roots;    /* partitions without parents to add */
    ROTA_VECTOR(struct rota_group_offer) offers;     /* ours, the oldest first */
    size_t n_children;                               /* pending, roots included */
    bool has_news; /* a round or an epoch, which is written even without a change */
    rota_time progress_at, move_at;
    rota_time full_until; /* no new partitions before: the limit was reached; 0: there is room */
    struct rota_group_send send, epoch_send;
    ROTA_VECTOR(struct rota_group_def *) sent; /* what `send` contains */
    uint64_t number;
    struct rota_group_record **snapshot; /* pieces, from `snapshot_place` on still to be sent */
    size_t n_snapshot, snapshot_place;
    ROTA_VECTOR(uint32_t) extra_load;

    ROTA_VECTOR(struct rota_group_action) actions;
    enum rota_group_failure failure;
    bool is_out_of_memory;
};

/* The `fence_after` for a group that removes an unresponsive member after `session`, and readers
 * that need `stop_within` to stop: the rest of the session, less an eighth of it for inexact
 * clocks and timers. 0 when that is less than a third of the session, since a task has to send
 * at least two heartbeats in that time. */
rota_time rota_group_fsm_fence_after(rota_time session, rota_time stop_within);

/* ROTA_ERR_INVALID for an invalid name, ROTA_ERR_LIMIT for too many seeds. */
enum rota_code rota_group_fsm_init(struct rota_group_fsm *fsm,
                                   const struct rota_group_fsm_options *options,
                                   struct rota_error *error);
void rota_group_fsm_deinit(struct rota_group_fsm *fsm);

/* Handle an event; `now` is the monotonic clock. The actions are then in
 * rota_group_fsm_actions(), in the order to carry them out, until the next step. The user's
 * reports are refused with ROTA_ERR_INVALID (not a name, too long, a mark that goes back),
 * ROTA_ERR_LIMIT (ROTA_GROUP_CHILDREN_MAX) or ROTA_ERR_NO_MEMORY and nothing is changed; the
 * user reports a child again before anything that comes after it. Anything else can't fail: a
 * task that runs out of memory is DONE, and its driver stops everything. */
enum rota_code rota_group_fsm_step(struct rota_group_fsm *fsm, rota_time now,
                                   const struct rota_group_event *event, struct rota_error *error);
const struct rota_group_action *rota_group_fsm_actions(const struct rota_group_fsm *fsm, size_t *n);

/* When the next TICK is needed; ROTA_TIME_NEVER: not before another event. */
rota_time rota_group_fsm_deadline(const struct rota_group_fsm *fsm);

/* Whether we may act on the partition at `now`, under this token. */
bool rota_group_fsm_is_current(const struct rota_group_fsm *fsm, rota_time now,
                               struct rota_str partition, uint64_t token);

/* Until when we may act; ROTA_TIME_MIN when not in the group. */
rota_time rota_group_fsm_fence_at(const struct rota_group_fsm *fsm);

/* Below which offset this task allows the log to be trimmed: set on a leader whose snapshots
 * counted; 0: keep everything. The last snapshot but one begins there, so that a task that is
 * reading from it can continue, and a snapshot that can't be read has one before it. */
uint64_t rota_group_fsm_trim_below(const struct rota_group_fsm *fsm);

/* How many partitions run here, without those that are stopping. */
size_t rota_group_fsm_running(const struct rota_group_fsm *fsm);

/* Write why a partition is, or is not, where it is: one sentence. Returns `text`. */
char *rota_group_fsm_explain(const struct rota_group_fsm *fsm, struct rota_str partition,
                             char *text, size_t size);

/* "working", "fenced", "log_cut". Any thread. */
const char *rota_group_fsm_state_name(enum rota_group_state state);
const char *rota_group_fsm_loss_name(enum rota_group_loss loss);
const char *rota_group_fsm_failure_name(enum rota_group_failure failure);
