#include "core/place/slots.h"

#include "core/place/ring_points.h"

#include <assert.h>
#include <rota/partition.h>
#include <string.h>

/* The hosts met so far and how many slots each holds: open addressing, twice
 * as many places as slots, so that it never fills up. */
struct room {
    uint32_t host; /* 1 + number; 0: free place */
    uint32_t held;
};

struct match {
    const struct rota_ring *ring;
    uint32_t batch;
    uint32_t n_rooms;
    bool is_crowded; /* fewer hosts than slots */
    struct room rooms[2 * ROTA_BATCH_MAX];
    uint32_t start[ROTA_BATCH_MAX]; /* a slot's place on the circle */
    uint32_t at[ROTA_BATCH_MAX];    /* the point it looks at */
    uint64_t heap[ROTA_BATCH_MAX];  /* distance << 32 | slot, the smallest first */
    uint32_t heap_size;
};

/* A slot's place: well mixed, and for slot 0 the key's own hash, so that most
 * roots stay where basic routing has them. */
static uint32_t slot_hash(uint32_t hash, uint32_t slot)
{
    if (slot == 0)
        return hash;
    uint32_t h = hash + slot * 0x9e3779b9;
    h ^= h >> 16;
    h *= 0x85ebca6b;
    h ^= h >> 13;
    h *= 0xc2b2ae35;
    return h ^ h >> 16;
}

static uint32_t capacity(const struct match *match, uint32_t host)
{
    if (!match->is_crowded)
        return 1;
    uint64_t total = rota_ring_total_weight(match->ring);
    uint64_t share = (uint64_t)match->batch * rota_ring_host(match->ring, host).weight;
    return (uint32_t)((share + total - 1) / total);
}

/* Take a place at `host` if it has one. */
static bool take(struct match *match, uint32_t host)
{
    uint32_t i = host * 0x9e3779b1 & (match->n_rooms - 1);
    while (match->rooms[i].host != 0 && match->rooms[i].host != host + 1)
        i = (i + 1) & (match->n_rooms - 1);
    struct room *room = &match->rooms[i];
    if (room->host != 0 && room->held >= capacity(match, host))
        return false;
    room->host = host + 1;
    room->held++;
    return true;
}

static void sift_down(struct match *match, uint32_t index)
{
    uint64_t item = match->heap[index];
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= match->heap_size)
            break;
        if (child + 1 < match->heap_size && match->heap[child + 1] < match->heap[child])
            child++;
        if (match->heap[child] >= item)
            break;
        match->heap[index] = match->heap[child];
        index = child;
    }
    match->heap[index] = item;
}

static uint64_t pair(const struct match *match, const struct rota_ring_point *points, uint32_t slot)
{
    return (uint64_t)(points[match->at[slot]].hash - match->start[slot]) << 32 | slot;
}

/* Join pairs until `wanted` has its host, or all when it is the batch size. */
static void join(struct match *match, uint32_t hash, uint32_t wanted, uint32_t *hosts)
{
    const struct rota_ring_point *points = rota_ring_points(match->ring);
    uint32_t n_points = (uint32_t)rota_ring_n_points(match->ring);

    for (uint32_t slot = 0; slot < match->batch; slot++) {
        match->start[slot] = slot_hash(hash, slot);
        size_t at = rota_ring_seek(match->ring, match->start[slot]);
        match->at[slot] = at < n_points ? (uint32_t)at : 0;
        match->heap[slot] = pair(match, points, slot);
    }
    match->heap_size = match->batch;
    for (uint32_t i = match->batch / 2; i-- > 0;)
        sift_down(match, i);

    while (match->heap_size > 0) {
        uint32_t slot = (uint32_t)match->heap[0];
        uint32_t host = points[match->at[slot]].host;
        if (take(match, host)) {
            hosts[slot] = host;
            if (slot == wanted)
                return;
            match->heap[0] = match->heap[--match->heap_size];
        } else {
            if (++match->at[slot] == n_points)
                match->at[slot] = 0;
            match->heap[0] = pair(match, points, slot);
        }
        sift_down(match, 0);
    }
}

static void begin(struct match *match, const struct rota_ring *ring, uint32_t batch)
{
    assert(batch >= 1 && batch <= ROTA_BATCH_MAX && rota_ring_size(ring) > 0);
    match->ring = ring;
    match->batch = batch;
    match->is_crowded = rota_ring_size(ring) < batch;
    match->n_rooms = 2;
    while (match->n_rooms < 2 * batch)
        match->n_rooms *= 2;
    memset(match->rooms, 0, match->n_rooms * sizeof *match->rooms);
}

void rota_slots_match(const struct rota_ring *ring, uint32_t hash, uint32_t batch, uint32_t *hosts)
{
    struct match match;
    begin(&match, ring, batch);
    join(&match, hash, batch, hosts);
}

uint32_t rota_slots_host(const struct rota_ring *ring, uint32_t hash, uint32_t batch, uint32_t slot)
{
    struct match match;
    uint32_t hosts[ROTA_BATCH_MAX];
    begin(&match, ring, batch);
    join(&match, hash, slot, hosts);
    return hosts[slot];
}
