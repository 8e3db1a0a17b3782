#include <rota/experimental/route.h>

#include "core/place/names.h"
#include "core/place/ring_points.h"
#include "core/place/slots.h"

#include <assert.h>

enum rota_code rota_spread_check(struct rota_spread spread, struct rota_error *error)
{
    if ((unsigned)spread.mode > ROTA_SPREAD_SLOTS)
        return rota_error_set(error, ROTA_ERR_INVALID, "spread mode %d is unknown",
                              (int)spread.mode);
    if (spread.batch > ROTA_BATCH_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "the batch is %u; at most %d is allowed",
                              spread.batch, ROTA_BATCH_MAX);
    return ROTA_OK;
}

static uint32_t hash_of(const struct rota_route_key *key)
{
    return rota_ring_hash(rota_str_of(key->text, key->size));
}

uint32_t rota_route(const struct rota_ring *ring, const struct rota_partition *partition,
                    struct rota_spread spread)
{
    struct rota_route_key key;
    uint32_t hosts[ROTA_BATCH_MAX];
    assert(spread.batch <= ROTA_BATCH_MAX);

    if (rota_ring_size(ring) == 0)
        return ROTA_RING_NONE;
    rota_partition_route_key(partition, spread.batch, &key);
    if (partition->kind != ROTA_PARTITION_NORMAL || spread.batch == 0)
        return rota_ring_lookup_hash(ring, hash_of(&key));
    if (spread.mode == ROTA_SPREAD_SLOTS)
        return rota_slots_host(ring, hash_of(&key), spread.batch, key.index);
    size_t n = rota_ring_lookup_n_hash(ring, hash_of(&key), key.index + 1, hosts);
    return hosts[key.index % n];
}

/* Partitions on their own keys, in groups whose waits for memory overlap. */
static void route_basic(const struct rota_ring *ring, const struct rota_partition *partition,
                        size_t first, size_t n, uint32_t *hosts)
{
    enum { GROUP = 64 };
    const struct rota_ring_point *points = rota_ring_points(ring);
    uint32_t hashes[GROUP], at[GROUP];
    struct rota_partition one = *partition;
    struct rota_route_key key;

    for (size_t done = 0; done < n; done += GROUP) {
        size_t size = n - done < GROUP ? n - done : GROUP;
        for (size_t i = 0; i < size; i++) {
            one.id = (int64_t)(first + done + i);
            rota_partition_route_key(&one, 0, &key);
            hashes[i] = hash_of(&key);
        }
        rota_ring_seek_many(ring, hashes, size, at);
        for (size_t i = 0; i < size; i++)
            hosts[done + i] = points[at[i]].host;
    }
}

/* The hosts of the batch that begins at partition `first`, at least `n` of
 * them or all there are; returns how many, the rest wraps around. */
static size_t route_batch(const struct rota_ring *ring, const struct rota_partition *partition,
                          struct rota_spread spread, size_t first, size_t n, uint32_t *hosts)
{
    struct rota_partition one = *partition;
    struct rota_route_key key;

    one.id = (int64_t)first;
    rota_partition_route_key(&one, spread.batch, &key);
    if (spread.mode == ROTA_SPREAD_LOOKUP)
        return rota_ring_lookup_n_hash(ring, hash_of(&key), n, hosts);
    rota_slots_match(ring, hash_of(&key), spread.batch, hosts);
    return spread.batch;
}

void rota_route_range(const struct rota_ring *ring, const struct rota_partition *partition,
                      struct rota_spread spread, size_t first, size_t n, uint32_t *hosts)
{
    uint32_t batch_hosts[ROTA_BATCH_MAX];
    assert(spread.batch <= ROTA_BATCH_MAX && partition->kind == ROTA_PARTITION_NORMAL);

    if (rota_ring_size(ring) == 0) {
        for (size_t i = 0; i < n; i++)
            hosts[i] = ROTA_RING_NONE;
        return;
    }
    if (spread.batch == 0) {
        route_basic(ring, partition, first, n, hosts);
        return;
    }
    for (size_t done = 0; done < n;) {
        size_t from = (first + done) % spread.batch;
        size_t to = from + n - done < spread.batch ? from + n - done : spread.batch;
        size_t n_hosts = route_batch(ring, partition, spread, first + done - from, to, batch_hosts);
        for (size_t i = from; i < to; i++)
            hosts[done++] = batch_hosts[i % n_hosts];
    }
}

void rota_route_all(const struct rota_ring *ring, const struct rota_partition *partition,
                    struct rota_spread spread, size_t n, uint32_t *hosts)
{
    rota_route_range(ring, partition, spread, 0, n, hosts);
}

const char *const rota_spread_mode_names[] = {
    [ROTA_SPREAD_LOOKUP] = "lookup",
    [ROTA_SPREAD_SLOTS] = "slots",
    [ROTA_SPREAD_SLOTS + 1] = NULL,
};

const char *rota_spread_mode_name(enum rota_spread_mode mode)
{
    return rota_spread_mode_names[mode];
}

enum rota_code rota_spread_mode_parse(struct rota_str text, enum rota_spread_mode *mode)
{
    for (int i = ROTA_SPREAD_LOOKUP; i <= ROTA_SPREAD_SLOTS; i++) {
        if (rota_str_is_equal(text, rota_str(rota_spread_mode_names[i]))) {
            *mode = (enum rota_spread_mode)i;
            return ROTA_OK;
        }
    }
    return ROTA_ERR_INVALID;
}
