/* A broker: the machine, its driver, and the frames that it hears.
 *
 * Every call of the machine is followed by drive(): records go to the disk, jobs to their
 * workers, and answers wait until their records are on disk. */
#pragma once

#include "work_truth.h"

void hold(struct world *world, uint32_t node, struct held held);
void drive(struct world *world, uint32_t node);
void on_durable(struct world *world, uint32_t node);
void hear_add(struct world *world, uint32_t node, const struct frame *frame);
void hear_cancel(struct world *world, uint32_t node, const struct frame *frame);
void hear_hello(struct world *world, uint32_t node, uint32_t from, const struct frame *frame);
void hear_holds(struct world *world, uint32_t node, const struct frame *frame);
void hear_beat(struct world *world, uint32_t node, uint32_t from, const struct frame *frame);
void hear_extend(struct world *world, uint32_t node, uint32_t from, const struct frame *frame);
void hear_end(struct world *world, uint32_t node, uint32_t from, const struct frame *frame);
void ask_rows(struct world *world, uint32_t node);
void broker_on_start(struct world *world, uint32_t node);
void broker_on_crash(struct world *world, uint32_t node);
void broker_deinit(struct world *world, uint32_t node);
