/* space_start: starts of shards that take time, or fail.
 *
 * With `is_start_answered` the user answers each on_start. A shard that it refuses goes to another
 * node by a wish to the machine of views, which also has the reason; the user is asked again later.
 *
 *     SERVED <--started-- STARTING_UP --refused--> FAILED --in time, or elsewhere in vain-->
 * STARTING_UP
 */
#pragma once

#include "core/own/view_fsm.h"

#include <rota/space.h>

/* The user begins a shard that is ours, now or after a pause. */
void rota_space_start_begin(struct rota_space *space, uint32_t shard);

/* The shard is stopped. Returns whether the user has started it, and must be notified. */
bool rota_space_start_end(struct rota_space *space, uint32_t shard);

/* Append what is known about starts that failed. */
void rota_space_start_explain(const struct rota_space *space, uint32_t shard, char *text,
                              size_t size);

/* The next wish of a start that failed; false when there is none. And its outcome. */
bool rota_space_start_next(struct rota_space *space, struct rota_view_wish *wish);
void rota_space_start_hear(struct rota_space *space, const struct rota_view_outcome *outcome);
void rota_space_start_deinit(struct rota_space *space);
