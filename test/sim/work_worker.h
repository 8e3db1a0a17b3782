/* Workers: each has a session at every broker, beats, works for as long as it takes, and
 * says how it went until it is answered. Some are slow, some answer again much later, and all
 * of them crash, pause and come back. */
#pragma once

#include "work_world.h"

enum { TIMER_WORK, TIMER_BEAT };

void work_on_timer(struct world *world, uint32_t node);
void beat_on_timer(struct world *world, uint32_t node);
void worker_on_message(struct world *world, uint32_t node, uint32_t from,
                       const struct frame *frame);
void worker_on_start(struct world *world, uint32_t node);
void worker_on_crash(struct world *world, uint32_t node);
