/* Routing: the host that owns a partition, computed by each client on its own.
 *
 * Basic routing (batch 0) looks up every partition by its own key. Spread routing takes partitions
 * in batches and gives those of a batch different hosts while there are enough, and as even a share
 * as possible otherwise. It has two modes:
 *
 *     lookup  position i of LookupN(key), as in Temporal. A host that joins shifts all later
 *             positions, so many partitions move.
 *     slots   every position of the batch ranks the hosts by itself and the best pairs win: the
 *             same spread, close to the minimum of moves. */
#pragma once

#include <rota/experimental/partition.h>
#include <rota/ring.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rota_spread_mode {
    ROTA_SPREAD_LOOKUP,
    ROTA_SPREAD_SLOTS,
};

struct rota_spread {
    enum rota_spread_mode mode;
    uint32_t batch; /* 0: basic routing in either mode; at most ROTA_BATCH_MAX */
};

/* Checks a spread that you filled in: a known mode, and a batch within limits. */
enum rota_code rota_spread_check(struct rota_spread spread, struct rota_error *error);

/* The owner of `partition` as a host number of `ring`; ROTA_RING_NONE if the ring is empty.
 * `partition` and `spread` must be valid. Allocates nothing. Any thread. */
uint32_t rota_route(const struct rota_ring *ring, const struct rota_partition *partition,
                    struct rota_spread spread);

/* Writes the owners of partitions 0 .. n-1 of the normal queue of `partition` (its id is ignored)
 * to `hosts`. Same result as rota_route(), computed a batch at a time. */
void rota_route_all(const struct rota_ring *ring, const struct rota_partition *partition,
                    struct rota_spread spread, size_t n, uint32_t *hosts);

/* The same for partitions first .. first+n-1. */
void rota_route_range(const struct rota_ring *ring, const struct rota_partition *partition,
                      struct rota_spread spread, size_t first, size_t n, uint32_t *hosts);

/* "lookup" or "slots", and back. */
const char *rota_spread_mode_name(enum rota_spread_mode mode);
enum rota_code rota_spread_mode_parse(struct rota_str text, enum rota_spread_mode *mode);

#ifdef __cplusplus
}
#endif
