/* slots: spread a batch over the hosts so that a change of hosts moves little.
 *
 * Slot i of a batch has a place of its own on the ring (slot 0 the key's own,
 * the others derived from it) and ranks the hosts by their distance clockwise
 * from there. Of all pairs of an open slot and a host with room the nearest is
 * joined, again and again. Both sides rank by the same distance, so the
 * outcome is the one stable matching: a host that comes takes the slots it is
 * nearest to, each of which frees one place, and the chain soon ends.
 *
 * A host has room for one slot while there are as many hosts as slots;
 * otherwise for its share by weight, rounded up. */
#pragma once

#include <rota/ring.h>

/* Match slots 0 .. batch-1 of the batch whose key hashes to `hash`; fills
 * `hosts[0 .. batch-1]`. `batch` is in [1, ROTA_BATCH_MAX], the ring is not
 * empty. Allocates nothing. */
void rota_slots_match(const struct rota_ring *ring, uint32_t hash, uint32_t batch, uint32_t *hosts);

/* The host of one slot alone: stops as soon as that is known. */
uint32_t rota_slots_host(const struct rota_ring *ring, uint32_t hash, uint32_t batch,
                         uint32_t slot);
