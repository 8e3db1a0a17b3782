/* The log of group_world.h, at node LOG: appends in the order in which they come, reads that wait
 * for news, records that are unreadable, and a beginning that is cut off as time goes by. The
 * network decides whether the answer to an append arrives once, twice or not at all. */
#pragma once

#include "group_truth.h"

enum { BATCH_MAX = 512, TIMER_SWEEP = 0, TIMER_HOLD = 1 };

/* Whatever anybody may write: rubbish, the future, what was there before. */
void log_disturb(struct world *world);

/* Cut the beginning off: all that a snapshot stands for, whether others tell of it yet
 * or not; or more, blindly. */
void log_cut(struct world *world, bool is_blind);
void log_on_timer(struct world *world, uint32_t timer);
void log_on_message(struct world *world, uint32_t from, const struct note *ask);
void log_deinit(struct world *world);
