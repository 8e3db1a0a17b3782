/* choice: of many lanes of one queue, the one whose first job goes next.
 *
 * A class of workers has a choice for each of its queues, which *watches* the lanes that they
 * can serve: a heap of lanes, by what was first in them when they were looked at. What is first
 * in a lane changes in two ways. A later job, when one has left: nobody is told; what the heap
 * knows is too early then, which is found out when the lane comes up. An earlier job, when one
 * has come: the watches that have looked are told, once, and look again before the next choice.
 * So neither a job that comes nor one that goes costs anything by the number of classes, and a
 * choice looks at the lanes alone that have changed: each time for the logarithm of all.
 *
 * Invariant: what the heap knows of a lane is not behind its first job, unless the lane is
 * among those that have to be looked at again. */
#pragma once

#include "core/work/lane.h"

/* The eye of a choice on a lane. */
struct rota_lane_watch {
    struct rota_choice *choice;
    struct rota_lane *lane;
    struct rota_lane_watch *next, *previous; /* of the lane when it has looked, or of the choice */
    struct rota_job_rank first;              /* in the lane, when it looked; while in the heap */
    size_t place;                            /* 1 + that in the heap; 0: the lane was empty */
    bool has_looked;
};

struct rota_choice {
    ROTA_VECTOR(struct rota_lane_watch *) watches;
    ROTA_VECTOR(struct rota_lane_watch *) heap;
    struct rota_lane_watch *changed; /* have to look again */
    struct rota_lane_watch *spare;   /* so that the next watch can't fail */
};

void rota_choice_deinit(struct rota_choice *choice);

/* Make sure that the next watch succeeds; false when there is no memory. */
bool rota_choice_reserve(struct rota_choice *choice);

/* Watch a lane, after rota_choice_reserve(); and no longer. Keeps `lane`. */
void rota_choice_watch(struct rota_choice *choice, struct rota_lane *lane);
void rota_choice_unwatch(struct rota_choice *choice, struct rota_lane *lane);

/* An earlier job is first in `lane`, or any where there was none. */
void rota_choice_tell(struct rota_lane *lane);

/* The job that goes next; 0: all lanes are empty. Adds the lanes that it looked at to
 * `*n_looks`. */
uint32_t rota_choice_first(struct rota_choice *choice, const struct rota_job_table *table,
                           uint64_t *n_looks);

/* Whether the invariant holds; for tests. */
bool rota_choice_is_sound(const struct rota_choice *choice, const struct rota_job_table *table);
