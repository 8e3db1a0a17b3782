/* The submitter, which adds jobs until it is answered and cancels some of them, and the
 * people who pause queues, weigh keys, and change their minds about jobs. */
#pragma once

#include "work_broker.h"

void make_jobs(struct world *world);
void submit_on_timer(struct world *world);
void submit_on_message(struct world *world, const struct frame *frame);
void set_pause(struct world *world, uint32_t node, uint32_t queue, bool is_paused);
void set_weights(struct world *world, uint32_t node);
void set_priority(struct world *world, uint32_t node, uint32_t number, int16_t priority);
bool is_serving(struct world *world, uint32_t node);
void operate(void *data, uint64_t number);

/* After the last fault nothing stays paused, and nobody drained. */
void resume(void *data, uint64_t number);
