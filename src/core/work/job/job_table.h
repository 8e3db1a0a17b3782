/* job_table: the jobs of a broker, compact.
 *
 * A waiting job has to be cheap, since there may be millions: what every job has is in `struct
 * rota_job`, what few of them have in a `struct rota_job_extra` of its own, such as times, keys,
 * attempts and results. Both are in slabs and are identified by numbers. The index by id grows and
 * shrinks by one bucket at a time (linear hashing), so that no add pays for the others.
 *
 * Jobs are also in a list by the number of their last whole record, ADD or JOB: its head keeps
 * the oldest segment of a journal needed, its tail is what is not on disk yet. */
#pragma once

#include "core/work/job/blocks.h"
#include "core/work/job/job.h"
#include "core/work/job/slab.h"

enum { ROTA_JOB_NO_JOB = 0xff }; /* the state of a number that no job has */

enum rota_job_flag {
    ROTA_JOB_IN_LANE = 1, /* it may be handed out */
    ROTA_JOB_UNSAFE = 2,  /* its whole record is not on disk */
    ROTA_JOB_PLACED = 4,  /* its partition is not the one in its id: it is in the extra */
};

struct rota_job {
    uint32_t id_next;      /* in its bucket; first, see rota_slab_give() */
    uint32_t payload_size; /* kept after the payload is freed, see rota_job_payload() */
    struct rota_job_id id;
    rota_time enqueued_at;
    uint64_t tag;
    uint64_t order;  /* the number of its first record here: the last tie-breaker */
    uint64_t record; /* the number of its last whole record */
    union {
        char *payload;         /* until it is DONE ... */
        uint64_t payload_hash; /* ... and its hash, from then on; 0: not known */
    };
    uint32_t newer, older; /* by `record` */
    uint32_t lane;         /* its queue and what it needs */
    uint32_t extra;        /* 0: none */
    uint32_t hash;         /* of its id, see rota_job_table_hash() */
    int16_t priority;
    uint8_t state;
    uint8_t flags;
};

/* A shared name, reference-counted. */
struct rota_work_name {
    struct rota_work_poller *pollers; /* of this name */
    uint32_t n_refs;
    uint32_t size;
    char bytes[];
};

struct rota_job_moment {
    rota_time at; /* wall clock */
    uint64_t attempt;
    struct rota_work_name *worker; /* a reference; NULL: none */
    char *reason;                  /* owned */
    uint16_t reason_size;
    uint8_t state, cause;
};

/* The history of a job that returned. It also has the workers that died at the job: how many,
 * and their names, a text for people. */
struct rota_job_story {
    uint32_t size, capacity;
    char *killed; /* owned */
    uint16_t killed_size, n_killed;
    uint16_t killed_before; /* its size without the last one, if the last attempt added that */
    bool was_killed;        /* ... and whether it did */
    bool was_ours;          /* the broker lost the last attempt, and it did not count */
    struct rota_job_moment moments[];
};

struct rota_fair_key;
struct rota_work_poller;

struct rota_job_extra {
    uint32_t job;
    uint32_t timer_place; /* 1 + its place among the timers; 0: it has none */
    rota_time timer_at;   /* monotonic */

    /* Of the spec. */
    rota_time not_before, deadline; /* wall clock */
    rota_time timeout, backoff, backoff_max;
    uint32_t max_attempts;
    uint16_t unique_size, key_size, trace_size;
    char *text; /* the number of the queue and the unique key, the fair key, the trace */
    struct rota_fair_key *key; /* while it has not ended */

    /* On the monotonic clock; ROTA_TIME_NEVER: not at all. An ended job waits to be forgotten. */
    rota_time wait_until, deadline_at, attempt_until, lease_until;

    rota_time lease;   /* duration: of the running attempt */
    rota_time started; /* wall clock: when it began to run; 0 if that is in the history */
    rota_time since;   /* wall clock: when it ended */
    uint64_t attempt;  /* the last that began; 0: none */
    uint64_t session;  /* of the worker that runs it; 0: none is connected */
    uint64_t ended;    /* the last attempt that ended ... */
    uint64_t ended_by; /* ... by the record of this number */
    struct rota_work_name *worker;
    struct rota_work_poller
        *poller; /* the poller that has it by a lease; NULL: a session, or not known */
    struct rota_job_story *story;
    char *progress, *reason, *result;
    uint32_t result_size;
    uint16_t progress_size, reason_size;
    uint32_t n_attempts;
    union {
        struct {
            uint32_t next_job,
                previous_job; /* while a session runs it: other jobs of that session */
        };
        struct {
            uint32_t next_ended, previous_ended; /* once it has ended: extras of ended jobs */
        };
    };
    uint8_t cause; /* why it is in its state */
    uint8_t ended_cause;
    bool is_put_off;    /* it was added with a start time */
    uint32_t handed;    /* the low bits of its dispatch number, see struct rota_broker */
    uint16_t partition; /* of a job that is PLACED */
    bool is_unsent;     /* its attempt: the worker has not got it yet */
    char spare[1];      /* rounds the size up to a power of two */
};

