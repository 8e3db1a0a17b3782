/* A task group in a world on virtual time: what its files share.
 *
 * Node LOG has the log, node GROUP the membership, every other node is a task: the
 * real group_fsm, a driver and an application. The parts:
 *
 *     group_world.h   the words, the plants, the parts of a world (this file)
 *     group_truth.h   what must hold, checked as records come into the log
 *     group_data.h    what the application reads: partitions that split and merge
 *     group_log.h     the log: slow, cut off, with rubbish in it
 *     group_rounds.h  the membership: sessions, rounds, leaders that may be wrong
 *     group_reader.h  a task's application: the readers
 *     group_task.h    a task: the machine and its driver
 *
 * What is asked of a membership engine, and given by this one: a member goes only
 * after a session without a heartbeat, counted from when the last one came, or when
 * it leaves, or when its process is known to be dead; an engine that has forgotten
 * its members waits for a session before the first round. */
#pragma once

#include "core/own/group_fsm.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"
#include "wire/record/group_record.h"

enum { LOG, GROUP, FIRST_TASK, TASKS_MAX = 200, NODES_MAX = FIRST_TASK + TASKS_MAX };
enum { PARTITIONS_MAX = 20000, RUNNERS_MAX = 4, ROUNDS_MAX = 4096 };

#define SESSION       (3 * ROTA_SEC)
#define FENCE_AFTER   (2 * ROTA_SEC)
#define STOP_MAX      (600 * ROTA_MSEC) /* how long a reader may take to stop */
#define BEAT_EVERY    (500 * ROTA_MSEC)
#define HOLD          (400 * ROTA_MSEC) /* a read without news is answered after */
#define READ_TIMEOUT  (1100 * ROTA_MSEC)
#define APPEND_WITHIN (800 * ROTA_MSEC) /* then nobody knows */
#define OWNED_WITHIN  (15 * ROTA_SEC)   /* every partition that may be read, all being well */

enum plant {
    PLANT_NONE,
    PLANT_BY_TIMESTAMP,
    PLANT_OLD_EPOCH,
    PLANT_TWO_LEADERS,
    PLANT_REOWNED,
    PLANT_UNLISTED_RUNS,
    PLANT_FENCE_FROM_ARRIVAL,
    PLANT_MISSING_PIECE,
    PLANT_CHILD_FIRST,
    PLANT_NO_TOKEN,
    PLANT_JOINS_EARLY,
    PLANT_WITHDRAWN_TWICE,
    PLANT_POSITION_LOST,
    PLANT_DEAD_COME_BACK,
    PLANT_FUTURE_READ,
    PLANT_CHILD_LOST,
    PLANT_FROM_SCRATCH,
    PLANT_GENERATIONS,
    PLANT_FORGETFUL,
    PLANT_STALE_MEMBERS,
    PLANT_REPEATED,
    PLANT_STRANGER,
    PLANT_DEAF_GROUP,
    PLANT_TRIMS_EARLY,
    PLANT_OLD_ROUND,
    N_PLANTS,
};

/* What kind of world it is; from the seed, or from a scenario. */
struct shape {
    uint32_t n_tasks, n_seeds, length_max, digest_every;
    uint32_t open_goal, partitions_max; /* splits while there are fewer not finished; in all */
    double merges;                      /* of a pair of children */
    size_t name_size, position_size;    /* bytes, padded */
    rota_time step_every;               /* an application looks at its readers */
    rota_time stop_max;
    rota_time quiet_at, end_at;
    rota_time crash_every, pause_every, pause_for, split_every, jump_every;
    rota_time log_pause_every, group_pause_every, forget_every, cut_every, rubbish_every;
    rota_time leave_every;
    rota_time lag_every;  /* a task's links become slow */
    rota_time late_every; /* it hears late, and then is not heard */
    rota_time slow_every; /* a task hears the log in time, but the group late */
    double leader_dies;   /* at a step of its round */
    double leader_wrong, leader_double;
    double loss, duplication;
    uint64_t snapshot_records;
    rota_time withdraw_after, move_every;
    bool is_named;   /* a member whose process died is replaced at once by its next life */
    bool has_twins;  /* two tasks of one name */
    bool is_trimmed; /* the leader says what need not be kept */
    bool is_cut_blindly;
    bool is_one_by_one; /* records are given one batch each */
};

enum note_type {
    ASK_OPEN,
    ASK_READ,
    ASK_APPEND,
    ASK_TRIM,
    ASK_JOIN,
    ASK_BEAT,
    ASK_LEAVE,
    TELL_OPEN,
    TELL_BATCH,
    TELL_APPENDED,
    TELL_ROUND,
    TELL_BEAT,
    TELL_UNKNOWN,
};

