/* The work plane in a world on virtual time: what its files share.
 *
 * Node TABLE says who owns which partition, node SUBMITTER adds jobs and cancels them,
 * and then come brokers, each the real machine of core/work/broker/broker.h with a driver, a
 * disk and its share of the partitions, and workers, each with a session at every broker.
 * The parts:
 *
 *     work_world.h      the words, the plants, the parts of a world (this file)
 *     work_disk.h       a broker's journal: group commit on a disk that fails
 *     work_truth.h      what must hold
 *     work_broker.h     a broker's driver
 *     work_hand.h       the table of owners, and how a partition changes hands
 *     work_worker.h     workers: slow, dead, late, twice
 *     work_submit.h     the submitter, and people who operate queues
 *     work_scenarios.h  worlds in which something certain happens
 *
 * How a partition changes hands: the table names the new owner under a higher epoch, and
 * from whom its jobs come. That one closes the partition and, when this is on disk,
 * sends the jobs; the new owner opens it with the first of them, adopts them, and says so
 * when they are on disk; only then are they forgotten where they came from. Adds are taken
 * in again when the table knows that all jobs have come. Whoever has jobs of a partition
 * that is neither its own nor to be sent forgets them: they are copies of old. */
#pragma once

#include "base/vector.h"
#include "core/work/broker/broker.h"
#include "core/work/broker/compaction.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

enum {
    TABLE,
    SUBMITTER,
    FIRST_BROKER,
    BROKERS_MAX = 3,
    FIRST_WORKER = FIRST_BROKER + BROKERS_MAX,
    WORKERS_MAX = 6,
    NODES_MAX = FIRST_WORKER + WORKERS_MAX,
    NOBODY = 0,
};

enum { QUEUES = 2, PARTS = 4, PARTS_OF_QUEUE = 2, CAPS = 4, KEYS = 4, SLOTS_MAX = 3 };
enum { JOBS_MAX = 400, ITEMS_MAX = 16, CHUNK = 4, SEEN_MAX = 64, ECHOS_MAX = 128 };

#define BEAT_EVERY   (500 * ROTA_MSEC)
#define LIVENESS     (3 * BEAT_EVERY)
#define LEASE        (2 * ROTA_SEC)
#define GRACE        (2 * ROTA_SEC)
#define KILLS_MANY   1000
#define DELAY_MAX    (800 * ROTA_MSEC)
#define SLACK        (1500 * ROTA_MSEC) /* frames in flight, drift, a look now and then */
#define RESEND_AFTER (700 * ROTA_MSEC)
#define START_LATER  (5 * ROTA_MSEC)
#define LOOK_EVERY   (100 * ROTA_MSEC)
#define NO_ROOM      ((size_t)1 << 40) /* of a disk that nobody fills */

enum plant {
    PLANT_NONE,
    PLANT_ADD_EARLY,
    PLANT_END_EARLY,
    PLANT_DAMAGE,
    PLANT_EIO,
    PLANT_FULL,
    PLANT_NO_FENCE,
    PLANT_IDENTITY,
    PLANT_CANCEL_REQUEUES,
    PLANT_IMMORTAL,
    PLANT_ADDS_EARLY,
    PLANT_STALE_COPY,
    PLANT_FORGET_FIRST,
    PLANT_ADOPT_EARLY,
    PLANT_CLOSE_EARLY,
    PLANT_ALL_CAPABLE,
    PLANT_CUT_EARLY,
    PLANT_NO_LIFE,
    PLANT_WALL,
    PLANT_PAUSE_LOST,
    PLANT_PRIORITY_LOST,
    PLANT_AGE_LOST,
    PLANT_NO_DURABLE,
    PLANT_NO_KEY,
    PLANT_WEIGHT_LOST,
    PLANT_SLOTS,
    PLANT_RETRY_LOST,
    PLANT_SAME_TIME,
    PLANT_START_LATE,
    PLANT_NEVER_CAME,
    PLANT_NO_ASKING,
    PLANT_NO_STALL,
    PLANT_NO_RETURN,
    PLANT_NO_QUARANTINE,
    PLANT_STILL_OPEN,
    N_PLANTS,
};

/* What kind of world it is; from the seed, or from a scenario. */
struct shape {
    uint32_t n_brokers, n_workers, n_jobs;
    uint32_t n_caps;            /* that jobs may need and workers may have */
    bool is_fair;               /* keys with weights share one queue, all at once */
    bool are_keyed, are_unique; /* some jobs */
    bool have_deadlines, have_delays, have_priorities;
    rota_time quiet_at, end_at;
    rota_time add_every, work_for;
    rota_time broker_crash_every, worker_crash_every, pause_every, split_every, jump_every;
    rota_time restart_every; /* of a worker, within moments */
    rota_time move_every, operate_every, cancel_every;
    rota_time eio_every, full_every, flip_every, slow_every, compact_every;
    double loss, duplication;
    double fails, gives_back, refuses, hangs, repeats;
    uint32_t kills_max; /* workers that a job may kill */
    size_t jobs_max, bytes_max, ended_max;
    size_t disk_size, payload_size; /* 0: a disk that has room until it is filled; a few bytes */
};

