/* tally: how many workers serve a queue, over all nodes of a cluster.
 *
 * A worker is connected to several nodes at a time, to each with all its free slots, so a sum
 * over nodes would count it several times. Here workers are identified by name: a worker runs
 * the sum of what it runs at all nodes, and its free slots are the most that it reported to one
 * node. One without a name counts separately. */
#pragma once

#include "base/arena.h"
#include "base/map.h"

struct rota_tally {
    struct rota_map by_queue, by_worker; /* of what is in `arena` */
    struct rota_arena arena;
};

struct rota_tally_sum {
    uint64_t n_workers, n_slots, n_free;
};

void rota_tally_init(struct rota_tally *tally, uint64_t seed);
void rota_tally_deinit(struct rota_tally *tally);

/* A worker, or a poll, as node number `node` reports it; nodes come one after the other. False
 * without memory. */
bool rota_tally_add(struct rota_tally *tally, size_t node, struct rota_str queue,
                    struct rota_str worker, uint64_t slots, uint64_t n_running);

struct rota_tally_sum rota_tally_of(const struct rota_tally *tally, struct rota_str queue);
