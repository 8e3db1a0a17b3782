/* job: the vocabulary of the work plane: jobs, their states, and the records about them that a
 * journal keeps.
 *
 * A submitter describes a job by a *spec*; it lives in one partition of a queue, and is run in
 * *attempts*, each by one worker that has all the capabilities the job needs. A *record* is a fact:
 * the journal holds records, and replaying them gives the jobs of a broker. Nothing that was not
 * written as a record outlives the process; nothing is acknowledged before its record is on disk.
 *
 * Times in specs and records are wall-clock times, since they outlive a process; a running
 * broker counts on the monotonic clock. */
#pragma once

#include "core/work/cluster/layout.h"

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_JOB_PAYLOAD_MAX = 16 << 20,    /* bytes of a payload, of a result */
    ROTA_JOB_CAPABILITIES_MAX = 16,     /* required by one job */
    ROTA_WORKER_CAPABILITIES_MAX = 256, /* of one worker */
    ROTA_WORKER_QUEUES_MAX = 64,        /* served by one worker */
    ROTA_WORKER_SLOTS_MAX = 4096,       /* attempts of one worker at a time */
    ROTA_CAPABILITY_NAME_MAX = 64,      /* letters, digits, '.', '_', '-', ':', '/', '=' */
    ROTA_JOB_KEY_MAX = 256,     /* bytes of a unique, fair or idempotency key, or of a trace id */
    ROTA_JOB_REASON_MAX = 1024, /* bytes of the reason of a failure */
    ROTA_JOB_PARTITIONS_MAX = 65536, /* of a queue of jobs */
    ROTA_JOB_ATTEMPTS_MAX = 1000,    /* of one job */
    ROTA_JOB_STORY_MAX = 32,         /* events of a job that are kept; older ones are dropped */
    ROTA_JOB_QUEUE_NAME_MAX = 255,   /* letters, digits, '.', '_', '-' */
    ROTA_WORKER_NAME_MAX = 128,      /* printable ASCII without blanks */
    ROTA_JOB_ATTEMPTS_DEFAULT = 5,
    ROTA_JOB_KILLS_DEFAULT = 3, /* workers that die at a job before it is dead */
    ROTA_JOB_FORESEEN = 16,     /* see rota_broker_foresee() */
};

#define ROTA_JOB_BACKOFF_FIRST (1 * ROTA_SEC) /* doubles with each attempt, with jitter */
#define ROTA_JOB_BACKOFF_MAX   (10 * ROTA_MIN)
/* After its timeout the worker ends an attempt: it stops the command and reports its output; the
 * broker ends it this much later, if the worker has not. */
#define ROTA_JOB_TIMEOUT_GRACE (10 * ROTA_SEC)
#define ROTA_JOB_KEEP          (1 * ROTA_HOUR) /* how long an ended job is kept */

/* 48 bits of the millisecond it was made in, 16 bits of its partition, a 12-bit checksum of the
 * others, 52 random bits; as text 32 hexadecimal digits. 0, 0 means no job. The submitter may
 * choose it, so that an add with an unknown outcome can be repeated; or give an idempotency key,
 * from which the id is derived. Another id, such as a UUID, may be anything: the checksum
 * distinguishes it from ours, and rota_job_id_place() says where its job belongs. */
struct rota_job_id {
    uint64_t high, low;
};

enum { ROTA_JOB_ID_TEXT = 33 }; /* with its NUL */

static inline uint32_t rota_job_id_partition(struct rota_job_id id)
{
    return (uint32_t)(id.high & 0xffff);
}

static inline bool rota_job_id_is_none(struct rota_job_id id)
{
    return id.high == 0 && id.low == 0;
}

struct rota_job_id rota_job_id_make(rota_time wall, uint32_t partition, uint64_t chance);

/* The id of the job that was added to `queue` under an idempotency key. `partitions` is how many
 * every queue begins with, not how many this one has now: the id has to stay the same. */
