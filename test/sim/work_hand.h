/* The table of owners, and how a partition changes hands; work_world.h says how. */
#pragma once

#include "work_broker.h"

void table_on_message(struct world *world, uint32_t from, const struct frame *frame);

/* Another owner, once the last change is through. */
void table_move(struct world *world, uint32_t part, uint32_t owner);
void hear_rows(struct world *world, uint32_t node, const struct frame *frame);
void hand_on_timer(struct world *world, uint32_t node);

/* The new owner has them on disk. */
void hear_taken(struct world *world, uint32_t node, const struct frame *frame);
void hear_hand(struct world *world, uint32_t node, uint32_t from, const struct frame *frame);
