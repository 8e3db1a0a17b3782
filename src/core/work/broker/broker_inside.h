/* broker_inside: the broker, put together from its parts; private to them. Each part has a header
 * of its own, which says what it keeps and what it does for the others. Further files have none:
 * broker_view.c and broker_idle.c answer queries, broker_sound.c checks the invariants.
 *
 * A change is made completely or not at all: rota_broker_ready() allocates the memory for it
 * first. When there is none, the caller gets an error; changes without a caller, as when a
 * worker is lost, are retried with the next tick. */
#pragma once

#include "base/arena.h"
#include "core/work/broker/broker_add.h"
#include "core/work/broker/broker_chunk.h"
#include "core/work/broker/broker_class.h"
#include "core/work/broker/broker_end.h"
#include "core/work/broker/broker_ended.h"
#include "core/work/broker/broker_hand.h"
#include "core/work/broker/broker_job.h"
#include "core/work/broker/broker_load.h"
#include "core/work/broker/broker_match.h"
#include "core/work/broker/broker_node.h"
#include "core/work/broker/broker_poller.h"
#include "core/work/broker/broker_queue.h"
#include "core/work/broker/broker_replay.h"
#include "core/work/broker/broker_setting.h"
#include "core/work/broker/broker_timer.h"
#include "core/work/broker/broker_worker.h"

/* A block to be freed. */
struct rota_work_trash {
    void *block;
    size_t size; /* of a block of the table's; 0: from malloc() */
};

/* What the caller has to do, and what lives until it did. */
struct rota_broker_output {
    ROTA_VECTOR(struct rota_work_effect) effects;
    ROTA_VECTOR(struct rota_work_trash) trash; /* what effects may point to */
    struct rota_arena arena;
    struct rota_job_spec *spec_ahead; /* of the next record that has one */
    struct rota_work_record noted;    /* the last one that is not emitted */
    bool is_unwatched;
};

/* What the last view points to. */
struct rota_broker_shown {
    struct rota_job_event events[ROTA_JOB_STORY_MAX + 4];
    char put_off[ROTA_TIME_TEXT_MAX + 16]; /* of the first of them */
    struct rota_job_spec spec;             /* of the last record shown */
};

struct rota_broker {
    struct rota_broker_options options;
    struct rota_random random;
    uint64_t seed;            /* for tables */
    struct rota_work_now now; /* of this call; `boot` never goes back */
    rota_time stamp;          /* wall clock: never goes back */
    bool is_starved;

    struct rota_job_table jobs;
    struct rota_map uniques;        /* jobs by queue and unique key */
    ROTA_VECTOR(uint32_t) timers;   /* extras, a heap; preallocated */
    size_t counts[ROTA_JOB_STATES]; /* jobs of all queues */
    size_t n_live, bytes;
    uint32_t first_unsafe; /* the first job, by record, whose record is not on disk */
    struct rota_broker_adding adding;
    struct rota_broker_ended ended;

    struct rota_capabilities capabilities;
    struct rota_broker_queues queues;
    struct rota_broker_lanes lanes;
    struct rota_broker_classes classes;
    struct rota_broker_workers workers;
    struct rota_map names; /* of workers */
    struct rota_broker_matching matching;

    struct rota_broker_chunks chunks;
    ROTA_VECTOR(struct rota_work_node *) nodes; /* nodes that may hold jobs, or did */

    struct rota_broker_journal journal;
    struct rota_broker_output output;
    struct rota_broker_shown shown;
};

/* --- broker.c --- */

/* A call begins, at `now`. */
void rota_broker_at(struct rota_broker *broker, struct rota_work_now now);

/* Reserve the memory for one change of a job of `lane` (NULL: it will not wait). False when
 * there is none: the change must not begin. */
bool rota_broker_ready(struct rota_broker *broker, struct rota_lane *lane);

/* One more effect, zeroed except for its type and subject. `job` may be NULL. */
struct rota_work_effect *rota_broker_emit(struct rota_broker *broker,
                                          enum rota_work_effect_type type,
                                          const struct rota_job *job);

/* One more record, with its number and `at`. `job` may be NULL. */
struct rota_work_record *rota_broker_write(struct rota_broker *broker,
                                           enum rota_work_record_type type,
                                           const struct rota_job *job);

/* The same for one that only a journal needs: without a journal the next one overwrites it. */
struct rota_work_record *rota_broker_note(struct rota_broker *broker,
                                          enum rota_work_record_type type,
                                          const struct rota_job *job);

/* The spec of a job for the record that was written last. */
void rota_broker_attach_spec(struct rota_broker *broker, const struct rota_job *job);

/* Notify watchers, if there are any. */
void rota_broker_tell(struct rota_broker *broker, const struct rota_job *job, uint64_t number);

/* Free a block that effects may point to. Takes `block`, which may be NULL. */
void rota_broker_discard(struct rota_broker *broker, void *block);

/* A wall-clock time on the monotonic clock; ROTA_TIME_NEVER for 0. */
rota_time rota_broker_boot_of(const struct rota_broker *broker, rota_time wall);

struct rota_work_name *rota_broker_hold_name(struct rota_broker *broker, struct rota_str name);
void rota_broker_drop_name(struct rota_broker *broker, struct rota_work_name *name);

/* --- where a job is --- */

static inline struct rota_lane *rota_broker_lane_of(const struct rota_broker *broker,
                                                    const struct rota_job *job)
{
    return broker->lanes.all.items[job->lane];
}

static inline struct rota_work_queue *rota_broker_queue_of(const struct rota_broker *broker,
                                                           const struct rota_job *job)
{
    return broker->queues.all.items[rota_broker_lane_of(broker, job)->queue];
}

static inline bool rota_broker_is_of(const struct rota_broker *broker, const struct rota_job *job,
                                     const struct rota_work_queue *queue, uint32_t partition)
{
    return rota_job_partition(&broker->jobs, job) == partition &&
           rota_broker_queue_of(broker, job) == queue;
}

static inline void rota_broker_job_leave(struct rota_broker *broker, uint32_t number)
{
    if (rota_job_at(&broker->jobs, number)->flags & ROTA_JOB_IN_LANE)
        rota_broker_job_pull(broker, number);
}

/* Whether anything may be handed out at all. */
static inline bool rota_broker_may_dispatch(const struct rota_broker *broker)
{
    return broker->journal.is_begun && broker->journal.durable >= broker->journal.life_number &&
           !broker->matching.is_on_hold;
}
