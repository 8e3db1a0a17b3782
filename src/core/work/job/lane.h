/* lane: waiting jobs with the same requirements, the next one first.
 *
 * They are in leaves, each a sorted piece, under a sorted list of leaves. A new job is appended
 * to the last leaf and a dispatched one leaves the first, neither with access to any other job:
 * that is the common case. A job that returns, changes its priority or key, or is cancelled, is
 * found by two binary searches. Leaves that are filled from the end are full, and those with few
 * jobs are merged: four bytes for a job. */
#pragma once

#include "base/list.h"
#include "core/work/job/job_table.h"

enum { ROTA_LANE_LEAF = 126 }; /* jobs */

struct rota_lane_leaf {
    uint32_t from, to;
    uint32_t jobs[ROTA_LANE_LEAF];
};

struct rota_lane {
    struct rota_lane_leaf **leaves;
    size_t from, to, capacity;    /* of leaves */
    size_t size;                  /* jobs */
    struct rota_lane_leaf *spare; /* so that the next push can't fail */
    bool is_by_age;               /* the first is the oldest */

    /* The broker's. */
    uint32_t queue, set;
    size_t n_jobs;                 /* in any state, that belong here */
    bool is_dirty;                 /* jobs have arrived */
    struct rota_list_node watches; /* those that have examined the first job; see choice.h */
};

void rota_lane_deinit(struct rota_lane *lane);

/* Make sure that the next push succeeds; false when there is no memory. */
bool rota_lane_reserve(struct rota_lane *lane);

/* Put a job, which is not inside, after rota_lane_reserve(). */
void rota_lane_push(struct rota_lane *lane, const struct rota_job_table *table, uint32_t number);

/* Take a job, which is inside, out. */
void rota_lane_remove(struct rota_lane *lane, const struct rota_job_table *table, uint32_t number);

/* The next one; 0: none. */
static inline uint32_t rota_lane_first(const struct rota_lane *lane)
{
    if (lane->size == 0)
        return 0;
    const struct rota_lane_leaf *leaf = lane->leaves[lane->from];
    return leaf->jobs[leaf->from];
}

/* The enqueue time of the oldest; 0 when there is none. */
rota_time rota_lane_oldest(const struct rota_lane *lane, const struct rota_job_table *table);

/* What decides which job goes first in one queue. */
struct rota_job_rank {
    uint64_t tag;
    rota_time enqueued_at;
    uint64_t order;
    int16_t priority;
};

static inline struct rota_job_rank rota_job_rank(const struct rota_job *job)
{
    return (struct rota_job_rank){job->tag, job->enqueued_at, job->order, job->priority};
}

static inline bool rota_job_rank_is_before(const struct rota_job_rank *a,
                                           const struct rota_job_rank *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->tag != b->tag)
        return a->tag < b->tag;
    if (a->enqueued_at != b->enqueued_at)
        return a->enqueued_at < b->enqueued_at;
    return a->order < b->order;
}

/* Whether `a` goes before `b` in one queue. Jobs that were loaded from a store, with no record
 * between them, have one order: then the id decides, which no other job of the queue has. */
static inline bool rota_job_is_before(const struct rota_job *a, const struct rota_job *b)
{
    struct rota_job_rank first = rota_job_rank(a), second = rota_job_rank(b);
    if (a->order != b->order || a->tag != b->tag || a->enqueued_at != b->enqueued_at ||
        a->priority != b->priority)
        return rota_job_rank_is_before(&first, &second);
    return a->id.high != b->id.high ? a->id.high < b->id.high : a->id.low < b->id.low;
}

/* ... and of two queues. */
static inline bool rota_job_is_older(const struct rota_job *a, const struct rota_job *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->enqueued_at != b->enqueued_at)
        return a->enqueued_at < b->enqueued_at;
    return a->order < b->order;
}

/* Whether its jobs are in order; for tests. */
bool rota_lane_is_sound(const struct rota_lane *lane, const struct rota_job_table *table);
size_t rota_lane_bytes(const struct rota_lane *lane);