struct rota_job_table {
    struct rota_slab jobs, extras;
    struct rota_blocks blocks;            /* payloads, results and texts */
    uint32_t foreseen[ROTA_JOB_FORESEEN]; /* hashes of the last ones, a ring */
    unsigned n_foreseen;
    uint64_t seeds[2];
    ROTA_VECTOR(uint32_t *) buckets; /* in pieces */
    size_t n_buckets, n_split;       /* a power of two, and how many of these are split */
    uint32_t oldest, newest;         /* by record */
    size_t bytes;                    /* of stories, with malloc's overhead */
};

void rota_job_table_init(struct rota_job_table *table, uint64_t seed);
void rota_job_table_deinit(struct rota_job_table *table);

static inline struct rota_job *rota_job_at(const struct rota_job_table *table, uint32_t number)
{
    return rota_slab_at(&table->jobs, number);
}

/* A DONE job does not need its payload: it is freed, and so it is empty. */
static inline struct rota_str rota_job_payload(const struct rota_job *job)
{
    return job->state == ROTA_JOB_DONE ? rota_str_of("", 0)
                                       : rota_str_of(job->payload, job->payload_size);
}

static inline struct rota_job_extra *rota_job_extra_at(const struct rota_job_table *table,
                                                       uint32_t number)
{
    return rota_slab_at(&table->extras, number);
}

/* NULL when it has none. */
static inline struct rota_job_extra *rota_job_extra_of(const struct rota_job_table *table,
                                                       const struct rota_job *job)
{
    return job->extra ? rota_job_extra_at(table, job->extra) : NULL;
}

/* ... of a job that is known to have one: all except those that wait for the first time. */
static inline struct rota_job_extra *rota_job_extra_known(const struct rota_job_table *table,
                                                          const struct rota_job *job)
{
    assert(job->extra);
    return rota_job_extra_at(table, job->extra);
}

/* The partition of a job. An id that a client chose may name a partition that its queue lacks. */
static inline uint32_t rota_job_partition(const struct rota_job_table *table,
                                          const struct rota_job *job)
{
    return job->flags & ROTA_JOB_PLACED ? rota_job_extra_known(table, job)->partition
                                        : rota_job_id_partition(job->id);
}

/* Texts of the spec; empty when there is none. */
static inline struct rota_str rota_job_extra_key(const struct rota_job_extra *extra)
{
    return rota_str_of(extra->key_size ? extra->text + sizeof(uint32_t) + extra->unique_size : "",
                       extra->key_size);
}

static inline struct rota_str rota_job_extra_trace(const struct rota_job_extra *extra)
{
    size_t at = sizeof(uint32_t) + extra->unique_size + extra->key_size;
    return rota_str_of(extra->trace_size ? extra->text + at : "", extra->trace_size);
}

/* A new job under `id`, else zeroed; 0 when there is no memory. It is in no list. */
uint32_t rota_job_table_add(struct rota_job_table *table, struct rota_job_id id);

/* Remove the job from the index and the list; its number is free. Its memory outside the table
 * must have been freed. */
void rota_job_table_remove(struct rota_job_table *table, uint32_t number);

/* The job's extra, made if it has none; NULL when there is no memory. */
struct rota_job_extra *rota_job_table_need_extra(struct rota_job_table *table, uint32_t number);
void rota_job_table_drop_extra(struct rota_job_table *table, uint32_t number);

/* Clients choose ids: without the table's seeds they can't make hashes collide. */
static inline uint32_t rota_job_table_hash(const struct rota_job_table *table,
                                           struct rota_job_id id)
{
    __extension__ unsigned __int128 product =
        (unsigned __int128)(id.low ^ table->seeds[0]) * ((id.high ^ table->seeds[1]) | 1);
    uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64) ^ id.low;
    mixed *= 0x94d049bb133111ebu;
    return (uint32_t)(mixed ^ mixed >> 32);
}

/* The first job under `id`, and the next one with the same id after `number`; 0: none. */
uint32_t rota_job_table_find(const struct rota_job_table *table, struct rota_job_id id);
uint32_t rota_job_table_find_next(const struct rota_job_table *table, uint32_t number);

/* `id` will be looked up, or added, after ROTA_JOB_FORESEEN others: it is prefetched meanwhile.
 * Only for speed. */
void rota_job_table_foresee(struct rota_job_table *table, struct rota_job_id id);

/* ... and at once: its place in the index; and, when that is in the cache, the jobs there. */
void rota_job_table_fetch_place(const struct rota_job_table *table, uint32_t hash);
void rota_job_table_fetch_others(const struct rota_job_table *table, uint32_t hash);

/* The next job after `number`, unordered; 0 ends it. Start with 0. */
uint32_t rota_job_table_next(const struct rota_job_table *table, uint32_t number);

/* Its whole record is `record`, the newest of all. */
void rota_job_table_put_newest(struct rota_job_table *table, uint32_t number, uint64_t record);

/* The memory that the allocator takes for a block of `size`. */
static inline size_t rota_job_block(size_t size)
{
    size_t block = (size + 8 + 15) / 16 * 16;
    return block < 32 ? 32 : block;
}

size_t rota_job_table_bytes(const struct rota_job_table *table);
