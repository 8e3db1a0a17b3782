/* The application of a task in group_world.h: readers, one for each partition that was started. A
 * reader gets on, meets children, commits, comes to the end; it asks whether it may before each
 * step. A reader that has to stop takes its time. */
#pragma once

#include "group_truth.h"

void reader_start(struct world *world, uint32_t node, uint32_t index, uint64_t token,
                  uint32_t position);
void readers_end(struct world *world, uint32_t node);
void readers_step(struct world *world, uint32_t node);

enum { TIMER_FSM, TIMER_BEAT, TIMER_READ, TIMER_APPEND, TIMER_STEP, TIMER_STOP };

void reader_stop(struct world *world, uint32_t node, uint32_t index);
void readers_stopped(struct world *world, uint32_t node);
