/* chaos: random faults, from the seed, and their end.
 *
 * Each kind of fault strikes after exponential gaps, at one node of a range, and is undone after an
 * exponential duration. At `quiet_at` all of them are undone and none follows, so that what must
 * happen once faults stop can be checked. Loss, delay and drift are the world's and stay.
 *
 * Several may run in one world, with other rates for other nodes; each draws from a stream of
 * its own. */
#pragma once

#include "sim/sim.h"

struct rota_sim_chaos_options {
    uint32_t first_node, n_nodes; /* the affected nodes; n_nodes 0: all from first_node on */
    rota_time quiet_at;           /* true time */

    /* The mean gap between two faults of a kind (0: none of this kind), and
     * how long one lasts in the mean. */
    rota_time crash_every, crash_for;
    rota_time pause_every, pause_for;
    rota_time split_every, split_for; /* in two groups, or one node in one direction */

    /* The wall clock of a node is set to the truth, give or take `jump_max`; it stays so until
     * the next jump, or until the end of the faults. */
    rota_time jump_every, jump_max;
};

/* In the caller's memory; kept by the world. */
struct rota_sim_chaos {
    struct rota_sim *sim;
    struct rota_sim_chaos_options options;
    struct rota_random random;
};

/* Begin now. */
void rota_sim_chaos_start(struct rota_sim_chaos *chaos, struct rota_sim *sim,
                          const struct rota_sim_chaos_options *options);
