#include "core/place/slots.h"

#include "base/hash.h"
#include "base/heap.h"
#include "core/place/ring_points.h"

#include <assert.h>
#include <rota/experimental/partition.h>
#include <string.h>

enum { PROBES = 8 };

struct match {
    const struct rota_ring *ring;
    uint32_t hash, batch;
    uint32_t n_free;    /* hosts that can still be joined in this round */
    uint32_t n_matched; /* slots that have their host */
    uint32_t *hosts;    /* by slot; ROTA_RING_NONE while open */

    /* The hosts joined in this round: open addressing with twice as many
     * places as slots, so that it never fills up. 0 is a free place. */
    uint32_t n_taken_places;
    uint32_t taken[2 * ROTA_BATCH_MAX];

    /* Of each probe the first point after it, the current point, and its distance: distance <<
     * 32 | probe, so that the smallest is the nearest. */
    uint32_t first[ROTA_BATCH_MAX * PROBES];
    uint32_t at[ROTA_BATCH_MAX * PROBES];
    uint64_t pairs[ROTA_BATCH_MAX * PROBES];

    uint64_t heap[ROTA_BATCH_MAX]; /* the nearest pair of each open slot, smallest first */
    uint32_t heap_size;
};

/* Where a probe falls: a well-mixed function of the key's hash and its number.
 * Part of the placement: changing it moves partitions. */
static uint32_t probe_place(uint32_t hash, uint32_t probe)
{
    return rota_hash_finish32(hash + (probe + 1) * 0x9e3779b9);
}

static void look_at_probe(struct match *match, uint32_t probe)
{
    uint32_t point = rota_ring_points(match->ring)[match->at[probe]].hash;
    match->pairs[probe] = (uint64_t)(point - probe_place(match->hash, probe)) << 32 | probe;
}

static uint64_t nearest_distance(const struct match *match, uint32_t slot)
{
    const uint64_t *pairs = match->pairs + slot * PROBES;
    uint64_t least = pairs[0];
    for (int i = 1; i < PROBES; i++)
        least = pairs[i] < least ? pairs[i] : least;
    return least;
}

#define IS_NEARER(match, a, b)       ((a) < (b))
#define PUT_PAIR(match, index, pair) ((match)->heap[index] = (pair))

static void sift_down(struct match *match, uint32_t index)
{
    uint64_t pair = match->heap[index];
    ROTA_HEAP_SIFT_DOWN(match, match->heap, match->heap_size, index, pair, IS_NEARER, PUT_PAIR);
}

static void throw_probes(struct match *match)
{
    uint32_t n_points = (uint32_t)rota_ring_n_points(match->ring);
    uint32_t places[PROBES];
    for (uint32_t first = 0; first < match->batch * PROBES; first += PROBES) {
        for (uint32_t i = 0; i < PROBES; i++)
            places[i] = probe_place(match->hash, first + i);
        rota_ring_seek_many(match->ring, places, PROBES, match->first + first);
        for (uint32_t i = 0; i < PROBES; i++)
            if (match->first[first + i] == n_points)
                match->first[first + i] = 0;
    }
}

/* Every open slot considers its nearest point again. */
static void look_again(struct match *match)
{
    match->heap_size = 0;
    for (uint32_t slot = 0; slot < match->batch; slot++) {
        if (match->hosts[slot] != ROTA_RING_NONE)
            continue;
        for (uint32_t probe = slot * PROBES; probe < (slot + 1) * PROBES; probe++) {
            match->at[probe] = match->first[probe];
            look_at_probe(match, probe);
        }
        match->heap[match->heap_size++] = nearest_distance(match, slot);
    }
    for (uint32_t i = match->heap_size / 2; i-- > 0;)
        sift_down(match, i);
}

/* The heaviest hosts join every round, the others in proportion to their weight: a host of
 * weight w joins round r when an integer is in [r, r + 1) * w / the largest weight. All join the
 * first. */
static bool joins_round(const struct match *match, uint32_t host, uint32_t round)
{
    uint64_t most = rota_ring_max_weight(match->ring);
    uint64_t weight = rota_ring_host(match->ring, host).weight;
    return round == 0 ||
           (weight * round + most - 1) / most < (weight * (round + 1) + most - 1) / most;
}

static void free_hosts(struct match *match, uint32_t round)
{
    memset(match->taken, 0, match->n_taken_places * sizeof *match->taken);
    match->n_free = 0;
    if (round == 0)
        match->n_free = (uint32_t)rota_ring_size(match->ring);
    else
        for (uint32_t host = 0; host < rota_ring_size(match->ring); host++)
            match->n_free += joins_round(match, host, round);
}

/* Take `host` for this round; false when it is taken or does not join. */
static bool take_host(struct match *match, uint32_t host, uint32_t round)
{
    uint32_t mask = match->n_taken_places - 1;
    uint32_t i = host * 0x9e3779b1 & mask;
    while (match->taken[i] != 0) {
        if (match->taken[i] == host + 1)
            return false;
        i = (i + 1) & mask;
    }
    if (!joins_round(match, host, round))
        return false;
    match->taken[i] = host + 1;
    return true;
}

/* Join the nearest pairs until no host is free, no slot is open, or `wanted`
 * has its host. */
static void play_round(struct match *match, uint32_t round, uint32_t wanted)
{
    const struct rota_ring_point *points = rota_ring_points(match->ring);
    uint32_t n_points = (uint32_t)rota_ring_n_points(match->ring);

    while (match->n_free > 0 && match->n_matched < match->batch) {
        uint32_t probe = (uint32_t)match->heap[0];
        uint32_t slot = probe / PROBES;
        uint32_t host = points[match->at[probe]].host;

        if (take_host(match, host, round)) {
            match->hosts[slot] = host;
            match->n_matched++;
            match->n_free--;
            if (slot == wanted)
                return;
            match->heap[0] = match->heap[--match->heap_size];
        } else {
            if (++match->at[probe] == n_points)
                match->at[probe] = 0;
            look_at_probe(match, probe);
            match->heap[0] = nearest_distance(match, slot);
        }
        sift_down(match, 0);
    }
}

/* Fill `hosts` until `wanted` has its host; all when it is the batch size. */
static void play_rounds(const struct rota_ring *ring, uint32_t hash, uint32_t batch,
                        uint32_t wanted, uint32_t *hosts)
{
    struct match match;
    assert(batch >= 1 && batch <= ROTA_BATCH_MAX && rota_ring_size(ring) > 0);

    match.ring = ring;
    match.hash = hash;
    match.batch = batch;
    match.hosts = hosts;
    match.n_matched = 0;
    match.n_taken_places = 2;
    while (match.n_taken_places < 2 * batch)
        match.n_taken_places *= 2;
    for (uint32_t slot = 0; slot < batch; slot++)
        hosts[slot] = ROTA_RING_NONE;

    throw_probes(&match);
    for (uint32_t round = 0; match.n_matched < batch; round++) {
        free_hosts(&match, round);
        look_again(&match);
        play_round(&match, round, wanted);
        if (wanted < batch && hosts[wanted] != ROTA_RING_NONE)
            return;
    }
}

void rota_slots_match(const struct rota_ring *ring, uint32_t hash, uint32_t batch, uint32_t *hosts)
{
    play_rounds(ring, hash, batch, batch, hosts);
}

uint32_t rota_slots_host(const struct rota_ring *ring, uint32_t hash, uint32_t batch, uint32_t slot)
{
    uint32_t hosts[ROTA_BATCH_MAX];
    play_rounds(ring, hash, batch, slot, hosts);
    return hosts[slot];
}