/* --- messages --- */

enum frame_type {
    ASK_ROWS,    /* broker to table */
    TELL_ROWS,   /* ... and back */
    IMPORTED,    /* broker to table: all jobs have come */
    HAND,        /* broker to broker: jobs of a partition */
    HAND_LAST,   /* ... and there are no more */
    HAND_TAKEN,  /* ... and back: they are on disk */
    ADD,         /* submitter to broker */
    ADDED,       /* ... and back */
    CANCEL_JOB,  /* submitter to broker */
    CANCELLED,   /* ... and back */
    HELLO,       /* worker to broker: let me in */
    WELCOME,     /* ... and back */
    BEAT,        /* worker to broker: with what it has */
    BEATEN,      /* ... and back */
    NO_SESSION,  /* ... or this */
    DISPATCH,    /* broker to worker */
    CANCEL_WORK, /* broker to worker */
    CHECK,       /* broker to worker: what it has got, of attempts up to a number */
    HOLDS,       /* ... and back */
    EXTEND,      /* worker that polls to broker: what it works on */
    END,         /* worker to broker */
    ENDED,       /* ... and back */
};

struct row {
    uint64_t epoch;
    uint32_t owner, from; /* NOBODY: all its jobs are where they belong */
};

struct item_name {
    uint32_t job, run;
    uint64_t attempt;
};

/* All that is ever sent; what is large stands in the world. `run` is for the truth alone:
 * no driver looks at it. */
struct frame {
    enum frame_type type;
    uint32_t life; /* of who asks; comes back */
    uint32_t job, other, run, part, slots;
    uint64_t session, epoch, attempt, number;
    enum rota_code code;
    enum rota_job_cause cause;
    uint32_t n;
    union {
        struct item_name items[ITEMS_MAX];
        struct row rows[PARTS];
        size_t records[CHUNK]; /* in world->sent */
    };
};

/* --- the disk --- */

/* A record with all that it points to, in one block. */
struct kept {
    struct rota_work_record record;
    struct rota_job_spec spec;
    struct rota_str capabilities[CAPS];
    uint64_t batch;
    size_t size;     /* on disk */
    bool ends_batch; /* what follows is another one's */
    char bytes[];
};

/* Of a disk that is bounded. */
struct segment {
    uint64_t first; /* number */
    size_t size, used;
};

struct disk {
    ROTA_VECTOR(struct kept *) kept;      /* written, in order */
    size_t n_synced;                      /* of them */
    size_t room, reserve;                 /* bytes that may be written yet */
    uint64_t last_batch, flipped;         /* a batch with a flipped bit; 0: none */
    bool is_torn;                         /* the last batch is not whole */
    bool is_eio;                          /* the next sync fails */
    rota_time slow_for;                   /* of the next sync */
    ROTA_VECTOR(struct segment) segments; /* of one that is bounded */
    bool is_spent;                        /* its reserve was given up */
};

/* --- brokers --- */

struct held {
    uint64_t number; /* of the record that it waits for */
    bool is_ended;   /* a TELL_ENDED, for the truth; else `frame` goes to `to` */
    uint32_t to;
    struct frame frame;
};

struct sent_job {
    uint32_t job, run;
    uint64_t attempt, handed;
    rota_time sent_at, timeout; /* by the broker's clock */
};

struct session {
    uint64_t session, epoch;
    uint32_t node, life;
    struct sent_job sent[ITEMS_MAX];
    size_t n_sent;
};

struct partition {
    struct row row; /* the latest that was heard of */
    bool is_open, is_imported;
    uint64_t close_number; /* of the record that says that it is not ours */
    uint64_t chunk;        /* that is in flight; 0: none */
    size_t place;          /* of the next, in rota_broker_partition_next() */
    struct rota_job_id sent[CHUNK];
    size_t n_sent;
};

struct broker {
    /* What a process has. */
    struct rota_broker *machine;
    bool is_ready; /* it knows what it owns */
    ROTA_VECTOR(struct kept *) pending;
    ROTA_VECTOR(struct held) held;
    ROTA_VECTOR(struct session) sessions;
    struct partition parts[PARTS];
    uint64_t durable, writing_number, life, life_number, n_chunks;
    uint64_t durable_before; /* of the life before */
    bool is_writing, is_full;
    rota_time later_at;                    /* when starts are written that nothing came after */
    size_t compact_size;                   /* records that were left by the last one */
    uint64_t compact_below, compact_after; /* drop what is below when that is on disk */
    struct rota_compaction compaction;     /* of a disk that is bounded */
    struct rota_room room;
    size_t want;          /* bytes that its last segment is to take */
    rota_time well_since; /* true time */

    struct disk disk;

    /* What the truth knows of it. */
    bool paused[QUEUES], is_pause_open[QUEUES]; /* acknowledged; another was asked for */
    uint64_t pause_number[QUEUES];
    bool pause_next[QUEUES];
    uint32_t n_of_key[KEYS]; /* handed out, in a window in which all keys wait */
    uint32_t fair_slack;
};

/* --- workers --- */

