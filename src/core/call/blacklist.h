/* blacklist: replicas that all calls on a shard avoid for a while.
 *
 * After one call meets a broken replica, other calls avoid it. An entry is for one shard and one
 * node and expires; adding it again renews it. It is a preference: a shard whose replicas are
 * all on the list is still served. */
#pragma once

#include "base/map.h"

#include <rota/time.h>

enum {
    ROTA_BLACKLIST_SHARDS_MAX = 65536, /* with an entry; further ones are not added */
    ROTA_BLACKLIST_NODES_MAX = 64,     /* of a shard; the first to expire makes room */
};

#define ROTA_BLACKLIST_FOR   (30 * ROTA_SEC)
#define ROTA_BLACKLIST_SWEEP (10 * ROTA_SEC)

struct rota_blacklist {
    struct rota_map shards;
    rota_time lasts; /* lifetime of an entry; 0: nothing is ever added */
    rota_time sweep_every, sweep_at;
};

/* `lasts` 0 turns it off; `sweep_every` 0 means ROTA_BLACKLIST_SWEEP. */
void rota_blacklist_init(struct rota_blacklist *blacklist, uint64_t seed, rota_time lasts,
                         rota_time sweep_every);
void rota_blacklist_deinit(struct rota_blacklist *blacklist); /* empties it; again does nothing */

/* At the bounds, or without memory, nothing is added. */
void rota_blacklist_add(struct rota_blacklist *blacklist, rota_time now, int64_t collection,
                        struct rota_str channel, int64_t node);
bool rota_blacklist_has(const struct rota_blacklist *blacklist, rota_time now, int64_t collection,
                        struct rota_str channel, int64_t node);

/* Forget the entries of a shard. */
void rota_blacklist_clear(struct rota_blacklist *blacklist, int64_t collection,
                          struct rota_str channel);

/* Remove expired entries, and shards without entries; and when to do it next. */
void rota_blacklist_step(struct rota_blacklist *blacklist, rota_time now);
rota_time rota_blacklist_deadline(const struct rota_blacklist *blacklist);
size_t rota_blacklist_n_shards(const struct rota_blacklist *blacklist);
