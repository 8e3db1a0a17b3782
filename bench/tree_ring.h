/* The textbook ring that ours is measured against: points in a red-black tree,
 * one node each, as ringpop keeps them. Only what the benchmark needs. */
#pragma once

#include <rota/ring.h>

struct tree_ring;

struct tree_ring *tree_ring_new(const struct rota_ring_host *hosts, size_t n_hosts,
                                uint32_t points);
void tree_ring_add(struct tree_ring *ring, const struct rota_ring_host *host, uint32_t number);
void tree_ring_free(struct tree_ring *ring);

/* The owner, as the number given at insertion. */
uint32_t tree_ring_lookup(const struct tree_ring *ring, struct rota_str key);
size_t tree_ring_lookup_n(const struct tree_ring *ring, struct rota_str key, size_t n,
                          uint32_t *hosts);
