#include "lease_table.h"

#include <assert.h>

/* Out of time by the database's clock, which may have gone back since. */
static bool lease_table_is_expired(const struct lease_table_row *row, rota_time now)
{
    return row->last_ping + row->ttl < now || row->last_ping > now + row->ttl;
}

static bool lease_table_is_named(const struct lease_table_claim *claim, uint32_t shard,
                                 const struct lease_table_row *row)
{
    for (size_t i = 0; i < claim->n_dead; i++) {
        const struct rota_lease_dead *dead = &claim->dead[i];
        if (dead->shard == shard && dead->epoch == row->epoch && dead->pings == row->pings)
            return true;
    }
    return false;
}

/* How readily a row is given: 0 first; -1: not at all. */
static int lease_table_rank(const struct lease_table *table, const struct lease_table_claim *claim,
                            rota_time now, uint32_t shard)
{
    const struct lease_table_row *row = &table->rows[shard];
    if (row->instance == claim->instance)
        return -1;
    if (row->host == claim->host && (row->instance == 0 || claim->is_alone))
        return 0;
    if (row->instance == 0)
        return 2;
    if (lease_table_is_named(claim, shard, row) && lease_table_is_expired(row, now))
        return row->host == claim->host ? 1 : 3;
    return -1;
}

/* Of those given as readily the one pinged longest ago; -1: there is none. */
static int lease_table_choose(const struct lease_table *table,
                              const struct lease_table_claim *claim, rota_time now)
{
    int best = -1, best_rank = 0;
    for (uint32_t shard = 0; shard < table->n_shards; shard++) {
        int rank = lease_table_rank(table, claim, now, shard);
        if (rank < 0)
            continue;
        if (best < 0 || rank < best_rank ||
            (rank == best_rank && table->rows[shard].last_ping < table->rows[best].last_ping)) {
            best = (int)shard;
            best_rank = rank;
        }
    }
    return best;
}

static uint64_t lease_table_epoch(const struct lease_table_row *row, uint64_t floor, rota_time now)
{
    uint64_t epoch = (row->epoch > floor ? row->epoch : floor) + 1;
    uint64_t ms = now > 0 ? (uint64_t)(now / ROTA_MSEC) : 0;
    return epoch > ms ? epoch : ms;
}

bool lease_table_claim(struct lease_table *table, rota_time now,
                       const struct lease_table_claim *claim, uint32_t *shard, uint64_t *epoch)
{
    assert(table->n_shards <= LEASE_TABLE_SHARDS_MAX);
    int best = now < table->hold_until ? -1 : lease_table_choose(table, claim, now);
    if (best < 0)
        return false;
    struct lease_table_row *row = &table->rows[best];
    *shard = (uint32_t)best;
    *epoch = lease_table_epoch(row, claim->floor, now);
    *row = (struct lease_table_row){.host = claim->host,
                                    .instance = claim->instance,
                                    .epoch = *epoch,
                                    .pings = row->pings + 1,
                                    .last_ping = now,
                                    .ttl = claim->ttl};
    return true;
}

bool lease_table_ping(struct lease_table *table, rota_time now, uint32_t shard, uint64_t instance,
                      uint64_t epoch)
{
    struct lease_table_row *row = &table->rows[shard];
    if (shard >= table->n_shards || row->instance != instance || row->epoch != epoch)
        return false;
    row->last_ping = now;
    row->pings++;
    return true;
}

void lease_table_release(struct lease_table *table, rota_time now, uint32_t shard,
                         uint64_t instance, uint64_t epoch)
{
    struct lease_table_row *row = &table->rows[shard];
    if (shard >= table->n_shards || row->instance != instance || row->epoch != epoch)
        return;
    row->instance = 0;
    row->last_ping = now;
    row->pings++;
}

size_t lease_table_list(const struct lease_table *table, uint32_t host,
                        struct rota_lease_row rows[LEASE_TABLE_SHARDS_MAX])
{
    for (uint32_t shard = 0; shard < table->n_shards; shard++) {
        const struct lease_table_row *row = &table->rows[shard];
        rows[shard] = (struct rota_lease_row){.shard = shard,
                                              .is_ours = row->host == host,
                                              .instance = row->instance,
                                              .epoch = row->epoch,
                                              .pings = row->pings,
                                              .ttl = row->ttl};
    }
    return table->n_shards;
}
