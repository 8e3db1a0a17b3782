#include "core/work/job/lane.h"

#include <string.h>

void rota_lane_deinit(struct rota_lane *lane)
{
    for (size_t i = lane->from; i < lane->to; i++)
        free(lane->leaves[i]);
    free(lane->leaves);
    free(lane->spare);
    lane->leaves = NULL;
    lane->spare = NULL;
    lane->from = lane->to = lane->capacity = lane->size = 0;
}

/* Room for one more leaf at the end: free room at the front is used first. */
static bool reserve_leaves(struct rota_lane *lane)
{
    if (lane->to < lane->capacity)
        return true;
    if (lane->from > lane->capacity / 2) {
        memmove(lane->leaves, lane->leaves + lane->from,
                (lane->to - lane->from) * sizeof(struct rota_lane_leaf *));
        lane->to -= lane->from;
        lane->from = 0;
        return true;
    }
    return rota_vector_grow((void **)&lane->leaves, &lane->capacity, lane->to + 1,
                            sizeof(struct rota_lane_leaf *));
}

bool rota_lane_reserve(struct rota_lane *lane)
{
    if (!lane->spare)
        lane->spare = malloc(sizeof *lane->spare);
    return lane->spare && reserve_leaves(lane);
}

static const struct rota_job *job_in(const struct rota_lane_leaf *leaf, uint32_t index,
                                     const struct rota_job_table *table)
{
    return rota_job_at(table, leaf->jobs[index]);
}

/* The spare leaf, empty, as leaf number `index`. */
static struct rota_lane_leaf *insert_leaf(struct rota_lane *lane, size_t index)
{
    struct rota_lane_leaf *leaf = lane->spare;
    assert(leaf && lane->to < lane->capacity);
    lane->spare = NULL;
    leaf->from = leaf->to = 0;
    memmove(lane->leaves + index + 1, lane->leaves + index,
            (lane->to - index) * sizeof(struct rota_lane_leaf *));
    lane->leaves[index] = leaf;
    lane->to++;
    return leaf;
}

static void remove_leaf(struct rota_lane *lane, size_t index)
{
    struct rota_lane_leaf *leaf = lane->leaves[index];
    if (index == lane->from) {
        lane->from++;
    } else {
        memmove(lane->leaves + index, lane->leaves + index + 1,
                (lane->to - index - 1) * sizeof(struct rota_lane_leaf *));
        lane->to--;
    }
    if (lane->from == lane->to)
        lane->from = lane->to = 0;
    if (lane->spare)
        free(leaf);
    else
        lane->spare = leaf;
}

/* The last leaf whose first job is not after `job`; the first leaf when there is none. */
static size_t find_leaf(const struct rota_lane *lane, const struct rota_job_table *table,
                        const struct rota_job *job)
{
    size_t low = lane->from, high = lane->to - 1;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        const struct rota_lane_leaf *leaf = lane->leaves[middle];
        if (rota_job_is_before(job, job_in(leaf, leaf->from, table)))
            high = middle - 1;
        else
            low = middle;
    }
    return low;
}

/* The first place whose job is not before `job`. */
static uint32_t find_place(const struct rota_lane_leaf *leaf, const struct rota_job_table *table,
                           const struct rota_job *job)
{
    uint32_t low = leaf->from, high = leaf->to;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rota_job_is_before(job_in(leaf, middle, table), job))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Insert before `place`; returns its place, since others may have moved to the left. */
static uint32_t insert_job(struct rota_lane_leaf *leaf, uint32_t place, uint32_t number)
{
    if (leaf->from > 0 && (leaf->to == ROTA_LANE_LEAF || place - leaf->from < leaf->to - place)) {
        memmove(leaf->jobs + leaf->from - 1, leaf->jobs + leaf->from,
                (place - leaf->from) * sizeof leaf->jobs[0]);
        leaf->from--;
        place--;
    } else {
        memmove(leaf->jobs + place + 1, leaf->jobs + place,
                (leaf->to - place) * sizeof leaf->jobs[0]);
        leaf->to++;
    }
    leaf->jobs[place] = number;
    return place;
}

static bool is_full(const struct rota_lane_leaf *leaf)
{
    return leaf->to - leaf->from == ROTA_LANE_LEAF;
}

/* The upper half of a full leaf moves to one of its own. */
static void split_leaf(struct rota_lane *lane, size_t index)
{
    struct rota_lane_leaf *upper = insert_leaf(lane, index + 1), *leaf = lane->leaves[index];
    uint32_t half = ROTA_LANE_LEAF / 2;
    upper->to = ROTA_LANE_LEAF - half;
    memcpy(upper->jobs, leaf->jobs + half, upper->to * sizeof leaf->jobs[0]);
    leaf->to = half;
}

