/* slots: spread a batch over the hosts so that a change of hosts moves little.
 *
 * Every slot of a batch has eight probes, points on the ring that follow from the batch's key, and
 * ranks the hosts by how near they come clockwise after one of its probes. The nearest pair of an
 * open slot and a free host is joined, repeatedly; when no host is free and slots are left, all
 * hosts are free for another round.
 *
 * Both sides rank by the same distance, so the outcome is the one stable
 * matching: a host that comes takes the slot it is nearest to, the host that
 * lost it takes the next, and the chain soon ends. Several probes even out the
 * arcs of the ring, as with multi-probe consistent hashing.
 *
 * Invariants: hosts of a batch are distinct while there are enough. Otherwise a
 * host joins rounds in proportion to its weight and holds at most one slot more
 * than its share rounded up; of equal hosts none holds two more than another. */
#pragma once

#include <rota/ring.h>

/* Match slots 0 .. batch-1 of the batch whose key hashes to `hash`; fills
 * `hosts[0 .. batch-1]`. `batch` is in [1, ROTA_BATCH_MAX], the ring is not
 * empty. Allocates nothing. */
void rota_slots_match(const struct rota_ring *ring, uint32_t hash, uint32_t batch, uint32_t *hosts);

/* The host of one slot alone: stops as soon as that is known. */
uint32_t rota_slots_host(const struct rota_ring *ring, uint32_t hash, uint32_t batch,
                         uint32_t slot);
