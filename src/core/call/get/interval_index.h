/* interval_index: from a sharding key to the hosts that hold it; inside interval_map.
 *
 * The intervals of one modulus cut its keys into *segments*, and the hosts of a segment are its
 * *route*. When there are several moduli at a time, which is while a dc is re-sharded, a key has a
 * segment in each, and its route is combined from theirs when it is first needed.
 *
 * It is rebuilt as a whole from the current replicas, and keeps its memory between rebuilds.
 * Added replicas are kept by reference until the next one. A route has each host once, however
 * many of its intervals have the key. */
#pragma once

#include "base/vector.h"
#include "core/call/get/interval_map.h"

/* The keys from `start` to the next segment's, of one modulus. */
struct rota_interval_segment {
    uint64_t start;
    uint32_t route; /* 0: no host has them */
};

struct rota_interval_modulus {
    uint64_t of;
    uint32_t first, n; /* segments; the first one starts at 0 */
    uint32_t table;    /* of routes by key, when `of` is small: 1 + its start; 0: none */
};

/* An interval that a host holds. */
struct rota_interval_piece {
    const struct rota_interval_host *host;
    struct rota_interval shard;
};

struct rota_interval_route {
    uint32_t first, n; /* members */
};

/* Two routes that meet in one key: that of the first moduli, and that of the next. */
struct rota_interval_meeting {
    uint32_t a, b; /* a = 0: a free place */
    uint32_t route;
};

/* Starts zeroed but for the seed. */
struct rota_interval_index {
    uint64_t seed;                                  /* guards the table of meetings */
    ROTA_VECTOR(struct rota_interval_piece) sorted; /* scratch: by modulus and start */
    ROTA_VECTOR(struct rota_interval_piece) active; /* scratch: with the current segment */
    ROTA_VECTOR(uint64_t) points;                   /* scratch: where segments may start */
    struct rota_interval_modulus moduli[ROTA_INTERVAL_MODULI_MAX];
    size_t n_moduli;
    ROTA_VECTOR(struct rota_interval_segment) segments;
    ROTA_VECTOR(uint32_t) tables;
    ROTA_VECTOR(struct rota_interval_route) routes; /* 0 is empty */
    ROTA_VECTOR(const struct rota_interval_host *) members;
    size_t n_own_routes, n_own_members; /* those of segments; the others are of meetings */
    ROTA_VECTOR(struct rota_interval_meeting) meetings;
    size_t n_meetings;
};

void rota_interval_index_deinit(struct rota_interval_index *index);

/* Start over, add each interval of each replica, build. False: no memory; it has to be started
 * again. */
bool rota_interval_index_begin(struct rota_interval_index *index);
bool rota_interval_index_add(struct rota_interval_index *index,
                             const struct rota_interval_host *host,
                             const struct rota_interval *shard);
bool rota_interval_index_build(struct rota_interval_index *index);

/* As of interval_map.h. */
bool rota_interval_index_lookup(struct rota_interval_index *index, const uint64_t *keys, size_t n,
                                uint32_t *routes);
struct rota_interval_replicas rota_interval_index_replicas(const struct rota_interval_index *index,
                                                           uint32_t route);

static inline uint32_t rota_interval_index_n_routes(const struct rota_interval_index *index)
{
    return (uint32_t)index->routes.size;
}
