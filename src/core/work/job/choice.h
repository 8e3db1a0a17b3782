/* choice: which of many lanes of one queue has the job that goes next.
 *
 * A class of workers has a choice for each of its queues, which *watches* the lanes that they can
 * serve: a heap of lanes, by their first job when last examined. The first job of a lane changes in
 * two ways. To a later one, when a job has left: watches are not notified; the heap's entry is then
 * too early, which is found when the lane reaches the top. To an earlier one, when a job has
 * arrived: the watches that have examined the lane are notified, once, and examine it again before
 * the next choice. So the cost of a job that arrives or leaves does not depend on the number of
 * classes, and a choice examines only lanes that have changed, each for the logarithm of their
 * number.
 *
 * Invariant: the heap's entry of a lane is not after its first job, unless the lane is among
 * those to be examined again. */
#pragma once

#include "core/work/job/lane.h"

/* A choice's view of a lane. */
struct rota_lane_watch {
    struct rota_choice *choice;
    struct rota_lane *lane;
    struct rota_list_node link; /* of the lane once examined, or of the choice */
    struct rota_job_rank first; /* of the lane, when examined; while in the heap */
    size_t place;               /* 1 + that in the heap; 0: the lane was empty */
    bool has_looked;
};

struct rota_choice {
    ROTA_VECTOR(struct rota_lane_watch *) watches;
    ROTA_VECTOR(struct rota_lane_watch *) heap;
    struct rota_list_node changed; /* watches to be examined again */
    struct rota_lane_watch *spare; /* so that the next watch can't fail */
};

void rota_choice_init(struct rota_choice *choice);
void rota_choice_deinit(struct rota_choice *choice);

/* Make sure that the next watch succeeds; false when there is no memory. */
bool rota_choice_reserve(struct rota_choice *choice);

/* Watch a lane, after rota_choice_reserve(); and no longer. Keeps `lane`. */
void rota_choice_watch(struct rota_choice *choice, struct rota_lane *lane);
void rota_choice_unwatch(struct rota_choice *choice, struct rota_lane *lane);

/* An earlier job is first in `lane`, or the first one of an empty lane. */
void rota_choice_tell(struct rota_lane *lane);

/* The job that goes next; 0: all lanes are empty. Adds the number of lanes examined to
 * `*n_looks`. */
uint32_t rota_choice_first(struct rota_choice *choice, const struct rota_job_table *table,
                           uint64_t *n_looks);

/* Whether the invariant holds; for tests. */
bool rota_choice_is_sound(const struct rota_choice *choice, const struct rota_job_table *table);