struct rota_job_id rota_job_id_of_key(struct rota_str queue, struct rota_str key,
                                      uint32_t partitions);

/* Whether rota_job_id_make() made it; never one that was derived from a key. One in 4096 other
 * ids passes for ours. */
bool rota_job_id_is_made(struct rota_job_id id);

/* The partition of a job with this id: the one in the id if rota_job_id_make() made it or if it
 * is below `partitions`, how many every queue begins with; else one of these. It depends on
 * nothing that changes, so that a job is found where it was put. */
uint32_t rota_job_id_place(struct rota_job_id id, uint32_t partitions);
char *rota_job_id_format(struct rota_job_id id, char text[ROTA_JOB_ID_TEXT]);
enum rota_code rota_job_id_parse(struct rota_str text, struct rota_job_id *id,
                                 struct rota_error *error);

/* What a submitter asks for. Everything is borrowed; zero means the default, or none. */
struct rota_job_spec {
    struct rota_job_id id;
    struct rota_str queue;
    uint32_t partition;
    const struct rota_str *capabilities; /* needed, in any order */
    size_t n_capabilities;
    struct rota_str payload;
    int16_t priority;               /* the highest goes first */
    rota_time not_before;           /* wall clock */
    rota_time deadline;             /* wall clock: not started after it, and stopped */
    rota_time timeout;              /* duration: of one attempt */
    uint32_t max_attempts;          /* 0: ROTA_JOB_ATTEMPTS_DEFAULT */
    rota_time backoff, backoff_max; /* durations; 0: the defaults */
    struct rota_str unique; /* no second job with this key in this queue while one waits or runs */
    struct rota_str key;    /* the fair key: keys share a queue fairly */
    struct rota_str trace;  /* stored, never interpreted */
    bool is_keyed;          /* the id was derived from a key: whatever job has it is the same job */
};

enum rota_job_state {
    ROTA_JOB_WAITING, /* for a worker */
    ROTA_JOB_DELAYED, /* for its time: not before, or after a failure */
    ROTA_JOB_RUNNING,
    ROTA_JOB_DONE,
    ROTA_JOB_DEAD, /* out of attempts or time, or refused; kept (dead-letter) until an operator
                      retries it */
    ROTA_JOB_CANCELLED,
};

enum { ROTA_JOB_STATES = ROTA_JOB_CANCELLED + 1 };

/* Why an attempt or a job came to its end. */
enum rota_job_cause {
    ROTA_JOB_CAUSE_NONE,
    ROTA_JOB_CAUSE_DONE,
    ROTA_JOB_CAUSE_FAILED,     /* the worker reports: try again */
    ROTA_JOB_CAUSE_REFUSED,    /* the worker reports: it can never succeed */
    ROTA_JOB_CAUSE_LOST,       /* its worker was lost */
    ROTA_JOB_CAUSE_TIMED_OUT,  /* the attempt took too long */
    ROTA_JOB_CAUSE_GIVEN_BACK, /* the worker stops; does not count as an attempt */
    ROTA_JOB_CAUSE_DEADLINE,
    ROTA_JOB_CAUSE_CANCELLED,
    ROTA_JOB_CAUSE_RETRIED,     /* a dead one, by an operator */
    ROTA_JOB_CAUSE_HANDED_OVER, /* to another broker */
};

