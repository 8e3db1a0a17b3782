/* shard_map: who serves each shard of one collection, as known at one moment.
 *
 * A map never changes; what is learnt makes another one. So it can be shared:
 * whoever holds a share can go on reading while the cache moves on. The shares
 * are counted without locks: a map belongs to one thread. */
#pragma once

#include <rota/error.h>
#include <rota/shard.h>

struct rota_random;

struct rota_shard_map {
    int64_t collection;
    uint64_t version; /* grows with every map of a cache; 0: was never in one */
    size_t n_shares;
    size_t n_channels;
    const struct rota_shard_channel *channels; /* in the order they were given */
};

/* Make a map, copying all that `channels` points to. Refuses a channel or a node
 * that is there twice, and what is beyond the bounds. Gives `*map`. */
enum rota_code rota_shard_map_new(int64_t collection, const struct rota_shard_channel *channels,
                                  size_t n_channels, struct rota_shard_map **map,
                                  struct rota_error *error);

/* Gives another share; and takes one, the last of which frees the map. Both
 * accept NULL. */
struct rota_shard_map *rota_shard_map_share(struct rota_shard_map *map);
void rota_shard_map_drop(struct rota_shard_map *map);

/* The shard with this name, or its replica on `node`; NULL when there is none. */
const struct rota_shard_channel *rota_shard_map_find(const struct rota_shard_map *map,
                                                     struct rota_str channel);
const struct rota_replica *rota_shard_channel_find(const struct rota_shard_channel *channel,
                                                   int64_t node);

/* The map with `claim` in place of what `refused_by` had in `channel`: the node
 * that refused leaves unless the claim is its own. Refuses with ROTA_ERR_INVALID
 * a claim that is no news: an epoch that is not above the one that the map has
 * for the node that refused, or below the one it has for the claim's node. */
enum rota_code rota_shard_map_apply(const struct rota_shard_map *map, struct rota_str channel,
                                    int64_t refused_by, const struct rota_replica *claim,
                                    struct rota_shard_map **applied, struct rota_error *error);

/* The map with the replicas of each channel in an order for one read: the one at
 * `turn` modulo their number first, the others by chance. Who always takes the
 * first one thus goes round. Gives `*shuffled`, of the same version. */
enum rota_code rota_shard_map_shuffle(const struct rota_shard_map *map, uint64_t turn,
                                      struct rota_random *random, struct rota_shard_map **shuffled,
                                      struct rota_error *error);
