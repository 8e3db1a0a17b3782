/* broker_queue: queues, partitions, lanes. */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "core/work/broker/broker.h"
#include "core/work/job/fair.h"
#include "core/work/job/job_table.h"

#define ROTA_BROKER_NONE UINT32_MAX /* no lane */

struct rota_work_partition {
    uint32_t number;
    bool is_open;
    bool is_loaded; /* and not opened since: times and tags have to be set */
    uint64_t epoch; /* the highest that was seen */
    size_t n_jobs;  /* in any state */
    size_t n_live;  /* those that have not ended */
    size_t n_drawn; /* of these: a layout chose the partition, not the id */
    uint32_t place; /* where the next chunk starts */
};

struct rota_work_queue {
    uint32_t number;
    bool is_paused;
    uint32_t kills_max;  /* see rota_broker_set_kills(); 0: the default */
    rota_time paused_at; /* wall clock: when both were set; 0: never */
    struct rota_work_layout layout;
    rota_time laid_at;                                  /* the same, for the layout */
    ROTA_VECTOR(struct rota_work_partition) partitions; /* by number */
    ROTA_VECTOR(uint32_t) lanes;                        /* by set; ROTA_BROKER_NONE: none */
    struct rota_fair_queue fair;
    size_t counts[ROTA_JOB_STATES];
    size_t n_lanes, n_classes;
    uint64_t least_tag; /* minimum tag, while a broker begins */
    uint64_t n_added, n_done, n_dead, n_retries, n_quarantined;
    bool is_noted;                        /* in `empties` of all */
    bool is_deleted;                      /* deleted, and not used since */
    struct rota_work_queue *left, *right; /* in `in_order` of all */
    uint64_t rank;                        /* there: not below those of the two */
    uint16_t name_size;
    char name[ROTA_JOB_QUEUE_NAME_MAX];
};

struct rota_broker_queues {
    ROTA_VECTOR(struct rota_work_queue *) all; /* NULL: the number is free */
    struct rota_map by_name;
    struct rota_work_queue *in_order; /* by name: the root of a treap */
    struct rota_work_queue *last;     /* the last one looked up */
    size_t free_number;               /* none below is free */
    ROTA_VECTOR(uint32_t) empties;    /* those that may have become empty */
    uint64_t n_layouts;               /* layouts ever set */
};

struct rota_broker_lanes {
    ROTA_VECTOR(struct rota_lane *) all; /* NULL: the number is free */
    ROTA_VECTOR(uint32_t) dirty;         /* those with new jobs; preallocated */
    size_t n, free_number;               /* none below is free */
    struct rota_fair fair;
};

/* NULL when there is none. */
struct rota_work_queue *rota_broker_queue(const struct rota_broker *broker, struct rota_str name);
/* The first one by name after `name`; NULL at the end. */
struct rota_work_queue *rota_broker_queue_after(const struct rota_broker *broker,
                                                struct rota_str name);

/* ... and made if needed. */
enum rota_code rota_broker_queue_need(struct rota_broker *broker, struct rota_str name,
                                      struct rota_work_queue **queue, struct rota_error *error);
void rota_broker_queue_free(struct rota_broker *broker, struct rota_work_queue *queue);

/* Its last job or class is perhaps gone. Without memory, that is found when the limit is
 * reached. */
void rota_broker_queue_note_empty(struct rota_broker *broker, struct rota_work_queue *queue);

/* The lane of a spec, made if needed. Lanes without jobs are dropped when others need the room. */
enum rota_code rota_broker_queue_need_lane(struct rota_broker *broker,
                                           const struct rota_job_spec *spec,
                                           struct rota_lane **lane, struct rota_error *error);

/* NULL when it is unknown. It is at its own number when all below are known. */
struct rota_work_partition *rota_broker_queue_search_partition(const struct rota_work_queue *queue,
                                                               uint32_t partition);

static inline struct rota_work_partition *rota_broker_partition(const struct rota_work_queue *queue,
                                                                uint32_t partition)
{
    if (partition < queue->partitions.size &&
        queue->partitions.items[partition].number == partition)
        return &queue->partitions.items[partition];
    return rota_broker_queue_search_partition(queue, partition);
}

enum rota_code rota_broker_queue_need_partition(struct rota_work_queue *queue, uint32_t number,
                                                struct rota_work_partition **partition,
                                                struct rota_error *error);

/* Whether a job is in its partition because a layout chose that, not its id. */
static inline bool rota_broker_is_drawn(const struct rota_job *job)
{
    return !(job->flags & ROTA_JOB_PLACED) && rota_job_id_is_made(job->id);
}

static inline struct rota_str rota_broker_queue_name(const struct rota_work_queue *queue)
{
    return rota_str_of(queue->name, queue->name_size);
}

/* The job under `id` in a queue; 0: none. */
uint32_t rota_broker_queue_find_job(const struct rota_broker *broker, struct rota_str queue,
                                    struct rota_job_id id);

/* ... and the error when there is none. */
enum rota_code rota_broker_queue_want_job(const struct rota_broker *broker, struct rota_str queue,
                                          struct rota_job_id id, uint32_t *number,
                                          struct rota_error *error);
