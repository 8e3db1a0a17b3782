/* partition_fsm: the partitions that a node has of a store that all nodes share.
 *
 * A partition of ours is *taken*, which gives it an epoch, its jobs are *loaded*, and it is *open*
 * until we leave it or find that another node owns it:
 *
 *     WANTED --take--> TAKING --> LOADING --all read--> OPEN --route--> LEAVING --written--> gone
 *     any of these --another node has its epoch--> gone
 *
 * The node *checks* all partitions now and then, after each change of the route, and soon when a
 * call waits for that: a partition whose row has another epoch than ours is another node's,
 * whatever the route says. The store rejects a write under an epoch that is not the row's, so that
 * a node that has not noticed its loss changes nothing.
 *
 * At most one check, one take and one load are in flight. Each is answered; without an answer from
 * the store, it is repeated when the store is up again.
 *
 * Invariants: no partition is open before all its jobs are loaded, and none under an epoch that the
 * store did not give to us; its last changes are written before it is left; a node says that a job
 * does not exist only if, after the question came, it saw that the partition is its own or does not
 * exist.
 *
 * It drives a broker that the caller supplies, and is pure, too: the caller executes its effects.
 */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "core/work/broker/broker.h"

enum { ROTA_PARTITION_TAKE_MAX = 256 }; /* partitions of one take */

#define ROTA_PARTITION_CHECK     (1 * ROTA_SEC)   /* how often all partitions are checked */
#define ROTA_PARTITION_CHECK_MIN (50 * ROTA_MSEC) /* ... when calls wait for it */

enum rota_partition_state {
    ROTA_PARTITION_WANTED,
    ROTA_PARTITION_TAKING,
    ROTA_PARTITION_LOADING,
    ROTA_PARTITION_OPEN,
    ROTA_PARTITION_LEAVING, /* closed: its last changes are being written */
};

/* A partition that we have or want. */
struct rota_partition_held {
    enum rota_partition_state state;
    uint32_t number;
    uint64_t epoch;
    uint64_t until;   /* LEAVING: the last record to be written */
    bool is_seen;     /* while partitions are checked */
    bool is_old;      /* it was there at the previous check */
    bool is_deleted;  /* LEAVING: deleted with its queue, and its row has to be, too */
    bool is_removing; /* ... which is in flight */
    struct rota_str queue;
    struct rota_str key; /* in `parts`: the number, then the queue */

    /* The caller's: jobs still to be written, and an index while it writes. */
    size_t n_dirty, in_turn;
    char bytes[];
};

enum rota_partition_owner {
    ROTA_PARTITION_NOBODYS, /* no node is known, not even ourselves */
    ROTA_PARTITION_OURS,
    ROTA_PARTITION_ANOTHERS,
};

struct rota_partition_options {
    struct rota_broker *broker; /* kept */
    uint64_t instance;          /* this process, in the rows that it takes */

    /* A single node takes all partitions when it starts, and later only while calls wait: if
     * another one is started alongside, they do not take partitions from each other all the
     * time. */
    bool is_alone;

    enum rota_partition_owner (*owner)(void *data, struct rota_str queue, uint32_t number);
    void *data; /* kept */
    uint64_t seed;
};

enum rota_partition_event_type {
    ROTA_PARTITION_TURN, /* records up to `durable` are written, or the deadline has come */
    ROTA_PARTITION_UP,   /* the store can be reached */
    ROTA_PARTITION_DOWN,
    ROTA_PARTITION_ROUTE, /* the route has changed */
    ROTA_PARTITION_WAITS, /* a call waits for the next check */

    /* Of a check: each row, then the end; `is_failed`: the store did not answer. */
    ROTA_PARTITION_ROW, /* `queue`, `number`, `epoch`, `instance` */
    ROTA_PARTITION_CHECKED,

    ROTA_PARTITION_TAKEN,  /* under `epoch`, or `is_failed` */
    ROTA_PARTITION_LOADED, /* rows, or none when `is_last`; or `is_failed` */

    ROTA_PARTITION_REJECTED, /* a write under `epoch` to `queue`, `number` */
    ROTA_PARTITION_UNUSABLE, /* the partition that is loaded can't be, for `error` */
    ROTA_PARTITION_DELETED,  /* `queue` is */
    ROTA_PARTITION_REMOVED,  /* the row of `queue`, `number`, `epoch`; or `is_failed` to be asked */
};

