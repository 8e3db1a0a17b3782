/* The membership of group_world.h, at node GROUP: sessions that are kept by heartbeats, a round
 * whenever the members have changed, and for each round a leader, or none, or two. It may forget
 * everything, and then numbers its generations from 1 again. */
#pragma once

#include "group_world.h"

enum { TIMER_ROUND = 0, TIMER_EXPIRE = 1 };

void rounds_on_message(struct world *world, uint32_t from, const struct note *ask);
void rounds_on_timer(struct world *world, uint32_t timer);

/* The coordinator is another one, and knows nothing. */
void rounds_forget(struct world *world);
void rounds_deinit(struct world *world);