/* Whether the neighbors of a job that was put to `place` are in the order of age too. */
static bool is_aged(const struct rota_lane *lane, const struct rota_job_table *table, size_t index,
                    uint32_t place, const struct rota_job *job)
{
    const struct rota_lane_leaf *leaf = lane->leaves[index];
    const struct rota_job *before = NULL, *behind = NULL;
    if (place > leaf->from)
        before = job_in(leaf, place - 1, table);
    else if (index > lane->from)
        before = job_in(lane->leaves[index - 1], lane->leaves[index - 1]->to - 1, table);
    if (place + 1 < leaf->to)
        behind = job_in(leaf, place + 1, table);
    else if (index + 1 < lane->to)
        behind = job_in(lane->leaves[index + 1], lane->leaves[index + 1]->from, table);
    return (!before || before->enqueued_at <= job->enqueued_at) &&
           (!behind || behind->enqueued_at >= job->enqueued_at);
}

void rota_lane_push(struct rota_lane *lane, const struct rota_job_table *table, uint32_t number)
{
    const struct rota_job *job = rota_job_at(table, number);
    if (lane->size == 0) {
        lane->is_by_age = true;
        insert_leaf(lane, lane->to);
    }
    lane->size++;
    size_t last = lane->to - 1;
    struct rota_lane_leaf *leaf = lane->leaves[last];
    const struct rota_job *end =
        leaf->to > leaf->from ? job_in(leaf, leaf->to - 1, table) : NULL; /* empty: the first */
    if (!end || !rota_job_is_before(job, end)) {
        if (leaf->to == ROTA_LANE_LEAF)
            leaf = insert_leaf(lane, lane->to);
        leaf->jobs[leaf->to++] = number;
        lane->is_by_age = lane->is_by_age && (!end || end->enqueued_at <= job->enqueued_at);
        return;
    }
    size_t index = find_leaf(lane, table, job);
    if (is_full(lane->leaves[index])) {
        split_leaf(lane, index);
        index = find_leaf(lane, table, job);
    }
    leaf = lane->leaves[index];
    uint32_t place = insert_job(leaf, find_place(leaf, table, job), number);
    lane->is_by_age = lane->is_by_age && is_aged(lane, table, index, place, job);
}

/* Two neighbors of few jobs become one. */
static void merge_leaves(struct rota_lane *lane, size_t index)
{
    struct rota_lane_leaf *leaf = lane->leaves[index], *next = lane->leaves[index + 1];
    uint32_t n = leaf->to - leaf->from, n_next = next->to - next->from;
    if (n + n_next > ROTA_LANE_LEAF / 2)
        return;
    memmove(leaf->jobs, leaf->jobs + leaf->from, n * sizeof leaf->jobs[0]);
    memcpy(leaf->jobs + n, next->jobs + next->from, n_next * sizeof leaf->jobs[0]);
    leaf->from = 0;
    leaf->to = n + n_next;
    remove_leaf(lane, index + 1);
}

void rota_lane_remove(struct rota_lane *lane, const struct rota_job_table *table, uint32_t number)
{
    const struct rota_job *job = rota_job_at(table, number);
    size_t index = lane->from;
    lane->size--;
    if (lane->leaves[index]->jobs[lane->leaves[index]->from] == number) {
        struct rota_lane_leaf *first = lane->leaves[index];
        if (++first->from == first->to)
            remove_leaf(lane, index);
        return;
    }
    index = find_leaf(lane, table, job);
    struct rota_lane_leaf *leaf = lane->leaves[index];
    uint32_t place = find_place(leaf, table, job);
    assert(place < leaf->to && leaf->jobs[place] == number);
    memmove(leaf->jobs + place, leaf->jobs + place + 1,
            (leaf->to - place - 1) * sizeof leaf->jobs[0]);
    if (--leaf->to == leaf->from)
        remove_leaf(lane, index);
    else if (index + 1 < lane->to)
        merge_leaves(lane, index);
}

rota_time rota_lane_oldest(const struct rota_lane *lane, const struct rota_job_table *table)
{
    rota_time oldest = ROTA_TIME_NEVER;
    if (lane->size == 0)
        return 0;
    if (lane->is_by_age)
        return rota_job_at(table, rota_lane_first(lane))->enqueued_at;
    for (size_t i = lane->from; i < lane->to; i++)
        for (uint32_t k = lane->leaves[i]->from; k < lane->leaves[i]->to; k++)
            oldest = rota_time_min(oldest, job_in(lane->leaves[i], k, table)->enqueued_at);
    return oldest;
}

bool rota_lane_is_sound(const struct rota_lane *lane, const struct rota_job_table *table)
{
    const struct rota_job *last = NULL;
    size_t n = 0;
    for (size_t i = lane->from; i < lane->to; i++) {
        const struct rota_lane_leaf *leaf = lane->leaves[i];
        if (leaf->from >= leaf->to || leaf->to > ROTA_LANE_LEAF)
            return false;
        for (uint32_t k = leaf->from; k < leaf->to; k++, n++) {
            const struct rota_job *job = job_in(leaf, k, table);
            if (last && (!rota_job_is_before(last, job) ||
                         (lane->is_by_age && job->enqueued_at < last->enqueued_at)))
                return false;
            last = job;
        }
    }
    return n == lane->size;
}

size_t rota_lane_bytes(const struct rota_lane *lane)
{
    return (lane->to - lane->from + (lane->spare ? 1 : 0)) *
               rota_job_block(sizeof(struct rota_lane_leaf)) +
           lane->capacity * sizeof(struct rota_lane_leaf *) + sizeof *lane;
}
