/* An interval: the sharding keys of a shard.
 *
 * The sharding key, a number, is taken modulo `of`, or as it is if `of` is 0, and belongs to the
 * interval if the result is in [from, to). So shard 2 of 8 is {2, 3, 8}, and {1000, 2000, 0} has
 * the keys of a range. `to` = 0 means no upper bound: {5000, 0, 0} has all keys from 5000 on, {0,
 * 0, 0} all keys. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_interval {
    uint64_t from, to, of;
};

/* An interval that a server holds, under this epoch. */
struct rota_interval_claim {
    struct rota_interval interval;
    uint64_t epoch; /* fencing token of the claim; 0: none */
};

/* Shard number `shard` of `n_shards`; an invalid interval if there is no such shard. */
static inline struct rota_interval rota_interval_of(uint64_t shard, uint64_t n_shards)
{
    struct rota_interval none = {1, 1, 0}, interval = {shard, shard + 1, n_shards};
    return shard < n_shards ? interval : none;
}

static inline bool rota_interval_has(const struct rota_interval *interval, uint64_t sharding_key)
{
    uint64_t key = interval->of ? sharding_key % interval->of : sharding_key;
    return key >= interval->from && (key < interval->to || interval->to == 0);
}

/* Whether the interval contains any key: it starts before it ends, and within `of`. */
static inline bool rota_interval_is_valid(const struct rota_interval *interval)
{
    uint64_t of = interval->of, to = interval->to;
    return (to == 0 || interval->from < to) && (of == 0 || (interval->from < of && to <= of));
}

static inline bool rota_interval_is_equal(const struct rota_interval *a,
                                          const struct rota_interval *b)
{
    return a->from == b->from && a->of == b->of &&
           (a->to == b->to || (a->of && (a->to ? a->to : a->of) == (b->to ? b->to : b->of)));
}

#ifdef __cplusplus
}
#endif
