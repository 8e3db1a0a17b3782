/* Worlds in which something certain happens: what brokers before this one have got wrong,
 * each with a look at the end whether it went right, beyond what must always hold. */
#pragma once

#include "work_hand.h"
#include "work_submit.h"
#include "work_worker.h"

enum { N_SCENARIOS = 15 };

struct scenario {
    struct sim_scenario name;
    void (*shape)(struct shape *shape);
    void (*script)(struct world *world);       /* before all begins */
    const char *(*check)(struct world *world); /* at the end; NULL: all is well */
};

struct shape calm_shape(void);
void plain_jobs(struct world *world);

extern const struct scenario scenarios[N_SCENARIOS];

/* The one that a case is in; NULL: none, all is by chance. A plant that few worlds would show has
 * one of its own. */
const struct scenario *scenario_of(const struct sim_case *run);
