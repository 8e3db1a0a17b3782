/* lease_share: how members divide the shards of a space when each takes leases for itself.
 *
 * The share of a member is the part of all shards that its weight is of all weights, rounded up, so
 * that the shares of all are enough for every shard. */
#pragma once

#include "core/own/view.h"

#include <rota/time.h>

/* The share of one of the members, who have the weight `all` together. */
uint32_t rota_lease_share_of_weight(uint32_t n_shards, uint64_t weight, uint64_t all);

/* How many of `n_shards` shards `self` may hold: its share in the view, but at most `wanted` unless
 * that is 0. An observer has no weight, and `self.data` is NULL: it gets the largest share of all.
 * A process that is not a member yet may hold every shard: there may be no other. */
uint32_t rota_lease_share_of_member(const struct rota_view *view, struct rota_str self,
                                    uint32_t n_shards, uint32_t wanted);

/* How often a member reads the rows of all shards; a large table is read less often. */
rota_time rota_lease_share_read_interval(rota_time ttl, uint32_t n_shards);
