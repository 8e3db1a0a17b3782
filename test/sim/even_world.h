/* Equal replicas and one client that has few calls at a time: what share each replica gets.
 *
 * Each caller makes one call after the other, at once or at a steady pace. The first try on a
 * replica waits until its pool is open, which takes as long as many calls. Service times vary as on
 * a busy machine: most are near the usual one, some meet a pause that is many times as long, the
 * very first answer of a process is slow, and so is the first one after it slept. Now and then a
 * whole process does not run for a while, and all its answers wait for that. */
#pragma once

#include "core/call/balancer_rule.h"
#include "sim/sim.h"

struct even_options {
    uint64_t seed;
    int n_callers;
    bool is_warm, is_paced;
    const struct rota_balancer_rule *rule;
};

/* The largest difference of a replica's share from an even one, as a part of it. A process that is
 * stopped for a part of the run may miss that part of its calls: this does not count. */
double even_run(const struct even_options *options);