/* All that is ever sent, both ways; what is large stands in the world. */
struct note {
    enum note_type type;
    uint32_t life;
    uint64_t request;  /* the asker's number; comes back */
    rota_time sent_at; /* by the asker's clock; comes back */
    uint64_t first, end, from, to;
    uint64_t number, incarnation, joining; /* which joining of this process */
    uint32_t slot;                         /* in world->sent */
    uint64_t round;
};

/* --- the log and the group --- */

struct entry {
    struct rota_group_record *record; /* as the folds are given it; NULL: rubbish */
    struct rota_group_record *truth;  /* as it was written */
    size_t size;
    enum rota_group_verdict why;
    uint64_t digest; /* of the state after it; 0: not taken */
};

struct held {
    bool is_held;
    struct note note;
};

struct log {
    ROTA_VECTOR(struct entry) entries; /* by offset */
    uint64_t first;
    uint64_t replay_from; /* the highest that a record tells of */
    struct held held[NODES_MAX];
    bool is_sweeping;
};

struct session {
    uint32_t node, life;
    uint64_t incarnation, joining;
    rota_time expires_at, sent_at;
    uint64_t round; /* the last that has it; 0: none yet */
};

struct round {
    uint64_t number, generation;
    uint32_t leaders[2]; /* nodes; 0: none */
    struct rota_group_member *members;
    size_t n_members;
};

struct rounds {
    ROTA_VECTOR(struct session) sessions; /* the oldest first */
    ROTA_VECTOR(struct round) rounds;     /* by number - 1 */
    uint64_t generation;
    uint64_t joined[NODES_MAX]; /* life << 32 | joining, the highest that came */
    rota_time not_before;
    bool is_due;
};

struct runner {
    uint32_t node, place; /* in the task's readers */
};

struct part {
    struct rota_group_def *def;
    uint32_t parents[2], children[2];
    uint32_t child_at[2]; /* position at which each child is met */
    uint8_t n_parents, n_children, n_runners;
    bool is_grown, has_merged, is_created, is_finished, is_removed;
    uint32_t length, read_max;
    struct runner runners[RUNNERS_MAX];

    /* As the log has it. */
    uint64_t token, started_token;
    int64_t mark, granted_mark;
    uint32_t owner, target; /* serials; 0: none */
    rota_time idle_since;
};

/* --- a task --- */

struct reader {
    uint32_t part, position, committed;
    uint64_t token;
    bool is_stopping, is_over;
};

struct stopping {
    uint32_t part;
    rota_time at;
};

struct append {
    uint64_t number;
    rota_time until;
};

struct task {
    struct rota_group_fsm fsm;
    bool is_ready; /* the fsm is there */
    bool is_failed, is_over;
    char name[24];

    /* The log. */
    bool is_open;
    uint64_t request, read_from, opened_end;
    rota_time asked_at;
    int n_silent;
    ROTA_VECTOR(struct append) appends;

    /* The group. */
    bool wants_join, is_answered;
    uint64_t incarnation, joining, round;
    rota_time group_ok_at;
    uint64_t generation_max;

    ROTA_VECTOR(struct reader) readers;
    ROTA_VECTOR(struct stopping) stopping;
    ROTA_VECTOR(uint32_t) shared;   /* of a plant */
    rota_time heard_at, resumed_at; /* true time */
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    struct shape shape;
    enum plant plant;
    int scenario;
    struct rota_error error;

    struct log log;
    ROTA_VECTOR(struct rota_group_record *) sent; /* what went out, by slot */
    struct rota_buffer buffer;
    struct rounds group;

    ROTA_VECTOR(struct part) parts;
    struct rota_map by_name;
    struct rota_group_seed *seeds;

    struct task tasks[NODES_MAX];

    /* The truth: a fold of the log as it is, and what it must be. */
    struct rota_group_fold fold;
    struct rota_map sequences; /* "incarnation/task" -> struct author */
    ROTA_VECTOR(struct author *) authors;
    uint64_t epoch;
    rota_time quiet_since; /* the last fault, as far as known */
    bool is_cut;           /* beyond what is needed: nobody can start */
    struct rota_sim_chaos chaos, splits, log_pauses, group_pauses;
    uint32_t n_open; /* partitions that are not finished */
    uint64_t n_starts, n_cuts;
};

/* A member of some epoch, by the world's own book. */
struct author {
    char key[ROTA_GROUP_METADATA_MAX];
    uint64_t sequence, epoch; /* the last that has it */
};

bool chance(struct world *world, double probability);
rota_time span_upto(struct world *world, rota_time max);
void die(const char *what);

#define push(vector, item)                                                                         \
    do {                                                                                           \
        if (!rota_vector_push((vector), (item)))                                                   \
            die("no memory");                                                                      \
    } while (0)

void tell(struct world *world, uint32_t from, uint32_t to, const struct note *note);

/* A record as it reads on the other side: written as JSON and read again. */
struct rota_group_record *carry(struct world *world, struct rota_group_record *record);