/* Records. */
enum rota_work_record_type {
    ROTA_WORK_ADD,      /* a job: its spec with the id set, `at` when it was enqueued */
    ROTA_WORK_JOB,      /* a job as it is now, in place of its earlier records */
    ROTA_WORK_START,    /* `attempt` by `worker` began. Written, but nothing waits for it */
    ROTA_WORK_RETRY,    /* back to the queue, not before `not_before`, for `cause` */
    ROTA_WORK_END,      /* DONE with `bytes`, DEAD or CANCELLED for `cause`, `reason` */
    ROTA_WORK_REVIVE,   /* a dead one waits again, with all its attempts */
    ROTA_WORK_PRIORITY, /* of a waiting job is now `priority` */
    ROTA_WORK_PAUSE,    /* `queue` is paused, or resumed */
    ROTA_WORK_WEIGHT,   /* `key` in `queue` weighs `weight` */
    ROTA_WORK_FORGET,   /* an ended job, or one that was handed over */
    ROTA_WORK_LIFE,     /* a broker begins its life `attempt`: its attempts are above */
    ROTA_WORK_OWN,      /* `partition` of `queue` is ours under `epoch`; 0: no longer */
    ROTA_WORK_CHUNK,    /* `id`: the jobs `bytes` of `partition` of `queue` go to `key` and nowhere
                           else; without bytes: they have arrived; without a key: it is over */
    ROTA_WORK_TAKEN,    /* chunk `id` of another broker is here; `state` is its state */
    ROTA_WORK_LAYOUT,   /* the partitions of `queue` are as `layout` says */
    ROTA_WORK_NODE,     /* the state of node `key` since `at` is `weight`, an enum
                           rota_broker_node_state */
};

enum { ROTA_WORK_RECORDS = ROTA_WORK_NODE + 1 };

/* What is undone when a lost attempt is resumed; 0: nothing. Its worker is that of the record. */
enum {
    ROTA_WORK_LOST_OURS = 1,   /* the broker was the cause, and it did not count */
    ROTA_WORK_LOST_KILLED = 2, /* it killed its worker; plus the size of `key` before that */
};

/* One record; which fields count depends on its type. Everything is borrowed. */
struct rota_work_record {
    enum rota_work_record_type type;
    uint64_t number; /* grows by one with each record of a journal */
    struct rota_job_id id;
    const struct rota_job_spec *spec;      /* of ADD and JOB */
    const struct rota_work_layout *layout; /* of LAYOUT */
    rota_time at;                          /* wall clock; of JOB: when it was enqueued */
    rota_time since;                       /* wall clock; of JOB: when it began to run, or ended */
    uint64_t attempt;                      /* see broker.h */
    uint32_t n_attempts;                   /* attempts that counted so far */
    enum rota_job_state state;             /* of JOB and END */
    enum rota_job_cause cause;
    rota_time not_before;
    int16_t priority;
    bool is_paused;
    uint32_t weight; /* of JOB, RETRY and START: workers that died at it, named in `key`; of PAUSE:
                        the limit of these, 0: the default */
    uint32_t partition;
    uint64_t epoch; /* of OWN; of a JOB that is handed over: the life of its former owner */
    uint32_t
        lost; /* of a JOB whose last attempt was lost and may be resumed: see ROTA_WORK_LOST_OURS */
    uint64_t tag;
    struct rota_str queue, key, worker, reason;
    struct rota_str bytes; /* a result; of CHUNK: ids, 16 bytes each */
};

/* "waiting", "timed out", "add". Any thread. */
const char *rota_job_state_name(enum rota_job_state state);
const char *rota_job_cause_text(enum rota_job_cause cause);
const char *rota_job_work_record_name(enum rota_work_record_type type);

/* A reason or a progress as it is kept: one of more than ROTA_JOB_REASON_MAX bytes is cut there,
 * between characters, and ends with a mark that says so. `room` is for the cut text. */
struct rota_str rota_job_reason_cut(struct rota_str text, char room[ROTA_JOB_REASON_MAX]);

/* Whether a text is valid; the error says what it would have to be. */
enum rota_code rota_job_check_capability(struct rota_str name, struct rota_error *error);
enum rota_code rota_job_check_size(struct rota_str bytes, size_t max, const char *what,
                                   struct rota_error *error);
enum rota_code rota_job_queue_check(struct rota_str name, struct rota_error *error);

/* Whether a spec is valid: names, sizes, numbers. The id is not checked. */
enum rota_code rota_job_spec_check(const struct rota_job_spec *spec, struct rota_error *error);

/* The same for a queue whose name is known to be valid. */
enum rota_code rota_job_spec_check_rest(const struct rota_job_spec *spec, struct rota_error *error);
