/* The nodes of sim_view.c and sim_migrate.c: each the machine of core/own/view_fsm.h and a
 * driver; what must hold of them at any time; and how a world of them is made. */
#pragma once

#include "view_world.h"

bool is_served(const struct world *world, uint32_t node, uint32_t shard);
void start_node(void *data, uint64_t node);

/* The one caller of the machine. */
void drive(struct world *world, uint32_t node, struct rota_view_event event);

/* From here on the network is a good one. */
void calm(void *data, uint64_t number);
void make_world(struct world *world, struct sim_case *run, struct rota_random *shape);
void start_faults(struct world *world);
void start_database_faults(struct world *world);
void end_world(struct world *world, struct sim_case *run);