struct item {
    struct item_name name;
    uint32_t broker;
    bool is_ended;
    enum rota_job_cause cause;
    rota_time due_at;
    int n_tries;
};

/* What it says once more, long after. */
struct echo {
    struct world *world;
    uint32_t node, life;
    struct item item;
};

struct link {
    uint64_t session, epoch; /* session 0: none yet */
    bool is_served;          /* a poll, which is over then */
    rota_time heard_at, hello_at;
    rota_time hello_wait;
};

struct worker {
    /* What a process has. */
    struct item items[ITEMS_MAX];
    size_t n_items;
    struct link links[BROKERS_MAX];
    uint64_t seen[SEEN_MAX]; /* attempts, mixed with their broker */
    size_t n_seen;

    char name[24];
    uint32_t caps, queues; /* sets of bits */
    uint32_t slots;
    bool has_leases; /* its attempts end unless it extends them */
    bool polls;      /* it asks for jobs, gets some, and asks again; has leases too */
    bool is_checked; /* it is asked what it has got; others are sent it again */
    uint64_t epoch;  /* of its last session; outlives the process */
    rota_time crashed_at;
};

/* --- jobs --- */

struct job {
    struct rota_job_spec spec;
    struct rota_str capabilities[CAPS];
    char payload[512], unique[16], key[16];
    uint32_t part, caps, n_key;
    rota_time add_at, next_at;  /* of the submitter: to be added, to be sent again */
    rota_time cancel_at;        /* true time; 0: not */
    rota_time again_at;         /* true time: added once more, by who has forgotten; 0: not */
    bool is_answered;           /* as the submitter knows */
    bool is_acked, is_merged;   /* into another with its unique key */
    bool is_refused;            /* permanently */
    bool is_cancel_answered;    /* one way or the other */
    bool is_cancelled, is_dead; /* on disk */
    bool is_revived;            /* perhaps: no end of it but DONE is permanently */
    bool was_refused_by_worker; /* it will never do */
    bool is_moved;              /* has had another broker, or another age in its queue */
    uint32_t home;              /* the broker that has acknowledged it */
    rota_time enqueued_at;      /* wall clock of the broker, by the record */
    uint64_t order;             /* the record that took it in */
    uint64_t whole_number;      /* the record that brought it to `whole_at` */
    uint32_t whole_at;
    int16_t priority;
    uint64_t priority_number;   /* of the record that set it */
    uint32_t done_run;          /* the run that did it, permanently; 0: none */
    uint32_t ended_run, n_runs; /* the last that a worker ended; dispatches since revived */
    rota_time not_before;       /* by the monotonic clock of `wait_at`, in life `wait_life` */
    uint32_t wait_at, wait_life;
};

struct run {
    uint32_t job, broker, node, life; /* whom it was given to */
    uint64_t attempt;
    rota_time at;              /* true time */
    enum rota_job_cause cause; /* as its worker's word was taken; NONE: not yet */

    /* Records that a crash of the broker may still take back. */
    uint64_t number;      /* of its start, or a later one */
    bool is_forgotten;    /* ... which a crash may have taken */
    uint32_t over_at;     /* the broker that wrote that it is over, and not lost; NOBODY: none */
    uint64_t over_number; /* ... in this record */
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    enum plant plant;
    struct shape shape;
    struct row rows[PARTS]; /* of the table */
    struct broker brokers[BROKERS_MAX];
    struct worker workers[WORKERS_MAX];
    struct job jobs[JOBS_MAX];
    uint32_t n_jobs;
    ROTA_VECTOR(struct run) runs; /* run r is runs.items[r - 1] */
    ROTA_VECTOR(struct kept *) sent;
    struct rota_sim_chaos broker_chaos, worker_chaos, net_chaos;
    struct echo echos[ECHOS_MAX];
    size_t n_echos;
    rota_time last_at;   /* of a record; for a plant */
    const char *why_not; /* of the end: what is not as it should be */
    /* For scenarios. */
    uint32_t n_done, n_moves, n_damages, n_fulls, n_drops, n_eios, n_stale, n_lost, n_limits;
};

/* --- small things --- */

extern const char *const queue_names[QUEUES];
extern const char *const cap_names[CAPS];
extern const uint32_t weights[KEYS];

struct rota_str queue_of(uint32_t part);
struct broker *broker_at(struct world *world, uint32_t node);
struct worker *worker_at(struct world *world, uint32_t node);
bool is_broker(const struct world *world, uint32_t node);
bool is_worker(uint32_t node);

/* Ids carry the job's number, so that the truth finds it. */
uint32_t job_of(struct rota_job_id id);
bool chance(struct world *world, double probability);
rota_time span_upto(struct world *world, rota_time max);
void post(struct world *world, uint32_t from, uint32_t to, const struct frame *frame);
struct rota_work_now now_of(const struct world *world, uint32_t node);
void start_call(void *data, uint64_t node);
void crash_call(void *data, uint64_t node);

/* The process ends after this event, and is started again after `pause`. */
void end_node(struct world *world, uint32_t node, rota_time pause);
rota_time later(rota_time a, rota_time b);
_Noreturn void die(const char *why);
