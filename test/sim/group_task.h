/* A task of group_world.h: the real machine and its driver, which knows the log and
 * the group by messages alone. */
#pragma once

#include "group_log.h"
#include "group_reader.h"
#include "group_rounds.h"

void drive(struct world *world, uint32_t node, struct rota_group_event event);
void task_on_start(struct world *world, uint32_t node);
void task_on_crash(struct world *world, uint32_t node);
void task_on_message(struct world *world, uint32_t node, const struct note *message);
void task_on_timer(struct world *world, uint32_t node, uint32_t timer);
