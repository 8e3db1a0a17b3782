#include <rota/route.h>

#include "core/place/slots.h"

#include <assert.h>

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

void rota_route_all(const struct rota_ring *ring, const struct rota_partition *partition,
                    struct rota_spread spread, size_t n, uint32_t *hosts)
{
    struct rota_partition one = *partition;
    struct rota_route_key key;
    uint32_t batch_hosts[ROTA_BATCH_MAX];
    size_t step = spread.batch ? spread.batch : 1;
    assert(spread.batch <= ROTA_BATCH_MAX && partition->kind == ROTA_PARTITION_NORMAL);

    for (size_t first = 0; first < n; first += step) {
        size_t size = n - first < step ? n - first : step;
        size_t n_hosts = 1;
        batch_hosts[0] = ROTA_RING_NONE;
        if (rota_ring_size(ring) > 0) {
            one.id = (int64_t)first;
            rota_partition_route_key(&one, spread.batch, &key);
            if (spread.batch == 0) {
                batch_hosts[0] = rota_ring_lookup_hash(ring, hash_of(&key));
            } else if (spread.mode == ROTA_SPREAD_SLOTS) {
                rota_slots_match(ring, hash_of(&key), spread.batch, batch_hosts);
                n_hosts = spread.batch;
            } else {
                n_hosts = rota_ring_lookup_n_hash(ring, hash_of(&key), size, batch_hosts);
            }
        }
        for (size_t i = 0; i < size; i++)
            hosts[first + i] = batch_hosts[i % n_hosts];
    }
}

const char *rota_spread_mode_name(enum rota_spread_mode mode)
{
    return mode == ROTA_SPREAD_SLOTS ? "slots" : "lookup";
}

enum rota_code rota_spread_mode_parse(struct rota_str text, enum rota_spread_mode *mode)
{
    for (int i = ROTA_SPREAD_LOOKUP; i <= ROTA_SPREAD_SLOTS; i++) {
        if (rota_str_is_equal(text, rota_str(rota_spread_mode_name((enum rota_spread_mode)i)))) {
            *mode = (enum rota_spread_mode)i;
            return ROTA_OK;
        }
    }
    return ROTA_ERR_INVALID;
}
