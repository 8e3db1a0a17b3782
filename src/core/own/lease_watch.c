#include "core/own/lease_watch.h"

#include <assert.h>
#include <stdlib.h>

enum rota_code rota_lease_watch_init(struct rota_lease_watch *watch, uint32_t n_shards,
                                     struct rota_error *error)
{
    assert(n_shards > 0 && n_shards <= ROTA_LEASE_SHARDS_MAX);
    *watch = (struct rota_lease_watch){.n_shards = n_shards};
    watch->sights = calloc(n_shards, sizeof *watch->sights);
    if (!watch->sights)
        return rota_error_no_memory(error, "to watch the leases of %u shards", n_shards);
    return ROTA_OK;
}

void rota_lease_watch_deinit(struct rota_lease_watch *watch)
{
    free(watch->sights);
    *watch = (struct rota_lease_watch){0};
}

static bool is_before(const struct rota_lease_row *row, const struct rota_lease_sight *sight)
{
    return row->epoch < sight->epoch || (row->epoch == sight->epoch && row->pings < sight->pings);
}

/* No grant is longer or shorter: Rota did not write a row that says so. */
static rota_time clamp_ttl(rota_time ttl)
{
    if (ttl < ROTA_LEASE_TTL_MIN)
        return ROTA_LEASE_TTL_MIN;
    return ttl < ROTA_LEASE_TTL_MAX ? ttl : ROTA_LEASE_TTL_MAX;
}

bool rota_lease_watch_see_row(struct rota_lease_watch *watch, rota_time now, uint64_t instance,
                              const struct rota_lease_row *row)
{
    if (row->shard >= watch->n_shards || row->epoch > ROTA_LEASE_EPOCH_MAX)
        return true;
    struct rota_lease_sight *sight = &watch->sights[row->shard];
    bool is_same = sight->epoch == row->epoch && sight->pings == row->pings;
    bool went_back = sight->is_seen && is_before(row, sight);

    /* A live holder pings every third of a ttl: a process that replaces one that has not for
     * longer has taken the row from a dead holder. */
    if (!sight->is_counted || row->instance == 0)
        sight->inherited_until = 0;
    else if (sight->instance != 0 && sight->instance != row->instance &&
             now - sight->since >= sight->ttl / 2)
        sight->inherited_until = rota_time_add(now, sight->ttl);
    if (!sight->is_counted || !is_same)
        sight->since = now;
    sight->instance = row->instance;
    sight->epoch = row->epoch;
    sight->pings = row->pings;
    sight->ttl = clamp_ttl(row->ttl);
    sight->is_seen = sight->is_counted = true;
    sight->is_held = row->instance != 0 && row->instance != instance;
    sight->is_ours = row->is_ours;
    rota_lease_watch_learn(watch, row->shard, row->epoch);
    return !went_back;
}

void rota_lease_watch_learn(struct rota_lease_watch *watch, uint32_t shard, uint64_t epoch)
{
    if (shard >= watch->n_shards || epoch > ROTA_LEASE_EPOCH_MAX)
        return;
    if (epoch > watch->sights[shard].newest)
        watch->sights[shard].newest = epoch;
    if (epoch > watch->floor)
        watch->floor = epoch;
}

uint64_t rota_lease_watch_newest(const struct rota_lease_watch *watch, uint32_t shard)
{
    return shard < watch->n_shards ? watch->sights[shard].newest : 0;
}

void rota_lease_watch_forget(struct rota_lease_watch *watch)
{
    for (uint32_t shard = 0; shard < watch->n_shards; shard++)
        watch->sights[shard].is_counted = false;
}

rota_time rota_lease_watch_ttl_max(const struct rota_lease_watch *watch, rota_time ttl)
{
    for (uint32_t shard = 0; shard < watch->n_shards; shard++)
        if (watch->sights[shard].ttl > ttl)
            ttl = watch->sights[shard].ttl;
    return ttl;
}

/* When a row is dead if it does not change; never, if it is free. */
static rota_time death_of(const struct rota_lease_sight *sight)
{
    return sight->is_counted && sight->is_held ? rota_time_add(sight->since, sight->ttl)
                                               : ROTA_TIME_NEVER;
}

void rota_lease_watch_note_grant(struct rota_lease_watch *watch, rota_time now, uint32_t shard,
                                 uint64_t epoch, uint64_t instance)
{
    rota_lease_watch_learn(watch, shard, epoch);
    if (shard >= watch->n_shards)
        return;
    struct rota_lease_sight *sight = &watch->sights[shard];
    sight->inherited_until = death_of(sight) <= now ? rota_time_add(now, sight->ttl) : 0;
    sight->is_held = false;
    sight->instance = instance;
}

rota_time rota_lease_watch_dead_at(const struct rota_lease_watch *watch)
{
    rota_time first = ROTA_TIME_NEVER;
    for (uint32_t shard = 0; shard < watch->n_shards; shard++)
        first = rota_time_min(first, death_of(&watch->sights[shard]));
    return first;
}

uint32_t rota_lease_watch_orphans(const struct rota_lease_watch *watch, rota_time now)
{
    uint32_t n = 0;
    for (uint32_t shard = 0; shard < watch->n_shards; shard++) {
        const struct rota_lease_sight *sight = &watch->sights[shard];
        n += death_of(sight) <= now || (sight->is_counted && now < sight->inherited_until);
    }
    return n;
}

size_t rota_lease_watch_dead(const struct rota_lease_watch *watch, rota_time now,
                             struct rota_random *random,
                             struct rota_lease_dead dead[ROTA_LEASE_DEAD_MAX])
{
    uint32_t start = (uint32_t)rota_random_below(random, watch->n_shards);
    size_t n = 0;
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < watch->n_shards && n < ROTA_LEASE_DEAD_MAX; i++) {
            uint32_t shard = (start + i) % watch->n_shards;
            const struct rota_lease_sight *sight = &watch->sights[shard];
            if (sight->is_ours == (turn == 0) && death_of(sight) <= now)
                dead[n++] = (struct rota_lease_dead){
                    .shard = shard, .epoch = sight->epoch, .pings = sight->pings};
        }
    return n;
}
