/* Scenarios of a task group: how such groups are known to have failed (B), or could
 * (H), each as a world in which just that continues. What must hold is the same as
 * ever.
 *
 * Two are shown by a unit test alone, which can point at the one thing: B12, for
 * nothing is looked up when a partition starts, and H6, a log that loses what it
 * acknowledged. */
#pragma once

#include "group_task.h"

struct scenario {
    void (*shape)(struct shape *shape);
    void (*script)(struct world *world);
};

enum { N_SCENARIOS = 23 };

extern const struct sim_scenario scenario_names[N_SCENARIOS];

void no_faults(struct shape *shape);
void shape_b11(struct shape *shape);
void shape_h7(struct shape *shape);
void shape_h10(struct shape *shape);

/* One side of a task's links is cut for a while, to the log or to the group. */
void heal_call(void *data, uint64_t number);
void script_h7(struct world *world);

extern const struct scenario scenarios[N_SCENARIOS];
