/* The driver of a node: it carries out the actions of tree_fsm and remote_fsm, and passes them
 * messages and failures. */
#pragma once

#include "tree_jobs.h"

/* Until there is nothing more to do: what is sent to ourselves happens at once. */
void turn(struct world *world, uint32_t number);
void on_message(void *data, uint32_t node, uint32_t from, struct rota_str bytes);
void on_timer(void *data, uint32_t node, uint32_t timer);
