/* shard_map: the replicas of each shard of one collection, as known at one time.
 *
 * A map is immutable; new knowledge makes another map. So it can be shared: a holder of a
 * reference can go on reading while the cache moves on. References are counted without locks: a
 * map belongs to one thread. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/shard.h>

struct rota_random;

struct rota_shard_map {
    int64_t collection;
    struct rota_str name; /* of the collection, by which its owners claim shards; empty: its id */
    uint64_t version;     /* grows with every map of a cache; 0: never in one */
    size_t n_shares;
    size_t n_channels;
    const struct rota_shard_channel *channels; /* in the order they were given */
};

/* Make a map, copying the name and everything that `channels` points to. Rejects a duplicate
 * channel or node, and what exceeds the bounds. Gives `*map`. */
enum rota_code rota_shard_map_new(int64_t collection, struct rota_str name,
                                  const struct rota_shard_channel *channels, size_t n_channels,
                                  struct rota_shard_map **map, struct rota_error *error);

/* Add a reference; drop one, the last of which frees the map. Both accept NULL. */
struct rota_shard_map *rota_shard_map_share(struct rota_shard_map *map);
void rota_shard_map_drop(struct rota_shard_map *map);

/* The shard with this name, or its replica on `node`; NULL when there is none. */
const struct rota_shard_channel *rota_shard_map_find(const struct rota_shard_map *map,
                                                     struct rota_str channel);
const struct rota_replica *rota_shard_map_find_channel(const struct rota_shard_channel *channel,
                                                       int64_t node);

/* The map with `claim` in place of what `refused_by` had in `channel`: the node that refused is
 * removed unless the claim is its own. Rejects with ROTA_ERR_INVALID a claim that is not newer:
 * an epoch that is not above the map's for the node that refused, or is below the map's for the
 * claim's node. */
enum rota_code rota_shard_map_apply(const struct rota_shard_map *map, struct rota_str channel,
                                    int64_t refused_by, const struct rota_replica *claim,
                                    struct rota_shard_map **applied, struct rota_error *error);

/* The map with the replicas of each channel reordered for one read: the one at `turn` modulo
 * their number first, the others at random. So a caller that always takes the first one goes
 * round-robin. Gives `*shuffled`, of the same version. */
enum rota_code rota_shard_map_shuffle(const struct rota_shard_map *map, uint64_t turn,
                                      struct rota_random *random, struct rota_shard_map **shuffled,
                                      struct rota_error *error);
