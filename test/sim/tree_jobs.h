/* Jobs at their node and with workers, modelled; and visits, on which jobs are fetched. */
#pragma once

#include "tree_world.h"

void set_idle(struct world *world, struct worker *worker);
void wait_again(struct world *world, struct job *job);
bool finish(struct world *world, uint32_t number, uint64_t attempt, enum rota_code *code);

/* What waits at a node goes to the idle there, the oldest first. */
void match_here(struct world *world, uint32_t node);

/* All who went are back, or nobody went: whoever has sent them is told. */
void end_trip(struct world *world, uint32_t node, struct trip *trip);

/* As many idle workers as can do it go. */
void go(struct world *world, uint32_t node, uint32_t from, const struct message *visit);
void on_poll(struct world *world, uint32_t node, uint32_t from, const struct message *message);
struct rota_job_id job_id(uint32_t job);
void on_handed(struct world *world, uint32_t node, uint32_t w, const struct message *reply);