/* Everything is borrowed. */
struct rota_partition_event {
    enum rota_partition_event_type type;
    struct rota_str queue;
    uint32_t number;
    uint64_t epoch, instance, durable;
    bool is_failed, is_last;
    bool is_waited_for; /* of ROW: calls wait for this check */
    const char *error;
};

enum rota_partition_action_type {
    ROTA_PARTITION_DO_CHECK,    /* read all rows */
    ROTA_PARTITION_DO_TAKE,     /* take `fsm->taken`, all under one epoch */
    ROTA_PARTITION_DO_LOAD,     /* read some rows of `part`; from the first on, if `is_first` */
    ROTA_PARTITION_DO_REMOVE,   /* remove the row of `part` */
    ROTA_PARTITION_DO_FORGET,   /* changes of `part` that are not written are void; `text` says why
                                 * it is gone
                                 */
    ROTA_PARTITION_DO_OPENED,   /* `part` is, and calls that wait may go on */
    ROTA_PARTITION_DO_UNCLOSED, /* `part` can't be closed now, for `text` */
    ROTA_PARTITION_DO_RESUME,   /* calls that wait begin again; or fail, when `text` is set */
};

/* How a partition is gone. */
enum rota_partition_end {
    ROTA_PARTITION_DROPPED,  /* before it was open */
    ROTA_PARTITION_RELEASED, /* written to the end */
    ROTA_PARTITION_REMOVED_ROW,
    ROTA_PARTITION_LOST,
};

struct rota_partition_action {
    enum rota_partition_action_type type;
    struct rota_partition_held *part; /* valid until rota_partition_fsm_clear() */
    enum rota_partition_end end;
    bool is_first;
    bool is_kept; /* of FORGET: there is no memory to drop its jobs */
    const char *text;
};

struct rota_partition_fsm {
    struct rota_partition_options options;
    struct rota_map parts;
    size_t n_in[ROTA_PARTITION_LEAVING + 1]; /* parts by state */
    bool is_up;
    bool is_checking, is_taking, is_loading; /* in flight */
    bool is_checked;                         /* since the route changed */
    bool was_checked;                        /* ... ever */
    bool is_settled;                         /* all partitions of the first check are open */
    uint64_t durable;
    rota_time check_at;       /* boot */
    rota_time check_began_at; /* of the current one, or the last */
    rota_time checked_at;     /* when the last completed one began */
    struct rota_partition_held *taken[ROTA_PARTITION_TAKE_MAX]; /* NULL: abandoned */
    size_t n_taken;
    struct rota_partition_held *loaded; /* NULL: none, or abandoned */
    bool is_load_begun;
    struct rota_error error; /* of a partition that could not be opened */
    ROTA_VECTOR(struct rota_partition_action) actions;
    ROTA_VECTOR(struct rota_partition_held *) trash;
};

/* False when there is no memory. */
bool rota_partition_fsm_init(struct rota_partition_fsm *fsm,
                             const struct rota_partition_options *options);
void rota_partition_fsm_deinit(struct rota_partition_fsm *fsm);

/* Adds to `fsm->actions` what is to be done, in this order. rota_partition_fsm_clear() removes
 * them. Without memory less is done, and the rest with the next check. */
void rota_partition_fsm_step(struct rota_partition_fsm *fsm, struct rota_work_now now,
                             const struct rota_partition_event *event);
void rota_partition_fsm_clear(struct rota_partition_fsm *fsm);

/* When it needs a TURN, on the monotonic clock; ROTA_TIME_NEVER: after an event only. */
rota_time rota_partition_fsm_deadline(const struct rota_partition_fsm *fsm);

/* --- questions --- */

/* NULL: we neither have it nor want it. */
struct rota_partition_held *rota_partition_fsm_find(const struct rota_partition_fsm *fsm,
                                                    struct rota_str queue, uint32_t number);

/* Whether all our partitions are loaded, as far as is known. */
bool rota_partition_fsm_is_loaded(const struct rota_partition_fsm *fsm);

/* Whether a job that is to be added has to wait for its partition; it is wanted if it is ours. */
bool rota_partition_fsm_must_wait_to_add(struct rota_partition_fsm *fsm, struct rota_str queue,
                                         uint32_t number);

/* Whether a call about a job that is not known here has to wait: the call arrived at `since`, on
 * the monotonic clock; 0: just now. */
bool rota_partition_fsm_must_wait(const struct rota_partition_fsm *fsm, struct rota_str queue,
                                  uint32_t number, rota_time since);

/* Whether this node can say that a job does not exist which is not known here. */
bool rota_partition_fsm_vouches(const struct rota_partition_fsm *fsm, struct rota_str queue,
                                uint32_t number);
