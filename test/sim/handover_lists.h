/* handover_lists: the lists of nodes in handover_world.h, and which nodes each node believes to
 * hold jobs.
 *
 * As in src/run/work/cluster/work_broker_cluster.c, a node follows a list from the moment it reads
 * it: with its routes, the nodes that it remembers and its handovers. One that is down or paused
 * reads it later. What work_broker_settings.c sends is modeled by what arrives: a node says that it
 * may hold jobs when it follows a list that names it, and when it has taken jobs of another node;
 * some of the others hear that, and the rest when they ask, or by their lists. One that is off its
 * list and empty says so, with all that it knows. */
#pragma once

#include "handover_world.h"

struct pace choose_pace(uint64_t seed);
void begin_lists(struct world *world);

/* Whether a node is up and runs; and whether it lists another. */
bool is_well(const struct world *world, uint32_t number);
bool is_listed(const struct node *node, uint32_t other);

/* A node has just started. */
void start_list(struct world *world, uint32_t number);

/* A node may hold jobs, whatever it said before. Gives since when, by its own clock. */
rota_time announce_jobs(struct world *world, uint32_t number);

/* Where clients go: anywhere, or where it may go wrong. `is_later`: for a job that was added. */
bool has_crowd(const struct world *world);
uint32_t any_node(struct world *world, bool is_later);
uint32_t any_partition(struct world *world);
